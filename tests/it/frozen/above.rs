//! A manager of the earlier build above this one: it answers as was recorded of one, and reads calls as that did.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Query, State},
    http::StatusCode,
    response::IntoResponse,
    routing::{get, post},
};
use language::functions;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    actor::Actor,
    samples,
    wire::{recorded, results_of, stage_and_status, text_of},
};
use crate::{
    tree::levels::{look_until, parent},
    world::World,
};

const PATIENCE: Duration = Duration::from_mins(1);

const CHILD: &str = "below";
const ROOT: &str = "4d1a26b5b4974b5eab9f220892c7a468";

/// A poll, as the earlier build read it.
#[derive(Debug, Clone, Deserialize)]
struct Poll {
    geographic_area: Option<Value>,
    id: String,
    number_of_children: u32,
    kind: Option<Kind>,
    #[serde(default)]
    rm_ids: Vec<String>,
    #[serde(default)]
    held: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Agent,
    Rm,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(dead_code, reason = "what counts is that it can be read")]
struct Times {
    median: f64,
    minimum: f64,
    maximum: f64,
}

/// A summary, as the earlier build read it.
#[derive(Debug, Clone, Deserialize)]
#[allow(dead_code, reason = "what counts is that it can be read")]
struct Summary {
    stage_name: String,
    proxy_times: Times,
    #[serde(rename = "f1_times_summary")]
    f1_times: Times,
    #[serde(rename = "f2_times_summary")]
    f2_times: Times,
    f1_err_rate: f64,
    f2_err_rate: f64,
    status: u8,
    participants: u32,
    succeeded: u32,
    failed: u32,
    timed_out: u32,
    unreachable: u32,
    unconfirmed: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[allow(dead_code, reason = "what counts is that it can be read")]
struct Reported {
    id: String,
    release_id: String,
    stage_summaries: Vec<Summary>,
    next_stage: String,
}

#[derive(Debug, Default)]
struct Script {
    offer: Option<&'static str>,
    /// Stages that it ends when its child is ready, beside those that were reported over.
    ends: Vec<(&'static str, &'static str)>,
    /// The offer that is to be taken back, wherever its child asks.
    rolls_back: Option<&'static str>,
    hold: Vec<&'static str>,
    polls: Vec<Poll>,
    results: Vec<(String, Value)>,
}

struct Earlier {
    url: String,
    script: Arc<Mutex<Script>>,
    serving: JoinHandle<()>,
}

impl Drop for Earlier {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

type Shared = State<Arc<Mutex<Script>>>;

fn lock(script: &Mutex<Script>) -> MutexGuard<'_, Script> {
    script.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn poll(State(script): Shared, body: Bytes) -> impl IntoResponse {
    let Ok(poll) = serde_json::from_slice::<Poll>(&body) else { return Err(StatusCode::BAD_REQUEST) };
    // In place of its long poll.
    sleep(Duration::from_millis(10)).await;
    let mut script = lock(&script);
    script.polls.push(poll);
    let mut answer = json!({"id": CHILD, "new_release": script.offer.unwrap_or_default(), "rm_ids": [ROOT]});
    if !script.hold.is_empty() {
        answer["hold"] = json!(script.hold);
    }
    Ok(Json(answer))
}

#[derive(Deserialize)]
struct Which {
    #[serde(rename = "childID")]
    child: String,
    #[serde(rename = "releaseID")]
    release: String,
}

async fn release(State(script): Shared, Query(which): Query<Which>) -> impl IntoResponse {
    assert_eq!(which.child, CHILD);
    // It is not offered again.
    let _ = lock(&script).offer.take_if(|offer| *offer == which.release);
    ([("content-type", "application/yaml")], text_of(&which.release))
}

async fn zip() -> impl IntoResponse {
    let checked = language::check_from_parent(text_of("waves").as_bytes());
    let limits = functions::Limits::default();
    let archive = functions::from_folder(&samples(), &checked.strategy.unwrap(), &limits).unwrap();
    ([("content-type", "application/zip")], archive.bytes)
}

async fn result(State(script): Shared, body: Bytes) -> StatusCode {
    let Ok(reported) = serde_json::from_slice::<Reported>(&body) else { return StatusCode::BAD_REQUEST };
    assert_eq!((reported.id.as_str(), reported.stage_summaries.len()), (CHILD, 1));
    lock(&script).results.push((reported.release_id, serde_json::from_slice(&body).unwrap()));
    StatusCode::OK
}

async fn end_stage(State(script): Shared, Json(body): Json<Value>) -> Json<Value> {
    sleep(Duration::from_millis(10)).await;
    let script = lock(&script);
    let (offer, stage) = (body["strategy_id"].as_str().unwrap(), body["stage_name"].as_str().unwrap());
    if script.rolls_back == Some(offer) {
        return Json(json!({"end_stage": true, "then": "rollback"}));
    }
    let reported = script.of(offer);
    let has = |least: u64| reported.iter().any(|(name, status)| name == stage && *status >= least);
    Json(json!({"end_stage": has(4) || has(2) && script.ends.contains(&(offer, stage))}))
}

impl Script {
    /// What was reported of an offer, each once.
    fn of(&self, offer: &str) -> Vec<(String, u64)> {
        let of_it = self.results.iter().filter(|(of, _)| of == offer);
        let mut all: Vec<_> = of_it.map(|(_, result)| stage_and_status(result)).collect();
        all.dedup();
        all
    }
}

impl Earlier {
    async fn start() -> Self {
        let script = Arc::new(Mutex::new(Script::default()));
        let router = Router::new()
            .route("/poll", post(poll))
            .route("/release", get(release))
            .route("/release/functions/{id}", get(zip))
            .route("/result", post(result))
            .route("/end_stage", post(end_stage))
            .with_state(Arc::clone(&script));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, script, serving }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        lock(&self.script)
    }

    /// Lets the agents below go on until it is as expected.
    async fn until(&self, middle: &World, actors: &mut [Actor], what: &str, is_so: impl Fn(&Script) -> bool) {
        let going = async {
            while !is_so(&self.script()) {
                for actor in &mut *actors {
                    actor.step(middle).await;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = timeout(PATIENCE, going).await.is_ok();
        assert!(in_time, "{what} never came: {:#?}", self.script().results);
    }

    /// Offers something, and waits until just that was reported which an earlier manager reported of it.
    async fn offers(&self, middle: &World, actors: &mut [Actor], offer: &'static str) {
        self.script().offer = Some(offer);
        let expected = results_of(offer);
        self.until(middle, actors, offer, |script| script.of(offer).len() >= expected.len()).await;
        assert_eq!(self.script().of(offer), expected, "{offer}");
    }
}

/// Two agents where those of the recording were.
async fn agents(middle: &World) -> Vec<Actor> {
    let mut all = Vec::new();
    for (name, west) in [("one", 11.01), ("two", 11.02)] {
        let (south, east, north) = (50.1, west + 0.002, 50.102);
        let ring = [[west, south], [east, south], [east, north], [west, north], [west, south]];
        let area = json!({"type": "Polygon", "coordinates": [ring]});
        all.push(Actor::fresh(middle, name, &area).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_an_earlier_manager_it_goes_through_waves_barriers_a_pause_and_an_undo() {
    let root = Earlier::start().await;
    let above = parent(root.url.clone());
    let middle = World::with(|o| (o.parent, o.functions_root) = (Some(above), samples())).await;
    let mut actors = agents(&middle).await;
    let knows_both = |script: &Script| {
        script.polls.last().is_some_and(|poll| poll.number_of_children == 2 && poll.id == CHILD)
    };
    root.until(&middle, &mut actors, "a poll with both agents", knows_both).await;
    let poll = root.script().polls.last().unwrap().clone();
    assert_eq!(poll.kind, Some(Kind::Rm));
    assert!(poll.geographic_area.is_some() && poll.rm_ids.len() == 2 && poll.rm_ids[1] == ROOT, "{poll:?}");

    root.offers(&middle, &mut actors, "waves").await;
    root.offers(&middle, &mut actors, "waves.r2").await;

    root.script().ends = vec![("global", "Canary"), ("global", "Half")];
    root.offers(&middle, &mut actors, "global").await;

    root.script().offer = Some("undone");
    look_until(&middle, "/api/v1/releases/undone", |now| now["state"] == "Running").await;
    root.script().hold = vec!["undone"];
    look_until(&middle, "/api/v1/releases/undone", |now| now["state"] == "Paused").await;
    let says_so = |script: &Script| script.polls.last().is_some_and(|poll| poll.held == ["undone"]);
    root.until(&middle, &mut actors, "a poll that says what it holds", says_so).await;
    root.script().hold.clear();
    root.offers(&middle, &mut actors, "undone").await;
    root.script().offer = Some("undone.r2");
    let taken = |script: &Script| script.offer.is_none();
    root.until(&middle, &mut actors, "the second wave", taken).await;
    {
        let mut script = root.script();
        (script.rolls_back, script.offer) = (Some("undone.r2"), Some("undone.undo"));
    }
    let undone = |script: &Script| !script.of("undone.undo").is_empty();
    root.until(&middle, &mut actors, "the end of the undo", undone).await;
    assert_eq!(root.script().of("undone.undo"), results_of("undone.undo"));
    let last = root.script().results.iter().rfind(|(of, _)| of == "undone.undo").unwrap().1.clone();
    assert_eq!(last["stage_summaries"][0]["unconfirmed"], 0, "{last}");
    let now = look_until(&middle, "/api/v1/releases/undone", |now| !now["ended"].is_null()).await;
    assert_eq!(now["unconfirmed"], 0, "{now:#}");
    assert!(!recorded().is_empty());
    middle.stop().await;
}
