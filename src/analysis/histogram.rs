//! A histogram with logarithmic buckets that merges exactly: the logarithmic mapping of `DDSketch`
//! (Masson, Rim and Lee 2019), in the JSON form of its protocol buffers.
//!
//! Bucket i holds values from γ^(i − offset) up to γ^(i + 1 − offset); negative values are kept by their amount.

use serde::{Deserialize, Serialize};

use super::{
    spread::{Axis, Cell},
    values::GAMMA,
};

/// Most buckets of one sign: 9 decimal orders at 1 % accuracy.
pub const MAX_BUCKETS: usize = 4_096;

/// Largest index of a bucket; beyond it lies no float.
const MAX_INDEX: i64 = 1 << 24;

/// Largest count that a float still tells from the next.
const MAX_COUNT: u64 = 1 << 53;

/// A mergeable histogram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct Histogram {
    gamma: f64,
    /// Of γ; every value recorded needs it.
    ln_gamma: f64,
    offset: f64,
    zero: u64,
    positive: Buckets,
    negative: Buckets,
}

/// Counts of neighbouring buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Buckets {
    first: i64,
    counts: Vec<u64>,
}

/// Why a histogram can't be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HistogramFault {
    #[error("bucket base {0} is not above 1 and at most 2")]
    Gamma(f64),
    #[error("interpolation {0:?} isn't supported: only NONE, the logarithmic mapping, merges here")]
    Interpolation(String),
    #[error("a count of {0} is no whole number from 0 to 2^53")]
    Count(f64),
    #[error("more than {MAX_BUCKETS} buckets of one sign")]
    Buckets,
    #[error("bucket {0} lies beyond the range of numbers")]
    Index(i64),
    #[error("{0} is no finite number")]
    Value(f64),
    #[error("bucket bases {0} and {1} differ: such histograms can't be merged")]
    Merge(f64, f64),
}

impl Histogram {
    /// Empty, with buckets whose ends have the ratio `gamma`: a value is known to a relative error of (γ − 1)/(γ + 1).
    pub fn new(gamma: f64) -> Result<Self, HistogramFault> {
        Self::with_offset(gamma, 0.0)
    }

    fn with_offset(gamma: f64, offset: f64) -> Result<Self, HistogramFault> {
        if !(gamma > 1.0 && gamma <= 2.0) {
            return Err(HistogramFault::Gamma(gamma));
        }
        if !offset.is_finite() || offset.abs() > MAX_INDEX as f64 {
            return Err(HistogramFault::Value(offset));
        }
        let (positive, negative) = (Buckets::default(), Buckets::default());
        Ok(Self { gamma, ln_gamma: gamma.ln(), offset, zero: 0, positive, negative })
    }

    /// Empty, in the one form in which times are merged everywhere.
    pub(super) fn of_one_form() -> Self {
        let (positive, negative) = (Buckets::default(), Buckets::default());
        Self { gamma: GAMMA, ln_gamma: GAMMA.ln(), offset: 0.0, zero: 0, positive, negative }
    }

    /// Counts a value.
    pub fn record(&mut self, value: f64) -> Result<(), HistogramFault> {
        self.record_many(value, 1)
    }

    /// Counts a value so many times.
    pub fn record_many(&mut self, value: f64, count: u64) -> Result<(), HistogramFault> {
        if !value.is_finite() {
            return Err(HistogramFault::Value(value));
        }
        if value == 0.0 {
            self.zero += count;
            return Ok(());
        }
        let index = (value.abs().ln() / self.ln_gamma + self.offset).floor() as i64;
        let side = if value > 0.0 { &mut self.positive } else { &mut self.negative };
        side.add(index, count)
    }

    /// Counts so many positive values in a bucket.
    pub(super) fn record_bucket(&mut self, index: i64, count: u64) -> Result<(), HistogramFault> {
        self.positive.add(index, count)
    }

    /// Adds another one, exactly.
    pub fn merge(&mut self, other: &Self) -> Result<(), HistogramFault> {
        if !self.merges_with(other) {
            return Err(HistogramFault::Merge(self.gamma, other.gamma));
        }
        self.zero += other.zero;
        self.positive.merge(&other.positive)?;
        self.negative.merge(&other.negative)
    }

    /// What was counted after `before`, which counted a part of it. `None`: it is no part of it.
    pub fn since(&self, before: &Self) -> Option<Self> {
        if !self.merges_with(before) {
            return None;
        }
        Some(Self {
            zero: self.zero.checked_sub(before.zero)?,
            positive: self.positive.since(&before.positive)?,
            negative: self.negative.since(&before.negative)?,
            ..*self
        })
    }

    pub fn merges_with(&self, other: &Self) -> bool {
        self.gamma.to_bits() == other.gamma.to_bits() && self.offset.to_bits() == other.offset.to_bits()
    }

    pub fn gamma(&self) -> f64 {
        self.gamma
    }

    /// By how much buckets are moved: bucket i begins at γ^(i − offset).
    pub fn offset(&self) -> f64 {
        self.offset
    }

    pub fn count(&self) -> u64 {
        self.zero + self.zero_free()
    }

    /// Values that are not 0.
    pub fn zero_free(&self) -> u64 {
        self.positive.counts.iter().sum::<u64>() + self.negative.counts.iter().sum::<u64>()
    }

    pub fn has_negative(&self) -> bool {
        self.negative.counts.iter().any(|count| *count > 0)
    }

    /// The same without its zeros.
    #[must_use]
    pub fn without_zeros(&self) -> Self {
        Self { zero: 0, ..self.clone() }
    }

    /// The value below which the share `q` of all lies, evenly spread within its bucket.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let wanted = q.clamp(0.0, 1.0) * self.count() as f64;
        let cells = self.cells();
        let last = cells.last()?.hi;
        let mut below = 0.0;
        for cell in cells {
            if below + cell.mass >= wanted {
                return Some(cell.at((wanted - below) / cell.mass));
            }
            below += cell.mass;
        }
        Some(last)
    }

    /// The buckets that hold something, in order: their ends, and how many values. Zeros are a bucket from 0 to 0.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, f64, u64)> {
        self.cells().into_iter().map(|cell| (cell.lo, cell.hi, cell.mass as u64))
    }

    /// The buckets that hold something, in order.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let edge = |index: i64| ((index as f64 - self.offset) * self.ln_gamma).exp();
        let negative = self.negative.filled().rev();
        let negative = negative.map(|(i, count)| Cell::new(-edge(i + 1), -edge(i), count, Axis::Log));
        let zero = (self.zero > 0).then(|| Cell::new(0.0, 0.0, self.zero, Axis::Linear));
        let positive = self.positive.filled();
        let positive = positive.map(|(i, count)| Cell::new(edge(i), edge(i + 1), count, Axis::Log));
        negative.chain(zero).chain(positive).collect()
    }
}

impl Buckets {
    fn add(&mut self, index: i64, count: u64) -> Result<(), HistogramFault> {
        if count == 0 {
            return Ok(());
        }
        self.cover(index, index)?;
        self.counts[(index - self.first) as usize] += count;
        Ok(())
    }

    fn merge(&mut self, other: &Self) -> Result<(), HistogramFault> {
        if other.counts.is_empty() {
            return Ok(());
        }
        self.cover(other.first, other.first + other.counts.len() as i64 - 1)?;
        let at = (other.first - self.first) as usize;
        for (mine, theirs) in self.counts[at..].iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        Ok(())
    }

    /// Without empty buckets at the ends, as if the others had never been counted.
    fn since(&self, before: &Self) -> Option<Self> {
        let mut left: std::collections::BTreeMap<i64, u64> = self.filled().collect();
        for (index, count) in before.filled() {
            let now = left.get_mut(&index)?;
            *now = now.checked_sub(count)?;
        }
        left.retain(|_, count| *count > 0);
        let mut buckets = Self::default();
        left.into_iter().try_for_each(|(index, count)| buckets.add(index, count)).ok()?;
        Some(buckets)
    }

    /// Makes room for all buckets from `low` to `high`.
    fn cover(&mut self, low: i64, high: i64) -> Result<(), HistogramFault> {
        if low < -MAX_INDEX || high > MAX_INDEX {
            return Err(HistogramFault::Index(if low < -MAX_INDEX { low } else { high }));
        }
        if self.counts.is_empty() {
            self.first = low;
        }
        let first = low.min(self.first);
        let end = (high + 1).max(self.first + self.counts.len() as i64);
        if (end - first) as usize > MAX_BUCKETS {
            return Err(HistogramFault::Buckets);
        }
        let before = (self.first - first) as usize;
        if before > 0 {
            self.counts.splice(0..0, std::iter::repeat_n(0, before));
        }
        self.counts.resize((end - first) as usize, 0);
        self.first = first;
        Ok(())
    }

    fn filled(&self) -> impl DoubleEndedIterator<Item = (i64, u64)> {
        let first = self.first;
        let all = self.counts.iter().enumerate();
        all.filter(|(_, count)| **count > 0).map(move |(at, count)| (first + at as i64, *count))
    }
}

/// The JSON form of the protocol buffers of `DDSketch`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    mapping: WireMapping,
    #[serde(default)]
    positive_values: WireStore,
    #[serde(default)]
    negative_values: WireStore,
    #[serde(default)]
    zero_count: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireMapping {
    gamma: f64,
    #[serde(default)]
    index_offset: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interpolation: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireStore {
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    bin_counts: std::collections::BTreeMap<i64, f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    contiguous_bin_counts: Vec<f64>,
    #[serde(default)]
    contiguous_bin_index_offset: i64,
}

impl From<Histogram> for Wire {
    fn from(histogram: Histogram) -> Self {
        let store = |buckets: Buckets| WireStore {
            bin_counts: std::collections::BTreeMap::new(),
            contiguous_bin_counts: buckets.counts.iter().map(|count| *count as f64).collect(),
            contiguous_bin_index_offset: buckets.first,
        };
        Self {
            mapping: WireMapping {
                gamma: histogram.gamma,
                index_offset: histogram.offset,
                interpolation: None,
            },
            positive_values: store(histogram.positive),
            negative_values: store(histogram.negative),
            zero_count: histogram.zero as f64,
        }
    }
}

impl TryFrom<Wire> for Histogram {
    type Error = HistogramFault;

    fn try_from(wire: Wire) -> Result<Self, HistogramFault> {
        if let Some(name) = wire.mapping.interpolation.filter(|name| name != "NONE") {
            return Err(HistogramFault::Interpolation(name));
        }
        let mut histogram = Self::with_offset(wire.mapping.gamma, wire.mapping.index_offset)?;
        histogram.zero = whole(wire.zero_count)?;
        for (store, buckets) in
            [(wire.positive_values, &mut histogram.positive), (wire.negative_values, &mut histogram.negative)]
        {
            if store.contiguous_bin_counts.len() > MAX_BUCKETS {
                return Err(HistogramFault::Buckets);
            }
            for (at, count) in store.contiguous_bin_counts.into_iter().enumerate() {
                buckets.add(store.contiguous_bin_index_offset.saturating_add(at as i64), whole(count)?)?;
            }
            for (index, count) in store.bin_counts {
                buckets.add(index, whole(count)?)?;
            }
        }
        Ok(histogram)
    }
}

fn whole(count: f64) -> Result<u64, HistogramFault> {
    if count >= 0.0 && count <= MAX_COUNT as f64 && count.fract() == 0.0 {
        return Ok(count as u64);
    }
    Err(HistogramFault::Count(count))
}
