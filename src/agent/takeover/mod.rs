//! Calls to a port that another program has, and keeps, come to the proxy beside this agent as long as a service is led there.
//!
//! Invariants:
//!
//! 1. What is about to be done is on disk before it is done (`takeover.json`): so whoever comes after a kill finds what may be in force, goes
//!    on with what a table still wants, and gives the rest back.
//! 2. Calls are sent to the proxy only while its table has the service, and it listens for them. So they are taken from the program that
//!    has the port after the table was put in force, and given back before a table is that doesn't have the service.
//! 3. What is given back ends as everywhere: connections that came in are answered, and closed with their next answer, before a table says
//!    that their service is gone.
//! 4. What is in force is read back. Where it is something else, it is put in force again, and that is told as a drift.
//! 5. While no proxy answers, nothing is sent to it: the program that has the port gets its calls.
//!
//! How it is done depends on where this runs: that is a [`Ground`]. Which way there is for a port is [`rule`].

pub mod machine;
pub mod nft;
pub mod rule;

use std::{
    collections::{BTreeSet, VecDeque},
    fmt, fs, io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use model::traffic::{Listen, OpenPorts, Protocol, Socket};
use proxy::{
    control::{
        client::{Client, ClientError},
        form::{ListenStatus, Status},
    },
    form::{AddressForm, AddressKind, ListenForm, ServiceForm, TransportForm},
    whole_file,
};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{Mutex as TurnMutex, Notify, watch},
    task::JoinSet,
    time::{Instant, sleep},
};
use traffic::desired::{Service, ServiceSpec};

use self::{
    machine::Machine,
    nft::{Found, Redirects},
    rule::{Facts, Way, place, way},
};
use crate::{
    proxy_process::of_proxy,
    settings::TakeoverSettings,
    state_machine::{Trouble, TroubleKind},
};

/// How often it is looked whether what is in force is what was put in force.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A proxy that didn't answer for so long gets no calls of others.
const AWAY: Duration = Duration::from_secs(1);

/// How long callers who came in at a port that is given back may keep the table waiting. A connection without a call is closed before that
/// by the proxy (`limits.idle`), and a call that takes longer keeps its version.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(90);

/// How often it is looked whether they are gone.
const GONE_EVERY: Duration = Duration::from_millis(100);

/// So many drifts are kept until they were told.
const DRIFTS: usize = 16;

pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What sends callers of others' ports to the proxy.
pub trait Ground: fmt::Debug + Send + Sync {
    /// What is in force.
    fn look(&self) -> Answer<'_, Result<Found, Trouble>>;

    /// Has callers of these ports sent there, and no others; those that were sent before go on, also with none. All of it, or nothing.
    fn take<'a>(&'a self, all: &'a Redirects) -> Answer<'a, Result<(), Trouble>>;

    /// Leaves nothing, and nobody who was sent goes on.
    fn give_back(&self) -> Answer<'_, Result<(), Trouble>>;

    /// Where the proxy is to listen, so that all callers can be sent to this port.
    fn addresses(&self, port: u16) -> Vec<SocketAddr>;

    /// Whether nobody listens at a port.
    fn is_free(&self, socket: Socket) -> bool;
}

/// A port of which calls are taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Taken {
    port: u16,
    kind: AddressKind,
    /// Where the proxy listens.
    at: u16,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    /// The proxy may listen for them, and gets none.
    Opening,
    /// They may come.
    Taken,
    /// None is to come, and some that came may go on.
    GivingBack,
}

impl Taken {
    fn is_udp(&self) -> bool {
        self.kind == AddressKind::Udp
    }

    fn is_for(&self, listen: &Listen) -> bool {
        self.port == listen.port && self.kind == kind_of(listen)
    }

    fn socket(&self) -> Socket {
        Socket { port: self.port, is_udp: self.is_udp() }
    }

    /// Whether a service that stands in the proxy's table has what comes in there.
    fn is_told_of(&self, form: &ServiceForm) -> bool {
        let transport = match self.kind {
            AddressKind::Http | AddressKind::Https => TransportForm::Http,
            AddressKind::Tls => TransportForm::Tls,
            AddressKind::Tcp => TransportForm::Tcp,
            AddressKind::Udp => TransportForm::Udp,
        };
        // Who has TLS pass by host has it at all ports.
        let is_named = transport == TransportForm::Tls && !form.hosts.is_empty();
        form.protocol == transport && (is_named || form.ports.contains(&self.at))
    }
}

/// It was something else than it is to be.
#[derive(Debug, Clone)]
pub struct Drifted {
    pub at: Instant,
    /// Milliseconds since 1970, made greater where two came in one.
    pub number: u64,
    pub wanted: String,
    pub seen: String,
}

/// See the module. Looks after what is taken over until it is dropped.
#[derive(Debug)]
pub struct Takeover {
    of: Arc<Inner>,
    _watching: JoinSet<()>,
}

#[derive(Debug)]
struct Inner {
    settings: TakeoverSettings,
    client: Client,
    ground: Box<dyn Ground>,
    taken: Mutex<Vec<Taken>>,
    /// Held by whoever changes what is in force, or judges it.
    turn: TurnMutex<()>,
    /// Why rules can't be read, when that was tried last.
    why_not: Mutex<Option<String>>,
    /// Since when no proxy answers.
    away_since: Mutex<Option<Instant>>,
    drifted: Notify,
    drifts: Mutex<VecDeque<Drifted>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Takeover {
    /// Goes on from what is on disk; must be called in a runtime of tokio.
    #[must_use]
    pub fn start(settings: TakeoverSettings, client: Client) -> Self {
        let ground = Box::new(Machine::new(settings.program.clone()));
        Self::start_on(settings, client, ground)
    }

    /// The same on another ground.
    #[must_use]
    pub fn start_on(settings: TakeoverSettings, client: Client, ground: Box<dyn Ground>) -> Self {
        let taken = load(&settings.file).unwrap_or_else(|error| {
            tracing::error!(
                "what is taken over of others' ports can't be read in {}: {error}. What is in force and not wanted is given back",
                settings.file.display()
            );
            Vec::new()
        });
        let of = Arc::new(Inner {
            settings,
            client,
            ground,
            taken: Mutex::new(taken),
            turn: TurnMutex::default(),
            why_not: Mutex::default(),
            away_since: Mutex::default(),
            drifted: Notify::new(),
            drifts: Mutex::default(),
        });
        let mut watching = JoinSet::new();
        watching.spawn(Arc::clone(&of).watch());
        Self { of, _watching: watching }
    }

    /// Before a table of these services: has the proxy listen for calls that are to be taken over, and gives back those that these have no
    /// more. Gives the services with where the proxy listens for them. `told`: services that stay in the table as they stand there, with
    /// what is taken over for them. It says so in `lingers` when callers have to leave first.
    ///
    /// # Errors
    ///
    /// There is no way to a port, or something that is needed doesn't answer.
    pub async fn before_table(
        &self,
        services: Vec<Service>,
        told: &[ServiceForm],
        lingers: &watch::Sender<bool>,
    ) -> Result<Vec<Service>, Trouble> {
        if !self.of.is_in_use() {
            return Ok(services);
        }
        let turn = self.of.turn.lock().await;
        let wanted = self.of.wanted(&services).await?;
        let all = self.of.plan(&wanted, &services, told)?;
        self.of.keep(&all).await?;
        self.of.put(&all).await?;
        self.of.listen(&all).await?;
        drop(turn);
        self.of.wait_for_callers(&all, lingers).await?;
        let _turn = self.of.turn.lock().await;
        self.of.finish().await?;
        services.into_iter().map(|service| placed(service, &all)).collect()
    }

    /// Once that table is in force: has calls come.
    ///
    /// # Errors
    ///
    /// They don't.
    pub async fn after_table(&self) -> Result<(), Trouble> {
        if !self.of.is_in_use() {
            return Ok(());
        }
        let _turn = self.of.turn.lock().await;
        let mut all = lock(&self.of.taken).clone();
        for taken in all.iter_mut().filter(|taken| taken.phase == Phase::Opening) {
            taken.phase = Phase::Taken;
            tracing::info!("calls to port {} are taken over, at port {}", taken.port, taken.at);
        }
        self.of.keep(&all).await?;
        self.of.put(&all).await
    }

    /// Whether something else is in force than what is to be. That a proxy answers is known.
    pub async fn differs(&self) -> bool {
        *lock(&self.of.away_since) = None;
        if !self.of.is_in_use() {
            return false;
        }
        // Whoever changes it just now doesn't leave it so.
        let Ok(_turn) = self.of.turn.try_lock() else { return false };
        self.of.difference().await.is_some()
    }

    /// No proxy answers: once that has been so for a moment, callers get whoever has their port.
    pub async fn proxy_is_away(&self) {
        let since = *lock(&self.of.away_since).get_or_insert_with(Instant::now);
        if since.elapsed() < AWAY || lock(&self.of.taken).is_empty() {
            return;
        }
        let Ok(_turn) = self.of.turn.try_lock() else { return };
        if self.of.ground.look().await.is_ok_and(|found| found.is_nothing()) {
            return;
        }
        match self.of.ground.give_back().await {
            Ok(()) => tracing::warn!("no proxy answers, and calls to others' ports go to whoever has these"),
            Err(trouble) => tracing::error!("no proxy answers, and calls still go there: {}", trouble.text),
        }
    }

    /// The ports of a proxy at which services may be: its own, and those that can be taken over.
    #[must_use]
    pub fn ports(&self, status: &Status) -> Vec<OpenPorts> {
        let mut open = self.of.own_ports(status);
        if self.of.settings.nftables && status.marks && lock(&self.of.why_not).is_none() {
            let any = |protocol, passes| OpenPorts {
                first: 1,
                last: u16::MAX,
                protocol: Some(protocol),
                passes,
                takes_over: true,
            };
            open.extend([
                any(Protocol::Http, false),
                any(Protocol::Https, true),
                any(Protocol::Tcp, false),
                any(Protocol::Udp, false),
            ]);
        }
        open
    }

    /// Waits until it is to be looked at at once.
    pub async fn drifted(&self) {
        self.of.drifted.notified().await;
    }

    /// The newest drifts.
    #[must_use]
    pub fn drifts(&self) -> Vec<Drifted> {
        lock(&self.of.drifts).iter().cloned().collect()
    }
}

impl Inner {
    /// Whether anything is to be taken over, or may be.
    fn is_in_use(&self) -> bool {
        self.settings.nftables || !lock(&self.taken).is_empty()
    }

    /// Where the proxy listens by its own configuration, and by lists that aren't from here.
    fn own_ports(&self, status: &Status) -> Vec<OpenPorts> {
        let taken = lock(&self.taken);
        let is_ours = |open: &OpenPorts| {
            let is_udp = open.protocol == Some(Protocol::Udp);
            taken.iter().any(|taken| taken.at == open.first && taken.is_udp() == is_udp)
        };
        let mut open = open_ports(status);
        open.retain(|open| !is_ours(open));
        open
    }

    /// The ports of services to which calls are to be taken over.
    async fn wanted(&self, services: &[Service]) -> Result<Vec<Listen>, Trouble> {
        let status: Result<Status, ClientError> = self.client.get("/status").await;
        let status = status.map_err(|error| of_proxy(&error))?;
        let ground = self.ground.look().await.map(drop);
        let own = self.own_ports(&status);
        let facts = Facts {
            own: &own,
            is_allowed: self.settings.nftables,
            marks: status.marks,
            ground: ground.as_ref().copied().map_err(|trouble| trouble.text.as_str()),
        };
        let mut wanted = Vec::new();
        for listen in services.iter().flat_map(|service| &service.listens) {
            match way(listen, facts) {
                Ok(Way::Own) => {}
                Ok(Way::Nftables) => wanted.push(listen.clone()),
                // Then the proxy refuses the table itself, as ever.
                Err(_) if !self.settings.nftables => {}
                Err(why) => {
                    let passes = ground.as_ref().is_err_and(|trouble| trouble.kind == TroubleKind::Passes);
                    let kind = if passes { TroubleKind::Passes } else { TroubleKind::Refused };
                    return Err(Trouble { kind, text: why });
                }
            }
        }
        Ok(wanted)
    }

    /// What is to become of what is taken over, and what is to be.
    fn plan(
        &self,
        wanted: &[Listen],
        services: &[Service],
        told: &[ServiceForm],
    ) -> Result<Vec<Taken>, Trouble> {
        let mut all = lock(&self.taken).clone();
        for taken in &mut all {
            let is_wanted = wanted.iter().any(|listen| taken.is_for(listen))
                || told.iter().any(|form| taken.is_told_of(form));
            taken.phase = match taken.phase {
                _ if !is_wanted => Phase::GivingBack,
                Phase::GivingBack => Phase::Opening,
                phase => phase,
            };
        }
        let called = services.iter().flat_map(|service| &service.listens).map(|listen| listen.port);
        let targets = services.iter().flat_map(|service| &service.variations);
        let targets = targets.flat_map(|variation| &variation.targets).map(|target| target.port);
        let mut in_use: BTreeSet<u16> =
            called.chain(targets).chain(all.iter().map(|taken| taken.at)).collect();
        for listen in wanted {
            if all.iter().any(|taken| taken.is_for(listen)) {
                continue;
            }
            let is_free = |socket| self.ground.is_free(socket);
            let at = place(listen.socket(), self.settings.ports, &in_use, is_free);
            let at = at.map_err(Trouble::refused)?;
            in_use.insert(at);
            all.push(Taken { port: listen.port, kind: kind_of(listen), at, phase: Phase::Opening });
        }
        Ok(all)
    }

    /// Keeps what is about to be done.
    async fn keep(&self, all: &[Taken]) -> Result<(), Trouble> {
        if *lock(&self.taken) == all {
            return Ok(());
        }
        let text = serde_json::to_vec(all).map_err(|error| Trouble::passing(error.to_string()))?;
        let file = self.settings.file.clone();
        let kept = tokio::task::spawn_blocking(move || whole_file::replace(&file, &text)).await;
        kept.map_err(io::Error::other).flatten().map_err(|error| {
            let file = self.settings.file.display();
            Trouble::passing(format!(
                "{file}: {error}; no calls are taken over or given back before it can be kept"
            ))
        })?;
        *lock(&self.taken) = all.to_vec();
        Ok(())
    }

    /// Has callers sent so, and no others. Where nothing is taken over, nothing is left.
    async fn put(&self, all: &[Taken]) -> Result<(), Trouble> {
        let (found, wanted) = (self.ground.look().await?, redirects(all));
        if is_so(&found, all) {
            Ok(())
        } else if all.is_empty() {
            self.ground.give_back().await
        } else {
            self.ground.take(&wanted).await
        }
    }

    /// Forgets what was given back and has no callers any more. Until then the ground knows of it, lest what they have is cut.
    async fn finish(&self) -> Result<(), Trouble> {
        let all = lock(&self.taken).clone();
        if all.iter().all(|taken| taken.phase != Phase::GivingBack) {
            return Ok(());
        }
        // Whoever was to do that may have been killed.
        self.put(&all).await?;
        self.listen(&all).await?;
        let closing = self.listened().await?.closing;
        let has_callers = |taken: &Taken| {
            let mut own = closing.iter().filter(|one| {
                one.address.port() == taken.at && (one.kind == AddressKind::Udp) == taken.is_udp()
            });
            own.any(|one| one.connections > 0)
        };
        let is_left = |taken: &&Taken| taken.phase != Phase::GivingBack || has_callers(taken);
        let left: Vec<Taken> = all.iter().filter(is_left).cloned().collect();
        if left == all {
            return Ok(());
        }
        self.keep(&left).await?;
        self.put(&left).await
    }

    /// Has the proxy listen for what is taken over, and for nothing else of ours.
    async fn listen(&self, all: &[Taken]) -> Result<(), Trouble> {
        let ListenStatus { list, missing, .. } = self.listened().await?;
        let is_ours = |form: &AddressForm| {
            let is_udp = form.kind == AddressKind::Udp;
            all.iter().any(|taken| taken.at == form.address.port() && taken.is_udp() == is_udp)
        };
        let mut listen = list.listen.clone();
        listen.retain(|form| !is_ours(form));
        for taken in all.iter().filter(|taken| taken.phase != Phase::GivingBack) {
            let addresses = self.ground.addresses(taken.at).into_iter();
            listen.extend(addresses.map(|address| AddressForm { kind: taken.kind, address }));
        }
        listen.sort_unstable();
        if listen == list.listen && !missing.iter().any(is_ours) {
            return Ok(());
        }
        let next = ListenForm { epoch: list.epoch, generation: list.generation + 1, listen };
        let body = serde_json::to_vec(&next).map_err(|error| Trouble::refused(error.to_string()))?;
        let put: Result<ListenStatus, ClientError> = self.client.put("/listen", Bytes::from(body)).await;
        put.map(drop).map_err(|error| of_proxy(&error))
    }

    async fn listened(&self) -> Result<ListenStatus, Trouble> {
        let listened: Result<ListenStatus, ClientError> = self.client.get("/listen").await;
        listened.map_err(|error| of_proxy(&error))
    }

    /// Waits for those whose next call would find their service gone. Connections and flows that aren't HTTP keep their version.
    async fn wait_for_callers(&self, all: &[Taken], lingers: &watch::Sender<bool>) -> Result<(), Trouble> {
        let is_waited_for = |taken: &&Taken| {
            let is_http = matches!(taken.kind, AddressKind::Http | AddressKind::Https);
            is_http && taken.phase == Phase::GivingBack
        };
        let ports: BTreeSet<u16> = all.iter().filter(is_waited_for).map(|taken| taken.at).collect();
        let until = Instant::now() + GIVE_BACK_WITHIN;
        while !ports.is_empty() {
            let closing = self.listened().await?.closing;
            let left = closing
                .iter()
                .filter(|one| one.kind != AddressKind::Udp && ports.contains(&one.address.port()));
            if left.map(|one| one.connections).sum::<usize>() == 0 || Instant::now() >= until {
                break;
            }
            lingers.send_replace(true);
            sleep(GONE_EVERY).await;
        }
        Ok(())
    }

    /// In what way that which is in force differs: what is wanted, and what is there. None where nobody can tell.
    async fn difference(&self) -> Option<(String, String)> {
        let found = self.ground.look().await;
        let why_not = found.as_ref().err().map(|trouble| trouble.text.clone());
        let before = std::mem::replace(&mut *lock(&self.why_not), why_not.clone());
        if let Some(why) = why_not.filter(|why| before.as_ref() != Some(why)) {
            tracing::warn!("no calls can be taken over: {why}");
        }
        let (found, all) = (found.ok()?, lock(&self.taken).clone());
        if is_so(&found, &all) {
            return None;
        }
        let wanted = redirects(&all);
        let beside = if found.others == 0 { String::new() } else { format!(", and {} others", found.others) };
        Some((written(&wanted), format!("{}{beside}", written(&found.redirects))))
    }

    /// Looks again and again at what is in force, while anything is taken over and a proxy answers.
    async fn watch(self: Arc<Self>) {
        loop {
            sleep(LOOK_EVERY).await;
            let is_quiet = lock(&self.taken).is_empty() || lock(&self.away_since).is_some();
            if is_quiet {
                continue;
            }
            let Ok(turn) = self.turn.try_lock() else { continue };
            let difference = self.difference().await;
            if difference.is_none()
                && let Err(trouble) = self.finish().await
            {
                tracing::warn!("what is given back of others' ports: {}; tried again", trouble.text);
            }
            drop(turn);
            if let Some((wanted, seen)) = difference {
                tracing::warn!("calls to others' ports are taken over as {seen}, and put right: {wanted}");
                self.note_drift(wanted, seen);
                self.drifted.notify_one();
            }
        }
    }

    fn note_drift(&self, wanted: String, seen: String) {
        let mut drifts = lock(&self.drifts);
        let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0);
        let number = drifts.back().map_or(now, |last| now.max(last.number + 1));
        drifts.push_back(Drifted { at: Instant::now(), number, wanted, seen });
        if drifts.len() > DRIFTS {
            drifts.pop_front();
        }
    }
}

fn load(file: &Path) -> io::Result<Vec<Taken>> {
    match fs::read(file) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Where callers are to be sent.
fn redirects(all: &[Taken]) -> Redirects {
    let taken = all.iter().filter(|taken| taken.phase == Phase::Taken);
    taken.map(|taken| (taken.socket(), taken.at)).collect()
}

/// Whether this is what is to be in force.
fn is_so(found: &Found, all: &[Taken]) -> bool {
    if all.is_empty() { found.is_nothing() } else { found.is(&redirects(all)) }
}

fn written(redirects: &Redirects) -> String {
    let one = |(socket, to): (&Socket, &u16)| {
        let protocol = if socket.is_udp { "udp" } else { "tcp" };
        format!("{protocol} {} at {to}", socket.port)
    };
    let all: Vec<String> = redirects.iter().map(one).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}

/// The service with where the proxy listens for it.
fn placed(service: Service, all: &[Taken]) -> Result<Service, Trouble> {
    let mut spec = ServiceSpec::clone(&service);
    for listen in &mut spec.listens {
        let mut taken = all.iter().filter(|taken| taken.phase != Phase::GivingBack);
        listen.at = taken.find(|taken| taken.is_for(listen)).map(|taken| taken.at);
    }
    if spec.listens == service.listens {
        return Ok(service);
    }
    Service::new(spec).map_err(|error| Trouble::refused(error.to_string()))
}

/// As what it comes in for a service.
fn kind_of(listen: &Listen) -> AddressKind {
    match listen.protocol {
        Protocol::Http => AddressKind::Http,
        Protocol::Https if listen.passes() => AddressKind::Tls,
        Protocol::Https => AddressKind::Https,
        Protocol::Tcp => AddressKind::Tcp,
        Protocol::Udp => AddressKind::Udp,
    }
}

/// Where a proxy listens.
#[must_use]
pub fn open_ports(status: &Status) -> Vec<OpenPorts> {
    let at = |addresses: &[String], protocol, passes| {
        let ports = addresses.iter().filter_map(|at| at.rsplit_once(':')?.1.parse().ok());
        let open =
            |port| OpenPorts { first: port, last: port, protocol: Some(protocol), passes, takes_over: false };
        ports.map(open).collect::<Vec<_>>()
    };
    let mut open = at(&status.listen, Protocol::Http, false);
    open.extend(at(&status.pass_through, Protocol::Https, true));
    open.extend(at(&status.tcp, Protocol::Tcp, false));
    open.extend(at(&status.udp, Protocol::Udp, false));
    open.dedup();
    open
}
