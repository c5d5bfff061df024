//! The JSON forms of progressive delivery: releases of services as A/B releases, with the field names of that interface
//! (`camelCase`). Percentages are from 0 to 100 in steps of 0.01, times of calls in milliseconds, instants RFC 3339 in UTC. Ids are
//! UUIDs; beside each stands the name that everything else here calls it by.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A release of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ABRelease {
    pub id: String,
    /// The same release at `/api/v1/releases`.
    pub release: String,
    pub tenant_id: String,
    pub environment_id: String,
    /// The name of the environment; that of the service where none was named.
    pub environment: String,
    pub name: String,
    /// The stable one first.
    pub variations: Vec<Variation>,
    /// Who has all calls when nothing is under way: the stable one until another was promoted, and again after a roll-back.
    pub active_variation: String,
    pub traffic_split: TrafficSplit,
    pub rollout_strategy: RolloutStrategy,
    /// `created`, `deploying`, `running`, `promoting`, `completed`, `rolled_back`.
    pub status: String,
    /// What the status is silent about: `waiting_for_start`, `queued`, `deploying`, `in_stage`, `promoting`, `paused`,
    /// `awaiting_approval`, `rolling_back`, `rolled_back_unproven`, `done`, `done_with_failures`, `done_untested`, `rolled_back`,
    /// `aborted`, `no_participants`.
    pub phase: String,
    pub created_at: String,
    /// `null` until it is over.
    pub completed_at: Option<String>,
    /// `null`: nobody said who.
    pub created_by: Option<String>,
    /// The name of that operator.
    pub created_by_name: Option<String>,
    /// Absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Vec<CanaryStage>>,
}

/// One of the versions that calls are shared among.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Variation {
    pub name: String,
    /// Of a registered version; of one that none was registered for, its own.
    pub release_id: String,
    /// The name of the registered version.
    pub version: Option<String>,
    pub target_group_id: Option<String>,
    /// The name of the target group.
    pub target_group: Option<String>,
    /// What it gets now.
    pub traffic_percentage: f64,
    /// The offer that deploys it; `null` where no runtime does.
    pub deployment_job_id: Option<String>,
}

/// How calls are shared.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrafficSplit {
    /// `percentage` (each call by itself), `sticky` (each user), `header`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What each variation gets; 100 in all.
    #[serde(default)]
    pub percentages: BTreeMap<String, f64>,
    /// `cookie:NAME`, `header:NAME` or `address`; a bare name is that of a cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticky_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_match: Option<HeaderMatch>,
}

/// A header whose values ask for variations. Other values follow the percentages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderMatch {
    pub header: String,
    /// Value → variation.
    pub values: BTreeMap<String, String>,
}

/// How the share of the new variation grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    pub id: String,
    pub name: String,
    pub stages: Vec<RolloutStage>,
    /// Goes on by itself when a stage has passed; if not, somebody is asked after each but the last.
    pub auto_advance: bool,
    /// Takes everything back when a stage fails; if not, the release pauses, and who leads the calls keeps the shares of that stage until
    /// it is advanced, promoted or rolled back.
    pub rollback_on_failure: bool,
    /// Seconds.
    pub health_check_interval: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RolloutStage {
    pub traffic_percentage: f64,
    /// 0: as soon as it has had its calls.
    pub duration_seconds: f64,
    /// So much of the targets must be healthy, in percent.
    #[serde(default = "healthy")]
    pub health_threshold: f64,
    /// Whether somebody is asked when it has passed.
    #[serde(default)]
    pub require_approval: bool,
}

const fn healthy() -> f64 {
    95.0
}

/// A template that releases may name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategyTemplate {
    #[serde(flatten)]
    pub strategy: RolloutStrategy,
    /// For people.
    pub description: String,
    /// Every manager has it; others come from its folder.
    pub built_in: bool,
}

/// A stage of a release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStage {
    pub id: String,
    pub ab_release_id: String,
    /// From 1.
    pub stage_number: u32,
    /// What it is called in the strategy.
    pub name: String,
    pub traffic_percentage: f64,
    /// `pending`, `running`, `succeeded`, `failed`, `skipped`.
    pub status: String,
    /// `null`: the health of targets isn't asked for.
    pub health_threshold: Option<f64>,
    pub duration_seconds: f64,
    pub require_approval: bool,
    /// `null`: nobody has begun it.
    pub started_at: Option<String>,
    /// `null` until it has passed, failed, or was left out.
    pub completed_at: Option<String>,
    /// `null`: nothing was measured in it.
    pub health_result: Option<HealthResult>,
}

/// How the new variation did in a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthResult {
    pub healthy: bool,
    /// Healthy targets × 100 / targets, of the stage that is under way; `null`: no router tells, or it has passed.
    pub health_percentage: Option<f64>,
    pub metrics: HealthMetrics,
    /// Calls.
    pub samples: u64,
    pub evaluated_at: String,
}

/// Shares of calls, and times of those that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthMetrics {
    /// Percent of calls; `null`: there were none.
    pub success_rate: Option<f64>,
    /// Percent of calls; `null`: there were none.
    pub error_rate: Option<f64>,
    /// Milliseconds; `null`: no call succeeded, or how times were spread isn't known.
    #[serde(rename = "latencyP50")]
    pub latency_p50: Option<f64>,
    /// Likewise.
    #[serde(rename = "latencyP90")]
    pub latency_p90: Option<f64>,
    /// Likewise.
    #[serde(rename = "latencyP95")]
    pub latency_p95: Option<f64>,
    /// Likewise.
    #[serde(rename = "latencyP99")]
    pub latency_p99: Option<f64>,
}

/// Who gets how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrafficDistribution {
    pub backends: Vec<BackendShare>,
    pub timestamp: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendShare {
    /// The variation.
    pub name: String,
    /// Percent.
    pub weight: f64,
    /// The least and the most that was read back of a router, in percent; `null`: no router tells.
    pub lowest: Option<f64>,
    pub highest: Option<f64>,
    /// `null`: no router looks at them.
    pub healthy_targets: Option<u32>,
    pub total_targets: u32,
}

/// `GET /api/v1/ab-releases/{id}/traffic`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ABTraffic {
    pub current_split: CurrentSplit,
    pub history: Vec<TrafficHistory>,
}

/// Who gets how much, over all routers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentSplit {
    #[serde(flatten)]
    pub distribution: TrafficDistribution,
    /// Each router that leads the calls.
    pub routers: Vec<RouterShare>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouterShare {
    pub router: String,
    /// The stage it has in hand; `null`: none of this release.
    pub stage: Option<String>,
    /// Percent of each variation that it is told to give.
    pub wanted: BTreeMap<String, f64>,
    /// The same as it was read back, and as calls were counted since; `null`: the router doesn't tell, or has the service from another
    /// release by now.
    pub seen: Option<BTreeMap<String, f64>>,
    pub measured: Option<BTreeMap<String, f64>>,
    /// Of what it was told; `null`: likewise.
    pub generation: Option<u64>,
}

/// A change of shares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrafficHistory {
    pub timestamp: String,
    /// `null`: all that lead the calls.
    pub router: Option<String>,
    /// Of the router's wanted state; `null`: it is not told one at a time.
    pub generation: Option<u64>,
    /// Percent of each variation before and behind the change.
    pub from: BTreeMap<String, f64>,
    pub to: BTreeMap<String, f64>,
    /// What routers were told, what was read back, and what their calls came to; `null`: no router tells.
    pub wanted: Option<BTreeMap<String, f64>>,
    pub seen: Option<BTreeMap<String, f64>>,
    pub measured: Option<BTreeMap<String, f64>>,
    /// `strategy`, or who it was.
    pub by: String,
}

/// `GET /api/v1/ab-releases/{id}/health`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ABHealth {
    pub variations: Vec<VariationHealth>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariationHealth {
    pub name: String,
    /// `healthy`, `unhealthy`, `unknown`.
    pub health_status: String,
    pub metrics: HealthMetrics,
    /// Calls.
    pub samples: u64,
}

/// How it is looked whether targets are there. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HealthCheck {
    pub path: String,
    pub interval: f64,
    pub timeout: f64,
}

/// `POST /api/v1/ab-releases`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewABRelease {
    /// Of an environment: its UUID or its name.
    pub environment_id: String,
    /// The id at `/api/v1/releases` follows from it.
    pub name: String,
    /// Two to eight, the stable one first.
    pub variations: Vec<NewVariation>,
    /// Absent: as the environment says, else each call by itself.
    #[serde(default)]
    pub traffic_split: Option<TrafficSplit>,
    /// The name of a template, or what one says.
    #[schema(value_type = Object)]
    pub rollout_strategy: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewVariation {
    pub name: String,
    /// Of a registered version: its UUID or its name.
    pub release_id: String,
    /// Of a target group: its UUID or its name. One of agents, of a variation that is not the stable one: they deploy it before any router
    /// gives it calls.
    #[serde(default)]
    pub target_group_id: Option<String>,
    /// If given, what `trafficSplit` says of it.
    #[serde(default)]
    pub traffic_percentage: Option<f64>,
}

/// A whole `rolloutStrategy` of a [`NewABRelease`].
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewRolloutStrategy {
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    pub stages: Vec<RolloutStage>,
    #[serde(default = "yes")]
    pub auto_advance: bool,
    #[serde(default = "yes")]
    pub rollback_on_failure: bool,
    /// Seconds; 30 if absent.
    #[serde(default)]
    pub health_check_interval: Option<f64>,
}

const fn yes() -> bool {
    true
}

/// `POST /api/v1/ab-releases/{id}/advance`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Advance {
    /// From 1; absent: the next.
    pub stage_number: Option<u32>,
    /// Who acts, for the audit trail; a token's name wins.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    pub by: Option<String>,
    #[schema(max_length = 1000, pattern = r"^[^\u0000]*$")]
    pub note: Option<String>,
}

/// `POST /api/v1/ab-releases/{id}/promote`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromoteVariation {
    /// The name of one; the stable one: everything is taken back.
    pub variation: String,
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[serde(default)]
    pub by: Option<String>,
    #[schema(max_length = 1000, pattern = r"^[^\u0000]*$")]
    #[serde(default)]
    pub note: Option<String>,
}

/// Where a service takes calls, and what holds for each release of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    pub id: String,
    pub tenant_id: String,
    pub created_at: String,
    pub created_by: Option<String>,
    #[serde(flatten)]
    pub spec: EnvironmentSpec,
}

/// What is registered as an environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvironmentSpec {
    pub name: String,
    /// The service that is released there.
    pub service: String,
    /// Labels of the routers that lead its calls; empty: all that know how.
    #[serde(default)]
    pub routers: BTreeMap<String, String>,
    /// Empty: no router leads calls there; agents of a target group share them out themselves.
    #[serde(default)]
    pub ports: Vec<EnvironmentPort>,
    #[serde(default)]
    pub defaults: EnvironmentDefaults,
}

/// A port at which a service takes calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvironmentPort {
    /// From 1 to 65535.
    pub port: u16,
    /// `HTTP`, `HTTPS`, `TCP`, `UDP`; `HTTP` if absent.
    #[serde(default = "http")]
    pub protocol: String,
    /// Whose calls it takes there, as in `shop.example`; whatever host if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What the paths of its calls begin with, in whole segments, as in `/api`; whatever path if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Who ends TLS, of HTTPS: `certificate`, the router, as if absent; or `pass`, targets, and it passes the router unopened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
}

fn http() -> String {
    "HTTP".to_owned()
}

/// What holds where a release says nothing of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EnvironmentDefaults {
    /// As in `trafficSplit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sticky_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// How long the release rests between stages, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak_seconds: Option<u32>,
}

/// Who runs a variation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetGroup {
    pub id: String,
    pub tenant_id: String,
    pub created_at: String,
    pub created_by: Option<String>,
    #[serde(flatten)]
    pub spec: TargetGroupSpec,
}

/// What is registered as a target group: labels, or addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetGroupSpec {
    pub name: String,
    /// Labels of agents, all of which must be an agent's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Hosts and ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

/// A version that variations may name as their `releaseId`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredVersion {
    pub id: String,
    pub tenant_id: String,
    pub created_at: String,
    pub created_by: Option<String>,
    #[serde(flatten)]
    pub spec: VersionSpec,
}

/// What is registered as a version: where it runs, what it consists of, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VersionSpec {
    pub name: String,
    /// Hosts and ports at which it listens already, or once agents have deployed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// SHA-256 of the archive of functions, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The folder of the function in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What runs it: `nodejs`, `python`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
}

/// What is registered together.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Registrations {
    pub environments: Vec<EnvironmentSpec>,
    pub target_groups: Vec<TargetGroupSpec>,
    pub versions: Vec<VersionSpec>,
}
