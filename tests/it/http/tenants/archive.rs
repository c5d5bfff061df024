//! The functions of a tenant's release are for who takes part in it.

use serde_json::json;

use super::Shared;
use crate::world::{STAGE, World, strategy};

/// What a stranger is answered who asks for the functions of an offer.
async fn stranger(world: &World, offer: &str) -> (u16, String) {
    let answer = world.get(&format!("/release/functions/{offer}")).await;
    (answer.status, if answer.status == 200 { String::new() } else { answer.text() })
}

async fn with_token(shared: &Shared, who: &str, offer: &str) -> u16 {
    let request = shared.world.request("GET", &format!("/release/functions/{offer}"));
    shared.world.send(request.bearer_auth(super::secret(who))).await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_was_offered_a_tenants_release_gets_its_functions() {
    let shared = Shared::start().await;
    let world = &shared.world;
    let agent = world.child().await;
    let path = format!("/api/v1/children/{agent}/labels/tenant");
    shared.send("root", "PUT", &path, &json!({"value": "acme"})).await.ok();
    shared.submit("ann", &strategy("checkout-42")).await.ok();
    let own_id = "~acme~checkout-42";

    // A deployed agent says nothing of itself, and asks for functions by what it reads in the offer.
    let offer = world.poll(&agent).await.1;
    assert!(offer.starts_with("~acme~") && !offer.contains("checkout"), "{offer}");
    let text = world.fetch(&agent, &offer).await.ok().text();
    assert!(text.contains(&format!("id: \"{offer}\"")), "{text}");
    assert_eq!(stranger(world, &offer).await, (200, String::new()));
    for who in ["ann", "root"] {
        assert_eq!(with_token(&shared, who, &offer).await, 200);
    }
    assert_eq!(
        with_token(&shared, "uma", &offer).await,
        404,
        "another tenant's, wherever she has the id from"
    );

    // The name of a release is no secret.
    let absent = |text: &str| text.replace("checkout-42", "absent");
    for name in [own_id.to_owned(), format!("{own_id}.rollout"), format!("{own_id}.r2")] {
        let (status, said) = stranger(world, &name).await;
        assert_eq!((status, absent(&said)), (404, stranger(world, &absent(&name)).await.1));
        for who in ["ann", "uma", "root"] {
            assert_eq!(with_token(&shared, who, &name).await, 404);
        }
    }
    // Newer children name themselves when they ask.
    let as_child = async |child: &str| stranger(world, &format!("{own_id}?childID={child}")).await.0;
    assert_eq!((as_child(&agent).await, as_child("nobody").await), (200, 404));
    let other = world.child().await;
    assert_eq!(as_child(&other).await, 404);

    // It goes on under these ids, also over a restart.
    world.report(&agent, &offer, STAGE, 2).await.ok();
    world.end_stage(&agent, &offer, STAGE).await.ok();
    let shared = shared.restart().await;
    let world = &shared.world;
    world.report(&agent, &offer, STAGE, 4).await.ok();
    let rollout = world.poll(&agent).await.1;
    assert_eq!(rollout, format!("{offer}.rollout"));
    assert_eq!(stranger(world, &rollout).await.0, 200);
    world.roll_out(&agent, &offer).await;
    assert_eq!(shared.get("ann", "/api/v1/releases/checkout-42").await.ok().json()["state"], "Done");
    shared.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_of_the_manager_are_offered_under_their_names() {
    let shared = Shared::start().await;
    let agent = shared.world.child().await;
    shared.submit("root", &strategy("plain")).await.ok();
    assert_eq!(shared.world.poll(&agent).await.1, "plain");
    assert_eq!(stranger(&shared.world, "plain").await.0, 200);
    shared.world.stop().await;
}
