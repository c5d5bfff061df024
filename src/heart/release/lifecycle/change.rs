//! Every way in which a release as a whole moves from its submission to its end.

use std::{collections::BTreeMap, sync::Arc};

use crate::release::{
    assignment::FunctionSet, ending::Ending, manager::Planned, parent::ParentOffer, pause::Pause, state::End,
};
use language::Strategy;
use model::{ChildKey, Exclusion, Now, ReleaseId, ReleaseKey};

/// A release as it was submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    pub id: ReleaseId,
    pub strategy: Arc<Strategy>,
    /// The YAML as sent.
    pub text: Arc<str>,
    /// Over the parsed strategy and the functions.
    pub digest: [u8; 32],
    /// Names the functions' archive in the store.
    pub archive: [u8; 32],
    /// `None`: a developer submitted it here.
    pub parent: Option<ParentOffer>,
    /// It starts only when somebody says so.
    pub deferred: bool,
}

/// Who takes part in a release, and how many not, and why.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Membership {
    /// Ascending.
    pub members: Arc<[ChildKey]>,
    pub excluded: Vec<(Exclusion, u32)>,
    /// The wave of each member, from 0, in their order. Empty: all are in the first.
    pub waves: Vec<u32>,
    /// Those of them that are managers themselves.
    pub managers: BTreeMap<ChildKey, Planned>,
    /// The functions that each member does not run, in their order. Empty: all run all.
    pub lacks: Vec<FunctionSet>,
    /// Agents that come last because they are silent.
    pub left_out: u32,
}

/// One change of the course of a release. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Submitted {
        release: ReleaseKey,
        submitted: Box<Submitted>,
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
            | Self::Replanned { release, .. }
            | Self::Ended { release, .. }
            | Self::Removed { release, .. } => *release,
        }
    }
}
