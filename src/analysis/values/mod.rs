//! Times of calls in a form that merges exactly: each value with its count while there are few different ones, a histogram
//! of all of them and their sum from then on.
//!
//! The form is canonical: exact if and only if at most [`MAX_DISTINCT`] different values were recorded in all. What is more
//! than that in a part is more than that in the whole, so neither the order of merging nor how the parts were cut matters,
//! and an earlier state can be taken away from a later one by counts alone.
//!
//! Beside the values stands how they were read: the step of the clock and the way in which it rounds. Where clocks
//! differ, the coarser one counts, and one that isn't known is coarser than all others.
//!
//! Deliberately not here: what a step does to a comparison (`grid`).

mod form;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, HistogramFault};

/// Most different values that are kept as they are.
pub const MAX_DISTINCT: usize = 512;

/// The ratio of the ends of a bucket: values are known to half a percent.
pub const GAMMA: f64 = 1.01;

/// Fastest and slowest call that is counted, in milliseconds; 0 is counted too. Between them there are fewer buckets than a
/// histogram may have, so that any two can be merged.
pub const RANGE_MS: [f64; 2] = [5e-4, 2e9];

/// Most calls that are counted. Counts stay exact in every form of theirs.
pub const MAX_CALLS: u64 = 1 << 48;

/// Coarsest clock, in milliseconds.
pub const MAX_STEP_MS: f64 = 60_000.0;

/// Largest ratio of the ends of a bucket that somebody reported.
pub const MAX_WIDTH: f64 = 1e13;

/// Nanoseconds of a millisecond.
const NS: f64 = 1e6;

/// How a clock comes to whole steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rounding {
    Nearest,
    Down,
}

/// Times of calls in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "form::ValuesForm", into = "form::ValuesForm")]
pub struct Values {
    form: Storage,
    clock: Clock,
    /// The ratio of the ends of the buckets from which they were taken over, where these were wider than [`GAMMA`].
    width: Option<f64>,
}

/// How values were read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Clock {
    /// In milliseconds; 0: continuous; `None`: unknown.
    pub step: Option<f64>,
    /// `None`: unknown.
    pub rounding: Option<Rounding>,
}

#[derive(Debug, Clone, PartialEq)]
enum Storage {
    /// Ascending, none twice, none with a count of 0.
    Exact(Vec<(f64, u64)>),
    Sketch {
        buckets: Histogram,
        /// In nanoseconds, each value rounded to whole ones, so that sums don't depend on their order; `None`: unknown.
        sum_ns: Option<u64>,
    },
}

/// Why values can't be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ValuesFault {
    #[error("{0} ms is no time that is counted: 0, or from {low} to {high}", low = RANGE_MS[0], high = RANGE_MS[1])]
    Value(f64),
    #[error("more than {MAX_DISTINCT} different values: the others belong into a sketch")]
    Distinct,
    #[error("more than 2^48 calls, or a sum of more than 2^64 ns")]
    TooMuch,
    #[error("values are given either as `exact` or as `sketch`")]
    Form,
    #[error("a sketch of values has buckets of base {GAMMA} without an offset, and none below 0")]
    Buckets,
    #[error("the sum isn't one of the values in the buckets")]
    Sum,
    #[error("the step {0} is no number of milliseconds from 0 to {MAX_STEP_MS}")]
    Step(f64),
    #[error("the width {0} is no ratio above 1")]
    Width(f64),
    #[error(transparent)]
    Histogram(#[from] HistogramFault),
}

impl Clock {
    pub const UNKNOWN: Self = Self { step: None, rounding: None };
    pub const CONTINUOUS: Self = Self { step: Some(0.0), rounding: None };

    pub fn stepped(step: f64, rounding: Rounding) -> Self {
        Self { step: Some(step), rounding: Some(rounding) }
    }

    /// The one by which values of both are judged: the coarser; an unknown one may be coarser than any other.
    #[must_use]
    pub fn coarser(self, other: Self) -> Self {
        let size = |clock: &Self| clock.step.unwrap_or(f64::INFINITY);
        match size(&self).total_cmp(&size(&other)) {
            std::cmp::Ordering::Greater => self,
            std::cmp::Ordering::Less => other,
            std::cmp::Ordering::Equal => {
                Self { rounding: self.rounding.filter(|_| self.rounding == other.rounding), ..self }
            }
        }
    }

    /// The same, if its values turn out to lie further apart.
    #[must_use]
    pub fn at_least(self, step: f64) -> Self {
        const SAME: f64 = 1.0 + 1e-6;
        let is_coarser = self.step.is_some_and(|known| step > known * SAME);
        if is_coarser { Self { step: Some(step), rounding: None } } else { self }
    }

    fn check(self) -> Result<Self, ValuesFault> {
        match self.step {
            Some(step) if !(0.0..=MAX_STEP_MS).contains(&step) => Err(ValuesFault::Step(step)),
            _ => Ok(self),
        }
    }
}

impl Values {
    /// None yet. Refused if the step is none.
    pub fn new(clock: Clock) -> Result<Self, ValuesFault> {
        Ok(Self { form: Storage::Exact(Vec::new()), clock: clock.check()?, width: None })
    }

    /// None, of the same clock.
    #[must_use]
    pub fn none(&self) -> Self {
        Self { form: Storage::Exact(Vec::new()), clock: self.clock, width: None }
    }

    /// Values as a clock showed them, in milliseconds.
    pub fn of(values: impl IntoIterator<Item = f64>, clock: Clock) -> Result<Self, ValuesFault> {
        let mut all = Self::new(clock)?;
        values.into_iter().try_for_each(|value| all.record(value, 1))?;
        Ok(all)
    }

    /// What is left of values of which only a histogram of base [`GAMMA`] is known. `width`: the ratio of the ends of the
    /// buckets that it was made of, if these were wider than its own.
    pub fn from_histogram(buckets: Histogram, width: Option<f64>) -> Result<Self, ValuesFault> {
        check_buckets(&buckets)?;
        if let Some(width) = width.filter(|width| !(*width > 1.0 && *width <= MAX_WIDTH)) {
            return Err(ValuesFault::Width(width));
        }
        let width = width.filter(|width| *width > GAMMA);
        Ok(Self { form: Storage::Sketch { buckets, sum_ns: None }, clock: Clock::UNKNOWN, width })
    }

    /// These values, read by a clock of which more is known now.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock: clock.check().unwrap_or(self.clock), ..self }
    }

    /// Counts a value so many times. What is refused changes nothing.
    pub fn record(&mut self, ms: f64, count: u64) -> Result<(), ValuesFault> {
        let ms = counted(ms)?;
        // One at a time nobody gets that far.
        if count > 1 && count.saturating_add(self.count()) > MAX_CALLS {
            return Err(ValuesFault::TooMuch);
        }
        match &mut self.form {
            _ if count == 0 => Ok(()),
            Storage::Exact(pairs) => match pairs.binary_search_by(|(known, _)| known.total_cmp(&ms)) {
                Ok(at) => {
                    pairs[at].1 += count;
                    Ok(())
                }
                Err(at) => {
                    pairs.insert(at, (ms, count));
                    if pairs.len() > MAX_DISTINCT {
                        let sum_ns = Some(sum_ns(pairs)?);
                        self.form = Storage::Sketch { buckets: bucketed(pairs)?, sum_ns };
                    }
                    Ok(())
                }
            },
            Storage::Sketch { buckets, sum_ns } => {
                if let Some(sum) = sum_ns {
                    let more = u64::try_from((ms * NS).round() as u128 * u128::from(count));
                    let more = more.ok().and_then(|more| sum.checked_add(more));
                    *sum = more.ok_or(ValuesFault::TooMuch)?;
                }
                Ok(buckets.record_many(ms, count)?)
            }
        }
    }

    /// Adds others. What would be too much to be counted exactly is refused, and changes nothing.
    pub fn merge(&mut self, other: &Self) -> Result<(), ValuesFault> {
        if other.is_empty() && !self.is_empty() {
            return Ok(());
        }
        if self.is_empty() && !other.is_empty() {
            *self = other.clone();
            return Ok(());
        }
        if self.count() + other.count() > MAX_CALLS {
            return Err(ValuesFault::TooMuch);
        }
        add(&mut self.form, &other.form)?;
        self.clock = self.clock.coarser(other.clock);
        self.width = wider(self.width, other.width);
        Ok(())
    }

    /// What came after `before`, which is part of these. `None` if it isn't: some count would be negative.
    pub fn since(&self, before: &Self) -> Option<Self> {
        let form = match (&self.form, &before.form) {
            (Storage::Exact(now), Storage::Exact(before)) => Storage::Exact(without(now, before)?),
            (Storage::Exact(_), Storage::Sketch { .. }) => return None,
            (Storage::Sketch { buckets, sum_ns }, before) => {
                let (earlier, earlier_sum) = sketched(before).ok()?;
                let sum_ns = match (sum_ns, earlier_sum) {
                    (Some(now), Some(earlier)) => Some(now.checked_sub(earlier)?),
                    _ => None,
                };
                Storage::Sketch { buckets: buckets.since(&earlier)?, sum_ns }
            }
        };
        Some(Self { form, ..*self })
    }

    pub fn count(&self) -> u64 {
        match &self.form {
            Storage::Exact(pairs) => pairs.iter().map(|(_, count)| count).sum(),
            Storage::Sketch { buckets, .. } => buckets.count(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many are 0.
    pub fn zeros(&self) -> u64 {
        match &self.form {
            Storage::Exact(pairs) => {
                pairs.first().filter(|(value, _)| *value == 0.0).map_or(0, |(_, count)| *count)
            }
            Storage::Sketch { buckets, .. } => buckets.count() - buckets.zero_free(),
        }
    }

    /// The others.
    #[must_use]
    pub fn without_zeros(&self) -> Self {
        let form = match &self.form {
            Storage::Exact(pairs) => {
                Storage::Exact(pairs.iter().filter(|(value, _)| *value > 0.0).copied().collect())
            }
            Storage::Sketch { buckets, sum_ns } => {
                Storage::Sketch { buckets: buckets.without_zeros(), sum_ns: *sum_ns }
            }
        };
        Self { form, ..*self }
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The ratio of the ends of the buckets from which they were taken over, where these were wider than [`GAMMA`].
    pub fn width(&self) -> Option<f64> {
        self.width
    }

    /// Each value with its count, ascending, while there are few.
    pub fn exact(&self) -> Option<&[(f64, u64)]> {
        match &self.form {
            Storage::Exact(pairs) => Some(pairs),
            Storage::Sketch { .. } => None,
        }
    }

    /// The values in buckets, whatever they are kept as.
    pub fn to_histogram(&self) -> Histogram {
        match &self.form {
            Storage::Sketch { buckets, .. } => buckets.clone(),
            Storage::Exact(pairs) => bucketed(pairs).unwrap_or_else(|_| Histogram::of_one_form()),
        }
    }

    /// The same in buckets, as if there were more different ones. Values that can't be counted so stay as they are.
    #[must_use]
    pub fn in_buckets(self) -> Self {
        match sketched(&self.form) {
            Ok((buckets, sum_ns)) => {
                let form = Storage::Sketch { buckets: buckets.into_owned(), sum_ns };
                Self { form, ..self }
            }
            Err(_) => self,
        }
    }

    /// Their sum in milliseconds; `None`: it isn't known.
    pub fn sum_ms(&self) -> Option<f64> {
        match &self.form {
            Storage::Exact(pairs) => Some(pairs.iter().map(|(value, count)| value * *count as f64).sum()),
            Storage::Sketch { sum_ns, .. } => sum_ns.map(|sum| sum as f64 / NS),
        }
    }

    /// Their mean in milliseconds; `None`: there are none, or it isn't known.
    pub fn mean_ms(&self) -> Option<f64> {
        (!self.is_empty()).then(|| Some(self.sum_ms()? / self.count() as f64))?
    }

    /// The least value that a share `q` (0 to 1) of all doesn't exceed, in milliseconds; to half a percent where they are
    /// kept in buckets.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let pairs = match &self.form {
            Storage::Sketch { buckets, .. } => return buckets.quantile(q),
            Storage::Exact(pairs) => pairs,
        };
        let rank = (q.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let reaches = |(_, count): &&(f64, u64)| {
            below += count;
            below >= rank
        };
        pairs.iter().find(reaches).map(|(value, _)| *value)
    }
}

/// A value that is counted, with 0 as 0.
fn counted(ms: f64) -> Result<f64, ValuesFault> {
    // −0 is 0.
    if ms == 0.0 || (RANGE_MS[0]..=RANGE_MS[1]).contains(&ms) {
        Ok(ms.abs())
    } else {
        Err(ValuesFault::Value(ms))
    }
}

fn wider(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).max_by(f64::total_cmp)
}

/// Adds to a form in place. What is refused changes nothing: buckets of values always merge, and only sums may be too much.
fn add(all: &mut Storage, more: &Storage) -> Result<(), ValuesFault> {
    if let (Storage::Exact(known), Storage::Exact(more)) = (&*all, more) {
        let union = union(known, more);
        if union.len() <= MAX_DISTINCT {
            *all = Storage::Exact(union);
            return Ok(());
        }
    }
    let (more, more_ns) = sketched(more)?;
    let total = |sum: Option<u64>| match (sum, more_ns) {
        (Some(sum), Some(more)) => sum.checked_add(more).map(Some).ok_or(ValuesFault::TooMuch),
        _ => Ok(None),
    };
    match all {
        Storage::Sketch { buckets, sum_ns } => {
            let total = total(*sum_ns)?;
            buckets.merge(&more)?;
            *sum_ns = total;
        }
        Storage::Exact(pairs) => {
            let (mut buckets, sum_ns) = (bucketed(pairs)?, total(Some(sum_ns(pairs)?))?);
            buckets.merge(&more)?;
            *all = Storage::Sketch { buckets, sum_ns };
        }
    }
    Ok(())
}

fn union(a: &[(f64, u64)], b: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let mut all = [a, b].concat();
    all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    all.dedup_by(|(next, more), (kept, count)| {
        let same = next.to_bits() == kept.to_bits();
        *count += if same { *more } else { 0 };
        same
    });
    all
}

/// Counts of `now` less those of `before`; `None` if any would be negative.
fn without(now: &[(f64, u64)], before: &[(f64, u64)]) -> Option<Vec<(f64, u64)>> {
    let mut left = now.to_vec();
    for (value, count) in before {
        let at = left.binary_search_by(|(known, _)| known.total_cmp(value)).ok()?;
        left[at].1 = left[at].1.checked_sub(*count)?;
    }
    left.retain(|(_, count)| *count > 0);
    Some(left)
}

fn sketched(form: &Storage) -> Result<(Cow<'_, Histogram>, Option<u64>), ValuesFault> {
    match form {
        Storage::Sketch { buckets, sum_ns } => Ok((Cow::Borrowed(buckets), *sum_ns)),
        Storage::Exact(pairs) => Ok((Cow::Owned(bucketed(pairs)?), Some(sum_ns(pairs)?))),
    }
}

fn bucketed(pairs: &[(f64, u64)]) -> Result<Histogram, ValuesFault> {
    let mut buckets = Histogram::of_one_form();
    pairs.iter().try_for_each(|(value, count)| buckets.record_many(*value, *count))?;
    Ok(buckets)
}

fn sum_ns(pairs: &[(f64, u64)]) -> Result<u64, ValuesFault> {
    let sum: u128 =
        pairs.iter().map(|(value, count)| (value * NS).round() as u128 * u128::from(*count)).sum();
    u64::try_from(sum).map_err(|_| ValuesFault::TooMuch)
}

fn check_buckets(buckets: &Histogram) -> Result<(), ValuesFault> {
    if !buckets.merges_with(&Histogram::of_one_form()) || buckets.has_negative() {
        return Err(ValuesFault::Buckets);
    }
    let mut calls = 0_u128;
    for (low, high, count) in buckets.buckets() {
        calls += u128::from(count);
        // A value at an end of the range lies within a bucket that reaches beyond it.
        if high > 0.0 && (low < RANGE_MS[0] / GAMMA || high > RANGE_MS[1] * GAMMA) {
            return Err(ValuesFault::Value(if low < RANGE_MS[0] { low } else { high }));
        }
    }
    if calls > u128::from(MAX_CALLS) { Err(ValuesFault::TooMuch) } else { Ok(()) }
}
