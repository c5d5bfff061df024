//! What people ask of the agent itself, whether or not its manager is reached.

use super::{
    Core, Now, Routing, VersionNote,
    state::{Adding, Phase},
    walk::Outcome,
};
use crate::runtime::VersionId;

/// What an operator is told that something can't be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such thing.
    Unknown(String),
    /// Something else is going on.
    Conflict(String),
}

/// What was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    pub functions: Vec<String>,
    /// What becomes of it, in a sentence.
    pub text: String,
}

/// A version that is started, to serve a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    pub version: VersionId,
}

impl Core {
    /// Takes back what a release tries, or what it rolled out last; of one function, or of all.
    pub fn undo(&mut self, function: Option<&str>, why: Option<&str>, now: Now) -> Result<Undone, Refusal> {
        self.tick(now);
        if let Some(name) = function
            && !self.state.functions.contains_key(name)
        {
            return Err(Refusal::Unknown(format!("no function is called {name}")));
        }
        let undone = match self.undo_work(function, why, now) {
            Some(undone) => undone,
            None => self.undo_rollout(function)?,
        };
        self.settle(now);
        Ok(undone)
    }

    fn undo_work(&mut self, function: Option<&str>, why: Option<&str>, now: Now) -> Option<Undone> {
        let offer = self.offer.as_ref()?;
        let functions: Vec<String> = offer.functions.iter().map(|function| function.name.clone()).collect();
        if function.is_some_and(|name| !functions.iter().any(|of| of == name)) {
            return None;
        }
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let why = format!("taken back by an operator of the agent{why}");
        let work = self.state.work.as_ref()?;
        match &work.phase {
            Phase::Fetching => return None,
            Phase::Preparing(_) => self.give_up(&why),
            Phase::Walking(walk) => {
                walk.testing.as_ref()?;
                self.end_stage(Outcome::TakenBack(Some(why)), now);
            }
        }
        let text = "the release in hand is taken back, and the manager hears of it".to_owned();
        Some(Undone { functions, text })
    }

    fn undo_rollout(&mut self, named: Option<&str>) -> Result<Undone, Refusal> {
        let mut functions = Vec::new();
        for (name, function) in &mut self.state.functions {
            if named.is_none_or(|named| named == name)
                && let Some(kept) = function.kept.take()
            {
                function.stable = kept.version;
                functions.push(name.clone());
            }
        }
        if functions.is_empty() {
            let what = named.map_or_else(|| "any function".to_owned(), str::to_owned);
            let text = format!("there is nothing to go back to for {what}: no earlier version is kept");
            return Err(Refusal::Conflict(text));
        }
        self.warn(format!("{} taken back to the version before, as an operator wants", functions.join(", ")));
        self.dirty();
        Ok(Undone { functions, text: "the version before serves again".to_owned() })
    }

    /// Has a function served by a version whose content is there, as soon as that runs.
    pub fn add(
        &mut self,
        name: &str,
        version: VersionId,
        note: VersionNote,
        routing: Routing,
        now: Now,
    ) -> Result<Added, Refusal> {
        self.refuse_if_in_hand(name)?;
        self.state.versions.insert(version.clone(), note);
        self.state.adding.insert(name.to_owned(), Adding { version: version.clone(), routing });
        self.dirty();
        self.pass(now);
        Ok(Added { version })
    }

    /// Has a function served no more.
    pub fn remove(&mut self, name: &str, now: Now) -> Result<(), Refusal> {
        self.refuse_if_in_hand(name)?;
        let was_added = self.state.adding.remove(name).is_some();
        if self.state.functions.remove(name).is_none() && !was_added {
            return Err(Refusal::Unknown(format!("no function is called {name}")));
        }
        self.inform(format!("{name} is not served any more"));
        self.dirty();
        self.pass(now);
        Ok(())
    }

    fn refuse_if_in_hand(&self, name: &str) -> Result<(), Refusal> {
        let in_hand = self.offer.iter().flat_map(|offer| &offer.functions).any(|function| function.name == name);
        match &self.state.work {
            Some(work) if in_hand => {
                let text = format!("{} has {name} in hand: wait for its end, or undo it", work.offer);
                Err(Refusal::Conflict(text))
            }
            _ => Ok(()),
        }
    }

    /// Whether an added version serves and is in force; `Err`: it could not be started.
    pub fn is_serving(&self, name: &str, version: &VersionId) -> Result<bool, ()> {
        if let Some(adding) = self.state.adding.get(name)
            && adding.version == *version
        {
            let start = super::Act::Start(version.clone());
            return if self.tries.failures(&start) > 0 { Err(()) } else { Ok(false) };
        }
        let is_stable = self.state.functions.get(name).is_some_and(|function| function.stable == *version);
        Ok(is_stable && self.is_in_force())
    }
}
