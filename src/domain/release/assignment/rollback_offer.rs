//! The undo that a child is offered.

use super::FunctionSet;
use crate::release::{clock::ReleaseMs, offer::MAX_UNDO};
use model::{ChildKey, ReleaseKey};

/// How long nothing is offered after an undo that failed, in milliseconds: at first, and at most. Each failure in a row doubles it.
const FIRST_REST_MS: u64 = 5_000;
pub const LONGEST_REST_MS: u64 = 300_000;

/// A rest is shortened or lengthened by the numbers of child and release, to so many hundredths: children that failed together don't come
/// back together.
const LEAST_OF_REST: u64 = 75;
const MOST_OF_REST: u64 = 125;

/// A child is to go back to the base version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// From 1; names the offer.
    pub number: u16,
    /// What is still to be undone; the first is being undone. Empty: all confirmed.
    pub functions: FunctionSet,
    pub fetched: bool,
    pub since: ReleaseMs,
    /// When the child was first asked for the first of [`Self::functions`]. The release waits so long, however often
    /// the undo is lost and offered again.
    pub asked: ReleaseMs,
    /// Polls since it was fetched.
    pub polls: u8,
    /// The release waits for it no longer; the offer stands.
    pub overdue: bool,
    /// How many before this one failed, or were lost, in a row.
    pub failures: u8,
    /// It is not shown before this serving time, in milliseconds: the one before it failed.
    pub rests_until: Option<u64>,
    /// What the child said of the last one that failed.
    pub why: Option<Box<str>>,
}

impl Undo {
    pub const fn is_pending(&self) -> bool {
        !self.functions.is_empty()
    }

    /// The child runs the base version of this function again: the next one's turn.
    pub(super) fn confirm(&mut self, function: usize, at: ReleaseMs) {
        self.functions = self.functions.without(function);
        if self.is_pending() {
            self.number = (self.number + 1).min(MAX_UNDO);
            self.fetched = false;
            self.since = at;
            self.asked = at;
            self.polls = 0;
            (self.failures, self.rests_until, self.why) = (0, None, None);
        }
    }

    /// The child failed it, or lost its result: another one follows, once it has rested.
    pub(super) fn fail(&mut self, rests_until: Option<u64>, why: Option<&str>, at: ReleaseMs) {
        self.number = (self.number + 1).min(MAX_UNDO);
        self.fetched = false;
        self.since = at;
        self.polls = 0;
        self.failures = self.failures.saturating_add(1);
        self.rests_until = rests_until;
        self.why = why.map(Into::into).or(self.why.take());
    }

    /// How long the next one is to rest if this one fails, in milliseconds.
    pub fn rest_ms(&self, release: ReleaseKey, child: ChildKey) -> u64 {
        let rest = (FIRST_REST_MS << self.failures.min(16)).min(LONGEST_REST_MS);
        let mixed = (u64::from(release.0) << 32 | u64::from(child.0)) + u64::from(self.number);
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        rest * (LEAST_OF_REST + mixed % (MOST_OF_REST - LEAST_OF_REST + 1)) / 100
    }

    /// Whether it is not shown yet.
    pub const fn rests(&self) -> bool {
        self.is_pending() && self.rests_until.is_some()
    }

    /// Whether the child goes back right now.
    pub const fn is_in_hand(&self) -> bool {
        self.fetched && self.is_pending()
    }
}
