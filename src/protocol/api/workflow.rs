//! Workflows: `/api/v1/workflows`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /api/v1/workflows/plan`: where the parts of a workflow would run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowPlan {
    /// `random`, `round_robin`, `spread`, `nearest`.
    pub strategy: String,
    /// Where chance began.
    pub seed: u32,
    /// Nodes that there are, whether or not they may run anything of it.
    pub nodes: u64,
    pub resources: Vec<PlannedPart>,
    pub functions: Vec<PlannedPart>,
    /// What is odd about the workflow.
    pub warnings: Vec<String>,
}

/// A function or a resource of a workflow, and where it would run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedPart {
    pub name: String,
    /// Of a function what it is an instance of, of a resource its class.
    pub class: String,
    /// What runs it; `None` of a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// `None`: it can't run now.
    pub node: Option<PlannedNode>,
    /// Why it can't run anywhere; told of the first 100 parts that can't.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedNodes>,
}

/// Nodes on which a part can't run for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedNodes {
    pub reason: String,
    pub count: u64,
    /// The first ten of them.
    pub nodes: Vec<PlannedNode>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedNode {
    /// Of the child whose machine it is.
    pub id: String,
    pub name: Option<String>,
}
