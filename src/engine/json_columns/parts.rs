//! The forms of what more than one column holds.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::form::{As, Each, Form, Read, forms};
use domain::release::{
    assignment::{FunctionSet, StepIndex},
    manager::{Agents, Planned},
    offer::Unit,
};
use model::{ChildKey, Exclusion, Now};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Now")]
pub(super) struct NowForm {
    wall_ms: i64,
    served_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Unit", rename_all = "snake_case")]
pub(crate) enum PieceForm {
    Whole,
    Stage(u8),
    Rollout(u8),
}

/// One bit a function.
#[derive(Serialize, Deserialize)]
#[serde(remote = "FunctionSet")]
pub(crate) struct FunctionSetForm(u64);

#[derive(Serialize, Deserialize)]
#[serde(remote = "StepIndex")]
pub(crate) struct SlotForm(u8);

#[derive(Default, Serialize, Deserialize)]
#[serde(remote = "Agents", default)]
pub(crate) struct AgentsForm {
    participants: u32,
    succeeded: u32,
    failed: u32,
    timed_out: u32,
    unreachable: u32,
    #[serde(skip_serializing_if = "is_zero")]
    untested: u32,
    unconfirmed: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Planned")]
pub(super) struct PlannedForm {
    agents: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    quotas: Vec<(u32, u32)>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Exclusion", rename_all = "snake_case")]
pub(super) enum ExclusionForm {
    NotReached,
    AbortedBelow,
    Drained,
    Cordoned,
    Runtime,
    Router,
    Agent,
    Outside,
    NoArea,
    Label,
    Forgotten,
    Skipped,
    NobodyBelow,
    Owes,
    OtherBase,
    Successor,
    Replaced,
    Below,
    Alone,
}

forms! {
    NowForm = Now,
    SlotForm = StepIndex,
    AgentsForm = Agents,
    PlannedForm = Planned,
    ExclusionForm = Exclusion,
}

/// How many take no part, by why: pairs.
pub(crate) struct ExcludedForm;

impl Form<(Exclusion, u32)> for ExcludedForm {
    fn write<S: Serializer>((why, count): &(Exclusion, u32), serializer: S) -> Result<S::Ok, S::Error> {
        (As::<_, ExclusionForm>::of(why), count).serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(Exclusion, u32), D::Error> {
        let (why, count) = <(Read<Exclusion, ExclusionForm>, u32)>::deserialize(deserializer)?;
        Ok((why.into_inner(), count))
    }
}

/// Of all of them. Told in the audit trail as well.
pub(crate) type AllExcluded = Each<ExcludedForm>;

/// A manager as it was planned: a pair.
pub(super) struct PlannedManagerForm;

impl Form<(ChildKey, Planned)> for PlannedManagerForm {
    fn write<S: Serializer>(
        (child, planned): &(ChildKey, Planned),
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        (child, As::<_, PlannedForm>::of(planned)).serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(ChildKey, Planned), D::Error> {
        let (child, planned) = <(ChildKey, Read<Planned, PlannedForm>)>::deserialize(deserializer)?;
        Ok((child, planned.into_inner()))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
