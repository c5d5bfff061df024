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

// HAProxy has no line of it.
crate::conformance::conformance! { RealNginx: measured::a_connection_on_which_only_the_target_speaks_is_a_call }

mod later {
    crate::conformance::conformance! { super::real::LaterNginx, of lines alone }
}
