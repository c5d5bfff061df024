//! Whole fleets, judged while they run: by the hundred on virtual time, and three of each kind in real time.
//!
//! What takes long has a command of its own:
//!
//! ```text
//! cargo test --profile bench --test it judging::fleets -- --ignored --nocapture
//! ```
//!
//! Everything is real but the calls: the manager on its store, HTTP, the simulated fleet of newer agents, the plan that says
//! how many calls it takes, the looks and what a verdict does. Nobody waits for the time to pass.

use std::{
    env,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use analysis::dist::binomial_sf;
use serde_json::Value;
use simulated_children::{FleetConfig, FleetKind, Latency};
use tokio::{
    runtime,
    time::{Instant, sleep},
};

use super::Agents;
use crate::{
    virtual_time::VirtualTime,
    world::{World, strategy},
};

/// How long the analysed stage takes, in seconds.
const STAGE_S: u64 = 60;

const INTERVAL_S: u64 = 5;

/// Calls of each child in the stage.
const CALLS: u64 = 500;
const CALLS_PER_SECOND: f64 = CALLS as f64 / STAGE_S as f64;

/// Share of good releases that may not pass where there are calls enough.
const ALPHA: f64 = 0.05;

/// How often a right manager may be refused.
const CHANCE: f64 = 0.001;

/// Median of the base version, in milliseconds.
const MEDIAN_MS: f64 = 20.0;

/// Standard deviation of the logarithm of times.
const LOG_SD: f64 = 0.47;

/// Between two questions for how it stands.
const PAUSE: Duration = Duration::from_millis(200);

/// A release that is not over after so long has got stuck.
const LONGEST: Duration = Duration::from_mins(10);

/// How the releases of a fleet are.
#[derive(Debug, Clone, Copy)]
struct Story {
    agents: usize,
    /// Time of the new version, of the base version's.
    ratio: f64,
}

/// What became of one release.
#[derive(Debug, Clone)]
struct Ended {
    state: String,
    looks: u64,
    /// From the submission on: agents hear of it, set up, and test.
    elapsed: Duration,
    verdict: String,
    why: String,
}

/// Setting up, two intervals, and what it takes to hear of it, to report and to look.
const TWO_INTERVALS: Duration = Duration::from_secs(2 * INTERVAL_S + 6);

impl Ended {
    fn is_taken_back(&self) -> bool {
        matches!(self.state.as_str(), "RolledBack" | "RollingBack") && self.verdict == "fail"
    }

    fn is_stopped_at_once(&self) -> bool {
        self.is_taken_back() && self.looks <= 2 && self.elapsed <= TWO_INTERVALS
    }

    fn has_passed(&self) -> bool {
        self.state == "Done" && self.verdict == "pass"
    }
}

fn release(id: &str) -> String {
    let text = strategy(id).replace("trafficPercentage: 95", "trafficPercentage: 50");
    let text = text.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n");
    let text = text.replace("threshold: 2s", &format!("threshold: {STAGE_S}s")).replace("\"50\"", "\"1\"");
    let text = text.replace("\"<=250\"", "\"<=60000\"");
    text.replace(
        "    end_action:",
        &format!(
            "    analysis: {{duration: {STAGE_S}s, interval: {INTERVAL_S}s, metrics: [{{name: times, provider: children, \
             metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH, tolerance: 5%}}]}}\n    end_action:"
        ),
    )
}

fn agents(config: &mut FleetConfig, story: Story, seed: u64) {
    config.kind = FleetKind::Modern;
    config.seed = seed;
    config.pace = 1.0;
    config.traffic.calls_per_second = CALLS_PER_SECOND;
    let latency = |median_ms| Latency::LogNormal { median_ms, sigma: LOG_SD };
    config.traffic.base.latency = latency(MEDIAN_MS);
    config.traffic.new.latency = latency(MEDIAN_MS * story.ratio);
}

async fn shown(world: &World) -> Value {
    world.get("/api/v1/releases/story").await.ok().json()
}

async fn registered(world: &World) -> usize {
    let page = world.get("/api/v1/children?limit=1000").await.ok().json();
    page["items"].as_array().unwrap().len()
}

/// Runs one release over a fleet of its own.
async fn run(story: Story, seed: u64) -> Ended {
    let world = World::start().await;
    let fleet = Agents::below(&world, story.agents, |config| agents(config, story, seed));
    let began = Instant::now();
    while registered(&world).await < story.agents {
        sleep(PAUSE).await;
        assert!(began.elapsed() < LONGEST, "the fleet doesn't register");
    }
    let plan = world.submit_to("/api/v1/plan", &release("story")).await.ok().json();
    let wanted = plan["takes"][0]["wanted"].as_array().unwrap().last().unwrap().clone();
    assert!(1.0 - wanted["passes"].as_f64().unwrap() <= ALPHA, "{wanted}");
    assert!(wanted["calls"].as_u64().unwrap() <= CALLS * story.agents as u64, "too few calls: {wanted}");
    world.submit(&release("story")).await.ok();
    let began = Instant::now();
    let ended = loop {
        sleep(PAUSE).await;
        let (found, elapsed) = (shown(&world).await, began.elapsed());
        let state = found["state"].as_str().unwrap().to_owned();
        if !matches!(state.as_str(), "Planned" | "Running") {
            let analysis = &found["analyses"][0];
            let text = |name: &str| analysis[name].as_str().unwrap_or_default().to_owned();
            let (verdict, why) = (text("verdict"), text("why"));
            let looks = analysis["looks"].as_u64().unwrap();
            break Ended { state, looks, elapsed, verdict, why };
        }
        assert!(elapsed < LONGEST, "{found:#}");
    };
    fleet.end().await;
    ended
}

fn in_no_time(story: Story, seed: u64) -> Ended {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let _time = VirtualTime::begin();
        run(story, seed).await
    })
}

fn in_real_time(story: Story, seed: u64) -> Ended {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(run(story, seed))
}

/// Many of a story, on all processors; each with calls of its own.
fn many(story: Story, seeds: u64) -> Vec<Ended> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut ended = Vec::new();
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds {
                return ended;
            }
            ended.push(in_no_time(story, seed));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

#[test]
fn a_canary_ten_times_slower_is_stopped_within_two_intervals() {
    let ended = in_no_time(Story { agents: 20, ratio: 10.0 }, 1);
    assert!(ended.is_stopped_at_once(), "{ended:?}");
}

#[test]
fn a_good_release_passes_and_one_that_is_a_fifth_slower_does_not() {
    let good = in_no_time(Story { agents: 20, ratio: 1.0 }, 1);
    assert!(good.has_passed(), "{good:?}");
    let slower = in_no_time(Story { agents: 20, ratio: 1.2 }, 1);
    assert!(slower.is_taken_back(), "{slower:?}");
}

#[test]
#[ignore = "takes a quarter of an hour: cargo test --profile bench --test it judging::fleets -- --ignored --nocapture"]
fn of_a_hundred_releases_the_good_ones_pass_and_the_bad_ones_do_not() {
    let releases = env::var("CHOIRMASTER_FLEETS").map_or(100, |count| count.parse().unwrap());
    for agents in [20, 1_000] {
        let good = many(Story { agents, ratio: 1.0 }, releases);
        let not_passed: Vec<&Ended> = good.iter().filter(|ended| !ended.has_passed()).collect();
        println!("{agents} agents: {} of {releases} good releases did not pass", not_passed.len());
        let too_many = binomial_sf(not_passed.len() as u64, releases, ALPHA) < CHANCE;
        assert!(!too_many, "{not_passed:#?}");
        let slower = many(Story { agents, ratio: 1.2 }, releases);
        let looks: u64 = slower.iter().map(|ended| ended.looks).sum();
        let passed: Vec<&Ended> = slower.iter().filter(|ended| !ended.is_taken_back()).collect();
        println!(
            "{agents} agents: {} of {releases} slower by a fifth were not taken back, others after {:.1} looks",
            passed.len(),
            looks as f64 / releases as f64
        );
        assert!(slower.iter().all(|ended| !ended.has_passed()), "{passed:#?}");
        let bad = many(Story { agents, ratio: 10.0 }, releases.div_ceil(10));
        assert!(bad.iter().all(Ended::is_stopped_at_once), "{bad:#?}");
    }
}

#[test]
#[ignore = "takes six minutes of the wall's time: cargo test --profile bench --test it judging::fleets -- --ignored --nocapture"]
fn three_of_each_in_real_time() {
    for agents in [20, 1_000] {
        for seed in 0..3 {
            let told = [1.0, 1.2, 10.0].map(|ratio| {
                let story = Story { agents, ratio };
                thread::spawn(move || in_real_time(story, seed))
            });
            let [good, slower, bad] = told.map(|told| told.join().unwrap());
            for ended in [&good, &slower, &bad] {
                println!(
                    "{agents} agents, seed {seed}: {} after {} looks: {}",
                    ended.state, ended.looks, ended.why
                );
            }
            assert!(!slower.has_passed() && bad.is_stopped_at_once());
            assert!(good.has_passed() || good.verdict == "inconclusive");
        }
    }
}
