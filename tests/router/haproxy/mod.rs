//! `HAProxy` as the system's package has it.

mod real;
mod runtime;

use self::real::RealHaproxy;

crate::conformance::conformance! { RealHaproxy }
