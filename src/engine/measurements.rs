//! What nodes have measured: applications, whose functions tell a collector of metrics what begins and ends, and how long functions take.
//!
//! It is in memory alone. What is kept elsewhere takes what comes from a queue, which loses the oldest where that falls behind.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::{EngineError, handle::Engine, view::NodeCalls};
use domain::{release::state::Snapshot, workflows::Workflow};
use model::{ChildKey, numbered::NumberedQueue, tenant};
use protocol::{
    measurements::{MAX_SAMPLES, Measured, Sample, Samples},
    placements::{METRICS_COLLECTOR, collector},
};

/// Most things of which there are averages. Beyond, that which was measured longest ago makes room.
const MAX_SUBJECTS: usize = 10_000;

/// What was measured longest ago than this is shown no more, in milliseconds.
const SHOWN_MS: i64 = 24 * 3_600 * 1_000;

/// Most news that wait for whoever keeps them, and samples for the parent.
const MAX_WAITING: usize = 100_000;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// By its logical id.
    Function(String),
    /// By what its collector calls it; of a tenant's with its prefix.
    Workflow(String),
}

impl Subject {
    /// What it is, and which one.
    #[must_use]
    pub fn names(&self) -> (&'static str, &str) {
        match self {
            Self::Function(logical) => ("function", logical),
            Self::Workflow(name) => ("workflow", name),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, which) = self.names();
        write!(f, "{what}:{which}")
    }
}

/// What was measured of a subject since the manager was started, or since its collector was reset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Totals {
    pub count: u64,
    pub sum_ms: u64,
    /// In milliseconds; what is newer weighs more.
    pub average_ms: f64,
    last_ms: i64,
}

/// What has come, for whoever keeps it.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// `average_ms`: with this one.
    Took {
        subject: Subject,
        ms: u64,
        at_ms: i64,
        average_ms: f64,
    },
    Reset(Vec<Subject>),
    /// `series`: what was measured of the instance. `order`: another one of two that came at the same time.
    Performance {
        instance: String,
        series: &'static str,
        at_ms: i64,
        order: u64,
        micros: u64,
    },
}

/// All that is known of it.
#[derive(Debug)]
pub struct Measurements {
    run: u64,
    subjects: Mutex<HashMap<Subject, Totals>>,
    news: Mutex<NumberedQueue<News>>,
    told: Notify,
    /// What belongs to the parent's workflows.
    upward: Mutex<NumberedQueue<Sample>>,
    /// Somebody keeps the news.
    is_heard: AtomicBool,
    /// It is to be measured how long functions take.
    measures: AtomicBool,
}

impl Default for Measurements {
    fn default() -> Self {
        Self {
            run: rand::random(),
            subjects: Mutex::default(),
            news: Mutex::new(NumberedQueue::new(MAX_WAITING)),
            told: Notify::new(),
            upward: Mutex::new(NumberedQueue::new(MAX_WAITING)),
            is_heard: AtomicBool::default(),
            measures: AtomicBool::default(),
        }
    }
}

/// Whose samples a node may tell.
enum Place {
    Collector {
        name: String,
        alpha: f64,
        /// Logical ids of functions that put something out to it.
        senders: HashSet<String>,
    },
    /// A collector that the parent has placed here: it calls it so.
    OfParent(String),
    Instance,
}

impl Measurements {
    /// From now on what comes waits to be taken. `measures`: it is to be measured how long functions take.
    pub fn listen(&self, measures: bool) {
        self.is_heard.store(true, Ordering::Relaxed);
        self.measures.store(measures, Ordering::Relaxed);
    }

    /// Whether it is to be measured how long functions take.
    #[must_use]
    pub fn are_wanted(&self) -> bool {
        self.measures.load(Ordering::Relaxed)
    }

    /// Another one after each start of the manager.
    #[must_use]
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// Waits for news: the number of the first, and so many from there. They stay until they are [`Self::taken`].
    pub async fn next(&self, count: usize) -> (u64, Vec<News>) {
        loop {
            let first = lock(&self.news).first(count);
            if !first.1.is_empty() {
                return first;
            }
            self.told.notified().await;
        }
    }

    /// News below this number are kept elsewhere.
    pub fn taken(&self, before: u64) {
        lock(&self.news).taken(before);
    }

    /// What is known of each subject.
    #[must_use]
    pub fn totals(&self, now_ms: i64) -> BTreeMap<Subject, Totals> {
        let mut subjects = lock(&self.subjects);
        subjects.retain(|_, totals| now_ms.saturating_sub(totals.last_ms) < SHOWN_MS);
        subjects.iter().map(|(subject, totals)| (subject.clone(), *totals)).collect()
    }

    /// Whether nothing waits for the parent.
    pub(crate) fn is_passed(&self) -> bool {
        lock(&self.upward).is_empty()
    }

    /// Samples that the parent is told next; they stay until they are [`Self::passed`].
    pub(crate) fn upward(&self) -> Samples {
        let (first, all) = lock(&self.upward).first(MAX_SAMPLES);
        Samples { run: self.run, first, all }
    }

    pub(crate) fn passed(&self, samples: &Samples) {
        lock(&self.upward).taken(samples.next());
    }

    fn tell(&self, news: News) {
        if self.is_heard.load(Ordering::Relaxed) {
            lock(&self.news).push(news);
            self.told.notify_one();
        }
    }

    fn took(&self, subject: Subject, ms: u64, at_ms: i64, alpha: f64, now_ms: i64) {
        let mut subjects = lock(&self.subjects);
        if subjects.len() >= MAX_SUBJECTS && !subjects.contains_key(&subject) {
            let oldest = subjects.iter().max_by_key(|(_, totals)| Reverse(totals.last_ms));
            if let Some(oldest) = oldest.map(|(subject, _)| subject.clone()) {
                subjects.remove(&oldest);
            }
        }
        let newest = ms as f64;
        let totals = subjects.entry(subject.clone()).or_insert(Totals {
            count: 0,
            sum_ms: 0,
            average_ms: newest,
            last_ms: now_ms,
        });
        totals.count += 1;
        totals.sum_ms = totals.sum_ms.saturating_add(ms);
        totals.average_ms = newest * alpha + totals.average_ms * (1.0 - alpha);
        totals.last_ms = now_ms;
        let average_ms = totals.average_ms;
        // In the order of the averages.
        self.tell(News::Took { subject, ms, at_ms, average_ms });
    }

    /// `order`: the number of the sample.
    fn note(&self, place: &Place, order: u64, sample: Sample, now_ms: i64) {
        let Sample { at_ms, what } = sample;
        match (place, what) {
            (Place::Collector { alpha, senders, .. }, Measured::Function { logical, ms, .. }) => {
                if senders.contains(&logical) {
                    self.took(Subject::Function(logical), ms, at_ms, *alpha, now_ms);
                }
            }
            (Place::Collector { name, alpha, .. }, Measured::Workflow { ms, .. }) => {
                self.took(Subject::Workflow(name.clone()), ms, at_ms, *alpha, now_ms);
            }
            (Place::Collector { name, senders, .. }, Measured::Reset { .. }) => {
                let mut all: Vec<Subject> = senders.iter().cloned().map(Subject::Function).collect();
                all.push(Subject::Workflow(name.clone()));
                let mut subjects = lock(&self.subjects);
                for subject in &all {
                    subjects.remove(subject);
                }
                drop(subjects);
                self.tell(News::Reset(all));
            }
            (Place::OfParent(id), what) => {
                let collector = id.clone();
                let what = match what {
                    Measured::Function { logical, ms, .. } => Measured::Function { collector, logical, ms },
                    Measured::Workflow { ms, .. } => Measured::Workflow { collector, ms },
                    Measured::Reset { .. } => Measured::Reset { collector },
                    Measured::Execution { .. } | Measured::Transfer { .. } => return,
                };
                lock(&self.upward).push(Sample { at_ms, what });
            }
            (_, Measured::Execution { instance, micros }) => {
                let series = "function_execution_time";
                self.tell(News::Performance { instance, series, at_ms, order, micros });
            }
            (_, Measured::Transfer { instance, micros }) => {
                let series = "function_transfer_time";
                self.tell(News::Performance { instance, series, at_ms, order, micros });
            }
            (Place::Instance, _) => {}
        }
    }
}

/// Takes samples that a node has told. One that it told before counts once, and none does of what isn't placed there.
///
/// # Errors
///
/// The engine is gone, or too busy: the node tells them again.
pub async fn take(
    engine: &Engine,
    node: ChildKey,
    calls: &NodeCalls,
    samples: Samples,
    patience: Duration,
) -> Result<(), EngineError> {
    let wanted: HashSet<String> =
        samples.all.iter().map(|sample| sample.what.instance().to_owned()).collect();
    let places = engine.read(patience, move |state| places(state, node, &wanted)).await?;
    let now_ms = engine.clock().now().wall_ms;
    for (number, mut sample) in calls.newer(samples) {
        // The clocks of nodes may be anything.
        sample.at_ms = sample.at_ms.clamp(0, now_ms.saturating_add(SHOWN_MS));
        if let Some(place) = places.get(sample.what.instance()) {
            engine.view().measurements.note(place, number, sample, now_ms);
        }
    }
    Ok(())
}

/// By instance, of those that are on a node.
fn places(state: &Snapshot, node: ChildKey, wanted: &HashSet<String>) -> HashMap<String, Place> {
    let mut found = HashMap::new();
    for (key, part) in state.workflows.on_node(node) {
        let here = part.instances().find(|one| one.node == node && wanted.contains(&*one.id));
        let (Some(instance), Some(workflow)) = (here, state.workflows.by_key(part.workflow)) else {
            continue;
        };
        let place = match workflow.resource(key).filter(|resource| resource.class == METRICS_COLLECTOR) {
            None => Place::Instance,
            Some(_) if workflow.above.is_some() => Place::OfParent(workflow.id.clone()),
            Some(resource) => {
                let (name, alpha) = collector(&resource.configuration);
                let sender = |sender| Some(state.workflows.part(sender)?.logical.to_string());
                let senders = workflow.senders(key).filter_map(sender).collect();
                Place::Collector { name: name_of(workflow, name), alpha, senders }
            }
        };
        found.insert(instance.id.to_string(), place);
    }
    found
}

/// Of a tenant's workflow with its prefix, so that no other one's is called so.
fn name_of(workflow: &Workflow, name: Option<&str>) -> String {
    let Some(name) = name else { return workflow.id.clone() };
    match tenant::split(&workflow.id) {
        Some((_, said)) => workflow.id.strip_suffix(said).unwrap_or_default().to_owned() + name,
        None => name.to_owned(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
