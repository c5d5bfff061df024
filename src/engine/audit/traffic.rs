//! What changes of routers are called in the trail.

use super::event::{Event, SharesTold};
use domain::traffic::Change;

/// `None` for what is bookkeeping.
pub(super) fn event<'a>(change: &'a Change, child_id: &'a str) -> Option<Event<'a>> {
    let router = child_id;
    Some(match change {
        Change::Told { .. } => return None,
        Change::Ordered { router: record, place, .. } => {
            let order = record.orders.get(*place)?;
            Event::RouterOrdered {
                router,
                number: order.number,
                what: order.what.name(),
                service: order.service.as_deref(),
            }
        }
        Change::Shifted { entry, .. } => Event::TrafficShifted {
            router,
            service: &entry.service,
            generation: entry.generation,
            offer: entry.offer.as_deref(),
            from: SharesTold(&entry.from),
            to: SharesTold(&entry.to),
            seen: SharesTold(&entry.seen),
        },
        Change::Drifted { drift, .. } => Event::RouterDrift {
            router,
            service: drift.service.as_deref(),
            wanted: &drift.wanted,
            seen: &drift.seen,
            then: drift.then.name(),
        },
        Change::Health { service, variation, targets, .. } => match targets.healthy {
            None | Some(0) => {
                Event::VariationUnhealthy { router, service, variation, targets: targets.total }
            }
            Some(healthy) => {
                Event::VariationHealthy { router, service, variation, healthy, targets: targets.total }
            }
        },
        Change::Stood { phase, is_reached, trouble, .. } => Event::RouterStood {
            router,
            phase: phase.name(),
            reached: *is_reached,
            trouble: trouble.as_deref(),
        },
        Change::Answered { number, what, is_ok, .. } => {
            Event::RouterAnswered { router, number: *number, what: what.name(), ok: *is_ok }
        }
    })
}
