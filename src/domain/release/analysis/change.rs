//! Every way in which the runs of analyses change.

use super::run::{Extended, Run, RunStatus};
use ::analysis::Verdict;
use model::{Now, ReleaseKey};

/// One change of a run. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A run of an analysis begins.
    Began {
        release: ReleaseKey,
        /// Its place in [`language::Strategy::analyses`].
        block: u8,
        number: u32,
        of: u32,
        now: Now,
    },
    /// The data of a run were looked at: it stands thus.
    Looked { release: ReleaseKey, run: Box<Run> },
    /// The verdict of a run has its consequence.
    VerdictGiven {
        release: ReleaseKey,
        block: u8,
        verdict: Verdict,
        why: String,
        standing: RunStatus,
        now: Now,
    },
    /// A run goes on after an end that decided nothing, or will.
    Extended { release: ReleaseKey, block: u8, extended: Extended, now: Now },
}

impl Change {
    /// The release it belongs to.
    pub const fn release(&self) -> ReleaseKey {
        match self {
            Self::Began { release, .. }
            | Self::Looked { release, .. }
            | Self::VerdictGiven { release, .. }
            | Self::Extended { release, .. } => *release,
        }
    }
}
