//! The JSON of developers' and operators' calls, shared by the server and the CLI.
//!
//! Times are RFC 3339 in UTC. Lists come in pages: `next` names the page after, `null` on the last one. Unknown
//! fields are ignored by readers, so that fields can be added.

mod actions;
mod intent;
mod listed;
mod map;
mod plan;
mod rollback;
mod status;
mod tenant;
mod traffic;
mod tree;
mod workflow;

pub use self::actions::{ReleaseAction, ReleaseActions};
pub use self::intent::{Intent, IntentAnswer, IntentAnswers, Intents};
pub use self::listed::{OpenOf, Progress, ReleaseLine, ReleasePage};
pub use self::map::{MapArea, MapAreas, MapCell, MapCells, MapChild, PlannedMap};
pub use self::plan::{
    Plan, PlannedAlpha, PlannedCanary, PlannedChild, PlannedCondition, PlannedExclusion, PlannedGroup,
    PlannedMetric, PlannedPoint, PlannedShare, PlannedStage, PlannedWave, WithoutSurface,
};

pub use self::rollback::{PutBack, ReleaseRollback};
pub use self::status::{
    CheckedChildren, CheckedRouters, ManagerStatus, OpenReleases, ParentStatus, StatusItem, StoreStatus,
};
pub use self::tenant::{NewLimits, NewTenant, Tenant, TenantLimits, TenantRoom, TenantUser};
pub use self::traffic::{
    CountedCalls, DrainedVariation, OrderRequest, ReleaseTraffic, RetireRequest, RouteBackend, RouteConfig,
    RouteHealthCheck, RoutedService, RoutedVariation, Router, RouterDetail, RouterOrder, RouterOrderAnswer,
    Service, ServiceDetail, ServiceTraffic, ServiceVariationSum, ShareRange, StandingState, TrafficDrift,
    TrafficEntry, TrafficMeasured,
};

pub use self::tree::{TreeLevel, TreeNode, TreeSum};
pub use self::workflow::{
    PlannedNode, PlannedPart, RefusedNodes, Workflow, WorkflowDetail, WorkflowFunction, WorkflowInstance,
    WorkflowInstances, WorkflowMove, WorkflowPlan, WorkflowResource, WorkflowStrategy,
};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// To be sent as `after` for the page that follows.
    pub next: Option<String>,
}

/// `POST /release`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    pub id: String,
    /// False: the same release was there already.
    pub created: bool,
    pub dry_run: bool,
    /// What became of something that is there already, or was registered: `adopted`, `deprecated`, `weight 30` (of several
    /// parts `weight 30 of checkout.8443, weight 5 of pay`), `registered`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// The parent, which took it over because its target reaches beyond this one; the rest is as that one says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_to: Option<String>,
    /// Children that take part; for one that waits, as things stand.
    pub participants: u32,
    /// How long its stages, waves and soaks last at least, one after the other, in milliseconds. Calls, approvals and what children need to start
    /// their versions come on top.
    #[serde(default)]
    pub least_ms: u64,
    /// Why others don't: reason → children.
    pub excluded: BTreeMap<String, u32>,
    /// Unfinished releases that change the same functions and go first.
    pub waits_for: Vec<String>,
    /// Warnings of the strategy's check.
    pub warnings: Vec<Diagnostic>,
}

/// A fault or a warning in a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diagnostic {
    /// `error` or `warning`.
    pub severity: String,
    pub code: String,
    pub line: u32,
    pub column: u32,
    pub message: String,
    pub source_line: String,
    pub fix: Option<String>,
}

/// A release in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Release {
    pub id: String,
    pub name: String,
    /// Changes whenever what is decided on changes: the state, what waits for approval, what is open, paused, skipped, tried again. Sent as
    /// `If-Match: "TAG"` with an action, it keeps that from meeting another release than was seen. Counts may move while it stays.
    #[serde(default)]
    pub tag: String,
    /// `Planned`, `Running`, `Paused`, `AwaitingApproval`, `RollingBack`, `Done`, `DoneWithFailures`, `RolledBack`
    /// (proven everywhere), `RolledBackUnproven`, `Aborted`, `NoParticipants`,
    /// `DoneUntested` (nothing failed, and no agent got the calls that its test needs).
    pub state: String,
    /// Why it is paused or rolled back, what an approval is awaited for, or why it didn't end well.
    pub reason: Option<String>,
    /// The same, apart, where it is or was taken back, or children ended badly. It stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Ending>,
    /// One line: what it waits for. `None` once it is over.
    pub waits_for: Option<String>,
    pub functions: Vec<String>,
    pub attempt: u16,
    pub submitted: String,
    pub started: Option<String>,
    pub ended: Option<String>,
    pub counts: ReleaseCounts,
    /// Agents that did not prove that they run the base version again.
    pub unconfirmed: u32,
    /// Agents, those below managers among them; `None` where no manager takes part: there each child is an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<AgentCounts>,
    /// Agents that come last because they were not heard of when a wave opened.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Why a release was taken back, or didn't end well for everybody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ending {
    /// `operator`, `superseded`, `limit`, `approval`, `analysis`, `above`, `disowned`, `children`, `no_answer`.
    pub cause: String,
    /// All of it in one line.
    pub text: String,
    /// The child that tipped the scales; `middle: agent-3` is one below a manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The version that was tried there: a function's folder, the name of a service's variation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What that child reported there, in words: the condition that was broken, what was measured and what is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<String>,
    /// Who wanted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Agents by what became of them. What is below a manager is as it last reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Agents)]
#[serde(rename = "Agents")]
pub struct AgentCounts {
    pub participants: u32,
    pub succeeded: u32,
    pub failed: u32,
    pub timed_out: u32,
    pub unreachable: u32,
    /// Neither failed nor succeeded: a stage of theirs got no calls, or too few.
    #[serde(default)]
    pub untested: u32,
    /// They may run what was taken back.
    pub unconfirmed: u32,
}

/// Children of a release by status and by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Counts)]
#[serde(default, rename = "Counts")]
pub struct ReleaseCounts {
    pub participants: u32,
    pub todo: u32,
    pub doing: u32,
    pub done: u32,
    pub failed_status: u32,
    pub succeeded: u32,
    pub failed: u32,
    pub timed_out: u32,
    pub unreachable: u32,
    pub lost: u32,
    pub undone: u32,
    /// A stage of theirs got no calls, or too few: neither failed nor succeeded.
    pub untested: u32,
    pub excluded: u32,
    /// Undos offered and not confirmed yet.
    pub undoing: u32,
}

/// `GET /api/v1/releases/{id}`: a release with its strategy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseDetail {
    #[serde(flatten)]
    pub release: Release,
    /// The YAML as submitted.
    pub strategy: String,
    /// How long its stages, waves and soaks last at least, one after the other, in milliseconds.
    #[serde(default)]
    pub least_ms: u64,
    pub stages: Vec<StageOverview>,
    /// Where there are several, and it is in the manager's memory: of very many, those around the last that is open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<WaveOverview>,
    /// How near it is to what its strategy bears, while it is in the manager's memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitOverview>,
    /// What judges it, and what that has found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub analyses: Vec<AnalysisOverview>,
    /// Why children were left out: reason → children.
    pub excluded: BTreeMap<String, u32>,
    /// SHA-256 of the functions, hex.
    pub functions_digest: String,
    /// How the parts of managers below stand, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<PartBelow>,
}

/// The part of a manager below, as it says now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartBelow {
    /// The ids of the managers that lead there, with a `/` between.
    pub manager: String,
    /// As that of a release; `None`: it was not heard.
    pub state: Option<String>,
    /// Why it is paused, taken back, or ended badly; or why it was not heard.
    pub reason: Option<String>,
    pub waits_for: Option<String>,
    pub agents: Option<AgentCounts>,
}

/// A stage, and how many children are where in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StageOverview {
    pub name: String,
    /// Whether an operator wants nobody to begin it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// Whether it has failed at a child that keeps its shares, or by its analysis. It stays so, whatever was decided of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// `A/B` or `WaitForSignal`, as the strategy says; always the latter in what comes from a parent.
    pub kind: String,
    pub function: String,
    /// Percent of calls that the new version gets.
    pub new_traffic: u8,
    /// Calls that it takes at each child, of all versions.
    #[serde(default)]
    pub min_calls: u64,
    /// For how long it goes on at least, in milliseconds.
    #[serde(default)]
    pub min_ms: u64,
    /// What follows it: the name of a stage, `rollout` or `rollback`.
    #[serde(default)]
    pub on_success: String,
    #[serde(default)]
    pub on_failure: String,
    /// When its first child began it; where children have their turns in waves, of the last wave that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<String>,
    /// When its last child ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// What its children measured, if that was asked for, they reported it, and they aren't too many to add it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<StageMeasured>,
    /// Of a service: percent of calls that each variation gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, f64>,
    /// Status → children whose current stage this is.
    pub children: BTreeMap<String, u32>,
    /// The same of the agents below managers, if that was asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents_below: BTreeMap<String, u32>,
    /// One line: who is waited for there, and how long still, or what it waits for to begin. `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// What children measured in a stage, all of them together, by the last report of each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StageMeasured {
    /// So many reported.
    pub children: u32,
    /// Calls of all versions; `None`: not every child counts them.
    pub calls: Option<u64>,
    /// Of each condition, and of errors and times where none limits these, what was measured of the new version, what is allowed, and how the base
    /// version did: `errorRate 1.2 % (1 of 84 calls), allowed <2 %; base version 0.42 % (4 of 950 calls)`.
    pub numbers: Vec<String>,
}

/// A wave of a release, and how its children stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaveOverview {
    /// From 1.
    pub number: u32,
    /// `wave 2 of 3`, `location 4 of 20`, `wave 1 of 2 of the routers`.
    pub name: String,
    /// Whether its turn has come.
    pub open: bool,
    /// Children by how they stand, as on a map: `waiting`, `held`, `doing`, `done`, `failed`, `taking_back` and so on.
    pub children: BTreeMap<String, u32>,
    /// As that of a stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// A limit of a strategy, and how near the release is to it, in agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitOverview {
    /// `max_failed`, `max_timed_out`, `max_unreachable`, `max_untested`.
    pub name: String,
    /// As the strategy has it: `5%`, `3`.
    pub limit: String,
    /// So many may end like this; one more passes the limit.
    pub most: u32,
    /// So many did.
    pub count: u32,
    /// Of these, so many were accepted by going on after a limit was passed.
    pub accepted: u32,
}

/// A block of analysis, and where its latest run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnalysisOverview {
    /// `stage NAME` or `the release`.
    pub of: String,
    /// `waiting`, `open`, `passed`, `paused` (to resume the release is to accept it), `failed`, `accepted`.
    pub state: String,
    /// `pass`, `fail`, `inconclusive`, `no data`, `error`; `None`: there is none yet.
    pub verdict: Option<String>,
    /// The verdict in words.
    pub why: Option<String>,
    /// Which run it is, from 1, and of how many that share its alpha; 0: none has begun.
    pub run: u32,
    pub runs: u32,
    /// Looks at the data of this run.
    pub looks: u64,
    /// How it goes on, or is to, after an end that decided nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended: Option<ExtendedOverview>,
    /// What it means that some children report once, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reporting: Option<String>,
    pub metrics: Vec<MetricOverview>,
}

/// An analysis that goes on after an end that decided nothing: until a look decides, or a limit is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExtendedOverview {
    /// For how long, in milliseconds.
    pub for_ms: u64,
    /// Or until so many more calls were measured, of both versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Whether it goes on already; else its end is still to come.
    pub begun: bool,
}

/// A metric of an analysis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricOverview {
    pub name: String,
    /// `THRESHOLD`, `PREVIOUS`, `CANARY_BASELINE`, `CANARY_PRIMARY`.
    pub strategy: String,
    /// It has no consequence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Its share of the release's alpha, over all runs; `None`: it has none.
    pub alpha: Option<f64>,
    /// As that of the analysis.
    pub verdict: Option<String>,
    /// What the last look found, in words.
    pub found: String,
    /// Between what the strategy has it; `None`: the conditions of a stage say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<MetricLimits>,
    /// What a comparison rests on: counts, quantiles, estimate, interval, p, boundary, alpha spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub evidence: Option<serde_json::Value>,
}

/// What a metric must keep: at least one end is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MetricLimits {
    /// What is held against them: the `ratio` of the new version to the other (1: the same), as a factor; their `difference`
    /// (0: the same), or each `value` itself, both in the metric's unit.
    pub of: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Of error rates: up to this share of calls, from 0 to 1, nothing fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
}

/// A child in a release: `GET /api/v1/releases/{id}/children`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseChild {
    pub child: String,
    pub name: Option<String>,
    /// The middle of its area: `52.5200N 13.4050E`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// `No`, `Todo`, `Doing`, `Done`, `Failed`.
    pub status: String,
    /// `succeeded`, `failed`, `timed_out`, `unreachable`, `lost`, `undone`, `untested`, `excluded`.
    pub outcome: Option<String>,
    /// One line: what it waits for, or how it ended.
    pub waits_for: String,
    pub attempt: u16,
    /// In which it has its turn, from 1.
    #[serde(default)]
    pub wave: u32,
    /// The offer it has or is to get.
    pub offer: Option<String>,
    pub stage: Option<String>,
    pub stage_status: String,
    pub last_call: Option<String>,
    /// The agents below it; `None`: it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<AgentCounts>,
    pub results: Vec<StageResult>,
}

/// What a child reported of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StageResult {
    pub attempt: u16,
    pub stage: String,
    pub status: String,
    pub at: String,
    /// True while the child has not ended the stage.
    pub preliminary: bool,
    /// The summary in the spelling of `/result`.
    #[schema(value_type = Object)]
    pub summary: serde_json::Value,
}

/// A child: `GET /api/v1/children`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Child {
    pub id: String,
    pub name: Option<String>,
    /// The middle of its area, as latitude and longitude: the same when an agent comes back under another id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// `agent` or `rm`.
    pub kind: String,
    pub agents: u32,
    /// `open`, `cordoned`, `drained`.
    pub cordon: String,
    /// `None`: not reported, taken as every runtime.
    pub runtimes: Option<Vec<String>>,
    /// Those of operators over those that the child reports.
    pub labels: BTreeMap<String, String>,
    pub born: String,
    pub last_call: Option<String>,
    /// The unfinished releases it has a part in.
    pub releases: Vec<String>,
    /// What waits for it or what it has in hand, in one line.
    pub doing: String,
    /// It lies outside of this manager's area, where that is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
    /// Of a manager that says so: where people reach its own page; only when a single child is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
    /// GeoJSON; only when a single child is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    pub area: Option<serde_json::Value>,
}

/// What runs where: `GET /api/v1/deployments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deployment {
    pub child: String,
    pub function: String,
    /// The release that changed it last.
    pub release: String,
    /// `base`, `new`, `unknown`.
    pub variant: String,
    pub path: String,
    pub since: String,
}

/// A call by somebody who is not known: `GET /api/v1/callers/unknown`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnknownCaller {
    pub id: String,
    pub call: String,
    pub count: u64,
    pub last: String,
}

/// An entry of the audit trail; also the data of an event of `GET /events`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// `SEQ-IDX`; resumes `/events` as Last-Event-ID, and pages the audit trail. `0-0` comes before all.
    pub id: String,
    pub at: String,
    pub actor: String,
    pub release: Option<String>,
    /// What happened, in order.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<serde_json::Value>,
}

/// The body of every operator action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Note {
    /// Who acts, for the audit trail; the token's name where there is one.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    pub by: Option<String>,
    /// Why.
    #[schema(max_length = 1000, pattern = r"^[^\u0000]*$")]
    pub note: Option<String>,
}

/// The body of `PUT /api/v1/children/{id}/labels/{key}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelValue {
    #[schema(max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    pub value: String,
    /// Who acts, for the audit trail; the token's name where there is one.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[serde(default)]
    pub by: Option<String>,
    /// Why.
    #[serde(default)]
    pub note: Option<String>,
}

/// An error (RFC 9457).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `about:blank` or the name of a kind of error: `/problems/invalid-strategy`.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// What happened, to which id, and what to do.
    pub detail: String,
    /// The faults of a strategy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}
