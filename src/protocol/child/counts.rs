//! What was counted of one version: calls, errors, and times in either of several forms.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::limits::{MAX_HISTOGRAM_BOUNDS, MAX_HISTOGRAM_CALLS};
use crate::{WireError, number, read::at_most};

/// A time in a summary that stands for "no successful call".
pub const NO_CALL: f64 = -1.0;

/// Checks what was counted of one version.
pub(super) fn check_side(
    at: &str,
    of: &str,
    calls: Option<u64>,
    errors: Option<u64>,
    histogram: Option<&HistogramForm>,
) -> Result<(), WireError> {
    if let (Some(calls), Some(errors)) = (calls, errors)
        && errors > calls
    {
        let text = format!("`{at}.{of}_errors` is {errors}, more than the {calls} calls");
        return Err(WireError::new(&text));
    }
    histogram.map_or(Ok(()), |histogram| histogram.validate(&format!("{at}.{of}_histogram")))
}

/// Times of calls in milliseconds, [`NO_CALL`] where no call succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Times")]
pub struct TimesForm {
    #[serde(alias = "Median")]
    pub median: f64,
    #[serde(alias = "Minimum")]
    pub minimum: f64,
    #[serde(alias = "Maximum")]
    pub maximum: f64,
}

impl TimesForm {
    /// No call succeeded.
    pub const NONE: Self = Self { median: NO_CALL, minimum: NO_CALL, maximum: NO_CALL };

    pub(super) fn validate(&self, at: &str) -> Result<(), WireError> {
        for (field, time) in [("median", self.median), ("minimum", self.minimum), ("maximum", self.maximum)] {
            // Written so that NaN fails too; -1 is exactly representable.
            #[allow(clippy::float_cmp)]
            let allowed = time.is_finite() && (time >= 0.0 || time == NO_CALL);
            if !allowed {
                let text =
                    format!("`{at}.{field}` is {time}: a time is in ms, at least 0, or -1 for no call");
                return Err(WireError::new(&text));
            }
        }
        Ok(())
    }
}

impl Default for TimesForm {
    fn default() -> Self {
        Self::NONE
    }
}

/// Numbers of calls by their time in milliseconds, in either of two forms.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum HistogramForm {
    /// In logarithmic buckets, which merge exactly: `mapping`, `positiveValues`, `zeroCount`, as in the JSON of `DDSketch`.
    Sketch(analysis::Histogram),
    /// In buckets of the child's own.
    Bounds(Buckets),
}

impl<'de> Deserialize<'de> for HistogramForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let found = match value.get("mapping") {
            Some(_) => serde_json::from_value(value).map(Self::Sketch),
            None => serde_json::from_value(value).map(Self::Bounds),
        };
        found.map_err(D::Error::custom)
    }
}

impl HistogramForm {
    pub(crate) fn validate(&self, at: &str) -> Result<(), WireError> {
        let sketch = match self {
            Self::Bounds(buckets) => return buckets.validate(at),
            Self::Sketch(sketch) => sketch,
        };
        if sketch.has_negative() {
            return Err(WireError::new(&format!("`{at}` counts negative times")));
        }
        let calls = sketch.buckets().try_fold(0_u64, |sum, (_, _, count)| sum.checked_add(count));
        if calls.is_none_or(|calls| calls > MAX_HISTOGRAM_CALLS) {
            return Err(WireError::new(&format!("the counts of `{at}` add up to too much")));
        }
        Ok(())
    }
}

/// Numbers of calls by their time. `counts` has one entry more than `bounds_ms`: entry i counts the calls above
/// bound i-1 and up to bound i, the last those above every bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Buckets {
    /// Ascending, in milliseconds, at most [`MAX_HISTOGRAM_BOUNDS`].
    pub bounds_ms: Vec<f64>,
    #[serde(deserialize_with = "number::counts")]
    pub counts: Vec<u64>,
}

impl Buckets {
    fn validate(&self, at: &str) -> Result<(), WireError> {
        at_most(&format!("{at}.bounds_ms"), self.bounds_ms.len(), MAX_HISTOGRAM_BOUNDS)?;
        let finite = self.bounds_ms.iter().all(|bound| bound.is_finite() && *bound >= 0.0);
        if !finite || !self.bounds_ms.is_sorted_by(|a, b| a < b) {
            return Err(WireError::new(&format!("`{at}.bounds_ms` must ascend from 0 or above, in ms")));
        }
        if self.counts.len() != self.bounds_ms.len() + 1 {
            let (counts, bounds) = (self.counts.len(), self.bounds_ms.len());
            let text = format!(
                "`{at}.counts` has {counts} entries for {bounds} bounds: it takes one more than these"
            );
            return Err(WireError::new(&text));
        }
        if self.counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count)).is_none() {
            return Err(WireError::new(&format!("`{at}.counts` add up to too much")));
        }
        Ok(())
    }
}
