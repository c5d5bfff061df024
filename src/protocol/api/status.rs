//! How a manager stands, at a glance.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ReleaseLine;

/// `GET /api/v1/status`: of all, or of what is a tenant's. What the state of the manager can't tell in time is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ManagerStatus {
    pub version: String,
    /// `serving`; `stopping`; `not_serving`: its lease on the store could not be renewed, so it decides nothing. One that waits as a standby
    /// answers nobody.
    pub state: String,
    /// When it began to serve.
    pub since: String,
    /// `None` for a tenant.
    pub store: Option<StoreStatus>,
    /// `None`: there is no manager above, or the caller is a tenant.
    pub parent: Option<ParentStatus>,
    /// What somebody has to look at, the most urgent first.
    pub items: Vec<StatusItem>,
    /// How many there are beside those.
    pub more_items: u32,
    pub releases: Option<OpenReleases>,
    pub routers: Option<CheckedRouters>,
    pub children: Option<CheckedChildren>,
    /// When all children and routers were last looked at: every few seconds.
    pub checked: Option<String>,
}

/// The store of a manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    /// `sqlite` or `postgres`.
    pub kind: String,
    /// Whether it takes what is to be stored.
    pub writable: bool,
    /// Bytes that are free on its disk, and all there are; `None`: the disk is another machine's, or was not looked at yet.
    pub disk_free: Option<u64>,
    pub disk_total: Option<u64>,
}

/// The manager above.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ParentStatus {
    pub answers: bool,
    /// When it last answered a poll; `None`: not in this life of the manager.
    pub last_answer: Option<String>,
    /// Results that it has not answered.
    pub waiting_results: u64,
}

/// Something that somebody has to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatusItem {
    /// `critical`: something doesn't work, or a rollback isn't proven. `action`: somebody has to decide. `warning`: it works, and may not for
    /// long.
    pub severity: String,
    /// `manager`, `store`, `parent`, `release`, `router`, `child`, `workflows`, `callers`.
    pub about: String,
    /// Of a release, of a child, or of the child that leads the router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What there is, in one line.
    pub text: String,
    /// The command that helps, or what to do.
    pub help: String,
}

/// Releases that are not over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenReleases {
    /// State → releases in it.
    pub open: BTreeMap<String, u32>,
    /// Those that need nobody now, the newest first.
    pub running: Vec<ReleaseLine>,
    /// How many there are beside those.
    pub more_running: u32,
}

/// Routers, as they were when all were last looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckedRouters {
    /// `None` for a tenant.
    pub known: Option<u32>,
    /// Those that somebody has to look at.
    pub troubled: u32,
}

/// Children, as they were when all were last looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckedChildren {
    pub known: u32,
    /// Those that were not heard of for a minute, without agents that say nothing while they are in a stage. Those among them that are cordoned or
    /// drained are no items.
    pub silent: u32,
}
