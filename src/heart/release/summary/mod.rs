//! What a child reports of a stage: as a whole, and apart by [`Stratum`].

mod stratum;
mod times;

pub use stratum::Stratum;
pub use times::{Histogram, Reported, Times};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ending::Ending, manager::Agents};
use analysis::{Assignment, Values};
use language::{Metric, Stage, Statistic};
use model::StageStatus;

/// One stage as a child reports it. The numbers are finite: they were checked at the edge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// `None`: the stage the child is in.
    #[serde(skip)]
    pub stage_name: Option<String>,
    /// What it says that it runs next: the name of a stage, or empty for none. `None`: it says nothing of it.
    #[serde(skip)]
    pub says_next: Option<String>,
    pub status: StageStatus,
    pub proxy_times: Times,
    pub f1_times_summary: Times,
    pub f2_times_summary: Times,
    pub f1_err_rate: f64,
    pub f2_err_rate: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1_calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f2_calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1_errors: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f2_errors: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1_histogram: Option<Box<Reported>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f2_histogram: Option<Box<Reported>>,
    /// Times of successful calls, told more exactly than by a histogram; where they are there, that doesn't count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1_values: Option<Box<Values>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f2_values: Option<Box<Values>>,
    /// How it was chosen which version a call goes to, where no stratum says otherwise.
    #[serde(default, skip_serializing_if = "Assignment::is_call")]
    pub assignment: Assignment,
    /// The same numbers apart by split and interval, or by group of users; a manager's are those of its children, merged
    /// within each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strata: Vec<Stratum>,
    /// What a manager says of how its children differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<analysis::effects::EffectsTold>,
    /// What a manager says of its agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Agents>,
    /// What a manager says of why its part ended badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Box<Ending>>,
    /// A manager that is done says this anew of its agents, for the how manyth time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recount: Option<u32>,
}

/// A summary as it is kept: its text, and a digest by which a repeat is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    pub json: String,
    pub digest: u64,
    /// What people are told of it where the stage ended badly.
    pub told: Told,
}

/// What people are told of a report: the new version's part of calls that failed, its median in milliseconds (below 0 for
/// no call), and of a manager why its part ended badly.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    pub errors: f64,
    pub median: f64,
    pub why: Option<Box<Ending>>,
}

impl Summary {
    /// The stored form. Equal summaries have equal forms.
    pub fn keep(&self) -> Kept {
        // Finite numbers and strings always have a JSON form.
        let json = serde_json::to_string(self).unwrap_or_default();
        let hash = Sha256::digest(json.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash[..8]);
        let told =
            Told { errors: self.f2_err_rate, median: self.f2_times_summary.median, why: self.why.clone() };
        Kept { json, digest: u64::from_be_bytes(first), told }
    }

    /// Whether a failure is for want of calls: the new version got none. Times of -1 with errors are calls that failed.
    pub fn has_no_calls(&self) -> bool {
        let Times { median, minimum, maximum } = self.f2_times_summary;
        let none = median < 0.0 && minimum < 0.0 && maximum < 0.0 && self.f2_err_rate <= 0.0;
        none && self.f2_calls.unwrap_or_default() == 0
    }

    /// The quantile `q` (0 to 1) of the new version's times in milliseconds. `None` if that can't be said.
    pub fn new_quantile(&self, q: f64) -> Option<f64> {
        match (&self.f2_values, &self.f2_histogram) {
            (Some(values), _) => values.quantile(q),
            (None, Some(histogram)) => histogram.quantile(q),
            (None, None) => None,
        }
    }

    /// Whether so many calls are known to have been made.
    pub fn has_calls(&self, least: u64) -> bool {
        let calls = self.f1_calls.zip(self.f2_calls).map(|(base, new)| base.saturating_add(new));
        calls.is_some_and(|calls| calls >= least)
    }

    /// Its stored form with what it said of the next stage, which is no part of what makes two reports the same.
    pub fn keep_with_next(&self, next: &str) -> Kept {
        let mut kept = self.keep();
        if kept.json.pop() == Some('}') {
            let next = serde_json::to_string(next).unwrap_or_default();
            kept.json.extend([",\"next_stage\":", next.as_str(), "}"]);
        }
        kept
    }

    /// Judges the conditions that an agent can't: quantiles. `Ok` where none fails; else says which and why.
    /// Missing data is not a pass.
    pub fn judge_quantiles(&self, stage: &Stage) -> Result<(), String> {
        for condition in &stage.conditions {
            let Metric::ResponseTime(Statistic::Quantile(q)) = condition.metric else { continue };
            let name = format!("P{}", q * 100.0);
            let value = self.new_quantile(q);
            let Some(value) = value else {
                return Err(format!("the child reported no data for {name}"));
            };
            if !condition.holds(value) {
                return Err(format!("{name} is {value} ms, demanded is {} ms", condition.demand()));
            }
        }
        Ok(())
    }
}
