//! A function and a service in one release: an agent that runs the function, and a router that leads the service, each with its proxy.
//!
//! What came first is read off the lines that the two proxies write of each call, so nothing between two looks is missed.

use std::{fs, net::SocketAddr, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use super::{
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

async fn world() -> World {
    let mut site = Site::start().await;
    let at = SocketAddr::from(([127, 0, 9, 1], free_port()));
    let agent = site.node("agent", &["agent.keep_base=0s"]).await;
    let router = Node::router(site.folder(), "router", &site.manager.url(), at);
    router.until_it_answers().await;
    site.manager.knows(2).await;
    let (base, new) = (site.version(Good), site.version(Good));
    agent.add(&site.content(&base));
    World { site, agent, router, at, a: Backend::start('A'), b: Backend::start('B'), base, new }
}

impl World {
    fn strategy(&self) -> String {
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
    end_conditions: [{{name: minDuration, threshold: 1500ms}}, {{name: minCalls, threshold: "40"}}]
    end_action: {{onSuccess: rollout, onFailure: rollback}}
"#
        )
    }

    /// The function is called, and the release begins. Gives the digest of the base version, too.
    async fn begin(&self) -> (Load, String) {
        let load = self.agent.call(&habits()).await;
        let base = stable(&self.agent).await;
        self.site.manager.submit(&self.strategy()).await;
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
    async fn had_only_the_new_version_with_b(&self, base: &str) {
        let given = self.given_b().await;
        let first = given.iter().map(|call| call.began).min().unwrap();
        let last = given.iter().map(|call| call.ended).max().unwrap();
        let of_base = calls(&self.agent, |line| line["version"] == base);
        let beside = of_base.iter().filter(|call| call.ended > first && call.began < last);
        let beside: Vec<&Call> = beside.collect();
        assert!(beside.is_empty(), "B had calls from {first} to {last}, and the base version {beside:?}");
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
    let world = world().await;
    let (load, base) = world.begin().await;
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
