//! Events of workflows: between two agents' relays, a function behind a proxy, and a service that `http-egress` calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent::events::{MAX_EVENT_BYTES, Relay, Settings};
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use protocol::{
    measurements::Measured,
    placements::{PlacedInstance, PlacedPart, PlacedState, PlacedTarget},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{net::TcpListener, sync::Semaphore, time::sleep};

const FROM: &str = "00000000-0000-4000-8000-000000000001";
const PART: &str = "00000000-0000-4000-8000-00000000000a";
const KEY: &str = "the-key-of-the-part";

fn open(folder: &Path) -> Option<Relay> {
    let settings = Settings { egress_hosts: vec!["127.0.0.1".to_owned()], ..Settings::default() };
    Relay::open(folder, &settings).ok()
}

/// One on the disk of another that has just ended.
async fn reopen(folder: &Path) -> Relay {
    loop {
        if let Some(relay) = open(folder) {
            return relay;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

fn instance(id: &str, part: &str, what: PlacedPart) -> PlacedInstance {
    PlacedInstance {
        id: id.to_owned(),
        name: "w.part".to_owned(),
        part: part.to_owned(),
        key: KEY.to_owned(),
        state: PlacedState::Run,
        source: false,
        what,
        outputs: BTreeMap::new(),
    }
}

fn function() -> PlacedPart {
    let (runtime, folder) = ("python".to_owned(), "f".to_owned());
    PlacedPart::Function { runtime, folder, annotations: BTreeMap::new() }
}

fn resource(class: &str, configuration: &[(&str, &str)]) -> PlacedPart {
    let configuration = configuration.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    PlacedPart::Resource { class: class.to_owned(), configuration: configuration.collect() }
}

/// What puts something out, to a part that is there.
fn sender(url: Option<&str>) -> PlacedInstance {
    let mut sender = instance(FROM, "00000000-0000-4000-8000-00000000000b", function());
    let target = PlacedTarget { part: PART.to_owned(), url: url.map(str::to_owned), key: KEY.to_owned() };
    sender.outputs.insert("out".to_owned(), target);
    sender
}

fn send(relay: &Relay, url: Option<&str>) {
    relay.tell("node-a", &[sender(url)], BTreeSet::from([FROM.to_owned()]), None);
}

fn take(relay: &Relay, what: PlacedPart, proxy: Option<&str>) {
    let id = "00000000-0000-4000-8000-000000000002";
    relay.tell("node-b", &[instance(id, PART, what)], BTreeSet::from([id.to_owned()]), proxy);
}

fn log() -> PlacedPart {
    resource("file-log", &[("filename", "a.log")])
}

fn lines(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("logs/a.log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

async fn post(url: &str, body: String, key: Option<&str>) -> Option<(u16, String)> {
    let mut request = reqwest::Client::new().post(url).body(body);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let answer = request.send().await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.unwrap_or_default()))
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(2)).await;
    }
    panic!("{what} never came about");
}

type Came = Arc<Mutex<Vec<(String, String)>>>;

/// An HTTP server that answers with these, and then with 200: what came to it. 404 is the proxy's own.
async fn server(answers: &[u16]) -> (SocketAddr, Came) {
    server_behind(answers, Arc::new(Semaphore::new(Semaphore::MAX_PERMITS))).await
}

/// It answers as often as the gate lets it.
async fn server_behind(answers: &[u16], gate: Arc<Semaphore>) -> (SocketAddr, Came) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let came = Arc::new(Mutex::new(Vec::new()));
    let answers = Arc::new(Mutex::new(answers.iter().rev().copied().collect::<Vec<u16>>()));
    let noted = Arc::clone(&came);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (noted, answers, gate) = (Arc::clone(&noted), Arc::clone(&answers), Arc::clone(&gate));
            let service = service_fn(move |request: Request<Incoming>| {
                let (noted, answers, gate) = (Arc::clone(&noted), Arc::clone(&answers), Arc::clone(&gate));
                async move {
                    let head = format!("{} {}", request.method(), request.uri().path());
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    noted.lock().unwrap().push((head, String::from_utf8_lossy(&body).into_owned()));
                    gate.acquire().await.unwrap().forget();
                    let status = answers.lock().unwrap().pop().unwrap_or(200);
                    let mut response = Response::builder().status(status);
                    if status == 404 {
                        response = response.header("x-choirmaster-error", "no-such-function");
                    }
                    response.body(Full::new(bytes::Bytes::new()))
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    (at, came)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_is_taken_once_and_in_its_order_however_often_both_sides_end() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut from, mut to) = (open(here.path()).unwrap(), open(there.path()).unwrap());
    let out = from.output_url(FROM, "out");
    take(&to, log(), None);
    let url = to.url().to_owned();
    send(&from, Some(&url));
    for number in 0..200 {
        let text = format!("[#{number}]");
        while post(&out, text.clone(), Some(&text)).await.is_none_or(|(status, _)| status != 202) {
            sleep(Duration::from_millis(1)).await;
        }
        match fastrand::u8(..20) {
            0 => {
                drop(from);
                from = reopen(here.path()).await;
                assert_eq!(from.output_url(FROM, "out"), out, "functions that run know its address");
                send(&from, Some(&url));
            }
            1 => {
                drop(to);
                to = reopen(there.path()).await;
                assert_eq!(to.url(), url);
                take(&to, log(), None);
            }
            2 => {
                // It heard nothing of its event, and says it again.
                post(&out, text.clone(), Some(&text)).await;
            }
            _ => {}
        }
    }
    until("all is there", || lines(there.path()).len() >= 200).await;
    until("nothing waits", || from.is_drained(FROM)).await;
    assert_eq!(lines(there.path()), (0..200).map(|number| format!("[#{number}]")).collect::<Vec<_>>());
}

/// As when a node forgets that it has handed something over: its disk is one of before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_is_handed_over_twice_is_taken_once() {
    let [here, before, there] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let to = open(there.path()).unwrap();
    take(&to, log(), None);
    let from = open(here.path()).unwrap();
    send(&from, None);
    for text in ["a", "b"] {
        assert_eq!(post(&from.output_url(FROM, "out"), text.to_owned(), None).await.unwrap().0, 202);
    }
    drop(from);
    drop(reopen(here.path()).await);
    fs::copy(here.path().join("events.redb"), before.path().join("events.redb")).unwrap();
    for folder in [&here, &before] {
        let from = reopen(folder.path()).await;
        send(&from, Some(to.url()));
        until("nothing waits", || from.is_drained(FROM)).await;
    }
    assert_eq!(lines(there.path()), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_half_written_when_a_process_was_killed_stands_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let relay = open(folder.path()).unwrap();
    take(&relay, log(), None);
    let from = tempfile::tempdir().unwrap();
    let sends = open(from.path()).unwrap();
    send(&sends, Some(relay.url()));
    post(&sends.output_url(FROM, "out"), "one".to_owned(), None).await.unwrap();
    until("it is there", || lines(folder.path()) == ["one"] && sends.is_drained(FROM)).await;
    // As a kill leaves it between the file and the note that the event was taken.
    let path = folder.path().join("logs/a.log");
    fs::write(&path, "one\ntwo\n").unwrap();
    post(&sends.output_url(FROM, "out"), "two".to_owned(), None).await.unwrap();
    until("it is there once", || lines(folder.path()) == ["one", "two"] && sends.is_drained(FROM)).await;
    // Somebody has rotated it.
    fs::rename(&path, path.with_extension("1")).unwrap();
    post(&sends.output_url(FROM, "out"), "three\r\n".to_owned(), None).await.unwrap();
    until("it begins anew", || lines(folder.path()) == ["three\\r\\n"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_wait_for_a_target_that_moves_and_follow_it() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [from, one, other] = [0, 1, 2].map(|at| open(folders[at].path()).unwrap());
    let put = async |text: &str| post(&from.output_url(FROM, "out"), text.to_owned(), None).await.unwrap().0;
    assert_eq!(put("early").await, 503, "nobody has told it of this instance");
    send(&from, Some(one.url()));
    // It isn't there yet.
    assert_eq!(put("a").await, 202);
    take(&one, log(), None);
    until("it is there", || lines(folders[1].path()) == ["a"]).await;
    one.tell("node-b", &[], BTreeSet::new(), None);
    assert_eq!((put("b").await, put("c").await), (202, 202));
    send(&from, None);
    take(&other, log(), None);
    send(&from, Some(other.url()));
    until("they followed", || lines(folders[2].path()) == ["b", "c"] && from.is_drained(FROM)).await;
    assert_eq!(lines(folders[1].path()), ["a"]);
    // Its workflow stops: nobody is a target any more.
    one.tell("node-b", &[], BTreeSet::new(), None);
    other.tell("node-c", &[], BTreeSet::new(), None);
    assert_eq!(put("d").await, 202);
    assert!(!from.is_drained(FROM));
    let mut ends = sender(None);
    (ends.state, ends.outputs) = (PlacedState::End, BTreeMap::new());
    from.tell("node-a", &[ends], BTreeSet::new(), None);
    until("it is dropped", || from.is_drained(FROM)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_is_called_until_it_takes_an_event_or_refuses_it() {
    let (proxy, came) = server(&[503, 200, 400, 302, 404, 200]).await;
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (open(here.path()).unwrap(), open(there.path()).unwrap());
    take(&to, function(), Some(&proxy.to_string()));
    send(&from, Some(to.url()));
    for text in ["a", "refused", "moved", "b"] {
        assert_eq!(post(&from.output_url(FROM, "out"), text.to_owned(), None).await.unwrap().0, 202);
    }
    until("nothing waits", || from.is_drained(FROM)).await;
    let came: Vec<_> = came.lock().unwrap().iter().map(|(_, body)| body.clone()).collect();
    assert_eq!(came, ["a", "a", "refused", "moved", "b", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_out_goes_to_hosts_that_are_allowed() {
    let (service, came) = server(&[500]).await;
    let folder = tempfile::tempdir().unwrap();
    let relay = open(folder.path()).unwrap();
    let mut part = instance("00000000-0000-4000-8000-000000000002", PART, resource("http-egress", &[]));
    part.name = "w.out".to_owned();
    let running = BTreeSet::from([FROM.to_owned(), part.id.clone()]);
    // Both are on one machine.
    relay.tell("node-a", &[sender(Some(relay.url())), part], running, None);
    let calls = [
        format!(
            r#"{{"protocol": "HTTP", "host": "{service}", "path": "/a?b=c", "method": "POST", "headers": {{"x": "y"}}, "body": "text"}}"#
        ),
        format!(r#"{{"host": "{service}", "path": "d", "method": "Put", "body": [104, 105]}}"#),
        r#"{"host": "localhost:1", "method": "GET"}"#.to_owned(),
        format!(r#"{{"host": "127.0.0.1:1@{service}", "method": "GET"}}"#),
        "nonsense".to_owned(),
        format!(r#"{{"host": "{service}", "path": "/last", "method": "GET"}}"#),
    ];
    for call in calls {
        assert_eq!(post(&relay.output_url(FROM, "out"), call, None).await.unwrap().0, 202);
    }
    until("nothing waits", || relay.is_drained(FROM)).await;
    let came = came.lock().unwrap().clone();
    let came: Vec<(&str, &str)> = came.iter().map(|(head, body)| (&**head, &**body)).collect();
    assert_eq!(came, [("POST /a", "text"), ("POST /a", "text"), ("PUT /d", "hi"), ("GET /last", "")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_signed_or_no_event_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let relay = open(folder.path()).unwrap();
    take(&relay, log(), None);
    let url = format!("{}/events/{PART}", relay.url());
    let call = async |fields: &[(&str, &str)], body: Vec<u8>| {
        let mut request = reqwest::Client::new().post(&url).body(body);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status().as_u16()
    };
    let fields = [
        ("choirmaster-node", "n"),
        ("choirmaster-from", FROM),
        ("choirmaster-output", "out"),
        ("choirmaster-logical", PART),
        ("choirmaster-number", "1"),
        ("choirmaster-age-ms", "0"),
        ("choirmaster-signature", "AAAA"),
    ];
    assert_eq!(call(&fields, b"x".to_vec()).await, 401);
    for (at, (name, _)) in fields.iter().enumerate() {
        let without: Vec<_> = fields.iter().filter(|(other, _)| other != name).copied().collect();
        assert_eq!(call(&without, b"x".to_vec()).await, 400, "{name}");
        if ["choirmaster-number", "choirmaster-age-ms"].contains(name) {
            let mut other = fields;
            other[at].1 = "x";
            assert_eq!(call(&other, b"x".to_vec()).await, 400, "{name}");
        }
    }
    assert_eq!(call(&fields, vec![b'x'; MAX_EVENT_BYTES + 1]).await, 413);
    send(&relay, Some(relay.url()));
    let out = relay.output_url(FROM, "out");
    assert_eq!(post(&out, "x".repeat(MAX_EVENT_BYTES + 1), None).await.unwrap().0, 413);
    assert_eq!(post(&out, "x".to_owned(), Some("")).await.unwrap().0, 400);
    let unknown = post(&relay.output_url(FROM, "other"), "x".to_owned(), None).await.unwrap();
    assert_eq!((unknown.0, unknown.1.contains("there is out")), (404, true), "{}", unknown.1);
    assert_eq!(reqwest::get(&out).await.unwrap().status(), 405);
    assert!(lines(folder.path()).is_empty());
}

/// Its connection breaks; what a function does with an event is done once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_ends_while_a_function_is_called_has_its_event_taken_once() {
    let gate = Arc::new(Semaphore::new(0));
    let (proxy, came) = server_behind(&[], Arc::clone(&gate)).await;
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut from, to) = (open(here.path()).unwrap(), open(there.path()).unwrap());
    take(&to, function(), Some(&proxy.to_string()));
    for text in ["a", "b", "c"] {
        send(&from, Some(to.url()));
        assert_eq!(post(&from.output_url(FROM, "out"), text.to_owned(), None).await.unwrap().0, 202);
        until("the function is called", || came.lock().unwrap().last().is_some_and(|(_, body)| body == text))
            .await;
        drop(from);
        from = reopen(here.path()).await;
        gate.add_permits(1);
    }
    send(&from, Some(to.url()));
    until("nothing waits", || from.is_drained(FROM)).await;
    let came: Vec<_> = came.lock().unwrap().iter().map(|(_, body)| body.clone()).collect();
    assert_eq!(came, ["a", "b", "c"]);
}

/// A target that runs nowhere fills what waits for it, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_one_target_keeps_no_event_for_another_from_going_on() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (open(here.path()).unwrap(), open(there.path()).unwrap());
    take(&to, log(), None);
    let mut both = sender(Some(to.url()));
    let nowhere = "00000000-0000-4000-8000-00000000000c".to_owned();
    let target = PlacedTarget { part: nowhere, url: None, key: KEY.to_owned() };
    both.outputs.insert("nowhere".to_owned(), target);
    from.tell("node-a", &[both], BTreeSet::from([FROM.to_owned()]), None);
    let (large, stuck) = ("x".repeat(MAX_EVENT_BYTES), from.output_url(FROM, "nowhere"));
    let mut kept = 0;
    let refused = loop {
        match post(&stuck, large.clone(), None).await.unwrap() {
            (202, _) => kept += 1,
            refused => break refused,
        }
    };
    assert_eq!((kept, refused.0), (64, 503));
    assert!(refused.1.contains("too many events wait"), "{}", refused.1);
    assert_eq!(post(&from.output_url(FROM, "out"), "a".to_owned(), None).await.unwrap().0, 202);
    until("it is there", || lines(there.path()) == ["a"]).await;
}

/// Set in a process that is about to have a full disk.
const FULL: &str = "DISK_THAT_FILLS_UP";

/// In a process of its own, since a limit of the size of files is one of the whole process.
#[test]
fn what_a_full_disk_refused_is_taken_once_there_is_room_again() {
    if std::env::var_os(FULL).is_some() {
        tokio::runtime::Runtime::new().unwrap().block_on(fills_up());
        return;
    }
    // The signal that comes with the limit is ignored, so that a write fails and the process lives.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    let name = "events::what_a_full_disk_refused_is_taken_once_there_is_room_again";
    let ended = command.args(["--exact", name, "--nocapture"]).env(FULL, "yes").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
}

async fn fills_up() {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let limit = |bytes: Option<u64>| {
        setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
    };
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (open(here.path()).unwrap(), open(there.path()).unwrap());
    let put = async |text: &str| post(&from.output_url(FROM, "out"), text.to_owned(), None).await.unwrap().0;
    send(&from, None);
    take(&to, log(), None);
    assert_eq!(put("first").await, 202);
    limit(Some(fs::metadata(here.path().join("events.redb")).unwrap().len()));
    let (large, mut kept) = ("x".repeat(MAX_EVENT_BYTES / 2), 0);
    while put(&large).await == 202 {
        kept += 1;
        assert!(kept < 100, "the file doesn't grow");
    }
    limit(None);
    until_put(&put, "last").await;
    // A log takes nothing, nor the note of what it took.
    limit(Some(1));
    send(&from, Some(to.url()));
    sleep(Duration::from_millis(100)).await;
    assert!(lines(there.path()).is_empty(), "{:?}", lines(there.path()));
    limit(None);
    until("nothing waits", || from.is_drained(FROM)).await;
    let there = lines(there.path());
    assert_eq!((&*there[0], there.len()), ("first", kept + 2));
    assert!(there[1..=kept].iter().all(|line| *line == large) && there[kept + 1] == "last");
}

async fn until_put(put: &impl AsyncFn(&str) -> u16, text: &str) {
    for _ in 0..1_000 {
        if put(text).await == 202 {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("it takes nothing more");
}

fn collector() -> PlacedPart {
    resource("metrics-collector", &[("wf_name", "wf_chain"), ("url", "redis://127.0.0.1:6379/")])
}

/// What the manager is told that was measured; it is told no more.
fn measured(relay: &Relay) -> Vec<Measured> {
    let next = relay.samples().next();
    relay.samples().told(&next);
    next.all.into_iter().map(|sample| sample.what).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_of_metrics_measures_what_functions_begin_and_end() {
    const LOGICAL: &str = "00000000-0000-4000-8000-00000000000b";
    const COLLECTOR: &str = "00000000-0000-4000-8000-000000000002";
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (open(here.path()).unwrap(), open(there.path()).unwrap());
    let out = from.output_url(FROM, "out");
    let put = async |text: &str| assert_eq!(post(&out, text.to_owned(), None).await.unwrap().0, 202);
    let drained = async || until("nothing waits", || from.is_drained(FROM)).await;
    take(&to, collector(), None);
    send(&from, Some(to.url()));
    // An end that nobody began, and what is no event of a collector.
    for text in
        ["function:end:1", "function:begin:x", "workflow:stop:1", "reset", "function:begin:-1", "\u{1f3b5}"]
    {
        put(text).await;
    }
    for text in ["function:begin:7", "workflow:begin:7", "workflow:end:7", "function:end:7", "function:end:7"]
    {
        put(text).await;
    }
    drained().await;
    let all = measured(&to);
    assert!(
        matches!(&all[..], [
            Measured::Workflow { collector, .. },
            Measured::Function { collector: other, logical, .. },
        ] if collector == COLLECTOR && other == COLLECTOR && logical == LOGICAL),
        "{all:?}"
    );
    assert!(measured(&to).is_empty(), "it is told once");

    // What waited together was put out one after the other.
    send(&from, None);
    put("workflow:begin:8").await;
    sleep(Duration::from_millis(60)).await;
    put("workflow:end:8").await;
    send(&from, Some(to.url()));
    drained().await;
    let all = measured(&to);
    assert!(matches!(&all[..], [Measured::Workflow { ms: 50.., .. }]), "{all:?}");

    // Until it is warm nothing counts, and what was begun before it was told to begin anew may end after it.
    for text in [
        "workflow:begin:9",
        "reset:3600000",
        "workflow:end:9",
        "reset:0",
        "workflow:begin:9",
        "workflow:end:9",
    ] {
        put(text).await;
    }
    drained().await;
    let all = measured(&to);
    assert!(
        matches!(&all[..], [Measured::Reset { .. }, Measured::Reset { .. }, Measured::Workflow { .. }]),
        "{all:?}"
    );

    // Another one takes its place, and knows nothing of what was begun.
    put("workflow:begin:10").await;
    drained().await;
    to.tell("node-b", &[], BTreeSet::new(), None);
    take(&to, collector(), None);
    put("workflow:end:10").await;
    drained().await;
    assert_eq!(measured(&to), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_measured_how_long_functions_take_where_the_manager_wants_that() {
    let (proxy, _) = server(&[]).await;
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (open(here.path()).unwrap(), open(there.path()).unwrap());
    take(&to, function(), Some(&proxy.to_string()));
    send(&from, Some(to.url()));
    for wanted in [false, true] {
        to.samples().measure(wanted);
        assert_eq!(post(&from.output_url(FROM, "out"), "x".to_owned(), None).await.unwrap().0, 202);
        until("nothing waits", || from.is_drained(FROM)).await;
        let all = measured(&to);
        if wanted {
            assert!(matches!(&all[..], [Measured::Execution { .. }, Measured::Transfer { .. }]), "{all:?}");
        } else {
            assert_eq!(all, []);
        }
    }
}

/// What the manager heard, but didn't answer, has the same numbers again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_wait_until_the_manager_has_them() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (open(here.path()).unwrap(), open(there.path()).unwrap());
    take(&to, collector(), None);
    send(&from, Some(to.url()));
    for number in 0..3 {
        for what in ["begin", "end"] {
            let text = format!("workflow:{what}:{number}");
            assert_eq!(post(&from.output_url(FROM, "out"), text, None).await.unwrap().0, 202);
        }
    }
    until("nothing waits", || from.is_drained(FROM)).await;
    let (first, again) = (to.samples().next(), to.samples().next());
    assert_eq!((first.first, first.all.len()), (0, 3));
    assert_eq!(first, again);
    to.samples().told(&first);
    to.samples().told(&first);
    assert_eq!((to.samples().next().first, to.samples().next().all), (3, Vec::new()));
}
