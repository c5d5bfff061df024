//! Response times, as children report them.

use analysis::Values;

/// Median, minimum and maximum of response times in milliseconds; -1 where no call succeeded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    pub median: f64,
    pub minimum: f64,
    pub maximum: f64,
}

/// Response times counted in buckets: `counts[i]` calls took at most `bounds_ms[i]`; one count more than bounds
/// is for the calls above the last.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    pub bounds_ms: Vec<f64>,
    pub counts: Vec<u64>,
}

impl Histogram {
    /// An upper bound of the quantile `q` (0 to 1) in milliseconds: the upper edge of the bucket it falls into.
    /// `None` without calls, or if it lies above the last bound.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let total: u64 = self.counts.iter().sum();
        let rank = (q * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bound, count) in self.bounds_ms.iter().zip(&self.counts) {
            seen += count;
            if total > 0 && seen >= rank {
                return Some(*bound);
            }
        }
        None
    }
}

/// Response times in milliseconds, in one of the forms in which children count them.
#[derive(Debug, Clone, PartialEq)]
pub enum Reported {
    /// In logarithmic buckets, which merge exactly.
    Sketch(analysis::Histogram),
    Bounds(Histogram),
}

impl Reported {
    /// The quantile `q` (0 to 1) in milliseconds, as exactly as the form allows. `None` if that can't be said.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        match self {
            Self::Sketch(sketch) => sketch.quantile(q),
            Self::Bounds(bounds) => bounds.quantile(q),
        }
    }
}

/// The quantile `q` (0 to 1) in milliseconds of times that were told in one form or the other. `None` if that can't be said.
pub(super) fn quantile(values: Option<&Values>, reported: Option<&Reported>, q: f64) -> Option<f64> {
    match values {
        Some(values) => values.quantile(q),
        None => reported?.quantile(q),
    }
}
