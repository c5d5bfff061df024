//! Events of workflows: what functions on this machine put out, and what is put out to parts on it.
//!
//! | | |
//! |---|---|
//! | `POST /out/INSTANCE/OUTPUT` | a function puts something out: it is on disk before it is answered with 202 (`serve`, `store`) |
//! | `POST /events/PART` | another node hands an event over: answered with 200 once the part has taken it (`serve`, `receive`) |
//!
//! The first is for this machine alone, on a loopback address that stays the same; the second is also served where other nodes reach it.
//!
//! Invariants, which `tests/agent/events.rs` asserts:
//!
//! 1. An event that was answered with 202 is handed over until its target has taken it, or its instance ends and nobody is its target any
//!    more; a kill at any instant changes nothing of that.
//! 2. Events from one instance to one target come in the order in which they were put out.
//! 3. A target takes an event once, whatever its sender repeats: but for a function that was called with it when its agent was killed, and
//!    for a target that moved before its sender heard that it had taken the event.
//! 4. Nothing is taken that isn't signed with the key of its target.

mod basics;
mod collector;
mod deliver;
mod event;
mod headers;
mod inner;
mod receive;
mod resource;
mod routes;
mod samples;
mod serve;
mod signature;
mod store;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use protocol::placements::PlacedInstance;
use proxy::local_http::serve::serve_many as serve_http;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

pub use self::serve::MAX_EVENT_BYTES;
use self::{
    basics::lock,
    inner::{Inner, Turns},
    routes::Routes,
    samples::Samples,
    store::{Store, Write},
};

/// How long what an instance has put out waits for its target once the manager says nothing of that instance any more.
const WAIT_UNTOLD: Duration = Duration::from_mins(10);

/// Functions know the port for as long as they run, so it is none that the system gives to others meanwhile.
const PORTS: std::ops::Range<u16> = 20_000..30_000;
const TRIES: usize = 100;

/// Connections of other nodes at once.
const CONNECTIONS: usize = 1_024;

/// The file of all events, and the one with the port that functions know.
const STORE: &str = "events.redb";
const PORT: &str = "events.port";

/// Where events are taken and resources have their files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Where other nodes hand events over; none: only those of this machine do.
    pub listen: Option<SocketAddr>,
    /// How other nodes reach that; empty: by its address.
    pub url: String,
    /// The folder of what `file-log` writes; none: `logs` in the folder of the agent.
    pub logs: Option<PathBuf>,
    /// Hosts, or hosts and ports, that `http-egress` may call.
    pub egress_hosts: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    #[error("events can't be kept in {path}: {why}")]
    Store { path: PathBuf, why: String },
    #[error("events can't be taken on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
}

/// Hands events over and takes them, until it is dropped.
#[derive(Debug)]
pub struct Relay {
    inner: Arc<Inner>,
    url: String,
    own: SocketAddr,
    told: Mutex<Told>,
    tasks: Vec<AbortHandle>,
    _open: watch::Sender<bool>,
}

/// What was told last, and since when instances are untold of which something waits.
#[derive(Debug, Default)]
struct Told {
    wanted: Vec<PlacedInstance>,
    running: BTreeSet<String>,
    untold: HashMap<String, Instant>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        lock(&self.inner.deliveries).abort_all();
    }
}

impl Relay {
    /// Must be called in a runtime of tokio. `folder`: of the agent.
    ///
    /// # Errors
    ///
    /// What was kept can't be read, or nothing can be served.
    pub fn open(folder: &Path, settings: &Settings) -> Result<Self, EventsError> {
        let path = folder.join(STORE);
        let failed = |why: String| EventsError::Store { path: path.clone(), why };
        let store = Store::open(&path).map_err(|error| failed(error.to_string()))?;
        let logs = settings.logs.clone().unwrap_or_else(|| folder.join("logs"));
        let client = router::remote::client().map_err(failed)?;
        let samples = Arc::new(Samples::default());
        let inner = Arc::new(Inner {
            store,
            routes: watch::Sender::new(Arc::default()),
            busy: Mutex::default(),
            deliveries: Mutex::default(),
            turns: Turns::default(),
            unwritten: Mutex::default(),
            client: client.clone(),
            resources: resource::Resources::new(
                logs,
                settings.egress_hosts.clone(),
                client,
                Arc::clone(&samples),
            ),
            samples,
        });
        let open = watch::Sender::new(true);
        let (listener, own) = listen_here(&folder.join(PORT))?;
        let mut tasks = JoinSet::new();
        let mut served = vec![tasks.spawn(serve_http(listener, CONNECTIONS, open.subscribe(), {
            let inner = Arc::clone(&inner);
            move |request| serve::answer(Arc::clone(&inner), request, true)
        }))];
        let mut url = format!("http://{own}");
        if let Some(address) = settings.listen {
            let (listener, bound) = listen(address)?;
            url = if settings.url.is_empty() { format!("http://{bound}") } else { settings.url.clone() };
            served.push(tasks.spawn(serve_http(listener, CONNECTIONS, open.subscribe(), {
                let inner = Arc::clone(&inner);
                move |request| serve::answer(Arc::clone(&inner), request, false)
            })));
        }
        tasks.detach_all();
        Ok(Self { inner, url, own, told: Mutex::default(), tasks: served, _open: open })
    }

    /// Where other nodes hand events over.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where an instance on this machine puts something out.
    #[must_use]
    pub fn output_url(&self, instance: &str, output: &str) -> String {
        format!("http://{}/out/{instance}/{output}", self.own)
    }

    /// What is to run here and who gets what, which of that runs, and where the proxy takes calls of functions. `node`: what the manager
    /// calls this agent.
    pub fn tell(
        &self,
        node: &str,
        wanted: &[PlacedInstance],
        running: BTreeSet<String>,
        proxy: Option<&str>,
    ) {
        let mut told = lock(&self.told);
        let waiting = self.inner.store.queues().unwrap_or_default();
        let is_told = |instance: &str| wanted.iter().any(|one| one.id == instance);
        let untold: HashSet<&String> =
            waiting.iter().map(|(from, _)| from).filter(|from| !is_told(from)).collect();
        told.untold.retain(|instance, _| untold.contains(instance));
        for instance in untold {
            told.untold.entry(instance.clone()).or_insert_with(Instant::now);
        }
        let given_up = told.untold.iter().filter(|(_, since)| since.elapsed() >= WAIT_UNTOLD);
        let given_up: BTreeSet<String> = given_up.map(|(instance, _)| instance.clone()).collect();
        let before = Arc::clone(&self.inner.routes.borrow());
        let is_same =
            told.wanted == wanted && told.running == running && before.is_of(node, proxy, &given_up);
        if !is_same {
            let kept = told.untold.keys().filter(|instance| !given_up.contains(*instance));
            let routes = Routes::new(node, wanted, &running, proxy, before.outputs_of(kept), given_up);
            self.inner.resources.keep(|instance| routes.is_here(instance));
            self.inner.routes.send_replace(Arc::new(routes));
            (told.wanted, told.running) = (wanted.to_vec(), running);
            drop(told);
            self.forget(wanted);
        }
        for (from, to) in waiting {
            deliver::begin(&self.inner, from, to);
        }
    }

    /// What was measured here, and isn't told the manager yet.
    #[must_use]
    pub fn samples(&self) -> &Samples {
        &self.inner.samples
    }

    /// Whether nothing waits that an instance has put out.
    #[must_use]
    pub fn is_drained(&self, instance: &str) -> bool {
        self.inner.store.waits(instance).is_ok_and(|waits| !waits)
    }

    /// Whether the manager says anything of an instance.
    #[must_use]
    pub fn is_told(&self, instance: &str) -> bool {
        self.inner.routes.borrow().has(instance)
    }

    /// Numbers of instances that are gone.
    fn forget(&self, wanted: &[PlacedInstance]) {
        let store = self.inner.store.clone();
        let wanted: HashSet<String> = wanted.iter().map(|one| one.id.clone()).collect();
        tokio::spawn(async move {
            let Ok(numbered) = store.numbered() else { return };
            for from in numbered.into_iter().filter(|from| !wanted.contains(from)) {
                if store.waits(&from).is_ok_and(|waits| !waits) {
                    let _ = store.write(Write::Forget { from }).await;
                }
            }
        });
    }
}

/// A loopback address that stays the same: functions that run know it, whoever starts the agent anew.
fn listen_here(kept: &Path) -> Result<(TcpListener, SocketAddr), EventsError> {
    let before = fs::read_to_string(kept).ok().and_then(|text| text.trim().parse::<u16>().ok());
    let at = |port: u16| listen((Ipv4Addr::LOCALHOST, port).into());
    let (listener, own) = match before {
        Some(port) => at(port)?,
        None => (0..TRIES).find_map(|_| at(fastrand::u16(PORTS)).ok()).map_or_else(|| at(0), Ok)?,
    };
    if before.is_none() {
        let written = fs::write(kept, own.port().to_string());
        written.map_err(|source| EventsError::Listen { address: own, source })?;
    }
    Ok((listener, own))
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), EventsError> {
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        let own = listener.local_addr()?;
        Ok((TcpListener::from_std(listener)?, own))
    });
    bound.map_err(|source| EventsError::Listen { address, source })
}
