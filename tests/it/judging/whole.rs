//! The analysis of a whole release: between its waves, and in the background.

use simulated_children::FleetKind;

use super::{Agents, Meter, events, in_state, registered};
use crate::{
    virtual_time::VirtualTime,
    world::{World, strategy},
};

fn led(id: &str, rollout: &str) -> String {
    format!("{}\nrollout: {{{rollout}}}\n", strategy(id))
}

const LOAD: &str = "metrics: [{name: load, provider: meter, query: '?v=canary', expected: {max: 10}}]";

#[tokio::test]
async fn each_wave_is_judged_before_the_next_and_before_the_end() {
    let _time = VirtualTime::begin();
    let meter = Meter::start().await;
    meter.say(Ok(vec![3.0]), Err(500));
    let world = World::with(|options| meter.known_to(options)).await;
    let agents = Agents::below(&world, 2, |_| ());
    registered(&world, 2).await;
    let rollout = format!("order: waves, waves: [1, 100%], analysis: {{duration: 1s, interval: 1s, {LOAD}}}");
    world.submit(&led("waves", &rollout)).await.ok();
    let shown = in_state(&world, "waves", "Done").await;
    assert_eq!(shown["counts"]["succeeded"], 2);
    let analysis = &shown["analyses"][0];
    assert_eq!((&analysis["run"], &analysis["runs"]), (&2.into(), &2.into()), "{analysis:#}");
    assert_eq!(events(&world, "waves", "verdict").await.len(), 2);
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn in_the_background_a_bad_measurement_takes_everything_back() {
    let _time = VirtualTime::begin();
    let meter = Meter::start().await;
    meter.say(Ok(vec![30.0]), Err(500));
    let world = World::with(|options| meter.known_to(options)).await;
    let agents = Agents::below(&world, 1, |_| ());
    registered(&world, 1).await;
    let rollout = format!("order: waves, waves: [1, 100%], soak: 1h, analysis: {{interval: 1s, {LOAD}}}");
    world.child().await;
    world.submit(&led("behind", &rollout)).await.ok();
    in_state(&world, "behind", "RolledBack").await;
    agents.end().await;
    world.stop().await;
}

/// What children report, compared for as long as the release takes.
const TIMES: &str = "analysis: {interval: 1s, metrics: [{name: times, provider: children, metric: responseTime, \
    strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}, \
    {name: errors, provider: children, metric: errorRate, expected: {max: 0.5}}]}";

/// Half of the calls to each version, and enough of them.
fn even(text: &str) -> String {
    let text = text.replace("trafficPercentage: 95", "trafficPercentage: 50");
    text.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n").replace("\"50\"", "\"2000\"")
}

#[tokio::test]
async fn in_the_background_children_that_report_a_slow_version_take_everything_back() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let agents = Agents::below(&world, 3, |config| {
        config.kind = FleetKind::Modern;
        config.traffic.new.latency = "lognormal:16ms,0.3".parse().unwrap();
    });
    registered(&world, 3).await;
    let rollout = format!("order: waves, waves: [1, 100%], soak: 1h, {TIMES}");
    world.submit(&even(&led("behind", &rollout))).await.ok();
    let shown = in_state(&world, "behind", "RolledBack").await;
    let analysis = &shown["analyses"][0];
    assert_eq!(
        (&analysis["verdict"], &analysis["state"]),
        (&"fail".into(), &"failed".into()),
        "{analysis:#}"
    );
    assert!(analysis["why"].as_str().unwrap().starts_with("times: the canary took "), "{analysis:#}");
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn background_analysis_delays_nothing_and_reports_inconclusive_end() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let agents = Agents::below(&world, 3, |config| {
        config.kind = FleetKind::Modern;
        config.traffic.new.latency = config.traffic.base.latency;
    });
    registered(&world, 3).await;
    let rollout = format!("order: waves, waves: [1, 100%], soak: 2500ms, {TIMES}");
    world.submit(&even(&led("behind", &rollout))).await.ok();
    let shown = in_state(&world, "behind", "Done").await;
    let analysis = &shown["analyses"][0];
    assert_eq!((&analysis["verdict"], &analysis["state"]), (&"inconclusive".into(), &"passed".into()));
    let why = analysis["why"].as_str().unwrap();
    assert!(why.starts_with("the release is over; times: the canary took"), "{why}");
    assert!(why.contains(" reports of children, 0 is at most 0.5"), "{why}");
    // The same is told by the store.
    let metrics = analysis["metrics"].as_array().unwrap();
    assert!(metrics[0]["evidence"]["alphaSpent"].is_number(), "{analysis:#}");
    agents.end().await;
    world.stop().await;
}
