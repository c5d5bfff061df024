//! The counts of a proxy that several agents read: they are read once for all of them, and each gets those of its own functions and services.
//!
//! Who asks a proxy for its counts says up to where it has read them, and the proxy lets those go. So the proxy is asked from where the
//! agent stands that has read least: of those that need every count, since a stage goes on at them. Those are the agents that said so when
//! they began or asked last, and those that have had a table put in force since. Others, which read now and then so that counts are let go,
//! hold up nobody, and take what is there. Who needs every count and comes late gets all that the proxy still has from where it stood.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use call_metrics::{Cursor, InFlight, Interval, Reading};
use tokio::time::Instant;

use super::{DataPlane, once::Once};
use crate::state_machine::{CountsReading, Trouble};

/// From one reading to the next, at least.
const BETWEEN: Duration = Duration::from_millis(100);

/// What one needs that doesn't ask is let go after this time.
const WAITED_FOR: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct SharedCounts {
    readers: Mutex<Readers>,
    reading: Once<Result<Split, Trouble>>,
}

#[derive(Debug, Default)]
struct Readers {
    by_agent: BTreeMap<String, Reader>,
    /// Up to where the proxy was read last.
    read: Option<Cursor>,
}

#[derive(Debug, Clone, Copy)]
struct Reader {
    cursor: Cursor,
    asked: Instant,
    needs_all: bool,
}

/// A reading, by what was counted.
#[derive(Debug)]
enum Split {
    Not(String),
    Read {
        /// What is everybody's.
        frame: Reading,
        by_name: BTreeMap<String, Part>,
    },
}

/// What is of one function or service.
#[derive(Debug, Default)]
struct Part {
    closed: Vec<Interval>,
    open: Vec<Interval>,
    in_flight: Vec<InFlight>,
}

impl Default for SharedCounts {
    fn default() -> Self {
        Self { readers: Mutex::default(), reading: Once::new(BETWEEN) }
    }
}

impl SharedCounts {
    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent begins, which needs all counts after this cursor; `None`: it needs none.
    pub fn joins(&self, agent: &str, reads: Option<Cursor>) {
        let mut readers = self.readers();
        let cursor = reads.or(readers.read).unwrap_or_default();
        let reader = Reader { cursor, asked: Instant::now(), needs_all: reads.is_some() };
        readers.by_agent.insert(agent.to_owned(), reader);
    }

    /// Another table of an agent's is put in force: from now on it needs every count.
    pub fn begins(&self, agent: &str) {
        let mut readers = self.readers();
        let read = readers.read;
        if let Some(reader) = readers.by_agent.get_mut(agent) {
            if !reader.needs_all {
                reader.cursor = read.unwrap_or(reader.cursor);
            }
            *reader = Reader { needs_all: true, asked: Instant::now(), ..*reader };
        }
    }

    /// What was counted of these functions and services since a cursor, of which the agent needs all or takes what is there.
    pub async fn read(
        &self,
        (agent, cursor, needs_all): (&str, Cursor, bool),
        names: impl FnOnce() -> BTreeSet<String>,
        front: &dyn DataPlane,
    ) -> Result<CountsReading, Trouble> {
        self.readers().asks(agent, cursor, needs_all);
        let read = self.reading.ask(|| self.read_now(front)).await;
        match &*read {
            Ok(Split::Read { frame, by_name }) => {
                Ok(CountsReading::Read(Box::new(part_of(frame, by_name, &names(), cursor))))
            }
            Ok(Split::Not(why)) => Ok(CountsReading::Not(why.clone())),
            Err(trouble) => Err(trouble.clone()),
        }
    }

    async fn read_now(&self, front: &dyn DataPlane) -> Result<Split, Trouble> {
        let from = self.readers().from();
        match front.count(from, true).await? {
            CountsReading::Not(why) => Ok(Split::Not(why)),
            CountsReading::Read(reading) => {
                self.readers().read = Some(reading.next);
                Ok(Split::of(*reading))
            }
        }
    }
}

impl Readers {
    fn asks(&mut self, agent: &str, cursor: Cursor, needs_all: bool) {
        let Some(reader) = self.by_agent.get_mut(agent) else { return };
        // One that has never read anything has nothing of before it began.
        if cursor != Cursor::default() {
            reader.cursor = cursor;
        }
        *reader = Reader { needs_all, asked: Instant::now(), ..*reader };
    }

    /// From where the proxy is to be read.
    fn from(&self) -> Cursor {
        let needs = self.by_agent.values().filter(|one| one.needs_all && one.asked.elapsed() < WAITED_FOR);
        let needed = least(needs.map(|one| one.cursor));
        // Who reads first and needs nothing doesn't have the proxy say what it has kept for an hour.
        let known = self.by_agent.values().map(|one| one.cursor).filter(|one| *one != Cursor::default());
        needed.or(self.read).or_else(|| least(known)).unwrap_or_default()
    }
}

/// The first of these.
fn least(cursors: impl Iterator<Item = Cursor>) -> Option<Cursor> {
    cursors.reduce(|one, other| {
        // Of another life of the proxy everything is to be read.
        if one.life == other.life {
            if one.interval <= other.interval { one } else { other }
        } else {
            Cursor::default()
        }
    })
}

impl Split {
    fn of(Reading { closed, open, next, gone, cut_short, in_flight }: Reading) -> Self {
        let mut by_name: BTreeMap<String, Part> = BTreeMap::new();
        for interval in &closed {
            for row in &interval.rows {
                let part = by_name.entry(row.key.service.clone()).or_default();
                into_last(&mut part.closed, interval).rows.push(row.clone());
            }
        }
        let mut frames = Vec::with_capacity(open.len());
        for mut interval in open {
            let rows = std::mem::take(&mut interval.rows);
            for row in rows {
                let part = by_name.entry(row.key.service.clone()).or_default();
                into_last(&mut part.open, &interval).rows.push(row);
            }
            frames.push(interval);
        }
        for of in in_flight {
            by_name.entry(of.service.clone()).or_default().in_flight.push(of);
        }
        let frame =
            Reading { closed: Vec::new(), open: frames, next, gone, cut_short, in_flight: Vec::new() };
        Self::Read { frame, by_name }
    }
}

/// The last of these, which is this interval: it is added where it isn't.
fn into_last<'i>(intervals: &'i mut Vec<Interval>, this: &Interval) -> &'i mut Interval {
    if intervals.last().is_none_or(|last| last.from != this.from) {
        intervals.push(without_rows(this));
    }
    let last = intervals.len() - 1;
    &mut intervals[last]
}

fn without_rows(of: &Interval) -> Interval {
    let Interval { from, to, began_ms, seconds, rows: _ } = *of;
    Interval { from, to, began_ms, seconds, rows: Vec::new() }
}

/// What a reading has of these after a cursor. Intervals that go on are all in it, as in every reading.
fn part_of(
    frame: &Reading,
    by_name: &BTreeMap<String, Part>,
    names: &BTreeSet<String>,
    cursor: Cursor,
) -> Reading {
    let from = if cursor.life == frame.next.life { cursor.interval } else { 0 };
    let mut closed: BTreeMap<u64, Interval> = BTreeMap::new();
    let mut open: BTreeMap<u64, Interval> =
        frame.open.iter().map(|interval| (interval.from, interval.clone())).collect();
    let mut in_flight = Vec::new();
    for part in names.iter().filter_map(|name| by_name.get(name)) {
        for interval in part.closed.iter().filter(|interval| interval.to > from) {
            let of = closed.entry(interval.from).or_insert_with(|| without_rows(interval));
            of.rows.extend(interval.rows.iter().cloned());
        }
        for interval in &part.open {
            let of = open.entry(interval.from).or_insert_with(|| without_rows(interval));
            of.rows.extend(interval.rows.iter().cloned());
        }
        in_flight.extend(part.in_flight.iter().cloned());
    }
    Reading {
        closed: closed.into_values().map(Arc::new).collect(),
        open: open.into_values().collect(),
        next: frame.next,
        gone: frame.gone,
        cut_short: frame.cut_short,
        in_flight,
    }
}
