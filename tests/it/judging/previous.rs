//! `PREVIOUS`: a stage against the same stage of the release before.

use std::sync::{Arc, Mutex};

use axum::{Json, Router, extract::Query, routing::get};
use choirmaster::app::Options;
use language::analysis::providers::Providers;
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

use super::{Agents, in_state, judged, look_until, registered};
use crate::{
    virtual_time::VirtualTime,
    world::{World, strategy},
};

const WEEK_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// A question: which variant, and from when to when, in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq)]
struct Question {
    variant: String,
    from: i64,
    to: i64,
}

#[derive(serde::Deserialize)]
struct Asked {
    v: String,
    from: f64,
    to: f64,
}

type Says = Arc<Mutex<Box<dyn Fn(&Question) -> Vec<f64> + Send>>>;

/// A provider of the type `web` that knows the past.
struct Chronicle {
    url: String,
    says: Says,
    questions: Arc<Mutex<Vec<Question>>>,
    serving: JoinHandle<()>,
}

impl Chronicle {
    async fn start() -> Self {
        let says: Says = Arc::new(Mutex::new(Box::new(|_| Vec::new())));
        let questions = Arc::new(Mutex::new(Vec::new()));
        let (shared, log) = (Arc::clone(&says), Arc::clone(&questions));
        let answer = move |Query(asked): Query<Asked>| async move {
            let ms = |seconds: f64| (seconds * 1000.0).round() as i64;
            let question = Question { variant: asked.v, from: ms(asked.from), to: ms(asked.to) };
            log.lock().unwrap().push(question.clone());
            Json(shared.lock().unwrap()(&question))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/", get(answer));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, says, questions, serving }
    }

    /// Says this from now on; the questions before are forgotten.
    fn say(&self, says: impl Fn(&Question) -> Vec<f64> + Send + 'static) {
        *self.says.lock().unwrap() = Box::new(says);
        self.questions.lock().unwrap().clear();
    }

    fn asked(&self, variant: &str) -> Vec<Question> {
        let questions = self.questions.lock().unwrap();
        questions.iter().filter(|question| question.variant == variant).cloned().collect()
    }

    fn known_to(&self, options: &mut Options) {
        let text = format!("providers: {{past: {{type: web, url: '{}', json_path: '$[*]'}}}}", self.url);
        let (providers, faults) = Providers::read(&text);
        assert_eq!(faults, []);
        options.site.providers = providers;
    }
}

impl Drop for Chronicle {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Values around a middle without a pattern, other ones for each number.
fn around(middle: f64, which: i64) -> Vec<f64> {
    let at = |at: u32| at.wrapping_mul(2_654_435_761).wrapping_add((which as u32).wrapping_mul(40_503));
    (0..400).map(|i| middle * (0.9 + f64::from(at(i) >> 8) / f64::from(1 << 24) * 0.2)).collect()
}

/// The canary against the release before, with these keys.
fn compared(id: &str, keys: &str) -> String {
    let query =
        "?v={{ .Variant.Name }}&from={{ .BuiltInArgs.Window.Start }}&to={{ .BuiltInArgs.Window.End }}";
    let metric = format!(
        "{{name: latency, provider: past, query: '{query}', strategy: PREVIOUS, deviation: HIGH, tolerance: 5%{keys}}}"
    );
    judged(id, &format!("duration: 2s, interval: 1s, metrics: [{metric}]"))
}

async fn world(chronicle: &Chronicle) -> (World, Agents) {
    let world = World::with(|options| chronicle.known_to(options)).await;
    let agents = Agents::below(&world, 2, |_| ());
    registered(&world, 2).await;
    (world, agents)
}

/// The instant that a field of a release names.
fn instant(shown: &Value, field: &str) -> i64 {
    shown[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

fn found(shown: &Value) -> &str {
    shown["analyses"][0]["metrics"][0]["found"].as_str().unwrap()
}

#[tokio::test]
async fn the_first_release_has_nothing_to_compare_with_and_does_not_pass() {
    let _time = VirtualTime::begin();
    let chronicle = Chronicle::start().await;
    chronicle.say(|asked| around(20.0, asked.from));
    let (world, agents) = world(&chronicle).await;
    world.submit(&compared("first", ", runVariation: 1%")).await.ok();
    let shown = in_state(&world, "first", "Paused").await;
    insta::assert_snapshot!(shown["reason"].as_str().unwrap(), @"analysis of stage Canary 5 Percent: no data: latency: no earlier release of sieve ended well here, so there is nothing to compare with");
    // Why is said once, and not once of each child.
    let children = world.get("/api/v1/releases/first/children").await.ok().json();
    let children = children["items"].as_array().unwrap();
    assert_eq!(children.len(), 2);
    for child in children {
        let line = child["waits_for"].as_str().unwrap();
        assert!(line.ends_with("paused: analysis of stage Canary 5 Percent: no data"), "{line}");
    }
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn a_metric_is_asked_for_as_often_as_it_says_itself() {
    let _time = VirtualTime::begin();
    let chronicle = Chronicle::start().await;
    chronicle.say(|asked| around(20.0, asked.from));
    let (world, agents) = world(&chronicle).await;
    let query =
        "?v={{ .Variant.Name }}&from={{ .BuiltInArgs.Window.Start }}&to={{ .BuiltInArgs.Window.End }}";
    let metric = format!("{{provider: past, query: '{query}', expected: {{max: 100}}, interval: 2s}}");
    world.submit(&judged("slowly", &format!("duration: 4s, interval: 1s, metrics: [{metric}]"))).await.ok();
    let shown = in_state(&world, "slowly", "Done").await;
    assert_eq!(shown["analyses"][0]["metrics"][0]["name"], "THRESHOLD past", "{shown:#}");
    let asked = chronicle.asked("canary");
    assert!((1..=2).contains(&asked.len()), "{asked:?}");
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn a_stage_is_compared_with_the_same_stage_of_the_last_release_that_ended_well() {
    let _time = VirtualTime::begin();
    let chronicle = Chronicle::start().await;
    let (world, agents) = world(&chronicle).await;
    world.submit(&strategy("one")).await.ok();
    let one = in_state(&world, "one", "Done").await;
    let (began, ended) = (instant(&one, "started"), instant(&one, "ended"));
    // One that fails is nothing to compare with.
    let (then, now) = (around(20.0, 1), around(30.0, 2));
    chronicle.say(move |asked| if asked.from < ended { then.clone() } else { now.clone() });
    world.submit(&compared("slow", ", runVariation: 1%")).await.ok();
    let slow = in_state(&world, "slow", "RolledBack").await;
    assert!(found(&slow).starts_with("against release one: the canary is 50 % higher"), "{slow:#}");
    // As much as one version differs from itself from run to run is no fault of the new one, however sure it is.
    let (then, now) = (around(20.0, 1), around(21.6, 2));
    chronicle.say(move |asked| if asked.from < ended { then.clone() } else { now.clone() });
    world.submit(&compared("noisy", ", runVariation: 3%")).await.ok();
    let noisy = in_state(&world, "noisy", "Paused").await;
    assert!(found(&noisy).starts_with("against release one: the canary is between "), "{noisy:#}");
    let note = serde_json::json!({"by": "eve", "note": "noise"});
    world.post("/api/v1/releases/noisy/abort", &note).await.ok();
    in_state(&world, "noisy", "Aborted").await;
    let slow_began = instant(&slow, "started");
    let (then, now) = (around(20.0, 3), around(20.0, 4));
    chronicle.say(move |asked| if asked.from < slow_began { then.clone() } else { now.clone() });
    world.submit(&compared("fine", ", runVariation: 1%")).await.ok();
    let fine = in_state(&world, "fine", "Done").await;
    assert!(found(&fine).starts_with("against release one: the canary is "), "{fine:#}");
    let asked = chronicle.asked("canary");
    let of_one: Vec<&Question> = asked.iter().filter(|asked| asked.to <= ended).collect();
    assert!(!of_one.is_empty() && of_one.iter().all(|asked| asked.from >= began), "{asked:?} {one:#}");
    assert!(asked.iter().all(|asked| asked.to <= ended || asked.from >= instant(&fine, "started")));
    assert_eq!(chronicle.asked("baseline"), []);
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn the_same_hours_of_earlier_weeks_tell_how_much_one_version_varies() {
    let _time = VirtualTime::begin();
    let chronicle = Chronicle::start().await;
    let (world, agents) = world(&chronicle).await;
    world.submit(&strategy("one")).await.ok();
    in_state(&world, "one", "Done").await;
    // Nobody remembers earlier weeks.
    chronicle.say(|asked| if asked.variant == "baseline" { Vec::new() } else { around(20.0, asked.from) });
    world.submit(&compared("unknown", "")).await.ok();
    let shown = in_state(&world, "unknown", "Paused").await;
    insta::assert_snapshot!(shown["reason"].as_str().unwrap(), @"analysis of stage Canary 5 Percent: inconclusive: latency: against release one: how much sieve varies from run to run isn't known: 0 of the same hours of earlier weeks have values, and it takes 5; wait, or write it down, as in runVariation: 3%");
    let weeks = chronicle.asked("baseline");
    let now = chronicle.asked("canary").iter().map(|asked| asked.from).max().unwrap();
    assert!(weeks.len() >= 10, "{weeks:?}");
    for asked in &weeks {
        assert_eq!(asked.to - asked.from, 2_000);
        assert!(now - asked.from >= WEEK_MS && (now - asked.from) % WEEK_MS < 5_000, "{asked:?}");
    }
    let note = serde_json::json!({"by": "eve", "note": "no use"});
    world.post("/api/v1/releases/unknown/abort", &note).await.ok();
    in_state(&world, "unknown", "Aborted").await;
    // They varied by next to nothing.
    chronicle.say(|asked| around(20.0, asked.from));
    world.submit(&compared("known", "")).await.ok();
    let shown = look_until(&world, "known", |shown| shown["analyses"][0]["verdict"].is_string()).await;
    assert_eq!(shown["analyses"][0]["verdict"], "pass", "{shown:#}");
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn what_the_provider_has_forgotten_is_no_data() {
    let _time = VirtualTime::begin();
    let chronicle = Chronicle::start().await;
    let (world, agents) = world(&chronicle).await;
    world.submit(&strategy("one")).await.ok();
    let ended = instant(&in_state(&world, "one", "Done").await, "ended");
    chronicle.say(move |asked| if asked.from < ended { Vec::new() } else { around(20.0, asked.from) });
    world.submit(&compared("late", ", runVariation: 1%")).await.ok();
    let shown = in_state(&world, "late", "Paused").await;
    insta::assert_snapshot!(shown["reason"].as_str().unwrap(), @"analysis of stage Canary 5 Percent: no data: latency: of release one the provider has no values any more: let it keep them until the next release");
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn what_the_provider_has_forgotten_the_release_before_has_kept() {
    let _time = VirtualTime::begin();
    let chronicle = Chronicle::start().await;
    chronicle.say(|asked| around(20.0, asked.from));
    let (world, agents) = world(&chronicle).await;
    world.submit(&compared("first", ", runVariation: 1%")).await.ok();
    // There is nothing to compare with, and yet it is measured.
    in_state(&world, "first", "Paused").await;
    let note = serde_json::json!({"by": "eve", "note": "the first"});
    world.post("/api/v1/releases/first/resume", &note).await.ok();
    let ended = instant(&in_state(&world, "first", "Done").await, "ended");
    chronicle.say(move |asked| if asked.from < ended { Vec::new() } else { around(24.0, asked.from) });
    world.submit(&compared("slow", ", runVariation: 1%")).await.ok();
    let slow = in_state(&world, "slow", "RolledBack").await;
    // By about a fifth: it is measured, and comes out at 19.9 % now and then.
    assert!(found(&slow).starts_with("against release first: the canary is "), "{slow:#}");
    agents.end().await;
    world.stop().await;
}

#[tokio::test]
async fn each_wave_is_compared_with_the_release_before() {
    let _time = VirtualTime::begin();
    let chronicle = Chronicle::start().await;
    let (world, agents) = world(&chronicle).await;
    world.submit(&strategy("one")).await.ok();
    in_state(&world, "one", "Done").await;
    chronicle.say(|asked| around(20.0, asked.from));
    let query =
        "?v={{ .Variant.Name }}&from={{ .BuiltInArgs.Window.Start }}&to={{ .BuiltInArgs.Window.End }}";
    let metric = format!(
        "{{name: latency, provider: past, query: '{query}', strategy: PREVIOUS, deviation: HIGH, runVariation: 1%}}"
    );
    let text = format!(
        "{}\nrollout: {{order: waves, waves: [1, 100%], analysis: {{duration: 1s, interval: 1s, metrics: [{metric}]}}}}\n",
        strategy("two")
    );
    world.submit(&text).await.ok();
    let shown = in_state(&world, "two", "Done").await;
    assert_eq!(shown["analyses"][0]["run"], 2, "{shown:#}");
    assert!(found(&shown).starts_with("against release one: the canary is "), "{shown:#}");
    agents.end().await;
    world.stop().await;
}
