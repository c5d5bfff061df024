//! What a child reports of a stage: as a whole, and apart by [`Stratum`].
//!
//! Deliberately not here: how any of it is written, to be kept or to be told a parent.

mod broken_condition;
mod pair;
mod stratum;
mod times;
mod variation;

pub use broken_condition::BrokenCondition;
pub use stratum::Stratum;
pub use times::{Histogram, Reported, Times};
pub use variation::{Variation, VariationStratum};

use std::sync::Arc;

use super::{
    ending::{Cause, Ending},
    manager::Agents,
};
use crate::children::Variant;
use analysis::{Assignment, Values};
use language::{Metric, Stage, Statistic};
use model::StageStatus;

/// One stage as a child reports it. The numbers are finite: they were checked at the edge.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// `None`: the stage the child is in.
    pub stage_name: Option<String>,
    /// What it says that it runs next: the name of a stage, or empty for none. `None`: it says nothing of it.
    pub says_next: Option<String>,
    pub status: StageStatus,
    pub proxy_times: Times,
    pub f1_times_summary: Times,
    pub f2_times_summary: Times,
    pub f1_err_rate: f64,
    pub f2_err_rate: f64,
    pub f1_calls: Option<u64>,
    pub f2_calls: Option<u64>,
    pub f1_errors: Option<u64>,
    pub f2_errors: Option<u64>,
    pub f1_histogram: Option<Box<Reported>>,
    pub f2_histogram: Option<Box<Reported>>,
    /// Times of successful calls, told more exactly than by a histogram; where they are there, that doesn't count.
    pub f1_values: Option<Box<Values>>,
    pub f2_values: Option<Box<Values>>,
    /// How it was chosen which version a call goes to, where no stratum says otherwise.
    pub assignment: Assignment,
    /// The same numbers apart by split and interval, or by group of users; a manager's are those of its children, merged
    /// within each of them.
    pub strata: Vec<Stratum>,
    /// What was counted of each of more than two variations, the stable one first; empty where there are two.
    pub variations: Vec<Variation>,
    /// What a manager says of how its children differ.
    pub effects: Option<analysis::effects::EffectsTold>,
    /// What a manager says of its agents.
    pub agents: Option<Agents>,
    /// What a manager says of why its part ended badly.
    pub why: Option<Box<Ending>>,
    /// A manager that is done says this anew of its agents, for the how manyth time.
    pub recount: Option<u32>,
    /// A manager says for the how manyth time that a stage has failed below it and keeps its shares.
    pub failures: Option<u32>,
}

/// A summary as it came, with what it is kept as. The rules read the summary and compare digests; the text is handed on unread, so
/// that it is made once, by whoever keeps it and before the call waits for its turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    pub summary: Summary,
    /// Equal summaries have equal texts, whatever stage they name and whatever they say runs next.
    pub text: String,
    /// Of the text: by which a repeat is known.
    pub digest: u64,
}

/// What is kept of a report that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSummary {
    pub report: Arc<Received>,
    /// What the child says that it runs next, where its offer says otherwise: kept beside the summary, and no part of what makes
    /// two reports the same.
    pub says_next: Option<String>,
}

impl Summary {
    /// Whether the child says that it has begun nothing of what it was offered: nothing it serves has changed.
    pub fn is_unstarted(&self) -> bool {
        let is_said = self.why.as_ref().is_some_and(|why| why.cause == Cause::Unstarted);
        self.status == StageStatus::Error && is_said
    }

    /// Whether it is of a stage that has failed and keeps its shares; where the stage is over, of one that was gone on from all the same.
    pub fn is_kept(&self) -> bool {
        let is_told = matches!(self.status, StageStatus::SuccessWaiting | StageStatus::Failure);
        is_told && self.why.as_ref().is_some_and(|why| why.cause == Cause::Kept)
    }

    /// What serves of an offer that is over, where an agent says that its operator wants it so.
    pub fn wanted_by_operator(&self) -> Option<Variant> {
        self.why.as_ref().filter(|why| why.cause == Cause::Operator)?;
        match self.status {
            StageStatus::Completed => Some(Variant::New),
            StageStatus::Failure => Some(Variant::Base),
            StageStatus::Error => Some(Variant::Unknown),
            StageStatus::Pending
            | StageStatus::InProgress
            | StageStatus::SuccessWaiting
            | StageStatus::ShouldEnd => None,
        }
    }

    /// Whether a failure is for want of calls: the new version got none. Times of -1 with errors are calls that failed.
    pub fn has_no_calls(&self) -> bool {
        let Times { median, minimum, maximum } = self.f2_times_summary;
        let none = median < 0.0 && minimum < 0.0 && maximum < 0.0 && self.f2_err_rate <= 0.0;
        none && self.f2_calls.unwrap_or_default() == 0
    }

    /// Whether one of more than two variations, other than the stable one, was to get calls in this stage and got none.
    pub fn lacks_calls(&self, stage: &Stage) -> bool {
        let mut tried = self.variations.iter().zip(&stage.shares).skip(1);
        tried.any(|(variation, share)| *share > 0 && variation.calls == 0)
    }

    /// The quantile `q` (0 to 1) of the new version's times in milliseconds. `None` if that can't be said.
    pub fn new_quantile(&self, q: f64) -> Option<f64> {
        times::quantile(self.f2_values.as_deref(), self.f2_histogram.as_deref(), q)
    }

    /// Whether so many calls are known to have been made.
    pub fn has_calls(&self, least: u64) -> bool {
        let of_two = self.f1_calls.zip(self.f2_calls).map(|(base, new)| base.saturating_add(new));
        let of_all = || self.variations.iter().fold(0_u64, |sum, one| sum.saturating_add(one.calls));
        let calls = if self.variations.is_empty() { of_two } else { Some(of_all()) };
        calls.is_some_and(|calls| calls >= least)
    }

    /// Judges the conditions that an agent can't: quantiles. `Ok` where none fails; else says which and why.
    /// Missing data is not a pass.
    pub fn judge_quantiles(&self, stage: &Stage) -> Result<(), String> {
        for condition in &stage.conditions {
            let Metric::ResponseTime(Statistic::Quantile(q)) = condition.metric else { continue };
            let Some(value) = self.new_quantile(q) else {
                return Err(format!("the child reported no data for {}", condition.metric));
            };
            if !condition.holds(value) {
                return Err(self.compared(condition, value));
            }
        }
        Ok(())
    }
}
