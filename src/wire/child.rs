//! The calls of the child protocol: what a child sends and what it is answered. Questions to managers are in
//! [`super::question`].
//!
//! Two spellings are read: that of the deployed agents (`proxy_times.median`, `"status": 4`) and the older one
//! of the reference document (`ProxyTimes.Median`, `"status": "Completed"`, numeric ids). One is written: that of
//! the deployed agents, with the optional additions only where they are set.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

use super::{
    WireError, number,
    question::{MAX_FEATURES, MAX_QUESTIONS, QuestionForm},
    text,
};
use analysis::classes::MAX_CLASSES;
use model::{Capabilities, ChildKind, MAX_OFFER_ID_LEN, StageStatus};

/// Largest body of a poll, in bytes: 1,000 vertices with room to spare.
pub const MAX_POLL_BODY_BYTES: usize = 256 * 1024;

/// Largest body of a result, in bytes.
pub const MAX_RESULT_BODY_BYTES: usize = 1024 * 1024;

/// Largest body of a question for the end of a stage, in bytes.
pub const MAX_END_STAGE_BODY_BYTES: usize = 8 * 1024;

/// Most stage summaries in one result.
pub const MAX_SUMMARIES: usize = 64;

/// Longest name of a stage in a result, in bytes.
pub const MAX_STAGE_NAME_BYTES: usize = 256;

/// Longest name a child gives itself, in bytes.
pub const MAX_CHILD_NAME_BYTES: usize = 128;

/// Most runtimes a child may report.
pub const MAX_RUNTIMES: usize = 64;

/// Most ids of managers, or of offers, in a poll or its answer: the depth of a tree.
pub const MAX_RM_IDS: usize = 64;

/// Most labels a child may report.
pub const MAX_LABELS: usize = 64;

/// Most labels, each value of a key counted, that a manager may report of its children.
pub const MAX_LABELS_BELOW: usize = 512;

/// Longest runtime, label key or label value, in bytes.
pub const MAX_LABEL_BYTES: usize = 128;

/// Most bounds a histogram may have.
pub const MAX_HISTOGRAM_BOUNDS: usize = 512;

/// Most calls in a logarithmic histogram: so many are still counted exactly.
pub const MAX_HISTOGRAM_CALLS: u64 = 1 << 48;

/// Longest text of why a part ended, in bytes.
pub const MAX_WHY_BYTES: usize = 1_000;

/// Most strata without a group in a summary.
pub const MAX_STRATA: usize = 64;

/// Most strata of groups of users in a summary: all groups under so many splits.
pub const MAX_GROUPED_STRATA: usize = 4 * MAX_GROUPS as usize;

/// Groups of users are numbered below it.
pub const MAX_GROUPS: u8 = analysis::clusters::MAX_GROUPS;

/// A time in a summary that stands for "no successful call".
pub const NO_CALL: f64 = -1.0;

/// `POST /poll`. Strings are borrowed from the body.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PollRequest<'a> {
    /// GeoJSON, unparsed.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub geographic_area: Option<&'a RawValue>,
    /// Empty or absent: the child asks for an id.
    #[serde(borrow, default, deserialize_with = "text::poll_id", serialize_with = "empty_for_none")]
    pub id: Option<Cow<'a, str>>,
    /// Agents below this child; 0 for an agent.
    #[serde(default, deserialize_with = "number::number_of_children")]
    pub number_of_children: u32,
    #[serde(
        borrow,
        default,
        deserialize_with = "text::optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub name: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ChildKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Of a manager: itself and the managers above it, nearest first, at most [`MAX_RM_IDS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rm_ids: Vec<String>,
    /// Of a manager: offers that it holds because it was told to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
}

impl<'a> PollRequest<'a> {
    /// Reads and checks a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let request: Self = read(body)?;
        request.validate()?;
        Ok(request)
    }

    /// The id, `""` where there is none.
    pub fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    /// Checks the limits of what newer children add.
    pub fn validate(&self) -> Result<(), WireError> {
        if let Some(name) = &self.name {
            within("name", name, MAX_CHILD_NAME_BYTES)?;
        }
        check_ids("rm_ids", &self.rm_ids)?;
        check_ids("held", &self.held)?;
        self.capabilities.as_ref().map_or(Ok(()), check_capabilities)
    }
}

fn check_ids(field: &str, ids: &[String]) -> Result<(), WireError> {
    at_most(field, ids.len(), MAX_RM_IDS)?;
    ids.iter().try_for_each(|id| within(field, id, MAX_OFFER_ID_LEN))
}

/// Checks the limits of reported capabilities.
fn check_capabilities(capabilities: &Capabilities) -> Result<(), WireError> {
    let runtimes = capabilities.runtimes.as_deref().unwrap_or_default();
    at_most("capabilities.runtimes", runtimes.len(), MAX_RUNTIMES)?;
    at_most("capabilities.labels", capabilities.labels.len(), MAX_LABELS)?;
    check_features("capabilities.features", &capabilities.features)?;
    if let Some(below) = &capabilities.labels_below {
        // A key without a value is one, too.
        let pairs = below.values().map(|values| values.len().max(1)).sum();
        at_most("capabilities.labels_below", pairs, MAX_LABELS_BELOW)?;
        for text in below.keys().chain(below.values().flatten()) {
            within("capabilities.labels_below", text, MAX_LABEL_BYTES)?;
        }
    }
    for runtime in runtimes {
        within("capabilities.runtimes", runtime, MAX_LABEL_BYTES)?;
    }
    for (key, value) in &capabilities.labels {
        within("capabilities.labels", key, MAX_LABEL_BYTES)?;
        within("capabilities.labels", value, MAX_LABEL_BYTES)?;
    }
    Ok(())
}

fn check_features(field: &str, features: &[String]) -> Result<(), WireError> {
    at_most(field, features.len(), MAX_FEATURES)?;
    features.iter().try_for_each(|feature| within(field, feature, MAX_LABEL_BYTES))
}

/// The answer to a poll.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollAnswer<'a> {
    /// What the child is called from now on. The older spelling may have a number here.
    #[serde(borrow, deserialize_with = "text::child_id")]
    pub id: Cow<'a, str>,
    /// The first offer that waits for it, or `""`. The older spelling may have a number here.
    #[serde(borrow, default, deserialize_with = "text::new_release")]
    pub new_release: Cow<'a, str>,
    /// To managers: who answers and the managers above it, nearest first, at most [`MAX_RM_IDS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rm_ids: Vec<String>,
    /// To managers: offers that they have in hand and whose release is paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hold: Vec<String>,
    /// To managers: what the parent understands beyond the plain protocol, at most [`MAX_FEATURES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// To managers that say that they answer them: at most [`MAX_QUESTIONS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionForm>,
}

impl<'a> PollAnswer<'a> {
    /// Reads and checks a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let answer: Self = read(body)?;
        within("id", &answer.id, MAX_OFFER_ID_LEN)?;
        within("new_release", &answer.new_release, MAX_OFFER_ID_LEN)?;
        if answer.id.is_empty() {
            return Err(WireError::new("`id` must not be empty"));
        }
        check_ids("rm_ids", &answer.rm_ids)?;
        check_ids("hold", &answer.hold)?;
        check_features("features", &answer.features)?;
        at_most("questions", answer.questions.len(), MAX_QUESTIONS)?;
        answer.questions.iter().try_for_each(QuestionForm::validate)?;
        Ok(answer)
    }
}

/// `POST /result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultRequest<'a> {
    #[serde(borrow, deserialize_with = "text::child_id")]
    pub id: Cow<'a, str>,
    /// The offer. A number is kept as it was written.
    #[serde(borrow, deserialize_with = "text::release_id")]
    pub release_id: Cow<'a, str>,
    /// 1 to [`MAX_SUMMARIES`], applied in order, all or none.
    pub stage_summaries: Vec<StageSummary>,
    /// What follows the last summary; see [`ResultRequest::next_stage_after`].
    #[serde(borrow, default, deserialize_with = "text::optional_text", serialize_with = "empty_for_none")]
    pub next_stage: Option<Cow<'a, str>>,
}

impl<'a> ResultRequest<'a> {
    /// Reads and checks a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let request: Self = read(body)?;
        request.validate()?;
        Ok(request)
    }

    /// Checks numbers and limits; the refusal names the field.
    pub fn validate(&self) -> Result<(), WireError> {
        if self.stage_summaries.is_empty() {
            return Err(WireError::new("`stage_summaries` must hold at least one summary"));
        }
        at_most("stage_summaries", self.stage_summaries.len(), MAX_SUMMARIES)?;
        if let Some(next) = &self.next_stage {
            within("next_stage", next, MAX_STAGE_NAME_BYTES)?;
        }
        self.stage_summaries
            .iter()
            .enumerate()
            .try_for_each(|(index, summary)| summary.validate(&format!("stage_summaries[{index}]")))
    }

    /// The stage that the child says it runs after the summary at `index`: the summary's own `next_stage`, or for
    /// the last summary the one of the call. Nothing, `rollout` and `rollback` are no stage.
    pub fn next_stage_after(&self, index: usize) -> Option<&str> {
        self.says_next(index).filter(|name| !name.is_empty())
    }

    /// The same, but empty where the child says that no stage follows; nothing where it says nothing.
    pub fn says_next(&self, index: usize) -> Option<&str> {
        let own = self.stage_summaries.get(index)?.next_stage.as_deref();
        let of_call = || self.next_stage.as_deref().filter(|_| index + 1 == self.stage_summaries.len());
        let said = own.or_else(of_call)?;
        Some(if matches!(said, "rollout" | "rollback") { "" } else { said })
    }
}

/// What a child measured in one stage. f1 is the base version, f2 the new one.
///
/// Absent times read as [`NO_CALL`] and absent rates as 0, so that numbers nobody sent prove nothing.
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
    /// Likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f2_values: Option<Box<analysis::Values>>,
    /// How it was chosen which version a call goes to, in all strata that don't say otherwise; absent: each call by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<analysis::Assignment>,
    /// The same numbers apart by split and interval, at most [`MAX_STRATA`], or by group of users, at most
    /// [`MAX_GROUPED_STRATA`]; a manager's are those of its children, merged within each of them. No call is in two of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strata: Vec<StratumForm>,
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
    /// From a manager: why its part ended badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// From a manager that is done: it says anew what became of its agents, for the how manyth time.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub recount: Option<u32>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Why {
    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let Self { cause, text, child, stage, numbers, by, note } = self;
        [cause, text].into_iter().chain([child, stage, numbers, by, note].into_iter().flatten())
    }

    /// With texts that are cut where they are too long.
    #[must_use]
    pub fn fitted(mut self) -> Self {
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
    /// A summary without any call: every time is [`NO_CALL`], nothing optional is set.
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
        }
    }

    fn validate(&self, at: &str) -> Result<(), WireError> {
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
        self.strata
            .iter()
            .enumerate()
            .try_for_each(|(index, stratum)| stratum.validate(&format!("{at}.strata[{index}]")))
    }
}

impl StageSummary {
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

/// What was counted of one version.
fn check_side(
    at: &str,
    of: &str,
    calls: Option<u64>,
    errors: Option<u64>,
    histogram: Option<&HistogramForm>,
) -> Result<(), WireError> {
    if let (Some(calls), Some(errors)) = (calls, errors)
        && errors > calls
    {
        let text = format!("`{at}.{of}_errors` is {errors}, more than the {calls} calls");
        return Err(WireError::new(&text));
    }
    histogram.map_or(Ok(()), |histogram| histogram.validate(&format!("{at}.{of}_histogram")))
}

/// What was counted under one split during one interval of a stage. f1 is the base version, f2 the new one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Stratum")]
pub struct StratumForm {
    /// Percentage of the calls that the new version was to get; absent: as the stage orders.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub split: Option<u8>,
    /// Which part of the stage, from 0.
    #[serde(default, deserialize_with = "number::count")]
    pub interval: u32,
    /// How it was chosen which version a call goes to; absent: as the summary says, and by user where there is a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignment: Option<analysis::Assignment>,
    /// To which group of users, by a hash, all of these belong: below [`MAX_GROUPS`], and over the whole stage. Only to who
    /// knows the feature `groups`.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Only managers, to who asked for `classes`: a stratum of children that were about as fast before the release, from 0.
    #[serde(default, deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub class: Option<u8>,
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
    /// Likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f2_values: Option<Box<analysis::Values>>,
}

impl StratumForm {
    fn validate(&self, at: &str) -> Result<(), WireError> {
        if let Some(percent) = self.split.filter(|percent| *percent > 100) {
            let text = format!("`{at}.split` is {percent}: a percentage is from 0 to 100");
            return Err(WireError::new(&text));
        }
        self.group.map_or(Ok(()), |group| self.check_group(at, group))?;
        if let Some(class) = self.class.filter(|class| *class >= MAX_CLASSES) {
            let text = format!("`{at}.class` is {class}: classes are from 0 to {}", MAX_CLASSES - 1);
            return Err(WireError::new(&text));
        }
        check_side(at, "f1", self.f1_calls, self.f1_errors, self.f1_histogram.as_ref())?;
        check_side(at, "f2", self.f2_calls, self.f2_errors, self.f2_histogram.as_ref())
    }

    fn check_group(&self, at: &str, group: u8) -> Result<(), WireError> {
        let text = if group >= MAX_GROUPS {
            format!("`{at}.group` is {group}: groups of users are numbered from 0 to {}", MAX_GROUPS - 1)
        } else if self.assignment == Some(analysis::Assignment::Call) {
            format!(
                "`{at}.group` is {group}, and `assignment` is call: a group is one of users all of whose calls go to one \
                 version, so it is user or child"
            )
        } else if self.interval != 0 {
            let interval = self.interval;
            format!(
                "`{at}.interval` is {interval}: a group counts over the whole stage, so it is 0 or left out"
            )
        } else {
            return Ok(());
        };
        Err(WireError::new(&text))
    }
}

/// Times of calls in milliseconds, [`NO_CALL`] where no call succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Times")]
pub struct TimesForm {
    #[serde(alias = "Median")]
    pub median: f64,
    #[serde(alias = "Minimum")]
    pub minimum: f64,
    #[serde(alias = "Maximum")]
    pub maximum: f64,
}

impl TimesForm {
    /// No call succeeded.
    pub const NONE: Self = Self { median: NO_CALL, minimum: NO_CALL, maximum: NO_CALL };

    fn validate(&self, at: &str) -> Result<(), WireError> {
        for (field, time) in [("median", self.median), ("minimum", self.minimum), ("maximum", self.maximum)] {
            // Written so that NaN fails too; -1 is exactly representable.
            #[allow(clippy::float_cmp)]
            let allowed = time.is_finite() && (time >= 0.0 || time == NO_CALL);
            if !allowed {
                let text =
                    format!("`{at}.{field}` is {time}: a time is in ms, at least 0, or -1 for no call");
                return Err(WireError::new(&text));
            }
        }
        Ok(())
    }
}

impl Default for TimesForm {
    fn default() -> Self {
        Self::NONE
    }
}

/// Numbers of calls by their time in milliseconds, in either of two forms.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum HistogramForm {
    /// In logarithmic buckets, which merge exactly: `mapping`, `positiveValues`, `zeroCount`, as in the JSON of `DDSketch`.
    Sketch(analysis::Histogram),
    /// In buckets of the child's own.
    Bounds(Buckets),
}

impl<'de> Deserialize<'de> for HistogramForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let found = match value.get("mapping") {
            Some(_) => serde_json::from_value(value).map(Self::Sketch),
            None => serde_json::from_value(value).map(Self::Bounds),
        };
        found.map_err(D::Error::custom)
    }
}

impl HistogramForm {
    fn validate(&self, at: &str) -> Result<(), WireError> {
        let sketch = match self {
            Self::Bounds(buckets) => return buckets.validate(at),
            Self::Sketch(sketch) => sketch,
        };
        if sketch.has_negative() {
            return Err(WireError::new(&format!("`{at}` counts negative times")));
        }
        let calls = sketch.buckets().try_fold(0_u64, |sum, (_, _, count)| sum.checked_add(count));
        if calls.is_none_or(|calls| calls > MAX_HISTOGRAM_CALLS) {
            return Err(WireError::new(&format!("the counts of `{at}` add up to too much")));
        }
        Ok(())
    }
}

/// Numbers of calls by their time. `counts` has one entry more than `bounds_ms`: entry i counts the calls above
/// bound i-1 and up to bound i, the last those above every bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Buckets {
    /// Ascending, in milliseconds, at most [`MAX_HISTOGRAM_BOUNDS`].
    pub bounds_ms: Vec<f64>,
    #[serde(deserialize_with = "number::counts")]
    pub counts: Vec<u64>,
}

impl Buckets {
    fn validate(&self, at: &str) -> Result<(), WireError> {
        at_most(&format!("{at}.bounds_ms"), self.bounds_ms.len(), MAX_HISTOGRAM_BOUNDS)?;
        let finite = self.bounds_ms.iter().all(|bound| bound.is_finite() && *bound >= 0.0);
        if !finite || !self.bounds_ms.is_sorted_by(|a, b| a < b) {
            return Err(WireError::new(&format!("`{at}.bounds_ms` must ascend from 0 or above, in ms")));
        }
        if self.counts.len() != self.bounds_ms.len() + 1 {
            let (counts, bounds) = (self.counts.len(), self.bounds_ms.len());
            let text = format!(
                "`{at}.counts` has {counts} entries for {bounds} bounds: it takes one more than these"
            );
            return Err(WireError::new(&text));
        }
        if self.counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count)).is_none() {
            return Err(WireError::new(&format!("`{at}.counts` add up to too much")));
        }
        Ok(())
    }
}

/// The answer to a report of a stage that goes on: by this time children number the intervals of what they measure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerTime {
    /// Milliseconds since 1970, of the manager at the top.
    pub time_ms: i64,
    /// By how much it may be off, in milliseconds: what managers know of the time of those above them.
    #[serde(default, skip_serializing_if = "is_exact")]
    pub time_error_ms: u32,
}

// Serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_exact(error: &u32) -> bool {
    *error == 0
}

/// `POST /end_stage`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndStageRequest<'a> {
    #[serde(borrow, deserialize_with = "text::child_id")]
    pub id: Cow<'a, str>,
    #[serde(borrow)]
    pub stage_name: Cow<'a, str>,
    /// The offer. A number is kept as it was written.
    #[serde(borrow, deserialize_with = "text::strategy_id")]
    pub strategy_id: Cow<'a, str>,
    /// The stages that a manager passes over already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

impl<'a> EndStageRequest<'a> {
    /// Reads a body.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        read(body)
    }
}

/// The answer to a question for the end of a stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndStageAnswer {
    pub end_stage: bool,
    /// What a newer child is to do at the end; deployed agents don't look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
    /// The stages that a manager is to pass over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Then {
    Rollback,
}

/// Serde would take an array for a struct too; a call is an object.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, WireError> {
    match body.trim_ascii_start().first() {
        Some(b'{') => Ok(serde_json::from_slice(body)?),
        _ => Err(WireError::new("the body must be a JSON object")),
    }
}

pub(super) fn within(field: &str, text: &str, max: usize) -> Result<(), WireError> {
    if text.len() > max {
        return Err(WireError::new(&format!(
            "`{field}` has at most {max} bytes, this one has {}",
            text.len()
        )));
    }
    // Not even every database can keep them.
    if text.chars().any(char::is_control) {
        return Err(WireError::new(&format!("`{field}` has a control character in it")));
    }
    Ok(())
}

pub(super) fn at_most(field: &str, len: usize, max: usize) -> Result<(), WireError> {
    if len > max {
        return Err(WireError::new(&format!("`{field}` holds at most {max} entries, this one has {len}")));
    }
    Ok(())
}

/// Agents write the empty string where there is no id and where nothing follows.
// Serde hands over a reference to the field.
#[allow(clippy::ref_option)]
fn empty_for_none<S: Serializer>(text: &Option<Cow<'_, str>>, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(text.as_deref().unwrap_or_default())
}

// Serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn status_number<S: Serializer>(status: &StageStatus, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_u8(status.wire())
}
