//! How large a fleet may be, and how fast its clocks may run.

/// Most children of one fleet.
pub const MAX_AGENTS: usize = 200_000;

/// Fastest clock of a child: ten thousand of its seconds in one.
pub const MIN_PACE: f64 = 0.0001;

/// Slowest clock of a child.
pub const MAX_PACE: f64 = 100.0;
