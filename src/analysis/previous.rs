//! A comparison with an earlier run: one and the same version differs from run to run, and no traffic reduces that.

use super::design::RunVariation;

/// Fewer earlier runs don't tell their variation.
pub const LEAST_WINDOWS: usize = 5;

/// What a difference between two runs has in variance by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BetweenRuns {
    /// Variance of the difference of the logarithms of two runs.
    pub variance: f64,
    /// Degrees of freedom with which it is known.
    pub freedom: f64,
}

/// `None`: nothing is known of it, and nothing can be decided.
///
/// Two runs differ by twice the variance of one. The variance of one is given, or that of the logarithms of earlier
/// windows, with as many degrees of freedom as there are windows less one.
pub fn between_runs(variation: &RunVariation) -> Option<BetweenRuns> {
    match variation {
        RunVariation::Given(v) => Some(BetweenRuns { variance: 2.0 * v * v, freedom: f64::INFINITY }),
        RunVariation::Windows(windows) => {
            if windows.len() < LEAST_WINDOWS || windows.iter().any(|w| !(w.is_finite() && *w > 0.0)) {
                return None;
            }
            let n = windows.len() as f64;
            let mean = windows.iter().map(|w| w.ln()).sum::<f64>() / n;
            let variance = windows.iter().map(|w| (w.ln() - mean).powi(2)).sum::<f64>() / (n - 1.0);
            Some(BetweenRuns { variance: 2.0 * variance, freedom: n - 1.0 })
        }
        RunVariation::Unknown => None,
    }
}
