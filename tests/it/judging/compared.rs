//! What a judged metric's evidence says is what the page of its release shows, in numbers and drawn.

use simulated_children::FleetKind;

use super::{Agents, in_state, judged, registered};
use crate::{
    page::releases::{compared, differs},
    virtual_time::VirtualTime,
    world::World,
};

const BOTH: &str = "duration: 1s, interval: 1s, metrics: [{name: times, provider: children, \
    metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}, {name: errors, provider: children, \
    metric: errorRate, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 50%}]";

/// Half of the calls to each version, and enough of them.
fn even(text: &str) -> String {
    let text = text.replace("trafficPercentage: 95", "trafficPercentage: 50");
    text.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n").replace("\"50\"", "\"2000\"")
}

#[tokio::test]
async fn base_and_new_are_drawn_with_the_interval_and_what_the_strategy_bears() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let agents = Agents::below(&world, 3, |config| {
        config.kind = FleetKind::Modern;
        config.traffic.new.latency = "lognormal:16ms,0.3".parse().unwrap();
        config.traffic.base.errors = 0.005;
        config.traffic.new.errors = 0.005;
    });
    registered(&world, 3).await;
    world.submit(&even(&judged("seen", BOTH))).await.ok();
    in_state(&world, "seen", "RolledBack").await;
    let (found, release, html) = compared(&world, "seen").await;
    assert!(found.is_empty(), "{found:#?}");
    let metrics = release["analyses"][0]["metrics"].as_array().unwrap();
    assert_eq!(metrics[0]["limits"], serde_json::json!({"of": "ratio", "at_most": 1.1}), "{metrics:#?}");
    assert!(metrics[0]["evidence"]["effect"]["low"].as_f64().unwrap() > 1.1, "{metrics:#?}");
    let drawings: Vec<&str> = html.split("<svg class=\"drawn\"").skip(1).collect();
    assert!(drawings.len() >= 3, "{html}");
    for drawing in drawings {
        let (tag, _) = drawing.split_once('>').unwrap();
        assert!(tag.contains("role=\"img\" aria-label=\"") && !tag.contains("NaN"), "{tag}");
    }
    assert!(html.contains("the strategy bears at most 1.1."), "{html}");
    for path in [
        "/analyses/0/metrics/0/evidence/canary/p95",
        "/analyses/0/metrics/0/evidence/baseline/count",
        "/analyses/0/metrics/1/evidence/canary/events",
        "/analyses/0/metrics/0/evidence/effect/low",
        "/analyses/0/metrics/0/limits/at_most",
        "/analyses/0/metrics/0/found",
        "/analyses/0/metrics/0/verdict",
    ] {
        let mut changed = release.clone();
        let value = changed.pointer_mut(path).unwrap_or_else(|| panic!("no {path} in {release:#}"));
        *value = match value.as_f64() {
            Some(number) => serde_json::json!(number + 1.0),
            None => "another".into(),
        };
        assert!(!differs(&changed, &html).is_empty(), "{path} is not compared");
    }
    agents.end().await;
    world.stop().await;
}
