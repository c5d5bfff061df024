//! A manager whose children lead routers, with a service and a release of it that shifts its calls.

use serde_json::{Value, json};

use crate::world::{AREA, World};

/// The release of [`shifted`].
pub const RELEASE: &str = "shift";

const STRATEGY: &str = r#"id: shift
name: checkout
services:
  - name: checkout
    ports: [{port: 8080}]
    variations: [{name: A, targets: ["127.0.0.1:9101"]}, {name: B, targets: ["127.0.0.1:9111"]}]
rollout: {on_failure: rollback}
stages:
  - name: little
    type: Traffic
    shares: {A: 90, B: 10}
    metrics_conditions: [{name: errorRate, threshold: "<0.5"}]
    end_action: {onSuccess: rollout}
"#;

/// A child that leads an nginx.
pub async fn router(world: &World, name: &str) -> String {
    let id = poll(world, "", name).await["id"].as_str().unwrap().to_owned();
    poll(world, &id, name).await;
    id
}

async fn poll(world: &World, id: &str, name: &str) -> Value {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let capabilities = json!({"leads": "whole", "routers": ["nginx"], "runtimes": []});
    let body = json!({"id": id, "kind": "agent", "name": name, "geographic_area": area, "number_of_children": 0,
        "capabilities": capabilities});
    world.post("/poll", &body).await.ok().json()
}

/// What a router tells of the service, with so much of its calls at B, in hundredths of a percent.
pub fn told(id: &str, share: u16, generation: u64) -> Value {
    let variation = |name: &str, wanted: u16, calls: u32| {
        json!({"name": name, "wanted": wanted, "seen": wanted, "targets": {"healthy": 1, "total": 1},
            "calls": calls, "errors": 1})
    };
    json!({
        "id": id,
        "router": {"kind": "nginx", "version": "1.26.0", "phase": "in_force", "reached": true},
        "services": [{
            "name": "checkout", "epoch": 1, "generation": generation, "seen_ago_ms": 5, "measured_ms": 60_000,
            "variations": [variation("A", 10_000 - share, 900), variation("B", share, 100)],
            "led": {"ports": [{"port": 8080, "protocol": "HTTP"}], "variations": [
                {"name": "A", "targets": ["127.0.0.1:9101"]}, {"name": "B", "targets": ["127.0.0.1:9111"]}]},
        }],
    })
}

/// Two routers with the service. One runs a release that shifts a tenth of its calls; what was asked of the other has been answered.
pub async fn shifted() -> (World, [String; 2]) {
    let world = World::start().await;
    let routers = [router(&world, "edge-1").await, router(&world, "edge-2").await];
    for id in &routers {
        world.post("/traffic", &told(id, 0, 1)).await.ok();
    }
    world.submit(STRATEGY).await.ok();
    let [one, other] = &routers;
    let offer = poll(&world, one, "edge-1").await["new_release"].as_str().unwrap().to_owned();
    assert_eq!(offer, RELEASE);
    world.fetch(one, &offer).await.ok();
    let mut shifts = told(one, 1_000, 2);
    shifts["services"][0]["offer"] = json!(offer);
    world.post("/traffic", &shifts).await.ok();
    let order =
        world.post(&format!("/api/v1/routers/{other}/check"), &json!({"by": "ada"})).await.ok().json();
    let mut answers = told(other, 0, 1);
    answers["router"]["trouble"] = json!("port 8080 is taken");
    answers["answers"] =
        json!([{"number": order["number"], "ok": false, "text": "nginx: [emerg] unknown directive\nline 3"}]);
    world.post("/traffic", &answers).await.ok();
    (world, routers)
}
