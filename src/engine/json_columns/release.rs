//! `releases.detail`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    assignment::{StageSetForm, no_stages},
    form::{Boxed, Each, Maybe, Shared, Version, forms},
    parts::{AgentsForm, AllExcluded, NowForm, PieceForm, PlannedManagerForm},
    pause::PauseForm,
};
use domain::release::{
    assignment::{Dated, ReleaseEvent, ReleaseMs, StageSet},
    ending::{Cause, Ending},
    gate::{Gate, Reached, RolloutProgress},
    lifecycle::Adoption,
    manager::{Agents, Planned},
    offer::Unit,
    parent::{LastReport, ParentOffer},
    pause::Pause,
    previous_run::{Time, Timed},
    state::{Bad, Counts, End, Overtakes, ReleaseClock, ReleaseState, Revision},
};
use model::{ChildKey, Exclusion, Now, ReleaseKey, StageStatus};

#[derive(Debug, Serialize, Deserialize)]
pub struct ReleaseDetail {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    pub version: Version<1>,
    #[serde(with = "StateForm")]
    pub state: ReleaseState,
    #[serde(with = "RevisionForm")]
    pub revision: Revision,
    pub acted: u32,
    #[serde(with = "ClockForm")]
    pub clock: ReleaseClock,
    #[serde(with = "Each::<DatedForm>")]
    pub facts: Vec<Dated>,
    #[serde(with = "NowForm")]
    pub submitted: Now,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferred: bool,
    /// See [`Counts::are_back`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_back: bool,
    #[serde(default, skip_serializing_if = "Overtakes::is_empty", with = "OvertakesForm")]
    pub overtakes: Overtakes,
    #[serde(default, with = "Maybe::<NowForm>")]
    pub started: Option<Now>,
    pub started_at: ReleaseMs,
    #[serde(default, with = "Maybe::<NowForm>")]
    pub ended: Option<Now>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<Boxed<EndingForm>>")]
    pub ending: Option<Box<Ending>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_fault: Option<ChildKey>,
    pub attempt: u16,
    pub participants: u32,
    #[serde(with = "AllExcluded")]
    pub excluded: Vec<(Exclusion, u32)>,
    #[serde(with = "CountsForm")]
    pub counts: Counts,
    #[serde(with = "StandForm")]
    pub stand: RolloutProgress,
    #[serde(with = "BadForm")]
    pub accepted: Bad,
    /// Stages that have failed and kept their shares: one bit a stage.
    #[serde(default, skip_serializing_if = "no_stages", with = "StageSetForm")]
    pub failed: StageSet,
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "Each::<TimedForm>")]
    pub times: Vec<Timed>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "upstream",
        with = "Maybe::<ParentOfferForm>"
    )]
    pub parent: Option<ParentOffer>,
    #[serde(default, skip_serializing_if = "is_none_left")]
    pub left_out: u32,
    /// Children that are managers themselves: few.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "Each::<PlannedManagerForm>")]
    pub managers: Vec<(ChildKey, Planned)>,
    /// Where there are any, what became of all agents; memory has it from the children.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<AgentsForm>")]
    pub agents: Option<Agents>,
    /// Of each function what its folders hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<[u64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<Shared<AdoptionForm>>")]
    pub adopts: Option<Arc<Adoption>>,
}

/// `precedents.times`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Times(#[serde(with = "Each::<TimeForm>")] pub Vec<Time>);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Revision")]
struct RevisionForm {
    number: u32,
    commit: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ReleaseState", tag = "state")]
enum StateForm {
    Planned,
    Running,
    Paused(#[serde(with = "PauseForm")] Pause),
    AwaitingApproval {
        what: String,
        since: ReleaseMs,
    },
    RollingBack {
        reason: String,
        #[serde(with = "EndForm")]
        end: End,
    },
    Over {
        #[serde(with = "EndForm")]
        end: End,
        unconfirmed: u32,
    },
}

/// Told in the audit trail as well.
#[derive(Serialize, Deserialize)]
#[serde(remote = "End")]
pub(crate) enum EndForm {
    Done,
    DoneWithFailures,
    RolledBack,
    Aborted,
    NoParticipants,
    Untested,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ReleaseClock")]
struct ClockForm {
    paused_ms: u64,
    paused_since: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Dated")]
struct DatedForm {
    #[serde(flatten, with = "FactForm")]
    fact: ReleaseEvent,
    at: ReleaseMs,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ReleaseEvent", rename_all = "snake_case", tag = "fact")]
enum FactForm {
    Resumed {
        level: u8,
    },
    Opened {
        level: u8,
    },
    FailuresAccepted {
        level: u8,
    },
    StageEnded {
        stage: u8,
    },
    UntestedRolledOut,
    StageSkipped {
        stage: u8,
        #[serde(with = "PieceForm")]
        then: Unit,
    },
    WinnerChosen {
        variation: u8,
    },
    SharesChosen {
        stage: u8,
        new: u16,
    },
    Aborted,
    RoutersBack,
    Retried,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(remote = "Overtakes", default)]
struct OvertakesForm {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    overtook: Vec<ReleaseKey>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    overtaken_by: Vec<ReleaseKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Cause", rename_all = "snake_case")]
enum CauseForm {
    Operator,
    Superseded,
    Limit,
    Approval,
    Analysis,
    #[serde(rename = "above")]
    Parent,
    Disowned,
    Children,
    Health,
    Unstarted,
    Kept,
    NoAnswer,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Ending")]
pub(crate) struct EndingForm {
    #[serde(with = "CauseForm")]
    cause: Cause,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    child: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stage: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numbers: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(remote = "Counts", default)]
struct CountsForm {
    no: u32,
    todo: u32,
    doing: u32,
    done: u32,
    failed: u32,
    succeeded: u32,
    outcome_failed: u32,
    timed_out: u32,
    unreachable: u32,
    lost: u32,
    undone: u32,
    untested: u32,
    excluded: u32,
    undoing: u32,
    undo_overdue: u32,
    awaited: u32,
    #[serde(skip)]
    awaited_now: u32,
    #[serde(skip)]
    in_play: u32,
    #[serde(skip)]
    behind: u32,
    #[serde(skip)]
    trailing: u32,
    #[serde(skip)]
    in_progress: u32,
    #[serde(skip)]
    left_untested: u32,
    #[serde(skip)]
    opened: u32,
    #[serde(skip)]
    agents: Agents,
    #[serde(skip)]
    routers: Agents,
    #[serde(skip)]
    routers_undoing: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RolloutProgress")]
struct StandForm {
    waves: u32,
    opened: ReleaseMs,
    level: u8,
    #[serde(default, with = "Maybe::<ReachedForm>")]
    reached: Option<Reached>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    waived: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Reached")]
struct ReachedForm {
    #[serde(with = "GateForm")]
    gate: Gate,
    at: ReleaseMs,
    approved: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Gate", rename_all = "snake_case")]
enum GateForm {
    Wave(u32),
    Level(u8),
}

#[derive(Default, Serialize, Deserialize)]
#[serde(remote = "Bad", default)]
struct BadForm {
    failed: u32,
    timed_out: u32,
    unreachable: u32,
    untested: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Timed")]
struct TimedForm {
    stage: Option<u8>,
    number: u32,
    began_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_ms: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Time")]
struct TimeForm {
    stage: Option<String>,
    number: u32,
    began_ms: i64,
    ended_ms: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ParentOffer")]
struct ParentOfferForm {
    offer: String,
    #[serde(default)]
    reported: u8,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    undos: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    held: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<SaidForm>")]
    said: Option<LastReport>,
    #[serde(default, skip_serializing_if = "is_none_left")]
    failures: u32,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<Boxed<EndingForm>>")]
    failed: Option<Box<Ending>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "LastReport")]
struct SaidForm {
    stage: u8,
    status: StageStatus,
    #[serde(with = "AgentsForm")]
    agents: Agents,
    #[serde(default)]
    recounts: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Adoption")]
struct AdoptionForm {
    kind: String,
    name: String,
    id: String,
    detail: String,
}

forms! {
    DatedForm = Dated,
    EndingForm = Ending,
    ReachedForm = Reached,
    TimedForm = Timed,
    TimeForm = Time,
    ParentOfferForm = ParentOffer,
    SaidForm = LastReport,
    AdoptionForm = Adoption,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_none_left(number: &u32) -> bool {
    *number == 0
}
