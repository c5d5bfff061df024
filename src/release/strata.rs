//! What children measured, kept apart by stratum: only calls that were shared out between the versions in the same way are
//! counted together.
//!
//! A stratum of a stage is the split under which the calls were made, and an interval of the stage where a child tells
//! several apart. A manager merges its children's numbers within a stratum, never across, and tells its parent the strata; so
//! a tree comes to the very numbers that one manager over all agents would have.
//!
//! Invariants:
//! - merging is exact, and neither the order of children nor how they are spread over managers matters: all histograms have one
//!   form before they meet;
//! - whose calls were not shared out as ordered is in a stratum of its own, where it moves nobody else's;
//! - what is not known of both versions is not known: nothing counts as 0.
//!
//! Deliberately not here: the judgement (`crate::analysis`), and who is asked (`judging`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::summary::{Reported, Summary, Times};
use crate::analysis::{Counts, Histogram};

/// Most strata in one summary.
pub const MAX_STRATA: usize = 64;

/// Most text of the strata that are told to a parent, in bytes: half of what a result may have.
pub const MAX_STRATA_BYTES: usize = 512 * 1024;

/// Most calls that are counted of one version in a stratum. Counts stay exact in every form of theirs.
const MAX_CALLS: u64 = 1 << 48;

/// The ratio of the ends of a bucket in the form that all histograms are brought to: values are known to half a percent.
pub const GAMMA: f64 = 1.01;

/// Fastest and slowest call that is counted, in milliseconds. Between them there are fewer buckets than a histogram may have,
/// so that any two can be merged.
const RANGE_MS: [f64; 2] = [5e-4, 2e9];

/// Buckets over which one reported bucket is spread at most.
const MAX_SPREAD: i64 = 2_000;

/// Standard deviations by which the calls of a version are off what was ordered where the split was another one: as far off
/// by chance is one child in a thousand.
const STRAY_DEVIATIONS: f64 = 3.29;

/// A stratum as it is reported and kept. f1 is the base version, f2 the new one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stratum {
    /// Percentage of the calls that the new version was to get; `None`: that of the stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<u8>,
    /// Percentage that it got, where that is too far off to be chance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_split: Option<u8>,
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
}

/// What tells one stratum of a stage from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Percentages, as in [`Stratum`].
    pub split: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_split: Option<u8>,
    #[serde(default)]
    pub interval: u32,
}

/// The numbers of a stratum, of the base version and of the new one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sides {
    /// Calls and errors, of all who count them of both.
    pub counts: Option<[Counts; 2]>,
    /// Times of successful calls, of all who know them of both.
    pub times: Option<[Histogram; 2]>,
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
                let ordered = stratum.split.unwrap_or(split);
                // A manager has looked at each of its children. Together they may be off by chance alone.
                let stray = if is_manager { None } else { measured(stratum, ordered) };
                let measured_split = stratum.measured_split.or(stray);
                let key = Key { split: ordered, measured_split, interval: stratum.interval };
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
        told.sort_by_key(|stratum| (stratum.split, stratum.measured_split, stratum.interval));
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
        ..Stratum::default()
    }
}

/// Which percentage of its calls went to the new version, if that is not what was ordered.
fn measured(stratum: &Stratum, ordered: u8) -> Option<u8> {
    let (base, new) = (stratum.f1_calls? as f64, stratum.f2_calls? as f64);
    let (calls, share) = (base + new, f64::from(ordered) / 100.0);
    let deviation = (calls * share * (1.0 - share)).sqrt();
    let is_off = (new - calls * share).abs() > STRAY_DEVIATIONS * deviation;
    is_off.then(|| (100.0 * new / calls).round() as u8)
}

impl Sides {
    fn of(stratum: &Stratum, summary: &Summary) -> Self {
        let counts = |calls: Option<u64>, errors: Option<u64>| {
            let calls = calls.filter(|calls| *calls <= MAX_CALLS)?;
            Some(Counts { calls, events: errors.filter(|errors| *errors <= calls)? })
        };
        let base = counts(stratum.f1_calls, stratum.f1_errors);
        let new = counts(stratum.f2_calls, stratum.f2_errors);
        let times = |reported: &Option<Box<Reported>>, times| one_form(reported.as_deref()?, times);
        let base_times = times(&stratum.f1_histogram, summary.f1_times_summary);
        let new_times = times(&stratum.f2_histogram, summary.f2_times_summary);
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
                let fits = sum.iter().zip(more).all(|(sum, more)| sum.count() + more.count() <= MAX_CALLS);
                for (sum, more) in sum.iter_mut().zip(more).filter(|_| fits) {
                    // They have the same buckets, and together not too many of them.
                    let _ = sum.merge(more);
                }
            }
            (_, None) => {}
        }
    }

    fn calls(&self) -> u64 {
        let counted = self.counts.iter().flatten().map(|side| side.calls).sum();
        let timed = self.times.iter().flatten().map(Histogram::count).sum();
        u64::max(counted, timed)
    }

    fn told(self, key: Key) -> Stratum {
        let [base, new] = self.counts.map_or([None, None], |sides| sides.map(Some));
        let [base_times, new_times] =
            self.times.map_or([None, None], |sides| sides.map(|side| Some(Box::new(Reported::Sketch(side)))));
        Stratum {
            split: Some(key.split),
            measured_split: key.measured_split,
            interval: key.interval,
            f1_calls: base.map(|side| side.calls),
            f2_calls: new.map(|side| side.calls),
            f1_errors: base.map(|side| side.events),
            f2_errors: new.map(|side| side.events),
            f1_histogram: base_times,
            f2_histogram: new_times,
        }
    }
}

/// A reported histogram in the form that all have here. One with the same buckets is taken as it is; of others each bucket is
/// spread evenly over those that it covers. `None`: its numbers are beyond what is counted.
pub fn one_form(reported: &Reported, times: Times) -> Option<Histogram> {
    let total: u128 = match reported {
        Reported::Sketch(sketch) => sketch.buckets().map(|(_, _, count)| u128::from(count)).sum(),
        Reported::Bounds(bounds) => bounds.counts.iter().map(|count| u128::from(*count)).sum(),
    };
    if total > u128::from(MAX_CALLS) {
        return None;
    }
    let found = match reported {
        Reported::Sketch(sketch) if sketch.merges_with(&Histogram::new(GAMMA).ok()?) => sketch.clone(),
        Reported::Sketch(sketch) => spread(sketch.buckets())?,
        Reported::Bounds(bounds) => {
            let ends = bounds.bounds_ms.iter().copied().chain([f64::INFINITY]);
            let mut low = 0.0_f64;
            spread(ends.zip(&bounds.counts).map(|(high, count)| {
                let cell = (low.max(times.minimum), high.min(times.maximum), *count);
                low = high;
                cell
            }))?
        }
    };
    let is_counted = |(low, high, _): (f64, f64, u64)| {
        (low == 0.0 && high == 0.0) || (low >= RANGE_MS[0] && high <= RANGE_MS[1])
    };
    let is_within = found.buckets().all(is_counted);
    is_within.then_some(found)
}

/// Buckets (from, to, count), each spread evenly on the logarithmic scale.
fn spread(reported: impl Iterator<Item = (f64, f64, u64)>) -> Option<Histogram> {
    let index = |value: f64| (value.ln() / GAMMA.ln()).floor() as i64;
    let mut zeros = 0_u64;
    let mut bins: BTreeMap<i64, u64> = BTreeMap::new();
    for (from, to, count) in reported.filter(|(_, _, count)| *count > 0) {
        if !(to.is_finite() && to > 0.0) {
            zeros += count;
            continue;
        }
        let from = if from > 0.0 && from < to { from } else { to };
        let (first, last) = (index(from), index(to));
        let cells = (last - first + 1).clamp(1, MAX_SPREAD);
        let part = |cell: i64| (u128::from(count) * cell as u128 / cells as u128) as u64;
        for cell in 0..cells {
            *bins.entry(first + cell).or_default() += part(cell + 1) - part(cell);
        }
    }
    bins.retain(|_, count| *count > 0);
    let form =
        json!({"mapping": {"gamma": GAMMA}, "positiveValues": {"binCounts": bins}, "zeroCount": zeros});
    serde_json::from_value(form).ok()
}
