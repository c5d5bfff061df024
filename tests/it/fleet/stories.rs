//! What deployed agents and their callers go through with a real manager: nobody exits, and callers are without service only
//! while an agent sets up a test or ends it.

use std::{fmt::Write as _, time::Duration};

use serde_json::Value;
use simulated_children::{AgentReport, FleetConfig, FleetReport, LiveVersion};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{deadline::DEADLINE, world::World};

const AGENTS: usize = 5;

/// A stage: its name, its type, the percentage of the new version and the share of errors it may have, minimum duration and
/// calls.
type Row = (&'static str, &'static str, u8, &'static str, &'static str, u32);

/// The stages one after the other, without a `rollout` block unless one is given.
fn strategy(block: &str, rows: &[Row]) -> String {
    let mut text = format!(
        "id: r\nname: r\ntype: patch\n{block}functions:\n  - name: sieve\n    base_version: {{path: fns/sieve_base, env: \
         nodejs}}\n    new_version: {{path: fns/sieve_new, env: nodejs}}\nstages:\n"
    );
    for (at, (name, kind, share, errors, duration, calls)) in rows.iter().enumerate() {
        let next = rows.get(at + 1).map_or("rollout", |row| row.0);
        let _ = write!(
            text,
            "  - name: {name}\n    type: {kind}\n    func_name: sieve\n    variants:\n      - {{name: base_version, \
             trafficPercentage: {}}}\n      - {{name: new_version, trafficPercentage: {share}}}\n    metrics_conditions:\n      \
             - {{name: errorRate, threshold: \"<={errors}\"}}\n    end_conditions:\n      - {{name: minDuration, threshold: \
             {duration}}}\n      - {{name: minCalls, threshold: \"{calls}\"}}\n    end_action: {{onSuccess: {next}, onFailure: \
             rollback}}\n",
            100 - share
        );
    }
    text + "rollback: {action: {function: base_version}}\n"
}

/// A manager, and simulated agents below it.
struct Story {
    world: World,
    stop: CancellationToken,
    agents: JoinHandle<FleetReport>,
}

impl Story {
    async fn begin(change: impl FnOnce(&mut FleetConfig)) -> Self {
        let world = World::start().await;
        let url = format!("http://{}", world.manager.address);
        let mut config = FleetConfig { url, agents: AGENTS, pace: 0.01, ..FleetConfig::default() };
        config.traffic.new.errors = 0.0;
        // Whoever has stages left after a roll-back is gone.
        config.faults.exit_after_rollback = 1.0;
        change(&mut config);
        let stop = CancellationToken::new();
        let run = simulated_children::run(config, stop.clone(), |_| ());
        let agents = tokio::spawn(async move { run.await.unwrap() });
        let story = Self { world, stop, agents };
        story.until("/api/v1/children", |seen| seen["items"].as_array().unwrap().len() == AGENTS).await;
        story
    }

    async fn until(&self, path: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let seen = self.world.get(path).await.ok().json();
            if is_expected(&seen) {
                return seen;
            }
            assert!(began.elapsed() < DEADLINE, "{path} never was as expected: {seen:#}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn reaches(&self, state: &str) -> Value {
        self.until("/api/v1/releases/r", |shown| shown["state"] == state).await
    }

    /// Waits until all agents are in this stage.
    async fn all_in(&self, stage: usize) {
        self.until("/api/v1/releases/r", |shown| shown["stages"][stage]["children"]["InProgress"] == AGENTS)
            .await;
    }

    /// What the agents did: none of them is gone, none left its callers alone, all have the base version.
    async fn ends_with_the_base_version(self) -> Vec<AgentReport> {
        let agents = self.ends().await;
        for agent in &agents {
            assert_eq!(agent.live["sieve"], LiveVersion::Base { path: "fns/sieve_base".into() }, "{agent:?}");
        }
        agents
    }

    async fn ends(self) -> Vec<AgentReport> {
        // What is reported last was done before.
        self.stop.cancel();
        let report = self.agents.await.unwrap();
        self.world.stop().await;
        for agent in &report.agents {
            assert_eq!(agent.exit, None, "{agent:?}");
        }
        assert!(report.without_service() <= 0.0, "{:?}", report.agents);
        assert_eq!(report.totals.exited, 0);
        report.agents
    }
}

fn all_new_versions_fail(config: &mut FleetConfig) {
    config.traffic.bad_path = Some("sieve_new".into());
    config.traffic.bad.errors = 0.5;
}

fn nobody_calls(config: &mut FleetConfig) {
    config.traffic.calls_per_second = 0.0;
}

const FOUR: [Row; 4] = [
    ("One", "WaitForSignal", 10, "0.05", "1s", 20),
    ("Two", "A/B", 50, "0.05", "1s", 20),
    ("Three", "WaitForSignal", 50, "0.05", "1s", 20),
    ("Four", "A/B", 90, "0.05", "1s", 20),
];

#[tokio::test]
async fn a_first_stage_that_fails_is_the_only_one() {
    let story = Story::begin(all_new_versions_fail).await;
    story.world.submit(&strategy("", &FOUR)).await.ok();
    let over = story.reaches("DoneWithFailures").await;
    assert_eq!((&over["counts"]["failed"], &over["counts"]["undoing"]), (&AGENTS.into(), &0.into()));
    for agent in story.ends_with_the_base_version().await {
        assert_eq!(agent.offers_run, 1, "{agent:?}");
    }
}

#[tokio::test]
async fn a_later_stage_that_fails_is_the_last() {
    let story = Story::begin(all_new_versions_fail).await;
    // The first two stages let everything pass.
    let lenient =
        FOUR.map(
            |row| if matches!(row.0, "One" | "Two") { (row.0, row.1, row.2, "1", row.4, row.5) } else { row },
        );
    story.world.submit(&strategy("", &lenient)).await.ok();
    let over = story.reaches("DoneWithFailures").await;
    assert_eq!((&over["counts"]["failed"], &over["counts"]["undoing"]), (&AGENTS.into(), &0.into()));
    for agent in story.ends_with_the_base_version().await {
        assert_eq!(agent.offers_run, 3, "{agent:?}");
    }
}

#[tokio::test]
async fn an_abort_in_a_canary_ends_in_the_base_version_and_nothing_else_is_run() {
    let rows = [("Canary", "WaitForSignal", 20, "0.05", "1h", 20), ("Half", "A/B", 50, "0.05", "1h", 20)];
    for change in [nobody_calls, |_: &mut FleetConfig| ()] {
        let story = Story::begin(change).await;
        story.world.submit(&strategy("", &rows)).await.ok();
        story.all_in(0).await;
        story.world.call("POST", "/api/v1/releases/r/abort").await.ok();
        assert_eq!(story.reaches("Aborted").await["unconfirmed"], 0);
        for agent in story.ends_with_the_base_version().await {
            assert!(agent.offers_run <= 1, "no undo is needed: {agent:?}");
        }
    }
}

#[tokio::test]
async fn a_comparison_without_calls_can_be_aborted() {
    let story = Story::begin(nobody_calls).await;
    story.world.submit(&strategy("", &[("Half", "A/B", 50, "0.05", "1s", 20)])).await.ok();
    story.all_in(0).await;
    story.world.call("POST", "/api/v1/releases/r/abort").await.ok();
    assert_eq!(story.reaches("Aborted").await["unconfirmed"], 0);
    story.ends_with_the_base_version().await;
}

#[tokio::test]
async fn stages_without_calls_end_untested_in_the_base_version() {
    let story = Story::begin(nobody_calls).await;
    let block = "rollout: {no_calls: after 200ms}\n";
    story.world.submit(&strategy(block, &[("Half", "A/B", 50, "0.05", "0s", 0)])).await.ok();
    let over = story.until("/api/v1/releases/r", |shown| shown["counts"]["untested"] == AGENTS).await;
    assert_eq!((&over["counts"]["failed"], &over["counts"]["succeeded"]), (&0.into(), &0.into()), "{over:#}");
    let over = story.reaches("DoneUntested").await;
    assert!(over["reason"].as_str().unwrap().starts_with("no agent got the calls"), "{over:#}");
    story.ends_with_the_base_version().await;
}

#[tokio::test]
async fn without_a_block_every_agent_goes_through_all_stages_to_the_roll_out() {
    let story = Story::begin(|_| ()).await;
    story.world.submit(&strategy("", &FOUR)).await.ok();
    assert_eq!(story.reaches("Done").await["counts"]["succeeded"], AGENTS);
    for agent in story.ends().await {
        assert_eq!(agent.live["sieve"], LiveVersion::New { path: "fns/sieve_new".into() }, "{agent:?}");
    }
}
