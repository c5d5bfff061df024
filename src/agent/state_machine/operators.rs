//! What people ask of the agent itself, whether or not its manager is reached.

use super::{
    Now, Routing, StateMachine, VersionNote,
    stages::{Outcome, because_of, with_why},
    state::{Adding, LeftBy, Phase},
};
use crate::runtime::VersionId;
use language::Service;
use model::StageStatus;
use protocol::StageSummary;

/// The cause that is told of what an operator of the agent wanted after a release had ended here.
const OPERATOR: &str = "operator";

/// What an operator is told that something can't be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No function of this name is served; these are.
    Unknown { name: String, known: Vec<String> },
    /// Something else is going on.
    Conflict(String),
}

/// A function or service of which something was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    pub name: String,
}

impl StateMachine {
    /// Takes back what a release tries, or what it rolled out last; of one function, or of all. It is so once the table is in force.
    pub fn undo(
        &mut self,
        function: Option<&str>,
        why: Option<&str>,
        now: Now,
    ) -> Result<Vec<Undone>, Refusal> {
        self.tick(now);
        if let Some(name) = function
            && !self.state.functions.contains_key(name)
            && !self.state.services.contains_key(name)
        {
            return Err(self.unknown(name));
        }
        let undone = match self.undo_work(function, why, now) {
            Some(undone) => undone,
            None => self.undo_rollout(function, why)?,
        };
        self.stops.ordered += 1;
        self.settle(now);
        Ok(undone)
    }

    fn unknown(&self, name: &str) -> Refusal {
        let known = self.state.functions.keys().chain(self.state.adding.keys());
        let known = known.chain(self.state.services.keys()).cloned().collect();
        Refusal::Unknown { name: name.to_owned(), known }
    }

    /// Takes the release in hand back, if it concerns the function.
    fn undo_work(&mut self, function: Option<&str>, why: Option<&str>, now: Now) -> Option<Vec<Undone>> {
        let offer = self.offer.as_ref()?;
        let names = || {
            let functions = offer.functions.iter().map(|function| function.name.as_str());
            functions.chain(offer.services.iter().map(Service::name))
        };
        if function.is_some_and(|name| !names().any(|of| of == name)) {
            return None;
        }
        let work = self.state.work.as_ref()?;
        work.plan()?;
        let undone = names().map(|name| Undone { name: name.to_owned() }).collect();
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let why = format!("taken back by an operator of the agent{why}");
        match &work.phase {
            Phase::Fetching => return None,
            Phase::Preparing(_) => self.give_up(&why, now),
            Phase::Walking(walk) if walk.taking_over.is_some() => self.give_back(&why),
            Phase::Walking(walk) => {
                walk.testing.as_ref()?;
                self.end_stage(Outcome::TakenBack(Some(why)), now);
            }
        }
        Some(undone)
    }

    fn undo_rollout(&mut self, named: Option<&str>, why: Option<&str>) -> Result<Vec<Undone>, Refusal> {
        let mut undone = Vec::new();
        for (name, function) in &mut self.state.functions {
            if named.is_none_or(|named| named == name)
                && let Some(kept) = function.kept.take()
            {
                function.stable = kept.version;
                undone.push(Undone { name: name.clone() });
            }
        }
        let versions = &self.state.versions;
        for (name, led) in &mut self.state.services {
            // What was started and replaced is gone, with its content: only its release can bring it again.
            let stable = led.service.variations.first().and_then(|one| led.started.get(one.name.as_str()));
            let is_there = stable.is_none_or(|version| versions.contains_key(version));
            if named.is_none_or(|named| named == name) && is_there && led.undo() {
                undone.push(Undone { name: name.clone() });
            }
        }
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let why = format!("taken back by an operator of the agent{why}");
        for Undone { name } in &undone {
            self.tell_serving(name, &why);
        }
        if undone.is_empty() {
            let what = named.map_or_else(String::new, |named| format!(" for {named}"));
            let text = format!(
                "there is nothing to undo{what}: no release is in hand, and no earlier version is kept"
            );
            return Err(Refusal::Conflict(text));
        }
        let names: Vec<&str> = undone.iter().map(|one| one.name.as_str()).collect();
        let text = format!("{} taken back to the version before, as an operator wants", names.join(", "));
        self.warn(text);
        self.dirty();
        Ok(undone)
    }

    /// Tells the manager what serves a function or service now that an operator wants it so, by the last offer that was about it.
    pub(super) fn tell_serving(&mut self, name: &str, why: &str) {
        if let Some((offer, stage, Some(status))) = self.last_offer_about(name) {
            self.tell(offer, stage, status, why);
        }
    }

    /// Tells the manager that nothing serves a function or service any more, since an operator wants it so.
    fn tell_gone(&mut self, name: &str, why: &str) {
        if let Some((offer, stage, _)) = self.last_offer_about(name) {
            self.tell(offer, stage, StageStatus::Error, why);
        }
    }

    /// The last offer that was about a function or service, its stage, and how it is told what serves now. None of a service that is
    /// split is told.
    fn last_offer_about(&self, name: &str) -> Option<(String, String, Option<StageStatus>)> {
        let functions = self.state.functions.get(name);
        let of_function = functions.and_then(|function| {
            let by = function.by.as_ref()?;
            Some((by.offer.clone(), by.stage.clone(), Some(by.serving(&function.stable))))
        });
        let of_service = || {
            let led = self.state.services.get(name)?;
            let status = led.serving().map(|which| match which {
                0 => StageStatus::Failure,
                _ => StageStatus::Completed,
            });
            Some((led.offer.clone(), led.stage.clone()?, status))
        };
        of_function.or_else(of_service)
    }

    /// `Completed`: the new version of the offer serves; `Failure`: its base version; `Error`: one of which the manager knows
    /// nothing, or none.
    fn tell(&mut self, offer: String, stage: String, status: StageStatus, why: &str) {
        let summary = StageSummary { stage_name: Some(stage), ..StageSummary::without_calls(status) };
        self.owe(offer, because_of(with_why(summary, Some(why)), OPERATOR), "", false);
    }

    /// Has a function served by a version whose content is there, as soon as that runs.
    pub fn add(
        &mut self,
        name: &str,
        version: VersionId,
        note: VersionNote,
        routing: Routing,
        now: Now,
    ) -> Result<(), Refusal> {
        self.refuse_if_in_hand(name)?;
        self.not_added.remove(&version);
        self.state.versions.insert(version.clone(), note);
        self.state.adding.insert(name.to_owned(), Adding { version, routing });
        self.dirty();
        self.pass(now);
        Ok(())
    }

    /// Has a function served no more.
    pub fn remove(&mut self, name: &str, now: Now) -> Result<(), Refusal> {
        self.refuse_if_in_hand(name)?;
        let was_added = self.state.adding.remove(name).is_some();
        self.tell_gone(name, "an operator of the agent has it served no more");
        if self.state.functions.remove(name).is_none() && !was_added {
            return Err(self.unknown(name));
        }
        self.inform(format!("{name} is not served any more"));
        self.dirty();
        self.pass(now);
        Ok(())
    }

    /// Has a service led no more: what is ours of it goes, and calls to it go nowhere from then on.
    ///
    /// # Errors
    ///
    /// No such service is led, or a release has it in hand.
    pub fn retire(&mut self, name: &str, now: Now) -> Result<(), Refusal> {
        self.refuse_if_in_hand(name)?;
        self.tell_gone(name, "an operator of the agent has it led no more");
        if self.let_service_go(name).is_none() {
            return Err(self.unknown(name));
        }
        self.inform(format!("{name} is led no more"));
        self.pass(now);
        Ok(())
    }

    fn refuse_if_in_hand(&self, name: &str) -> Result<(), Refusal> {
        let functions = self.offer.iter().flat_map(|offer| &offer.functions).map(|of| of.name.as_str());
        let services = self.offer.iter().flat_map(|offer| &offer.services).map(Service::name);
        let in_hand = functions.chain(services).any(|of| of == name);
        match &self.state.work {
            Some(work) if in_hand => {
                let text = format!("{} has {name} in hand: wait for its end, or undo it", work.offer);
                Err(Refusal::Conflict(text))
            }
            _ => Ok(()),
        }
    }

    /// Whether a version serves a function, and the proxy says so.
    #[must_use]
    pub fn is_serving(&self, name: &str, version: &VersionId) -> bool {
        let is_stable = self.state.functions.get(name).is_some_and(|function| function.stable == *version);
        is_stable && self.is_in_force()
    }

    /// Why a version that was added does not serve, if that is over; asked once.
    pub fn why_not_added(&mut self, version: &VersionId) -> Option<String> {
        self.not_added.remove(version)
    }

    /// A version that was added could not be started: what served before goes on.
    pub(super) fn could_not_add(&mut self, version: &VersionId, why: &str) {
        let before = self.state.adding.len();
        self.state.adding.retain(|_, adding| adding.version != *version);
        if self.state.adding.len() != before {
            self.not_added.insert(version.clone(), why.to_owned());
            self.dirty();
        }
    }
}

impl LeftBy {
    /// How it is told that this version serves.
    fn serving(&self, version: &VersionId) -> StageStatus {
        let [base, new] = &self.versions;
        if version == base {
            StageStatus::Failure
        } else if version == new {
            StageStatus::Completed
        } else {
            StageStatus::Error
        }
    }
}
