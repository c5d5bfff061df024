//! What is news of a service.

use super::{
    Service,
    change::{Entry, Measured, Share},
};

/// Whether two say the same, but for counts of calls and connections, and when it was read back.
pub(super) fn is_same(one: &Service, other: &Service) -> bool {
    let of = |service: &Service| {
        let variations = service.variations.iter();
        let variations = variations
            .map(|one| (one.name.clone(), one.wanted, one.seen, one.targets, one.draining.is_some()))
            .collect::<Vec<_>>();
        (service.epoch, service.generation, service.offer.clone(), service.is_standing, variations)
    };
    of(one) == of(other) && one.led == other.led
}

/// Whether what is counted differs.
pub(super) fn is_counted_otherwise(one: &Service, other: &Service) -> bool {
    one.measured_ms != other.measured_ms || one.seen_ms != other.seen_ms || one.variations != other.variations
}

/// Whether who gets what differs, as wanted or as read back.
pub(super) fn is_shared_otherwise(before: &Service, now: &Service) -> bool {
    let of = |service: &Service| {
        let variations = service.variations.iter();
        let shares = variations.map(|one| (one.name.clone(), one.wanted, one.seen)).collect::<Vec<_>>();
        (service.epoch, service.generation, service.offer.clone(), service.is_standing, shares)
    };
    of(before) != of(now)
}

/// The entry of the history by which one becomes the other; none: it was not there, or is no longer.
pub(super) fn entry(router: &str, before: Option<&Service>, now: Option<&Service>, at_ms: i64) -> Entry {
    let shares = |service: Option<&Service>| service.map(wanted).unwrap_or_default();
    let newest = now.or(before);
    Entry {
        at_ms,
        router: router.to_owned(),
        service: newest.map(|one| one.name.clone()).unwrap_or_default(),
        epoch: newest.map_or(0, |one| one.epoch),
        generation: newest.map_or(0, |one| one.generation),
        offer: newest.and_then(|one| one.offer.clone()),
        from: shares(before),
        to: shares(now),
        seen: now.map(seen).unwrap_or_default(),
        measured: before.and_then(counted),
        drift: None,
    }
}

fn wanted(service: &Service) -> Vec<Share> {
    let share = |name: &String, hundredths| Share { variation: name.clone(), hundredths };
    service.variations.iter().map(|one| share(&one.name, one.wanted)).collect()
}

fn seen(service: &Service) -> Vec<Share> {
    let read_back =
        |one: &super::Variation| Some(Share { variation: one.name.clone(), hundredths: one.seen? });
    service.variations.iter().filter_map(read_back).collect()
}

/// What was counted of a service.
fn counted(service: &Service) -> Option<Measured> {
    let for_ms = service.measured_ms?;
    let count = |one: &super::Variation| Some((one.name.clone(), one.calls?, one.errors.unwrap_or_default()));
    Some(Measured { for_ms, counts: service.variations.iter().filter_map(count).collect() })
}
