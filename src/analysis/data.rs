//! What was measured, side by side.

use serde::{Deserialize, Serialize};

use super::{
    design::{Design, Question, Sampling, Tolerance},
    histogram::Histogram,
    spread::tied,
    values::Values,
};

/// Most groups of users: a group is a number below.
pub const MAX_GROUPS: u8 = 64;

/// Fewer different values on both sides together can't be ranked: they are hardly more than kinds.
pub(super) const LEAST_DIFFERENT: usize = 3;

/// One side of a stratum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Sample {
    /// Raw values, for a series in order of time.
    Values(Vec<f64>),
    Histogram(Histogram),
    /// Times of calls, with what is known of the clock that measured them.
    Measured(Values),
    Counts(Counts),
}

/// Calls, and how many of them were events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub calls: u64,
    pub events: u64,
}

/// How it was chosen which calls a version gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Assignment {
    /// Each call by itself.
    #[default]
    Call,
    /// All calls of a user or session go to one version.
    User,
    /// All calls of a child go to one version.
    Child,
}

impl Assignment {
    /// Whether calls depend on each other.
    pub fn is_sticky(self) -> bool {
        self != Self::Call
    }

    /// Whether it is the one that goes without saying.
    pub fn is_call(&self) -> bool {
        !self.is_sticky()
    }
}

/// What both versions did during one interval, under one stage and split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stratum {
    pub stage: String,
    /// The share of calls that the canary was to get, if one was ordered and the calls of both sides are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_share: Option<f64>,
    /// Calls of baseline and canary, those too of which the samples say nothing; absent: those of the samples. The calls of a
    /// version that fails more often must not look like a split that wasn't ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<[u64; 2]>,
    #[serde(default, skip_serializing_if = "Assignment::is_call")]
    pub assignment: Assignment,
    /// Where calls depend on each other: to which group of users, by a hash, all of these belong; below
    /// [`MAX_GROUPS`]. Groups of one interval, stage and split are ranked together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Which interval of the analysis, from 0. Its data are complete at `(interval + 1) · interval_ms`.
    pub interval: u64,
    pub baseline: Sample,
    pub canary: Sample,
}

impl Stratum {
    pub fn new(stage: impl Into<String>, interval: u64, baseline: Sample, canary: Sample) -> Self {
        Self {
            stage: stage.into(),
            canary_share: None,
            calls: None,
            assignment: Assignment::Call,
            group: None,
            interval,
            baseline,
            canary,
        }
    }

    /// With the split that was ordered.
    #[must_use]
    pub fn ordered(mut self, canary_share: f64) -> Self {
        self.canary_share = Some(canary_share);
        self
    }

    /// Of a group of users, all of whose calls go to one version.
    #[must_use]
    pub fn of_users(mut self, group: u8) -> Self {
        (self.assignment, self.group) = (Assignment::User, Some(group));
        self
    }

    /// With the calls of baseline and canary, where the samples don't hold all of them.
    #[must_use]
    pub fn called(mut self, calls: [u64; 2]) -> Self {
        self.calls = Some(calls);
        self
    }

    /// Calls of baseline and canary.
    pub fn calls(&self) -> [u64; 2] {
        self.calls.unwrap_or_else(|| [self.baseline.count(), self.canary.count()])
    }
}

impl Sample {
    /// What was measured after `before`, which is a part of it. `None`: it is no part of it, or the two can't be told apart.
    pub fn since(&self, before: &Self) -> Option<Self> {
        match (self, before) {
            (Self::Histogram(now), Self::Histogram(before)) => now.since(before).map(Self::Histogram),
            (Self::Measured(now), Self::Measured(before)) => now.since(before).map(Self::Measured),
            // What was kept before times were counted exactly.
            (Self::Measured(now), Self::Histogram(before)) => {
                now.since(&Values::from_histogram(before.clone(), None).ok()?).map(Self::Measured)
            }
            (Self::Counts(now), Self::Counts(before)) => {
                let calls = now.calls.checked_sub(before.calls)?;
                let events = now.events.checked_sub(before.events)?;
                (events <= calls).then_some(Self::Counts(Counts { calls, events }))
            }
            _ => None,
        }
    }

    /// Adds what was measured beside it. `None`: the two are of different forms.
    pub fn with(self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Histogram(mut sum), Self::Histogram(more)) => {
                sum.merge(more).ok()?;
                Some(Self::Histogram(sum))
            }
            (Self::Measured(mut sum), Self::Measured(more)) => {
                sum.merge(more).ok()?;
                Some(Self::Measured(sum))
            }
            (Self::Histogram(sum), Self::Measured(more)) => {
                let mut sum = Values::from_histogram(sum, None).ok()?;
                sum.merge(more).ok()?;
                Some(Self::Measured(sum))
            }
            (Self::Counts(sum), Self::Counts(more)) => Some(Self::Counts(Counts {
                calls: sum.calls.saturating_add(more.calls),
                events: sum.events.saturating_add(more.events),
            })),
            (Self::Values(mut sum), Self::Values(more)) => {
                sum.extend_from_slice(more);
                Some(Self::Values(sum))
            }
            _ => None,
        }
    }

    /// A sample without a call, in the form of this one.
    #[must_use]
    pub fn none(&self) -> Self {
        match self {
            Self::Counts(_) => Self::Counts(Counts::default()),
            Self::Measured(values) => Self::Measured(values.none()),
            Self::Values(_) | Self::Histogram(_) => Self::Values(Vec::new()),
        }
    }

    /// How many values or calls.
    pub fn count(&self) -> u64 {
        match self {
            Self::Values(values) => values.len() as u64,
            Self::Histogram(histogram) => histogram.count(),
            Self::Measured(values) => values.count(),
            Self::Counts(counts) => counts.calls,
        }
    }
}

/// Whether there are so many different values on both sides together.
pub(super) fn are_different(strata: &[Stratum], many: usize) -> bool {
    let mut different: Vec<f64> = Vec::with_capacity(many);
    let mut see = |value: f64| {
        if different.len() < many && !different.iter().any(|known| tied(*known, value)) {
            different.push(value);
        }
        different.len() >= many
    };
    strata.iter().flat_map(|stratum| [&stratum.baseline, &stratum.canary]).any(|sample| match sample {
        Sample::Values(values) => values.iter().any(|value| see(*value)),
        // A bucket holds many values, and how little it tells of them is reckoned with.
        Sample::Histogram(_) | Sample::Counts(_) => true,
        Sample::Measured(values) => {
            values.exact().is_none_or(|pairs| pairs.iter().any(|(value, _)| see(*value)))
        }
    })
}

/// Why samples can't be judged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DataFault {
    #[error("{0} is no finite number")]
    NotFinite(f64),
    #[error("{0} is negative: a relative tolerance has no meaning then, use an absolute one")]
    Negative(f64),
    #[error("{events} events of {calls} calls")]
    Events { events: u64, calls: u64 },
    #[error("a rate is judged by counts of calls and events, not by values")]
    NoCounts,
    #[error("counts of calls and events tell nothing of values: ask for a rate")]
    NoValues,
    #[error("forms of values are mixed: all are raw values, histograms or counted times")]
    Mixed,
    #[error("histograms with different buckets can't be merged")]
    Buckets,
    #[error("interval {after} comes after interval {before}")]
    Order { before: u64, after: u64 },
    #[error("points of a time series are values, not histograms")]
    SeriesOfHistograms,
    #[error("group {0} of users: there are at most {MAX_GROUPS}, from 0 on")]
    Group(u8),
    #[error("the ordered share {0} isn't between 0 and 1")]
    Share(f64),
}

/// Looks for faults in strata from `from` on.
pub fn check(strata: &[Stratum], from: usize, design: &Design) -> Result<(), DataFault> {
    for (at, stratum) in strata.iter().enumerate().skip(from) {
        if let Some(before) = at.checked_sub(1).map(|before| &strata[before])
            && before.interval > stratum.interval
        {
            return Err(DataFault::Order { before: before.interval, after: stratum.interval });
        }
        if let Some(share) = stratum.canary_share
            && !(share > 0.0 && share < 1.0)
        {
            return Err(DataFault::Share(share));
        }
        if let Some(group) = stratum.group.filter(|group| *group >= MAX_GROUPS) {
            return Err(DataFault::Group(group));
        }
        for (sample, first) in
            [(&stratum.baseline, &strata[0].baseline), (&stratum.canary, &strata[0].canary)]
        {
            check_sample(sample, design)?;
            match (sample, first) {
                (Sample::Histogram(a), Sample::Histogram(b)) if !a.merges_with(b) => {
                    return Err(DataFault::Buckets);
                }
                // What was kept before times were counted exactly.
                (Sample::Histogram(old), Sample::Measured(_))
                | (Sample::Measured(_), Sample::Histogram(old))
                    if Values::from_histogram(old.clone(), None).is_ok() => {}
                (a, b) if std::mem::discriminant(a) != std::mem::discriminant(b) => {
                    return Err(DataFault::Mixed);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn check_sample(sample: &Sample, design: &Design) -> Result<(), DataFault> {
    let relative = matches!(design.tolerance, Tolerance::Ratio(_));
    let rate = matches!(design.question, Question::Rate { .. });
    match sample {
        Sample::Counts(_) if !rate => Err(DataFault::NoValues),
        Sample::Counts(Counts { calls, events }) if events > calls => {
            Err(DataFault::Events { events: *events, calls: *calls })
        }
        Sample::Counts(_) => Ok(()),
        _ if rate => Err(DataFault::NoCounts),
        Sample::Values(values) => {
            // One pass over what is nearly always fine; which value is at fault is asked afterwards.
            let fine = |v: f64| v.is_finite() && !(relative && v < 0.0);
            if values.iter().fold(true, |all, v| all & fine(*v)) {
                return Ok(());
            }
            let fault = values.iter().find(|v| !v.is_finite()).map(|v| DataFault::NotFinite(*v));
            let negative = values.iter().find(|v| relative && **v < 0.0).map(|v| DataFault::Negative(*v));
            fault.or(negative).map_or(Ok(()), Err)
        }
        Sample::Histogram(_) | Sample::Measured(_) if design.sampling == Sampling::Series => {
            Err(DataFault::SeriesOfHistograms)
        }
        Sample::Histogram(histogram) if relative && histogram.has_negative() => {
            Err(DataFault::Negative(histogram.quantile(0.0).unwrap_or(f64::NAN)))
        }
        Sample::Histogram(_) | Sample::Measured(_) => Ok(()),
    }
}
