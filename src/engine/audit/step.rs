//! What each step of a child in a release is called in the trail, and what is said of it.

use serde::{Deserialize, Serialize, Serializer};

use crate::json_columns::{AgentsForm, FunctionSetForm, Maybe, PieceForm, SlotForm};
use domain::release::{
    assignment::{FunctionSet, Shows, Step, StepIndex},
    manager::Agents,
    offer::Unit,
};
use model::{ChildKey, ChildStatus, Outcome, StageStatus};

/// A step as it is told.
#[derive(Debug)]
pub(super) struct ToldStep<'a>(pub &'a Step);

impl Serialize for ToldStep<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        StepForm::serialize(self.0, serializer)
    }
}

/// A step as it was told; `None` for what can't be read.
pub(crate) fn read(told: &serde_json::Value) -> Option<Step> {
    StepForm::deserialize(told).ok()
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Step", rename_all = "snake_case", tag = "step")]
enum StepForm {
    Offered,
    Admitted,
    Fetched,
    Waiting {
        #[serde(with = "SlotForm")]
        slot: StepIndex,
    },
    Kept {
        #[serde(with = "SlotForm")]
        slot: StepIndex,
    },
    KeptBelow {
        #[serde(with = "SlotForm")]
        slot: StepIndex,
        number: u32,
    },
    Signalled,
    SignalledIdle,
    StageAgain {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rests_until: Option<u64>,
    },
    Reported {
        #[serde(with = "SlotForm")]
        slot: StepIndex,
        status: StageStatus,
        digest: u64,
        #[serde(with = "ShowsForm")]
        shows: Shows,
        why: Option<String>,
    },
    StageBegan {
        #[serde(with = "SlotForm")]
        slot: StepIndex,
    },
    Counted {
        #[serde(with = "AgentsForm")]
        agents: Agents,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recount: Option<u32>,
    },
    NextWave {
        wave: u32,
    },
    NextOffer {
        #[serde(with = "PieceForm")]
        piece: Unit,
    },
    Ended {
        status: ChildStatus,
        outcome: Outcome,
    },
    Lacks {
        #[serde(with = "FunctionSetForm")]
        functions: FunctionSet,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_place: bool,
    },
    Retried,
    PolledWhileBusy,
    ReplacedBy {
        successor: ChildKey,
        at_work: bool,
    },
    StandsInFor {
        predecessor: ChildKey,
        #[serde(with = "FunctionSetForm")]
        functions: FunctionSet,
        wave: u32,
    },
    Reinstated,
    UndoOffered {
        #[serde(with = "FunctionSetForm")]
        functions: FunctionSet,
    },
    UndoFetched,
    UndoFailed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rests_until: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    Rested,
    UndoConfirmed {
        function: u8,
    },
    UndoOverdue,
    UndoDropped,
    Replaced {
        function: u8,
        is_base: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    Restored {
        function: u8,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    Late {
        #[serde(with = "Maybe::<SlotForm>")]
        slot: Option<StepIndex>,
        status: StageStatus,
        #[serde(with = "ShowsForm")]
        shows: Shows,
        digest: u64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Shows", rename_all = "snake_case")]
enum ShowsForm {
    Nothing,
    Base,
    New,
}
