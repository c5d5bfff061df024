//! What children measured, kept apart by stratum: only calls that were shared out between the versions in the same way are
//! counted together.
//!
//! A stratum of a stage is the split under which the calls were made, and an interval of the stage where a child tells
//! several apart. A manager merges its children's numbers within a stratum, never across, and tells its parent the strata; so
//! a tree comes to the very numbers that one manager over all agents would have.
//!
//! Invariants:
//! - merging is exact, and neither the order of children nor how they are spread over managers matters: all times have one
//!   form before they meet ([`Values`]), with a clock that is known from their child's own report;
//! - a stratum is what was ordered, never what came out: whoever selects by what came out compares selected calls;
//! - what is not known of both versions is not known: nothing counts as 0.
//!
//! Deliberately not here: the judgement (`crate::analysis`), and who is asked (`judging`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::summary::{Reported, Summary, Times};
use crate::analysis::{Counts, Histogram, Values, bounds, grid, values::MAX_CALLS};

/// Most strata in one summary.
pub const MAX_STRATA: usize = 64;

/// Most text of the strata that are told to a parent, in bytes: half of what a result may have.
pub const MAX_STRATA_BYTES: usize = 512 * 1024;

/// A stratum as it is reported and kept. f1 is the base version, f2 the new one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stratum {
    /// Percentage of the calls that the new version was to get; `None`: that of the stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<u8>,
    #[serde(default)]
    pub interval: u32,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1_values: Option<Box<Values>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f2_values: Option<Box<Values>>,
}

/// What tells one stratum of a stage from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Percentage, as in [`Stratum`].
    pub split: u8,
    #[serde(default)]
    pub interval: u32,
}

/// The numbers of a stratum, of the base version and of the new one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sides {
    /// Calls and errors, of all who count them of both.
    pub counts: Option<[Counts; 2]>,
    /// Times of successful calls, of all who know them of both.
    pub times: Option<[Values; 2]>,
}

/// The strata of one stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strata(BTreeMap<Key, Sides>);

impl Strata {
    /// Of what children reported of a stage that gives the new version `split` percent of the calls.
    pub fn of<'a>(summaries: impl IntoIterator<Item = &'a Summary>, split: u8) -> Self {
        let mut strata = Self::default();
        for summary in summaries {
            let is_manager = summary.agents.is_some();
            let lone = (summary.strata.is_empty() && !is_manager).then(|| lone(summary));
            for stratum in summary.strata.iter().chain(lone.as_ref()) {
                let sides = Sides::of(stratum, summary);
                if sides == Sides::default() {
                    continue;
                }
                let key = Key { split: stratum.split.unwrap_or(split), interval: stratum.interval };
                strata.0.entry(key).or_default().merge(&sides);
            }
        }
        strata
    }

    /// Adds what others measured of the same stage.
    pub fn merge(&mut self, other: &Self) {
        for (key, sides) in &other.0 {
            self.0.entry(*key).or_default().merge(sides);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Sides)> {
        self.0.iter()
    }

    /// All of them together: for whoever is compared with nobody but itself.
    pub fn total(&self) -> Sides {
        let mut total = Sides::default();
        self.0.values().for_each(|sides| total.merge(sides));
        total
    }

    /// As they are told to a parent: at most [`MAX_STRATA`] and [`MAX_STRATA_BYTES`], those with the fewest calls left out.
    pub fn told(self) -> Vec<Stratum> {
        let mut all: Vec<(Key, Sides)> = self.0.into_iter().collect();
        all.sort_by_key(|(key, sides)| (std::cmp::Reverse(sides.calls()), *key));
        let mut bytes = 0;
        let strata = all.into_iter().take(MAX_STRATA).map(|(key, sides)| sides.told(key));
        let mut told: Vec<Stratum> = strata
            .take_while(|stratum| {
                bytes += serde_json::to_string(stratum).map_or(usize::MAX, |text| text.len());
                bytes <= MAX_STRATA_BYTES
            })
            .collect();
        told.sort_by_key(|stratum| (stratum.split, stratum.interval));
        told
    }
}

/// What an agent says of a whole stage.
fn lone(summary: &Summary) -> Stratum {
    Stratum {
        f1_calls: summary.f1_calls,
        f2_calls: summary.f2_calls,
        f1_errors: summary.f1_errors,
        f2_errors: summary.f2_errors,
        f1_histogram: summary.f1_histogram.clone(),
        f2_histogram: summary.f2_histogram.clone(),
        f1_values: summary.f1_values.clone(),
        f2_values: summary.f2_values.clone(),
        ..Stratum::default()
    }
}

impl Sides {
    fn of(stratum: &Stratum, summary: &Summary) -> Self {
        let counts = |calls: Option<u64>, errors: Option<u64>| {
            let calls = calls.filter(|calls| *calls <= MAX_CALLS)?;
            Some(Counts { calls, events: errors.filter(|errors| *errors <= calls)? })
        };
        let base = counts(stratum.f1_calls, stratum.f1_errors);
        let new = counts(stratum.f2_calls, stratum.f2_errors);
        let [base_times, new_times] = [
            (&stratum.f1_values, &stratum.f1_histogram, summary.f1_times_summary),
            (&stratum.f2_values, &stratum.f2_histogram, summary.f2_times_summary),
        ]
        .map(|(values, histogram, times)| {
            let values = values.as_deref().cloned().or_else(|| counted(histogram.as_deref()?, times))?;
            // What one child measured was measured by one clock; of many together it can't be told any more.
            let clock = grid::clock(&values);
            Some(if summary.agents.is_some() { values } else { values.with_clock(clock) })
        });
        Self {
            counts: base.zip(new).map(|(base, new)| [base, new]),
            times: base_times.zip(new_times).map(|(base, new)| [base, new]),
        }
    }

    /// Adds what somebody else measured. What would be too much to be counted exactly is left out.
    fn merge(&mut self, other: &Self) {
        if let Some(more) = &other.counts {
            let sum = self.counts.get_or_insert_default();
            let fits = sum.iter().zip(more).all(|(sum, more)| sum.calls + more.calls <= MAX_CALLS);
            for (sum, more) in sum.iter_mut().zip(more).filter(|_| fits) {
                sum.calls += more.calls;
                sum.events += more.events;
            }
        }
        match (&mut self.times, &other.times) {
            (None, Some(more)) => self.times = Some(more.clone()),
            (Some(sum), Some(more)) => {
                let [mut base, mut new] = sum.clone();
                if base.merge(&more[0]).and_then(|()| new.merge(&more[1])).is_ok() {
                    *sum = [base, new];
                }
            }
            (_, None) => {}
        }
    }

    fn calls(&self) -> u64 {
        let counted = self.counts.iter().flatten().map(|side| side.calls).sum();
        let timed = self.times.iter().flatten().map(Values::count).sum();
        u64::max(counted, timed)
    }

    fn told(self, key: Key) -> Stratum {
        let [base, new] = self.counts.map_or([None, None], |sides| sides.map(Some));
        let [f1_values, f2_values] =
            self.times.map_or([None, None], |sides| sides.map(|side| Some(Box::new(side))));
        Stratum {
            split: Some(key.split),
            interval: key.interval,
            f1_calls: base.map(|side| side.calls),
            f2_calls: new.map(|side| side.calls),
            f1_errors: base.map(|side| side.events),
            f2_errors: new.map(|side| side.events),
            f1_values,
            f2_values,
            ..Stratum::default()
        }
    }
}

/// Reported times in the form in which they merge. `None`: their numbers are beyond what is counted.
pub fn counted(reported: &Reported, times: Times) -> Option<Values> {
    match reported {
        Reported::Sketch(sketch) => bounds::of_sketch(sketch),
        Reported::Bounds(kept) => {
            bounds::of_bounds(&kept.bounds_ms, &kept.counts, [times.minimum, times.maximum])
        }
    }
}

/// A reported histogram in buckets of one base. `None`: its numbers are beyond what is counted.
pub fn one_form(reported: &Reported, times: Times) -> Option<Histogram> {
    match reported {
        Reported::Sketch(sketch) => bounds::sketch_in_one_form(sketch),
        Reported::Bounds(kept) => {
            bounds::bounds_in_one_form(&kept.bounds_ms, &kept.counts, [times.minimum, times.maximum])
        }
    }
}
