//! The analysis of a whole release: between its waves, and in the background.

use super::{Agents, Meter, events, in_state, registered};
use crate::world::{World, strategy};

fn led(id: &str, rollout: &str) -> String {
    format!("{}\nrollout: {{{rollout}}}\n", strategy(id))
}

const LOAD: &str = "metrics: [{name: load, provider: meter, query: '?v=canary', expected: {max: 10}}]";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_wave_is_judged_before_the_next_and_before_the_end() {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_background_a_bad_measurement_takes_everything_back() {
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
