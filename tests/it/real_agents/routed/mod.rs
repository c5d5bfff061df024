//! Services behind routers of others, each of which an own agent leads: an nginx and an `HAProxy` side by side, a webhook, and a Traefik
//! beside proxies of own agents.

mod canaries;
mod mixed;
mod place;
mod retired;
#[path = "../../../shared/stream_module.rs"]
mod stream_module;
mod ways;
mod webhook;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::Ordering,
    time::Duration,
};

use agent::control::form::RouterPhase;
use serde_json::Value;

use self::place::Place;
use super::{
    node::Node,
    routers::{all_to, approved_stages, strategy, two_stages},
    site::Site,
    users::{Backend, USERS, Users},
};

/// A manager, an nginx and an `HAProxy` that have the same port of different addresses, an agent beside each, and two variations.
struct World {
    // In this order: agents end before their routers, and all before the folder does.
    nodes: Vec<Node>,
    places: Vec<Place>,
    site: Site,
    routers: Vec<SocketAddr>,
    a: Backend,
    b: Backend,
}

async fn world() -> World {
    world_that_drains("300ms").await
}

async fn world_that_drains(within: &str) -> World {
    world_of(&["nginx", "haproxy"], within).await
}

/// A router of each of these kinds. What has no share any more may have so long for its calls.
async fn world_of(kinds: &[&'static str], within: &str) -> World {
    let site = Site::start().await;
    let port = crate::ports::free_port();
    let (mut nodes, mut places, mut routers) = (Vec::new(), Vec::new(), Vec::new());
    for (number, &kind) in (1..).zip(kinds) {
        let address = Ipv4Addr::new(127, 0, 0, number);
        routers.push(SocketAddr::from((address, port)));
        if kind == "embedded" {
            let (name, at) = (format!("{kind}-{number}"), SocketAddr::from((address, port)));
            nodes.push(Node::router(site.folder(), &name, &site.manager.url(), at));
            continue;
        }
        let folder = site.folder().join(format!("of-{kind}"));
        let place = Place::start(kind, &folder, SocketAddr::from((address, port))).await;
        let settings = place.settings(within);
        let mut set: Vec<&str> = settings.iter().map(String::as_str).collect();
        set.push("agent.labels=env=prod");
        nodes.push(Node::start(&site.folder().join(kind), kind, &site.manager.url(), &set).await);
        places.push(place);
    }
    site.manager.knows(kinds.len()).await;
    let (a, b) = (Backend::start('A'), Backend::start('B'));
    World { nodes, places, site, routers, a, b }
}

impl World {
    async fn submit(&self, id: &str, rest: &str) {
        let text = strategy(id, self.routers[0].port(), [("A", self.a.at), ("B", self.b.at)], rest);
        self.site.manager.submit(&text).await;
    }

    /// As [`Self::submit`]: users are known by the cookie that a router gives them.
    async fn submit_by_cookie(&self, id: &str, rest: &str) {
        let variations = [("A", self.a.at), ("B", self.b.at)];
        let text = strategy(id, self.routers[0].port(), variations, rest);
        self.site.manager.submit(&text.replace("sticky: {header: X-User}", "sticky: {cookie: cm}")).await;
    }

    /// All calls go to what is stable, and users call.
    async fn serving(&self) -> Users {
        self.submit("as-it-is", &all_to("A")).await;
        self.site.manager.ended("as-it-is").await;
        self.seen(Some(10_000), None).await;
        // nginx closes connections that wait for the next call when it loads its configuration.
        // Lines that a router logs wait for the agent in a queue of ten, where a system is set up as it comes.
        let users = Users::calling(&self.routers, false, Duration::from_millis(500));
        users.round().await;
        users
    }

    /// Waits until each router was read back to give variations these shares, in units of 0.01 %; none: it isn't there.
    async fn seen(&self, a: Option<u16>, b: Option<u16>) {
        for node in &self.nodes {
            node.until(&format!("{a:?} and {b:?} are read back"), |status| {
                let Some(service) = status.services.first() else { return false };
                let seen: Vec<_> = service.variations.iter().map(|one| one.seen).collect();
                let obeys = status.router.as_ref().is_none_or(|router| {
                    router.phase == RouterPhase::InForce && router.wanted == router.seen
                });
                seen == [a, b] && obeys
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_release_behind_nginx_and_haproxy_survives_agent_kill() {
    let mut world = world().await;
    let users = world.serving().await;
    assert_eq!((users.of(0, 'A').len(), users.of(1, 'A').len(), world.b.calls()), (USERS, USERS, 0));

    world.submit("checkout-1", &approved_stages("")).await;
    world.seen(Some(9_000), Some(1_000)).await;
    users.round().await;
    let little = [users.of(0, 'B'), users.of(1, 'B')];
    assert!(little.iter().all(|of| (1..USERS / 3).contains(&of.len())), "{little:?}");
    for node in &mut world.nodes {
        node.kill();
        node.come_back();
    }
    world.seen(Some(9_000), Some(1_000)).await;
    users.round().await;
    assert_eq!([users.of(0, 'B'), users.of(1, 'B')], little, "nobody moves");

    world.site.manager.approve("checkout-1").await;
    world.seen(Some(5_000), Some(5_000)).await;
    users.round().await;
    for (router, little) in little.iter().enumerate() {
        let half = users.of(router, 'B');
        assert!(half.is_superset(little) && half.len() > little.len(), "{little:?} {half:?}");
    }
    world.site.manager.approve("checkout-1").await;
    let ended = world.site.manager.ended("checkout-1").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    world.seen(None, Some(10_000)).await;
    users.round().await;
    assert_eq!((users.of(0, 'B').len(), users.of(1, 'B').len()), (USERS, USERS));
    let alone = world.a.calls();
    users.round().await;
    assert_eq!(world.a.calls(), alone, "what was replaced gets no call");
    users.end().await;

    for (node, kind) in world.nodes.iter().zip(["nginx", "haproxy"]) {
        let shown = node.run(&["agent", "status"]);
        let text = String::from_utf8(shown.stdout).unwrap();
        assert!(text.contains(&format!("router {kind}: does what is wanted; wanted ")), "{text}");
        assert!(!text.contains("proxy ") && !text.contains("runtime "), "{text}");
        let status = node.status().await.unwrap();
        assert!(status.proxy.is_none() && status.runtimes.is_empty(), "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_refuses_the_second_stage_takes_all_of_them_back() {
    let world = world().await;
    let users = world.serving().await;
    world.submit("refused", &approved_stages("")).await;
    world.seen(Some(9_000), Some(1_000)).await;
    users.round().await;
    world.places[0].obstruct(true);
    world.site.manager.approve("refused").await;
    // Its trouble is told, and nothing was opened: who is stable serves on.
    let status = world.nodes[0]
        .until("it can't be told", |status| {
            status.router.as_ref().is_some_and(|router| router.trouble.is_some())
                && status.work.as_ref().is_some_and(|work| work.stopped.is_some())
        })
        .await;
    let stopped = status.work.unwrap().stopped.unwrap();
    assert!(stopped.contains("nginx refuses its shares"), "{stopped}");
    world.places[0].obstruct(false);
    let ended = world.site.manager.ended("refused").await;
    assert_eq!(ended["state"], "RolledBack", "{ended:#}");
    world.seen(Some(10_000), None).await;
    users.round().await;
    assert_eq!((users.of(0, 'A').len(), users.of(1, 'A').len()), (USERS, USERS));
    let then = world.b.calls();
    users.round().await;
    assert_eq!(world.b.calls(), then, "what was taken back gets no call");
    let parts = Value::from(world.site.manager.parts("refused").await).to_string();
    assert!(parts.contains("nginx refuses its shares"), "{parts}");
    users.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variation_that_fails_is_taken_back_by_what_its_router_logs() {
    let world = world().await;
    let users = world.serving().await;
    world.b.is_bad.store(true, Ordering::Relaxed);
    world.submit("bad", &two_stages("60s")).await;
    let ended = world.site.manager.ended("bad").await;
    assert_eq!(ended["state"], "RolledBack", "{ended:#}");
    world.seen(Some(10_000), None).await;
    users.round().await;
    let then = world.b.calls();
    users.round().await;
    assert!(then > 0 && world.b.calls() == then, "what was taken back gets no call");
    let lost = users.lost().await;
    assert!(lost.iter().all(|why| why.contains("HTTP/1.1 500")), "{lost:?}");
}
