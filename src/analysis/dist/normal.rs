//! The normal distribution.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Beyond it erfc has no normal float left.
const ASYMPTOTIC_FROM: f64 = 30.0;

pub fn normal_pdf(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

/// P(Z > z).
pub fn normal_sf(z: f64) -> f64 {
    0.5 * libm::erfc(z * FRAC_1_SQRT_2)
}

/// ln P(Z > z), also where the probability itself is no float any more (Abramowitz and Stegun 26.2.12).
pub fn normal_ln_sf(z: f64) -> f64 {
    if z < -1.0 {
        return (-normal_sf(-z)).ln_1p();
    }
    if z < ASYMPTOTIC_FROM {
        return normal_sf(z).ln();
    }
    let u = 1.0 / (z * z);
    let series = -u * (1.0 - u * (3.0 - u * (15.0 - u * (105.0 - u * 945.0))));
    -0.5 * z * z - 0.5 * (2.0 * PI).ln() - z.ln() + series.ln_1p()
}

/// The z of which P(Z > z) = p; ±∞ at 0 and 1. Start: Abramowitz and Stegun 26.2.23; then Newton on ln p.
pub fn normal_z(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_z_upper((1.0 - p).max(0.0));
    }
    normal_z_upper(p)
}

fn normal_z_upper(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::INFINITY;
    }
    let t = (-2.0 * p.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut z = t - above / below;
    let target = p.ln();
    for _ in 0..4 {
        let ln_sf = normal_ln_sf(z);
        let ln_pdf = -0.5 * z * z - 0.5 * (2.0 * PI).ln();
        z += (ln_sf - target) * (ln_sf - ln_pdf).exp();
    }
    z
}
