//! Calls about a release that is over and has left memory.

use choirmaster::{engine::stats::Stats, http::context::PATIENCE};

use crate::world::{World, strategy};

/// Commands that the engine has decided.
fn commands(world: &World) -> u64 {
    Stats::get(&world.manager.engine.view().stats.commands)
}

async fn is_in_memory(world: &World, release: &str) -> bool {
    let release = release.to_owned();
    let look = world.manager.engine.query(PATIENCE, move |state| state.release_by_id(&release).is_some());
    look.await.unwrap()
}

async fn has_called_again(world: &World, child: &str) -> bool {
    let child = child.to_owned();
    let look = world.manager.engine.query(PATIENCE, move |state| {
        state.children.by_id(&child).is_some_and(|(_, child)| child.called_again)
    });
    look.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_no_part_in_a_release_that_is_over_does_not_bring_it_back() {
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
async fn who_was_taken_back_before_it_fetched_fetches_nothing_and_brings_nothing_back() {
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
