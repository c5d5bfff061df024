//! Where no end is known: a test that may be looked at whenever one likes.

use super::dist::normal_ln_sf;

/// ln of the one-sided normal mixture martingale, which exceeds 1/alpha ever with probability alpha at most
/// (Robbins 1970; Howard, Ramdas, `McAuliffe` and Sekhon 2021): 2 √(ρ/(V+ρ)) exp(S²/(2(V+ρ))) Φ(S/√(V+ρ)).
///
/// `v` is a variance with which `s` is sub-Gaussian, `rho` the variance for which the mixture is made, fixed before any
/// data were seen.
pub fn ln_mixture(s: f64, v: f64, rho: f64) -> f64 {
    let wide = v + rho;
    std::f64::consts::LN_2 + 0.5 * (rho / wide).ln() + s * s / (2.0 * wide) + normal_ln_sf(-s / wide.sqrt())
}
