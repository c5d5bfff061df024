//! Releases of functions and services: agents go first, and routers go back first.
//!
//! - The first share that any router gives a variation comes after each agent was over in the release, and one of them proved it.
//! - When such a release was taken back, an agent that undoes it finds no router that gives its variations anything, but for one that
//!   nobody can tell, since it was forgotten. An agent that failed by itself goes back at once.

use std::collections::BTreeSet;

use domain::release::{command::Form, state::Release};
use language::Group;
use model::Outcome;

use super::led::served;
use crate::sim::{
    agent::{Deed, What},
    overseer::is_taken_back,
    services::brought_by,
    world::World,
};

/// No share before the agents are done.
pub const AGENTS_FIRST: u8 = 21;
/// No agent is told to go back before the routers are back.
pub const ROUTERS_BACK: u8 = 22;

/// What is seen of these releases.
#[derive(Debug, Default)]
pub struct Groups {
    /// Those whose variations have been given something.
    shared: BTreeSet<String>,
}

impl World {
    /// The stage of a deed is one of those that its group walks through: as it is counted in the whole strategy.
    pub(super) fn in_the_whole(&self, deed: &Deed) -> Deed {
        let mut deed = deed.clone();
        let release = self.managers[0].release(deed.release);
        let planned = release.and_then(|release| self.overseer.planned.get(release.id.as_str()));
        if let (Some(planned), Form::InPlace { group, .. }, false) = (planned, deed.form, self.is_tree) {
            let first = planned.stages_of(group).start;
            deed.stage = deed.stage.map(|stage| stage + first);
        }
        deed
    }

    fn hybrid(&self, id: &str) -> Option<&Release> {
        self.overseer.planned.get(id)?.first_of_routers?;
        self.managers[0].release(self.managers[0].state.known.get(id)?.key)
    }

    /// A table is in force at a router.
    pub(super) fn check_shared(&mut self, index: usize) {
        let mut given = served(&self.owns[index]).filter_map(|(_, name)| brought_by(&name));
        let fresh = given.find(|id| self.hybrid(id).is_some() && !self.groups.shared.contains(id));
        let Some(id) = fresh else { return };
        self.groups.shared.insert(id.clone());
        let (Some(release), witness) = (self.hybrid(&id), &self.witnesses[0]) else { return };
        let children = &self.managers[0].state.children;
        let early = release.assignments.iter().find_map(|(child, part)| {
            let record = children.get(*child)?;
            let is_late = part.group(&release.strategy) == Group::Agents
                && !part.status.is_over()
                && !witness.was_over(release.key, record.id.as_str());
            is_late.then(|| format!("own agent {index} shares {id} out, and {} is at {part:?}", record.id))
        });
        let unproven = || format!("own agent {index} shares {id} out, and no agent has succeeded");
        let wrong = early.or_else(|| (!witness.is_proven(release.key)).then(unproven));
        if let Some(text) = wrong {
            self.overseer.wrong(AGENTS_FIRST, text);
        }
    }

    /// An agent did something.
    pub(super) fn check_routers_back(&mut self, index: usize, deed: &Deed) {
        let is_told = deed.what == What::Took && matches!(deed.form, Form::Undo { .. });
        if !is_told || self.owns[index].is_router {
            return;
        }
        let Some(release) = self.managers[0].release(deed.release) else { return };
        let id = release.id.as_str();
        if self.hybrid(id).is_none() {
            return;
        }
        let (manager, witness) = (&self.managers[0], &self.witnesses[0]);
        // Who fails by itself goes back at once, whatever the others do.
        let own_part = |child: &str| release.assignments.get(&manager.state.children.key(child)?);
        let has_failed = own_part(&deed.child)
            .and_then(|part| part.outcome)
            .is_some_and(|outcome| outcome != Outcome::Succeeded);
        if has_failed || !is_taken_back(release) {
            return;
        }
        let still = self.owns.iter().enumerate().find_map(|(router, own)| {
            let gives = served(own).find(|(_, name)| brought_by(name).as_deref() == Some(id))?;
            let child = own.last_id()?;
            let part = own_part(child)?;
            let is_excused = witness.is_excused(manager, child, child, release.key);
            (!is_excused).then(|| {
                format!("own agent {index} undoes {id}, and own agent {router} gives {gives:?}: {part:?}")
            })
        });
        if let Some(text) = still {
            self.overseer.wrong(ROUTERS_BACK, text);
        }
    }
}
