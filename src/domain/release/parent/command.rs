//! What the parent asks for, and what it is noted to have taken.

use crate::release::liveness_check::ReportedLiveness;
use language::Amount;

/// What the parent asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// The parent ended a stage of the release it offered; `undo`: and wants it taken back.
    End { release: String, stage: u8, undo: bool },
    /// It is decided above to go on from the first `failures` of the stages that have failed below and keep their shares.
    Accept { release: String, failures: u32 },
    /// The parent refuses for good to hear of the release that it offered: it is taken back.
    Disowned { release: String, why: String },
    /// The parent took over a release that was submitted here.
    NoteForwarded { release: String, to: String },
    /// The parent's offer `offer` goes on with a release that came from it, in which so many waves are open now.
    Continue {
        release: String,
        offer: String,
        waves: u32,
        /// How the parent counts them now; empty: as before.
        amounts: Vec<Amount>,
        /// What managers below say of who can take part.
        liveness_checks: ReportedLiveness,
        /// It is over, and those that ended badly get another attempt.
        retries: bool,
    },
    /// The parent takes a release back, and wants to hear of it under the id of this order.
    Undo { release: String, offer: String },
    /// The parent wants a stage of the release it offered to be passed over.
    Skip { release: String, stage: String },
    /// The parent paused the release it offered, or goes on with it.
    Hold { release: String, hold: bool },
}
