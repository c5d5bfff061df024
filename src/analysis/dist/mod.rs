//! Tails of the distributions that tests are judged by, down to 1e-300.
//!
//! Densities, quantiles, the incomplete gamma and beta functions and their tails are those of `statrs`. What stands here
//! besides is what it has not, or not exactly enough; `tests/analysis/dist.rs` compares both where both hold, and shows
//! the case where `statrs` doesn't.
//!
//! | function | by | why |
//! |---|---|---|
//! | [`normal_pdf`], [`normal_z`] | `statrs` | |
//! | [`student_sf`] | `statrs` | its tail is an incomplete beta function, no difference from one |
//! | [`hypergeometric_pmf`] | `statrs` | by its logarithm: the coefficients overflow at some thousand values |
//! | [`normal_sf`] | erfc of `libm` | that of `statrs` is off by 1e-10, which boundaries of many looks add up |
//! | [`normal_ln_sf`] | here | beyond 38 standard deviations the probability is no float, and its logarithm is needed |
//! | [`binomial_pmf`] | here | differences of logarithms of factorials cost `statrs` 7 digits with a million calls, 9 with 10⁸ |
//! | [`binomial_sf`], [`binomial_cdf`] | here | the beta function of `statrs` ends its fraction after 140 steps: with 10⁸ calls a probability is −0.54 |
//! | [`pearson3_sf`] | `statrs`, from a shape of 400 on Temme's expansion | a small skewness is a huge shape: with 1e-4 it costs `statrs` 9 digits, and its fraction takes millions of steps |
//! | [`Lattice`] | here | sums of independent counts are no distribution with a name |

mod discrete;
mod gamma;
mod normal;

pub use self::{
    discrete::{Lattice, binomial_cdf, binomial_pmf, binomial_sf, hypergeometric_pmf},
    gamma::pearson3_sf,
    normal::{normal_ln_sf, normal_pdf, normal_sf, normal_z, student_sf},
};
