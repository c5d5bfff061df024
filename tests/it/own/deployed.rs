//! An A/B release whose new variation an agent deploys, by the interface for those: two agents that run the same function, of which one is of
//! the target group, and a router that shares calls out to the proxies beside them.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{
    callers::{Callers, Habit, PATIENCE},
    counted::Counting,
    ledger::Ledger,
    node::Node,
    serving::Behaviour::{Failing, Good},
    site::{FUNCTION, Site},
    stages::{carried_out, habits},
};
use crate::ports::free_port;

struct World {
    /// Where the stable variation runs on.
    stays: Node,
    /// Of the target group.
    deploys: Node,
    router: Node,
    /// Where the service takes calls.
    at: SocketAddr,
    base: String,
    new: String,
    // Goes last: the others' logs are in its folder.
    site: Site,
}

/// Calls at the router, which is read off the lines that its proxy writes.
struct Calls {
    callers: Callers,
    counting: Counting,
}

async fn world(new: impl FnOnce(&mut Site) -> String) -> World {
    let mut site = Site::start().await;
    let stays = site.node("stays", &["agent.labels=tier=web"]).await;
    let deploys = site.node("deploys", &["agent.labels=tier=batch"]).await;
    let at = SocketAddr::from(([127, 0, 9, 2], free_port()));
    let router = Node::router(site.folder(), "router", &site.manager.url(), at);
    router.until_it_answers().await;
    site.manager.knows(3).await;
    let (base, new) = (site.version(Good), new(&mut site));
    for agent in [&stays, &deploys] {
        agent.add(&site.content(&base));
    }
    let world = World { stays, deploys, router, at, base, new, site };
    world.register().await;
    world
}

impl World {
    async fn post(&self, path: &str, body: &Value) -> Value {
        let (status, text) = self.site.manager.order(path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// What the release names. The archive came with a release that nobody took part in.
    async fn register(&self) {
        let (base, new) = (&self.base, &self.new);
        let brings = format!(
            r#"id: brings
name: brings the versions along
target: {{labels: {{tier: none}}}}
functions:
  - name: {FUNCTION}
    base_version: {{path: fns/{base}, env: program}}
    new_version: {{path: fns/{new}, env: program}}
stages:
  - name: all
    type: A/B
    func_name: {FUNCTION}
    variants: [{{name: base_version, trafficPercentage: 0}}, {{name: new_version, trafficPercentage: 100}}]
    metrics_conditions: [{{name: errorRate, threshold: "<0.1"}}]
    end_action: {{onSuccess: rollout}}
"#
        );
        self.site.manager.submit(&brings).await;
        let ended = self.site.manager.ended("brings").await;
        let digest = ended["functions_digest"].as_str().unwrap();
        let environment = json!({"name": "shop", "service": FUNCTION, "routers": {"env": "prod"}, "ports": [{"port": self.at.port()}]});
        self.post("/api/v1/environments", &environment).await;
        self.post("/api/v1/target-groups", &json!({"name": "workers", "labels": {"tier": "batch"}})).await;
        for (name, folder, at) in [("old", base, self.stays.at), ("new", new, self.deploys.at)] {
            let version = json!({
                "name": name, "digest": digest, "path": format!("fns/{folder}"), "env": "program", "targets": [at.to_string()],
            });
            self.post("/api/v1/versions", &version).await;
        }
    }

    /// A release of two stages begins.
    async fn begin(&self) {
        let stage = |traffic: u32| json!({"trafficPercentage": traffic, "durationSeconds": 0.5});
        let body = json!({
            "environmentId": "shop", "name": "r", "rolloutStrategy": {"stages": [stage(50), stage(100)]},
            "trafficSplit": {"type": "percentage"},
            "variations": [{"name": "A", "releaseId": "old"}, {"name": "B", "releaseId": "new", "targetGroupId": "workers"}],
        });
        let created = self.post("/api/v1/ab-releases", &body).await;
        let jobs: Vec<&Value> =
            created["variations"].as_array().unwrap().iter().map(|one| &one["deploymentJobId"]).collect();
        assert_eq!((&created["status"], jobs), (&json!("created"), vec![&Value::Null, &json!("r")]));
        self.post("/api/v1/ab-releases/r/start", &json!({})).await;
    }

    /// Calls at the service, from when it is led.
    async fn calls(&self, habits: &[Habit]) -> Calls {
        self.router.until("the service is led", |status| !status.services.is_empty()).await;
        self.router.until_proxy("its table is in force", |proxy| proxy.table.generation > 0).await;
        Calls { counting: Counting::start(&self.router), callers: Callers::start(self.at, habits, PATIENCE) }
    }

    /// Waits until the release has ended so.
    async fn ends(&self, phase: &str) -> Value {
        let shown =
            self.site.manager.until("/api/v1/ab-releases/r", |shown| !shown["completedAt"].is_null()).await;
        let trail = self.site.manager.get("/api/v1/audit?release=r&limit=1000").await.unwrap();
        assert_eq!(shown["phase"], phase, "{shown:#} {:#?} {trail:#}", self.site.manager.parts("r").await);
        shown
    }

    async fn look(&self, what: &str) -> Value {
        self.site.manager.get(&format!("/api/v1/ab-releases/r/{what}")).await.unwrap()
    }

    /// The share that the router's proxy gives the new variation; 0 where it doesn't lead the service.
    async fn of_b(&self) -> u16 {
        let status = self.router.proxy_status().await.unwrap();
        let service = status.services.iter().find(|service| service.name == FUNCTION);
        let variations = service.into_iter().flat_map(|service| &service.variations);
        variations.filter(|one| one.name == "B").map(|b| b.share).sum()
    }

    /// Calls that the proxy beside the agent of the group gave to a version.
    async fn calls_at_the_agent_of(&self, version: &str) -> usize {
        Counting::start(&self.deploys).finish(0).await.of_version(version).count()
    }

    /// No caller was let down.
    async fn nothing_is_lost(&self, calls: Calls) -> Ledger {
        let made = calls.callers.finish().await;
        let count = made.len();
        let ledger = Ledger::new(made, &self.site.logs());
        let lines = calls.counting.finish(count).await;
        assert_eq!(ledger.faults(&lines.all()), [""; 0], "{}", ledger.sums());
        ledger
    }
}

fn statuses(shown: &Value) -> Vec<&str> {
    shown["stages"].as_array().unwrap().iter().map(|stage| stage["status"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_of_the_target_group_deploys_and_then_the_router_shifts_all_calls_to_it() {
    let world = world(|site| site.version(Good)).await;
    let base = world.deploys.is_at_rest().await.functions[0].stable.version.clone();
    world.begin().await;
    let calls = world.calls(&habits()).await;
    let shown = world.ends("done").await;
    assert_eq!((&shown["status"], &shown["activeVariation"]), (&json!("completed"), &json!("B")));
    assert_eq!(statuses(&shown), ["succeeded", "succeeded"]);
    assert_eq!(world.of_b().await, 10_000);
    let (stays, deploys) = (world.stays.is_at_rest().await, world.deploys.is_at_rest().await);
    assert_eq!(stays.functions[0].stable.version, base, "who isn't of the group runs what it ran");
    assert_ne!(deploys.functions[0].stable.version, base);
    let traffic = world.look("traffic").await;
    assert_eq!(traffic["currentSplit"]["backends"][1]["weight"], 100.0, "{traffic:#}");
    let mut routers = traffic["history"].as_array().unwrap().iter().map(|entry| &entry["router"]);
    let first = routers.next().unwrap();
    assert!(!first.is_null() && routers.all(|router| router == first), "agents are no routers: {traffic:#}");
    let health = world.look("health").await;
    assert_eq!(health["variations"][1]["healthStatus"], "healthy", "{health:#}");
    let ledger = world.nothing_is_lost(calls).await;
    let (old, new) = (ledger.executions_of(&world.base), ledger.executions_of(&world.new));
    assert!(old > 0 && new > 0, "{old} and {new}");
    // Nobody came to the agent of the group before it had deployed.
    assert_eq!(world.calls_at_the_agent_of(&base).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variation_that_fails_its_calls_loses_them_at_the_router_and_then_its_agent_goes_back() {
    let world = world(|site| site.version(Failing)).await;
    let base = world.deploys.is_at_rest().await.functions[0].stable.version.clone();
    world.begin().await;
    // What isn't a GET would be carried out again nowhere.
    let gets: Vec<Habit> = habits().into_iter().filter(|habit| !habit.posts).collect();
    let calls = world.calls(&gets).await;
    let shown = world.ends("rolled_back").await;
    assert_eq!((&shown["status"], &shown["activeVariation"]), (&json!("rolled_back"), &json!("A")));
    assert_eq!(statuses(&shown), ["failed", "skipped"]);
    assert_eq!(world.of_b().await, 0);
    let deploys = world.deploys.is_at_rest().await;
    assert_eq!(deploys.functions[0].stable.version, base);
    let before = carried_out(&world.site, &world.new);
    calls.more(200).await;
    let ledger = world.nothing_is_lost(calls).await;
    assert_eq!(ledger.executions_of(&world.new), before, "what was taken back gets no call");
    assert!(before > 0);
    // The router had its calls taken away before the agent went back, so none came to the base version there.
    assert_eq!(world.calls_at_the_agent_of(&base).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variation_that_does_not_even_start_is_led_by_no_router() {
    let world = world(|site| site.version_with("run", "#!/bin/sh\nexit 1\n")).await;
    let base = world.deploys.is_at_rest().await.functions[0].stable.version.clone();
    world.begin().await;
    let shown = world.ends("rolled_back").await;
    assert_eq!(shown["status"], "rolled_back");
    assert_eq!(statuses(&shown), ["skipped", "skipped"]);
    assert_eq!(world.deploys.is_at_rest().await.functions[0].stable.version, base);
    let router = world.router.is_at_rest().await;
    assert!(router.services.is_empty(), "{router:#?}");
    assert_eq!(world.look("traffic").await["currentSplit"]["backends"][0]["weight"], 100.0);
}

impl Calls {
    /// Waits until so many further ones were begun.
    async fn more(&self, number: u32) {
        let enough = self.callers.begun() + number;
        super::wait::wait_until("there were calls", async || self.callers.begun() >= enough).await;
    }
}
