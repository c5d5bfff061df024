//! From what the proxy counted to what the manager is told of a stage.
//!
//! Invariants, which `tests/agent/measure.rs` asserts:
//!
//! 1. A call that the proxy counted is in exactly one part, however its intervals were read: open and then closed, again after a
//!    restart, as one with others, over several lives of the proxy. Where that can't be told any more, it is in none, and
//!    [`StageCounts::gone`] says so.
//! 2. Nothing that was told shrinks: neither a number of the stage nor one of a part.
//! 3. The numbers of the stage are the sums of those of its parts.
//! 4. Calls that were shared out in different ways are in different parts, where shares are whole percentages of two versions. Each part
//!    says which, for by the time that somebody reads it the stage may order another one.
//!
//! What counts: **calls** are those that a version had to answer. Calls that passed it over, whose caller left or sent a body
//! without an end, that went on in another protocol, or that the proxy itself ended say nothing of it. **Errors** are answers
//! with a status from 500 on, answers that broke off, and calls that it failed before anything was passed on, whether the
//! stable version carried them out afterwards or not: those are in no number of the stable one. **Times** are those of the calls
//! without an error; an answer with a status from 400 to 499 is one of these. **No target** was there for calls that the router itself
//! refused, since it took none of the version's targets to be there: they are in no other number, but a limit of errors is held against
//! them too. Calls that asked for a version by a header are no part of the split, and in no number that is told. Where they are all that
//! a version gets, since its stage gives it no share, its conditions are held against them.
//!
//! Where calls stay with a version, the parts are groups of users, over all the time for which a share was in force. Else they are
//! intervals of the manager's time.

mod shares;
mod side;
mod summary;

use std::{collections::BTreeMap, iter, time::Duration};

use call_metrics::{Cursor, Interval, Reading};
use language::{Condition, Stage};
use serde::{Deserialize, Serialize};

use self::side::{Groups, Sides};
pub use self::{side::Side, summary::Reads};

/// The name of the stable version's variation in tables that the agent writes.
pub const BASE: &str = "base";

/// The name of the other one.
pub const NEW: &str = "new";

/// Most intervals that are counted apart, over all shares: a report has no room for more. What comes later is counted in the last one of
/// its share, for what was told of the others must stay; a share that comes later has one part, of which no times are told.
pub const MAX_PARTS: usize = 48;

/// What was counted during a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageCounts {
    service: String,
    split: String,
    /// What its variations are called in the table, the stable one first.
    #[serde(default = "of_a_function")]
    names: Vec<String>,
    /// Up to where the proxy's closed intervals are in `kept`.
    read: Cursor,
    /// Of closed intervals, and of lives of the proxy that are over.
    kept: Parts,
    /// Of intervals that went on when the proxy was read last.
    open: Vec<Part>,
    /// All together.
    whole: Sides,
    /// Calls that asked for a version by a header.
    #[serde(default)]
    asked: Sides,
    /// The same of intervals that are closed.
    #[serde(default)]
    asked_kept: Sides,
    /// No version but the stable one has a share: those that callers ask for are judged by these calls.
    #[serde(default)]
    judges_asked: bool,
    /// Calls that the proxy counted and that are in no number.
    gone: u64,
    /// The same that the proxy itself had no place for, in its present life.
    gone_of_life: u64,
    /// Calls that each version carried out when the proxy was read last.
    in_flight: Vec<u64>,
    /// How calls were shared out.
    #[serde(default)]
    shares: shares::Shares,
    /// Why nothing was counted when that was asked for last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uncounted: Option<String>,
}

/// What was counted, apart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Parts {
    /// By interval of the manager's time; 0: of none.
    intervals: BTreeMap<u32, Sides>,
    /// By group of users, where calls stay with a version.
    groups: Option<Groups>,
    /// The same of calls of which the new version was to get so many percent, in the order in which these shares came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    by_percent: Vec<(u8, Parts)>,
}

/// What an interval has of a split under one share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Part {
    /// The proxy's number of the interval.
    from: u64,
    /// By the manager's time; 0: that isn't known.
    interval: u32,
    /// `None`: it is no percentage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    percent: Option<u8>,
    sides: Sides,
    groups: Option<Groups>,
    /// Calls of the interval beside the split: in the first of its parts.
    #[serde(default)]
    asked: Sides,
}

impl StageCounts {
    /// Of the calls to a service that were shared out as the table calls `split`.
    #[must_use]
    pub fn new(service: &str, split: &str) -> Self {
        Self {
            service: service.to_owned(),
            split: split.to_owned(),
            names: of_a_function(),
            read: Cursor::default(),
            kept: Parts::default(),
            open: Vec::new(),
            whole: Sides::default(),
            asked: Sides::default(),
            asked_kept: Sides::default(),
            judges_asked: false,
            gone: 0,
            gone_of_life: 0,
            in_flight: Vec::new(),
            shares: shares::Shares::default(),
            uncounted: None,
        }
    }

    /// The same of a service whose variations have names of their own, the stable one first.
    #[must_use]
    pub fn of_service(service: &str, names: Vec<String>, split: &str) -> Self {
        Self { names, ..Self::new(service, split) }
    }

    /// The same for this stage: where that gives nobody but the stable version a share, calls are judged that asked for another.
    #[must_use]
    pub fn in_stage(mut self, stage: &Stage) -> Self {
        self.go_on_in(stage);
        self
    }

    /// The stage has other shares from now on. What was counted stays: it is of calls that were given out in this stage.
    pub fn go_on_in(&mut self, stage: &Stage) {
        self.judges_asked = stage.new_traffic == 0;
    }

    /// The index of a variation among those that are counted.
    fn place_of(&self, variation: &str) -> Option<usize> {
        self.names.iter().position(|name| name == variation)
    }

    /// Whose calls it counts.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }

    /// What the table calls the shares by which they were given out.
    #[must_use]
    pub fn split(&self) -> &str {
        &self.split
    }

    /// With what the proxy is to be asked next.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.read
    }

    /// Takes in that nobody counts, or not well enough to judge by it.
    pub fn take_none(&mut self, why: &str) {
        if self.uncounted.as_deref() != Some(why) {
            self.uncounted = Some(why.to_owned());
        }
    }

    /// Takes in what the proxy answered. Closed intervals become part of what is kept; those that go on replace the ones of the
    /// reading before. `interval_of` numbers an interval by the manager's time; `None`: that isn't known. Its first answer for
    /// an interval is kept.
    pub fn take(&mut self, reading: &Reading, mut interval_of: impl FnMut(&Interval) -> Option<u32>) {
        self.uncounted = None;
        if reading.next.life != self.read.life {
            let is_first = self.read == Cursor::default();
            self.begin_life(reading.next.life);
            // What was lost before the stage was none of its calls.
            self.gone_of_life = if is_first { reading.gone } else { 0 };
        }
        self.gone += reading.gone.saturating_sub(self.gone_of_life);
        self.gone_of_life = self.gone_of_life.max(reading.gone);
        let mut was_open = std::mem::take(&mut self.open);
        let told: Vec<Option<u8>> = was_open.iter().map(|open| open.percent).collect();
        let mut number = |interval: &Interval| {
            let mut known = None;
            was_open.retain(|open| {
                let is_it = (interval.from..interval.to).contains(&open.from);
                known = known.or(is_it.then_some(open.interval));
                !is_it
            });
            known.unwrap_or_else(|| interval_of(interval).unwrap_or_default())
        };
        let read_to = self.read.interval;
        for closed in reading.closed.iter().filter(|closed| closed.to > read_to) {
            let parts = self.parts_of(closed, number(closed), &told);
            if closed.from < read_to {
                // It holds what is counted already, and how much of it can't be told.
                self.gone += parts.iter().map(|part| part.sides.calls()).sum::<u64>();
            } else {
                for part in &parts {
                    self.keep(part);
                }
                self.shares.note(closed, &self.service, &self.split, &self.names);
            }
        }
        for open in &reading.open {
            let parts = self.parts_of(open, number(open), &told);
            self.open.extend(parts);
        }
        // What went on and is nowhere any more was read by somebody else, and let go.
        for open in was_open {
            self.keep(&open);
        }
        self.read.interval = self.read.interval.max(reading.next.interval);
        self.in_flight = vec![0; self.names.len()];
        for of in reading.in_flight.iter().filter(|of| of.service == self.service) {
            if let Some(which) = self.place_of(&of.variation) {
                self.in_flight[which] += u64::from(of.calls);
            }
        }
        self.add_up();
    }

    /// The proxy was started anew. What went on before ended with it.
    fn begin_life(&mut self, life: u64) {
        for open in std::mem::take(&mut self.open) {
            self.keep(&open);
        }
        self.read = Cursor { life, interval: 0 };
    }

    fn keep(&mut self, Part { interval, percent, sides, groups, asked, from: _ }: &Part) {
        self.asked_kept.merge(asked);
        if !sides.is_empty() {
            self.kept.add(*interval, *percent, sides, groups.as_ref());
        }
    }

    /// What an interval has of this split: of shares that were told while they went on, and then of others. An interval doesn't say which of
    /// its shares came first. One without calls has a part, too, since it has a number.
    fn parts_of(&self, interval: &Interval, number: u32, told: &[Option<u8>]) -> Vec<Part> {
        let part_of = |percent| {
            let (sides, asked) = (Sides::default(), Sides::default());
            Part { from: interval.from, interval: number, percent, sides, groups: None, asked }
        };
        let (mut parts, mut asked) = (Vec::<Part>::new(), Sides::default());
        for row in &interval.rows {
            let key = &row.key;
            if key.service != self.service || key.split != self.split {
                continue;
            }
            let Some(which) = self.place_of(&key.variation) else { continue };
            if key.by_header {
                asked.of_mut(which).add(&row.tally);
                continue;
            }
            let percent = percent_of(&key.shares);
            let at = parts.iter().position(|part| part.percent == percent).unwrap_or_else(|| {
                parts.push(part_of(percent));
                parts.len() - 1
            });
            parts[at].sides.of_mut(which).add(&row.tally);
            if let Some(more) = &row.tally.groups {
                parts[at].groups.get_or_insert_default().add(which, more);
            }
        }
        parts.sort_by_key(|part| {
            told.iter().position(|percent| *percent == part.percent).unwrap_or(told.len())
        });
        if parts.is_empty() {
            parts.push(part_of(None));
        }
        parts[0].asked = asked;
        parts
    }

    fn add_up(&mut self) {
        let mut whole = Sides::default();
        let kept = self.kept.each().flat_map(|(_, parts)| parts.intervals.values());
        for sides in kept.chain(self.open.iter().map(|open| &open.sides)) {
            whole.merge(sides);
        }
        self.whole = whole;
        self.asked = self.asked_kept.clone();
        self.open.iter().for_each(|open| self.asked.merge(&open.asked));
    }

    /// What its variations are called, the stable one first.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What was counted of the variation with this index.
    #[must_use]
    pub fn of(&self, which: usize) -> &Side {
        self.whole.of(which)
    }

    /// The same by its name; none: no such variation is counted.
    #[must_use]
    pub fn of_named(&self, variation: &str) -> Option<&Side> {
        self.place_of(variation).map(|which| self.of(which))
    }

    /// What was counted of the base version.
    #[must_use]
    pub fn base(&self) -> &Side {
        self.of(0)
    }

    /// What was counted of the new version; of a service, of the first variation beside the stable one.
    #[must_use]
    pub fn new_version(&self) -> &Side {
        self.of(1)
    }

    /// What the conditions of the stage are held against, of the variation with this index.
    #[must_use]
    pub fn judged(&self, which: usize) -> &Side {
        if self.judges_asked { self.asked.of(which) } else { self.of(which) }
    }

    /// Whether a version had calls that it is to be judged by because callers asked for it.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.judges_asked && (1..self.names.len()).any(|which| self.asked.of(which).calls > 0)
    }

    /// How the calls ended that asked for a version by a header, where it is judged by these.
    #[must_use]
    pub fn asked_in_words(&self) -> Option<String> {
        let each = (1..self.names.len()).map(|which| (&self.names[which], self.judged(which)));
        let told = each.filter(|(_, side)| side.calls > 0).map(|(name, side)| {
            format!("{} of {} calls failed that asked for {name} by a header", side.errors, side.calls)
        });
        self.is_asked().then(|| told.collect::<Vec<_>>().join("; "))
    }

    /// Calls that all but the stable version carried out when the proxy was read last; nobody knows how they end.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight.iter().skip(1).sum()
    }

    /// The same of the variation with this index.
    #[must_use]
    pub fn in_flight_of(&self, which: usize) -> u64 {
        self.in_flight.get(which).copied().unwrap_or_default()
    }

    /// Calls that the proxy counted and that are in no number any more: it had no room for them, or gave them to somebody else.
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.gone
    }

    /// Whether the stage has lasted as long, and had as many calls to either version, as it needs. While nobody counts, one that is
    /// to be judged by its calls isn't.
    #[must_use]
    pub fn is_met(&self, stage: &Stage, elapsed: Duration) -> bool {
        elapsed >= stage.min_duration
            && (self.whole.calls() >= stage.min_calls || self.uncounted.is_some())
            && self.why_unjudged(stage).is_none()
    }

    /// Whether each version that is tried had to answer any call. One that had none was tested by nobody; where nobody counts, and
    /// nothing is to be judged by calls, its time was its test.
    #[must_use]
    pub fn is_tested(&self, stage: &Stage) -> bool {
        let had_calls = || stage.tried().into_iter().all(|which| self.of(which).calls > 0);
        had_calls() || self.uncounted.is_some() && !stage.is_judged_by_calls()
    }

    /// Whether somebody counts.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.uncounted.is_none()
    }

    /// Why the stage can't be judged by its calls, where it is to be and nobody counts them, or knows how long they took.
    #[must_use]
    pub fn why_unjudged(&self, stage: &Stage) -> Option<String> {
        if let Some(why) = self.uncounted.as_ref().filter(|_| stage.is_judged_by_calls()) {
            return Some(format!("its calls are not measured: {why}"));
        }
        let is_untimed = |side: &Side| side.calls > side.errors && side.times.is_empty();
        let is_untimed =
            stage.limits_times() && stage.tried().into_iter().any(|which| is_untimed(self.judged(which)));
        is_untimed.then(|| "nobody measures how long its calls take".to_owned())
    }

    /// Whether all conditions of the stage hold for each version that is tried. Where it gets calls, one of them must have been
    /// answered without an error: times that nobody measured keep every limit.
    #[must_use]
    pub fn conditions_hold(&self, stage: &Stage) -> bool {
        if self.uncounted.is_some() {
            return !stage.is_judged_by_calls();
        }
        if self.why_unjudged(stage).is_some() {
            return false;
        }
        let holds = |side: &Side| {
            let is_proven = stage.new_traffic == 0 && side.calls == 0 || side.calls > side.errors;
            let mut conditions = stage.conditions.iter();
            is_proven && conditions.all(|condition| condition.holds(side.value_of(condition.metric)))
        };
        stage.tried().into_iter().all(|which| holds(self.judged(which)))
    }

    /// Why the conditions of the stage don't hold: which of them a version breaks, with what was measured, for people. `None`: they hold, or
    /// nothing was measured.
    #[must_use]
    pub fn broken_condition(&self, stage: &Stage) -> Option<String> {
        let broken = |which: usize| {
            let side = self.judged(which);
            let breaks = |condition: &&Condition| !condition.holds(side.value_of(condition.metric));
            let compared = |condition: &Condition| {
                let of = |side: &Side| side.measured(condition.metric);
                Some(condition.compared(of(side)?, of(self.base())))
            };
            let none = || {
                let (calls, errors) = (side.calls, side.errors);
                (calls > 0 && calls == errors).then(|| format!("all of its {calls} calls failed"))
            };
            let text = stage.conditions.iter().find(breaks).and_then(compared).or_else(none)?;
            let name = self.names.get(which).filter(|_| self.names.len() > 2);
            Some(name.map_or_else(|| text.clone(), |name| format!("variation {name}: {text}")))
        };
        stage.tried().into_iter().find_map(broken)
    }

    /// All parts, those that go on among them.
    fn parts(&self) -> Parts {
        let mut all = self.kept.clone();
        for open in self.open.iter().filter(|open| !open.sides.is_empty()) {
            all.add(open.interval, open.percent, &open.sides, open.groups.as_ref());
        }
        all
    }
}

fn of_a_function() -> Vec<String> {
    [BASE, NEW].map(str::to_owned).into()
}

/// What the new one of two versions was to get, where that is a whole percentage.
fn percent_of(shares: &[u16]) -> Option<u8> {
    let [_, new] = shares else { return None };
    u8::try_from(new / 100).ok().filter(|_| new % 100 == 0)
}

impl Parts {
    /// What was counted of each share, those first that are no percentage.
    fn each(&self) -> impl Iterator<Item = (Option<u8>, &Self)> {
        let by_percent = self.by_percent.iter().map(|(percent, parts)| (Some(*percent), parts));
        iter::once((None, self)).chain(by_percent)
    }

    fn add(&mut self, interval: u32, percent: Option<u8>, sides: &Sides, groups: Option<&Groups>) {
        let count: usize = self.each().map(|(_, parts)| parts.intervals.len()).sum();
        let of = match percent {
            None => self,
            Some(percent) => self.of_percent(percent),
        };
        let is_known = of.intervals.contains_key(&interval);
        let last = of.intervals.last_key_value().map(|(last, _)| *last);
        let interval = last.filter(|_| !is_known && count >= MAX_PARTS).unwrap_or(interval);
        of.intervals.entry(interval).or_default().merge(sides);
        if let Some(groups) = groups {
            of.groups.get_or_insert_default().merge(groups);
        }
    }

    fn of_percent(&mut self, percent: u8) -> &mut Self {
        let at = self.by_percent.iter().position(|(known, _)| *known == percent).unwrap_or_else(|| {
            self.by_percent.push((percent, Self::default()));
            self.by_percent.len() - 1
        });
        &mut self.by_percent[at].1
    }
}
