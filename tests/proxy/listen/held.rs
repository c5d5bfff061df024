//! Addresses that a supervisor opens, with real processes that are killed and renewed.

use std::{
    collections::HashSet,
    fs,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
};

use proxy::{
    control::form::{AddressStatus, Applied, ListenStatus, Status},
    form::{AddressForm, AddressKind},
};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
};

use super::{is_refused, list, own_address, put};
use crate::{
    flows::{service, table, udp::End},
    handover::{
        load::{self, Callers, Counting},
        processes::{Broken, FLOWS_LAST, Given, Held, SHARES, kill, lives, wait_until},
    },
    ports::free_address,
    reuse_port::Program,
    tls::{Authority, client, dial, write},
    world::{Peer, Scripted, field, read_head},
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

/// Sends a list once, and gives what is answered as it is: a client asks again where that is 503.
async fn put_once(control: PathBuf, list: Value) -> String {
    let (mut stream, body) = (UnixStream::connect(control).await.unwrap(), list.to_string());
    let head = format!("PUT /listen HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Leaves a process so many free file descriptors, and gives what it was allowed before.
fn leave_descriptors(pid: u32, free: usize) -> Rlimit {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let number = |entry: fs::DirEntry| entry.file_name().to_str().unwrap().parse::<u64>().unwrap();
    let used: HashSet<u64> = entries.map(|entry| number(entry.unwrap())).collect();
    let current = (0..).filter(|number| !used.contains(number)).nth(free);
    allow_descriptors(pid, Rlimit { current, maximum: getrlimit(Resource::Nofile).maximum })
}

fn allow_descriptors(pid: u32, limit: Rlimit) -> Rlimit {
    prlimit(Pid::from_raw(i32::try_from(pid).unwrap()), Resource::Nofile, limit).unwrap()
}

/// Takes the sockets of the process that serves, as a supervisor that knows words up to this form. It is the test.
async fn supervisor_of(held: &Held, newest: u32) -> UnixStream {
    let pid = held.status().await.pid;
    let mut supervisor = UnixStream::connect(format!("{}.{pid}", held.control().display())).await.unwrap();
    say(&mut supervisor, &json!({"word": "take", "forms": {"newest": newest, "oldest": 1}})).await;
    assert_eq!(hear(&mut supervisor).await["word"], "taken");
    wait_until(async || held.status().await.held).await;
    supervisor
}

async fn say(to: &mut UnixStream, word: &Value) {
    let word = word.to_string();
    to.write_u32(word.len() as u32).await.unwrap();
    to.write_all(word.as_bytes()).await.unwrap();
}

async fn hear(from: &mut UnixStream) -> Value {
    let mut word = vec![0; from.read_u32().await.unwrap() as usize];
    from.read_exact(&mut word).await.unwrap();
    serde_json::from_slice(&word).unwrap()
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

    // What is closed stays so for the next process.
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
    let left = AddressStatus { kind: AddressKind::Http, address: at, connections: 2 };
    assert_eq!(status.closing, [left]);
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
async fn what_goes_on_in_a_process_that_handed_over_is_left_at_an_address_that_is_closed_later() {
    let held = Held::start().await;
    let base = Scripted::new().await;
    held.put(1, base.at).await;
    let at = free_address();
    held.open(1, &[("http", at)]).await;
    let mut slow = Peer::connect(at).await;
    slow.send(CALL).await;
    let mut in_flight = base.accept().await;
    in_flight.head().await;
    held.upgrade().await;
    assert!(held.list().await.closing.is_empty());
    let left = AddressStatus { kind: AddressKind::Http, address: at, connections: 1 };
    assert_eq!(held.open(2, &[]).await.closing, [left]);
    in_flight.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1").await;
    assert_eq!(slow.answer().await.1, "1");
    wait_until(async || held.list().await.closing.is_empty()).await;
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
async fn a_renewed_supervisor_has_the_list_and_changes_it() {
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
async fn beside_a_supervisor_of_an_earlier_version_no_list_is_taken_and_it_says_why() {
    let mut held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let at = free_address();
    let before = held.open(1, &[("http", at)]).await;
    held.kill_holder();
    wait_until(async || !held.status().await.held).await;
    let pid = held.status().await.pid;
    // One that knows nothing of lists.
    let older = supervisor_of(&held, 1).await;
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
async fn an_answer_of_a_later_supervisor_that_is_not_known_here_is_to_be_asked_again() {
    let mut held = Held::start().await;
    held.kill_holder();
    wait_until(async || !held.status().await.held).await;
    let pid = held.status().await.pid;
    let mut later = supervisor_of(&held, 2).await;
    let asked = tokio::spawn(put_once(held.control(), list(1, &[])));
    let word = hear(&mut later).await;
    assert_eq!(word["word"], "listen");
    let fault = json!({"class": "of_later", "why": "it is not the time"});
    say(&mut later, &json!({"word": "not_listening", "listen": word["listen"], "fault": fault})).await;
    let answer = asked.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("it is not the time"), "{answer}");
    drop(later);
    wait_until(async || !held.status().await.held).await;
    held.start_holder_again().await;
    held.other_than(pid).await;
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_without_descriptors_for_new_sockets_serves_on_and_takes_them_once_it_has_some() {
    let held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let (one, two) = (free_address(), free_address());
    let both = list(1, &[("http", one), ("http", two)]);
    let pid = held.status().await.pid;
    // For who asks, and one more: all sockets are more than that.
    let before = leave_descriptors(pid, 2);
    let answer = put_once(held.control(), both.clone()).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("ask again"), "{answer}");
    assert!(!is_refused(one).await && !is_refused(two).await);
    allow_descriptors(pid, before);
    // It asks by itself.
    wait_until(async || {
        let status = held.list().await;
        status.list.generation == 1 && status.missing.is_empty()
    })
    .await;
    assert!(is_served(one).await && is_served(two).await && is_served(held.at).await);
    let status = held.status().await;
    assert_eq!((status.pid, status.held), (pid, true));
    put(&held.client, &both).await.unwrap();
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_goes_on_after_a_failed_upgrade_follows_the_list_and_keeps_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tls.flows"), "").unwrap();
    let mut held = Held::start_in(folder).await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let (kept, other) = (free_address(), free_address());
    held.open(1, &[("http", kept)]).await;
    let before = held.status().await;
    assert_eq!(before.tcp.len(), 1);
    // The next supervisor has another configuration, and a list that was kept when this one was killed.
    held.kill_holder();
    fs::remove_file(held.folder().join("tls.flows")).unwrap();
    fs::write(held.folder().join("state/listen.json"), list(2, &[("http", other)]).to_string()).unwrap();
    held.start_holder_in_vain().await;
    wait_until(async || held.list().await.list.generation == 2).await;
    assert!(is_served(other).await && is_refused(kept).await);
    held.open(3, &[("http", kept), ("http", other)]).await;
    assert!(is_served(other).await && is_served(kept).await);
    let status = held.status().await;
    assert_eq!((status.pid, status.tcp, status.udp), (before.pid, before.tcp, before.udp));
    held.break_program(None);
    held.upgrade().await;
    assert!(held.status().await.tcp.is_empty());
    assert!(is_served(other).await && is_served(kept).await);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_with_more_addresses_leaves_out_those_of_the_list_for_which_there_is_no_room() {
    let mut held = Held::start().await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let port = own_address().port();
    // Beside an address for calls and one for metrics.
    let addresses = (2..63).map(|host| ("http", SocketAddr::from(([127, 0, 0, host], port))));
    let addresses: Vec<(&str, SocketAddr)> = addresses.collect();
    held.open(1, &addresses).await;
    let before = held.status().await.pid;
    held.kill_holder();
    fs::write(held.folder().join("tls.flows"), "").unwrap();
    held.start_holder_again().await;
    held.other_than(before).await;
    let missing: Vec<SocketAddr> = held.list().await.missing.iter().map(|form| form.address).collect();
    let last: Vec<SocketAddr> = addresses[58..].iter().map(|(_, at)| *at).collect();
    assert_eq!(missing, last);
    assert!(is_served(held.at).await && is_served(addresses[57].1).await);
    held.open(2, &addresses[1..59]).await;
    held.upgrade().await;
    assert!(held.list().await.missing.is_empty());
    assert!(is_served(addresses[58].1).await && is_refused(addresses[0].1).await);
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_https_address_of_the_list_without_a_certificate_keeps_nothing_else_from_being_served() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("of the proxy"));
    write(folder.path(), &authority.sign("here.example"));
    let mut held = Held::start_in(folder).await;
    let version = Counting::start().await;
    held.put(1, version.at).await;
    let (secured, plain, more) = (free_address(), free_address(), free_address());
    held.open(1, &[("https", secured), ("http", plain)]).await;
    let certificate = held.folder().join("tls.crt");
    let away = certificate.with_extension("away");
    held.kill_all_and_start_again(async || fs::rename(&certificate, &away).unwrap()).await;
    assert!(is_served(held.at).await && is_served(plain).await);
    let missing = [AddressForm { kind: AddressKind::Https, address: secured }];
    assert_eq!(held.list().await.missing, missing);
    // Nor from being changed.
    let all = [("https", secured), ("http", plain), ("http", more)];
    assert_eq!(held.open(2, &all).await.missing, missing);
    assert!(is_served(more).await);
    let (status, why) = put(&held.client, &list(3, &[("https", plain)])).await.unwrap_err();
    assert_eq!(status, 422);
    assert!(why.contains("no certificate is named"), "{why}");
    fs::rename(&away, &certificate).unwrap();
    held.upgrade().await;
    assert!(held.list().await.missing.is_empty());
    dial(secured, client(authority.roots(), &["http/1.1"], None)).await.unwrap();
    held.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_at_an_address_of_the_list_go_on_over_upgrades_also_once_it_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(FLOWS_LAST), "").unwrap();
    let held = Held::start_in(folder).await;
    let (target, next, caller) = (End::new().await, End::new().await, End::new().await);
    let (at, other) = (own_address(), own_address());
    held.open(1, &[("udp", at), ("udp", other)]).await;
    let put_table = async |generation: u64, at: SocketAddr, target: &End| {
        let to = target.at().to_string();
        let mut service = service("udp", at, &to, &to, 0);
        service["drain_seconds"] = json!(0);
        let form = serde_json::to_vec(&table(generation, [service])).unwrap();
        let _: Applied = held.client.put("/table", form.into()).await.unwrap();
    };
    put_table(1, at, &target).await;
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
    let status = held.open(2, &[("udp", other)]).await;
    assert_eq!(status.closing, [AddressStatus { kind: AddressKind::Udp, address: at, connections: 1 }]);
    talk("three").await;
    // The process that comes has no such socket: the flow stays where it is, until its variation gets none any more.
    held.upgrade().await;
    talk("four").await;
    assert_eq!(held.list().await.closing, status.closing);
    // Its service may be in the next table, too.
    put_table(2, at, &target).await;
    talk("five").await;
    put_table(3, other, &next).await;
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

/// Ports of other programs: one of which the socket is lent, and one at which the proxy listens beside whoever does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_ports_are_served_over_upgrades_and_kills_of_either_process_and_of_both() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(SHARES), "").unwrap();
    let (lent, joined) = (free_address(), free_address());
    let socket = TcpListener::bind(lent).unwrap();
    socket.set_nonblocking(true).unwrap();
    let notify = folder.path().join("nobody");
    let given = || Given { socket: socket.try_clone().unwrap(), notify: notify.clone() };
    let mut held = Held::start_with(folder, given()).await;
    assert_eq!(held.status().await.lent, Some(vec![lent]));
    let mut addresses = list(1, &[("http", lent), ("http", joined)]);
    (addresses["lent"], addresses["joined"]) = (json!([lent]), json!([joined]));
    let opened = put(&held.client, &addresses).await.unwrap();
    assert!(opened.missing.is_empty());
    let version = Counting::start().await;
    let variations = json!([{"name": "base", "targets": [version.at.to_string()]}]);
    let form = table(1, [json!({"ports": [lent.port(), joined.port()], "variations": variations})]);
    let form = serde_json::to_vec(&form).unwrap();
    let _: Applied = held.client.put("/table", form.into()).await.unwrap();
    let are_served = async || is_served(lent).await && is_served(joined).await;
    wait_until(async || are_served().await).await;
    held.upgrade().await;
    assert!(are_served().await);
    held.kill_serving().await;
    wait_until(async || are_served().await).await;

    held.kill_holder();
    wait_until(async || !held.status().await.held).await;
    assert!(are_served().await);
    let before = held.status().await.pid;
    held.start_holder_again_with(given()).await;
    held.other_than(before).await;
    wait_until(async || are_served().await).await;
    assert_eq!(held.list().await, opened);

    let serving = held.status().await.pid;
    held.kill_holder();
    kill(serving);
    wait_until(async || !lives(serving)).await;
    assert!(is_refused(joined).await && !is_refused(lent).await, "the other program has it");
    held.start_holder_again_with(given()).await;
    wait_until(async || are_served().await).await;
    assert_eq!(held.list().await, opened);

    // What is lent is left to whoever else has it, also what waits.
    let program = Program::beside(joined, |stream: TcpStream| async move { drop(stream) });
    held.open(2, &[]).await;
    let _caller = TcpStream::connect(lent).await.unwrap();
    // It may be on the way still.
    wait_until(async || socket.accept().is_ok()).await;
    assert!(!is_refused(joined).await);
    program.lets_go().await;
    assert!(is_refused(joined).await);
    held.stop().await;
}

async fn answer(mut stream: TcpStream) {
    while read_head(&mut stream).await.is_some() {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_are_left_to_another_program_at_the_port_while_no_process_can_be_started() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(SHARES), "").unwrap();
    let held = Held::start_in(folder).await;
    let at = free_address();
    let mut addresses = list(1, &[("http", at)]);
    addresses["joined"] = json!([at]);
    put(&held.client, &addresses).await.unwrap();
    let version = Counting::start().await;
    let variations = json!([{"name": "base", "targets": [version.at.to_string()]}]);
    let form = table(1, [json!({"ports": [at.port()], "variations": variations})]);
    let form = serde_json::to_vec(&form).unwrap();
    let _: Applied = held.client.put("/table", form.into()).await.unwrap();
    wait_until(async || is_served(at).await).await;

    let _program = Program::beside(at, answer);
    held.break_program(Some(Broken::AtOnce));
    kill(held.status().await.pid);
    // What comes to the proxy's own socket waits until then.
    let are_all_answered = async || {
        for _ in 0..64 {
            if !is_served(at).await {
                return false;
            }
        }
        true
    };
    wait_until(async || are_all_answered().await).await;
    let before = version.answered();
    assert!(are_all_answered().await);
    assert_eq!(version.answered(), before, "by the other program");

    held.break_program(None);
    wait_until(async || is_served(at).await && version.answered() > before).await;
    held.stop().await;
}
