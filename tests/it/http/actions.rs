//! What can be done to a release, whom it would reach, and where.

use serde_json::{Value, json};

use super::tenants::Shared;
use crate::world::{STAGE, World, strategy};

async fn action(world: &World, id: &str, name: &str) -> Value {
    let found = world.get(&format!("/api/v1/releases/{id}/actions")).await.ok().json();
    let all = found["actions"].as_array().unwrap();
    all.iter().find(|action| action["action"] == name).unwrap().clone()
}

/// A child whose area is a square of a fifth of a degree, with this corner in the south-west.
async fn child_at(world: &World, west: f64, south: f64) -> String {
    let (east, north) = (west + 0.2, south + 0.2);
    let ring = json!([[[west, south], [east, south], [east, north], [west, north], [west, south]]]);
    let body = |id: &str| json!({"id": id, "geographic_area": {"type": "Polygon", "coordinates": ring}, "number_of_children": 0});
    let id = world.post("/poll", &body("")).await.ok().json()["id"].as_str().unwrap().to_owned();
    world.post("/poll", &body(&id)).await.ok();
    id
}

#[tokio::test]
async fn whom_it_would_reach_is_counted_by_waves_and_places() {
    let world = World::start().await;
    child_at(&world, 179.4, -17.0).await;
    child_at(&world, -179.8, 10.0).await;
    let waves = "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave}\n";
    world.submit(&format!("{}{waves}", strategy("a"))).await.ok();
    let abort = action(&world, "a", "abort").await;
    assert_eq!((&abort["can"], &abort["agents"], &abort["waves"]), (&json!(true), &json!(2), &json!([1, 2])));
    // The box lies across the antimeridian, the shorter way around.
    let bounds: Vec<f64> = serde_json::from_value(abort["bounds"].clone()).unwrap();
    for (found, wanted) in bounds.iter().zip([179.5, -16.9, -179.7, 10.1]) {
        assert!((found - wanted).abs() < 1e-3, "{bounds:?}");
    }
    assert_eq!(abort["places"].as_array().unwrap().len(), 2);
    let approve = action(&world, "a", "approve").await;
    assert_eq!((&approve["can"], &approve["agents"]), (&json!(false), &json!(0)));
    assert_eq!(approve["why"], "release a is Running: it does not wait for an approval");
    world.stop().await;
}

#[tokio::test]
async fn one_action_alone_is_said_as_it_is_among_all() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    let of = async |query: &str| world.get(&format!("/api/v1/releases/a/actions{query}")).await.ok().json();
    let all = of("").await;
    let names: Vec<_> = ["approve", "pause", "resume", "promote", "skip", "retry", "extend", "abort"].into();
    for name in &names {
        let one = of(&format!("?action={name}")).await;
        assert_eq!((&one["tag"], &one["state"]), (&all["tag"], &all["state"]));
        let among: Vec<_> =
            all["actions"].as_array().unwrap().iter().filter(|one| one["action"] == **name).collect();
        assert!(!among.is_empty(), "{name}");
        assert_eq!(one["actions"].as_array().unwrap().iter().collect::<Vec<_>>(), among);
    }
    let unknown = world.get("/api/v1/releases/a/actions?action=undo").await;
    let said = format!("400 about:blank: `action` is undo, and there are {}", names.join(", "));
    assert_eq!(unknown.problem(), said);
    world.stop().await;
}

#[tokio::test]
async fn elsewhere_is_said_where_somebody_is_elsewhere() {
    let world = World::start().await;
    for _ in 0..5 {
        child_at(&world, 13.0, 52.0).await;
    }
    world.submit(&strategy("a")).await.ok();
    let abort = action(&world, "a", "abort").await;
    assert_eq!((&abort["agents"], &abort["places"]), (&json!(5), &json!(["52.1000N 13.1000E"])));
    let does = abort["does"].as_str().unwrap();
    assert!(does.contains("at 52.1000N 13.1000E") && !does.contains("elsewhere"), "{does}");
    for south in [1.0, 2.0, 3.0] {
        child_at(&world, 13.0, south).await;
    }
    world.call("POST", "/api/v1/releases/a/extend").await.ok();
    let does = action(&world, "a", "abort").await["does"].clone();
    assert!(does.as_str().unwrap().contains(" and elsewhere"), "{does}");
    world.stop().await;
}

#[tokio::test]
async fn nobody_is_tried_again_who_was_forgotten() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    world.submit(&(strategy("a") + "\nrollout: {order: parallel, max_failed: 100%}\n")).await.ok();
    world.poll(&two).await;
    world.fetch(&two, "a").await.ok();
    world.report(&two, "a", STAGE, 5).await.ok();
    world.run(&one, "a").await;
    let retry = action(&world, "a", "retry").await;
    assert_eq!((&retry["can"], &retry["agents"]), (&json!(true), &json!(1)), "{retry}");
    world.call("DELETE", &format!("/api/v1/children/{two}")).await.ok();
    let retry = action(&world, "a", "retry").await;
    assert_eq!((&retry["can"], &retry["agents"]), (&json!(false), &json!(0)), "{retry}");
    assert_eq!(retry["why"], "no child of release a can be retried");
    world.stop().await;
}

#[tokio::test]
async fn who_has_it_already_is_reached_by_an_abort_alone() {
    let world = World::start().await;
    let (one, _two) = (world.child().await, world.child().await);
    let waves = "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave}\n";
    world.submit(&format!("{}{waves}", strategy("a"))).await.ok();
    world.run(&one, "a").await;
    let approve = action(&world, "a", "approve").await;
    assert_eq!((&approve["agents"], &approve["waves"]), (&json!(1), &json!([2, 2])));
    assert_eq!(action(&world, "a", "pause").await["agents"], 1);
    assert_eq!(action(&world, "a", "abort").await["agents"], 2);
    world.stop().await;
}

#[tokio::test]
async fn who_may_is_told_beside_what_can_be_done() {
    let shared = Shared::start().await;
    shared.child_of("acme").await;
    shared.submit("ann", &strategy("a")).await.ok();
    let mut seen = String::new();
    for who in ["ann", "otto", "abe", "vic"] {
        let found = shared.get(who, "/api/v1/releases/a/actions").await.ok();
        assert!(!found.text().contains("~acme~"), "{}", found.text());
        let found = found.json();
        let allowed = found["actions"].as_array().unwrap().iter().filter(|action| action["allowed"] == true);
        let names: Vec<&str> = allowed.map(|action| action["action"].as_str().unwrap()).collect();
        seen += &format!("{who} {}\n", names.join(" "));
    }
    let all = "ann approve pause resume promote promote skip retry extend abort\notto pause resume skip retry extend abort\n\
        abe approve promote promote\nvic \n";
    assert_eq!(seen, all);
    // Who may not is told that, and nobody is counted for it.
    let found = shared.get("vic", "/api/v1/releases/a/actions").await.ok().json();
    for action in found["actions"].as_array().unwrap() {
        let why = action["why"].as_str().unwrap();
        assert!(why.starts_with("this takes the role "), "{action}");
        assert_eq!((&action["can"], &action["agents"]), (&json!(false), &json!(0)), "{action}");
    }
    let pause = found["actions"].as_array().unwrap().iter().find(|one| one["action"] == "pause").unwrap();
    assert_eq!(pause["does"], "Holds agents before what comes next; what one has in hand, it ends.");
    assert_eq!(shared.get("uma", "/api/v1/releases/a/actions").await.status, 404);
    shared.world.stop().await;
}

#[tokio::test]
async fn actions_of_archived_release_are_still_reported() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "a").await.ok();
    world.report(&child, "a", STAGE, 5).await.ok();
    let shown = world.get("/api/v1/releases/a").await.ok().json();
    assert_eq!(shown["state"], "DoneWithFailures");
    let world = world.restart().await;
    let retry = action(&world, "a", "retry").await;
    assert_eq!((&retry["can"], &retry["agents"]), (&json!(true), &json!(1)), "{retry}");
    let abort = action(&world, "a", "abort").await;
    assert_eq!(
        abort["why"],
        "release a is DoneWithFailures: what is over can't be aborted; release rollback puts back what ran before"
    );
    assert_eq!(world.get("/api/v1/releases/b/actions").await.status, 404);
    world.stop().await;
}
