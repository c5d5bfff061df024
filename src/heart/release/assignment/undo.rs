//! The undo that a child is offered.

use super::FunctionSet;
use crate::release::{clock::ReleaseMs, offer::MAX_UNDO};

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
        }
    }

    /// Whether the child goes back right now.
    pub const fn is_in_hand(&self) -> bool {
        self.fetched && self.is_pending()
    }
}
