//! Every way in which a release as a whole moves from its submission to its end.

use super::{Membership, Submission};
use crate::release::{ending::Ending, pause::Pause, state::End};
use model::{ChildKey, Now, ReleaseId, ReleaseKey};

/// One change of the course of a release. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Submitted {
        release: ReleaseKey,
        submitted: Box<Submission>,
        now: Now,
    },
    Started {
        release: ReleaseKey,
        membership: Membership,
        now: Now,
    },
    Paused {
        release: ReleaseKey,
        pause: Pause,
        now: Now,
    },
    Resumed {
        release: ReleaseKey,
        now: Now,
    },
    /// It is taken back: everybody who may run the new version is offered the undo.
    Aborted {
        release: ReleaseKey,
        why: Box<Ending>,
        /// How it ends then: `Aborted` by an operator, `RolledBack` by its own rules.
        end: End,
        now: Now,
    },
    /// The first child that ended badly, for whoever asks later.
    FaultNoted {
        release: ReleaseKey,
        child: ChildKey,
        ending: Box<Ending>,
    },
    Retried {
        release: ReleaseKey,
        now: Now,
    },
    /// An operator did something to some of its children: whoever saw it before has seen another one.
    ActedOn {
        release: ReleaseKey,
    },
    /// A hybrid is taken back, and each router has proven that it is back: its agents follow.
    RoutersBack {
        release: ReleaseKey,
        now: Now,
    },
    /// It had no participants, and is planned once more.
    Replanned {
        release: ReleaseKey,
        now: Now,
    },
    Ended {
        release: ReleaseKey,
        end: End,
        unconfirmed: u32,
        now: Now,
    },
    /// It is over, and old enough to leave the history.
    Removed {
        release: ReleaseKey,
        id: ReleaseId,
    },
}

impl Change {
    /// The release in which those who ended badly get another attempt.
    pub(in crate::release) const fn retried(&self) -> Option<ReleaseKey> {
        match self {
            Self::Retried { release, .. } => Some(*release),
            Self::Submitted { .. }
            | Self::Started { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. }
            | Self::Aborted { .. }
            | Self::FaultNoted { .. }
            | Self::ActedOn { .. }
            | Self::RoutersBack { .. }
            | Self::Replanned { .. }
            | Self::Ended { .. }
            | Self::Removed { .. } => None,
        }
    }

    /// The release it belongs to.
    pub const fn release(&self) -> ReleaseKey {
        match self {
            Self::Submitted { release, .. }
            | Self::Started { release, .. }
            | Self::Paused { release, .. }
            | Self::Resumed { release, .. }
            | Self::Aborted { release, .. }
            | Self::FaultNoted { release, .. }
            | Self::Retried { release, .. }
            | Self::ActedOn { release }
            | Self::RoutersBack { release, .. }
            | Self::Replanned { release, .. }
            | Self::Ended { release, .. }
            | Self::Removed { release, .. } => *release,
        }
    }
}
