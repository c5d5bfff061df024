//! nginx as the system's package has it.

mod real;

use crate::conformance::conformance;

conformance!(real::RealNginx);
