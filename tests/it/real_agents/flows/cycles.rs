//! Canaries one after the other, of services of each protocol, under calls of all of them: nobody loses a call, and no flow of UDP changes
//! its variation while weights change.
//!
//! There are two ways in which calls come to the proxy. It has the ports itself: then each canary that is adopted is what the next one begins
//! with. Or another program has them, calls to it are taken over by rules of the kernel when a canary begins, and given back at its end: then
//! each of them begins as the first one did. `tests/long takeover` makes all cycles; a part of them, in the second way, is made by every run.

use std::{
    array,
    collections::BTreeMap,
    env, io,
    net::{Ipv4Addr, SocketAddr},
    process::Stdio,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use rustls::RootCertStore;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::{TcpStream, UdpSocket},
    task::JoinSet,
    time::{interval, timeout},
};
use tokio_rustls::client::TlsStream;

use super::{Backend, HOST, World, acceptor, names};
use crate::{
    deadline::until,
    ports::{free_address, range},
    real_agents::{
        taken_over::{WITHIN, in_a_network_of_its_own, rules},
        users,
        wait::wait_until,
    },
};

/// How much is done.
struct Scale {
    /// Canaries of each service.
    cycles: u32,
    /// Of a canary, one after the other, behind [`FIRST_WEIGHT`]. None of them takes everything from one version, for with that the time
    /// begins for which flows may stay with it.
    weights: &'static [u8],
    /// Calls of the service under each weight of its canary, at least.
    calls: u64,
    /// Of each service.
    callers: usize,
}

const PART: Scale = Scale { cycles: 1, weights: &[60], calls: 15, callers: 5 };

/// 200 calls a second of each service, and 3,000 at least during each canary of it.
const ALL: Scale = Scale { cycles: 20, weights: &[30, 5, 70, 50, 95], calls: 500, callers: 20 };

/// Asks for [`ALL`] of them.
const ALL_CYCLES: &str = "CHOIRMASTER_TEST_ALL_CYCLES";

const FIRST_WEIGHT: u8 = 10;

/// Each caller calls so often.
const EVERY: Duration = Duration::from_millis(100);

/// Calls of HTTP and HTTPS over one connection.
const KEPT: u64 = 4;

/// What isn't answered by then is lost. Answers take milliseconds.
const LOST_AFTER: Duration = Duration::from_secs(30);

/// Of so many datagrams one may be lost.
const DATAGRAMS: u64 = 100_000;

/// What the versions of each service answer with.
const VERSIONS: [&str; 2] = ["A", "B"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http,
    /// It passes unopened.
    Https,
    Tcp,
    Udp,
}

impl Protocol {
    /// What the service is called.
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// How calls come to the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It has the port.
    Own,
    /// Rules of nftables send them there.
    Nftables,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Own => "at ports of the proxy",
            Self::Nftables => "taken over by nftables",
        }
    }
}

/// Versions that run. They end with the test.
enum Running {
    Http([users::Backend; 2]),
    Others([Backend; 2]),
}

impl Running {
    fn at(&self) -> [SocketAddr; 2] {
        match self {
            Self::Http(both) => both.each_ref().map(|one| one.at),
            Self::Others(both) => both.each_ref().map(|one| one.at),
        }
    }
}

/// Says each line that it hears, with its name behind.
async fn names_itself<S: AsyncRead + AsyncWrite + Unpin>(stream: S, name: &str) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        let answer = format!("{} {name}\n", line.trim_end());
        stream.write_all(answer.as_bytes()).await?;
        stream.flush().await?;
        line.clear();
    }
    Ok(())
}

/// A service, of which two versions replace each other.
struct Service {
    protocol: Protocol,
    at: SocketAddr,
    running: Running,
    /// What callers of TLS know.
    roots: Arc<RootCertStore>,
    /// Index of the version that serves.
    serving: usize,
}

impl Service {
    /// `at`: where the proxy listens for it. `None`: its first version has the port that is called.
    async fn start(protocol: Protocol, at: Option<SocketAddr>) -> Self {
        let mut roots = RootCertStore::empty();
        let [one, two] = VERSIONS;
        let running = match protocol {
            Protocol::Http => Running::Http(['A', 'B'].map(users::Backend::start)),
            Protocol::Https => {
                let start = |name: &'static str, acceptor: tokio_rustls::TlsAcceptor| {
                    Backend::start(move |stream| {
                        let acceptor = acceptor.clone();
                        async move { names_itself(acceptor.accept(stream).await?, name).await }
                    })
                };
                let acceptors: [_; 2] = array::from_fn(|_| acceptor(&mut roots));
                let [of_one, of_two] = acceptors;
                Running::Others([start(one, of_one).await, start(two, of_two).await])
            }
            Protocol::Tcp => {
                let start = |name: &'static str| Backend::start(move |stream| names_itself(stream, name));
                Running::Others([start(one).await, start(two).await])
            }
            Protocol::Udp => Running::Others([Backend::datagrams(one).await, Backend::datagrams(two).await]),
        };
        let at = at.unwrap_or(running.at()[0]);
        Self { protocol, at, running, roots: Arc::new(roots), serving: 0 }
    }

    fn name(&self) -> &'static str {
        self.protocol.name()
    }

    /// With the version that serves.
    fn release(&self) -> String {
        let (name, port, [one, two]) = (self.name(), self.at.port(), self.running.at());
        let (port_says, service_says) = match self.protocol {
            Protocol::Http => ("protocol: HTTP".to_owned(), ""),
            Protocol::Https => (format!("protocol: HTTPS, hosts: [{HOST}], tls: pass"), ""),
            Protocol::Tcp => ("protocol: TCP".to_owned(), ""),
            // One that is over is there until it is idle.
            Protocol::Udp => ("protocol: UDP".to_owned(), "      drain: 1s\n"),
        };
        format!(
            "kind: Release\nmetadata: {{name: {name}}}\nspec:\n  routers: {{env: prod}}\n  version: {}\n  versions:\n    - {{version: 1, \
             targets: {{{name}: [\"{one}\"]}}}}\n    - {{version: 2, targets: {{{name}: [\"{two}\"]}}}}\n  services:\n    - name: \
             {name}\n      ports: [{{port: {port}, {port_says}}}]\n{service_says}",
            self.serving + 1
        )
    }

    /// A canary of the version that doesn't serve.
    fn canary(&self, id: &str, weight: u8, transition: &str) -> String {
        let (name, version, port) = (self.name(), 2 - self.serving, self.at.port());
        format!(
            "kind: CanaryRelease\nmetadata: {{name: {id}}}\nspec:\n  release: {name}\n  version: {version}\n  services: [{{service: \
             {name}, ports: [{{port: {port}, config: {{weight: {weight}}}}}]}}]\n  transition: {transition:?}\n"
        )
    }

    /// A canary begins, as soon as the manager knows that it can.
    async fn begin(&self, world: &World, id: &str) {
        let manager = &world.site.manager;
        manager.submit(&self.release()).await;
        let canary = self.canary(id, FIRST_WEIGHT, "");
        let submit = async || {
            let (status, text) = manager.try_to_submit(&canary).await;
            (status, text, manager.state(id).await)
        };
        let has_begun = |(status, _, state): &(u16, String, Option<String>)| {
            *status < 300 && state.as_deref().is_some_and(|state| state != "NoParticipants")
        };
        until(&format!("{id} begins"), submit, has_begun).await;
        self.shares_out(world, FIRST_WEIGHT).await;
    }

    /// It is adopted or deprecated.
    async fn end(&mut self, world: &World, id: &str, weight: u8, is_adopted: bool) {
        let (transition, state) = if is_adopted { ("Adopted", "Done") } else { ("Deprecated", "Aborted") };
        world.site.manager.submit(&self.canary(id, weight, transition)).await;
        let ended = world.site.manager.ended(id).await;
        assert_eq!(ended["state"], state, "{ended:#}");
        if is_adopted {
            self.serving = 1 - self.serving;
        }
    }

    /// A canary from its beginning to its end. Gives how many calls there were meanwhile.
    async fn cycle(
        &mut self,
        world: &World,
        calls: &Calls,
        (way, scale): (Way, &Scale),
        number: u32,
        is_adopted: bool,
    ) -> u64 {
        let (id, before) = (format!("{}-{number}", self.name()), calls.made());
        // A flow that has begun before stays where it is only if the kernel keeps it in mind already.
        calls.keep_flows(false);
        self.begin(world, &id).await;
        if way == Way::Nftables {
            self.has_rules(true).await;
        }
        calls.keep_flows(true);
        calls.more(scale.calls).await;
        let mut last = FIRST_WEIGHT;
        for &weight in scale.weights {
            world.site.manager.submit(&self.canary(&id, weight, "")).await;
            self.shares_out(world, weight).await;
            calls.more(scale.calls).await;
            last = weight;
        }
        calls.come_to_both().await;
        // Those of the version that goes are cut once their time is over.
        calls.keep_flows(false);
        self.end(world, &id, last, is_adopted).await;
        calls.come_to(self.serving).await;
        if way == Way::Nftables {
            if is_adopted {
                self.retire(world).await;
            }
            self.is_given_back(world).await;
            calls.come_to(self.serving).await;
        }
        calls.keep_flows(true);
        calls.made() - before
    }

    /// Nothing leads it any more, and whoever has its port serves.
    async fn retire(&mut self, world: &World) {
        let path = format!("/api/v1/services/{}/retire", self.name());
        let retire = async || world.site.manager.order(&path, &json!({"by": "tester"})).await;
        until("it can be retired", retire, |(status, _)| *status == 200).await;
        self.serving = 0;
    }

    async fn is_given_back(&self, world: &World) {
        let leads = |status: &proxy::control::form::Status| {
            status.services.iter().any(|service| service.name == self.name())
        };
        world.node.until_proxy(&format!("it doesn't lead {}", self.name()), |status| !leads(status)).await;
        self.has_rules(false).await;
        let path = format!("/api/v1/services/{}", self.name());
        wait_until("the manager knows nothing of it", async || world.site.manager.get(&path).await.is_none())
            .await;
    }

    /// Waits until its port is, or isn't, in rules of the kernel.
    async fn has_rules(&self, wanted: bool) {
        let protocol = if self.protocol == Protocol::Udp { "udp" } else { "tcp" };
        let called = format!("{protocol} dport {} ", self.at.port());
        until(
            &format!("{called}is in rules: {wanted}"),
            async || rules(),
            |rules| rules.contains(&called) == wanted,
        )
        .await;
    }

    /// Waits until the proxy's table gives the canary so many percent.
    async fn shares_out(&self, world: &World, weight: u8) {
        let what = format!("the table gives {weight} % of {} to the canary", self.name());
        let is_so = |status: &proxy::control::form::Status| {
            let service = status.services.iter().find(|service| service.name == self.name());
            let canary =
                service.and_then(|service| service.variations.iter().find(|one| one.name == "canary"));
            canary.is_some_and(|canary| canary.share == u16::from(weight) * 100)
        };
        world.node.until_proxy(&what, is_so).await;
    }
}

/// What is behind the number that was said: the name of a version.
fn name_in(answer: &str, number: u64) -> Option<char> {
    let (of, name) = answer.split_once(' ')?;
    let name = name.chars().next()?;
    (of == number.to_string() && VERSIONS.iter().any(|one| one.starts_with(name))).then_some(name)
}

/// A number that nobody else says, so that a late answer to another question isn't taken for that to this one.
fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// A flow of UDP, and who has it.
struct Flow {
    /// As which flows are kept.
    kept: u64,
    socket: UdpSocket,
    name: Option<char>,
}

impl Flow {
    /// From an address of its own: the kernel keeps in mind for a while where a flow was sent, and takes the next one from the same address
    /// and port for the same.
    async fn open(at: SocketAddr, kept: u64) -> io::Result<Self> {
        static ADDRESSES: AtomicU32 = AtomicU32::new(0);
        let from = u32::from(Ipv4Addr::new(127, 64, 0, 1)) + ADDRESSES.fetch_add(1, Ordering::Relaxed);
        let socket = UdpSocket::bind((Ipv4Addr::from(from), 0)).await?;
        socket.connect(at).await?;
        Ok(Self { kept, socket, name: None })
    }

    async fn asks(&self) -> io::Result<char> {
        let number = next_number();
        self.socket.send(number.to_string().as_bytes()).await?;
        let mut room = [0; 64];
        loop {
            let length = self.socket.recv(&mut room).await?;
            if let Some(name) = name_in(&String::from_utf8_lossy(&room[..length]), number) {
                return Ok(name);
            }
        }
    }
}

/// Says a number on a connection, and hears which version it is told.
async fn says<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufReader<S>) -> io::Result<char> {
    let number = next_number();
    stream.write_all(format!("{number}\n").as_bytes()).await?;
    stream.flush().await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    name_in(&line, number).ok_or_else(|| io::Error::other(format!("{line:?} is no answer")))
}

/// One of those who call a service again and again.
struct Caller {
    protocol: Protocol,
    at: SocketAddr,
    roots: Arc<RootCertStore>,
    number: usize,
    made: u64,
    http: Option<TcpStream>,
    https: Option<BufReader<TlsStream<TcpStream>>>,
    flow: Option<Flow>,
}

impl Caller {
    async fn calls(mut self, told: Arc<Told>) {
        let mut times = interval(EVERY);
        while !told.is_over.load(Ordering::Relaxed) {
            times.tick().await;
            let answer = timeout(LOST_AFTER, self.call(&told)).await;
            let mut seen = told.seen();
            match answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(name) => seen.note(self.number, name),
                Err(error) => {
                    (self.http, self.https, self.flow) = (None, None, None);
                    seen.lost.push(error.to_string());
                }
            }
        }
    }

    async fn call(&mut self, told: &Told) -> io::Result<char> {
        let goes_on = !self.made.is_multiple_of(KEPT);
        self.made += 1;
        match self.protocol {
            Protocol::Http => {
                self.http = self.http.take().filter(|_| goes_on);
                users::call(&mut self.http, &mut None, self.at, self.number, true)
                    .await
                    .map_err(io::Error::other)
            }
            Protocol::Https => {
                let mut stream = match self.https.take().filter(|_| goes_on) {
                    Some(stream) => stream,
                    None => BufReader::new(names(HOST, self.at, &self.roots).await?),
                };
                let name = says(&mut stream).await?;
                self.https = Some(stream);
                Ok(name)
            }
            Protocol::Tcp => says(&mut BufReader::new(TcpStream::connect(self.at).await?)).await,
            Protocol::Udp => self.datagram(told).await,
        }
    }

    /// While flows are kept, every other caller keeps its own. The others begin one with each datagram, so that there are always some who are
    /// given out by the weight of now.
    async fn datagram(&mut self, told: &Told) -> io::Result<char> {
        let kept = told.kept.load(Ordering::SeqCst);
        let is_kept = kept > 0 && self.number.is_multiple_of(2);
        let mut flow = match self.flow.take().filter(|flow| is_kept && flow.kept == kept) {
            Some(flow) => flow,
            None => Flow::open(self.at, kept).await?,
        };
        let name = flow.asks().await?;
        let has_moved = flow.name.replace(name).is_some_and(|before| before != name);
        if has_moved && told.kept.load(Ordering::SeqCst) == kept {
            told.seen().moved += 1;
        }
        self.flow = Some(flow);
        Ok(name)
    }
}

/// What callers are told, and what they tell.
#[derive(Default)]
struct Told {
    is_over: AtomicBool,
    /// As which flows are kept; 0: none is.
    kept: AtomicU64,
    seen: Mutex<Seen>,
}

impl Told {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }
}

#[derive(Debug, Default)]
struct Seen {
    /// What each caller was answered last, and how often it was answered.
    last: BTreeMap<usize, (char, u64)>,
    /// Answers of each version.
    of: BTreeMap<char, u64>,
    /// Why calls weren't answered.
    lost: Vec<String>,
    /// Flows that another version had all at once, while they were kept.
    moved: u64,
}

impl Seen {
    fn note(&mut self, caller: usize, name: char) {
        let (last, calls) = self.last.entry(caller).or_insert((name, 0));
        *last = name;
        *calls += 1;
        *self.of.entry(name).or_default() += 1;
    }

    fn made(&self) -> u64 {
        self.of.values().sum()
    }
}

/// Calls of a service.
struct Calls {
    told: Arc<Told>,
    callers: usize,
    calling: JoinSet<()>,
}

impl Calls {
    fn start(service: &Service, callers: usize) -> Self {
        let told = Arc::<Told>::default();
        let mut calling = JoinSet::new();
        for number in 0..callers {
            let caller = Caller {
                protocol: service.protocol,
                at: service.at,
                roots: Arc::clone(&service.roots),
                number,
                made: 0,
                http: None,
                https: None,
                flow: None,
            };
            calling.spawn(caller.calls(Arc::clone(&told)));
        }
        Self { told, callers, calling }
    }

    fn made(&self) -> u64 {
        self.told.seen().made()
    }

    fn of(&self, version: usize) -> u64 {
        let name = VERSIONS[version].chars().next();
        name.and_then(|name| self.told.seen().of.get(&name).copied()).unwrap_or_default()
    }

    /// Those of UDP, from now on.
    fn keep_flows(&self, are_kept: bool) {
        let kept = if are_kept { next_number() + 1 } else { 0 };
        self.told.kept.store(kept, Ordering::SeqCst);
    }

    /// Waits until there were so many further ones.
    async fn more(&self, number: u64) {
        let enough = self.made() + number;
        wait_until("there were calls", async || self.made() >= enough).await;
    }

    /// Waits until both versions have answered calls that were made from now on.
    async fn come_to_both(&self) {
        self.round().await;
        let before = [0, 1].map(|version| self.of(version));
        wait_until("both versions have calls", async || {
            (0..2).all(|version| self.of(version) > before[version])
        })
        .await;
    }

    /// Waits until each caller was answered over a connection that was made from now on.
    async fn round(&self) {
        let before = self.told.seen().last.clone();
        wait_until("all callers are answered", async || {
            let seen = self.told.seen();
            let is_answered = |caller: usize| {
                let calls = |last: &BTreeMap<usize, (char, u64)>| last.get(&caller).map_or(0, |(_, of)| *of);
                // Of the first answer the call may have been made before, and the connections of the others, too.
                calls(&seen.last) > calls(&before) + KEPT + 1
            };
            (0..self.callers).all(is_answered)
        })
        .await;
    }

    /// Waits until one version answers all callers, and looks whether the other one gets no call any more.
    async fn come_to(&self, version: usize) {
        wait_until("one version answers all", async || {
            let seen = self.told.seen();
            let mut last = seen.last.values();
            seen.last.len() == self.callers && last.all(|(name, _)| VERSIONS[version].starts_with(*name))
        })
        .await;
        let other = 1 - version;
        let before = self.of(other);
        self.round().await;
        assert_eq!(self.of(other), before, "calls of {}", VERSIONS[other]);
    }

    /// Ends them, and gives what became of them.
    async fn end(self) -> Seen {
        self.told.is_over.store(true, Ordering::Relaxed);
        self.calling.join_all().await;
        std::mem::take(&mut *self.told.seen())
    }
}

/// Canaries of services with these protocols, one after the other.
async fn lead_canaries(way: Way, protocols: [Protocol; 2]) {
    let scale = if env::var_os(ALL_CYCLES).is_some() { ALL } else { PART };
    let [of_tcp, of_https, of_udp] = [(); 3].map(|()| free_address());
    let world = match way {
        Way::Own => {
            let proxy = format!(
                "tcp:\n  listen: {of_tcp}\ntls:\n  pass_through: {of_https}\nudp:\n  listen: {of_udp}\n  idle: 30s\n"
            );
            World::start(&proxy).await
        }
        Way::Nftables => {
            let (first, last) = range(9);
            let ports = format!("takeover.ports={first}-{last}");
            World::with(&["takeover.nftables=true", &ports], "udp:\n  idle: 30s\n", |_| ()).await
        }
    };
    let mut services = Vec::new();
    for protocol in protocols {
        let listens = match protocol {
            Protocol::Http => world.node.at,
            Protocol::Https => of_https,
            Protocol::Tcp => of_tcp,
            Protocol::Udp => of_udp,
        };
        let mut service = Service::start(protocol, (way == Way::Own).then_some(listens)).await;
        if way == Way::Own {
            // Before there is a first canary, which stays, nobody is there to answer.
            let id = format!("{}-0", service.name());
            service.begin(&world, &id).await;
            service.end(&world, &id, FIRST_WEIGHT, true).await;
        }
        let calls = Calls::start(&service, scale.callers);
        services.push((service, calls, 0));
    }
    for number in 1..=scale.cycles {
        for (place, (service, calls, meanwhile)) in services.iter_mut().enumerate() {
            // Each of them is adopted as often as it is deprecated, and not all at once.
            let is_adopted = (number as usize + place).is_multiple_of(2);
            *meanwhile += service.cycle(&world, calls, (way, &scale), number, is_adopted).await;
        }
        eprintln!("{}: {number} of {} cycles", way.name(), scale.cycles);
    }
    let mut losses = Vec::new();
    for (service, calls, meanwhile) in services {
        let seen = calls.end().await;
        let (made, lost) = (seen.made(), seen.lost.len() as u64);
        eprintln!(
            "{}, {}: {made} calls, {meanwhile} of them during {} canaries; {lost} were lost, {} flows were moved",
            way.name(),
            service.name(),
            scale.cycles,
            seen.moved
        );
        let most = if service.protocol == Protocol::Udp { (made / DATAGRAMS).max(1) } else { 0 };
        if lost > most || seen.moved > 0 {
            losses.push((service.name(), seen));
        }
    }
    assert!(losses.is_empty(), "{}: {losses:#?}", way.name());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canaries_at_the_proxys_ports_lose_no_call_of_http_and_https() {
    lead_canaries(Way::Own, [Protocol::Http, Protocol::Https]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canaries_at_the_proxys_ports_lose_no_connection_and_move_no_flow() {
    lead_canaries(Way::Own, [Protocol::Tcp, Protocol::Udp]).await;
}

/// What is said there is figures.
fn tell(story: &str) {
    in_a_network_of_its_own(&format!("real_agents::flows::cycles::{story}"), Stdio::inherit());
}

#[test]
fn canaries_at_others_ports_lose_no_call_of_http_and_https() {
    tell("story_of_http_and_https");
}

#[test]
fn canaries_at_others_ports_lose_no_connection_and_move_no_flow() {
    tell("story_of_tcp_and_udp");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is no test: another one starts it in a network of its own"]
async fn story_of_http_and_https() {
    if env::var_os(WITHIN).is_some() {
        lead_canaries(Way::Nftables, [Protocol::Http, Protocol::Https]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is no test: another one starts it in a network of its own"]
async fn story_of_tcp_and_udp() {
    if env::var_os(WITHIN).is_some() {
        lead_canaries(Way::Nftables, [Protocol::Tcp, Protocol::Udp]).await;
    }
}
