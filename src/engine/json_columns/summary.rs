//! `stage_results.summary`, and the digest beside it.
//!
//! A digest is of the text: a form that is written otherwise would make every repeat of an earlier report another report. Of the
//! crate `analysis`, its own exchange forms are stored: sketches, values and effects.

use std::{io, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256};

use super::{
    EndingForm,
    form::{As, Boxed, Each, Form, Maybe, forms},
    json,
    parts::AgentsForm,
};
use analysis::{Assignment, Values, effects::EffectsTold};
use domain::release::{
    ending::Ending,
    manager::Agents,
    summary::{
        Histogram, Received, Reported, StoredSummary, Stratum, Summary, Times, Variation, VariationStratum,
    },
};
use model::StageStatus;
use store::StoreError;

#[derive(Serialize, Deserialize)]
#[serde(remote = "Summary")]
pub(crate) struct SummaryForm {
    /// The row names the stage.
    #[serde(skip)]
    stage_name: Option<String>,
    /// Written beside the summary where it is kept, and read by people alone.
    #[serde(skip)]
    says_next: Option<String>,
    status: StageStatus,
    #[serde(with = "TimesForm")]
    proxy_times: Times,
    #[serde(with = "TimesForm")]
    f1_times_summary: Times,
    #[serde(with = "TimesForm")]
    f2_times_summary: Times,
    f1_err_rate: f64,
    f2_err_rate: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f1_calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f2_calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f1_errors: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f2_errors: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<Boxed<ReportedForm>>")]
    f1_histogram: Option<Box<Reported>>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<Boxed<ReportedForm>>")]
    f2_histogram: Option<Box<Reported>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f1_values: Option<Box<Values>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f2_values: Option<Box<Values>>,
    #[serde(default, skip_serializing_if = "Assignment::is_call")]
    assignment: Assignment,
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "Each::<StratumForm>")]
    strata: Vec<Stratum>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "Each::<VariationForm>")]
    variations: Vec<Variation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effects: Option<EffectsTold>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<AgentsForm>")]
    agents: Option<Agents>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<Boxed<EndingForm>>")]
    why: Option<Box<Ending>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recount: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failures: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Stratum")]
struct StratumForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    split: Option<u8>,
    #[serde(default)]
    interval: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    assignment: Option<Assignment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f1_calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f2_calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f1_errors: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f2_errors: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<Boxed<ReportedForm>>")]
    f1_histogram: Option<Box<Reported>>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<Boxed<ReportedForm>>")]
    f2_histogram: Option<Box<Reported>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f1_values: Option<Box<Values>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    f2_values: Option<Box<Values>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Variation")]
struct VariationForm {
    name: String,
    calls: u64,
    errors: u64,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "Maybe::<Boxed<ReportedForm>>")]
    histogram: Option<Box<Reported>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "Each::<VariationStratumForm>")]
    strata: Vec<VariationStratum>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "VariationStratum")]
struct VariationStratumForm {
    interval: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<u8>,
    calls: u64,
    errors: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Times")]
struct TimesForm {
    median: f64,
    minimum: f64,
    maximum: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Histogram")]
struct HistogramForm {
    bounds_ms: Vec<f64>,
    counts: Vec<u64>,
}

forms! { SummaryForm = Summary, StratumForm = Stratum, VariationForm = Variation, VariationStratumForm = VariationStratum }

/// Either form without a name: a sketch is the one that has a mapping.
struct ReportedForm;

impl Form<Reported> for ReportedForm {
    fn write<S: Serializer>(value: &Reported, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Reported::Sketch(sketch) => sketch.serialize(serializer),
            Reported::Bounds(bounds) => HistogramForm::serialize(bounds, serializer),
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Reported, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let found = match value.get("mapping") {
            Some(_) => serde_json::from_value(value).map(Reported::Sketch),
            None => HistogramForm::deserialize(value).map(Reported::Bounds),
        };
        found.map_err(D::Error::custom)
    }
}

/// A summary with its text and digest. Made on the thread of whoever was called, before the engine's task has to do with it.
pub fn received(summary: Summary) -> Result<Arc<Received>, StoreError> {
    let (text, digest) = written(&summary)?;
    Ok(Arc::new(Received { summary, text, digest }))
}

/// Text and digest of what is kept of a stage that stands so. Numbers of a child that is ready to end it stay those of one that is.
pub fn kept(kept: &StoredSummary, status: StageStatus) -> Result<(String, u64), StoreError> {
    let Received { summary, text, digest } = &*kept.report;
    let (mut text, digest) = if summary.status == status {
        (text.clone(), *digest)
    } else {
        written(&Summary { status, ..summary.clone() })?
    };
    if let Some(next) = &kept.says_next {
        // The text is that of an object with fields.
        let end = text.len().saturating_sub('}'.len_utf8());
        text.insert_str(end, &format!(",\"next_stage\":{}", json(next)?));
    }
    Ok((text, digest))
}

fn written(summary: &Summary) -> Result<(String, u64), StoreError> {
    let text = json(&As::<_, SummaryForm>::of(summary))?;
    let hash = Sha256::digest(text.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    Ok((text, u64::from_be_bytes(first)))
}

/// How much text a stratum is. What has none fits nowhere.
pub fn stratum_bytes(stratum: &Stratum) -> usize {
    let mut bytes = Bytes(0);
    let written = serde_json::to_writer(&mut bytes, &As::<_, StratumForm>::of(stratum));
    written.map_or(usize::MAX, |()| bytes.0)
}

/// Counts what is written, and keeps nothing of it.
struct Bytes(usize);

impl io::Write for Bytes {
    fn write(&mut self, some: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(some.len());
        Ok(some.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
