//! A release says of each of its waves and stages whom that waits for, and how long still.

use serde_json::{Value, json};

use crate::world::{STAGE, World, settled, strategy};

/// What each wave and the first stage wait for.
async fn waits(world: &World) -> (Vec<String>, String) {
    let found = world.get("/api/v1/releases/a").await.ok().json();
    let line = |of: &Value| settled(of["waits_for"].as_str().unwrap_or_default());
    (found["waves"].as_array().into_iter().flatten().map(line).collect(), line(&found["stages"][0]))
}

async fn act(world: &World, action: &str) {
    world.call("POST", &format!("/api/v1/releases/a/{action}")).await.ok();
}

#[tokio::test]
async fn a_wave_and_a_stage_say_whom_they_wait_for_and_how_long_still() {
    let world = World::start().await;
    let one = world.child().await;
    world.child().await;
    world.child().await;
    let led = "rollout: {order: waves, waves: [1, 2, 100%], approval: before_each_wave, approval_timeout: 2h}\n\
               offer_deadline: 30m\nstage_deadline: 5h\n";
    world.submit(&(strategy("a") + led)).await.ok();
    let (waves, stage) = waits(&world).await;
    assert!(waves[0].starts_with("1 child is waited for; it is given up in Nm"), "{waves:?}");
    assert_eq!(stage, waves[0]);
    assert_eq!(waves[1..], ["1 child has to end before", "its turn is after wave 2 of 3"]);
    world.poll(&one).await;
    world.fetch(&one, "a").await.ok();
    let (waves, _) = waits(&world).await;
    assert!(waves[0].starts_with("1 child is waited for; it is given up in 4h Nm unless"), "{waves:?}");
    // While it is paused the clock stands still.
    act(&world, "pause").await;
    let (waves, _) = waits(&world).await;
    assert_eq!(waves[0], "1 child is waited for");
    assert!(waves[1].starts_with("the release is paused: "), "{waves:?}");
    act(&world, "resume").await;
    world.report(&one, "a", STAGE, 2).await.ok();
    world.end_stage(&one, "a", STAGE).await.ok();
    world.report(&one, "a", STAGE, 4).await.ok();
    world.roll_out(&one, "a").await;
    let (waves, stage) = waits(&world).await;
    assert_eq!(
        waves,
        [
            "",
            "somebody must approve of wave 2 of 3 within 1h Nm, or it is rolled back",
            "its turn is after wave 2 of 3"
        ]
    );
    assert_eq!(stage, "");
    // What is over waits for nothing.
    act(&world, "abort").await;
    world.call("POST", "/api/v1/releases/a/promote").await;
    let (waves, _) = waits(&world).await;
    assert_eq!(waves[1..], ["", ""]);
    world.stop().await;
}

#[tokio::test]
async fn a_stage_behind_a_barrier_says_when_it_begins() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    let led = "rollout: {order: global_incremental, soak: 3h}\n";
    world.submit(&(strategy("a") + led)).await.ok();
    for child in [&one, &two] {
        let (_, stage) = waits(&world).await;
        assert!(stage.contains("waited for"), "{stage}");
        world.poll(child).await;
        world.fetch(child, "a").await.ok();
        world.report(child, "a", STAGE, 2).await.ok();
    }
    let (_, stage) = waits(&world).await;
    assert_eq!(stage, "2 children are ready: soaks for another 2h Nm, then the roll-out begins");
    world.stop().await;
}

#[tokio::test]
async fn children_of_a_wave_are_listed_alone() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&(strategy("a") + "rollout: {order: waves, waves: [1, 100%]}\n")).await.ok();
    let of = async |query: &str| {
        let all = world.get(&format!("/api/v1/releases/a/children?{query}")).await.ok().json();
        all["items"].as_array().unwrap().iter().map(|child| child["child"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("wave=1").await, [json!(one)]);
    assert_eq!(of("wave=2").await, [json!(two)]);
    assert_eq!(of("wave=2&status=Done").await, Vec::<Value>::new());
    assert_eq!(of("wave=3").await, Vec::<Value>::new());
    for wrong in ["wave=0", "wave=x", "wave=-1", "wave=4294967296"] {
        assert_eq!(world.get(&format!("/api/v1/releases/a/children?{wrong}")).await.status, 400, "{wrong}");
    }
    // Also of one that has left memory.
    world.call("POST", "/api/v1/releases/a/abort").await.ok();
    let world = world.restart().await;
    let all = world.get("/api/v1/releases/a/children?wave=2").await.ok().json();
    assert_eq!(all["items"][0]["child"], json!(two));
    world.stop().await;
}
