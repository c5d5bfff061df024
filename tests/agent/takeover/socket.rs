//! Calls to a port at which the proxy listens as well: the sockets are real, and so is the proxy.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agent::{
    settings::TakeoverSettings,
    state_machine::{Trouble, TroubleKind},
    takeover::{
        Answer, Ground, Takeover,
        left_over::LeftOver,
        machine::Machine,
        nft::{Found, Redirects, sent},
    },
};
use model::traffic::{Listen, OpenPorts, Protocol, Socket};
use proxy::{
    Limits, Proxy,
    control::{
        self,
        client::Client,
        control_handler::ControlHandler,
        form::{Applied, ListenStatus, Status},
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixListener},
    task::JoinHandle,
};
use traffic::{
    BUCKETS, HashFunction, Run, Table,
    desired::{DesiredConfig, Number, Service, ServiceSpec, Variation},
};

use crate::{
    ports::{free_address, range},
    reuse_port::Program,
    world::wait_until,
};

/// Enough calls for the kernel to give each of two sockets some.
const MANY: usize = 64;

/// Rules as they are in force; none: nothing is left.
type Rules = Arc<Mutex<Option<Redirects>>>;

/// An address of this machine, to whoever asks there.
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

/// This machine, whose rules are a list; without one none is ever asked for.
#[derive(Debug)]
struct Mixed {
    machine: Machine,
    rules: Option<Rules>,
}

impl Mixed {
    fn new(rules: Option<&Rules>) -> Self {
        Self { machine: Machine::new("nft".into()), rules: rules.cloned() }
    }

    fn rules(&self) -> MutexGuard<'_, Option<Redirects>> {
        self.rules.as_ref().expect("nothing is taken over by rules").lock().unwrap()
    }
}

impl Ground for Mixed {
    fn hold(&self) -> Result<(), Trouble> {
        drop(self.rules());
        Ok(())
    }

    fn is_anothers(&self) -> bool {
        drop(self.rules());
        false
    }

    fn look(&self) -> Answer<'_, Result<Found, Trouble>> {
        let rules = self.rules().clone();
        let sent = rules.as_ref().map(sent).unwrap_or_default();
        Box::pin(async move { Ok(Found { is_there: rules.is_some(), is_as_put: true, sent }) })
    }

    fn take<'a>(&'a self, all: &'a Redirects) -> Answer<'a, Result<(), Trouble>> {
        *self.rules() = Some(all.clone());
        Box::pin(async { Ok(()) })
    }

    fn give_back(&self) -> Answer<'_, Result<(), Trouble>> {
        *self.rules() = None;
        Box::pin(async { Ok(()) })
    }

    fn forget_flows(&self, _: Option<u16>) {
        unreachable!("nothing of UDP is taken over")
    }

    fn listeners(&self, socket: Socket) -> Vec<IpAddr> {
        self.machine.listeners(socket)
    }

    fn beside(&self, port: Option<u16>) -> BTreeMap<u16, Vec<(IpAddr, bool)>> {
        self.machine.beside(port)
    }

    fn own_of(&self, addresses: &[IpAddr]) -> Vec<IpAddr> {
        addresses.iter().copied().filter(|address| *address == OWN).collect()
    }

    fn addresses(&self, port: u16, of: &[IpAddr]) -> Vec<SocketAddr> {
        self.machine.addresses(port, of)
    }

    fn is_free(&self, socket: Socket, of: &[IpAddr]) -> bool {
        self.machine.is_free(socket, of)
    }

    fn settles_in(&self) -> Duration {
        Duration::ZERO
    }
}

/// A proxy, a version to which it leads, and what is taken over for it.
struct World {
    client: Client,
    target: SocketAddr,
    file: PathBuf,
    /// Of the proxy's tables.
    generation: AtomicU64,
    serving: JoinHandle<()>,
    _version: Program,
    _folder: TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl World {
    /// With these sockets lent to the proxy.
    async fn start(lent: &[&TcpListener]) -> Self {
        Self::marking(None, lent).await
    }

    /// The same of a proxy that marks its own calls.
    async fn marking(mark: Option<u32>, lent: &[&TcpListener]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let proxy = Proxy::start(2, Limits { mark, ..Limits::default() }).unwrap();
        let state = folder.path().join("proxy");
        let handler = Arc::new(ControlHandler::new(proxy, &state, Vec::new(), "0.0.0-test").unwrap());
        let lent = lent.iter().map(|socket| socket.try_clone().unwrap()).collect();
        handler.share(lent).await.unwrap();
        assert!(handler.listen_again().await.unwrap().is_empty());
        let socket = folder.path().join("proxy.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        handler.open();
        let target = free_address();
        Self {
            client: Client::new(socket),
            target,
            file: folder.path().join("takeover.json"),
            generation: AtomicU64::new(1),
            serving: tokio::spawn(control::serve(listener, handler)),
            _version: program(target, "version"),
            _folder: folder,
        }
    }

    fn settings(&self, sockets: bool, nftables: bool) -> TakeoverSettings {
        let (program, ports, file) = ("nft".into(), range(9), self.file.clone());
        TakeoverSettings { sockets, nftables, program, ports, file }
    }

    /// An agent's, from what is on disk.
    fn takeover(&self) -> Takeover {
        self.takeover_by(true, false, None)
    }

    fn takeover_by(&self, sockets: bool, nftables: bool, rules: Option<&Rules>) -> Takeover {
        Takeover::start_on(self.settings(sockets, nftables), self.client.clone(), Box::new(Mixed::new(rules)))
    }

    /// What an agent that has ended has left in force.
    async fn left_over(&self) -> LeftOver {
        LeftOver::find_on(&self.settings(true, false), Box::new(Mixed::new(None))).await.unwrap().unwrap()
    }

    async fn status(&self) -> Status {
        self.client.get("/status").await.unwrap()
    }

    async fn listened(&self) -> ListenStatus {
        self.client.get("/listen").await.unwrap()
    }

    fn kept(&self) -> Value {
        serde_json::from_slice(&std::fs::read(&self.file).unwrap()).unwrap()
    }

    /// As an agent puts a table in force. Gives where the proxy listens for each of its ports.
    async fn apply(&self, takeover: &Takeover, services: Vec<Service>) -> Result<Vec<Option<u16>>, Trouble> {
        let placed = takeover.before_table(services, &[]).await?;
        let number = Number { epoch: 1, generation: 1 };
        DesiredConfig::new(number, placed.clone()).unwrap();
        self.put_table(&placed).await;
        takeover.after_table().await?;
        let listens = placed.iter().flat_map(|service| &service.listens);
        Ok(listens.map(|listen| listen.at).collect())
    }

    async fn put_table(&self, services: &[Service]) {
        let service = |service: &Service| {
            let ports: Vec<u16> = service.listens.iter().map(|listen| listen.opened().port).collect();
            let targets: Vec<String> =
                service.variations[0].targets.iter().map(ToString::to_string).collect();
            json!({"name": service.name, "ports": ports, "variations": [{"name": "A", "targets": targets}]})
        };
        let services: Vec<Value> = services.iter().map(service).collect();
        let generation = self.generation.fetch_add(1, Ordering::SeqCst);
        let table = json!({"format": 2, "generation": generation, "services": services});
        let _: Applied = self.client.put("/table", table.to_string().into()).await.unwrap();
    }

    /// The service with a port of another program, whose version listens elsewhere.
    fn service(&self, at: SocketAddr) -> Service {
        service(Listen::new(at.port(), Protocol::Http), self.target)
    }

    /// Waits until the proxy answers some calls, or all.
    async fn until_it_answers(&self, at: SocketAddr, all: bool) {
        until("the proxy answers", async || {
            let answered = answered(at).await;
            if all { answered == MANY } else { answered > 0 }
        })
        .await;
    }
}

fn service(listen: Listen, target: SocketAddr) -> Service {
    let whole = Run { from: 0, to: BUCKETS, variation: traffic::Variation::STABLE };
    let spec = ServiceSpec {
        name: "checkout".parse().unwrap(),
        listens: vec![listen],
        sticky: None,
        rule: None,
        salt: "checkout".parse().unwrap(),
        hash: HashFunction::Murmur2,
        variations: vec![Variation {
            name: "A".parse().unwrap(),
            targets: vec![target.to_string().parse().unwrap()],
            health: None,
        }],
        table: Table::from_runs(1, &[whole]).unwrap(),
    };
    Service::new(spec).unwrap()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    wait_until(what, async || holds().await.then_some(())).await;
}

/// Answers each call with a name.
fn program(at: SocketAddr, name: &'static str) -> Program {
    Program::beside(at, move |stream| reply(stream, name))
}

async fn reply(mut stream: TcpStream, name: &'static str) {
    let (mut came, mut room) = (Vec::new(), [0; 1_024]);
    loop {
        match stream.read(&mut room).await {
            Ok(0) | Err(_) => return,
            Ok(read) => came.extend_from_slice(&room[..read]),
        }
        if came.ends_with(b"\r\n\r\n") {
            came.clear();
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
            if stream.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// Who answers a call over a connection of its own.
async fn called(at: SocketAddr) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut came = Vec::new();
    let name = loop {
        let mut room = [0; 1_024];
        let read = stream.read(&mut room).await.unwrap();
        assert!(read > 0, "the connection ended before the answer");
        came.extend_from_slice(&room[..read]);
        let text = String::from_utf8_lossy(&came);
        assert!("HTTP/1.1 200".starts_with(&text[..text.len().min(12)]), "{text}");
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && let Some(name) = ["version", "other"].into_iter().find(|name| *name == body)
        {
            break name;
        }
    };
    name.to_owned()
}

/// How many calls the proxy answers.
async fn answered(at: SocketAddr) -> usize {
    let mut by_proxy = 0;
    for _ in 0..MANY {
        by_proxy += usize::from(called(at).await == "version");
    }
    by_proxy
}

fn by_socket(port: u16) -> OpenPorts {
    OpenPorts { first: port, last: port, protocol: None, passes: false, takes_over: true, by_socket: true }
}

#[tokio::test]
async fn either_answers_beside_another_program_until_it_lets_go_and_again_before_the_proxy_does() {
    let at = free_address();
    let (only, none) = (BTreeSet::from([at.port()]), BTreeSet::new());
    let other = program(at, "other");
    let world = World::start(&[]).await;
    let takeover = world.takeover();
    let status = world.status().await;
    until("it is offered to the manager", async || takeover.ports(&status).contains(&by_socket(at.port())))
        .await;
    assert_eq!(takeover.trouble(&status), None);

    let placed = takeover.before_table(vec![world.service(at)], &[]).await.unwrap();
    assert_eq!(placed[0].listens[0].at, Some(at.port()));
    assert_eq!(world.listened().await.list.joined, [at]);
    assert_eq!(answered(at).await, 0, "no table has the service yet");
    assert_eq!(world.kept()[0]["phase"], "opening");
    // Whoever was killed by then goes on.
    drop(takeover);
    let takeover = world.takeover();
    assert_eq!(world.apply(&takeover, vec![world.service(at)]).await.unwrap(), [Some(at.port())]);
    world.until_it_answers(at, false).await;
    assert_eq!(takeover.shared_ports(), only);
    other.lets_go().await;
    assert_eq!(answered(at).await, MANY);
    until("nobody else takes calls", async || takeover.shared_ports() == none).await;

    // Another agent doesn't know that before it has asked, and moves nobody.
    drop(takeover);
    let takeover = world.takeover();
    assert_eq!(takeover.shared_ports(), only);
    assert_eq!(world.apply(&takeover, vec![world.service(at)]).await.unwrap(), [Some(at.port())]);
    assert_eq!(answered(at).await, MANY);

    // Nobody would be there.
    for _ in 0..2 {
        let waits = world.apply(&takeover, Vec::new()).await.unwrap_err();
        assert_eq!(waits.kind, TroubleKind::Waits);
        assert!(waits.text.contains("before another program takes calls there again"), "{}", waits.text);
        assert_eq!(answered(at).await, MANY);
        assert_eq!(world.kept()[0]["phase"], "taken");
    }
    let _other = program(at, "other");
    world.apply(&takeover, Vec::new()).await.unwrap();
    assert_eq!((answered(at).await, world.listened().await.list.listen.len()), (0, 0));
    until("it is forgotten", async || world.kept() == json!([])).await;
}

#[tokio::test]
async fn either_answers_at_a_socket_that_was_lent_until_the_other_program_lets_go() {
    let at = free_address();
    let (only, none) = (BTreeSet::from([at.port()]), BTreeSet::new());
    let socket = TcpListener::bind(at).unwrap();
    socket.set_nonblocking(true).unwrap();
    let world = World::start(&[&socket]).await;
    let other = Program::having(&socket, |stream| reply(stream, "other"));
    let takeover = world.takeover();
    assert!(
        takeover.ports(&world.status().await).contains(&by_socket(at.port())),
        "it need not be looked for"
    );
    assert_eq!(world.apply(&takeover, vec![world.service(at)]).await.unwrap(), [Some(at.port())]);
    assert_eq!(world.listened().await.list.lent, [at]);
    other.lets_go().await;
    world.until_it_answers(at, true).await;
    until("nobody else takes calls", async || takeover.shared_ports() == none).await;
    let waits = world.apply(&takeover, Vec::new()).await.unwrap_err();
    assert_eq!(waits.kind, TroubleKind::Waits);

    let _other = Program::having(&socket, |stream| reply(stream, "other"));
    until("it is seen that somebody else takes calls", async || takeover.shared_ports() == only).await;
    until("it may be given back", async || world.apply(&takeover, Vec::new()).await.is_ok()).await;
    assert_eq!(answered(at).await, 0);
    until("it is forgotten", async || world.kept() == json!([])).await;
}

#[tokio::test]
async fn what_was_about_to_be_given_back_stays_where_it_is_wanted_again() {
    let at = free_address();
    let other = program(at, "other");
    let world = World::start(&[]).await;
    world.apply(&world.takeover(), vec![world.service(at)]).await.unwrap();
    world.until_it_answers(at, false).await;
    other.lets_go().await;
    // As an agent leaves it that is killed then.
    let mut kept = world.kept();
    kept[0]["phase"] = json!("giving_back");
    std::fs::write(&world.file, kept.to_string()).unwrap();
    let takeover = world.takeover();
    let waits = world.apply(&takeover, Vec::new()).await.unwrap_err();
    assert_eq!(waits.kind, TroubleKind::Waits);
    assert_eq!(world.apply(&takeover, vec![world.service(at)]).await.unwrap(), [Some(at.port())]);
    assert_eq!(answered(at).await, MANY);
    until("one of them is forgotten", async || world.kept().as_array().unwrap().len() == 1).await;
    assert_eq!(world.kept()[0]["phase"], "taken");
}

/// Else the proxy would have its socket there for good, and nobody accept at it.
#[tokio::test]
async fn what_an_agent_has_taken_whose_memory_is_lost_is_kept_while_it_is_wanted_and_given_back_then() {
    let at = free_address();
    let other = program(at, "other");
    let world = World::start(&[]).await;
    world.apply(&world.takeover(), vec![world.service(at)]).await.unwrap();
    world.until_it_answers(at, false).await;
    let before = world.kept();
    std::fs::remove_file(&world.file).unwrap();
    let takeover = world.takeover();
    assert_eq!(world.apply(&takeover, vec![world.service(at)]).await.unwrap(), [Some(at.port())]);
    assert_eq!(world.kept(), before);
    drop(takeover);

    std::fs::write(&world.file, "{").unwrap();
    other.lets_go().await;
    let takeover = world.takeover();
    let waits = world.apply(&takeover, Vec::new()).await.unwrap_err();
    assert_eq!(waits.kind, TroubleKind::Waits, "{}", waits.text);
    assert_eq!(answered(at).await, MANY);
    let _other = program(at, "other");
    world.apply(&takeover, Vec::new()).await.unwrap();
    assert_eq!((answered(at).await, world.listened().await.list.listen.len()), (0, 0));
    until("it is forgotten", async || world.kept() == json!([])).await;
}

#[tokio::test]
async fn a_port_that_can_not_be_taken_by_a_socket_is_refused_with_what_to_do() {
    let (shared, alone) = (free_address(), free_address());
    let _other = program(shared, "other");
    let _alone = TcpListener::bind(alone).unwrap();
    let world = World::start(&[]).await;
    let takeover = world.takeover();
    for (what, service, why) in [
        ("who shares nothing", world.service(alone), "open it with SO_REUSEPORT"),
        ("nobody is there", world.service(free_address()), "nobody does"),
        (
            "its calls would come back",
            service(Listen::new(shared.port(), Protocol::Http), shared),
            "name that as its target",
        ),
        (
            "the same by another address of this machine",
            service(Listen::new(shared.port(), Protocol::Http), (OWN, shared.port()).into()),
            "name that as its target",
        ),
        ("datagrams", service(Listen::new(shared.port(), Protocol::Udp), world.target), "it is one of UDP"),
    ] {
        let refused = takeover.before_table(vec![service], &[]).await.unwrap_err();
        assert_eq!(refused.kind, TroubleKind::Refused, "{what}");
        assert!(refused.text.contains(why), "{what}: {}", refused.text);
    }
    assert!(world.listened().await.list.listen.is_empty());
    // Nothing is held up by what came to nothing.
    world.apply(&takeover, vec![world.service(shared)]).await.unwrap();
    let here = IpAddr::from(Ipv4Addr::LOCALHOST);
    assert_eq!(Machine::new("nft".into()).own_of(&[OWN, here]), [here]);
}

/// As after a restart of the proxy and of the other program, which shares its port no more.
#[tokio::test]
async fn a_port_that_can_not_be_opened_again_is_given_up_and_blocks_no_other_table() {
    let (lost, kept) = (free_address(), free_address());
    let (one, _two) = (program(lost, "other"), program(kept, "other"));
    let world = World::start(&[]).await;
    world.apply(&world.takeover(), vec![world.service(lost)]).await.unwrap();
    let none = json!({"epoch": 0, "generation": 50, "listen": []});
    let _: ListenStatus = world.client.put("/listen", none.to_string().into()).await.unwrap();
    one.lets_go().await;
    let _alone = TcpListener::bind(lost).unwrap();
    let takeover = world.takeover();
    let refused = world.apply(&takeover, vec![world.service(lost)]).await.unwrap_err();
    assert_eq!(refused.kind, TroubleKind::Refused);
    assert!(refused.text.contains("open it with SO_REUSEPORT"), "{}", refused.text);
    world.apply(&takeover, vec![world.service(kept)]).await.unwrap();
    assert_eq!(world.listened().await.list.joined, [kept]);
}

#[tokio::test]
async fn whoever_ends_all_learns_where_nobody_may_answer_and_the_next_agent_goes_on() {
    let at = free_address();
    let other = program(at, "other");
    let world = World::start(&[]).await;
    world.apply(&world.takeover(), vec![world.service(at)]).await.unwrap();
    let (port, proxy) = (at.port(), Some(&world.client));
    let nobody = Client::new("/there/is/no/proxy");
    let left_over = world.left_over().await;
    assert_eq!(left_over.ports(proxy).await, [(port, true)]);
    other.lets_go().await;
    assert_eq!(left_over.ports(proxy).await, [(port, false)]);
    let before = world.kept();
    left_over.send_nobody().await.unwrap();
    left_over.give_back().await.unwrap();
    assert_eq!(world.kept(), before, "the proxy has it in its list, and comes back with that");

    // Without a proxy, what is listed says who is there.
    let none = json!({"epoch": 0, "generation": 50, "listen": []});
    let _: ListenStatus = world.client.put("/listen", none.to_string().into()).await.unwrap();
    let left_over = world.left_over().await;
    assert_eq!(left_over.ports(Some(&nobody)).await, [(port, false)]);
    let _other = program(at, "other");
    assert_eq!(left_over.ports(Some(&nobody)).await, [(port, true)]);
    assert_eq!(left_over.ports(None).await, [(port, true)]);

    let takeover = world.takeover();
    assert_eq!(world.apply(&takeover, vec![world.service(at)]).await.unwrap(), [Some(port)]);
    assert_eq!(world.listened().await.list.joined, [at]);
}

/// As an agent is killed then: its table is the right one, so it isn't told again.
#[tokio::test]
async fn a_port_is_shared_also_where_it_was_not_noted_that_its_table_came() {
    let at = free_address();
    let _other = program(at, "other");
    let world = World::start(&[]).await;
    let placed = world.takeover().before_table(vec![world.service(at)], &[]).await.unwrap();
    world.put_table(&placed).await;
    world.until_it_answers(at, false).await;
    assert_eq!(world.kept()[0]["phase"], "opening");
    assert_eq!(world.takeover().shared_ports(), BTreeSet::from([at.port()]));
}

#[tokio::test]
async fn who_may_not_any_more_gives_everything_back_once_somebody_else_takes_calls() {
    let at = free_address();
    let other = program(at, "other");
    let world = World::start(&[]).await;
    world.apply(&world.takeover(), vec![world.service(at)]).await.unwrap();
    world.until_it_answers(at, false).await;
    other.lets_go().await;
    let takeover = world.takeover_by(false, false, None);
    let status = world.status().await;
    assert!(takeover.differs(&status).await, "or nobody would tell the table again");
    let waits = takeover.before_table(vec![world.service(at)], &[]).await.unwrap_err();
    assert_eq!(waits.kind, TroubleKind::Waits);
    assert!(takeover.differs(&status).await);
    let _other = program(at, "other");
    let placed = takeover.before_table(vec![world.service(at)], &[]).await.unwrap();
    assert_eq!(placed[0].listens[0].at, None);
    assert!(world.listened().await.list.listen.is_empty());
    assert!(!takeover.differs(&status).await);
}

#[tokio::test]
async fn what_is_taken_by_rules_is_taken_by_a_socket_once_there_are_to_be_no_rules() {
    let at = free_address();
    let _other = program(at, "other");
    let world = World::marking(Some(1), &[]).await;
    let rules = Rules::default();
    let sent_to = async |takeover: &Takeover| {
        let placed = world.apply(takeover, vec![world.service(at)]).await.unwrap()[0].unwrap();
        let sent = rules.lock().unwrap().as_ref().map(sent).unwrap_or_default();
        (placed, sent.into_values().collect::<Vec<_>>())
    };
    let (placed, sent) = sent_to(&world.takeover_by(false, true, Some(&rules))).await;
    assert_eq!((placed != at.port(), sent), (true, vec![placed]));
    // As long as there may be, it stays so.
    assert_eq!(sent_to(&world.takeover_by(true, true, Some(&rules))).await, (placed, vec![placed]));
    let takeover = world.takeover_by(true, false, Some(&rules));
    assert_eq!(sent_to(&takeover).await, (at.port(), Vec::new()));
    assert_eq!(world.listened().await.list.joined, [at]);
    until("no rule is left", async || rules.lock().unwrap().is_none()).await;
}
