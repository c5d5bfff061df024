//! That the parent hears what was measured so far of stages that go on, several times in an interval: whoever looks there at
//! each interval then looks at what is no older than a part of one, also where several managers lie in between.
//!
//! Nothing depends on it: one that fails is not sent again, for the next one says more.

use super::{
    About, Link,
    act::{Act, Call, CallId, ToldStage},
};

/// Reports of one stage in an interval.
const IN_AN_INTERVAL: u64 = 4;

/// Between two reports of one stage at least, in milliseconds.
const LEAST_MS: u64 = 250;

/// A stage of which the parent wants to hear.
#[derive(Debug)]
pub(super) struct Interim {
    stage: u8,
    every_ms: u64,
    due: u64,
    call: Option<(CallId, u64)>,
}

impl Link {
    /// Takes note of which stages are to be reported.
    pub(super) fn note_interims(&mut self, now: u64) {
        let wanted = self.facts.0.iter().filter_map(|(offer, of)| {
            let every_ms = (of.interim_ms? / IN_AN_INTERVAL).max(LEAST_MS);
            Some((offer, (of.waiting.as_ref()?.stage, every_ms)))
        });
        let wanted: std::collections::BTreeMap<&String, (u8, u64)> = wanted.collect();
        let is_wanted = |offer: &String, stage: u8| wanted.get(offer).is_some_and(|(of, _)| *of == stage);
        let (calls, acts) = (&mut self.calls, &mut self.acts);
        self.interims.retain(|offer, interim| {
            let stays = is_wanted(offer, interim.stage);
            if !stays && let Some((call, _)) = interim.call {
                calls.remove(&call);
                acts.push_back(Act::GiveUp(call));
            }
            stays
        });
        for (offer, (stage, every_ms)) in wanted {
            let due = now + every_ms;
            let begun = || Interim { stage, every_ms, due, call: None };
            self.interims.entry(offer.clone()).or_insert_with(begun).every_ms = every_ms;
        }
    }

    /// What is told of one stage arrives in the order in which it was read: older numbers never replace newer ones.
    pub(super) fn is_telling_interim(&self, offer: &str) -> bool {
        self.interims.get(offer).is_some_and(|interim| interim.call.is_some())
    }

    /// Those that wait for their time. While a result of the same offer is owed, or it is told that its stage waits, that
    /// goes first.
    fn waiting_interims(&self) -> impl Iterator<Item = (&String, &Interim)> {
        let is_told = |of: &String| {
            self.calls.values().any(|about| matches!(about, About::Ready { offer, .. } if offer == of))
        };
        let waits = move |(offer, interim): &(&String, &Interim)| {
            interim.call.is_none() && !self.owes_for(offer) && !is_told(offer)
        };
        self.interims.iter().filter(waits)
    }

    /// When the next is due.
    pub(super) fn interim_due(&self) -> Option<u64> {
        self.waiting_interims().map(|(_, interim)| interim.due).min()
    }

    pub(super) fn tell_interim(&mut self, id: &str, now: u64) -> Option<Act> {
        let offer = self.waiting_interims().find(|(_, interim)| interim.due <= now)?.0.clone();
        let of = self.facts.0.get(&offer)?;
        let waiting = of.waiting.as_ref()?;
        let (release, name) = (of.release.clone(), waiting.name.clone());
        let told = ToldStage {
            id: id.to_owned(),
            release,
            offer: offer.clone(),
            stage: waiting.stage,
            name,
            failures: None,
        };
        let act = self.begin(About::Interim { offer: offer.clone() }, Call::Interim(told));
        let call = (CallId(self.last_call), now);
        self.interims.get_mut(&offer)?.call = Some(call);
        Some(act)
    }

    /// It came to an end, well or not. The next one waits at least as long as this one took: what there is to be read may be
    /// much.
    pub(super) fn interim_answered(&mut self, call: CallId, offer: &str, now: u64) {
        let Some(interim) = self.interims.get_mut(offer) else { return };
        if let Some((_, began)) = interim.call.take_if(|(under_way, _)| *under_way == call) {
            interim.due = now + interim.every_ms.max(now.saturating_sub(began));
        }
    }
}
