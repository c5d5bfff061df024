//! Points of time series that were observed: how they vary within an interval, and how much they depend on each other.
//!
//! Neither is known exactly. How much points depend on each other is taken as high as it may well be, by how many were observed. A
//! look estimates it again, and counts where they seem to be worth enough: of points that are worth just enough that is less than
//! half of all looks. How its estimates lie about the truth was fitted to simulated autoregressions with coefficients of 0 to 0.97
//! that were worth 15 to 240 points.

use crate::{
    data::{Sample, Stratum},
    dependence::{LEAST_EFFECTIVE_POINTS, UPPER_BOUND, autocorrelation_time, dependence},
    dist::normal_sf,
    interval_merging::LEAST_SIDE,
};

/// Standard deviation of the logarithm of what points seem to be worth, times the root of what they are worth.
const SEEMING_SD: f64 = 1.35;

/// By how much that logarithm is too low in the mean, times the same root: always, and without autocorrelation, which is never taken
/// for less than none, besides.
const SEEMING_LOW: [f64; 2] = [0.65, 1.0];

/// The variance of a mean is at most this part of that of its points.
const MOST_OF_MEAN: f64 = 0.95;

/// Observed points of one version, or of both.
#[derive(Debug, Clone)]
pub struct Series {
    /// Of the baseline, without what all points of an interval have in common.
    points: Vec<f64>,
    /// The variance of a comparison, in units of that of independent points, as high as it may well be.
    factor: f64,
    /// Independent points that a point is worth, of the side with fewer of them, as few as it may well be.
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
        let (factor, effective) = if counts[0] > 0 && counts[1] > 0 {
            let both: Vec<(&[f64], &[f64])> = intervals.iter().map(|[a, b]| (&a[..], &b[..])).collect();
            let found = dependence(&both);
            (found.factor, found.effective)
        } else {
            let all: Vec<f64> = intervals.iter().flat_map(|of| of[side].iter().copied()).collect();
            let time = autocorrelation_time(&all, 0.0);
            (time, all.len() as f64 / time)
        };
        let least = if counts[0] > 0 && counts[1] > 0 { counts[0].min(counts[1]) } else { counts[side] };
        let error = (UPPER_BOUND * SEEMING_SD / effective.max(1.0).sqrt()).exp();
        let points = detrended(intervals.into_iter().map(|mut of| std::mem::take(&mut of[side])), factor);
        Self { points, factor: factor * error, worth: effective / least.max(1) as f64 / error }
    }

    pub fn values(&self) -> Sample {
        Sample::Values(self.points.clone())
    }

    pub const fn factor(&self) -> f64 {
        self.factor
    }

    /// What a look takes [`Series::factor`] for, by so many points.
    pub fn seeming_factor(&self, points: u64, share: f64) -> f64 {
        let low = SEEMING_LOW[1] / self.factor.max(1.0);
        self.factor * (low / self.effective(points, share).max(1.0).sqrt()).exp()
    }

    /// The share of looks to which so many points seem to be worth enough.
    pub fn seem_enough(&self, points: u64, share: f64) -> f64 {
        let effective = self.effective(points, share);
        let low = SEEMING_LOW[0] + SEEMING_LOW[1] / self.factor.max(1.0);
        let above = (effective / LEAST_EFFECTIVE_POINTS).ln();
        normal_sf((low - above * effective.sqrt()) / SEEMING_SD)
    }

    /// Independent points of the side with fewer of so many points.
    fn effective(&self, points: u64, share: f64) -> f64 {
        points as f64 * share.min(1.0 - share) * self.worth
    }
}

/// Only values of one interval are ranked together, so what they have in common with none of the others cancels: each lies by as
/// much from the typical value of all as it lay from that of its interval. That is known from the same points, and takes a part of
/// what they vary with it: the more, the more they depend on each other.
fn detrended(intervals: impl Iterator<Item = Vec<f64>>, time: f64) -> Vec<f64> {
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
        let wider = (1.0 - part_of_mean(group.len(), time).min(MOST_OF_MEAN)).sqrt().recip();
        let moved = move |point: f64| {
            if is_ratio { (point / own).powf(wider) * whole } else { (point - own) * wider + whole }
        };
        group.into_iter().map(moved)
    };
    groups.into_iter().flat_map(about).collect()
}

/// The variance of the mean of so many points of an autoregression of order 1 with this autocorrelation time, of theirs.
fn part_of_mean(points: usize, time: f64) -> f64 {
    let (n, phi) = (points.max(1) as f64, ((time - 1.0) / (time + 1.0)).max(0.0));
    (time - 2.0 * phi * (1.0 - phi.powf(n)) / (n * (1.0 - phi).powi(2))) / n
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
