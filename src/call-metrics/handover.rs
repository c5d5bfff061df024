//! What was counted goes from a process that hands over to the one that takes over, so that every call is in exactly one reading.
//!
//! The process that took over takes the *snapshot* once: all that is kept and was perhaps not read, with the life and the number of
//! the next interval. So the cursor of a reader stays valid. What the process before counts from then on, while it finishes, is
//! its *tail*: it is asked for again and again with a cursor of its own, and counted among what goes on here. Either goes
//! from one process to the other whole, and what was not acknowledged by the next question is given once more.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::UnservedCalls;
use crate::{CallMetrics, Closed, Cursor, Interval, Moment, Reading, Row, Tally, Total};

/// All that was kept when the counts were handed over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HandoverSnapshot {
    life: u64,
    /// The first interval that isn't in it.
    next: u64,
    read_to: u64,
    given_to: u64,
    kept: Vec<Arc<Interval>>,
    gone: u64,
    cut_short: u64,
    totals: Vec<TotalForm>,
    /// By pid. No map: its keys would be texts on the way, which are no numbers to whoever reads a word that names its kind.
    sources: Vec<(u32, Source)>,
    /// From where on what is counted later is to be asked for.
    remainder_from: Cursor,
    pub unserved: UnservedCalls,
}

/// All that was counted of a variation since the proxy started.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct TotalForm {
    service: String,
    variation: String,
    tally: Tally,
    last: u64,
}

/// How far the tail of a process was taken in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    cursor: Option<Cursor>,
    gone: u64,
    unserved: UnservedCalls,
}

/// What a process counted since its counts were handed over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tail {
    pub reading: Reading,
    /// Altogether, since then.
    pub unserved: UnservedCalls,
    /// There is nothing behind the cursor, and never will be.
    pub is_last: bool,
}

/// The counts were handed over, and take in nothing more: whoever has them asks on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedOver;

impl CallMetrics {
    /// Gives all that it holds to another one and goes on empty, under another life; once.
    pub fn leave(&mut self, life: u64) -> Option<HandoverSnapshot> {
        if self.is_left {
            return None;
        }
        self.close_all();
        let merged = self.merged.drain(..);
        let merged = merged.map(|merged| Arc::new(merged.open.finish(merged.to, &self.timeline)));
        let closed = self.closed.drain(..).map(|closed| closed.interval);
        let read_to = self.read_to;
        let kept = merged.chain(closed).filter(|interval| interval.to > read_to).collect();
        self.bytes = 0;
        let totals = std::mem::take(&mut self.totals).into_iter();
        let totals = totals.map(|((service, variation), Total { tally, last })| TotalForm {
            service,
            variation,
            tally,
            last,
        });
        let remainder_from = Cursor { life, interval: self.closed_to };
        let snapshot = HandoverSnapshot {
            life: self.life,
            next: self.closed_to,
            read_to,
            given_to: self.given_to,
            kept,
            gone: std::mem::take(&mut self.gone),
            cut_short: std::mem::take(&mut self.cut_short),
            totals: totals.collect(),
            sources: std::mem::take(&mut self.sources).into_iter().collect(),
            remainder_from,
            unserved: UnservedCalls::default(),
        };
        self.is_left = true;
        self.life = life;
        (self.read_to, self.given_to) = (self.closed_to, self.closed_to);
        Some(snapshot)
    }

    /// Takes over what another process held, and goes on with its numbers. Whoever read there reads on here.
    pub fn take_over(&mut self, pid: u32, snapshot: HandoverSnapshot, moment: Moment) {
        self.sources.insert(pid, Source { cursor: Some(snapshot.remainder_from), ..Source::default() });
        if self.has_taken_over {
            return self.take_in_all(snapshot, moment);
        }
        self.renumber(snapshot.next);
        self.take_back(snapshot);
    }

    /// What was given away goes on here after all.
    pub fn take_back(&mut self, snapshot: HandoverSnapshot) {
        let HandoverSnapshot { life, read_to, given_to, kept, gone, cut_short, totals, sources, .. } =
            snapshot;
        (self.life, self.read_to, self.given_to) = (life, read_to, given_to);
        self.is_left = false;
        self.has_taken_over = true;
        self.gone += gone;
        self.cut_short += cut_short;
        self.sources.extend(sources);
        for interval in kept.into_iter().rev() {
            let bytes = interval.rows.iter().map(|row| row.tally.bytes()).sum();
            self.bytes += bytes;
            self.closed.push_front(Closed { interval, bytes });
        }
        self.add_totals(totals);
        self.make_room();
    }

    /// Of a second process that handed over at once: its calls are counted among those of now.
    fn take_in_all(&mut self, snapshot: HandoverSnapshot, moment: Moment) {
        self.gone += snapshot.gone;
        self.cut_short += snapshot.cut_short;
        self.sources.extend(snapshot.sources);
        let rows = snapshot.kept.iter().flat_map(|interval| &interval.rows);
        self.absorb_now(rows, moment);
    }

    /// How far the tail of a process was taken in; none where nothing of it was.
    pub fn source(&self, pid: u32) -> Option<Cursor> {
        self.sources.get(&pid)?.cursor
    }

    /// Takes in what came behind this cursor of a process, unless it was already. Gives what is new of the calls that nobody got.
    pub fn take_in(
        &mut self,
        (pid, asked): (u32, Option<Cursor>),
        tail: &Tail,
        moment: Moment,
    ) -> Result<UnservedCalls, HandedOver> {
        if self.is_left {
            return Err(HandedOver);
        }
        if self.source(pid) != asked {
            return Ok(UnservedCalls::default());
        }
        let before = self.sources.get(&pid).copied().unwrap_or_default();
        let Tail { reading, unserved, .. } = tail;
        self.gone += reading.gone.saturating_sub(before.gone);
        let rows = reading.closed.iter().flat_map(|interval| &interval.rows);
        self.absorb_now(rows, moment);
        if tail.is_last {
            self.sources.remove(&pid);
        } else {
            let source = Source { cursor: Some(reading.next), gone: reading.gone, unserved: *unserved };
            self.sources.insert(pid, source);
        }
        Ok(unserved.since(before.unserved))
    }

    /// Processes that are none of these are gone: what they counted last is in no reading.
    pub fn cut_short(&mut self, is_there: impl Fn(u32) -> bool) {
        let before = self.sources.len();
        self.sources.retain(|&pid, _| is_there(pid));
        self.cut_short += (before - self.sources.len()) as u64;
    }

    /// What was counted since it was left, after a cursor; without one, after all that anybody was given.
    pub fn tail(&mut self, cursor: Option<Cursor>) -> Reading {
        self.close_all();
        let given = Cursor { life: self.life, interval: self.given_to };
        self.since(cursor.unwrap_or(given))
    }

    pub fn is_left(&self) -> bool {
        self.is_left
    }

    fn absorb_now<'r>(&mut self, rows: impl Iterator<Item = &'r Row>, moment: Moment) {
        let now = self.timeline.interval_at(moment.now);
        for Row { key, tally } in rows {
            self.absorb(now, key, tally, moment);
        }
    }

    fn close_all(&mut self) {
        if let Some((&last, _)) = self.open.last_key_value() {
            self.close_numbered(last + 1);
        }
    }

    /// Its own intervals come behind those of another one.
    fn renumber(&mut self, by: u64) {
        self.first += by;
        self.closed_to += by;
        for Closed { interval, .. } in &mut self.closed {
            let Interval { from, to, began_ms, seconds, rows } = (**interval).clone();
            *interval = Arc::new(Interval { from: from + by, to: to + by, began_ms, seconds, rows });
        }
        for merged in &mut self.merged {
            merged.open.from += by;
            merged.to += by;
        }
        let open = std::mem::take(&mut self.open).into_iter();
        self.open = open
            .map(|(interval, mut open)| {
                open.from += by;
                (interval + by, open)
            })
            .collect();
        self.totals.values_mut().for_each(|total| total.last += by);
    }

    fn add_totals(&mut self, totals: Vec<TotalForm>) {
        for TotalForm { service, variation, tally, last } in totals {
            let total = self.totals.entry((service, variation)).or_default();
            total.tally.merge_counts(&tally);
            total.last = total.last.max(last);
        }
    }
}
