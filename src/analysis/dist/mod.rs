//! Tails of the distributions that tests are judged by, relative accuracy about 1e-11 down to 1e-300.
//!
//! Own code where it is short, after the sources named at each function; `libm` gives erfc and ln Γ. A crate of
//! distributions would have been larger than this and computes its far tails as one minus something.

mod beta;
mod discrete;
mod gamma;
mod normal;

pub use self::{
    beta::{student_sf, student_z},
    discrete::{Lattice, binomial_cdf, binomial_pmf, binomial_sf, hypergeometric_pmf, hypergeometric_sf},
    gamma::{pearson3_sf, poisson_density},
    normal::{normal_ln_sf, normal_pdf, normal_sf, normal_z},
};
