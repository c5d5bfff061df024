//! Student's distribution, by the incomplete beta function.

use super::normal::{normal_sf, normal_z};

/// Steps after which the continued fraction has long converged.
const MAX_STEPS: u32 = 100_000;

/// The regularised incomplete beta function (DLMF 8.17.22, Lentz's method).
fn beta_regularised(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_regularised(b, a, 1.0 - x);
    }
    let ln_front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * (-x).ln_1p();
    ln_front.exp() * fraction(a, b, x) / a
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let mut c = 1.0;
    let mut d = 1.0 / (1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for m in 1..MAX_STEPS {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / (1.0 + even * d);
        c = 1.0 + even / c;
        h *= c * d;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / (1.0 + odd * d);
        c = 1.0 + odd / c;
        h *= c * d;
        if (c * d - 1.0).abs() < 2.0 * f64::EPSILON {
            break;
        }
    }
    h
}

/// P(T > t) with ν degrees of freedom; infinitely many are the normal distribution.
pub fn student_sf(t: f64, nu: f64) -> f64 {
    if nu.is_infinite() {
        return normal_sf(t);
    }
    let tail = 0.5 * beta_regularised(0.5 * nu, 0.5, nu / (nu + t * t));
    if t >= 0.0 { tail } else { 1.0 - tail }
}

/// The normal score with the same tail.
pub fn student_z(t: f64, nu: f64) -> f64 {
    let z = normal_z(student_sf(t.abs(), nu));
    z.copysign(t)
}
