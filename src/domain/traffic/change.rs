//! Every way in which what is known of routers changes.

use std::sync::Arc;

use super::Router;
use model::{
    ChildKey, ReleaseKey,
    traffic::{DriftThen, OrderWhat, RouterPhase, TargetCount},
};

/// One change of what is known of a router. Applying it can't fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// All of it, with the places of the services and of the orders that differ from before.
    Told { child: ChildKey, router: Arc<Router>, services: Vec<usize>, orders: Vec<usize> },
    /// An operator asked for something: the order is the one at this place.
    Ordered { child: ChildKey, router: Arc<Router>, place: usize },
    /// Wanted or seen shares of a service differ from before.
    Shifted { child: ChildKey, release: Option<ReleaseKey>, entry: Box<Entry> },
    /// A router did something else than it was seen to do.
    Drifted { child: ChildKey, release: Option<ReleaseKey>, drift: Box<Drift>, entry: Box<Entry> },
    /// A variation has no healthy target any more, or one again.
    Health {
        child: ChildKey,
        release: Option<ReleaseKey>,
        service: String,
        variation: String,
        targets: TargetCount,
    },
    /// It is in another phase, reached or not, with other trouble than before.
    Stood { child: ChildKey, phase: RouterPhase, is_reached: bool, trouble: Option<String> },
    /// An order was answered.
    Answered { child: ChildKey, number: u64, what: OrderWhat, is_ok: bool },
}

/// A drift, with both values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    pub service: Option<String>,
    pub wanted: String,
    pub seen: String,
    pub then: DriftThen,
}

/// An entry of the history of a service. Shares are in units of 0.01 %.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// When it happened, in milliseconds since 1970.
    pub at_ms: i64,
    pub router: String,
    /// Empty: it concerns the router as a whole.
    pub service: String,
    pub epoch: u64,
    pub generation: u64,
    pub offer: Option<String>,
    /// Wanted before and now.
    pub from: Vec<Share>,
    pub to: Vec<Share>,
    /// As it was read back; what was not is left out.
    pub seen: Vec<Share>,
    /// Under the shares before.
    pub measured: Option<Measured>,
    pub drift: Option<Drift>,
}

/// The share of a variation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub variation: String,
    pub hundredths: u16,
}

/// Calls that were counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// For how many milliseconds.
    pub for_ms: u64,
    /// Variation, calls, errors.
    pub counts: Vec<(String, u64, u64)>,
}

impl Entry {
    /// Who brought it about: the offer, or the router where it drifted.
    #[must_use]
    pub fn by(&self) -> &str {
        match (&self.drift, &self.offer) {
            (Some(_), _) => "drift",
            (None, Some(offer)) => offer,
            (None, None) => "router",
        }
    }
}

impl Change {
    /// Its router's.
    #[must_use]
    pub const fn child(&self) -> ChildKey {
        match self {
            Self::Told { child, .. }
            | Self::Ordered { child, .. }
            | Self::Shifted { child, .. }
            | Self::Drifted { child, .. }
            | Self::Health { child, .. }
            | Self::Stood { child, .. }
            | Self::Answered { child, .. } => *child,
        }
    }

    /// The release in whose trail it stands. Nothing of the release changes by it.
    #[must_use]
    pub const fn trail(&self) -> Option<ReleaseKey> {
        match self {
            Self::Shifted { release, .. } | Self::Drifted { release, .. } | Self::Health { release, .. } => {
                *release
            }
            Self::Told { .. } | Self::Ordered { .. } | Self::Stood { .. } | Self::Answered { .. } => None,
        }
    }
}
