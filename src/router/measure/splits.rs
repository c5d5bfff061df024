//! In which split a call was given out: that which was in force when its variation was chosen.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::CounterKey;
use crate::log_line::Line;
use call_metrics::{Key, Moment};
use traffic::{
    Table,
    desired::{DesiredConfig, Number, Service},
};

/// A router's clock may be so much behind ours: some read it once for all that came together.
const BEHIND_MS: i64 = 50;

/// Splits of a service that are remembered for calls that take long.
const MOST_WINDOWS: usize = 64;

/// Wanted states whose names of splits are kept.
const MOST_ANNOUNCED: usize = 16;

#[derive(Debug, Default)]
pub struct Splits {
    services: BTreeMap<String, Windows>,
    /// What splits are called from a wanted state on.
    announced: BTreeMap<Number, BTreeMap<String, String>>,
    /// How many windows there were.
    opened: u64,
}

#[derive(Debug, Default)]
struct Windows {
    /// The last is the newest.
    all: VecDeque<Window>,
    /// The stable variation, as it was wanted last.
    stable: String,
    /// For calls that were given out while none was in force.
    between: BTreeMap<String, Keys>,
}

#[derive(Debug)]
struct Window {
    /// No other one has it.
    number: u64,
    from_ms: i64,
    /// None: it goes on.
    to_ms: Option<i64>,
    split: String,
    table: Table,
    keys: BTreeMap<String, Keys>,
}

/// Of a variation: calls of the split, and those that a header asked for.
#[derive(Debug, Clone)]
struct Keys {
    split: Arc<Key>,
    by_header: Arc<Key>,
}

/// Where a line belongs.
#[derive(Debug)]
pub enum LineTarget<'k> {
    Key(&'k Arc<Key>),
    /// It was given to no variation.
    Unserved,
    /// No such service or variation is wanted.
    Unknown,
}

impl Splits {
    pub fn announce(&mut self, number: Number, splits: BTreeMap<String, String>) {
        self.announced.insert(number, splits);
        while self.announced.len() > MOST_ANNOUNCED {
            self.announced.pop_first();
        }
    }

    /// The name of a service's split in a wanted state.
    fn name(&self, number: Number, service: &str) -> Option<&str> {
        self.announced.get(&number)?.get(service).map(String::as_str)
    }

    /// Closes what isn't to go on.
    pub fn changing(&mut self, wanted: &DesiredConfig, moment: Moment) {
        let mut ending = Vec::new();
        for (name, windows) in &self.services {
            let Some(window) = windows.all.back().filter(|window| window.to_ms.is_none()) else {
                continue;
            };
            let service = wanted.service(name);
            let split = self.name(wanted.number, name);
            if !service.is_some_and(|service| window.is_of(service, split)) {
                ending.push(name.clone());
            }
        }
        for name in ending {
            let window = self.services.get_mut(&name).and_then(|windows| windows.all.back_mut());
            if let Some(window) = window {
                window.to_ms = Some(moment.wall_ms - BEHIND_MS);
            }
        }
    }

    /// What is wanted is in force.
    pub fn told(&mut self, wanted: &DesiredConfig, moment: Moment) {
        self.services.retain(|name, windows| {
            wanted.service(name).is_some() || windows.all.iter().any(|window| window.is_young(moment))
        });
        for service in wanted.services() {
            let name = service.name.as_str();
            let named = self.name(wanted.number, name);
            let goes_on = self.services.get(name).and_then(|windows| windows.all.back());
            if goes_on.is_some_and(|window| window.to_ms.is_none() && window.is_of(service, named)) {
                continue;
            }
            let split = named.map_or_else(|| wanted.number.to_string(), str::to_owned);
            let windows = self.services.entry(name.to_owned()).or_default();
            windows.between = keys(service, "");
            windows.stable = service.variations.first().map(|one| one.name.to_string()).unwrap_or_default();
            let keys = keys(service, &split);
            let table = service.table.clone();
            self.opened += 1;
            let (number, from_ms) = (self.opened, moment.wall_ms);
            windows.all.push_back(Window { number, from_ms, to_ms: None, split, table, keys });
            while windows.all.len() > MOST_WINDOWS {
                windows.all.pop_front();
            }
        }
    }

    /// Whether a variation is its service's stable one.
    pub fn is_stable(&self, key: &Key) -> bool {
        self.services.get(&key.service).is_some_and(|windows| windows.stable == key.variation)
    }

    /// The number of the window of each service in which calls are given out now.
    pub fn in_force(&self) -> BTreeMap<String, u64> {
        let in_force = self.services.iter().filter_map(|(service, windows)| {
            let window = windows.all.back().filter(|window| window.to_ms.is_none())?;
            Some((service.clone(), window.number))
        });
        in_force.collect()
    }

    /// Where calls are counted of which is known that they ended since this window was in force, if any was: in its split, if it still is.
    pub fn key_since(&self, window: Option<u64>, of: &CounterKey) -> Option<&Arc<Key>> {
        let windows = self.services.get(&of.service)?;
        let in_force = windows.all.back().filter(|last| last.to_ms.is_none() && Some(last.number) == window);
        let keys = in_force.map_or(&windows.between, |window| &window.keys).get(&of.variation)?;
        Some(keys.of(of.by_header))
    }

    /// Where a line is counted.
    pub fn key_of(&self, line: &Line<'_>) -> LineTarget<'_> {
        let Some(windows) = self.services.get(line.service) else { return LineTarget::Unknown };
        let Some(variation) = line.variation else { return LineTarget::Unserved };
        let chosen = line.chosen_ms.and_then(|ms| i64::try_from(ms).ok());
        let window = chosen.and_then(|at| windows.all.iter().rev().find(|window| window.holds(at)));
        let keys = window.map_or(&windows.between, |window| &window.keys).get(variation);
        // A variation that isn't wanted any more was given out before.
        let keys = keys.or_else(|| windows.all.iter().rev().find_map(|window| window.keys.get(variation)));
        match keys {
            Some(keys) => LineTarget::Key(keys.of(line.by_header)),
            None => LineTarget::Unknown,
        }
    }
}

impl Keys {
    fn of(&self, by_header: bool) -> &Arc<Key> {
        if by_header { &self.by_header } else { &self.split }
    }
}

impl Window {
    fn holds(&self, at: i64) -> bool {
        at >= self.from_ms && self.to_ms.is_none_or(|to| at < to)
    }

    /// Whether it is that of this service, under this name where it was given one.
    fn is_of(&self, service: &Service, split: Option<&str>) -> bool {
        let names = service.variations.iter().map(|variation| variation.name.as_str());
        self.table == service.table
            && split.is_none_or(|split| split == self.split)
            && self.keys.len() == service.variations.len()
            && names.into_iter().all(|name| self.keys.contains_key(name))
    }

    /// Calls of it may still end.
    fn is_young(&self, moment: Moment) -> bool {
        const LONGEST_CALL_MS: i64 = 3_600_000;
        self.to_ms.is_none_or(|to| moment.wall_ms - to < LONGEST_CALL_MS)
    }
}

fn keys(service: &Service, split: &str) -> BTreeMap<String, Keys> {
    let shares: Arc<[u16]> = service.table.hundredths().into();
    let of = |name: &str| {
        let key = |by_header| {
            Arc::new(Key {
                service: service.name.to_string(),
                split: split.to_owned(),
                shares: Arc::clone(&shares),
                variation: name.to_owned(),
                version: name.to_owned(),
                by_header,
            })
        };
        Keys { split: key(false), by_header: key(true) }
    };
    service.variations.iter().map(|one| (one.name.to_string(), of(one.name.as_str()))).collect()
}
