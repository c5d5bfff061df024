//! New versions take over. First they get all calls, and the base versions stay to answer what they fail; then they are asked once
//! more whether they answer, as if they were started; only then do they serve alone. So a version that died just before its last stage
//! ended well costs nobody a call: it takes over once it was started again, or not at all. Variations of services, which run elsewhere,
//! are asked the same: one target of each has to answer.

use model::StageStatus;

use super::{
    Act, Now, StateMachine, Trouble,
    stages::Outcome,
    state::{Candidate, Ending},
    table::WHOLE,
};
use crate::runtime::VersionId;

/// How long new versions may take to answer again.
const ANSWER_WITHIN_MS: u64 = 30_000;

/// What is said of those that don't.
const NO_ANSWER: &str = "the new version answered no more when it was to take over";

impl StateMachine {
    /// The new versions of the offer get all calls from now on.
    pub(super) fn take_over(&mut self) {
        let generation = self.state.generation;
        let (Some(offer), Some(work)) = (&self.offer, &mut self.state.work) else { return };
        work.begun += 1;
        let split = format!("{}/#{}.{}", work.offer, work.run, work.begun);
        let Some(walk) = work.walk_mut() else { return };
        walk.taking_over = Some(generation);
        let ended = walk.ending.as_ref().and_then(|ending| offer.stages.get(ending.stage));
        let stage = ended.map(|stage| stage.stage.name.clone()).unwrap_or_default();
        for (function, [_, new]) in offer.functions.iter().zip(&walk.plan.versions) {
            let Some(served) = self.state.functions.get_mut(&function.name) else { continue };
            served.candidate = Some(Candidate {
                version: new.clone(),
                share: WHOLE,
                stage: stage.clone(),
                split: split.clone(),
                salt: offer.salt.clone(),
            });
        }
        self.decide_services(true);
        self.split_services(&split);
        self.world.taking_over_since_ms = None;
        self.dirty();
    }

    /// Asks whether those that take over answer, and has them serve alone when they do.
    pub(super) fn look_at_take_over(&mut self, now: Now) {
        let Some(walk) = self.state.work.as_ref().and_then(|work| work.walk()) else { return };
        let Some(decided_after) = walk.taking_over else { return };
        if !self.is_in_force() || self.state.generation == decided_after {
            return;
        }
        let new: Vec<VersionId> = walk.plan.versions.iter().map(|[_, new]| new.clone()).collect();
        let Some(running) = &mut self.world.running else { return };
        match self.world.taking_over_since_ms {
            // Whatever was known of them is from a time at which they could not be missed.
            None => {
                running.retain(|version| !new.contains(version));
                self.world.answering.clear();
                self.world.taking_over_since_ms = Some(now.ms);
            }
            Some(_)
                if new.iter().all(|version| running.contains(version)) && self.to_be_asked().is_empty() =>
            {
                self.end_take_over();
                self.settle_roles(true);
            }
            Some(since) if now.ms.saturating_sub(since) >= ANSWER_WITHIN_MS => {
                self.stops.unstarted += 1;
                self.give_back(NO_ANSWER);
                if let Some(ending) = self.ending_mut() {
                    ending.is_silent = true;
                }
            }
            Some(_) => {}
        }
    }

    /// Variations that are to serve alone and have not answered since that was decided, each by both names.
    pub(super) fn to_be_asked(&self) -> Vec<(String, String)> {
        if self.world.taking_over_since_ms.is_none() {
            return Vec::new();
        }
        let winners = self.winners().into_iter();
        winners.filter(|one| !self.world.answering.contains(one)).collect()
    }

    /// Whether a variation answers that is to serve alone.
    pub(super) fn asked(&mut self, one: (String, String), asked: &Result<(), Trouble>, now: Now) {
        let (service, variation) = one.clone();
        match asked {
            Ok(()) => {
                self.tries.went_well(&Act::Ask { service, variation });
                self.world.answering.insert(one);
            }
            Err(trouble) => {
                self.warn(format!("{variation} of {service}: {}", trouble.text));
                self.tries.failed(Act::Ask { service, variation }, now.ms);
            }
        }
    }

    /// The base versions serve alone again, since somebody here wants it.
    pub(super) fn give_back(&mut self, why: &str) {
        self.end_take_over();
        if let Some(stage) = self.ending_mut().map(|ending| ending.stage) {
            self.note_failed(stage, why);
        }
        if let Some(ending) = self.ending_mut() {
            ending.status = StageStatus::Failure.wire();
            "rollback".clone_into(&mut ending.next);
            (ending.why, ending.is_kept) = (Some(why.to_owned()), false);
            ending.keeps_services = true;
        }
        self.warn(format!("all is taken back: {why}"));
        self.settle_roles(false);
    }

    /// A stage has ended, what follows gives the new versions more, and the proxy doesn't have it yet.
    pub(super) fn is_between(&self) -> bool {
        let walk = self.state.work.as_ref().and_then(|work| work.walk());
        let follows = walk.is_some_and(|walk| {
            walk.ending.is_some() && (walk.testing.is_some() || walk.taking_over.is_some())
        });
        follows && !self.is_in_force()
    }

    /// Takes all back before what follows the ended stage is in force. `why`: what somebody here has against it; else the manager has.
    pub(super) fn take_back_between(&mut self, why: Option<&str>) {
        if let Some(walk) = self.state.work.as_mut().and_then(|work| work.walk_mut()) {
            walk.testing = None;
        }
        self.world.ending_since_ms = None;
        self.world.last_count = None;
        if let Some(why) = why {
            return self.give_back(why);
        }
        self.end_take_over();
        self.stops.managed += 1;
        if let Some(ending) = self.ending_mut() {
            "rollback".clone_into(&mut ending.next);
            (ending.is_kept, ending.keeps_services) = (false, false);
        }
        self.inform("all is taken back, as the manager wants");
        self.settle_roles(false);
    }

    /// No table with what is tried is taken.
    pub(super) fn take_back_what_is_refused(&mut self, why: &str, now: Now) {
        self.world.refused_since_ms = None;
        let text = format!("{} refuses its shares: {why}", self.settings.abilities.name);
        if self.is_between() {
            self.take_back_between(Some(&text));
        } else {
            self.end_stage(Outcome::TakenBack(Some(text)), now);
        }
    }

    /// The stage that has ended, and is reported once what follows is in force.
    fn ending_mut(&mut self) -> Option<&mut Ending> {
        self.state.work.as_mut()?.walk_mut()?.ending.as_mut()
    }

    fn end_take_over(&mut self) {
        if let Some(walk) = self.state.work.as_mut().and_then(|work| work.walk_mut()) {
            walk.taking_over = None;
        }
        self.world.taking_over_since_ms = None;
        self.dirty();
    }
}
