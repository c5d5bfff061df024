//! Every way in which one child's part in a release changes.

use std::sync::Arc;

use crate::{
    children::Variant,
    release::{
        assignment::{FunctionSet, Step, StepIndex},
        clock::ReleaseMs,
        summary::{Received, StoredSummary},
    },
};
use model::{ChildKey, Now, ReleaseKey, StageStatus};

/// One change of a child's part. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A child that was not there when the release started has a part in it now.
    Joined {
        release: ReleaseKey,
        child: ChildKey,
        /// It goes on in the place of this one, which others wait for as they did for that.
        instead_of: Option<ChildKey>,
        /// The functions that it does not run.
        lacks: FunctionSet,
        now: Now,
    },
    /// The deadlines of this release were looked through, as far as to the child `after`; of those that were, none is due
    /// before.
    DeadlinesSeen {
        release: ReleaseKey,
        next: ReleaseMs,
        /// `None`: all were.
        after: Option<ChildKey>,
    },
    Stepped {
        release: ReleaseKey,
        child: ChildKey,
        step: Step,
        at: ReleaseMs,
        summary: Option<Box<StoredSummary>>,
    },
    /// Preliminary numbers, refreshed. `status`: whether the child is ready to end the stage; they are kept as numbers of that.
    Numbers {
        release: ReleaseKey,
        child: ChildKey,
        slot: StepIndex,
        status: StageStatus,
        summary: Box<StoredSummary>,
    },
    /// A result that came too late to count is kept in the audit trail.
    LateKept {
        release: ReleaseKey,
        child: ChildKey,
        stage: Option<String>,
        report: Arc<Received>,
    },
    Deployed {
        child: ChildKey,
        release: ReleaseKey,
        function: usize,
        variant: Variant,
    },
}

impl Change {
    /// The release it belongs to.
    pub const fn release(&self) -> ReleaseKey {
        match self {
            Self::Joined { release, .. }
            | Self::DeadlinesSeen { release, .. }
            | Self::Stepped { release, .. }
            | Self::Numbers { release, .. }
            | Self::LateKept { release, .. }
            | Self::Deployed { release, .. } => *release,
        }
    }

    /// The child it concerns, if it is one.
    pub const fn child(&self) -> Option<ChildKey> {
        match self {
            Self::Joined { child, .. }
            | Self::Stepped { child, .. }
            | Self::Numbers { child, .. }
            | Self::LateKept { child, .. }
            | Self::Deployed { child, .. } => Some(*child),
            Self::DeadlinesSeen { .. } => None,
        }
    }
}
