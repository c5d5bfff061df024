//! Releases over a tree, judged where they were planned by what the agents two levels below report.

use analysis::Histogram;
use serde_json::{Value, json};
use simulated_children::{Behaviour, FleetConfig, FleetKind};

use super::{
    Agents,
    children::{NARROW, within_a_bucket},
    in_state, judged, look_until, registered, told_of,
};
use crate::{
    page::releases::compared,
    random::Random,
    tree::levels,
    virtual_time::VirtualTime,
    world::{AREA, STAGE, World},
};

const TIMES: &str = "duration: 1s, interval: 1s, metrics: [{name: times, provider: children, \
    metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}, {name: tail, \
    provider: children, metric: responseTime, quantile: p95, expected: {max: 1000}, dryRun: true}]";

const RATES: &str = "duration: 1s, interval: 1s, metrics: [{name: rates, provider: children, \
    metric: errorRate, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 50%}]";

/// Half of the calls to each version, 5,000 of each at least; no condition of the agents' own. Four agents together see 1,000
/// errors a side where 5 % fail: what is judged lies nine standard errors off the boundary.
fn even(text: &str) -> String {
    let text = text.replace("trafficPercentage: 95", "trafficPercentage: 50");
    let text = text.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n");
    text.replace("\"50\"", "\"10000\"").replace("\"<0.02\"", "\"<1\"")
}

/// Two managers with two agents each below a root, until a release is in a state; what is shown of it then.
async fn over_a_tree(
    id: &str,
    block: &str,
    state: &str,
    change: impl Fn(&mut FleetConfig),
) -> (Value, [World; 3], Vec<Agents>) {
    let root = World::start().await;
    let [west, east] = [levels::below(&root).await, levels::below(&root).await];
    let change = |config: &mut FleetConfig| {
        // As many as are needed: while they wait they go on, and each is drawn.
        config.traffic.calls_per_second = 100.0;
        change(config);
    };
    // No two of them take the same calls: what chance makes of one would be made twice.
    let another = |config: &mut FleetConfig| {
        change(config);
        config.seed += 1;
    };
    let agents = vec![Agents::below(&west, 2, change), Agents::below(&east, 2, another)];
    told_of(&root, 4).await;
    root.submit(&even(&judged(id, block))).await.ok();
    let shown = in_state(&root, id, state).await;
    (shown, [root, west, east], agents)
}

async fn end(worlds: [World; 3], agents: Vec<Agents>) {
    for agents in agents {
        agents.end().await;
    }
    for world in worlds {
        world.stop().await;
    }
}

#[tokio::test]
async fn histograms_of_agents_two_levels_below_tell_a_slow_version_from_a_good_one() {
    let _time = VirtualTime::begin();
    let told = [("12ms", "RolledBack", "fail"), ("8ms", "Done", "pass")];
    let told = told.map(|(median, state, verdict)| async move {
        let (shown, worlds, agents) = over_a_tree(verdict, TIMES, state, |config| {
            config.kind = FleetKind::Modern;
            config.traffic.new.latency = format!("lognormal:{median},0.3").parse().unwrap();
        })
        .await;
        let analysis = &shown["analyses"][0];
        assert_eq!(analysis["verdict"], verdict, "{analysis:#}");
        assert_eq!(analysis["metrics"][1]["verdict"], "pass", "{analysis:#}");
        // Each of four agents made at least 10,000 calls.
        let evidence = &analysis["metrics"][0]["evidence"];
        let count = |side: &str| evidence[side]["count"].as_u64().unwrap();
        assert!(count("baseline") + count("canary") >= 39_900, "{analysis:#}");
        let (found, _, html) = compared(&worlds[0], verdict).await;
        assert!(found.is_empty() && html.contains("<svg class=\"drawn\""), "{found:#?}");
        end(worlds, agents).await;
    });
    futures_util::future::join_all(told).await;
}

#[tokio::test]
async fn values_of_agents_two_levels_below_tell_what_histograms_could_not() {
    let _time = VirtualTime::begin();
    let told = [(true, "RolledBack", "fail"), (false, "Done", "pass")];
    let told = told.map(|(slow, state, verdict)| async move {
        let (shown, worlds, agents) = over_a_tree(verdict, NARROW, state, within_a_bucket(slow)).await;
        assert_eq!(shown["analyses"][0]["verdict"], verdict, "{:#}", shown["analyses"][0]);
        end(worlds, agents).await;
    });
    futures_util::future::join_all(told).await;
}

#[tokio::test]
async fn errors_that_agents_count_are_compared_and_those_of_agents_that_count_none_are_not() {
    let _time = VirtualTime::begin();
    let told = [
        (FleetKind::Modern, 0.2, "RolledBack", "fail"),
        (FleetKind::Modern, 0.05, "Done", "pass"),
        (FleetKind::Deployed, 0.05, "Paused", "no data"),
    ];
    let told = told.map(|(kind, errors, state, verdict)| async move {
        let id = state.to_lowercase();
        let (shown, worlds, agents) = over_a_tree(&id, RATES, state, |config| {
            config.kind = kind;
            let behaviour = |errors| Behaviour { errors, ..config.traffic.base };
            (config.traffic.base, config.traffic.new) = (behaviour(0.05), behaviour(errors));
        })
        .await;
        assert_eq!(shown["analyses"][0]["verdict"], verdict, "{shown:#}");
        let (found, _, html) = compared(&worlds[0], &id).await;
        assert!(found.is_empty(), "{found:#?}");
        assert_eq!(html.contains("<svg class=\"drawn\""), kind == FleetKind::Modern, "{html}");
        end(worlds, agents).await;
    });
    futures_util::future::join_all(told).await;
}

/// An agent's numbers of a stage: `calls` in all, of which `split` percent go to the new version.
fn numbers(split: u8, calls: usize, base_ms: f64, slower: f64, seed: u64) -> Value {
    let mut random = Random::new(seed);
    let mut sides = [Histogram::new(1.01).unwrap(), Histogram::new(1.01).unwrap()];
    for _ in 0..calls {
        let is_new = random.chance(f64::from(split) / 100.0);
        let ms = base_ms * if is_new { slower } else { 1.0 } * random.log_normal(0.3);
        sides[usize::from(is_new)].record(ms).unwrap();
    }
    let [base, new] = sides;
    json!([{"split": split, "f1_calls": base.count(), "f1_errors": 0, "f2_calls": new.count(), "f2_errors": 0,
        "f1_histogram": base, "f2_histogram": new}])
}

async fn tell(world: &World, child: &str, offer: &str, status: u8, strata: &Value) {
    let times = json!({"median": 20, "minimum": 1, "maximum": 400});
    let summary = json!({"stage_name": STAGE, "proxy_times": times, "f1_times_summary": times,
        "f2_times_summary": times, "f1_err_rate": 0, "f2_err_rate": 0, "status": status, "strata": strata});
    let body = json!({"id": child, "release_id": offer, "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
}

async fn child(world: &World) -> String {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let body = json!({"id": "", "geographic_area": area, "number_of_children": 0});
    let id = world.post("/poll", &body).await.ok().json()["id"].as_str().unwrap().to_owned();
    world.poll(&id).await;
    id
}

/// A stage that waits to be judged, and what came of it.
async fn verdict_on(world: &World, id: &str, children: &[String], told: &[Value]) -> Value {
    for (child, strata) in children.iter().zip(told) {
        assert_eq!(world.poll(child).await.1, id);
        world.fetch(child, id).await.ok();
        tell(world, child, id, 2, strata).await;
    }
    let is_judged = |shown: &Value| shown["analyses"][0]["verdict"].is_string();
    look_until(world, id, is_judged).await["analyses"][0].clone()
}

/// The slower child has most calls of the later release, so that all calls together would tell of a slower version. One that
/// was not there before is compared with nothing.
#[tokio::test]
async fn what_children_report_is_compared_with_what_they_reported_of_the_release_before() {
    let _time = VirtualTime::begin();
    let block = |with: &str| {
        format!(
            "duration: 1s, interval: 1s, metrics: [{{name: times, provider: children, metric: responseTime, {with}}}]"
        )
    };
    let previous = "strategy: PREVIOUS, deviation: HIGH, tolerance: 10%";
    for (slower, known, verdict) in
        [(1.3, ", runVariation: 1%", "fail"), (1.0, ", runVariation: 1%", "pass"), (1.0, "", "inconclusive")]
    {
        let world = World::start().await;
        let mut children = vec![child(&world).await, child(&world).await];
        registered(&world, 2).await;
        world.submit(&judged("first", &block(previous))).await.ok();
        let told = [numbers(50, 8_000, 10.0, 1.0, 1), numbers(50, 2_000, 40.0, 1.0, 2)];
        let analysis = verdict_on(&world, "first", &children, &told).await;
        assert_eq!(analysis["verdict"], "no data", "the first has nothing to compare with: {analysis:#}");
        world.call("POST", "/api/v1/releases/first/resume").await.ok();
        for (child, strata) in children.iter().zip(&told) {
            tell(&world, child, "first", 4, strata).await;
            let offer = world.poll(child).await.1;
            world.fetch(child, &offer).await.ok();
            world.report(child, &offer, "choirmaster rollout", 4).await.ok();
        }
        look_until(&world, "first", |shown| shown["state"] == "Done").await;

        children.push(child(&world).await);
        registered(&world, 3).await;
        world.submit(&judged("second", &block(&format!("{previous}{known}")))).await.ok();
        let told = [
            numbers(50, 2_000, 10.0, slower, 3),
            numbers(50, 8_000, 40.0, slower, 4),
            numbers(50, 8_000, 400.0, 3.0, 5),
        ];
        let analysis = verdict_on(&world, "second", &children, &told).await;
        assert_eq!(analysis["verdict"], verdict, "{slower}{known}: {analysis:#}");
        let why = analysis["why"].as_str().unwrap();
        assert!(
            why.contains("against release first") && why.contains("runVariation") == known.is_empty(),
            "{why}"
        );
        let count = |side: &str| analysis["metrics"][0]["evidence"][side]["count"].as_u64().unwrap();
        assert!((9_500..10_500).contains(&(count("baseline") + count("canary"))), "{analysis:#}");
        world.stop().await;
    }
}

/// Pooled, the new version would be the faster one: it has most calls where calls are fast.
#[tokio::test]
async fn two_children_with_different_splits_and_speeds_are_not_taken_for_one() {
    let _time = VirtualTime::begin();
    for (slower, verdict) in [(1.2, "fail"), (1.0, "pass")] {
        let world = World::start().await;
        let children = [child(&world).await, child(&world).await];
        registered(&world, 2).await;
        world.submit(&judged("splits", TIMES)).await.ok();
        let told = [numbers(50, 8_000, 40.0, slower, 1), numbers(95, 8_000, 10.0, slower, 2)];
        for (child, strata) in children.iter().zip(&told) {
            world.poll(child).await;
            world.fetch(child, "splits").await.ok();
            tell(&world, child, "splits", 2, strata).await;
        }
        let is_judged = |shown: &Value| shown["analyses"][0]["verdict"].is_string();
        let shown = look_until(&world, "splits", is_judged).await;
        let analysis = &shown["analyses"][0];
        assert_eq!(analysis["verdict"], verdict, "{analysis:#}");
        let sides = &analysis["metrics"][0]["evidence"];
        let count = |side: &str| sides[side]["count"].as_u64().unwrap();
        assert_eq!(count("baseline") + count("canary"), 16_000, "{analysis:#}");
        world.stop().await;
    }
}

#[tokio::test]
async fn a_child_whose_calls_are_not_shared_out_as_ordered_is_shown_with_the_verdict() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let children = [child(&world).await, child(&world).await];
    registered(&world, 2).await;
    world.submit(&judged("off", TIMES)).await.ok();
    let mut other = numbers(70, 4_000, 20.0, 1.0, 2);
    other[0]["split"] = json!(50);
    let told = [numbers(50, 4_000, 20.0, 1.0, 1), other];
    let shown = verdict_on(&world, "off", &children, &told).await;
    assert_eq!(shown["verdict"], "inconclusive", "{shown:#}");
    let split = &shown["metrics"][0]["evidence"]["split"];
    assert!(split["eValue"].as_f64().unwrap() > split["threshold"].as_f64().unwrap(), "{split:#}");
    assert_eq!(split["children"].as_array().unwrap().len(), 1, "{split:#}");
    assert_eq!(split["children"][0]["child"], children[1], "{split:#}");
    world.stop().await;
}

/// What an agent says of a stage in which half of the calls were ordered for the new version, and which gave it so many percent.
fn off(given: u8, seed: u64) -> Value {
    let mut told = numbers(given, 2_000, f64::from(given), 1.0, seed);
    told[0]["split"] = json!(50);
    told
}

#[tokio::test]
async fn children_that_are_off_in_opposite_directions_are_named_though_their_sum_is_as_ordered() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let children = [child(&world).await, child(&world).await];
    registered(&world, 2).await;
    world.submit(&judged("off", TIMES)).await.ok();
    let shown = verdict_on(&world, "off", &children, &[off(30, 1), off(70, 2)]).await;
    assert_eq!(shown["verdict"], "inconclusive", "{shown:#}");
    let split = &shown["metrics"][0]["evidence"]["split"];
    let threshold = split["threshold"].as_f64().unwrap();
    assert!(split["eValue"].as_f64().unwrap() < threshold, "{split:#}");
    assert!(split["between"]["eValue"].as_f64().unwrap() > threshold, "{split:#}");
    let why = shown["metrics"][0]["found"].as_str().unwrap();
    assert!(why.contains("over 2 children") && why.contains("instead of 50 %"), "{why}");
    assert!(children.iter().all(|child| why.contains(child.as_str())), "{why}");
    world.stop().await;
}

/// What each manager has in all is as ordered, too: only what it tells of its children shows it.
#[tokio::test]
async fn managers_tell_how_the_splits_of_their_children_differ() {
    let _time = VirtualTime::begin();
    let root = World::start().await;
    let managers = [levels::below(&root).await, levels::below(&root).await];
    let mut agents = Vec::new();
    for manager in &managers {
        agents.push([child(manager).await, child(manager).await]);
    }
    told_of(&root, 4).await;
    root.submit(&judged("tree", TIMES)).await.ok();
    for (seed, (manager, agents)) in (0..).zip(managers.iter().zip(&agents)) {
        manager.until("/api/v1/releases", |shown| !shown["items"].as_array().unwrap().is_empty()).await;
        for (agent, given) in agents.iter().zip([30, 70]) {
            let offer = manager.poll(agent).await.1;
            manager.fetch(agent, &offer).await.ok();
            tell(manager, agent, &offer, 2, &off(given, 10 * seed + u64::from(given))).await;
        }
    }
    let is_judged = |shown: &Value| shown["analyses"][0]["verdict"].is_string();
    let shown = look_until(&root, "tree", is_judged).await["analyses"][0].clone();
    assert_eq!(shown["verdict"], "inconclusive", "{shown:#}");
    let split = &shown["metrics"][0]["evidence"]["split"];
    assert_eq!(split["between"]["children"], 4, "{split:#}");
    assert!(split["between"]["eValue"].as_f64() > split["threshold"].as_f64(), "{split:#}");
    root.stop().await;
    for manager in managers {
        manager.stop().await;
    }
}
