//! Canaries of a registered release, behind the proxy of an own agent.

use std::{fs, net::SocketAddr};

use serde_json::json;
use tokio::time::Instant;

use super::{
    node::Node,
    routers::{Routers, all_to},
    users::{Backend, USERS, Users},
    wait::wait_until,
};

/// The release `shop`, of the service `checkout`. Its versions count from 1.
pub fn shop(port: u16, current: usize, versions: &[SocketAddr]) -> String {
    let versions = versions.iter().enumerate().map(|(at, target)| {
        format!("    - {{version: {}, targets: {{checkout: [\"{target}\"]}}}}\n", at + 1)
    });
    format!(
        "apiVersion: choirmaster/v1\nkind: Release\nmetadata: {{name: shop}}\nspec:\n  routers: {{env: prod}}\n  services: [{{name: \
         checkout, ports: [{{port: {port}, protocol: HTTP}}]}}]\n  version: {current}\n  versions:\n{}",
        versions.collect::<String>()
    )
}

/// A canary of a version of it. `transition`: empty, or what becomes of it.
pub fn canary(port: u16, version: u8, weight: u8, transition: &str) -> String {
    format!(
        "apiVersion: choirmaster/v1\nkind: CanaryRelease\nmetadata: {{name: checkout-{version}}}\nspec:\n  release: shop\n  version: \
         {version}\n  services:\n    - {{service: checkout, ports: [{{port: {port}, protocol: HTTP, config: {{weight: {weight}}}}}]}}\n  \
         transition: {transition:?}\n"
    )
}

/// Waits until agent and proxy give the canary so much, in units of 0.01 %.
async fn gives(world: &Routers, canary: u16) {
    for node in &world.nodes {
        node_gives(node, canary).await;
    }
}

/// The same of one of them.
pub async fn node_gives(node: &Node, canary: u16) {
    node.until(&format!("it gives {canary} to the canary"), |status| {
        let service = status.services.iter().find(|service| service.name == "checkout");
        service.is_some_and(|service| service.variations[1].share == canary)
    })
    .await;
    // What the agent wants is one thing, and what its proxy does another.
    node.until_proxy(&format!("its table gives {canary} to the canary"), |status| {
        let service = status.services.iter().find(|service| service.name == "checkout");
        service.is_some_and(|service| {
            let found = service.variations.iter().find(|variation| variation.name == "canary");
            found.map_or(0, |found| found.share) == canary
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weight_10_adopted_and_no_call_is_lost() {
    let world = Routers::start(1, &[]).await;
    let (port, manager) = (world.at[0].port(), &world.site.manager);
    world.submit("checkout-0", &all_to("A")).await;
    manager.ended("checkout-0").await;
    world.all_give(0).await;
    let users = Users::call(&world.at);
    users.round().await;
    assert_eq!((users.of(0, 'A').len(), world.b.calls()), (USERS, 0));

    manager.submit(&shop(port, 1, &[world.a.at, world.b.at])).await;
    manager.submit(&canary(port, 2, 10, "")).await;
    gives(&world, 1_000).await;
    let (a, b) = (world.a.calls(), world.b.calls());
    wait_until("the canary has calls", async || world.b.calls() > b + 50).await;
    let (of_stable, of_canary) = (world.a.calls() - a, world.b.calls() - b);
    assert!(of_stable > 4 * of_canary, "a tenth goes to the canary: {of_canary} of {of_stable}");
    // Nobody says that it is good enough: it stays as it is.
    assert_eq!(manager.state("checkout-2").await.as_deref(), Some("Running"));

    manager.submit(&canary(port, 2, 10, "Adopted")).await;
    let ended = manager.ended("checkout-2").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    gives(&world, 10_000).await;
    users.round().await;
    assert_eq!(users.of(0, 'B').len(), USERS);
    let alone = world.a.calls();
    users.round().await;
    assert_eq!(world.a.calls(), alone, "what was replaced gets no call");
    let (status, why) = manager.try_to_submit(&canary(port, 2, 10, "Deprecated")).await;
    assert_eq!(status, 409, "{why}");

    // The next one begins with what serves now, and is back there once it is deprecated.
    manager.submit(&shop(port, 2, &[world.a.at, world.b.at, world.a.at])).await;
    manager.submit(&canary(port, 3, 50, "")).await;
    gives(&world, 5_000).await;
    wait_until("the canary has calls", async || world.a.calls() > alone + 50).await;
    manager.submit(&canary(port, 3, 50, "Deprecated")).await;
    let ended = manager.ended("checkout-3").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    gives(&world, 0).await;
    users.round().await;
    assert_eq!(users.of(0, 'B').len(), USERS);
    users.end().await;
}

/// The services of a proxy's table as they stand on its disk: the table but for its number, which only grows.
fn services_on_disk(node: &Node) -> Option<String> {
    let file = fs::read_to_string(node.folder.join("proxy/table")).ok()?;
    Some(file.split_once("\"services\":")?.1.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_canary_that_is_deprecated_leaves_its_proxy_as_it_was() {
    let mut world = Routers::start(1, &[]).await;
    let (port, other) = (world.at[0].port(), world.nodes[0].at.port());
    // Something else is led there, and no release of this service was before.
    let wares = world.strategy("wares-0", &all_to("A"));
    let wares = wares.replace("name: checkout\n", "name: wares\n");
    let wares = wares.replace(&format!("{{port: {port}}}"), &format!("{{port: {other}}}"));
    world.site.manager.submit(&wares).await;
    world.site.manager.ended("wares-0").await;
    world.nodes[0]
        .until_proxy("it serves one alone", |status| {
            let [service] = &status.services[..] else { return false };
            service.name == "wares" && service.variations.len() == 1
        })
        .await;
    let before = services_on_disk(&world.nodes[0]).unwrap();

    world.site.manager.submit(&shop(port, 1, &[world.a.at, world.b.at, world.b.at])).await;
    world.site.manager.submit(&canary(port, 2, 10, "")).await;
    gives(&world, 1_000).await;
    let users = Users::call(&world.at);
    wait_until("the canary has calls", async || world.b.calls() > 50).await;
    users.end().await;
    assert_ne!(services_on_disk(&world.nodes[0]).unwrap(), before);

    world.site.manager.submit(&canary(port, 2, 10, "Deprecated")).await;
    world.nodes[0].kill();
    world.nodes[0].come_back();
    let ended = world.site.manager.ended("checkout-2").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    wait_until("its table is as it was, byte for byte", async || {
        services_on_disk(&world.nodes[0]).is_some_and(|services| services == before)
    })
    .await;
    world.nodes[0].until("it leads one alone", |status| status.services.len() == 1).await;
    wait_until("the manager knows nothing of the service", async || {
        world.site.manager.get("/api/v1/services/checkout").await.is_none()
    })
    .await;

    // The next one begins with whatever the release says: nothing is led that it had to go on from.
    world.site.manager.submit(&shop(port, 2, &[world.a.at, world.b.at, world.a.at])).await;
    world.site.manager.submit(&canary(port, 3, 20, "")).await;
    gives(&world, 2_000).await;
}

/// Each changes in place: the stage goes on, and reports at its end what it has counted under all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_weights_and_no_call_is_lost() {
    let world = Routers::start(1, &[]).await;
    let (port, manager) = (world.at[0].port(), &world.site.manager);
    manager.submit(&shop(port, 1, &[world.a.at, world.b.at])).await;
    manager.submit(&canary(port, 2, 10, "")).await;
    gives(&world, 1_000).await;
    let users = Users::call(&world.at);
    for weight in [30, 5, 100, 50, 0] {
        let began = Instant::now();
        manager.submit(&canary(port, 2, weight, "")).await;
        gives(&world, u16::from(weight) * 100).await;
        eprintln!("{weight} % are in force after {:?}", began.elapsed());
        // Whoever calls from now on calls by the new shares.
        users.round().await;
        let (of_stable, of_canary) = (world.a.calls(), world.b.calls());
        users.round().await;
        wait_until("there are calls of both", async || {
            (weight == 100 || world.a.calls() > of_stable + 50)
                && (weight == 0 || world.b.calls() > of_canary + 50)
        })
        .await;
        let (stable, canary) = (world.a.calls() - of_stable, world.b.calls() - of_canary);
        let is_by_weight = match weight {
            0 => canary == 0,
            100 => stable == 0,
            50 => stable < 3 * canary && canary < 3 * stable,
            _ => stable > canary,
        };
        assert!(is_by_weight, "{weight} %: {stable} of the stable version, {canary} of the canary");
    }
    let [part] = &manager.parts("checkout-2").await[..] else { panic!("one router takes part") };
    assert_eq!((&part["attempt"], &part["stage"]), (&json!(1), &json!("canary")), "{part:#}");

    let of_canary = world.b.calls();
    manager.submit(&canary(port, 2, 0, "Adopted")).await;
    let ended = manager.ended("checkout-2").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    gives(&world, 10_000).await;
    users.round().await;
    assert_eq!(users.of(0, 'B').len(), USERS);
    // The last calls may still have been on their way to be counted, but not half of them.
    let result = manager.result("checkout-2", "canary").await;
    assert!(
        result["f2_calls"].as_u64().is_some_and(|counted| counted > of_canary / 2),
        "{of_canary}: {result:#}"
    );
    users.end().await;
}

/// What agent and proxy of a node give the canaries of these parts; nothing where it leads none.
async fn until_parts_give(node: &Node, parts: [(&str, u16); 2]) {
    node.until(&format!("it gives {parts:?}"), |status| {
        parts.iter().all(|(part, share)| {
            let service = status.services.iter().find(|service| service.name == *part);
            service.is_some_and(|service| service.variations[1].share == *share)
        })
    })
    .await;
    node.until_proxy(&format!("its table gives {parts:?}"), |status| {
        parts.iter().all(|(part, share)| {
            let service = status.services.iter().find(|service| service.name == *part);
            service.is_some_and(|service| {
                let found = service.variations.iter().find(|variation| variation.name == "canary");
                found.map_or(0, |found| found.share) == *share
            })
        })
    })
    .await;
}

/// Two services are shared together by weights of their own, adopted together, and given back together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_services_are_adopted_and_deprecated_together_and_no_call_is_lost() {
    let mut world = Routers::start(1, &[]).await;
    let (c, d) = (Backend::start('C'), Backend::start('D'));
    let ports = [world.at[0].port(), world.nodes[0].at.port()];
    // Versions 1 and 3 are the same.
    let shop = |current: u8| {
        let version = |number: u8, [checkout, pay]: [SocketAddr; 2]| {
            format!(
                "    - {{version: {number}, targets: {{checkout: [\"{checkout}\"], pay: [\"{pay}\"]}}}}\n"
            )
        };
        let (old, new) = ([world.a.at, c.at], [world.b.at, d.at]);
        format!(
            "kind: Release\nmetadata: {{name: shop}}\nspec:\n  routers: {{env: prod}}\n  services:\n    - {{name: checkout, ports: [{{port: \
             {}}}]}}\n    - {{name: pay, ports: [{{port: {}}}]}}\n  version: {current}\n  versions:\n{}{}{}",
            ports[0],
            ports[1],
            version(1, old),
            version(2, new),
            version(3, old)
        )
    };
    let canary = |version: u8, [checkout, pay]: [u8; 2], transition: &str| {
        format!(
            "kind: CanaryRelease\nmetadata: {{name: both-{version}}}\nspec:\n  release: shop\n  version: {version}\n  services:\n    - \
             {{service: checkout, ports: [{{port: {}, config: {{weight: {checkout}}}}}]}}\n    - {{service: pay, ports: [{{port: {}, config: \
             {{weight: {pay}}}}}]}}\n  transition: {transition:?}\n",
            ports[0], ports[1]
        )
    };
    let (first, again) = (shop(1), shop(2));
    let parts = |checkout: u16, pay: u16| [("checkout", checkout), ("pay", pay)];
    world.site.manager.submit(&first).await;
    world.site.manager.submit(&canary(2, [0, 0], "")).await;
    until_parts_give(&world.nodes[0], parts(0, 0)).await;
    let users = Users::call(&[world.at[0], world.nodes[0].at]);
    users.round().await;
    assert_eq!((users.of(0, 'A').len(), users.of(1, 'C').len()), (USERS, USERS), "nobody has the canary");

    // One of them alone, and then both at once.
    world.site.manager.submit(&canary(2, [0, 100], "")).await;
    until_parts_give(&world.nodes[0], parts(0, 10_000)).await;
    users.round().await;
    assert_eq!((users.of(0, 'A').len(), users.of(1, 'D').len()), (USERS, USERS));
    world.site.manager.submit(&canary(2, [100, 0], "")).await;
    until_parts_give(&world.nodes[0], parts(10_000, 0)).await;
    users.round().await;
    assert_eq!((users.of(0, 'B').len(), users.of(1, 'C').len()), (USERS, USERS));

    // Killed on the way, it ends at what was asked.
    world.site.manager.submit(&canary(2, [100, 0], "Adopted")).await;
    world.nodes[0].kill();
    world.nodes[0].come_back();
    let ended = world.site.manager.ended("both-2").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    until_parts_give(&world.nodes[0], parts(10_000, 10_000)).await;
    users.round().await;
    assert_eq!((users.of(0, 'B').len(), users.of(1, 'D').len()), (USERS, USERS));

    world.site.manager.submit(&again).await;
    world.site.manager.submit(&canary(3, [100, 0], "")).await;
    until_parts_give(&world.nodes[0], parts(10_000, 0)).await;
    users.round().await;
    assert_eq!((users.of(0, 'A').len(), users.of(1, 'D').len()), (USERS, USERS));
    world.site.manager.submit(&canary(3, [100, 0], "Deprecated")).await;
    let ended = world.site.manager.ended("both-3").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    until_parts_give(&world.nodes[0], parts(0, 0)).await;
    users.round().await;
    assert_eq!((users.of(0, 'B').len(), users.of(1, 'D').len()), (USERS, USERS));
    users.end().await;
}

/// Each port of a service has a weight of its own, and a change of one moves nobody at the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ports_of_a_service_have_weights_of_their_own() {
    let world = Routers::start(1, &[]).await;
    let (node, manager) = (&world.nodes[0], &world.site.manager);
    let ports = [world.at[0].port(), node.at.port()];
    let names = ports.map(|port| format!("checkout.{port}"));
    let parts = |one: u16, other: u16| [(names[0].as_str(), one), (names[1].as_str(), other)];
    let release = shop(ports[0], 1, &[world.a.at, world.b.at]);
    let both = format!("{{port: {}, protocol: HTTP}}, {{port: {}, protocol: HTTP}}", ports[0], ports[1]);
    let release = release.replace(&format!("{{port: {}, protocol: HTTP}}", ports[0]), &both);
    let canary = |[one, other]: [u8; 2], transition: &str| {
        let port = |port: u16, weight: u8| format!("{{port: {port}, config: {{weight: {weight}}}}}");
        format!(
            "kind: CanaryRelease\nmetadata: {{name: checkout-2}}\nspec:\n  release: shop\n  version: 2\n  services:\n    - {{service: checkout, \
             ports: [{}, {}]}}\n  transition: {transition:?}\n",
            port(ports[0], one),
            port(ports[1], other)
        )
    };
    manager.submit(&release).await;
    manager.submit(&canary([0, 100], "")).await;
    until_parts_give(node, parts(0, 10_000)).await;
    let users = Users::call(&[world.at[0], node.at]);
    for (weights, versions) in [([0, 100], ['A', 'B']), ([100, 100], ['B', 'B']), ([100, 0], ['B', 'A'])] {
        manager.submit(&canary(weights, "")).await;
        let [one, other] = weights.map(|weight| u16::from(weight) * 100);
        until_parts_give(node, parts(one, other)).await;
        users.round().await;
        let found = [users.of(0, versions[0]).len(), users.of(1, versions[1]).len()];
        assert_eq!(found, [USERS; 2], "{weights:?}");
    }
    users.end().await;
    // Nothing led the service before, at either port: nothing does afterwards.
    manager.submit(&canary([100, 0], "Deprecated")).await;
    let ended = manager.ended("checkout-2").await;
    assert_eq!(ended["state"], "Aborted", "{ended:#}");
    node.until_proxy("nothing of it is left", |status| status.services.is_empty()).await;
}
