//! Several services and ports in one canary: they begin, change their weights, are adopted and deprecated as one.

use serde_json::{Value, json};

use super::{
    ADOPTED, DEPRECATED,
    life::{goes_back, registered, serves_alone, state, told, trail},
};
use crate::{ab::player::Player, world::Answer};

/// The release `shop`, of two services, one of which has two ports.
pub fn shop_of_two() -> String {
    let version = |number: u8| {
        let at = |port: u16| format!("\"127.0.0.1:{}\"", port + 10 * u16::from(number));
        format!("    - {{version: {number}, targets: {{checkout: [{}], pay: [{}]}}}}\n", at(9_091), at(9_191))
    };
    format!(
        "apiVersion: choirmaster/v1\nkind: Release\nmetadata: {{name: shop}}\nspec:\n  services:\n    - name: checkout\n      ports: [{{port: \
         8080}}, {{port: 8443, protocol: HTTPS}}]\n    - name: pay\n      ports: [{{port: 8090, protocol: TCP}}]\n  version: 1\n  \
         versions:\n{}{}",
        version(1),
        version(2)
    )
}

/// The parts of its canary, in their order.
const PARTS: [&str; 3] = ["checkout.8080", "checkout.8443", "pay"];

/// A canary of both services, which gets so much of each part.
pub fn both([plain, tls, pay]: [u8; 3], rest: &str) -> String {
    format!(
        "apiVersion: choirmaster/v1\nkind: CanaryRelease\nmetadata: {{name: both-2}}\nspec:\n  release: shop\n  version: 2\n  services:\n    - \
         service: checkout\n      ports:\n        - {{port: 8080, protocol: HTTP, config: {{weight: {plain}}}}}\n        - {{port: 8443, \
         protocol: HTTPS, config: {{weight: {tls}}}}}\n    - service: pay\n      ports: [{{port: 8090, protocol: TCP, config: {{weight: \
         {pay}}}}}]\n{rest}"
    )
}

/// A router that knows how to share several together, and the release.
async fn start() -> Player {
    let mut player = Player::start().await;
    player.capabilities["features"] = json!(["shares", "together"]);
    player.polls().await;
    let registered = player.world.submit(&shop_of_two()).await;
    assert_eq!(registered.status, 201, "{}", registered.text());
    player
}

/// The same, with a canary whose first stages the router has passed, as it does at once.
async fn under_way(weights: [u8; 3]) -> Player {
    let player = start().await;
    player.world.submit(&both(weights, "")).await.ok();
    player.begins("both-2").await;
    for part in &PARTS[1..] {
        assert!(player.walks("both-2", &format!("canary of {part}")).await, "{part} waits for nobody");
    }
    player
}

async fn weigh(player: &Player, weights: [u8; 3]) -> Answer {
    player.world.submit_to("/release?by=ann", &both(weights, "")).await
}

/// What the router is told of weights, in units of 0.01 %, while it asks about a stage.
async fn asks(player: &Player, stage: &str) -> Value {
    let question =
        json!({"id": player.router, "strategy_id": "both-2", "stage_name": stage, "shares": json!({})});
    player.world.post("/end_stage", &question).await.ok().json()
}

async fn shown(player: &Player) -> Value {
    player.world.get("/api/v1/canary-releases/both-2").await.ok().json()
}

/// What each part is to get, as it is shown.
async fn weights(player: &Player) -> Vec<Value> {
    let shown = shown(player).await;
    let parts = shown["status"]["parts"].as_array().unwrap().iter();
    parts.map(|part| json!([part["name"], part["weight"]])).collect()
}

fn all_get(weights: [u8; 3]) -> Vec<Value> {
    PARTS.iter().zip(weights).map(|(part, weight)| json!([part, f64::from(weight)])).collect()
}

/// What a router tells of the three while it gives the canary so much of each.
fn report(router: &str, shares: [u16; 3]) -> Value {
    let led = [(8080, "HTTP", 9_101), (8443, "HTTPS", 9_101), (8090, "TCP", 9_201)];
    let service = |((part, (port, protocol, stable)), share): ((&&str, (u16, &str, u16)), u16)| {
        let variation = |name: &str, share: u16| {
            let targets = json!({"healthy": null, "total": 1});
            json!({"name": name, "wanted": share, "seen": share, "targets": targets, "calls": 100, "errors": 1})
        };
        let target = |name: &str, port: u16| json!({"name": name, "targets": [format!("127.0.0.1:{port}")]});
        json!({
            "name": part, "epoch": 0, "generation": 1 + u64::from(share), "offer": "both-2", "seen_ago_ms": 5,
            "measured_ms": 60_000,
            "variations": [variation("stable", 10_000 - share), variation("canary", share)],
            "led": {
                "ports": [{"port": port, "protocol": protocol}],
                "variations": [target("stable", stable), target("canary", stable + 10)],
            },
        })
    };
    let services: Vec<Value> = PARTS.iter().zip(led).zip(shares).map(service).collect();
    json!({
        "id": router,
        "router": {"kind": "embedded", "phase": "in_force", "reached": true},
        "services": services,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_begin_change_and_are_adopted_as_one() {
    let player = start().await;
    let created = player.world.submit_to("/release?by=ann", &both([10, 30, 5], "")).await;
    assert_eq!(told(&created), (201, json!(true), Value::Null));
    let warnings = created.json()["warnings"].clone();
    let [warning] = warnings.as_array().unwrap().as_slice() else { panic!("one of them: {warnings}") };
    assert_eq!(
        (&warning["code"], &warning["message"]),
        (
            &json!("port-weights"),
            &json!(
                "ports of service checkout have different weights (10 % at 8080, 30 % at 8443): whoever calls more than one of them may meet \
                 both versions"
            )
        )
    );
    player.begins("both-2").await;
    let offer = player.world.fetch(&player.router, "both-2").await.ok().text();
    assert_eq!(offer.matches("    with_next: true\n").count(), 2, "{offer}");
    assert_eq!(weights(&player).await, all_get([10, 30, 5]));
    // Other weights, before the router has passed the first stages and afterwards: one fact of each, told in one answer.
    assert_eq!(
        told(&weigh(&player, [10, 40, 5]).await),
        (200, json!(false), json!("weight 40 of checkout.8443"))
    );
    assert_eq!(
        asks(&player, "canary of checkout.8443").await["shares"],
        json!({"canary of checkout.8443": 4_000})
    );
    for part in &PARTS[1..] {
        assert!(player.walks("both-2", &format!("canary of {part}")).await, "{part} waits for nobody");
    }
    let planned = player.world.submit_to("/api/v1/plan", &both([20, 40, 0], "")).await.ok().json();
    let share = |part: &str, from: f64, to: f64| json!({"part": part, "from": from, "to": to});
    assert_eq!(
        planned["canary"],
        json!({
            "changed": "weight 20 of checkout.8080, weight 0 of pay",
            "shares": [share("checkout.8080", 10.0, 20.0), share("pay", 5.0, 0.0)],
            "follows": ["1 router is told at once"],
        })
    );
    assert_eq!(
        told(&weigh(&player, [20, 40, 0]).await),
        (200, json!(false), json!("weight 20 of checkout.8080, weight 0 of pay"))
    );
    assert_eq!(
        asks(&player, "canary").await,
        json!({"end_stage": false, "shares": {"canary": 2_000, "canary of checkout.8443": 4_000, "canary of pay": 0}})
    );
    assert_eq!(weights(&player).await, all_get([20, 40, 0]));
    let before = trail(&player.world, "both-2").await;
    assert_eq!(
        told(&weigh(&player, [20, 40, 0]).await),
        (200, json!(false), Value::Null),
        "it is so already"
    );
    assert_eq!(trail(&player.world, "both-2").await, before);
    let Player { world, router, capabilities } = player;
    let player = Player { world: world.restart().await, router, capabilities };
    assert_eq!(weights(&player).await, all_get([20, 40, 0]), "after a restart");
    let services = shown(&player).await["spec"]["services"].clone();
    let named: Vec<(&Value, usize)> = services
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["service"], one["ports"].as_array().unwrap().len()))
        .collect();
    assert_eq!(named, [(&json!("checkout"), 2), (&json!("pay"), 1)]);
    assert_eq!(services[0]["ports"][1]["config"]["weight"], 40);

    assert_eq!(told(&player.world.submit(&both([20, 40, 0], ADOPTED)).await).2, "adopted");
    assert_eq!(registered(&player).await["version"], 1, "its router has yet to do it");
    assert_eq!(weights(&player).await, all_get([100; 3]));
    serves_alone(&player, "both-2").await;
    assert_eq!(state(&player, "both-2").await, "Done");
    assert_eq!(registered(&player).await["version"], 2);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_of_several_is_in_force_when_all_of_it_is() {
    let player = under_way([10, 30, 5]).await;
    let in_force = async |shares: [u16; 3]| {
        player.world.post("/traffic", &report(&player.router, shares)).await.ok();
        let shown = shown(&player).await;
        let conditions = shown["status"]["conditions"].as_array().unwrap().clone();
        let found = conditions.into_iter().find(|one| one["type"] == "WeightInForce").unwrap();
        (found["reason"].clone(), found["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(
        in_force([1_000, 3_000, 0]).await,
        (json!("Shifting"), "the canary is to get 5 % of pay, and gets 0 %".to_owned())
    );
    assert_eq!(
        in_force([1_000, 3_000, 500]).await,
        (
            json!("InForce"),
            "the canary gets 10 % of checkout.8080, 30 % of checkout.8443, 5 % of pay at 1 router".to_owned()
        )
    );
    let found = shown(&player).await;
    assert_eq!(found["status"]["parts"][1]["seen"], json!({"lowest": 30.0, "highest": 30.0}));
    let healthy = found["status"]["conditions"][2]["message"].clone();
    assert_eq!(healthy, "nothing judges it; 3 of its 300 calls failed");
    let listed = player.world.get("/api/v1/canary-releases").await.ok().json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "it is one");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_are_deprecated_as_one_also_before_all_have_begun() {
    for has_passed in [false, true] {
        let player = start().await;
        let before = registered(&player).await;
        player.world.submit(&both([10, 30, 5], "")).await.ok();
        player.begins("both-2").await;
        let mut stage = "canary of checkout.8443";
        if has_passed {
            for part in &PARTS[1..] {
                assert!(player.walks("both-2", &format!("canary of {part}")).await);
            }
            stage = "canary";
        }
        let deprecated = player.world.submit(&both([10, 30, 5], DEPRECATED)).await;
        assert_eq!(told(&deprecated).2, "deprecated");
        assert_eq!(weights(&player).await, all_get([0; 3]));
        if has_passed {
            goes_back(&player, "both-2").await;
        } else {
            assert_eq!(asks(&player, stage).await["then"], "rollback");
            player.reports("both-2", stage, 5, 10).await;
        }
        assert_eq!(state(&player, "both-2").await, "Aborted");
        assert_eq!(
            player.polls().await.1,
            "",
            "one answer took back all: there is nothing left to roll back"
        );
        assert_eq!(registered(&player).await, before);
        player.world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_one_of_several_cant_be_led_none_begins() {
    let player = start().await;
    // Something else has the port of one.
    let mut web = report(&player.router, [0, 0, 0]);
    web["services"] = json!([web["services"][2]]);
    web["services"][0]["name"] = json!("web");
    web["services"][0].as_object_mut().unwrap().remove("offer");
    player.world.post("/traffic", &web).await.ok();
    for path in ["/release?dry_run=true", "/release"] {
        let refused = player.world.submit_to(path, &both([10, 10, 10], "")).await.problem();
        let why = format!("pay is to have port 8090 at router {}: service web has it", player.router);
        assert_eq!(refused, format!("422 /problems/port-taken: {why}"));
    }
    assert_eq!(player.polls().await.1, "");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_whose_agent_is_older_takes_none_of_several() {
    let mut player = start().await;
    player.capabilities["features"] = json!(["shares"]);
    player.polls().await;
    let refused = player.world.submit(&both([10, 10, 10], "")).await.problem();
    assert_eq!(
        refused.replace(&player.router, "ID"),
        "409 /problems/can-not-lead: router ID is of kind embedded, which an agent of an older version leads, which passes over with_next (it \
         doesn't name the feature \"together\"): update it first; service checkout.8080 asks for that"
    );
    // One service with one port is what it always was.
    let pay = "apiVersion: choirmaster/v1\nkind: CanaryRelease\nmetadata: {name: pay-2}\nspec:\n  release: shop\n  version: 2\n  services:\n    - \
               {service: pay, ports: [{port: 8090, config: {weight: 10}}]}\n";
    assert_eq!(told(&player.world.submit(pay).await), (201, json!(true), Value::Null));
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_has_each_of_several_and_says_what_may_surprise() {
    let player = start().await;
    let planned = player.world.submit_to("/api/v1/plan", &both([10, 30, 5], "")).await.ok().json();
    let stages = planned["stages"].as_array().unwrap().iter();
    let shares: Vec<(&Value, &Value)> =
        stages.map(|stage| (&stage["changes"], &stage["shares"]["canary"])).collect();
    assert_eq!(shares.len(), 3, "{planned:#}");
    for (part, weight) in PARTS.iter().zip([10.0, 30.0, 5.0]) {
        assert!(shares.contains(&(&json!(format!("service/{part}")), &json!(weight))), "{part}: {planned:#}");
    }
    let codes: Vec<&Value> = planned["warnings"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, [&json!("port-weights")]);
    player.world.stop().await;
}
