//! Calls of sessions, all of which go to one version: judged by the groups that children tell apart, and no evidence without.

use analysis::{Clock, Rounding, Values, Verdict};
use serde_json::{Value, json};
use simulated_children::FleetKind;

use super::{Agents, in_state, judged, look_until, registered};
use crate::{
    random::Random,
    tree::levels,
    world::{STAGE, World, strategy, summary},
};

const TIMES: &str = "duration: 1s, interval: 1s, metrics: [{name: times, provider: children, \
    metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}]";

const GROUPS: u8 = 64;

/// Standard deviation of the logarithm of what the calls of a session share.
const SESSION_SD: f64 = 0.5;

/// What a child has measured so far of sessions, group by group.
struct Meter {
    random: Random,
    groups: Vec<[Values; 2]>,
}

impl Meter {
    fn new(seed: u64) -> Self {
        let none = || Values::new(Clock::stepped(0.001, Rounding::Nearest)).unwrap();
        Self { random: Random::new(seed), groups: (0..GROUPS).map(|_| [none(), none()]).collect() }
    }

    /// Sessions of 20 calls each, every second one of which goes to the new version, which takes so many times as long.
    fn sessions(mut self, count: usize, slower: f64) -> Self {
        for session in 0..count {
            let (group, side) = (self.random.uniform() * f64::from(GROUPS), session % 2);
            let of_session = 10.0 * [1.0, slower][side] * self.random.log_normal(SESSION_SD);
            for _ in 0..20 {
                let ms = of_session * self.random.log_normal(0.1);
                self.groups[group as usize][side].record((ms * 1_000.0).round() / 1_000.0, 1).unwrap();
            }
        }
        self
    }

    fn strata(&self) -> Value {
        let stratum = |(group, [base, new]): (u8, &[Values; 2])| {
            json!({"split": 50, "group": group, "assignment": "user", "f1_calls": base.count(), "f1_errors": 0,
                "f2_calls": new.count(), "f2_errors": 0, "f1_values": base, "f2_values": new})
        };
        (0..).zip(&self.groups).map(stratum).collect()
    }

    /// The same, without some of the keys.
    fn strata_without(&self, keys: &[&str]) -> Value {
        let mut strata = self.strata();
        for stratum in strata.as_array_mut().unwrap() {
            for key in keys {
                drop(stratum.as_object_mut().unwrap().remove(*key));
            }
        }
        json!([pooled(&strata)])
    }
}

/// Strata of which nobody says what tells them apart, as one.
fn pooled(strata: &Value) -> Value {
    let mut sum = strata[0].clone();
    for more in &strata.as_array().unwrap()[1..] {
        for calls in ["f1_calls", "f2_calls"] {
            sum[calls] = json!(sum[calls].as_u64().unwrap() + more[calls].as_u64().unwrap());
        }
        for values in ["f1_values", "f2_values"] {
            let of = |stratum: &Value| serde_json::from_value::<Values>(stratum[values].clone()).unwrap();
            let mut both = of(&sum);
            both.merge(&of(more)).unwrap();
            sum[values] = json!(both);
        }
    }
    sum
}

/// Half of the calls to each version.
fn even(text: &str) -> String {
    let text = text.replace("trafficPercentage: 95", "trafficPercentage: 50");
    text.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n")
}

async fn tell(world: &World, child: &str, offer: &str, status: u8, strata: &Value) {
    let mut summary = summary(STAGE, status);
    summary["strata"] = strata.clone();
    let body = json!({"id": child, "release_id": offer, "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
}

/// Polls until it is offered a release, and fetches it.
async fn begun(world: &World, child: &str) -> String {
    let offer = world.offered(child).await;
    world.fetch(child, &offer).await.ok();
    offer
}

async fn verdict(world: &World, id: &str) -> Value {
    let is_judged = |shown: &Value| shown["analyses"][0]["verdict"].is_string();
    look_until(world, id, is_judged).await["analyses"][0].clone()
}

fn calls(analysis: &Value) -> u64 {
    let evidence = &analysis["metrics"][0]["evidence"];
    ["baseline", "canary"].iter().map(|side| evidence[side]["count"].as_u64().unwrap_or(0)).sum()
}

/// Eighty sessions a side, between which the versions differ by a fifth: as so many independent calls that is far beyond the
/// tolerance of a tenth, as so many sessions it is chance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_sessions_two_levels_below_are_judged_by_their_groups_and_no_evidence_without() {
    let by_chance = || Meter::new(3).sessions(160, 1.2);
    let cases = [
        ("groups", by_chance().strata(), Verdict::Inconclusive, ""),
        ("slow", Meter::new(3).sessions(160, 4.0).strata(), Verdict::Fail, ""),
        (
            "ungrouped",
            by_chance().strata_without(&["group"]),
            Verdict::Inconclusive,
            "did not come in groups",
        ),
        ("few", json!(by_chance().strata().as_array().unwrap()[..7]), Verdict::Inconclusive, "it takes 8"),
        // What once was judged, whoever assigned the calls.
        ("unsaid", by_chance().strata_without(&["group", "assignment"]), Verdict::Fail, ""),
    ];
    for (id, strata, expected, says) in cases {
        let root = World::start().await;
        let middle = levels::below(&root).await;
        let low = levels::below(&middle).await;
        let child = low.child().await;
        registered(&low, 1).await;
        levels::manager_of(&root, 1).await;
        root.submit(&even(&judged(id, TIMES))).await.ok();
        let offer = begun(&low, &child).await;
        tell(&low, &child, &offer, 2, &strata).await;
        let analysis = verdict(&root, id).await;
        assert_eq!(analysis["verdict"], expected.name().to_lowercase(), "{id}: {analysis:#}");
        let why = analysis["why"].as_str().unwrap_or_default();
        assert!(why.contains(says), "{id}: {why}");
        for world in [low, middle, root] {
            world.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_with_sessions_is_judged_by_their_groups_where_its_manager_has_one_above() {
    for (slower, state, verdict) in [("32ms", "RolledBack", "fail"), ("5ms", "Done", "pass")] {
        let root = World::start().await;
        let low = levels::below(&root).await;
        let agents = Agents::below(&low, 3, |config| {
            (config.kind, config.session_calls) = (FleetKind::Modern, 10);
            config.traffic.new.latency = format!("lognormal:{slower},0.3").parse().unwrap();
        });
        levels::manager_of(&root, 3).await;
        root.submit(&even(&judged("fleet", TIMES)).replace("\"50\"", "\"3000\"")).await.ok();
        let analysis = in_state(&root, "fleet", state).await["analyses"][0].clone();
        assert_eq!(analysis["verdict"], verdict, "{analysis:#}");
        let split = &analysis["metrics"][0]["evidence"]["split"]["splits"][0];
        assert_eq!(split["groups"].as_array().unwrap().len(), 64, "{split:#}");
        agents.end().await;
        low.stop().await;
        root.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_look_takes_of_every_group_what_came_since_the_one_before() {
    let world = World::start().await;
    let children = [world.child().await, world.child().await];
    registered(&world, 2).await;
    world.submit(&even(&judged("looks", &TIMES.replace("duration: 1s", "duration: 3s")))).await.ok();
    for child in &children {
        begun(&world, child).await;
    }
    let counted = |told: u64| move |shown: &Value| calls(&shown["analyses"][0]) == told;
    let mut meters = [Meter::new(5).sessions(400, 1.0), Meter::new(6).sessions(200, 1.0)];
    tell(&world, &children[0], "looks", 1, &meters[0].strata()).await;
    look_until(&world, "looks", counted(8_000)).await;
    // One goes on, the other one comes late.
    meters = meters.map(|meter| meter.sessions(200, 1.0));
    for (child, meter) in children.iter().zip(&meters) {
        tell(&world, child, "looks", 1, &meter.strata()).await;
    }
    look_until(&world, "looks", counted(20_000)).await;
    for (child, meter) in children.iter().zip(&meters) {
        tell(&world, child, "looks", 2, &meter.strata()).await;
    }
    let analysis = verdict(&world, "looks").await;
    assert_eq!(calls(&analysis), 20_000, "{analysis:#}");
    let split = &analysis["metrics"][0]["evidence"]["split"]["splits"][0];
    assert_eq!(split["groups"].as_array().unwrap().len(), 64, "{split:#}");
    world.stop().await;
}

/// Many sessions of an equal version: as calls of users they pass, and a strategy that says so makes them no evidence where
/// children don't tell groups apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_strategy_says_of_calls_holds_for_children_that_say_nothing() {
    let sticky = |text: &str| {
        let marked = text.replace("    base_version:", "    sticky: {cookie: session}\n    base_version:");
        assert_ne!(marked, text);
        marked
    };
    let meter = Meter::new(7).sessions(2_000, 0.8);
    let (groups, unsaid) = (meter.strata(), meter.strata_without(&["group", "assignment"]));
    for (is_sticky, strata, expected) in [
        (true, &groups, Verdict::Pass),
        (true, &unsaid, Verdict::Inconclusive),
        (false, &groups, Verdict::Pass),
        (false, &unsaid, Verdict::Pass),
    ] {
        let world = World::start().await;
        let child = world.child().await;
        registered(&world, 1).await;
        let text = even(&judged("said", TIMES));
        world.submit(&if is_sticky { sticky(&text) } else { text }).await.ok();
        let offer = begun(&world, &child).await;
        // An agent is told nothing of it.
        let told = world.fetch(&child, &offer).await.ok().text();
        assert!(!told.contains("sticky"), "{told}");
        tell(&world, &child, &offer, 2, strata).await;
        let analysis = verdict(&world, "said").await;
        assert_eq!(analysis["verdict"], expected.name().to_lowercase(), "{is_sticky}: {analysis:#}");
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_compared_with_the_same_groups_of_the_release_before() {
    let block = TIMES.replace("CANARY_BASELINE", "PREVIOUS, runVariation: 1%");
    // A fifth slower than before is chance of so few sessions, and so is not found; without groups nothing is.
    let few = |slower: f64| Meter::new(8).sessions(160, slower).strata();
    let ungrouped = Meter::new(9).sessions(160, 5.0).strata_without(&["group"]);
    for (then, now, expected, says) in [
        (few(1.0), Meter::new(9).sessions(160, 1.2).strata(), "inconclusive", ""),
        (few(1.0), Meter::new(9).sessions(160, 5.0).strata(), "fail", ""),
        (few(1.0), ungrouped, "inconclusive", "did not come in groups"),
    ] {
        let world = World::start().await;
        let child = world.child().await;
        registered(&world, 1).await;
        world.submit(&even(&judged("first", &block))).await.ok();
        begun(&world, &child).await;
        tell(&world, &child, "first", 2, &then).await;
        assert_eq!(verdict(&world, "first").await["verdict"], "no data");
        world.call("POST", "/api/v1/releases/first/resume").await.ok();
        tell(&world, &child, "first", 4, &then).await;
        let offer = begun(&world, &child).await;
        world.report(&child, &offer, "choirmaster rollout", 4).await.ok();
        in_state(&world, "first", "Done").await;
        world.submit(&even(&judged("second", &block))).await.ok();
        begun(&world, &child).await;
        tell(&world, &child, "second", 2, &now).await;
        let analysis = verdict(&world, "second").await;
        assert_eq!(analysis["verdict"], expected, "{analysis:#}");
        let why = analysis["why"].as_str().unwrap_or_default();
        assert!(why.contains(says), "{why}");
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_says_that_it_reads_groups_and_refuses_what_is_none() {
    let world = World::start().await;
    let area: Value = serde_json::from_str(crate::world::AREA).unwrap();
    for rm_ids in [json!([]), json!(["a-manager-below"])] {
        let body = json!({"id": "", "geographic_area": area, "rm_ids": rm_ids, "number_of_children": 1,
            "capabilities": {"features": ["groups"]}});
        let features = world.post("/poll", &body).await.ok().json()["features"].clone();
        assert!(features.as_array().unwrap().contains(&json!("groups")), "{features}");
    }
    let child = world.child().await;
    world.submit(&strategy("told")).await.ok();
    begun(&world, &child).await;
    let mut summary = summary(STAGE, 1);
    summary["strata"] = json!([{"group": 64}]);
    let body = json!({"id": child, "release_id": "told", "stage_summaries": [summary], "next_stage": ""});
    let refused = world.post("/result", &body).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("groups of users are numbered from 0 to 63"), "{}", refused.text());
    world.stop().await;
}
