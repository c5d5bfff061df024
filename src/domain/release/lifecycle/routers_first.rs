//! The way back of a hybrid release: its routers first, and then its agents.
//!
//! Rule: once a hybrid is taken back, no agent is told to undo anything before each router that may lead calls by this release has
//! proven that it doesn't. A router proves it with the result of its undo, which it gives when it was read back at the stable variation
//! and has drained (or its drain deadline passed, which it shows); or it reports that a stage ended at the stable variation.
//!
//! Every undo is owed from the moment of the roll-back, to agents and routers alike, so that what is unproven is counted and stored as in
//! any release. What is held back is that an agent is *told*: by a poll, and by the end of a stage that it has in hand. When the last
//! router has proven its way back, or is forgotten, [`super::Change::RoutersBack`] says so of the release once and for all: the
//! undos are shown, and their time begins anew. It is a fact that is stored, so after a restart nobody is told earlier.
//!
//! Counter-example: a router is away for good. Its undo is overdue in time, and so are those of the agents that wait for it: the release
//! ends unproven, and what it owes is shown. The agents go on serving what this router may still send calls to, until it is
//! back, or an operator forgets it. To let them go back earlier would lose these calls.
//!
//! **Over a tree.** A manager below takes part with its agents or with its routers, and is handed what is that group's alone: a plain
//! release of functions, or of services. So it holds nobody back and needs to know nothing of this; the order of the groups is
//! this manager's, over everybody below it. No router anywhere is offered anything before each manager of the agents' group
//! has said that all below it have ended; and a manager of the routers' group proves with the result of its undo, or with that
//! of a part which it took back by itself, that all below it are back, but for those that it counts as unconfirmed. While
//! there is one of those no agent is told, neither by a poll here nor by the order to a manager to take its part back.
//!
//! Counter-example: two managers with agents and routers of their own, each of which would lead the whole strategy over them. The one
//! that fails first takes its own routers back and then its agents, to which the routers of the other still send calls.
//!
//! Deliberately not here: an agent that fails by itself while the release goes on is taken back at once, as in any
//! release: the others go on, and so do the calls.

use super::Change as CourseChange;
use crate::release::{
    assignment::{Assignment, ReleaseEvent, Undo},
    change::Change,
    state::Release,
};
use model::Now;

impl Release {
    /// Whether an agent must not be told of this undo yet.
    pub fn holds_undo(&self, undo: &Undo) -> bool {
        !self.gates.levels.leads_services(undo.functions) && self.holds_agents()
    }

    /// Whether an agent that has something in hand must not be told yet that it was taken back.
    pub fn holds_back(&self, assignment: &Assignment) -> bool {
        !self.gates.levels.leads_services(assignment.current_functions(&self.strategy)) && self.holds_agents()
    }

    /// Whether its agents wait for its routers on the way back.
    pub fn holds_agents(&self) -> bool {
        self.gates.levels.is_hybrid() && self.state.is_taken_back() && !self.are_routers_back()
    }

    fn are_routers_back(&self) -> bool {
        self.facts.iter().rev().any(|dated| dated.fact == ReleaseEvent::RoutersBack)
    }
}

/// That the routers of a release are back, if agents wait for that.
pub(in crate::release) fn routers_back(release: &Release, now: Now) -> Option<Change> {
    let counts = &release.counts;
    // A manager answers for the routers below it, and says how many of them have not proven it.
    let are_back = counts.routers_undoing == 0 && counts.routers.unconfirmed == 0;
    let is_back = release.holds_agents() && are_back && counts.undoing > 0;
    is_back.then_some(Change::Lifecycle(CourseChange::RoutersBack { release: release.key, now }))
}
