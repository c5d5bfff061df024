//! A manager that lost its data in the middle of a release: its agents come back by themselves.

use serde_json::Value;
use simulated_children::FleetConfig;
use tokio_util::sync::CancellationToken;

use crate::{
    tree::levels::ended,
    world::{STAGE, World, strategy},
};

const AGENTS: usize = 3;

/// Held in its stage until somebody approves.
fn held(id: &str) -> String {
    strategy(id) + "rollout:\n  approval: before_rollout\n"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_of_manager_that_lost_data_end_stage_and_continue() {
    let world = World::start().await;
    let address = world.manager.address;
    let mut config = FleetConfig {
        url: format!("http://{address}"),
        agents: AGENTS,
        pace: 0.01,
        ..FleetConfig::default()
    };
    config.traffic.calls_per_second = 500.0;
    config.traffic.new.errors = 0.0;
    let stop = CancellationToken::new();
    let until = stop.clone();
    let agents = tokio::spawn(async move { simulated_children::run(config, until, |_| ()).await.unwrap() });
    let count = |listed: &Value| listed["items"].as_array().unwrap().len();
    let before = world.until("/api/v1/children", |listed| count(listed) == AGENTS).await;
    world.submit(&held("lost")).await.ok();
    world.until("/api/v1/releases/lost", |now| now["state"] == "AwaitingApproval").await;
    world.stop().await;

    // The same address, and nothing in the store.
    let world = World::with(|options| options.listen = address).await;
    let after = world.until("/api/v1/children", |listed| count(listed) == AGENTS).await;
    let ids = |listed: &Value| {
        let mut ids: Vec<String> =
            listed["items"].as_array().unwrap().iter().map(|child| child["id"].to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&before), ids(&after), "they keep their ids");
    world.submit(&strategy("next")).await.ok();
    assert_eq!(ended(&world, "next").await, "Done");
    stop.cancel();
    let report = agents.await.unwrap();
    assert_eq!((report.totals.exited, report.totals.rolled_out), (0, AGENTS), "{report:?}");
    world.stop().await;
}

#[tokio::test]
async fn only_stage_of_release_missing_from_backup_is_ended() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&held("known")).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "known").await.ok();
    assert_eq!(world.end_stage(&child, "known", STAGE).await.ok().json()["end_stage"], false);
    assert_eq!(world.end_stage(&child, "known.7", STAGE).await.status, 404);
    for (child, offer) in [(child.as_str(), "newer-than-the-backup"), ("newer-than-the-backup", "known")] {
        let lost = world.end_stage(child, offer, STAGE).await.ok().json();
        assert_eq!(
            (&lost["end_stage"], &lost["then"]),
            (&true.into(), &"rollback".into()),
            "{child} in {offer}"
        );
    }
    world.stop().await;
}
