//! Agents that take whole strategies, over HTTP and over restarts of the manager.

use serde_json::{Value, json};

use crate::world::{AREA, Answer, STAGE, World, strategy};

/// Two stages, of either type.
fn two_stages(id: &str) -> String {
    let text = strategy(id);
    let (head, rest) = text.split_once("stages:\n").unwrap();
    let (stage, tail) = rest.split_once("rollback:\n  action").unwrap();
    let first = stage.replace("onSuccess: rollout", "onSuccess: Second");
    let second = stage.replace(STAGE, "Second").replace("type: WaitForSignal", "type: A/B");
    format!("{head}stages:\n{first}{second}rollback:\n  action{tail}")
}

async fn poll(world: &World, id: &str, leads: &Value) -> Answer {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let body = json!({"id": id, "geographic_area": area, "number_of_children": 0, "kind": "agent",
        "capabilities": {"leads": leads}});
    world.post("/poll", &body).await
}

async fn offered(world: &World, id: &str) -> String {
    poll(world, id, &json!("whole")).await.ok().json()["new_release"].as_str().unwrap().to_owned()
}

/// One that is no ghost.
async fn own_agent(world: &World) -> String {
    let answer = poll(world, "", &json!("whole")).await.ok().json();
    let id = answer["id"].as_str().unwrap().to_owned();
    offered(world, &id).await;
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_goes_through_the_whole_strategy_whenever_the_manager_is_restarted() {
    let world = World::start().await;
    let (agent, deployed) = (own_agent(&world).await, world.child().await);
    world.submit(&two_stages("7")).await.ok();
    // Neither has acted: how they are led stands with the members.
    let world = world.restart().await;
    assert_eq!(offered(&world, &agent).await, "7");
    let text = world.fetch(&agent, "7").await.ok().text();
    let written = |line: &str| text.lines().filter(|written| written.trim() == line).count();
    assert_eq!(written("type: WaitForSignal"), 2, "it is held in stages of either type: {text}");
    assert_eq!([written("onSuccess: \"Second\""), written("onSuccess: rollout")], [1, 1], "{text}");
    for of_others in ["rollout:", "target:", "analysis"] {
        assert!(!text.lines().any(|line| line.starts_with(of_others)), "{text}");
    }
    let from_above: Vec<&str> = text.lines().filter(|line| line.starts_with("from_above")).collect();
    let alpha = 2.5e-3 * language::part_of_the(1);
    assert_eq!(
        from_above,
        [format!("from_above: {{local_alpha: {alpha:e}, salt: \"7\"}}")],
        "its part of alpha in the first attempt, by what users are drawn, and nothing of others: {text}"
    );
    assert!(!world.fetch(&deployed, "7").await.ok().text().contains("Second"), "one stage an offer");
    let ended = |answer: Answer| answer.ok().json();
    assert_eq!(ended(world.end_stage(&agent, "7", STAGE).await), json!({"end_stage": false}));
    world.report(&agent, "7", STAGE, 2).await.ok();
    let world = world.restart().await;
    assert_eq!(offered(&world, &agent).await, "");
    assert_eq!(ended(world.end_stage(&agent, "7", STAGE).await), json!({"end_stage": true}));
    world.report(&agent, "7", STAGE, 4).await.ok();
    let world = world.restart().await;
    assert_eq!(offered(&world, &agent).await, "", "it has the second stage in hand");
    assert_eq!(world.fetch(&agent, "7").await.ok().text(), text, "the same again");
    world.report(&agent, "7", "Second", 2).await.ok();
    world.report(&agent, "7", "Second", 4).await.ok();
    let shown = world.get("/api/v1/releases/7/children").await.ok().json();
    let part = shown["items"].as_array().unwrap().iter().find(|part| part["child"] == agent).unwrap();
    assert_eq!(part["outcome"], "succeeded", "{shown:#}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_end_stage_call_learns_of_rollback_at_once() {
    let world = World::start().await;
    let agent = own_agent(&world).await;
    world.submit(&two_stages("7")).await.ok();
    assert_eq!(offered(&world, &agent).await, "7");
    world.fetch(&agent, "7").await.ok();
    let body = json!({"id": agent, "strategy_id": "7", "stage_name": STAGE});
    let (answer, aborted) = tokio::join!(
        world.post("/end_stage?wait=60s", &body),
        world.call("POST", "/api/v1/releases/7/abort"),
    );
    aborted.ok();
    assert_eq!(answer.ok().json(), json!({"end_stage": true, "then": "rollback"}));
    // The late result is refused, and proves what it runs.
    assert_eq!(world.report(&agent, "7", STAGE, 5).await.status, 409);
    assert_eq!(offered(&world, &agent).await, "", "there is nothing left to undo");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_an_agent_leads_is_one_of_two_words() {
    let world = World::start().await;
    poll(&world, "", &json!("stepwise")).await.ok();
    for wrong in [json!("partly"), json!(1), json!(["whole"])] {
        let answer = poll(&world, "", &wrong).await;
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.text());
    }
    let named = poll(&world, "", &json!("partly")).await.text();
    assert!(named.contains("partly") && named.contains("whole"), "{named}");
    world.stop().await;
}
