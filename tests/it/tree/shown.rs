//! What the top of a tree shows of what is below: who holds a release and why, where agents are, what runs there.

use std::process::Command;

use serde_json::{Value, json};

use super::levels::{below, ended, manager_of, url};
use crate::world::{STAGE, World, strategy};

/// The manager below, once it stands for so many agents and answers questions.
async fn manager(world: &World, agents: u64) -> String {
    let id = manager_of(world, agents).await;
    let asked = format!("/api/v1/children?below={id}");
    world.until(&asked, |page| page["items"].is_array()).await;
    id
}

/// What a program prints.
fn run(args: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_choirmaster")).args(args).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// A root, a manager below it, and one below that with an agent; the ids of both at their parents, and the agent.
async fn three_levels() -> ([World; 3], String, String, String) {
    let root = World::start().await;
    let middle = below(&root).await;
    let lowest = below(&middle).await;
    let agent = lowest.child().await;
    let lowest_id = manager(&middle, 1).await;
    let middle_id = manager(&root, 1).await;
    ([root, middle, lowest], middle_id, lowest_id, agent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_holds_a_release_two_levels_below_and_why_is_shown_at_the_top() {
    let ([root, middle, lowest], middle_id, lowest_id, agent) = three_levels().await;
    root.submit(&(strategy("seen") + "rollout: {order: global_incremental}\n")).await.ok();
    lowest.until("/api/v1/releases/seen", |shown| shown["state"] == "Running").await;
    lowest.poll(&agent).await;
    lowest.fetch(&agent, "seen").await.ok();
    lowest
        .send_json("POST", "/api/v1/releases/seen/pause", &json!({"by": "cy", "note": "looking"}))
        .await
        .ok();
    let path = "/api/v1/releases/seen?below=true";
    let shown = root.until(path, |shown| shown["below"].as_array().map(Vec::len) == Some(2)).await;
    let parts = shown["below"].as_array().unwrap();
    let deep = format!("{middle_id}/{lowest_id}");
    assert_eq!((&parts[0]["manager"], &parts[0]["state"]), (&json!(middle_id), &json!("Running")));
    assert_eq!((&parts[1]["manager"], &parts[1]["state"]), (&json!(deep), &json!("Paused")));
    let waits_for = shown["waits_for"].as_str().unwrap();
    let held = format!("; {deep}: is paused (looking): resume or abort it");
    assert!(waits_for.ends_with(&held), "{waits_for}");
    assert_eq!(shown["stages"][0]["agents_below"], json!({"InProgress": 1}), "{shown:#}");
    // Unasked it says nothing of that.
    let plain = root.get("/api/v1/releases/seen").await.ok().json();
    assert!(plain.get("below").is_none() && plain["stages"][0].get("agents_below").is_none());

    // What is a type of the strategy above is where barriers stand below, and agents wait for a signal everywhere.
    for world in [&middle, &lowest] {
        let shown = world.get("/api/v1/releases/seen").await.ok().json();
        assert_eq!(shown["stages"][0]["kind"], "WaitForSignal", "{shown:#}");
    }

    let text = tokio::task::block_in_place(|| run(&["release", "show", "seen", "--url", &url(&root)]));
    assert!(text.contains(&held[2..]) && text.contains("1 InProgress below"), "{text}");
    for world in [lowest, middle, root] {
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_queued_below_says_so_at_the_top() {
    let root = World::start().await;
    let middle = below(&root).await;
    let agent = middle.child().await;
    let id = manager(&root, 1).await;
    middle.submit(&strategy("local")).await.ok();
    middle.poll(&agent).await;
    middle.fetch(&agent, "local").await.ok();
    root.submit(&strategy("behind")).await.ok();
    middle.until("/api/v1/releases/behind", |shown| shown["state"] == "Planned").await;
    let shown = root.get("/api/v1/releases/behind?below=true").await.ok().json();
    let waits_for = shown["waits_for"].as_str().unwrap();
    let held = format!("; {id}: waits behind release local, which changes the same functions");
    assert!(waits_for.ends_with(&held), "{waits_for}");
    middle.stop().await;
    // Nobody is there to say anything: that is said.
    let shown = root.get("/api/v1/releases/behind?below=true").await.ok().json();
    assert_eq!(shown["below"][0]["state"], Value::Null, "{shown:#}");
    assert!(shown["waits_for"].as_str().unwrap().contains(" was not heard: "), "{shown:#}");
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_and_deployments_of_the_whole_tree_are_listed_at_the_top() {
    let ([root, middle, lowest], middle_id, lowest_id, agent) = three_levels().await;
    root.submit(&strategy("runs")).await.ok();
    lowest.until("/api/v1/releases/runs", |shown| shown["state"] == "Running").await;
    lowest.poll(&agent).await;
    lowest.fetch(&agent, "runs").await.ok();
    lowest.report(&agent, "runs", STAGE, 5).await.ok();
    ended(&root, "runs").await;
    let deep = format!("{middle_id}/{lowest_id}");
    let children = root.get(&format!("/api/v1/children?below={deep}")).await.ok().json();
    assert_eq!(children["items"][0]["id"], agent, "{children:#}");
    let runs = root.get(&format!("/api/v1/deployments?below={deep}&function=sieve")).await.ok().json();
    assert_eq!((&runs["items"][0]["child"], &runs["items"][0]["variant"]), (&json!(agent), &json!("base")));
    assert_eq!(root.get("/api/v1/children?below=nobody").await.status, 404);
    assert_eq!(root.get(&format!("/api/v1/children?below={middle_id}/nobody")).await.status, 503);
    assert_eq!(root.get("/api/v1/children?below=a//b").await.status, 400);

    let at = url(&root);
    let listed = |args: &[&str]| -> Vec<Value> {
        let all = [args, &["--json", "--url", &at]].concat();
        serde_json::from_str(&tokio::task::block_in_place(|| run(&all))).unwrap()
    };
    let ids: Vec<Value> = listed(&["children", "list"]).iter().map(|child| child["id"].clone()).collect();
    assert_eq!(ids, [json!(middle_id), json!(deep), json!(format!("{deep}/{agent}"))]);
    assert_eq!(listed(&["children", "list", "--here"]).len(), 1);
    let runs = listed(&["deployments"]);
    assert!(runs.iter().any(|run| run["child"] == format!("{deep}/{agent}")), "{runs:#?}");
    for world in [lowest, middle, root] {
        world.stop().await;
    }
}

/// What is below a manager that is of another make is not known, and no reason to say nothing of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_that_answers_no_questions_is_named() {
    let root = World::start().await;
    let area: Value = serde_json::from_str(crate::world::AREA).unwrap();
    let old =
        json!({"id": "", "geographic_area": area, "number_of_children": 3, "kind": "rm", "rm_ids": ["a"]});
    let id = root.post("/poll", &old).await.ok().json()["id"].as_str().unwrap().to_owned();
    root.submit(&strategy("old")).await.ok();
    let shown = root.get("/api/v1/releases/old?below=true").await.ok().json();
    assert_eq!(shown["below"][0]["manager"], id, "{shown:#}");
    assert_eq!(shown["below"][0]["reason"], "it is a manager that answers no questions");
    let refused = root.get(&format!("/api/v1/children?below={id}")).await;
    assert_eq!(refused.status, 503);
    let program = Command::new(env!("CARGO_BIN_EXE_choirmaster"))
        .args(["children", "list", "--url", &url(&root)])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(program.stderr).unwrap(),
        format!(
            "{id} is not in the list: the manager below was asked, and it is a manager that answers no questions\n"
        )
    );
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_at_the_top_is_run_by_those_that_failed_below_and_counted_there() {
    let root = World::start().await;
    let middle = below(&root).await;
    let [good, bad] = [middle.child().await, middle.child().await];
    manager(&root, 2).await;
    root.submit(&(strategy("again") + "rollout: {max_failed: 1}\n")).await.ok();
    middle.until("/api/v1/releases/again", |shown| shown["state"] == "Running").await;
    for agent in [&good, &bad] {
        middle.poll(agent).await;
        middle.fetch(agent, "again").await.ok();
    }
    middle.report(&bad, "again", STAGE, 5).await.ok();
    rolls_out(&middle, &good, "again").await;
    assert_eq!(ended(&root, "again").await, "DoneWithFailures");
    let shown = root.get("/api/v1/releases/again").await.ok().json();
    assert_eq!((&shown["agents"]["succeeded"], &shown["agents"]["failed"]), (&json!(1), &json!(1)));
    let why = shown["why"]["text"].as_str().unwrap();
    assert!(why.contains(&format!(": {bad} failed in stage {STAGE} with fns/sieve_new (")), "{why}");
    assert_eq!((&shown["why"]["stage"], &shown["why"]["version"]), (&json!(STAGE), &json!("fns/sieve_new")));

    root.call("POST", "/api/v1/releases/again/retry").await.ok();
    middle.until("/api/v1/releases/again", |shown| shown["state"] == "Running").await;
    assert_eq!(middle.poll(&good).await.1, "", "it keeps what it has");
    let offer = middle.poll(&bad).await.1;
    assert_eq!(offer, "again.r2");
    middle.fetch(&bad, &offer).await.ok();
    rolls_out(&middle, &bad, &offer).await;
    let is_done = |shown: &Value| shown["state"] == "Done" && shown["agents"]["succeeded"] == 2;
    root.until("/api/v1/releases/again", is_done).await;
    let releases = middle.get("/api/v1/releases").await.ok().json();
    assert_eq!(releases["items"].as_array().unwrap().len(), 1, "{releases:#}");
    middle.stop().await;
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_below_is_counted_at_the_top() {
    let root = World::start().await;
    let middle = below(&root).await;
    let agent = middle.child().await;
    manager(&root, 1).await;
    root.submit(&(strategy("mended") + "rollout: {max_failed: 1}\n")).await.ok();
    middle.until("/api/v1/releases/mended", |shown| shown["state"] == "Running").await;
    middle.poll(&agent).await;
    middle.fetch(&agent, "mended").await.ok();
    middle.report(&agent, "mended", STAGE, 5).await.ok();
    assert_eq!(ended(&root, "mended").await, "DoneWithFailures");
    middle.call("POST", "/api/v1/releases/mended/retry").await.ok();
    let offer = middle.poll(&agent).await.1;
    middle.fetch(&agent, &offer).await.ok();
    rolls_out(&middle, &agent, &offer).await;
    let is_done = |shown: &Value| shown["state"] == "Done" && shown["agents"]["succeeded"] == 1;
    root.until("/api/v1/releases/mended", is_done).await;
    middle.stop().await;
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_in_the_middle_is_no_failure_above_and_says_who_and_why() {
    let root = World::start().await;
    let middle = below(&root).await;
    let agent = middle.child().await;
    manager(&root, 1).await;
    root.submit(&(strategy("cut") + "rollout: {max_failed: 0}\n")).await.ok();
    middle.until("/api/v1/releases/cut", |shown| shown["state"] == "Running").await;
    middle.poll(&agent).await;
    middle.fetch(&agent, "cut").await.ok();
    let note = json!({"by": "dee", "note": "the fair is on"});
    middle.send_json("POST", "/api/v1/releases/cut/abort", &note).await.ok();
    middle.end_stage(&agent, "cut", STAGE).await.ok();
    middle.report(&agent, "cut", STAGE, 4).await;
    let (_, undo) = middle.poll(&agent).await;
    if !undo.is_empty() {
        middle.fetch(&agent, &undo).await.ok();
        middle.report(&agent, &undo, "choirmaster undo", 4).await.ok();
    }
    assert_eq!(ended(&middle, "cut").await, "Aborted");
    assert_eq!(ended(&root, "cut").await, "DoneWithFailures", "it is not done everywhere");
    let shown = root.get("/api/v1/releases/cut").await.ok().json();
    assert_eq!(shown["agents"]["failed"], 0, "{shown:#}");
    assert_eq!(
        (&shown["why"]["cause"], &shown["why"]["note"]),
        (&json!("operator"), &json!("the fair is on"))
    );
    assert!(shown["why"]["by"].as_str().unwrap().contains("dee"), "{shown:#}");
    middle.stop().await;
    root.stop().await;
}

/// Through what is left of the canary, and the roll-out.
async fn rolls_out(world: &World, agent: &str, offer: &str) {
    world.report(agent, offer, STAGE, 2).await.ok();
    look_until_end(world, agent, offer).await;
    world.report(agent, offer, STAGE, 4).await.ok();
    let rollout = world.poll(agent).await.1;
    if !rollout.is_empty() {
        world.fetch(agent, &rollout).await.ok();
        world.report(agent, &rollout, "choirmaster rollout", 4).await.ok();
    }
}

/// The signal to end the stage.
async fn look_until_end(world: &World, agent: &str, offer: &str) {
    let ask = async {
        while world.end_stage(agent, offer, STAGE).await.ok().json()["end_stage"] != true {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::deadline::DEADLINE, ask).await.unwrap();
}
