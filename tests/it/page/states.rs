//! The list of releases and the page of one say what the API says, field by field, in random states.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    read::{rows, said},
    releases::{both, compared, differences, differs, line_shown, line_wanted, shown, spans},
};
use crate::{
    random::Random,
    world::{AREA, STAGE, World, strategy, summary},
};

/// States that are looked at.
const STATES: usize = 1_000;

/// So many of them on a manager of its own, with a seed of its own.
const EACH: usize = 100;

/// A strategy that a seed makes.
fn some(id: &str, random: &mut Random) -> String {
    let mut text = strategy(id);
    if random.chance(0.5) {
        text = text.replacen("name: Canary", "name: <b>&amp; \u{202e}🐙</b> Canary", 1);
    }
    if random.chance(0.4) {
        let block = "    analysis: {duration: 1h, interval: 1m, metrics: [{name: times, provider: children, metric: \
                     responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 10%}]}\n    end_action:";
        text = text.replace("    end_action:", block);
    }
    let limit = ["0", "1", "50%", "100%"][(random.uniform() * 4.0) as usize];
    let approval = if random.chance(0.6) { ", approval: before_each_wave" } else { "" };
    let failure = if random.chance(0.5) { ", on_failure: rollback" } else { "" };
    if random.chance(0.8) {
        text += &format!(
            "rollout: {{order: waves, waves: [1, 50%, 100%], max_failed: {limit}{approval}{failure}}}\n"
        );
    }
    if random.chance(0.05) {
        text += "target: {labels: {tier: none}}\n";
    }
    text
}

/// One of several.
fn one<'a, T: ?Sized>(of: &[&'a T], random: &mut Random) -> &'a T {
    of[(random.uniform() * of.len() as f64) as usize]
}

/// Something that a child or an operator may do; much of it is refused in the state in which a release is.
async fn step(world: &World, id: &str, children: &[String], random: &mut Random) {
    if random.chance(0.35) {
        let often = ["approve", "approve", "pause", "resume", "resume", "promote", "retry"];
        let action = if random.chance(0.03) { "abort" } else { one(&often, random) };
        let note = one(&["", "?note=%3Cb%3E%26%20yes"], random);
        world.call("POST", &format!("/api/v1/releases/{id}/{action}{note}")).await;
        return;
    }
    let child = &children[(random.uniform() * children.len() as f64) as usize];
    let (_, offer) = world.poll(child).await;
    let offer = if offer.is_empty() { id.to_owned() } else { offer };
    world.fetch(child, &offer).await;
    match (random.uniform() * 5.0) as u32 {
        0 => drop(world.report(child, &offer, STAGE, 2).await),
        1 if random.chance(0.5) => drop(world.report(child, &offer, STAGE, 5).await),
        2 => drop(world.end_stage(child, &offer, STAGE).await),
        3 => drop(world.report(child, &offer, STAGE, 4).await),
        _ => drop(world.report(child, &offer, language::render::ROLLOUT_STAGE, 4).await),
    }
}

/// States of one manager; answers those that its releases were in.
async fn random_states(seed: u64) -> BTreeSet<String> {
    let (world, mut random) = (World::start().await, Random::new(seed));
    let (mut children, mut met, mut id, mut made) = (Vec::new(), BTreeSet::new(), String::new(), 0);
    for _ in 0..4 {
        children.push(world.child().await);
    }
    let mut is_over = true;
    for at in 0..EACH {
        if is_over || random.chance(0.02) {
            made += 1;
            id = format!("r{made}");
            world.submit(&some(&id, &mut random)).await.ok();
        } else {
            step(&world, &id, &children, &mut random).await;
        }
        let (found, release, _) = compared(&world, &id).await;
        assert!(found.is_empty(), "seed {seed}, state {at}: {found:#?}\n{release:#}");
        is_over = release["ended"].is_string();
        met.insert(release["state"].as_str().unwrap().to_owned());
        let (list, html) = both(&world, "/api/v1/releases?limit=200&counts=true", "/ui/releases").await;
        let lines = list["items"].as_array().unwrap();
        assert_eq!(rows(&html).len(), lines.len(), "seed {seed}, state {at}");
        for line in lines {
            let id = line["id"].as_str().unwrap();
            let found = differences(&line_wanted(line), &line_shown(&html, id));
            assert!(found.is_empty(), "seed {seed}, state {at}, {id}: {found:#?}\n{line:#}");
        }
    }
    world.stop().await;
    met
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_say_what_the_api_says_in_a_thousand_random_states() {
    let mut met = BTreeSet::new();
    for seed in 0..(STATES / EACH) as u64 {
        met.extend(random_states(seed).await);
    }
    // They are of many kinds, or this would show little.
    for state in
        ["AwaitingApproval", "Paused", "Running", "Planned", "RollingBack", "Aborted", "NoParticipants"]
    {
        assert!(met.contains(state), "{state}: {met:?}");
    }
}

/// The page of a release says what the API does, which has it in this state.
async fn says_so(world: &World, id: &str, state: &str) -> Value {
    let (found, release, _) = compared(world, id).await;
    assert_eq!(release["state"], state, "{release:#}");
    assert!(found.is_empty(), "{id}: {found:#?}\n{release:#}");
    release
}

async fn fails(world: &World, child: &str, release: &str, beside: &[(&str, Value)]) {
    world.poll(child).await;
    world.fetch(child, release).await.ok();
    let mut summary = summary(STAGE, 5);
    for (what, value) in beside {
        summary[*what] = value.clone();
    }
    let body = json!({"id": child, "release_id": release, "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
}

#[tokio::test]
async fn pages_say_what_the_api_says_of_a_roll_back_and_of_each_ending() {
    let world = World::start().await;
    world.submit(&(strategy("nobody") + "rollout: {order: parallel}\n")).await.ok();
    says_so(&world, "nobody", "NoParticipants").await;
    let one = world.child().await;
    let soon = strategy("untested").replace("threshold: 2s", "threshold: 1ms");
    world.submit(&(soon + "rollout: {no_calls: after 1ms}\n")).await.ok();
    world.poll(&one).await;
    world.fetch(&one, "untested").await.ok();
    let is_told = async || world.end_stage(&one, "untested", STAGE).await.ok().json()["end_stage"] == true;
    while !is_told().await {
        tokio::task::yield_now().await;
    }
    let none = json!({"median": -1, "minimum": -1, "maximum": -1});
    fails(&world, &one, "untested", &[("f2_times_summary", none)]).await;
    says_so(&world, "untested", "DoneUntested").await;
    world.submit(&strategy("done")).await.ok();
    world.run(&one, "done").await;
    says_so(&world, "done", "Done").await;
    world.submit(&strategy("failed")).await.ok();
    fails(&world, &one, "failed", &[]).await;
    says_so(&world, "failed", "DoneWithFailures").await;
    world.submit(&strategy("aborted")).await.ok();
    world.post("/api/v1/releases/aborted/abort", &json!({"by": "eve", "note": "<b>&amp;"})).await.ok();
    says_so(&world, "aborted", "Aborted").await;
    let two = world.child().await;
    let careful = "rollout: {order: parallel, max_failed: 0, on_failure: rollback}\n";
    world.submit(&(strategy("back") + careful)).await.ok();
    for child in [&one, &two] {
        world.poll(child).await;
        world.fetch(child, "back").await.ok();
    }
    fails(&world, &one, "back", &[]).await;
    says_so(&world, "back", "RollingBack").await;
    assert_eq!(world.poll(&two).await.1, "back.undo");
    world.fetch(&two, "back.undo").await.ok();
    world.report(&two, "back.undo", language::render::UNDO_STAGE, 4).await.ok();
    says_so(&world, "back", "RolledBack").await;
    // A manager comes, of whose agents not all have proven to be back.
    let area: Value = serde_json::from_str(AREA).unwrap();
    let mut manager =
        json!({"id": "", "geographic_area": area, "number_of_children": 4, "kind": "rm", "rm_ids": ["a"]});
    manager["id"] = world.post("/poll", &manager).await.ok().json()["id"].clone();
    world.post("/poll", &manager).await.ok();
    world.submit(&(strategy("unproven") + careful)).await.ok();
    let agents = [("participants", json!(4)), ("failed", json!(1)), ("unconfirmed", json!(2))];
    let id = manager["id"].as_str().unwrap();
    world.fetch(id, "unproven").await.ok();
    let mut summary = summary(STAGE, 5);
    for (what, number) in agents {
        summary[what] = number;
    }
    let body = json!({"id": id, "release_id": "unproven", "stage_summaries": [summary], "next_stage": ""});
    world.post("/result", &body).await.ok();
    let release = says_so(&world, "unproven", "RolledBackUnproven").await;
    assert_eq!(release["unconfirmed"], 2, "{release:#}");
    // A stage that nobody begins any more.
    let led = "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave}\n";
    world.submit(&(strategy("skips") + led)).await.ok();
    world.call("POST", "/api/v1/releases/skips/stages/Canary%205%20Percent/skip").await.ok();
    let (found, release, _) = compared(&world, "skips").await;
    assert_eq!((&release["stages"][0]["skipped"], found), (&json!(true), Vec::new()), "{release:#}");
    world.stop().await;
}

#[test]
fn spans_of_time_are_read_as_a_person_reads_them() {
    let read = |text: &str| spans(text);
    assert_eq!(
        read("for 45s without calls, ends in 1h 5m, gives up in 2d 3h unless it calls"),
        [45, 3_900, 183_600]
    );
    assert_eq!(read("the stages of 4m 30s, 5m"), [270, 300]);
    assert_eq!(read("as it is: 3 of 5"), Vec::<u64>::new());
}

/// Another value of the same kind.
fn other(value: &Value) -> Value {
    match value {
        Value::Null => json!("2031-01-01T00:00:00Z"),
        Value::Bool(is) => json!(!is),
        Value::Number(number) => json!(number.as_f64().unwrap() as u64 + 7),
        Value::String(text) => json!(format!("9{text}")),
        Value::Array(_) => json!(["other"]),
        Value::Object(_) => json!({"other": 3}),
    }
}

#[tokio::test]
async fn whatever_is_changed_in_an_answer_is_found_to_differ_from_the_page() {
    let world = World::start().await;
    let child = world.child().await;
    world.child().await;
    let rollout = "rollout: {order: waves, waves: [1, 100%], max_failed: 1, approval: before_each_wave}\n";
    world.submit(&(strategy("a") + rollout)).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "a").await.ok();
    let (found, release, html) = compared(&world, "a").await;
    assert!(found.is_empty(), "{found:#?}");
    for path in [
        "/state",
        "/name",
        "/functions",
        "/submitted",
        "/started",
        "/ended",
        "/attempt",
        "/counts/todo",
        "/counts/failed",
        "/waves/0/name",
        "/waves/1/open",
        "/waves/0/children",
        "/limits/0/count",
        "/limits/0/most",
        "/stages/0/new_traffic",
        "/stages/0/children",
        "/stages/0/kind",
        "/stages/0/function",
        "/unconfirmed",
        "/counts/participants",
        "/excluded",
    ] {
        let mut changed = release.clone();
        let value = changed.pointer_mut(path).unwrap_or_else(|| panic!("no {path} in {release:#}"));
        *value = other(value);
        assert!(!differs(&changed, &html).is_empty(), "{path} is not compared");
    }
    // What is left out while it is as it mostly is.
    for (path, value) in [("/left_out", json!(2)), ("/stages/0/skipped", json!(true))] {
        let mut changed = release.clone();
        let (above, name) = path.rsplit_once('/').unwrap();
        changed.pointer_mut(above).unwrap()[name] = value;
        assert!(!differs(&changed, &html).is_empty(), "{path} is not compared");
    }
    let (list, html) = both(&world, "/api/v1/releases?limit=200&counts=true", "/ui/releases").await;
    let line = &list["items"][0];
    assert_eq!(differences(&line_wanted(line), &line_shown(&html, "a")), Vec::<String>::new());
    for path in ["/state", "/name", "/since", "/wave/open", "/functions", "/submitted", "/counts/todo"] {
        let mut changed = line.clone();
        let value = changed.pointer_mut(path).unwrap_or_else(|| panic!("no {path} in {line:#}"));
        *value = other(value);
        assert!(!differences(&line_wanted(&changed), &line_shown(&html, "a")).is_empty(), "{path}");
    }
    world.stop().await;
}

#[tokio::test]
async fn what_lets_all_of_them_fail_is_not_shown_as_a_limit() {
    let world = World::start().await;
    world.child().await;
    let rollout = "rollout: {order: waves, waves: [100%], max_failed: 0, max_timed_out: 100%}\n";
    world.submit(&(strategy("a") + rollout)).await.ok();
    let (found, release, html) = compared(&world, "a").await;
    assert!(found.is_empty(), "{found:#?}");
    let written = |name: &str| {
        let limits = release["limits"].as_array().unwrap().iter();
        limits.filter(|limit| limit["name"] == name).map(|limit| said(&limit["limit"])).collect::<String>()
    };
    assert_eq!((written("max_failed"), written("max_timed_out")), ("0".to_owned(), "100%".to_owned()));
    let shown = shown(&html);
    assert_eq!(shown["limit max_failed"], "0 failed of at most 0 (0): one more passes the limit");
    assert!(!shown.contains_key("limit max_timed_out"), "{shown:#?}");
    world.stop().await;
}
