//! Ports that another program has as well.

use std::{
    collections::BTreeMap,
    fs, io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use proxy::{
    Limits, Proxy,
    control::{
        self,
        client::Client,
        control_handler::ControlHandler,
        form::{ListenStatus, Others, OthersStatus, Status},
    },
    form::AddressKind,
};
use rustix::net::Shutdown;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream, UnixListener},
    task::{JoinHandle, JoinSet},
};

use super::{list, put};
use crate::{
    flows,
    ports::free_address,
    reuse_port::Program,
    world::{GET, Peer, field, read_head, version, wait_until},
};

const PROXY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy";
const OTHER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nother";

/// A proxy of two threads that takes calls at ports of other programs.
struct Shared {
    handler: Arc<ControlHandler>,
    client: Client,
    target: SocketAddr,
    answering: JoinHandle<()>,
    folder: TempDir,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

impl Shared {
    async fn start(lent: &[&TcpListener]) -> Self {
        let proxy = Proxy::start(2, Limits::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let handler =
            ControlHandler::new(proxy, &folder.path().join("state"), Vec::new(), "0.0.0-test").unwrap();
        let handler = Arc::new(handler);
        let lent = lent.iter().map(|socket| socket.try_clone().unwrap()).collect();
        handler.share(lent).await.unwrap();
        assert!(handler.listen_again().await.unwrap().is_empty());
        let path = folder.path().join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        handler.open();
        let answering = tokio::spawn(control::serve(listener, Arc::clone(&handler)));
        let target = version(PROXY).await;
        Self { handler, client: Client::new(path), target, answering, folder }
    }

    /// Puts a table in force that has a service at these ports.
    async fn serve(&self, generation: u64, ports: &[u16]) {
        let target = self.target.to_string();
        let service = json!({"ports": ports, "variations": [{"name": "base", "targets": [target]}]});
        let services = (!ports.is_empty()).then_some(service);
        self.handler.proxy().apply(&flows::table(generation, services)).await.unwrap();
    }

    async fn put(&self, list: &Value) -> ListenStatus {
        put(&self.client, list).await.unwrap()
    }

    async fn refuse(&self, list: &Value) -> (u16, String) {
        put(&self.client, list).await.unwrap_err()
    }

    async fn others(&self, at: SocketAddr) -> Vec<OthersStatus> {
        let others: Others = self.client.post(&format!("/others?port={}", at.port())).await.unwrap();
        others.addresses
    }

    /// Whether the proxy takes connections there, and another program.
    async fn taken(&self, at: SocketAddr) -> (bool, Option<bool>) {
        let [one] = self.others(at).await[..] else { panic!("one address") };
        assert_eq!((one.kind, one.address), (AddressKind::Http, at));
        (one.takes, one.others)
    }

    /// Waits until it is seen that nobody else accepts: where much is to be done, that may take more than one look.
    async fn is_alone(&self, at: SocketAddr) {
        wait_until("it is seen that nobody else accepts", async || {
            self.taken(at).await == (true, Some(false))
        })
        .await;
    }
}

/// A list of addresses for calls, which are shared in this way.
fn shared(generation: u64, way: &str, addresses: &[SocketAddr]) -> Value {
    let listen: Vec<(&str, SocketAddr)> = addresses.iter().map(|at| ("http", *at)).collect();
    let mut list = list(generation, &listen);
    list[way] = json!(addresses);
    list
}

/// Another program at the port.
fn other(at: SocketAddr) -> Program {
    Program::beside(at, answer)
}

async fn answer(mut stream: TcpStream) {
    while read_head(&mut stream).await.is_some() {
        let _ = stream.write_all(OTHER.as_bytes()).await;
    }
}

/// Who answers a call over a connection of its own.
async fn answered_at(at: SocketAddr) -> String {
    Peer::connect(at).await.call(GET).await.1
}

/// Who answers so many calls: those of each.
async fn answered(at: SocketAddr, calls: usize) -> (usize, usize) {
    let mut by_proxy = 0;
    for _ in 0..calls {
        by_proxy += usize::from(answered_at(at).await == "proxy");
    }
    (by_proxy, calls - by_proxy)
}

/// Enough calls for the kernel to give each of two sockets some.
const MANY: usize = 64;

/// Callers, each call over a connection of its own, of whom none may be lost.
struct Callers {
    is_over: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
    tasks: JoinSet<Vec<String>>,
}

impl Callers {
    fn start(at: SocketAddr) -> Self {
        let (is_over, made) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let (is_over, made) = (Arc::clone(&is_over), Arc::clone(&made));
            tasks.spawn(async move {
                let mut lost = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    if let Err(error) = called(at).await {
                        lost.push(error.to_string());
                    }
                    made.fetch_add(1, Ordering::Relaxed);
                }
                lost
            });
        }
        Self { is_over, made, tasks }
    }

    /// Waits until so many more calls were made.
    async fn make(&self, calls: usize) {
        let until = self.made.load(Ordering::Relaxed) + calls;
        wait_until("calls are made", async || self.made.load(Ordering::Relaxed) >= until).await;
    }

    async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        assert_eq!(self.tasks.join_all().await.concat(), [""; 0]);
    }
}

/// One call, whoever answers it.
async fn called(at: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(at).await?;
    stream.write_all(GET.as_bytes()).await?;
    let head = read_head(&mut stream).await.ok_or(io::ErrorKind::UnexpectedEof)?;
    if head.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(io::Error::other(head)) }
}

#[tokio::test]
async fn nothing_comes_beside_another_program_before_a_table_has_a_service_for_it() {
    let at = free_address();
    let program = other(at);
    let shared_proxy = Shared::start(&[]).await;
    shared_proxy.serve(1, &[]).await;
    shared_proxy.put(&shared(1, "joined", &[at])).await;
    assert_eq!(answered(at, MANY).await, (0, MANY));
    assert_eq!(shared_proxy.taken(at).await, (false, Some(true)));
    shared_proxy.serve(2, &[at.port()]).await;
    wait_until("either answers", async || answered(at, MANY).await.0 > 0).await;
    let (by_proxy, by_other) = answered(at, MANY).await;
    assert!(by_proxy > 0 && by_other > 0, "{by_proxy} and {by_other} of {MANY}");
    assert_eq!(shared_proxy.taken(at).await, (true, Some(true)));

    // It lets go, and comes back.
    program.lets_go().await;
    assert_eq!(answered(at, MANY).await, (MANY, 0));
    assert_eq!(shared_proxy.taken(at).await, (true, Some(false)));
    let program = other(at);
    assert_eq!(shared_proxy.taken(at).await, (true, Some(true)));
    shared_proxy.put(&list(2, &[])).await;
    assert_eq!(answered(at, MANY).await, (0, MANY));
    drop(program);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_while_the_proxy_and_another_program_come_and_go_at_a_port() {
    let at = free_address();
    let mut program = other(at);
    let shared_proxy = Shared::start(&[]).await;
    shared_proxy.serve(1, &[]).await;
    let callers = Callers::start(at);
    for turn in 0..5 {
        callers.make(100).await;
        shared_proxy.put(&shared(2 * turn + 1, "joined", &[at])).await;
        shared_proxy.serve(2 * turn + 2, &[at.port()]).await;
        wait_until("the proxy takes calls", async || shared_proxy.taken(at).await.0).await;
        callers.make(100).await;
        program.lets_go().await;
        callers.make(100).await;
        program = other(at);
        callers.make(100).await;
        shared_proxy.put(&list(2 * turn + 2, &[])).await;
        shared_proxy.serve(2 * turn + 3, &[]).await;
    }
    callers.make(100).await;
    callers.end().await;
}

#[tokio::test]
async fn a_connection_that_came_in_has_its_next_call_answered_once_the_port_is_given_back() {
    let at = free_address();
    let shared_proxy = Shared::start(&[]).await;
    shared_proxy.put(&shared(1, "joined", &[at])).await;
    shared_proxy.serve(1, &[at.port()]).await;
    wait_until("it is listened", async || TcpStream::connect(at).await.is_ok()).await;
    let mut idle = Peer::connect(at).await;
    assert_eq!(idle.call(GET).await.1, "proxy");
    let program = other(at);
    shared_proxy.put(&list(2, &[])).await;
    shared_proxy.serve(2, &[]).await;
    let (head, body) = idle.call(GET).await;
    assert_eq!((field(&head, "connection"), body.as_str()), (Some("close"), "proxy"));
    assert_eq!(idle.rest().await, "");
    assert_eq!(answered(at, MANY).await, (0, MANY));
    drop(program);
}

#[tokio::test]
async fn a_port_beside_another_program_goes_on_for_something_else_and_takes_connections() {
    let at = free_address();
    let shared_proxy = Shared::start(&[]).await;
    shared_proxy.put(&shared(1, "joined", &[at])).await;
    shared_proxy.serve(1, &[at.port()]).await;
    wait_until("it is listened", async || TcpStream::connect(at).await.is_ok()).await;
    assert_eq!(answered_at(at).await, "proxy");
    let mut next = list(2, &[("tcp", at)]);
    next["joined"] = json!([at]);
    shared_proxy.put(&next).await;
    let target = shared_proxy.target.to_string();
    let variation = json!({"name": "base", "targets": [target]});
    let service = json!({"protocol": "tcp", "ports": [at.port()], "variations": [variation]});
    shared_proxy.handler.proxy().apply(&flows::table(2, [service])).await.unwrap();
    // Nobody else is there: whoever is not let in here waits in vain.
    called(at).await.unwrap();
}

/// As beside a program that listens at all addresses, and at one of them.
#[tokio::test]
async fn the_proxys_own_sockets_at_a_port_are_nobody_else_and_who_takes_a_part_is_not_all() {
    let at = free_address();
    let all = SocketAddr::from(([0, 0, 0, 0], at.port()));
    let shared_proxy = Shared::start(&[]).await;
    shared_proxy.put(&shared(1, "joined", &[all, at])).await;
    shared_proxy.serve(1, &[at.port()]).await;
    wait_until("it is listened at both", async || {
        shared_proxy.others(at).await.iter().filter(|one| one.takes).count() == 2
    })
    .await;
    let others = async || {
        let others = shared_proxy.others(at).await.into_iter();
        others.map(|one| (one.address, one.others)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(others().await, BTreeMap::from([(all, Some(false)), (at, Some(false))]));
    let _program = other(at);
    assert_eq!(others().await, BTreeMap::from([(all, None), (at, Some(true))]));
}

/// A socket that is lent, as systemd makes it where units say `NonBlocking=yes`.
fn lent() -> (TcpListener, SocketAddr) {
    let at = free_address();
    let socket = TcpListener::bind(at).unwrap();
    socket.set_nonblocking(true).unwrap();
    (socket, at)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lent_socket_is_accepted_on_while_a_list_and_a_table_have_it_and_stays_with_others() {
    let (socket, at) = lent();
    let shared_proxy = Shared::start(&[&socket]).await;
    let status: Status = shared_proxy.client.get("/status").await.unwrap();
    assert_eq!((status.lent, status.listen), (Some(vec![at]), Vec::new()));
    let mut program = Program::having(&socket, answer);
    shared_proxy.serve(1, &[]).await;
    let callers = Callers::start(at);
    for turn in 0..5 {
        assert_eq!(answered(at, MANY).await, (0, MANY));
        shared_proxy.put(&shared(2 * turn + 1, "lent", &[at])).await;
        assert_eq!(answered(at, MANY).await, (0, MANY), "no table has it yet");
        assert_eq!(shared_proxy.taken(at).await, (false, None));
        shared_proxy.serve(2 * turn + 2, &[at.port()]).await;
        wait_until("it is seen that another one accepts, too", async || {
            shared_proxy.taken(at).await == (true, Some(true))
        })
        .await;
        program.lets_go().await;
        shared_proxy.is_alone(at).await;
        assert_eq!(answered(at, MANY).await, (MANY, 0));
        program = Program::having(&socket, answer);
        shared_proxy.put(&list(2 * turn + 2, &[])).await;
        shared_proxy.serve(2 * turn + 3, &[]).await;
    }
    callers.make(100).await;
    callers.end().await;
}

/// As many programs drain.
#[tokio::test]
async fn a_lent_socket_at_which_another_program_has_ended_listening_listens_again() {
    let (socket, at) = lent();
    let shared_proxy = Shared::start(&[&socket]).await;
    shared_proxy.put(&shared(1, "lent", &[at])).await;
    shared_proxy.serve(1, &[at.port()]).await;
    // As each of them may be registered with the reactor from before, more often than there are threads.
    for _ in 0..5 {
        assert_eq!(answered(at, MANY).await, (MANY, 0));
        rustix::net::shutdown(&socket, Shutdown::Read).unwrap();
        wait_until("it listens again", async || called(at).await.is_ok()).await;
    }
    assert!(shared_proxy.put(&shared(1, "lent", &[at])).await.missing.is_empty());
    shared_proxy.is_alone(at).await;
}

#[tokio::test]
async fn a_lent_socket_that_has_lost_its_port_is_not_listened_at_another_one() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let at = socket.local_addr().unwrap();
    let shared_proxy = Shared::start(&[&socket]).await;
    shared_proxy.put(&shared(1, "lent", &[at])).await;
    shared_proxy.serve(1, &[at.port()]).await;
    assert_eq!(answered_at(at).await, "proxy");
    rustix::net::shutdown(&socket, Shutdown::Read).unwrap();
    wait_until("it is said", async || {
        let status: ListenStatus = shared_proxy.client.get("/listen").await.unwrap();
        status.missing.iter().any(|form| form.address == at)
    })
    .await;
    assert_eq!(shared_proxy.taken(at).await, (false, None));
    let now = socket.local_addr().unwrap();
    assert!(now == at || TcpStream::connect(now).await.is_err(), "nobody listens at {now}");
}

/// Whoever asks may end in the midst of it.
#[tokio::test]
async fn callers_are_taken_again_when_whoever_asks_who_else_does_is_gone() {
    let (socket, at) = lent();
    let shared_proxy = Shared::start(&[&socket]).await;
    shared_proxy.put(&shared(1, "lent", &[at])).await;
    shared_proxy.serve(1, &[at.port()]).await;
    assert_eq!(answered_at(at).await, "proxy");
    for _ in 0..20 {
        let mut asking =
            tokio::net::UnixStream::connect(shared_proxy.folder.path().join("control.sock")).await.unwrap();
        let call =
            format!("POST /others?port={} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", at.port());
        asking.write_all(call.as_bytes()).await.unwrap();
        // A call that comes while nothing is accepted waits, and is answered by the proxy.
        let calling = tokio::spawn(answered_at(at));
        drop(asking);
        assert_eq!(calling.await.unwrap(), "proxy");
    }
    shared_proxy.is_alone(at).await;
}

#[tokio::test]
async fn a_lent_socket_at_which_others_wait_in_accept_is_refused() {
    let at = free_address();
    let socket = TcpListener::bind(at).unwrap();
    let shared_proxy = Shared::start(&[&socket]).await;
    let (status, why) = shared_proxy.refuse(&shared(1, "lent", &[at])).await;
    assert_eq!(status, 409);
    assert!(why.contains("set NonBlocking=yes in the units of all who have that socket"), "{why}");
    socket.set_nonblocking(true).unwrap();
    shared_proxy.put(&shared(1, "lent", &[at])).await;
}

#[tokio::test]
async fn what_can_not_be_shared_is_refused_by_name_and_changes_nothing() {
    let (socket, at) = lent();
    let alone = free_address();
    let taken = TcpListener::bind(free_address()).unwrap();
    let in_use = taken.local_addr().unwrap();
    let shared_proxy = Shared::start(&[&socket]).await;
    let before = shared_proxy.put(&shared(1, "lent", &[at])).await;
    let mut twice = shared(2, "lent", &[at]);
    twice["joined"] = json!([at]);
    let mut unlisted = list(2, &[("http", at)]);
    unlisted["joined"] = json!([alone]);
    let mut datagrams = list(2, &[("udp", alone)]);
    datagrams["joined"] = json!([alone]);
    for (list, status, said) in [
        (
            shared(2, "lent", &[alone]),
            409,
            format!("no socket that listens on {alone} was lent to this proxy"),
        ),
        (
            shared(2, "joined", &[in_use]),
            409,
            format!("can't listen on http://{in_use}, which somebody else has"),
        ),
        (list(2, &[("http", at)]), 422, format!("http://{at} is open by another socket")),
        (twice, 422, format!("{at} is to be shared in two ways")),
        (unlisted, 422, format!("{alone} is no address of TCP in the list, and is to be shared")),
        (datagrams, 422, format!("{alone} is no address of TCP in the list, and is to be shared")),
        (shared(1, "joined", &[at]), 409, "is in force with another content".to_owned()),
    ] {
        let (refused, why) = shared_proxy.refuse(&list).await;
        assert_eq!(refused, status, "{list}: {why}");
        assert!(why.contains(&said), "{list}: {why}");
        let now: ListenStatus = shared_proxy.client.get("/listen").await.unwrap();
        assert_eq!(now, before);
    }
    let nobody = shared_proxy.client.post::<Others>("/others").await.unwrap_err();
    assert!(nobody.to_string().contains("name a port"), "{nobody}");
    assert!(shared_proxy.others(alone).await.is_empty());
}

/// An address that can't be opened any more stays in the list, and keeps no other one out.
#[tokio::test]
async fn an_address_that_can_not_be_opened_again_blocks_no_later_list() {
    let (kept, other) = (free_address(), free_address());
    let taken = TcpListener::bind(kept).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("state")).unwrap();
    let before = shared(4, "joined", &[kept]);
    fs::write(folder.path().join("state/listen.json"), before.to_string()).unwrap();
    let proxy = Proxy::start(1, Limits::default()).unwrap();
    let state = folder.path().join("state");
    let handler = Arc::new(ControlHandler::new(proxy, &state, Vec::new(), "0.0.0-test").unwrap());
    handler.share(Vec::new()).await.unwrap();
    let faults = handler.listen_again().await.unwrap();
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert!(fault.why.contains(&kept.to_string()), "{fault}");
    let path = folder.path().join("control.sock");
    let listener = UnixListener::bind(&path).unwrap();
    handler.open();
    let answering = tokio::spawn(control::serve(listener, handler));
    let client = Client::new(path);
    // The same list again says why, as ever.
    assert_eq!(put(&client, &before).await.unwrap_err().0, 409);
    let mut next = shared(5, "joined", &[kept]);
    next["listen"].as_array_mut().unwrap().push(json!({"kind": "http", "address": other}));
    let status = put(&client, &next).await.unwrap();
    assert_eq!(status.missing.iter().map(|form| form.address).collect::<Vec<_>>(), [kept]);
    assert!(TcpStream::connect(other).await.is_ok());
    // What is new in a list has to be opened.
    let in_use = free_address();
    let new = TcpListener::bind(in_use).unwrap();
    let refused = put(&client, &shared(6, "joined", &[kept, in_use])).await.unwrap_err();
    assert_eq!(refused.0, 409, "{}", refused.1);
    drop((taken, new));
    next["generation"] = json!(6);
    assert!(put(&client, &next).await.unwrap().missing.is_empty());
    answering.abort();
}

#[tokio::test]
async fn a_port_of_one_who_shares_nothing_can_not_be_joined() {
    let (at, beside) = (free_address(), free_address());
    let alone = TcpListener::bind(at).unwrap();
    assert!(!proxy::shared::socket::can_join(at));
    drop(alone);
    assert!(proxy::shared::socket::can_join(at));
    let program = other(beside);
    assert!(proxy::shared::socket::can_join(beside));
    // To look takes nothing from whoever is there.
    assert_eq!(answered(beside, MANY).await, (0, MANY));
    let alone = TcpSocket::new_v4().unwrap();
    alone.set_reuseaddr(true).unwrap();
    assert!(alone.bind(beside).is_err(), "the others share with whoever shares");
    drop(program);
}
