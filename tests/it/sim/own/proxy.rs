//! The proxy beside an own agent. Its table and its counts are the product's; connections are left out. It may crash and come back with
//! its last table, and hand over to a new process, which finds no counts of the old one; for a while nobody may reach its control,
//! while it serves on. With a flaw it says of its table what isn't so.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ::agent::state_machine::ReadBack;
use call_metrics::Tally;
use call_metrics::{CallMetrics, Cursor, Key, Moment, Reading, Retention, Timeline, Times};
use proxy::{
    control::form::TableNumber,
    form::TableForm,
    live::{LiveService, LiveTable, Version},
};
use tokio::time::Instant;
use traffic::{BUCKETS, Bucket, Failure, Variation};

use super::{super::dice::Dice, runtime::Runtime};

const INTERVAL_SECONDS: u32 = 10;
const CALL_MS: (u64, u64) = (2, 60);
/// Answers that stream.
const LONG_CALL_MS: (u64, u64) = (500, 9_000);
const LONG_CALL_CHANCE: f64 = 0.02;

/// A call between the choice of its version and its end.
#[derive(Debug)]
struct Flight {
    ends_at: u64,
    key: Arc<Key>,
    version: Arc<Version>,
    stable: Option<Arc<Version>>,
    /// The version could not be reached when it began.
    is_refused: bool,
    /// A version that it may go to was ended at its deadline.
    is_given_up: bool,
    took_us: u32,
}

/// What really happened under the shares of one split.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Truth {
    /// Calls that were given to it.
    pub begun: u64,
    /// Those that have ended.
    pub ended: u64,
    /// Of these, the ones it failed.
    pub failed: u64,
}

impl Truth {
    pub fn add(&mut self, other: Self) {
        self.begun += other.begun;
        self.ended += other.ended;
        self.failed += other.failed;
    }
}

/// What became of a call, for its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub service: String,
    pub version: String,
    pub why: &'static str,
    /// The version had died by itself, or was ended at its deadline.
    pub is_excused: bool,
}

/// Where a call has gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub service: String,
    /// Which of these.
    pub at: usize,
    pub versions: Vec<String>,
    /// Units of 0.01 %.
    pub shares: Vec<u16>,
}

#[derive(Debug)]
pub struct Proxy {
    pub is_up: bool,
    /// Until then nobody reaches its control.
    pub deaf_until: u64,
    /// What it says of its table, where that isn't so.
    said: Option<TableNumber>,
    origin: Instant,
    table: Arc<LiveTable>,
    /// As it is on disk.
    kept: Option<TableForm>,
    life: u64,
    call_metrics: CallMetrics,
    flights: Vec<Flight>,
    /// By split and variation.
    pub truth: BTreeMap<(String, String), Truth>,
    /// Splits of which counts are gone with a process.
    pub torn: Vec<String>,
    pub lost: Vec<Lost>,
}

impl Proxy {
    pub fn new() -> Self {
        let origin = Instant::now();
        Self {
            is_up: true,
            deaf_until: 0,
            said: None,
            origin,
            table: Arc::new(LiveTable::empty()),
            kept: None,
            life: 1,
            call_metrics: CallMetrics::new(Timeline::new(origin, INTERVAL_SECONDS), Retention::default(), 1),
            flights: Vec::new(),
            truth: BTreeMap::new(),
            torn: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// The table that it says it has.
    pub fn number(&self) -> TableNumber {
        let is = TableNumber { epoch: self.table.epoch(), generation: self.table.generation() };
        self.said.unwrap_or(is)
    }

    /// What it says of itself.
    pub fn read_back(&self) -> ReadBack {
        let services = self.services().iter().map(|service| service.name().to_owned()).collect();
        ReadBack { number: self.number(), differs: false, services }
    }

    /// Whether its control answers.
    pub const fn is_reached(&self, at: u64) -> bool {
        self.is_up && self.deaf_until <= at
    }

    /// The table in force.
    pub fn form(&self) -> TableForm {
        self.table.form()
    }

    pub fn services(&self) -> &[Arc<LiveService>] {
        self.table.services()
    }

    /// Puts a table in force, as the control does: kept first.
    pub fn apply(&mut self, form: &TableForm) -> Result<(), String> {
        let next = self.table.next(form).map_err(|fault| fault.to_string())?;
        self.kept = Some(next.form());
        self.table = Arc::new(next);
        Ok(())
    }

    /// Says that a table is in force, and goes on by the one before.
    pub fn pretend(&mut self, form: &TableForm) {
        self.said = Some(TableNumber { epoch: form.epoch, generation: form.generation });
    }

    /// Puts another table in force under the number of this one: each variation has the share of another.
    pub fn distort(&mut self, form: &TableForm) -> Result<(), String> {
        let mut other = form.clone();
        for service in &mut other.services {
            if let Some(shares) = &mut service.shares {
                shares.reverse();
            }
            if let Some(runs) = service.runs.as_mut().filter(|runs| runs.len() > 1) {
                mirror(runs);
            }
        }
        self.apply(&other)
    }

    /// SIGKILL: what is in flight is lost, and so are counts.
    pub fn crash(&mut self) {
        self.is_up = false;
        self.flights.clear();
        self.tear();
    }

    /// Another process serves: with the table that was kept, and no counts. What is in flight goes on in the old one.
    pub fn begin_life(&mut self) {
        self.tear();
        self.is_up = true;
        self.life += 1;
        self.call_metrics =
            CallMetrics::new(Timeline::new(self.origin, INTERVAL_SECONDS), Retention::default(), self.life);
        let empty = LiveTable::empty();
        if let Some(form) = &self.kept {
            self.table = Arc::new(empty.next(form).expect("what was kept was checked"));
        }
    }

    fn tear(&mut self) {
        let splits = self.table.services().iter().map(|service| service.split().to_owned());
        self.torn.extend(splits);
        let flown = self.flights.iter().map(|flight| flight.key.split.clone());
        self.torn.extend(flown);
    }

    fn instant(&self, at: u64) -> Instant {
        self.origin + Duration::from_millis(at)
    }

    /// A call comes, for the service of this number.
    pub fn call(&mut self, service: usize, runtime: &Runtime, at: u64, dice: &mut Dice) -> Option<Chosen> {
        let service = self.table.services().get(service).cloned()?;
        let variation = if service.ports().is_empty() || dice.chance(0.5) {
            let bucket = Bucket::of_random(dice.between(0, u64::from(u32::MAX)) as u32);
            service.table().variation(bucket)
        } else {
            // Of a small share nobody would ever come.
            let shares = service.shares().iter().enumerate();
            let shared: Vec<usize> = shares.filter(|(_, share)| **share > 0).map(|(at, _)| at).collect();
            Variation(shared[dice.below(shared.len())] as u8)
        };
        let version = &service.versions()[variation.index()];
        let key = Key {
            service: service.name().to_owned(),
            split: service.split().to_owned(),
            shares: Arc::clone(service.shares()),
            variation: version.name().to_owned(),
            version: version.digest().to_owned(),
            by_header: false,
        };
        self.truth.entry((key.split.clone(), key.variation.clone())).or_default().begun += 1;
        let (least, most) = if dice.chance(LONG_CALL_CHANCE) { LONG_CALL_MS } else { CALL_MS };
        let lasts = dice.between(least, most);
        let is_refused = !runtime.answers(version.digest(), version.targets(), at);
        let ends_at = if is_refused { at } else { at + lasts };
        let stable = (!variation.is_stable()).then(|| Arc::clone(&service.versions()[0]));
        let chosen = Chosen {
            service: service.name().to_owned(),
            at: variation.index(),
            versions: service.versions().iter().map(|version| version.digest().to_owned()).collect(),
            shares: service.shares().to_vec(),
        };
        self.flights.push(Flight {
            ends_at,
            key: Arc::new(key),
            version: Arc::clone(version),
            stable,
            is_refused,
            is_given_up: false,
            took_us: (lasts * 1_000) as u32,
        });
        Some(chosen)
    }

    /// A version is ended at its deadline: what becomes of its calls is not held against anybody.
    pub fn give_up(&mut self, version: &str) {
        for flight in self.flights.iter_mut().filter(|flight| flight.may_go_to(version)) {
            flight.is_given_up = true;
        }
    }

    /// Ends the calls whose time has come.
    pub fn end_calls(&mut self, runtime: &Runtime, at: u64, dice: &mut Dice) {
        let ended: Vec<Flight> = self.flights.extract_if(.., |flight| flight.ends_at <= at).collect();
        for flight in ended {
            self.end(&flight, runtime, at, dice);
        }
        let open = Timeline::new(self.origin, INTERVAL_SECONDS).interval_at(self.instant(at));
        self.call_metrics.close(open);
    }

    fn end(&mut self, flight: &Flight, runtime: &Runtime, at: u64, dice: &mut Dice) {
        let version = &flight.version;
        let failure = if flight.is_refused {
            Some(Failure::Refused)
        } else if !runtime.answers(version.digest(), version.targets(), at) {
            Some(Failure::Died)
        } else {
            runtime.fails(version.digest(), at, dice).then_some(Failure::Status)
        };
        let mut tally = Tally { calls: 1, ..Tally::default() };
        match (failure, &flight.stable) {
            (None, _) => {
                tally.succeeded = 1;
                tally.times = Times::of(vec![flight.took_us]);
            }
            (Some(failure), Some(stable)) => {
                tally.failed[failure as usize] = 1;
                tally.repeated = 1;
                if !runtime.answers(stable.digest(), stable.targets(), at) {
                    tally.repeats_failed = 1;
                    let was_dead = runtime.is_dead(stable.digest(), at);
                    self.lose(flight, stable, was_dead, "it was to be repeated there");
                }
            }
            (Some(Failure::Status), None) => tally.errors = 1,
            (Some(failure), None) => {
                tally.failed[failure as usize] = 1;
                let why = if failure == Failure::Refused { "nothing answers there" } else { "it was cut" };
                self.lose(flight, version, runtime.is_dead(version.digest(), at), why);
            }
        }
        let truth = self.truth.entry((flight.key.split.clone(), flight.key.variation.clone())).or_default();
        truth.ended += 1;
        truth.failed += u64::from(failure.is_some());
        let timeline = Timeline::new(self.origin, INTERVAL_SECONDS);
        let now = self.instant(at);
        let moment = Moment { now, wall_ms: at as i64 };
        self.call_metrics.absorb(timeline.interval_at(now), &flight.key, &tally, moment);
    }

    fn lose(&mut self, flight: &Flight, version: &Version, was_dead: bool, why: &'static str) {
        let (service, version) = (flight.key.service.clone(), version.digest().to_owned());
        self.lost.push(Lost { service, version, why, is_excused: was_dead || flight.is_given_up });
    }

    /// What was counted after a cursor.
    pub fn counts(&mut self, cursor: Cursor) -> Reading {
        self.call_metrics.since(cursor)
    }

    /// Whether the table in force names a version.
    pub fn names(&self, version: &str) -> bool {
        self.table
            .services()
            .iter()
            .flat_map(|service| service.versions())
            .any(|named| named.digest() == version)
    }

    /// Calls that a version carries out, or that may be repeated on it.
    pub fn in_flight(&self, version: &str) -> usize {
        self.flights.iter().filter(|flight| flight.may_go_to(version)).count()
    }
}

/// Gives the first buckets to whom the last belong.
pub fn mirror(runs: &mut [(u16, u16, u8)]) {
    runs.reverse();
    for (from, to, _) in runs {
        (*from, *to) = (BUCKETS - *to, BUCKETS - *from);
    }
}

impl Flight {
    fn may_go_to(&self, version: &str) -> bool {
        let is_stable = self.stable.as_ref().is_some_and(|stable| stable.digest() == version);
        is_stable || self.version.digest() == version
    }
}
