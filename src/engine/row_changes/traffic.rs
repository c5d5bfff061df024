//! What changes of routers touch.

use std::collections::BTreeMap;

use super::Touched;
use crate::json_columns::traffic::{entry_text, order_row, router_row, service_row};
use domain::{
    release::state::State,
    traffic::{Change, Entry},
};
use model::{ChildKey, Now, ReleaseKey};
use store::{
    StoreError,
    rows::{TrafficHistoryRow, Writes},
};

/// What was touched of routers.
#[derive(Debug, Default)]
pub(super) struct OfTraffic {
    /// Whose row is to be written, with the places of services and of orders.
    routers: BTreeMap<ChildKey, Places>,
    /// Entries of the history, in order.
    entries: Vec<(ChildKey, Option<ReleaseKey>, Entry)>,
}

#[derive(Debug, Default)]
struct Places {
    services: std::collections::BTreeSet<usize>,
    orders: std::collections::BTreeSet<usize>,
}

impl Touched {
    pub(super) fn note_traffic(&mut self, change: &Change) {
        let of = &mut self.traffic;
        match change {
            Change::Told { child, services, orders, .. } => {
                let places = of.routers.entry(*child).or_default();
                places.services.extend(services);
                places.orders.extend(orders);
            }
            Change::Ordered { child, place, .. } => {
                of.routers.entry(*child).or_default().orders.insert(*place);
            }
            Change::Shifted { child, release, entry } | Change::Drifted { child, release, entry, .. } => {
                of.entries.push((*child, *release, Entry::clone(entry)));
            }
            Change::Health { .. } | Change::Stood { .. } | Change::Answered { .. } => {}
        }
    }
}

impl OfTraffic {
    /// The rows of all that was touched.
    pub fn write(self, state: &State, seq: u64, now: Now, writes: &mut Writes) -> Result<(), StoreError> {
        for (child, places) in self.routers {
            // One that was forgotten in the same commit.
            let Some(router) = state.traffic.get(child) else { continue };
            writes.routers.push(router_row(child, router, now.wall_ms)?);
            for place in places.services {
                let service = router.services.get(place).and_then(Option::as_deref);
                writes.led_services.push(service_row(child, place, service, now.wall_ms)?);
            }
            for place in places.orders {
                if let Some(order) = router.orders.get(place) {
                    writes.router_orders.push(order_row(child, place, order)?);
                }
            }
        }
        for (idx, (child, release, entry)) in (0..).zip(self.entries) {
            writes.traffic_history.push(TrafficHistoryRow {
                seq,
                idx,
                at_ms: entry.at_ms,
                child_key: child.0,
                router: entry.router.clone(),
                service: entry.service.clone(),
                release_key: release.map(|key| key.0),
                detail: entry_text(&entry)?,
            });
        }
        Ok(())
    }
}
