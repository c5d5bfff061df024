//! The text that a child is handed.

use super::command::Form;
use crate::strategy::{
    Strategy,
    render::{self, Then},
};

impl Form {
    /// The text of an offer of this id. A release from above may be called otherwise here than its strategy is.
    pub fn text(self, strategy: &Strategy, id: &str) -> String {
        match self {
            Self::Whole => render::whole(strategy, id),
            Self::Stage { stage, rollout } => {
                let then = if rollout { Then::Rollout } else { Then::Rollback };
                render::stage(strategy, usize::from(stage), id, then)
            }
            Self::Rollout { function } => render::rollout(strategy, usize::from(function), id),
            Self::Undo { function } => render::undo(strategy, usize::from(function), id),
            Self::Withdrawn => render::withdrawn(strategy, id),
        }
    }
}
