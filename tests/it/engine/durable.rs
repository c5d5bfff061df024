//! The whole way of a release on an embedded store, and what a restart leaves of it.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use ab_releases::{DEFAULT_TENANT, Kind, Uuid};
use choirmaster::{
    app,
    app::{Manager, Options},
};
use domain::{
    children::{self, Poll},
    release::{
        command::{Command, Reply},
        lifecycle::{self, Adoption, Submission},
        members, rollout,
        state::Release,
    },
};
use engine::{By, EngineError, audit::Actor, json_columns, registering::Registration};
use http_api::context::PATIENCE;
use language::functions;
use model::{ReleaseId, StageStatus};
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};
use store::{
    StoreError,
    rows::{Batch, RegisteredRow},
};

use super::faulty::{self, first_poll, wait_until};
use crate::{store::place::Place, world::client};

pub const AREA: &str = r#"{"type":"Polygon","coordinates":[[[13.34,52.49],[13.47,52.49],[13.47,52.55],[13.34,52.55],[13.34,52.49]]]}"#;

pub async fn start(folder: &Path) -> Manager {
    let store = format!("sqlite://{}", folder.join("choir.db").display());
    app::start(Options::local(store, Path::new(env!("CARGO_MANIFEST_DIR")).to_owned())).await.unwrap()
}

/// A strategy as it is submitted, and its functions.
fn submission(text: &str) -> (Submission, functions::Archive) {
    let strategy = language::check(text).strategy.unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let archive = functions::from_folder(root, &strategy, &functions::Limits::default()).unwrap();
    let submitted = Submission {
        id: ReleaseId::parse(strategy.id.as_str()).unwrap(),
        strategy: Arc::new(strategy),
        text: text.into(),
        digest: [7; 32],
        archive: archive.digest,
        parent: None,
        deferred: false,
        adopts: None,
    };
    (submitted, archive)
}

pub async fn submit(manager: &Manager, text: &str) -> Reply {
    let (submitted, archive) = submission(text);
    let by = By { actor: Actor::Operator("test".to_owned()), note: None };
    manager.engine.submit(Box::new(submitted), archive.bytes, false, by, PATIENCE).await.unwrap()
}

pub async fn post(manager: &Manager, path: &str, body: Value) -> (u16, String) {
    let url = format!("http://{}{path}", manager.address);
    let answer = client().build().unwrap().post(url).json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

pub async fn get(manager: &Manager, path: &str) -> (u16, String) {
    let answer =
        client().build().unwrap().get(format!("http://{}{path}", manager.address)).send().await.unwrap();
    let status = answer.status().as_u16();
    (status, String::from_utf8_lossy(&answer.bytes().await.unwrap()).into_owned())
}

pub async fn poll(manager: &Manager, id: &str) -> (String, String) {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let body = json!({"id": id, "geographic_area": area, "number_of_children": 0});
    let (status, text) = post(manager, "/poll", body).await;
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    (answer["id"].as_str().unwrap().to_owned(), answer["new_release"].as_str().unwrap().to_owned())
}

pub fn summary(stage: &str, status: u8) -> Value {
    let times = json!({"median": 8.5, "minimum": 6.7, "maximum": 10.4});
    json!({"stage_name": stage, "proxy_times": times, "f1_times_summary": times, "f2_times_summary": times,
        "f1_err_rate": 0, "f2_err_rate": 0, "status": status})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_goes_on_after_a_restart_where_it_stood() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("releases/canary.yml")).unwrap();
    let stage = language::check(&text).strategy.unwrap().stages[0].name.clone();
    let manager = start(folder.path()).await;
    let (child, none) = poll(&manager, "").await;
    assert_eq!(none, "");
    poll(&manager, &child).await;
    assert!(matches!(submit(&manager, &text).await, Reply::Submitted { created: true, .. }));
    assert_eq!(poll(&manager, &child).await.1, "canary");
    let (status, offer) = get(&manager, &format!("/release?childID={child}&releaseID=canary")).await;
    assert_eq!(status, 200, "{offer}");
    manager.stop().await.unwrap();

    let manager = start(folder.path()).await;
    let again = get(&manager, &format!("/release?childID={child}&releaseID=canary")).await;
    assert_eq!(again, (200, offer.clone()));
    let (status, zip) = get(&manager, "/release/functions/canary").await;
    assert_eq!(status, 200);
    assert!(zip.starts_with("PK"));
    let ask = json!({"id": child, "strategy_id": "canary", "stage_name": stage});
    assert_eq!(post(&manager, "/end_stage", ask.clone()).await, (200, "{\"end_stage\":false}\n".to_owned()));
    let waiting = json!({"id": child, "release_id": "canary", "stage_summaries": [summary(&stage, 2)], "next_stage": ""});
    assert_eq!(post(&manager, "/result", waiting.clone()).await, (200, String::new()));
    assert_eq!(post(&manager, "/result", waiting).await, (200, String::new()));
    manager.stop().await.unwrap();

    let manager = start(folder.path()).await;
    // What was handed out before is handed out again to the letter, now from the store.
    let again = get(&manager, &format!("/release?childID={child}&releaseID=canary")).await;
    assert_eq!(again, (200, offer));
    assert_eq!(post(&manager, "/end_stage", ask.clone()).await, (200, "{\"end_stage\":true}\n".to_owned()));
    let done = json!({"id": child, "release_id": "canary", "stage_summaries": [summary(&stage, 4)], "next_stage": ""});
    assert_eq!(post(&manager, "/result", done.clone()).await, (200, String::new()));
    assert_eq!(poll(&manager, &child).await.1, "canary.rollout");
    let (status, text) = get(&manager, &format!("/release?childID={child}&releaseID=canary.rollout")).await;
    assert_eq!(status, 200, "{text}");
    let rolled = summary("choirmaster rollout", 4);
    let rolled =
        json!({"id": child, "release_id": "canary.rollout", "stage_summaries": [rolled], "next_stage": ""});
    assert_eq!(post(&manager, "/result", rolled).await, (200, String::new()));
    // Over, out of memory: repeats are answered from the store.
    assert_eq!(post(&manager, "/result", done.clone()).await, (200, String::new()));
    assert_eq!(post(&manager, "/end_stage", ask.clone()).await, (200, "{\"end_stage\":true}\n".to_owned()));
    manager.stop().await.unwrap();

    let manager = start(folder.path()).await;
    assert_eq!(post(&manager, "/result", done).await, (200, String::new()));
    let other = json!({"id": child, "release_id": "canary", "stage_summaries": [summary(&stage, 5)], "next_stage": ""});
    assert_eq!(post(&manager, "/result", other).await.0, 409);
    assert_eq!(post(&manager, "/end_stage", ask).await, (200, "{\"end_stage\":true}\n".to_owned()));
    assert_eq!(poll(&manager, &child).await, (child.clone(), String::new()));
    manager.stop().await.unwrap();
}

/// What is in memory of the releases; the bound of the next deadline is found anew.
async fn releases(manager: &Manager) -> Vec<Release> {
    let all = manager.engine.read(PATIENCE, |state| state.releases.values().cloned().collect::<Vec<_>>());
    let blank = |release| Release { next_deadline: 0, ..release };
    all.await.unwrap().into_iter().map(blank).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waves_barriers_and_approvals_are_after_a_restart_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "{}\nrollout: {{order: waves, waves: [1, 2, 100%], approval: before_rollout, max_failed: 50%}}\n",
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("releases/canary.yml")).unwrap()
    );
    let stage = language::check(&text).strategy.unwrap().stages[0].name.clone();
    let mut manager = start(folder.path()).await;
    let mut children = Vec::new();
    for _ in 0..4 {
        let child = poll(&manager, "").await.0;
        poll(&manager, &child).await;
        children.push(child);
    }
    submit(&manager, &text).await;
    let by = || By { actor: Actor::Operator("test".to_owned()), note: None };
    let approve = || Command::Rollout(rollout::Command::Approve { release: "canary".to_owned() });
    // One fails, the next goes on to its roll-out; the last two have not had their turn.
    for (place, child) in children[..2].iter().enumerate() {
        assert_eq!(poll(&manager, child).await.1, "canary");
        get(&manager, &format!("/release?childID={child}&releaseID=canary")).await;
        let status = if place == 0 { 5 } else { 2 };
        let body = json!({"id": child, "release_id": "canary", "stage_summaries": [summary(&stage, status)], "next_stage": ""});
        assert_eq!(post(&manager, "/result", body).await.0, 200);
        let before = releases(&manager).await;
        manager.stop().await.unwrap();
        manager = start(folder.path()).await;
        assert_eq!(before, releases(&manager).await);
        if place == 0 {
            // Nobody has proven the first wave: somebody has to say that it goes on all the same.
            let resume = Command::Lifecycle(lifecycle::Command::Resume { release: "canary".to_owned() });
            manager.engine.call(resume, by(), PATIENCE).await.unwrap();
        }
    }
    let ask = json!({"id": children[1], "strategy_id": "canary", "stage_name": stage});
    assert_eq!(post(&manager, "/end_stage", ask.clone()).await, (200, "{\"end_stage\":false}\n".to_owned()));
    assert_eq!(poll(&manager, &children[2]).await.1, "");
    manager.engine.call(approve(), by(), PATIENCE).await.unwrap();
    let before = releases(&manager).await;
    manager.stop().await.unwrap();
    let manager = start(folder.path()).await;
    assert_eq!(before, releases(&manager).await);
    assert_eq!(post(&manager, "/end_stage", ask).await, (200, "{\"end_stage\":true}\n".to_owned()));
    manager.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_a_child_that_was_forgotten_is_not_given_again() {
    let folder = tempfile::tempdir().unwrap();
    let manager = start(folder.path()).await;
    let forgotten = poll(&manager, "").await.0;
    let key = manager.engine.view().children.get(&forgotten).unwrap().key;
    let by = By { actor: Actor::Operator("test".to_owned()), note: None };
    let forget = Command::Children(children::Command::Forget { child: forgotten, even_if_it_owes: true });
    manager.engine.call(forget, by, PATIENCE).await.unwrap();
    manager.stop().await.unwrap();
    let manager = start(folder.path()).await;
    let newcomer = poll(&manager, "").await.0;
    assert!(manager.engine.view().children.get(&newcomer).unwrap().key > key);
    manager.stop().await.unwrap();
}

/// Where an agent has come back under a new id, nobody is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_was_replaced_does_not_count_as_a_silent_child() {
    let folder = tempfile::tempdir().unwrap();
    let manager = start(folder.path()).await;
    let mut keys = Vec::new();
    for _ in 0..3 {
        let (child, _) = poll(&manager, "").await;
        poll(&manager, &child).await;
        keys.push((manager.engine.view().children.get(&child).unwrap().key.0, child));
    }
    manager.stop().await.unwrap();
    let address = format!("sqlite://{}", folder.path().join("choir.db").display());
    let mut store = SqliteConnection::connect(&address).await.unwrap();
    let replaced =
        "UPDATE children SET detail = json_set(detail, '$.replaced', json_object('by', $1, 'at', 0))
        WHERE child_key = $2";
    sqlx::query(replaced).bind(keys[1].0).bind(keys[0].0).execute(&mut store).await.unwrap();
    store.close().await.unwrap();

    let manager = start(folder.path()).await;
    let minute = 60_000;
    let later = manager.engine.clock().served_ms() + 10 * minute;
    assert_eq!(manager.engine.view().children.silent(later, 5 * minute), 2);
    let listed = async || {
        let (status, text) = get(&manager, "/api/v1/children").await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()["items"].as_array().unwrap().len()
    };
    assert_eq!(listed().await, 2, "and it is in no list");
    // It calls again after all, and is somebody.
    poll(&manager, &keys[0].1).await;
    let later = manager.engine.clock().served_ms() + 10 * minute;
    assert_eq!(manager.engine.view().children.silent(later, 5 * minute), 3);
    assert_eq!(listed().await, 3);
    manager.stop().await.unwrap();
}

/// The row of the registered Release `shop`, as it is with this version.
fn registered(version: u32) -> RegisteredRow {
    let (tenant, kind, name) = (DEFAULT_TENANT.to_owned(), "release".to_owned(), "shop".to_owned());
    let id = Uuid::of(Kind::RegisteredRelease, &[&tenant, &name]).to_string();
    let detail = format!(r#"{{"version":{version}}}"#);
    RegisteredRow { tenant, kind, name, id, detail, at_ms: 1, actor: None, removed_ms: None }
}

/// A child ends a stage well.
fn ended(offer: &str, stage: &str) -> Command {
    let report = json_columns::received(crate::releases::summary(stage, StageStatus::Completed)).unwrap();
    let (child, offer) = ("child".to_owned(), offer.to_owned());
    Command::Members(members::Command::Result { child, offer, reports: vec![report] })
}

type Error = fn() -> StoreError;

/// What is the matter with a store that is to register something, and how often it said so.
type Matter = Arc<(Mutex<Option<Error>>, AtomicUsize)>;

async fn what_is_adopted_stands_there_with_the_end_or_not_at_all(place: &Place) {
    let matter = Matter::default();
    let is_the_matter = Arc::clone(&matter);
    let fault = move |batch: Option<&Batch>| {
        let registers = batch.is_some_and(|batch| !batch.writes.registered.is_empty());
        let error = is_the_matter.0.lock().unwrap().filter(|_| registers)?;
        is_the_matter.1.fetch_add(1, Ordering::Relaxed);
        Some(error())
    };
    let started = faulty::start_at(&place.url, fault).await;
    let engine = started.engine;
    let ops = || By { actor: Actor::Operator("ops".to_owned()), note: None };
    let register = async |version: u32| {
        engine.register(Kind::RegisteredRelease, registered(version), ops(), PATIENCE).await.unwrap()
    };
    let tell = async |command: Command| engine.call(command, By::CHILD, PATIENCE).await;
    let stands = async || {
        let release = engine.reader().release("canary").await.unwrap().unwrap();
        let row = engine.reader().registered_one(&registered(1).id).await.unwrap().unwrap();
        (release.state, row.detail)
    };

    let poll = first_poll("child");
    let known = Poll { child: Some(poll.fresh.clone()), ..poll.clone() };
    for poll in [poll, known.clone()] {
        tell(Command::Children(children::Command::Poll(poll))).await.unwrap();
    }
    assert_eq!(register(1).await, Registration::Stored);
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("releases/canary.yml")).unwrap();
    let (mut submitted, archive) = submission(&text);
    let stage = submitted.strategy.stages[0].name.clone();
    let RegisteredRow { kind, name, id, detail, .. } = registered(2);
    submitted.adopts = Some(Arc::new(Adoption { kind, name, id, detail }));
    engine.submit(Box::new(submitted), archive.bytes, false, ops(), PATIENCE).await.unwrap();
    for offer in ["canary", "canary.rollout"] {
        tell(Command::Children(children::Command::Poll(known.clone()))).await.unwrap();
        let (child, offer) = ("child".to_owned(), offer.to_owned());
        tell(Command::Members(members::Command::Fetch { child, offer: offer.clone() })).await.unwrap();
        if offer == "canary" {
            tell(ended(&offer, &stage)).await.unwrap();
        }
    }
    let in_use = Registration::InUse(ReleaseId::parse("canary").unwrap());
    assert_eq!(register(3).await, in_use, "what it adopts can't be stale");
    let before = ("Running".to_owned(), registered(1).detail);
    assert_eq!(stands().await, before);

    let last = || ended("canary.rollout", "choirmaster rollout");
    // Refused for good: the state is what the store has again, with what is to be adopted.
    *matter.0.lock().unwrap() = Some(|| StoreError::Refused("of the test".to_owned()));
    let refused = tell(last()).await;
    assert!(matches!(refused, Err(EngineError::Failed)), "{refused:?}");
    assert_eq!(stands().await, before);
    // Not there for a while: the same commit is tried again.
    *matter.0.lock().unwrap() = Some(|| StoreError::Unavailable("of the test".to_owned()));
    matter.1.store(0, Ordering::Relaxed);
    let call = tokio::spawn({
        let (engine, last) = (engine.clone(), last());
        async move { engine.call(last, By::CHILD, PATIENCE).await }
    });
    wait_until(|| matter.1.load(Ordering::Relaxed) > 1).await;
    assert_eq!(stands().await, before);
    *matter.0.lock().unwrap() = None;
    call.await.unwrap().unwrap();
    assert_eq!(stands().await, ("Done".to_owned(), registered(2).detail));
    // It is over: others may change what it has adopted, and what comes late adopts nothing again.
    assert_eq!(register(3).await, Registration::Stored);
    tell(last()).await.unwrap();
    assert_eq!(stands().await, ("Done".to_owned(), registered(3).detail));
    engine.stop().await;
    started.task.await.unwrap().unwrap();
}

crate::store::place::stories!(what_is_adopted_stands_there_with_the_end_or_not_at_all);
