//! A run of an analysis: what its looks have found of each metric, and where it stands.

use super::verdict::{WEIGHT_OF_ERROR, weight};
use crate::release::{clock::ReleaseMs, strata::Key};
use ::analysis::{Evidence, Judgement, Stratum, Verdict};
use language::analysis::{Analysis, Metric, MetricSource};
use model::ReleaseKey;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    Open,
    Passed,
    /// The release was paused for it; to resume is to accept its verdict.
    Paused,
    /// The release is taken back for it.
    Failed,
    /// It was no pass, and the release goes on nevertheless.
    Accepted,
}

impl RunStatus {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Passed => "passed",
            Self::Paused => "paused",
            Self::Failed => "failed",
            Self::Accepted => "accepted",
        }
    }
}

/// What is known of one metric in a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metered {
    /// Of a comparison, once it was looked at.
    pub judgement: Option<Judgement>,
    /// What was measured for it, interval by interval.
    pub strata: Vec<Stratum>,
    /// Of what children reported: which part of it each of the strata is.
    pub parts: Vec<MeasuredPart>,
    /// What a `PREVIOUS` is compared with, from its first look on.
    pub previous: Option<Previous>,
    /// Up to which instant there are values, in milliseconds since 1970: of the canary, and of what it is compared with.
    pub until_ms: [Option<i64>; 2],
    /// Looks with a value, without one, and those whose value was outside of the expected range; of a comparison, that
    /// crossed the boundary. Of a condition it is children that are counted.
    pub measured: u32,
    pub empty: u32,
    pub outside: u32,
    /// Looks in a row without an answer.
    pub errors: u32,
    pub verdict: Option<Verdict>,
    /// What the last look found, in words.
    pub sentence: String,
    pub evidence: Option<Box<Evidence>>,
}

/// Which part of what children report a stratum is: what came of it in one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeasuredPart {
    /// Index in the strategy.
    pub stage: u8,
    pub key: Key,
}

/// The same stage of an earlier release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Previous {
    pub release: String,
    /// When it was, in milliseconds since 1970.
    pub began_ms: i64,
    pub ended_ms: i64,
}

/// One run of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its place in [`language::Strategy::analyses`].
    pub block: u8,
    /// Which one, from 0, and of how many that share its alpha.
    pub number: u32,
    pub of: u32,
    pub began: ReleaseMs,
    /// So many, and how long after the initial delay the last one came.
    pub looks: u64,
    pub looked_ms: u64,
    /// In the order of the strategy.
    pub metrics: Vec<Metered>,
    pub standing: RunStatus,
    pub verdict: Option<Verdict>,
    /// The verdict in words.
    pub why: String,
    /// It goes on after an end that decided nothing, or is to.
    pub extended: Option<Extended>,
}

/// How long a run goes on after an end that decided nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended {
    pub for_ms: u64,
    /// Or until so many more calls were measured.
    pub calls: Option<u64>,
    /// `None`: its end is still to come.
    pub begun: Option<Begun>,
}

/// When a run went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// How long after the initial delay.
    pub elapsed_ms: u64,
    /// The calls of both versions that were measured by then, of the metric with most of them.
    pub calls: u64,
}

impl Run {
    /// Whether what waits for it goes on waiting.
    pub(in crate::release) const fn holds(&self) -> bool {
        matches!(self.standing, RunStatus::Open | RunStatus::Paused | RunStatus::Failed)
    }

    /// Whether it has ended as a failure, whatever became of that.
    pub fn has_failed(&self, analysis: &Analysis) -> bool {
        self.verdict.is_some_and(|verdict| weight(verdict, analysis).0 > WEIGHT_OF_ERROR)
    }

    /// Whether it ended undecided, and can go on.
    pub(in crate::release) fn may_go_on(&self) -> bool {
        let is_undecided = matches!(self.verdict, Some(Verdict::Inconclusive | Verdict::NoData));
        is_undecided && self.standing == RunStatus::Paused && self.metrics.iter().any(Metered::may_go_on)
    }

    pub(in crate::release) fn begun(&self, at: ReleaseMs, delay: u64) -> Begun {
        let calls = self.metrics.iter().map(Metered::calls).max().unwrap_or(0);
        Begun { elapsed_ms: at.saturating_sub(self.began.saturating_add(delay)), calls }
    }

    /// Whether it is still to be looked at.
    pub(in crate::release) const fn is_open(&self) -> bool {
        matches!(self.standing, RunStatus::Open) && self.verdict.is_none()
    }
}

/// A look at the data of a run, made outside.
#[derive(Debug, Clone, PartialEq)]
pub struct InterimAnalysis {
    pub release: ReleaseKey,
    pub block: u8,
    pub number: u32,
    /// So many looks came before it.
    pub after: u64,
    /// How long after the initial delay it came.
    pub elapsed_ms: u64,
    /// Everybody whose reports count had come to the gate behind it.
    pub is_gathered: bool,
    /// The new state of each metric.
    pub metrics: Vec<Metered>,
}

pub(in crate::release) fn ms(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Metered {
    /// The calls, or values, of both versions that were measured.
    pub fn calls(&self) -> u64 {
        self.strata.iter().map(|stratum| stratum.baseline.count() + stratum.canary.count()).sum()
    }

    /// Whether it has passed before its end; its verdict is still to come.
    pub fn passes_early(&self) -> bool {
        self.verdict.is_none() && self.judgement.as_ref().is_some_and(Judgement::is_early_pass)
    }

    /// Is over before its end.
    pub(in crate::release) fn end_early(&mut self, metric: &Metric) {
        self.verdict = Some(Verdict::Pass);
        // What providers said is what a later release may be compared with.
        if matches!(metric.source, MetricSource::Children(_)) {
            self.judgement = None;
            self.strata.clear();
            self.parts.clear();
        }
    }

    /// Whether it ended undecided, and can go on.
    pub(in crate::release) fn may_go_on(&self) -> bool {
        let is_undecided = matches!(self.verdict, Some(Verdict::Inconclusive | Verdict::NoData));
        let judgement = self.judgement.as_ref();
        is_undecided && judgement.is_some_and(|judgement| judgement.may_extend().is_ok())
    }
}
