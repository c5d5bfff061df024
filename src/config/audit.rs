//! The audit trail.

use std::time::Duration;

use super::{
    section::{Field, Section},
    value::MAX_TIME_MS,
};
use engine::TaskSettings;

/// Shortest time that the trail can be kept, in milliseconds: an hour.
const MIN_RETENTION_MS: u64 = 60 * 60 * 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    pub retention: Duration,
}

impl Default for Audit {
    fn default() -> Self {
        Self { retention: TaskSettings::default().audit_retention }
    }
}

impl Section for Audit {
    fn name(&self) -> &'static str {
        "audit"
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![Field::within("retention", &mut self.retention, MIN_RETENTION_MS, MAX_TIME_MS)]
    }
}
