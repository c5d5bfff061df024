//! What a release would do, before anything happens: `POST /api/v1/plan`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Diagnostic, PlannedMap, is_zero};

/// The share of a metric in a release's alpha, the chance that a good release is stopped by mistake.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedAlpha {
    /// The stage it judges; `None`: the release.
    pub stage: Option<String>,
    pub metric: String,
    pub strategy: String,
    pub alpha: f64,
}

/// What it takes to judge a metric that is compared, of one run: with waves of that with the fewest agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedMetric {
    /// The stage it judges; `None`: the release.
    pub stage: Option<String>,
    pub metric: String,
    /// On what the numbers rest: an earlier release, or an assumption.
    pub basis: String,
    /// Changes are ratios, not differences in the metric's unit.
    pub relative: bool,
    /// Of both versions and all agents that are judged together, as it was seen in that release.
    pub calls_per_second: Option<f64>,
    /// What lets 80 and 95 % of equal versions pass.
    pub wanted: Vec<PlannedPoint>,
    /// What the calls at the end will be good for, where their number is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<PlannedPoint>,
    /// How often it is looked at, by what the children can do that take part; `None`: for as long as the release takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks: Option<u64>,
    /// Who reports when, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reporting: Option<String>,
    /// That those don't suffice, and what would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Why nothing can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// What a number of calls is good for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedPoint {
    /// Of both versions; `None`: no number of calls does.
    pub calls: Option<u64>,
    /// How long they take.
    pub seconds: Option<f64>,
    /// The share of equal versions that pass.
    pub passes: f64,
    /// The smallest change for the worse that is found four times in five.
    pub smallest_change: Option<f64>,
}

/// What chance does to a plain condition of a stage, at an agent whose new version is as good as the base version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedCondition {
    pub stage: String,
    pub condition: String,
    /// On what the numbers rest: an earlier release, or an assumption.
    pub basis: String,
    /// Calls of both versions that each agent waits for.
    pub min_calls: u64,
    /// The share of agents at which it is broken by chance.
    pub fails: f64,
    /// The share of agents whose new version has no call.
    pub untested: f64,
    /// The `minCalls` with which both together are at most 5 %; `None`: no number is enough.
    pub least_calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A stage of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedStage {
    pub stage: String,
    /// `service/NAME`.
    pub changes: String,
    /// Percent of calls that each variation gets.
    pub shares: BTreeMap<String, f64>,
    /// Percent of users who get another variation than in the stage before; everybody else stays where they are.
    pub moved: f64,
}

/// `POST /api/v1/plan`: what a release would do, before anything happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// The id of the release.
    pub id: String,
    /// `parallel`, `location_sequential`, `global_incremental`, `waves`; `None` where each child is on its own.
    pub order: Option<String>,
    pub participants: PlannedGroup,
    /// How much of the participants' areas lies in the target's. `None` without one.
    pub within_km2: Option<f64>,
    /// Size of the target's area.
    pub target_km2: Option<f64>,
    /// The parent, if it would take this over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwards_to: Option<String>,
    /// How much of the target lies beyond this manager's own area, if it goes up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond_km2: Option<f64>,
    /// Participants that run only some of the functions, as `partial: allow` lets them.
    #[serde(default)]
    pub partial: u32,
    /// Participants that have a part in another release and have their turn after that.
    pub busy: u32,
    /// Agents of the participants that were not heard of for too long: they come last.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub silent: u32,
    /// Managers below that didn't say who of their agents can take part: they are planned with all that they have, which
    /// are at most so many. At most 100 are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_asked: Vec<String>,
    pub waves: Vec<PlannedWave>,
    /// How alpha is shared by what is compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alpha: Vec<PlannedAlpha>,
    /// What it takes to judge what is compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes: Vec<PlannedMetric>,
    /// What chance does to plain conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PlannedCondition>,
    /// The stages of services, templates expanded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<PlannedStage>,
    pub excluded: Vec<PlannedExclusion>,
    /// Unfinished releases that change the same functions and go first.
    pub waits_for: Vec<String>,
    /// A page of children, oldest first, if they were asked for.
    pub children: Vec<PlannedChild>,
    /// To be sent as `after` for the page that follows.
    pub next: Option<String>,
    /// Where they are, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<PlannedMap>,
    /// Children whose areas have no surface, so that no target meets them. `None` where there are none, or no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_surface: Option<WithoutSurface>,
    /// What the submission of a manifest would do to its canary, which is there already; `None`: it isn't, and begins. With it, `participants`
    /// and `children` are those that have a part in it as long as it isn't over, and `stages` have the shares that it would have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<PlannedCanary>,
    /// Warnings of the strategy's check.
    pub warnings: Vec<Diagnostic>,
}

/// What the submission of a manifest would do to its canary.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct PlannedCanary {
    /// What `changed` of the submission would say, as `weight 30` or `adopted`; `None`: nothing would change.
    pub changed: Option<String>,
    /// Each part whose share of the calls changes.
    pub shares: Vec<PlannedShare>,
    /// What follows, in order, a sentence each.
    pub follows: Vec<String>,
}

/// Another share of the calls for a part of a canary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedShare {
    /// A service, or one of its ports, as routers call it.
    pub part: String,
    /// Percent of its calls that the canary gets before, where a router has begun it.
    pub from: f64,
    /// Percent that it gets then.
    pub to: f64,
}

/// Children that report an area without surface.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct WithoutSurface {
    pub children: u32,
    /// Names, or ids where they have none; the oldest ten.
    pub names: Vec<String>,
}

/// Children of a plan. An agent counts as one, a child manager as many as it says.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct PlannedGroup {
    pub children: u32,
    pub agents: u64,
    /// Sum of their areas.
    pub km2: f64,
}

/// A wave of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedWave {
    /// From 1.
    pub wave: u32,
    /// Of a release of functions and services: `agents`, or `routers`, who begin when these are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// As the strategy has it: `10%`.
    pub amount: String,
    /// Children that begin in it.
    pub children: u32,
    /// Agents whose turn is in it.
    pub agents: u32,
    /// Agents that have had their turn after it, or routers, where it is one of theirs.
    pub agents_so_far: u32,
}

/// Children that take no part for the same reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedExclusion {
    /// `outside the area`, `lacks runtime python`, …
    pub reason: String,
    #[serde(flatten)]
    pub group: PlannedGroup,
}

/// A child of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedChild {
    pub child: String,
    pub name: Option<String>,
    /// The middle of its area: `52.5200N 13.4050E`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// `agent` or `rm`.
    pub kind: String,
    /// Those that can take part, as far as is known.
    pub agents: u32,
    /// `None`: no area of it is known.
    pub km2: Option<f64>,
    pub takes_part: bool,
    /// Why it takes no part.
    pub reason: Option<String>,
    /// The functions that it runs; `None`: all of them.
    pub functions: Option<Vec<String>>,
    /// The wave in which it begins, from 1.
    pub wave: Option<u32>,
    /// The wave in which the last of its agents have their turn.
    pub last_wave: Option<u32>,
    /// Its place in the order of locations, from 1.
    pub turn: Option<u32>,
    /// How far its area is from `start_at`.
    pub metres: Option<f64>,
    /// Unfinished releases in which it has a part already.
    pub busy_with: Vec<String>,
    /// GeoJSON, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    pub area: Option<serde_json::Value>,
}
