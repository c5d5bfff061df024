//! What a child, or a manager of its part, says of one stage.

use serde::{Deserialize, Serialize, Serializer};

use super::{
    counts::{HistogramForm, TimesForm, check_side},
    limits::{MAX_GROUPED_STRATA, MAX_STAGE_NAME_BYTES, MAX_STRATA, MAX_VARIATIONS, MAX_WHY_BYTES},
    stratum::StratumForm,
    variation::VariationForm,
};
use crate::{
    WireError, number,
    read::{at_most, within},
};
use model::StageStatus;

/// What a child measured in one stage. f1 is the base version, f2 the new one.
///
/// Absent times read as [`super::NO_CALL`] and absent rates as 0, so that numbers nobody sent prove nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageSummary {
    /// `None` or empty: the child's current stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_name: Option<String>,
    #[serde(default, alias = "ProxyTimes")]
    pub proxy_times: TimesForm,
    #[serde(default, rename = "f1_times_summary", alias = "F1TimesSummary")]
    pub f1_times: TimesForm,
    #[serde(default, rename = "f2_times_summary", alias = "F2TimesSummary")]
    pub f2_times: TimesForm,
    /// Share from 0 to 1. Deployed agents always say 0 here: unknown.
    #[serde(default, alias = "F1ErrRate")]
    pub f1_err_rate: f64,
    /// Share from 0 to 1.
    #[serde(default, alias = "F2ErrRate")]
    pub f2_err_rate: f64,
    #[serde(deserialize_with = "number::status", serialize_with = "status_number")]
    pub status: StageStatus,
    /// The older spelling has it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_stage: Option<String>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub f1_calls: Option<u64>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub f2_calls: Option<u64>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub f1_errors: Option<u64>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub f2_errors: Option<u64>,
    /// Of the successful calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1_histogram: Option<HistogramForm>,
    /// Of the successful calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f2_histogram: Option<HistogramForm>,
    /// Of the successful calls, told more exactly; the histogram doesn't count then. Only to who knows the feature `values`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1_values: Option<Box<analysis::Values>>,
    /// Of the successful calls of the new version, told more exactly, as `f1_values` tells those of the base version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f2_values: Option<Box<analysis::Values>>,
    /// How it was chosen which version a call goes to, in all strata that don't say otherwise; absent: each call by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<analysis::Assignment>,
    /// The same numbers apart by split and interval, at most [`MAX_STRATA`], or by group of users, at most
    /// [`MAX_GROUPED_STRATA`]; a manager's are those of its children, merged within each of them. No call is in two of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strata: Vec<StratumForm>,
    /// Where there are more than two variations, what was counted of each, the stable one first; of the first two it is what `f1_…` and
    /// `f2_…` say. At most [`MAX_VARIATIONS`], each name once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variations: Vec<VariationForm>,
    /// From a manager: how much its children differ, as sums over them that add up; see [`analysis::effects`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<analysis::effects::EffectsTold>,
    /// From a manager: the agents for whom the release was planned below it, and what became of them so far.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub participants: Option<u32>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<u32>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub failed: Option<u32>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<u32>,
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<u32>,
    /// Agents that neither failed nor succeeded, for want of calls; absent: none.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub untested: Option<u32>,
    /// Agents that may run what was taken back.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<u32>,
    /// From a manager: why its part ended badly, or who failed within the limits. From an agent: why a stage failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// From a manager that is done: it says anew what became of its agents, for the how manyth time.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub recount: Option<u32>,
    /// From a manager, with a `why` of the cause `kept`: for the how manyth time a stage has failed below it and keeps its shares.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
}

/// Why a part of a release ended badly. Each text has at most [`MAX_WHY_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Why {
    pub cause: String,
    /// All of it in one line.
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The version that was tried there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Why {
    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let Self { cause, text, child, stage, version, numbers, by, note } = self;
        [cause, text].into_iter().chain([child, stage, version, numbers, by, note].into_iter().flatten())
    }

    /// With texts that may be sent: each in one line, and cut where it is too long.
    #[must_use]
    pub fn fitted(mut self) -> Self {
        for text in self.texts().filter(|text| text.contains(char::is_control)) {
            let words = text.split(|at: char| at.is_control() || at == ' ').filter(|word| !word.is_empty());
            *text = words.collect::<Vec<_>>().join(" ");
        }
        for text in self.texts().filter(|text| text.len() > MAX_WHY_BYTES) {
            text.truncate(text.floor_char_boundary(MAX_WHY_BYTES - '…'.len_utf8()));
            text.push('…');
        }
        self
    }

    fn validate(&self, at: &str) -> Result<(), WireError> {
        self.clone().texts().try_for_each(|text| within(&format!("{at}.why"), text, MAX_WHY_BYTES))
    }
}

impl StageSummary {
    /// A summary without any call: every time is [`super::NO_CALL`], nothing optional is set.
    pub fn without_calls(status: StageStatus) -> Self {
        Self {
            stage_name: None,
            proxy_times: TimesForm::NONE,
            f1_times: TimesForm::NONE,
            f2_times: TimesForm::NONE,
            f1_err_rate: 0.0,
            f2_err_rate: 0.0,
            status,
            next_stage: None,
            f1_calls: None,
            f2_calls: None,
            f1_errors: None,
            f2_errors: None,
            f1_histogram: None,
            f2_histogram: None,
            f1_values: None,
            f2_values: None,
            assignment: None,
            strata: Vec::new(),
            variations: Vec::new(),
            effects: None,
            participants: None,
            succeeded: None,
            failed: None,
            timed_out: None,
            unreachable: None,
            untested: None,
            unconfirmed: None,
            why: None,
            recount: None,
            failures: None,
        }
    }

    pub(super) fn validate(&self, at: &str) -> Result<(), WireError> {
        for (field, name) in [("stage_name", &self.stage_name), ("next_stage", &self.next_stage)] {
            if let Some(name) = name {
                within(&format!("{at}.{field}"), name, MAX_STAGE_NAME_BYTES)?;
            }
        }
        self.proxy_times.validate(&format!("{at}.proxy_times"))?;
        self.f1_times.validate(&format!("{at}.f1_times_summary"))?;
        self.f2_times.validate(&format!("{at}.f2_times_summary"))?;
        for (field, rate) in [("f1_err_rate", self.f1_err_rate), ("f2_err_rate", self.f2_err_rate)] {
            if !(0.0..=1.0).contains(&rate) {
                return Err(WireError::new(&format!("`{at}.{field}` is {rate}: a rate is from 0 to 1")));
            }
        }
        check_side(at, "f1", self.f1_calls, self.f1_errors, self.f1_histogram.as_ref())?;
        check_side(at, "f2", self.f2_calls, self.f2_errors, self.f2_histogram.as_ref())?;
        self.why.as_ref().map_or(Ok(()), |why| why.validate(at))?;
        if self.effects.is_some_and(|effects| !effects.is_possible()) {
            return Err(WireError::new(&format!("`{at}.effects` can't be sums over children")));
        }
        self.check_number_of_strata(at)?;
        self.check_variations(at)?;
        self.strata
            .iter()
            .enumerate()
            .try_for_each(|(index, stratum)| stratum.validate(&format!("{at}.strata[{index}]")))
    }
}

impl StageSummary {
    fn check_variations(&self, at: &str) -> Result<(), WireError> {
        let all = &self.variations;
        at_most(&format!("{at}.variations"), all.len(), MAX_VARIATIONS)?;
        for (index, variation) in all.iter().enumerate() {
            variation.validate(&format!("{at}.variations[{index}]"))?;
            if all[..index].iter().any(|one| one.name == variation.name) {
                let text = format!("`{at}.variations` has {} twice", variation.name);
                return Err(WireError::new(&text));
            }
        }
        Ok(())
    }

    fn check_number_of_strata(&self, at: &str) -> Result<(), WireError> {
        let grouped = self.strata.iter().filter(|stratum| stratum.group.is_some()).count();
        let others = self.strata.len() - grouped;
        for (what, len, max) in
            [("without a group", others, MAX_STRATA), ("of groups", grouped, MAX_GROUPED_STRATA)]
        {
            if len > max {
                let text = format!("`{at}.strata` holds at most {max} entries {what}, this one has {len}");
                return Err(WireError::new(&text));
            }
        }
        Ok(())
    }
}

// Serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn status_number<S: Serializer>(status: &StageStatus, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_u8(status.wire())
}
