//! `analysis_runs.detail`.
//!
//! Of the crate `analysis`, its own exchange forms are stored: judgements, strata, evidence and verdicts.

use serde::{Deserialize, Serialize};

use super::form::{Each, Maybe, forms};
use ::analysis::{Assignment, Evidence, Judgement, Stratum, Verdict};
use domain::release::{
    analysis::{Begun, Extended, MeasuredPart, Metered, Previous, Run, RunStatus},
    assignment::ReleaseMs,
    strata::Key,
};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Run")]
pub(crate) struct RunForm {
    block: u8,
    number: u32,
    of: u32,
    began: ReleaseMs,
    looks: u64,
    looked_ms: u64,
    #[serde(with = "Each::<MeteredForm>")]
    metrics: Vec<Metered>,
    #[serde(with = "StandingForm")]
    standing: RunStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verdict: Option<Verdict>,
    why: String,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<ExtendedForm>")]
    extended: Option<Extended>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(remote = "Metered", default)]
pub(crate) struct MeteredForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    judgement: Option<Judgement>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    strata: Vec<Stratum>,
    #[serde(skip_serializing_if = "Vec::is_empty", with = "Each::<MeasuredPartForm>")]
    parts: Vec<MeasuredPart>,
    #[serde(skip_serializing_if = "Option::is_none", with = "Maybe::<PreviousForm>")]
    previous: Option<Previous>,
    until_ms: [Option<i64>; 2],
    measured: u32,
    empty: u32,
    outside: u32,
    errors: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<Verdict>,
    sentence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Box<Evidence>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MeasuredPart")]
struct MeasuredPartForm {
    stage: u8,
    #[serde(flatten, with = "KeyForm")]
    key: Key,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Key")]
struct KeyForm {
    split: u8,
    #[serde(default)]
    interval: u32,
    #[serde(default, skip_serializing_if = "Assignment::is_call")]
    assignment: Assignment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Previous")]
struct PreviousForm {
    release: String,
    began_ms: i64,
    ended_ms: i64,
}

/// Told in the audit trail as well.
#[derive(Serialize, Deserialize)]
#[serde(remote = "RunStatus", rename_all = "snake_case")]
pub(crate) enum StandingForm {
    Open,
    Passed,
    Paused,
    Failed,
    Accepted,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Extended")]
struct ExtendedForm {
    for_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<BegunForm>")]
    begun: Option<Begun>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Begun")]
struct BegunForm {
    elapsed_ms: u64,
    calls: u64,
}

forms! {
    RunForm = Run,
    MeteredForm = Metered,
    MeasuredPartForm = MeasuredPart,
    PreviousForm = Previous,
    ExtendedForm = Extended,
    BegunForm = Begun,
}
