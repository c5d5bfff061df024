//! Times of calls in whole microseconds: each as it is while there are few, buckets from then on.
//!
//! The buckets are those of `analysis`' histograms of milliseconds, so that what threads, intervals and proxies counted
//! merges without any loss. The form is canonical: exact if and only if at most [`EXACT_TIMES`] times were recorded in all, so
//! neither the order of merging nor how the parts were cut matters.

use std::num::NonZero;

use analysis::{Clock, Histogram, Rounding, Values, ValuesFault, values::GAMMA};
use serde::{Deserialize, Serialize};

/// How many times are kept as they are; with more, all are kept in buckets.
pub const EXACT_TIMES: usize = 1_000;

/// The bucket of 1 µs, below which only 0 is left.
const FIRST: i16 = -695;
/// The bucket of the longest time that is told, 2³² − 1 µs, which is 71 minutes. A longer one counts as that.
const LAST: i16 = 1_535;

/// Microseconds of a millisecond, which is the unit of `analysis`.
const US_OF_MS: f64 = 1_000.0;

/// Times that can be merged with others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "TimesForm", into = "TimesForm")]
pub struct Times {
    form: Form,
    sum_us: u64,
    /// The shortest and the longest.
    range_us: Option<[u32; 2]>,
    /// Of the coarsest clock that showed one of them.
    step: Step,
}

/// The step of a clock, in microseconds, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step(u32);

impl Default for Step {
    fn default() -> Self {
        Self(1)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// Ascending.
    Exact(Vec<u32>),
    Sketch {
        zeros: u64,
        /// Ascending by the bucket's index, none with a count of 0.
        buckets: Vec<(i16, u64)>,
    },
}

impl Default for Form {
    fn default() -> Self {
        Self::Exact(Vec::new())
    }
}

impl Times {
    /// These times, in microseconds.
    #[must_use]
    pub fn of(mut us: Vec<u32>) -> Self {
        us.sort_unstable();
        let sum_us = us.iter().copied().map(u64::from).sum();
        let range_us = range_of(&us);
        Self { form: Form::Exact(us), sum_us, range_us, step: Step::default() }.canonical()
    }

    /// The same times, from a clock of whole steps of so many microseconds: what two versions differ by less than that can't be told
    /// from them, and whoever judges by them is told so.
    #[must_use]
    pub fn with_step(mut self, us: u32) -> Self {
        self.step = self.step.max(Step(us));
        self
    }

    /// Of the coarsest clock that showed one of them, in microseconds.
    #[must_use]
    pub fn step_us(&self) -> u32 {
        self.step.0
    }

    pub fn merge(&mut self, other: &Self) {
        self.sum_us += other.sum_us;
        self.range_us = wider(self.range_us, other.range_us);
        self.step = self.step.max(other.step);
        match (&mut self.form, &other.form) {
            #[expect(
                clippy::stable_sort_primitive,
                reason = "both ascend, and only the stable sort finds such runs and merges them"
            )]
            (Form::Exact(all), Form::Exact(more)) if all.len() + more.len() <= EXACT_TIMES => {
                all.extend_from_slice(more);
                all.sort();
            }
            (_, more) => {
                let (mut zeros, mut all) = std::mem::take(&mut self.form).into_buckets();
                let (more_zeros, more) = more.clone().into_buckets();
                zeros += more_zeros;
                all.extend(more);
                self.form = Form::Sketch { zeros, buckets: summed(all) };
            }
        }
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        match &self.form {
            Form::Exact(us) => us.len() as u64,
            Form::Sketch { zeros, buckets } => zeros + buckets.iter().map(|(_, count)| count).sum::<u64>(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// The shortest and the longest, in microseconds; `None`: there is none.
    #[must_use]
    pub fn range_us(&self) -> Option<[u32; 2]> {
        self.range_us
    }

    /// Each time in microseconds, ascending, while there are few.
    #[must_use]
    pub fn exact(&self) -> Option<&[u32]> {
        match &self.form {
            Form::Exact(us) => Some(us),
            Form::Sketch { .. } => None,
        }
    }

    /// All of them as a histogram of milliseconds.
    ///
    /// # Errors
    ///
    /// None that these buckets have.
    pub fn to_histogram(&self) -> Result<Histogram, analysis::HistogramFault> {
        let mut histogram = Histogram::new(GAMMA)?;
        match &self.form {
            Form::Exact(us) => us.iter().try_for_each(|&us| histogram.record(f64::from(us) / US_OF_MS))?,
            Form::Sketch { zeros, buckets } => {
                histogram.record_many(0.0, *zeros)?;
                // The middle of a bucket lies in it, however it is rounded.
                let middle = |index: i16| GAMMA.powf(f64::from(index) + 0.5);
                buckets.iter().try_for_each(|&(index, count)| histogram.record_many(middle(index), count))?;
            }
        }
        Ok(histogram)
    }

    /// All of them as a judgement takes them: milliseconds of a clock that counts whole steps.
    ///
    /// # Errors
    ///
    /// More of them than a judgement counts exactly.
    pub fn to_values(&self) -> Result<Values, ValuesFault> {
        // A coarse clock was read at both ends, and rounded down at both: what lies between is as often too much as too little.
        let rounding = if self.step == Step::default() { Rounding::Down } else { Rounding::Nearest };
        let clock = Clock::stepped(f64::from(self.step.0) / US_OF_MS, rounding);
        match &self.form {
            Form::Exact(us) => Values::of(us.iter().map(|&us| f64::from(us) / US_OF_MS), clock),
            Form::Sketch { .. } => {
                // The form in which values travel says their sum, too.
                let sum_ns = self.sum_us.checked_mul(1_000).ok_or(ValuesFault::TooMuch)?;
                let (sketch, step) = (self.to_histogram()?, clock.step);
                let form = serde_json::json!({
                    "sketch": sketch, "sum_ns": sum_ns, "step": step, "rounding": clock.rounding,
                });
                serde_json::from_value(form).map_err(|_| ValuesFault::TooMuch)
            }
        }
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        match &self.form {
            Form::Exact(us) => size_of_val(us.as_slice()),
            Form::Sketch { buckets, .. } => size_of_val(buckets.as_slice()),
        }
    }

    fn canonical(self) -> Self {
        let form = match self.form {
            Form::Exact(us) if us.len() > EXACT_TIMES => {
                let (zeros, buckets) = Form::Exact(us).into_buckets();
                Form::Sketch { zeros, buckets }
            }
            form => form,
        };
        Self { form, ..self }
    }
}

impl Form {
    fn into_buckets(self) -> (u64, Vec<(i16, u64)>) {
        match self {
            Self::Exact(us) => {
                let zeros = us.iter().filter(|us| **us == 0).count() as u64;
                (zeros, summed(us.into_iter().filter(|us| *us > 0).map(|us| (bucket_of(us), 1)).collect()))
            }
            Self::Sketch { zeros, buckets } => (zeros, buckets),
        }
    }
}

/// The bucket of a time that isn't 0: the same arithmetic as that of `analysis`' histograms, to the last bit.
fn bucket_of(us: u32) -> i16 {
    ((f64::from(us) / US_OF_MS).ln() / GAMMA.ln()).floor() as i16
}

/// Of ascending times.
fn range_of(us: &[u32]) -> Option<[u32; 2]> {
    Some([*us.first()?, *us.last()?])
}

fn wider(one: Option<[u32; 2]>, other: Option<[u32; 2]>) -> Option<[u32; 2]> {
    match (one, other) {
        (Some([least, most]), Some([other_least, other_most])) => {
            Some([least.min(other_least), most.max(other_most)])
        }
        (one, other) => one.or(other),
    }
}

/// As far as buckets tell it, in microseconds.
fn range_of_buckets(zeros: u64, buckets: &[(i16, u64)]) -> Option<[u32; 2]> {
    let end = |index: i16| GAMMA.powi(i32::from(index)) * US_OF_MS;
    let ends = buckets.first().zip(buckets.last()).map(|(first, last)| {
        let least = if zeros > 0 { 0 } else { end(first.0).ceil() as u32 };
        [least, end(last.0 + 1).floor() as u32]
    });
    ends.or((zeros > 0).then_some([0, 0]))
}

fn summed(mut buckets: Vec<(i16, u64)>) -> Vec<(i16, u64)> {
    buckets.sort_unstable_by_key(|(index, _)| *index);
    buckets.dedup_by(|(next, more), (kept, count)| {
        let is_same = next == kept;
        *count += if is_same { *more } else { 0 };
        is_same
    });
    buckets
}

/// Times as a thread records them. Its room is kept from one reading to the next, so that recording needs none.
#[derive(Debug, Default)]
pub struct Recorder {
    exact: Vec<u32>,
    zeros: u64,
    /// Counts from bucket [`FIRST`] on, once there are more than [`EXACT_TIMES`].
    dense: Vec<u32>,
    /// Whether anything is in the buckets.
    is_dense: bool,
    sum_us: u64,
    range_us: Option<[u32; 2]>,
}

impl Recorder {
    /// Counts a time.
    pub fn record(&mut self, us: u32) {
        self.sum_us += u64::from(us);
        self.range_us = wider(self.range_us, Some([us, us]));
        if self.exact.len() < EXACT_TIMES {
            self.exact.push(us);
            return;
        }
        self.is_dense = true;
        if us == 0 {
            self.zeros += 1;
            return;
        }
        if self.dense.is_empty() {
            self.dense.resize((LAST - FIRST) as usize + 1, 0);
        }
        self.dense[(bucket_of(us).clamp(FIRST, LAST) - FIRST) as usize] += 1;
    }

    /// What was recorded since this was asked last.
    pub fn take(&mut self) -> Times {
        let mut exact = self.exact.clone();
        self.exact.clear();
        let sum_us = std::mem::take(&mut self.sum_us);
        let (range_us, step) = (self.range_us.take(), Step::default());
        if !std::mem::take(&mut self.is_dense) {
            exact.sort_unstable();
            return Times { form: Form::Exact(exact), sum_us, range_us, step };
        }
        let (zeros, mut all) = Form::Exact(exact).into_buckets();
        for (index, count) in (FIRST..).zip(&mut self.dense).filter(|(_, count)| **count > 0) {
            all.push((index, u64::from(std::mem::take(count))));
        }
        let zeros = zeros + std::mem::take(&mut self.zeros);
        Times { form: Form::Sketch { zeros, buckets: summed(all) }, sum_us, range_us, step }
    }
}

/// The form in which it travels: `{"exact_us": [120, 135]}`, or `{"zeros": 0, "buckets": [[-212, 7]], "sum_us": 850, "range_us":
/// [121, 122]}`, either with `step_us` where the clock is coarser; bucket i holds milliseconds from 1.01^i up to 1.01^(i + 1).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum TimesForm {
    Exact {
        exact_us: Vec<u32>,
        /// Absent: 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step_us: Option<NonZero<u32>>,
    },
    Sketch {
        zeros: u64,
        buckets: Vec<(i16, u64)>,
        sum_us: u64,
        /// Absent: as far as the buckets tell it.
        #[serde(default)]
        range_us: Option<[u32; 2]>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step_us: Option<NonZero<u32>>,
    },
}

impl From<Times> for TimesForm {
    fn from(Times { form, sum_us, range_us, step }: Times) -> Self {
        let step_us = NonZero::new(step.0).filter(|step| step.get() > 1);
        match form {
            Form::Exact(exact_us) => Self::Exact { exact_us, step_us },
            Form::Sketch { zeros, buckets } => Self::Sketch { zeros, buckets, sum_us, range_us, step_us },
        }
    }
}

/// Why times that came are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("buckets of times ascend from {FIRST} to {LAST}, and none is empty")]
pub struct TimesFault;

impl TryFrom<TimesForm> for Times {
    type Error = TimesFault;

    fn try_from(form: TimesForm) -> Result<Self, TimesFault> {
        let step_of = |us: Option<NonZero<u32>>| us.map_or(1, NonZero::get);
        let (zeros, buckets, sum_us, range_us, step) = match form {
            TimesForm::Exact { exact_us, step_us } => {
                return Ok(Self::of(exact_us).with_step(step_of(step_us)));
            }
            TimesForm::Sketch { zeros, buckets, sum_us, range_us, step_us } => {
                (zeros, buckets, sum_us, range_us, Step(step_of(step_us)))
            }
        };
        let is_one = buckets.iter().all(|&(index, count)| (FIRST..=LAST).contains(&index) && count > 0);
        if !is_one || !buckets.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(TimesFault);
        }
        let range_us = range_us.filter(|[least, most]| least <= most);
        let range_us = range_us.or_else(|| range_of_buckets(zeros, &buckets));
        Ok(Self { form: Form::Sketch { zeros, buckets }, sum_us, range_us, step })
    }
}
