//! What is kept as JSON in a column: how it is written, and how it is read back.
//!
//! Invariants:
//! - what can't be read is an error that names table, key and column, and never a default: whoever judges by it says so,
//!   and does not judge as if the row were not there;
//! - a type of the domain is not what is stored: each has a form here that names its fields, so that to rename one changes no
//!   byte, and to add one does not compile until it is said how it is stored;
//! - a form has a version, 1 where it names none; a newer one than this program knows is refused;
//! - an error about the outbox quotes nothing of it: it holds the addresses of webhooks, which may be secrets.

mod analysis;
mod assignment;
mod child;
pub mod form;
mod identity;
mod parts;
mod pause;
mod release;
mod summary;
pub mod traffic;
pub mod workflows;

pub(crate) use self::{
    analysis::{MeteredForm, RunForm, StandingForm},
    child::CordonForm,
    form::{As, Boxed, Maybe, Version},
    identity::{HistoryForm, PointerForm},
    parts::{AgentsForm, AllExcluded, FunctionSetForm, PieceForm, SlotForm},
    release::{EndForm, EndingForm},
    summary::SummaryForm,
};
pub use self::{
    assignment::AssignmentDetail,
    child::ChildDetail,
    release::{ReleaseDetail, Times},
    summary::{kept, received, stratum_bytes},
};

use std::collections::BTreeMap;

use serde::{Deserialize as _, Serialize, de::DeserializeOwned};

use self::{
    form::Read,
    identity::{ChildTokenForm, EnrolledForm, OfferKeyForm, TenantForm},
};
use crate::{
    forwarded_releases::Pointer,
    members,
    settings::{ChildToken, Enrolled, Setting, Tenant},
    view::OfferKey,
};
use ab_releases::Recorded;
use domain::release::{analysis::Run, assignment::StepIndex, previous_run::Time, rollout, summary::Summary};
use language::Strategy;
use model::{ChildKey, ReleaseId, ReleaseKey, StageStatus};
use store::{
    StoreError,
    rows::{
        AnalysisRunRow, AuditRow, DeploymentRow, MembersRow, OutboxRow, PointerRow, PrecedentRow,
        RegisteredRow, ReleaseRow, ServiceReleaseRow, SettingRow, StageResultRow,
    },
};

#[expect(clippy::needless_pass_by_value, reason = "keys and reasons are made on the spot")]
pub(crate) fn bad(
    table: &'static str,
    key: impl ToString,
    column: &'static str,
    why: impl ToString,
) -> StoreError {
    StoreError::BadRow { table, key: key.to_string(), column, why: why.to_string() }
}

/// A value as it is stored. Refused is what has no JSON form; nothing is written in its place.
pub fn json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Refused(format!("a value can't be written as JSON: {error}")))
}

/// A value of a column.
pub(crate) fn read<T: DeserializeOwned>(
    table: &'static str,
    key: impl ToString,
    column: &'static str,
    text: &str,
) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| bad(table, key, column, error))
}

/// A value of a column whose form has no field for its version: it stands in the JSON object beside the others, and is not written
/// while it is 1.
fn read_marked<T: DeserializeOwned>(
    table: &'static str,
    key: impl ToString,
    column: &'static str,
    text: &str,
) -> Result<T, StoreError> {
    match newer(text) {
        Some(why) => Err(bad(table, key, column, why)),
        None => read(table, key, column, text),
    }
}

/// What a form has that names its version.
#[derive(serde::Deserialize)]
struct Marked {
    #[serde(default, rename = "version")]
    _version: Version<1>,
}

/// Why a text can't be of a form that this program knows. What names no version isn't looked through for one.
fn newer(text: &str) -> Option<String> {
    let names_one = text.starts_with('{') && text.contains("\"version\"");
    let error = names_one.then(|| serde_json::from_str::<Marked>(text).err()).flatten()?;
    error.is_data().then(|| error.to_string())
}

/// `releases.detail`.
pub fn release_detail(key: u32, detail: &str) -> Result<ReleaseDetail, StoreError> {
    read("releases", key, "detail", detail)
}

/// `releases.functions`.
pub fn function_names(key: u32, functions: &str) -> Result<Vec<String>, StoreError> {
    read("releases", key, "functions", functions)
}

/// What a detail says of shares that were chosen.
const SHARES_CHOSEN: &str = "\"shares_chosen\"";

/// The strategy of a release: `releases.strategy`, with the shares that were chosen since, which `releases.detail` has.
pub fn strategy_of(row: &ReleaseRow) -> Result<Strategy, StoreError> {
    let strategy = strategy(row.release_key, &row.id, &row.strategy)?;
    if !row.detail.contains(SHARES_CHOSEN) {
        // The details of most aren't read for this.
        return Ok(strategy);
    }
    let detail = release_detail(row.release_key, &row.detail)?;
    Ok(rollout::shared(strategy, &detail.facts))
}

/// `releases.strategy`, of the release with this id: a tenant's has another than its text says.
fn strategy(key: u32, id: &str, text: &str) -> Result<Strategy, StoreError> {
    let why = "this program does not accept it any more; see `validate`";
    let read = language::check_stored(text).strategy;
    let mut strategy = read.ok_or_else(|| bad("releases", key, "strategy", why))?;
    if model::tenant::split(id).is_some() {
        strategy.bind(ReleaseId::parse(id).map_err(|error| bad("releases", key, "id", error))?);
    }
    Ok(strategy)
}

/// `releases.archive`: of which functions it consists.
pub fn archive(row: &ReleaseRow) -> Result<[u8; 32], StoreError> {
    let digest = row.archive.as_slice().try_into();
    digest.map_err(|_| bad("releases", row.release_key, "archive", "not 32 bytes"))
}

fn result_key(row: &StageResultRow) -> String {
    format!("({}, {}, {}, {})", row.release_key, row.child_key, row.attempt, row.stage)
}

/// What a child reported.
pub fn summary(row: &StageResultRow) -> Result<Summary, StoreError> {
    read_marked::<Read<_, SummaryForm>>("stage_results", result_key(row), "summary", &row.summary)
        .map(Read::into_inner)
}

/// What a child reported, in the words in which it is stored.
pub fn shown_summary(row: &StageResultRow) -> Result<serde_json::Value, StoreError> {
    read_marked("stage_results", result_key(row), "summary", &row.summary)
}

/// Of what a child reported.
pub fn slot(row: &StageResultRow) -> Result<StepIndex, StoreError> {
    u8::try_from(row.stage)
        .map(StepIndex)
        .map_err(|_| bad("stage_results", result_key(row), "stage", "out of range"))
}

/// Of what a child reported in a release with this strategy: of its roll-out, or of a stage that there is.
pub fn slot_of(row: &StageResultRow, strategy: &Strategy) -> Result<StepIndex, StoreError> {
    let slot = slot(row)?;
    let is_known = slot.stage_index().is_none_or(|stage| stage < strategy.stages.len());
    let unknown = || bad("stage_results", result_key(row), "stage", "the strategy has no such stage");
    is_known.then_some(slot).ok_or_else(unknown)
}

/// The rows of a release's analyses by the place of their block in its strategy. Refused is a row of a block that there isn't.
pub fn runs_by_block<'r>(
    rows: &'r [AnalysisRunRow],
    strategy: &Strategy,
) -> Result<BTreeMap<usize, &'r AnalysisRunRow>, StoreError> {
    let blocks = strategy.analyses().count();
    let placed = |row: &'r AnalysisRunRow| {
        let block = usize::try_from(row.block).ok().filter(|block| *block < blocks);
        let key = || format!("({}, {})", row.release_key, row.block);
        let unknown = || bad("analysis_runs", key(), "block", "the strategy has no such analysis");
        block.map(|block| (block, row)).ok_or_else(unknown)
    };
    rows.iter().map(placed).collect()
}

/// How the stage stood that a child reported.
pub fn stage_status(row: &StageResultRow) -> Result<StageStatus, StoreError> {
    let status = u64::try_from(row.status).ok().and_then(StageStatus::from_wire);
    status.ok_or_else(|| bad("stage_results", result_key(row), "status", "no such status"))
}

/// In which attempt of a child a stage was reported.
pub fn attempt(row: &StageResultRow) -> Result<u16, StoreError> {
    u16::try_from(row.attempt).map_err(|_| bad("stage_results", result_key(row), "attempt", "out of range"))
}

/// That a child is said to run a release that there isn't.
pub(crate) fn unknown_release(row: &DeploymentRow) -> StoreError {
    let key = format!("({}, {:?})", row.child_key, row.function);
    bad("deployments", key, "release_key", format!("there is no release {}", row.release_key))
}

/// Who takes part, of a slice.
pub(crate) fn members(row: &MembersRow) -> Result<Vec<ChildKey>, StoreError> {
    let key = || format!("({}, {})", row.release_key, row.slice);
    members::unpack(&row.keys).ok_or_else(|| bad("members", key(), "keys", "cut or too large"))
}

/// The run of an analysis.
pub fn run(row: &AnalysisRunRow) -> Result<Run, StoreError> {
    let key = format!("({}, {})", row.release_key, row.block);
    read_marked::<Read<_, RunForm>>("analysis_runs", key, "detail", &row.detail).map(Read::into_inner)
}

/// The run of an analysis as it is stored.
pub fn run_text(run: &Run) -> Result<String, StoreError> {
    json(&As::<_, RunForm>::of(run))
}

/// That what is kept of a run of an analysis can be read, and makes no sense.
pub(crate) fn bad_run(release: ReleaseKey, block: u8, why: &str) -> StoreError {
    bad("analysis_runs", format!("({}, {block})", release.0), "detail", why)
}

/// When the stages of a release were.
pub fn times(row: &PrecedentRow) -> Result<Vec<Time>, StoreError> {
    let key = format!("({:?}, {})", row.function, row.release_key);
    read_marked("precedents", key, "times", &row.times).map(|Times(times)| times)
}

/// The version of an event of the audit trail: a field beside those that tell what happened.
pub(crate) type EventVersion = Version<1>;

/// What one commit did, as it is told in the audit trail.
pub fn events(row: &AuditRow) -> Result<Vec<serde_json::Value>, StoreError> {
    let key = || format!("({}, {})", row.seq, row.idx);
    let events: Vec<serde_json::Value> = read("audit", key(), "events", &row.events)?;
    let versions = events.iter().filter_map(|event| event.get("version"));
    for version in versions {
        EventVersion::deserialize(version).map_err(|error| bad("audit", key(), "events", error))?;
    }
    Ok(events)
}

/// The value of a setting as it is stored.
pub(crate) fn setting_text(setting: &Setting) -> Result<String, StoreError> {
    match setting {
        Setting::Identity(id) => Ok(id.clone()),
        Setting::Enrolled(enrolled) => json(&EnrolledForm::from(enrolled)),
        Setting::OfferKey(key) => json(&OfferKeyForm::from(key)),
        Setting::ChildToken { token, .. } => json(&ChildTokenForm::from(token)),
        Setting::Tenant(tenant) => json(&TenantForm::from(tenant)),
    }
}

/// The id of this manager among managers. Its first form is the plain id; a later one is an object that names its version.
pub(crate) fn identity(row: &SettingRow) -> Result<String, StoreError> {
    match newer(&row.value) {
        Some(why) => Err(bad("settings", &row.name, "value", why)),
        None => Ok(row.value.clone()),
    }
}

/// Who this manager is at its parent.
pub(crate) fn enrolled(row: &SettingRow) -> Result<Enrolled, StoreError> {
    read("settings", &row.name, "value", &row.value).map(EnrolledForm::into)
}

/// What makes the ids of offers that nobody can guess.
pub(crate) fn offer_key(row: &SettingRow) -> Result<OfferKey, StoreError> {
    read("settings", &row.name, "value", &row.value).map(OfferKeyForm::into)
}

/// The token of a child that joined.
pub(crate) fn child_token(row: &SettingRow) -> Result<ChildToken, StoreError> {
    let form: ChildTokenForm = read("settings", &row.name, "value", &row.value)?;
    form.try_into().map_err(|why| bad("settings", &row.name, "value", why))
}

/// What releases of services may name.
pub fn registered<T: DeserializeOwned>(row: &RegisteredRow) -> Result<T, StoreError> {
    read("registered", format!("({}, {}, {:?})", row.tenant, row.kind, row.name), "detail", &row.detail)
}

/// What of a release of a service can't change any more.
pub fn service_release(row: &ServiceReleaseRow) -> Result<Recorded, StoreError> {
    read("service_releases", row.release_key, "form", &row.form)
}

/// A setting that is a tenant.
pub(crate) fn tenant(row: &SettingRow) -> Result<Tenant, StoreError> {
    read("settings", &row.name, "value", &row.value).map(TenantForm::into)
}

/// Where a strategy went.
pub(crate) fn pointer(row: &PointerRow) -> Result<Pointer, StoreError> {
    read("pointers", row.pointer_key, "detail", &row.detail).map(PointerForm::into)
}

/// The offer that is to be taken over. Its first form is the plain id; a later one is an object that names its version.
pub(crate) fn taken_offer(row: &OutboxRow) -> Result<String, StoreError> {
    refuse_newer(row)?;
    Ok(row.payload.clone())
}

fn refuse_newer(row: &OutboxRow) -> Result<(), StoreError> {
    match newer(&row.payload) {
        Some(_) => Err(bad("outbox", row.id, "payload", "its form is newer than this program")),
        None => Ok(()),
    }
}

/// What an effect is about. The error tells the place and the kind of the fault alone.
pub(crate) fn payload<T: DeserializeOwned>(row: &OutboxRow) -> Result<T, StoreError> {
    refuse_newer(row)?;
    serde_json::from_str(&row.payload).map_err(|error| {
        let why = format!("{:?} fault in column {}", error.classify(), error.column());
        bad("outbox", row.id, "payload", why)
    })
}
