//! By what routers draw users, and where that differs.

use std::collections::BTreeMap;

use super::Advice;
use language::{Diagnostic, HashFunction, RouterKind, Service, Severity, Strategy, TextPlaces};

/// In words: services whose users stay with a variation, at routers that don't all draw them by the same function.
pub fn drawn_apart(strategy: &Strategy, places: &TextPlaces, advice: &Advice) -> Vec<Diagnostic> {
    let sticky =
        strategy.services.iter().zip(&places.services).filter(|(service, _)| service.sticky.is_some());
    let found = sticky.filter_map(|(service, place)| {
        let (message, fix) = of_service(service, &advice.routers)?;
        Some(place.fault(Severity::Warning, "drawn-apart", message, fix))
    });
    found.collect()
}

fn of_service(service: &Service, routers: &BTreeMap<String, u32>) -> Option<(String, String)> {
    let mut by: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in routers.keys() {
        if let Some(function) = HashFunction::chosen(known(kind), service.hash) {
            by.entry(function.name()).or_default().push(kind);
        } else if RouterKind::named(kind).is_some() {
            by.entry("chance and a cookie").or_default().push(kind);
        }
    }
    if by.len() < 2 {
        return None;
    }
    let each = by.iter().map(|(function, kinds)| format!("by {function} at {}", kinds.join(", ")));
    let message = format!(
        "users of {} are drawn apart: {}; one who calls at several of them may get another variation at each",
        service.name(),
        each.collect::<Vec<_>>().join(", ")
    );
    let is_known = |function: &HashFunction| routers.keys().all(|kind| known(kind).contains(function));
    let fix = match HashFunction::ALL.iter().find(|function| is_known(function)) {
        Some(common) => format!("say hash: {}, which all of them know", common.name()),
        None => "no function is known to all of them: release them apart if users call at several".to_owned(),
    };
    Some((message, fix))
}

/// The functions of a kind of router; none of a kind that nobody here knows.
fn known(kind: &str) -> &'static [HashFunction] {
    RouterKind::named(kind).map_or(&[], |kind| kind.abilities().hashes)
}
