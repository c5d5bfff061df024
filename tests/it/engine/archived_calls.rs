//! Calls about a release that is over and has left memory.

use engine::stats::Stats;
use http_api::context::PATIENCE;

use crate::world::{STAGE, World, strategy, summary};

/// Commands that the engine has decided.
fn commands(world: &World) -> u64 {
    Stats::get(&world.manager.engine.view().stats.commands)
}

async fn is_in_memory(world: &World, release: &str) -> bool {
    let release = release.to_owned();
    let look = world.manager.engine.read(PATIENCE, move |state| state.release_by_id(&release).is_some());
    look.await.unwrap()
}

async fn has_called_again(world: &World, child: &str) -> bool {
    let child = child.to_owned();
    let look = world.manager.engine.read(PATIENCE, move |state| {
        state.children.by_id(&child).is_some_and(|(_, child)| child.called_again)
    });
    look.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uninvolved_child_does_not_reload_a_finished_release() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.call("POST", "/api/v1/releases/a/abort").await.ok();
    assert!(!is_in_memory(&world, "a").await);
    for (method, path) in [("GET", "/release"), ("POST", "/result"), ("POST", "/end_stage")] {
        let (stranger, _) = world.poll("").await;
        let before = commands(&world);
        let answer = match method {
            "GET" => world.fetch(&stranger, "a").await,
            _ if path == "/result" => world.report(&stranger, "a", "Canary 5 Percent", 3).await,
            _ => world.end_stage(&stranger, "a", "Canary 5 Percent").await,
        };
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
        // One command is the call; another would be the release that is brought back.
        assert_eq!(commands(&world) - before, 1, "{path}");
        assert!(has_called_again(&world, &stranger).await, "{path}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetching_an_aborted_release_does_not_reload_it() {
    let world = World::start().await;
    // Adopted, and not heard of in anything yet.
    let (child, _) = world.poll("brought-along").await;
    world.submit(&strategy("a")).await.ok();
    world.call("POST", "/api/v1/releases/a/abort").await.ok();
    assert!(!is_in_memory(&world, "a").await);
    for _ in 0..3 {
        let before = commands(&world);
        assert_eq!(world.fetch(&child, "a").await.status, 200);
        assert_eq!(commands(&world) - before, 1);
    }
    world.stop().await;
}

/// Releases that were read back whole.
fn recalls(world: &World) -> u64 {
    Stats::get(&world.manager.engine.view().stats.recalls)
}

async fn late_results(world: &World) -> usize {
    let audit = world.get("/api/v1/audit?limit=1000").await.ok().json();
    let entries = audit["items"].as_array().unwrap().iter();
    let events = entries.flat_map(|entry| entry["events"].as_array().unwrap());
    events.filter(|event| event["event"] == "late_result").count()
}

/// Has fetched the release, was taken for lost and has proven that it runs the base version.
async fn lose_its_result(world: &World, child: &str) {
    world.fetch(child, "a").await.ok();
    for _ in 0..2 {
        world.poll(child).await;
    }
    assert_eq!(world.poll(child).await.1, "a.undo");
    world.fetch(child, "a.undo").await.ok();
    world.report(child, "a.undo", "choirmaster undo", 4).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_that_come_when_all_is_over_are_kept_without_bringing_the_release_back() {
    let world = World::start().await;
    let children = [world.child().await, world.child().await, world.child().await];
    world.submit(&strategy("a")).await.ok();
    for child in &children {
        lose_its_result(&world, child).await;
    }
    assert!(!is_in_memory(&world, "a").await);
    // All at once, as after an outage.
    let late = |child: &String| {
        let body = serde_json::json!({"id": child, "release_id": "a", "stage_summaries": [summary(STAGE, 5)],
            "next_stage": ""});
        let world = &world;
        async move { world.post("/result", &body).await }
    };
    for answer in futures_util::future::join_all(children.iter().map(late)).await {
        assert_eq!(answer.status, 409, "{}", answer.text());
    }
    assert_eq!((late_results(&world).await, recalls(&world)), (3, 0));
    let before = world.get("/api/v1/releases/a").await.ok().json();
    // A repeat changes nothing more, not even after a restart.
    let world = world.restart().await;
    for child in &children {
        assert_eq!(world.report(child, "a", STAGE, 5).await.status, 409);
    }
    assert_eq!((late_results(&world).await, recalls(&world)), (3, 0));
    assert_eq!(world.get("/api/v1/releases/a").await.ok().json(), before, "what is said of all stays");
    world.stop().await;
}
