//! `HAProxy` as the system's package has it, and a later version of it.

mod config;
mod drain;
mod hashes;
mod health;
mod loss;
mod quoting;
mod real;
mod runtime;
mod socket;
mod structure;

pub use self::real::RealHaproxy;

crate::conformance::conformance! { RealHaproxy }

mod later {
    crate::conformance::conformance! { super::real::LaterHaproxy }
}
