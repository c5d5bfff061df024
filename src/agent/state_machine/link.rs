//! What the manager answers, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};

use call_metrics::Interval;
use language::Service;
use protocol::{EndStageAnswer, FollowUp, ManagerTime};

use super::{
    Act, Fetched, Now, Phase, Plan, PollResponse, StateMachine, Trouble, TroubleKind, Work, stages::Outcome,
};

/// Whoever answers a call that waits at once is asked again no sooner.
const POLL_PAUSE_MS: u64 = 3_000;
const END_STAGE_PAUSE_MS: u64 = 1_000;

/// So often an offer that was refused is asked for again, with pauses of six seconds together.
const FETCHES_REFUSED: u32 = 5;

/// For how long an offer that came to nothing is not taken up again.
const SHUNNED_MS: u64 = 30_000;

impl StateMachine {
    fn answered(&mut self, now: Now) {
        if !self.link.reached {
            self.inform("the manager is reached");
            self.link = super::LinkHealth { reached: true, since_ms: now.ms, trouble: None };
        }
    }

    /// Has a call that waits pause after its answer. The first one was to be answered at once.
    fn pause(&mut self, act: Act, pause_ms: u64, now: Now) {
        let pause_ms = if self.link.reached { pause_ms } else { 0 };
        self.tries.pause(act, now.ms + pause_ms);
    }

    /// Notes that a call to the manager came to nothing, and when it is made again.
    fn unanswered(&mut self, act: Act, trouble: &Trouble, now: Now) {
        self.tries.failed(act, now.ms);
        if self.link.reached || self.link.trouble.as_ref() != Some(&trouble.text) {
            match trouble.kind {
                TroubleKind::Unauthorized => self.said.push(super::Notice::Error(format!(
                    "the manager doesn't accept this agent's token; what serves goes on: {}",
                    trouble.text
                ))),
                TroubleKind::Passes | TroubleKind::Waits | TroubleKind::Refused => {
                    self.warn(format!("trouble with the manager; tried again: {}", trouble.text));
                }
            }
        }
        let since_ms = if self.link.reached { now.ms } else { self.link.since_ms };
        self.link = super::LinkHealth { reached: false, since_ms, trouble: Some(trouble.text.clone()) };
    }

    pub(super) fn joined(&mut self, joined: Result<String, Trouble>, now: Now) {
        match joined {
            Ok(id) => {
                self.answered(now);
                self.inform(format!("joined as {id}"));
                self.settings.joins = false;
                self.state.id = Some(id);
                self.dirty();
            }
            Err(trouble) => self.unanswered(Act::Join, &trouble, now),
        }
    }

    pub(super) fn polled(&mut self, answer: Result<PollResponse, Trouble>, took_ms: u64, now: Now) {
        let polled = match answer {
            Ok(polled) => polled,
            Err(trouble) => return self.unanswered(Act::Poll, &trouble, now),
        };
        self.pause(Act::Poll, POLL_PAUSE_MS.saturating_sub(took_ms), now);
        self.answered(now);
        self.reads = polled.reads;
        if self.state.id.as_ref() != Some(&polled.id) {
            self.inform(format!("the manager calls this agent {}", polled.id));
            self.state.id = Some(polled.id);
            self.dirty();
        }
        let Some(offer) = polled.offer else { return };
        let is_owed = self.state.owed.iter().any(|owed| owed.offer == offer);
        if self.state.work.is_none() && !is_owed && !self.shunned.contains_key(&offer) {
            self.inform(format!("takes up {offer}"));
            self.state.count += 1;
            self.state.work = Some(Work {
                offer,
                run: self.state.count,
                phase: Phase::Fetching,
                skipped: BTreeSet::new(),
                winner: None,
                shares: BTreeMap::new(),
                begun: 0,
            });
            self.dirty();
        }
    }

    pub(super) fn fetched(&mut self, offer: String, run: u64, fetched: Result<Fetched, Trouble>, now: Now) {
        let is_meant =
            |work: &Work| work.run == run && work.offer == offer && matches!(work.phase, Phase::Fetching);
        if !self.state.work.as_ref().is_some_and(is_meant) {
            return;
        }
        let act = Act::Fetch { offer, run };
        match fetched {
            Ok(fetched) => {
                self.tries.went_well(&act);
                self.prepare(fetched, now);
            }
            // Somebody between may have refused it: the manager takes it for fetched then, and doesn't offer it again.
            Err(trouble)
                if trouble.kind == TroubleKind::Refused && self.tries.failures(&act) >= FETCHES_REFUSED =>
            {
                self.let_go(&format!("it can't be had: {}", trouble.text), now);
            }
            Err(trouble) => self.unanswered(act, &trouble, now),
        }
    }

    fn prepare(&mut self, fetched: Fetched, now: Now) {
        let Fetched { text, versions, started, notes } = fetched;
        let offer = match language::offer::read(&text) {
            Ok(offer) => offer,
            Err(faults) => {
                let first = faults.first().map_or_else(String::new, |fault| fault.message.clone());
                return self.let_go(&format!("its text can't be read: {first}"), now);
            }
        };
        if offer.stages.is_empty() {
            return self.let_go("it is withdrawn", now);
        }
        let versions = match versions {
            Ok(versions) if offer.functions.len() == versions.len() => versions,
            Ok(_) => return self.let_go("its functions are others than its text names", now),
            Err(why) => {
                self.offer = Some(offer);
                return self.give_up(&format!("its functions can't be had: {why}"), now);
            }
        };
        let is_there = |service: &Service| {
            let of = started.get(service.name());
            service.runs.keys().all(|name| of.is_some_and(|of| of.contains_key(name)))
        };
        if !offer.services.iter().all(is_there) {
            return self.let_go("what it is to start is something else than its text names", now);
        }
        self.note_versions(notes);
        self.offer = Some(offer);
        let started = self.to_be_started(started);
        if let Some(work) = &mut self.state.work {
            work.phase = Phase::Preparing(Plan { text, versions, started });
            // The text has what was chosen until now.
            work.shares.clear();
        }
        self.dirty();
    }

    /// The offer in hand comes to nothing, and the manager isn't told: it knows, or there is nothing that it would understand.
    fn let_go(&mut self, why: &str, now: Now) {
        let Some(work) = self.state.work.take() else { return };
        self.warn(format!("nothing is done about {}: {why}", work.offer));
        self.offer = None;
        self.shunned.insert(work.offer, now.ms + SHUNNED_MS);
        self.dirty();
    }

    pub(super) fn told_of_end(
        &mut self,
        act: Act,
        answer: Result<EndStageAnswer, Trouble>,
        took_ms: u64,
        now: Now,
    ) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(trouble) => return self.unanswered(act, &trouble, now),
        };
        let is_meant = self.long_call() == act;
        self.pause(act, END_STAGE_PAUSE_MS.saturating_sub(took_ms), now);
        self.answered(now);
        if !is_meant {
            return;
        }
        if let Some(work) = &mut self.state.work {
            let before = work.skipped.len();
            work.skipped.extend(answer.skip.into_iter().filter(|name| !name.is_empty()));
            self.is_dirty |= work.skipped.len() != before;
            if answer.winner.is_some() && work.winner != answer.winner {
                work.winner = answer.winner;
                self.is_dirty = true;
            }
        }
        self.take_shares(answer.shares);
        let is_back = answer.then == Some(FollowUp::Rollback);
        if answer.end_stage && is_back && self.is_between() {
            self.take_back_between(None);
        } else if answer.end_stage && self.is_kept() {
            self.decided_on_kept(is_back, took_ms, now);
        } else if answer.end_stage {
            self.end_stage(if is_back { Outcome::TakenBack(None) } else { Outcome::InTime }, now);
        }
    }

    pub(super) fn sent(&mut self, number: u64, answer: Result<Option<ManagerTime>, Trouble>, now: Now) {
        let act = Act::Send(number);
        match answer {
            Ok(_) => self.answered(now),
            Err(trouble) if trouble.kind == TroubleKind::Refused => {
                self.answered(now);
                let owed = self.state.owed.iter().find(|owed| owed.number == number);
                if let Some(offer) = owed.map(|owed| owed.offer.clone()) {
                    self.warn(format!("the manager refuses a result of {offer}: {}", trouble.text));
                    self.shunned.insert(offer, now.ms + SHUNNED_MS);
                }
            }
            Err(trouble) => return self.unanswered(act, &trouble, now),
        }
        self.tries.went_well(&act);
        self.kept_told(now);
        self.state.owed.retain(|owed| owed.number != number);
        self.dirty();
    }

    pub(super) fn reported(
        &mut self,
        act: Act,
        sent_ms: u64,
        answer: Result<Option<ManagerTime>, Trouble>,
        now: Now,
    ) {
        match answer {
            Ok(time) => {
                self.answered(now);
                self.told_at(&act, sent_ms);
                if let Some(ManagerTime { time_ms, time_error_ms }) = time {
                    self.clock.heard(sent_ms, now.ms, time_ms, time_error_ms.into());
                }
            }
            // What is said on the way is said again with more.
            Err(trouble) if trouble.kind == TroubleKind::Refused => {
                self.answered(now);
                if self.testing().is_some_and(|testing| testing.untold().is_some()) {
                    self.tries.failed(act, now.ms);
                }
            }
            Err(trouble) => return self.unanswered(act, &trouble, now),
        }
        let interim =
            self.testing().and_then(|testing| self.offer.as_ref()?.stages.get(testing.stage)?.interim);
        let Some(interim) = interim else { return };
        let until_next = match self.clock.at(now.ms) {
            None => interim.every_ms,
            Some(instant) => instant.until_next(interim.every_ms),
        };
        self.report_at_ms = now.ms + until_next;
    }

    /// The number of an interval of the proxy's by the manager's time, where that is known and somebody wants it.
    pub(super) fn interval_of(&self, interval: &Interval, cut_ms: u64, now: Now) -> Option<u32> {
        let ago = now.wall_ms.saturating_sub(interval.began_ms);
        let longest = i64::try_from(interval.seconds.saturating_mul(2_000)).unwrap_or(i64::MAX);
        let ago = u64::try_from(ago.clamp(0, longest)).unwrap_or(0);
        let instant = self.clock.at(now.ms.saturating_sub(ago))?;
        Some(instant.interval(cut_ms))
    }
}
