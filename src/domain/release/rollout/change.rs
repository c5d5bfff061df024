//! Every way in which a release opens for more children, or for more of what they do.

use crate::release::{gate::Gate, manager::Planned};
use model::{ChildKey, Now, ReleaseKey};

/// One change of how far a release is open. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Nobody has to come to this gate any more; it soaks, or an approval is awaited.
    GateReached {
        release: ReleaseKey,
        gate: Gate,
        now: Now,
    },
    /// Somebody has to come there again: a child got another attempt, or joined.
    GateLeft {
        release: ReleaseKey,
    },
    /// Somebody must say yes before the gate that is reached opens.
    ApprovalAsked {
        release: ReleaseKey,
        /// What for, in words.
        what: String,
        now: Now,
    },
    Approved {
        release: ReleaseKey,
        now: Now,
    },
    /// Managers below are asked who can take part. Not stored: after a restart they are asked again.
    TurnoutAsked {
        release: ReleaseKey,
        now: Now,
    },
    /// Waves that are not open hold others now: who is silent comes last.
    WavesPlanned {
        release: ReleaseKey,
        /// Who has their first turn, or the next, in another wave.
        moved: Vec<(ChildKey, u32)>,
        /// Managers whose agents are spread otherwise.
        managers: Vec<(ChildKey, Planned)>,
        /// Agents that come last because they are silent.
        left_out: u32,
        now: Now,
    },
    /// The waves from one number to another are open.
    WavesOpened {
        release: ReleaseKey,
        from: u32,
        to: u32,
        now: Now,
    },
    /// All barriers below this level are open.
    LevelOpened {
        release: ReleaseKey,
        level: u8,
        now: Now,
    },
    /// This variation of its service is to serve alone in the end, by its place in the strategy.
    WinnerChosen {
        release: ReleaseKey,
        variation: u8,
        now: Now,
    },
    /// A stage has other shares: so much for the one variation beside the stable one, in units of 0.01 %.
    SharesChosen {
        release: ReleaseKey,
        stage: u8,
        new: u16,
        now: Now,
    },
}

impl Change {
    /// The release it belongs to.
    pub const fn release(&self) -> ReleaseKey {
        match self {
            Self::GateReached { release, .. }
            | Self::GateLeft { release }
            | Self::ApprovalAsked { release, .. }
            | Self::Approved { release, .. }
            | Self::TurnoutAsked { release, .. }
            | Self::WavesPlanned { release, .. }
            | Self::WavesOpened { release, .. }
            | Self::LevelOpened { release, .. }
            | Self::WinnerChosen { release, .. }
            | Self::SharesChosen { release, .. } => *release,
        }
    }
}
