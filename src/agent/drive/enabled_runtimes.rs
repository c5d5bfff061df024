//! The runtimes that are enabled, and which of them answer.
//!
//! A runtime that runs versions elsewhere may be away: then the others work on without it, its forms of functions are not among what
//! this agent says that it can run, and it is asked again, after pauses that grow.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout_at},
};

use crate::{
    control::form::RuntimeStatus,
    runtime::{Running, Runtime, RuntimeError},
    state_machine::{Listed, Trouble},
};

/// How long it is waited for a runtime elsewhere to say what it runs: of one that answered when it was asked last, and of another. What
/// it says later is heard when it is asked the next time.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_AWAY: Duration = Duration::from_secs(2);

/// Pauses before a runtime that is away is asked again: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(4);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// All of them, in order of preference.
#[derive(Debug)]
pub struct Enabled {
    all: Vec<One>,
    /// Each was asked once.
    asked: watch::Sender<bool>,
}

#[derive(Debug)]
struct One {
    runtime: Arc<dyn Runtime>,
    reach: Mutex<Reach>,
    asking: tokio::sync::Mutex<Asking>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reach {
    /// It was not asked yet.
    Unknown,
    Reached,
    /// Why it is not reached.
    Away(String),
}

/// A question what is run that a runtime was not waited for to answer.
#[derive(Debug, Default)]
struct Asking {
    open: JoinSet<Result<Vec<Running>, RuntimeError>>,
    failures: u32,
    not_before: Option<Instant>,
}

impl Enabled {
    pub fn new(runtimes: Vec<Arc<dyn Runtime>>) -> Self {
        let one = |runtime| One {
            runtime,
            reach: Mutex::new(Reach::Unknown),
            asking: tokio::sync::Mutex::default(),
        };
        Self { all: runtimes.into_iter().map(one).collect(), asked: watch::Sender::new(false) }
    }

    /// Asks all of them what runs.
    pub async fn list(&self) -> Listed {
        let began = Instant::now();
        for one in &self.all {
            one.ask().await;
        }
        let mut listed = Listed::default();
        for one in &self.all {
            let name = one.runtime.name().to_owned();
            match one.answer(began).await {
                Ok(found) => listed.found.push((name, found)),
                Err(why) => drop(listed.away.insert(name, why)),
            }
        }
        self.asked.send_replace(true);
        listed
    }

    /// Waits until they are to be asked at once what runs.
    pub async fn changed(&self) {
        let mut all: Vec<_> = self.all.iter().map(|one| one.runtime.changed()).collect();
        poll_fn(|cx| {
            let has_one = all.iter_mut().any(|changed| changed.as_mut().poll(cx).is_ready());
            if has_one { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// The forms of functions that can be run now, in order; waits until it is known what answers.
    pub async fn forms(&self) -> Vec<String> {
        // The sender lives as long as this.
        let _ = self.asked.subscribe().wait_for(|asked| *asked).await;
        self.forms_now()
    }

    /// The same, of what answered when it was asked last.
    pub fn forms_now(&self) -> Vec<String> {
        let reached = self.all.iter().filter(|one| one.reach() == Reach::Reached);
        let mut forms: Vec<String> =
            reached.flat_map(|one| one.runtime.runners()).map(str::to_owned).collect();
        forms.sort_unstable();
        forms.dedup();
        forms
    }

    /// The first runtime that answers and has this form of functions; where neither offer nor files say one, the first that answers.
    pub fn for_form(&self, form: &str) -> Result<&Arc<dyn Runtime>, Trouble> {
        let has = |one: &&One| form.is_empty() || one.runtime.runners().contains(&form);
        let reaches = self.all.iter().filter(has).map(|one| (one, one.reach()));
        let mut away = None;
        for (one, reach) in reaches {
            match reach {
                Reach::Reached => return Ok(&one.runtime),
                Reach::Away(why) => away = away.or(Some((one.runtime.name(), why))),
                Reach::Unknown => {
                    away = away.or(Some((one.runtime.name(), "it was not asked yet".to_owned())));
                }
            }
        }
        if let Some((name, why)) = away {
            let what = if form.is_empty() {
                String::new()
            } else {
                format!(", which runs functions of the form {form:?},")
            };
            return Err(Trouble::passing(format!("the runtime {name}{what} can't be reached: {why}")));
        }
        let all: Vec<&str> = self.all.iter().flat_map(|one| one.runtime.runners()).collect();
        let all = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
        Err(Trouble::refused(format!("functions of the form {form:?} can't be run here; there is {all}")))
    }

    /// Those that may have a version, which is known to be `at` one of them or is not: a runtime that is away has none but what it is
    /// known to have. What it has and nobody knows of is found when it answers again.
    pub fn with(&self, at: Option<&str>) -> impl Iterator<Item = &Arc<dyn Runtime>> {
        let may_have =
            move |one: &&One| at == Some(one.runtime.name()) || !matches!(one.reach(), Reach::Away(_));
        self.all.iter().filter(may_have).map(|one| &one.runtime)
    }

    pub fn status(&self) -> Vec<RuntimeStatus> {
        let status = |one: &One| {
            let (reached, trouble) = match one.reach() {
                Reach::Reached => (true, None),
                Reach::Unknown => (false, None),
                Reach::Away(why) => (false, Some(why)),
            };
            let runners = one.runtime.runners().into_iter().map(str::to_owned).collect();
            RuntimeStatus { name: one.runtime.name().to_owned(), runners, reached, trouble }
        };
        self.all.iter().map(status).collect()
    }
}

impl One {
    fn reach(&self) -> Reach {
        self.reach.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, reach: Reach) {
        *self.reach.lock().unwrap_or_else(PoisonError::into_inner) = reach;
    }

    /// Has what runs elsewhere asked, beside the others. What is local answers when it is waited for.
    async fn ask(&self) {
        let mut asking = self.asking.lock().await;
        let pauses = asking.not_before.is_some_and(|at| Instant::now() < at);
        if self.runtime.is_elsewhere() && asking.open.is_empty() && !pauses {
            let runtime = Arc::clone(&self.runtime);
            asking.open.spawn(async move { runtime.list().await });
        }
    }

    /// What it answers to a question that was asked then.
    async fn answer(&self, began: Instant) -> Result<Vec<Running>, String> {
        if !self.runtime.is_elsewhere() {
            let listed = self.runtime.list().await.map_err(|error| error.to_string());
            self.set(listed.as_ref().map_or_else(|why| Reach::Away(why.clone()), |_| Reach::Reached));
            return listed;
        }
        let mut asking = self.asking.lock().await;
        let reach = self.reach();
        if asking.open.is_empty() {
            return match reach {
                Reach::Away(why) => Err(why),
                Reach::Unknown | Reach::Reached => Err("it was not asked".to_owned()),
            };
        }
        let time_limit = if reach == Reach::Reached { PATIENCE } else { PATIENCE_AWAY };
        let listed = match timeout_at(began + time_limit, asking.open.join_next()).await {
            Ok(Some(Ok(listed))) => listed.map_err(|error| error.to_string()),
            Ok(Some(Err(error))) => Err(format!("asking it broke off: {error}")),
            Ok(None) => Err("it was not asked".to_owned()),
            // It is waited for on.
            Err(_) => match reach {
                Reach::Away(why) => return Err(why),
                Reach::Unknown | Reach::Reached => {
                    Err(format!("it didn't say within {} s what it runs", time_limit.as_secs()))
                }
            },
        };
        if let Err(why) = &listed {
            if asking.open.is_empty() {
                asking.pause();
            }
            self.set(Reach::Away(why.clone()));
        } else {
            (asking.failures, asking.not_before) = (0, None);
            self.set(Reach::Reached);
        }
        listed
    }
}

impl Asking {
    fn pause(&mut self) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(8)).min(LONGEST_PAUSE);
        self.failures += 1;
        // Agents that lost it together don't come back together.
        self.not_before = Some(Instant::now() + pause.mul_f64(0.75 + fastrand::f64() / 4.0));
    }
}
