//! Histograms of other kinds as counted times: sketches of another base, and buckets between bounds as Prometheus has them.

use std::collections::BTreeMap;

use super::{
    histogram::Histogram,
    values::{GAMMA, MAX_CALLS, RANGE_MS, Values},
};

/// Buckets over which one reported bucket is spread at most.
const MAX_SPREAD: i64 = 2_000;

/// The times of a sketch. `None`: its numbers are beyond what is counted.
pub fn of_sketch(sketch: &Histogram) -> Option<Values> {
    Values::from_histogram(sketch_in_one_form(sketch)?, Some(sketch.gamma())).ok()
}

/// The times between ascending bounds, in milliseconds, where the least and the largest of all are known: `counts[i]` of at
/// most `bounds[i]`, and the last above every bound. `None`: its numbers are beyond what is counted.
pub fn of_bounds(bounds: &[f64], counts: &[u64], ends: [f64; 2]) -> Option<Values> {
    let width = widest(&cells(bounds, counts, ends));
    Values::from_histogram(bounds_in_one_form(bounds, counts, ends)?, width.filter(|width| *width > 1.0)).ok()
}

/// A sketch in buckets of base [`GAMMA`]. One that has them is taken as it is; of others each bucket is spread evenly over
/// those that it covers.
pub fn sketch_in_one_form(sketch: &Histogram) -> Option<Histogram> {
    let total: u128 = sketch.buckets().map(|(.., count)| u128::from(count)).sum();
    if total > u128::from(MAX_CALLS) {
        return None;
    }
    let is_one = sketch.merges_with(&Histogram::of_one_form());
    within_range(if is_one { sketch.clone() } else { spread(sketch.buckets())? })
}

/// Buckets between bounds in buckets of base [`GAMMA`].
pub fn bounds_in_one_form(bounds: &[f64], counts: &[u64], ends: [f64; 2]) -> Option<Histogram> {
    let total: u128 = counts.iter().map(|count| u128::from(*count)).sum();
    if total > u128::from(MAX_CALLS) {
        return None;
    }
    within_range(spread(cells(bounds, counts, ends).into_iter())?)
}

/// Buckets as (from, to, count), within the ends.
fn cells(bounds: &[f64], counts: &[u64], [least, most]: [f64; 2]) -> Vec<(f64, f64, u64)> {
    let mut low = 0.0_f64;
    let cell = |(high, count): (f64, &u64)| {
        let cell = (low.max(least), high.min(most), *count);
        low = high;
        cell
    };
    bounds.iter().copied().chain([f64::INFINITY]).zip(counts).map(cell).collect()
}

fn within_range(found: Histogram) -> Option<Histogram> {
    let is_counted = |(low, high, _): (f64, f64, u64)| {
        (low == 0.0 && high == 0.0) || (low >= RANGE_MS[0] && high <= RANGE_MS[1])
    };
    let is_within = found.buckets().all(is_counted);
    is_within.then_some(found)
}

/// The ratio of the ends of the widest bucket that holds any of the middle half.
fn widest(cells: &[(f64, f64, u64)]) -> Option<f64> {
    let total: u64 = cells.iter().fold(0, |sum, (.., count)| sum.saturating_add(*count));
    let (from, to) = (total / 4, total - total / 4);
    let (mut below, mut widest) = (0_u64, None::<f64>);
    for (low, high, count) in cells {
        if *count > 0 && below < to && below.saturating_add(*count) > from {
            let ratio = (high.min(RANGE_MS[1]) / low.max(RANGE_MS[0])).max(1.0);
            widest = Some(widest.map_or(ratio, |widest| widest.max(ratio)));
        }
        below = below.saturating_add(*count);
    }
    widest
}

/// Buckets (from, to, count), each spread evenly on the logarithmic scale.
fn spread(reported: impl Iterator<Item = (f64, f64, u64)>) -> Option<Histogram> {
    let index = |value: f64| (value.ln() / GAMMA.ln()).floor() as i64;
    let mut found = Histogram::of_one_form();
    let mut bins: BTreeMap<i64, u64> = BTreeMap::new();
    for (from, to, count) in reported.filter(|(.., count)| *count > 0) {
        if !(to.is_finite() && to > 0.0) {
            found.record_many(0.0, count).ok()?;
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
    bins.into_iter().try_for_each(|(index, count)| found.record_bucket(index, count)).ok()?;
    Some(found)
}
