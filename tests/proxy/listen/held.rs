//! Addresses that a supervisor opens, with real processes that are killed and renewed.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
};

use proxy::{
    control::form::{Applied, GivenBack, ListenStatus, Status},
    form::{AddressForm, AddressKind},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
};

use super::{list, own_address, put};
use crate::{
    flows::{service, table, udp::End},
    handover::{
        load::{self, Callers, Counting},
        processes::{Broken, Held, kill, wait_until},
    },
    ports::free_address,
    tls::{Authority, client, dial, write},
    world::{Peer, Scripted, field},
};

/// A call of the service of the tests.
const CALL: &str = "GET /a/x HTTP/1.1\r\nHost: here\r\n\r\n";

impl Held {
    async fn open(&self, generation: u64, addresses: &[(&str, SocketAddr)]) -> ListenStatus {
        put(&self.client, &list(generation, addresses)).await.unwrap()
    }

    async fn list(&self) -> ListenStatus {
        self.client.get("/listen").await.unwrap()
    }

    /// Waits until another process serves.
    async fn other_than(&self, before: u32) {
        wait_until(async || {
            self.client.get::<Status>("/status").await.is_ok_and(|status| status.pid != before)
        })
        .await;
    }

    async fn kill_serving(&self) {
        let before = self.status().await.pid;
        kill(before);
        self.other_than(before).await;
    }
}

async fn is_refused(at: SocketAddr) -> bool {
    TcpStream::connect(at).await.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

async fn is_served(at: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(at).await else { return false };
    load::call(&mut stream, "GET").await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_of_the_list_outlives_kills_of_either_process_and_of_both() {
    let mut held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let (kept, other) = (free_address(), free_address());
    let opened = held.open(1, &[("http", kept), ("http", other)]).await;
    assert!(is_served(kept).await && is_served(other).await);
    held.kill_serving().await;
    assert_eq!(held.list().await, opened);
    assert!(is_served(kept).await && is_served(other).await);

    // What is given back stays so for the next process.
    held.open(2, &[("http", kept)]).await;
    assert!(is_refused(other).await);
    held.kill_serving().await;
    assert!(is_served(kept).await && is_refused(other).await);

    held.kill_holder();
    wait_until(async || !held.status().await.held).await;
    assert!(is_served(kept).await);
    let (status, why) = put(&held.client, &list(3, &[])).await.unwrap_err();
    assert_eq!(status, 409);
    assert!(why.contains("no process holds the listening sockets"), "{why}");
    assert!(is_served(kept).await);
    let before = held.status().await.pid;
    held.start_holder_again().await;
    held.other_than(before).await;
    assert_eq!(held.list().await.list.listen, [AddressForm { kind: AddressKind::Http, address: kept }]);
    assert!(is_served(kept).await && is_refused(other).await);
    held.open(3, &[("http", other)]).await;
    assert!(is_refused(kept).await && is_served(other).await);

    held.kill_all_and_start_again(async || assert!(is_refused(other).await)).await;
    assert_eq!(held.list().await.list.generation, 3);
    assert!(is_refused(kept).await && is_served(other).await);
    held.stop().await;
    assert!(is_refused(other).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_at_an_address_of_the_list_while_others_come_and_go_and_processes_are_renewed() {
    const TURNS: u64 = 6;
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let (kept, other) = (free_address(), free_address());
    held.open(1, &[("http", kept)]).await;
    let callers = [Callers::start(kept, 4), Callers::start(held.at, 2)];
    for turn in 0..TURNS {
        callers[0].make(30).await;
        // Whichever comes first: the list waits for the upgrade, or the process that comes has the sockets.
        let both = [("http", kept), ("http", other)];
        tokio::join!(held.upgrade(), held.open(2 * turn + 2, &both));
        assert!(is_served(other).await);
        held.open(2 * turn + 3, &[("http", kept)]).await;
        assert!(is_refused(other).await);
        assert_eq!(held.status().await.listen, [held.at.to_string(), kept.to_string()]);
    }
    for callers in callers {
        callers.make(30).await;
        let made = callers.end().await;
        assert_eq!((made.lost, made.refused, made.closed_idle), (0, 0, 0), "{made:?}");
    }
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_flight_and_idle_connections_end_well_and_the_address_is_free_at_once() {
    let held = Held::start().await;
    let base = Scripted::new().await;
    held.put(1, base.at).await;
    let at = free_address();
    held.open(1, &[("http", at)]).await;
    let (mut slow, mut idle) = (Peer::connect(at).await, Peer::connect(at).await);
    idle.send(CALL).await;
    let mut called = base.accept().await;
    called.head().await;
    called.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1").await;
    let (head, _) = idle.answer().await;
    assert_eq!(field(&head, "connection"), None);
    slow.send(CALL).await;
    let mut in_flight = base.accept().await;
    in_flight.head().await;

    let status = held.open(2, &[]).await;
    let left = GivenBack { kind: AddressKind::Http, address: at, connections: 2 };
    assert_eq!(status.given_back, [left]);
    let next = TcpListener::bind(at).unwrap();
    // The process that serves goes on with what came in, and so it does once it has handed over.
    idle.send(CALL).await;
    let mut called = base.accept().await;
    called.head().await;
    called.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2").await;
    let (head, body) = idle.answer().await;
    assert_eq!((field(&head, "connection"), body.as_str()), (Some("close"), "2"));
    held.upgrade().await;
    in_flight.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n3").await;
    let (head, body) = slow.answer().await;
    assert_eq!((field(&head, "connection"), body.as_str()), (Some("close"), "3"));
    assert_eq!((idle.rest().await, slow.rest().await), (String::new(), String::new()));
    wait_until(async || held.status().await.finishing.is_empty()).await;

    let (status, why) = put(&held.client, &list(3, &[("http", at)])).await.unwrap_err();
    assert_eq!(status, 409);
    assert!(why.contains(&format!("can't listen on http://{at}, which somebody else has: ")), "{why}");
    drop(next);
    held.open(3, &[("tcp", at)]).await;
    assert_eq!(held.status().await.tcp, [at.to_string()]);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_list_that_is_refused_nothing_is_opened_closed_or_kept() {
    let mut held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let (kept, other) = (free_address(), free_address());
    let before = held.open(1, &[("http", kept)]).await;
    let foreign: SocketAddr = ([192, 0, 2, 1], other.port()).into();
    let same_port: SocketAddr = held.at;
    for (addresses, status, said) in [
        ([("http", other), ("http", foreign)], 403, format!("may not listen on http://{foreign}")),
        (
            [("http", other), ("tcp", same_port)],
            422,
            format!("tcp://{same_port} has an address that this proxy's"),
        ),
        ([("http", other), ("https", kept)], 422, format!("callers of https://{kept} speak TLS")),
    ] {
        let (refused, why) = put(&held.client, &list(2, &addresses)).await.unwrap_err();
        assert_eq!(refused, status, "{why}");
        assert!(why.contains(&said), "{why}");
        assert_eq!(held.list().await, before);
        assert!(is_served(kept).await && is_refused(other).await);
    }
    // What a socket is for may change without its being closed.
    held.open(2, &[("tcp", kept)]).await;
    let status = held.status().await;
    assert_eq!((status.listen, status.tcp), (vec![held.at.to_string()], vec![kept.to_string()]));
    held.kill_all_and_start_again(async || {}).await;
    assert_eq!(held.status().await.tcp, [kept.to_string()]);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_somebody_else_has_after_a_restart_is_listened_on_once_it_is_free() {
    let mut held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let (one, two) = (free_address(), free_address());
    let before = held.open(1, &[("http", one), ("http", two)]).await;
    let mut taken = None;
    held.kill_all_and_start_again(async || taken = Some(TcpListener::bind(two).unwrap())).await;
    // Nobody else is kept from being served.
    assert!(is_served(held.at).await && is_served(one).await);
    let status = held.list().await;
    assert_eq!(status.list, before.list);
    assert_eq!(status.missing, [AddressForm { kind: AddressKind::Http, address: two }]);
    drop(taken);
    wait_until(async || held.list().await == before).await;
    assert!(is_served(two).await);
    held.upgrade().await;
    assert!(is_served(two).await);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_holder_has_the_list_and_changes_it() {
    let held = Held::start_with_own_program().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let (kept, other) = (free_address(), free_address());
    held.open(1, &[("http", kept)]).await;
    let callers = Callers::start(kept, 3);
    for turn in 0..3 {
        callers.make(20).await;
        held.exchange_program();
        held.upgrade().await;
        // At once, also while the supervisor is renewed.
        held.open(2 * turn + 2, &[("http", kept), ("http", other)]).await;
        assert!(is_served(other).await);
        wait_until(async || held.are_of_the_program_there().await == (true, true)).await;
        held.open(2 * turn + 3, &[("http", kept)]).await;
        assert!(is_refused(other).await);
    }
    let made = callers.end().await;
    assert_eq!((made.lost, made.refused, made.closed_idle), (0, 0, 0), "{made:?}");
    held.kill_serving().await;
    assert!(is_served(kept).await && is_refused(other).await);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_does_not_come_about_keeps_the_list() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let at = free_address();
    held.open(1, &[("http", at)]).await;
    held.break_program(Some(Broken::AtOnce));
    held.fail_to_upgrade().await;
    assert!(is_served(at).await);
    held.open(2, &[]).await;
    assert!(is_refused(at).await);
    held.break_program(None);
    held.upgrade().await;
    assert!(is_refused(at).await);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_a_holder_of_an_earlier_version_no_list_is_taken_and_it_says_why() {
    let mut held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let at = free_address();
    let before = held.open(1, &[("http", at)]).await;
    held.kill_holder();
    wait_until(async || !held.status().await.held).await;
    let pid = held.status().await.pid;
    // The test is one that knows nothing of lists.
    let mut older = UnixStream::connect(format!("{}.{pid}", held.control().display())).await.unwrap();
    let word = json!({"word": "take", "forms": {"newest": 1, "oldest": 1}}).to_string();
    older.write_u32(word.len() as u32).await.unwrap();
    older.write_all(word.as_bytes()).await.unwrap();
    let mut taken = vec![0; older.read_u32().await.unwrap() as usize];
    older.read_exact(&mut taken).await.unwrap();
    wait_until(async || held.status().await.held).await;
    let (status, why) = put(&held.client, &list(2, &[])).await.unwrap_err();
    assert_eq!(status, 409);
    assert!(why.contains("is of an earlier version, and can't open addresses"), "{why}");
    assert_eq!(held.list().await, before);
    assert!(is_served(at).await);
    drop(older);
    wait_until(async || !held.status().await.held).await;
    held.start_holder_again().await;
    held.other_than(pid).await;
    held.open(2, &[]).await;
    assert!(is_refused(at).await);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_at_an_address_of_the_list_go_on_over_upgrades_also_once_it_was_given_back() {
    let held = Held::start().await;
    let (target, caller) = (End::new().await, End::new().await);
    let at = own_address();
    held.open(1, &[("udp", at)]).await;
    let to = target.at().to_string();
    let form = serde_json::to_vec(&table(1, [service("udp", at, &to, &to, 0)])).unwrap();
    let _: Applied = held.client.put("/table", form.into()).await.unwrap();
    caller.send(at, "one").await;
    let (_, flow) = target.next().await;
    let talk = async |text: &str| {
        caller.send(at, text).await;
        assert_eq!(target.next().await, (text.to_owned(), flow));
        target.send(flow, text).await;
        assert_eq!(caller.next().await, (text.to_owned(), at));
    };
    held.upgrade().await;
    talk("two").await;
    let status = held.open(2, &[]).await;
    assert_eq!(status.given_back, [GivenBack { kind: AddressKind::Udp, address: at, connections: 1 }]);
    talk("three").await;
    // The process that comes has no such socket: the flow stays where it is.
    held.upgrade().await;
    talk("four").await;
    wait_until(async || held.status().await.finishing.is_empty()).await;
    wait_until(async || std::net::UdpSocket::bind(at).is_ok()).await;
    held.open(3, &[("udp", at)]).await;
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_tls_are_served_at_an_address_of_the_list_with_the_certificate_of_the_configuration() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("of the proxy"));
    write(folder.path(), &authority.sign("here.example"));
    let held = Held::start_in(folder).await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let at = free_address();
    held.open(1, &[("https", at)]).await;
    for _ in 0..2 {
        assert!(held.status().await.tls.contains(&at.to_string()));
        let mut stream = dial(at, client(authority.roots(), &["http/1.1"], None)).await.unwrap();
        stream.write_all(CALL.as_bytes()).await.unwrap();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200");
        held.upgrade().await;
    }
    held.open(2, &[]).await;
    assert!(is_refused(at).await);
    held.stop().await;
}
