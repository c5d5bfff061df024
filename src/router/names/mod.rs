//! Names of targets become addresses, again and again.
//!
//! - Every name is asked for every [`Settings::every`], and all addresses of its answer count.
//! - A resolver that fails, takes too long, or has no address to say changes nothing: the last answer stays.
//! - An answer that leads to where the router itself listens is refused as a whole, and the last one stays; so is a target that is
//!   written as an address of this machine, and has the port of a service.
//! - A name that never had an answer has none: then a wanted state can't be told to a router, unless it has targets of that variation
//!   already ([`resolve`]). So a roll-back waits for no resolver.

mod lookups;
mod resolve;
mod system;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use traffic::desired::DesiredConfig;

pub use self::{
    lookups::{Answer, Answers, LookupResult, LookupTarget, MAX_ADDRESSES, Trouble},
    resolve::{Resolved, Unresolvable, Unresolved, resolve},
    system::System,
};
use crate::task::Task;

/// What a resolver answers with.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Whom names are asked of.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// All addresses of a name. Who drops the answer before it is there may ask again.
    fn lookup<'a>(&'a self, name: &'a str) -> Lookup<'a>;

    /// Whether an address is one of this machine's. Answers at once.
    fn is_own(&self, address: IpAddr) -> bool;
}

/// How names are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// From one round to the next.
    pub every: Duration,
    /// From one round to the next while a name has no answer at all.
    pub again: Duration,
    /// How long an answer may take.
    pub within: Duration,
    /// So many names at a time.
    pub at_once: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(30),
            again: Duration::from_secs(2),
            within: Duration::from_secs(5),
            at_once: 32,
        }
    }
}

/// Asks for names until it is dropped.
#[derive(Debug)]
pub struct Names {
    answers: watch::Receiver<Arc<Answers>>,
    _task: Task,
}

impl Names {
    /// Asks for the names of the newest wanted state; must be called in a runtime of tokio. It ends when nobody can want anything any
    /// more.
    #[must_use]
    pub fn start(
        resolver: Arc<dyn Resolver>,
        wanted: watch::Receiver<Option<Arc<DesiredConfig>>>,
        settings: Settings,
    ) -> Self {
        let (sender, answers) = watch::channel(Arc::default());
        let work = Work { resolver, settings, answers: sender };
        Self { answers, _task: tokio::spawn(work.run(wanted)).into() }
    }

    /// What was answered. It changes when that does.
    #[must_use]
    pub fn answers(&self) -> watch::Receiver<Arc<Answers>> {
        self.answers.clone()
    }
}

#[derive(Debug)]
struct Work {
    resolver: Arc<dyn Resolver>,
    settings: Settings,
    answers: watch::Sender<Arc<Answers>>,
}

impl Work {
    async fn run(self, mut wanted: watch::Receiver<Option<Arc<DesiredConfig>>>) {
        wanted.mark_changed();
        let mut all_due = Instant::now();
        loop {
            let has_none = self.answers.borrow().has_none();
            let due = if has_none { all_due.min(Instant::now() + self.settings.again) } else { all_due };
            tokio::select! {
                changed = wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = sleep_until(due) => {}
            }
            let Some(newest) = wanted.borrow_and_update().clone() else {
                all_due = Instant::now() + self.settings.every;
                continue;
            };
            let is_round = Instant::now() >= all_due;
            // What needs no resolver waits for none.
            self.take_in(&newest, &BTreeMap::new());
            let before = Arc::clone(&self.answers.borrow());
            let names: BTreeSet<Box<str>> =
                lookups::names(&newest).filter(|name| is_round || before.is_open(name)).collect();
            let looked = self.look(names).await;
            if is_round {
                all_due = Instant::now() + self.settings.every;
            }
            self.take_in(&newest, &looked);
        }
    }

    fn take_in(&self, wanted: &DesiredConfig, looked: &BTreeMap<Box<str>, LookupResult>) {
        self.answers.send_if_modified(|answers| {
            let after = answers.after(wanted, looked, |address| self.resolver.is_own(address));
            let is_news = **answers != after;
            if is_news {
                *answers = Arc::new(after);
            }
            is_news
        });
    }

    /// Asks for these names, some at a time.
    async fn look(&self, names: BTreeSet<Box<str>>) -> BTreeMap<Box<str>, LookupResult> {
        let mut looked = BTreeMap::new();
        let mut running = JoinSet::new();
        for name in names {
            if running.len() >= self.settings.at_once.max(1) {
                looked.extend(running.join_next().await.and_then(Result::ok));
            }
            let (resolver, within) = (Arc::clone(&self.resolver), self.settings.within);
            running.spawn(async move {
                let found = match timeout(within, resolver.lookup(&name)).await {
                    Ok(Ok(addresses)) => Ok(addresses),
                    Ok(Err(error)) => Err(Trouble::Fails(error.to_string())),
                    Err(_) => Err(Trouble::Late),
                };
                (name, found)
            });
        }
        while let Some(done) = running.join_next().await {
            // One that broke off has no answer, and keeps the last.
            looked.extend(done.ok());
        }
        looked
    }
}
