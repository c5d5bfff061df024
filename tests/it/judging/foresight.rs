//! What it takes, said before a release begins: by what the one before measured, or by what is assumed.

use serde_json::Value;

use super::{Agents, in_state, judged, registered};
use crate::{
    virtual_time::VirtualTime,
    world::{World, strategy},
};

const COMPARED: &str = "duration: 1m, interval: 5s, metrics: [\
    {name: times, provider: children, metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH}, \
    {name: errors, provider: children, metric: errorRate, strategy: CANARY_BASELINE, deviation: HIGH}]";

/// Half of the calls for each version, so that both are measured.
fn even(text: &str) -> String {
    text.replace("trafficPercentage: 95", "trafficPercentage: 50")
        .replace("trafficPercentage: 5\n", "trafficPercentage: 50\n")
}

async fn planned(world: &World, text: &str) -> Value {
    world.submit_to("/api/v1/plan", text).await.ok().json()
}

fn metric<'p>(plan: &'p Value, name: &str) -> &'p Value {
    let found = plan["takes"].as_array().unwrap().iter().find(|found| found["metric"] == name);
    found.unwrap_or_else(|| panic!("{plan:#}"))
}

#[tokio::test]
async fn a_plan_says_what_it_takes_by_what_the_release_before_measured() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let agents = Agents::below(&world, 3, |config| {
        config.kind = simulated_children::FleetKind::Modern;
        config.traffic.new.latency = config.traffic.base.latency;
    });
    registered(&world, 3).await;
    let next = even(&judged("next", COMPARED));
    // Nobody has measured anything: what is assumed is said.
    let plan = planned(&world, &next).await;
    let assumed = "assumed: times with a standard deviation of 0.5 of their mean";
    assert_eq!(metric(&plan, "times")["basis"], assumed, "{plan:#}");
    assert_eq!(metric(&plan, "errors")["basis"], "assumed: 0.1 % errors");
    assert_eq!(metric(&plan, "times")["calls_per_second"], Value::Null);
    // Newer agents say that they report on the way.
    assert_eq!(metric(&plan, "times")["looks"], 12, "{plan:#}");
    let reporting = metric(&plan, "times")["reporting"].as_str().unwrap();
    assert!(reporting.starts_with("12 looks: 3 agents report at each interval"), "{reporting}");
    // The stage waits for 50 calls of each of three agents, which are far too few.
    let given = &metric(&plan, "times")["given"];
    assert_eq!(given["calls"], 150, "{plan:#}");
    let warning = metric(&plan, "times")["warning"].as_str().unwrap();
    let (advice, why) =
        warning.split_once(": with about 150 calls only ").unwrap_or_else(|| panic!("{warning}"));
    let (calls, tolerance) = advice.split_once(", or the tolerance to ").unwrap();
    let calls: u64 = calls.strip_prefix("raise minCalls to ").unwrap().parse().unwrap();
    let wanted = metric(&plan, "times")["wanted"][0]["calls"].as_u64().unwrap();
    assert_eq!(calls, wanted.div_ceil(3), "each of the three is to have its part: {warning}");
    assert!(tolerance.ends_with(" %") && why.ends_with(" % of equal versions pass"), "{warning}");
    let condition = &plan["conditions"][0];
    assert_eq!(
        (&condition["condition"], &condition["min_calls"]),
        (&"errorRate <0.02".into(), &50.into()),
        "{plan:#}"
    );

    world.submit(&even(&strategy("one")).replace("\"50\"", "\"2000\"")).await.ok();
    in_state(&world, "one", "Done").await;
    let plan = planned(&world, &next).await;
    let times = metric(&plan, "times");
    assert_eq!(times["basis"], "release one", "{plan:#}");
    assert!(times["calls_per_second"].as_f64().unwrap() > 0.0, "{plan:#}");
    let wanted = times["wanted"].as_array().unwrap();
    let calls: Vec<u64> = wanted.iter().map(|point| point["calls"].as_u64().unwrap()).collect();
    assert!(calls[0] > 50 && calls[1] > calls[0], "{plan:#}");
    assert!(wanted[0]["passes"].as_f64().unwrap() >= 0.8 && wanted[0]["seconds"].as_f64().unwrap() > 0.0);
    assert!(wanted[0]["smallest_change"].as_f64().unwrap() > 1.05);
    // The median is known now, so that its condition can be looked at too.
    assert_eq!(plan["conditions"].as_array().unwrap().len(), 2, "{plan:#}");
    world.submit(&next).await.ok();
    let shown = world.get("/api/v1/releases/next").await.ok().json();
    let said = shown["analyses"][0]["reporting"].as_str().unwrap();
    assert!(said.starts_with("a deployed agent reports once, when it has met minDuration ("), "{said}");
    agents.end().await;
    world.stop().await;
}
