//! What an operator may set of the rules.

use std::{collections::HashSet, sync::Arc, time::Duration};

use super::assignment::{Assignment, Led};
use language::Strategy;

/// Most children one manager registers, unless configured otherwise. More belong under managers of their own.
pub const DEFAULT_MAX_CHILDREN: usize = 2_000_000;

/// Most releases that are not over, unless configured otherwise.
pub const DEFAULT_MAX_OPEN_RELEASES: usize = 1_000;

/// Most children that one tick looks at again; the others follow at the next ones.
pub const MAX_RECHECKS_PER_TICK: usize = 1_000;

/// Ids that callers brought along and that never took part in anything, of one address, unless configured otherwise.
pub const DEFAULT_MAX_ADOPTED: usize = 10_000;

/// Most deadlines that one tick acts on; the rest follows at the next one.
pub const MAX_DUE_PER_TICK: usize = 2_000;

/// Most children of a release whose deadlines one tick looks at.
pub const MAX_SWEEP_PER_TICK: usize = 5_000;

/// Most children whose deadlines one tick looks at in all releases together; somewhat exceeded by the last of them.
pub const MAX_SWEEP_IN_ALL: usize = 20_000;

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
    /// A child that has nothing in hand polls every 3 s. One that is silent for so long is not there, if another calls
    /// from its place.
    pub absence: Duration,
    /// Over so long a time the offers are spread that many children get at once.
    pub offer_jitter: Duration,
    pub max_children: usize,
    pub max_open_releases: usize,
    /// Ids of children that prove by a token who they are. Each comes back under its own id, so nobody else is ever
    /// taken for its successor, whatever area it names.
    pub proven: Arc<HashSet<String>>,
    /// Ids that callers of one address brought along and that never took part in anything.
    pub max_adopted: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            offer_deadline: Duration::from_mins(15),
            setup_grace: Duration::from_mins(15),
            stage_deadline: Duration::from_hours(24),
            undo_deadline: Duration::from_mins(30),
            absence: Duration::from_secs(10),
            offer_jitter: Duration::ZERO,
            max_children: DEFAULT_MAX_CHILDREN,
            max_open_releases: DEFAULT_MAX_OPEN_RELEASES,
            proven: Arc::default(),
            max_adopted: DEFAULT_MAX_ADOPTED,
        }
    }
}

/// The deadlines of one release, in milliseconds of its clock. What holds for a member is asked by [`Self::of_member`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    offer: u64,
    setup: u64,
    stage: u64,
    undo: u64,
}

/// The deadlines of one member of a release, in milliseconds of its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberDeadlines {
    pub offer_ms: u64,
    pub setup_ms: u64,
    pub stage_ms: u64,
    pub undo_ms: u64,
    /// For one that calls while it goes back: a call within this time moves that deadline on.
    pub undo_silence_ms: Option<u64>,
}

impl Deadlines {
    /// Those of a member. Whatever makes a difference between members makes it here.
    pub fn of_member(self, member: &Assignment) -> MemberDeadlines {
        let Self { offer: offer_ms, setup: setup_ms, stage: stage_ms, undo: undo_ms } = self;
        let undo_silence_ms = match member.led {
            Led::Stepwise(_) => None,
            // It takes the release back from its own children first, and calls meanwhile.
            Led::Whole(_) => Some(setup_ms),
        };
        MemberDeadlines { offer_ms, setup_ms, stage_ms, undo_ms, undo_silence_ms }
    }

    /// So long every member has at least to fetch what it was offered.
    pub const fn shortest_offer_ms(self) -> u64 {
        self.offer
    }
}

impl Settings {
    /// A child that asks every second for the end of its stage was silent for so long: it is not there any more, unless
    /// its conditions failed and it goes back before it reports. That takes as long as one function's deployment: some
    /// 6 s where it was measured, and this is twenty times that.
    pub fn absence_in_stage(&self) -> Duration {
        self.absence * 12
    }

    /// Calls that come so much later than a download were not made for it any more: the set-up is over.
    pub fn absence_of_set_up(&self) -> Duration {
        self.absence / 5
    }

    /// The deadlines of a release: its own, else the configured ones.
    pub fn deadlines(&self, strategy: &Strategy) -> Deadlines {
        let own = &strategy.deadlines;
        let ms = |own: Option<Duration>, configured: Duration| own.unwrap_or(configured).as_millis() as u64;
        Deadlines {
            offer: ms(own.offer, self.offer_deadline),
            setup: ms(own.setup_grace, self.setup_grace),
            stage: ms(own.stage, self.stage_deadline),
            undo: self.undo_deadline.as_millis() as u64,
        }
    }
}
