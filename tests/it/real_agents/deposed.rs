//! Managers of releases of services that die in the middle of a change, while agents, their proxies and their callers go on: in the end
//! routers do what the store says.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{
    node::Node,
    routers::{Routers, all_to, two_stages},
    scale::Scale,
    users::{Backend, Users},
};

const ROUTERS: u8 = 2;

/// So many, or all of them where they are asked for.
const KILLS: u64 = 3;
const ALL_KILLS: u64 = 50;

/// Of a rollout.
const IN_STEP: &str = "order: global_incremental, on_failure: rollback";

/// All shares, in units of 0.01 %.
const WHOLE: u16 = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routers_end_at_what_the_store_says_whenever_the_manager_is_killed() {
    let Scale { part, .. } = Scale::find();
    let mut chance = fastrand::Rng::with_seed(part);
    let mut world = Routers::start(ROUTERS, &[]).await;
    world.submit("first", &all_to("A")).await;
    world.site.manager.ended("first").await;
    world.all_give(0).await;
    let users = Users::call(&world.at);
    let (mut kills, mut number, mut ends) = (0, 0, Vec::new());
    let mut is_swapped = false;
    let enough = if std::env::var_os("CHOIRMASTER_TEST_ALL_KILLS").is_some() { ALL_KILLS } else { KILLS };
    while kills < enough {
        number += 1;
        let id = format!("release-{number}");
        let stages = two_stages("300ms");
        let text = world.strategy(&id, &format!("rollout: {{{IN_STEP}}}\n{stages}"));
        // What serves is the stable one, whatever it is called.
        let text = if is_swapped { swapped(&text, &world.a, &world.b) } else { text };
        world.site.manager.submit(&text).await;
        let aborts_at = chance.bool().then(|| chance.u64(..3));
        for kill in 0..3 {
            sleep(Duration::from_millis(chance.u64(0..700))).await;
            if aborts_at == Some(kill) {
                // It may be over, or nobody may have begun with it.
                let _ = world
                    .site
                    .manager
                    .order(&format!("/api/v1/releases/{id}/abort"), &json!({"by": "tester"}))
                    .await;
                sleep(Duration::from_millis(chance.u64(0..60))).await;
            }
            world.site.manager.kill();
            kills += 1;
            sleep(Duration::from_millis(chance.u64(0..200))).await;
            world.site.manager.come_back().await;
        }
        let ended = world.site.manager.ended(&id).await;
        let state = ended["state"].as_str().unwrap().to_owned();
        if !["Done", "RolledBack", "Aborted"].contains(&&*state) {
            let events = world.site.manager.get(&format!("/api/v1/audit?release={id}")).await;
            panic!("{ended:#} after {events:#?}");
        }
        is_swapped ^= state == "Done";
        world.serve_alone(if is_swapped { "B" } else { "A" }).await;
        users.round().await;
        let (wins, loses) = if is_swapped { ('B', 'A') } else { ('A', 'B') };
        for router in 0..usize::from(ROUTERS) {
            assert_eq!(users.of(router, loses).len(), 0, "{wins} serves at {router} after {ended:#}");
        }
        ends.push(state);
    }
    users.end().await;
    eprintln!("part {part}: {kills} kills through {number} releases, which ended {ends:?}");
}

/// The same strategy with B as what is stable.
fn swapped(text: &str, a: &Backend, b: &Backend) -> String {
    let (a, b) = (a.at.to_string(), b.at.to_string());
    let text = text.replace(&format!("name: A, targets: [\"{a}\"]"), "name: \u{1}, targets: [\u{2}]");
    let text = text.replace(&format!("name: B, targets: [\"{b}\"]"), &format!("name: A, targets: [\"{a}\"]"));
    let text = text.replace("name: \u{1}, targets: [\u{2}]", &format!("name: B, targets: [\"{b}\"]"));
    text.replace("shares: {A: ", "shares: {\u{1}: ")
        .replace(", B: ", ", A: ")
        .replace("shares: {\u{1}: ", "shares: {B: ")
}

impl Routers {
    /// Waits until the proxies themselves say that this variation has everything.
    async fn serve_alone(&self, name: &str) {
        for node in &self.nodes {
            serves_alone(node, name).await;
        }
    }
}

async fn serves_alone(node: &Node, name: &str) {
    node.until_proxy(&format!("{name} serves alone"), |status| {
        let service = status.services.iter().find(|service| service.name == "checkout");
        service.is_some_and(|service| {
            service.variations.iter().any(|one| one.name == name && one.share == WHOLE)
        })
    })
    .await;
}
