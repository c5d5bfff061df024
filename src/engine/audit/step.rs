//! What each step of a child in a release is called in the trail, and what is said of it.

use serde::{Serialize, Serializer};

use crate::stored::{AgentsForm, FunctionSetForm, Maybe, PieceForm, SlotForm};
use heart::release::{
    assignment::{FunctionSet, Shows, Slot, Step},
    manager::Agents,
    offer::Piece,
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

#[derive(Serialize)]
#[serde(remote = "Step", rename_all = "snake_case", tag = "step")]
enum StepForm {
    Offered,
    Admitted,
    Fetched,
    Waiting {
        #[serde(serialize_with = "SlotForm::serialize")]
        slot: Slot,
    },
    Signalled,
    SignalledIdle,
    StageAgain,
    Reported {
        #[serde(serialize_with = "SlotForm::serialize")]
        slot: Slot,
        status: StageStatus,
        digest: u64,
        #[serde(serialize_with = "ShowsForm::serialize")]
        shows: Shows,
        why: Option<String>,
    },
    StageBegan {
        #[serde(serialize_with = "SlotForm::serialize")]
        slot: Slot,
    },
    Counted {
        #[serde(serialize_with = "AgentsForm::serialize")]
        agents: Agents,
        #[serde(skip_serializing_if = "Option::is_none")]
        recount: Option<u32>,
    },
    NextWave {
        wave: u32,
    },
    NextOffer {
        #[serde(serialize_with = "PieceForm::serialize")]
        piece: Piece,
    },
    Ended {
        status: ChildStatus,
        outcome: Outcome,
    },
    Lacks {
        #[serde(serialize_with = "FunctionSetForm::serialize")]
        functions: FunctionSet,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
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
        #[serde(serialize_with = "FunctionSetForm::serialize")]
        functions: FunctionSet,
        wave: u32,
    },
    Reinstated,
    UndoOffered {
        #[serde(serialize_with = "FunctionSetForm::serialize")]
        functions: FunctionSet,
    },
    UndoFetched,
    UndoConfirmed {
        function: u8,
    },
    UndoOverdue,
    UndoDropped,
    Late {
        #[serde(serialize_with = "Maybe::<SlotForm>::serialize")]
        slot: Option<Slot>,
        status: StageStatus,
        #[serde(serialize_with = "ShowsForm::serialize")]
        shows: Shows,
        digest: u64,
    },
}

#[derive(Serialize)]
#[serde(remote = "Shows", rename_all = "snake_case")]
enum ShowsForm {
    Nothing,
    Base,
    New,
}
