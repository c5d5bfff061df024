//! An analysis as it was read and checked: what is measured, when it is good, and what an unclear verdict does.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::query::{Escape, Query, QueryArgs, QueryBinding, Unbound, Variable, Variant};
use crate::condition::Condition;

/// Most metrics of one block.
pub const MAX_METRICS: usize = 32;

/// Most looks of one block at its data: its duration over its interval.
pub const MAX_LOOKS: u64 = 1_000;

/// Shortest time between two looks.
pub const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The share of good releases that may be stopped by mistake, where a release doesn't say.
pub const DEFAULT_ALPHA: f64 = 0.05;

/// Largest alpha: a release that is stopped by mistake every second time is judged by nothing.
pub const MAX_ALPHA: f64 = 0.5;

/// How much worse is still good, where a metric doesn't say: 5 %.
pub const DEFAULT_TOLERANCE: f64 = 0.05;

/// Largest tolerance, as a share: 1,000 %.
pub const MAX_TOLERANCE: f64 = 10.0;

/// The error rate up to which nothing fails, where a metric doesn't say: 0.1 %.
pub const DEFAULT_FLOOR: f64 = 0.001;

/// Failed looks in a row, for want of an answer, after which a metric's verdict is an error.
pub const DEFAULT_CONSECUTIVE_ERRORS: u32 = 4;

/// Largest `failureLimit` and `consecutiveErrorLimit`.
pub const MAX_LIMIT: u32 = 1_000;

/// Largest weight of a metric.
pub const MAX_WEIGHT: f64 = 1_000.0;

/// How long an analysis may go on after an end that decided nothing, each time.
pub const MAX_EXTENSION: Duration = Duration::from_hours(24);

/// The name under which what children report is asked.
pub const CHILDREN: &str = "children";

/// The name under which what routers tell of services is asked; nothing has to be configured for it.
pub const ROUTER: &str = "router";

/// By what, how often and for how long it is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// From the end of `initial_delay`; `None`: for as long as the release takes.
    pub duration: Option<Duration>,
    /// Between two looks at any of its metrics; never longer than the duration.
    pub interval: Duration,
    /// Nothing measured before it counts.
    pub initial_delay: Duration,
    /// So many looks in a row without an answer are borne; one more is the verdict `error`.
    pub consecutive_error_limit: u32,
    pub no_data: Unclear,
    pub inconclusive: Unclear,
    /// How it goes on, once and by itself, before an end that decided nothing is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend: Option<Extend>,
    /// It may be over before its end, once all that is judged has passed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub early_pass: bool,
    /// As given here; see [`crate::Strategy::alpha`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// 1 to [`MAX_METRICS`], names unique; after them those that stand for the stage's `metrics_conditions`.
    pub metrics: Vec<Metric>,
}

/// For how long an analysis goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extend {
    /// Above 0, at most [`MAX_EXTENSION`].
    pub duration: Duration,
    /// Or until so many more calls were measured, of both versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
}

/// What a verdict that is neither pass nor fail does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unclear {
    #[default]
    Pause,
    Fail,
    Pass,
}

/// One thing that is measured, and when it is good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    pub name: String,
    pub source: MetricSource,
    pub rule: Rule,
    /// Of `children`: which variations of a service are meant; `None`: the stable one and the first beside it, which are all there
    /// are of most services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Pair>,
    /// So many measurements outside of the expected range, or crossings of the boundary, are borne; of a condition, so
    /// many children.
    pub failure_limit: u32,
    /// Judged and shown, but without consequence; it has no share of alpha.
    pub dry_run: bool,
    /// Between two looks at it, where that isn't the block's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
}

/// Two variations of a service, one of which is judged.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pair {
    /// Which it is compared with; `None`: the stable one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// Which is judged; `None`: the first beside the stable one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
}

/// Who is asked for the values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricSource {
    /// What children report with their results.
    Children(ChildMetric),
    Query(Box<ProviderQuery>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildMetric {
    /// In milliseconds.
    ResponseTime,
    /// Share of failed calls.
    ErrorRate,
}

/// A question to a configured provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderQuery {
    pub provider: String,
    pub query: Query,
    /// Where in the answer of a `web` provider the values stand (RFC 9535); `None`: where the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_path: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub baseline_args: QueryArgs,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub canary_args: QueryArgs,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub primary_args: QueryArgs,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub app_args: QueryArgs,
    /// Where the function runs, for `{{ .BuiltInArgs.App.K8s.Namespace }}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// When a metric is good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Each measurement lies within the range.
    Threshold {
        /// At least one of the two is there, and `min` is not above `max`.
        min: Option<f64>,
        max: Option<f64>,
        /// Of response times: which quantile is meant; `None`: the median.
        quantile: Option<f64>,
    },
    /// What each child measured keeps one of the stage's `metrics_conditions`.
    Condition(Condition),
    /// The new version is not worse than another by more than the tolerance.
    Compare(Comparison),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub with: Reference,
    pub deviation: Deviation,
    pub tolerance: Tolerance,
    /// Of error rates: up to this share nothing fails.
    pub floor: f64,
    /// The share of values beyond this quantile is compared; `None`: where most of them lie.
    pub quantile: Option<f64>,
    /// For the share of alpha; above 0.
    pub weight: f64,
}

/// What the canary is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reference {
    /// The base version, set up beside the canary: `CANARY_BASELINE`.
    Baseline,
    /// The base version as it was running already: `CANARY_PRIMARY`.
    Primary,
    /// The last release of the function that ended well: `PREVIOUS`. The relative standard deviation from run to run,
    /// where it is given.
    Previous { run_variation: Option<f64> },
}

/// Which way is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Deviation {
    Low,
    High,
    #[default]
    Either,
}

/// How much worse is still good; above 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// A share of the other side's values.
    Ratio(f64),
    /// An amount in the metric's unit: milliseconds of children's response times, else whatever a query gives.
    Shift(f64),
}

impl Metric {
    /// Its strategy, as it is written.
    pub const fn strategy(&self) -> &'static str {
        match &self.rule {
            Rule::Threshold { .. } | Rule::Condition(_) => "THRESHOLD",
            Rule::Compare(Comparison { with: Reference::Baseline, .. }) => "CANARY_BASELINE",
            Rule::Compare(Comparison { with: Reference::Primary, .. }) => "CANARY_PRIMARY",
            Rule::Compare(Comparison { with: Reference::Previous { .. }, .. }) => "PREVIOUS",
        }
    }

    /// Whether it compares with an earlier release.
    pub const fn looks_back(&self) -> bool {
        matches!(self.rule, Rule::Compare(Comparison { with: Reference::Previous { .. }, .. }))
    }

    /// Whether what children have reported so far can be judged before all of them have reported: of both versions, side by
    /// side, or of the new one against a range, unless measurements outside of it are borne: there is but the one of the end.
    /// An earlier release is compared child by child.
    pub const fn is_judged_on_the_way(&self) -> bool {
        let can_be = match self.rule {
            Rule::Compare(_) => !self.looks_back(),
            Rule::Threshold { .. } => self.failure_limit == 0,
            Rule::Condition(_) => false,
        };
        matches!(self.source, MetricSource::Children(_)) && can_be
    }

    /// Whether it compares calls of both versions, side by side, by what a provider tells of them.
    pub const fn compares_calls_of_a_provider(&self) -> bool {
        matches!((&self.source, &self.rule), (MetricSource::Query(_), Rule::Compare(_))) && !self.looks_back()
    }

    /// Whose numbers are judged, and with whose they are compared; nobody's for a threshold, and twice the same for
    /// `PREVIOUS`, where the times differ. There it is the canary, as the new version is called while it is tested; with
    /// `primaryArgs` it is the primary, as it is called once it was rolled out.
    pub fn variants(&self) -> (Variant, Option<Variant>) {
        let new = match &self.source {
            MetricSource::Query(asked) if !asked.primary_args.is_empty() => Variant::Primary,
            MetricSource::Query(_) | MetricSource::Children(_) => Variant::Canary,
        };
        match &self.rule {
            Rule::Threshold { .. } | Rule::Condition(_) => (Variant::Canary, None),
            Rule::Compare(Comparison { with, .. }) => match with {
                Reference::Baseline => (Variant::Canary, Some(Variant::Baseline)),
                Reference::Primary => (Variant::Canary, Some(Variant::Primary)),
                Reference::Previous { .. } => (new, Some(new)),
            },
        }
    }

    /// Whether it compares both versions side by side, so that more of both tells more.
    pub const fn is_beside(&self) -> bool {
        matches!(self.rule, Rule::Compare(_)) && !self.looks_back()
    }

    /// Its weight in sharing alpha, if it has a share.
    pub(super) fn weight(&self) -> Option<f64> {
        match &self.rule {
            Rule::Compare(compare) if !self.dry_run => Some(compare.weight),
            Rule::Compare(_) | Rule::Threshold { .. } | Rule::Condition(_) => None,
        }
    }
}

impl Analysis {
    /// Between two looks at a metric.
    pub fn interval_of(&self, metric: &Metric) -> Duration {
        metric.interval.unwrap_or(self.interval)
    }
}

impl ProviderQuery {
    /// The question about one variant of a function.
    pub fn text(&self, variant: Variant, function: &str, escape: Escape) -> Result<String, Unbound> {
        self.query.expand(&self.binding(variant, function), escape)
    }

    /// The question about one variant in a window, whose ends are in milliseconds since 1970.
    pub fn text_in(
        &self,
        variant: Variant,
        function: &str,
        window_ms: (i64, i64),
        escape: Escape,
    ) -> Result<String, Unbound> {
        let binding = QueryBinding { window_ms: Some(window_ms), ..self.binding(variant, function) };
        self.query.expand(&binding, escape)
    }

    /// Whether the question names both ends of the time that it is about.
    pub fn names_window(&self) -> bool {
        let names = |wanted: &Variable| self.query.variables().any(|variable| variable == wanted);
        names(&Variable::WindowStart) && names(&Variable::WindowEnd)
    }

    fn binding<'a>(&'a self, variant: Variant, function: &'a str) -> QueryBinding<'a> {
        let (variant_args, app_args) = (self.args(variant), &self.app_args);
        let namespace = self.namespace.as_deref();
        QueryBinding { variant, variant_args, app_name: function, app_args, namespace, window_ms: None }
    }

    pub(super) const fn args(&self, variant: Variant) -> &QueryArgs {
        match variant {
            Variant::Baseline => &self.baseline_args,
            Variant::Canary => &self.canary_args,
            Variant::Primary => &self.primary_args,
        }
    }
}
