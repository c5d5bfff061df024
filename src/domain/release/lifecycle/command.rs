//! What is asked of a release as a whole.

use super::Submission;

/// What is asked of a release as a whole.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Submit {
        submission: Box<Submission>,
        dry_run: bool,
    },
    Pause {
        release: String,
        reason: String,
    },
    Resume {
        release: String,
    },
    Abort {
        release: String,
        /// Why, in the words of whoever says so.
        note: Option<String>,
        by: Option<String>,
    },
    /// Another attempt for every child that failed, timed out, was unreachable, lost or left untested.
    Retry {
        release: String,
    },
    /// One in which nobody could take part was submitted once more.
    PlanAgain {
        release: String,
    },
    /// Lets a release that is over leave the history, unless a child still runs what it left there.
    Remove {
        release: String,
    },
}
