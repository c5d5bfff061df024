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

/// A release strategy: what changes, and the stages of the live test that decides about it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Release strategy", extend("anyOf" = [
    {"required": ["functions", "stages"]}, {"required": ["services", "stages"]}, {"required": ["services", "strategy"]},
]))]
pub struct StrategyForm {
    /// Names the release in every call: letters, digits and `. _ ~ -`, at most 48 of them.
    #[schemars(extend("examples" = ["sieve-2"]))]
    pub id: Scalar,
    /// What people call it.
    #[schemars(extend("examples" = ["a faster sieve"]))]
    pub name: Scalar,
    /// Free text such as `patch`, `minor` or `major`. It is stored and never interpreted.
    #[serde(rename = "type")]
    #[schemars(extend("examples" = ["patch"], "x-default" = "none"))]
    pub kind: Option<Scalar>,
    /// Functions that change, at agents. With `services` next to them the release is a hybrid: agents go first, and routers begin
    /// when the agents are done.
    #[schemars(length(min = 1, max = 64))]
    pub functions: Option<Vec<FunctionForm>>,
    /// Services behind routers that share their calls among variations.
    #[schemars(length(min = 1, max = 64))]
    pub services: Option<Vec<ServiceForm>>,
    /// Every child starts with the first stage; in a hybrid, routers start with the first stage of a service. Write either these or
    /// `strategy`; in a hybrid, those of the functions, and `strategy` for the service.
    #[schemars(length(min = 1, max = 64))]
    pub stages: Option<Vec<StageForm>>,
    /// How the share of the second variation of the only service grows, instead of `stages`: the name of a built-in strategy or of
    /// one that the manager has, or one that is written out.
    #[schemars(extend("examples" = ["canary-10-25-50-100"], "x-default" = "none"))]
    pub strategy: Option<RolloutStrategyForm>,
    /// What a rollback restores. It is always the base version.
    pub rollback: Option<RollbackForm>,
    /// What happens when another unfinished release names one of the same functions or services.
    #[schemars(extend("default" = "queue"))]
    pub on_conflict: Option<OnConflictForm>,
    /// How long an offer may wait until the child fetches it.
    #[schemars(extend("examples" = ["5m"], "x-default" = "the manager's `deadlines.offer`"))]
    pub offer_deadline: Option<DurationForm>,
    /// How long a child may be silent after a download, an end signal or a result.
    #[schemars(extend("examples" = ["5m"], "x-default" = "the manager's `deadlines.setup_grace`"))]
    pub setup_grace: Option<DurationForm>,
    /// How long a stage may take.
    #[schemars(extend("examples" = ["2h"], "x-default" = "the manager's `deadlines.stage`"))]
    pub stage_deadline: Option<DurationForm>,
    /// Which children take part.
    #[schemars(extend("x-default" = "all that can"))]
    pub target: Option<TargetForm>,
    /// Has the manager lead the release, stage by stage.
    #[schemars(extend("x-default" = "each child goes at its own pace"))]
    pub rollout: Option<RolloutForm>,
    /// Whether the parent releases it where the target reaches beyond this manager's area.
    #[schemars(extend("default" = false))]
    pub forward_up: Option<bool>,
    /// What people and programs note of the release. It is stored and never interpreted.
    #[schemars(extend("examples" = [{"team": "shop"}], "x-default" = "none"))]
    pub annotations: Option<BTreeMap<String, Scalar>>,
    /// The Kubernetes namespace of the functions, for queries of an analysis that name `{{ .BuiltInArgs.App.K8s.Namespace }}`.
    #[schemars(extend("examples" = ["shop"], "x-default" = "none"))]
    pub namespace: Option<Scalar>,
    /// Metrics by name, for `template`. The manager adds its own here when a release is submitted; where this key is given, no others
    /// are looked up.
    pub analysis_templates: Option<BTreeMap<String, SharedForm>>,
}

/// Which children take part: those that fit all that is given here. Give at least one key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetForm {
    /// Where they are: the interiors of both areas must meet, and touching is not enough.
    #[schemars(extend(
        "examples" = [{"type": "Polygon", "coordinates": [[[13.1, 52.3], [13.8, 52.3], [13.8, 52.7], [13.1, 52.3]]]}],
        "x-default" = "everywhere"
    ))]
    pub area: Option<AreaForm>,
    /// Labels that they have, all of them. A label that an operator set counts instead of the one that the child reports.
    #[schemars(extend("examples" = [{"tier": "edge"}], "x-default" = "any"))]
    pub labels: Option<BTreeMap<String, Scalar>>,
    /// Whether a child that lacks a runtime may run only the functions that it can.
    #[schemars(extend("default" = "refuse"))]
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
            "title": "position",
            "description": "Longitude and latitude in degrees, in this order.",
            "examples": [[13.4, 52.52]],
            "x-unit": "degrees",
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

/// GeoJSON of the type `Polygon`, `MultiPolygon`, `Feature` or `FeatureCollection`: longitude first, in degrees. Across the antimeridian
/// it is two polygons, or has longitudes beyond ±180.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type")]
#[schemars(title = "GeoJSON", extend("x-unit" = "degrees"))]
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
    /// In which order children have their turn.
    #[schemars(extend("x-default" = "`parallel`; of services `global_incremental`"))]
    pub order: Option<OrderForm>,
    /// Where `location_sequential` starts; it goes on from there, nearest first. Needed with that order, and with no other.
    #[schemars(extend("x-default" = "none"))]
    pub start_at: Option<PositionForm>,
    /// The growing groups of `waves`: cumulative, and the last is `100%`. Needed with that order, and with no other.
    #[schemars(
        length(min = 1, max = 64),
        extend("examples" = [[1, "10%", "100%"]], "x-default" = "none", "x-unit" = "agents or %")
    )]
    pub waves: Option<Vec<WaveForm>>,
    /// Agents that may fail. With more, the limit is broken, and `on_failure` follows.
    #[schemars(extend("examples" = ["5%"], "default" = 0))]
    pub max_failed: Option<AmountForm>,
    /// Agents that may begin and never end. With more, the limit is broken.
    #[schemars(extend("examples" = ["5%"], "default" = 0))]
    pub max_timed_out: Option<AmountForm>,
    /// Agents that may never begin. With more, the limit is broken.
    #[schemars(extend("examples" = ["10%"], "default" = "100%"))]
    pub max_unreachable: Option<AmountForm>,
    /// Agents that may stay untested because they get no calls. With more, the limit is broken.
    #[schemars(extend("examples" = ["50%"], "default" = "100%"))]
    pub max_untested: Option<AmountForm>,
    /// How long a stage may go without the calls that it needs, once its minimum duration is over: `after` and a duration, or `never`.
    /// Then the stage ends, and the agent is untested.
    #[schemars(
        regex(pattern = concat!(r"^\s*(never|after\s+", duration!(), r")\s*$")),
        extend("examples" = ["after 10m"], "default" = "after 1h", "x-unit" = "ms, s, m, h, d")
    )]
    pub no_calls: Option<String>,
    /// What untested agents get when the others have passed.
    #[schemars(extend("default" = "leave"))]
    pub untested: Option<UntestedForm>,
    /// What follows when a limit is broken. With `pause` and `max_failed: 0`, agents that take whole strategies keep the shares of a
    /// stage that has failed until somebody resumes the release or rolls it back.
    #[schemars(extend("default" = "rollback"))]
    pub on_failure: Option<OnLimitForm>,
    /// Agents that must have succeeded before the next wave opens, before the next location, or, in the other orders, before the
    /// rollout. Fewer are enough where fewer have had their turn.
    #[schemars(extend("examples" = ["50%"], "default" = 1))]
    pub min_succeeded: Option<WaveForm>,
    /// Agents silent for this long go last, if they have nothing in hand: `10s` or more.
    #[schemars(extend("examples" = ["5m"], "default" = "60s"))]
    pub silent_after: Option<DurationForm>,
    /// Agents that may be at work at once.
    #[schemars(
        range(min = 1),
        extend("examples" = [500], "x-default" = "all", "x-unit" = "agents")
    )]
    pub max_in_progress: Option<u32>,
    /// How long to wait after a wave, a stage or a location, before the next one. Not with the order `parallel`.
    #[schemars(extend("examples" = ["10m"], "default" = "0s"))]
    pub soak: Option<DurationForm>,
    /// When somebody must approve.
    #[schemars(extend("examples" = ["before_rollout"], "x-default" = "never"))]
    pub approval: Option<ApprovalForm>,
    /// How long an approval may take before the release rolls back: more than 0. Needs `approval`.
    #[schemars(extend("examples" = ["2h"], "default" = "6h"))]
    pub approval_timeout: Option<DurationForm>,
    /// Whether children that appear after the start take part.
    #[schemars(extend("default" = "exclude"))]
    pub late_joiners: Option<LateJoinersForm>,
    /// Whether people who act on the release must say why. It holds where the strategy was submitted: managers below don't ask.
    #[schemars(extend("default" = "optional"))]
    pub notes: Option<NotesForm>,
    /// When the release starts (RFC 3339).
    #[schemars(extend("examples" = ["2030-03-01T06:00:00Z"], "x-default" = "at once"))]
    pub start: Option<String>,
    /// Judges the whole release by measurements while it runs.
    pub analysis: Option<AnalysisForm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UntestedForm {
    /// They keep the base version.
    Leave,
    /// They get the new version too. Not for services.
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
    /// A note may be left out.
    Optional,
    /// Without a note nothing is done.
    Required,
}

/// When somebody must approve.
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

/// Somebody must approve before each of these stages.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalStagesForm {
    /// Names of stages.
    #[schemars(length(min = 1, max = 64), extend("examples" = [["Canary 50 Percent"]]))]
    pub stages: Vec<Scalar>,
}

/// A number of agents from 1 to 4294967295, or a share of all above 0 %: `10`, `2.5%`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "amount above 0", extend("examples" = ["10%"], "x-unit" = "agents or %"))]
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
#[schemars(title = "amount", extend("examples" = ["5%"], "x-unit" = "agents or %"))]
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
    /// What callers name it by. tinyFaaS takes letters and digits only.
    #[schemars(extend("examples" = ["sieve"]))]
    pub name: Scalar,
    /// Which of the agents that take part run it.
    #[schemars(extend("x-default" = "all that can"))]
    pub agents: Option<SelectorForm>,
    /// What serves now.
    pub base_version: VersionForm,
    /// What is released.
    pub new_version: VersionForm,
    /// What keeps all calls of one user with one version, where the router can.
    #[schemars(extend("x-default" = "each call by itself"))]
    pub sticky: Option<StickyForm>,
    /// Which calls that the new version failed are repeated on the base version, where the router can.
    #[schemars(extend("x-default" = "`failed` for GET, HEAD, PUT, DELETE and OPTIONS, else `refused`"))]
    pub retry: Option<RetryForm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryForm {
    /// All that failed before anything of the answer was passed on; they may be carried out twice.
    Failed,
    /// Only those that the new version can't have seen.
    Refused,
    /// None.
    Never,
}

/// All calls in which this is the same go to one version: `{cookie: NAME}`, `{header: NAME}` or `address`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(title = "cookie, header or address", extend("examples" = [{"cookie": "session"}]))]
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
    /// The folder: relative, with forward slashes.
    #[schemars(extend("examples" = ["fns/sieve_new"]))]
    pub path: String,
    /// The runtime, such as `nodejs` or `python`.
    #[schemars(extend("examples" = ["nodejs"]))]
    pub env: String,
}

/// What a stage tests, when it ends, and what follows.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [{"required": ["func_name", "variants"]}, {"required": ["shares"]}]))]
pub struct StageForm {
    /// Unique; not `rollout` and not `rollback`.
    #[schemars(extend("examples" = ["Canary 5 Percent"]))]
    pub name: Scalar,
    /// How it ends.
    #[serde(rename = "type")]
    pub kind: StageKindForm,
    /// A name under `functions`. Needed in a stage of a function.
    #[schemars(extend("examples" = ["sieve"], "x-default" = "none"))]
    pub func_name: Option<Scalar>,
    /// What both versions of the function get; it adds up to 100. Needed in a stage of a function.
    #[schemars(length(min = 2, max = 2))]
    pub variants: Option<Vec<VariantForm>>,
    /// A name under `services`.
    #[schemars(extend("examples" = ["checkout"], "x-default" = "the only one"))]
    pub service: Option<Scalar>,
    /// What each variation of the service gets, with at most two decimals; all add up to 100. Needed in a stage of a service.
    #[schemars(extend("examples" = [{"A": 90, "B": 10}], "x-default" = "none", "x-unit" = "%"))]
    pub shares: Option<BTreeMap<String, PercentForm>>,
    /// Whether the shares come into force together with those of the next stage, which is of another service, and stay as long as that
    /// one lasts. The stage itself waits for nothing.
    #[schemars(extend("default" = false))]
    pub with_next: Option<bool>,
    /// Targets of each variation with calls that must be healthy.
    #[schemars(extend("examples" = [95], "x-default" = "none"))]
    pub healthy_targets: Option<PercentForm>,
    /// Limits of the new version, all of which must hold.
    pub metrics_conditions: Option<Vec<ConditionForm>>,
    /// What the stage needs before it ends.
    pub end_conditions: Option<Vec<EndConditionForm>>,
    /// What follows the stage.
    pub end_action: EndActionForm,
    /// Judges the stage by measurements before it ends.
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

/// One version of the function in a stage.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct VariantForm {
    /// Which version.
    pub name: VariantNameForm,
    /// Its share of calls.
    #[schemars(range(min = 0, max = 100), extend("examples" = [5], "x-unit" = "%"))]
    pub traffic_percentage: u8,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VariantNameForm {
    BaseVersion,
    NewVersion,
}

/// A limit of the new version.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ConditionForm {
    /// What is measured.
    pub name: MetricForm,
    /// An operator and a number: `"<0.02"` or `"<2%"` of calls, `"<=250"` (milliseconds), `"<=250ms"` or `"<1.5s"`, at most 1000000000 ms.
    #[schemars(
        regex(pattern = r"^\s*(<=|>=|==|<|>|=)\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*(%|ms|s)?\s*$"),
        extend("examples" = ["<0.02"], "x-unit" = "share from 0 to 1 or %; ms or s")
    )]
    pub threshold: String,
    /// Which statistic of `responseTime`: `Median`, `Minimum`, `Maximum` or a percentile such as `P95`.
    #[schemars(
        length(max = 9),
        regex(pattern = r"^(Median|Minimum|Maximum|P(0*[1-9][0-9]?(\.[0-9]*)?|0*\.0*[1-9][0-9]*))$"),
        extend("examples" = ["P95"], "default" = "Median")
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

/// What a stage needs before it ends.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndConditionForm {
    /// What is counted.
    pub name: EndConditionNameForm,
    /// A duration such as `10s` for `minDuration`, a count such as `100` for `minCalls`.
    #[schemars(extend("examples" = [100], "x-unit" = "ms, s, m, h, d; or calls"))]
    pub threshold: Scalar,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EndConditionNameForm {
    MinDuration,
    MinCalls,
}

/// What follows a stage: `rollout`, `rollback` or the name of a stage.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EndActionForm {
    /// When all conditions hold.
    #[schemars(extend("examples" = ["rollout"]))]
    pub on_success: Scalar,
    /// When one doesn't.
    #[schemars(extend("examples" = ["rollback"], "default" = "rollback"))]
    pub on_failure: Option<Scalar>,
}

/// What a rollback restores: the base version.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackForm {
    /// The only action that there is.
    pub action: RollbackActionForm,
}

/// The action of a rollback.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackActionForm {
    /// The only version that a rollback restores.
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

/// A text. A number or truth value is taken as it is written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "text")]
pub enum Scalar {
    Text(String),
    Number(f64),
    Truth(bool),
}

/// Numbers with units: `500ms`, `10s`, `1m30s`, `2h`, `1d`; each a whole number of milliseconds, and at most 366 days together.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(title = "duration", extend("examples" = ["10s"], "x-unit" = "ms, s, m, h, d"))]
pub struct DurationForm(#[schemars(regex(pattern = concat!(r"^\s*", duration!(), r"\s*$")))] pub String);
