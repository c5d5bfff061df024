//! The JSON form of counted times.

use serde::{Deserialize, Serialize};

use super::{Clock, MAX_CALLS, MAX_DISTINCT, NS, Rounding, Storage, Values, ValuesFault};
use crate::histogram::Histogram;

/// How far a sum may lie beyond what its buckets hold, as a share: their ends are rounded.
const SUM_SLACK: f64 = 1e-6;

/// The JSON form: `{"exact": [[15, 3], [16.5, 1]], "step": 0.5, "rounding": "nearest"}`, or `sketch` and `sum_ns` instead of
/// `exact`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename = "Wire")]
pub(super) struct ValuesForm {
    /// [ms, calls], at most [`MAX_DISTINCT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exact: Option<Vec<(f64, u64)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sketch: Option<Histogram>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sum_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rounding: Option<Rounding>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    width: Option<f64>,
}

impl From<Values> for ValuesForm {
    fn from(values: Values) -> Self {
        let Values { form, clock: Clock { step, rounding }, width } = values;
        let (exact, sketch, sum_ns) = match form {
            Storage::Exact(pairs) => (Some(pairs), None, None),
            Storage::Sketch { buckets, sum_ns } => (None, Some(buckets), sum_ns),
        };
        Self { exact, sketch, sum_ns, step, rounding, width }
    }
}

impl TryFrom<ValuesForm> for Values {
    type Error = ValuesFault;

    fn try_from(wire: ValuesForm) -> Result<Self, ValuesFault> {
        let clock = Clock { step: wire.step, rounding: wire.rounding };
        let mut values = match (wire.exact, wire.sketch) {
            (Some(pairs), None) if pairs.len() > MAX_DISTINCT => return Err(ValuesFault::Distinct),
            (Some(pairs), None) => {
                let mut values = Self::new(clock)?;
                pairs.into_iter().try_for_each(|(value, count)| values.record(value, count))?;
                if values.count() > MAX_CALLS {
                    return Err(ValuesFault::TooMuch);
                }
                values
            }
            (None, Some(buckets)) => {
                let mut values = Self::from_histogram(buckets, wire.width)?;
                if let (Some(sum), Storage::Sketch { buckets, sum_ns }) = (wire.sum_ns, &mut values.form) {
                    check_sum(buckets, sum)?;
                    *sum_ns = Some(sum);
                }
                values
            }
            _ => return Err(ValuesFault::Form),
        };
        values.clock = clock.check()?;
        Ok(values)
    }
}

fn check_sum(buckets: &Histogram, sum_ns: u64) -> Result<(), ValuesFault> {
    let (mut least, mut most) = (0.0, 0.0);
    for (low, high, count) in buckets.buckets() {
        // Each value was rounded to whole nanoseconds.
        least += (low * NS - 0.5).max(0.0) * count as f64;
        most += (high * NS + 0.5) * count as f64;
    }
    let sum = sum_ns as f64;
    let fits = sum >= least * (1.0 - SUM_SLACK) && sum <= most * (1.0 + SUM_SLACK);
    if fits { Ok(()) } else { Err(ValuesFault::Sum) }
}
