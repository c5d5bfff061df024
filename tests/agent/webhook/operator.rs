//! An operator's address of the tests, which runs versions as processes. It can be told to misbehave.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent::runtime::{Fault, Limits, Order, Phase, Runtime, VersionId, webhook::Secret};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// How it misbehaves.
#[derive(Debug, Clone, PartialEq)]
pub enum Mood {
    Good,
    /// It does what it is asked, and the connection ends before it says so; once.
    LosesAnAnswer,
    /// It never answers.
    Hangs,
    /// Everything is answered with this.
    Says(u16, String),
    /// Lists are this, whatever is there.
    Lists(Value),
    /// Starts and stops are answered well, and nothing is done.
    DoesNothing,
    /// Everything is answered without an end.
    NeverEnds,
}

pub struct Operator {
    pub at: SocketAddr,
    state: Arc<State>,
}

struct State {
    runtime: Arc<dyn Runtime>,
    secret: Secret,
    folder: PathBuf,
    mood: Mutex<Mood>,
    /// Answers by the keys of their calls.
    answered: Mutex<HashMap<String, (u16, String)>>,
    /// Calls that were carried out: what, and of which generation.
    done: Mutex<Vec<(String, u64)>>,
    generation: Mutex<u64>,
    of_versions: Mutex<BTreeMap<VersionId, u64>>,
    starting: Mutex<BTreeMap<VersionId, JoinHandle<()>>>,
    failed: Mutex<BTreeMap<VersionId, Value>>,
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Ask {
    Start {
        version: VersionId,
        runner: Option<String>,
        folder: PathBuf,
        zip: Option<String>,
        environment: BTreeMap<String, String>,
        limits: Limits,
        health: Health,
    },
    Stop {
        version: VersionId,
        grace_ms: u64,
    },
    List,
}

#[derive(Deserialize)]
struct Health {
    give_up_ms: u64,
}

#[derive(Deserialize)]
struct Signed {
    #[serde(flatten)]
    ask: Ask,
    generation: u64,
    agent: String,
}

impl Operator {
    pub fn start(runtime: Arc<dyn Runtime>, secret: Secret, folder: PathBuf) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let at = listener.local_addr().unwrap();
        let state = Arc::new(State {
            runtime,
            secret,
            folder,
            mood: Mutex::new(Mood::Good),
            answered: Mutex::default(),
            done: Mutex::default(),
            generation: Mutex::default(),
            of_versions: Mutex::default(),
            starting: Mutex::default(),
            failed: Mutex::default(),
        });
        let serving = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&serving);
                let service = service_fn(move |request| Arc::clone(&state).call(request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { at, state }
    }

    pub fn is(&self, mood: Mood) {
        *self.state.mood.lock().unwrap() = mood;
    }

    /// The starts and stops that were carried out, with their generations.
    pub fn done(&self) -> Vec<(String, u64)> {
        self.state.done.lock().unwrap().clone()
    }
}

type Answer = Result<Response<Full<Bytes>>, std::io::Error>;

#[allow(clippy::unnecessary_wraps, reason = "some answers are lost")]
fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    Ok(answer)
}

impl State {
    async fn call(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let field = |name: &str| head.headers.get(name).unwrap().to_str().unwrap().to_owned();
        let timestamp: u64 = field("x-choirmaster-timestamp").parse().unwrap();
        let now = std::fs::metadata("/proc/self").unwrap().modified().unwrap();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        if field("x-choirmaster-signature") != self.secret.sign(timestamp, &body)
            || now.abs_diff(timestamp) > 300
        {
            return answer(401, "the signature isn't one");
        }
        let mood = self.mood.lock().unwrap().clone();
        match &mood {
            Mood::Hangs => std::future::pending().await,
            Mood::Says(status, text) => return answer(*status, text.clone()),
            Mood::NeverEnds => return answer(200, vec![b' '; 8 * 1024 * 1024]),
            Mood::Good | Mood::LosesAnAnswer | Mood::Lists(_) | Mood::DoesNothing => {}
        }
        let Signed { ask, generation, agent } = serde_json::from_slice(&body).unwrap();
        assert_eq!(agent, "edge-1");
        if let Ask::List = ask {
            let list = if let Mood::Lists(list) = mood { list } else { self.list().await };
            return answer(200, list.to_string());
        }
        let key = field("idempotency-key");
        let known = self.answered.lock().unwrap().get(&key).cloned();
        if let Some((status, text)) = known {
            return answer(status, text);
        }
        let (status, text) = if mood == Mood::DoesNothing {
            *self.generation.lock().unwrap() = generation;
            (200, String::new())
        } else {
            self.carry_out(ask, generation).await
        };
        self.answered.lock().unwrap().insert(key, (status, text.clone()));
        if mood == Mood::LosesAnAnswer {
            *self.mood.lock().unwrap() = Mood::Good;
            return Err(std::io::Error::other("lost"));
        }
        answer(status, text)
    }

    async fn carry_out(self: &Arc<Self>, ask: Ask, generation: u64) -> (u16, String) {
        if let Ask::Start { version, .. } | Ask::Stop { version, .. } = &ask {
            let mut of_versions = self.of_versions.lock().unwrap();
            let of_version = of_versions.entry(version.clone()).or_insert(0);
            if generation <= *of_version {
                return (
                    409,
                    format!("generation {generation} of this version is no newer than {of_version}"),
                );
            }
            *of_version = generation;
            let mut highest = self.generation.lock().unwrap();
            *highest = generation.max(*highest);
        }
        match ask {
            Ask::Start { version, runner, folder, zip, environment, limits, health } => {
                self.done.lock().unwrap().push(("start".to_owned(), generation));
                let folder = match zip {
                    None => folder,
                    Some(zip) => {
                        let folder = self.folder.join(version.as_str());
                        let zip = STANDARD.decode(zip).unwrap();
                        zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap().extract(&folder).unwrap();
                        folder
                    }
                };
                self.failed.lock().unwrap().remove(&version);
                let mut order = Order::new(version.clone(), folder);
                (order.runner, order.environment, order.limits) = (runner, environment, limits);
                order.health.give_up = Duration::from_millis(health.give_up_ms);
                let state = Arc::clone(self);
                let starting = tokio::spawn(async move { state.start(order).await });
                self.starting.lock().unwrap().insert(version, starting);
            }
            Ask::Stop { version, grace_ms } => {
                self.done.lock().unwrap().push(("stop".to_owned(), generation));
                let starting = self.starting.lock().unwrap().remove(&version);
                if let Some(starting) = starting {
                    starting.abort();
                    let _ = starting.await;
                }
                self.runtime.stop(&version, Duration::from_millis(grace_ms)).await.unwrap();
                self.failed.lock().unwrap().remove(&version);
            }
            Ask::List => {}
        }
        (202, String::new())
    }

    async fn start(&self, order: Order) {
        let Err(error) = self.runtime.start(&order).await else { return };
        let exit = if let Fault::DiedAtOnce { exit, .. } = &error.fault { json!(exit) } else { Value::Null };
        let log = if let Fault::DiedAtOnce { log, .. } | Fault::NeverHealthy { log, .. } = &error.fault {
            log.0.as_str()
        } else {
            ""
        };
        let failed = json!({"version": order.version, "phase": "failed", "last_exit": exit, "log": log, "why": error.to_string()});
        self.failed.lock().unwrap().insert(order.version, failed);
    }

    fn starts(&self, version: &VersionId) -> bool {
        self.starting.lock().unwrap().get(version).is_some_and(|starting| !starting.is_finished())
    }

    async fn list(&self) -> Value {
        // What is read first may be older than what is told with it, never newer.
        let generation = *self.generation.lock().unwrap();
        let mut versions = Vec::new();
        for running in self.runtime.list().await.unwrap() {
            let log = self.runtime.log(&running.version, 4096).await.unwrap().unwrap_or_default();
            versions.push(json!({
                "version": running.version,
                "runner": running.runner,
                "target": running.target.to_string(),
                "phase": match running.phase {
                    Phase::Runs if self.starts(&running.version) => "starts",
                    Phase::Runs => "runs",
                    Phase::Pauses => "pauses",
                    Phase::Stops | Phase::Silent => "stops",
                },
                "pid": running.pid,
                "restarts": running.restarts,
                "last_exit": running.last_exit,
                "log": String::from_utf8_lossy(&log),
            }));
        }
        versions.extend(self.failed.lock().unwrap().values().cloned());
        json!({"generation": generation, "versions": versions})
    }
}
