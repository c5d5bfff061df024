//! How children come to be known: areas, numbers of agents, ids that they bring along, addresses.

use http_api::address::Proxies;
use serde_json::{Value, json};

use crate::world::{AREA, World, strategy};

fn area() -> Value {
    serde_json::from_str(AREA).unwrap()
}

#[tokio::test]
async fn only_a_child_that_says_its_kind_may_lack_an_area() {
    let world = World::start().await;
    let child = world.child().await;
    for body in [
        json!({"id": "", "number_of_children": 0}),
        json!({"id": "", "geographic_area": null, "number_of_children": 0}),
        json!({"id": child, "number_of_children": 0}),
        json!({"id": "", "name": "north"}),
    ] {
        let answer = world.post("/poll", &body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.text().starts_with("`geographic_area` is missing"), "{}", answer.text());
    }
    let body = json!({"id": "", "kind": "agent"});
    let nowhere = world.post("/poll", &body).await.ok().json()["id"].as_str().unwrap().to_owned();
    world.post("/poll", &json!({"id": nowhere, "kind": "agent"})).await.ok();
    let target = format!("target: {{area: {AREA}}}\n");
    let submitted = world.submit(&(strategy("there") + &target)).await.ok().json();
    assert_eq!(submitted["participants"], 1, "{submitted}");
    assert_eq!(submitted["excluded"], json!({"its area is not known": 1}), "{submitted}");
    let submitted = world.submit(&strategy("anywhere").replace("sieve", "greet")).await.ok().json();
    assert_eq!(submitted["participants"], 2, "{submitted}");
}

#[tokio::test]
async fn agents_are_counted_for_managers_alone_and_only_so_many() {
    let world = World::with(|options| options.max_agents = 1_000).await;
    let agents = async |body: Value| {
        let id = world.post("/poll", &body).await.ok().json()["id"].as_str().unwrap().to_owned();
        let mut again = body.clone();
        again["id"] = json!(id);
        world.post("/poll", &again).await.ok();
        let counted = move |state: &domain::release::state::Snapshot| {
            state.children.by_id(&id).map(|(_, child)| child.counted_agents())
        };
        world.manager.engine.read(std::time::Duration::from_secs(5), counted).await.unwrap().unwrap()
    };
    let of = |kind: Option<&str>, number: u64| {
        let mut body = json!({"id": "", "geographic_area": area(), "number_of_children": number});
        if let Some(kind) = kind {
            body["kind"] = json!(kind);
        }
        body
    };
    assert_eq!(agents(of(Some("agent"), 70)).await, 1);
    assert_eq!(agents(of(Some("rm"), 70)).await, 70);
    assert_eq!(agents(of(Some("rm"), 4_000_000_000)).await, 1_000);
    // A manager of the plain protocol says nothing of its kind.
    assert_eq!(agents(of(None, 70)).await, 70);
    assert_eq!(agents(of(None, 4_000_000_000)).await, 1_000);
    assert_eq!(agents(of(None, 0)).await, 1);
}

#[tokio::test]
async fn ids_that_are_made_up_are_limited_by_address_at_polls_alone() {
    let world = World::with(|options| {
        options.rules.max_adopted = 3;
        options.proxies = Proxies(vec!["127.0.0.1".parse().unwrap()]);
    })
    .await;
    let bring = async |id: &str, from: &str| {
        let body = json!({"id": id, "geographic_area": area(), "number_of_children": 0});
        let request = world.request("POST", "/poll").header("x-forwarded-for", from).json(&body);
        world.send(request).await
    };
    for id in ["x1", "x2", "x3"] {
        bring(id, "198.51.100.1").await.ok();
    }
    let refused = bring("x4", "198.51.100.1").await;
    assert_eq!(refused.status, 429);
    assert!(refused.text().starts_with("3 ids that are not known here"), "{}", refused.text());
    bring("x3", "198.51.100.1").await.ok();
    bring("", "198.51.100.1").await.ok();
    bring("x4", "198.51.100.2").await.ok();
    // What somebody wrote in front of it counts for nothing.
    assert_eq!(bring("x5", "203.0.113.9, 198.51.100.1").await.status, 429);
    world.submit(&strategy("a")).await.ok();
    for other in ["/release?childID=x9&releaseID=a", "/release/functions/a"] {
        let answer = world.send(world.request("GET", other).header("x-forwarded-for", "198.51.100.1")).await;
        assert_ne!(answer.status, 429, "{other}");
    }
    world.fetch("x1", "a").await.ok();
    bring("x5", "198.51.100.1").await.ok();
}

#[tokio::test]
async fn on_the_machine_itself_ids_are_not_limited() {
    let world = World::with(|options| options.rules.max_adopted = 1).await;
    for id in ["x1", "x2", "x3"] {
        world.poll(id).await;
    }
}

#[tokio::test]
async fn where_a_child_calls_from_outlives_a_restart_of_the_manager() {
    let trust = |options: &mut choirmaster::app::Options| {
        options.proxies = Proxies(vec!["127.0.0.1".parse().unwrap()]);
    };
    let world = World::with(trust).await;
    let body = |id: &str| json!({"id": id, "geographic_area": area(), "number_of_children": 0});
    let from = |world: &World, id: &str, address: &str| {
        world.request("POST", "/poll").header("x-forwarded-for", address).json(&body(id))
    };
    let first = world.send(from(&world, "", "198.51.100.1")).await.ok().json();
    let id = first["id"].as_str().unwrap().to_owned();
    world.send(from(&world, &id, "198.51.100.1")).await.ok();
    let known = async |world: &World| {
        let id = id.clone();
        let query = move |state: &domain::release::state::Snapshot| {
            state.children.by_id(&id).and_then(|(_, child)| child.address).map(|address| address.to_string())
        };
        let time_limit = std::time::Duration::from_secs(5);
        world.manager.engine.read(time_limit, query).await.unwrap().unwrap_or_default()
    };
    assert_eq!(known(&world).await, "198.51.100.1");
    let world = world.restart_with(trust).await;
    assert_eq!(known(&world).await, "198.51.100.1");
    // It has another one now; where each call comes from another one, that is not noted each time.
    world.send(from(&world, &id, "198.51.100.2")).await.ok();
    assert_eq!(known(&world).await, "198.51.100.1");
    // Nor with a call that is noted for something else.
    let more = json!({"id": id, "geographic_area": area(), "number_of_children": 3});
    let request = world.request("POST", "/poll").header("x-forwarded-for", "198.51.100.2").json(&more);
    world.send(request).await.ok();
    assert_eq!(known(&world).await, "198.51.100.1");
}
