//! A manager that does what its script says and writes down every call.

use std::{
    collections::{HashMap, HashSet},
    io::{Cursor, Write},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{Request, Response, StatusCode},
    serve::ListenerExt,
};
use serde_json::{Value, json};
use simulated_children::{Faults, FleetConfig, FleetReport, run};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::deadline::DEADLINE;

/// After a question whether there were calls enough there is a pause of so many times as long as it took.
const ASK_PAUSE: u32 = 20;

/// Without calls it is asked so often: it may be about how long there was none.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A second of a child's clock in these tests is 2 ms.
pub const PACE: f64 = 0.002;

/// A status that stands for a connection closed in the middle of the answer.
pub const CLOSE: u16 = 0;

/// One call as it came in.
#[derive(Debug, Clone)]
pub struct Call {
    pub at: Instant,
    pub path: String,
    pub query: String,
    pub body: Value,
}

impl Call {
    /// Status of the only summary of a result.
    pub fn status(&self) -> Option<u64> {
        self.body["stage_summaries"][0]["status"].as_u64()
    }

    pub fn stage(&self) -> &str {
        self.body["stage_summaries"][0]["stage_name"].as_str().unwrap_or_default()
    }
}

/// What the manager is to do.
pub struct Script {
    /// Id said at /poll, YAML and archive. A child is offered each once, in this order.
    pub offers: Vec<(String, String, Vec<u8>)>,
    pub release_status: u16,
    pub functions_status: u16,
    /// Of the results in the order they come; 200 when it is used up.
    pub result_statuses: Vec<u16>,
    /// Results are received and never answered.
    pub hang_results: bool,
    /// The how manyth question for the end of a stage is answered with yes; `None`: none.
    pub end_at: Option<usize>,
    pub then_rollback: bool,
    /// Named in answers to polls.
    pub features: Vec<&'static str>,
}

impl Script {
    pub fn of(yaml: &str) -> Self {
        Self {
            offers: vec![("r1".into(), yaml.into(), functions_zip())],
            release_status: 200,
            functions_status: 200,
            result_statuses: Vec::new(),
            hang_results: false,
            end_at: None,
            then_rollback: false,
            features: Vec::new(),
        }
    }
}

#[derive(Default)]
struct Seen {
    calls: Vec<Call>,
    ids: usize,
    results: usize,
    questions: HashMap<String, usize>,
    downloaded: HashSet<(String, String)>,
}

#[derive(Clone)]
struct Shared {
    script: Arc<Script>,
    seen: Arc<Mutex<Seen>>,
    /// Told of each call.
    called: Arc<Notify>,
}

pub struct Manager {
    pub url: String,
    pub connections: Arc<AtomicUsize>,
    shared: Shared,
}

impl Manager {
    pub async fn start(script: Script) -> Self {
        let shared = Shared { script: Arc::new(script), seen: Arc::default(), called: Arc::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let listener = listener.tap_io(move |_| {
            counted.fetch_add(1, SeqCst);
        });
        let app = Router::new().fallback(answer).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, connections, shared }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.shared.seen.lock().unwrap().calls.clone()
    }

    /// How many calls there were, and the last ones.
    fn last_calls(&self) -> String {
        const SHOWN: usize = 50;
        let calls = self.calls();
        let work: Vec<&Call> = calls.iter().filter(|call| call.path != "/poll").collect();
        let last = &work[work.len().saturating_sub(SHOWN)..];
        format!("of {} calls, {} were no polls, at last {last:#?}", calls.len(), work.len())
    }

    /// A fleet of one agent for this manager, at a fast pace.
    pub fn config(&self) -> FleetConfig {
        FleetConfig {
            url: self.url.clone(),
            agents: 1,
            pace: PACE,
            faults: Faults { exit_after_rollback: 0.0, ..Faults::default() },
            ..FleetConfig::default()
        }
    }

    /// Runs the fleet until what was called satisfies the test, which is asked after calls and, where none come, now and then.
    pub async fn run_until(
        &self,
        config: FleetConfig,
        enough: impl Fn(&[Call]) -> bool,
    ) -> (FleetReport, Vec<Call>) {
        let stop = CancellationToken::new();
        let mut fleet = tokio::spawn(run(config, stop.clone(), |_| ()));
        let is_enough = async {
            // Of calls that come between two questions none is missed: the last of them is kept in mind. To ask may take longer the more
            // calls there were, and is a small part of what is done.
            loop {
                let begun = Instant::now();
                if enough(&self.shared.seen.lock().unwrap().calls) {
                    return;
                }
                sleep(begun.elapsed() * ASK_PAUSE).await;
                let _ = timeout(ASK_EVERY, self.shared.called.notified()).await;
            }
        };
        let ended = tokio::select! {
            () = is_enough => None,
            ended = &mut fleet => Some(ended),
            () = sleep(DEADLINE) => panic!("waited in vain; {}", self.last_calls()),
        };
        stop.cancel();
        let ended = match ended {
            Some(ended) => ended,
            None => fleet.await,
        };
        (ended.unwrap().unwrap(), self.calls())
    }
}

async fn answer(State(shared): State<Shared>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let call = Call {
        at: Instant::now(),
        path: parts.uri.path().into(),
        query: parts.uri.query().unwrap_or_default().into(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let hang = shared.script.hang_results && call.path == "/result";
    let (status, body) = decide(&shared.script, &mut shared.seen.lock().unwrap(), call);
    shared.called.notify_one();
    if hang {
        std::future::pending::<()>().await;
    }
    let body = if status < 400 { body } else { b"out of order\n".to_vec() };
    if status == CLOSE {
        let pieces = [Ok(Bytes::from_static(b"id: ")), Err(std::io::Error::other("closed"))];
        return Response::new(Body::from_stream(futures_util::stream::iter(pieces)));
    }
    Response::builder().status(StatusCode::from_u16(status).unwrap()).body(Body::from(body)).unwrap()
}

fn decide(script: &Script, seen: &mut Seen, call: Call) -> (u16, Vec<u8>) {
    let id = call.body["id"].as_str().unwrap_or_default().to_owned();
    let json = |value: Value| (200, value.to_string().into_bytes());
    let answer = match call.path.as_str() {
        "/poll" => {
            let id = if id.is_empty() {
                seen.ids += 1;
                format!("child-{}", seen.ids)
            } else {
                id
            };
            let waits =
                script.offers.iter().find(|offer| !seen.downloaded.contains(&(id.clone(), offer.0.clone())));
            let mut polled = json!({"id": id, "new_release": waits.map_or("", |offer| &offer.0)});
            if !script.features.is_empty() {
                polled["features"] = json!(script.features);
            }
            json(polled)
        }
        "/release" => {
            let (child, release) =
                call.query.strip_prefix("childID=").unwrap().split_once("&releaseID=").unwrap();
            seen.downloaded.insert((child.into(), release.into()));
            let offer = script.offers.iter().find(|offer| offer.0 == release).unwrap();
            (script.release_status, offer.1.clone().into_bytes())
        }
        "/result" => {
            seen.results += 1;
            (script.result_statuses.get(seen.results - 1).copied().unwrap_or(200), Vec::new())
        }
        "/end_stage" => {
            let stage = format!("{id} {} {}", call.body["strategy_id"], call.body["stage_name"]);
            let asked = seen.questions.entry(stage).or_default();
            *asked += 1;
            let end = script.end_at.is_some_and(|end_at| *asked >= end_at);
            json(if end && script.then_rollback {
                json!({"end_stage": end, "then": "rollback"})
            } else {
                json!({"end_stage": end})
            })
        }
        path => {
            let release = path.strip_prefix("/release/functions/").unwrap();
            let offer = script.offers.iter().find(|offer| offer.1.contains(&format!("id: {release}\n")));
            (script.functions_status, offer.map_or_else(functions_zip, |offer| offer.2.clone()))
        }
    };
    seen.calls.push(call);
    answer
}

/// An archive of these entries; a name that ends in a slash is a folder.
pub fn zip_of(entries: &[(&str, u32)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mode) in entries {
        let options = SimpleFileOptions::default().unix_permissions(*mode);
        if name.ends_with('/') {
            zip.add_directory(*name, options).unwrap();
        } else {
            zip.start_file(*name, options).unwrap();
            zip.write_all(b"module.exports = 1\n").unwrap();
        }
    }
    zip.finish().unwrap().into_inner()
}

/// Base, new and bad versions, as an agent can unpack them.
pub fn functions_zip() -> Vec<u8> {
    zip_of(&[
        ("fns/", 0o755),
        ("fns/f1/", 0o755),
        ("fns/f1/index.js", 0o644),
        ("fns/f2/", 0o755),
        ("fns/f2/index.js", 0o644),
        ("fns/bad/", 0o755),
        ("fns/bad/index.js", 0o644),
    ])
}

/// An offer for function `sieve` (`fns/f1` → `fns/f2`) with these stages.
pub fn offer(stages: &[String]) -> String {
    let functions = "functions:\n  - name: sieve\n    base_version: {path: fns/f1, env: nodejs}\n    new_version: {path: fns/f2, env: nodejs}\n";
    format!("id: r1\nname: test\n{functions}stages:\n{}", stages.concat())
}

/// A stage with usual conditions: error rate below 2 %, 10 s and 100 calls.
pub fn stage(name: &str, kind: &str, on_success: &str, on_failure: &str) -> String {
    format!(
        "  - name: {name}
    type: {kind}
    func_name: sieve
    variants:
      - {{name: base_version, trafficPercentage: 50}}
      - {{name: new_version, trafficPercentage: 50}}
    metrics_conditions:
      - {{name: errorRate, threshold: \"<0.02\"}}
      - {{name: responseTime, threshold: \"<=200\", compareWith: \"Median\"}}
    end_conditions:
      - {{name: minDuration, threshold: 10s}}
      - {{name: minCalls, threshold: \"100\"}}
    end_action: {{onSuccess: {on_success}, onFailure: {on_failure}}}
"
    )
}

/// Paths in the order of the calls, /poll left out.
pub fn work(calls: &[Call]) -> Vec<&str> {
    calls.iter().map(|call| call.path.as_str()).filter(|path| *path != "/poll").collect()
}

pub fn results(calls: &[Call]) -> Vec<&Call> {
    calls.iter().filter(|call| call.path == "/result").collect()
}

pub fn count(calls: &[Call], path: &str) -> usize {
    calls.iter().filter(|call| call.path == path).count()
}
