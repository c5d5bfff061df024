//! Calls to a port that another program has, and keeps, with the kernel's rules as they are: stories that are told in a network of their own.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use super::{
    canaries::{canary, shop},
    node::Node,
    site::Site,
    users::{Backend, Users},
    wait::wait_until,
};
pub use crate::own_network::{WITHIN, in_a_network_of_its_own, rules};
use crate::ports::range;

#[test]
fn a_port_is_taken_over_and_given_back_and_no_call_is_lost() {
    in_a_network_of_its_own("real_agents::taken_over::story_of_a_canary", Stdio::piped());
}

#[test]
fn the_rules_go_with_the_proxy() {
    in_a_network_of_its_own("real_agents::taken_over::story_of_a_proxy_that_ends", Stdio::piped());
}

/// A program at a port, its next version elsewhere, and an agent that may take calls over.
pub struct World {
    pub site: Site,
    pub node: Node,
    pub a: Backend,
    pub b: Backend,
}

impl World {
    pub async fn start() -> Self {
        let site = Site::start().await;
        let (first, last) = range(9);
        let ports = format!("takeover.ports={first}-{last}");
        let set = ["agent.labels=env=prod", "takeover.nftables=true", ports.as_str()];
        let mut node = Node::of(&site.folder().join("router"), "router", &site.manager.url(), &set);
        node.come_back();
        node.until_it_answers().await;
        site.manager.knows(1).await;
        Self { site, node, a: Backend::start('A'), b: Backend::start('B') }
    }

    /// The port that callers call.
    pub fn port(&self) -> u16 {
        self.a.at.port()
    }

    /// Half of the calls, once the manager knows what the agent may do.
    async fn share(&self) {
        let manager = &self.site.manager;
        manager.submit(&shop(self.port(), 1, &[self.a.at, self.b.at])).await;
        wait_until("the port may be taken over", async || {
            manager.try_to_submit(&canary(self.port(), 2, 50, "")).await.0 < 300
        })
        .await;
    }

    /// Waits until the canary gets calls, more than were on their way when this was asked.
    async fn canary_gets_calls(&self) {
        let before = self.b.calls();
        wait_until("the canary gets calls", async || self.b.calls() > before + 200).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is no test: another one starts it in a network of its own"]
async fn story_of_a_canary() {
    if std::env::var_os(WITHIN).is_none() {
        return;
    }
    let mut world = World::start().await;
    let before = rules();
    // Each call comes over a connection of its own: only new ones are taken over.
    let users = Users::calling(&[world.a.at], false, Duration::from_millis(10));
    users.round().await;
    assert_eq!(world.b.calls(), 0);
    world.share().await;
    world.canary_gets_calls().await;
    assert!(rules().contains("table inet choirmaster"));
    let in_force = rules();
    users.end().await;
    // The manager hears where the proxy listens: nobody's target may be there.
    let is_placed = |found: &Value| found["by_router"][0]["led"]["ports"][0]["at"].is_number();
    world.site.manager.until("/api/v1/services/checkout", is_placed).await;

    // Another agent of this network says what is in its way, and its proxy, which ends, leaves alone what isn't its own.
    let mut other = world.site.node("other", &["takeover.nftables=true"]).await;
    let why = "another agent of this network has takeover.nftables";
    world.site.manager.until("/api/v1/routers", |found| found.to_string().contains(why)).await;
    other.kill();
    let ended = other.run(&["proxy", "drain"]);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    wait_until("its proxy has ended", async || other.proxy_status().await.is_none()).await;
    assert_eq!(rules(), in_force);

    // Somebody flushes them, which cuts what was sent by them: they are back.
    assert!(Command::new("nft").args(["flush", "ruleset"]).status().unwrap().success());
    wait_until("the rules are back", async || rules() == in_force).await;
    let users = Users::calling(&[world.a.at], false, Duration::from_millis(10));
    world.canary_gets_calls().await;
    world.node.kill();
    world.canary_gets_calls().await;
    world.node.come_back();
    world.node.until_it_answers().await;
    assert_eq!(rules(), in_force, "who comes back goes on at the same port");

    // Of those who keep their connections each has one more call answered over the one that it has.
    let kept = Users::call(&[world.a.at]);
    kept.round().await;
    let manager = &world.site.manager;
    manager.submit(&canary(world.port(), 2, 50, "Deprecated")).await;
    let ended = manager.ended("checkout-2").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    wait_until("the rules are as they were", async || rules() == before).await;
    world.node.until("it leads nothing", |status| status.services.is_empty()).await;
    users.round().await;
    let alone = world.b.calls();
    users.round().await;
    assert_eq!(world.b.calls(), alone, "as if nothing had happened");
    kept.round().await;
    kept.end().await;
    users.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "is no test: another one starts it in a network of its own"]
async fn story_of_a_proxy_that_ends() {
    if std::env::var_os(WITHIN).is_none() {
        return;
    }
    let mut world = World::start().await;
    let before = rules();
    let users = Users::calling(&[world.a.at], false, Duration::from_millis(10));
    world.share().await;
    world.canary_gets_calls().await;
    // Nobody is left who would put them back.
    world.node.kill();
    let ended = world.node.run(&["proxy", "drain"]);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    wait_until("the rules are as they were", async || rules() == before).await;
    users.round().await;
    users.end().await;

    // An agent that is back starts another proxy, and sends calls there again.
    let users = Users::calling(&[world.a.at], false, Duration::from_millis(10));
    world.node.come_back();
    world.canary_gets_calls().await;
    assert_ne!(rules(), before);
    users.end().await;
}
