//! What calls are answered from without asking the engine, apart by who reads it. Published after each commit.
//!
//! | | who reads it |
//! |---|---|
//! | [`Children`], [`Releases`], [`Archives`] | calls of children: each is found by one look, without a lock that anybody holds for long |
//! | [`Waiters`] | calls that wait |
//! | [`Tenants`] | operators, and whoever is bound to one |
//! | [`Tokens`] | calls of children, once one has joined |
//! | [`Children`], as [`Seen`] | pages and rules, for when a child called last; all else of a page is in a snapshot ([`crate::Engine::snapshot`]) |
//! | [`UnknownCallers`], [`Stats`] | operators and metrics |
//! | [`Questions`], [`Lineage`], [`Pointers`] | the tree: managers below, and the one above |
//! | [`FleetChecks`] | whoever asks how all of it stands |
//! | [`Changed`], [`Measurements`] | whoever keeps a copy of nodes and workflows elsewhere, and metrics |
//!
//! [`Seen`]: domain::release::command::LastSeen

mod archives;
mod callers;
mod children;
mod fleet_check;
mod nodes;
mod releases;
mod secret_ids;
mod turn;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::{
    changed::{Changed, Noted},
    forwarded_releases::Pointers,
    identity::Identity,
    measurements::Measurements,
    open_questions::Questions,
    parent::lineage::Lineage,
    questions::releases::Digests,
    stats::Stats,
    tenants::Tenants,
    tokens::Tokens,
    waiters::Waiters,
};
use domain::release::state::Snapshot;
use model::{ChildKey, ReleaseKey};
use protocol::measurements::NodeHealth;

pub use self::{
    archives::{Archive, Archives},
    callers::{MAX_UNKNOWN_CALLERS, UnknownCaller, UnknownCallers},
    children::Children,
    fleet_check::{FleetCheck, FleetChecks, FleetPart, MAX_NAMED, Named},
    nodes::NodeCalls,
    releases::{ReleaseEntry, Releases, Resolved},
    secret_ids::OfferKey,
    turn::{MAX_RELEASES, Mode, Published},
};
pub use crate::directory::ChildEntry;

/// A store that takes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOutage {
    /// When it was noticed.
    pub since: Instant,
    /// It has no space left; else it does not answer.
    pub is_full: bool,
}

/// All that calls are answered from.
pub struct View {
    pub children: Arc<Children>,
    pub releases: Releases,
    pub archives: Archives,
    pub waiters: Arc<Waiters>,
    pub unknown_callers: UnknownCallers,
    pub stats: Stats,
    /// What managers below are asked.
    pub questions: Questions,
    /// The managers above this one.
    pub lineage: Lineage,
    /// What this manager keeps of itself.
    pub kept: Identity,
    /// Releases that went up.
    pub pointers: Pointers,
    /// Of children that joined.
    pub tokens: Tokens,
    pub tenants: Tenants,
    /// Of strategies of releases that are over, for lists.
    pub digests: Digests,
    /// For whoever keeps a copy of nodes and workflows.
    pub changed: Changed,
    pub measurements: Measurements,
    /// For whoever asks how all of it stands.
    pub fleet_checks: FleetChecks,
    draining: AtomicBool,
    store_outage: Mutex<Option<StoreOutage>>,
    /// Told when the store takes commits again.
    recovered: Notify,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("children", &self.children.count()).finish_non_exhaustive()
    }
}

impl Default for View {
    fn default() -> Self {
        let waiters = Arc::new(Waiters::default());
        Self {
            children: Arc::new(Children::new(Arc::clone(&waiters))),
            waiters,
            releases: Releases::default(),
            archives: Archives::default(),
            unknown_callers: UnknownCallers::default(),
            stats: Stats::default(),
            questions: Questions::default(),
            lineage: Lineage::default(),
            kept: Identity::default(),
            pointers: Pointers::default(),
            tokens: Tokens::default(),
            tenants: Tenants::default(),
            digests: Digests::default(),
            changed: Changed::default(),
            measurements: Measurements::default(),
            fleet_checks: FleetChecks::default(),
            draining: AtomicBool::new(false),
            store_outage: Mutex::default(),
            recovered: Notify::new(),
        }
    }
}

impl View {
    /// Whether nothing can be stored because the store has no space left.
    pub fn is_store_full(&self) -> bool {
        self.store_outage().is_some_and(|outage| outage.is_full)
    }

    /// Why nothing can be stored at the moment; `None`: as far as is known, it can.
    pub fn store_outage(&self) -> Option<StoreOutage> {
        *self.lock_outage()
    }

    /// The store took nothing just now.
    pub(super) fn note_outage(&self, is_full: bool, now: Instant) {
        let mut outage = self.lock_outage();
        let since = outage.map_or(now, |known| known.since);
        *outage = Some(StoreOutage { since, is_full });
    }

    /// The store takes commits again.
    pub(super) fn note_recovered(&self) {
        *self.lock_outage() = None;
        self.recovered.notify_waiters();
    }

    fn lock_outage(&self) -> MutexGuard<'_, Option<StoreOutage>> {
        self.store_outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the store takes commits again; no longer than `limit`, for there may have been no trouble with commits.
    pub async fn until_recovered(&self, limit: Duration) {
        let _ = timeout(limit, self.recovered.notified()).await;
    }

    /// Whether a shutdown has begun.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// A node has said how its machine is, at a time in milliseconds since 1970.
    pub fn note_health(&self, node: ChildKey, calls: &NodeCalls, health: NodeHealth, at_ms: i64) {
        calls.set_health(health, at_ms);
        self.changed.note(Noted { children: [node].into(), ..Noted::default() });
    }

    /// Keeps an archive in memory; those of releases that are over make room first.
    pub fn keep_archive(&self, digest: [u8; 32], bytes: Bytes) -> Archive {
        self.archives.keep(digest, bytes, |archive| self.releases.uses(archive))
    }

    /// Shows what is committed of a release.
    pub(super) fn publish_release(&self, state: &Snapshot, key: ReleaseKey) {
        if self.releases.publish(state, key) {
            // Managers below want to know; a pause is rare.
            self.waiters.wake_all();
        }
    }
}
