//! The audit trail: what happened, in words that an operator can read, stored in the commit in which it happened.

mod analysis;
mod children;
mod lifecycle;
mod members;
mod parent;
mod rollout;
mod stages;

use serde::{Serialize, Serializer, ser::Error as _};

use crate::stored;
use ::analysis::evidence::Evidence;
use heart::{
    children::{Arrival, Change as OfChild, Forgetting, Variant},
    release::{
        analysis::{Run, Standing},
        assignment::Step,
        change::Change,
        state::{End, Release, State},
        summary::Summary,
    },
};
use model::{ChildKey, Cordon, Exclusion, ReleaseKey};
use store::StoreError;

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    Child,
    Timer,
    /// Whoever looks at the data of analyses.
    Analysis,
    /// The parent.
    Parent,
    Operator(String),
}

impl Actor {
    pub fn name(&self) -> String {
        match self {
            Self::Child => "child".to_owned(),
            Self::Timer => "timer".to_owned(),
            Self::Analysis => "analysis".to_owned(),
            Self::Parent => "parent".to_owned(),
            Self::Operator(name) => format!("operator:{name}"),
        }
    }
}

/// One thing that happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    ChildArrived {
        child: &'a str,
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
    ChildLabelled {
        child: &'a str,
        key: &'a str,
        value: Option<&'a str>,
    },
    ChildCordoned {
        child: &'a str,
        cordon: Cordon,
    },
    ChildForgotten {
        child: &'a str,
        why: Forgetting,
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
        then: Standing,
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
        end: End,
        unconfirmed: u32,
    },
    Child {
        release: &'a str,
        child: &'a str,
        #[serde(flatten)]
        step: &'a Step,
    },
    LateResult {
        release: &'a str,
        child: &'a str,
        stage: Option<&'a str>,
        summary: &'a Summary,
    },
    Deployed {
        release: &'a str,
        child: &'a str,
        function: &'a str,
        variant: Variant,
    },
}

/// What a look found of one metric.
#[derive(Debug, Serialize)]
struct MetricFound<'a> {
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
struct ByName<'a>(&'a Evidence);

impl Serialize for ByName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::to_value(self.0).map_err(S::Error::custom)?.serialize(serializer)
    }
}

fn metrics_found<'a>(release: &'a Release, run: &'a Run) -> Vec<MetricFound<'a>> {
    let metrics = release.block(run.block).map(|(_, analysis)| analysis.metrics.as_slice());
    let found = metrics.unwrap_or_default().iter().zip(&run.metrics);
    let found = found.map(|(metric, found)| MetricFound {
        name: &metric.name,
        verdict: found.verdict.map(heart::release::analysis::name),
        found: &found.sentence,
        evidence: found.evidence.as_deref().map(ByName),
    });
    found.collect()
}

/// An event as it is stored: what happened, beside a note of whoever did it.
#[derive(Serialize)]
struct Noted<'a> {
    #[serde(flatten)]
    event: Event<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

/// The events of the changes that one command came to, each with its release. The changes are applied already.
pub(super) fn events(
    state: &State,
    changes: &[Change],
    note: Option<&str>,
) -> Result<Vec<(Option<ReleaseKey>, String)>, StoreError> {
    // A child that was forgotten is no longer in the state; its last change has its id.
    let gone: Vec<(ChildKey, &str)> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Children(OfChild::Forgotten { child, id, .. }) => Some((*child, id.as_str())),
            _ => None,
        })
        .collect();
    let id = |key: ChildKey| {
        let known = state.children.get(key).map(|child| child.id.as_str());
        known.or_else(|| gone.iter().find(|(child, _)| *child == key).map(|(_, id)| *id)).unwrap_or("?")
    };
    changes
        .iter()
        .filter_map(|change| {
            let child_id = change.child().map_or("?", id);
            let event = event(state, change, child_id)?;
            Some(stored::json(&Noted { event, note }).map(|text| (change.release(), text)))
        })
        .collect()
}

/// What a change is called in the trail; `None` for what is bookkeeping.
fn event<'a>(state: &'a State, change: &'a Change, child_id: &'a str) -> Option<Event<'a>> {
    let release = change.release().and_then(|key| state.find(key));
    let release_id = release.map_or("?", |release| release.id.as_str());
    match change {
        Change::Children(change) => children::event(change, state, child_id),
        Change::Lifecycle(change) => lifecycle::event(change, release_id),
        Change::Parent(change) => parent::event(change, release, release_id),
        Change::Members(change) => members::event(change, child_id, release, release_id),
        Change::Rollout(change) => rollout::event(change, release, release_id),
        Change::Analysis(change) => Some(analysis::event(change, release, release_id)),
        Change::Stages(change) => stages::event(change, release, release_id),
    }
}

/// What a stage is called; `?` for one of a release that is not known.
fn stage_name(release: Option<&Release>, stage: u8) -> &str {
    let stage = release.and_then(|release| release.strategy.stages.get(usize::from(stage)));
    stage.map_or("?", |stage| &stage.name)
}
