//! How the agents of one child are counted: a deployed agent as one; a manager as what it last reported of its agents, at
//! least as one bad agent if it itself failed, and as all agents it was planned with if it itself was not heard of.

use super::Assignment;
use crate::release::manager::Agents;
use model::{Exclusion, Outcome};

impl Assignment {
    /// How its agents are counted.
    pub fn agents(&self) -> Agents {
        let Some(manager) = self.whole() else {
            // Another counts for it, or it counts for nobody.
            let stands_in =
                matches!(self.outcome, Some(Outcome::Excluded(Exclusion::Successor | Exclusion::Replaced)));
            let mut agents = Agents { participants: u32::from(!stands_in), ..Agents::default() };
            agents.count(self.outcome, 1);
            agents.unconfirmed = u32::from(self.owes_overdue());
            return agents;
        };
        let all = manager.planned.agents.max(1);
        let mut agents = Agents { participants: manager.planned.agents, ..manager.reported };
        match self.outcome {
            Some(Outcome::Failed) if agents.bad() == 0 => agents.failed = 1,
            Some(Outcome::TimedOut | Outcome::Lost | Outcome::Unreachable) => {
                agents = Agents { participants: agents.participants, ..Agents::default() };
                agents.count(self.outcome, all);
            }
            // What it reported itself counts.
            Some(
                Outcome::Failed
                | Outcome::Succeeded
                | Outcome::Undone
                | Outcome::Untested
                | Outcome::Excluded(_),
            )
            | None => {}
        }
        if self.owes_overdue() {
            agents.unconfirmed = all;
        }
        agents
    }
}
