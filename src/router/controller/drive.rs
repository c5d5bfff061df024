//! Carries out what the state machine wants.

use std::{future::pending, sync::Arc, time::Duration};

use tokio::{
    sync::{broadcast, mpsc, watch},
    task::{JoinError, JoinHandle},
    time::{Instant, sleep, timeout},
};
use traffic::desired::DesiredConfig;

use super::{Act, Event, OnDrift, Order, RouterEvent, Settings, StateMachine, Status, Trouble};
use crate::{
    Router, health, names,
    names::{Answers, Names, Resolver},
    task::Task,
};

/// Orders that wait to be taken.
const ORDERS: usize = 64;

/// Facts that a slow reader may be behind.
const FACTS: usize = 1024;

/// How a router is led, and with what.
#[derive(Debug, Clone)]
pub struct DriveSettings {
    pub lead: Settings,
    pub names: names::Settings,
    pub health: health::Settings,
    /// How long the router may take with what it is told.
    pub apply_within: Duration,
    /// And with what it is asked.
    pub read_within: Duration,
}

impl DriveSettings {
    /// The usual ones for this router.
    #[must_use]
    pub fn of(router: &dyn Router) -> Self {
        let abilities = router.kind().abilities();
        Self {
            lead: Settings { reloads_for: abilities.reloads_for, ..Settings::of(abilities.grain) },
            names: names::Settings::default(),
            health: health::Settings::default(),
            apply_within: Duration::from_secs(30),
            read_within: Duration::from_secs(5),
        }
    }
}

/// Nobody leads the router any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this router isn't led any more")]
pub struct Stopped;

/// Leads a router until it is dropped. What is in force then stays in force.
#[derive(Debug)]
pub struct Lead {
    orders: mpsc::Sender<Order>,
    status: watch::Receiver<Arc<Status>>,
    facts: broadcast::Sender<RouterEvent>,
    found: watch::Receiver<Arc<health::HealthReport>>,
    resolved: watch::Receiver<Option<Arc<DesiredConfig>>>,
    began: Instant,
    _task: Task,
}

impl Lead {
    /// Must be called in a runtime of tokio.
    #[must_use]
    pub fn start(router: Arc<dyn Router>, resolver: Arc<dyn Resolver>, settings: DriveSettings) -> Self {
        let (orders, taken) = mpsc::channel(ORDERS);
        let (status, shown) = watch::channel(Arc::default());
        let (facts, _) = broadcast::channel(FACTS);
        let (wanted, named) = watch::channel(None);
        let (resolved, checked) = watch::channel(None);
        let names = Names::start(resolver, named, settings.names);
        let checker = health::Checker::start(checked, &settings.health);
        let found = checker.found();
        let (began, shown_resolved) = (Instant::now(), resolved.subscribe());
        let driver = Driver {
            core: StateMachine::new(settings.lead.clone()),
            router,
            settings,
            began,
            on_its_way: None,
            orders: taken,
            answers: names.answers(),
            found: checker.found(),
            wanted,
            resolved,
            status,
            facts: facts.clone(),
            _names: names,
            _checker: checker,
        };
        let task = tokio::spawn(driver.run()).into();
        Self { orders, status: shown, facts, found, resolved: shown_resolved, began, _task: task }
    }

    /// This is to be in force from now on.
    ///
    /// # Errors
    ///
    /// Nobody leads it any more.
    pub async fn want(&self, wanted: DesiredConfig) -> Result<(), Stopped> {
        self.order(Order::Want(Box::new(wanted))).await
    }

    /// Has [`RouterEvent::Drained`] told of a variation that is wanted to have no share.
    ///
    /// # Errors
    ///
    /// Nobody leads it any more.
    pub async fn drain(&self, service: &str, variation: &str, within: Duration) -> Result<(), Stopped> {
        let (service, variation) = (service.to_owned(), variation.to_owned());
        self.order(Order::Drain { service, variation, within_ms: within.as_millis() as u64 }).await
    }

    /// Has what is wanted put in force again.
    ///
    /// # Errors
    ///
    /// Nobody leads it any more.
    pub async fn repair(&self) -> Result<(), Stopped> {
        self.order(Order::Repair).await
    }

    /// What is done about the next drift.
    ///
    /// # Errors
    ///
    /// Nobody leads it any more.
    pub async fn on_drift(&self, on_drift: OnDrift) -> Result<(), Stopped> {
        self.order(Order::OnDrift(on_drift)).await
    }

    async fn order(&self, order: Order) -> Result<(), Stopped> {
        self.orders.send(order).await.map_err(|_| Stopped)
    }

    /// Where the router stands. Whoever missed facts finds all that counts in here.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Arc<Status>> {
        self.status.clone()
    }

    /// What is wanted, with addresses in the place of names: whose targets are looked at.
    #[must_use]
    pub fn resolved(&self) -> watch::Receiver<Option<Arc<DesiredConfig>>> {
        self.resolved.clone()
    }

    /// When it was begun: milliseconds of [`Status`] count from then.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// What comes about from now on.
    #[must_use]
    pub fn facts(&self) -> broadcast::Receiver<RouterEvent> {
        self.facts.subscribe()
    }

    /// What the checks of its targets have found.
    #[must_use]
    pub fn found(&self) -> watch::Receiver<Arc<health::HealthReport>> {
        self.found.clone()
    }
}

#[derive(Debug)]
struct Driver {
    core: StateMachine,
    router: Arc<dyn Router>,
    settings: DriveSettings,
    began: Instant,
    on_its_way: Option<OnItsWay>,
    orders: mpsc::Receiver<Order>,
    answers: watch::Receiver<Arc<Answers>>,
    found: watch::Receiver<Arc<health::HealthReport>>,
    wanted: watch::Sender<Option<Arc<DesiredConfig>>>,
    resolved: watch::Sender<Option<Arc<DesiredConfig>>>,
    status: watch::Sender<Arc<Status>>,
    facts: broadcast::Sender<RouterEvent>,
    _names: Names,
    _checker: health::Checker,
}

#[derive(Debug)]
struct OnItsWay {
    act: Act,
    task: JoinHandle<Event>,
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Driver {
    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    async fn run(mut self) {
        loop {
            self.tell();
            let now_ms = self.now_ms();
            self.start_act(now_ms);
            let wait = Duration::from_millis(self.core.wakes_in_ms(now_ms));
            let event = tokio::select! {
                order = self.orders.recv() => match order {
                    Some(order) => Some(self.ordered(order)),
                    None => return,
                },
                done = done(&mut self.on_its_way) => self.done(done),
                Ok(()) = self.answers.changed() => {
                    Some(Event::Names(Arc::clone(&self.answers.borrow_and_update())))
                }
                Ok(()) = self.found.changed() => {
                    Some(Event::Health(self.found.borrow_and_update().health.clone()))
                }
                () = sleep(wait) => None,
            };
            let now_ms = self.now_ms();
            match event {
                Some(event) => self.core.handle(event, now_ms),
                None => self.core.pass(now_ms),
            }
        }
    }

    /// Names are asked for what is wanted, before it can be told.
    fn ordered(&self, order: Order) -> Event {
        if let Order::Want(wanted) = &order
            && self.wanted.borrow().as_ref().is_none_or(|before| before.number < wanted.number)
        {
            self.wanted.send_replace(Some(Arc::new(DesiredConfig::clone(wanted))));
        }
        Event::Ordered(order)
    }

    /// Says what came about, and has others do their part.
    fn tell(&mut self) {
        for fact in self.core.take_facts() {
            if fact.is_alarm() {
                tracing::error!(router = self.router.kind().name(), "{fact}");
            } else {
                tracing::info!(router = self.router.kind().name(), "{fact}");
            }
            // Nobody may be there to read it.
            let _ = self.facts.send(fact);
        }
        if let Some(resolved) = self.core.resolved() {
            self.resolved.send_if_modified(|before| {
                let is_news = before.as_deref() != Some(resolved);
                if is_news {
                    *before = Some(Arc::new(resolved.clone()));
                }
                is_news
            });
        }
        let status = self.core.status();
        self.status.send_if_modified(|before| {
            let is_news = **before != status;
            if is_news {
                *before = Arc::new(status);
            }
            is_news
        });
    }

    fn start_act(&mut self, now_ms: u64) {
        let act = self.core.acts(now_ms);
        if self.on_its_way.as_ref().map(|way| &way.act) == act.as_ref() {
            return;
        }
        // What is wanted no more is given up.
        self.on_its_way = None;
        let Some(act) = act else { return };
        let (router, errand) = (Arc::clone(&self.router), self.core.errand());
        let (apply_within, read_within) = (self.settings.apply_within, self.settings.read_within);
        let key = act.clone();
        let task = tokio::spawn(async move {
            match act {
                Act::Apply(_) => {
                    let Some(told) = errand else { return Event::Read(Err(late("to be told"))) };
                    let applied = timeout(apply_within, router.apply(&told.wanted)).await;
                    let applied = answered(applied, "to take what it is told").map(drop);
                    Event::Applied { told, applied }
                }
                Act::Read(_) => {
                    Event::Read(answered(timeout(read_within, router.read()).await, "to say what it does"))
                }
                Act::Connections { service, variation } => {
                    let asked = timeout(read_within, router.connections(&service, &variation)).await;
                    let counted = answered(asked, "to count connections");
                    Event::Connections { service, variation, counted }
                }
            }
        });
        self.on_its_way = Some(OnItsWay { act: key, task });
    }

    fn done(&mut self, done: Result<Event, JoinError>) -> Option<Event> {
        let act = self.on_its_way.take()?.act.clone();
        match done {
            Ok(event) => Some(event),
            Err(error) => {
                tracing::error!(%error, ?act, "what was to be done broke off");
                let broke_off = Trouble::passing("what was to be done broke off");
                match act {
                    Act::Apply(_) => {
                        self.core.errand().map(|told| Event::Applied { told, applied: Err(broke_off) })
                    }
                    Act::Read(_) => Some(Event::Read(Err(broke_off))),
                    Act::Connections { service, variation } => {
                        Some(Event::Connections { service, variation, counted: Err(broke_off) })
                    }
                }
            }
        }
    }
}

/// Waits for what is on its way.
async fn done(way: &mut Option<OnItsWay>) -> Result<Event, JoinError> {
    match way {
        Some(way) => (&mut way.task).await,
        None => pending().await,
    }
}

fn answered<T>(
    answer: Result<Result<T, crate::RouterError>, tokio::time::error::Elapsed>,
    doing: &str,
) -> Result<T, Trouble> {
    match answer {
        Ok(answer) => answer.map_err(|error| Trouble::from(&error)),
        Err(_) => Err(late(doing)),
    }
}

fn late(doing: &str) -> Trouble {
    Trouble::passing(format!("the router takes too long {doing}"))
}
