//! Calls to a port that another program has, and keeps, come to the proxy beside this agent as long as a service is led there.
//!
//! Invariants:
//!
//! 1. What is about to be done is on disk before it is done (`takeover.json`): so whoever comes after a kill finds what may be in force, goes
//!    on with what a table still wants, and gives the rest back.
//! 2. Calls are sent to the proxy only while its table has the service, and it listens for them. So they are taken from the program that
//!    has the port after the table was put in force, and given back before a table is that doesn't have the service.
//! 3. Who was on the way when a port was given back is taken: the proxy listens as long as a handshake may last. Connections that came in
//!    are answered there, and closed with their next answer, also once no table has their service any more.
//! 4. Callers come from the addresses at which the program listens that has the port, and from no others: what is for this machine alone
//!    stays so.
//! 5. What is in force is read back. Where it is something else, it is put in force again, and that is told as a drift.
//! 6. While no proxy answers, or one that doesn't mark its own calls, nothing is sent to it: the program that has the port gets its calls.
//! 7. Where nothing can be taken over, no table waits for that which doesn't need it.
//!
//! How it is done depends on where this runs: that is a [`Ground`]. Which way there is for a port is [`rule`].

pub mod left_over;
pub mod listeners;
pub mod machine;
pub mod nft;
pub mod rule;

use std::{
    collections::{BTreeSet, VecDeque},
    fmt, fs, io,
    net::{IpAddr, SocketAddr},
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
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
    sync::{Mutex as TurnMutex, Notify},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use traffic::desired::{Service, ServiceSpec};

use self::{
    machine::Machine,
    nft::{Found, Redirect, Redirects, Sent, written},
    rule::{Facts, UNMARKED, Way, not_taken, place, way},
};
use crate::{proxy_process::of_proxy, settings::TakeoverSettings, state_machine::Trouble};

/// How often it is looked whether what is in force is what was put in force.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A proxy that didn't answer for so long gets no calls of others.
const AWAY: Duration = Duration::from_secs(1);

/// So many drifts are kept until they were told.
const DRIFTS: usize = 16;

pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What sends callers of others' ports to the proxy.
pub trait Ground: fmt::Debug + Send + Sync {
    /// Whether this agent has what it takes, and no other one is at work here: else what is to be done.
    fn hold(&self) -> Result<(), Trouble>;

    /// Another agent is, so what is in force is its own.
    fn is_anothers(&self) -> bool;

    /// What is in force.
    fn look(&self) -> Answer<'_, Result<Found, Trouble>>;

    /// Has callers of these ports sent there, and no others; those that were sent before go on, also with none. All of it, or nothing.
    fn take<'a>(&'a self, all: &'a Redirects) -> Answer<'a, Result<(), Trouble>>;

    /// Leaves nothing.
    fn give_back(&self) -> Answer<'_, Result<(), Trouble>>;

    /// Has nobody go on who was sent to this port without a connection, or to any.
    fn forget_flows(&self, at: Option<u16>);

    /// The addresses at which programs listen at a port. None: at all, or nobody does.
    fn listeners(&self, socket: Socket) -> Vec<IpAddr>;

    /// Where the proxy is to listen, so that callers of these addresses can be sent to this port.
    fn addresses(&self, port: u16, of: &[IpAddr]) -> Vec<SocketAddr>;

    /// Whether nobody listens there.
    fn is_free(&self, socket: Socket, of: &[IpAddr]) -> bool;

    /// How long those are on the way who were sent by what isn't in force any more.
    fn settles_in(&self) -> Duration;
}

/// A port of which calls are taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Taken {
    port: u16,
    kind: AddressKind,
    /// Of callers of these addresses: as of [`Ground::listeners`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    of: Vec<IpAddr>,
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
    /// None is to come, and some may.
    GivingBack,
    /// None comes, and some that came may go on.
    Leaving,
}

impl Taken {
    /// Whether calls come, or are about to.
    fn goes_on(&self) -> bool {
        matches!(self.phase, Phase::Opening | Phase::Taken)
    }

    fn is_udp(&self) -> bool {
        self.kind == AddressKind::Udp
    }

    fn is_for(&self, listen: &Listen) -> bool {
        self.goes_on() && self.port == listen.port && self.kind == kind_of(listen)
    }

    /// Whether the proxy listens there for it.
    fn is_at(&self, form: &AddressForm) -> bool {
        self.at == form.address.port() && self.is_udp() == (form.kind == AddressKind::Udp)
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

    /// What is called.
    fn called(&self) -> Socket {
        Socket { port: self.port, is_udp: self.is_udp() }
    }

    /// Where the proxy listens.
    fn opened(&self) -> Socket {
        Socket { port: self.at, is_udp: self.is_udp() }
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
    /// Whether anything can be taken over here, else why not, when that was looked at last. None: it wasn't yet.
    usable: Mutex<Option<Result<(), String>>>,
    /// Something else is in force than what is to be, as far as is known.
    differs: AtomicBool,
    /// Something was put in force since this began.
    has_put: AtomicBool,
    /// When callers were sent who are sent no more, last.
    sent_until: Mutex<Option<Instant>>,
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
            // What is in force has to be put in force once more before it is known that it is what it should be.
            differs: AtomicBool::new(!taken.is_empty()),
            taken: Mutex::new(taken),
            turn: TurnMutex::default(),
            usable: Mutex::default(),
            has_put: AtomicBool::new(false),
            sent_until: Mutex::default(),
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
    /// what is taken over for them.
    ///
    /// # Errors
    ///
    /// There is no way to a port that is to be taken over, or given back, or something that is needed for it doesn't answer.
    pub async fn before_table(
        &self,
        services: Vec<Service>,
        told: &[ServiceForm],
    ) -> Result<Vec<Service>, Trouble> {
        if !self.of.is_in_use() {
            return Ok(services);
        }
        let _turn = self.of.turn.lock().await;
        let all = self.of.prepare(&services, told).await?;
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
        self.of.open().await
    }

    /// Whether something else is in force than what is to be. A proxy answers, and says this of itself.
    pub async fn differs(&self, status: &Status) -> bool {
        *lock(&self.of.away_since) = None;
        if !self.of.is_in_use() {
            return false;
        }
        let is_any_taken = !lock(&self.of.taken).is_empty();
        if is_any_taken
            && !status.marks
            && let Ok(_turn) = self.of.turn.try_lock()
        {
            self.of.retreat("the proxy doesn't mark its own calls").await;
        }
        let is_usable = matches!(*lock(&self.of.usable), Some(Ok(())));
        is_usable && self.of.differs.load(Ordering::SeqCst)
    }

    /// No proxy answers: once that has been so for a moment, callers get whoever has their port.
    pub async fn proxy_is_away(&self) {
        let since = *lock(&self.of.away_since).get_or_insert_with(Instant::now);
        if since.elapsed() < AWAY || lock(&self.of.taken).is_empty() {
            return;
        }
        if let Ok(_turn) = self.of.turn.try_lock() {
            self.of.retreat("no proxy answers").await;
        }
    }

    /// The ports of a proxy at which services may be: its own, and those that can be taken over.
    #[must_use]
    pub fn ports(&self, status: &Status) -> Vec<OpenPorts> {
        let mut open = self.of.own_ports(status);
        let is_usable = matches!(*lock(&self.of.usable), Some(Ok(())));
        if self.of.settings.nftables && status.marks && is_usable {
            let any = |protocol, passes| OpenPorts {
                first: 1,
                last: u16::MAX,
                protocol: Some(protocol),
                passes,
                takes_over: true,
                by_socket: false,
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

    /// What keeps a proxy from getting calls of others' ports, though it is to, and what to do.
    #[must_use]
    pub fn trouble(&self, status: &Status) -> Option<String> {
        if !self.of.settings.nftables {
            return None;
        }
        if !status.marks {
            return Some(UNMARKED.to_owned());
        }
        lock(&self.of.usable).clone()?.err()
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

    /// Has all done that comes before a table. Gives what is taken over then.
    async fn prepare(&self, services: &[Service], told: &[ServiceForm]) -> Result<Vec<Taken>, Trouble> {
        let (wanted, before) = (self.wanted(services).await?, lock(&self.taken).clone());
        if wanted.is_empty() && before.is_empty() {
            return Ok(before);
        }
        let listened = self.listened().await?;
        let mut all = self.plan(&wanted, services, told, &listened)?;
        let is_pending = all.iter().any(|one| matches!(one.phase, Phase::Opening | Phase::GivingBack));
        if is_pending || all != before || self.differs.load(Ordering::SeqCst) {
            let found = self.look().await;
            let opening = all.iter().find(|one| one.phase == Phase::Opening);
            if let (Some(opening), Err(trouble)) = (opening, &found) {
                return Err(Trouble::refused(not_taken(opening.port, &trouble.text)));
            }
            self.keep(&all)?;
            // No more than what is in force: the table may not have the others yet.
            let mut now = redirects(&all);
            if let Ok(found) = &found {
                now.retain(|socket, redirect| found.sent.get(socket) == Some(&redirect.to));
            }
            match self.put(&found, &all, &now).await {
                Err(trouble) if is_pending => return Err(trouble),
                // That was said when it was looked, and is tried again.
                Ok(()) | Err(_) => {}
            }
        }
        let sent_until = lock(&self.sent_until).map(|at| at + self.ground.settles_in());
        if let Some(until) = sent_until.filter(|_| all.iter().any(|one| one.phase == Phase::GivingBack)) {
            sleep_until(until).await;
        }
        self.listen(&all, &listened).await?;
        for taken in all.iter_mut().filter(|taken| taken.phase == Phase::GivingBack) {
            taken.phase = Phase::Leaving;
        }
        self.keep(&all)?;
        Ok(all)
    }

    /// Has all done that comes after a table.
    async fn open(&self) -> Result<(), Trouble> {
        let mut all = lock(&self.taken).clone();
        let mut is_new = false;
        for taken in all.iter_mut().filter(|taken| taken.phase == Phase::Opening) {
            taken.phase = Phase::Taken;
            is_new = true;
            tracing::info!("calls to port {} are taken over, at port {}", taken.port, taken.at);
        }
        self.keep(&all)?;
        if is_new || self.differs.load(Ordering::SeqCst) {
            match self.put(&self.look().await, &all, &redirects(&all)).await {
                Ok(()) => self.differs.store(false, Ordering::SeqCst),
                Err(trouble) if is_new => return Err(trouble),
                // As before the table.
                Err(_) => {}
            }
        }
        if let Err(trouble) = self.finish().await {
            tracing::warn!("what is given back of others' ports: {}; tried again", trouble.text);
        }
        Ok(())
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
        if services.is_empty() {
            return Ok(Vec::new());
        }
        let status: Result<Status, ClientError> = self.client.get("/status").await;
        let status = status.map_err(|error| of_proxy(&error))?;
        let (own, metrics) = (self.own_ports(&status), ports_of(&status.metrics));
        let (is_allowed, marks) = (self.settings.nftables, status.marks);
        let facts = Facts { own: &own, metrics: &metrics, is_allowed, marks };
        let mut wanted = Vec::new();
        for listen in services.iter().flat_map(|service| &service.listens) {
            match way(listen, facts) {
                Ok(Way::Own) => {}
                Ok(Way::Nftables) => wanted.push(listen.clone()),
                // Then the proxy refuses the table itself, as ever.
                Err(_) if !self.settings.nftables => {}
                Err(why) => return Err(Trouble::refused(why)),
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
        listened: &ListenStatus,
    ) -> Result<Vec<Taken>, Trouble> {
        let mut all = lock(&self.taken).clone();
        for taken in all.iter_mut().filter(|taken| taken.goes_on()) {
            let is_wanted = wanted.iter().any(|listen| taken.is_for(listen))
                || told.iter().any(|form| taken.is_told_of(form));
            if !is_wanted || self.is_lost(taken, listened) {
                taken.phase = Phase::GivingBack;
            }
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
            let of = self.ground.listeners(listen.socket());
            let is_free = |socket| self.ground.is_free(socket, &of);
            let at = place(listen.socket(), self.settings.ports, &in_use, is_free);
            let at = at.map_err(Trouble::refused)?;
            in_use.insert(at);
            all.push(Taken { port: listen.port, kind: kind_of(listen), of, at, phase: Phase::Opening });
        }
        Ok(all)
    }

    /// Whether somebody else has the port at which the proxy is to listen.
    fn is_lost(&self, taken: &Taken, ListenStatus { list, missing, .. }: &ListenStatus) -> bool {
        let is_listed = list.listen.iter().any(|form| taken.is_at(form));
        let is_listening = is_listed && !missing.iter().any(|form| taken.is_at(form));
        !is_listening && !self.ground.is_free(taken.opened(), &taken.of)
    }

    /// Keeps what is about to be done. At once, lest whoever asked for it is gone before it is there: who comes next changes the same file.
    fn keep(&self, all: &[Taken]) -> Result<(), Trouble> {
        let mut taken = lock(&self.taken);
        if *taken == all {
            return Ok(());
        }
        let text = serde_json::to_vec(all).map_err(|error| Trouble::passing(error.to_string()))?;
        whole_file::replace(&self.settings.file, &text).map_err(|error| {
            let file = self.settings.file.display();
            Trouble::passing(format!(
                "{file}: {error}; no calls are taken over or given back before it can be kept"
            ))
        })?;
        *taken = all.to_vec();
        Ok(())
    }

    /// What is in force, which says whether anything can be taken over.
    async fn look(&self) -> Result<Found, Trouble> {
        let found = match self.ground.hold() {
            Ok(()) => self.ground.look().await,
            Err(trouble) => Err(trouble),
        };
        let usable = match &found {
            Ok(_) => Ok(()),
            Err(trouble) => Err(trouble.text.clone()),
        };
        let before = lock(&self.usable).replace(usable.clone());
        if let Err(why) = &usable
            && before.as_ref() != Some(&usable)
        {
            tracing::warn!("no calls can be taken over at others' ports: {why}");
        }
        found
    }

    /// Has callers sent so, and no others, where this was found. Where nothing is taken over, nothing is left.
    async fn put(
        &self,
        found: &Result<Found, Trouble>,
        all: &[Taken],
        wanted: &Redirects,
    ) -> Result<(), Trouble> {
        let found = match found {
            Ok(found) => found,
            // Whoever that is has put other rules in the place of those that were there.
            Err(_) if wanted.is_empty() && self.ground.is_anothers() => return Ok(()),
            Err(trouble) => return Err(trouble.clone()),
        };
        if is_so(found, all, wanted) {
            return Ok(());
        }
        if all.is_empty() {
            self.ground.give_back().await?;
        } else {
            self.ground.take(wanted).await?;
        }
        self.has_put.store(true, Ordering::SeqCst);
        let sent = nft::sent(wanted);
        if found.sent.iter().any(|(socket, to)| sent.get(socket) != Some(to)) {
            *lock(&self.sent_until) = Some(Instant::now());
        }
        Ok(())
    }

    /// Forgets what was given back and has no callers any more. Until then the ground knows of it, lest what they have is cut.
    async fn finish(&self) -> Result<(), Trouble> {
        let all = lock(&self.taken).clone();
        if all.iter().all(|taken| taken.phase != Phase::Leaving) {
            return Ok(());
        }
        let closing = self.listened().await?.closing;
        let has_callers = |taken: &Taken| {
            closing.iter().any(|one| {
                let form = AddressForm { kind: one.kind, address: one.address };
                taken.is_at(&form) && one.connections > 0
            })
        };
        let (gone, left): (Vec<Taken>, Vec<Taken>) =
            all.into_iter().partition(|taken| taken.phase == Phase::Leaving && !has_callers(taken));
        if gone.is_empty() {
            return Ok(());
        }
        // Before it is forgotten: whoever comes after a kill does it again.
        self.put(&self.look().await, &left, &redirects(&left)).await?;
        gone.iter().filter(|taken| taken.is_udp()).for_each(|taken| self.ground.forget_flows(Some(taken.at)));
        self.keep(&left)
    }

    /// Has the proxy listen for what is taken over, and for nothing else of ours.
    async fn listen(&self, all: &[Taken], listened: &ListenStatus) -> Result<(), Trouble> {
        let ListenStatus { list, missing, .. } = listened;
        let is_ours = |form: &AddressForm| all.iter().any(|taken| taken.is_at(form));
        let mut listen = list.listen.clone();
        listen.retain(|form| !is_ours(form));
        for taken in all.iter().filter(|taken| taken.goes_on()) {
            let addresses = self.ground.addresses(taken.at, &taken.of).into_iter();
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

    /// Nobody is to be sent to the proxy, whatever is taken over.
    async fn retreat(&self, why: &str) {
        let Ok(found) = self.look().await else { return };
        if found.sent.is_empty() {
            return;
        }
        match self.ground.take(&Redirects::new()).await {
            Ok(()) => {
                self.ground.forget_flows(None);
                self.has_put.store(true, Ordering::SeqCst);
                self.differs.store(true, Ordering::SeqCst);
                tracing::warn!("{why}: calls to others' ports go to whoever has these");
            }
            Err(trouble) => tracing::error!("{why}, and calls still go there: {}", trouble.text),
        }
    }

    /// Looks again and again at what is in force.
    async fn watch(self: Arc<Self>) {
        loop {
            if self.is_in_use()
                && let Ok(_turn) = self.turn.try_lock()
            {
                self.look_after().await;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn look_after(&self) {
        let found = self.look().await;
        if lock(&self.away_since).is_some() {
            return;
        }
        let Ok(found) = found else { return };
        let all = lock(&self.taken).clone();
        let wanted = redirects(&all);
        if !is_so(&found, &all, &wanted) {
            let sent = nft::sent(&wanted);
            // What is being given back may be there still, and nobody has changed it.
            let is_whole = all.iter().all(|taken| taken.phase != Phase::GivingBack);
            let is_drift = is_whole && (found.is_there || found.sent != sent);
            let is_known = self.differs.swap(true, Ordering::SeqCst);
            if is_drift && !is_known && self.has_put.load(Ordering::SeqCst) {
                self.note_drift(&sent, &found);
            }
            // More callers than come now are sent to the proxy with its table alone.
            if sent.iter().any(|(socket, to)| found.sent.get(socket) != Some(to)) {
                self.drifted.notify_one();
                return;
            }
            if let Err(trouble) = self.put(&Ok(found), &all, &wanted).await {
                tracing::warn!("rules for others' ports are not as they should be: {}", trouble.text);
                return;
            }
        }
        self.differs.store(false, Ordering::SeqCst);
        if let Err(trouble) = self.finish().await {
            tracing::warn!("what is given back of others' ports: {}; tried again", trouble.text);
        }
    }

    fn note_drift(&self, wanted: &Sent, found: &Found) {
        let seen = match found {
            Found { is_there: true, sent, .. } if sent == wanted => "the same by other rules".to_owned(),
            Found { sent, .. } => written(sent),
        };
        let wanted = written(wanted);
        tracing::warn!("calls to others' ports are taken over as {seen}, and put right: {wanted}");
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
    taken.map(|taken| (taken.called(), Redirect { to: taken.at, of: taken.of.clone() })).collect()
}

/// Whether this is what is to be in force.
fn is_so(found: &Found, all: &[Taken], wanted: &Redirects) -> bool {
    if all.is_empty() { !found.is_there } else { found.is(wanted) }
}

/// The service with where the proxy listens for it.
fn placed(service: Service, all: &[Taken]) -> Result<Service, Trouble> {
    let mut spec = ServiceSpec::clone(&service);
    for listen in &mut spec.listens {
        listen.at = all.iter().find(|taken| taken.is_for(listen)).map(|taken| taken.at);
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

fn ports_of(addresses: &[String]) -> Vec<u16> {
    addresses.iter().filter_map(|at| at.rsplit_once(':')?.1.parse().ok()).collect()
}

/// Where a proxy listens.
#[must_use]
pub fn open_ports(status: &Status) -> Vec<OpenPorts> {
    let at = |addresses: &[String], protocol, passes| {
        let open = |port| OpenPorts {
            first: port,
            last: port,
            protocol: Some(protocol),
            passes,
            takes_over: false,
            by_socket: false,
        };
        ports_of(addresses).into_iter().map(open).collect::<Vec<_>>()
    };
    let mut open = at(&status.listen, Protocol::Http, false);
    open.extend(at(&status.pass_through, Protocol::Https, true));
    open.extend(at(&status.tcp, Protocol::Tcp, false));
    open.extend(at(&status.udp, Protocol::Udp, false));
    open.dedup();
    open
}
