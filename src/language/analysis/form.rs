//! The documented form of the blocks, for the JSON Schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::schema::{DurationForm, Scalar};

/// Measurements by which a stage, or the whole release, is judged. With it, the manager leads the release.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnalysisForm {
    /// How long it lasts, from the end of `initialDelay`. Needed in a stage. In `rollout` it may be left out; then it lasts as long as the
    /// release.
    #[schemars(extend("examples" = ["10m"], "x-default" = "none"))]
    pub duration: Option<DurationForm>,
    /// Between two looks at the data: `1s` or more, and at most 1,000 looks. Needed unless each metric has its own.
    #[schemars(extend("examples" = ["1m"], "x-default" = "none"))]
    pub interval: Option<DurationForm>,
    /// What is measured before it doesn't count.
    #[schemars(extend("examples" = ["1m"], "default" = "0s"))]
    pub initial_delay: Option<DurationForm>,
    /// Measurements outside the expected range that are allowed; of a comparison, looks that cross the boundary without being the
    /// verdict yet.
    #[schemars(range(min = 0, max = 1000), extend("examples" = [2], "default" = 0, "x-unit" = "measurements"))]
    pub failure_limit: Option<u32>,
    /// Looks in a row without an answer that are allowed.
    #[schemars(range(min = 0, max = 1000), extend("examples" = [10], "default" = 4, "x-unit" = "looks"))]
    pub consecutive_error_limit: Option<u32>,
    /// What follows when there is nothing to judge by.
    #[schemars(extend("default" = "pause"))]
    pub no_data: Option<UnclearForm>,
    /// What follows when there is too little data to decide.
    #[schemars(extend("examples" = [{"extend": "30m"}], "default" = "pause"))]
    pub inconclusive: Option<InconclusiveForm>,
    /// Whether it may pass before its end: once all children in the stage have met their minima and all metrics have passed. Each look
    /// makes the bound for passing a little stricter.
    #[schemars(extend("default" = false))]
    pub early_pass: Option<bool>,
    /// Whether it only judges and shows, without consequence.
    #[schemars(extend("default" = false))]
    pub dry_run: Option<bool>,
    /// The share of good releases that may be stopped by mistake, over all blocks. Give it once in a release.
    #[schemars(extend("examples" = [0.01], "default" = 0.05, "x-unit" = "share from 0 to 1, or %"))]
    pub alpha: Option<Scalar>,
    /// What is measured.
    #[schemars(length(min = 1, max = 32))]
    pub metrics: Vec<MetricForm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnclearForm {
    Pause,
    Fail,
    Pass,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum InconclusiveForm {
    Word(UnclearForm),
    Extend(ExtendForm),
}

/// The analysis continues by itself, once, until a look decides or a limit is reached. Give at least one of the limits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendForm {
    /// For so long: more than 0, at most a day. Needed without `calls`.
    #[schemars(extend("examples" = ["30m"], "default" = "1d"))]
    pub extend: Option<DurationForm>,
    /// Until so many more calls were measured, of both versions.
    #[schemars(range(min = 1), extend("examples" = [20000], "x-default" = "none", "x-unit" = "calls"))]
    pub calls: Option<u64>,
    /// What follows when it is still undecided then.
    #[schemars(extend("default" = "pause"))]
    pub then: Option<UnclearForm>,
}

/// One thing that is measured. With `template`, the other keys win over those of the template.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MetricForm {
    /// Unique in the block.
    #[schemars(extend(
        "examples" = ["latency"],
        "x-default" = "the name of its template, else strategy and provider, numbered"
    ))]
    pub name: Option<Scalar>,
    /// A metric that the manager has by name.
    pub template: Option<TemplateForm>,
    #[serde(flatten)]
    pub shared: SharedForm,
}

/// Names a metric of the manager.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TemplateForm {
    /// Its name.
    #[schemars(extend("examples" = ["error-rate"]))]
    pub name: Scalar,
    /// For `{{ .AppArgs.NAME }}`.
    #[schemars(extend("examples" = [{"job": "sieve"}], "x-default" = "none"))]
    pub app_args: Option<BTreeMap<String, Scalar>>,
}

/// What a metric and a template of one have in common.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedForm {
    /// The name of a configured provider; `children`, for what they report; or `router`, for what routers tell of services. Needed
    /// without `template`.
    #[schemars(extend("examples" = ["children"], "x-default" = "none"))]
    pub provider: Option<Scalar>,
    /// What the measurements are compared with.
    #[schemars(extend("default" = "THRESHOLD"))]
    pub strategy: Option<MetricStrategyForm>,
    /// Between two looks at it: `1s` or more.
    #[schemars(extend("examples" = ["5m"], "x-default" = "the block's"))]
    pub interval: Option<DurationForm>,
    /// What to ask. `{{ .Variant.Name }}` (or `{{ .BuiltInArgs.Variant.Name }}`), `{{ .VariantArgs.NAME }}`,
    /// `{{ .BuiltInArgs.App.Name }}` (the function), `{{ .BuiltInArgs.App.K8s.Namespace }}`, `{{ .BuiltInArgs.Window.Start }}`
    /// and `.End` (of the time that is asked about, in seconds since 1970) and `{{ .AppArgs.NAME }}` are replaced.
    #[schemars(extend("examples" = ["errors{version=\"{{ .Variant.Name }}\"}"], "x-default" = "none"))]
    pub query: Option<String>,
    /// What children report. Needed with `children`, and with no other provider.
    #[schemars(extend("x-default" = "none"))]
    pub metric: Option<super::super::schema::MetricForm>,
    /// The range in which each measurement must lie. Needed with `THRESHOLD`, and with no other strategy.
    pub expected: Option<ExpectedForm>,
    /// Which way is worse. Not with `THRESHOLD`.
    #[schemars(extend("examples" = ["HIGH"], "default" = "EITHER"))]
    pub deviation: Option<DeviationForm>,
    /// How much worse is still good: a share (`5%`), a time (`20ms`, of `children`), or an amount in the unit of the query. Not with
    /// `THRESHOLD`.
    #[schemars(extend("examples" = ["10%"], "default" = "5%", "x-unit" = "%, s, ms, or the query's"))]
    pub tolerance: Option<Scalar>,
    /// Of error rates that are compared: up to this share nothing fails.
    #[schemars(extend("examples" = ["1%"], "default" = "0.1%", "x-unit" = "share from 0 to 1, or %"))]
    pub floor: Option<Scalar>,
    /// Compare the share of values beyond a quantile; with `THRESHOLD`, the quantile of response times that must lie in the range.
    #[schemars(extend("examples" = ["p99"], "x-default" = "where most values lie", "x-unit" = "p0 to p100"))]
    pub quantile: Option<Scalar>,
    /// How much of alpha it gets, compared with other metrics. Not with `THRESHOLD`.
    #[schemars(extend("examples" = [2], "default" = 1, "x-unit" = "relative"))]
    pub weight: Option<f64>,
    /// For `{{ .VariantArgs.NAME }}` where the baseline is asked for; with `PREVIOUS` and no `runVariation`, for the same hours of
    /// earlier weeks. Of `children`: `variation` alone.
    #[schemars(extend("examples" = [{"job": "base"}], "x-default" = "none"))]
    pub baseline_args: Option<BTreeMap<String, Scalar>>,
    /// For `{{ .VariantArgs.NAME }}` where the canary is asked for.
    #[schemars(extend("examples" = [{"job": "new"}], "x-default" = "none"))]
    pub canary_args: Option<BTreeMap<String, Scalar>>,
    /// For `{{ .VariantArgs.NAME }}` where the primary is asked for.
    #[schemars(extend("examples" = [{"job": "main"}], "x-default" = "none"))]
    pub primary_args: Option<BTreeMap<String, Scalar>>,
    /// For `{{ .AppArgs.NAME }}`.
    #[schemars(extend("examples" = [{"job": "sieve"}], "x-default" = "none"))]
    pub app_args: Option<BTreeMap<String, Scalar>>,
    /// For `{{ .BuiltInArgs.App.K8s.Namespace }}`.
    #[schemars(extend("examples" = ["shop"], "x-default" = "the release's"))]
    pub namespace: Option<Scalar>,
    /// As the block's, for this metric.
    #[schemars(
        range(min = 0, max = 1000),
        extend("examples" = [2], "x-default" = "the block's", "x-unit" = "measurements")
    )]
    pub failure_limit: Option<u32>,
    /// Of `PREVIOUS`: how much a version differs from itself from run to run, as a relative standard deviation. Without it, a query asks
    /// about the same hours of earlier weeks, and what children report decides nothing.
    #[schemars(extend("examples" = ["3%"], "x-default" = "none", "x-unit" = "share from 0 to 1, or %"))]
    pub run_variation: Option<Scalar>,
    /// Of a provider of the type `web`: where the values stand in its answer (RFC 9535).
    #[schemars(extend("examples" = ["$.values[*]"], "x-default" = "the provider's"))]
    pub json_path: Option<String>,
    /// As the block's, for this metric.
    #[schemars(extend("examples" = [true], "x-default" = "the block's"))]
    pub dry_run: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MetricStrategyForm {
    /// Each measurement lies in the expected range.
    Threshold,
    /// The new version against what was the new version when the last release of the function that ended well was at
    /// the same stage.
    Previous,
    /// The new version against the base version that was set up next to it.
    CanaryBaseline,
    /// The new version against the base version as it was running already.
    CanaryPrimary,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum DeviationForm {
    Low,
    High,
    Either,
}

/// A range. At least one of the two must be given.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedForm {
    /// The smallest that is good.
    #[schemars(extend("examples" = [0], "x-default" = "none", "x-unit" = "ms, share from 0 to 1, or the query's"))]
    pub min: Option<f64>,
    /// The largest that is good.
    #[schemars(extend("examples" = [250], "x-default" = "none", "x-unit" = "ms, share from 0 to 1, or the query's"))]
    pub max: Option<f64>,
}
