//! Releases in a list.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Release;

/// A page of releases: `GET /api/v1/releases`. It may hold fewer than were asked for, and go on all the same: one call looks
/// at a bounded number of releases.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReleasePage {
    pub items: Vec<ReleaseLine>,
    /// To be sent as `after` for the page that follows.
    pub next: Option<String>,
    /// If that was asked for: state → releases in it, of all that the caller may see and that are in the manager's memory: those
    /// that are not over, and those that are and wait for proofs that the base version runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<BTreeMap<String, u32>>,
}

/// A release in a list, with what is seen of it at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseLine {
    #[serde(flatten)]
    pub release: Release,
    pub progress: Progress,
    /// Waves that are open, where there are several; `None` once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<OpenOf>,
    /// Levels of stages that may begin, the roll-out among them, while a barrier is closed before the rest; `None`: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<OpenOf>,
    /// Since when it is in its state; one that runs, since it began.
    pub since: Option<String>,
}

/// How far a release has come, in agents; what is below a manager is as it last reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Those that have ended, well or badly.
    pub ended: u32,
    /// Those for whom it was planned.
    pub of: u32,
}

/// So many of so many are open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenOf {
    pub open: u32,
    pub of: u32,
}
