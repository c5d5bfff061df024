//! What operators of the manager order of releases that own agents run, and what the end of an agent means for what it runs.

use serde_json::json;

use super::{
    callers::{Callers, PATIENCE},
    node::{Load, Node},
    processes,
    releases::{Kind, Stage, stages, strategy},
    serving::Behaviour::{Good, Turning},
    site::Site,
    stages::{habits, nothing_is_left_but},
    wait::wait_until,
};

/// No stage of these lasts to its end.
const LONG: u64 = 600_000;

/// The first of these lasts until it is skipped.
const LONG_FIRST: [Stage; 3] = [
    Stage { kind: Kind::Wait, share: 10, milliseconds: LONG },
    Stage { kind: Kind::Wait, share: 30, milliseconds: 400 },
    Stage { kind: Kind::Wait, share: 50, milliseconds: 400 },
];

struct World {
    site: Site,
    node: Node,
    load: Load,
    base: String,
    new: String,
}

/// A node with a base version that nobody calls, and a new one.
async fn quiet(canary: super::serving::Behaviour) -> (Site, Node, [String; 2]) {
    let mut site = Site::start().await;
    let node = site.node("edge", &["agent.keep_base=0s"]).await;
    site.manager.knows(1).await;
    let (base, new) = (site.version(Good), site.version(canary));
    node.add(&site.content(&base));
    (site, node, [base, new])
}

/// Its release begins with its first stage.
async fn submit(site: &Site, node: &Node, [base, new]: [&str; 2], stages: &[Stage]) {
    site.manager.submit(&strategy("r", [base, new], stages, "")).await;
    node.until("a stage is run", |status| status.functions[0].candidate.is_some()).await;
}

/// A release under load, whose first stage has begun.
async fn begun(stages: &[Stage]) -> World {
    let (site, node, [base, new]) = quiet(Good).await;
    let load = node.call(&habits()).await;
    submit(&site, &node, [&base, &new], stages).await;
    World { site, node, load, base, new }
}

impl World {
    /// Whoever serves at the end serves alone, and no call was lost or doubled.
    async fn ends_with(self, serving: &str) {
        let Self { site, node, load, .. } = self;
        node.is_at_rest().await;
        load.more_calls(100).await;
        let (ledger, lines) = load.finish(&site).await;
        assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
        nothing_is_left_but(&site, &node.folder, serving).await;
    }

    async fn state(&self) -> String {
        let ended = self.site.manager.ended("r").await;
        ended["state"].as_str().unwrap().to_owned()
    }

    async fn skip_first(&self) {
        let (status, text) =
            self.site.manager.order("/api/v1/releases/r/stages/s0/skip", &json!({"by": "tester"})).await;
        assert!((200..300).contains(&status), "{status} {text}");
    }

    /// Waits until the stage of this name is run.
    async fn stage(&self, name: &str) {
        let is_it = |status: &agent::control::form::Status| {
            status.functions[0].candidate.as_ref().is_some_and(|one| one.stage == name)
        };
        self.node.until(name, is_it).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_aborted_leaves_the_base_version_alone() {
    let world = begun(&stages(Kind::Wait, &[10, 50], LONG)).await;
    world.site.manager.act("r", "abort").await;
    assert_eq!(world.state().await, "Aborted");
    let base = world.base.clone();
    world.ends_with(&base).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_paused_goes_on_once_it_is_resumed() {
    let (site, node, [base, new]) = quiet(Good).await;
    submit(&site, &node, [&base, &new], &stages(Kind::Wait, &[50, 50], 100)).await;
    site.manager.act("r", "pause").await;
    assert_eq!(site.manager.state("r").await.as_deref(), Some("Paused"));
    // Only now come the calls that the stage needs for its end.
    let load = node.call(&habits()).await;
    let world = World { site, node, load, base, new };
    world.load.more_calls(400).await;
    assert!(!world.site.manager.is_over("r").await);
    world.site.manager.act("r", "resume").await;
    assert_eq!(world.state().await, "Done");
    let new = world.new.clone();
    world.ends_with(&new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_is_skipped_gives_way_to_the_next_one() {
    let world = begun(&LONG_FIRST).await;
    world.stage("s0").await;
    world.skip_first().await;
    assert_eq!(world.state().await, "Done");
    let new = world.new.clone();
    world.ends_with(&new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_second_wave_waits_for_approval_goes_on_once_it_is_promoted() {
    let mut site = Site::start().await;
    let nodes = [
        site.node("edge-1", &["agent.keep_base=0s"]).await,
        site.node("edge-2", &["agent.keep_base=0s"]).await,
    ];
    site.manager.knows(2).await;
    let (base, new) = (site.version(Good), site.version(Good));
    let mut callers = Vec::new();
    for node in &nodes {
        node.add(&site.content(&base));
        callers.push(Callers::start(node.at, &habits(), PATIENCE));
    }
    let more =
        "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave, approval_timeout: 1h}\n";
    site.manager.submit(&strategy("r", [&base, &new], &stages(Kind::Wait, &[50], 400), more)).await;
    site.manager.until("/api/v1/releases/r", |shown| shown["state"] == "AwaitingApproval").await;
    site.manager.act("r", "promote").await;
    assert_eq!(site.manager.ended("r").await["state"], "Done");
    for node in &nodes {
        node.is_at_rest().await;
    }
    wait_until("both serve the new version", async || {
        site.running(&new).len() == 2 && site.running(&base).is_empty()
    })
    .await;
    for callers in callers {
        assert_eq!(callers.lost(), 0);
        callers.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_failed_is_tried_again() {
    let (site, node, [base, new]) = quiet(Turning).await;
    site.turn(&new, true);
    submit(&site, &node, [&base, &new], &stages(Kind::Wait, &[50], 500)).await;
    let load = node.call(&habits()).await;
    let world = World { site, node, load, base, new };
    assert_ne!(world.state().await, "Done");
    world.node.is_at_rest().await;
    world.site.turn(&world.new, false);
    world.site.manager.act("r", "retry").await;
    world.site.manager.until("/api/v1/releases/r", |shown| shown["state"] == "Done").await;
    let new = world.new.clone();
    world.ends_with(&new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_told_to_end_leaves_all_that_serves_and_the_next_one_adopts_it() {
    let mut world = begun(&LONG_FIRST).await;
    let pids = |world: &World| {
        [&world.base, &world.new]
            .map(|version| world.site.running(version).iter().map(|one| one.pid).collect::<Vec<_>>())
    };
    let (before, proxies) = (pids(&world), world.node.proxy_processes().len());
    assert_eq!(world.node.terminate().await.code(), Some(0));
    world.load.more_calls(300).await;
    assert_eq!(pids(&world), before);
    assert_eq!(world.node.proxy_processes().len(), proxies);
    world.node.come_back();
    world.node.until_it_answers().await;
    world.skip_first().await;
    assert_eq!(world.state().await, "Done");
    let adopted: Vec<u32> = world.site.running(&world.new).iter().map(|one| one.pid).collect();
    assert_eq!(adopted, before[1]);
    let new = world.new.clone();
    world.ends_with(&new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_to_drain_ends_the_proxy_and_all_versions_without_losing_what_they_have() {
    let mut site = Site::start().await;
    let mut node = site.node("edge", &["agent.stop=drain"]).await;
    let base = site.version(super::serving::Behaviour::Slow);
    node.add(&site.content(&base));
    let load = node.call(&habits()).await;
    load.more_calls(100).await;
    let (ledger, lines) = load.finish(&site).await;
    assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
    assert_eq!(node.terminate().await.code(), Some(0));
    let folder = node.folder.to_str().unwrap().to_owned();
    wait_until("nothing of it runs", async || processes::with(&folder).is_empty()).await;
}
