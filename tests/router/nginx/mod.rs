//! nginx as the system's package has it, and a later version of it.

mod adopt;
mod config;
mod drain;
mod loss;
mod memory;
mod quoting;
mod real;
mod sites;
mod stream;

pub use self::real::RealNginx;

crate::conformance::conformance! { RealNginx }

mod later {
    crate::conformance::conformance! { super::real::LaterNginx, of lines alone }
}
