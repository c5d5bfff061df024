//! nginx as the system's package has it.

mod adopt;
mod drain;
mod loss;
mod memory;
mod quoting;
mod real;

use crate::conformance::conformance;

conformance!(real::RealNginx);
