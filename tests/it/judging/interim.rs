//! Looks while a stage goes on, at what children report of it before its end.

use analysis::Histogram;
use serde_json::{Value, json};
use simulated_children::{FleetConfig, FleetKind};

use super::{Agents, events, in_state, judged, look_until, registered};
use crate::{
    random::Random,
    tree::levels,
    virtual_time::VirtualTime,
    world::{STAGE, World, summary},
};

/// Far more looks than it takes.
const TIMES: &str = "duration: 600s, interval: 1s, metrics: [{name: times, provider: children, \
    metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}]";

/// Everything that an agent has measured of a stage: half of its calls go to the new version.
struct Meter {
    random: Random,
    slower: f64,
    intervals: Vec<(u32, [Histogram; 2])>,
}

impl Meter {
    fn new(slower: f64, seed: u64) -> Self {
        Self { random: Random::new(seed), slower, intervals: Vec::new() }
    }

    /// Takes so many calls in an interval.
    fn call(&mut self, interval: u32, calls: usize) {
        let empty = || Histogram::new(1.01).unwrap();
        if self.intervals.last().is_none_or(|(last, _)| *last != interval) {
            self.intervals.push((interval, [empty(), empty()]));
        }
        let (_, sides) = self.intervals.last_mut().unwrap();
        for call in 0..calls {
            let is_new = call % 2 == 1;
            let ms = 10.0 * if is_new { self.slower } else { 1.0 } * self.random.log_normal(0.3);
            sides[usize::from(is_new)].record(ms).unwrap();
        }
    }

    fn strata(&self) -> Value {
        let stratum = |(interval, [base, new]): &(u32, [Histogram; 2])| {
            json!({"split": 50, "interval": interval, "f1_calls": base.count(), "f1_errors": 0,
                "f2_calls": new.count(), "f2_errors": 0, "f1_histogram": base, "f2_histogram": new})
        };
        self.intervals.iter().map(stratum).collect()
    }
}

async fn tell(world: &World, child: &str, offer: &str, status: u8, strata: Value) -> u16 {
    let mut summary = summary(STAGE, status);
    summary["strata"] = strata;
    let body = json!({"id": child, "release_id": offer, "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.status
}

/// Half of the calls to each version.
fn even(text: &str) -> String {
    let text = text.replace("trafficPercentage: 95", "trafficPercentage: 50");
    text.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n")
}

/// So many children that have begun a stage that is judged.
async fn testing(id: &str, block: &str, count: usize) -> (World, Vec<String>) {
    let world = World::start().await;
    let mut children = Vec::new();
    for _ in 0..count {
        children.push(world.child().await);
    }
    registered(&world, count).await;
    world.submit(&even(&judged(id, block))).await.ok();
    for child in &children {
        assert_eq!(world.poll(child).await.1, id);
        world.fetch(child, id).await.ok();
    }
    (world, children)
}

fn calls(analysis: &Value) -> u64 {
    let evidence = &analysis["metrics"][0]["evidence"];
    let count = |side: &str| evidence[side]["count"].as_u64().unwrap_or(0);
    count("baseline") + count("canary")
}

#[tokio::test]
async fn a_slow_version_is_stopped_by_what_one_child_reports_while_others_say_nothing() {
    let _time = VirtualTime::begin();
    let (world, children) = testing("slow", TIMES, 3).await;
    let mut meter = Meter::new(10.0, 1);
    meter.call(7, 400);
    assert_eq!(tell(&world, &children[0], "slow", 1, meter.strata()).await, 200);
    let shown = in_state(&world, "slow", "RollingBack").await;
    let analysis = &shown["analyses"][0];
    assert_eq!(analysis["verdict"], "fail", "{analysis:#}");
    assert_eq!(analysis["metrics"][0]["evidence"]["looks"], 1, "the first that could decide: {analysis:#}");
    for child in &children {
        let end = world.end_stage(child, "slow", STAGE).await.ok().json();
        assert_eq!(end["end_stage"], true, "everybody is told to end it");
    }
    world.stop().await;
}

#[tokio::test]
async fn repeated_report_counts_once_and_late_data_count_next_time() {
    let _time = VirtualTime::begin();
    let block = TIMES.replace("600s", "4s");
    let (world, children) = testing("good", &block, 2).await;
    let mut meters = [Meter::new(1.0, 1), Meter::new(1.0, 2)];
    let counted = |told: u64| move |shown: &Value| calls(&shown["analyses"][0]) == told;
    meters[0].call(7, 3_000);
    tell(&world, &children[0], "good", 1, meters[0].strata()).await;
    look_until(&world, "good", counted(3_000)).await;
    // The other one was slow to tell of the same interval; this one goes on.
    meters[1].call(7, 2_000);
    meters[0].call(8, 1_000);
    for (child, meter) in children.iter().zip(&meters) {
        tell(&world, child, "good", 1, meter.strata()).await;
    }
    look_until(&world, "good", counted(6_000)).await;
    meters[1].call(8, 4_000);
    for (child, meter) in children.iter().zip(&meters) {
        tell(&world, child, "good", 2, meter.strata()).await;
    }
    let shown = look_until(&world, "good", |shown| shown["analyses"][0]["verdict"].is_string()).await;
    let analysis = &shown["analyses"][0];
    assert_eq!((&analysis["verdict"], calls(analysis)), (&"pass".into(), 10_000), "{analysis:#}");
    assert!(analysis["metrics"][0]["evidence"]["looks"].as_u64().unwrap() >= 3, "{analysis:#}");
    world.stop().await;
}

#[tokio::test]
async fn where_a_child_begins_anew_what_was_counted_stays_and_waits_for_more() {
    let _time = VirtualTime::begin();
    let block = TIMES.replace("600s", "4s");
    let (world, children) = testing("anew", &block, 1).await;
    let (mut before, mut after) = (Meter::new(1.0, 1), Meter::new(1.0, 2));
    before.call(7, 4_000);
    tell(&world, &children[0], "anew", 1, before.strata()).await;
    look_until(&world, "anew", |shown| calls(&shown["analyses"][0]) == 4_000).await;
    after.call(7, 100);
    after.call(8, 3_000);
    tell(&world, &children[0], "anew", 2, after.strata()).await;
    let shown = look_until(&world, "anew", |shown| shown["analyses"][0]["verdict"].is_string()).await;
    assert_eq!(calls(&shown["analyses"][0]), 7_000, "{:#}", shown["analyses"][0]);
    world.stop().await;
}

#[tokio::test]
async fn where_nobody_reports_before_the_end_there_is_one_look() {
    let _time = VirtualTime::begin();
    let block = TIMES.replace("600s", "3s");
    let (world, children) = testing("once", &block, 2).await;
    for (child, seed) in children.iter().zip(1..) {
        let mut meter = Meter::new(1.0, seed);
        meter.call(0, 4_000);
        tell(&world, child, "once", 2, meter.strata()).await;
    }
    let shown = look_until(&world, "once", |shown| shown["analyses"][0]["verdict"].is_string()).await;
    let analysis = &shown["analyses"][0];
    assert_eq!((&analysis["verdict"], calls(analysis)), (&"pass".into(), 8_000), "{analysis:#}");
    let evidence = &analysis["metrics"][0]["evidence"];
    assert_eq!((&evidence["looks"], &analysis["looks"]), (&1.into(), &1.into()), "{analysis:#}");
    world.stop().await;
}

/// A version that is ten times slower fails, by what is demanded of times, while its only child still tests it.
async fn stopped_in_the_background(demand: &str) {
    let world = World::start().await;
    let child = world.child().await;
    let block = format!(
        "analysis: {{interval: 1s, metrics: [{{name: times, provider: children, metric: responseTime, {demand}}}]}}"
    );
    let text = format!("{}\nrollout: {{order: parallel, {block}}}\n", crate::world::strategy("behind"));
    world.submit(&even(&text)).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "behind").await.ok();
    let mut meter = Meter::new(10.0, 1);
    meter.call(3, 2_000);
    tell(&world, &child, "behind", 1, meter.strata()).await;
    let shown = in_state(&world, "behind", "RollingBack").await;
    assert_eq!(shown["analyses"][0]["verdict"], "fail", "{shown:#}");
    world.stop().await;
}

#[tokio::test]
async fn in_the_background_a_slow_version_is_found_before_the_stage_is_over() {
    let _time = VirtualTime::begin();
    stopped_in_the_background("strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%").await;
}

/// What the new version has to keep within, while nothing is compared.
fn range(of: &str, more: &str) -> String {
    format!(
        "duration: 600s, interval: 1s, metrics: [{{name: range, provider: children, metric: {of}{more}}}]"
    )
}

#[tokio::test]
async fn a_version_far_out_of_its_range_is_stopped_before_all_have_reported() {
    let _time = VirtualTime::begin();
    let (world, children) = testing("far", &range("responseTime", ", expected: {max: 20}"), 3).await;
    let mut meter = Meter::new(10.0, 1);
    meter.call(7, 400);
    assert_eq!(tell(&world, &children[0], "far", 1, meter.strata()).await, 200);
    let analysis = &in_state(&world, "far", "RollingBack").await["analyses"][0];
    assert_eq!((&analysis["verdict"], &analysis["looks"]), (&"fail".into(), &1.into()), "{analysis:#}");
    let why = analysis["why"].as_str().unwrap();
    assert!(why.contains("above 20, by more than chance explains"), "{why}");
    world.stop().await;
}

#[tokio::test]
async fn in_the_background_too_a_version_far_out_of_its_range_is_stopped() {
    let _time = VirtualTime::begin();
    stopped_in_the_background("expected: {max: 20}").await;
}

#[tokio::test]
async fn a_stray_error_of_few_calls_ends_nothing_and_many_do() {
    let _time = VirtualTime::begin();
    let block = range("errorRate", ", expected: {max: 0.02}");
    let (world, children) = testing("stray", &block, 1).await;
    let stray = |calls: u64, errors: u64| json!([{"split": 50, "interval": 1, "f1_calls": calls, "f1_errors": 0, "f2_calls": calls, "f2_errors": errors}]);
    assert_eq!(tell(&world, &children[0], "stray", 1, stray(10, 1)).await, 200);
    let is_seen = |shown: &Value| shown["analyses"][0]["looks"].as_u64().is_some_and(|looks| looks > 0);
    let analysis = &look_until(&world, "stray", is_seen).await["analyses"][0];
    assert!(analysis["verdict"].is_null(), "{analysis:#}");
    let metric = &analysis["metrics"][0];
    assert_eq!(metric["found"], "0.1 over 10 calls so far", "{analysis:#}");
    assert_eq!(tell(&world, &children[0], "stray", 1, stray(400, 40)).await, 200);
    assert_eq!(in_state(&world, "stray", "RollingBack").await["analyses"][0]["verdict"], "fail");
    world.stop().await;
}

/// The results of one child, as the API shows them.
async fn results(world: &World, id: &str) -> Vec<(String, f64)> {
    let page = world.get(&format!("/api/v1/releases/{id}/children")).await.ok().json();
    let results = page["items"][0]["results"].as_array().cloned().unwrap_or_default();
    let told = |result: &Value| {
        let calls: f64 = result["summary"]["strata"][0]["f2_calls"].as_f64().unwrap_or(0.0);
        (result["status"].as_str().unwrap().to_owned(), calls)
    };
    results.iter().map(told).collect()
}

#[tokio::test]
async fn a_report_of_a_stage_that_goes_on_refreshes_numbers_and_changes_nothing_else() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&even(&crate::world::strategy("plain"))).await.ok();
    world.poll(&child).await;
    let mut meter = Meter::new(1.0, 1);
    meter.call(7, 100);
    assert_eq!(tell(&world, &child, "plain", 1, meter.strata()).await, 409, "it has not begun");
    assert_eq!(results(&world, "plain").await, []);
    world.fetch(&child, "plain").await.ok();
    assert_eq!(
        tell(&world, &child, "plain", 0, meter.strata()).await,
        400,
        "nobody reports what is not begun"
    );
    assert_eq!(tell(&world, &child, "plain", 1, meter.strata()).await, 200);
    assert_eq!(results(&world, "plain").await, [("InProgress".to_owned(), 50.0)]);
    let end = world.end_stage(&child, "plain", STAGE).await.ok().json();
    assert_eq!(end["end_stage"], false, "it is not ready to end");
    meter.call(7, 100);
    assert_eq!(tell(&world, &child, "plain", 1, meter.strata()).await, 200);
    assert_eq!(results(&world, "plain").await, [("InProgress".to_owned(), 100.0)]);
    // Who is ready stays so, whatever it goes on to measure.
    assert_eq!(tell(&world, &child, "plain", 2, meter.strata()).await, 200);
    meter.call(7, 100);
    assert_eq!(tell(&world, &child, "plain", 1, meter.strata()).await, 200);
    assert_eq!(results(&world, "plain").await, [("SuccessWaiting".to_owned(), 150.0)]);
    assert_eq!(world.end_stage(&child, "plain", STAGE).await.ok().json()["end_stage"], true);
    assert_eq!(tell(&world, &child, "plain", 4, meter.strata()).await, 200);
    meter.call(7, 100);
    assert_eq!(
        tell(&world, &child, "plain", 1, meter.strata()).await,
        200,
        "it came late, and says nothing new"
    );
    assert_eq!(results(&world, "plain").await, [("Completed".to_owned(), 150.0)]);
    world.stop().await;
}

#[tokio::test]
async fn whoever_reports_while_it_tests_is_told_the_time_and_nobody_else_is() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&crate::world::strategy("time")).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "time").await.ok();
    let before = jiff::Timestamp::now().as_millisecond();
    let told = world.report(&child, "time", STAGE, 1).await.ok().json();
    let time = told["time_ms"].as_i64().unwrap();
    assert!((before..=jiff::Timestamp::now().as_millisecond()).contains(&time), "{told}");
    assert_eq!(world.report(&child, "time", STAGE, 2).await.ok().body, b"");
    world.stop().await;
}

/// A stage that would go on for an hour.
fn long(id: &str, block: &str) -> String {
    let text = even(&judged(id, block));
    let from = text.find("minDuration").unwrap();
    let (before, after) = text.split_at(from);
    let line_end = from + after.find("threshold:").unwrap();
    let end = line_end + text[line_end..].find('\n').unwrap();
    format!("{before}{}threshold: 1h{}", &text[from..line_end], &text[end..])
}

/// Newer agents, twenty times as fast, whose new version takes so many times as long.
fn modern(slower: u32) -> impl Fn(&mut FleetConfig) {
    move |config| {
        (config.kind, config.pace) = (FleetKind::Modern, 0.05);
        config.traffic.calls_per_second = 20.0;
        config.traffic.base.latency = "lognormal:8ms,0.3".parse().unwrap();
        config.traffic.new.latency = format!("lognormal:{}ms,0.3", 8 * slower).parse().unwrap();
    }
}

/// The same with other calls: what two fleets of one seed measure is one measurement, counted twice.
fn differing(slower: u32) -> impl Fn(&mut FleetConfig) {
    move |config| {
        modern(slower)(config);
        config.seed += 1;
    }
}

/// What once was: it tested for as long as its stage took, and the looks of its `interval` did not exist.
#[tokio::test]
async fn much_slower_version_is_stopped_early_despite_silent_agents() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let agents = Agents::below(&world, 4, modern(10));
    let silent = Agents::below(&world, 2, |config| {
        modern(10)(config);
        config.kind = FleetKind::Deployed;
    });
    registered(&world, 6).await;
    world.submit(&long("slow", TIMES)).await.ok();
    let is_judged = |shown: &Value| shown["analyses"][0]["verdict"].is_string();
    let analysis = look_until(&world, "slow", is_judged).await["analyses"][0].clone();
    assert_eq!(analysis["verdict"], "fail", "{analysis:#}");
    let looks = analysis["metrics"][0]["evidence"]["looks"].as_u64().unwrap();
    assert!((1..=2).contains(&looks), "{analysis:#}");
    agents.end().await;
    silent.end().await;
    world.stop().await;
}

#[tokio::test]
async fn over_three_levels_of_managers_too() {
    let _time = VirtualTime::begin();
    let root = World::start().await;
    let middle = levels::below(&root).await;
    let [west, east] = [levels::below(&middle).await, levels::below(&middle).await];
    let agents = [Agents::below(&west, 2, modern(10)), Agents::below(&east, 2, differing(10))];
    levels::manager_of(&root, 4).await;
    root.submit(&long("slow", TIMES)).await.ok();
    let analysis = &in_state(&root, "slow", "RolledBack").await["analyses"][0];
    assert_eq!(analysis["verdict"], "fail", "{analysis:#}");
    let looks = analysis["metrics"][0]["evidence"]["looks"].as_u64().unwrap();
    assert!((1..=2).contains(&looks), "{analysis:#}");
    for manager in [&middle, &west, &east] {
        in_state(manager, "slow", "RolledBack").await;
    }
    for agents in agents {
        agents.end().await;
    }
    for world in [east, west, middle, root] {
        world.stop().await;
    }
}

/// The calls of two agents below two managers are counted in the same intervals: those of the manager at the top.
#[tokio::test]
async fn intervals_have_the_same_numbers_everywhere() {
    let _time = VirtualTime::begin();
    let root = World::start().await;
    let [west, east] = [levels::below(&root).await, levels::below(&root).await];
    let agents = [Agents::below(&west, 1, modern(1)), Agents::below(&east, 1, differing(1))];
    levels::manager_of(&root, 1).await;
    registered(&root, 2).await;
    // There are at most so many intervals: those of a long analysis take longer than anybody waits here.
    root.submit(&long("good", &TIMES.replace("600s", "60s"))).await.ok();
    let told = |page: &Value| -> Vec<Vec<u64>> {
        let strata = |child: &Value| {
            let strata = child["results"][0]["summary"]["strata"].as_array().cloned().unwrap_or_default();
            strata.iter().map(|stratum| stratum["interval"].as_u64().unwrap()).filter(|at| *at > 0).collect()
        };
        page["items"].as_array().unwrap().iter().map(strata).collect()
    };
    let mut both = Vec::new();
    let looking = async {
        while both.len() != 2 || both.iter().any(|intervals: &Vec<u64>| intervals.len() < 3) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            both = told(&root.get("/api/v1/releases/good/children").await.ok().json());
        }
    };
    tokio::time::timeout(crate::deadline::DEADLINE, looking).await.unwrap();
    for intervals in &both {
        assert!(intervals.windows(2).all(|two| two[1] == two[0] + 1), "{both:?}");
    }
    assert!(both[0].iter().filter(|at| both[1].contains(at)).count() >= 2, "{both:?}");
    for agents in agents {
        agents.end().await;
    }
    for world in [east, west, root] {
        world.stop().await;
    }
}

#[tokio::test]
async fn only_who_can_report_on_the_way_is_told_how() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let poll = async |id: &str, features: Value| {
        let area: Value = serde_json::from_str(crate::world::AREA).unwrap();
        let body = json!({"id": id, "geographic_area": area, "number_of_children": 0,
            "capabilities": {"features": features}});
        world.post("/poll", &body).await.ok().json()["id"].as_str().unwrap().to_owned()
    };
    let (plain, newer) = (world.child().await, poll("", json!(["interim"])).await);
    poll(&newer, json!(["interim"])).await;
    let block = TIMES.replace("interval: 1s", "interval: 10s");
    world.submit(&judged("told", &block)).await.ok();
    for (child, is_told) in [(&plain, false), (&newer, true)] {
        world.poll(&plain).await;
        poll(&newer, json!(["interim"])).await;
        // A repeat gives the same again.
        for _ in 0..2 {
            let text = world.fetch(child, "told").await.ok().text();
            // Sixty intervals are more than a report may have.
            let told = text.contains("    interim:\n      every: 10s\n      cut: 20s\n");
            assert_eq!((text.contains("interim"), told), (is_told, is_told), "{text}");
        }
    }
    world.stop().await;
}

/// What once was a dead end: undecided, with a number of calls quoted that nothing could go on for.
#[tokio::test]
async fn an_analysis_that_ended_undecided_goes_on_over_a_restart_until_it_is_decided() {
    let _time = VirtualTime::begin();
    let block = TIMES.replace("600s", "1s");
    for (slower, verdict) in [(1.0, "pass"), (1.17, "fail")] {
        let (world, children) = testing("thin", &block, 1).await;
        let extend = "/api/v1/releases/thin/extend-analysis";
        for nothing in ["calls=0", "for=0s", "for=2d"] {
            let refused = world.call("POST", &format!("{extend}?{nothing}")).await;
            assert_eq!(refused.status, 400, "{}", refused.text());
        }
        let mut meter = Meter::new(slower, 1);
        meter.call(0, 30);
        tell(&world, &children[0], "thin", 2, meter.strata()).await;
        let shown = in_state(&world, "thin", "Paused").await;
        assert_eq!(shown["analyses"][0]["verdict"], "inconclusive", "{shown:#}");
        world.call("POST", &format!("{extend}?for=10m&calls=6000")).await.ok();
        let shown = in_state(&world, "thin", "Running").await;
        assert_eq!(shown["analyses"][0]["state"], "open", "{shown:#}");
        let extended = &events(&world, "thin", "analysis_extended").await[0];
        assert_eq!((&extended["for_ms"], &extended["calls"]), (&600_000.into(), &6_000.into()));
        let world = world.restart().await;
        meter.call(9, 8_000);
        tell(&world, &children[0], "thin", 1, meter.strata()).await;
        let shown = look_until(&world, "thin", |shown| shown["analyses"][0]["verdict"].is_string()).await;
        assert_eq!(shown["analyses"][0]["verdict"], verdict, "{:#}", shown["analyses"][0]);
        let refused = world.call("POST", &format!("{extend}?for=10m")).await;
        assert_eq!(refused.status, 409, "it is decided: {}", refused.text());
        world.stop().await;
    }
}

#[tokio::test]
async fn one_that_is_extended_while_it_is_open_does_not_pause_at_its_end() {
    let _time = VirtualTime::begin();
    let (world, children) = testing("early", &TIMES.replace("600s", "1s"), 2).await;
    let extend = "/api/v1/releases/early/extend-analysis?for=2s";
    world.call("POST", extend).await.ok();
    for (child, seed) in children.iter().zip(1..) {
        let mut meter = Meter::new(1.0, seed);
        meter.call(0, 20);
        tell(&world, child, "early", 2, meter.strata()).await;
    }
    // It ends undecided once more, and then for good.
    in_state(&world, "early", "Paused").await;
    let verdicts = events(&world, "early", "verdict").await;
    assert_eq!(verdicts.len(), 1, "its first end said nothing: {verdicts:#?}");
    let extended = events(&world, "early", "analysis_extended").await;
    assert_eq!(extended.len(), 2, "asked for, and begun: {extended:#?}");
    world.stop().await;
}

/// Ten minutes are planned, and everybody has long been ready.
#[tokio::test]
async fn analysis_passes_early_once_last_child_arrives_and_metrics_pass() {
    let _time = VirtualTime::begin();
    let metrics = "metrics: [";
    let errors = "metrics: [{name: errors, provider: children, metric: errorRate, strategy: CANARY_BASELINE, \
        deviation: HIGH, floor: 5%}, ";
    let block = format!("earlyPass: true, {}", TIMES.replace(metrics, errors));
    let (world, children) = testing("early", &block, 2).await;
    let mut meters = [Meter::new(1.0, 1), Meter::new(1.0, 2)];
    for (meter, (child, status)) in meters.iter_mut().zip(children.iter().zip([2, 1])) {
        meter.call(0, 6_000);
        tell(&world, child, "early", status, meter.strata()).await;
    }
    let passes = |shown: &Value| {
        let metrics = shown["analyses"][0]["metrics"].as_array().unwrap();
        let of_times = metrics.iter().filter(|metric| metric["strategy"] == "CANARY_BASELINE");
        of_times.clone().count() == 2
            && of_times.clone().all(|metric| metric["found"].as_str().unwrap().contains("passed early"))
    };
    let shown = look_until(&world, "early", passes).await;
    assert_eq!(shown["analyses"][0]["state"], "open", "one is still testing: {shown:#}");
    // It comes back from the store, and its last child comes to the end of the stage.
    let world = world.restart().await;
    meters[1].call(3, 500);
    tell(&world, &children[1], "early", 2, meters[1].strata()).await;
    let shown = look_until(&world, "early", |shown| shown["analyses"][0]["verdict"].is_string()).await;
    let analysis = &shown["analyses"][0];
    assert_eq!(
        (&analysis["verdict"], &analysis["state"]),
        (&"pass".into(), &"passed".into()),
        "{analysis:#}"
    );
    assert_eq!(analysis["metrics"][1]["evidence"]["early"], true, "{analysis:#}");
    assert!(calls(analysis) >= 12_000, "{analysis:#}");
    let end = world.end_stage(&children[0], "early", STAGE).await.ok().json();
    assert_eq!(end["end_stage"], true);
    world.stop().await;
}

#[tokio::test]
async fn over_a_tree_a_good_version_is_over_before_its_end_too() {
    let _time = VirtualTime::begin();
    let root = World::start().await;
    let [west, east] = [levels::below(&root).await, levels::below(&root).await];
    let agents = [Agents::below(&west, 2, modern(1)), Agents::below(&east, 2, differing(1))];
    levels::manager_of(&root, 2).await;
    registered(&root, 2).await;
    root.submit(&even(&judged("soon", &format!("earlyPass: true, {TIMES}")))).await.ok();
    let shown = look_until(&root, "soon", |shown| shown["state"] == "Done").await;
    let analysis = &shown["analyses"][0];
    assert_eq!(analysis["verdict"], "pass", "{analysis:#}");
    assert!(analysis["why"].as_str().unwrap().contains("passed early, at look"), "{analysis:#}");
    for agents in agents {
        agents.end().await;
    }
    for world in [east, west, root] {
        world.stop().await;
    }
}

#[tokio::test]
async fn undecided_analysis_extends_itself_across_restart_up_to_limit() {
    let _time = VirtualTime::begin();
    // Nothing more comes of the first; the other one gets the calls that it takes.
    for (more, keys) in [(0, "extend: 2s"), (8_000, "extend: 10m")] {
        let block = format!("inconclusive: {{{keys}}}, {}", TIMES.replace("600s", "1s"));
        let (world, children) = testing("thin", &block, 1).await;
        let mut meter = Meter::new(1.0, 1);
        meter.call(0, 30);
        tell(&world, &children[0], "thin", 2, meter.strata()).await;
        let goes_on = |shown: &Value| shown["analyses"][0]["extended"]["begun"] == true;
        let shown = look_until(&world, "thin", goes_on).await;
        let verdicts = events(&world, "thin", "verdict").await;
        assert!(
            shown["state"] == "Paused" || verdicts.is_empty(),
            "it went on, and said nothing: {verdicts:#?}"
        );
        let world = world.restart().await;
        if more > 0 {
            meter.call(9, more);
            tell(&world, &children[0], "thin", 1, meter.strata()).await;
            let shown = look_until(&world, "thin", |shown| shown["analyses"][0]["verdict"].is_string()).await;
            assert_eq!(shown["analyses"][0]["verdict"], "pass", "{shown:#}");
            assert_eq!(world.end_stage(&children[0], "thin", STAGE).await.ok().json()["end_stage"], true);
        } else {
            let shown = in_state(&world, "thin", "Paused").await;
            assert_eq!(shown["analyses"][0]["verdict"], "inconclusive", "{shown:#}");
        }
        assert_eq!(events(&world, "thin", "analysis_extended").await.len(), 1);
        world.stop().await;
    }
}
