//! What a child is registered with, in one record for the engine's state and for readers.
//!
//! The state changes it by copy while a reader holds it ([`Arc::make_mut`]), so readers see each change when it is
//! published and not before. Only [`Live`] changes in place, and no rule reads that.
//!
//! [`Arc::make_mut`]: std::sync::Arc::make_mut

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use super::Profile;
use model::{ChildId, ChildKey, ChildKind};

/// What a child is registered with, for the engine's state and for readers alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    pub id: ChildId,
    pub key: ChildKey,
    /// The GeoJSON exactly as it was sent; it was valid then.
    pub area: Option<Arc<str>>,
    /// Where it called from when that was last noted.
    pub address: Option<IpAddr>,
    pub agents: u32,
    /// `None` for a plain agent that reports nothing.
    pub profile: Option<Box<Profile>>,
    pub live: Live,
}

impl Registration {
    pub fn kind(&self) -> ChildKind {
        self.profile.as_ref().map(|profile| profile.kind).unwrap_or_default()
    }

    /// Whether it is an agent that takes a whole strategy in one offer.
    pub fn leads_itself(&self) -> bool {
        self.profile.as_deref().is_some_and(Profile::leads_itself)
    }
}

/// What readers keep of a child: it changes with calls and publications, is not stored, and says nothing of what a child
/// is. So all are equal.
#[derive(Debug, Default)]
pub struct Live {
    /// Its turn, packed as the view has it.
    pub turn: AtomicU64,
    /// Serving time of the last call, plus one; 0: none in this life.
    pub seen: AtomicU64,
    /// The call that was stored last, in whole seconds of serving time.
    pub stored_seen_s: AtomicU32,
    /// Serving time at which the address was noted, in whole seconds.
    pub address_noted_s: AtomicU32,
}

impl Clone for Live {
    fn clone(&self) -> Self {
        let word = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::Relaxed));
        let seconds = |seconds: &AtomicU32| AtomicU32::new(seconds.load(Ordering::Relaxed));
        Self {
            turn: word(&self.turn),
            seen: word(&self.seen),
            stored_seen_s: seconds(&self.stored_seen_s),
            address_noted_s: seconds(&self.address_noted_s),
        }
    }
}

impl PartialEq for Live {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
