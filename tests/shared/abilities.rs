//! The table in `docs/routers.md` of what each kind of router can do for a service: its cells are tried at a router that runs.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use crate::ports::free_address;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, UdpSocket},
    sync::watch,
    task::JoinSet,
    time::timeout,
};
use traffic::{
    Bucket, HashFunction, Shares, Table, Variation as Which,
    desired::{DesiredConfig, Listen, Number, Protocol, Rule, Service, ServiceSpec, StickyTo, Variation},
};

/// A router that runs, and nothing else leads it.
pub trait Router {
    /// The function by which it draws users.
    const HASH: HashFunction;

    /// It draws users by chance, and knows them by the cookie that it gives them.
    const GIVES_COOKIE: bool = false;

    /// What that is called, where a service asks for one of this name.
    const COOKIE: &'static str = COOKIE;

    /// Where it can take calls of this protocol.
    fn at(&self, protocol: Protocol) -> SocketAddr;

    /// Waits until it does this, and says whether it loaded its configuration anew; in words, what it can't do of it.
    async fn does(&self, wanted: &DesiredConfig) -> Result<bool, String>;

    /// How many calls to a variation it says go on.
    async fn going_on(&self, service: &str, variation: &str) -> Option<u64>;

    /// The answer to these bytes over TLS.
    async fn over_tls(&self, at: SocketAddr, call: &str) -> String;
}

/// What a router was found to be able to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub protocols: Vec<Protocol>,
    pub sticky: Vec<&'static str>,
    pub rule: bool,
    pub routes: bool,
    /// Of which a change of shares has it load its configuration anew.
    pub reloads_for: Vec<Protocol>,
    pub forwards: bool,
    pub counts_connections: bool,
    pub when_refused: &'static str,
}

impl Found {
    /// The column as the page has it. `counted`: from what its calls are counted.
    pub fn cells(&self, counted: &str) -> Vec<(&'static str, String)> {
        let yes = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
        let names = |protocols: &[Protocol]| -> Vec<&str> {
            protocols.iter().map(|protocol| protocol.name()).collect()
        };
        let reloads = match &*self.reloads_for {
            some if some.is_empty() || *some == *self.protocols => yes(!some.is_empty()),
            some => format!("of {}", names(some).join(" and ")),
        };
        vec![
            ("takes", names(&self.protocols).join(", ")),
            ("keeps users by", self.sticky.join(", ")),
            ("a header may ask for a variation", yes(self.rule)),
            ("shares a port among services by host and path", yes(self.routes)),
            ("a change of shares reloads the configuration", reloads),
            ("adds `X-Forwarded-For`", yes(self.forwards)),
            ("reports which calls a drain still waits for", yes(self.counts_connections)),
            ("a `GET` that a target refuses goes to", self.when_refused.to_owned()),
            ("calls are counted from", counted.to_owned()),
        ]
    }
}

/// The column of this head in the table of the page.
pub fn column(name: &str) -> Vec<(String, String)> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/routers.md");
    let page = std::fs::read_to_string(page).unwrap();
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = page.lines().skip_while(|line| !line.starts_with("| a service's router |"));
    let at =
        cells(lines.next().expect("the table")).iter().position(|head| head == name).expect("its column");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|line| (cells(line)[0].clone(), cells(line)[at].clone())).collect()
}

/// Fails unless the page says of a router what was found, with the whole column as it should be.
pub fn check(name: &str, cells: &[(&'static str, String)]) {
    let found: Vec<_> = cells.iter().map(|(row, cell)| ((*row).to_owned(), cell.clone())).collect();
    assert_eq!(column(name), found, "docs/routers.md on {name}");
}

const SERVICE: &str = "checkout";
const SALT: &str = "release-7";
pub const COOKIE: &str = "cm_user";
const HEADER: &str = "X-User";
const RULE: &str = "X-Variation";
const USERS: u8 = 100;

/// Answers with its name; `/from` with who is said to call; `/held` once that is let go.
struct Backend {
    name: &'static str,
    at: SocketAddr,
    let_go: watch::Sender<bool>,
    _serving: JoinSet<()>,
}

impl Backend {
    async fn start(name: &'static str) -> Self {
        // Who has a port for UDP the system doesn't look at when it chooses one for TCP.
        let (listener, at, datagrams) = loop {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let at = listener.local_addr().unwrap();
            if let Ok(datagrams) = UdpSocket::bind(at).await {
                break (listener, at, datagrams);
            }
        };
        let let_go = watch::Sender::new(false);
        let held = let_go.subscribe();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut held = held.clone();
                connections.spawn(async move {
                    let mut came = Vec::new();
                    while stream.read_buf(&mut came).await.is_ok_and(|bytes| bytes > 0) {
                        let Some(end) = came.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
                        let head = String::from_utf8_lossy(&came.drain(..end + 4).collect::<Vec<u8>>())
                            .to_ascii_lowercase();
                        let from = head.lines().find_map(|line| line.strip_prefix("x-forwarded-for: "));
                        let body = if head.starts_with("get /from ") { from.unwrap_or("-") } else { name };
                        if head.starts_with("get /held ") {
                            let _ = held.wait_for(|is_let_go| *is_let_go).await;
                        }
                        let answer =
                            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                        let written = stream.write_all(answer.as_bytes()).await;
                        if written.is_err() || head.contains("connection: close") {
                            return;
                        }
                    }
                });
            }
        });
        serving.spawn(async move {
            let mut came = [0; 64];
            while let Ok((_, from)) = datagrams.recv_from(&mut came).await {
                let _ = datagrams.send_to(name.as_bytes(), from).await;
            }
        });
        Self { name, at, let_go, _serving: serving }
    }

    fn variation(&self) -> Variation {
        variation(self.name, &[self.at])
    }
}

fn variation(name: &str, targets: &[SocketAddr]) -> Variation {
    let targets = targets.iter().map(|at| at.to_string().parse().unwrap()).collect();
    Variation { name: name.parse().unwrap(), targets, health: None }
}

fn request(path: &str, fields: &[(&str, &str)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let fields = fields.concat();
    format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{fields}\r\n")
}

/// The status of an answer and its body.
fn read(answer: &str) -> (u16, &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    (head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default(), body)
}

async fn call(at: SocketAddr, from: Option<Ipv4Addr>, request: &str) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    if let Some(from) = from {
        socket.bind((from, 0).into()).unwrap();
    }
    let mut stream = socket.connect(at).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut came = Vec::new();
    stream.read_to_end(&mut came).await.unwrap();
    String::from_utf8(came).unwrap()
}

/// Asks again where a datagram was lost, as any of them may be.
async fn over_udp(at: SocketAddr) -> String {
    const ONCE: Duration = Duration::from_secs(1);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    socket.connect(at).await.unwrap();
    let mut came = [0; 64];
    loop {
        socket.send(b"who").await.unwrap();
        if let Ok(length) = timeout(ONCE, socket.recv(&mut came)).await {
            return String::from_utf8_lossy(&came[..length.unwrap()]).into_owned();
        }
    }
}

struct Trial<'r, R> {
    router: &'r R,
    a: Backend,
    b: Backend,
    generation: u64,
}

/// Tries everything.
pub async fn try_all<R: Router>(router: &R) -> Found {
    let (a, b) = (Backend::start("A").await, Backend::start("B").await);
    let mut trial = Trial { router, a, b, generation: 0 };
    let [protocols, reloads_for] = trial.protocols().await;
    Found {
        protocols,
        sticky: trial.sticky().await,
        rule: trial.rule().await,
        routes: trial.routes().await,
        reloads_for,
        forwards: trial.forwards().await,
        counts_connections: trial.counts_connections().await,
        when_refused: trial.when_refused().await,
    }
}

impl<R: Router> Trial<'_, R> {
    /// A and B with these shares, in units of 0.01 %.
    fn spec(&self, shares: [u16; 2]) -> ServiceSpec {
        let at = self.router.at(Protocol::Http);
        ServiceSpec {
            name: SERVICE.parse().unwrap(),
            listens: vec![Listen::new(at.port(), Protocol::Http)],
            sticky: None,
            rule: None,
            salt: SALT.parse().unwrap(),
            hash: R::HASH,
            variations: vec![self.a.variation(), self.b.variation()],
            table: Table::new(&Shares::new(shares).unwrap()),
        }
    }

    async fn does(&mut self, spec: ServiceSpec) -> Result<bool, String> {
        self.do_all(vec![spec]).await
    }

    async fn do_all(&mut self, specs: Vec<ServiceSpec>) -> Result<bool, String> {
        self.generation += 1;
        let number = Number { epoch: 3, generation: self.generation };
        let services = specs.into_iter().map(|spec| Service::new(spec).unwrap()).collect();
        self.router.does(&DesiredConfig::new(number, services).unwrap()).await
    }

    async fn get(&self, path: &str, fields: &[(&str, &str)]) -> (u16, String) {
        let answer = call(self.router.at(Protocol::Http), None, &request(path, fields)).await;
        let (status, body) = read(&answer);
        (status, body.to_owned())
    }

    /// Those that it takes, and those of which a change of shares has it load its configuration anew.
    async fn protocols(&mut self) -> [Vec<Protocol>; 2] {
        let (mut can, mut reloads) = (Vec::new(), Vec::new());
        for protocol in [Protocol::Http, Protocol::Https, Protocol::Tcp, Protocol::Udp] {
            let [first, second] = [[0, 10_000], [10_000, 0]].map(|shares| {
                let listens = vec![Listen::new(self.router.at(protocol).port(), protocol)];
                ServiceSpec { listens, ..self.spec(shares) }
            });
            let Ok(_) = self.does(first).await else { continue };
            assert_eq!(self.answer(protocol).await, (200, "B".to_owned()), "it takes {protocol:?}");
            let was_reloaded = self.does(second).await.unwrap();
            assert_eq!(self.answer(protocol).await, (200, "A".to_owned()), "{protocol:?} goes elsewhere");
            can.push(protocol);
            reloads.extend(was_reloaded.then_some(protocol));
        }
        [can, reloads]
    }

    async fn answer(&self, protocol: Protocol) -> (u16, String) {
        let at = self.router.at(protocol);
        let answer = match protocol {
            Protocol::Http | Protocol::Tcp => call(at, None, &request("/", &[])).await,
            Protocol::Https => self.router.over_tls(at, &request("/", &[])).await,
            Protocol::Udp => return (200, over_udp(at).await),
        };
        let (status, body) = read(&answer);
        (status, body.to_owned())
    }

    /// By what each of these users gets what the table says.
    async fn sticky(&mut self) -> Vec<&'static str> {
        let mut can = Vec::new();
        for (name, sticky) in [
            ("cookie", StickyTo::Cookie(COOKIE.parse().unwrap())),
            ("header", StickyTo::Header(HEADER.parse().unwrap())),
            ("address", StickyTo::Address),
        ] {
            let mut spec = self.spec([5_000, 5_000]);
            spec.sticky = Some(sticky.clone());
            let table = spec.table.clone();
            let Ok(_) = self.does(spec).await else { continue };
            if R::GIVES_COOKIE {
                self.keeps_who_was_given_a_cookie().await;
                can.push(name);
                continue;
            }
            for user in 0..USERS {
                let from = Ipv4Addr::new(127, 1, user, 77);
                let (key, fields) = match &sticky {
                    StickyTo::Cookie(_) => {
                        (format!("user-{user}"), vec![("Cookie", format!("{COOKIE}=user-{user}"))])
                    }
                    StickyTo::Header(_) => (format!("user-{user}"), vec![(HEADER, format!("user-{user}"))]),
                    StickyTo::Address => (from.to_string(), Vec::new()),
                };
                let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
                let answer = call(self.router.at(Protocol::Http), Some(from), &request("/", &fields)).await;
                let bucket = Bucket::of_key(R::HASH, SALT.as_bytes(), key.as_bytes());
                let says = if table.variation(bucket) == Which(0) { "A" } else { "B" };
                assert_eq!(read(&answer), (200, says), "{key} by {name}");
            }
            can.push(name);
        }
        can
    }

    async fn keeps_who_was_given_a_cookie(&self) {
        for _ in 0..USERS {
            let first = call(self.router.at(Protocol::Http), None, &request("/", &[])).await;
            let given = first.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).expect("a cookie");
            let cookie = given.split(';').next().unwrap();
            assert!(cookie.starts_with(&format!("{}=", R::COOKIE)), "{first}");
            assert_eq!(self.get("/", &[("Cookie", cookie)]).await, (200, read(&first).1.to_owned()));
        }
    }

    async fn rule(&mut self) -> bool {
        let mut spec = self.spec([10_000, 0]);
        spec.rule =
            Some(Rule { name: RULE.parse().unwrap(), values: vec![("blue".parse().unwrap(), Which(1))] });
        let Ok(_) = self.does(spec).await else { return false };
        assert_eq!(self.get("/", &[(RULE, "blue")]).await, (200, "B".to_owned()));
        assert_eq!(self.get("/", &[(RULE, "red")]).await, (200, "A".to_owned()));
        true
    }

    /// Of two services at a port one has a host and a path, and the other the rest.
    async fn routes(&mut self) -> bool {
        let mut spec = self.spec([0, 10_000]);
        (spec.listens[0].hosts, spec.listens[0].path) =
            (vec!["there.example".to_owned()], Some("/api".to_owned()));
        let mut rest = self.spec([10_000, 0]);
        rest.name = "rest".parse().unwrap();
        let Ok(_) = self.do_all(vec![spec, rest]).await else { return false };
        for (host, path, says) in [
            ("there.example", "/api", "B"),
            ("There.Example:8080", "/api/x?y=/z", "B"),
            ("there.example", "/apix", "A"),
            ("there.example", "/", "A"),
            ("here.example", "/api/x", "A"),
        ] {
            let call_it = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let answer = call(self.router.at(Protocol::Http), None, &call_it).await;
            assert_eq!(read(&answer), (200, says), "{host}{path}");
        }
        true
    }

    async fn forwards(&mut self) -> bool {
        self.does(self.spec([10_000, 0])).await.unwrap();
        let (_, from) = self.get("/from", &[]).await;
        from.parse::<IpAddr>().is_ok_and(|from| from.is_loopback())
    }

    /// A call that goes on while its variation loses its share is told of until it ends.
    async fn counts_connections(&mut self) -> bool {
        self.does(self.spec([0, 10_000])).await.unwrap();
        let at = self.router.at(Protocol::Http);
        let held = tokio::spawn(async move { call(at, None, &request("/held", &[])).await });
        while self.router.going_on(SERVICE, "B").await == Some(0) {
            tokio::task::yield_now().await;
        }
        self.does(self.spec([10_000, 0])).await.unwrap();
        let told = self.router.going_on(SERVICE, "B").await;
        self.b.let_go.send_replace(true);
        let answer = held.await.unwrap();
        assert_eq!(read(&answer), (200, "B"), "it ends well");
        while told.is_some() && self.router.going_on(SERVICE, "B").await != Some(0) {
            tokio::task::yield_now().await;
        }
        assert!(told.is_none_or(|calls| calls == 1), "{told:?}");
        told.is_some()
    }

    async fn when_refused(&mut self) -> &'static str {
        let closed = free_address();
        let mut alone = self.spec([0, 10_000]);
        alone.variations[1] = variation("B", &[closed]);
        self.does(alone).await.unwrap();
        let (status, body) = self.get("/", &[]).await;
        if (status, body.as_str()) == (200, "A") {
            return "the stable variation";
        }
        assert!(status >= 500, "{status} {body}");
        let mut beside = self.spec([0, 10_000]);
        beside.variations[1] = variation("B", &[closed, self.b.at]);
        self.does(beside).await.unwrap();
        for _ in 0..20 {
            let (status, body) = self.get("/", &[]).await;
            if status >= 500 {
                return "nobody";
            }
            assert_eq!((status, body.as_str()), (200, "B"));
        }
        "another target"
    }
}
