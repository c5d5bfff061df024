//! A manager with a release in each state that can be come to by hand.

use serde_json::{Value, json};

use tokio::time::{sleep, timeout};

use crate::{
    deadline::DEADLINE,
    tree::{LOOK, measured},
    world::{AREA, STAGE, World, strategy, summary},
};

/// The canary sample of a function of its own, with lines beside: releases of other functions don't wait for it.
pub fn of_function(id: &str, function: &str, beside: &str) -> String {
    let text = strategy(id).replace("name: sieve", &format!("name: {function}"));
    format!("{}\n{beside}\n", text.replace("func_name: sieve", &format!("func_name: {function}")))
}

/// A roll-out over waves for a test whose agents call only where it has them call: these are not taken for silent, however long a
/// browser takes.
pub fn over_waves(rest: &str) -> String {
    format!("rollout: {{order: waves, silent_after: 1h, {rest}}}\n")
}

/// The canary sample with so many stages, one after another.
pub fn of_stages(id: &str, function: &str, number: usize) -> String {
    let text = of_function(id, function, "");
    let (head, rest) = text.split_once("  - name: Canary").unwrap();
    let (stage, tail) = rest.split_once("\nrollback:").unwrap();
    let stages = (1..=number).map(|at| {
        let next = if at == number { "rollout".to_owned() } else { format!("Canary 5 Percent {}", at + 1) };
        let named = stage.replacen(" 5 Percent", &format!(" 5 Percent {at}"), 1);
        format!("  - name: Canary{}", named.replace("onSuccess: rollout", &format!("onSuccess: {next}")))
    });
    format!("{head}{}\nrollback:{tail}", stages.collect::<Vec<_>>().join("\n"))
}

async fn act(world: &World, path: &str, note: &str) {
    world.post(&format!("/api/v1/releases/{path}"), &json!({"by": "eve", "note": note})).await.ok();
}

/// The first stage fails at this child.
pub async fn fail(world: &World, child: &str, release: &str) {
    world.poll(child).await;
    world.fetch(child, release).await.ok();
    world.report(child, release, STAGE, 5).await.ok();
}

/// The state of each release, by its id.
pub async fn states(world: &World) -> Vec<(String, String)> {
    let listed = world.get("/api/v1/releases?limit=1000").await.ok().json();
    let part = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
    listed["items"].as_array().unwrap().iter().map(|item| (part(item, "id"), part(item, "state"))).collect()
}

/// Three children, a manager that came last, and a release for each state. What is open doesn't go on by itself.
pub async fn all() -> World {
    let world = World::start().await;
    let led = &over_waves("waves: [1, 100%], approval: before_each_wave");
    world.submit(&of_function("nobody", "empty", led)).await.ok();
    let first = world.child().await;
    leave_untested(&world, &first, "untested").await;
    let children = [first, world.child().await, world.child().await];
    let [one, two, three] = &children;
    world.submit(&of_function("done", "sieve", "")).await.ok();
    for child in &children {
        world.run(child, "done").await;
    }
    world.submit(&of_function("failed", "sieve", "")).await.ok();
    fail(&world, one, "failed").await;
    for child in [two, three] {
        world.run(child, "failed").await;
    }
    let careful = "rollout: {order: parallel, max_failed: 0, on_failure: rollback}";
    world.submit(&of_function("back", "sieve", careful)).await.ok();
    fail(&world, one, "back").await;
    world.submit(&of_function("aborted", "sieve", "")).await.ok();
    act(&world, "aborted/abort", "the fair is on").await;
    world.submit(&of_function("waits", "crop", led)).await.ok();
    for child in &children {
        if world.poll(child).await.1 == "waits" {
            world.run(child, "waits").await;
        }
    }
    world.submit(&of_function("queued", "crop", led)).await.ok();
    world.submit(&of_function("taken", "resize", careful)).await.ok();
    for child in [one, two] {
        world.poll(child).await;
        world.fetch(child, "taken").await.ok();
    }
    world.report(one, "taken", STAGE, 5).await.ok();
    world.submit(&of_function("paused", "blur", "")).await.ok();
    act(&world, "paused/pause", "lunch").await;
    world.submit(&of_function("running", "rotate", "")).await.ok();
    world.fetch(three, "running").await.ok();
    leave_unproven(&world, "unproven").await;
    world.submit(&of_stages("fifty", "scale", 50)).await.ok();
    world
}

/// The only child there is gets no call for the new version, and so nobody knows anything of that.
async fn leave_untested(world: &World, child: &str, release: &str) {
    let soon = of_function(release, "sharpen", "rollout: {no_calls: after 1ms}");
    world.submit(&soon.replace("threshold: 2s", "threshold: 1ms")).await.ok();
    world.poll(child).await;
    world.fetch(child, release).await.ok();
    let is_told = async {
        while world.end_stage(child, release, STAGE).await.ok().json()["end_stage"] != true {
            sleep(LOOK).await;
        }
    };
    timeout(DEADLINE, is_told).await.unwrap();
    let mut summary = summary(STAGE, 5);
    summary["f2_times_summary"] = json!({"median": -1, "minimum": -1, "maximum": -1});
    let body = json!({"id": child, "release_id": release, "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
}

/// A manager below comes, fails, and can't prove that all of its agents are back.
async fn leave_unproven(world: &World, release: &str) {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let mut manager =
        json!({"id": "", "geographic_area": area, "number_of_children": 4, "kind": "rm", "rm_ids": ["a"]});
    manager["id"] = world.post("/poll", &manager).await.ok().json()["id"].clone();
    world.post("/poll", &manager).await.ok();
    let careful = "rollout: {order: parallel, max_failed: 0, on_failure: rollback}";
    world.submit(&of_function(release, "invert", careful)).await.ok();
    let id = manager["id"].as_str().unwrap();
    world.fetch(id, release).await.ok();
    let mut summary = summary(STAGE, 5);
    for (what, number) in [("participants", 4), ("failed", 1), ("unconfirmed", 2)] {
        summary[what] = json!(number);
    }
    let body = json!({"id": id, "release_id": release, "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
}

/// A release that is judged by what was measured of both versions, of which the new one is slower.
pub async fn charts() -> World {
    let world = World::start().await;
    let children = [world.child().await, world.child().await];
    let metrics = "{name: times, provider: children, metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, \
         tolerance: 10%}, {name: errors, provider: children, metric: errorRate, strategy: CANARY_BASELINE, deviation: HIGH, \
         tolerance: 50%, dryRun: true}";
    let block =
        format!("    analysis: {{duration: 20s, interval: 1s, metrics: [{metrics}]}}\n    end_action:");
    let text =
        strategy("charts").replace("    end_action:", &block).replace("Percentage: 95", "Percentage: 50");
    world.submit(&text.replace("Percentage: 5\n", "Percentage: 50\n")).await.ok();
    for (child, seed) in children.iter().zip(1..) {
        world.poll(child).await;
        world.fetch(child, "charts").await.ok();
        measured(&world, child, "charts", 1.5, seed).await;
    }
    let is_judged = |shown: &Value| shown["analyses"][0]["verdict"] == "fail";
    world.until("/api/v1/releases/charts", is_judged).await;
    world
}

#[tokio::test]
async fn each_state_is_there_to_be_looked_at() {
    let world = all().await;
    let found = states(&world).await;
    let lines: Vec<String> = found.iter().map(|(id, state)| format!("{id}: {state}")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    fifty: Running
    unproven: RolledBackUnproven
    running: Running
    paused: Paused
    taken: RollingBack
    queued: Planned
    waits: AwaitingApproval
    aborted: Aborted
    back: RolledBack
    failed: DoneWithFailures
    done: Done
    untested: DoneUntested
    nobody: NoParticipants
    ");
    world.stop().await;
}
