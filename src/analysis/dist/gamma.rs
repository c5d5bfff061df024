//! The gamma distribution, and by it Pearson's type III.

use std::f64::consts::PI;

use super::normal::normal_sf;

/// From this shape on Temme's expansion with two terms is exact to 1e-12; below it others take at most some 1,000 steps.
const TEMME_FROM: f64 = 1e5;

/// Skewness that is none.
const NO_SKEWNESS: f64 = 1e-9;

/// Steps after which a series or a continued fraction has long converged.
const MAX_STEPS: u32 = 100_000;

/// ln x! − Stirling's approximation (Loader 2000, "Fast and accurate computation of binomial probabilities").
pub(super) fn stirling_error(n: f64) -> f64 {
    if n <= 15.0 {
        return libm::lgamma(n + 1.0) - (n + 0.5) * n.ln() + n - 0.5 * (2.0 * PI).ln();
    }
    let u = 1.0 / (n * n);
    (1.0 / 12.0 - u * (1.0 / 360.0 - u * (1.0 / 1260.0 - u * (1.0 / 1680.0 - u / 1188.0)))) / n
}

/// x ln(x/m) + m − x without cancellation (Loader 2000).
pub(super) fn deviance(x: f64, m: f64) -> f64 {
    if (x - m).abs() < 0.1 * (x + m) {
        let v = (x - m) / (x + m);
        let mut sum = (x - m) * v;
        let mut term = 2.0 * x * v;
        for j in 1..1000 {
            term *= v * v;
            let next = sum + term / f64::from(2 * j + 1);
            if next.to_bits() == sum.to_bits() {
                break;
            }
            sum = next;
        }
        return sum;
    }
    x * (x / m).ln() + m - x
}

/// e^−m m^x / Γ(x + 1), for any x ≥ 0.
pub fn poisson_density(x: f64, m: f64) -> f64 {
    if x <= 0.0 {
        return (-m).exp();
    }
    if m <= 0.0 {
        return 0.0;
    }
    (-stirling_error(x) - deviance(x, m)).exp() / (2.0 * PI * x).sqrt()
}

/// P(G > x) and P(G ≤ x) for a gamma variable of shape a and scale 1.
fn gamma_tails(a: f64, x: f64) -> (f64, f64) {
    if x <= 0.0 {
        return (1.0, 0.0);
    }
    if a >= TEMME_FROM {
        return temme(a, x);
    }
    if x < a + 1.0 {
        let lower = poisson_density(a, x) * series(a, x);
        return (1.0 - lower, lower);
    }
    let upper = poisson_density(a, x) * a / x * fraction(a, x);
    (upper, 1.0 - upper)
}

/// Σ x^i / ((a + 1) … (a + i)) (DLMF 8.11.4).
fn series(a: f64, x: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    let mut below = a;
    for _ in 0..MAX_STEPS {
        below += 1.0;
        term *= x / below;
        sum += term;
        if term < sum * f64::EPSILON * 0.1 {
            break;
        }
    }
    sum
}

/// x^(1−a) e^x Γ(a, x) as a continued fraction (DLMF 8.9.2), by Lentz's method.
fn fraction(a: f64, x: f64) -> f64 {
    let mut b = x + 1.0 - a;
    let mut c = 1e300;
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..MAX_STEPS {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        let step = c * d;
        h *= step;
        if (step - 1.0).abs() < 2.0 * f64::EPSILON {
            break;
        }
    }
    h * x
}

/// For large shapes (Temme 1979; DLMF 8.12), coefficients as series in η.
fn temme(a: f64, x: f64) -> (f64, f64) {
    const C0: [f64; 8] = [
        -1.0 / 3.0,
        1.0 / 12.0,
        -2.0 / 135.0,
        1.0 / 864.0,
        1.0 / 2835.0,
        -139.0 / 777_600.0,
        1.0 / 25_515.0,
        -571.0 / 261_273_600.0,
    ];
    const C1: [f64; 5] = [-1.0 / 540.0, -1.0 / 288.0, 1.0 / 378.0, -77.0 / 77_760.0, 2.057_613_168_724_3e-4];
    let polynomial = |c: &[f64], eta: f64| c.iter().rev().fold(0.0, |sum, c| sum * eta + c);
    // λ − 1 − ln λ = deviance(a, x) / a
    let eta = (2.0 * deviance(a, x) / a).max(0.0).sqrt().copysign(x - a);
    let z = eta * a.sqrt();
    let rest =
        (-0.5 * z * z).exp() / (2.0 * PI * a).sqrt() * (polynomial(&C0, eta) + polynomial(&C1, eta) / a);
    (normal_sf(z) + rest, normal_sf(-z) - rest)
}

/// P(X > z) for Pearson's type III of mean 0, variance 1 and the given skewness.
///
/// A gamma variable, shifted and perhaps mirrored; without skewness the normal distribution.
pub fn pearson3_sf(z: f64, skewness: f64) -> f64 {
    if skewness.abs() < NO_SKEWNESS {
        return normal_sf(z);
    }
    let shape = 4.0 / (skewness * skewness);
    let root = shape.sqrt();
    if skewness > 0.0 {
        gamma_tails(shape, shape + z * root).0
    } else {
        gamma_tails(shape, shape - z * root).1
    }
}
