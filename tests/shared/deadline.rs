//! How long tests wait.

use std::time::Duration;

/// How long a test waits for what has to happen. Where it happens nobody waits that long, also on a machine with other work that is several
/// times slower than usual; so one deadline is enough for all, and nothing is concluded from it but that a test has failed.
pub const DEADLINE: Duration = Duration::from_mins(4);
