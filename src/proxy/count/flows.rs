//! What is counted of flows beside what is counted of calls.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use traffic::Failure;

use super::{CallCount, Way};
use call_metrics::Key;

/// How a flow came to the version that has it, as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Course {
    Given,
    PassedOver,
    /// The version that it was given to refused it.
    Repeated,
}

impl CallCount<'_> {
    /// It isn't counted here: another process goes on with it.
    pub(crate) fn leave(mut self) {
        self.is_over = true;
    }

    pub(crate) fn key(&self) -> Arc<Key> {
        Arc::clone(&self.counted.key)
    }

    pub(crate) fn group(&self) -> Option<u8> {
        self.group
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    pub(crate) fn course(&self) -> Course {
        match self.way {
            Way::Given => Course::Given,
            Way::PassedOver => Course::PassedOver,
            Way::Repeated(_) => Course::Repeated,
        }
    }

    /// It took this course in another process.
    pub(crate) fn follow(&mut self, course: Course) {
        self.way = match course {
            Course::Given => Way::Given,
            Course::PassedOver => Way::PassedOver,
            Course::Repeated => Way::Repeated(Failure::Refused),
        };
    }

    /// Counts bytes of what is no call of HTTP: those to the version, and those to the caller.
    pub(crate) fn pass(&mut self, up: u64, down: u64) {
        self.counts.go_on(Instant::now());
        self.counts.touch(&self.counted);
        let mut counts = self.counted.counts.borrow_mut();
        counts.tally.bytes_up += up;
        counts.tally.bytes_down += down;
        if let Some(line) = &mut self.line {
            line.bytes = Some((up, down));
        }
    }
}
