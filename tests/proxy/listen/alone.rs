//! A process that holds its sockets itself.

use std::{
    fs,
    net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    sync::Arc,
};

use proxy::{
    Kind, Limits, Listen, Proxy,
    control::{
        self, MAX_LIST,
        client::{Client, ClientError},
        control_handler::ControlHandler,
        form::{AddressStatus, Applied, ListenStatus, Status},
    },
    form::{AddressForm, AddressKind},
    listens::{ListenFault, ListenFaultClass},
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::UnixListener, task::JoinHandle};

use super::{is_refused, list, own_address, put};
use crate::{
    flows::{self, echo, udp::End},
    http2_world::{call, connect, request},
    ports::free_address,
    world::{GET, NEVER, Peer, SOON, Scripted, field, ok, table, version, wait_until},
};

const BASE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbase";

struct Alone {
    handler: Arc<ControlHandler>,
    client: Client,
    /// An address of the configuration.
    configured: SocketAddr,
    /// Addresses of the list that couldn't be opened at the start.
    faults: Vec<ListenFault>,
    answering: JoinHandle<()>,
    folder: TempDir,
}

impl Alone {
    async fn start() -> Self {
        Self::start_with(Limits::default()).await
    }

    async fn start_with(limits: Limits) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), limits).await
    }

    async fn start_in(folder: TempDir, limits: Limits) -> Self {
        Self::start_on(1, folder, limits).await
    }

    /// With so many threads.
    async fn start_on(threads: usize, folder: TempDir, limits: Limits) -> Self {
        let proxy = Proxy::start(threads, limits).unwrap();
        let configured = proxy.listen(&TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let listen = vec![Listen { kind: Kind::Plain, address: configured }];
        let handler = ControlHandler::new(proxy, &folder.path().join("state"), listen, "0.0.0-test").unwrap();
        let handler = Arc::new(handler);
        let faults = handler.listen_again().await.unwrap();
        let path = folder.path().join("control.sock");
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        handler.open();
        let answering = tokio::spawn(control::serve(listener, Arc::clone(&handler)));
        Self { handler, client: Client::new(path), configured, faults, answering, folder }
    }

    /// Ends, and gives the folder once nobody listens at these addresses any more.
    async fn end(self, addresses: &[SocketAddr]) -> TempDir {
        let Self { handler, answering, folder, .. } = self;
        answering.abort();
        let _ = answering.await;
        drop(handler);
        for at in addresses {
            wait_until("nobody listens", async || is_refused(*at).await).await;
        }
        folder
    }

    async fn put(&self, generation: u64, addresses: &[(&str, SocketAddr)]) -> ListenStatus {
        put(&self.client, &list(generation, addresses)).await.unwrap()
    }

    async fn refuse(&self, list: &Value) -> (u16, String) {
        put(&self.client, list).await.unwrap_err()
    }

    /// All calls go to one version.
    async fn serve(&self, at: SocketAddr) {
        self.handler.proxy().apply(&table(1, at, at, 0)).await.unwrap();
    }

    async fn status(&self) -> ListenStatus {
        self.client.get("/listen").await.unwrap()
    }

    async fn is_empty(&self) {
        wait_until("nothing is left of what came in", async || self.status().await.closing.is_empty()).await;
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("state/listen.json")
    }
}

async fn body_at(at: SocketAddr) -> String {
    Peer::connect(at).await.call(GET).await.1
}

fn form(kind: AddressKind, address: SocketAddr) -> AddressForm {
    AddressForm { kind, address }
}

fn left(kind: AddressKind, address: SocketAddr, connections: usize) -> Vec<AddressStatus> {
    vec![AddressStatus { kind, address, connections }]
}

#[tokio::test]
async fn an_address_is_opened_closed_and_opened_again() {
    let alone = Alone::start().await;
    alone.serve(version(BASE).await).await;
    let at = free_address();
    assert!(is_refused(at).await);
    let opened = alone.put(1, &[("http", at)]).await;
    assert_eq!(opened.list.listen, [form(AddressKind::Http, at)]);
    assert_eq!((opened.list.epoch, opened.list.generation), (1, 1));
    assert_eq!(alone.status().await, opened);
    let status: Status = alone.client.get("/status").await.unwrap();
    assert_eq!(status.listen, [alone.configured.to_string(), at.to_string()]);
    let mut idle = Peer::connect(at).await;
    assert_eq!(idle.call(GET).await.1, "base");

    let closed = alone.put(2, &[]).await;
    assert_eq!(closed.closing, left(AddressKind::Http, at, 1));
    assert!(is_refused(at).await);
    // Somebody else can have it, while the connection that stood idle has its next call answered.
    drop(TcpListener::bind(at).unwrap());
    let (head, body) = idle.call(GET).await;
    assert_eq!((field(&head, "connection"), body.as_str()), (Some("close"), "base"));
    assert_eq!(idle.rest().await, "");
    alone.is_empty().await;
    assert_eq!(body_at(alone.configured).await, "base");

    alone.put(3, &[("http", at)]).await;
    assert_eq!(body_at(at).await, "base");
}

#[tokio::test]
async fn a_connection_has_its_next_call_answered_whatever_became_of_the_service_of_its_address() {
    let alone = Alone::start().await;
    let (before, after) =
        (version(BASE).await, version("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nafter").await);
    let (at, stays) = (free_address(), free_address());
    let put_table = async |generation, served: &[(SocketAddr, SocketAddr)]| {
        let variations = served.first().map(|(_, to)| json!([{"name": "base", "targets": [to.to_string()]}]));
        let ports: Vec<u16> = served.iter().map(|(at, _)| at.port()).collect();
        let service = variations.map(|variations| json!({"ports": ports, "variations": variations}));
        alone.handler.proxy().apply(&flows::table(generation, service)).await.unwrap();
    };
    alone.put(1, &[("http", at), ("http", stays)]).await;
    put_table(1, &[(at, before), (stays, before)]).await;
    let (mut first, mut second) = (Peer::connect(at).await, Peer::connect(at).await);
    for idle in [&mut first, &mut second] {
        assert_eq!(idle.call(GET).await.1, "base");
    }

    assert_eq!(alone.put(2, &[("http", stays)]).await.closing, left(AddressKind::Http, at, 2));
    // It is served on by other shares elsewhere, which hold here as well.
    put_table(2, &[(stays, after)]).await;
    let (head, body) = first.call(GET).await;
    assert_eq!((field(&head, "connection"), body.as_str()), (Some("close"), "after"));
    // No table has it any more.
    put_table(3, &[]).await;
    assert!(Peer::connect(stays).await.call(GET).await.0.starts_with("HTTP/1.1 404"));
    let (head, body) = second.call(GET).await;
    assert_eq!((field(&head, "connection"), body.as_str()), (Some("close"), "base"));
    assert_eq!((first.rest().await, second.rest().await), (String::new(), String::new()));
    // And nothing holds the version that it had.
    wait_until("no version is left", async || {
        let status: Status = alone.client.get("/status").await.unwrap();
        status.leaving.is_empty()
    })
    .await;
}

#[tokio::test]
async fn calls_in_flight_end_well_at_an_address_that_is_closed() {
    let alone = Alone::start().await;
    let base = Scripted::new().await;
    alone.serve(base.at).await;
    let at = free_address();
    alone.put(1, &[("http", at)]).await;
    let (mut caller, mut other) = (Peer::connect(at).await, Peer::connect(alone.configured).await);
    caller.send(GET).await;
    let mut called = base.accept().await;
    called.head().await;
    alone.put(2, &[]).await;
    called.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").await;
    let head = caller.head().await;
    assert_eq!((field(&head, "connection"), caller.bytes(4).await.as_str()), (Some("close"), "half"));
    called.send("half").await;
    assert_eq!(caller.bytes(4).await, "half");
    assert_eq!(caller.rest().await, "");
    alone.is_empty().await;
    // Those who came in elsewhere notice nothing.
    other.send(GET).await;
    called.head().await;
    called.send(ok("other")).await;
    let (head, body) = other.answer().await;
    assert_eq!((field(&head, "connection"), body.as_str()), (None, "other"));
}

#[tokio::test]
async fn a_caller_of_http2_is_told_that_its_connection_ends() {
    let alone = Alone::start().await;
    let base = Scripted::new().await;
    alone.serve(base.at).await;
    let at = free_address();
    alone.put(1, &[("http", at)]).await;
    let connection = connect(at).await;
    // With a call under way it has not ended before anybody looks.
    let closing = async {
        let mut called = base.accept().await;
        called.head().await;
        let status = alone.put(2, &[]).await;
        called.send(ok("base")).await;
        status.closing
    };
    let (answer, closing) = tokio::join!(call(&connection, request("GET", "/a"), ""), closing);
    assert_eq!(answer.unwrap().text(), "base");
    assert_eq!(closing, left(AddressKind::Http, at, 1));
    alone.is_empty().await;
    assert!(call(&connection, request("GET", "/a"), "").await.is_err());
}

#[tokio::test]
async fn connections_that_wait_to_be_accepted_are_served_before_the_address_is_closed() {
    let alone = Alone::start_with(Limits { connections: 1, ..Limits::default() }).await;
    alone.serve(version(BASE).await).await;
    let at = free_address();
    alone.put(1, &[("http", at)]).await;
    let _first = Peer::connect(alone.configured).await;
    wait_until("it is accepted", async || alone.handler.proxy().connections() == 1).await;
    // One that was waited for already may be accepted beyond the limit; the others wait.
    let mut callers = Vec::new();
    for _ in 0..4 {
        let mut caller = Peer::connect(at).await;
        caller.send(GET).await;
        callers.push(caller);
    }
    assert!(alone.handler.proxy().connections() <= 2);
    alone.put(2, &[]).await;
    assert!(is_refused(at).await);
    assert_eq!(callers[0].answer().await.1, "base");
    for caller in &mut callers[1..] {
        let (head, body) = caller.answer().await;
        assert_eq!((field(&head, "connection"), body.as_str()), (Some("close"), "base"));
    }
}

const CALLERS: usize = 40;

/// A proxy of several threads, and callers who wait at an address, since nobody is accepted beyond one connection, or one on each thread.
async fn with_callers_who_wait(limits: Limits) -> (Alone, SocketAddr, Vec<Peer>) {
    let limits = Limits { connections: 1, ..limits };
    let alone = Alone::start_on(4, tempfile::tempdir().unwrap(), limits).await;
    alone.serve(version(BASE).await).await;
    let at = free_address();
    alone.put(1, &[("http", at)]).await;
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        callers.push(Peer::connect(at).await);
    }
    (alone, at, callers)
}

#[tokio::test]
async fn whoever_waits_when_an_address_is_closed_is_counted_there_on_whichever_thread_and_served() {
    let (alone, at, callers) = with_callers_who_wait(Limits::default()).await;
    assert_eq!(alone.put(2, &[]).await.closing, left(AddressKind::Http, at, CALLERS));
    assert!(is_refused(at).await);
    for mut caller in callers {
        let (head, body) = caller.call(GET).await;
        assert_eq!((field(&head, "connection"), body.as_str()), (Some("close"), "base"));
    }
    alone.is_empty().await;
}

#[tokio::test]
async fn whoever_waits_when_an_address_is_closed_is_cut_on_whichever_thread_when_the_time_is_over() {
    let (alone, _, callers) = with_callers_who_wait(Limits { flow_drain: SOON, ..Limits::default() }).await;
    alone.put(2, &[]).await;
    for mut caller in callers {
        caller.gone().await;
    }
    alone.is_empty().await;
}

#[tokio::test]
async fn an_address_of_udp_at_which_nothing_came_in_is_free_once_it_is_closed() {
    let alone = Alone::start().await;
    let at = own_address();
    for turn in 0..10 {
        alone.put(2 * turn + 1, &[("udp", at)]).await;
        assert!(alone.put(2 * turn + 2, &[]).await.closing.is_empty());
        drop(std::net::UdpSocket::bind(at).unwrap());
    }
}

#[tokio::test]
async fn more_addresses_than_a_proxy_may_have_are_refused_by_name_and_keep_none_of_the_others_from_being_opened()
 {
    let (folder, port) = (tempfile::tempdir().unwrap(), own_address().port());
    let addresses = (2..65).map(|host| ("tcp", SocketAddr::from(([127, 0, 0, host], port))));
    let addresses: Vec<(&str, SocketAddr)> = addresses.collect();
    fs::create_dir(folder.path().join("state")).unwrap();
    fs::write(folder.path().join("state/listen.json"), list(4, &addresses).to_string()).unwrap();
    let alone = Alone::start_in(folder, Limits::default()).await;
    let [fault] = &alone.faults[..] else { panic!("{:?}", alone.faults) };
    assert_eq!(fault.class, ListenFaultClass::Invalid);
    let last = addresses[62].1;
    let why = format!(
        "can't listen on tcp://{last}: a proxy listens on at most 63 addresses, and its configuration has 1"
    );
    assert_eq!(fault.why, why);
    assert_eq!(alone.status().await.missing, [form(AddressKind::Tcp, last)]);
    // Nor is it opened because it is asked for again.
    let (status, why) = alone.refuse(&list(4, &addresses)).await;
    assert_eq!(status, 422);
    assert_eq!(why, "63 addresses beside 1 of the configuration; a proxy listens on at most 63");
    assert!(is_refused(last).await && !is_refused(addresses[0].1).await);
    assert!(alone.put(5, &addresses[1..]).await.missing.is_empty());
    assert!(is_refused(addresses[0].1).await && !is_refused(last).await);
}

#[tokio::test]
async fn what_does_not_end_by_itself_is_cut_when_its_time_is_over() {
    let alone = Alone::start_with(Limits { flow_drain: SOON, ..Limits::default() }).await;
    let base = Scripted::new().await;
    let (calls, connections, datagrams) = (free_address(), free_address(), own_address());
    let target = End::new().await;
    let (slow, echo, flow) = (base.target(), echo("").await.to_string(), target.at().to_string());
    let services = [
        json!({"ports": [calls.port()], "variations": [{"name": "base", "targets": [slow]}]}),
        flows::service("tcp", connections, &echo, &echo, 0),
        flows::service("udp", datagrams, &flow, &flow, 0),
    ];
    alone.put(1, &[("http", calls), ("tcp", connections), ("udp", datagrams)]).await;
    alone.handler.proxy().apply(&flows::table(1, services)).await.unwrap();
    let mut caller = Peer::connect(calls).await;
    caller.send(GET).await;
    let mut called = base.accept().await;
    called.head().await;
    let mut passing = Peer::connect(connections).await;
    passing.send("over").await;
    assert_eq!(passing.bytes(4).await, "over");
    let sender = End::new().await;
    sender.send(datagrams, "one").await;
    target.next().await;

    alone.put(2, &[]).await;
    caller.gone().await;
    assert!(passing.is_reset().await);
    alone.is_empty().await;
    let rows = alone.handler.proxy().gather().await;
    let cut = rows.iter().filter(|row| row.tally.cut == 1 && row.tally.calls == 1).count();
    assert_eq!(cut, 3, "{rows:?}");
    wait_until("the socket is closed", async || std::net::UdpSocket::bind(datagrams).is_ok()).await;
}

#[tokio::test]
async fn flows_of_udp_go_on_and_no_other_begins_until_the_socket_closes_with_the_last() {
    let alone = Alone::start_with(Limits { udp_idle: NEVER, ..Limits::default() }).await;
    let (target, caller, late) = (End::new().await, End::new().await, End::new().await);
    let (at, next) = (own_address(), End::new().await);
    alone.put(1, &[("udp", at)]).await;
    let to = target.at().to_string();
    let served = flows::table(1, [flows::service("udp", at, &to, &to, 0)]);
    let put_table = async || {
        let text = serde_json::to_vec(&served).unwrap();
        alone.client.put::<Applied>("/table", text.into()).await
    };
    put_table().await.unwrap();
    caller.send(at, "one").await;
    let (_, flow) = target.next().await;

    assert_eq!(alone.put(2, &[]).await.closing, left(AddressKind::Udp, at, 1));
    late.send(at, "late").await;
    let dropped = "choirmaster_proxy_datagrams_dropped_total 1\n";
    wait_until("it is dropped", async || alone.handler.proxy().metrics().await.contains(dropped)).await;
    caller.send(at, "two").await;
    assert_eq!(target.next().await, ("two".to_owned(), flow));
    target.send(flow, "down").await;
    assert_eq!(caller.next().await, ("down".to_owned(), at));
    // Its service may be in the next table, too.
    put_table().await.unwrap();
    let (status, why) = alone.refuse(&list(3, &[("udp", at)])).await;
    assert_eq!(status, 409);
    assert!(why.contains(&format!("udp://{at} was closed")) && why.contains("ask again"), "{why}");

    // It ends when its variation gets none any more.
    let to = next.at().to_string();
    let mut elsewhere = flows::service("udp", at, &to, &to, 0);
    elsewhere["drain_seconds"] = json!(0);
    alone.handler.proxy().apply(&flows::table(2, [elsewhere.clone()])).await.unwrap();
    alone.is_empty().await;
    wait_until("the socket is closed", async || std::net::UdpSocket::bind(at).is_ok()).await;
    let text = serde_json::to_vec(&flows::table(3, [elsewhere])).unwrap();
    let refused = alone.client.put::<Applied>("/table", text.into()).await;
    assert!(matches!(refused, Err(ClientError::Refused { status: 422, .. })));
    alone.put(3, &[("udp", at)]).await;
    late.send(at, "again").await;
    assert_eq!(next.next().await.0, "again");
}

#[tokio::test]
async fn a_list_that_can_not_be_is_refused_by_name_and_changes_nothing() {
    let alone = Alone::start().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (own, other, in_use) = (own_address(), free_address(), taken.local_addr().unwrap());
    let foreign: SocketAddr = ([192, 0, 2, 1], own.port()).into();
    let none: SocketAddr = ([127, 0, 0, 1], 0).into();
    let before = alone.put(7, &[("http", own)]).await;
    let kept = fs::read(alone.file()).unwrap();
    let many: Vec<(&str, SocketAddr)> = (1..64).map(|port| ("tcp", ([127, 0, 0, 9], port).into())).collect();
    let older = json!({"epoch": 0, "generation": 9, "listen": []});
    let cases = [
        (list(6, &[]), 409, "list 1.6 of addresses is older than the one in force, 1.7".to_owned()),
        (older, 409, "list 0.9 of addresses is older".to_owned()),
        (list(7, &[]), 409, "list 1.7 of addresses is in force with another content".to_owned()),
        (
            list(8, &[("http", other), ("tcp", other)]),
            422,
            format!("//{other} has an address that is in the list"),
        ),
        (list(8, &[("http", none)]), 422, "http://127.0.0.1:0 names no port".to_owned()),
        (
            list(8, &[("https", alone.configured)]),
            422,
            format!("callers of https://{} speak TLS, and no certificate is named", alone.configured),
        ),
        (
            list(8, &[("tcp", alone.configured)]),
            422,
            format!("tcp://{} has an address that this proxy's configuration has", alone.configured),
        ),
        (
            list(8, &many),
            422,
            "63 addresses beside 1 of the configuration; a proxy listens on at most 63".to_owned(),
        ),
        (list(8, &[("metrics", other)]), 422, "this is no list of addresses: unknown variant".to_owned()),
        (
            json!({"generation": 8, "listen": [{"kind": "http", "address": "here"}]}),
            422,
            "this is no list of addresses: ".to_owned(),
        ),
        (json!({"generation": 8}), 422, "missing field `listen`".to_owned()),
        (json!({"listen": []}), 422, "missing field `generation`".to_owned()),
        (list(8, &[("http", other), ("http", in_use)]), 409, format!("can't listen on http://{in_use}")),
        (list(8, &[("http", other), ("tcp", foreign)]), 403, format!("may not listen on tcp://{foreign}")),
    ];
    for (list, status, said) in cases {
        let (refused, why) = alone.refuse(&list).await;
        assert_eq!(refused, status, "{list}: {why}");
        assert!(why.contains(&said), "{list}: {why}");
        assert_eq!(alone.status().await, before);
        assert!(is_refused(other).await && !is_refused(own).await, "{list}");
        assert_eq!(fs::read(alone.file()).unwrap(), kept);
    }
    let large = alone.client.put::<ListenStatus>("/listen", vec![b' '; MAX_LIST + 1].into()).await;
    assert!(matches!(large, Err(ClientError::Refused { status: 413, .. })), "{large:?}");
    let deleted = alone.client.post::<ListenStatus>("/listen").await;
    assert!(matches!(deleted, Err(ClientError::Refused { status: 405, .. })), "{deleted:?}");
    // UDP and TCP have ports of their own.
    alone.put(8, &[("http", own), ("udp", own)]).await;
}

#[tokio::test]
async fn an_address_of_ipv6_is_opened_and_closed_and_has_one_name() {
    if let Err(error) = TcpListener::bind("[::1]:0") {
        return eprintln!("passed over: this machine has no IPv6: {error}");
    }
    let port = own_address().port();
    let alone = Alone::start().await;
    alone.serve(version(BASE).await).await;
    let at = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    // The system forgets the zone, and would be asked for a socket that it never shows.
    let zoned = SocketAddr::from(SocketAddrV6::new(Ipv6Addr::LOCALHOST, port, 0, 1));
    let (status, why) = alone.refuse(&list(1, &[("http", zoned)])).await;
    assert_eq!(
        (status, why),
        (422, format!("the system calls http://{zoned} by another address: name {at}"))
    );
    assert!(is_refused(at).await);
    alone.put(1, &[("http", at)]).await;
    assert_eq!(body_at(at).await, "base");
    alone.put(2, &[]).await;
    assert!(is_refused(at).await);
}

#[tokio::test]
async fn an_address_that_takes_a_right_is_refused_without_it() {
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    let Some(port) = first.trim().parse::<u16>().unwrap().checked_sub(1).filter(|port| *port > 0) else {
        return eprintln!("passed over: on this machine no port takes a right");
    };
    let alone = Alone::start().await;
    let at: SocketAddr = ([127, 0, 0, 1], port).into();
    // Rights are a thread's own, and all of this test is on one.
    let before = capabilities(None).unwrap();
    let effective = before.effective.difference(CapabilitySet::NET_BIND_SERVICE);
    set_capabilities(None, CapabilitySets { effective, ..before }).unwrap();
    let (status, why) = alone.refuse(&list(1, &[("tcp", at)])).await;
    set_capabilities(None, before).unwrap();
    assert_eq!(status, 403);
    assert!(why.contains(&format!("may not listen on tcp://{at}: Permission denied (os error 13)")), "{why}");
    assert!(why.contains("CAP_NET_BIND_SERVICE"), "{why}");
    assert!(alone.status().await.list.listen.is_empty());
}

#[tokio::test]
async fn the_same_list_again_changes_nothing_whatever_its_order() {
    let alone = Alone::start().await;
    alone.serve(version(BASE).await).await;
    let (one, two) = (free_address(), free_address());
    let first = alone.put(1, &[("http", one), ("tcp", two)]).await;
    let about = fs::metadata(alone.file()).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let mut caller = Peer::connect(one).await;
    caller.call(GET).await;
    for addresses in [[("http", one), ("tcp", two)], [("tcp", two), ("http", one)]] {
        assert_eq!(alone.put(1, &addresses).await, first);
    }
    assert_eq!(fs::metadata(alone.file()).unwrap().ino(), about.ino());
    let (head, _) = caller.call(GET).await;
    assert_eq!(field(&head, "connection"), None);
    // With another number it is another list, by which nothing was opened or closed either.
    let second = alone.put(2, &[("tcp", two), ("http", one)]).await;
    assert_eq!((second.list.listen, second.closing.len()), (first.list.listen, 0));
    let (head, _) = caller.call(GET).await;
    assert_eq!(field(&head, "connection"), None);
}

#[tokio::test]
async fn a_list_that_can_not_be_kept_is_refused_and_nothing_is_opened() {
    let alone = Alone::start().await;
    let at = free_address();
    let (state, away) = (alone.folder.path().join("state"), alone.folder.path().join("away"));
    fs::rename(&state, &away).unwrap();
    let (status, why) = alone.refuse(&list(1, &[("http", at)])).await;
    assert_eq!(status, 507);
    assert!(why.contains("can't be kept on disk"), "{why}");
    assert!(is_refused(at).await && alone.status().await.list.listen.is_empty());
    fs::rename(&away, &state).unwrap();
    alone.put(1, &[("http", at)]).await;
    assert!(!is_refused(at).await);
}

#[tokio::test]
async fn a_list_is_in_force_again_after_a_restart_without_what_somebody_else_has_by_then() {
    let alone = Alone::start().await;
    let (one, two) = (free_address(), free_address());
    let before = alone.put(4, &[("http", one), ("http", two)]).await;
    let folder = alone.end(&[one, two]).await;
    let taken = TcpListener::bind(two).unwrap();
    let alone = Alone::start_in(folder, Limits::default()).await;
    alone.serve(version(BASE).await).await;
    let [fault] = &alone.faults[..] else { panic!("{:?}", alone.faults) };
    assert_eq!(fault.class, ListenFaultClass::Conflict);
    assert!(fault.why.contains(&two.to_string()), "{fault}");
    let status = alone.status().await;
    assert_eq!((&status.list, &status.missing[..]), (&before.list, &[form(AddressKind::Http, two)][..]));
    assert_eq!(body_at(one).await, "base");
    assert_eq!(alone.refuse(&list(3, &[])).await.0, 409);
    // The list is what it was, and says so as long as it can't be.
    let same = list(4, &[("http", one), ("http", two)]);
    assert_eq!(alone.refuse(&same).await.0, 409);
    drop(taken);
    assert_eq!(put(&alone.client, &same).await.unwrap(), before);
    assert_eq!(body_at(two).await, "base");

    let mut folder = alone.end(&[one, two]).await;
    for damaged in ["{\"generation\": 4", ""] {
        let file = folder.path().join("state/listen.json");
        fs::write(&file, damaged).unwrap();
        let alone = Alone::start_in(folder, Limits::default()).await;
        assert!(alone.faults.is_empty() && alone.status().await.list.listen.is_empty());
        assert!(is_refused(one).await);
        let aside = file.with_file_name("listen.json.damaged");
        assert_eq!(fs::read_to_string(aside).unwrap(), damaged);
        alone.put(1, &[("http", one)]).await;
        folder = alone.end(&[one]).await;
    }
}
