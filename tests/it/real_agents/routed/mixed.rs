//! A Traefik, an nginx and two proxies of own agents, in one release.

use std::{sync::atomic::Ordering, time::Duration};

use agent::control::form::Status;

use super::{
    super::{
        routers::{all_to, approved_stages},
        users::{USERS, Users},
    },
    world_of,
};

const KINDS: [&str; 4] = ["traefik", "nginx", "embedded", "embedded"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routers_of_several_kinds_go_on_together_and_come_back_together() {
    let world = world_of(&KINDS, "300ms").await;
    world.submit_by_cookie("as-it-is", &all_to("A")).await;
    world.site.manager.ended("as-it-is").await;
    world.seen(Some(10_000), None).await;

    // Nobody calls through the Traefik, so that its stage is not over: the others wait for it.
    let elsewhere = Users::calling(&world.routers[1..], false, Duration::from_millis(100));
    elsewhere.round().await;
    world.submit_by_cookie("checkout-1", &approved_stages("")).await;
    world.seen(Some(9_000), Some(1_000)).await;
    let waits = |status: &Status| status.work.as_ref().is_some_and(|work| work.waits_for_signal);
    for node in &world.nodes[1..] {
        node.until("its first stage has all that it needs", waits).await;
    }
    assert!(!waits(&world.nodes[0].status().await.unwrap()));
    assert_ne!(world.site.manager.state("checkout-1").await.unwrap(), "AwaitingApproval");

    // Then people do.
    let here = Users::calling(&world.routers[..1], false, Duration::from_millis(100));
    world.site.manager.approve("checkout-1").await;
    world.seen(Some(5_000), Some(5_000)).await;
    here.round().await;
    elsewhere.round().await;
    let of_b = |users: &Users| (0..KINDS.len()).map(|router| users.of(router, 'B').len()).sum::<usize>();
    // The Traefik keeps whom it has given a cookie already.
    assert!(of_b(&here) > 0 && of_b(&elsewhere) > USERS / 4);

    // Whoever has a cookie of B is served by A once it is taken back, behind each of them.
    world.b.is_bad.store(true, Ordering::Relaxed);
    let ended = world.site.manager.ended("checkout-1").await;
    assert_eq!(ended["state"], "RolledBack", "{ended:#}");
    world.seen(Some(10_000), None).await;
    here.round().await;
    elsewhere.round().await;
    let then = world.b.calls();
    here.round().await;
    elsewhere.round().await;
    assert_eq!((of_b(&here), of_b(&elsewhere), world.b.calls()), (0, 0, then));
    for users in [here, elsewhere] {
        let lost = users.lost().await;
        assert!(lost.iter().all(|why| why.contains("HTTP/1.1 500")), "{lost:?}");
    }
}
