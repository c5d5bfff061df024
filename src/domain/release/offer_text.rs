//! The text that a child is handed.

use super::command::{Form, Offer};
use language::{Strategy, render, render_full};

impl Offer {
    /// The text of this offer, under an id of it.
    pub fn text(&self, id: &str) -> String {
        self.form.text(&self.strategy, id)
    }
}

impl Form {
    /// The text of an offer of this id. A release from above may be called otherwise here than its strategy is.
    pub fn text(self, strategy: &Strategy, id: &str) -> String {
        match self {
            // Each manager has its own, which is made from its offer.
            Self::Full => render_full::whole(strategy),
            Self::UndoOf { function } => render_full::undo(strategy, usize::from(function)),
            Self::InPlace { is_reported, group: _ } => render_full::in_place(strategy, id, is_reported),
            Self::Stage { stage } => render::stage(strategy, usize::from(stage), id),
            Self::ReportedStage { stage } => render::reported_stage(strategy, usize::from(stage), id),
            Self::Rollout { function } => render::rollout(strategy, usize::from(function), id),
            Self::Undo { function } => render::undo(strategy, usize::from(function), id),
            Self::Withdrawn => render::withdrawn(strategy, id),
        }
    }
}
