//! What is stored, published and shown as the audit trail: every way in which the state changes.

use super::{analysis, lifecycle, members, parent, rollout, stages};
use crate::{children, traffic, workflows};
use model::{ChildKey, ReleaseKey};

/// One change of the state, by what it is about. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Children(children::Change),
    Lifecycle(lifecycle::Change),
    Rollout(rollout::Change),
    Stages(stages::Change),
    Members(members::Change),
    Parent(parent::Change),
    Analysis(analysis::Change),
    /// Of routers. It stands in the trail of a release, and changes nothing of that.
    Traffic(traffic::Change),
    /// Of workflows, which have no release.
    Workflows(workflows::Change),
}

impl Change {
    /// The release it belongs to.
    pub const fn release(&self) -> Option<ReleaseKey> {
        match self {
            Self::Children(_) | Self::Traffic(_) | Self::Workflows(_) => None,
            Self::Lifecycle(change) => Some(change.release()),
            Self::Rollout(change) => Some(change.release()),
            Self::Stages(change) => Some(change.release()),
            Self::Members(change) => Some(change.release()),
            Self::Parent(change) => change.release(),
            Self::Analysis(change) => Some(change.release()),
        }
    }

    /// The release in whose trail it stands.
    pub const fn trail(&self) -> Option<ReleaseKey> {
        match self {
            Self::Traffic(change) => change.trail(),
            Self::Children(_)
            | Self::Lifecycle(_)
            | Self::Rollout(_)
            | Self::Stages(_)
            | Self::Members(_)
            | Self::Parent(_)
            | Self::Analysis(_)
            | Self::Workflows(_) => self.release(),
        }
    }

    /// The child whose record or part it is about, if it is one.
    pub const fn child(&self) -> Option<ChildKey> {
        match self {
            Self::Children(change) => change.child(),
            Self::Members(change) => change.child(),
            Self::Traffic(change) => Some(change.child()),
            Self::Lifecycle(_)
            | Self::Rollout(_)
            | Self::Stages(_)
            | Self::Parent(_)
            | Self::Analysis(_)
            | Self::Workflows(_) => None,
        }
    }
}

impl From<workflows::Change> for Change {
    fn from(change: workflows::Change) -> Self {
        Self::Workflows(change)
    }
}

impl From<traffic::Change> for Change {
    fn from(change: traffic::Change) -> Self {
        Self::Traffic(change)
    }
}
