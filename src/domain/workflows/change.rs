//! Every way in which workflows change.

use std::sync::Arc;

use super::{Above, Instance, Part, PartKey, Phase, Workflow, WorkflowKey};

/// One change. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// With its parts, in the order of their numbers; none of them runs yet.
    Started {
        workflow: Arc<Workflow>,
        parts: Vec<Arc<Part>>,
    },
    /// A part is to run on a node. `at_ms`: since when, in serving time.
    Placed {
        part: PartKey,
        instance: Instance,
        at_ms: u64,
    },
    /// A part is to run on another node, once it can there.
    Moving {
        part: PartKey,
        instance: Instance,
        at_ms: u64,
    },
    /// What was to run next does, and what ran before is to end.
    TookOver {
        part: PartKey,
    },
    /// What was to run next isn't to any more.
    Dropped {
        part: PartKey,
        instance: Instance,
        why: LeftWhy,
    },
    /// The instance of a part is to end.
    Left {
        part: PartKey,
        instance: Instance,
        why: LeftWhy,
    },
    /// An instance of a part that is to run is in another phase. `at_ms`: since when, in serving time.
    Seen {
        part: PartKey,
        instance: Box<str>,
        phase: Phase,
        at_ms: u64,
    },
    /// Events to an instance are taken elsewhere from now on.
    Reached {
        part: PartKey,
        instance: Box<str>,
        url: Option<Box<str>>,
    },
    /// An instance that was to end has ended, or its node is gone for good.
    Gone {
        part: PartKey,
        instance: Box<str>,
    },
    /// How one of several nodes is chosen for its parts from now on.
    StrategySet {
        workflow: WorkflowKey,
        strategy: Option<placement::Strategy>,
    },
    /// The parent wants something else of what it has placed here.
    AboveSet {
        workflow: WorkflowKey,
        above: Arc<Above>,
    },
    Stopping {
        workflow: WorkflowKey,
    },
    /// Nothing of it runs any more.
    Removed {
        workflow: WorkflowKey,
    },
}

/// Why an instance is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftWhy {
    /// Its workflow stops.
    Stopped,
    /// Its node is silent.
    Silent,
    /// Its node is nobody's any more.
    Forgotten,
    /// Its node can't run it.
    Failed,
    /// Its node is drained.
    Drained,
    /// Another one takes its place.
    Moved,
}

impl LeftWhy {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Silent => "silent",
            Self::Forgotten => "forgotten",
            Self::Failed => "failed",
            Self::Drained => "drained",
            Self::Moved => "moved",
        }
    }
}

impl Change {
    /// The part that it is about.
    #[must_use]
    pub const fn part(&self) -> Option<PartKey> {
        match self {
            Self::Placed { part, .. }
            | Self::Moving { part, .. }
            | Self::TookOver { part }
            | Self::Dropped { part, .. }
            | Self::Left { part, .. }
            | Self::Seen { part, .. }
            | Self::Reached { part, .. }
            | Self::Gone { part, .. } => Some(*part),
            Self::Started { .. }
            | Self::StrategySet { .. }
            | Self::AboveSet { .. }
            | Self::Stopping { .. }
            | Self::Removed { .. } => None,
        }
    }
}
