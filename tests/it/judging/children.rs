//! A stage that is judged by what children report of it.

use simulated_children::{FleetConfig, FleetKind};

use super::{Agents, in_state, judged, registered};
use crate::{virtual_time::VirtualTime, world::World};

const TIMES: &str = "duration: 1s, interval: 1s, metrics: [{name: times, provider: children, \
    metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}]";

/// Half of the calls to each version, and enough of them.
fn even(text: &str) -> String {
    let text = text.replace("trafficPercentage: 95", "trafficPercentage: 50");
    text.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n").replace("\"50\"", "\"2000\"")
}

fn modern(config: &mut FleetConfig) {
    config.kind = FleetKind::Modern;
}

#[tokio::test]
async fn histograms_of_children_tell_a_slow_version_from_a_good_one() {
    let _time = VirtualTime::begin();
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

/// Times within a hundredth of a millisecond, and a new version that takes 0.75 % or 0.25 % longer.
pub(super) fn within_a_bucket(slow: bool) -> impl Fn(&mut FleetConfig) {
    move |config| {
        config.kind = FleetKind::Modern;
        let (base, new) =
            ("uniform:8ms,8.01ms", if slow { "uniform:8.06ms,8.07ms" } else { "uniform:8.02ms,8.03ms" });
        config.traffic.base.latency = base.parse().unwrap();
        config.traffic.new.latency = new.parse().unwrap();
    }
}

/// A tolerance that is narrower than the buckets of a histogram.
pub(super) const NARROW: &str = "duration: 1s, interval: 1s, metrics: [{name: times, provider: children, \
    metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 0.5%}]";

/// What two agents told a manager that reads values, and how it judged that.
#[tokio::test]
async fn what_a_histogram_could_not_tell_apart_is_told_by_values() {
    let _time = VirtualTime::begin();
    let told = [(true, "RolledBack", "fail"), (false, "Done", "pass")];
    for (slow, state, verdict) in told {
        let world = World::start().await;
        let agents = Agents::below(&world, 2, within_a_bucket(slow));
        registered(&world, 2).await;
        world.submit(&even(&judged("exact", NARROW))).await.ok();
        let shown = in_state(&world, "exact", state).await;
        assert_eq!(shown["analyses"][0]["verdict"], verdict, "{:#}", shown["analyses"][0]);
        agents.end().await;
        world.stop().await;
    }
}

/// The same agents with clocks of a millisecond: all calls seem to take as long, and nothing can be said.
#[tokio::test]
async fn a_clock_that_is_too_coarse_for_the_tolerance_makes_no_verdict() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let agents = Agents::below(&world, 2, |config| {
        within_a_bucket(true)(config);
        config.clock = "1ms".parse().unwrap();
    });
    registered(&world, 2).await;
    world.submit(&even(&judged("coarse", NARROW))).await.ok();
    let shown = in_state(&world, "coarse", "Paused").await;
    let analysis = &shown["analyses"][0];
    assert_eq!(analysis["verdict"], "inconclusive", "{analysis:#}");
    assert!(
        analysis.to_string().contains("which a coarse clock would show of different versions"),
        "{analysis:#}"
    );
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn agents_that_count_nothing_are_no_data_and_no_pass() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let agents = Agents::below(&world, 2, |_| ());
    registered(&world, 2).await;
    world.submit(&judged("mute", TIMES)).await.ok();
    let shown = in_state(&world, "mute", "Paused").await;
    assert_eq!(shown["analyses"][0]["verdict"], "no data", "{shown:#}");
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn thresholds_hold_for_what_agents_report() {
    let _time = VirtualTime::begin();
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
