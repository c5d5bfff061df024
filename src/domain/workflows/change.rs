//! Every way in which workflows change.

use std::sync::Arc;

use super::{Instance, Part, PartKey, Phase, Workflow, WorkflowKey};

/// One change. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// With its parts, in the order of their numbers; none of them runs yet.
    Started {
        workflow: Arc<Workflow>,
        parts: Vec<Arc<Part>>,
    },
    /// A part is to run on a node.
    Placed {
        part: PartKey,
        instance: Instance,
    },
    /// The instance of a part is to end.
    Left {
        part: PartKey,
    },
    /// The instance of a part is in another phase.
    Seen {
        part: PartKey,
        phase: Phase,
    },
    /// An instance that was to end has ended, or its node is gone for good.
    Gone {
        part: PartKey,
        instance: Box<str>,
    },
    Stopping {
        workflow: WorkflowKey,
    },
    /// Nothing of it runs any more.
    Removed {
        workflow: WorkflowKey,
    },
}

impl Change {
    /// The part that it is about.
    #[must_use]
    pub const fn part(&self) -> Option<PartKey> {
        match self {
            Self::Placed { part, .. }
            | Self::Left { part }
            | Self::Seen { part, .. }
            | Self::Gone { part, .. } => Some(*part),
            Self::Started { .. } | Self::Stopping { .. } | Self::Removed { .. } => None,
        }
    }
}
