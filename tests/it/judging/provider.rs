//! A stage that is judged by what a provider says.

use sqlx::{Connection, SqliteConnection};

use super::{Agents, Meter, events, in_state, judged, look_until, registered};
use crate::{virtual_time::VirtualTime, world::World};

/// Two looks, one after each second.
const RANGE: &str = "duration: 2s, interval: 1s, consecutiveErrorLimit: 0, \
    metrics: [{name: load, provider: meter, query: '?v={{ .Variant.Name }}', expected: {max: 10}}]";

const COMPARISON: &str = "duration: 2s, interval: 1s, metrics: [{name: latency, provider: meter, \
    query: '?v={{ .Variant.Name }}', strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 5%}]";

async fn world(meter: &Meter) -> World {
    World::with(|options| meter.known_to(options)).await
}

/// Values around a middle, without a pattern.
fn around(middle: f64) -> Vec<f64> {
    (0..400_u32)
        .map(|at| middle * (0.9 + f64::from(at.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24) * 0.2))
        .collect()
}

#[tokio::test]
async fn a_stage_whose_measurements_are_in_range_passes_and_is_rolled_out() {
    let _time = VirtualTime::begin();
    let meter = Meter::start().await;
    meter.say(Ok(vec![3.0]), Err(500));
    let world = world(&meter).await;
    let agents = Agents::below(&world, 2, |_| ());
    registered(&world, 2).await;
    world.submit(&judged("good", RANGE)).await.ok();
    let shown = in_state(&world, "good", "Done").await;
    let analysis = &shown["analyses"][0];
    let part = |name: &str| analysis[name].as_str().unwrap().to_owned();
    let seen = format!("{} {} {}: {}", part("of"), part("state"), part("verdict"), part("why"));
    insta::assert_snapshot!(seen, @"stage Canary 5 Percent passed pass: load: 3 is at most 10; 0 of 2 measurements were outside, 0 are borne; metrics_conditions: errorRate <0.02: 2 of 2 successful children keep it; metrics_conditions: responseTime <=250 Median: 2 of 2 successful children keep it");
    assert_eq!(events(&world, "good", "looked").await.len(), 2);
    // It left memory, and is shown the same.
    assert_eq!(events(&world, "good", "verdict").await[0]["then"], "passed");
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn a_stage_with_a_measurement_out_of_range_is_rolled_back_with_the_evidence() {
    let _time = VirtualTime::begin();
    let meter = Meter::start().await;
    meter.say(Ok(vec![3.0, 12.5]), Err(500));
    let world = world(&meter).await;
    let agents = Agents::below(&world, 2, |_| ());
    registered(&world, 2).await;
    world.submit(&judged("bad", RANGE)).await.ok();
    let shown = in_state(&world, "bad", "RolledBack").await;
    assert_eq!(shown["counts"]["succeeded"], 0, "{shown:#}");
    let rolled_back = events(&world, "bad", "release_rolled_back").await;
    insta::assert_snapshot!(rolled_back[0]["reason"].as_str().unwrap(), @"analysis of stage Canary 5 Percent: fail: load: 12.5 is above 10; 1 of 1 measurements was outside, 0 are borne");
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn no_answer_is_no_pass_and_whoever_resumes_accepts_that() {
    let _time = VirtualTime::begin();
    let meter = Meter::start().await;
    meter.say(Err(503), Err(503));
    let world = world(&meter).await;
    let agents = Agents::below(&world, 1, |_| ());
    registered(&world, 1).await;
    world.submit(&judged("dark", RANGE)).await.ok();
    let shown = in_state(&world, "dark", "Paused").await;
    insta::assert_snapshot!(shown["reason"].as_str().unwrap(), @"analysis of stage Canary 5 Percent: error: load: there was no answer: meter: it answered 503: no");
    let note = serde_json::json!({"by": "eve", "note": "the meter is broken"});
    world.post("/api/v1/releases/dark/resume", &note).await.ok();
    let shown = in_state(&world, "dark", "Done").await;
    assert_eq!(shown["analyses"][0]["state"], "accepted");
    assert_eq!(events(&world, "dark", "release_resumed").await[0]["note"], "the meter is broken");
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn no_value_is_no_data_and_pauses() {
    let _time = VirtualTime::begin();
    let meter = Meter::start().await;
    let world = world(&meter).await;
    let agents = Agents::below(&world, 1, |_| ());
    registered(&world, 1).await;
    world.submit(&judged("empty", RANGE)).await.ok();
    let shown = in_state(&world, "empty", "Paused").await;
    insta::assert_snapshot!(shown["reason"].as_str().unwrap(), @"analysis of stage Canary 5 Percent: no data: load: 2 of 2 looks had no value");
    agents.end().await;
    world.stop().await;
}

/// They passed by what they had shown until then.
#[tokio::test]
async fn a_series_that_ends_before_the_stage_passes_nothing() {
    let _time = VirtualTime::begin();
    let meter = Meter::start().await;
    let world = world(&meter).await;
    let agents = Agents::below(&world, 1, |_| ());
    registered(&world, 1).await;
    for (id, analysis) in [("range", RANGE), ("compared", COMPARISON)] {
        meter.say(Ok(around(3.0)), Ok(around(3.0)));
        world.submit(&judged(id, &analysis.replace("duration: 2s", "duration: 20s"))).await.ok();
        look_until(&world, id, |shown| shown["analyses"][0]["looks"].as_u64() >= Some(12)).await;
        meter.say(Ok(Vec::new()), Ok(around(3.0)));
        in_state(&world, id, "Paused").await;
        world.post(&format!("/api/v1/releases/{id}/abort"), &serde_json::json!({"by": "eve"})).await.ok();
        in_state(&world, id, "Aborted").await;
    }
    for (id, says) in [
        ("range", "looks had no value, the last one among them; the last value is"),
        ("compared", "and none after"),
    ] {
        let paused = &events(&world, id, "release_paused").await[0];
        let reason = paused["reason"].as_str().unwrap();
        assert!(reason.contains("no data") && reason.contains(says), "{reason}");
    }
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn a_restart_in_the_middle_loses_no_look_and_makes_none_twice() {
    let _time = VirtualTime::begin();
    let meter = Meter::start().await;
    meter.say(Ok(around(20.0)), Ok(around(20.0)));
    let world = world(&meter).await;
    let child = world.child().await;
    world.submit(&judged("long", &COMPARISON.replace("duration: 2s", "duration: 4s"))).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "long").await.ok();
    let before = look_until(&world, "long", |shown| shown["analyses"][0]["looks"] == 1).await;
    // What was measured has a row of its own: the release's is written with every change of it.
    let mut store = SqliteConnection::connect(&world.store()).await.unwrap();
    for (sql, is_there) in
        [("SELECT detail FROM releases", false), ("SELECT detail FROM analysis_runs", true)]
    {
        let detail: String = sqlx::query_scalar(sql).fetch_one(&mut store).await.unwrap();
        assert_eq!(detail.contains("strata"), is_there, "{detail}");
    }
    store.close().await.unwrap();
    let world = world.restart_with(|options| meter.known_to(options)).await;
    let after = world.get("/api/v1/releases/long").await.ok().json();
    if after["analyses"][0]["looks"] == 1 {
        assert_eq!(after["analyses"], before["analyses"]);
    }
    look_until(&world, "long", |shown| shown["analyses"][0]["metrics"][0]["verdict"].is_string()).await;
    let looks: Vec<u64> = events(&world, "long", "looked")
        .await
        .iter()
        .map(|looked| looked["look"].as_u64().unwrap())
        .collect();
    assert_eq!(looks, [1, 2, 3, 4]);
    world.stop().await;
}

#[tokio::test]
async fn slower_canary_is_stopped_and_equal_canary_passes() {
    let _time = VirtualTime::begin();
    let meter = Meter::start().await;
    meter.say(Ok(around(30.0)), Ok(around(20.0)));
    let world = world(&meter).await;
    let agents = Agents::below(&world, 1, |_| ());
    registered(&world, 1).await;
    world.submit(&judged("slow", COMPARISON)).await.ok();
    let shown = in_state(&world, "slow", "RolledBack").await;
    let metric = &shown["analyses"][0]["metrics"][0];
    assert_eq!((&metric["verdict"], &metric["alpha"]), (&"fail".into(), &0.05.into()), "{shown:#}");
    assert!(metric["evidence"]["effect"]["estimate"].as_f64().unwrap() > 1.3, "{metric:#}");
    meter.say(Ok(around(20.0)), Ok(around(20.0)));
    world.submit(&judged("fine", COMPARISON)).await.ok();
    let shown = in_state(&world, "fine", "Done").await;
    assert_eq!(shown["analyses"][0]["verdict"], "pass", "{shown:#}");
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn a_comparison_may_demand_that_its_boundary_is_crossed_more_than_once() {
    let _time = VirtualTime::begin();
    let meter = Meter::start().await;
    meter.say(Ok(around(30.0)), Ok(around(20.0)));
    let world = world(&meter).await;
    let agents = Agents::below(&world, 1, |_| ());
    registered(&world, 1).await;
    let block = COMPARISON.replace("duration: 2s", "duration: 3s, failureLimit: 1");
    world.submit(&judged("twice", &block)).await.ok();
    let shown = in_state(&world, "twice", "RolledBack").await;
    assert_eq!(shown["analyses"][0]["looks"], 2, "{shown:#}");
    let looks = events(&world, "twice", "looked").await;
    let first = looks[0]["metrics"][0]["found"].as_str().unwrap();
    assert!(first.starts_with("the boundary was crossed 1 of 2 times: the canary is "), "{first}");
    assert_eq!(looks[0]["metrics"][0].get("verdict"), None);
    agents.end().await;
    world.stop().await;
}
