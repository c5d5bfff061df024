//! The tree of managers and agents.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is right below one manager: `GET /api/v1/tree`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TreeLevel {
    /// Over all that the caller may see of this level, not of this page alone.
    pub sum: TreeSum,
    /// Oldest first. Of a release: those that have a part in it.
    pub items: Vec<TreeNode>,
    /// To be sent as `after` for the page that follows.
    pub next: Option<String>,
}

/// A manager or an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TreeNode {
    pub id: String,
    pub name: Option<String>,
    /// The middle of its area: `52.5200N 13.4050E`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// `agent` or `rm`.
    pub kind: String,
    /// As on maps. Of a release: `waiting`, `held`, `doing`, `done`, …; of the fleet: `heard`, `silent`, `cordoned`, `drained`.
    pub state: String,
    pub last_call: Option<String>,
    /// Of a manager: as far as it told, without asking it.
    pub sum: TreeSum,
    /// Of a manager that says so: where people reach its own page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
}

/// Agents. What is below a manager is as it last reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct TreeSum {
    /// All of them; of a release, those for whom it was planned.
    pub agents: u32,
    /// They ended well in the release.
    pub done: u32,
    /// They failed in it, or were not heard of in time.
    pub failed: u32,
    /// Those of children that wait for the signal to end a stage; without a release, of those that are cordoned or drained.
    pub held: u32,
    /// Those of children that have not called for a minute. Whom a manager below has not heard, that one says.
    pub silent: u32,
}

impl TreeSum {
    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            agents: self.agents.saturating_add(other.agents),
            done: self.done.saturating_add(other.done),
            failed: self.failed.saturating_add(other.failed),
            held: self.held.saturating_add(other.held),
            silent: self.silent.saturating_add(other.silent),
        }
    }
}
