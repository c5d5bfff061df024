//! Looks at the targets of a wanted state, and tells what that came to.
//!
//! - Each check is a connection of its own, on which at most one question is asked; nothing is kept. What a target may answer is
//!   bounded in bytes and time ([`ask`]). It is HTTP/1.1 without TLS, or a connection alone, and TCP also to targets that take UDP.
//! - At most [`Settings::at_once`] checks are carried out at a time; those that are due longest come first.
//! - Another wanted state keeps what is known of targets that stay, and the checks of others that are on their way count for nothing.
//!
//! Which check is due, and what follows from what it found, is `traffic::health`.

mod ask;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};
use traffic::{
    desired::DesiredConfig,
    health::{Checks, Health, Probe, Verdict},
};

pub use self::ask::{Fault, MAX_ANSWER, ask, ask_marked};
use crate::task::Task;

/// How checks are carried out.
#[derive(Debug, Clone)]
pub struct Settings {
    /// So many at a time.
    pub at_once: usize,
    /// What chance begins with.
    pub seed: u64,
    /// What marks their connections for the kernel, where a target's port may be taken over: they are for the target.
    pub mark: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { at_once: 256, seed: fastrand::u64(..), mark: None }
    }
}

/// What checks have found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthReport {
    pub health: Health,
    /// Why those that are unhealthy are: what was found when that was decided.
    pub faults: BTreeMap<Arc<Probe>, Fault>,
}

/// Looks at targets until it is dropped.
#[derive(Debug)]
pub struct Checker {
    found: watch::Receiver<Arc<HealthReport>>,
    _task: Task,
}

impl Checker {
    /// Looks at the targets of the newest wanted state; must be called in a runtime of tokio. It ends when nobody can want anything
    /// any more.
    #[must_use]
    pub fn start(wanted: watch::Receiver<Option<Arc<DesiredConfig>>>, settings: &Settings) -> Self {
        let (sender, found) = watch::channel(Arc::default());
        let at_work = Work {
            checks: Checks::default(),
            faults: BTreeMap::new(),
            running: JoinSet::new(),
            of_task: HashMap::new(),
            at_once: settings.at_once.max(1),
            mark: settings.mark,
            random: fastrand::Rng::with_seed(settings.seed),
            began: Instant::now(),
            found: sender,
        };
        Self { found, _task: tokio::spawn(at_work.run(wanted)).into() }
    }

    /// What was found. It changes when a verdict does, or what is looked at.
    #[must_use]
    pub fn found(&self) -> watch::Receiver<Arc<HealthReport>> {
        self.found.clone()
    }
}

#[derive(Debug)]
struct Work {
    checks: Checks,
    faults: BTreeMap<Arc<Probe>, Fault>,
    running: JoinSet<Result<(), Fault>>,
    of_task: HashMap<Id, Arc<Probe>>,
    at_once: usize,
    mark: Option<u32>,
    random: fastrand::Rng,
    began: Instant,
    found: watch::Sender<Arc<HealthReport>>,
}

impl Work {
    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    async fn run(mut self, mut wanted: watch::Receiver<Option<Arc<DesiredConfig>>>) {
        wanted.mark_changed();
        loop {
            let now_ms = self.now_ms();
            let room = self.at_once.saturating_sub(self.running.len());
            for probe in self.checks.take_due(now_ms, room) {
                self.begin(probe);
            }
            let has_room = self.running.len() < self.at_once;
            let next_ms = self.checks.next_due_ms().filter(|_| has_room);
            let next = next_ms.map(|at| self.began + Duration::from_millis(at));
            tokio::select! {
                changed = wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let newest = wanted.borrow_and_update().clone();
                    if let Some(newest) = newest {
                        self.follow(&newest);
                    }
                }
                Some(done) = self.running.join_next_with_id(), if !self.running.is_empty() => {
                    let mut is_news = self.done(done);
                    // What came at the same time is told at once.
                    while let Some(done) = self.running.try_join_next_with_id() {
                        is_news |= self.done(done);
                    }
                    if is_news {
                        self.tell();
                    }
                }
                () = sleep_until(next.unwrap_or(self.began)), if next.is_some() => {}
            }
        }
    }

    fn begin(&mut self, probe: Arc<Probe>) {
        let (asked, mark) = (Arc::clone(&probe), self.mark);
        let task = self.running.spawn(async move { ask_marked(&asked, mark).await });
        self.of_task.insert(task.id(), probe);
    }

    fn follow(&mut self, wanted: &DesiredConfig) {
        let now_ms = self.now_ms();
        self.checks.follow(wanted, now_ms, || self.random.f64());
        self.faults.retain(|probe, _| self.checks.has(probe));
        self.tell();
    }

    /// Takes in what a check found. True: a verdict changed.
    fn done(&mut self, done: Result<(Id, Result<(), Fault>), JoinError>) -> bool {
        let (id, found) = match done {
            Ok(done) => done,
            Err(error) => (error.id(), Err(Fault::BrokeOff)),
        };
        let Some(probe) = self.of_task.remove(&id) else { return false };
        let (now_ms, chance) = (self.now_ms(), self.random.f64());
        match self.checks.answered(&probe, found.is_ok(), now_ms, chance) {
            Some(Verdict::Healthy) => {
                self.faults.remove(&probe);
                true
            }
            Some(Verdict::Unhealthy | Verdict::Unknown) => {
                self.faults.extend(found.err().map(|fault| (probe, fault)));
                true
            }
            None => false,
        }
    }

    fn tell(&self) {
        let found = Arc::new(HealthReport { health: self.checks.health(), faults: self.faults.clone() });
        self.found.send_if_modified(|before| {
            let is_news = *before != found;
            *before = found;
            is_news
        });
    }
}
