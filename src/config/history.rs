//! Releases that are over.

use std::time::Duration;

use super::{
    section::{Field, Section},
    value::MAX_TIME_MS,
};

/// Shortest time that they can be kept, in milliseconds: a day. Whoever holds an offer of one for longer is gone.
const MIN_RETENTION_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// `None`: for ever.
    pub retention: Option<Duration>,
}

impl Section for History {
    fn name(&self) -> &'static str {
        "history"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![Field::within("retention", &mut self.retention, MIN_RETENTION_MS, MAX_TIME_MS)]
    }
}
