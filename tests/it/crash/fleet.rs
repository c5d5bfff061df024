//! Simulated deployed agents go through the samples, from YAML to the version that each of them runs in the end.

use std::{collections::BTreeMap, time::Duration};

use simulated_children::{FleetConfig, FleetReport, LiveVersion, run};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    kill::until_quiet,
    operator::sample,
    server::{Start, tail},
    world::World,
};
use crate::{
    deadline::DEADLINE,
    store::place::{Kind, Place},
};

/// A second of an agent's clock is 20 ms.
const PACE: f64 = 0.02;

fn fleet() -> FleetConfig {
    let mut config = FleetConfig { agents: 8, pace: PACE, ..FleetConfig::default() };
    // A single failed call of few would be too many.
    config.traffic.new.errors = 0.0;
    config.traffic.bad_path = Some("broken".to_owned());
    config.traffic.bad.errors = 0.8;
    config.faults.exit_after_rollback = 0.0;
    config
}

/// Runs a sample with a fleet until it is over and nobody waits for anything; its state, and the fleet's report.
async fn release(
    place: &Place,
    name: &str,
    config: FleetConfig,
    set: &[&str],
    end: Duration,
) -> (String, FleetReport) {
    release_text(place, name, &sample(name, &format!("{name}-1")), config, set, end).await
}

/// The same for a text, which has `name-1` for its id.
async fn release_text(
    place: &Place,
    name: &str,
    text: &str,
    config: FleetConfig,
    set: &[&str],
    end: Duration,
) -> (String, FleetReport) {
    let mut start = Start::on(place);
    start.set = set.iter().map(|set| (*set).to_owned()).collect();
    let server = start.listening().await;
    let world = World::new();
    world.serves_at(Some(server.address));
    let agents = config.agents;
    let config = FleetConfig { url: format!("http://{}", server.address), ..config };
    let stop = CancellationToken::new();
    let running = tokio::spawn(run(config, stop.clone(), |_| ()));
    let began = Instant::now();
    while children(&world).await < agents {
        assert!(began.elapsed() < end, "not everybody has registered: {}", tail(&start.log));
        sleep(Duration::from_millis(20)).await;
    }
    let registered = began.elapsed();
    let answer = world.submit(text).await.unwrap().unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    let quiet = until_quiet(place, end).await;
    let shown = world.get(&format!("/api/v1/releases/{name}-1")).await.unwrap().unwrap().json();
    println!(
        "{agents} agents: registered after {registered:?}, over after {:?}: {} {}",
        began.elapsed(),
        shown["state"],
        shown["counts"]
    );
    // One more round of polls, so that nobody is in the middle of something.
    sleep(Duration::from_millis(300)).await;
    stop.cancel();
    let report = running.await.unwrap().unwrap();
    assert!(quiet, "{name} is not over: {shown}\n{}", tail(&start.log));
    assert!(server.terminate().await.success());
    (shown["state"].as_str().unwrap().to_owned(), report)
}

/// Children that the manager knows.
async fn children(world: &World) -> usize {
    let Ok(Some(answer)) = world.get("/metrics").await else { return 0 };
    let text = answer.text();
    let line = text.lines().find_map(|line| line.strip_prefix("choirmaster_children ").map(str::to_owned));
    line.and_then(|count| count.trim().parse::<f64>().ok()).map_or(0, |count| count as usize)
}

/// How many agents run what of a function.
fn live(report: &FleetReport, function: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for agent in &report.agents {
        assert_eq!(agent.exit, None, "agent {} has exited", agent.index);
        let runs = match agent.live.get(function) {
            None => "untouched".to_owned(),
            Some(LiveVersion::Base { path } | LiveVersion::New { path }) => path.clone(),
            Some(other) => format!("{other:?}"),
        };
        *found.entry(runs).or_default() += 1;
    }
    found
}

/// A fleet on an embedded store: the state, and what each agent runs in the end.
async fn comes_out(name: &str, state: &str, runs: &[(&str, &str)]) {
    Place::with(Kind::Sqlite, async |place| {
        let (ended, report) = release(place, name, fleet(), &[], DEADLINE).await;
        assert_eq!(ended, state);
        for (function, path) in runs {
            assert_eq!(live(&report, function), BTreeMap::from([((*path).to_owned(), 8)]), "{function}");
        }
        assert_eq!(report.last_error, None);
    })
    .await;
}

const NEW: &[(&str, &str)] = &[("sieve", "fns/sieve_new")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_ends_with_the_new_version_everywhere() {
    comes_out("canary", "Done", NEW).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ab_test_ends_with_the_new_version_everywhere() {
    comes_out("ab", "Done", NEW).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stages_end_with_the_new_version_everywhere() {
    comes_out("two-stage", "Done", NEW).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gradual_roll_out_ends_with_the_new_version_everywhere() {
    comes_out("gradual", "Done", NEW).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jump_over_a_stage_ends_with_the_new_version_everywhere() {
    comes_out("jump", "Done", NEW).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_functions_end_with_both_new_versions_everywhere() {
    comes_out("two-functions", "Done", &[("sieve", "fns/sieve_new"), ("greet", "fns/greet_new")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_release_leaves_the_base_version_everywhere() {
    comes_out("bad", "DoneWithFailures", &[("sieve", "fns/sieve_base")]).await;
}

/// A text with the manager in charge: the state, and what each agent runs in the end.
async fn led(name: &str, text: &str, state: &str, runs: &str) {
    Place::with(Kind::Sqlite, async |place| {
        let (ended, report) = release_text(place, name, text, fleet(), &[], DEADLINE).await;
        assert_eq!(ended, state);
        assert_eq!(live(&report, "sieve"), BTreeMap::from([(runs.to_owned(), 8)]));
        assert_eq!(report.last_error, None);
    })
    .await;
}

fn sample_led(name: &str, rollout: &str) -> String {
    sample(name, &format!("{name}-1")) + &format!("\nrollout: {{{rollout}}}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_led_in_parallel_ends_with_the_new_version_everywhere() {
    led("two-stage", &sample_led("two-stage", "order: parallel"), "Done", "fns/sieve_new").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stage_by_stage_over_all_agents_ends_with_the_new_version_everywhere() {
    led("global", &sample("global", "global-1"), "Done", "fns/sieve_new").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_few_places_all_have_their_turn_all_the_same() {
    let text = sample_led("canary", "order: global_incremental, max_in_progress: 3");
    led("canary", &text, "Done", "fns/sieve_new").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn location_after_location_ends_with_the_new_version_everywhere() {
    led("nearest", &sample("nearest", "nearest-1"), "Done", "fns/sieve_new").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn growing_waves_end_with_the_new_version_everywhere() {
    let text = sample_led("canary", "order: waves, waves: [1, 25%, 50%, 100%], soak: 200ms");
    led("canary", &text, "Done", "fns/sieve_new").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_release_is_rolled_back_before_most_have_seen_it() {
    Place::with(Kind::Sqlite, async |place| {
        let text = sample_led("bad", "order: waves, waves: [1, 50%, 100%]");
        let (ended, report) = release_text(place, "bad", &text, fleet(), &[], DEADLINE).await;
        assert_eq!(ended, "RolledBack");
        let found = live(&report, "sieve");
        assert_eq!(found, BTreeMap::from([("fns/sieve_base".to_owned(), 1), ("untouched".to_owned(), 7)]));
    })
    .await;
}

/// Agents that die in the middle come back under another id, with what they left; a first answer is lost now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_die_and_come_back_are_taken_back_to_the_base_version() {
    Place::with(Kind::Sqlite, async |place| {
        let mut config = FleetConfig { agents: 40, ..fleet() };
        config.faults.crash = 0.02;
        config.faults.lose_first_answer = 0.1;
        config.faults.restart_after = Duration::from_secs(1).div_f64(PACE);
        let deadlines = [
            "deadlines.offer=6s",
            "deadlines.setup_grace=8s",
            "deadlines.stage=12s",
            "deadlines.undo=14s",
            "deadlines.absence=500ms",
        ];
        let (_, report) = release(place, "two-stage", config, &deadlines, DEADLINE).await;
        let restarts: u64 = report.agents.iter().map(|agent| agent.restarts).sum();
        assert!(restarts > 5, "hardly anybody died: {restarts}");
        let found = live(&report, "sieve");
        println!("{restarts} deaths: {found:?}");
        for left in found.keys() {
            assert!(["untouched", "fns/sieve_base", "fns/sieve_new"].contains(&left.as_str()), "{found:?}");
        }
    })
    .await;
}

/// The fleet of the issue: real intervals, so it takes half a minute on either store. Run it with
/// `tests/run -- --release crash::fleet::two_thousand -- --ignored --nocapture`.
async fn two_thousand(place: &Place) {
    let config = FleetConfig { agents: 2_000, pace: 1.0, ..fleet() };
    let (state, report) = release(place, "two-stage", config, &[], Duration::from_mins(5)).await;
    assert_eq!(state, "Done");
    assert_eq!(live(&report, "sieve"), BTreeMap::from([("fns/sieve_new".to_owned(), 2_000)]));
    println!("{:?}", report.totals);
}

#[ignore = "takes half a minute of real intervals"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_agents_run_two_stages_to_the_end_on_sqlite() {
    Place::with(Kind::Sqlite, two_thousand).await;
}

#[ignore = "takes half a minute of real intervals"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_agents_run_two_stages_to_the_end_on_postgres() {
    Place::with(Kind::Postgres, two_thousand).await;
}
