//! The gamma distribution, and by it Pearson's type III.

use std::f64::consts::PI;

use statrs::function::gamma::{checked_gamma_lr, checked_gamma_ur};

use super::normal::normal_sf;

/// From this shape on, and within this η, Temme's expansion with four terms is exact to 1e-12. Elsewhere `statrs` is exact to
/// 1e-11 and takes some hundred steps: far from the middle of a large shape no probability is left that is a float.
const TEMME_FROM: f64 = 400.0;
const TEMME_WITHIN: f64 = 0.5;

/// Skewness that is none.
const NO_SKEWNESS: f64 = 1e-9;

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

/// P(G > x) and P(G ≤ x) for a gamma variable of shape a and scale 1.
fn gamma_tails(a: f64, x: f64) -> (f64, f64) {
    if x <= 0.0 {
        return (1.0, 0.0);
    }
    if a >= TEMME_FROM {
        // λ − 1 − ln λ for λ = x/a
        let eta = (2.0 * deviance(a, x) / a).max(0.0).sqrt().copysign(x - a);
        if eta.abs() < TEMME_WITHIN {
            return temme(a, eta);
        }
    }
    // Each of them is exact where it is the smaller one, and else the rest of the other.
    (checked_gamma_ur(a, x).unwrap_or(0.0), checked_gamma_lr(a, x).unwrap_or(1.0))
}

/// Coefficients in powers of η of the functions of DLMF 8.12.7, from `c_0 = 1/μ − 1/η` and
/// `c_k = (c'_{k−1} + (−1)^k g_k η/μ)/η`, worked out in fractions; g are Stirling's.
#[allow(clippy::unreadable_literal, reason = "nobody reads these digits")]
const TEMME: [[f64; 14]; 4] = [
    [
        -0.3333333333333333,
        0.08333333333333333,
        -0.014814814814814815,
        0.0011574074074074073,
        0.0003527336860670194,
        -0.0001787551440329218,
        3.919263178522438e-05,
        -2.185448510679992e-06,
        -1.85406221071516e-06,
        8.296711340953087e-07,
        -1.7665952736826078e-07,
        6.707853543401498e-09,
        1.0261809784240309e-08,
        -4.382036018453353e-09,
    ],
    [
        -0.001851851851851852,
        -0.003472222222222222,
        0.0026455026455026454,
        -0.0009902263374485596,
        0.00020576131687242798,
        -4.018775720164609e-07,
        -1.8098550334489977e-05,
        7.64916091608111e-06,
        -1.6120900894563446e-06,
        4.647127802807434e-09,
        1.378633446915721e-07,
        -5.752545603517705e-08,
        1.1951628599778148e-08,
        -1.7543241719747647e-11,
    ],
    [
        0.004133597883597883,
        -0.0026813271604938273,
        0.0007716049382716049,
        2.0093878600823047e-06,
        -0.0001073665322636516,
        5.2923448829120125e-05,
        -1.2760635188618728e-05,
        3.423578734096138e-08,
        1.3721957309062934e-06,
        -6.298992138380055e-07,
        1.4280614206064242e-07,
        -2.0477098421990866e-10,
        -1.409252991086752e-08,
        6.228974084922022e-09,
    ],
    [
        0.0006494341563786008,
        0.00022947209362139917,
        -0.0004691894943952557,
        0.00026772063206283885,
        -7.561801671883977e-05,
        -2.396505113867297e-07,
        1.1082654115347302e-05,
        -5.6749528269915965e-06,
        1.4230900732435883e-06,
        -2.7861080291528143e-11,
        -1.6958404091930278e-07,
        8.099464905388083e-08,
        -1.9111168485973655e-08,
        2.3928620439808118e-12,
    ],
];

/// For large shapes (Temme 1979; DLMF 8.12).
fn temme(a: f64, eta: f64) -> (f64, f64) {
    let polynomial = |c: &[f64]| c.iter().rev().fold(0.0, |sum, c| sum * eta + c);
    let z = eta * a.sqrt();
    let sum = TEMME.iter().rev().fold(0.0, |sum, c| sum / a + polynomial(c));
    let rest = (-0.5 * z * z).exp() / (2.0 * PI * a).sqrt() * sum;
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
