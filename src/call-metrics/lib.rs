//! What was counted, an interval at a time, until somebody has read it.
//!
//! Whoever counts calls keeps one, whether it carried them out itself or read of them in a router's log: so all that is made of counts is
//! made of one form. Invariants, which `tests/proxy/` asserts:
//!
//! 1. Every call that ended is in exactly one interval, whatever tables came and went meanwhile.
//! 2. An interval that is closed never changes.
//! 3. Nothing is dropped before it was read: where there is no room, the oldest intervals become one, which says so. Should
//!    even that be too much, it is said how many calls are gone.
//!
//! A reader keeps a [`Cursor`]. Asking with it says that everything before it was read.
//!
//! **What a reader may rely on** when it adds up the closed intervals of all its readings: each call is in exactly one of them, also
//! over upgrades, after which the cursor goes on; a process that finishes what it has counts into the intervals of the one that took
//! over. What is in none of them is said: `gone` are calls that had no place; another `life` in `next` says that a process was
//! killed, and with it went what it had counted after the last reading and calls in flight; `cut_short` counts processes that were
//! killed, or had to end, while they finished: of each, what it counted in its last second and what was in flight is in no reading.

mod handover;
mod tally;
mod timeline;
mod times;
mod unserved;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

pub use self::{
    handover::{HandedOver, HandoverSnapshot, Source, Tail},
    tally::{BOUNDS_US, Copies, Groups, Key, Seconds, Tally},
    timeline::{Moment, Timeline},
    times::{EXACT_TIMES, Recorder, Times, TimesFault},
    unserved::UnservedCalls,
};

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Older intervals become one.
    pub age: Duration,
    /// Bytes of closed intervals, about. Above, the oldest become one.
    pub bytes: usize,
    /// Rows of the intervals that became one. What has no place among them is gone, and that is said.
    pub merged_rows: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_hours(1), bytes: 64 * 1024 * 1024, merged_rows: 25_000 }
    }
}

/// With totals of more variations than this, those of variations that had no call of late are let go.
const MOST_TOTALS: usize = 50_000;

/// One interval, or several that became one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The first interval of it, counted from the start of the life.
    pub from: u64,
    /// The first one after it.
    pub to: u64,
    /// When it began by the wall's clock, in milliseconds since 1970.
    pub began_ms: i64,
    /// How long one interval is.
    pub seconds: u64,
    pub rows: Vec<Row>,
}

/// What was counted of a version in an interval. Who had no calls in it has no row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub key: Arc<Key>,
    pub tally: Tally,
}

/// How far somebody has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// Which life of the proxy: intervals are counted anew in each. One of another life reads from the beginning. A life ends
    /// where a process ends that could hand nothing over.
    pub life: u64,
    /// The first interval that wasn't read.
    pub interval: u64,
}

/// What there is after a cursor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Closed intervals in their order. Those without a call are left out. The first may be several that became one, and
    /// then it may begin before the cursor of a reader who shares the counts with one who has read less.
    pub closed: Vec<Arc<Interval>>,
    /// What goes on: it is there again, with more in it, when it is read next.
    pub open: Vec<Interval>,
    /// With what to ask next.
    pub next: Cursor,
    /// Calls that had no place any more, in this life.
    pub gone: u64,
    /// Processes that finished what they had and ended before all that they had counted was taken, in this life.
    #[serde(default)]
    pub cut_short: u64,
    /// Calls that versions of the table in force carried out just before: they are in no number yet, or only just. Versions that carried out
    /// none are left out.
    #[serde(default)]
    pub in_flight: Vec<InFlight>,
}

/// Calls that a version carries out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    pub service: String,
    pub variation: String,
    pub calls: u32,
}

/// See the module.
#[derive(Debug)]
pub struct CallMetrics {
    timeline: Timeline,
    room: Retention,
    life: u64,
    open: BTreeMap<u64, Open>,
    closed: VecDeque<Closed>,
    /// Closed intervals that became one: those that a reader was given already, and those after them, so that the reader who comes
    /// back with its cursor gets the latter alone.
    merged: VecDeque<Merged>,
    bytes: usize,
    /// All intervals before this one are closed.
    closed_to: u64,
    /// All intervals before this one were read.
    read_to: u64,
    /// All intervals before this one were given to whoever has read most.
    given_to: u64,
    gone: u64,
    cut_short: u64,
    totals: BTreeMap<(String, String), Total>,
    /// The number of the timeline's first interval: those before it are of processes that handed over.
    first: u64,
    has_taken_over: bool,
    /// What it held went to another process.
    is_left: bool,
    /// How far what processes count that finish was taken in.
    sources: BTreeMap<u32, handover::Source>,
}

#[derive(Debug, Clone)]
struct Open {
    from: u64,
    began_ms: i64,
    rows: BTreeMap<Arc<Key>, Tally>,
}

#[derive(Debug)]
struct Merged {
    open: Open,
    to: u64,
}

#[derive(Debug)]
struct Closed {
    interval: Arc<Interval>,
    bytes: usize,
}

/// All that was counted of a variation since the proxy started, without times and groups.
#[derive(Debug, Default)]
struct Total {
    tally: Tally,
    /// The interval in which it was counted last.
    last: u64,
}

impl CallMetrics {
    /// Empty. `life` tells it from those of the proxy's other lives.
    #[must_use]
    pub fn new(timeline: Timeline, room: Retention, life: u64) -> Self {
        Self {
            timeline,
            room,
            life,
            open: BTreeMap::new(),
            closed: VecDeque::new(),
            merged: VecDeque::new(),
            bytes: 0,
            closed_to: 0,
            read_to: 0,
            given_to: 0,
            gone: 0,
            cut_short: 0,
            totals: BTreeMap::new(),
            first: 0,
            has_taken_over: false,
            is_left: false,
            sources: BTreeMap::new(),
        }
    }

    /// Takes in what was counted in an interval of the timeline. What comes too late for it is counted in the next one that is
    /// open.
    pub fn absorb(&mut self, interval: u64, key: &Arc<Key>, tally: &Tally, moment: Moment) {
        let interval = (interval + self.first).max(self.closed_to);
        if !key.by_header {
            let total = self.totals.entry((key.service.clone(), key.variation.clone())).or_default();
            total.tally.merge_counts(tally);
            total.last = interval;
        }
        let began_ms = self.timeline.wall_ms_of(interval - self.first, moment);
        let open = self.open.entry(interval);
        open.or_insert_with(|| Open { from: interval, began_ms, rows: BTreeMap::new() }).add(key, tally);
    }

    /// Says that nothing more will come for intervals of the timeline before this one.
    pub fn close(&mut self, before: u64) {
        self.close_numbered(before + self.first);
    }

    fn close_numbered(&mut self, before: u64) {
        self.closed_to = self.closed_to.max(before);
        let still_open = self.open.split_off(&self.closed_to);
        for (interval, open) in std::mem::replace(&mut self.open, still_open) {
            let bytes = open.bytes();
            self.bytes += bytes;
            let interval = Arc::new(open.finish(interval + 1, &self.timeline));
            self.closed.push_back(Closed { interval, bytes });
        }
        self.make_room();
        if self.totals.len() > MOST_TOTALS {
            let oldest = self.oldest_kept();
            self.totals.retain(|_, total| total.last >= oldest);
        }
    }

    /// What there is after a cursor, and says that everything before it was read.
    pub fn since(&mut self, cursor: Cursor) -> Reading {
        let from = if cursor.life == self.life { cursor.interval.min(self.closed_to) } else { 0 };
        self.read_to = self.read_to.max(from);
        if from == self.read_to {
            self.given_to = self.closed_to;
        }
        let merged = self.merged.iter().filter(|merged| merged.to > from);
        let merged = merged.map(|Merged { open, to }| Arc::new(open.clone().finish(*to, &self.timeline)));
        let closed = self.closed.iter().filter(|closed| closed.interval.to > from);
        let closed = closed.map(|closed| Arc::clone(&closed.interval));
        let open = self.open.iter().map(|(interval, open)| open.clone().finish(interval + 1, &self.timeline));
        Reading {
            closed: merged.chain(closed).collect(),
            open: open.collect(),
            next: Cursor { life: self.life, interval: self.closed_to },
            gone: self.gone,
            cut_short: self.cut_short,
            in_flight: Vec::new(),
        }
    }

    /// All that is kept, whoever has read it, as one.
    #[must_use]
    pub fn sum(&self) -> Vec<Row> {
        let mut all = Open { from: 0, began_ms: 0, rows: BTreeMap::new() };
        for part in self.merged.iter().map(|merged| &merged.open).chain(self.open.values()) {
            part.rows.iter().for_each(|(key, tally)| all.add(key, tally));
        }
        for row in self.closed.iter().flat_map(|closed| &closed.interval.rows) {
            all.add(&row.key, &row.tally);
        }
        all.finish(0, &self.timeline).rows
    }

    /// All that was counted since the proxy started of variations that `is_named`, or that had calls of late.
    pub fn totals(
        &self,
        is_named: impl Fn(&str, &str) -> bool,
    ) -> impl Iterator<Item = (&str, &str, &Tally)> {
        let oldest = self.oldest_kept();
        let shown = move |(service, variation): (&str, &str), total: &Total| {
            total.last >= oldest || is_named(service, variation)
        };
        let all = self.totals.iter().map(|((service, variation), total)| ((&**service, &**variation), total));
        all.filter(move |(names, total)| shown(*names, total))
            .map(|((service, variation), total)| (service, variation, &total.tally))
    }

    /// Calls that had no place any more.
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.gone
    }

    /// The first interval that is young enough to be kept apart.
    fn oldest_kept(&self) -> u64 {
        self.closed_to.saturating_sub(self.room.age.as_secs() / self.timeline.length().as_secs())
    }

    /// The oldest intervals become one; those that were read are let go.
    fn make_room(&mut self) {
        self.merged.retain(|merged| merged.to > self.read_to);
        let oldest = self.oldest_kept();
        while let Some(closed) = self.closed.front() {
            if closed.interval.from >= oldest && self.bytes <= self.room.bytes {
                return;
            }
            let Some(Closed { interval, bytes }) = self.closed.pop_front() else { return };
            self.bytes -= bytes;
            if interval.to > self.read_to {
                self.merge(&interval);
            }
        }
    }

    fn merge(&mut self, interval: &Interval) {
        if self.merged.back().is_none_or(|last| last.to <= self.given_to && interval.from >= self.given_to) {
            self.merge_first_two();
            let open = Open { from: interval.from, began_ms: interval.began_ms, rows: BTreeMap::new() };
            self.merged.push_back(Merged { open, to: interval.to });
        }
        let mut left = self.room.merged_rows.saturating_sub(self.merged_rows());
        let Some(last) = self.merged.back_mut() else { return };
        last.to = interval.to;
        for row in &interval.rows {
            let is_known = last.open.rows.contains_key(&row.key);
            if is_known || left > 0 {
                left -= usize::from(!is_known);
                last.open.add(&row.key, &row.tally);
            } else {
                self.gone += row.tally.calls;
            }
        }
    }

    /// Two are enough: both were given together, to a reader who didn't come back.
    fn merge_first_two(&mut self) {
        if self.merged.len() < 2 {
            return;
        }
        let (Some(mut first), Some(second)) = (self.merged.pop_front(), self.merged.pop_front()) else {
            return;
        };
        second.open.rows.iter().for_each(|(key, tally)| first.open.add(key, tally));
        self.merged.push_front(Merged { open: first.open, to: second.to });
    }

    fn merged_rows(&self) -> usize {
        self.merged.iter().map(|merged| merged.open.rows.len()).sum()
    }
}

impl Open {
    fn add(&mut self, key: &Arc<Key>, tally: &Tally) {
        match self.rows.get_mut(key) {
            Some(sum) => sum.merge(tally),
            None => drop(self.rows.insert(Arc::clone(key), tally.clone())),
        }
    }

    fn bytes(&self) -> usize {
        self.rows.values().map(Tally::bytes).sum()
    }

    fn finish(self, to: u64, timeline: &Timeline) -> Interval {
        let rows = self.rows.into_iter().map(|(key, tally)| Row { key, tally }).collect();
        let seconds = timeline.length().as_secs();
        Interval { from: self.from, to, began_ms: self.began_ms, seconds, rows }
    }
}
