//! Routers, services, and who gets what: as the API shows them. Shares are percentages, exact to 0.01.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use model::traffic::LedForm;

/// A router in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Router {
    /// The id of the child that leads it.
    pub id: String,
    /// What that child calls itself.
    pub name: Option<String>,
    /// `embedded`, `nginx`, `haproxy`, …
    pub kind: String,
    pub version: Option<String>,
    /// `idle`, `waiting`, `telling`, `in_force`, `paused`, `accepted`, `superseded`.
    pub phase: String,
    /// It could be read when that was tried last.
    pub reached: bool,
    /// What stands in the way of what is wanted.
    pub trouble: Option<String>,
    /// Since when that is so.
    pub since: String,
    /// What keeps it from taking over calls at ports of other programs, though it is to, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takeover_trouble: Option<String>,
    /// The last call of its agent; `None`: none in this life of the manager.
    pub last_call: Option<String>,
    /// Repairs within its last hour.
    pub repairs: u32,
    /// Drifts that were told so far.
    pub drifts: u64,
    /// The services that it leads, by name.
    pub services: Vec<String>,
    /// How many it leads beside those.
    pub untold: u32,
}

/// A router with all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RouterDetail {
    #[serde(flatten)]
    pub router: Router,
    pub led: Vec<RoutedService>,
    /// The last ones, newest first.
    pub orders: Vec<RouterOrder>,
}

/// A service, as one router leads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RoutedService {
    pub router: String,
    pub service: String,
    /// Of the wanted state.
    pub epoch: u64,
    pub generation: u64,
    /// The offer that it came from last.
    pub offer: Option<String>,
    /// The release of that offer.
    pub release: Option<String>,
    /// No release is in hand.
    pub standing: bool,
    /// It was read back to do what is wanted.
    pub proven: bool,
    pub since: String,
    /// When it was read back last.
    pub seen_at: Option<String>,
    /// For how many milliseconds calls were counted under these shares.
    pub measured_ms: Option<u64>,
    /// The first is the stable one.
    pub variations: Vec<RoutedVariation>,
    /// All of it, in the words of a strategy.
    pub led: LedForm,
    /// What it was proven to do last without a release in hand.
    pub stands: Option<StandingState>,
}

/// A variation at one router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RoutedVariation {
    pub name: String,
    /// Percent.
    pub wanted: f64,
    /// Percent, as it was read back.
    pub seen: Option<f64>,
    /// Percent of the calls that were counted.
    pub measured: Option<f64>,
    pub calls: Option<u64>,
    pub errors: Option<u64>,
    /// `None`: nobody looks at them.
    pub healthy_targets: Option<u32>,
    pub total_targets: u32,
    pub draining: Option<DrainedVariation>,
}

/// A variation that is drained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainedVariation {
    /// Connections; `None`: the router doesn't tell.
    pub left: Option<u64>,
}

/// What a service was proven to do without a release in hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StandingState {
    pub epoch: u64,
    pub generation: u64,
    /// `None`: it came from no release of this manager.
    pub release: Option<String>,
    pub since: String,
    /// Percent by variation.
    pub shares: BTreeMap<String, f64>,
    pub led: LedForm,
}

/// What an operator asked of a router.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RouterOrder {
    pub router: String,
    pub number: u64,
    /// `check`, `repair`, `reload`, `retire`, `adopt`.
    pub what: String,
    pub service: Option<String>,
    pub config: Option<String>,
    pub by: String,
    pub at: String,
    /// `open`, `done`, `failed`, `expired`: nobody answered in time, and it may have been carried out.
    pub state: String,
    pub answer: Option<RouterOrderAnswer>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouterOrderAnswer {
    pub ok: bool,
    /// In lines.
    pub text: String,
    /// Of a check: what is ours there and belongs to nothing that is wanted.
    pub left_over: Vec<String>,
    pub at: String,
}

/// The body of an order to a router.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct OrderRequest {
    /// Who asks, where no token says so.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[schema(max_length = 1000, pattern = r"^[^\u0000]*$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Of a check: the path of another main configuration, on the machine of the router's agent.
    #[schema(min_length = 1, max_length = 4096, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Of an adoption: the service, as the router's own configuration calls it.
    #[schema(min_length = 1, max_length = 4096, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// The body of an order to retire a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RetireRequest {
    /// Who asks, where no token says so.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\u0000-\u001f\u007f-\u009f]*$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[schema(max_length = 1000, pattern = r"^[^\u0000]*$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Only at this router; without it at all that lead it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<String>,
}

/// How a service is routed, as the document *Progressive delivery* has it: times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteConfig {
    /// The service.
    pub upstream: String,
    pub backends: Vec<RouteBackend>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<RouteHealthCheck>,
}

/// A variation of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RouteBackend {
    pub name: String,
    /// `HOST:PORT`.
    pub targets: Vec<String>,
    /// Percent.
    pub weight: f64,
}

/// How its targets are looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RouteHealthCheck {
    /// Empty: a connection is enough.
    pub path: String,
    /// Seconds.
    pub interval: f64,
    /// Seconds.
    pub timeout: f64,
}

/// A service in a list: over all its routers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Service {
    pub name: String,
    /// Routers that lead it.
    pub routers: u32,
    /// Routers where it was not read back to be as wanted.
    pub unproven: u32,
    /// The releases that its routers have it from.
    pub releases: Vec<String>,
    /// A release of it is in hand at one of them.
    pub in_release: bool,
    pub variations: Vec<ServiceVariationSum>,
}

/// A service with what each of its routers does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceDetail {
    #[serde(flatten)]
    pub service: Service,
    pub by_router: Vec<RoutedService>,
}

/// A variation over all routers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceVariationSum {
    pub name: String,
    pub wanted: ShareRange,
    /// `None`: no router was read back yet.
    pub seen: Option<ShareRange>,
    /// Percent of the calls that all routers counted.
    pub measured: Option<f64>,
    pub calls: u64,
    pub errors: u64,
    /// `None`: there are some that no router looks at.
    pub healthy_targets: Option<u32>,
    /// Each target counts once, however many routers send calls there.
    pub total_targets: u32,
    /// Routers that drain it.
    pub draining: u32,
}

/// Where routers differ, the lowest and the highest share; in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShareRange {
    pub lowest: f64,
    pub highest: f64,
}

/// `GET /api/v1/releases/{id}/traffic`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseTraffic {
    pub release: String,
    pub services: Vec<ServiceTraffic>,
    /// Newest first.
    pub history: Vec<TrafficEntry>,
    /// To be sent as `after` for the part of the history before.
    pub next: Option<String>,
}

/// A service of a release, where its routers have it from that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceTraffic {
    pub service: String,
    pub variations: Vec<ServiceVariationSum>,
    pub routers: Vec<RoutedService>,
}

/// How shares came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrafficEntry {
    pub timestamp: String,
    pub router: String,
    /// `None`: it concerns the router as a whole.
    pub service: Option<String>,
    pub epoch: u64,
    pub generation: u64,
    /// Percent by variation, wanted before and now.
    pub from: BTreeMap<String, f64>,
    pub to: BTreeMap<String, f64>,
    /// As it was read back.
    pub seen: BTreeMap<String, f64>,
    /// Under the shares before.
    pub measured: Option<TrafficMeasured>,
    /// The offer that brought it about, `drift`, or `router`.
    pub by: String,
    pub drift: Option<TrafficDrift>,
}

/// Calls that were counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrafficMeasured {
    /// For how many milliseconds.
    pub for_ms: u64,
    pub variations: BTreeMap<String, CountedCalls>,
}

/// Of one variation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CountedCalls {
    pub calls: u64,
    pub errors: u64,
    /// Percent of all calls.
    pub share: Option<f64>,
}

/// A router did something else than it was seen to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrafficDrift {
    pub wanted: String,
    pub seen: String,
    /// `repaired`, `paused`, `paused_after_repairs`, `accepted`, `over`.
    pub then: String,
}
