//! Canaries one after the other, of a service of each protocol at one router, under calls of all of them: nobody loses a call, and no flow
//! of UDP changes its variation while weights change. `tests/long canaries` makes all cycles.

use std::{
    env, io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use rustls::RootCertStore;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpStream, UdpSocket},
    task::JoinSet,
    time::sleep,
};

use super::{Backend, HOST, World, asked, caller, secured};
use crate::{
    ports::free_address,
    real_agents::users::{self, USERS, Users},
};

/// So many, or all of them where they are asked for.
const CYCLES: u32 = 1;
const ALL_CYCLES: u32 = 20;
const ALL: &str = "CHOIRMASTER_TEST_ALL_CYCLES";

/// Of a canary, one after the other; it begins with a tenth. None of them takes everything from one version, for with that the time begins
/// for which flows may stay with it.
const WEIGHTS: [u8; 5] = [30, 5, 70, 50, 95];
const FIRST_WEIGHT: u8 = 10;

/// The service whose flows are looked at, and how many are opened once a canary of it has begun.
const UDP: &str = "udp";
const FLOWS: usize = 20;

/// Calls of a second, by each protocol.
const RATE: u32 = 200;
const CALLERS: u32 = 20;

/// A service, of which two versions replace each other.
struct Service {
    name: &'static str,
    at: SocketAddr,
    /// What is said of its port.
    port: String,
    /// Of the service, in whole lines.
    more: &'static str,
    versions: [SocketAddr; 2],
    /// Index of the version that serves.
    serving: usize,
}

impl Service {
    fn release(&self) -> String {
        let Self { name, at, port, more, versions: [one, two], .. } = self;
        format!(
            "kind: Release\nmetadata: {{name: {name}}}\nspec:\n  routers: {{env: prod}}\n  version: 1\n  versions:\n    - {{version: 1, \
             targets: {{{name}: [\"{one}\"]}}}}\n    - {{version: 2, targets: {{{name}: [\"{two}\"]}}}}\n  services:\n    - name: \
             {name}\n      ports: [{{port: {}, {port}}}]\n{more}",
            at.port()
        )
    }

    /// A canary of the version that doesn't serve.
    fn canary(&self, id: &str, weight: u8, transition: &str) -> String {
        let Self { name, at, serving, .. } = self;
        let (version, port) = (2 - serving, at.port());
        format!(
            "kind: CanaryRelease\nmetadata: {{name: {id}}}\nspec:\n  release: {name}\n  version: {version}\n  services: [{{service: \
             {name}, ports: [{{port: {port}, config: {{weight: {weight}}}}}]}}]\n  transition: {transition:?}\n"
        )
    }

    /// A canary from its beginning to its end.
    async fn cycle(&mut self, world: &World, number: u32, is_adopted: bool) {
        let id = format!("{}-{number}", self.name);
        let manager = &world.site.manager;
        manager.submit(&self.canary(&id, FIRST_WEIGHT, "")).await;
        self.shares_out(world, FIRST_WEIGHT).await;
        let mut flows = Vec::new();
        while self.name == UDP && flows.len() < FLOWS {
            flows.push(Flow::open(self.at).await);
        }
        for weight in WEIGHTS {
            manager.submit(&self.canary(&id, weight, "")).await;
            self.shares_out(world, weight).await;
            for flow in &flows {
                flow.stays().await;
            }
        }
        let (transition, state) = if is_adopted { ("Adopted", "Done") } else { ("Deprecated", "Aborted") };
        let last = WEIGHTS[WEIGHTS.len() - 1];
        manager.submit(&self.canary(&id, last, transition)).await;
        let ended = manager.ended(&id).await;
        assert_eq!(ended["state"], state, "{ended:#}");
        if is_adopted {
            self.serving = 1 - self.serving;
        }
    }

    /// Waits until the proxy's table gives the canary so many percent.
    async fn shares_out(&self, world: &World, weight: u8) {
        let what = format!("the table gives {weight} % of {} to the canary", self.name);
        let is_so = |status: &proxy::control::form::Status| {
            let service = status.services.iter().find(|service| service.name == self.name);
            let canary =
                service.and_then(|service| service.variations.iter().find(|one| one.name == "canary"));
            canary.is_some_and(|canary| canary.share == u16::from(weight) * 100)
        };
        world.node.until_proxy(&what, is_so).await;
    }
}

/// A flow of UDP, and who has it.
struct Flow {
    caller: UdpSocket,
    given: String,
}

impl Flow {
    async fn open(at: SocketAddr) -> Self {
        let caller = caller(at).await;
        let given = asked(&caller).await;
        Self { caller, given }
    }

    async fn stays(&self) {
        assert_eq!(asked(&self.caller).await, self.given);
    }
}

/// Calls of one kind, [`RATE`] a second.
struct Calls {
    is_over: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    lost: Arc<Mutex<Vec<String>>>,
    calling: JoinSet<()>,
}

impl Calls {
    fn start<F>(call: impl Fn() -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let (is_over, made, lost) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default(), Arc::default());
        let mut calls = Self { is_over, made, lost, calling: JoinSet::new() };
        for _ in 0..CALLERS {
            let (is_over, made) = (Arc::clone(&calls.is_over), Arc::clone(&calls.made));
            let (lost, call) = (Arc::clone(&calls.lost), call.clone());
            calls.calling.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    match call().await {
                        Ok(()) => {
                            made.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => lost.lock().unwrap().push(error.to_string()),
                    }
                    sleep(Duration::from_secs(1) * CALLERS / RATE).await;
                }
            });
        }
        calls
    }

    /// Ends them. Gives how many there were: all of them were answered.
    async fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.calling.join_all().await;
        let made = self.made.load(Ordering::Relaxed);
        assert_eq!(*self.lost.lock().unwrap(), [""; 0], "beside {made} that were answered");
        made
    }
}

/// A connection of TCP to whoever says its name and hears what is said.
async fn connects(at: SocketAddr) -> io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(at).await?);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    stream.write_all(b"and on\n").await?;
    let mut echo = String::new();
    stream.read_line(&mut echo).await?;
    let is_whole = (line.starts_with("A ") || line.starts_with("B ")) && echo == "and on\n";
    if is_whole { Ok(()) } else { Err(io::Error::other(format!("{line:?}, {echo:?}"))) }
}

/// The same of TLS.
async fn connects_secured(at: SocketAddr, roots: RootCertStore) -> io::Result<()> {
    let said = secured(at, &roots).await?;
    if ["A", "B"].contains(&said.as_str()) { Ok(()) } else { Err(io::Error::other(format!("{said:?}"))) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_through_canaries_of_all_protocols() {
    let [of_tcp, of_tls, of_udp] = [(); 3].map(|()| free_address());
    let listens = format!(
        "tcp:\n  listen: {of_tcp}\ntls:\n  pass_through: {of_tls}\nudp:\n  listen: {of_udp}\n  idle: 10m\n"
    );
    let world = World::start(&listens).await;
    let mut roots = RootCertStore::empty();
    let http = [users::Backend::start('A'), users::Backend::start('B')];
    let tcp = [Backend::announced("A").await, Backend::announced("B").await];
    let tls = [Backend::secured("A", &mut roots).await, Backend::secured("B", &mut roots).await];
    let udp = [Backend::datagrams("A").await, Backend::datagrams("B").await];
    let of = |[one, two]: &[Backend; 2]| [one.at, two.at];
    let service = |name, at, port: &str, more, versions| Service {
        name,
        at,
        port: port.to_owned(),
        more,
        versions,
        serving: 0,
    };
    let mut services = [
        service("http", world.node.at, "protocol: HTTP", "", [http[0].at, http[1].at]),
        service("tcp", of_tcp, "protocol: TCP", "      proxyProtocol: v1\n      drain: 1s\n", of(&tcp)),
        service("tls", of_tls, &format!("protocol: HTTPS, hosts: [{HOST}], tls: pass"), "", of(&tls)),
        service(UDP, of_udp, "protocol: UDP", "      drain: 1s\n", of(&udp)),
    ];

    // Nothing leads a service before its first canary, which stays.
    for service in &mut services {
        world.site.manager.submit(&service.release()).await;
        service.cycle(&world, 0, true).await;
    }
    let pause = Duration::from_secs(1) * USERS as u32 / RATE;
    let of_http = Users::calling(&[world.node.at], true, pause);
    let of_tcp = Calls::start(move || connects(of_tcp));
    let of_tls = Calls::start(move || connects_secured(of_tls, roots.clone()));
    of_http.round().await;
    let cycles = if env::var_os(ALL).is_some() { ALL_CYCLES } else { CYCLES };
    for number in 1..=cycles {
        for (place, service) in services.iter_mut().enumerate() {
            // Each of them is adopted as often as it is deprecated, and not all at once.
            let is_adopted = (number as usize + place).is_multiple_of(2);
            service.cycle(&world, number, is_adopted).await;
        }
        eprintln!("{number} of {cycles} cycles");
    }
    of_http.round().await;
    of_http.end().await;
    eprintln!(
        "{} connections of TCP and {} of TLS, and none was lost",
        of_tcp.end().await,
        of_tls.end().await
    );
}
