//! The documented form of the language, from which the JSON Schema is generated.
//!
//! It describes what may be written; [`super::check`] decides. Not here: rules between values.

mod services;

use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::Deserialize;

pub use self::services::{
    HeaderRuleForm, HealthForm, PercentForm, PortForm, ProtocolForm, RolloutStrategyForm,
    RolloutTemplateForm, SaltForm, SelectorForm, ServiceForm, TemplateStageForm, TruthForm, VariationForm,
};
use super::analysis::form::{AnalysisForm, SharedForm};
use model::area::{MAX_LATITUDE, MAX_LONGITUDE};

/// What durations look like; that each is whole milliseconds, and all at most 366 days, is for the check to find.
macro_rules! duration {
    () => {
        r"(0+|(0*([0-9]{1,3}(\.[0-9]{1,9})?d|[0-9]{1,4}(\.[0-9]{1,9})?h|[0-9]{1,6}(\.[0-9]{1,9})?m|[0-9]{1,8}(\.[0-9]{1,3}0{0,6})?s|[0-9]{1,11}(\.0{1,9})?ms))+)"
    };
}

/// The JSON Schema (draft 2020-12) of a release strategy.
pub fn schema() -> Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<StrategyForm>()
}

/// A release strategy: which functions change, and the stages of the live test that decides about them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Release strategy", extend("anyOf" = [
    {"required": ["functions", "stages"]}, {"required": ["services", "stages"]}, {"required": ["services", "strategy"]},
]))]
pub struct StrategyForm {
    /// What the release is called in every call: letters, digits and `. _ ~ -`, at most 48 of them.
    pub id: Scalar,
    /// What people call it.
    pub name: Scalar,
    /// Free text such as `patch`, `minor`, `major`; carried along, never interpreted.
    #[serde(rename = "type")]
    pub kind: Option<Scalar>,
    /// Functions that change, at agents. With `services` beside them it is a hybrid: agents go first, and routers begin when they
    /// are done.
    #[schemars(length(min = 1, max = 64))]
    pub functions: Option<Vec<FunctionForm>>,
    /// Services behind routers whose calls are shared among variations that run already.
    #[schemars(length(min = 1, max = 64))]
    pub services: Option<Vec<ServiceForm>>,
    /// Every child starts with the first; in a hybrid, routers with the first of a service. Either these or `strategy`, or in a hybrid
    /// those of the functions, with `strategy` for the service.
    #[schemars(length(min = 1, max = 64))]
    pub stages: Option<Vec<StageForm>>,
    /// How the share of the second variation of the only service grows, in the place of `stages`: by name or written out.
    pub strategy: Option<RolloutStrategyForm>,
    pub rollback: Option<RollbackForm>,
    /// What happens when an unfinished release names one of the same functions; `queue` if absent.
    pub on_conflict: Option<OnConflictForm>,
    /// How long an offer may wait to be fetched.
    pub offer_deadline: Option<DurationForm>,
    /// How long a child may be silent after a download, an end signal or a result.
    pub setup_grace: Option<DurationForm>,
    /// How long a stage may take.
    pub stage_deadline: Option<DurationForm>,
    /// Who takes part; every eligible child if absent.
    pub target: Option<TargetForm>,
    /// The manager leads the release, stage by stage; if absent, each child is on its own.
    pub rollout: Option<RolloutForm>,
    /// Whether the parent is to release it, where the target reaches beyond this manager's area; `false` if
    /// absent.
    pub forward_up: Option<bool>,
    /// What people and programs note of the release; carried along, never interpreted.
    pub annotations: Option<BTreeMap<String, Scalar>>,
    /// Where the functions run, for queries of an analysis that name `{{ .BuiltInArgs.App.K8s.Namespace }}`.
    pub namespace: Option<Scalar>,
    /// Metrics by name, for `template`. The manager writes those of its own here when a release is submitted; where it
    /// is given, no others are looked up.
    pub analysis_templates: Option<BTreeMap<String, SharedForm>>,
}

/// Who takes part: whoever lies in the area and has all of the labels.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetForm {
    pub area: Option<AreaForm>,
    /// Those of operators win over those that the child reports.
    pub labels: Option<BTreeMap<String, Scalar>>,
    /// Whether a child may run only the functions that it can; `refuse` if absent.
    pub partial: Option<PartialForm>,
}

/// Positions around an area; the last is the first again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RingForm(#[schemars(length(min = 4))] pub Vec<PositionForm>);

/// Longitude and latitude in degrees, in this order.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct PositionForm(pub Vec<f64>);

impl JsonSchema for PositionForm {
    fn schema_name() -> Cow<'static, str> {
        "PositionForm".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Longitude and latitude in degrees, in this order.",
            "type": "array",
            "minItems": 2,
            "prefixItems": [
                {"type": "number", "minimum": -MAX_LONGITUDE, "maximum": MAX_LONGITUDE},
                {"type": "number", "minimum": -MAX_LATITUDE, "maximum": MAX_LATITUDE},
            ],
            "items": {"type": "number"},
        })
    }
}

/// GeoJSON; longitude first, degrees. Across the antimeridian it is two polygons, or has longitudes beyond ±180.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum AreaForm {
    Polygon { coordinates: Vec<RingForm> },
    MultiPolygon { coordinates: Vec<Vec<RingForm>> },
    Feature { geometry: Box<AreaForm> },
    FeatureCollection { features: Vec<AreaForm> },
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartialForm {
    Refuse,
    Allow,
}

/// How the manager leads the release.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolloutForm {
    /// `parallel` if absent.
    pub order: Option<OrderForm>,
    /// Longitude and latitude; `location_sequential` goes on from here, nearest first.
    pub start_at: Option<PositionForm>,
    /// Counts or percentages of agents, cumulative and growing; the last is `100%`.
    #[schemars(length(min = 1, max = 64))]
    pub waves: Option<Vec<WaveForm>>,
    /// Most agents that may fail; 0 if absent.
    pub max_failed: Option<AmountForm>,
    /// Most agents that may begin and never end; 0 if absent.
    pub max_timed_out: Option<AmountForm>,
    /// Most agents that may never begin; `100%` if absent.
    pub max_unreachable: Option<AmountForm>,
    /// Most agents that may be left untested, for want of calls; `100%` if absent.
    pub max_untested: Option<AmountForm>,
    /// How long a stage may go without the calls it needs, once its minimum duration is over; `after 1h` if absent. Then
    /// it ends, and the agent is untested.
    #[schemars(regex(pattern = concat!(r"^\s*(never|after\s+", duration!(), r")\s*$")))]
    pub no_calls: Option<String>,
    /// What agents get whose stages had no calls, when the others have passed; `leave` if absent.
    pub untested: Option<UntestedForm>,
    /// What follows when a limit is passed; `rollback` if absent. With `pause` and `max_failed: 0`, agents that take whole strategies keep
    /// the shares of a stage that has failed, until somebody goes on or rolls back.
    pub on_failure: Option<OnLimitForm>,
    /// So many agents must have succeeded before the next wave opens, before the next location, or, in the other orders,
    /// before the roll-out; 1 if absent. Fewer are enough where fewer have had their turn.
    pub min_succeeded: Option<WaveForm>,
    /// Who has nothing in hand and was not heard of for so long has its turn last; `10s` or more, `60s` if absent.
    pub silent_after: Option<DurationForm>,
    /// Most agents at work at once.
    #[schemars(range(min = 1))]
    pub max_in_progress: Option<u32>,
    /// After a wave, a stage or a location, before the next.
    pub soak: Option<DurationForm>,
    pub approval: Option<ApprovalForm>,
    /// How long an approval is waited for before the release rolls back: more than 0; `6h` if absent.
    pub approval_timeout: Option<DurationForm>,
    /// Whether children that appear after the start take part; `exclude` if absent.
    pub late_joiners: Option<LateJoinersForm>,
    /// Whether whoever acts on the release, and doesn't just look, must say why; `optional` if absent. It holds where the strategy was
    /// submitted: managers below don't ask.
    pub notes: Option<NotesForm>,
    /// It starts then (RFC 3339); at once if absent.
    pub start: Option<String>,
    /// The manager judges the release while it runs.
    pub analysis: Option<AnalysisForm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UntestedForm {
    /// They keep the base version.
    Leave,
    /// They get the new version too.
    Rollout,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderForm {
    /// Every child at once, each through all stages at its own pace.
    Parallel,
    /// One location through all its stages, then the next.
    LocationSequential,
    /// Stage k+1 starts nowhere before stage k has passed everywhere.
    GlobalIncremental,
    /// Growing groups.
    Waves,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLimitForm {
    Rollback,
    Pause,
    Continue,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LateJoinersForm {
    Exclude,
    Include,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotesForm {
    Optional,
    /// Without a note nothing is done.
    Required,
}

/// When somebody must say yes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ApprovalForm {
    Before(ApprovalPointForm),
    Stages(ApprovalStagesForm),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPointForm {
    BeforeEachWave,
    BeforeRollout,
}

/// Before each of these stages.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalStagesForm {
    #[schemars(length(min = 1, max = 64))]
    pub stages: Vec<Scalar>,
}

/// A number of agents that is not 0, at most 4294967295, or a share of all that is not 0 %: `10`, `2.5%`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WaveForm {
    Count(#[schemars(range(min = 1))] u32),
    Share(
        #[schemars(regex(
            pattern = r"^\s*(0*[1-9][0-9]{0,9}|(0{0,6}100(\.0{1,4})?|0{0,7}(0?[1-9]|[1-9][0-9])(\.[0-9]{1,4})?|0{1,9}\.(0{0,3}[1-9]|0{0,2}[1-9][0-9]|0?[1-9][0-9]{2}|[1-9][0-9]{3}))\s*%)\s*$"
        ))]
        String,
    ),
}

/// A number of agents, at most 4294967295, or a share of all: `10`, `2.5%`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AmountForm {
    Count(u32),
    Share(
        #[schemars(regex(
            pattern = r"^\s*(0*[0-9]{1,10}|(0{0,6}100(\.0{1,4})?|0{0,7}[0-9]{1,2}(\.[0-9]{1,4})?)\s*%)\s*$"
        ))]
        String,
    ),
}

/// A function and the two versions that are compared.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionForm {
    /// tinyFaaS takes letters and digits only.
    pub name: Scalar,
    /// Which agents run it; all that can, among those that take part, if absent.
    pub agents: Option<SelectorForm>,
    pub base_version: VersionForm,
    pub new_version: VersionForm,
    /// By what all calls of one user stay with one version, where whoever routes the calls goes about it so; each call by
    /// itself if absent.
    pub sticky: Option<StickyForm>,
    /// Which calls that the new version failed are repeated on the base version, where whoever routes the calls can. If absent,
    /// `failed` for GET, HEAD, PUT, DELETE and OPTIONS, and `refused` for other methods.
    pub retry: Option<RetryForm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryForm {
    /// All that were failed before anything of the answer was passed on; they may be carried out twice.
    Failed,
    /// Only those that the new version can't have seen.
    Refused,
    Never,
}

/// All calls in which this is the same go to one version.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StickyForm {
    /// The value of a cookie of this name.
    Cookie(StickyName),
    /// The value of a header of this name.
    Header(StickyName),
    /// The caller's address.
    Address,
}

/// The name of a cookie or header.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct StickyName(
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"))] pub String,
);

/// A folder of `fns.zip` and the runtime that it needs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionForm {
    /// Relative, with forward slashes, for example `fns/sample_f1`.
    pub path: String,
    /// For example `nodejs` or `python`.
    pub env: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [{"required": ["func_name", "variants"]}, {"required": ["shares"]}]))]
pub struct StageForm {
    /// Unique; not `rollout` and not `rollback`.
    pub name: Scalar,
    #[serde(rename = "type")]
    pub kind: StageKindForm,
    /// A name under `functions`.
    pub func_name: Option<Scalar>,
    /// Both variants of a function; their shares add up to 100.
    #[schemars(length(min = 2, max = 2))]
    pub variants: Option<Vec<VariantForm>>,
    /// A name under `services`; where there is one alone it may be left out.
    pub service: Option<Scalar>,
    /// What each variation of the service gets, in percent with at most two decimals; all add up to 100.
    pub shares: Option<BTreeMap<String, PercentForm>>,
    /// The shares come into force together with those of the stage behind it, which is of another service, and stay while that one lasts; the
    /// stage itself waits for nothing. `false` if absent.
    pub with_next: Option<bool>,
    /// So much of the targets of each variation that gets calls must be healthy, in percent.
    pub healthy_targets: Option<PercentForm>,
    /// All must hold for the new version.
    pub metrics_conditions: Option<Vec<ConditionForm>>,
    pub end_conditions: Option<Vec<EndConditionForm>>,
    pub end_action: EndActionForm,
    /// The manager judges the stage before it goes on.
    pub analysis: Option<AnalysisForm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub enum StageKindForm {
    /// Ends by itself once its end conditions are met.
    #[serde(rename = "A/B")]
    AB,
    /// Waits, after its end conditions are met, until the release manager ends it.
    WaitForSignal,
    /// Shares of a service; ends by itself once its end conditions are met.
    Traffic,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct VariantForm {
    pub name: VariantNameForm,
    /// Share of calls in percent.
    #[schemars(range(min = 0, max = 100))]
    pub traffic_percentage: u8,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VariantNameForm {
    BaseVersion,
    NewVersion,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ConditionForm {
    pub name: MetricForm,
    /// An operator and a number: `"<0.02"` as a share from 0 to 1, `"<=250"` in milliseconds, at most 1000000000.
    #[schemars(regex(
        pattern = r"^\s*(<=|>=|==|<|>|=)\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
    ))]
    pub threshold: String,
    /// Of `responseTime`: `Median` (also if absent), `Minimum`, `Maximum` or a percentile such as `P95`.
    #[schemars(
        length(max = 9),
        regex(pattern = r"^(Median|Minimum|Maximum|P(0*[1-9][0-9]?(\.[0-9]*)?|0*\.0*[1-9][0-9]*))$")
    )]
    pub compare_with: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MetricForm {
    /// Share of failed calls, from 0 to 1.
    ErrorRate,
    /// In milliseconds.
    ResponseTime,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndConditionForm {
    pub name: EndConditionNameForm,
    /// A duration (`10s`) for `minDuration`, a count (`100`) for `minCalls`.
    pub threshold: Scalar,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EndConditionNameForm {
    MinDuration,
    MinCalls,
}

/// `rollout`, `rollback` or the name of a stage.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EndActionForm {
    pub on_success: Scalar,
    /// `rollback` if absent.
    pub on_failure: Option<Scalar>,
}

/// What a roll-back restores: the base version.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackForm {
    pub action: RollbackActionForm,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackActionForm {
    pub function: RollbackFunctionForm,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RollbackFunctionForm {
    BaseVersion,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnConflictForm {
    /// Wait until the other is over.
    Queue,
    /// Don't start.
    Refuse,
    /// Roll the other back, then start.
    Supersede,
}

/// A text; a number or truth value is taken as it is written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    Text(String),
    Number(f64),
    Truth(bool),
}

/// Numbers with units: `500ms`, `10s`, `1m30s`, `2h`, `1d`; each a whole number of milliseconds, and at most 366 days together.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct DurationForm(#[schemars(regex(pattern = concat!(r"^\s*", duration!(), r"\s*$")))] pub String);
