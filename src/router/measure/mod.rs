//! Calls of routers of others, counted from the lines that they log: in the same form as the embedded proxy counts its own, so that
//! whoever judges needn't know the difference.
//!
//! ```text
//! nginx, HAProxy ──datagrams──▶ sockets ──▶ `line` ──▶ `splits`: which split ──▶ `counting` ──interval──▶ `losses` ──▶ counts
//!                                                                    the router's own totals ──┘
//! ```
//!
//! A router that logs no lines and counts its calls itself is asked for its counts instead, by interval ([`Counters`]).
//!
//! Invariants, which `tests/router/measure/` asserts:
//!
//! 1. A line never holds a call up: routers send it as a datagram and don't wait, whether anybody listens, reads, or has room.
//! 2. No line is believed: what isn't of our form, names a service or variation that isn't wanted, or comes from another user, is
//!    counted as that and is in no other number. Work and memory have a bound for each line, and for all.
//! 3. What was lost is known: the calls that a router itself says have ended, less the lines that came. An interval of which more than
//!    [`MOST_LOST`] is missing is not measured: nothing of it is counted but what is gone. A line that comes after its
//!    call was said to be lost is counted in the interval in which it comes, and its call is no lost one from then on: each call is one.
//! 4. A call is counted in the split by which it was given out: that in force when its variation was chosen. Those that were given out
//!    while a change was under way are in none.
//! 5. An interval is given once it is closed, and what was lost of it is known; so there is none that goes on.
//!
//! Times are in whole milliseconds, as routers have them, and say so ([`call_metrics::Times::step_us`]). Counts have none.
//!
//! # What an operator sets up
//!
//! - The user that the router's workers run as has to be named, unless it is that of this program: the socket is that user's alone.
//! - `HAProxy` with a `chroot`: the socket has to stand within it, and the path in its configuration begins there.
//! - nginx with other sites beside these services: say so ([`Totals::Untold`]), since it counts the calls of all as one. The same is so while it
//!   leads services of TCP or UDP, whose sessions are in none of its counts. How many lines are lost isn't known then, and what came is
//!   judged: lines are lost by how many come at once, whichever variation they are of.
//! - Much traffic: `net.unix.max_dgram_qlen`, the lines that wait for us at once in one of 16 sockets, is 10 unless it is set. That is enough
//!   for what comes while this program isn't scheduled, but not on every machine; 512 is. Too little shows as lost lines, never as slow
//!   calls.

mod counters;
mod counting;
mod losses;
mod socket;
mod splits;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread::JoinHandle,
    time::Duration,
};

use crate::log_line::{LogPath, Logged, NotALine};
use call_metrics::{CallMetrics, Cursor, Key, Moment, Reading, Retention, Tally, Timeline};
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};
use traffic::{
    MeasuredBy,
    desired::{DesiredConfig, Number},
};

pub use self::counters::{CounterKey, Counters, Counts};
use self::{
    counters::{Between, LastAnswer},
    counting::Counting,
    losses::Losses,
    splits::Splits,
};
use crate::{Router, task::Task};

/// Microseconds of a step of a router's clock.
pub const STEP_US: u32 = MeasuredBy::Log.clock_step_us();

/// The part of an interval's calls that may be missing: above, nothing is said of it.
pub const MOST_LOST: f64 = 0.01;

/// Before each look at a router's totals and the lines, until no line is missing; the best of them counts. A call that ends between the
/// total and its line is no lost one, nor is one whose line waits because this program isn't scheduled.
const LOOKS_AFTER: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// So long it is waited for a router's totals before what came meanwhile is not measured.
const LONGEST_UNTOLD: Duration = Duration::from_secs(30);

/// What is set of it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the first socket is made; the others stand beside it ([`LogPath::lane`]). A router that sees other folders is told another
    /// path.
    pub socket: LogPath,
    /// The user that sends the lines, by its number; none: that of this program.
    pub sender: Option<u32>,
    /// How many seconds an interval has: so late something is seen at most, and so many calls it takes for one lost line not to be more
    /// than [`MOST_LOST`].
    pub interval_seconds: u32,
    pub room: Retention,
}

impl Settings {
    /// Intervals of a second.
    #[must_use]
    pub fn at(socket: LogPath) -> Self {
        Self { socket, sender: None, interval_seconds: 1, room: Retention::default() }
    }
}

/// What a router says of all calls that it carried out and that have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Totals {
    /// By process: each counts from its own start, and lines name it where there are several.
    Ended(BTreeMap<u32, u64>),
    /// It doesn't count those of our services apart.
    Untold,
}

/// How the lines came, since this began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Reception {
    /// Lines of calls.
    pub calls: u64,
    /// Of these, the ones of what was no call, or was given to no variation.
    pub unserved: u64,
    /// Lines of another form, or of services and variations that aren't wanted.
    pub nonsense: u64,
    /// Lines of users who have nothing to say here.
    pub of_others: u64,
    /// Calls of which no line came so far; none where the router doesn't tell.
    pub lost: Option<u64>,
    /// Intervals that were not measured, since too many lines were lost, or nobody could tell.
    pub not_measured: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    #[error("{path}: lines of routers can't be received there: {source}", path = path.display())]
    Socket { path: PathBuf, source: std::io::Error },
}

/// Counts calls, from its making to its end.
#[derive(Debug)]
pub struct Measure {
    inside: Arc<Mutex<Inside>>,
    timeline: Timeline,
    /// None: no lines are received, and the router is asked for its counts.
    lines: Option<Lines>,
}

/// Receives lines.
#[derive(Debug)]
struct Lines {
    receiver: socket::Sockets,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inside {
    splits: Splits,
    counting: Counting,
    losses: Losses,
    /// Of a router that is asked for its counts.
    last_answer: LastAnswer,
    /// Why nothing is counted now.
    uncounted: Option<String>,
    /// Services whose stable variation had calls without a target in the last interval, each with a sentence.
    alarms: BTreeMap<String, String>,
    call_metrics: CallMetrics,
    reception: Reception,
    /// Calls of intervals that were not measured.
    gone: u64,
}

impl Measure {
    /// Makes the sockets, and receives what comes from now on.
    ///
    /// # Errors
    ///
    /// A socket can't be made: another one is in use there, the folder isn't there, or its user can't be set.
    pub fn open(settings: Settings) -> Result<Arc<Self>, MeasureError> {
        let Settings { socket: path, sender, interval_seconds, room } = settings;
        let failed = |source| MeasureError::Socket { path: path.as_str().into(), source };
        let receiver = socket::Sockets::bind(&path, sender).map_err(failed)?;
        let timeline = Timeline::new(Instant::now(), interval_seconds);
        let inside = Arc::new(Mutex::new(Inside::new(timeline, room)));
        let (into, from) = (Arc::clone(&inside), receiver.again().map_err(failed)?);
        let name = "router-lines".to_owned();
        let work = move || from.receive(|batch| lock(&into).take(batch));
        let thread = std::thread::Builder::new().name(name).spawn(work).map_err(failed)?;
        Ok(Arc::new(Self { inside, timeline, lines: Some(Lines { receiver, thread: Some(thread) }) }))
    }

    /// Asks the router for its counts, once in each interval.
    #[must_use]
    pub fn asking(interval_seconds: u32) -> Arc<Self> {
        let timeline = Timeline::new(Instant::now(), interval_seconds);
        let inside = Arc::new(Mutex::new(Inside::new(timeline, Retention::default())));
        Arc::new(Self { inside, timeline, lines: None })
    }

    /// How long an interval is.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.timeline.length()
    }

    /// Why nothing is counted now.
    #[must_use]
    pub fn uncounted(&self) -> Option<String> {
        self.inside().uncounted.clone()
    }

    /// What somebody is to look at now, in sentences: calls of stable variations for which the router took no target to be there.
    #[must_use]
    pub fn alarms(&self) -> Vec<String> {
        self.inside().alarms.values().cloned().collect()
    }

    /// Closes intervals from now on, as long as the answer is held: what the router says of its totals tells what was lost, or counts it.
    #[must_use]
    pub fn count(self: &Arc<Self>, router: &Arc<dyn Router>) -> CountingGuard {
        let (this, router) = (Arc::downgrade(self), Arc::downgrade(router));
        CountingGuard(tokio::spawn(close_intervals(this, router)).into())
    }

    /// What the splits of services are called in counts, from the wanted state of this number on. Without a name a split has that of the
    /// number by which it came into force.
    pub fn announce(&self, number: Number, splits: BTreeMap<String, String>) {
        self.inside().splits.announce(number, splits);
    }

    /// What there is after a cursor, and says that everything before it was read. There is none that goes on.
    #[must_use]
    pub fn since(&self, cursor: Cursor) -> Reading {
        let mut inside = self.inside();
        let mut reading = inside.call_metrics.since(cursor);
        reading.gone += inside.gone;
        reading
    }

    #[must_use]
    pub fn reception(&self) -> Reception {
        self.inside().reception
    }

    /// A router is about to be told this: what is given out from now on is in no split, where shares change.
    pub(crate) fn changing(&self, wanted: &DesiredConfig) {
        self.inside().splits.changing(wanted, Moment::now());
    }

    /// A router does this from now on, as far as it says.
    pub(crate) fn told(&self, wanted: &DesiredConfig) {
        self.inside().splits.told(wanted, Moment::now());
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        lock(&self.inside)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.receiver.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Intervals are closed while this is held.
#[derive(Debug)]
pub struct CountingGuard(#[allow(dead_code, reason = "it ends with whoever holds it")] Task);

/// One line as it came.
pub(crate) struct Came<'d> {
    /// From a user who may send some.
    pub is_allowed: bool,
    pub datagram: &'d [u8],
}

impl Inside {
    fn new(timeline: Timeline, room: Retention) -> Self {
        Self {
            splits: Splits::default(),
            counting: Counting::default(),
            losses: Losses::default(),
            last_answer: LastAnswer::default(),
            uncounted: None,
            alarms: BTreeMap::new(),
            call_metrics: CallMetrics::new(timeline, room, fastrand::u64(1..)),
            reception: Reception { lost: Some(0), ..Reception::default() },
            gone: 0,
        }
    }

    fn take(&mut self, came: &Came<'_>) {
        if !came.is_allowed {
            self.reception.of_others += 1;
            return;
        }
        match crate::log_line::read(came.datagram) {
            Err(NotALine) => self.reception.nonsense += 1,
            Ok(Logged::Question) => self.losses.question_came(),
            Ok(Logged::Call(line)) => match self.splits.key_of(&line) {
                splits::LineTarget::Unknown => self.reception.nonsense += 1,
                splits::LineTarget::Unserved => {
                    self.reception.calls += 1;
                    self.reception.unserved += 1;
                    // Where processes count apart, they count what was given to a variation.
                    if line.process.is_none() {
                        self.losses.came(None);
                    }
                }
                splits::LineTarget::Key(key) => {
                    self.reception.calls += 1;
                    self.losses.came(line.process);
                    self.counting.note(key, &line);
                }
            },
        }
    }

    /// What came since the last interval is that of the one before `open`, or in none.
    fn close(&mut self, open: u64, verdict: losses::Verdict) {
        let moment = Moment::now();
        let counted = self.counting.take();
        let calls: u64 = counted.iter().map(|(_, tally)| tally.calls).sum();
        self.note_alarms(&counted);
        let (lost, late) = match verdict {
            losses::Verdict::Told { lost, late } => (lost, late),
            losses::Verdict::Untold => {
                self.reception.lost = None;
                (0, 0)
            }
            losses::Verdict::NotMeasured => {
                self.reception.not_measured += 1;
                self.gone += calls;
                self.call_metrics.close(open);
                return;
            }
        };
        // What comes late is counted as a call, so it is no lost one any more.
        if let Some(all) = &mut self.reception.lost {
            *all = (*all + lost).saturating_sub(late);
        }
        self.gone = (self.gone + lost).saturating_sub(late);
        if lost as f64 > MOST_LOST * (calls + lost) as f64 {
            self.reception.not_measured += 1;
            self.gone += calls;
        } else {
            for (key, tally) in &counted {
                self.call_metrics.absorb(open.saturating_sub(1), key, tally, moment);
            }
        }
        self.call_metrics.close(open);
    }

    /// Notes which services had calls without a target of their stable variation.
    fn note_alarms(&mut self, counted: &[(Arc<Key>, Tally)]) {
        let mut calls = BTreeMap::<&Key, u64>::new();
        for (key, tally) in
            counted.iter().filter(|(key, tally)| tally.no_target > 0 && self.splits.is_stable(key))
        {
            *calls.entry(key).or_default() += tally.no_target;
        }
        let sentence = |(key, calls): (&Key, u64)| {
            let Key { service, variation, .. } = key;
            let text =
                format!("{service}: {calls} calls found no target of its stable variation {variation}");
            (service.clone(), text)
        };
        let alarms: BTreeMap<String, String> = calls.into_iter().map(sentence).collect();
        for (service, text) in &alarms {
            if !self.alarms.contains_key(service) {
                tracing::error!("{text}");
            }
        }
        self.alarms = alarms;
    }

    /// Takes in what a router says that it has counted, which it was asked while these splits were in force.
    fn take_counters(&mut self, open: u64, asked_in: BTreeMap<String, u64>, counters: Counters) {
        // It tells how many calls ended, and nothing of what it lost.
        self.reception.lost = None;
        let asked_before = std::mem::replace(&mut self.last_answer.asked_in, asked_in);
        let (of, is_whole, life) = match counters {
            Counters::Counted { of, is_whole, life } => (of, is_whole, life),
            Counters::Not(why) => {
                self.uncounted = Some(why);
                self.last_answer = LastAnswer::default();
                return self.call_metrics.close(open);
            }
        };
        self.uncounted = None;
        match self.last_answer.next(of, is_whole, life) {
            Between::First => {}
            Between::BeganAnew { calls } => {
                self.reception.not_measured += 1;
                self.gone = self.gone.saturating_add(calls);
            }
            Between::Counted(more) => {
                let moment = Moment::now();
                for (counted, tally) in more {
                    let since = asked_before.get(&counted.service).copied();
                    let Some(key) = self.splits.key_since(since, &counted) else { continue };
                    self.reception.calls += tally.calls;
                    self.call_metrics.absorb(open.saturating_sub(1), key, &tally, moment);
                }
            }
        }
        self.call_metrics.close(open);
    }
}

async fn close_intervals(measure: Weak<Measure>, router: Weak<dyn Router>) {
    let mut untold_since = None;
    loop {
        let Some((timeline, now)) = measure.upgrade().map(|this| (this.timeline, Instant::now())) else {
            return;
        };
        sleep_until(timeline.start_of(timeline.interval_at(now) + 1)).await;
        let (Some(this), Some(router)) = (measure.upgrade(), router.upgrade()) else { return };
        if this.lines.is_none() {
            ask(&this, &*router, &mut untold_since).await;
            continue;
        }
        let looked = look(&this, &*router).await;
        let now = Instant::now();
        let is_untold = looked.is_none();
        let since = *untold_since.get_or_insert(now);
        let verdict = match looked {
            Some(verdict) => verdict,
            // What came meanwhile waits: the next totals tell of it, too.
            None if now.duration_since(since) < LONGEST_UNTOLD => continue,
            None => losses::Verdict::NotMeasured,
        };
        if !is_untold {
            untold_since = None;
        }
        this.inside().close(timeline.interval_at(now), verdict);
    }
}

/// Asks a router for its counts. While it doesn't answer nothing is missed: its next answer has all that came meanwhile.
async fn ask(measure: &Measure, router: &dyn Router, untold_since: &mut Option<Instant>) {
    let asked_in = measure.inside().splits.in_force();
    match router.counters().await {
        Ok(counters) => {
            *untold_since = None;
            measure.inside().take_counters(measure.timeline.interval_at(Instant::now()), asked_in, counters);
        }
        Err(error) => {
            let since = *untold_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= LONGEST_UNTOLD {
                measure.inside().uncounted = Some(error.to_string());
            }
        }
    }
}

/// What was lost until now; none where the router can't be asked.
async fn look(measure: &Measure, router: &dyn Router) -> Option<losses::Verdict> {
    let mut looks = Vec::new();
    for pause in LOOKS_AFTER {
        sleep(pause).await;
        let before = measure.inside().losses.received();
        match router.totals().await {
            Ok(Totals::Untold) => return Some(losses::Verdict::Untold),
            Ok(Totals::Ended(ended)) => {
                let inside = measure.inside();
                let look = losses::Snapshot::new(ended, before, inside.losses.received());
                let is_last = inside.losses.are_all_there(&look);
                looks.push(look);
                if is_last {
                    break;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "the router's totals aren't known");
                return None;
            }
        }
    }
    let mut inside = measure.inside();
    Some(inside.losses.settle(&looks))
}

fn lock(inside: &Mutex<Inside>) -> MutexGuard<'_, Inside> {
    inside.lock().unwrap_or_else(PoisonError::into_inner)
}
