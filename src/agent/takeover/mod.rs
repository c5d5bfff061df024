//! Calls to a port that another program has, and keeps, come to the proxy beside this agent as long as a service is led there.
//!
//! There are two ways. **By a socket** the proxy listens at the port as well, by a socket that was lent to it or by one beside the other
//! program's (`proxy::shared`): either of them answers a call until the other program lets go. **By rules** the kernel sends callers to
//! another port, where the proxy listens, and the other program goes on. The first of them that there is for a port is taken ([`rule`]), and
//! kept as long as it serves.
//!
//! Invariants:
//!
//! 1. What is about to be done is on disk before it is done (`takeover.json`): so whoever comes after a kill finds what may be in force, goes
//!    on with what a table still wants, and gives the rest back.
//! 2. Calls come to the proxy only while its table has the service, and it listens for them. So rules send them after the table was put in
//!    force, and no more before a table is that doesn't have the service. By a socket the proxy itself sees to that: it accepts nothing at
//!    such a port before its table has a service there.
//! 3. Who was on the way when a port was given back is taken: the proxy listens as long as a handshake may last. Connections that came in
//!    are answered there, and closed with their next answer, also once no table has their service any more.
//! 4. Callers come from the addresses at which the program listens that has the port, and from no others: what is for this machine alone
//!    stays so.
//! 5. What is in force of rules is read back. Where it is something else, it is put in force again, and that is told as a drift.
//! 6. While no proxy answers, or one that doesn't mark its own calls, no rule sends anything to it: the program that has the port gets its
//!    calls.
//! 7. Where nothing can be taken over, no table waits for that which doesn't need it.
//! 8. By a socket the proxy lets go only once the other program accepts again. Until then there is no table without the service; that is
//!    asked each second ([`TroubleKind::Waits`](crate::state_machine::TroubleKind)), and holds up no other agent's table.
//! 9. Whether the other program still accepts is known, or it is taken for one that does: shares aren't told to be in force then (`beside`).
//! 10. Rules are looked at only while any are in force, or are to be, or it isn't known whether there can be any.
//!
//! What would go wrong otherwise, by a socket:
//!
//! - *The target of the version that serves is the port itself*, by whatever address of this machine. The proxy's calls come back to it, as
//!   often as the kernel gives them to it: so such a service goes by rules, or not at all.
//! - *The proxy lets go since the table has no service any more*, and the other program was ended: nobody is there.
//! - *Who asks whether that is back does so less and less often*, as what failed is tried again: somebody who starts it again waits for
//!   half a minute, and so do all who deprecate a canary.
//! - *The agent is killed while it asks.* The proxy has paused by itself, and goes on by itself.
//! - *An address can't be opened any more*, since another program has opened it otherwise: it is given up, and keeps nothing else from
//!   being opened.
//!
//! How it is done depends on where this runs: that is a [`Ground`].

mod beside;
pub mod left_over;
pub mod listeners;
pub mod machine;
pub mod nft;
mod prepare;
pub mod rule;
mod taken;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
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

use model::traffic::{OpenPorts, Protocol, Socket};
use proxy::{
    control::{
        client::{Client, ClientError},
        form::{ListenStatus, Others, Status},
    },
    form::{AddressForm, ServiceForm},
    whole_file,
};
use tokio::{
    sync::{Mutex as TurnMutex, Notify},
    task::{JoinSet, spawn_blocking},
    time::Instant,
};
use traffic::desired::{Service, ServiceSpec};

use self::{
    beside::Beside,
    machine::Machine,
    nft::{Found, Redirect, Redirects},
    rule::{UNMARKED, UNSHARED},
    taken::{Phase, Taken},
};
use crate::{proxy_process::of_proxy, settings::TakeoverSettings, state_machine::Trouble};

/// How often it is looked whether what is in force is what was put in force, and who else takes calls.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often it is looked whether rules are possible that weren't.
const RULES_AGAIN: Duration = Duration::from_secs(10);

/// How often it is looked at which ports calls could be taken over by a socket. That reads all that is connected on this machine.
const SURVEY_EVERY: Duration = Duration::from_secs(5);

/// The most of these ports that are told.
const MOST_SURVEYED: usize = 16;

/// How often it is looked whether the last flow of UDP has ended at a port that is given back: the kernel remembers it until it is told.
const FLOWS_EVERY: Duration = Duration::from_millis(50);

/// A proxy that didn't answer for so long gets no calls of others.
const AWAY: Duration = Duration::from_secs(1);

/// So many drifts are kept until they were told.
const DRIFTS: usize = 16;

pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What sends callers of others' ports to the proxy.
pub trait Ground: fmt::Debug + Send + Sync + 'static {
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

    /// The addresses at which programs listen at a port. None: at all, or nobody does. This waits for the disk or the kernel, and so do all
    /// that follow.
    fn listeners(&self, socket: Socket) -> Vec<IpAddr>;

    /// The addresses at which programs listen at each port of TCP, or at this one, and whether the proxy can listen there beside them.
    fn beside(&self, port: Option<u16>) -> BTreeMap<u16, Vec<(IpAddr, bool)>>;

    /// Those of these that are addresses of this machine, as far as that is known.
    fn own_of(&self, addresses: &[IpAddr]) -> Vec<IpAddr>;

    /// Where the proxy is to listen, so that callers of these addresses can be sent to this port.
    fn addresses(&self, port: u16, of: &[IpAddr]) -> Vec<SocketAddr>;

    /// Whether nobody listens there.
    fn is_free(&self, socket: Socket, of: &[IpAddr]) -> bool;

    /// How long those are on the way who were sent by what isn't in force any more.
    fn settles_in(&self) -> Duration;
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
    ground: Arc<dyn Ground>,
    taken: Mutex<Vec<Taken>>,
    /// Held by whoever changes what is in force, or judges it.
    turn: TurnMutex<()>,
    /// When it was looked last whether there can be rules here, and what came of it: else why not. None: it wasn't yet.
    usable: Mutex<Option<(Instant, Result<(), String>)>>,
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
    /// Something is given back that may have flows of UDP.
    leaves: Notify,
    /// Ports at which programs listen, and the proxy could beside all of them.
    joinable: Mutex<Vec<u16>>,
    /// Who else takes calls that are taken over by a socket.
    beside: Mutex<Beside>,
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
            ground: Arc::from(ground),
            // What is in force has to be put in force once more before it is known that it is what it should be.
            differs: AtomicBool::new(taken.iter().any(Taken::is_by_rules)),
            taken: Mutex::new(taken),
            turn: TurnMutex::default(),
            usable: Mutex::default(),
            has_put: AtomicBool::new(false),
            sent_until: Mutex::default(),
            away_since: Mutex::default(),
            drifted: Notify::new(),
            drifts: Mutex::default(),
            leaves: Notify::new(),
            joinable: Mutex::default(),
            beside: Mutex::default(),
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
        if self.of.has_rules()
            && !status.marks
            && let Ok(_turn) = self.of.turn.try_lock()
        {
            self.of.retreat("the proxy doesn't mark its own calls").await;
        }
        let has_to_go = !self.of.settings.sockets && !self.of.taken_by_socket().is_empty();
        has_to_go || (self.of.can_have_rules() && self.of.differs.load(Ordering::SeqCst))
    }

    /// No proxy answers: once that has been so for a moment, callers get whoever has their port.
    pub async fn proxy_is_away(&self) {
        let since = *lock(&self.of.away_since).get_or_insert_with(Instant::now);
        if since.elapsed() < AWAY || !self.of.has_rules() {
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
        let by_socket = self.of.ports_by_socket(status).into_iter();
        let by_socket: Vec<u16> =
            by_socket.filter(|port| open.iter().all(|own| own.first != *port)).take(MOST_SURVEYED).collect();
        open.extend(by_socket.into_iter().map(|port| OpenPorts {
            first: port,
            last: port,
            protocol: None,
            passes: false,
            takes_over: true,
            by_socket: true,
        }));
        if self.of.settings.nftables && status.marks && self.of.can_have_rules() {
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

    /// Ports of which another program may still take a part of the calls, past the proxy.
    #[must_use]
    pub fn shared_ports(&self) -> BTreeSet<u16> {
        let beside = lock(&self.of.beside);
        self.of.taken_by_socket().into_iter().filter(|port| beside.is_shared(*port)).collect()
    }

    /// What keeps a proxy from getting calls of others' ports, though it is to, and what to do.
    #[must_use]
    pub fn trouble(&self, status: &Status) -> Option<String> {
        let TakeoverSettings { sockets, nftables, .. } = self.of.settings;
        if !nftables {
            return (sockets && status.lent.is_none()).then(|| UNSHARED.to_owned());
        }
        if !status.marks {
            return Some(UNMARKED.to_owned());
        }
        lock(&self.of.usable).clone()?.1.err()
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
        self.settings.sockets || self.settings.nftables || !lock(&self.taken).is_empty()
    }

    /// Whether anything is taken over by rules, or was and some of it goes on.
    fn has_rules(&self) -> bool {
        lock(&self.taken).iter().any(Taken::is_by_rules)
    }

    /// Whether there can be rules, as far as is known.
    fn can_have_rules(&self) -> bool {
        matches!(*lock(&self.usable), Some((_, Ok(()))))
    }

    /// Ports of which calls come by a socket.
    fn taken_by_socket(&self) -> Vec<u16> {
        let taken = lock(&self.taken);
        // Also those of which it wasn't noted that their table came: it may have come before whoever told it was killed.
        let of_socket = taken.iter().filter(|taken| taken.is_by_socket() && taken.goes_on());
        of_socket.map(|taken| taken.port).collect()
    }

    /// Ports of which calls can be taken over by a socket, or are.
    fn ports_by_socket(&self, status: &Status) -> Vec<u16> {
        let Some(lent) = status.lent.as_ref().filter(|_| self.settings.sockets) else { return Vec::new() };
        let mut ports: Vec<u16> = self.taken_by_socket();
        for port in lent.iter().map(SocketAddr::port).chain(lock(&self.joinable).iter().copied()) {
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        ports
    }

    /// Looks at what waits for the disk or the kernel, beside what this serves. Whoever asks may leave: it changes nothing.
    async fn apart<T: Send + 'static>(
        &self,
        look: impl FnOnce(&dyn Ground) -> T + Send + 'static,
    ) -> Result<T, Trouble> {
        let ground = Arc::clone(&self.ground);
        let looked = spawn_blocking(move || look(&*ground)).await;
        looked.map_err(|error| Trouble::passing(error.to_string()))
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

    /// Keeps what is about to be done. At once, lest whoever asked for it is gone before it is there: who comes next changes the same file.
    /// It is a small one, and written seldom.
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

    /// What is in force of rules, which says whether there can be any.
    async fn look(&self) -> Result<Found, Trouble> {
        let found = match self.ground.hold() {
            Ok(()) => self.ground.look().await,
            Err(trouble) => Err(trouble),
        };
        let usable = match &found {
            Ok(_) => Ok(()),
            Err(trouble) => Err(trouble.text.clone()),
        };
        let before = lock(&self.usable).replace((Instant::now(), usable.clone()));
        if let Err(why) = &usable
            && before.is_none_or(|(_, before)| before != usable)
        {
            tracing::warn!("no calls can be taken over at others' ports by rules: {why}");
        }
        found
    }

    /// Has callers sent so, and no others, where this was found. Where nothing is taken over by rules, none is left.
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
        if all.iter().any(Taken::is_by_rules) {
            self.ground.take(wanted).await?;
        } else {
            self.ground.give_back().await?;
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
        // Before it is forgotten: whoever comes after a kill does it again.
        if gone.iter().any(Taken::is_by_rules) {
            self.put(&self.look().await, &left, &redirects(&left)).await?;
        }
        gone.iter().filter(|taken| taken.is_udp()).for_each(|taken| self.ground.forget_flows(Some(taken.at)));
        self.keep(&left)
    }

    async fn listened(&self) -> Result<ListenStatus, Trouble> {
        let listened: Result<ListenStatus, ClientError> = self.client.get("/listen").await;
        listened.map_err(|error| of_proxy(&error))
    }

    /// Who takes calls at a port that is taken over by a socket.
    async fn others(&self, port: u16) -> Result<Others, Trouble> {
        let others: Result<Others, ClientError> = self.client.post(&format!("/others?port={port}")).await;
        others.map_err(|error| of_proxy(&error))
    }

    /// Nobody is to be sent to the proxy by rules, whatever is taken over.
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
    let taken = all.iter().filter(|taken| taken.is_by_rules() && taken.phase == Phase::Taken);
    taken.map(|taken| (taken.called(), Redirect { to: taken.at, of: taken.of.clone() })).collect()
}

/// Whether this is what is to be in force.
fn is_so(found: &Found, all: &[Taken], wanted: &Redirects) -> bool {
    if all.iter().any(Taken::is_by_rules) { found.is(wanted) } else { !found.is_there }
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
