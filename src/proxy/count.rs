//! What a thread counts, off the path of calls: no lock, nothing that another thread writes, and one reading of the clock when
//! a call ends.
//!
//! Each call of the split is counted once, **when it ends**, in the interval in which it ends, at the version that the table gave
//! it to. So of a [`Tally`] holds: its calls are those that succeeded, plus those of each other class. A call that was passed
//! over or repeated is the new version's, and in no number of the stable one, whoever answered it.
//!
//! A thread notes which tallies were touched since they were last taken. That list, not the table, is what is taken from: so a
//! table that goes takes nothing with it, and calls that are in flight on it are counted when they end. It holds tallies and not
//! versions, lest a version that has left isn't drained until somebody counts.
//!
//! **The time of a call** begins when its head is whole and ends when the last byte of the version's answer was read. It includes the wait
//! for a place at the version, a connection to it, and the caller's body. The time in which the proxy couldn't read on because the
//! caller took nothing is left out: a slow reader isn't the version's fault.
//!
//! A connection of TCP and a flow of UDP is one call. Its time is all the time from its first byte to the last, and says nothing of
//! how fast the version is.

mod flows;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use traffic::{Failure, GROUPS};

use crate::{
    access_log::{Entry, Line},
    shadow::Likeness,
};
use call_metrics::{Key, Recorder, Tally, Timeline, UnservedCalls};

pub(crate) use self::flows::Course;

/// What a thread counts of a version under the shares of one table.
#[derive(Debug)]
pub(crate) struct VersionCounts {
    key: Arc<Key>,
    /// Whether it is among those that are taken next.
    is_touched: Cell<bool>,
    counts: RefCell<Counting>,
}

/// Counts that go on.
#[derive(Debug, Default)]
struct Counting {
    /// All but the times.
    tally: Tally,
    times: Recorder,
    client_error_times: Recorder,
    /// Both, by the group of the call's key.
    times_of_groups: Option<Box<[Recorder; GROUPS as usize]>>,
    /// Of copies; none where there are none.
    copy_times: Option<Box<Recorder>>,
}

/// How a copy of a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyEnd {
    Answered {
        status: u16,
        likeness: Likeness,
        took: Duration,
    },
    Failed(Failure),
    Cut,
    /// It wasn't made: there was no place for it.
    Dropped,
}

/// How a version did with a call that it had to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    /// In so many microseconds.
    Answered(u32),
    Failed,
}

/// What was counted in one interval.
#[derive(Debug)]
pub(crate) struct Part {
    pub interval: u64,
    pub key: Arc<Key>,
    pub tally: Tally,
}

/// Why the proxy answered a call without giving it to a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// It can't be passed on as it is.
    Refused,
    /// No service is there.
    NoService,
}

/// Where threads leave what they counted. So nothing is lost if whoever asked for it doesn't wait.
#[derive(Debug, Default)]
pub(crate) struct ThreadShard(Mutex<(Vec<Part>, UnservedCalls)>);

impl ThreadShard {
    pub(crate) fn put(&self, (parts, unserved): (Vec<Part>, UnservedCalls)) {
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.0.extend(parts);
        inside.1.add(unserved);
    }

    pub(crate) fn take(&self) -> (Vec<Part>, UnservedCalls) {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// All that one thread counts.
#[derive(Debug)]
pub(crate) struct Counts {
    timeline: Arc<Timeline>,
    /// The interval that goes on, and when it ends.
    interval: Cell<u64>,
    until: Cell<Instant>,
    touched: RefCell<Vec<Rc<VersionCounts>>>,
    /// Of intervals that are over.
    over: RefCell<Vec<Part>>,
    unserved: Cell<UnservedCalls>,
}

/// How a call came to the version that answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is tried by the version that the table gave it to.
    Given,
    /// Past that one, which fails too many.
    PassedOver,
    /// That one failed it, and it is repeated on the stable one.
    Repeated(Failure),
}

/// How a call ended, at the version that had it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its answer was passed on whole. `took`: until its last byte was read, without waiting for the caller.
    Answered {
        status: u16,
        took: Duration,
    },
    /// It was no call of HTTP, and both ends closed it. `took`: from its beginning on.
    Passed {
        took: Duration,
    },
    Failed(Failure),
    BrokenOff,
    CallerGone,
    BadBody,
    Upgraded,
    /// The proxy itself ended it.
    Cut,
}

/// A call that goes on. It is counted when it ends, also if it is dropped.
#[derive(Debug)]
pub(crate) struct CallCount<'w> {
    counts: &'w Counts,
    counted: Rc<VersionCounts>,
    /// Of the call's key.
    group: Option<u8>,
    began: Instant,
    way: Way,
    is_over: bool,
    line: Option<Box<Line>>,
}

impl VersionCounts {
    pub(crate) fn new(key: Key) -> Rc<Self> {
        Self::new_of(&Arc::new(key))
    }

    /// What another process began to count is counted on.
    pub(crate) fn new_of(key: &Arc<Key>) -> Rc<Self> {
        Rc::new(Self { key: Arc::clone(key), is_touched: Cell::default(), counts: RefCell::default() })
    }

    fn take(&self, interval: u64) -> Part {
        self.is_touched.set(false);
        let mut counts = self.counts.borrow_mut();
        let mut tally = std::mem::take(&mut counts.tally);
        tally.times = counts.times.take();
        tally.client_error_times = counts.client_error_times.take();
        if let Some((groups, times)) = tally.groups.as_mut().zip(counts.times_of_groups.as_mut()) {
            groups.times = times.iter_mut().map(Recorder::take).collect();
        }
        if let (Some(copies), Some(times)) = (&mut tally.copies, &mut counts.copy_times) {
            copies.times = times.take();
        }
        Part { interval, key: Arc::clone(&self.key), tally }
    }
}

impl Counts {
    pub(crate) fn new(timeline: Arc<Timeline>) -> Self {
        let interval = timeline.interval_at(Instant::now());
        let until = Cell::new(timeline.start_of(interval + 1));
        Self {
            timeline,
            interval: Cell::new(interval),
            until,
            touched: RefCell::default(),
            over: RefCell::default(),
            unserved: Cell::default(),
        }
    }

    /// A call whose head was whole at `began` is given to a version.
    pub(crate) fn begin(
        &self,
        counted: &Rc<VersionCounts>,
        group: Option<u8>,
        began: Instant,
        line: Option<Box<Line>>,
    ) -> CallCount<'_> {
        CallCount {
            counts: self,
            counted: Rc::clone(counted),
            group,
            began,
            way: Way::Given,
            is_over: false,
            line,
        }
    }

    /// A call was sent to a version again on a new connection, since the old one had ended.
    pub(crate) fn note_sent_again(&self, counted: &Rc<VersionCounts>) {
        self.touch(counted);
        counted.counts.borrow_mut().tally.sent_again += 1;
    }

    /// A copy of a call ended, or was not made.
    pub(crate) fn note_copy(&self, counted: &Rc<VersionCounts>, end: CopyEnd) {
        self.go_on(Instant::now());
        self.touch(counted);
        counted.counts.borrow_mut().note_copy(end);
    }

    pub(crate) fn note_unserved(&self, why: Unserved) {
        let mut unserved = self.unserved.get();
        match why {
            Unserved::Refused => unserved.refused += 1,
            Unserved::NoService => unserved.no_service += 1,
        }
        self.unserved.set(unserved);
    }

    /// What was counted since this was asked last.
    pub(crate) fn take(&self, now: Instant) -> (Vec<Part>, UnservedCalls) {
        self.go_on(now);
        self.take_touched();
        (self.over.take(), self.unserved.take())
    }

    /// Begins a new interval where the old one is over. What is counted afterwards belongs to the new one.
    fn go_on(&self, now: Instant) {
        if now >= self.until.get() {
            self.take_touched();
            let interval = self.timeline.interval_at(now);
            self.interval.set(interval);
            self.until.set(self.timeline.start_of(interval + 1));
        }
    }

    fn take_touched(&self) {
        let interval = self.interval.get();
        let touched = &mut *self.touched.borrow_mut();
        self.over.borrow_mut().extend(touched.drain(..).map(|counted| counted.take(interval)));
    }

    fn touch(&self, counted: &Rc<VersionCounts>) {
        if !counted.is_touched.replace(true) {
            self.touched.borrow_mut().push(Rc::clone(counted));
        }
    }
}

impl CallCount<'_> {
    /// The version fails too many, and the call goes to the stable one at once.
    pub(crate) fn pass_over(&mut self) {
        self.way = Way::PassedOver;
    }

    /// The version failed the call, and the stable one gets it.
    pub(crate) fn repeat(&mut self, failure: Failure) {
        self.way = Way::Repeated(failure);
    }

    /// Counts the call. `status`: what the caller got, as far as that was passed on.
    pub(crate) fn end(mut self, outcome: Outcome, status: Option<u16>) {
        self.note(outcome, status);
    }

    /// How long the call took until then, without what was spent waiting for the caller.
    pub(crate) fn took(&self, until: Instant, held: Duration) -> Duration {
        until.duration_since(self.began).saturating_sub(held)
    }

    fn note(&mut self, outcome: Outcome, status: Option<u16>) {
        self.is_over = true;
        let now = match outcome {
            // The reading is there already.
            Outcome::Answered { took, .. } | Outcome::Passed { took } => self.began + took,
            _ => Instant::now(),
        };
        self.counts.go_on(now);
        self.counts.touch(&self.counted);
        let mut counts = self.counted.counts.borrow_mut();
        let served = counts.note(self.way, outcome);
        if let Some((group, served)) = self.group.zip(served) {
            counts.note_in_group(group, served);
        }
        drop(counts);
        if let Some(line) = self.line.take() {
            let repeated = matches!(self.way, Way::Repeated(_));
            let passed_over = self.way == Way::PassedOver;
            let took = now.duration_since(self.began);
            let class = outcome.class();
            line.write(Entry {
                key: Arc::clone(&self.counted.key),
                at: now,
                took,
                status,
                class,
                repeated,
                passed_over,
            });
        }
    }
}

impl Drop for CallCount<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.note(Outcome::Cut, None);
        }
    }
}

impl Counting {
    /// Counts a call, and says how the version did with it; `None`: that says nothing of the version.
    fn note(&mut self, way: Way, outcome: Outcome) -> Option<Served> {
        let tally = &mut self.tally;
        tally.calls += 1;
        match (way, outcome) {
            (Way::PassedOver, _) => tally.passed_over += 1,
            (Way::Repeated(failure), outcome) => {
                tally.failed[failure as usize] += 1;
                tally.repeated += 1;
                tally.repeats_failed += u64::from(outcome.is_failure());
                return Some(Served::Failed);
            }
            (Way::Given, Outcome::Failed(failure)) => {
                tally.failed[failure as usize] += 1;
                return Some(Served::Failed);
            }
            (Way::Given, Outcome::BrokenOff) => {
                tally.broken_off += 1;
                return Some(Served::Failed);
            }
            (Way::Given, Outcome::CallerGone) => tally.callers_gone += 1,
            (Way::Given, Outcome::BadBody) => tally.bad_bodies += 1,
            (Way::Given, Outcome::Upgraded) => tally.upgraded += 1,
            (Way::Given, Outcome::Cut) => tally.cut += 1,
            (Way::Given, Outcome::Passed { took }) => {
                let us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
                tally.succeeded += 1;
                self.times.record(us);
                tally.seconds.note(us);
                return Some(Served::Answered(us));
            }
            (Way::Given, Outcome::Answered { status, took }) => {
                let us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
                match status {
                    500.. => {
                        tally.errors += 1;
                        return Some(Served::Failed);
                    }
                    400..500 => {
                        tally.client_errors += 1;
                        self.client_error_times.record(us);
                    }
                    ..400 => {
                        tally.succeeded += 1;
                        self.times.record(us);
                    }
                }
                tally.seconds.note(us);
                return Some(Served::Answered(us));
            }
        }
        None
    }

    fn note_in_group(&mut self, group: u8, served: Served) {
        let group = usize::from(group % GROUPS);
        let groups = self.tally.groups.get_or_insert_default();
        groups.calls[group] += 1;
        match served {
            Served::Failed => groups.failures[group] += 1,
            Served::Answered(us) => {
                let times = self
                    .times_of_groups
                    .get_or_insert_with(|| Box::new(std::array::from_fn(|_| Recorder::default())));
                times[group].record(us);
            }
        }
    }

    fn note_copy(&mut self, end: CopyEnd) {
        let copies = self.tally.copies.get_or_insert_default();
        copies.calls += u64::from(end != CopyEnd::Dropped);
        match end {
            CopyEnd::Dropped => copies.dropped += 1,
            CopyEnd::Cut => copies.cut += 1,
            CopyEnd::Failed(failure) => copies.failed[failure as usize] += 1,
            CopyEnd::Answered { status, likeness, took } => {
                match likeness {
                    Likeness::Same => copies.same += 1,
                    Likeness::SameBeginning => copies.same_beginning += 1,
                    Likeness::OtherStatus => copies.other_status += 1,
                    Likeness::OtherBody => copies.other_body += 1,
                }
                copies.errors += u64::from(status >= 500);
                if status < 400 {
                    let us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
                    copies.seconds.note(us);
                    self.copy_times.get_or_insert_default().record(us);
                }
            }
        }
    }
}

impl Outcome {
    /// Whether the version that had the call failed it.
    fn is_failure(self) -> bool {
        match self {
            Self::Answered { status, .. } => status >= 500,
            Self::Failed(_) | Self::BrokenOff => true,
            Self::Passed { .. } | Self::CallerGone | Self::BadBody | Self::Upgraded | Self::Cut => false,
        }
    }

    /// Its name in the access log.
    fn class(self) -> &'static str {
        match self {
            Self::Answered { status: 500.., .. } => "error",
            Self::Answered { status: 400..500, .. } => "client_error",
            Self::Answered { .. } | Self::Passed { .. } => "success",
            Self::Failed(failure) => failure.name(),
            Self::BrokenOff => "broken_off",
            Self::CallerGone => "caller_gone",
            Self::BadBody => "bad_body",
            Self::Upgraded => "upgraded",
            Self::Cut => "cut",
        }
    }
}
