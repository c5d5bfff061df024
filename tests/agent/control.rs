//! The control socket, with a desk in place of whoever drives an agent.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use choirmaster_agent::{
    control::{
        self, Control, ControlError, MAX_QUESTION, Order, Refused,
        client::{Client, ClientError},
        form::{
            Added, CandidateStatus, FunctionStatus, KeptStatus, ManagerStatus, NewFunction, Owed,
            ProxyStatus, Removed, RetryForm, RuntimeStatus, Status, StickyForm, Stops, TableNumber, Undo,
            Undone, VersionStatus, Which, WorkStatus,
        },
    },
    runtime::Phase,
};
use hyper::Method;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    sync::{mpsc, oneshot},
};

const LONG: Duration = Duration::from_mins(1);

fn version(digit: char, phase: Phase, restarts: u64) -> VersionStatus {
    VersionStatus {
        version: digit.to_string().repeat(64),
        runner: "nodejs".to_owned(),
        phase,
        target: "unix:/run/a".to_owned(),
        pid: Some(7),
        restarts,
        last_exit: (restarts > 0).then(|| "exit status 1".to_owned()),
    }
}

fn standing() -> Status {
    let sieve = FunctionStatus {
        name: "sieve".to_owned(),
        sticky: Some(StickyForm::Cookie("session".to_owned())),
        retry: Some(RetryForm::Failed),
        stable: version('a', Phase::Runs, 0),
        candidate: Some(CandidateStatus {
            version: version('b', Phase::Pauses, 3),
            share: 1_250,
            stage: "canary-12.5".to_owned(),
            calls: 40,
            errors: 9,
            repeated: 7,
        }),
        kept: None,
    };
    let greet = FunctionStatus {
        name: "greet".to_owned(),
        sticky: None,
        retry: None,
        stable: version('c', Phase::Runs, 0),
        candidate: None,
        kept: Some(KeptStatus { version: version('d', Phase::Runs, 0), until_ms: Some(5) }),
    };
    Status {
        program: "0.0.0-test".to_owned(),
        pid: 1,
        name: "edge".to_owned(),
        id: Some("7".to_owned()),
        manager: ManagerStatus {
            url: "http://127.0.0.1:1".to_owned(),
            reached: false,
            since_ms: Some(3),
            trouble: Some("connection refused".to_owned()),
        },
        proxy: ProxyStatus {
            control: "proxy.sock".into(),
            answers: true,
            program: None,
            pid: None,
            table: Some(TableNumber { epoch: 1, generation: 2 }),
            listen: vec!["127.0.0.1:8000".to_owned()],
            trouble: None,
        },
        runtimes: vec![RuntimeStatus { name: "process".to_owned(), runners: vec!["binary".to_owned()] }],
        functions: vec![greet, sieve],
        work: Some(WorkStatus {
            offer: "ab".to_owned(),
            phase: "runs a stage".to_owned(),
            stage: Some("canary \"12.5\"".to_owned()),
            waits_for_signal: true,
            stopped: None,
        }),
        owed: Owed { results: 2, next_try_ms: Some(9) },
        stops: Stops { judged: 4, ordered: 3, managed: 2, unstarted: 1 },
    }
}

/// What a desk was asked, in words.
type Asked = Arc<Mutex<Vec<String>>>;

/// A control, and a desk that answers its orders.
struct Open {
    control: Control,
    client: Client,
    asked: Asked,
    folder: TempDir,
}

impl Open {
    fn start(status: Status) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/agent.sock");
        let (sender, orders) = mpsc::channel(4);
        let control = control::open(&path, Some("127.0.0.1:0".parse().unwrap()), sender).unwrap();
        let asked = Asked::default();
        tokio::spawn(desk(orders, status, Arc::clone(&asked)));
        Self { control, client: Client::new(&path), asked, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("below/agent.sock")
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    async fn put(&self, name: &str, body: impl Into<Bytes>) -> Result<Added, ClientError> {
        self.client.ask(Method::PUT, &format!("/functions/{name}"), body.into(), LONG).await
    }

    async fn refused(&self, method: Method, target: &str, body: impl Into<Bytes>) -> (u16, String) {
        let answer = self.client.ask::<serde_json::Value>(method, target, body.into(), LONG).await;
        match answer {
            Err(ClientError::Refused { status, refusal }) => (status, refusal.error),
            other => panic!("{other:?}"),
        }
    }
}

/// Answers until the control is gone.
async fn desk(mut orders: mpsc::Receiver<Order>, status: Status, asked: Asked) {
    let known = || status.functions.iter().map(|function| function.name.clone()).collect::<Vec<_>>();
    let unknown = |name: String| Refused::Unknown { name, known: known() };
    while let Some(order) = orders.recv().await {
        let said = match order {
            Order::Status(answer) => {
                let _ = answer.send(status.clone());
                continue;
            }
            Order::Undo { undo, answer } => {
                let said = format!("undo {:?} because {:?}", undo.function, undo.why);
                let done = match undo.function {
                    Some(name) if !known().contains(&name) => Err(unknown(name)),
                    Some(name) if name == "greet" => {
                        Err(Refused::Busy("there is nothing to go back to for greet".to_owned()))
                    }
                    function => Ok(Undone {
                        functions: function.into_iter().collect(),
                        text: "the version before serves again".to_owned(),
                    }),
                };
                let _ = answer.send(done);
                said
            }
            Order::Add { name, function, answer } => {
                let said = format!("add {name} of {}", function.folder.display());
                let done = match name.as_str() {
                    "sieve" => Err(Refused::Busy(
                        "the release ab has sieve in hand: wait for it, or undo it".to_owned(),
                    )),
                    "empty" => Err(Refused::Wrong("/empty holds nothing that can be run".to_owned())),
                    "full" => Err(Refused::Failed("no space left on device".to_owned())),
                    _ => Ok(Added { name, version: "e".repeat(64), at: Vec::new() }),
                };
                let _ = answer.send(done);
                said
            }
            Order::Remove { name, answer } => {
                let said = format!("remove {name}");
                let _ = answer.send(if known().contains(&name) {
                    Ok(Removed { name })
                } else {
                    Err(unknown(name))
                });
                said
            }
            Order::Log { name, which, answer, .. } => {
                let of = match which {
                    Some(Which::New) => "new",
                    Some(Which::Base) => "base",
                    None => "newest",
                };
                let done = if known().contains(&name) {
                    Ok(format!("{of} of {name}\n\u{1b}").into_bytes())
                } else {
                    Err(unknown(name))
                };
                let _ = answer.send(done);
                continue;
            }
        };
        asked.lock().unwrap().push(said);
    }
}

fn body(value: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap().into()
}

fn of_folder(folder: &str) -> Bytes {
    body(&NewFunction { folder: folder.into(), runner: None, sticky: None, retry: None })
}

/// What comes back for these bytes.
async fn raw(path: &Path, text: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn the_socket_is_its_owners_alone_and_one_agent_has_it_at_a_time() {
    let open = Open::start(standing());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&open.path()), 0o600);
    assert_eq!(mode(open.path().parent().unwrap()), 0o700);

    let (sender, _orders) = mpsc::channel(1);
    let second = control::open(&open.path(), None, sender.clone()).unwrap_err();
    assert!(second.to_string().ends_with("is there already"), "{second}");
    open.client.get::<Status>("/status").await.unwrap();
    let path = open.path();
    drop(open.control);
    assert!(!path.exists());
    control::open(&path, None, sender.clone()).unwrap();

    let file = open.folder.path().join("file");
    fs::write(&file, "kept").unwrap();
    let wrong = control::open(&file, None, sender.clone()).unwrap_err();
    assert!(wrong.to_string().contains("is there and no socket"), "{wrong}");
    assert_eq!(fs::read(&file).unwrap(), b"kept");
    let long = open.folder.path().join("x".repeat(108));
    assert!(matches!(control::open(&long, None, sender), Err(ControlError::LongPath(_))));
}

#[tokio::test]
async fn how_it_stands_comes_as_it_was_told() {
    let open = Open::start(standing());
    assert_eq!(open.client.get::<Status>("/status").await.unwrap(), standing());
    let functions: Vec<FunctionStatus> = open.client.get("/functions").await.unwrap();
    assert_eq!(functions, standing().functions);
}

#[tokio::test]
async fn a_status_of_another_version_of_the_program_is_read_as_far_as_it_is_known() {
    let mut status = serde_json::to_value(standing()).unwrap();
    let keys = status.as_object_mut().unwrap();
    keys.insert("newer".to_owned(), 3.into());
    for key in ["runtimes", "functions", "work", "owed", "stops", "id", "name"] {
        keys.remove(key);
    }
    let read: Status = serde_json::from_value(status).unwrap();
    assert_eq!((read.program.as_str(), read.functions.len(), read.owed.results), ("0.0.0-test", 0, 0));
}

#[tokio::test]
async fn orders_reach_the_desk_and_its_answers_their_callers() {
    let open = Open::start(standing());
    let added = open.put("resize-2.x", of_folder("/fns/resize")).await.unwrap();
    assert_eq!(added.name, "resize-2.x");
    let removed: Removed =
        open.client.ask(Method::DELETE, "/functions/greet", Bytes::new(), LONG).await.unwrap();
    assert_eq!(removed.name, "greet");
    // Without a body, everything is meant.
    let undone: Undone = open.client.post("/undo").await.unwrap();
    assert_eq!(undone.text, "the version before serves again");
    let why = Undo { function: Some("sieve".to_owned()), why: Some("slow".to_owned()) };
    let undone: Undone = open.client.ask(Method::POST, "/undo", body(&why), LONG).await.unwrap();
    assert_eq!(undone.functions, ["sieve"]);
    assert_eq!(
        open.asked(),
        [
            "add resize-2.x of /fns/resize",
            "remove greet",
            "undo None because None",
            "undo Some(\"sieve\") because Some(\"slow\")",
        ]
    );
}

#[tokio::test]
async fn a_refusal_says_why_and_what_was_meant() {
    let open = Open::start(standing());
    let (put, post, delete) = (Method::PUT, Method::POST, Method::DELETE);
    let undo = |name: &str| body(&Undo { function: Some(name.to_owned()), why: None });
    let unknown = open.refused(post.clone(), "/undo", undo("seive")).await;
    assert_eq!(unknown, (404, "no function \"seive\" is served here; did you mean sieve?".to_owned()));
    let unknown = open.refused(delete, "/functions/resize", Bytes::new()).await;
    assert_eq!(unknown, (404, "no function \"resize\" is served here; there are greet, sieve".to_owned()));
    let busy = open.refused(put.clone(), "/functions/sieve", of_folder("/fns/other")).await;
    assert_eq!(busy, (409, "the release ab has sieve in hand: wait for it, or undo it".to_owned()));
    assert_eq!(open.refused(post, "/undo", undo("greet")).await.0, 409);
    let wrong = open.refused(put.clone(), "/functions/empty", of_folder("/empty")).await;
    assert_eq!(wrong, (422, "/empty holds nothing that can be run".to_owned()));
    let failed = open.refused(put, "/functions/full", of_folder("/fns/full")).await;
    assert_eq!(failed, (500, "no space left on device".to_owned()));
    let nobody = Status { functions: Vec::new(), ..standing() };
    let (status, why) = Open::start(nobody).refused(Method::POST, "/undo", undo("sieve")).await;
    assert_eq!(status, 404);
    assert!(why.ends_with("there is none yet: choirmaster agent functions add NAME FOLDER"), "{why}");
}

#[tokio::test]
async fn nonsense_is_refused_with_a_sentence_and_no_order_comes_of_it() {
    let open = Open::start(standing());
    let (get, put, post) = (Method::GET, Method::PUT, Method::POST);
    let long = "x".repeat(201);
    for name in ["", ".hidden", "a/b", "a%20b", "..", &long] {
        let (status, why) =
            open.refused(put.clone(), &format!("/functions/{name}"), of_folder("/fns/a")).await;
        assert_eq!(status, 422, "{name}");
        assert!(why.contains("a function's name is 1 to 200 characters"), "{why}");
    }
    for (text, part) in [
        ("nonsense", "this is no function: expected"),
        ("{}", "missing field `folder`"),
        ("[]", "this is no function"),
        (r#"{"folder": "/a", "runer": "nodejs"}"#, "unknown field `runer`"),
        (r#"{"folder": "/a", "sticky": "cookie"}"#, "this is no function"),
        (r#"{"folder": "/a", "retry": "always"}"#, "unknown variant `always`"),
        (r#"{"folder": "fns/a"}"#, "fns/a isn't absolute"),
        ("{\"folder\": \"\u{fffd}\"}", "isn't absolute"),
    ] {
        let (status, why) = open.refused(put.clone(), "/functions/a", text.to_owned()).await;
        assert_eq!(status, 422, "{text}");
        assert!(why.contains(part), "{why}");
    }
    let huge = Bytes::from(vec![b' '; MAX_QUESTION + 1]);
    assert_eq!(open.refused(put.clone(), "/functions/a", huge.clone()).await.0, 413);
    assert_eq!(open.refused(post.clone(), "/undo", huge).await.0, 413);
    let long = body(&Undo { function: None, why: Some("x".repeat(1025)) });
    assert_eq!(
        open.refused(post.clone(), "/undo", long).await,
        (422, "a reason has at most 1024 bytes".to_owned())
    );
    assert_eq!(open.refused(post.clone(), "/undo", r#"{"functions": []}"#).await.0, 422);

    for (query, part) in [
        ("", "name a function"),
        ("?version=new", "name a function"),
        ("?function=sieve&version=old", "version=old is neither new nor base"),
        ("?function=sieve&lines=3", "there is no \"lines\" here"),
    ] {
        let (status, why) = open.refused(get.clone(), &format!("/logs{query}"), Bytes::new()).await;
        assert_eq!((status, why.contains(part)), (400, true), "{why}");
    }
    assert_eq!(open.refused(get.clone(), "/nothing", Bytes::new()).await.0, 404);
    for (method, path) in [
        (&post, "/status"),
        (&get, "/undo"),
        (&get, "/functions/sieve"),
        (&post, "/functions"),
        (&put, "/logs"),
    ] {
        let (status, why) = open.refused(method.clone(), path, Bytes::new()).await;
        assert_eq!(status, 405, "{why}");
    }
    assert_eq!(open.asked(), <[String; 0]>::default());
}

#[tokio::test]
async fn what_is_no_http_ends_its_own_connection_alone() {
    let open = Open::start(standing());
    for text in [
        "\0\u{1}\u{2}\r\n\r\n",
        "GET /status HTTP/9\r\n\r\n",
        "PUT /functions/a HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ] {
        assert!(raw(&open.path(), text).await.starts_with("HTTP/1.1 400 "), "{text:?}");
    }
    open.client.get::<Status>("/status").await.unwrap();
}

#[tokio::test]
async fn who_is_slow_keeps_nobody_waiting_and_who_leaves_ends_nothing() {
    let open = Open::start(standing());
    let mut slow = Vec::new();
    for text in ["", "GET /sta", "PUT /functions/a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"] {
        let mut stream = UnixStream::connect(open.path()).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    open.client.get::<Status>("/status").await.unwrap();
    assert_eq!(open.asked(), <[String; 0]>::default(), "half a body is no order");
    drop(slow);

    // Its order was whole; it doesn't wait for the answer.
    let whole = String::from_utf8(of_folder("/fns/left").to_vec()).unwrap();
    let text =
        format!("PUT /functions/left HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{whole}", whole.len());
    let mut stream = UnixStream::connect(open.path()).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    drop(stream);
    assert_eq!(open.asked(), ["add left of /fns/left"]);
}

#[tokio::test]
async fn two_at_once_are_answered_each_with_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let (sender, mut orders) = mpsc::channel(4);
    let _control = control::open(&path, None, sender).unwrap();
    let add = |name: &'static str| {
        let client = Client::new(&path);
        tokio::spawn(async move {
            let target = format!("/functions/{name}");
            client.ask::<Added>(Method::PUT, &target, of_folder("/fns/x"), LONG).await.unwrap()
        })
    };
    let both = [add("first"), add("second")];
    let mut waiting = Vec::new();
    while waiting.len() < 2 {
        let Some(Order::Add { name, answer, .. }) = orders.recv().await else { panic!("another order") };
        waiting.push((name, answer));
    }
    // The later one is answered first.
    for (name, answer) in waiting.into_iter().rev() {
        answer.send(Ok(Added { version: "f".repeat(64), name, at: Vec::new() })).unwrap();
    }
    let [first, second] = both;
    assert_eq!(first.await.unwrap().name, "first");
    assert_eq!(second.await.unwrap().name, "second");
}

#[tokio::test]
async fn an_agent_that_ends_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let (sender, mut orders) = mpsc::channel(4);
    let _control = control::open(&path, None, sender).unwrap();
    let ask = "GET /status HTTP/1.1\r\nHost: x\r\n\r\n";
    let (answered, ()) = tokio::join!(raw(&path, ask), async {
        let Some(Order::Status(answer)) = orders.recv().await else { panic!("another order") };
        drop::<oneshot::Sender<Status>>(answer);
    });
    assert!(answered.starts_with("HTTP/1.1 503 "), "{answered}");
    drop(orders);
    let answered = raw(&path, ask).await;
    assert!(answered.ends_with(r#"{"error":"the agent is about to end"}"#), "{answered}");
}

#[tokio::test]
async fn a_log_comes_as_it_was_written() {
    let open = Open::start(standing());
    for (query, text) in [
        ("", "newest of sieve\n\u{1b}"),
        ("&version=new", "new of sieve\n\u{1b}"),
        ("&version=base", "base of sieve\n\u{1b}"),
    ] {
        let log = open.client.text(&format!("/logs?function=sieve{query}")).await.unwrap();
        assert_eq!(log, text);
    }
    assert_eq!(open.refused(Method::GET, "/logs?function=siev", Bytes::new()).await.0, 404);
}

#[tokio::test]
async fn metrics_name_what_one_alerts_on() {
    let open = Open::start(standing());
    let text = open.client.text("/metrics").await.unwrap();
    insta::assert_snapshot!(std::str::from_utf8(&text).unwrap(), @r#"
    # HELP choirmaster_agent_build_info The version of this program, as a label; always 1.
    # TYPE choirmaster_agent_build_info gauge
    choirmaster_agent_build_info{version="0.0.0-test"} 1
    # HELP choirmaster_agent_manager_reached Whether the manager answered when it was last called.
    # TYPE choirmaster_agent_manager_reached gauge
    choirmaster_agent_manager_reached 0
    # HELP choirmaster_agent_proxy_answers Whether the proxy answered when it was last asked.
    # TYPE choirmaster_agent_proxy_answers gauge
    choirmaster_agent_proxy_answers 1
    # HELP choirmaster_agent_results_owed Results that the manager was not told yet, or has not answered.
    # TYPE choirmaster_agent_results_owed gauge
    choirmaster_agent_results_owed 2
    # HELP choirmaster_agent_functions Functions that are served.
    # TYPE choirmaster_agent_functions gauge
    choirmaster_agent_functions 2
    # HELP choirmaster_agent_releasing Whether a release is in hand.
    # TYPE choirmaster_agent_releasing gauge
    choirmaster_agent_releasing 1
    # HELP choirmaster_agent_waits_for_signal Whether a stage is done here and waits for the manager to end it.
    # TYPE choirmaster_agent_waits_for_signal gauge
    choirmaster_agent_waits_for_signal 1
    # HELP choirmaster_agent_stopped Whether the release in hand was taken back here.
    # TYPE choirmaster_agent_stopped gauge
    choirmaster_agent_stopped 0
    # HELP choirmaster_agent_stage The stage that is run, as a label; always 1.
    # TYPE choirmaster_agent_stage gauge
    choirmaster_agent_stage{stage="canary \"12.5\""} 1
    # HELP choirmaster_agent_version_runs Whether the process of a version is there: the stable one, the new one, the one that is kept.
    # TYPE choirmaster_agent_version_runs gauge
    choirmaster_agent_version_runs{function="greet",version="stable"} 1
    choirmaster_agent_version_runs{function="greet",version="kept"} 1
    choirmaster_agent_version_runs{function="sieve",version="stable"} 1
    choirmaster_agent_version_runs{function="sieve",version="new"} 0
    # HELP choirmaster_agent_version_restarts_total How often a version that is there ended by itself and was started again.
    # TYPE choirmaster_agent_version_restarts_total counter
    choirmaster_agent_version_restarts_total{function="greet",version="stable"} 0
    choirmaster_agent_version_restarts_total{function="greet",version="kept"} 0
    choirmaster_agent_version_restarts_total{function="sieve",version="stable"} 0
    choirmaster_agent_version_restarts_total{function="sieve",version="new"} 3
    # HELP choirmaster_agent_new_share The share of calls that the new version gets, from 0 to 1.
    # TYPE choirmaster_agent_new_share gauge
    choirmaster_agent_new_share{function="sieve"} 0.125
    # HELP choirmaster_agent_stage_calls Calls of the new version in this stage, by how they ended.
    # TYPE choirmaster_agent_stage_calls gauge
    choirmaster_agent_stage_calls{function="sieve",class="answered"} 31
    choirmaster_agent_stage_calls{function="sieve",class="repeated"} 7
    choirmaster_agent_stage_calls{function="sieve",class="failed"} 2
    # HELP choirmaster_agent_stops_total How often a new version was taken back here, by who said so.
    # TYPE choirmaster_agent_stops_total counter
    choirmaster_agent_stops_total{by="judged"} 4
    choirmaster_agent_stops_total{by="ordered"} 3
    choirmaster_agent_stops_total{by="managed"} 2
    choirmaster_agent_stops_total{by="unstarted"} 1
    "#);
}

/// What an address answers.
async fn at(open: &Open, ask: &str) -> String {
    let mut stream = TcpStream::connect(open.control.metrics().unwrap()).await.unwrap();
    stream.write_all(format!("{ask} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn an_address_has_metrics_and_health_and_nothing_that_changes_anything() {
    let open = Open::start(standing());
    let metrics = at(&open, "GET /metrics").await;
    assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");
    assert!(metrics.contains("choirmaster_agent_results_owed 2\n"), "{metrics}");
    assert!(at(&open, "GET /healthz").await.ends_with("\r\n\r\nok\n"));
    for ask in [
        "GET /status",
        "POST /undo",
        "PUT /functions/a",
        "DELETE /functions/sieve",
        "GET /logs?function=sieve",
    ] {
        assert!(at(&open, ask).await.starts_with("HTTP/1.1 404 "), "{ask}");
    }
    assert!(at(&open, "POST /metrics").await.starts_with("HTTP/1.1 405 "));
    assert_eq!(open.asked(), <[String; 0]>::default());
}

#[tokio::test]
async fn an_agent_without_its_proxy_is_not_well_and_one_without_its_manager_is() {
    let mut status = standing();
    assert!(!status.manager.reached);
    assert!(at(&Open::start(status.clone()), "GET /healthz").await.starts_with("HTTP/1.1 200 "));
    status.proxy.answers = false;
    status.proxy.trouble = Some("connection refused".to_owned());
    let answer = at(&Open::start(status), "GET /healthz").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer.ends_with(r#"{"error":"the proxy on proxy.sock does not answer: connection refused"}"#),
        "{answer}"
    );
}
