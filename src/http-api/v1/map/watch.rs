//! One look for all who watch the same map.
//!
//! A [`Watch`] is there while somebody watches, and a little longer, so that whoever has loaded a map can follow it. Its task looks again
//! when the trail says that something happened to the release (of the fleet nobody says so, and it looks by itself), never sooner than [`pause`]
//! after the last look: what looks take of a processor is a twentieth of the time as a rule, however
//! many watch and however much happens; what is seen is never more than [`LONGEST_PAUSE`] and a look old. Who asks for the map in
//! between waits for [`LONGEST_WAIT`] at most, with all who ask as well, for a look of their own.
//! Each look is a generation; what differs from the one before is kept for some generations, so that a stream that was cut goes on.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{
        Semaphore,
        broadcast::error::{RecvError, TryRecvError},
        watch,
    },
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{
    binary,
    parts::{MapView, Subject, look},
    rows::{Rows, STATE},
};
use crate::{Context, problem::Problem, scope::Scope};
use engine::{
    EngineError,
    blocking::{self, giving_way},
};
use language::Strategy;
use model::MapState;

/// Maps that are watched at once; more are refused for the moment.
const MAX_WATCHED: usize = 64;

/// Those of one tenant among them.
const MAX_WATCHED_OF_TENANT: usize = 16;

/// Nobody looks more often.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);

/// A pause is so many times as long as the look before it worked.
const PAUSES_A_LOOK: u32 = 20;

/// So long a map is kept after the last one who watched it has gone.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// How often it is asked whether anybody still watches, and the fleet is looked at if so.
const CHECK: Duration = Duration::from_secs(10);

/// While nothing is committed a map is the same for so long: who falls silent does so without.
const SAME_FOR: Duration = Duration::from_secs(1);

/// Who asks waits no longer for a look that is not too soon after the one before.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Generations that a stream can go on from.
const MAX_DELTAS: usize = 240;

/// Names of series for each millisecond.
const SERIES_A_MS: u64 = 1_024;

/// Changes in them, all together.
const MAX_CHANGES_KEPT: usize = 2_000_000;

/// What is shown as live is never older, however many there are to be looked at.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long after a look nobody looks again.
fn pause(worked: Duration) -> Duration {
    (worked * PAUSES_A_LOOK).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

/// What changed from one look to the next.
#[derive(Debug)]
pub struct Delta {
    pub generation: u32,
    /// Number, byte of the state, wave.
    pub changed: Vec<(u32, u8, u32)>,
    /// Children take part that were not on the map, or some are gone or elsewhere: it has to be loaded again.
    pub is_new: bool,
    /// As it is sent, made once for all.
    pub text: OnceLock<Vec<Bytes>>,
}

/// What everybody sees.
#[derive(Debug)]
pub struct SharedMap {
    pub epoch: u64,
    pub generation: u32,
    pub rows: Arc<Rows>,
    pub strategy: Option<Arc<Strategy>>,
    pub deltas: VecDeque<Arc<Delta>>,
    /// It is over and has left memory: little will change, and to look at it is dear.
    pub is_past: bool,
    of_release: bool,
    body: OnceLock<Bytes>,
}

impl SharedMap {
    /// The whole map as bytes, written once for all.
    pub fn body(&self) -> Bytes {
        let write = || binary::write(&self.rows, self.epoch, self.generation, self.of_release).into();
        self.body.get_or_init(write).clone()
    }

    /// What came after a generation, in order; `None`: that is not known any more.
    pub fn since(&self, epoch: u64, generation: u32) -> Option<Vec<Arc<Delta>>> {
        let first = self.deltas.front().map_or(self.generation + 1, |delta| delta.generation);
        let is_known = epoch == self.epoch && generation <= self.generation && generation + 1 >= first;
        is_known.then(|| self.deltas.iter().filter(|delta| delta.generation > generation).cloned().collect())
    }
}

/// When it was looked at, how much work that was, and what had been heard by then.
#[derive(Debug, Clone, Copy)]
struct Stopwatch {
    began: Instant,
    ended: Instant,
    /// A look rests where the process has other things to do, and no pause grows by that.
    worked: Duration,
    news: u64,
    /// Commits of the manager before it.
    commits: u64,
}

/// A map that somebody watches.
#[derive(Debug)]
pub struct Watch {
    subject: Subject,
    epoch: u64,
    shown: watch::Sender<Option<Arc<SharedMap>>>,
    /// Held while somebody looks, or is about to.
    looking: tokio::sync::Mutex<Option<Stopwatch>>,
    /// How often something happened to the release.
    news: AtomicU64,
}

impl Watch {
    /// What is shown at least as of this call. Of several who ask at once, one looks for all, and not too soon after the look before.
    pub async fn fresh(&self, ctx: &Context) -> Result<Arc<SharedMap>, Problem> {
        let asked = Instant::now();
        let mut looking = self.looking.lock().await;
        let last = self.shown.borrow().clone();
        if let (Some(stopwatch), Some(shown)) = (*looking, last) {
            let nothing_happened = stopwatch.commits == commits(ctx) && stopwatch.began.elapsed() < SAME_FOR;
            if stopwatch.began >= asked || nothing_happened || shown.is_past && self.is_unchanged(stopwatch) {
                return Ok(shown);
            }
            let wait = pause(stopwatch.worked).min(LONGEST_WAIT);
            sleep_until(stopwatch.ended + wait).await;
        }
        let (began, news, commits) = (Instant::now(), self.news.load(Ordering::Relaxed), commits(ctx));
        let found = look(ctx, &self.subject).await?;
        let before = self.shown.borrow().clone();
        let of_release = self.subject.release.is_some();
        let epoch = self.epoch;
        let worked = found.worked;
        let compare = move || Arc::new(next(epoch, before.as_deref(), found, of_release));
        let (shown, compared) = blocking::run(move || blocking::timed(compare)).await?;
        // Nobody is told again what has not changed.
        self.shown.send_if_modified(|kept| {
            let is_news = kept.as_ref().is_none_or(|kept| kept.generation != shown.generation);
            *kept = Some(Arc::clone(&shown));
            is_news
        });
        let worked = worked + compared;
        *looking = Some(Stopwatch { began, ended: Instant::now(), worked, news, commits });
        Ok(shown)
    }

    /// Whether nothing was heard of it since a look that isn't long ago.
    fn is_unchanged(&self, stopwatch: Stopwatch) -> bool {
        self.news.load(Ordering::Relaxed) == stopwatch.news && stopwatch.ended.elapsed() < LONGEST_PAUSE
    }

    /// Follows what is shown.
    pub fn follow(&self) -> watch::Receiver<Option<Arc<SharedMap>>> {
        self.shown.subscribe()
    }

    /// When the next look may be.
    async fn next_look(&self) -> Instant {
        let last = *self.looking.lock().await;
        last.map_or_else(Instant::now, |last| last.ended + pause(last.worked))
    }
}

/// How much the manager has committed so far.
fn commits(ctx: &Context) -> u64 {
    ctx.view().stats.commits.load(Ordering::Relaxed)
}

/// What is shown after a look.
fn next(epoch: u64, before: Option<&SharedMap>, found: MapView, of_release: bool) -> SharedMap {
    let MapView { rows, is_past, strategy, worked: _ } = found;
    let (mut generation, mut deltas) = (0, VecDeque::new());
    if let Some(before) = before {
        (generation, deltas) = (before.generation, before.deltas.clone());
        let (changed, is_new) = differences(&before.rows, &rows);
        if is_new || !changed.is_empty() {
            generation += 1;
            deltas.push_back(Arc::new(Delta { generation, changed, is_new, text: OnceLock::new() }));
        }
        let mut kept: usize = deltas.iter().map(|delta| delta.changed.len()).sum();
        while deltas.len() > MAX_DELTAS || kept > MAX_CHANGES_KEPT {
            kept -= deltas.pop_front().map_or(0, |delta| delta.changed.len());
        }
    }
    let rows = Arc::new(rows);
    SharedMap { epoch, generation, rows, strategy, deltas, is_past, of_release, body: OnceLock::new() }
}

/// Whose state or wave is another, and whether what is shown can't be made of these: children with a part are there that were not, or one
/// is gone or elsewhere.
fn differences(before: &Rows, after: &Rows) -> (Vec<(u32, u8, u32)>, bool) {
    let (mut changed, mut is_new, mut at) = (Vec::new(), false, 0);
    for (now, number) in giving_way(after.numbers.iter().enumerate()) {
        while before.numbers.get(at).is_some_and(|old| old < number) {
            is_new = true;
            at += 1;
        }
        let (state, wave) = (after.states[now], after.waves[now]);
        if before.numbers.get(at) == Some(number) {
            is_new |= (before.x[at], before.y[at]) != (after.x[now], after.y[now]);
            if (before.states[at], before.waves[at]) != (state, wave) {
                changed.push((*number, state, wave));
            }
            at += 1;
        } else {
            // Of those without a part it is enough that who loads the map the next time sees them.
            is_new |= state & STATE != MapState::NoPart.number();
        }
    }
    (changed, is_new || at < before.numbers.len())
}

/// The maps that are watched.
#[derive(Debug)]
pub struct Maps {
    watched: Mutex<HashMap<Subject, Kept>>,
    /// Whose turn it is to fold the past of a release.
    pub replaying: Semaphore,
    /// Series of looks so far.
    series: AtomicU64,
}

impl Default for Maps {
    fn default() -> Self {
        Self { watched: Mutex::default(), replaying: Semaphore::new(1), series: AtomicU64::new(0) }
    }
}

/// A map, how many watch it, and since when nobody does.
#[derive(Debug)]
struct Kept {
    watch: Arc<Watch>,
    viewers: usize,
    left: Instant,
}

/// Somebody watches a map, as long as this is there.
pub struct Viewer {
    ctx: Context,
    pub watch: Arc<Watch>,
}

impl Drop for Viewer {
    fn drop(&mut self) {
        if let Some(kept) = self.ctx.maps.locked().get_mut(&self.watch.subject) {
            kept.viewers = kept.viewers.saturating_sub(1);
            kept.left = Instant::now();
        }
    }
}

impl Maps {
    fn locked(&self) -> MutexGuard<'_, HashMap<Subject, Kept>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many maps are watched, or were a moment ago.
    pub fn len(&self) -> usize {
        self.locked().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of a new series of looks, other than those before, also in another life of the manager. Below 2⁵³, so that it is exact
    /// wherever it is read.
    fn epoch(&self, wall_ms: i64) -> u64 {
        let number = self.series.fetch_add(1, Ordering::Relaxed) % SERIES_A_MS;
        u64::try_from(wall_ms).unwrap_or(0) * SERIES_A_MS + number
    }

    /// Forgets a map that nobody watches any more; answers whether it is forgotten.
    fn forget(&self, watch: &Arc<Watch>) -> bool {
        let mut all = self.locked();
        let kept = all.get(&watch.subject).filter(|kept| Arc::ptr_eq(&kept.watch, watch));
        let Some(kept) = kept else { return true };
        let is_left = kept.viewers == 0 && kept.left.elapsed() >= KEPT_FOR;
        if is_left {
            all.remove(&watch.subject);
        }
        is_left
    }
}

/// Makes room for one more: whoever was left first goes. `false`: all are watched.
fn make_room(all: &mut HashMap<Subject, Kept>, wanted: &Scope) -> bool {
    let of_tenant = |subject: &Subject| matches!(wanted, Scope::Tenant(_)) && subject.scope == *wanted;
    let is_full = all.keys().filter(|subject| of_tenant(subject)).count() >= MAX_WATCHED_OF_TENANT;
    if !is_full && all.len() < MAX_WATCHED {
        return true;
    }
    let left = all.iter().filter(|(subject, kept)| kept.viewers == 0 && (!is_full || of_tenant(subject)));
    let first = left.min_by_key(|(_, kept)| kept.left).map(|(subject, _)| subject.clone());
    first.is_some_and(|first| all.remove(&first).is_some())
}

/// Watches a map, with all who do so already.
pub fn watch(ctx: &Context, subject: Subject) -> Result<Viewer, Problem> {
    let mut all = ctx.maps.locked();
    if let Some(kept) = all.get_mut(&subject) {
        kept.viewers += 1;
        return Ok(Viewer { ctx: ctx.clone(), watch: Arc::clone(&kept.watch) });
    }
    if !make_room(&mut all, &subject.scope) {
        return Err(EngineError::Busy.into());
    }
    let watch = Arc::new(Watch {
        subject: subject.clone(),
        epoch: ctx.maps.epoch(ctx.engine.clock().now().wall_ms),
        shown: watch::Sender::new(None),
        looking: tokio::sync::Mutex::default(),
        news: AtomicU64::new(0),
    });
    all.insert(subject, Kept { watch: Arc::clone(&watch), viewers: 1, left: Instant::now() });
    tokio::spawn(attend(ctx.clone(), Arc::clone(&watch)));
    Ok(Viewer { ctx: ctx.clone(), watch })
}

/// Looks again whenever something happened, until nobody watches.
async fn attend(ctx: Context, watch: Arc<Watch>) {
    let mut events = ctx.engine.events();
    let stopping = ctx.stopping.clone();
    let mut check = interval(CHECK);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let is_fleet = watch.subject.release.is_none();
    let mut is_due = false;
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            _ = check.tick() => {
                if ctx.maps.forget(&watch) {
                    return;
                }
                // Who calls and who is silent is in no trail.
                is_due |= is_fleet;
            }
            happened = events.recv() => match happened {
                Ok(rows) => is_due |= watch.subject.release.as_deref().is_some_and(|id| {
                    let key = ctx.view().releases.key_of(id);
                    rows.iter().any(|row| key.is_some_and(|key| row.release_key == Some(key.0)))
                }),
                Err(RecvError::Lagged(_)) => is_due |= !is_fleet,
                Err(RecvError::Closed) => return,
            },
        }
        if is_due && !is_fleet {
            watch.news.fetch_add(1, Ordering::Relaxed);
        }
        // Nobody follows: who comes next looks.
        if !is_due || watch.shown.receiver_count() == 0 {
            is_due = false;
            continue;
        }
        let next = watch.next_look().await;
        tokio::select! {
            () = stopping.cancelled() => return,
            () = sleep_until(next) => {}
        }
        // What happened while it waited is part of this look.
        while !matches!(events.try_recv(), Err(TryRecvError::Empty | TryRecvError::Closed)) {}
        // One that fails is due again at the next check.
        is_due = match watch.fresh(&ctx).await {
            Ok(_) => false,
            Err(problem) => {
                tracing::warn!(?problem, "a map could not be looked at; that is tried again");
                true
            }
        };
    }
}
