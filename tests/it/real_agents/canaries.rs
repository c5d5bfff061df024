//! Canaries of a registered release, behind the proxy of an own agent.

use std::net::SocketAddr;

use super::{
    routers::{Routers, all_to},
    users::{USERS, Users},
    wait::wait_until,
};

/// The release `shop`, of the service `checkout`. Its versions count from 1.
fn shop(port: u16, current: usize, versions: &[SocketAddr]) -> String {
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
fn canary(port: u16, version: u8, weight: u8, transition: &str) -> String {
    format!(
        "apiVersion: choirmaster/v1\nkind: CanaryRelease\nmetadata: {{name: checkout-{version}}}\nspec:\n  release: shop\n  version: \
         {version}\n  services:\n    - {{service: checkout, ports: [{{port: {port}, protocol: HTTP, config: {{weight: {weight}}}}}]}}\n  \
         transition: {transition:?}\n"
    )
}

/// Waits until agent and proxy give the canary so much, in units of 0.01 %.
async fn gives(world: &Routers, canary: u16) {
    for node in &world.nodes {
        node.until(&format!("it gives {canary} to the canary"), |status| {
            let service = status.services.first();
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
    wait_until("the canary has calls", async || world.b.calls() > 50).await;
    let (of_stable, of_canary) = (world.a.calls(), world.b.calls());
    assert!(of_stable > 2 * of_canary, "a tenth goes to the canary: {of_canary} of {of_stable}");
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
