//! What things that happen are called in the trail, and what is said of them.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, ser::Error as _};

use super::{
    step::ToldStep,
    words::{ArrivalForm, ForgettingForm, VariantForm},
};
use crate::json_columns::{AllExcluded, As, CordonForm, EndForm, StandingForm, SummaryForm};
use ::analysis::evidence::Evidence;
use domain::{
    children::{Arrival, Forgetting, Variant},
    release::{
        analysis::{Run, RunStatus},
        state::{End, Release},
        summary::Summary,
    },
    traffic::Share,
};
use model::{Cordon, Exclusion};

/// One thing that happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    ChildArrived {
        child: &'a str,
        #[serde(with = "ArrivalForm")]
        how: Arrival,
    },
    ChildMoved {
        child: &'a str,
    },
    /// Another id has taken its place.
    ChildReplaced {
        child: &'a str,
        by: &'a str,
    },
    /// It calls again, although another seemed to have taken its place.
    ChildBack {
        child: &'a str,
    },
    ChildReported {
        child: &'a str,
        agents: u32,
    },
    /// Two agents seem to have its id: what they say of themselves differs in this, again and again.
    ChildIdShared {
        child: &'a str,
        differs: &'a [String],
    },
    ChildLabelled {
        child: &'a str,
        key: &'a str,
        value: Option<&'a str>,
    },
    ChildCordoned {
        child: &'a str,
        #[serde(with = "CordonForm")]
        cordon: Cordon,
    },
    ChildForgotten {
        child: &'a str,
        #[serde(with = "ForgettingForm")]
        why: Forgetting,
    },
    /// A child has joined: it has a token of its own.
    ChildEnrolled {
        child: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        kind: &'static str,
        /// The name of the token that let it in.
        join_token: &'a str,
    },
    ChildTokenRevoked {
        child: &'a str,
    },
    /// With its limits.
    TenantCreated {
        tenant: &'a str,
        children: u64,
        releases: u64,
        bytes: u64,
    },
    TenantLimited {
        tenant: &'a str,
        children: u64,
        releases: u64,
        bytes: u64,
    },
    TenantDeleted {
        tenant: &'a str,
    },
    ReleaseSubmitted {
        release: &'a str,
        name: &'a str,
    },
    /// From the history: it was over for long enough.
    ReleaseRemoved {
        release: &'a str,
    },
    /// To the parent.
    ReleaseForwarded {
        release: &'a str,
        to: &'a str,
    },
    ReleaseStarted {
        release: &'a str,
        participants: usize,
        #[serde(serialize_with = "AllExcluded::serialize")]
        excluded: &'a [(Exclusion, u32)],
    },
    ReleasePaused {
        release: &'a str,
        reason: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        by_limit: bool,
    },
    ReleaseResumed {
        release: &'a str,
    },
    /// The parent paused it, or goes on with it.
    HeldByParent {
        release: &'a str,
        held: bool,
    },
    /// It is decided above to go on from stages that have failed and keep their shares.
    FailuresAccepted {
        release: &'a str,
    },
    ReleaseAborted {
        release: &'a str,
        reason: &'a str,
    },
    /// A limit was passed, or nobody approved in time.
    ReleaseRolledBack {
        release: &'a str,
        reason: &'a str,
    },
    AnalysisBegan {
        release: &'a str,
        of: String,
    },
    /// A child ended badly, the first one of a release that may yet end well: `middle: agent-3` is one below a manager.
    ChildFailed {
        release: &'a str,
        child: &'a str,
        reason: &'a str,
    },
    /// The data of an analysis were looked at.
    Looked {
        release: &'a str,
        of: String,
        look: u64,
        metrics: Vec<MetricFound<'a>>,
    },
    /// An analysis goes on after an end that decides nothing, for a time or until so many more calls were measured.
    AnalysisExtended {
        release: &'a str,
        of: String,
        for_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        calls: Option<u64>,
    },
    /// An analysis has come to an end; `then` says what follows.
    Verdict {
        release: &'a str,
        of: String,
        verdict: &'static str,
        why: &'a str,
        #[serde(with = "StandingForm")]
        then: RunStatus,
    },
    ChildJoined {
        release: &'a str,
        child: &'a str,
    },
    GateReached {
        release: &'a str,
        gate: String,
    },
    GateLeft {
        release: &'a str,
    },
    GateOpened {
        release: &'a str,
        gate: String,
    },
    ApprovalAsked {
        release: &'a str,
        what: &'a str,
    },
    ReleaseApproved {
        release: &'a str,
    },
    ReleaseRetried {
        release: &'a str,
    },
    /// Of one that is taken back: no router leads calls by it any more, and its agents go back now.
    RoutersBack {
        release: &'a str,
    },
    /// Who is silent has another turn.
    WavesPlanned {
        release: &'a str,
        /// Children whose turn is in another wave now.
        moved: usize,
        /// Agents that come last because they are silent.
        left_out: u32,
    },
    /// It had no participants, and is planned once more.
    ReleaseReplanned {
        release: &'a str,
    },
    StageEnded {
        release: &'a str,
        stage: &'a str,
    },
    /// Nobody begins it any more.
    StageSkipped {
        release: &'a str,
        stage: &'a str,
    },
    /// It is to serve alone in the end, whatever the stages say.
    WinnerChosen {
        release: &'a str,
        variation: &'a str,
    },
    /// The variations get so much of the calls in a stage from now on, in percent.
    SharesChosen {
        release: &'a str,
        stage: &'a str,
        shares: BTreeMap<&'a str, f64>,
    },
    /// Agents without calls get the new version too: the others have passed.
    UntestedRolledOut {
        release: &'a str,
    },
    /// The parent is told so.
    StageReported {
        release: &'a str,
        stage: &'a str,
        status: &'static str,
    },
    /// The parent's next offer goes on with it.
    ReleaseContinued {
        release: &'a str,
        offer: &'a str,
    },
    /// It is taken back, as the parent ordered by this offer.
    UndoReported {
        release: &'a str,
        offer: &'a str,
        unconfirmed: u32,
    },
    ReleaseEnded {
        release: &'a str,
        #[serde(with = "EndForm")]
        end: End,
        unconfirmed: u32,
        /// Why it didn't end well for everybody.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
    Child {
        release: &'a str,
        child: &'a str,
        #[serde(flatten)]
        step: ToldStep<'a>,
    },
    LateResult {
        release: &'a str,
        child: &'a str,
        stage: Option<&'a str>,
        #[serde(serialize_with = "write_summary")]
        summary: &'a Summary,
    },
    /// What releases of services may name.
    Registered {
        kind: &'a str,
        name: &'a str,
    },
    Unregistered {
        kind: &'a str,
        name: &'a str,
    },
    /// What follows, of releases of services alone, in the words of progressive delivery. Stages count from 1.
    #[serde(rename = "ab.created")]
    AbCreated {
        release: &'a str,
        name: &'a str,
    },
    #[serde(rename = "ab.started")]
    AbStarted {
        release: &'a str,
    },
    #[serde(rename = "ab.stage_advanced")]
    AbStageAdvanced {
        release: &'a str,
        stage_number: u32,
    },
    #[serde(rename = "ab.promoted")]
    AbPromoted {
        release: &'a str,
        variation: &'a str,
    },
    #[serde(rename = "ab.rolled_back")]
    AbRolledBack {
        release: &'a str,
        variation: &'a str,
        #[serde(skip_serializing_if = "is_zero")]
        unconfirmed: u32,
    },
    #[serde(rename = "canary.stage_started")]
    CanaryStageStarted {
        release: &'a str,
        stage_number: u32,
        stage: &'a str,
        traffic_percentage: f64,
    },
    #[serde(rename = "canary.stage_passed")]
    CanaryStagePassed {
        release: &'a str,
        stage_number: u32,
        stage: &'a str,
    },
    #[serde(rename = "canary.stage_failed")]
    CanaryStageFailed {
        release: &'a str,
        stage_number: u32,
        stage: &'a str,
    },
    WorkflowStarted {
        workflow: &'a str,
    },
    /// It is to end; it is gone once its nodes say that nothing of it runs.
    WorkflowStopping {
        workflow: &'a str,
    },
    /// How one of several nodes is chosen for its functions; absent: as the configuration says.
    WorkflowStrategySet {
        workflow: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        strategy: Option<&'static str>,
    },
    /// A function or a resource is to run on a node.
    InstancePlaced {
        workflow: &'a str,
        part: &'a str,
        instance: &'a str,
        node: &'a str,
    },
    /// An instance is to end: `silent`, `forgotten`, `failed`, `drained`, `moved`.
    InstanceLeft {
        workflow: &'a str,
        part: &'a str,
        instance: &'a str,
        node: &'a str,
        why: &'a str,
    },
    /// An instance took the place of another one.
    InstanceMoved {
        workflow: &'a str,
        part: &'a str,
        instance: &'a str,
        node: &'a str,
    },
    /// A program outside wanted this of a node, a function or a resource. `refused`: why nothing was done.
    IntentAnswered {
        intent: &'a str,
        value: &'a str,
        refused: Option<&'a str>,
    },
    /// A node can't run an instance.
    InstanceFailed {
        workflow: &'a str,
        part: &'a str,
        instance: &'a str,
        why: &'a str,
    },
    /// Who gets what of a service differs, as it is wanted or as it was read back.
    TrafficShifted {
        router: &'a str,
        service: &'a str,
        generation: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        offer: Option<&'a str>,
        from: SharesTold<'a>,
        to: SharesTold<'a>,
        seen: SharesTold<'a>,
    },
    /// A router did something else than it was seen to do; `then` says what was done about it.
    RouterDrift {
        router: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        service: Option<&'a str>,
        wanted: &'a str,
        seen: &'a str,
        then: &'static str,
    },
    /// A variation has no healthy target any more.
    VariationUnhealthy {
        router: &'a str,
        service: &'a str,
        variation: &'a str,
        targets: u32,
    },
    /// It has one again.
    VariationHealthy {
        router: &'a str,
        service: &'a str,
        variation: &'a str,
        healthy: u32,
        targets: u32,
    },
    /// What is being done with a router, and what stands in the way.
    RouterStood {
        router: &'a str,
        phase: &'static str,
        reached: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        trouble: Option<&'a str>,
    },
    /// An operator asked something of a router.
    RouterOrdered {
        router: &'a str,
        number: u64,
        what: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        service: Option<&'a str>,
    },
    /// It did so, or could not.
    RouterAnswered {
        router: &'a str,
        number: u64,
        what: &'static str,
        ok: bool,
    },
    Deployed {
        release: &'a str,
        child: &'a str,
        function: &'a str,
        #[serde(with = "VariantForm")]
        variant: Variant,
    },
}

/// What events are called that tell what a single child did on its way through a release.
pub(super) const STEPS: [&str; 4] = ["child", "deployed", "late_result", "child_reported"];

impl Event<'_> {
    /// Whether its name is one of [`STEPS`].
    pub(super) const fn is_step(&self) -> bool {
        matches!(
            self,
            Self::Child { .. } | Self::Deployed { .. } | Self::LateResult { .. } | Self::ChildReported { .. }
        )
    }
}

/// Percentages by variation.
#[derive(Debug)]
pub(super) struct SharesTold<'a>(pub &'a [Share]);

impl Serialize for SharesTold<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let percents = self.0.iter().map(|share| (&share.variation, f64::from(share.hundredths) / 100.0));
        serializer.collect_map(percents)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference to the field")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference to the field")]
fn write_summary<S: Serializer>(summary: &&Summary, serializer: S) -> Result<S::Ok, S::Error> {
    As::<_, SummaryForm>::of(*summary).serialize(serializer)
}

/// What a look found of one metric.
#[derive(Debug, Serialize)]
pub(super) struct MetricFound<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    found: &'a str,
    /// Of a comparison: what it rests on, alpha spent among it.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<ByName<'a>>,
}

/// Stored in the order of names.
#[derive(Debug)]
pub(super) struct ByName<'a>(&'a Evidence);

impl Serialize for ByName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::to_value(self.0).map_err(S::Error::custom)?.serialize(serializer)
    }
}

pub(super) fn metrics_found<'a>(release: &'a Release, run: &'a Run) -> Vec<MetricFound<'a>> {
    let metrics = release.block(run.block).map(|(_, analysis)| analysis.metrics.as_slice());
    let found = metrics.unwrap_or_default().iter().zip(&run.metrics);
    let found = found.map(|(metric, found)| MetricFound {
        name: &metric.name,
        verdict: found.verdict.map(domain::release::analysis::name),
        found: &found.sentence,
        evidence: found.evidence.as_deref().map(ByName),
    });
    found.collect()
}

/// What a stage is called; `?` for one of a release that is not known.
pub(super) fn stage_name(release: Option<&Release>, stage: u8) -> &str {
    let stage = release.and_then(|release| release.strategy.stages.get(usize::from(stage)));
    stage.map_or("?", |stage| &stage.name)
}
