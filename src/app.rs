//! Puts the parts together: opens the store, starts the engine, listens, and ends in order.
//!
//! The only place that names an adapter of the store.

mod canaries;
mod routers;

use std::{fmt, net::SocketAddr, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::{
    net::{TcpListener, TcpSocket},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use domain::release::settings::{Proven, Settings as Rules};
use engine::{
    Engine, RunningEngine, TaskSettings, fleet_check, judging, notify,
    parent::{self, forward::Forwarding},
    placing, questions, retention,
};
use http_api::{
    Context, address::Proxies, auth, context, host::Hosts, serve, service_area::ServiceArea,
    v1::canary_folder::Manifests,
};
use language::{Site, functions};
use metrics_providers::provider::Registry;
use placement::FunctionTypes;
use store::{StoreError, options::OpenOptions, url};

use protocol::ab_releases::Registrations;

pub use self::routers::LedRouter;
use self::routers::RouterCredentials;

/// What a manager is started with.
#[derive(Debug)]
pub struct Options {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// `sqlite://PATH` or `postgres://…`.
    pub store: String,
    pub open: OpenOptions,
    /// The folder that contains `fns/`.
    pub functions_root: PathBuf,
    pub archive_limits: functions::Limits,
    pub rules: Rules,
    pub task: TaskSettings,
    /// The parent; `None`: this one is the root.
    pub parent: Option<parent::Settings>,
    /// Where strategies go that reach beyond this manager.
    pub forwarding: Forwarding,
    /// GeoJSON of what this manager is there for: children elsewhere are warned of.
    pub service_area: Option<String>,
    pub max_connections: usize,
    pub auth: auth::Settings,
    /// Names and addresses under which it may be called, beside those that it knows by itself.
    pub hosts: Vec<String>,
    /// Who is believed about where a call comes from.
    pub proxies: Proxies,
    /// An address of their own for the calls of children; they are not answered on `listen` then.
    pub child_listen: Option<SocketAddr>,
    pub tls: Option<Tls>,
    pub child_tls: Option<Tls>,
    pub timeouts: serve::Timeouts,
    /// Agents that a child may say are below it; more count as so many.
    pub max_agents: u32,
    /// Longest wait of a call for something new; zero: none waits.
    pub max_wait: Duration,
    /// Calls that may wait at once; never more than half of the connections, so that others get through.
    pub max_waiters: usize,
    /// The templates and providers that strategies may name.
    pub site: Site,
    /// Which runtime runs which type of functions of workflows.
    pub function_types: FunctionTypes,
    /// Where nodes and workflows are mirrored; `None`: nowhere.
    pub mirror: Option<mirror::Settings>,
    /// Routers that it leads by itself.
    pub routers: Vec<LedRouter>,
    /// What releases of services may name, beside what calls register.
    pub registered: Registrations,
    /// The folder of manifests that it watches; `None`: none.
    pub canary_folder: Option<PathBuf>,
    /// The web page; served wherever developers and operators call.
    pub page: page::Settings,
}

/// Speaks TLS on an address.
#[derive(Clone)]
pub struct Tls(pub TlsAcceptor);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Options {
    /// A manager on the machine's own address with the usual limits, open to everybody there.
    pub fn local(store: String, functions_root: PathBuf) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            store,
            open: OpenOptions::new(),
            functions_root,
            archive_limits: functions::Limits::default(),
            rules: Rules::default(),
            task: TaskSettings::default(),
            parent: None,
            forwarding: Forwarding::Nobody,
            service_area: None,
            max_connections: LOCAL_MAX_CONNECTIONS,
            auth: auth::Settings::default(),
            hosts: Vec::new(),
            proxies: Proxies::default(),
            child_listen: None,
            tls: None,
            child_tls: None,
            timeouts: serve::Timeouts::default(),
            max_agents: http_api::child::MAX_AGENTS,
            max_wait: http_api::child::MAX_WAIT,
            max_waiters: http_api::child::MAX_WAITERS,
            site: Site::default(),
            function_types: FunctionTypes::default(),
            mirror: None,
            routers: Vec::new(),
            registered: Registrations::default(),
            canary_folder: None,
            page: page::Settings::default(),
        }
    }
}

/// Connections at once of [`Options::local`].
const LOCAL_MAX_CONNECTIONS: usize = 10_000;

/// A manager that serves.
#[derive(Debug)]
pub struct Manager {
    pub address: SocketAddr,
    /// Where children call; the same unless they have an address of their own.
    pub child_address: SocketAddr,
    pub engine: Engine,
    stop: CancellationToken,
    serving: Vec<JoinHandle<()>>,
    notifying: JoinHandle<()>,
    judging: JoinHandle<()>,
    asking: JoinHandle<()>,
    placing: JoinHandle<()>,
    checking: JoinHandle<()>,
    mirroring: Option<JoinHandle<()>>,
    ending: Option<JoinHandle<()>>,
    parent: Option<JoinHandle<()>>,
    leading: JoinHandle<()>,
    watching: Option<JoinHandle<()>>,
    writing: JoinHandle<Result<(), StoreError>>,
}

/// Starts a manager. When this returns, it answers; before, nobody can connect.
///
/// The addresses are taken after the store's lease, so that a standby doesn't hold them while it waits, and before its
/// content is loaded, so that one that is taken is found out at once. They are listened on when all is there to answer.
///
/// No `async fn`: whoever awaits one compiles all of it again, here a whole manager for each program with tests.
pub fn start(options: Options) -> Pin<Box<dyn Future<Output = anyhow::Result<Manager>> + Send>> {
    Box::pin(start_all(options))
}

async fn start_all(mut options: Options) -> anyhow::Result<Manager> {
    // The first caller decides; another provider that was chosen before is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let led = RouterCredentials::new(std::mem::take(&mut options.routers), &mut options.auth.children)?;
    let (mut writer, reader) =
        url::open(&options.store, &options.open).await.context("the store could not be opened")?;
    let doors = match Doors::bind(options.listen, options.child_listen) {
        Ok(doors) => doors,
        Err(error) => {
            // Else who starts next would have to wait until the lease has run out.
            let _ = writer.release().await;
            return Err(error);
        }
    };
    let proven = Proven::new(options.auth.children.ids().cloned());
    let rules = Rules { proven, ..options.rules.clone() };
    let started = engine::start(writer, reader, rules, options.task.clone())
        .await
        .context("the store's content could not be loaded")?;
    let engine = started.engine.clone();
    match serve_on(doors, options, started, led) {
        Ok(manager) => Ok(manager),
        Err(error) => {
            engine.stop().await;
            Err(error)
        }
    }
}

/// Opens the doors, and starts whatever works beside the engine.
fn serve_on(
    doors: Doors,
    options: Options,
    started: RunningEngine,
    led: RouterCredentials,
) -> anyhow::Result<Manager> {
    let registry = Registry::new(&options.site.providers)?;
    let keep_alive = options.rules.placement.keep_alive;
    let stop = CancellationToken::new();
    let (address, child_address) = (doors.address, doors.child_address);
    let hosts = Hosts::new(&[address, child_address], &options.hosts, options.auth.metrics_open);
    let hosts = Arc::new(hosts);
    let service_area = options.service_area.as_deref().map(ServiceArea::read).transpose();
    let service_area = service_area.context("the area of this manager")?.map(Arc::new);
    let settings = context::Settings {
        functions_root: options.functions_root,
        archive_limits: options.archive_limits,
        auth: options.auth,
        proxies: options.proxies,
        max_agents: options.max_agents,
        max_joined: options.rules.max_children,
        max_wait: options.max_wait,
        max_waiters: options.max_waiters.min(options.max_connections / 2),
        site: options.site,
        keep_alive,
        function_types: options.function_types,
        service_area,
    };
    let ctx = Context::new(started.engine.clone(), settings, options.forwarding, stop.clone());
    tokio::spawn(http_api::v1::register_all(ctx.clone(), options.registered));
    let settings = |tls: Option<Tls>| serve::Settings {
        max_connections: options.max_connections,
        tls: tls.map(|Tls(acceptor)| acceptor),
        timeouts: options.timeouts,
        hosts: Arc::clone(&hosts),
    };
    if options.parent.is_some() {
        // Whoever asks first is told of the link, too.
        started.engine.view().lineage.link.set(false, 0);
    }
    let (listener, child_listener) = doors.open()?;
    let mut serving = Vec::new();
    let leading = tokio::spawn(led.run(http_api::InProcess::new(ctx.clone()), stop.clone()));
    let watching = options
        .canary_folder
        .map(|folder| tokio::spawn(canaries::run(folder, Manifests::new(ctx.clone()), stop.clone())));
    let page = page::router(http_api::Operators::new(ctx.clone()), options.page);
    let router = match child_listener {
        None => http_api::router(ctx).merge(page),
        Some(listener) => {
            let router = http_api::child_router(ctx.clone());
            let settings = settings(options.child_tls);
            serving.push(tokio::spawn(serve::serve(listener, router, settings, stop.clone())));
            http_api::operator_router(ctx).merge(page)
        }
    };
    serving.push(tokio::spawn(serve::serve(listener, router, settings(options.tls), stop.clone())));
    let notifying = tokio::spawn(notify::run(started.engine.clone(), started.effects, stop.clone()));
    let judging = tokio::spawn(judging::run(started.engine.clone(), registry, stop.clone()));
    let asking = tokio::spawn(questions::liveness::run(started.engine.clone(), stop.clone()));
    let placing = tokio::spawn(placing::run(started.engine.clone(), keep_alive, stop.clone()));
    let checking = tokio::spawn(fleet_check::run(started.engine.clone(), stop.clone()));
    let mirroring =
        options.mirror.map(|mirror| tokio::spawn(mirror::run(started.engine.clone(), mirror, stop.clone())));
    let ending = options
        .task
        .history_retention
        .map(|kept| tokio::spawn(retention::run(started.engine.clone(), kept, stop.clone())));
    if options.parent.is_none() {
        let engine = started.engine.clone();
        tokio::spawn(async move {
            if let Err(error) = parent::placements::end_all(&engine).await {
                tracing::warn!(%error, "what a parent had placed here may run on");
            }
        });
    }
    let parent = options.parent.map(|parent| {
        tokio::spawn(parent::run(started.engine.clone(), parent, started.to_parent, stop.clone()))
    });
    let (engine, writing) = (started.engine, started.task);
    Ok(Manager {
        address,
        child_address,
        engine,
        stop,
        serving,
        notifying,
        judging,
        asking,
        placing,
        checking,
        mirroring,
        ending,
        parent,
        leading,
        watching,
        writing,
    })
}

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// Addresses that are taken, and on which nobody can connect yet.
struct Doors {
    main: TcpSocket,
    address: SocketAddr,
    child: Option<TcpSocket>,
    /// The same as `address` where children have none of their own.
    child_address: SocketAddr,
}

impl Doors {
    fn bind(listen: SocketAddr, child_listen: Option<SocketAddr>) -> anyhow::Result<Self> {
        let (main, address) = bind(listen)?;
        let (child, child_address) = match child_listen.map(bind).transpose()? {
            Some((socket, address)) => (Some(socket), address),
            None => (None, address),
        };
        Ok(Self { main, address, child, child_address })
    }

    fn open(self) -> anyhow::Result<(TcpListener, Option<TcpListener>)> {
        let listen = |socket: TcpSocket, address| {
            socket.listen(BACKLOG).with_context(|| format!("can't listen on {address}"))
        };
        let child = self.child.map(|socket| listen(socket, self.child_address)).transpose()?;
        Ok((listen(self.main, self.address)?, child))
    }
}

fn bind(address: SocketAddr) -> anyhow::Result<(TcpSocket, SocketAddr)> {
    let taken = || -> std::io::Result<_> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Else connections of an earlier life that linger would keep the address for a minute.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let address = socket.local_addr()?;
        Ok((socket, address))
    };
    taken().with_context(|| format!("can't listen on {address}"))
}

impl Manager {
    /// Stops listening, lets requests in hand end, commits what is left and gives the lease back.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.engine.view().drain();
        self.stop.cancel();
        for serving in self.serving {
            let _ = serving.await;
        }
        let _ = self.leading.await;
        if let Some(watching) = self.watching {
            let _ = watching.await;
        }
        let _ = self.notifying.await;
        let _ = self.judging.await;
        let _ = self.asking.await;
        let _ = self.placing.await;
        let _ = self.checking.await;
        if let Some(mirroring) = self.mirroring {
            let _ = mirroring.await;
        }
        if let Some(ending) = self.ending {
            let _ = ending.await;
        }
        if let Some(parent) = self.parent {
            let _ = parent.await;
        }
        self.engine.stop().await;
        self.writing.await.context("the engine's task was cut off")?.context("the store")
    }

    /// Waits until the engine ends by itself, which it does only when the lease is lost or the store refuses.
    pub async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.writing).await {
            Ok(Err(error)) => anyhow::Error::new(error),
            Ok(Ok(())) => anyhow::anyhow!("the engine stopped"),
            Err(error) => anyhow::Error::new(error),
        }
    }
}
