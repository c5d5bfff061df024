//! Every way in which what is known of a child changes.

use std::{net::IpAddr, sync::Arc};

use super::{Child, Profile, recheck::Recheck};
use model::{ChildId, ChildKey, Cordon, Now};

/// How a child came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    Registered,
    /// It brought an id along that was not known here.
    Adopted,
}

/// Why a child was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgetting {
    /// It never called again after its birth, or it is gone and never took part in anything.
    Ghost,
    /// Another id has taken its place.
    Replaced,
    ByOperator,
}

/// One change of the children. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Arrived {
        child: ChildKey,
        arrival: Arrival,
        record: Box<Child>,
    },
    /// The first call after its birth: it is no ghost.
    CalledAgain {
        child: ChildKey,
    },
    Moved {
        child: ChildKey,
        area: Option<Arc<str>>,
    },
    /// It calls from another address than before.
    CalledFrom {
        child: ChildKey,
        address: IpAddr,
    },
    /// One that brought its id along has taken part in something.
    Proven {
        child: ChildKey,
    },
    /// Another id has taken its place.
    Replaced {
        child: ChildKey,
        by: ChildKey,
        now: Now,
    },
    /// It calls again, although another seemed to have taken its place.
    Back {
        child: ChildKey,
    },
    Reported {
        child: ChildKey,
        agents: u32,
        profile: Option<Box<Profile>>,
    },
    /// Something was stored that brings it no further.
    Paced {
        child: ChildKey,
        now: Now,
    },
    /// It says something else of itself again and again, as two agents do that have one id.
    SaysOtherwise {
        child: ChildKey,
        /// What differs, for people.
        differs: Vec<String>,
        now: Now,
    },
    Labelled {
        child: ChildKey,
        key: String,
        value: Option<String>,
    },
    Cordoned {
        child: ChildKey,
        cordon: Cordon,
    },
    Forgotten {
        child: ChildKey,
        id: ChildId,
        why: Forgetting,
    },
    /// Children were looked at again, for who stands in whose place (`again`: the next looks), and others, whether they
    /// are still there: `gone` with the serving time at which that was due, and of those that stay, in `kept`, when
    /// they are looked at next.
    Seen {
        looked: Vec<Recheck>,
        again: Vec<Recheck>,
        kept: Vec<(u64, ChildKey)>,
        gone: Vec<(u64, ChildKey)>,
    },
}

impl Change {
    /// The child it concerns, if it is one.
    pub const fn child(&self) -> Option<ChildKey> {
        match self {
            Self::Arrived { child, .. }
            | Self::CalledAgain { child }
            | Self::Moved { child, .. }
            | Self::CalledFrom { child, .. }
            | Self::Proven { child }
            | Self::Replaced { child, .. }
            | Self::Back { child }
            | Self::Reported { child, .. }
            | Self::Paced { child, .. }
            | Self::SaysOtherwise { child, .. }
            | Self::Labelled { child, .. }
            | Self::Cordoned { child, .. }
            | Self::Forgotten { child, .. } => Some(*child),
            Self::Seen { .. } => None,
        }
    }
}
