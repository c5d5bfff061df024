//! Whose turn it is where releases of tenants wait.
//!
//! A child has one tenant, so releases of two tenants never meet on one, and none waits for the other, whatever their functions are called.
//! A release that is no tenant's may meet every other. Were it that alone, one tenant could hold up another through it: a tenant's release
//! that is paused for ever holds one of the manager's operators, and that one all others. So one that waits holds up a tenant's release only
//! if it doesn't wait itself for another tenant, however many lie in between ([`is_held`]). It waits for nobody who was submitted
//! later, unless they pass it in this way, which is noted as with other releases that overtake.

use std::collections::{BTreeSet, VecDeque};

use super::{QueueEntry, Schedule};
use model::{ReleaseKey, steps, tenant::meet};

/// Whether a release that waits is held up by another.
pub(super) fn is_held(schedule: &Schedule, key: ReleaseKey, entry: &QueueEntry) -> bool {
    let own = entry.tenant.as_deref();
    blockers(schedule, key, entry).into_iter().any(|other| {
        let Some(found) = schedule.entries.get(&other) else { return false };
        let may_wait = own.is_some() && found.tenant.is_none() && found.standing.is_planned();
        !(may_wait && waits_for_another_tenant(schedule, other, found, own))
    })
}

/// Those that go before a release in one of its lanes, and meet it.
fn blockers(schedule: &Schedule, key: ReleaseKey, entry: &QueueEntry) -> BTreeSet<ReleaseKey> {
    let own = entry.tenant.as_deref();
    let lanes = entry.lanes.iter().filter_map(|number| schedule.lanes.get(number));
    let before = lanes.flat_map(|lane| lane.under_way.iter().chain(lane.firm.range(..key)));
    let meets = |other: &&ReleaseKey| {
        steps::take(1);
        let found = schedule.entries.get(other);
        **other != key && found.is_some_and(|found| meet(found.tenant.as_deref(), own))
    };
    before.filter(meets).copied().collect()
}

/// Whether a release of no tenant waits, itself or through others of no tenant, for one of a tenant other than `own`.
fn waits_for_another_tenant(
    schedule: &Schedule,
    key: ReleaseKey,
    entry: &QueueEntry,
    own: Option<&str>,
) -> bool {
    let (mut seen, mut to_look) = (BTreeSet::from([key]), vec![(key, entry)]);
    while let Some((key, entry)) = to_look.pop() {
        for other in blockers(schedule, key, entry) {
            let Some(found) = schedule.entries.get(&other) else { continue };
            match found.tenant.as_deref() {
                Some(tenant) if Some(tenant) != own => return true,
                // What is under way waits for nobody.
                None if found.standing.is_planned() && seen.insert(other) => to_look.push((other, found)),
                Some(_) | None => {}
            }
        }
    }
    false
}

/// All that wait and are tied to a release by the lanes of some in between: their turn may have come, or gone.
pub(super) fn related(schedule: &Schedule, key: ReleaseKey) -> Vec<ReleaseKey> {
    let mut waiting = BTreeSet::new();
    let (mut seen, mut to_look) = (BTreeSet::new(), VecDeque::from([key]));
    while let Some(key) = to_look.pop_front() {
        let lanes = schedule.entries.get(&key).map(|entry| entry.lanes.as_slice()).unwrap_or_default();
        for number in lanes.iter().filter(|number| seen.insert(**number)) {
            let Some(lane) = schedule.lanes.get(number) else { continue };
            for other in &lane.planned {
                steps::take(1);
                if waiting.insert(*other) {
                    to_look.push_back(*other);
                }
            }
        }
    }
    waiting.into_iter().collect()
}
