//! The language in which a developer says how a release is tested and when it counts as good.
//!
//! A text becomes a [`Strategy`] in three steps: `raw` (what YAML says, with locations) → `parse` (values) →
//! `validate` (the rules between them). A [`Strategy`] that exists is valid: names are resolved to indices,
//! traffic adds up, every path through the stages ends. Nothing downstream checks again.
//!
//! [`check`] is the one way in, and it reports every fault at once. [`render`] is the way out: the small
//! strategies that children get. Not here: who takes part, when a stage ends, what a result means.

mod amount;
pub mod analysis;
mod check;
mod diagnostic;
mod fields;
mod from_parent;
pub mod functions;
mod graph;
pub mod import;
mod interim;
mod parse;
mod raw;
pub mod render;
pub mod render_full;
mod rollout;
mod runtime;
mod scalar;
pub mod schema;
mod sticky;
mod syntax;
mod target;
mod validate;

use std::{fmt, time::Duration};

pub use amount::{Amount, Round};
pub use check::{
    Checked, MAX_STRATEGY_BYTES, Site, TextPlaces, VersionPlace, check, check_at, check_bytes,
    check_from_parent, check_stored, check_submission, check_submission_at,
};
pub use diagnostic::{Diagnostic, MAX_DIAGNOSTICS, MAX_SOURCE_LINE, Severity, TextPlace, nearest};
pub use from_parent::FromParent;
pub use interim::{Interim, MAX_CUTS};
pub use parse::{MAX_CONDITIONS, MAX_NAME_BYTES};
pub use raw::{MAX_ALIASES, MAX_DEPTH, MAX_NODES};
pub use rollout::{
    Approval, ApprovalOf, LateJoiners, MAX_WAVES, NO_CALLS, NoCalls, OnLimit, Order, Rollout, Untested,
};
pub use scalar::{MAX_CALLS, MAX_DURATION, MAX_PATH_BYTES, MAX_RESPONSE_TIME_MS};
pub use sticky::{MAX_STICKY_NAME_BYTES, Sticky};
pub use target::{MAX_TARGET_LABELS, MAX_TARGET_POSITIONS, Partial, Target, TargetArea};

use serde::{Deserialize, Serialize};

use self::analysis::Analysis;
use model::ReleaseId;

/// A validated release strategy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Strategy {
    pub id: ReleaseId,
    pub name: String,
    /// Free text of the developer (`patch`, `major`, …); carried along, never interpreted.
    pub kind: String,
    /// 1 to [`MAX_FUNCTIONS`].
    pub functions: Vec<Function>,
    /// 1 to [`MAX_STAGES`], in the order of the file; the first is where every child starts.
    pub stages: Vec<Stage>,
    pub on_conflict: OnConflict,
    pub deadlines: ReleaseDeadlines,
    /// Who takes part; `None`: every eligible child. A strategy without it has the digest it had before there were
    /// targets, and so for `rollout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// How the manager leads the release; `None`: each child is on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// Where the target reaches beyond this manager's area, the parent is to release it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forward_up: bool,
    /// What the parent said beside it, if it came from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_parent: Option<FromParent>,
}

/// Most functions a strategy may name. A child's possibly changed functions are one 64-bit set.
pub const MAX_FUNCTIONS: usize = 64;

/// Most stages a strategy may have.
pub const MAX_STAGES: usize = 64;

/// A function and the two versions of it that are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    pub name: String,
    pub base: Version,
    pub new: Version,
    /// By what calls stay with one version; `None`: each call goes to either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
}

/// One version of a function: a folder in `fns.zip` and the runtime it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Relative, `/`-separated, never leaves its folder.
    pub path: String,
    /// The runtime: `nodejs`, `python`, …
    pub env: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub name: String,
    pub kind: StageKind,
    /// Index into [`Strategy::functions`].
    pub function: usize,
    /// Share of calls that the new version gets, in percent, 0 to 100; the base version gets the rest.
    pub new_traffic: u8,
    /// All must hold.
    pub conditions: Vec<Condition>,
    pub min_duration: Duration,
    pub min_calls: u64,
    pub on_success: Action,
    pub on_failure: Action,
    /// By what the manager judges it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StageKind {
    /// `A/B`: ends by itself once its minima are met.
    AB,
    /// `WaitForSignal`: waits, after its minima are met, until the manager ends it.
    WaitForSignal,
}

/// What follows a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    Rollout,
    Rollback,
    /// Index into [`Strategy::stages`].
    Stage(usize),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    pub metric: Metric,
    pub operator: Operator,
    /// Share from 0 to 1 for [`Metric::ErrorRate`], milliseconds for [`Metric::ResponseTime`].
    pub threshold: f64,
}

impl Condition {
    /// Whether `value` satisfies the condition.
    pub fn holds(&self, value: f64) -> bool {
        match self.operator {
            Operator::Less => value < self.threshold,
            Operator::LessOrEqual => value <= self.threshold,
            Operator::Greater => value > self.threshold,
            Operator::GreaterOrEqual => value >= self.threshold,
            #[expect(clippy::float_cmp, reason = "equal is what the developer asked for")]
            Operator::Equal => value == self.threshold,
        }
    }

    /// What it demands, as the developer wrote it: `<=250`.
    pub fn demand(&self) -> String {
        let operator = match self.operator {
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Equal => "==",
        };
        format!("{operator}{}", self.threshold)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Metric {
    ErrorRate,
    ResponseTime(Statistic),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Statistic {
    Median,
    Minimum,
    Maximum,
    /// Above 0 and below 1: `P95` is 0.95. Agents can't judge it, the manager does.
    Quantile(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

/// As it is shown: `responseTime <=250 Median`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Equal => "==",
        };
        let threshold = self.threshold;
        match self.metric {
            Metric::ErrorRate => write!(f, "errorRate {operator}{threshold}"),
            Metric::ResponseTime(Statistic::Median) => write!(f, "responseTime {operator}{threshold} Median"),
            Metric::ResponseTime(Statistic::Minimum) => {
                write!(f, "responseTime {operator}{threshold} Minimum")
            }
            Metric::ResponseTime(Statistic::Maximum) => {
                write!(f, "responseTime {operator}{threshold} Maximum")
            }
            Metric::ResponseTime(Statistic::Quantile(q)) => {
                write!(f, "responseTime {operator}{threshold} P{}", q * 100.0)
            }
        }
    }
}

/// What happens when another unfinished release names one of the same functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnConflict {
    #[default]
    Queue,
    Refuse,
    Supersede,
}

/// Deadlines of this release; `None` takes the manager's configured value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReleaseDeadlines {
    pub offer: Option<Duration>,
    pub setup_grace: Option<Duration>,
    pub stage: Option<Duration>,
}
