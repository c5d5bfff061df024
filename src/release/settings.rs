//! What an operator may set of the rules.

use std::time::Duration;

use crate::strategy::Strategy;

/// Most children one manager registers, unless configured otherwise. More belong under managers of their own.
pub const DEFAULT_MAX_CHILDREN: usize = 2_000_000;

/// Most releases that are not over, unless configured otherwise.
pub const DEFAULT_MAX_OPEN_RELEASES: usize = 1_000;

/// An id that never calls again within this serving time of its birth is forgotten.
pub const GHOST_AFTER: Duration = Duration::from_mins(1);

/// A child with an offer in hand that was silent for this long may be the one that comes back under a new id. Agents
/// that wait for a signal call once a second; those that are silent by nature are silent for longer.
pub const SUCCESSOR_SILENCE: Duration = Duration::from_secs(2);

/// The same for a child that has nothing in hand: it polls every 3 s, so this is three polls that didn't come.
pub const SUCCESSOR_ABSENCE: Duration = Duration::from_secs(10);

/// Ages at which a newcomer is looked at again: whom it replaces may not have been silent for long enough before, or
/// owe an undo only since. Ascending.
pub const NEWCOMER_LOOKS: [Duration; 7] = [
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_millis(10_500),
    Duration::from_secs(20),
    Duration::from_secs(40),
    Duration::from_secs(90),
    NEWCOMER_FOR,
];

/// After this serving time a child is no newcomer any more.
pub const NEWCOMER_FOR: Duration = Duration::from_mins(5);

/// Most newcomers that are looked at again; beyond, the older ones are not.
pub const MAX_NEWCOMERS: usize = 100_000;

/// Most deadlines that one tick acts on; the rest follows at the next one.
pub const MAX_DUE_PER_TICK: usize = 2_000;

/// Deadlines and limits. See the configuration for what they mean to an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Offered and not fetched.
    pub offer_deadline: Duration,
    /// Silence after a download, an end signal or a result.
    pub setup_grace: Duration,
    /// A stage, from its beginning.
    pub stage_deadline: Duration,
    /// Until a child that is to go back has proven that it runs the base version again. Then the release waits no longer.
    pub undo_deadline: Duration,
    /// Over so long a time the offers are spread that many children get at once.
    pub offer_jitter: Duration,
    pub max_children: usize,
    pub max_open_releases: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            offer_deadline: Duration::from_mins(15),
            setup_grace: Duration::from_mins(15),
            stage_deadline: Duration::from_hours(24),
            undo_deadline: Duration::from_mins(30),
            offer_jitter: Duration::ZERO,
            max_children: DEFAULT_MAX_CHILDREN,
            max_open_releases: DEFAULT_MAX_OPEN_RELEASES,
        }
    }
}

/// The deadlines of one release, in milliseconds of its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    pub offer_ms: u64,
    pub setup_ms: u64,
    pub stage_ms: u64,
    pub undo_ms: u64,
}

impl Settings {
    /// The deadlines of a release: its own, else the configured ones.
    pub fn deadlines(&self, strategy: &Strategy) -> Deadlines {
        let own = &strategy.deadlines;
        let ms = |own: Option<Duration>, configured: Duration| own.unwrap_or(configured).as_millis() as u64;
        Deadlines {
            offer_ms: ms(own.offer, self.offer_deadline),
            setup_ms: ms(own.setup_grace, self.setup_grace),
            stage_ms: ms(own.stage, self.stage_deadline),
            undo_ms: self.undo_deadline.as_millis() as u64,
        }
    }
}
