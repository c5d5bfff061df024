//! Services behind the proxies of own agents.

use super::{
    routers::{Routers, all_to, approved_stages, two_stages},
    users::{USERS, Users},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_over_is_rolled_back_at_all_routers_and_no_call_is_lost() {
    let world = Routers::start(2, &[]).await;
    world.submit("checkout-0", &all_to("A")).await;
    world.site.manager.ended("checkout-0").await;
    let users = Users::call(&world.at);
    world.submit("checkout-1", &two_stages("100ms")).await;
    let ended = world.site.manager.ended("checkout-1").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    world.all_give(10_000).await;
    users.round().await;
    assert_eq!((users.of(0, 'B').len(), users.of(1, 'B').len()), (USERS, USERS));

    world.site.manager.act("checkout-1", "rollback").await;
    let ended = world.site.manager.ended("checkout-1-rollback").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    for node in &world.nodes {
        node.until_proxy("its table gives all to A", |status| {
            let mut variations = status.services.iter().flat_map(|service| &service.variations);
            variations.any(|variation| variation.name == "A" && variation.share == 10_000)
        })
        .await;
    }
    users.round().await;
    assert_eq!((users.of(0, 'A').len(), users.of(1, 'A').len()), (USERS, USERS));
    let alone = world.b.calls();
    users.round().await;
    assert_eq!(world.b.calls(), alone, "what was rolled back gets no call");
    users.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_released_on_two_routers_as_on_one_and_no_call_is_lost() {
    let world = Routers::start(2, &[]).await;
    // Nothing serves before there was any release.
    world.submit("checkout-0", &all_to("A")).await;
    world.site.manager.ended("checkout-0").await;
    world.all_give(0).await;
    let users = Users::call(&world.at);
    users.round().await;
    assert_eq!((users.of(0, 'A').len(), users.of(1, 'A').len(), world.b.calls()), (USERS, USERS, 0));

    world.submit("checkout-1", &approved_stages("")).await;
    world.all_give(1_000).await;
    let little = users.same(0).await;
    assert!((1..USERS / 3).contains(&little.len()), "{little:?}");
    world.site.manager.approve("checkout-1").await;
    world.all_give(5_000).await;
    let half = users.same(little.len()).await;
    assert!(half.is_superset(&little), "{little:?} {half:?}");

    world.site.manager.approve("checkout-1").await;
    let ended = world.site.manager.ended("checkout-1").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    world.all_give(10_000).await;
    users.round().await;
    assert_eq!((users.of(0, 'B').len(), users.of(1, 'B').len()), (USERS, USERS));
    let alone = world.a.calls();
    users.round().await;
    assert_eq!(world.a.calls(), alone, "what was replaced gets no call");
    let listed = world.site.manager.get("/api/v1/deployments?function=service/checkout").await.unwrap();
    let listed = listed["items"].as_array().unwrap();
    assert!(
        listed.len() == 2 && listed.iter().all(|one| one["variant"] == "new" && one["path"] == "B"),
        "{listed:#?}"
    );

    // The next one begins with what serves now, and is refused with both where it doesn't, unless it says that it means that.
    let another =
        world.strategy("again", &two_stages("100ms")).replace("name: A,", "name: C,").replace("{A: ", "{C: ");
    let (a, b) = (world.a.at, world.b.at);
    let (status, why) = world.site.manager.try_to_submit(&another).await;
    assert_eq!(status, 409, "{why}");
    assert!(why.contains(&format!("the stable variation of checkout is C at {a}")), "{why}");
    assert!(why.contains(&format!("is B at {b}")), "{why}");
    world.all_give(10_000).await;
    world.site.manager.submit(&another.replace("    sticky:", "    base: replace\n    sticky:")).await;
    let ended = world.site.manager.ended("again").await;
    assert_eq!(ended["state"], "Done", "{ended:#}");
    world.all_give(10_000).await;
    users.end().await;
}
