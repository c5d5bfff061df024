use std::collections::BTreeMap;

use super::digest::digest;
use model::hex;
use traffic::{
    BUCKETS, Run, Table, Variation as Which,
    desired::{DesiredConfig, Number, Rule, Service},
};

/// Keys and values in the order of the keys.
pub type Map = Vec<(String, String)>;

/// By name, without the folder.
pub type Maps = BTreeMap<String, Map>;

/// The name of the map that says by which wanted state a process runs.
pub const STATE: &str = "state.map";

const NUMBER: &str = "number";
/// Before the name of a service, in a key.
const SERVICE: &str = "service/";
const ON: &str = "on";
const OFF: &str = "off";
/// Nobody may ask for another variation either.
pub(super) const CLOSED: &str = "closed";

pub(super) fn table_name(service: &str) -> String {
    format!("{service}.table")
}

pub(super) fn rule_name(service: &str) -> String {
    format!("{service}.rule")
}

pub(super) fn switch_key(service: &str) -> String {
    format!("{SERVICE}{service}")
}

fn rule_key(service: &str) -> String {
    format!("rule/{service}")
}

/// All maps of a wanted state.
#[must_use]
pub fn maps(wanted: &DesiredConfig) -> Maps {
    maps_with(wanted, wanted.services())
}

/// The map [`STATE`], and those of some services.
pub fn maps_with<'s>(wanted: &DesiredConfig, services: impl IntoIterator<Item = &'s Service>) -> Maps {
    let mut maps = Maps::from([(STATE.to_owned(), state(wanted))]);
    for service in services {
        let name = service.name.as_str();
        maps.insert(table_name(name), table_of(service));
        if let Some(rule) = &service.rule {
            maps.insert(rule_name(name), rule_of(rule, service));
        }
    }
    maps
}

/// The map [`STATE`] alone, which is small.
#[must_use]
pub fn state(wanted: &DesiredConfig) -> Map {
    let mut state = vec![(NUMBER.to_owned(), wanted.number.to_string())];
    for service in wanted.services() {
        let name = service.name.as_str();
        let is_stable = service.table.hundredths().first() == Some(&BUCKETS);
        let is_closed = |rule: &Rule| rule.values.iter().all(|(_, which)| which.is_stable());
        let switch = match &service.rule {
            _ if !is_stable => ON,
            Some(rule) if is_closed(rule) => CLOSED,
            Some(_) | None => OFF,
        };
        state.push((switch_key(name), switch.to_owned()));
        if let Some(rule) = &service.rule {
            state.push((rule_key(name), digest_of(&rule_of(rule, service))));
        }
    }
    in_order(state)
}

fn table_of(service: &Service) -> Map {
    let others = service.table.runs().into_iter().filter(|run| !run.variation.is_stable());
    let table = others.flat_map(|run| {
        let name = service.variations.get(run.variation.index()).map(|variation| variation.name.to_string());
        (run.from..run.to).zip(std::iter::repeat(name.unwrap_or_default()))
    });
    in_order(table.map(|(bucket, name)| (bucket.to_string(), name)).collect())
}

fn rule_of(rule: &Rule, service: &Service) -> Map {
    let entries = rule.values.iter().map(|(value, which)| {
        let name = service.variations.get(which.index()).map(|variation| variation.name.to_string());
        // As the converter `hex` of `HAProxy` writes it.
        (hex::encode(value.as_str().as_bytes()).to_ascii_uppercase(), name.unwrap_or_default())
    });
    in_order(entries.collect())
}

pub(super) fn in_order(mut map: Map) -> Map {
    map.sort_unstable();
    map
}

/// A file that `HAProxy` reads the map from.
#[must_use]
pub fn file_of(map: &Map) -> String {
    map.iter().flat_map(|(key, value)| [key, " ", value, "\n"]).collect()
}

fn digest_of(map: &Map) -> String {
    digest(file_of(map).as_bytes())
}

/// One thing to change in the memory of a process, in one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write<'w> {
    Set { map: &'w str, key: &'w str, value: &'w str },
    Replace { map: &'w str, by: &'w Map },
}

/// The services that nobody is to get anything but the stable variation of, and of which somebody does: what can be told at once,
/// by the map [`STATE`] alone.
#[must_use]
pub fn to_switch_off<'w>(there: &Maps, state: &'w Map) -> Vec<Write<'w>> {
    changed(there, state).filter(|entry| is_off(entry)).map(set).collect()
}

/// What else makes a process that has the maps `there` do what `wanted` says, in order. The number is the last to change.
#[must_use]
pub fn writes<'w>(there: &Maps, wanted: &'w Maps) -> Vec<Write<'w>> {
    let is_there = |name: &str| there.get(name).is_some_and(|map| Some(map) == wanted.get(name));
    let others = wanted.iter().filter(|(name, _)| name.as_str() != STATE && !is_there(name));
    let mut writes: Vec<Write<'w>> = others.map(|(map, by)| Write::Replace { map, by }).collect();
    let keys =
        |maps: &Maps| maps.get(STATE).map(|map| map.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());
    if keys(there) == keys(wanted) {
        let state = wanted.get(STATE).map(Vec::as_slice).unwrap_or_default();
        let rest = changed(there, state).filter(|entry| !is_off(entry));
        let (number, rest): (Vec<_>, Vec<_>) = rest.partition(|(key, _)| key == NUMBER);
        writes.extend(rest.into_iter().chain(number).map(set));
    } else if let Some((map, by)) = wanted.get_key_value(STATE) {
        writes.push(Write::Replace { map, by });
    }
    writes
}

/// Entries of the map [`STATE`] that have other values there.
fn changed<'w>(there: &Maps, state: &'w [(String, String)]) -> impl Iterator<Item = &'w (String, String)> {
    let entries = |map: &Map| map.iter().cloned().collect::<BTreeMap<_, _>>();
    let there = there.get(STATE).map(entries).unwrap_or_default();
    let differs = move |(key, value): &&(String, String)| there.get(key).is_some_and(|there| there != value);
    state.iter().filter(differs)
}

fn set((key, value): &(String, String)) -> Write<'_> {
    Write::Set { map: STATE, key, value }
}

fn is_off((key, value): &(String, String)) -> bool {
    key.starts_with(SERVICE) && (value == OFF || value == CLOSED)
}

/// What the maps of a process say of a service with these variations.
pub(super) struct Reading {
    pub(super) table: Table,
    /// Entries that mean nothing: no bucket, no variation, or there twice.
    pub(super) strange: Vec<String>,
}

/// None where the process knows no such service.
pub(super) fn reading(maps: &Maps, service: &str, variations: &[&str]) -> Option<Reading> {
    let switch = maps.get(STATE)?.iter().find(|(key, _)| *key == switch_key(service))?;
    let name = table_name(service);
    let mut of = vec![0_u8; usize::from(BUCKETS)];
    let mut named = vec![false; of.len()];
    let mut strange = Vec::new();
    for (key, value) in maps.get(&name)? {
        let bucket = key.parse::<usize>().ok().filter(|bucket| bucket.to_string() == *key);
        let which = variations.iter().position(|variation| variation == value);
        match (bucket.filter(|bucket| named.get(*bucket) == Some(&false)), which) {
            (Some(bucket), Some(which)) => {
                (named[bucket], of[bucket]) = (true, which as u8);
            }
            (None, _) | (_, None) => strange.push(format!("{key} {value} in {name}")),
        }
    }
    if switch.1 != ON {
        of.fill(0);
    }
    let of = (0..).zip(&of).map(|(from, &which)| Run { from, to: from + 1, variation: Which(which) });
    let table = Table::from_runs(variations.len(), &of.collect::<Vec<_>>()).ok()?;
    Some(Reading { table, strange })
}

/// By which wanted state the maps say that the process runs. None where a rule isn't the one that belongs to it: it was changed by
/// somebody else, or is being changed.
pub(super) fn number(maps: &Maps) -> Option<Number> {
    let state = maps.get(STATE)?;
    let value = |key: &str| state.iter().find(|(there, _)| there == key).map(|(_, value)| value.as_str());
    let mut rules = maps.iter().filter_map(|(name, map)| Some((name.strip_suffix(".rule")?, map)));
    let is_whole = rules.all(|(service, map)| value(&rule_key(service)) == Some(&digest_of(map)));
    value(NUMBER)?.parse().ok().filter(|_| is_whole)
}

/// The services that a map [`STATE`] names.
pub(super) fn services_of(state: &str) -> impl Iterator<Item = &str> {
    state.lines().filter_map(|line| line.strip_prefix(SERVICE)?.split_once(' ')).map(|(service, _)| service)
}
