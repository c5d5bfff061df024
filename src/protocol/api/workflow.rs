//! Workflows: `/api/v1/workflows`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A workflow: `GET /api/v1/workflows`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workflow {
    pub name: String,
    /// `running`: each function runs; `starting`: some don't yet; `waiting`: no node may run some of them; `failing`: some can't
    /// be started where they are, or their node is silent and no other one may run them; `stopping`.
    pub state: String,
    pub functions: u64,
    /// Of its functions.
    pub running: u64,
    pub waiting: u64,
    /// How one of several nodes is chosen: `random`, `round_robin`, `spread`, `nearest`.
    pub strategy: String,
    pub started: String,
    pub by: String,
}

/// A workflow with its functions and resources: `GET /api/v1/workflows/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowDetail {
    pub workflow: Workflow,
    pub functions: Vec<WorkflowFunction>,
    pub resources: Vec<WorkflowResource>,
}

/// A function of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowFunction {
    pub name: String,
    /// What callers call it at the proxy of its node.
    pub function: String,
    #[serde(flatten)]
    pub instances: WorkflowInstances,
}

/// A resource of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowResource {
    pub name: String,
    /// `file-log`, `http-egress`.
    pub class: String,
    #[serde(flatten)]
    pub instances: WorkflowInstances,
}

/// Where a function or a resource runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowInstances {
    /// What the function or resource is called whichever node runs it: a UUID.
    pub logical_id: String,
    /// `None`: no node may run it now.
    pub instance: Option<WorkflowInstance>,
    /// The one that is to take its place, once it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<WorkflowInstance>,
    /// Instances before, of which it isn't known that they have ended.
    pub ending: Vec<WorkflowInstance>,
}

/// A function on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowInstance {
    /// A UUID.
    pub id: String,
    pub node: PlannedNode,
    /// `placed` (its node has said nothing of it), `starting`, `ready` (it runs once another one has ended), `running`, `failed`;
    /// `silent`: its node has said nothing for too long.
    pub phase: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The body of `PUT /api/v1/workflows/{name}/strategy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowStrategy {
    /// `random`, `round_robin`, `spread`, `nearest`; `null`: as the manager's configuration says.
    #[schema(pattern = "^(random|round_robin|spread|nearest)$")]
    pub strategy: Option<String>,
    /// Who acts, for the audit trail; the token's name where there is one.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[serde(default)]
    pub by: Option<String>,
    /// Why.
    #[serde(default)]
    pub note: Option<String>,
}

/// The body of `POST /api/v1/workflows/{name}/move`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowMove {
    /// The function, as the workflow calls it.
    pub function: String,
    /// Ids of nodes: it moves to the first of them that may run it.
    #[schema(min_items = 1, max_items = 100)]
    pub nodes: Vec<String>,
    /// Who acts, for the audit trail; the token's name where there is one.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[serde(default)]
    pub by: Option<String>,
    /// Why.
    #[serde(default)]
    pub note: Option<String>,
}

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
