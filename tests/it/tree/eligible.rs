//! Plans over managers count what can really take part.

use serde_json::{Value, json};

use super::{
    levels::{below, ended},
    questions::{self, agent, asked_of, played},
};
use crate::world::{AREA, World, strategy};

const ELSEWHERE: &str =
    r#"{"type":"Polygon","coordinates":[[[-0.2,51.4],[0.1,51.4],[0.1,51.6],[-0.2,51.6],[-0.2,51.4]]]}"#;

async fn plan(world: &World, text: &str) -> Value {
    let request =
        world.request("POST", "/api/v1/plan?children=all").header("content-type", "application/yaml");
    world.send(request.body(text.to_owned())).await.ok().json()
}

/// In the same manager one lies right and another has the runtime, but nobody both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wave_skips_manager_without_fully_matching_agent() {
    let root = World::start().await;
    let middle = below(&root).await;
    agent(&middle, AREA, "edge", "python").await;
    agent(&middle, ELSEWHERE, "edge", "nodejs").await;
    asked_of(&root, 2).await;
    let (first, second) = (root.child().await, root.child().await);
    let text = strategy("forty")
        + &format!("target:\n  area: {AREA}\nrollout:\n  order: waves\n  waves: [1, 100%]\n");
    let planned = plan(&root, &text).await;
    assert_eq!(planned["participants"]["agents"], 2, "{planned}");
    assert_eq!(planned["excluded"][0]["reason"], "nobody below can take part", "{planned}");
    assert_eq!(planned.get("not_asked"), None, "{planned}");

    root.submit(&text).await.ok();
    root.until("/api/v1/releases/forty", |shown| shown["state"] == "Running").await;
    assert_eq!(root.poll(&first).await.1, "forty", "the first wave is somebody who can");
    assert_eq!(root.poll(&second).await.1, "");
    let shown = root.get("/api/v1/releases/forty").await.ok().json();
    assert_eq!(shown["excluded"], json!({"none of its agents can take part": 1}), "{shown}");
    middle.stop().await;
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_work_through_managers() {
    let root = World::start().await;
    let middle = below(&root).await;
    agent(&middle, AREA, "cloud", "nodejs").await;
    agent(&middle, AREA, "edge", "nodejs").await;
    asked_of(&root, 2).await;
    let labels = "target:\n  labels: {tier: edge}\n";
    let planned = plan(&root, &(strategy("fortyone") + labels)).await;
    assert_eq!(planned["participants"]["agents"], 1, "{planned}");
    root.submit(&(strategy("fortyone") + labels)).await.ok();
    let shown = middle.until("/api/v1/releases/fortyone", |shown| shown["state"] == "Running").await;
    assert_eq!(shown["counts"]["participants"], 1, "{shown}");
    middle.stop().await;
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_answer_is_planned_with_at_most_what_it_said_and_named() {
    let root = World::start().await;
    let (mute, _) = played(&root, &["questions"]).await;
    let (old, _) = played(&root, &[]).await;
    let planned = plan(&root, &strategy("fortytwo")).await;
    assert_eq!(planned["participants"]["agents"], 10, "{planned}");
    let mut named: Vec<&str> =
        planned["not_asked"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    named.sort_unstable();
    let mut both = [mute.as_str(), old.as_str()];
    both.sort_unstable();
    assert_eq!(named, both);
    root.submit(&strategy("fortytwo")).await.ok();
    root.until("/api/v1/releases/fortytwo", |shown| shown["state"] == "Running").await;
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_without_any_participant_is_distinct_and_can_be_repeated() {
    let root = World::start().await;
    let middle = below(&root).await;
    agent(&middle, AREA, "edge", "python").await;
    asked_of(&root, 1).await;
    let text = strategy("fortythree");
    assert_eq!(root.submit(&text).await.status, 201);
    assert_eq!(ended(&root, "fortythree").await, "NoParticipants");
    let root = root.restart().await;
    assert_eq!(
        root.get("/api/v1/releases?state=NoParticipants").await.ok().json()["items"][0]["id"],
        "fortythree"
    );
    // With nobody there it ends the same way again; with somebody it does what it says.
    assert_eq!(root.submit(&text).await.status, 201);
    assert_eq!(ended(&root, "fortythree").await, "NoParticipants");
    let child = root.child().await;
    assert_eq!(root.submit(&text).await.status, 201);
    root.until("/api/v1/releases/fortythree", |shown| shown["state"] == "Running").await;
    let offer = root.poll(&child).await.1;
    assert_eq!(offer, "fortythree");
    assert_eq!(root.submit(&text).await.status, 200, "it runs already");
    root.stop().await;
    middle.stop().await;
}

/// A manager played by the test that answers whatever it is asked with these numbers.
fn answers(world: &World, id: &str, live: u32, silent: u32) -> tokio::task::JoinHandle<()> {
    let poll =
        |world: &World| world.request("POST", "/poll?wait=2s").json(&questions::poll(id, &["questions"]));
    let (poll, id) = (poll(world), id.to_owned());
    let answers = world.request("POST", "/answers");
    tokio::spawn(async move {
        loop {
            let Ok(polled) = poll.try_clone().unwrap().send().await else { return };
            let polled: Value = polled.json().await.unwrap_or_default();
            for question in polled["questions"].as_array().into_iter().flatten() {
                let answer = json!({"id": question["id"], "body": {"live": live, "silent": silent}});
                let said = answers.try_clone().unwrap().json(&json!({"id": id, "answers": [answer]}));
                let _ = said.send().await;
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_to_others_at_a_later_wave_survives_a_restart() {
    let root = World::start().await;
    let (one, _) = played(&root, &["questions"]).await;
    let (two, _) = played(&root, &["questions"]).await;
    let (first, second) = (answers(&root, &one, 5, 0), answers(&root, &two, 5, 0));
    let text = strategy("w") + "rollout:\n  order: waves\n  waves: [2, 5, 100%]\n";
    root.submit(&text).await.ok();
    root.until("/api/v1/releases/w", |shown| shown["state"] == "Running").await;
    let handed = root.fetch(&one, "w").await.ok().text();
    assert!(handed.contains("waves: [2, 100%]"), "{handed}");

    // Two of its agents are gone when the next wave opens: the other manager has their places.
    first.abort();
    let first = answers(&root, &one, 3, 2);
    let mut done = crate::world::summary(crate::world::STAGE, 4);
    (done["participants"], done["succeeded"]) = (json!(5), json!(2));
    root.post("/result", &json!({"id": one, "release_id": "w", "stage_summaries": [done]})).await.ok();
    let has_turn = |children: &Value| {
        let children = children["items"].as_array().unwrap();
        children.iter().all(|child| !child["waits_for"].as_str().unwrap_or_default().contains("has its turn"))
    };
    root.until("/api/v1/releases/w/children", has_turn).await;
    first.abort();
    second.abort();
    let root = root.restart().await;
    let handed = root.fetch(&two, "w").await.ok().text();
    assert!(handed.contains("waves: [2, 100%]"), "{handed}");
    let handed = root.fetch(&one, "w.r2").await.ok().text();
    assert!(handed.contains("waves: [2, 3, 100%]") && handed.contains("waves: 2"), "{handed}");
    root.stop().await;
}
