//! What a stratum adds to a test's statistic: sums that add over strata, and the tails they have under the null.

use serde::{Deserialize, Serialize};

use super::dist::pearson3_sf;

/// A statistic that is 0 in the mean under the null, with the moments of its null distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sums {
    /// Values or calls: baseline, canary.
    pub baseline: f64,
    pub canary: f64,
    /// The statistic.
    pub s: f64,
    /// Its variance if the sides can be exchanged.
    pub v: f64,
    /// Its third central moment if the sides can be exchanged.
    pub k: f64,
    /// Its variance if they only have the same centre (Brunner and Munzel 2000); 0 where that says nothing.
    pub placement: f64,
    /// A variance with which the statistic is sub-Gaussian under the null in any finite sample.
    pub proxy: f64,
}

/// Probabilities under the null.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tails {
    pub z: f64,
    /// P(as high or higher).
    pub upper: f64,
    /// P(as low or lower).
    pub lower: f64,
}

impl Tails {
    /// Without any data for or against.
    pub const NOTHING: Self = Self { z: 0.0, upper: 1.0, lower: 1.0 };

    /// Of the mirrored statistic.
    #[must_use]
    pub fn flipped(self) -> Self {
        Self { z: -self.z, upper: self.lower, lower: self.upper }
    }
}

impl Sums {
    pub fn add(&mut self, other: &Self) {
        self.baseline += other.baseline;
        self.canary += other.canary;
        self.s += other.s;
        self.v += other.v;
        self.k += other.k;
        self.placement += other.placement;
        self.proxy += other.proxy;
    }

    /// Never below what holds if only the centres are the same.
    pub fn variance(&self) -> f64 {
        self.v.max(self.placement)
    }

    /// Tails by Pearson's type III distribution. `inflation` multiplies the variance (dependence, variation between
    /// runs), `continuity` is half of the statistic's smallest step.
    pub fn tails(&self, inflation: f64, continuity: f64) -> Tails {
        let variance = self.variance() * inflation;
        if variance <= 0.0 {
            return Tails::NOTHING;
        }
        let root = variance.sqrt();
        let skewness = self.k / self.variance().powf(1.5);
        let z = self.s / root;
        let half = continuity / root;
        Tails {
            z,
            upper: pearson3_sf(z - half, skewness).clamp(0.0, 1.0),
            lower: pearson3_sf(-(z + half), -skewness).clamp(0.0, 1.0),
        }
    }
}
