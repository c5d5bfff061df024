//! A root, a manager below it, and agents below that one.

use std::{path::PathBuf, time::Duration};

use engine::parent;
use serde_json::{Value, json};
use simulated_children::{FleetConfig, FleetReport};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{STAGE, World, strategy};

pub const AGENTS: usize = 6;

pub fn parent(url: String) -> parent::Settings {
    parent::Settings {
        url,
        token: None,
        name: Some("middle".to_owned()),
        poll: Duration::from_millis(20),
        service_area: None,
        public_url: None,
        archive_limits: language::functions::Limits::default(),
        // A world has its own.
        downloads: PathBuf::new(),
    }
}

pub fn url(world: &World) -> String {
    format!("http://{}", world.manager.address)
}

pub async fn below(above: &World) -> World {
    below_url(url(above)).await
}

pub async fn below_url(url: String) -> World {
    let settings = parent(url);
    World::with(|options| options.parent = Some(settings)).await
}

/// Agents that run a hundred times as fast.
pub struct Agents {
    stop: CancellationToken,
    run: JoinHandle<FleetReport>,
}

impl Agents {
    pub fn below(world: &World, bad: bool) -> Self {
        let mut config =
            FleetConfig { url: url(world), agents: AGENTS, pace: 0.005, ..FleetConfig::default() };
        config.traffic.calls_per_second = 500.0;
        config.traffic.new.errors = if bad { 0.9 } else { 0.0 };
        let stop = CancellationToken::new();
        let until = stop.clone();
        let run = tokio::spawn(async move { simulated_children::run(config, until, |_| ()).await.unwrap() });
        Self { stop, run }
    }

    pub async fn end(self) -> FleetReport {
        self.stop.cancel();
        self.run.await.unwrap()
    }
}

/// The manager below is known above, with all its agents.
pub async fn registered(root: &World) {
    manager_of(root, AGENTS as u64).await;
}

/// The id of a manager below, once it stands for so many agents.
pub async fn manager_of(world: &World, agents: u64) -> String {
    let found = |children: &Value| {
        let stands = |child: &&Value| child["kind"] == "rm" && child["agents"] == agents;
        children["items"].as_array().unwrap().iter().find(stands).cloned()
    };
    let children = world.until("/api/v1/children", |children| found(children).is_some()).await;
    found(&children).unwrap()["id"].as_str().unwrap().to_owned()
}

pub async fn ended(world: &World, release: &str) -> String {
    let is_over =
        |shown: &Value| !matches!(shown["state"].as_str().unwrap(), "Planned" | "Running" | "RollingBack");
    let shown = world.until(&format!("/api/v1/releases/{release}"), is_over).await;
    shown["state"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_goes_down_a_level_and_one_result_comes_up() {
    let root = World::start().await;
    let middle = below(&root).await;
    let agents = Agents::below(&middle, false);
    registered(&root).await;
    root.submit(&strategy("seven")).await.ok();
    assert_eq!(ended(&root, "seven").await, "Done");
    assert_eq!(ended(&middle, "seven").await, "Done");
    let report = agents.end().await;
    assert_eq!(report.totals.rolled_out, AGENTS, "every agent runs the new version");
    let results = root.get("/api/v1/releases/seven/children").await.ok().json();
    let text = results.to_string();
    assert_eq!(text.matches(r#""outcome":"succeeded""#).count(), 1, "{results:#}");
    assert!(text.contains(STAGE), "{results:#}");
    assert_eq!(results["items"][0]["agents"]["succeeded"], AGENTS, "{results:#}");
    // Above, each child is a manager, and its agents are counted; below, each child is one.
    let shown = root.get("/api/v1/releases/seven").await.ok().json();
    let all = json!({"participants": AGENTS, "succeeded": AGENTS, "failed": 0, "timed_out": 0, "unreachable": 0,
        "unconfirmed": 0, "untested": 0});
    assert_eq!(shown["agents"], all, "{shown:#}");
    assert_eq!(middle.get("/api/v1/releases/seven").await.ok().json().get("agents"), None);
    middle.stop().await;
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_fails_below_is_one_failure_above() {
    let root = World::start().await;
    let middle = below(&root).await;
    let agents = Agents::below(&middle, true);
    registered(&root).await;
    root.submit(&strategy("eight")).await.ok();
    assert_eq!(ended(&middle, "eight").await, "RolledBack");
    assert_eq!(ended(&root, "eight").await, "DoneWithFailures");
    let report = agents.end().await;
    assert_eq!(report.totals.rolled_out, 0);
    middle.stop().await;
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_in_charge_leads_agents_two_levels_below_and_takes_a_release_back() {
    let root = World::start().await;
    let middle = below(&root).await;
    let agents = Agents::below(&middle, false);
    registered(&root).await;
    let led = strategy("nine") + "rollout:\n  order: global_incremental\n";
    root.submit(&led).await.ok();
    assert_eq!(ended(&root, "nine").await, "Done");
    let next = strategy("ten") + "rollout:\n  order: global_incremental\n  approval: before_rollout\n";
    root.submit(&next).await.ok();
    let shown = root.until("/api/v1/releases/ten", |shown| shown["state"] == "AwaitingApproval").await;
    assert_eq!(shown["agents"]["participants"], AGENTS, "{shown:#}");
    root.call("POST", "/api/v1/releases/ten/abort").await.ok();
    assert_eq!(ended(&root, "ten").await, "Aborted");
    let shown = root.get("/api/v1/releases/ten").await.ok().json();
    assert_eq!(shown["unconfirmed"].as_u64().unwrap_or_default(), 0, "{shown:#}");
    let report = agents.end().await;
    for agent in &report.agents {
        let live = format!("{:?}", agent.live);
        assert!(live.contains("Base"), "{live}");
    }
    middle.stop().await;
    root.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_keeps_its_id_and_its_unsent_results_over_a_restart() {
    let root = World::start().await;
    let middle = below(&root).await;
    let child = middle.child().await;
    root.until("/api/v1/children", |children| children["items"][0]["kind"] == "rm").await;
    root.submit(&strategy("eleven")).await.ok();
    middle.until("/api/v1/releases/eleven", |shown| shown["state"] == "Running").await;
    middle.poll(&child).await;
    middle.fetch(&child, "eleven").await.ok();

    // The last result comes while nobody speaks to the parent.
    let middle = middle.restart().await;
    middle.report(&child, "eleven", STAGE, 5).await.ok();
    let settings = parent(url(&root));
    let middle = middle.restart_with(|options| options.parent = Some(settings)).await;
    middle.poll(&child).await;
    let offer = middle.poll(&child).await.1;
    if !offer.is_empty() {
        middle.fetch(&child, &offer).await.ok();
        middle.report(&child, &offer, "choirmaster undo", 4).await.ok();
    }
    assert_eq!(ended(&root, "eleven").await, "DoneWithFailures");
    let children = root.get("/api/v1/children").await.ok().json();
    assert_eq!(children["items"].as_array().unwrap().len(), 1, "{children:#}");
    middle.stop().await;
    root.stop().await;
}

/// The canary with another stage behind it.
fn two_stages(id: &str) -> String {
    let text = strategy(id);
    let (from, to) =
        (text.find("stages:\n").unwrap() + "stages:\n".len(), text.find("\nrollback:").unwrap() + 1);
    let stage = &text[from..to];
    let first = stage.replace("onSuccess: rollout", "onSuccess: Second");
    let second = stage.replace(STAGE, "Second");
    format!("{}{first}{second}{}", &text[..from], &text[to..])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_is_skipped_above_is_passed_over_below() {
    let root = World::start().await;
    let middle = below(&root).await;
    let agents = Agents::below(&middle, false);
    registered(&root).await;
    let led = "rollout:\n  order: parallel\n  approval: {stages: [Second]}\n";
    root.submit(&(two_stages("twelve") + led)).await.ok();
    root.until("/api/v1/releases/twelve", |shown| shown["state"] == "AwaitingApproval").await;
    root.call("POST", "/api/v1/releases/twelve/stages/Second/skip").await.ok();
    let is_told = |shown: &Value| shown["stages"][1]["skipped"] == true;
    middle.until("/api/v1/releases/twelve", is_told).await;
    root.call("POST", "/api/v1/releases/twelve/approve").await.ok();
    assert_eq!(ended(&root, "twelve").await, "Done");
    let results = middle.get("/api/v1/releases/twelve/children").await.ok().json().to_string();
    assert!(results.contains(STAGE) && !results.contains(r#""stage":"Second","#), "{results}");
    let report = agents.end().await;
    assert_eq!(report.totals.rolled_out, AGENTS);
    middle.stop().await;
    root.stop().await;
}
