//! Children as the API shows them.

use std::collections::BTreeMap;

use crate::{
    http::v1::time::{of_served, rfc3339},
    model::{ChildKey, Cordon},
    plan::{Bounds, Entry},
    release::{command::Seen, state::Child as Record, waits::Look},
    wire::api::Child,
};

/// A child, without its area.
pub fn child<S: Seen + ?Sized>(look: &Look<'_, S>, key: ChildKey, record: &Record) -> Child {
    let capabilities = record.profile.as_ref().map(|profile| &profile.capabilities);
    let releases = record.open.iter().filter_map(|release| look.state.release(*release));
    Child {
        id: record.id.to_string(),
        name: record.profile.as_ref().and_then(|profile| profile.name.clone()),
        place: look.state.areas.get(key).and_then(Entry::bounds).map(place),
        kind: record.kind().name().to_owned(),
        agents: record.agents,
        cordon: cordon_name(record.cordon).to_owned(),
        runtimes: capabilities.and_then(|capabilities| capabilities.runtimes.clone()),
        labels: labels(record),
        born: rfc3339(record.born.wall_ms),
        last_call: look.last_call(key).map(|at| of_served(at, look.now)),
        releases: releases.map(|release| release.id.to_string()).collect(),
        doing: look.doing(key),
        outside: false,
        area: None,
    }
}

/// The middle of an area in words, to some metres: `52.5200N 13.4050E`.
fn place(Bounds { min, max }: Bounds) -> String {
    let (north, east) = (f64::midpoint(min.y, max.y), f64::midpoint(min.x, max.x));
    // Areas may lie a turn further east or west than where they are shown on maps.
    let east = (east + 180.0).rem_euclid(360.0) - 180.0;
    let (ns, ew) = (if north < 0.0 { 'S' } else { 'N' }, if east < 0.0 { 'W' } else { 'E' });
    format!("{:.4}{ns} {:.4}{ew}", north.abs(), east.abs())
}

/// Its labels: those of operators over those that it reports.
fn labels(record: &Record) -> BTreeMap<String, String> {
    let reported = record.profile.as_ref().map(|profile| profile.capabilities.labels.clone());
    let mut labels = reported.unwrap_or_default();
    labels.extend(record.labels.iter().flat_map(|own| own.iter()).map(|(k, v)| (k.clone(), v.clone())));
    labels
}

/// The value of one of its labels.
pub fn label<'a>(record: &'a Record, key: &str) -> Option<&'a str> {
    let own = record.labels.as_ref().and_then(|labels| labels.get(key));
    let reported = || record.profile.as_ref()?.capabilities.labels.get(key);
    own.or_else(reported).map(String::as_str)
}

pub fn cordon_name(cordon: Cordon) -> &'static str {
    match cordon {
        Cordon::Open => "open",
        Cordon::Cordoned => "cordoned",
        Cordon::Drained => "drained",
    }
}
