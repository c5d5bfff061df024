//! What is known of routers and of the services that they lead: told by the agents beside them (`POST /traffic`), kept by child,
//! and asked for by operators.
//!
//! A router is its child's: it is known from the first call about it until its child is forgotten. A service of it has a *place*,
//! which is given again when it is gone, so that what a child can have stored is bounded whatever it says. A service outlives its
//! releases: what its router was last proven to do without a release in hand is its [`ProvenService`] state, with the release it came
//! from.
//!
//! ```text
//! report ─▶ decide: what is news?  ─▶ Told (the record)  + Shifted, Drifted (history and trail)  + Health, Stood, Answered (trail)
//! order  ─▶ decide: is there room? ─▶ Ordered ─▶ handed out with each answer ─▶ Answered | its deadline passes
//! ```
//!
//! Invariants, which `tests/domain/traffic.rs` asserts:
//! - a report that was taken in before changes nothing when it comes again;
//! - an order that was acknowledged is handed out until it is answered or its deadline has passed, and answered once;
//! - no child has more than [`MAX_SERVICES`] services, [`MAX_ORDERS`] orders and its share of the changes that are kept
//!   ([`BURST`], [`REFILL_MS`]), and all together no more than [`MAX_BYTES`];
//! - counts of calls alone are kept at most every [`MEASURED_EVERY_MS`].
//!
//! Deliberately not here: what follows from a release (results and stages), and the forms on the wire.

mod apply;
mod change;
mod command;
mod compare;
mod decide;
mod order;
mod router;
mod sums;

use std::sync::Arc;

pub use self::{
    apply::apply,
    change::{Change, Drift, Entry, Measured, Share},
    command::{Command, OrderAsked, Report, RouterReport, ToldDrift, ToldOrder},
    decide::decide,
    order::{Answer, MAX_ORDERS, Order, OrderState},
    router::{ProvenService, Router, RouterConcern, Service, Variation},
    sums::{Sum, measured, sums},
};
use model::{ChildKey, ReleaseKey, pages::Pages};

/// Most services of a router.
pub const MAX_SERVICES: usize = 256;

/// Most routers.
pub const MAX_ROUTERS: usize = 20_000;

/// What all routers together may take in memory, in bytes.
pub const MAX_BYTES: usize = 256 * 1024 * 1024;

/// Counts of calls alone are kept this often, in milliseconds of serving time.
pub const MEASURED_EVERY_MS: u64 = 5_000;

/// So many changes of a router are kept at once, and then one in so many milliseconds of serving time.
pub const BURST: u32 = 1_024;
pub const REFILL_MS: u64 = 500;

/// Routers on a page of [`Traffic`].
const ON_A_PAGE: usize = 15;

/// All routers, by their children. A copy shares everything with the original.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    routers: Pages<Option<Arc<Router>>, ON_A_PAGE>,
    count: usize,
    bytes: usize,
    /// Orders of lower numbers were given.
    next_order: u64,
}

impl Traffic {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What all of them take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    #[must_use]
    pub fn get(&self, child: ChildKey) -> Option<&Arc<Router>> {
        self.routers.get(child.0 as usize)?.as_ref()
    }

    /// In the order of their children, only those above `after`.
    pub fn after(&self, after: Option<ChildKey>) -> impl Iterator<Item = (ChildKey, &Arc<Router>)> {
        let from = after.map_or(0, |key| key.0 as usize + 1);
        let known = self.routers.from(from).inspect(|_| model::steps::take(1));
        known.filter_map(|(at, router)| Some((ChildKey(at as u32), router.as_ref()?)))
    }

    pub fn iter(&self) -> impl Iterator<Item = (ChildKey, &Arc<Router>)> {
        self.after(None)
    }

    /// Each service of this name with its router.
    pub fn of_service<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (ChildKey, &'a Arc<Router>, &'a Arc<Service>)> {
        self.iter().filter_map(move |(key, router)| Some((key, router, router.service(name)?)))
    }

    /// Each service that a router has from this release.
    pub fn of_release(&self, release: ReleaseKey) -> impl Iterator<Item = (ChildKey, &Service)> {
        self.iter().flat_map(move |(key, router)| {
            let of = router.services().filter(move |service| service.is_of(release));
            of.map(move |service| (key, service.as_ref()))
        })
    }

    /// Takes in what is known of a router.
    pub fn hold(&mut self, child: ChildKey, router: Arc<Router>) {
        for order in &router.orders {
            self.next_order = self.next_order.max(order.number + 1);
        }
        self.bytes += router.bytes();
        self.count += 1;
        self.forget(child);
        self.routers.put(child.0 as usize, Some(router));
    }

    /// Nothing is known of it any more.
    pub fn forget(&mut self, child: ChildKey) {
        if let Some(router) = self.routers.take(child.0 as usize).flatten() {
            self.bytes = self.bytes.saturating_sub(router.bytes());
            self.count = self.count.saturating_sub(1);
        }
    }
}
