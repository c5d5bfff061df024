//! What operators do to a release that is led.

use serde_json::{Value, json};

use crate::world::{STAGE, World, strategy};

/// The canary sample, led.
fn led(id: &str, rollout: &str) -> String {
    format!("{}rollout: {{{rollout}}}\n", strategy(id))
}

async fn act(world: &World, path: &str) -> Value {
    let by = json!({"by": "eve", "note": "seen enough"});
    world.post(&format!("/api/v1/releases/{path}"), &by).await.ok().json()
}

async fn refused(world: &World, path: &str) -> String {
    world.post(&format!("/api/v1/releases/{path}"), &json!({})).await.problem()
}

/// The child goes through the stage and the roll-out.
async fn run(world: &World, child: &str, offer: &str) {
    for (offer, stage) in [(offer, STAGE), (&format!("{offer}.rollout"), "choirmaster rollout")] {
        assert_eq!(world.poll(child).await.1, offer);
        world.fetch(child, offer).await.ok();
        world.report(child, offer, stage, 2).await.ok();
        assert_eq!(world.end_stage(child, offer, stage).await.text(), "{\"end_stage\":true}\n");
        world.report(child, offer, stage, 4).await.ok();
    }
}

/// What was done by hand, with the note, as the audit trail has it.
async fn by_hand(world: &World, release: &str) -> String {
    let trail = world.get(&format!("/api/v1/audit?release={release}")).await.ok().json();
    let entries = trail["items"].as_array().unwrap();
    let by_eve = entries.iter().filter(|entry| entry["actor"] == "operator:eve");
    let events = by_eve.flat_map(|entry| entry["events"].as_array().unwrap());
    let line = |event: &Value| {
        let step = event.get("step").and_then(Value::as_str).unwrap_or_default();
        format!("{} {step} {}\n", event["event"].as_str().unwrap(), event["note"].as_str().unwrap())
    };
    events.map(line).collect()
}

#[tokio::test]
async fn a_release_is_promoted_past_its_waves_and_approvals() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&led("a", "order: waves, waves: [1, 100%], approval: before_each_wave")).await.ok();
    run(&world, &one, "a").await;
    assert_eq!(world.get("/api/v1/releases/a").await.ok().json()["state"], "AwaitingApproval");
    assert_eq!(world.poll(&two).await.1, "");
    assert_eq!(act(&world, "a/promote").await["state"], "Running");
    run(&world, &two, "a").await;
    assert_eq!(world.get("/api/v1/releases/a").await.ok().json()["state"], "Done");
    insta::assert_snapshot!(refused(&world, "a/promote").await, @"409 /problems/wrong-state: release a is Done: only a release that runs can be promoted");
    insta::assert_snapshot!(refused(&world, "b/promote").await, @"404 /problems/unknown-release: release b is not known");
    insta::assert_snapshot!(by_hand(&world, "a").await, @"gate_opened  seen enough");
    world.stop().await;
}

#[tokio::test]
async fn a_release_is_extended_to_children_that_were_not_there() {
    let world = World::start().await;
    let one = world.child().await;
    world.submit(&led("a", "order: location_sequential, start_at: [13.4, 52.5]")).await.ok();
    let late = world.child().await;
    assert_eq!(act(&world, "a/extend").await["counts"]["participants"], 2);
    assert_eq!(act(&world, "a/extend").await["counts"]["participants"], 2, "nobody new");
    assert_eq!(world.poll(&late).await.1, "", "its turn is after the others");
    // What came late is there after a restart, too.
    let world = world.restart().await;
    run(&world, &one, "a").await;
    run(&world, &late, "a").await;
    insta::assert_snapshot!(refused(&world, "a/extend").await, @"409 /problems/wrong-state: release a is Done: only a release that is under way can be extended");
    insta::assert_snapshot!(by_hand(&world, "a").await, @"child_joined  seen enough");
    world.stop().await;
}

#[tokio::test]
async fn a_child_is_skipped_and_may_try_again() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&led("a", "order: global_incremental, on_failure: continue")).await.ok();
    world.poll(&one).await;
    world.fetch(&one, "a").await.ok();
    world.report(&one, "a", STAGE, 2).await.ok();
    assert_eq!(world.end_stage(&one, "a", STAGE).await.text(), "{\"end_stage\":false}\n");
    assert_eq!(act(&world, &format!("a/children/{two}/skip")).await["counts"]["excluded"], 1);
    assert_eq!(world.end_stage(&one, "a", STAGE).await.text(), "{\"end_stage\":true}\n");
    let again = act(&world, &format!("a/children/{two}/retry")).await;
    assert_eq!((&again["counts"]["excluded"], &again["attempt"]), (&json!(0), &json!(2)));
    assert_eq!(world.poll(&two).await.1, "a.r2");
    world.fetch(&two, "a.r2").await.ok();
    world.report(&two, "a.r2", STAGE, 5).await.ok();
    insta::assert_snapshot!(refused(&world, &format!("a/children/{one}/retry")).await, @"409 /problems/nothing-to-retry: no child of release a can be retried");
    insta::assert_snapshot!(refused(&world, &format!("a/children/{two}/skip")).await, @"409 /problems/wrong-state: release a is Running: this child has ended its part, or the release is not under way");
    insta::assert_snapshot!(refused(&world, "a/children/nobody/skip").await, @"404 /problems/unknown-child: child nobody is not known here");
    let stranger = world.child().await;
    let said = refused(&world, &format!("a/children/{stranger}/retry")).await.replace(&stranger, "STRANGER");
    insta::assert_snapshot!(said, @"404 /problems/no-part: child STRANGER has no part in release a");
    insta::assert_snapshot!(by_hand(&world, "a").await, @"
    child ended seen enough
    gate_opened  seen enough
    child retried seen enough
    ");
    world.stop().await;
}

#[tokio::test]
async fn a_stage_is_skipped_and_stays_skipped_after_a_restart() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    let text = std::fs::read_to_string("releases/two-stage.yml").unwrap();
    world.submit(&format!("{text}rollout: {{late_joiners: include}}\n")).await.ok();
    assert_eq!(world.poll(&one).await.1, "two-stage");
    world.fetch(&one, "two-stage").await.ok();
    assert_eq!(world.poll(&two).await.1, "two-stage");
    let skipped = act(&world, "two-stage/stages/Canary/skip").await;
    assert_eq!(skipped["state"], "Running");
    let world = world.restart().await;
    assert_eq!(world.end_stage(&one, "two-stage", "Canary").await.text(), "{\"end_stage\":true}\n");
    world.report(&one, "two-stage", "Canary", 4).await.ok();
    let empty = world.fetch(&two, "two-stage").await.ok().text();
    assert!(empty.contains("stages: []"), "{empty}");
    let late = world.child().await;
    for child in [&one, &two, &late] {
        assert_eq!(world.poll(child).await.1, "two-stage.2");
    }
    let shown = world.get("/api/v1/releases/two-stage").await.ok().json();
    assert_eq!((&shown["stages"][0]["skipped"], shown["stages"][1].get("skipped")), (&json!(true), None));
    insta::assert_snapshot!(refused(&world, "two-stage/stages/Nonsense/skip").await, @r#"409 /problems/unknown-stage: two-stage has no stage "Nonsense""#);
    insta::assert_snapshot!(by_hand(&world, "two-stage").await, @"stage_skipped  seen enough");
    world.stop().await;
}
