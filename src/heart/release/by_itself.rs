//! What earlier builds handed to agents, and what follows from it.
//!
//! Without a `rollout` block they let an agent act on its own: it got all stages in one offer where it could walk them,
//! and else a stage that rolled out by itself when it was the last. What was handed out can't be recalled, so a store of
//! such a build is led to its end by the rules in this file: what an assignment has in hand decides
//! ([`Assignment::acts_by_itself`]), never its strategy. Nothing is handed out by these rules any more.

use super::{
    assignment::{Assignment, Led},
    command::Form,
    offer::Piece,
};
use language::{Action, StageKind, Strategy};

/// The text of what an agent was handed.
pub fn form(piece: Piece, strategy: &Strategy) -> Form {
    match piece {
        Piece::Whole => Form::Whole,
        Piece::Stage(stage) => {
            Form::StageByItself { stage, rollout: rolls_out_itself(strategy, usize::from(stage)) }
        }
        Piece::Rollout(function) => Form::Rollout { function },
    }
}

/// Whether an agent rolls out when this stage, which it was offered alone, succeeds.
fn rolls_out_itself(strategy: &Strategy, stage: usize) -> bool {
    strategy.subjects_count() == 1
        && strategy.rollout.is_none()
        && strategy.stages.get(stage).is_some_and(|stage| {
            let judged_here = stage.conditions.iter().any(|condition| condition.metric.is_quantile());
            stage.on_success == Action::Rollout && !judged_here
        })
}

impl Assignment {
    /// Whether the success of this stage, which it has in hand alone, is its roll-out.
    pub fn rolls_out_itself(&self, stage: usize, strategy: &Strategy) -> bool {
        self.acts_by_itself() && rolls_out_itself(strategy, stage)
    }

    /// Whether it waits in this stage until it is told to end it.
    pub fn ends_on_signal(&self, stage: usize, strategy: &Strategy) -> bool {
        let asks = strategy.rollout.is_some()
            || strategy.stages.get(stage).is_some_and(|stage| stage.kind == StageKind::WaitForSignal);
        match &self.led {
            Led::InPlace(_) => true,
            Led::Whole(_) => asks,
            Led::Stepwise(steps) => !steps.by_itself || asks,
        }
    }
}
