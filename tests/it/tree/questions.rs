//! What a manager asks those below it, over HTTP and over levels.

use std::time::Duration;

use domain::{plan::Needs, release::liveness_check::SilenceLimits};
use engine::questions::{
    PATIENCE, Unanswered, ask,
    eligible::{Able, Eligible, EligibleWanted},
};
use model::ChildKey;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    levels::{below, manager_of, url},
    plain::PlainParent,
};
use crate::world::{AREA, Answer, World};

/// Nobody is silent for so long here.
const NEVER_MS: u64 = 3_600_000;

fn wanted(rest: &str, after_ms: u64) -> EligibleWanted {
    let checked = language::check(&(crate::world::strategy("asked") + rest));
    EligibleWanted { needs: Needs::of(&checked.strategy.unwrap()), limits: SilenceLimits { after_ms } }
}

/// The manager below, once it stands for so many agents and is known to answer.
pub async fn asked_of(world: &World, agents: u64) -> ChildKey {
    let id = manager_of(world, agents).await;
    let began = Instant::now();
    loop {
        let entry = world.manager.engine.view().children.get(&id).unwrap();
        if entry.profile.as_ref().is_some_and(|profile| profile.capabilities.has("questions")) {
            return entry.key;
        }
        assert!(began.elapsed() < crate::deadline::DEADLINE, "{entry:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn able(world: &World, child: ChildKey, wanted: &EligibleWanted) -> Result<Able, Unanswered> {
    ask::<Eligible>(&world.manager.engine, child, wanted, PATIENCE).await
}

/// An agent with labels and runtimes.
pub async fn agent(world: &World, area: &str, tier: &str, runtime: &str) {
    let area: Value = serde_json::from_str(area).unwrap();
    let mut body = json!({"id": "", "geographic_area": area, "number_of_children": 0, "kind": "agent",
        "capabilities": {"runtimes": [runtime], "labels": {"tier": tier}}});
    let id = world.post("/poll", &body).await.ok().json()["id"].clone();
    body["id"] = id;
    world.post("/poll", &body).await.ok();
}

/// Far away from [`AREA`].
const ELSEWHERE: &str =
    r#"{"type":"Polygon","coordinates":[[[-0.2,51.4],[0.1,51.4],[0.1,51.6],[-0.2,51.6],[-0.2,51.4]]]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_below_says_how_many_fit_as_a_whole() {
    let root = World::start().await;
    let middle = below(&root).await;
    agent(&middle, AREA, "edge", "nodejs").await;
    agent(&middle, AREA, "cloud", "nodejs").await;
    agent(&middle, AREA, "edge", "python").await;
    agent(&middle, ELSEWHERE, "edge", "nodejs").await;
    let key = asked_of(&root, 4).await;
    let berlin = format!("target:\n  area: {AREA}\n  labels: {{tier: edge}}\n");
    let said = able(&root, key, &wanted(&berlin, NEVER_MS)).await.unwrap();
    assert_eq!((said.live, said.silent, said.not_asked), (1, 0, 0), "{said:?}");
    let excluded: Vec<u32> = said.excluded.values().copied().collect();
    assert_eq!((excluded.iter().sum::<u32>(), excluded.len()), (3, 3), "{said:?}");
    // Without a target only the runtime counts, and who never calls again is silent at once.
    let said = able(&root, key, &wanted("", 0)).await.unwrap();
    assert_eq!((said.live, said.silent), (0, 3), "{said:?}");
    middle.stop().await;
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_asks_its_managers_before_it_answers() {
    let root = World::start().await;
    let middle = below(&root).await;
    let lowest = below(&middle).await;
    agent(&middle, AREA, "edge", "nodejs").await;
    agent(&lowest, AREA, "edge", "nodejs").await;
    agent(&lowest, AREA, "edge", "python").await;
    asked_of(&middle, 2).await;
    let key = asked_of(&root, 3).await;
    let said = able(&root, key, &wanted("", NEVER_MS)).await.unwrap();
    assert_eq!((said.live, said.silent, said.not_asked), (2, 0, 0), "{said:?}");
    lowest.stop().await;
    middle.stop().await;
    root.stop().await;
}

/// The poll of a manager that is played by the test.
pub fn poll(id: &str, features: &[&str]) -> Value {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let mut body =
        json!({"id": id, "geographic_area": area, "number_of_children": 5, "kind": "rm", "rm_ids": ["a"]});
    if !features.is_empty() {
        body["capabilities"] = json!({"features": features});
    }
    body
}

/// A manager that is played by the test, and its number.
pub async fn played(world: &World, features: &[&str]) -> (String, ChildKey) {
    let first = world.post("/poll", &poll("", features)).await.ok().json();
    assert!(first["features"].as_array().unwrap().contains(&json!("questions")), "{first}");
    let id = first["id"].as_str().unwrap().to_owned();
    world.post("/poll", &poll(&id, features)).await.ok();
    let key = world.manager.engine.view().children.get(&id).unwrap().key;
    (id, key)
}

/// Its next question, by a poll that waits.
async fn question(world: &World, id: &str) -> Value {
    let answer = world.post("/poll?wait=20s", &poll(id, &["questions"])).await.ok().json();
    answer["questions"][0].clone()
}

async fn answers(world: &World, id: &str, answers: &Value) -> Answer {
    world.post("/answers", &json!({"id": id, "answers": answers})).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unanswered_question_waits_two_seconds_and_assumes_declared_agent_count() {
    let root = World::start().await;
    let middle = below(&root).await;
    agent(&middle, AREA, "edge", "nodejs").await;
    let (silent, key) = played(&middle, &["questions"]).await;
    let of_middle = asked_of(&root, 6).await;
    let began = Instant::now();
    // Handed over, handed over once more, and never answered.
    let taken = {
        let world = middle.request("POST", "/poll?wait=20s").json(&poll(&silent, &["questions"]));
        tokio::spawn(async move { world.send().await.unwrap().json::<Value>().await.unwrap() })
    };
    let said = able(&root, of_middle, &wanted("", NEVER_MS)).await.unwrap();
    assert_eq!((said.live, said.silent, said.not_asked), (1, 0, 5), "{said:?}");
    assert_eq!(said.unheard, std::slice::from_ref(&silent), "{said:?}");
    // The manager in between keeps a part of the time for its answer.
    assert!(began.elapsed() > PATIENCE / 2, "{:?}", began.elapsed());
    let taken = taken.await.unwrap();
    assert_eq!(taken["questions"][0]["kind"], "eligible", "{taken}");
    // Nobody waits for it any more.
    let late = json!([{"id": taken["questions"][0]["id"], "body": {"live": 5}}]);
    assert_eq!(answers(&middle, &silent, &late).await.status, 404);
    let direct = able(&middle, key, &wanted("", NEVER_MS)).await;
    assert_eq!(direct, Err(Unanswered::Late));
    assert_eq!(middle.manager.engine.view().questions.count(), 0, "nothing is left behind");
    middle.stop().await;
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_manager_is_asked_nothing_and_a_plain_parent_is_told_nothing_new() {
    let root = World::start().await;
    let (old, key) = played(&root, &[]).await;
    assert_eq!(able(&root, key, &wanted("", NEVER_MS)).await, Err(Unanswered::Unable));
    let answer = root.post("/poll", &poll(&old, &[])).await.ok().json();
    assert_eq!(answer.get("questions"), None, "{answer}");
    root.stop().await;

    let parent = PlainParent::start().await;
    let middle = super::levels::below_url(parent.url()).await;
    agent(&middle, AREA, "edge", "nodejs").await;
    let began = Instant::now();
    while parent.script().polls.len() < 5 {
        assert!(began.elapsed() < crate::deadline::DEADLINE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told: Vec<String> = parent.script().polls.iter().map(ToString::to_string).collect();
    assert!(told.iter().all(|poll| !poll.contains("features") && !poll.contains("labels_below")), "{told:?}");
    assert!(!parent.script().paths.iter().any(|path| path.starts_with("/answers")));
    middle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_and_answers_of_others_are_not_believed() {
    let root = World::start().await;
    let ((asked, key), (other, _)) =
        (played(&root, &["questions"]).await, played(&root, &["questions"]).await);
    let say = async |by: &str, body: Value| {
        let engine = root.manager.engine.clone();
        let asking =
            tokio::spawn(async move { ask::<Eligible>(&engine, key, &wanted("", NEVER_MS), PATIENCE).await });
        let id = question(&root, &asked).await["id"].clone();
        let mut answer = body;
        answer["id"] = id;
        let status = answers(&root, by, &json!([answer])).await.status;
        (status, asking.await.unwrap())
    };
    let (status, said) = say(&asked, json!({"body": {"live": "many"}})).await;
    assert!(matches!((status, &said), (200, Err(Unanswered::Nonsense(_)))), "{status} {said:?}");
    let (status, said) = say(&asked, json!({"error": "not today"})).await;
    assert_eq!((status, said), (200, Err(Unanswered::Refused("not today".to_owned()))));
    let (status, said) = say(&other, json!({"body": {"live": 5}})).await;
    assert_eq!((status, said), (404, Err(Unanswered::Late)), "another child was asked");
    let (status, said) = say(&asked, json!({"body": {"live": 5, "of_a_later_version": 1}})).await;
    assert_eq!((status, said.unwrap().live), (200, 5), "unknown fields are passed over");

    // Malformed, unknown and too large.
    for body in [json!([]), json!({}), json!({"id": asked}), json!({"id": asked, "answers": []})] {
        assert_eq!(root.post("/answers", &body).await.status, 400, "{body}");
    }
    let many: Vec<Value> = (0..17).map(|n| json!({"id": n.to_string(), "body": 1})).collect();
    assert_eq!(answers(&root, &asked, &json!(many)).await.status, 400);
    assert_eq!(answers(&root, "nobody", &json!([{"id": "x", "body": 1}])).await.status, 404);
    let large = json!([{"id": "x", "body": "x".repeat(2 * 1024 * 1024)}]);
    assert_eq!(answers(&root, &asked, &large).await.status, 413);
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_of_an_unknown_kind_and_bad_targets_are_refused_by_name() {
    let root = World::start().await;
    let middle = below(&root).await;
    agent(&middle, AREA, "edge", "nodejs").await;
    asked_of(&root, 1).await;
    let answer = async |kind: &str, body: &Value| {
        engine::questions::answer(&middle.manager.engine, kind, &body.to_string(), PATIENCE).await
    };
    let unknown = answer("weather", &json!({})).await.unwrap_err();
    assert!(unknown.contains("weather"), "{unknown}");
    let bow_tie = json!([[[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]]);
    let asked = |area: Value| json!({"silent_after_ms": 1, "needs": {"runtimes": [["a", "b"]], "target": {"area": area, "partial": "refuse"}}});
    let refused = answer("eligible", &asked(bow_tie)).await;
    assert!(refused.is_err(), "{refused:?}");
    let square = json!([[[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]]);
    assert!(answer("eligible", &asked(square)).await.is_ok());
    assert!(answer("eligible", &json!({"silent_after_ms": 1, "needs": {"runtimes": []}})).await.is_err());
    assert!(url(&root).starts_with("http"));
    middle.stop().await;
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_of_children_are_known_above() {
    let root = World::start().await;
    let middle = below(&root).await;
    agent(&middle, AREA, "edge", "nodejs").await;
    let key = asked_of(&root, 1).await;
    let began = Instant::now();
    loop {
        let entry = root.manager.engine.view().children.entry(key).unwrap();
        let below = entry.profile.as_ref().unwrap().capabilities.labels_below.clone();
        if below.as_ref().is_some_and(|below| below["tier"].contains("edge")) {
            break;
        }
        assert!(began.elapsed() < crate::deadline::DEADLINE, "{entry:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Who lacks it below takes no part, and who has it below does.
    let plan = async |tier: &str| {
        let text = crate::world::strategy("planned") + &format!("target:\n  labels: {{tier: {tier}}}\n");
        let request = root.request("POST", "/api/v1/plan").header("content-type", "application/yaml");
        root.send(request.body(text)).await.ok().json()
    };
    assert_eq!(plan("edge").await["participants"]["children"], 1);
    let cloud = plan("cloud").await;
    assert_eq!(cloud["participants"]["children"], 0, "{cloud}");
    assert_eq!(cloud["excluded"][0]["reason"], "label tier is not cloud", "{cloud}");
    middle.stop().await;
    root.stop().await;
}
