//! Binomial and hypergeometric probabilities, and sums of independent counts.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};
use statrs::distribution::{Discrete as _, Hypergeometric};

use super::gamma::{deviance, stirling_error};

/// What adds less than this share to a sum is left out.
const NEGLIGIBLE: f64 = 1e-18;

/// Loader's saddle point form (2000).
pub fn binomial_pmf(k: u64, n: u64, p: f64) -> f64 {
    let q = 1.0 - p;
    if p <= 0.0 || q <= 0.0 {
        return f64::from(u8::from(k == if p <= 0.0 { 0 } else { n }));
    }
    let (x, size) = (k as f64, n as f64);
    if k > n {
        return 0.0;
    }
    if k == 0 {
        return (size * (-p).ln_1p()).exp();
    }
    if k == n {
        return (size * p.ln()).exp();
    }
    let ln = stirling_error(size)
        - stirling_error(x)
        - stirling_error(size - x)
        - deviance(x, size * p)
        - deviance(size - x, size * q);
    ln.exp() * (size / (2.0 * PI * x * (size - x))).sqrt()
}

/// P(X ≥ k).
pub fn binomial_sf(k: u64, n: u64, p: f64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    if k as f64 <= n as f64 * p {
        return (1.0 - binomial_cdf(k - 1, n, p)).max(0.0);
    }
    if k > n || p <= 0.0 {
        return 0.0;
    }
    let odds = p / (1.0 - p);
    let mut term = binomial_pmf(k, n, p);
    let mut sum = term;
    for x in k..n {
        term *= (n - x) as f64 / (x + 1) as f64 * odds;
        sum += term;
        // Also where all of them are too small for a float: there may be 2^48 of them.
        if term <= sum * NEGLIGIBLE {
            break;
        }
    }
    sum.min(1.0)
}

/// P(X ≤ k).
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    binomial_sf(n - k, n, 1.0 - p)
}

/// P(X = k) for n drawn of `total`, of which `marked` are marked; 8 digits with a million values.
pub fn hypergeometric_pmf(k: u64, total: u64, marked: u64, n: u64) -> f64 {
    if k > n || k > marked || n - k > total - marked {
        return 0.0;
    }
    Hypergeometric::new(total, marked, n).map_or(f64::NAN, |drawn| drawn.ln_pmf(k).exp())
}

/// The distribution of a sum of independent counts, as long as it is short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lattice {
    /// P(sum = i); empty once it would be longer than [`Lattice::MAX`].
    pmf: Vec<f64>,
}

impl Default for Lattice {
    fn default() -> Self {
        Self { pmf: vec![1.0] }
    }
}

impl Lattice {
    /// Longest distribution, in values.
    pub const MAX: usize = 400;

    /// Adds a count whose probabilities from 0 to `highest` are given.
    pub fn add(&mut self, highest: u64, pmf: impl Fn(u64) -> f64) {
        if self.pmf.is_empty() || highest == 0 {
            return;
        }
        if self.pmf.len() as u64 + highest > Self::MAX as u64 {
            self.pmf.clear();
            return;
        }
        let mut sum = vec![0.0; self.pmf.len() + highest as usize];
        for k in 0..=highest {
            let p = pmf(k);
            if p > 0.0 {
                for (slot, old) in sum[k as usize..].iter_mut().zip(&self.pmf) {
                    *slot += p * old;
                }
            }
        }
        self.pmf = sum;
    }

    /// P(sum ≥ k) and P(sum ≤ k), while the distribution is known.
    pub fn tails(&self, k: u64) -> Option<(f64, f64)> {
        if self.pmf.is_empty() {
            return None;
        }
        let k = (k as usize).min(self.pmf.len());
        let upper: f64 = self.pmf[k..].iter().rev().sum();
        let lower: f64 = self.pmf.iter().take(k + 1).sum();
        Some((upper.min(1.0), lower.min(1.0)))
    }
}
