//! What an operator may set of the rules.

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use super::assignment::{Assignment, ManagementMode};
use crate::{
    children::{Absences, Child, Children},
    workflows,
};
use language::Strategy;
use model::ChildKey;

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

/// Ids of children that prove by a token who they are; clones are the same set. Tokens come and go while a manager works, and are
/// no part of its state.
#[derive(Debug, Clone, Default)]
pub struct Proven(Arc<RwLock<HashSet<String>>>);

impl Proven {
    pub fn new(ids: impl IntoIterator<Item = String>) -> Self {
        Self(Arc::new(RwLock::new(ids.into_iter().collect())))
    }

    fn read(&self) -> RwLockReadGuard<'_, HashSet<String>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashSet<String>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn contains(&self, id: &str) -> bool {
        self.read().contains(id)
    }

    pub fn add(&self, id: &str) {
        self.write().insert(id.to_owned());
    }

    pub fn remove(&self, id: &str) {
        self.write().remove(id);
    }
}

impl PartialEq for Proven {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.read() == *other.read()
    }
}

impl Eq for Proven {}

/// Deadlines and limits. See the configuration for what they mean to an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Offered and not fetched.
    pub offer_deadline: Duration,
    /// Silence after a download, an end signal or a result.
    pub setup_grace: Duration,
    /// Silence of an agent that has a whole strategy in hand: it always has a call open.
    pub whole_silence: Duration,
    /// A stage, from its beginning.
    pub stage_deadline: Duration,
    /// Until a child that is to go back has proven that it runs the base version again. Then the release waits no longer.
    pub undo_deadline: Duration,
    /// After how much silence a child is not there any more.
    pub absence: Absences,
    /// Over so long a time the offers are spread that many children get at once.
    pub offer_jitter: Duration,
    /// How functions of workflows are placed, and when they are moved.
    pub placement: workflows::Settings,
    pub max_children: usize,
    pub max_open_releases: usize,
    /// Ids of children that prove by a token who they are. Each comes back under its own id, so nobody else is ever
    /// taken for its successor, whatever area it names.
    pub proven: Proven,
    /// Ids that callers of one address brought along and that never took part in anything.
    pub max_adopted: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            offer_deadline: Duration::from_mins(15),
            setup_grace: Duration::from_mins(15),
            whole_silence: Duration::from_secs(90),
            stage_deadline: Duration::from_hours(24),
            undo_deadline: Duration::from_mins(30),
            absence: Absences::default(),
            offer_jitter: Duration::ZERO,
            placement: workflows::Settings::default(),
            max_children: DEFAULT_MAX_CHILDREN,
            max_open_releases: DEFAULT_MAX_OPEN_RELEASES,
            proven: Proven::default(),
            max_adopted: DEFAULT_MAX_ADOPTED,
        }
    }
}

/// The deadlines of one release, in milliseconds of its clock. What holds for a member is asked by [`Self::of_member`].
#[derive(Debug, Clone, Copy)]
pub struct Deadlines<'a> {
    children: &'a Children,
    offer: u64,
    setup: u64,
    whole_silence: u64,
    stage: u64,
    undo: u64,
}

/// A member of a release: who it is, and where it stands there.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    pub child: ChildKey,
    pub part: &'a Assignment,
}

/// The deadlines of one member of a release, in milliseconds of its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberDeadlines {
    pub offer_ms: u64,
    /// Silence of one that has something in hand.
    pub setup_ms: u64,
    pub stage_ms: u64,
    pub undo_ms: u64,
    /// For one that calls while it runs a stage: a call within this time moves that deadline on.
    pub stage_silence_ms: Option<u64>,
    /// For one that calls while it goes back: a call within this time moves that deadline on.
    pub undo_silence_ms: Option<u64>,
}

impl<'a> Deadlines<'a> {
    /// Those of a member. Whatever makes a difference between members makes it here: how they are led, or what is known of
    /// the child ([`Self::record`]).
    pub fn of_member(self, member: Member<'_>) -> MemberDeadlines {
        let Self { offer: offer_ms, setup, whole_silence, stage: stage_ms, undo: undo_ms, .. } = self;
        let (setup_ms, stage_silence_ms, undo_silence_ms) = match member.part.led {
            ManagementMode::Stepwise(_) => (setup, None, None),
            // It calls whatever it does.
            ManagementMode::InPlace(_) => (whole_silence, None, None),
            // It runs a stage as long as its own children need, and takes a release back from them first.
            ManagementMode::Whole(_) => (setup, Some(setup), Some(setup)),
        };
        MemberDeadlines { offer_ms, setup_ms, stage_ms, undo_ms, stage_silence_ms, undo_silence_ms }
    }

    /// What is known of a child; `None`: it was forgotten, and gives no sign of life any more.
    pub fn record(self, child: ChildKey) -> Option<&'a Child> {
        self.children.get(child)
    }
}

impl Settings {
    /// So long every member of a release has at least to fetch what it was offered, in milliseconds.
    pub fn shortest_offer_ms(&self, strategy: &Strategy) -> u64 {
        strategy.deadlines.offer.unwrap_or(self.offer_deadline).as_millis() as u64
    }

    /// The deadlines of a release: its own, else the configured ones.
    pub fn deadlines<'a>(&self, strategy: &Strategy, children: &'a Children) -> Deadlines<'a> {
        let own = &strategy.deadlines;
        let ms = |own: Option<Duration>, configured: Duration| own.unwrap_or(configured).as_millis() as u64;
        Deadlines {
            children,
            offer: ms(own.offer, self.offer_deadline),
            setup: ms(own.setup_grace, self.setup_grace),
            whole_silence: self.whole_silence.as_millis() as u64,
            stage: ms(own.stage, self.stage_deadline),
            undo: self.undo_deadline.as_millis() as u64,
        }
    }
}
