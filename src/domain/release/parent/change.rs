//! Every way in which it changes what this manager and the one above have said to each other.

use crate::release::ending::Ending;
use model::{Now, ReleaseKey, StageStatus};

/// One change of what was said. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The parent is told anew what became of the agents.
    Recounted { release: ReleaseKey },
    /// The parent holds a release that came from it, or does so no longer.
    Held { release: ReleaseKey, held: bool },
    /// This is how a stage ended here, and the parent is to hear of it.
    StageReported { release: ReleaseKey, stage: u8, status: StageStatus, now: Now },
    /// A stage has failed below and keeps its shares: the parent is to hear of it, and people there decide.
    Failed { release: ReleaseKey, why: Box<Ending> },
    /// It is decided above to go on from what has failed so far.
    FailuresAccepted { release: ReleaseKey, now: Now },
    /// The parent took a release over that reaches beyond this one's area.
    Forwarded {
        id: String,
        /// Where to ask for it.
        to: String,
    },
    /// The parent's next offer goes on with a release from above.
    Continued {
        release: ReleaseKey,
        /// By which it is called there from now on.
        offer: String,
    },
    /// The parent wants to hear when a release is taken back.
    UndoAwaited {
        release: ReleaseKey,
        /// Its order to do so.
        offer: String,
    },
    /// It is taken back, and the parent is to hear of it.
    UndoReported { release: ReleaseKey, offer: String, unconfirmed: u32 },
}

impl Change {
    /// The release it belongs to; one that went to the parent is none of those here.
    pub const fn release(&self) -> Option<ReleaseKey> {
        match self {
            Self::Recounted { release }
            | Self::Held { release, .. }
            | Self::StageReported { release, .. }
            | Self::Failed { release, .. }
            | Self::FailuresAccepted { release, .. }
            | Self::Continued { release, .. }
            | Self::UndoAwaited { release, .. }
            | Self::UndoReported { release, .. } => Some(*release),
            Self::Forwarded { .. } => None,
        }
    }
}
