//! The agent at work: carries out what its state machine ([`crate::state_machine`]) wants, tells it what came of it, and keeps what it must not forget.
//!
//! - What the state machine decided is on disk before anything that follows from it is begun. While it can't be written, nothing new is
//!   begun, what serves goes on, and it is tried again.
//! - Whatever is in flight and not wanted any more is given up, but for the end of a version: that is waited for.

mod control_handler;
mod effects;
mod enabled_runtimes;
mod failed_logs;
mod machine;
pub(crate) mod persistence;
mod placements;
mod report;
mod reporter;
pub(crate) mod runtimes;
mod status;

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::mpsc,
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::{Instant, sleep},
};

use self::{
    control_handler::ControlHandler,
    effects::Tools,
    enabled_runtimes::Enabled,
    persistence::{ControlSockets, KeepError, Memory},
    placements::Placements,
    report::Report,
    reporter::Reporter,
};
use crate::{
    content::{Content, ContentError},
    control::{self, Control, ControlError, Order},
    data_plane::{BuiltInProxy, DataPlane, ExternalRouter, Part, SharedProxy},
    events::{EventsError, Relay},
    link::{About, InProcess, LinkError, Manager},
    runtime::{RuntimeError, VersionId},
    settings::{FrontSettings, Settings, Stop},
    state_machine::{self, Act, Event, Notice, Now, StateMachine, Trouble},
};

/// Orders of people that wait to be taken.
const ORDERS: usize = 64;

/// After how long it is tried again to write what could not be written.
const SAVE_AGAIN: Duration = Duration::from_millis(500);

/// Why an agent can't begin, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Keep(#[from] KeepError),
    #[error("the manager's address or certificates: {0}")]
    Link(#[from] LinkError),
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error(transparent)]
    Events(#[from] EventsError),
    #[error("the router: {0}")]
    Router(#[from] router::setup::OpenError),
    #[error("the token: {0}")]
    Token(String),
}

/// Runs an agent until `end` comes about.
pub fn run(
    settings: Settings,
    end: impl Future<Output = ()> + Send + 'static,
) -> Pin<Box<dyn Future<Output = Result<(), RunError>> + Send>> {
    Box::pin(run_by(settings, None, end))
}

/// The manager of which an agent is a part, and who the agent is to it.
#[derive(Clone)]
pub struct Within {
    pub manager: Arc<dyn InProcess>,
    pub id: String,
    /// Proves that; a secret.
    pub token: String,
    /// The proxy that it leads with others of this process; `None`: what its settings name is its own.
    pub proxy: Option<Arc<SharedProxy>>,
}

impl fmt::Debug for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Within").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Runs an agent within its manager until `end` comes about. What is set of the manager's address and of tokens is not used.
pub fn run_within(
    settings: Settings,
    within: Within,
    end: impl Future<Output = ()> + Send + 'static,
) -> Pin<Box<dyn Future<Output = Result<(), RunError>> + Send>> {
    Box::pin(run_by(settings, Some(within), end))
}

async fn run_by(
    settings: Settings,
    within: Option<Within>,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<(), RunError> {
    let mut driver = Driver::start(settings, within)?;
    let mut end = Box::pin(end);
    while !driver.turn(end.as_mut()).await {}
    driver.end().await;
    Ok(())
}

fn link_settings(settings: &Settings) -> crate::link::Settings {
    crate::link::Settings {
        url: settings.manager.url.clone(),
        ca_file: settings.manager.ca.clone(),
        certificate: settings.manager.certificate.clone(),
        key: settings.manager.key.clone(),
    }
}

/// Says where agent and proxy are asked, for whoever ends all of it. That it can't be said is no reason not to serve.
fn note_sockets(settings: &Settings) {
    let sockets = match ControlSockets::of(settings) {
        Ok(sockets) => sockets,
        Err(error) => return tracing::warn!(%error, "where this agent is asked isn't kept"),
    };
    if let Err(error) = sockets.keep(&settings.state) {
        tracing::warn!("where this agent is asked isn't kept: {error}");
    }
}

#[derive(Debug)]
struct Driver {
    core: StateMachine,
    tools: Arc<Tools>,
    settings: Settings,
    memory: Memory,
    began: Instant,
    tasks: JoinSet<Event>,
    in_flight: HashMap<Act, AbortHandle>,
    orders: mpsc::Receiver<Order>,
    handler: ControlHandler,
    reporter: Reporter,
    _placements: Placements,
    _control: Control,
    /// The forms of functions that can be run here, as the manager was told.
    forms: Option<Vec<String>>,
}

impl Driver {
    fn start(settings: Settings, within: Option<Within>) -> Result<Self, RunError> {
        let memory = Memory::open(&settings.state)?;
        if within.is_none() {
            note_sockets(&settings);
        }
        let mut state = memory.state()?;
        let mut part = None;
        let (manager, joins) = if let Some(Within { manager, id, token, proxy }) = within {
            part = proxy.map(|proxy| proxy.join(&id, (&state).into()));
            state.id = Some(id);
            (Manager::in_process(manager, token)?, false)
        } else {
            let identity = memory.identity()?;
            let token = match (&settings.manager.token_file, &identity) {
                (Some(file), _) => Some(effects::read_secret(file).map_err(RunError::Token)?),
                (None, Some(identity)) => Some(identity.token.clone()),
                (None, None) => None,
            };
            let joins = settings.manager.join_token_file.is_some() && token.is_none();
            if let Some(identity) = identity {
                state.id = Some(identity.id);
            }
            (Manager::new(&link_settings(&settings), token)?, joins)
        };
        let relay =
            settings.node.as_ref().map(|node| Relay::open(&settings.state, &node.events)).transpose()?;
        let relay = relay.map(Arc::new);
        let tools = Self::tools(&settings, manager, relay.as_deref(), part)?;
        let (sender, orders) = mpsc::channel(ORDERS);
        let driver = sender.clone();
        let control = control::open(&settings.control, settings.metrics, sender)?;
        if let Some(address) = control.metrics() {
            tracing::info!("metrics on http://{address}/metrics");
        }
        let is_known = |version: &VersionId| state.versions.contains_key(version);
        for version in tools.content.list()?.iter().filter(|version| !is_known(version)) {
            // It was fetched and nothing came of it, or its end was not the last thing that a former process did.
            tools.content.remove(version)?;
        }
        let core = StateMachine::new(
            state,
            state_machine::Settings {
                keep_base_ms: settings.keep_base.as_millis() as u64,
                drain_ms: settings.versions.drain.as_millis() as u64,
                joins,
                seed: fastrand::u64(..),
                abilities: tools.front.abilities(),
            },
        );
        let tools = Arc::new(tools);
        Ok(Self {
            core,
            _placements: Placements::start(Arc::clone(&tools), driver.clone(), relay),
            reporter: Reporter::start(Arc::clone(&tools), driver),
            tools,
            settings,
            memory,
            began: Instant::now(),
            tasks: JoinSet::new(),
            in_flight: HashMap::new(),
            orders,
            handler: ControlHandler::default(),
            _control: control,
            forms: None,
        })
    }

    /// `part`: what it leads of a proxy that it shares.
    fn tools(
        settings: &Settings,
        manager: Manager,
        relay: Option<&Relay>,
        part: Option<Part>,
    ) -> Result<Tools, RunError> {
        let front: Box<dyn DataPlane> = match (part, &settings.front) {
            (Some(part), _) => Box::new(part),
            (None, FrontSettings::Proxy(proxy)) => Box::new(BuiltInProxy::new(proxy.clone())),
            (None, FrontSettings::Router(router)) => {
                Box::new(ExternalRouter::open(router, &settings.state.join("router"))?)
            }
        };
        let runtimes = Enabled::new(runtimes::open(settings)?);
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let about = About {
            name: some(&settings.name),
            area: some(&settings.area),
            labels: settings.labels.clone(),
            // Those that answer are named at each poll.
            runtimes: Vec::new(),
            routers: vec![front.kind().name().to_owned()],
            node: settings
                .node
                .as_ref()
                .zip(relay)
                .map(|(node, relay)| crate::node::advertised(node, relay.url())),
            nonce: Some(persistence::nonce(&settings.state)?),
        };
        Ok(Tools {
            manager,
            about,
            join_token: settings.manager.join_token_file.clone(),
            front,
            runtimes,
            content: Content::open(&settings.state.join("content"))?,
            versions: settings.versions.clone(),
            folder: settings.state.clone(),
        })
    }

    fn now(&self) -> Now {
        let wall_ms = jiff::Timestamp::now().as_millisecond();
        Now { ms: self.began.elapsed().as_millis() as u64, wall_ms }
    }

    /// Does all that is to be done now, and waits for the next thing. True: it is time to end.
    async fn turn(&mut self, end: Pin<&mut (impl Future<Output = ()> + Send)>) -> bool {
        self.say();
        self.save();
        let now = self.now();
        if !self.is_unsaved() {
            self.start_acts(now);
        }
        self.handler.answer(&mut self.core, &self.tools);
        let early = self.reporter.show(|| Report::of(&self.core, &*self.tools.front));
        let wait = Duration::from_millis(self.core.wakes_in_ms(now)).min(early.unwrap_or(Duration::MAX));
        let wait = if self.is_unsaved() { wait.min(SAVE_AGAIN) } else { wait };
        tokio::select! {
            () = end => return true,
            () = sleep(wait) => {
                let now = self.now();
                self.core.pass(now);
            }
            Some(done) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => self.done(done),
            Some(order) = self.orders.recv() => self.order(order),
            () = self.tools.versions_changed() => {
                let now = self.now();
                self.core.list_now(now);
            }
            () = self.tools.front.changed() => {
                let now = self.now();
                self.core.look_now(now);
            }
            copied = self.handler.copied() => {
                let now = self.now();
                self.handler.add(copied, &mut self.core, now);
            }
        }
        false
    }

    fn say(&mut self) {
        for said in self.core.take_said() {
            match said {
                Notice::Info(text) => tracing::info!("{text}"),
                Notice::Warning(text) => tracing::warn!("{text}"),
                Notice::Error(text) => tracing::error!("{text}"),
            }
        }
    }

    /// Whether the state could not be written when that was tried last.
    fn is_unsaved(&self) -> bool {
        self.handler.unsaved.is_some()
    }

    fn save(&mut self) {
        if !(self.core.take_dirty() || self.is_unsaved()) {
            return;
        }
        match persistence::write(&self.memory.state_path(), self.core.state()) {
            Ok(()) => {
                if self.handler.unsaved.take().is_some() {
                    tracing::info!("what the agent knows is kept again");
                }
            }
            Err(error) => {
                if self.handler.unsaved.replace(error.to_string()).is_none() {
                    tracing::error!("what the agent knows can't be kept, and nothing new is begun: {error}");
                }
            }
        }
    }

    fn start_acts(&mut self, now: Now) {
        let wanted: BTreeSet<Act> = self.core.acts(now).into_iter().collect();
        for (act, task) in &self.in_flight {
            if !wanted.contains(act) && !matches!(act, Act::Stop(_)) {
                task.abort();
            }
        }
        self.in_flight.retain(|act, _| wanted.contains(act) || matches!(act, Act::Stop(_)));
        for act in wanted {
            if !self.in_flight.contains_key(&act) && !self.waits_for_another(&act) {
                self.start_act(act);
            }
        }
    }

    /// A version that is being ended is not started meanwhile.
    fn waits_for_another(&self, act: &Act) -> bool {
        match act {
            Act::Start(version) => self.in_flight.contains_key(&Act::Stop(version.clone())),
            _ => false,
        }
    }

    fn start_act(&mut self, act: Act) {
        let errand = self.core.errand(&act);
        let id = self.core.state().id.clone().unwrap_or_default();
        let (tools, began, key) = (Arc::clone(&self.tools), self.began, act.clone());
        let now = move || began.elapsed().as_millis() as u64;
        let task = self.tasks.spawn(async move { tools.carry_out(act, errand, &id, now).await });
        self.in_flight.insert(key, task);
    }

    fn done(&mut self, done: Result<(Id, Event), JoinError>) {
        let task = match &done {
            Ok((task, _)) => *task,
            Err(error) => error.id(),
        };
        let found = self.in_flight.iter().find(|(_, handle)| handle.id() == task);
        let Some(act) = found.map(|(act, _)| act.clone()) else { return };
        self.in_flight.remove(&act);
        let event = match done {
            Ok((_, event)) => event,
            Err(error) if error.is_cancelled() => return,
            Err(error) => {
                tracing::error!(%error, ?act, "what was to be done broke off");
                act.failed(Trouble::passing("it broke off"))
            }
        };
        if let Event::Listed(Ok(listed)) = &event {
            self.handler.note_running(listed);
            self.say_what_runs();
        }
        let ended = match &event {
            Event::Stopped { version, stopped: Ok(()) } => Some(version.clone()),
            _ => None,
        };
        if matches!(event, Event::Counted { .. }) {
            self.note_targets();
        }
        let now = self.now();
        self.core.handle(event, now);
        if let Some(version) = ended {
            self.remove_content(&version);
        }
    }

    /// What is judged by calls is judged by what is known of targets as well.
    fn note_targets(&mut self) {
        let tried = self.core.state().services.values().filter(|led| led.is_tried);
        let names = tried.flat_map(|led| {
            led.service.variations.iter().map(|one| (led.service.name().to_owned(), one.name.to_string()))
        });
        let mut names = names.peekable();
        if names.peek().is_none() {
            return;
        }
        let view = self.tools.front.view();
        let seen = |one: (String, String)| Some((one.clone(), view.targets(&one.0, &one.1)?));
        let targets = names.filter_map(seen).collect();
        self.core.note_targets(targets);
    }

    /// Has the manager told what can be run here now, if that is something else than the poll that waits has said.
    fn say_what_runs(&mut self) {
        let forms = self.tools.runtimes.forms_now();
        // Who is not known yet would be known twice.
        if self.core.state().id.is_some()
            && self.forms.as_ref() != Some(&forms)
            && self.forms.replace(forms).is_some()
            && let Some(poll) = self.in_flight.remove(&Act::Poll)
        {
            poll.abort();
        }
    }

    fn remove_content(&self, version: &VersionId) {
        let (content, version) = (self.tools.content.clone(), version.clone());
        if self.core.is_known(&version) {
            return;
        }
        tokio::task::spawn_blocking(move || {
            if let Err(error) = content.remove(&version) {
                tracing::warn!(%error, "the content of a version can't be removed; tried again at the next start");
            }
        });
    }

    fn order(&mut self, order: Order) {
        let now = self.now();
        self.handler.take(order, &mut self.core, &self.tools, &self.settings, now);
    }

    /// Ends as the settings want it.
    async fn end(mut self) {
        self.say();
        self.save();
        self.tasks.shutdown().await;
        match self.settings.stop {
            Stop::Leave => tracing::info!("ends; the proxy and what runs go on"),
            Stop::Drain => control_handler::drain(&self.tools, &self.core).await,
        }
    }
}
