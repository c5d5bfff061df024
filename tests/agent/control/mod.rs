//! The control socket, with a handler in place of whoever drives an agent.

mod looks;
mod orders;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use agent::{
    control::{
        self, Control, Order, Refused,
        client::{Client, ClientError},
        form::{
            Added, CandidateStatus, FunctionStatus, KeptStatus, ManagerStatus, NewFunction, PendingReports,
            ProxyStatus, Removed, Retry, RuntimeStatus, Status, Sticky, Stops, TableNumber, Undone,
            VersionStatus, Which, WorkStatus,
        },
    },
    runtime::Phase,
};
use bytes::Bytes;
use hyper::Method;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::mpsc,
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
        sticky: Some(Sticky::Cookie("session".to_owned())),
        retry: Some(Retry::Failed),
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
        router: None,
        proxy: Some(ProxyStatus {
            control: "proxy.sock".into(),
            answers: true,
            program: None,
            pid: None,
            table: Some(TableNumber { epoch: 1, generation: 2 }),
            listen: vec!["127.0.0.1:8000".to_owned()],
            trouble: None,
        }),
        unsaved: Some("no space left".to_owned()),
        runtimes: vec![
            RuntimeStatus {
                name: "process".to_owned(),
                runners: vec!["binary".to_owned()],
                reached: true,
                trouble: None,
            },
            RuntimeStatus {
                name: "tinyfaas".to_owned(),
                runners: vec!["python".to_owned()],
                reached: false,
                trouble: Some("connection refused".to_owned()),
            },
        ],
        services: Vec::new(),
        functions: vec![greet, sieve],
        work: Some(WorkStatus {
            offer: "ab".to_owned(),
            phase: "runs a stage".to_owned(),
            stage: Some("canary \"12.5\"".to_owned()),
            waits_for_signal: true,
            failed: None,
            stopped: None,
        }),
        owed: PendingReports { results: 2, next_try_ms: Some(9) },
        stops: Stops { judged: 4, ordered: 3, managed: 2, unstarted: 1 },
    }
}

/// What a handler was asked, in words.
type Asked = Arc<Mutex<Vec<String>>>;

/// A control, and a handler that answers its orders.
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
        tokio::spawn(handler(orders, status, Arc::clone(&asked)));
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
async fn handler(mut orders: mpsc::Receiver<Order>, status: Status, asked: Asked) {
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
            Order::Retire { name, answer } => {
                let _ = answer.send(Err(unknown(name.clone())));
                format!("retire {name}")
            }
            Order::Remove { name, answer, .. } => {
                let said = format!("remove {name}");
                let _ = answer.send(if known().contains(&name) {
                    Ok(Removed { name })
                } else {
                    Err(unknown(name))
                });
                said
            }
            Order::FailedLogs { release, answer } => {
                let _ = answer.send(Ok(format!("what failed in {release}\n").into_bytes()));
                continue;
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
