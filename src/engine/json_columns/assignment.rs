//! `assignments.detail`: what has no column of its own of a child's part in a release.

use serde::{Deserialize, Serialize};

use super::{
    form::{Maybe, Version, forms},
    parts::{AgentsForm, ExclusionForm, FunctionSetForm, PieceForm, PlannedForm},
};
use domain::release::{
    assignment::{FunctionSet, Idle, Keeping, Rare, ReleaseMs, StageSet, Undo, Whole},
    manager::{Agents, Planned},
    offer::Unit,
};
use model::{ChildKey, Exclusion};

#[derive(Debug, Serialize, Deserialize)]
pub struct AssignmentDetail {
    #[serde(default, skip_serializing_if = "Version::is_first")]
    pub version: Version<1>,
    pub named: u16,
    #[serde(with = "PieceForm")]
    pub piece: Unit,
    pub fetched: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<IdleForm>")]
    pub idle: Option<Idle>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<WholeForm>")]
    pub manager: Option<Whole>,
    /// Of an agent: whether it has the whole strategy at once, and walks through it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
    #[serde(default, skip_serializing_if = "is_first")]
    pub wave: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admitted: bool,
    #[serde(default, skip_serializing_if = "no_stages", with = "StageSetForm")]
    pub passed: StageSet,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<u8>,
    pub since: ReleaseMs,
    pub stage_since: ReleaseMs,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub polls: u8,
    #[serde(default, skip_serializing_if = "no_functions", with = "FunctionSetForm")]
    pub lacks: FunctionSet,
    #[serde(default, skip_serializing_if = "no_functions", with = "FunctionSetForm")]
    pub tainted: FunctionSet,
    #[serde(default, skip_serializing_if = "no_functions", with = "FunctionSetForm")]
    pub rolled_out: FunctionSet,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<UndoForm>")]
    pub undo: Option<Undo>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<ExclusionForm>")]
    pub excluded: Option<Exclusion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<ChildKey>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub displaced: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<ChildKey>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<KeepingForm>")]
    pub kept: Option<Keeping>,
    #[serde(default)]
    pub facts: u16,
    /// Digests of results that came too late.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<u64>,
}

/// Of a child that has the whole strategy in hand. What is rare of it stands among the fields of [`AssignmentDetail`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Whole")]
struct WholeForm {
    #[serde(flatten, with = "PlannedForm")]
    planned: Planned,
    #[serde(with = "AgentsForm")]
    reported: Agents,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    continues: Option<u16>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    retries: bool,
    #[serde(default, skip_serializing_if = "is_never")]
    recounts: u32,
    #[serde(default, skip_serializing_if = "is_never")]
    failures: u32,
    #[serde(skip)]
    rare: Rare,
}

/// One bit a stage.
#[derive(Serialize, Deserialize)]
#[serde(remote = "StageSet")]
pub(super) struct StageSetForm(u64);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Idle")]
struct IdleForm {
    since: ReleaseMs,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    told: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rests_until: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Undo")]
struct UndoForm {
    number: u16,
    #[serde(with = "FunctionSetForm")]
    functions: FunctionSet,
    fetched: bool,
    since: ReleaseMs,
    #[serde(default)]
    asked: ReleaseMs,
    polls: u8,
    overdue: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    failures: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rests_until: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<Box<str>>,
}

/// Of a stage that has failed and keeps its shares.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Keeping", rename_all = "snake_case")]
enum KeepingForm {
    Undecided,
    Accepted,
}

forms! { WholeForm = Whole, IdleForm = Idle, UndoForm = Undo, KeepingForm = Keeping }

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_first(wave: &u32) -> bool {
    *wave == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_never(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
pub(super) fn no_stages(set: &StageSet) -> bool {
    set.is_empty()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn no_functions(set: &FunctionSet) -> bool {
    set.is_empty()
}
