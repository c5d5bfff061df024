//! A function and a service in one release: an agent that runs the function, and a router that leads the service, each with its proxy.
//!
//! What came first is read off the lines that the two proxies write of each call, so nothing between two looks is missed.

use std::{fs, net::SocketAddr, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    beside::{has_agents_below, manager_below},
    manager::Manager,
    node::{Load, Node},
    routers::service,
    serving::Behaviour::Good,
    site::{FUNCTION, Site},
    stages::{habits, nothing_is_left_but},
    users::{Backend, Users},
    wait::wait_until,
};
use crate::ports::free_port;

const PAUSE: Duration = Duration::from_millis(40);

struct World {
    site: Site,
    agent: Node,
    router: Node,
    at: SocketAddr,
    a: Backend,
    b: Backend,
    base: String,
    new: String,
    /// Managers between that of the site and the two.
    below: Vec<Manager>,
}

/// A call by a proxy's log, in microseconds since 1970.
#[derive(Debug, Clone, Copy)]
struct Call {
    began: i64,
    ended: i64,
}

/// Calls for which this is so.
fn calls(of: &Node, is_so: impl Fn(&Value) -> bool) -> Vec<Call> {
    let text = fs::read_to_string(of.access_log()).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let call = |line: Value| {
        let ended: Timestamp = line["time"].as_str().unwrap().parse().unwrap();
        let took = (line["ms"].as_f64().unwrap() * 1_000.0) as i64;
        Call { began: ended.as_microsecond() - took, ended: ended.as_microsecond() }
    };
    lines.filter(is_so).map(call).collect()
}

/// The digest of the version that is stable at an agent.
async fn stable(agent: &Node) -> String {
    let status = agent.is_at_rest().await;
    status.functions[0].stable.version.clone()
}

/// `keep_base`: how long agents run a replaced version on.
async fn world(keep_base: &str) -> World {
    world_with(keep_base, false).await
}

/// `is_tree`: each of the two is below a manager of its own.
async fn world_with(keep_base: &str, is_tree: bool) -> World {
    let mut site = Site::start().await;
    let mut below = Vec::new();
    let at = SocketAddr::from(([127, 0, 9, 1], free_port()));
    let folder = site.folder().to_owned();
    let begin = async |manager: &Manager| {
        let router = Node::router(&folder, "router", &manager.url(), at);
        router.until_it_answers().await;
        router
    };
    let set = [&*format!("agent.keep_base={keep_base}")];
    let (agent, router) = if is_tree {
        let edge = manager_below(&site, "edge").await;
        let router = begin(&edge).await;
        let listed = site.manager.until("/api/v1/children", |listed| has_agents_below(listed, 1)).await;
        // It runs functions as well, and somebody has to say what it is for.
        site.manager.label(listed["items"][0]["id"].as_str().unwrap(), "env", "prod").await;
        let middle = manager_below(&site, "middle").await;
        let agent = site.node_below(&middle, "agent", &set).await;
        let have_agents = |listed: &Value| {
            let all = listed["items"].as_array().cloned().unwrap_or_default();
            all.len() == 2 && all.iter().all(|child| child["kind"] == "rm" && child["agents"] == 1)
        };
        site.manager.until("/api/v1/children", have_agents).await;
        below.extend([edge, middle]);
        (agent, router)
    } else {
        (site.node("agent", &set).await, begin(&site.manager).await)
    };
    site.manager.knows(2).await;
    let (base, new) = (site.version(Good), site.version(Good));
    agent.add(&site.content(&base));
    World { site, agent, router, at, a: Backend::start('A'), b: Backend::start('B'), base, new, below }
}

impl World {
    /// The router's only stage lasts so long.
    fn strategy(&self, duration: &str) -> String {
        let (base, new) = (&self.base, &self.new);
        let service = service(self.at.port(), [("A", self.a.at), ("B", self.b.at)]);
        format!(
            r#"id: h
name: checkout with its function
functions:
  - name: {FUNCTION}
    base_version: {{path: fns/{base}, env: program}}
    new_version: {{path: fns/{new}, env: program}}
    retry: failed
{service}rollout: {{max_failed: 0, max_timed_out: 0, on_failure: rollback}}
stages:
  - name: half
    type: A/B
    func_name: {FUNCTION}
    variants: [{{name: base_version, trafficPercentage: 50}}, {{name: new_version, trafficPercentage: 50}}]
    metrics_conditions: [{{name: errorRate, threshold: "<0.1"}}]
    end_conditions: [{{name: minDuration, threshold: 500ms}}, {{name: minCalls, threshold: "40"}}]
    end_action: {{onSuccess: shared, onFailure: rollback}}
  - name: shared
    type: WaitForSignal
    shares: {{A: 60, B: 40}}
    metrics_conditions: [{{name: errorRate, threshold: "<0.02"}}]
    end_conditions: [{{name: minDuration, threshold: {duration}}}, {{name: minCalls, threshold: "40"}}]
    end_action: {{onSuccess: rollout, onFailure: rollback}}
"#
        )
    }

    /// The function is called, and the release begins. Gives the digest of the base version, too.
    async fn begin(&self, duration: &str) -> (Load, String) {
        let load = self.agent.call(&habits()).await;
        let base = stable(&self.agent).await;
        self.site.manager.submit(&self.strategy(duration)).await;
        (load, base)
    }

    /// Users, from when the service is led; before the release nobody led it.
    async fn users(&self) -> Users {
        self.router.until("the service is led", |status| !status.services.is_empty()).await;
        self.router.until_proxy("its table is in force", |proxy| proxy.table.generation > 0).await;
        let users = Users::calling(&[self.at], true, PAUSE);
        users.round().await;
        users
    }

    /// The calls of users that were given B, all of which are written down; nobody makes one meanwhile.
    async fn given_b(&self) -> Vec<Call> {
        let mut given = Vec::new();
        wait_until("all calls of B are written down", async || {
            given = calls(&self.router, |line| line["route"] == "checkout" && line["variation"] == "B");
            given.len() as u64 >= self.b.calls()
        })
        .await;
        assert!(!given.is_empty());
        given
    }

    /// The function had only its new version from before the first call of B to after the last one.
    async fn had_only_the_new_version_with_b(&self, base: &str) -> (i64, i64) {
        let given = self.given_b().await;
        let first = given.iter().map(|call| call.began).min().unwrap();
        let last = given.iter().map(|call| call.ended).max().unwrap();
        let of_base = calls(&self.agent, |line| line["version"] == base);
        let beside = of_base.iter().filter(|call| call.ended > first && call.began < last);
        let beside: Vec<&Call> = beside.collect();
        assert!(beside.is_empty(), "B had calls from {first} to {last}, and the base version {beside:?}");
        (first, last)
    }

    /// The share that the router's proxy gives B.
    async fn of_b(&self) -> u16 {
        let status = self.router.proxy_status().await.unwrap();
        let service = status.services.iter().find(|service| service.name == "checkout").unwrap();
        service.variations.iter().find(|one| one.name == "B").map_or(0, |b| b.share)
    }

    /// Nothing was lost, and the function is served by this version alone.
    async fn ends_with(&self, load: Load, users: Users, version: &str) {
        load.more_calls(200).await;
        let (ledger, lines) = load.finish(&self.site).await;
        assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
        users.end().await;
        self.agent.is_at_rest().await;
        let last = lines.of_version(version).count();
        assert!(last > 0, "{version} had no call");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_new_version_of_the_function_serves_before_any_user_gets_the_new_variation() {
    goes_well(world("0s").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_two_managers_the_new_version_of_the_function_serves_before_any_user_gets_the_new_variation() {
    goes_well(world_with("0s", true).await).await;
}

async fn goes_well(world: World) {
    let (load, base) = world.begin("1500ms").await;
    let users = world.users().await;
    let ended = world.site.manager.ended("h").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    let new = stable(&world.agent).await;
    assert_ne!(new, base);
    users.round().await;
    let of_a = world.a.calls();
    users.round().await;
    assert_eq!(world.a.calls(), of_a, "what was replaced gets no call");
    assert_eq!(world.of_b().await, 10_000);
    world.ends_with(load, users, &new).await;
    world.had_only_the_new_version_with_b(&base).await;
    nothing_is_left_but(&world.site, &world.agent.folder, &world.new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variation_that_fails_gets_no_call_any_more_before_the_function_goes_back_to_its_base_version() {
    goes_back(world("10m").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_two_managers_a_variation_that_fails_gets_no_call_any_more_before_the_function_goes_back() {
    let world = world_with("10m", true).await;
    assert_eq!(world.below.len(), 2);
    goes_back(world).await;
}

async fn goes_back(world: World) {
    let (load, base) = world.begin("10m").await;
    let served: Vec<u32> = world.site.running(&world.base).iter().map(|one| one.pid).collect();
    world.b.is_bad.store(true, std::sync::atomic::Ordering::Relaxed);
    let users = world.users().await;
    let ended = world.site.manager.ended("h").await;
    assert_eq!(ended["state"], "RolledBack", "{ended:#}");
    assert_eq!(stable(&world.agent).await, base);
    assert_eq!(world.of_b().await, 0);
    users.round().await;
    let of_b = world.b.calls();
    users.round().await;
    assert_eq!(world.b.calls(), of_b, "what was taken back gets no call");
    let still: Vec<u32> = world.site.running(&world.base).iter().map(|one| one.pid).collect();
    assert_eq!(still, served, "the base version ran on");
    world.ends_with(load, users, &base).await;
    let (_, last) = world.had_only_the_new_version_with_b(&base).await;
    let back = calls(&world.agent, |line| line["version"] == *base);
    assert!(back.iter().any(|call| call.began >= last), "the base version has the calls again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_router_s_agent_is_away_the_function_keeps_its_new_version_that_the_router_sends_calls_to()
{
    let mut world = world("0s").await;
    let (load, base) = world.begin("10m").await;
    let users = world.users().await;
    let new = stable(&world.agent).await;
    assert_ne!(new, base);
    wait_until("the base version is stopped", async || world.site.running(&world.base).is_empty()).await;
    world.router.kill();
    world.site.manager.act("h", "abort").await;
    // Its proxy goes on alone.
    load.more_calls(400).await;
    users.round().await;
    assert_eq!(world.of_b().await, 4_000);
    assert_eq!(stable(&world.agent).await, new, "the agent isn't told yet");
    assert!(world.site.running(&world.base).is_empty());
    world.router.come_back();
    let ended = world.site.manager.ended("h").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    world.agent.until("it is back", |status| status.functions[0].stable.version == base).await;
    assert_eq!(world.of_b().await, 0);
    world.ends_with(load, users, &base).await;
    let (_, last) = world.had_only_the_new_version_with_b(&base).await;
    let back = calls(&world.agent, |line| line["version"] == *base);
    assert!(back.iter().any(|call| call.began >= last), "the base version has the calls again");
    nothing_is_left_but(&world.site, &world.agent.folder, &world.base).await;
}
