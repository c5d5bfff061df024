//! Releases that are led, on real servers with simulated agents, on either store.

use serde_json::Value;
use simulated_children::FleetConfig;
use tokio_util::sync::CancellationToken;

use crate::{
    store::place::Place,
    world::{World, strategy},
};

const AGENTS: usize = 4;

async fn reaches(world: &World, release: &str, state: &str) -> Value {
    world.until(&format!("/api/v1/releases/{release}"), |shown| shown["state"] == state).await
}

/// The gates of a release in the order in which they opened.
async fn gates(world: &World, release: &str) -> String {
    let trail = world.get(&format!("/api/v1/audit?release={release}&limit=1000")).await.ok().json();
    let events =
        trail["items"].as_array().unwrap().iter().flat_map(|entry| entry["events"].as_array().unwrap());
    let opened = events.filter(|event| event["event"] == "gate_opened");
    let names: Vec<&str> = opened.map(|event| event["gate"].as_str().unwrap()).collect();
    format!("{release}: {}", names.join(", "))
}

async fn every_order_leads_all_agents_to_the_end_and_survives_a_restart(place: &Place) {
    let world = World::with(|options| options.store.clone_from(&place.url)).await;
    let address = world.manager.address;
    let mut config = FleetConfig {
        url: format!("http://{address}"),
        agents: AGENTS,
        pace: 0.005,
        ..FleetConfig::default()
    };
    config.traffic.calls_per_second = 500.0;
    config.traffic.new.errors = 0.0;
    let stop = CancellationToken::new();
    let agents = tokio::spawn(simulated_children::run(config, stop.clone(), |_| ()));
    world.until("/api/v1/children", |seen| seen["items"].as_array().unwrap().len() == AGENTS).await;
    let orders = [
        ("parallel", ""),
        ("location_sequential", "start_at: [13.4, 52.5]"),
        ("global_incremental", "max_in_progress: 2"),
        ("waves", "waves: [1, 50%, 100%], approval: before_each_wave"),
    ];
    for (order, more) in orders {
        let release = format!("{}rollout: {{order: {order}, {more}}}\n", strategy(order));
        world.submit(&release).await.ok();
        if order != "waves" {
            let done = reaches(&world, order, "Done").await;
            assert_eq!(done["counts"]["succeeded"], AGENTS, "{done:#}");
        }
    }
    // In the middle of the last one the manager is restarted.
    reaches(&world, "waves", "AwaitingApproval").await;
    let same = |options: &mut choirmaster::app::Options| {
        options.store.clone_from(&place.url);
        options.listen = address;
    };
    let world = world.restart_with(same).await;
    for wave in 2..=3 {
        let waiting = reaches(&world, "waves", "AwaitingApproval").await;
        assert_eq!(waiting["reason"], format!("wave {wave} of 3"));
        world.call("POST", "/api/v1/releases/waves/approve").await.ok();
        let is_past = |seen: &Value| seen["reason"] != format!("wave {wave} of 3");
        world.until("/api/v1/releases/waves", is_past).await;
    }
    let done = reaches(&world, "waves", "Done").await;
    assert_eq!(done["counts"]["succeeded"], AGENTS, "{done:#}");
    let mut opened = Vec::new();
    for (order, _) in orders {
        opened.push(gates(&world, order).await);
    }
    let expected = [
        "parallel: ",
        "location_sequential: location 2 of 4, location 3 of 4, location 4 of 4",
        "global_incremental: everything",
        "waves: wave 2 of 3, wave 3 of 3",
    ];
    assert_eq!(opened, expected);
    stop.cancel();
    let report = agents.await.unwrap().unwrap();
    assert_eq!(report.totals.refusals, 0, "{:?}", report.totals);
    world.stop().await;
}

async fn a_limit_that_is_passed_takes_back_what_was_rolled_out(place: &Place) {
    let world = World::with(|options| options.store.clone_from(&place.url)).await;
    let (good, bad) = (world.child().await, world.child().await);
    let text = strategy("a") + "rollout: {order: waves, waves: [1, 100%], max_failed: 0}\n";
    world.submit(&text).await.ok();
    for (offer, stage) in [("a", crate::world::STAGE), ("a.rollout", "choirmaster rollout")] {
        world.poll(&good).await;
        world.fetch(&good, offer).await.ok();
        world.report(&good, offer, stage, 4).await.ok();
    }
    assert_eq!(world.poll(&bad).await.1, "a");
    world.fetch(&bad, "a").await.ok();
    world.report(&bad, "a", crate::world::STAGE, 5).await.ok();
    let back = reaches(&world, "a", "RollingBack").await;
    let reason = back["reason"].as_str().unwrap().replace(&bad, "BAD");
    assert_eq!(
        reason,
        "BAD failed in stage Canary 5 Percent with fns/sieve_new (errors 0.0 %, median 8.5 ms): 1 failed, max_failed is 0"
    );
    let world = world.restart_with(|options| options.store.clone_from(&place.url)).await;
    assert_eq!(world.poll(&good).await.1, "a.undo");
    world.fetch(&good, "a.undo").await.ok();
    world.report(&good, "a.undo", "choirmaster undo", 4).await.ok();
    assert_eq!(reaches(&world, "a", "RolledBack").await["unconfirmed"], 0);
    world.stop().await;
}

crate::store::place::stories!(
    every_order_leads_all_agents_to_the_end_and_survives_a_restart,
    a_limit_that_is_passed_takes_back_what_was_rolled_out,
);
