//! Points of time series that were observed: how they vary within an interval, and how much they depend on each other.

use crate::{
    data::{Sample, Stratum},
    dependence::{autocorrelation_time, dependence},
    group::LEAST_SIDE,
};

/// Observed points of one version, or of both.
#[derive(Debug, Clone)]
pub struct Series {
    /// Of the baseline, without what all points of an interval have in common.
    points: Vec<f64>,
    /// The variance of a comparison, in units of that of independent points.
    factor: f64,
    /// Independent points that a point is worth, of the side with fewer of them.
    worth: f64,
}

impl Series {
    pub fn of(strata: &[Stratum]) -> Self {
        let points = |sample: &Sample| match sample {
            Sample::Values(values) => values.clone(),
            Sample::Histogram(_) | Sample::Measured(_) | Sample::Counts(_) => Vec::new(),
        };
        let intervals: Vec<[Vec<f64>; 2]> =
            strata.iter().map(|stratum| [&stratum.baseline, &stratum.canary].map(points)).collect();
        let counts = [0, 1].map(|side| intervals.iter().map(|of| of[side].len()).sum::<usize>());
        // What is known of one version only is taken to hold of both.
        let side = usize::from(counts[0] == 0);
        let (factor, worth) = if counts[0] > 0 && counts[1] > 0 {
            let both: Vec<(&[f64], &[f64])> = intervals.iter().map(|[a, b]| (&a[..], &b[..])).collect();
            let found = dependence(&both);
            (found.factor, found.effective / counts[0].min(counts[1]) as f64)
        } else {
            let all: Vec<f64> = intervals.iter().flat_map(|of| of[side].iter().copied()).collect();
            let time = autocorrelation_time(&all, 0.0);
            (time, 1.0 / time)
        };
        let points = detrended(intervals.into_iter().map(|mut of| std::mem::take(&mut of[side])));
        Self { points, factor, worth }
    }

    pub fn values(&self) -> Sample {
        Sample::Values(self.points.clone())
    }

    pub const fn factor(&self) -> f64 {
        self.factor
    }

    /// Independent points of the side with fewer of so many points.
    pub fn effective(&self, points: u64, share: f64) -> f64 {
        points as f64 * share.min(1.0 - share) * self.worth
    }
}

/// Only values of one interval are ranked together, so what they have in common with none of the others cancels: each lies by as
/// much from the typical value of all as it lay from that of its interval.
fn detrended(intervals: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let mut groups: Vec<Vec<f64>> = Vec::new();
    for points in intervals {
        match groups.last_mut().filter(|group| (group.len() as u64) < LEAST_SIDE) {
            Some(group) => group.extend(points),
            None => groups.push(points),
        }
    }
    let whole = median(&groups.concat());
    let is_ratio = groups.iter().flatten().all(|point| *point > 0.0);
    let about = |group: Vec<f64>| {
        let own = median(&group);
        let moved = move |point: f64| if is_ratio { point / own * whole } else { point - own + whole };
        group.into_iter().map(moved)
    };
    groups.into_iter().flat_map(about).collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}
