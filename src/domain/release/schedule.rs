//! When each release is to be looked at next, and which of those that wait could begin.
//!
//! It follows from the releases alone and is renewed with each change of one, so that nobody walks over all releases to
//! find out what is due or whose turn it is: a look costs what it finds, a change the logarithm of what is open.
//!
//! Releases that change the same function share a *lane*. In a lane only the head may begin: the first, in order of
//! submission, of those that let no other pass; and only if nothing in the lane is under way. Who has a start in the
//! future lets others pass until then, so where the heads are depends on the clock on the wall: [`Schedule::turn_to`]. Among releases of
//! tenants other rules hold: [`tenancy`].

mod tenancy;

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
};

use smallvec::SmallVec;

use super::{
    clock::ReleaseMs,
    state::{Release, ReleaseState},
};
use crate::names::Names;
use language::{LateJoiners, Strategy};
use model::{Now, ReleaseKey, steps, tenant};

/// As far as whose turn it is goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueStanding {
    Over,
    UnderWay {
        /// Whether it takes children in that come later.
        open_to_all: bool,
    },
    Planned {
        deferred: bool,
        /// Not before this instant of the wall.
        starts: Option<i64>,
        /// It was overtaken so often that it lets no other pass.
        insists: bool,
        /// The parent has paused it.
        held: bool,
        /// Managers below are asked who can take part, until this serving time.
        asked_until: Option<u64>,
    },
}

impl QueueStanding {
    fn of(release: &Release) -> Self {
        match release.state {
            ReleaseState::Planned => Self::Planned {
                deferred: release.deferred,
                starts: release.starts_at(),
                insists: release.insists(),
                held: release.is_held_by_parent(),
                asked_until: release.asking,
            },
            ReleaseState::Over { .. } => Self::Over,
            ReleaseState::Running
            | ReleaseState::Paused(_)
            | ReleaseState::AwaitingApproval { .. }
            | ReleaseState::RollingBack { .. } => {
                let rollout = release.strategy.rollout.as_ref();
                let included = rollout.is_some_and(|rollout| rollout.late_joiners == LateJoiners::Include);
                Self::UnderWay { open_to_all: included && release.is_under_way() }
            }
        }
    }

    /// When it starts by itself, come or not.
    const fn starts(self) -> Option<i64> {
        match self {
            Self::Planned { deferred: false, starts, .. } => starts,
            Self::Planned { deferred: true, .. } | Self::UnderWay { .. } | Self::Over => None,
        }
    }

    /// Whether its time to start has come; always where none is given and nobody has to start it.
    fn has_come(self, wall_ms: i64) -> bool {
        match self {
            Self::Planned { deferred, starts, .. } => {
                !deferred && starts.is_none_or(|starts| starts <= wall_ms)
            }
            Self::UnderWay { .. } | Self::Over => false,
        }
    }

    /// Whether it waits for its turn.
    const fn is_planned(self) -> bool {
        matches!(self, Self::Planned { .. })
    }

    fn lets_no_other_pass(self, wall_ms: i64) -> bool {
        self.has_come(wall_ms) || matches!(self, Self::Planned { insists: true, .. })
    }
}

#[derive(Debug)]
struct QueueEntry {
    standing: QueueStanding,
    /// Its next deadline, in serving time; `None` while its clock stands still.
    due: Option<u64>,
    /// Where it is in [`Schedule::ready`].
    ready: Option<u64>,
    /// By the numbers of its functions.
    lanes: SmallVec<[u32; 2]>,
    /// Whose release it is.
    tenant: Option<Box<str>>,
}

/// Releases that change one function and are not over.
#[derive(Debug, Default)]
struct Lane {
    under_way: BTreeSet<ReleaseKey>,
    planned: BTreeSet<ReleaseKey>,
    /// Those of `planned` that let no other pass.
    firm: BTreeSet<ReleaseKey>,
}

impl Lane {
    fn head(&self) -> Option<ReleaseKey> {
        self.firm.first().copied()
    }

    fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.planned.is_empty()
    }
}

/// When each release is to be looked at next, and which of those that wait could begin.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    functions: Names,
    /// What the wall showed when it was looked at last.
    wall_ms: i64,
    entries: HashMap<ReleaseKey, QueueEntry>,
    due: BTreeSet<(u64, ReleaseKey)>,
    /// By [`QueueStanding::starts`].
    starts: BTreeSet<(i64, ReleaseKey)>,
    lanes: HashMap<u32, Lane>,
    /// Whose turn it is, by the serving time before which they don't begin: 0, or until managers have answered.
    ready: BTreeSet<(u64, ReleaseKey)>,
    open_to_all: BTreeSet<ReleaseKey>,
    /// Releases in it that are not over.
    unfinished: usize,
    /// Those of them that are tenants'.
    bound: usize,
}

impl Schedule {
    /// The wall shows this now. Costs what has come, or is to come again, by that.
    pub fn turn_to(&mut self, wall_ms: i64) {
        let before = std::mem::replace(&mut self.wall_ms, wall_ms);
        let (from, to) = (before.min(wall_ms), before.max(wall_ms));
        let last = ReleaseKey(u32::MAX);
        let between = (Bound::Excluded((from, last)), Bound::Included((to, last)));
        let passed: Vec<ReleaseKey> = self.starts.range(between).map(|(_, key)| *key).collect();
        for key in passed {
            if let Some(standing) = self.entries.get(&key).map(|entry| entry.standing) {
                self.place(key, standing);
            }
        }
    }

    /// Takes note of how a release stands; `None`: it has left memory.
    pub fn note(&mut self, key: ReleaseKey, release: Option<&Release>) {
        let Some(release) = release else {
            if self.entries.contains_key(&key) {
                self.set_due(key, None);
                self.set_standing(key, QueueStanding::Over);
                self.entries.remove(&key);
            }
            return;
        };
        let Self { entries, functions, .. } = self;
        let entry = entries.entry(key).or_insert_with(|| {
            let numbers = release.strategy.subject_keys().map(|key| functions.intern(key));
            let tenant = release.id.tenant().map(Into::into);
            let lanes = numbers.collect();
            QueueEntry { standing: QueueStanding::Over, due: None, ready: None, lanes, tenant }
        });
        let (due, standing) = (due_at(release), QueueStanding::of(release));
        let (other_due, other_standing) = (entry.due != due, entry.standing != standing);
        if other_due {
            self.set_due(key, due);
        }
        if other_standing {
            self.set_standing(key, standing);
        }
    }

    fn set_due(&mut self, key: ReleaseKey, due: Option<u64>) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let Some(before) = std::mem::replace(&mut entry.due, due) {
            self.due.remove(&(before, key));
        }
        self.due.extend(due.map(|due| (due, key)));
    }

    fn set_standing(&mut self, key: ReleaseKey, standing: QueueStanding) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let before = std::mem::replace(&mut entry.standing, standing);
        if entry.tenant.is_some() {
            self.bound -= usize::from(before != QueueStanding::Over);
            self.bound += usize::from(standing != QueueStanding::Over);
        }
        if let Some(starts) = before.starts() {
            self.starts.remove(&(starts, key));
        }
        self.starts.extend(standing.starts().map(|starts| (starts, key)));
        match standing {
            QueueStanding::UnderWay { open_to_all: true } => self.open_to_all.insert(key),
            QueueStanding::UnderWay { open_to_all: false }
            | QueueStanding::Planned { .. }
            | QueueStanding::Over => self.open_to_all.remove(&key),
        };
        self.unfinished -= usize::from(before != QueueStanding::Over);
        self.unfinished += usize::from(standing != QueueStanding::Over);
        self.place(key, standing);
    }

    /// Puts it where it belongs in its lanes, and looks whose turn that makes it.
    fn place(&mut self, key: ReleaseKey, standing: QueueStanding) {
        let Some(lanes) = self.entries.get(&key).map(|entry| entry.lanes.clone()) else { return };
        let mut concerned: SmallVec<[ReleaseKey; 8]> = SmallVec::new();
        concerned.push(key);
        for number in lanes {
            let lane = self.lanes.entry(number).or_default();
            concerned.extend(lane.head());
            put(&mut lane.under_way, key, matches!(standing, QueueStanding::UnderWay { .. }));
            put(&mut lane.planned, key, matches!(standing, QueueStanding::Planned { .. }));
            put(&mut lane.firm, key, standing.lets_no_other_pass(self.wall_ms));
            concerned.extend(lane.head());
            if lane.is_empty() {
                self.lanes.remove(&number);
            }
        }
        // Among tenants' releases it isn't the heads of these lanes alone.
        let others = if self.bound > 0 { tenancy::related(self, key) } else { Vec::new() };
        for key in concerned.into_iter().chain(others) {
            self.look(key);
        }
    }

    /// Looks whether it is the turn of a release.
    fn look(&mut self, key: ReleaseKey) {
        steps::take(1);
        let Some(entry) = self.entries.get(&key) else { return };
        let ready = match entry.standing {
            QueueStanding::Planned { held: false, asked_until, .. } if self.is_free(key, entry) => {
                Some(asked_until.unwrap_or_default())
            }
            QueueStanding::Planned { .. } | QueueStanding::UnderWay { .. } | QueueStanding::Over => None,
        };
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let Some(before) = std::mem::replace(&mut entry.ready, ready) {
            self.ready.remove(&(before, key));
        }
        self.ready.extend(ready.map(|at| (at, key)));
    }

    fn is_free(&self, key: ReleaseKey, entry: &QueueEntry) -> bool {
        if self.bound > 0 {
            return entry.standing.has_come(self.wall_ms) && !tenancy::is_held(self, key, entry);
        }
        let is_head = |lane: &Lane| lane.under_way.is_empty() && lane.head() == Some(key);
        entry.standing.has_come(self.wall_ms)
            && entry.lanes.iter().all(|number| self.lanes.get(number).is_some_and(is_head))
    }

    /// The serving time of the next look, in milliseconds; it may have passed.
    pub fn next(&self, now: Now) -> Option<u64> {
        let due = self.due.first().map(|(due, _)| *due);
        let ready = self.ready.first().map(|(at, _)| *at);
        // Whether it is its turn then shows when it comes. The wall may be turned: it is asked again at each look.
        let last = ReleaseKey(u32::MAX);
        let mut to_come = self.starts.range((Bound::Excluded((self.wall_ms, last)), Bound::Unbounded));
        let after = |start: i64| u64::try_from(start.saturating_sub(now.wall_ms)).unwrap_or_default();
        let starts = to_come.next().map(|(start, _)| now.served_ms.saturating_add(after(*start)));
        due.into_iter().chain(ready).chain(starts).min()
    }

    /// Releases with a deadline at or before this serving time, the one that waits longest first.
    pub fn due(&self, served_ms: u64) -> impl Iterator<Item = ReleaseKey> {
        let due = self.due.range(..=(served_ms, ReleaseKey(u32::MAX)));
        due.inspect(|_| steps::take(1)).map(|(_, key)| *key)
    }

    /// Whose turn it is, in order of submission.
    pub fn ready(&self, served_ms: u64) -> Vec<ReleaseKey> {
        let ready = self.ready.range(..=(served_ms, ReleaseKey(u32::MAX)));
        let mut keys: Vec<ReleaseKey> = ready.inspect(|_| steps::take(1)).map(|(_, key)| *key).collect();
        keys.sort_unstable();
        keys
    }

    /// Releases that are not over.
    pub const fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// Releases under way that children may join.
    pub fn open_to_all(&self) -> impl Iterator<Item = ReleaseKey> {
        self.open_to_all.iter().inspect(|_| steps::take(1)).copied()
    }

    /// Whether a release that has not begun may begin now.
    pub fn is_ready(&self, key: ReleaseKey) -> bool {
        self.entries.get(&key).is_some_and(|entry| entry.ready.is_some())
    }

    /// Those that are not over and change one of the functions of `strategy`, in order of submission.
    pub fn sharing(&self, strategy: &Strategy) -> Vec<ReleaseKey> {
        self.keys(strategy, |lane| lane.under_way.iter().chain(&lane.planned))
    }

    /// Releases that change one of the functions of `strategy`, have not begun and were submitted before `key`.
    pub fn planned_before(&self, strategy: &Strategy, key: ReleaseKey) -> Vec<ReleaseKey> {
        self.keys(strategy, |lane| lane.planned.range(..key))
    }

    fn keys<'a, I: Iterator<Item = &'a ReleaseKey>>(
        &'a self,
        strategy: &Strategy,
        of: impl Fn(&'a Lane) -> I,
    ) -> Vec<ReleaseKey> {
        let lane = |name: &str| self.lanes.get(&self.functions.get(name)?);
        let lanes = strategy.subject_keys().filter_map(lane);
        let tenant_of = |key: &ReleaseKey| self.entries.get(key).and_then(|entry| entry.tenant.as_deref());
        let meets = |key: &&ReleaseKey| tenant::meet(tenant_of(key), strategy.tenant());
        let found = lanes.flat_map(of).inspect(|_| steps::take(1)).filter(meets);
        let mut keys: Vec<ReleaseKey> = found.copied().collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Whether one that has not begun holds those up that were submitted later and change one of its functions.
pub(super) fn lets_no_other_pass(release: &Release, wall_ms: i64) -> bool {
    QueueStanding::of(release).lets_no_other_pass(wall_ms)
}

fn put(set: &mut BTreeSet<ReleaseKey>, key: ReleaseKey, is_in: bool) {
    if is_in {
        set.insert(key);
    } else {
        set.remove(&key);
    }
}

/// On the clock of serving time. Nothing is due while its own clock stands still.
fn due_at(release: &Release) -> Option<u64> {
    let stands_still = release.clock.paused_since.is_some() || release.is_paused();
    let has_deadline = release.next_deadline != ReleaseMs::MAX && !stands_still;
    has_deadline.then(|| release.next_deadline.saturating_add(release.clock.paused_ms))
}
