//! The documented form of the blocks, for the JSON Schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::schema::{DurationForm, Scalar};

/// By which measurements a stage, or the whole release, is judged. It puts the manager in charge.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnalysisForm {
    /// From the end of `initialDelay`. In a stage it must be there; in `rollout` it may be left out, and the release is
    /// judged for as long as it takes.
    pub duration: Option<DurationForm>,
    /// Between two looks at the data: `1s` or more; at most 1,000 of them. It may be left out where each metric has its own.
    pub interval: Option<DurationForm>,
    /// What is measured before it doesn't count; `0s` if absent.
    pub initial_delay: Option<DurationForm>,
    /// Measurements outside of the expected range that are borne; of a comparison, looks that cross the boundary without
    /// being the verdict yet. 0 if absent.
    #[schemars(range(min = 0, max = 1000))]
    pub failure_limit: Option<u32>,
    /// Looks in a row without an answer that are borne; 4 if absent.
    #[schemars(range(min = 0, max = 1000))]
    pub consecutive_error_limit: Option<u32>,
    /// What follows when there is nothing to judge by; `pause` if absent.
    pub no_data: Option<UnclearForm>,
    /// What follows when the data don't suffice to decide; `pause` if absent.
    pub inconclusive: Option<InconclusiveForm>,
    /// Whether it may be over before its end: once everybody in the stage has met its minima and all metrics have passed, at a
    /// bound that every look pays for. `false` if absent.
    pub early_pass: Option<bool>,
    /// Judge and show, without consequence; `false` if absent.
    pub dry_run: Option<bool>,
    /// The share of good releases that may be stopped by mistake, over all blocks; it is given once in a release. 0.05
    /// if absent.
    pub alpha: Option<Scalar>,
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

/// It goes on by itself, once, until a look decides or a limit is reached; at least one of the limits is there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendForm {
    /// For so long: more than 0, at most a day; a day where only `calls` is given.
    pub extend: Option<DurationForm>,
    /// Until so many more calls were measured, of both versions.
    #[schemars(range(min = 1))]
    pub calls: Option<u64>,
    /// What follows when it is still undecided then; `pause` if absent.
    pub then: Option<UnclearForm>,
}

/// One thing that is measured. With `template`, the other keys win over those of the template.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MetricForm {
    /// Unique in the block; if absent with `template` its name, else strategy and provider, numbered.
    pub name: Option<Scalar>,
    /// A metric that the manager has by name.
    pub template: Option<TemplateForm>,
    #[serde(flatten)]
    pub shared: SharedForm,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TemplateForm {
    pub name: Scalar,
    /// For `{{ .AppArgs.NAME }}`.
    pub app_args: Option<BTreeMap<String, Scalar>>,
}

/// What a metric and a template of one have in common.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedForm {
    /// The name of a configured provider, or `children`.
    pub provider: Option<Scalar>,
    /// `THRESHOLD` if absent.
    pub strategy: Option<MetricStrategyForm>,
    /// Between two looks at it: `1s` or more, instead of the block's.
    pub interval: Option<DurationForm>,
    /// What to ask. `{{ .Variant.Name }}` (or `{{ .BuiltInArgs.Variant.Name }}`), `{{ .VariantArgs.NAME }}`,
    /// `{{ .BuiltInArgs.App.Name }}` (the function), `{{ .BuiltInArgs.App.K8s.Namespace }}`, `{{ .BuiltInArgs.Window.Start }}`
    /// and `.End` (of the time that is asked about, in seconds since 1970) and `{{ .AppArgs.NAME }}` are replaced.
    pub query: Option<String>,
    /// Of `children`.
    pub metric: Option<super::super::schema::MetricForm>,
    /// Of `THRESHOLD`: the range in which each measurement must lie.
    pub expected: Option<ExpectedForm>,
    /// Which way is worse; `EITHER` if absent. Not of `THRESHOLD`.
    pub deviation: Option<DeviationForm>,
    /// How much worse is still good: a share (`5%`), a time (`20ms`, of `children`), or an amount in the unit of the
    /// query; `5%` if absent. Not of `THRESHOLD`.
    pub tolerance: Option<Scalar>,
    /// Of error rates that are compared: up to this share nothing fails; `0.1%` if absent.
    pub floor: Option<Scalar>,
    /// Compare the share of values beyond a quantile, as in `p99`.
    pub quantile: Option<Scalar>,
    /// For the share of alpha; 1 if absent.
    pub weight: Option<f64>,
    /// For `{{ .VariantArgs.NAME }}` where the baseline is asked for; by `PREVIOUS` without `runVariation` for the same
    /// hours of earlier weeks.
    pub baseline_args: Option<BTreeMap<String, Scalar>>,
    /// For `{{ .VariantArgs.NAME }}` where the canary is asked for.
    pub canary_args: Option<BTreeMap<String, Scalar>>,
    /// For `{{ .VariantArgs.NAME }}` where the primary is asked for.
    pub primary_args: Option<BTreeMap<String, Scalar>>,
    /// For `{{ .AppArgs.NAME }}`.
    pub app_args: Option<BTreeMap<String, Scalar>>,
    /// For `{{ .BuiltInArgs.App.K8s.Namespace }}`; that of the release if absent.
    pub namespace: Option<Scalar>,
    /// Instead of that of the block.
    #[schemars(range(min = 0, max = 1000))]
    pub failure_limit: Option<u32>,
    /// Of `PREVIOUS`: how much a version differs from itself from run to run, as a relative standard deviation; if absent,
    /// the same hours of earlier weeks tell where a query is asked; of children nothing does.
    pub run_variation: Option<Scalar>,
    /// Of a provider of the type `web`: where the values stand in its answer (RFC 9535).
    pub json_path: Option<String>,
    /// Instead of that of the block.
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
    /// The new version against the base version set up beside it.
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

/// At least one of the two.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedForm {
    pub min: Option<f64>,
    pub max: Option<f64>,
}
