//! A stage that is judged by what children report of it.

use choirmaster::fleet::{FleetConfig, Kind};

use super::{Agents, in_state, judged, registered};
use crate::world::World;

const TIMES: &str = "duration: 1s, interval: 1s, metrics: [{name: times, provider: children, \
    metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}]";

/// Half of the calls to each version, and enough of them.
fn even(text: &str) -> String {
    let text = text.replace("trafficPercentage: 95", "trafficPercentage: 50");
    text.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n").replace("\"50\"", "\"2000\"")
}

fn modern(config: &mut FleetConfig) {
    config.kind = Kind::Modern;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histograms_of_children_tell_a_slow_version_from_a_good_one() {
    for (slow, state, verdict) in [(true, "RolledBack", "fail"), (false, "Done", "pass")] {
        let world = World::start().await;
        let agents = Agents::below(&world, 3, |config| {
            modern(config);
            if slow {
                config.traffic.new.latency = "lognormal:16ms,0.3".parse().unwrap();
            } else {
                config.traffic.new.latency = config.traffic.base.latency;
            }
        });
        registered(&world, 3).await;
        world.submit(&even(&judged("times", TIMES))).await.ok();
        let shown = in_state(&world, "times", state).await;
        let analysis = &shown["analyses"][0];
        assert_eq!(analysis["verdict"], verdict, "{analysis:#}");
        let evidence = &analysis["metrics"][0]["evidence"];
        assert!(evidence["canary"]["count"].as_u64().unwrap() > 1_000, "{analysis:#}");
        agents.end().await;
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_count_nothing_are_no_data_and_no_pass() {
    let world = World::start().await;
    let agents = Agents::below(&world, 2, |_| ());
    registered(&world, 2).await;
    world.submit(&judged("mute", TIMES)).await.ok();
    let shown = in_state(&world, "mute", "Paused").await;
    assert_eq!(shown["analyses"][0]["verdict"], "no data", "{shown:#}");
    agents.end().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thresholds_hold_for_what_agents_report() {
    let block = |max: &str| {
        format!(
            "duration: 1s, interval: 1s, metrics: [{{name: median, provider: children, metric: responseTime, \
             expected: {{max: {max}}}}}]"
        )
    };
    let world = World::start().await;
    let agents = Agents::below(&world, 2, |_| ());
    registered(&world, 2).await;
    world.submit(&judged("strict", &block("0.1"))).await.ok();
    let shown = in_state(&world, "strict", "RolledBack").await;
    assert_eq!(shown["analyses"][0]["verdict"], "fail", "{shown:#}");
    world.submit(&judged("wide", &block("1000"))).await.ok();
    assert_eq!(in_state(&world, "wide", "Done").await["analyses"][0]["verdict"], "pass");
    agents.end().await;
    world.stop().await;
}
