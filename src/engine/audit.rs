//! The audit trail: what happened, in words that an operator can read, stored in the commit in which it happened.

use serde::{Serialize, Serializer, ser::Error as _};

use crate::stored;
use ::analysis::evidence::Evidence;
use heart::{
    children::{self, Arrival, Forgetting, Variant},
    release::{
        analysis::{self, Run, Standing},
        assignment::Step,
        change::Change,
        gate::{ALL_OPEN, Gate},
        lifecycle, members, rollout, stages,
        state::{End, Release, State},
        summary::Summary,
        upstream,
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
    /// The manager above this one.
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
    /// To the manager above.
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
    /// The manager above paused it, or goes on with it.
    HeldAbove {
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
        verdict: found.verdict.map(analysis::name),
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
            Change::Children(children::Change::Forgotten { child, id, .. }) => Some((*child, id.as_str())),
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
    Some(match change {
        Change::Children(children::Change::Arrived { arrival, .. }) => {
            Event::ChildArrived { child: child_id, how: *arrival }
        }
        Change::Children(children::Change::Moved { .. }) => Event::ChildMoved { child: child_id },
        Change::Children(children::Change::Replaced { by, .. }) => {
            let by = state.children.get(*by).map_or("?", |child| child.id.as_str());
            Event::ChildReplaced { child: child_id, by }
        }
        Change::Children(children::Change::Back { .. }) => Event::ChildBack { child: child_id },
        Change::Children(children::Change::Reported { agents, .. }) => {
            Event::ChildReported { child: child_id, agents: *agents }
        }
        Change::Children(children::Change::Labelled { key, value, .. }) => {
            Event::ChildLabelled { child: child_id, key, value: value.as_deref() }
        }
        Change::Children(children::Change::Cordoned { cordon, .. }) => {
            Event::ChildCordoned { child: child_id, cordon: *cordon }
        }
        Change::Children(children::Change::Forgotten { id, why, .. }) => {
            Event::ChildForgotten { child: id.as_str(), why: *why }
        }
        Change::Lifecycle(lifecycle::Change::Submitted { submitted, .. }) => {
            Event::ReleaseSubmitted { release: submitted.id.as_str(), name: &submitted.strategy.name }
        }
        Change::Lifecycle(lifecycle::Change::Removed { id, .. }) => {
            Event::ReleaseRemoved { release: id.as_str() }
        }
        Change::Upstream(upstream::Change::Forwarded { id, to }) => {
            Event::ReleaseForwarded { release: id, to }
        }
        Change::Lifecycle(lifecycle::Change::Started { membership, .. }) => Event::ReleaseStarted {
            release: release_id,
            participants: membership.members.len(),
            excluded: &membership.excluded,
        },
        Change::Lifecycle(lifecycle::Change::Paused { pause, .. }) => {
            Event::ReleasePaused { release: release_id, reason: &pause.reason, by_limit: pause.by.is_limit() }
        }
        Change::Lifecycle(lifecycle::Change::Resumed { .. }) => Event::ReleaseResumed { release: release_id },
        Change::Lifecycle(lifecycle::Change::Aborted { why, end: End::RolledBack, .. }) => {
            Event::ReleaseRolledBack { release: release_id, reason: &why.text }
        }
        Change::Lifecycle(lifecycle::Change::Aborted { why, .. }) => {
            Event::ReleaseAborted { release: release_id, reason: &why.text }
        }
        Change::Upstream(upstream::Change::Held { held, .. }) => {
            Event::HeldAbove { release: release_id, held: *held }
        }
        Change::Members(members::Change::Joined { .. }) => {
            Event::ChildJoined { release: release_id, child: child_id }
        }
        Change::Rollout(rollout::Change::GateReached { gate, .. }) => {
            let gate = release.map_or_else(String::new, |release| release.gate_name(*gate));
            Event::GateReached { release: release_id, gate }
        }
        Change::Rollout(rollout::Change::GateLeft { .. }) => Event::GateLeft { release: release_id },
        Change::Rollout(rollout::Change::ApprovalAsked { what, .. }) => {
            Event::ApprovalAsked { release: release_id, what }
        }
        Change::Rollout(rollout::Change::Approved { .. }) => Event::ReleaseApproved { release: release_id },
        Change::Rollout(rollout::Change::WavesOpened { to, .. }) => {
            let gate = release.map_or_else(String::new, |release| release.gate_name(Gate::Wave(*to)));
            Event::GateOpened { release: release_id, gate }
        }
        Change::Rollout(rollout::Change::LevelOpened { level, .. }) => {
            let below = release.map_or_else(String::new, |release| match *level {
                ALL_OPEN => "everything".to_owned(),
                level => format!("everything before {}", release.gate_name(Gate::Level(level))),
            });
            Event::GateOpened { release: release_id, gate: below }
        }
        Change::Analysis(analysis::Change::Began { block, .. }) => Event::AnalysisBegan {
            release: release_id,
            of: release.map_or_else(String::new, |release| release.block_name(*block)),
        },
        Change::Analysis(analysis::Change::Looked { run, .. }) => Event::Looked {
            release: release_id,
            of: release.map_or_else(String::new, |release| release.block_name(run.block)),
            look: run.looks,
            metrics: release.map_or_else(Vec::new, |release| metrics_found(release, run)),
        },
        Change::Analysis(analysis::Change::Extended { block, extended, .. }) => Event::AnalysisExtended {
            release: release_id,
            of: release.map_or_else(String::new, |release| release.block_name(*block)),
            for_ms: extended.for_ms,
            calls: extended.calls,
        },
        Change::Analysis(analysis::Change::VerdictGiven { block, verdict, why, standing, .. }) => {
            Event::Verdict {
                release: release_id,
                of: release.map_or_else(String::new, |release| release.block_name(*block)),
                verdict: analysis::name(*verdict),
                why,
                then: *standing,
            }
        }
        Change::Rollout(rollout::Change::WavesPlanned { moved, left_out, .. }) => {
            Event::WavesPlanned { release: release_id, moved: moved.len(), left_out: *left_out }
        }
        Change::Lifecycle(lifecycle::Change::Replanned { .. }) => {
            Event::ReleaseReplanned { release: release_id }
        }
        Change::Lifecycle(lifecycle::Change::Retried { .. }) => Event::ReleaseRetried { release: release_id },
        Change::Stages(stages::Change::Ended { stage, .. }) => {
            let stage = release.and_then(|r| r.strategy.stages.get(usize::from(*stage)));
            Event::StageEnded { release: release_id, stage: stage.map_or("?", |stage| &stage.name) }
        }
        Change::Stages(stages::Change::UntestedRolledOut { .. }) => {
            Event::UntestedRolledOut { release: release_id }
        }
        Change::Stages(stages::Change::Skipped { stage, .. }) => {
            let stage = release.and_then(|r| r.strategy.stages.get(usize::from(*stage)));
            Event::StageSkipped { release: release_id, stage: stage.map_or("?", |stage| &stage.name) }
        }
        Change::Upstream(upstream::Change::StageReported { stage, status, .. }) => {
            let stage = release.and_then(|r| r.strategy.stages.get(usize::from(*stage)));
            let stage = stage.map_or("?", |stage| &stage.name);
            Event::StageReported { release: release_id, stage, status: status.name() }
        }
        Change::Upstream(upstream::Change::Continued { offer, .. }) => {
            Event::ReleaseContinued { release: release_id, offer }
        }
        Change::Upstream(upstream::Change::UndoReported { offer, unconfirmed, .. }) => {
            Event::UndoReported { release: release_id, offer, unconfirmed: *unconfirmed }
        }
        Change::Lifecycle(lifecycle::Change::Ended { end, unconfirmed, .. }) => {
            Event::ReleaseEnded { release: release_id, end: *end, unconfirmed: *unconfirmed }
        }
        Change::Members(members::Change::Stepped { step, .. }) => {
            Event::Child { release: release_id, child: child_id, step }
        }
        Change::Members(members::Change::LateKept { stage, summary, .. }) => {
            Event::LateResult { release: release_id, child: child_id, stage: stage.as_deref(), summary }
        }
        Change::Members(members::Change::Deployed { function, variant, .. }) => {
            let function = release.and_then(|r| r.strategy.functions.get(*function));
            let function = function.map_or("?", |function| &function.name);
            Event::Deployed { release: release_id, child: child_id, function, variant: *variant }
        }
        Change::Children(
            children::Change::CalledAgain { .. }
            | children::Change::Seen { .. }
            | children::Change::CalledFrom { .. }
            | children::Change::Proven { .. },
        )
        | Change::Upstream(upstream::Change::UndoAwaited { .. } | upstream::Change::Recounted { .. })
        | Change::Lifecycle(lifecycle::Change::FaultNoted { .. })
        | Change::Rollout(rollout::Change::TurnoutAsked { .. })
        | Change::Members(members::Change::DeadlinesSeen { .. } | members::Change::Numbers { .. })
        | Change::Stages(stages::Change::Timed { .. }) => return None,
    })
}
