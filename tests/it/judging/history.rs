//! Fleets whose children differ in speed: what the release before measured of each of them makes the next one decide with the
//! calls that the first one found too few.

use serde_json::Value;
use simulated_children::{FleetConfig, FleetKind};

use super::{Agents, judged, look_until, registered, told_of};
use crate::{tree::levels, virtual_time::VirtualTime, world::World};

/// Calls that it would take to decide if those of all agents were ranked together; apart it takes some 500.
const TOGETHER: u64 = 400_000;

/// It says whether it could decide, and goes on in any case.
const TIMES: &str = "duration: 1s, interval: 1s, inconclusive: pass, alpha: 0.00001, metrics: [{name: times, \
    provider: children, metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 1%}]";

/// Medians in milliseconds, from one agent to the next.
const SPEEDS: [&str; 6] = ["20ms", "32ms", "51ms", "82ms", "131ms", "210ms"];

/// Half of the calls to each version, at least so many of each agent.
fn strategy(id: &str) -> String {
    let text = judged(id, TIMES).replace("trafficPercentage: 95", "trafficPercentage: 50");
    text.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n").replace("\"50\"", "\"150\"")
}

/// One agent a speed.
fn agents_of(world: &World, seed: u64, speeds: &[&str]) -> Vec<Agents> {
    let agents = speeds.iter().zip(seed..).map(|(median, seed)| {
        Agents::below(world, 1, |config: &mut FleetConfig| {
            config.kind = FleetKind::Modern;
            config.seed = seed;
            config.traffic.calls_per_second = 1.0;
            config.traffic.base.latency = format!("lognormal:{median},0.02").parse().unwrap();
            config.traffic.new.latency = config.traffic.base.latency;
        })
    });
    agents.collect()
}

/// The judgement of a release that is over.
async fn done(world: &World, id: &str) -> Value {
    world.submit(&strategy(id)).await.ok();
    look_until(world, id, |shown| shown["state"] == "Done").await["analyses"][0].take()
}

fn calls(analysis: &Value) -> u64 {
    let evidence = &analysis["metrics"][0]["evidence"];
    ["baseline", "canary"].map(|side| evidence[side]["count"].as_u64().unwrap()).iter().sum()
}

#[tokio::test]
async fn a_second_release_decides_with_calls_that_were_too_few_for_the_first() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let agents = agents_of(&world, 1, &SPEEDS);
    registered(&world, SPEEDS.len()).await;
    let first = done(&world, "first").await;
    assert_eq!(first["verdict"], "inconclusive", "{first:#}");
    let second = done(&world, "second").await;
    assert_eq!(second["verdict"], "pass", "{second:#}");
    assert!(calls(&second) < TOGETHER / 10, "{second:#}");
    for agents in agents {
        agents.end().await;
    }
    world.stop().await;
}

#[tokio::test]
async fn managers_below_tell_classes_so_that_the_release_decides_where_it_was_planned() {
    let _time = VirtualTime::begin();
    let root = World::start().await;
    let [west, east] = [levels::below(&root).await, levels::below(&root).await];
    let (slow, fast) = (agents_of(&west, 1, &SPEEDS[..3]), agents_of(&east, 4, &SPEEDS[3..]));
    registered(&west, 3).await;
    registered(&east, 3).await;
    told_of(&root, 6).await;
    let first = done(&root, "first").await;
    assert_eq!(first["verdict"], "inconclusive", "{first:#}");
    let second = done(&root, "second").await;
    assert_eq!(second["verdict"], "pass", "{second:#}");
    for agents in slow.into_iter().chain(fast) {
        agents.end().await;
    }
    for world in [root, west, east] {
        world.stop().await;
    }
}
