//! Whether a commit is worth a short wait for more commands.
//!
//! Callers who wait for an answer come back as soon as they have it. Without a wait they fall into two groups, each
//! of which calls while the commit of the other is under way, and every caller waits for two commits. Where a commit
//! takes long beside a call (a disk that must be asked to keep its promise), one commit for both is the better deal.
//!
//! The wait is a part of the last commit's time, so it costs no caller much, and it is left out for a while
//! whenever it brought nothing.

use std::time::Duration;

/// The longest wait is this part of the last commit's time.
const PART_OF_COMMIT: u32 = 4;

/// No wait is longer than this, however slow the store.
pub const LONGEST: Duration = Duration::from_millis(2);

/// A wait has paid if what came is at least this part of what was there.
const WORTHWHILE: usize = 4;

/// After waits that did not pay, at most this many commits go without one.
const MOST_SKIPPED: u32 = 256;

/// What was learnt from the commits so far.
#[derive(Debug, Default)]
pub struct Gathering {
    answered: usize,
    commit: Duration,
    skip: u32,
    skip_next: u32,
}

/// Wait until so many commands are there, at most so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub until: usize,
    pub limit: Duration,
}

impl Gathering {
    /// A commit answered so many callers.
    pub fn committed(&mut self, answered: usize, took: Duration) {
        self.answered = answered;
        self.commit = took;
    }

    /// Whether to wait when so many commands have come during the last commit. Where none has, nobody is in a hurry.
    pub fn wait(&mut self, backlog: usize) -> Option<Wait> {
        if backlog == 0 || self.answered == 0 {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        let limit = (self.commit / PART_OF_COMMIT).min(LONGEST);
        Some(Wait { until: backlog + self.answered, limit })
    }

    /// A wait for more than `before` commands brought `came`.
    pub fn waited(&mut self, before: usize, came: usize) {
        if came * WORTHWHILE >= before {
            self.skip_next = 0;
        } else {
            self.skip_next = (self.skip_next * 2).clamp(1, MOST_SKIPPED);
            self.skip = self.skip_next;
        }
    }
}
