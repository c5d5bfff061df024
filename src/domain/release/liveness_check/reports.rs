//! What managers below say of who can take part.

use std::{collections::BTreeMap, time::Duration};

use crate::plan::Liveness;
use model::{ChildKey, ReleaseKey};

/// So long managers below have to say who can take part. After that they are planned with as many as they said they have.
pub const ASKED_FOR: Duration = Duration::from_secs(2);

/// What managers said; one that is missing said nothing.
pub type ReportedLiveness = BTreeMap<ChildKey, Liveness>;

/// What managers said of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagerReports {
    pub release: ReleaseKey,
    /// The question that is answered.
    pub until: u64,
    pub liveness_checks: ReportedLiveness,
}
