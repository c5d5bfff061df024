//! nginx as the system's package has it.

mod adopt;
mod config;
mod drain;
mod loss;
mod memory;
mod quoting;
mod real;

pub use self::real::RealNginx;

crate::conformance::conformance! { RealNginx }
