//! How long children may take, where a release does not say it itself.

use std::time::Duration;

use super::{
    section::{Field, Section},
    value::MAX_TIME_MS,
};
use domain::release::settings::Settings as Rules;

/// Shortest deadline that can be set, in milliseconds. Below a few polls of an agent it would fire always.
const MIN_DEADLINE_MS: u64 = 1_000;

/// Bounds of the silence that shows an idle child to be gone, in milliseconds. Deployed agents poll every 3 s.
const MIN_ABSENCE_MS: u64 = 100;
const MAX_ABSENCE_MS: u64 = 60 * 60 * 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlines {
    pub offer: Duration,
    pub setup_grace: Duration,
    pub whole_silence: Duration,
    pub stage: Duration,
    pub undo: Duration,
    pub absence: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        let rules = Rules::default();
        Self {
            offer: rules.offer_deadline,
            setup_grace: rules.setup_grace,
            whole_silence: rules.whole_silence,
            stage: rules.stage_deadline,
            undo: rules.undo_deadline,
            absence: rules.absence.configured(),
        }
    }
}

impl Section for Deadlines {
    fn name(&self) -> &'static str {
        "deadlines"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![
            Field::within("offer", &mut self.offer, MIN_DEADLINE_MS, MAX_TIME_MS),
            Field::within("setup_grace", &mut self.setup_grace, MIN_DEADLINE_MS, MAX_TIME_MS),
            Field::within("whole_silence", &mut self.whole_silence, MIN_DEADLINE_MS, MAX_TIME_MS),
            Field::within("stage", &mut self.stage, MIN_DEADLINE_MS, MAX_TIME_MS),
            Field::within("undo", &mut self.undo, MIN_DEADLINE_MS, MAX_TIME_MS),
            Field::within("absence", &mut self.absence, MIN_ABSENCE_MS, MAX_ABSENCE_MS),
        ]
    }
}
