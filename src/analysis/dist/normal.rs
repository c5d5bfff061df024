//! The normal distribution, and Student's.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use statrs::distribution::{Continuous as _, ContinuousCDF as _, Normal, StudentsT};

/// Beyond it erfc has no normal float left.
const ASYMPTOTIC_FROM: f64 = 30.0;

pub fn normal_pdf(z: f64) -> f64 {
    Normal::standard().pdf(z)
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

/// The z of which P(Z > z) = p; ±∞ at 0 and 1.
pub fn normal_z(p: f64) -> f64 {
    if p.is_nan() { p } else { -Normal::standard().inverse_cdf(p.clamp(0.0, 1.0)) }
}

/// P(T > t) with ν degrees of freedom, more than none; infinitely many are the normal distribution.
pub fn student_sf(t: f64, nu: f64) -> f64 {
    if nu.is_infinite() {
        return normal_sf(t);
    }
    StudentsT::new(0.0, 1.0, nu).map_or(f64::NAN, |student| student.sf(t))
}
