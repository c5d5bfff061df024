//! What agents that lead a router tell of it, and what operators ask of that.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{AREA, Answer, World};

/// A child that leads an nginx.
pub async fn router(world: &World, name: &str) -> String {
    router_of(world, name, "nginx").await
}

async fn router_of(world: &World, name: &str, kind: &str) -> String {
    router_that_knows(world, name, kind, &["flows"]).await
}

/// Of an agent that names these features.
async fn router_that_knows(world: &World, name: &str, kind: &str, features: &[&str]) -> String {
    let area: Value = serde_json::from_str(AREA).unwrap();
    let capabilities = json!({"leads": "whole", "routers": [kind], "features": features});
    let poll = |id: &str| json!({"id": id, "kind": "agent", "name": name, "geographic_area": area, "capabilities": capabilities});
    let answer = world.post("/poll", &poll("")).await.ok().json();
    let id = answer["id"].as_str().unwrap().to_owned();
    world.post("/poll", &poll(&id)).await.ok();
    id
}

pub fn led(shares: [u16; 2]) -> Value {
    let check = json!({"path": "/ready", "interval_ms": 2000, "timeout_ms": 500, "healthy_after": 2, "unhealthy_after": 3});
    json!({
        "name": "checkout", "epoch": 1, "generation": u64::from(shares[1]) + 1,
        "seen_ago_ms": 5, "measured_ms": 60_000,
        "variations": [
            {"name": "A", "wanted": shares[0], "seen": shares[0], "targets": {"healthy": 2, "total": 2}, "calls": 900, "errors": 1},
            {"name": "B", "wanted": shares[1], "seen": shares[1], "targets": {"healthy": 1, "total": 1}, "calls": 100, "errors": 2},
        ],
        "led": {
            "ports": [{"port": 8080, "protocol": "HTTP"}],
            "sticky": {"cookie": "cm_checkout"},
            "variations": [
                {"name": "A", "targets": ["127.0.0.1:9101", "127.0.0.1:9102"], "health": check},
                {"name": "B", "targets": ["127.0.0.1:9111"]},
            ],
        },
    })
}

pub fn report(id: &str, services: &[Value]) -> Value {
    json!({
        "id": id,
        "router": {"kind": "nginx", "version": "1.26.0", "phase": "in_force", "reached": true},
        "services": services,
    })
}

pub async fn tell(world: &World, body: &Value) -> Answer {
    world.post("/traffic", body).await
}

/// The events of the trail that are about routers, a line each.
async fn events(world: &World) -> String {
    let trail = world.get("/api/v1/audit?limit=1000").await.ok().json();
    let rows = trail["items"].as_array().unwrap().iter();
    let events = rows.flat_map(|row| row["events"].as_array().unwrap());
    let of_routers = events.filter(|event| event["router"].is_string());
    of_routers.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn what_a_router_does_is_kept_shown_and_survives_a_restart() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    assert_eq!(tell(&world, &report(&id, &[led([9000, 1000])])).await.ok().text(), "{}\n");
    let world = world.restart().await;
    let shown = world.get(&format!("/api/v1/routers/{id}")).await.ok().json();
    assert_eq!(
        (&shown["kind"], &shown["phase"], &shown["services"], &shown["name"]),
        (&json!("nginx"), &json!("in_force"), &json!(["checkout"]), &json!("edge-1"))
    );
    let b = &shown["led"][0]["variations"][1];
    assert_eq!(
        (&b["wanted"], &b["seen"], &b["measured"], &b["errors"], &b["healthy_targets"]),
        (&json!(10.0), &json!(10.0), &json!(10.0), &json!(2), &json!(1))
    );
    assert_eq!((&shown["led"][0]["proven"], &shown["led"][0]["standing"]), (&json!(true), &json!(false)));
    let routes = world.get(&format!("/api/v1/routers/{id}/routes")).await.ok().json();
    assert_eq!(
        routes,
        json!([{
            "upstream": "checkout",
            "backends": [
                {"name": "A", "targets": ["127.0.0.1:9101", "127.0.0.1:9102"], "weight": 90.0},
                {"name": "B", "targets": ["127.0.0.1:9111"], "weight": 10.0},
            ],
            "healthCheck": {"path": "/ready", "interval": 2.0, "timeout": 0.5},
        }])
    );
    let listed = world.get("/api/v1/routers?phase=in_force&service=checkout").await.ok().json();
    assert_eq!(listed["items"][0]["id"], json!(id));
    assert_eq!(world.get("/api/v1/routers?phase=idle").await.ok().json()["items"], json!([]));
    world.stop().await;
}

#[tokio::test]
async fn a_service_is_summed_over_its_routers_and_each_target_counts_once() {
    let world = World::start().await;
    let (one, other) = (router(&world, "edge-1").await, router(&world, "edge-2").await);
    tell(&world, &report(&one, &[led([9000, 1000])])).await.ok();
    let mut behind = led([10_000, 0]);
    behind["variations"][0]["targets"] = json!({"healthy": 1, "total": 2});
    tell(&world, &report(&other, &[behind])).await.ok();
    let shown = world.get("/api/v1/services/checkout").await.ok().json();
    assert_eq!(
        (&shown["routers"], &shown["unproven"], &shown["in_release"]),
        (&json!(2), &json!(0), &json!(true))
    );
    let (a, b) = (&shown["variations"][0], &shown["variations"][1]);
    assert_eq!(a["wanted"], json!({"lowest": 90.0, "highest": 100.0}));
    assert_eq!(b["seen"], json!({"lowest": 0.0, "highest": 10.0}));
    assert_eq!((&a["calls"], &b["calls"], &b["measured"]), (&json!(1800), &json!(200), &json!(10.0)));
    assert_eq!((&a["healthy_targets"], &a["total_targets"]), (&json!(1), &json!(2)));
    assert_eq!(shown["by_router"].as_array().unwrap().len(), 2);
    let page = world.get("/api/v1/services?limit=1").await.ok().json();
    assert_eq!((&page["items"][0]["name"], &page["next"]), (&json!("checkout"), &Value::Null));
    let unknown = world.get("/api/v1/services/nothing").await;
    assert_eq!(unknown.problem(), "404 /problems/unknown-service: no router leads a service nothing");
    world.stop().await;
}

#[tokio::test]
async fn what_changes_is_in_the_trail_and_what_does_not_is_stored_once() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    tell(&world, &report(&id, &[led([10_000, 0])])).await.ok();
    for _ in 0..3 {
        tell(&world, &report(&id, &[led([9000, 1000])])).await.ok();
    }
    let mut down = report(&id, &[led([9000, 1000])]);
    down["services"][0]["variations"][1]["targets"]["healthy"] = json!(0);
    down["drifts"] = json!([
        {"number": 7, "service": "checkout", "wanted": "A 90 %, B 10 %", "seen": "A 50 %, B 50 %", "then": "repaired"},
    ]);
    for _ in 0..3 {
        tell(&world, &down).await.ok();
    }
    down["router"]["phase"] = json!("paused");
    down["router"]["trouble"] = json!("it is left alone");
    tell(&world, &down).await.ok();
    tell(&world, &report(&id, &[])).await.ok();
    insta::assert_snapshot!(events(&world).await.replace(&id, "ID"), @r#"
    {"event":"router_stood","phase":"in_force","reached":true,"router":"ID"}
    {"event":"traffic_shifted","from":{},"generation":1,"router":"ID","seen":{"A":100.0,"B":0.0},"service":"checkout","to":{"A":100.0,"B":0.0}}
    {"event":"traffic_shifted","from":{"A":100.0,"B":0.0},"generation":1001,"router":"ID","seen":{"A":90.0,"B":10.0},"service":"checkout","to":{"A":90.0,"B":10.0}}
    {"event":"variation_unhealthy","router":"ID","service":"checkout","targets":1,"variation":"B"}
    {"event":"router_drift","router":"ID","seen":"A 50 %, B 50 %","service":"checkout","then":"repaired","wanted":"A 90 %, B 10 %"}
    {"event":"router_stood","phase":"paused","reached":true,"router":"ID","trouble":"it is left alone"}
    {"event":"router_stood","phase":"in_force","reached":true,"router":"ID"}
    {"event":"traffic_shifted","from":{"A":90.0,"B":10.0},"generation":1001,"router":"ID","seen":{},"service":"checkout","to":{}}
    "#);
    let shown = world.get(&format!("/api/v1/routers/{id}")).await.ok().json();
    assert_eq!((&shown["drifts"], &shown["led"]), (&json!(1), &json!([])));
    world.stop().await;
}

#[tokio::test]
async fn standing_shares_are_those_last_confirmed_outside_a_release() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    let mut standing = led([10_000, 0]);
    standing["standing"] = json!(true);
    tell(&world, &report(&id, &[standing.clone()])).await.ok();
    // In a release, and then at the end of it, but not seen yet.
    tell(&world, &report(&id, &[led([5000, 5000])])).await.ok();
    let mut unseen = led([0, 10_000]);
    unseen["standing"] = json!(true);
    unseen["variations"][1]["seen"] = json!(5000);
    unseen["variations"][0]["seen"] = json!(5000);
    tell(&world, &report(&id, &[unseen.clone()])).await.ok();
    let world = world.restart().await;
    let stands = async |world: &World| {
        let shown = world.get("/api/v1/services/checkout").await.ok().json();
        shown["by_router"][0]["stands"]["shares"].clone()
    };
    assert_eq!(stands(&world).await, json!({"A": 100.0, "B": 0.0}));
    unseen["variations"][0]["seen"] = json!(0);
    unseen["variations"][1]["seen"] = json!(10_000);
    tell(&world, &report(&id, &[unseen])).await.ok();
    assert_eq!(stands(&world).await, json!({"A": 0.0, "B": 100.0}));
    world.stop().await;
}

#[tokio::test]
async fn an_order_is_handed_out_until_it_is_answered_also_after_a_restart() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    tell(&world, &report(&id, &[led([10_000, 0])])).await.ok();
    let body = json!({"by": "ada", "config": "/etc/nginx/new.conf"});
    let order = world.post(&format!("/api/v1/routers/{id}/check"), &body).await.ok().json();
    assert_eq!(
        (&order["state"], &order["by"], &order["what"]),
        (&json!("open"), &json!("operator:ada"), &json!("check"))
    );
    let number = order["number"].clone();
    let world = world.restart().await;
    // Known already: the answer comes at once all the same, for the order waits.
    let told = world.post("/traffic?wait=30s", &report(&id, &[led([10_000, 0])])).await.ok().json();
    let handed = &told["orders"][0];
    assert_eq!(
        (&handed["number"], &handed["what"], &handed["config"]),
        (&number, &json!("check"), &json!("/etc/nginx/new.conf"))
    );
    let mut answered = report(&id, &[led([10_000, 0])]);
    answered["answers"] = json!([{"number": number, "ok": false, "text": "nginx: [emerg] unknown directive\nline 3", "left_over": ["cm_old"]}]);
    for _ in 0..2 {
        assert_eq!(tell(&world, &answered).await.ok().text(), "{}\n");
    }
    let path = format!("/api/v1/routers/{id}/orders/{number}");
    let shown = world.get(&path).await.ok().json();
    assert_eq!((&shown["state"], &shown["answer"]["left_over"]), (&json!("failed"), &json!(["cm_old"])));
    assert_eq!(shown["answer"]["text"], json!("nginx: [emerg] unknown directive\nline 3"));
    let answers = events(&world).await.matches("router_answered").count();
    assert_eq!(answers, 1);
    world.stop().await;
}

#[tokio::test]
async fn waiting_router_report_gets_order_and_operator_gets_result() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    let known = report(&id, &[led([10_000, 0])]);
    tell(&world, &known).await.ok();
    let agent = async {
        let asked = world.post("/traffic?wait=60s", &known).await.ok().json();
        let mut answered = known.clone();
        answered["answers"] =
            json!([{"number": asked["orders"][0]["number"], "ok": true, "text": "reloaded"}]);
        tell(&world, &answered).await.ok();
        asked["orders"][0]["what"].clone()
    };
    let operator = async {
        let path = format!("/api/v1/routers/{id}/reload?wait=60s");
        world.post(&path, &json!({})).await.ok().json()
    };
    let both = futures_util::future::join(agent, operator);
    let (what, order) = tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    assert_eq!(
        (what, &order["state"], &order["answer"]["text"]),
        (json!("reload"), &json!("done"), &json!("reloaded"))
    );
    world.stop().await;
}

#[tokio::test]
async fn a_service_is_retired_at_each_of_its_routers_unless_a_release_is_in_hand() {
    let world = World::start().await;
    let (one, other) = (router(&world, "edge-1").await, router(&world, "edge-2").await);
    let mut standing = led([10_000, 0]);
    standing["standing"] = json!(true);
    tell(&world, &report(&one, &[standing.clone()])).await.ok();
    tell(&world, &report(&other, &[led([10_000, 0])])).await.ok();
    let refused = world.post("/api/v1/services/checkout/retire", &json!({})).await;
    assert_eq!(
        refused.problem().replace(&other, "ID"),
        "409 /problems/in-release: a release of checkout is in hand at ID: end it or take it back first"
    );
    tell(&world, &report(&other, &[standing])).await.ok();
    let orders = world.post("/api/v1/services/checkout/retire", &json!({"by": "ada"})).await.ok().json();
    let what: Vec<&Value> = orders.as_array().unwrap().iter().map(|order| &order["what"]).collect();
    assert_eq!(what, [&json!("retire"), &json!("retire")]);
    let adopted = world.post(&format!("/api/v1/routers/{one}/adopt"), &json!({"service": "old"})).await.ok();
    assert_eq!(adopted.json()["service"], json!("old"));
    world.stop().await;
}

#[tokio::test]
async fn who_leads_no_router_and_what_is_no_report_is_refused() {
    let world = World::start().await;
    let child = world.child().await;
    let refused = tell(&world, &report(&child, &[])).await;
    assert_eq!((refused.status, refused.text()), (404, format!("child {child} leads no router\n")));
    assert_eq!(tell(&world, &report("nobody", &[])).await.status, 404);
    let id = router(&world, "edge-1").await;
    let mut twice = led([10_000, 0]);
    twice["variations"][1]["name"] = json!("A");
    twice["led"]["variations"][1]["name"] = json!("A");
    let mut other = led([10_000, 0]);
    other["led"]["variations"][1]["name"] = json!("C");
    let mut injected = led([10_000, 0]);
    injected["name"] = json!("a;b {");
    let mut controls = led([10_000, 0]);
    controls["led"]["variations"][0]["targets"] = json!(["127.0.0.1:1\n"]);
    let many: Vec<Value> = (0..257)
        .map(|at| {
            let mut one = led([10_000, 0]);
            one["name"] = json!(format!("s{at}"));
            one
        })
        .collect();
    for (services, why) in [
        (vec![led([9000, 999])], "`services.variations.wanted` of checkout come to 9999"),
        (vec![led([10_000, 0]), led([10_000, 0])], "`services` has two of the name checkout"),
        (vec![twice], "`services.variations` of checkout has a name twice"),
        (vec![other], "`services.variations` of checkout must name those of `led`"),
        (vec![injected], "`services.name` is \"a;b {\""),
        (vec![controls], "`services.led.variations.targets` has a control character"),
        (many, "`services` holds at most 256 entries"),
    ] {
        let refused = tell(&world, &report(&id, &services)).await;
        assert_eq!(refused.status, 400, "{why}");
        assert!(refused.text().starts_with(why), "{}", refused.text());
    }
    let none = world.get("/api/v1/routers/nobody").await;
    assert_eq!(
        none.problem(),
        "404 /problems/unknown-router: there is no router nobody: no child of this id leads one"
    );
    world.stop().await;
}

#[tokio::test]
async fn what_one_router_may_have_stored_is_bounded() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    let renamed = |at: usize| {
        let mut service = led([10_000, 0]);
        service["name"] = json!(format!("s{at}"));
        service
    };
    let mut refused = None;
    for round in 0..8 {
        let services: Vec<Value> = (0..200).map(|at| renamed(round * 200 + at)).collect();
        let answer = tell(&world, &report(&id, &services)).await;
        if answer.status != 200 {
            refused = Some((answer.status, answer.text()));
            break;
        }
    }
    let limit = "changes of a router in a short time: the limit of 1024 is reached\n".to_owned();
    assert_eq!(refused, Some((503, limit)));
    // An operator's orders too.
    let mut orders = Vec::new();
    for _ in 0..17 {
        orders.push(world.post(&format!("/api/v1/routers/{id}/repair"), &json!({})).await.status);
    }
    assert_eq!((orders[15], orders[16]), (200, 503));
    world.stop().await;
}

#[tokio::test]
async fn a_router_is_forgotten_with_its_child() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    tell(&world, &report(&id, &[led([10_000, 0])])).await.ok();
    world.call("DELETE", &format!("/api/v1/children/{id}")).await.ok();
    assert_eq!(world.get(&format!("/api/v1/routers/{id}")).await.status, 404);
    let world = world.restart().await;
    assert_eq!(world.get("/api/v1/routers").await.ok().json()["items"], json!([]));
    assert_eq!(world.get("/api/v1/services/checkout").await.status, 404);
    world.stop().await;
}

/// A release of the service whose stable variation is at these targets.
pub fn release(id: &str, stable: &str, more: &str) -> String {
    format!(
        "id: {id}\nname: {id}\ntype: strategy\nservices:\n  - name: checkout\n    ports: [{{port: 8080, protocol: HTTP}}]\n{more}    \
         variations:\n      - {{name: A, targets: [{stable}]}}\n      - {{name: B, targets: [\"127.0.0.1:9111\"]}}\n\
         strategy: canary-10-25-50-100\n"
    )
}

#[tokio::test]
async fn a_release_begins_with_what_serves_now_unless_it_says_otherwise() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    let mut standing = led([10_000, 0]);
    standing["standing"] = json!(true);
    tell(&world, &report(&id, &[standing])).await.ok();
    let other = release("other", "\"127.0.0.1:9999\"", "");
    for dry_run in ["/release?dry_run=true", "/release"] {
        let refused = world.submit_to(dry_run, &other).await;
        assert_eq!(
            refused.problem().replace(&id, "ID"),
            "409 /problems/other-base: the stable variation of checkout is A at 127.0.0.1:9999, and what serves now at router ID is \
             A at 127.0.0.1:9101, 127.0.0.1:9102: name that as the first variation, or say base: replace"
        );
    }
    // In whatever order.
    world.submit(&release("same", "\"127.0.0.1:9102\", \"127.0.0.1:9101\"", "")).await.ok();
    // What serves once that is over isn't known yet.
    world.submit(&other).await.ok();
    let replaced = release("replaced", "\"127.0.0.1:9998\"", "    base: replace\n");
    world.submit(&replaced).await.ok();
    world.stop().await;
}

#[tokio::test]
async fn port_of_another_program_is_taken_over_while_that_is_a_target() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    let mut told = report(&id, &[]);
    let text = release("r", "\"127.0.0.1:8080\"", "");
    for takes_over in [false, true] {
        let any = json!({"first": 1, "last": 65_535, "protocol": "HTTP", "takes_over": takes_over});
        told["router"]["ports"] = json!([any]);
        tell(&world, &told).await.ok();
        let answer = world.submit_to("/release?dry_run=true", &text).await;
        if takes_over {
            let warnings = answer.ok().json()["warnings"].clone();
            let mut codes = warnings.as_array().unwrap().iter().map(|warning| &warning["code"]);
            assert!(codes.any(|code| code == "taken-over"), "{warnings:#}");
        } else {
            assert!(answer.problem().contains("is a target: calls would go round"));
        }
    }
    world.stop().await;
}

/// A router at which either takes calls until the other program lets go.
#[tokio::test]
async fn a_port_that_is_taken_over_by_a_socket_is_no_target_and_shares_are_proven_once_nobody_else_takes_calls()
 {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    let mut told = report(&id, &[]);
    let (any, one) = (
        json!({"first": 1, "last": 65_535, "protocol": "HTTP", "takes_over": true}),
        json!({"first": 8080, "last": 8080, "takes_over": true, "by_socket": true}),
    );
    for (ports, target, expected) in [
        (json!([one]), "127.0.0.1:9101", Ok("by a socket")),
        (json!([one, any]), "127.0.0.1:9101", Ok("by a socket")),
        (json!([one, any]), "127.0.0.1:8080", Ok("by rules of nftables")),
        (json!([one]), "127.0.0.1:8080", Err("is a target: calls would go round")),
    ] {
        told["router"]["ports"] = ports;
        tell(&world, &told).await.ok();
        let text = release("r", &format!("{target:?}"), "");
        let answer = world.submit_to("/release?dry_run=true", &text).await;
        match expected {
            Ok(by) => {
                let warnings = answer.ok().json()["warnings"].clone();
                let mut found = warnings.as_array().unwrap().iter().filter(|one| one["code"] == "taken-over");
                let message = found.next().unwrap()["message"].as_str().unwrap();
                assert!(message.contains(by), "{target}: {message}");
            }
            Err(why) => assert!(answer.problem().contains(why), "{target}"),
        }
    }

    let same = release("r", "\"127.0.0.1:9101\", \"127.0.0.1:9102\"", "");
    for is_shared in [true, false] {
        let mut taken = led([10_000, 0]);
        taken["led"]["ports"] = json!([{"port": 8080, "protocol": "HTTP", "at": 8080, "shared": is_shared}]);
        let mut report = report(&id, &[taken]);
        report["router"]["ports"] = json!([one]);
        tell(&world, &report).await.ok();
        let shown = world.get("/api/v1/services/checkout").await.ok().json();
        assert_eq!(shown["unproven"], u32::from(is_shared));
        assert_eq!(shown["by_router"][0]["proven"], !is_shared);
        assert_eq!(shown["by_router"][0]["led"]["ports"][0]["shared"] == true, is_shared);
        let planned = world.submit_to("/api/v1/plan", &same).await.ok().json();
        let mut codes = planned["warnings"].as_array().unwrap().iter().map(|warning| &warning["code"]);
        assert_eq!(codes.any(|code| code == "port-shared"), is_shared, "{planned:#}");
    }
    world.stop().await;
}

#[tokio::test]
async fn why_a_router_takes_no_calls_over_is_said_of_it_and_where_they_are_asked_for() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    let mut told = report(&id, &[]);
    told["router"]["ports"] = json!([{"first": 8000, "last": 8000, "protocol": "HTTP"}]);
    told["router"]["takeover_trouble"] = json!("nft can't be run; install nftables");
    tell(&world, &told).await.ok();
    // What is told is kept.
    let world = world.restart().await;
    let shown = world.get(&format!("/api/v1/routers/{id}")).await.ok().json();
    assert_eq!(shown["takeover_trouble"], "nft can't be run; install nftables");
    let text = release("r", "\"127.0.0.1:8080\"", "");
    let refused = world.submit_to("/release?dry_run=true", &text).await.problem().replace(&id, "ID");
    assert_eq!(
        refused,
        "422 /problems/port-taken: checkout is to have port 8080 at router ID: it takes HTTP at 8000, and can't take calls over at \
         ports of other programs: nft can't be run; install nftables"
    );
    // Who plans hears it before anything is refused.
    let planned = world.submit_to("/api/v1/plan", &text).await.ok().json();
    let warning =
        planned["warnings"].as_array().unwrap().iter().find(|warning| warning["code"] == "port-taken");
    let message = warning.unwrap()["message"].as_str().unwrap();
    assert_eq!(
        message,
        "checkout can't have port 8080 at a router: it takes HTTP at 8000, and can't take calls over at ports of other programs: nft \
         can't be run; install nftables"
    );
    let lengthy = json!("n".repeat(1_001));
    told["router"]["takeover_trouble"] = lengthy;
    assert_eq!(tell(&world, &told).await.status, 400);
    told["router"].as_object_mut().unwrap().remove("takeover_trouble");
    tell(&world, &told).await.ok();
    let shown = world.get(&format!("/api/v1/routers/{id}")).await.ok().json();
    assert_eq!(shown.get("takeover_trouble"), None);
    world.stop().await;
}

#[tokio::test]
async fn calls_go_round_where_a_router_listens_and_not_where_it_takes_calls_over() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    let mut taken_over = led([10_000, 0]);
    taken_over["led"]["ports"] = json!([{"port": 8080, "protocol": "HTTP", "at": 19_000}]);
    tell(&world, &report(&id, &[taken_over])).await.ok();
    let at = |target: &str| {
        let text = release("r", "TARGET", "").replace("checkout", "shop").replace("8080", "8090");
        text.replace("TARGET", &format!("\"{target}\""))
    };
    world.submit_to("/release?dry_run=true", &at("127.0.0.1:8080")).await.ok();
    let refused = world.submit_to("/release?dry_run=true", &at("127.0.0.1:19000")).await.problem();
    assert!(refused.contains("service checkout has it, and 127.0.0.1:19000 is a target"), "{refused}");
    world.stop().await;
}

#[tokio::test]
async fn release_at_unavailable_router_port_is_refused_naming_its_user() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    let mut told = report(&id, &[led([10_000, 0])]);
    told["router"]["ports"] =
        json!([{"first": 8000, "last": 8099}, {"first": 9101, "last": 9101, "protocol": "HTTP"}]);
    tell(&world, &told).await.ok();
    let at = |port: u16, target: &str| {
        let text = release("r", "TARGET", "").replace("checkout", "shop").replace("8080", &port.to_string());
        text.replace("TARGET", &format!("\"{target}\""))
    };
    for (text, why) in [
        (at(8080, "10.0.0.1:9"), "shop is to have port 8080 at router ID: service checkout has it"),
        (at(8100, "10.0.0.1:9"), "shop is to have port 8100 at router ID: it takes HTTP at 8000-8099, 9101"),
        (
            at(8081, "127.0.0.1:8080"),
            "shop is to have port 8080 at router ID: service checkout has it, and 127.0.0.1:8080 is a target: calls would go round",
        ),
        (
            at(9101, "10.0.0.1:9"),
            "shop is to have port 9101 at router ID: it is the target 127.0.0.1:9101 of service checkout: calls would go round",
        ),
    ] {
        for path in ["/release?dry_run=true", "/release"] {
            let refused = world.submit_to(path, &text).await.problem().replace(&id, "ID");
            assert_eq!(refused, format!("422 /problems/port-taken: {why}"));
        }
    }
    world.submit(&at(8082, "10.0.0.1:9")).await.ok();
    // What is told is kept.
    let world = world.restart().await;
    let refused = world.submit_to("/release", &at(8100, "10.0.0.1:9").replace("id: r", "id: r2")).await;
    assert!(refused.problem().contains("it takes HTTP at 8000-8099, 9101"), "{}", refused.problem());
    world.stop().await;
}

#[tokio::test]
async fn tls_passes_unopened_at_ports_of_its_own() {
    let world = World::start().await;
    let id = router_of(&world, "edge-1", "embedded").await;
    let mut passing = led([10_000, 0]);
    passing["led"].as_object_mut().unwrap().remove("sticky");
    passing["led"]["ports"] =
        json!([{"port": 443, "protocol": "HTTPS", "hosts": ["shop.example"], "tls": "pass"}]);
    let mut told = report(&id, &[passing]);
    told["router"]["kind"] = json!("embedded");
    let passed = |port: u16| json!({"first": port, "last": port, "protocol": "HTTPS", "passes": true});
    let open = |port: u16| json!({"first": port, "last": port, "protocol": "HTTP"});
    told["router"]["ports"] = json!([open(80), open(8443), passed(443), passed(444)]);
    tell(&world, &told).await.ok();
    let of = |port: &str| {
        let text = release("r", "\"10.0.0.1:9\"", "").replace("checkout", "wares");
        text.replace("port: 8080, protocol: HTTP", port)
    };
    for (port, why) in [
        ("port: 443, protocol: HTTP", "port 443 at router ID: it takes HTTP at 80, 8443"),
        ("port: 443, protocol: HTTPS", "port 443 at router ID: it takes HTTPS at 80, 8443"),
        (
            "port: 8443, protocol: HTTPS, tls: pass",
            "port 8443 at router ID: it takes HTTPS with tls: pass at 443, 444",
        ),
        (
            "port: 80, protocol: HTTPS, hosts: [a.example], tls: pass",
            "port 80 at router ID: it takes HTTPS with tls: pass at 443, 444",
        ),
        // A host is one service's wherever TLS passes.
        (
            "port: 444, protocol: HTTPS, hosts: [a.example, shop.example], tls: pass",
            "port 444 at router ID: service checkout has shop.example at port 443",
        ),
    ] {
        let refused = world.submit_to("/release", &of(port)).await.problem().replace(&id, "ID");
        assert_eq!(refused, format!("422 /problems/port-taken: wares is to have {why}"), "{port}");
    }
    for port in [
        "port: 80, protocol: HTTP",
        "port: 8443, protocol: HTTPS",
        "port: 443, protocol: HTTPS, tls: pass",
        "port: 444, protocol: HTTPS, tls: pass",
        "port: 443, protocol: HTTPS, hosts: [a.example], tls: pass}, {port: 444, protocol: HTTPS, hosts: [a.example], tls: pass",
    ] {
        world.submit_to("/release?dry_run=true", &of(port)).await.ok();
    }
    world.stop().await;
}

/// A release that waits for another one of its service.
#[tokio::test]
async fn release_at_port_of_queued_release_is_refused_naming_it() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    tell(&world, &report(&id, &[led([10_000, 0])])).await.ok();
    let first = release("first", "\"127.0.0.1:9102\", \"127.0.0.1:9101\"", "");
    world.submit(&first).await.ok();
    let queued = first.replace("first", "second").replace("8080", "8090");
    world.submit(&(queued + "on_conflict: queue\n")).await.ok();
    assert_eq!(world.get("/api/v1/releases/second").await.ok().json()["state"], "Planned");
    let shop = release("r", "\"10.0.0.1:9\"", "").replace("checkout", "shop");
    let at = |port: &str| shop.replace("8080", port);
    for path in ["/release?dry_run=true", "/release"] {
        let refused = world.submit_to(path, &at("8090")).await.problem().replace(&id, "ID");
        let why = "shop is to have port 8090 at router ID: service checkout of release second, which waits for its turn, is to have it";
        assert_eq!(refused, format!("422 /problems/port-taken: {why}"));
    }
    world.submit_to("/release?dry_run=true", &at("8091")).await.ok();
    world.call("POST", "/api/v1/releases/second/abort").await.ok();
    world.submit(&at("8090")).await.ok();
    world.stop().await;
}

/// In the place of a strategy: a stage that no calls are needed for.
const BY_TIME: &str = "stages:\n  - name: half\n    type: Traffic\n    shares: {A: 50, B: 50}\n    \
                       end_conditions: [{name: minDuration, threshold: 1s}]\n    end_action: {onSuccess: rollout}\n";

#[tokio::test]
async fn a_release_that_is_judged_by_calls_is_refused_where_nobody_counts_them() {
    let world = World::start().await;
    let id = router_of(&world, "edge-1", "traefik").await;
    let whole = release("r", "\"127.0.0.1:9101\"", "").replace("strategy: canary-10-25-50-100\n", BY_TIME);
    let by_errors = "    metrics_conditions: [{name: errorRate, threshold: \"<0.02\"}]\n    end_action";
    let counts_none = "counts no calls, by which stage half is judged (metrics_conditions, minCalls, or an analysis of what children report)";
    let tells_no_times = "tells no times of calls, by which stage half is judged (responseTime)";
    for (protocol, more, lacks) in [
        ("TCP", by_errors, counts_none),
        (
            "TCP",
            "    analysis: {duration: 1m, interval: 10s, metrics: [{name: bad, provider: children, metric: errorRate, strategy: CANARY_BASELINE}]}\n    end_action",
            counts_none,
        ),
        (
            "HTTP",
            "    metrics_conditions: [{name: responseTime, compareWith: Median, threshold: \"<20\"}]\n    end_action",
            tells_no_times,
        ),
        (
            "HTTP",
            "    analysis: {duration: 1m, interval: 10s, metrics: [{name: slow, provider: children, metric: responseTime, strategy: CANARY_BASELINE}]}\n    end_action",
            tells_no_times,
        ),
    ] {
        let judged = whole.replace("    end_action", more).replace("HTTP", protocol);
        let refused = world.submit_to("/release?dry_run=true", &judged).await.problem();
        assert_eq!(
            refused.replace(&id, "ID"),
            format!(
                "409 /problems/can-not-lead: router ID is of kind traefik, which {lacks}; service checkout asks for that"
            )
        );
    }
    let tcp = whole.replace("HTTP", "TCP");
    let judged = tcp.replace("threshold: 1s}", "threshold: 1s}, {name: minCalls, threshold: \"50\"}");
    assert!(world.submit_to("/release", &judged).await.problem().contains("stage half is judged"));
    let template = release("r", "\"127.0.0.1:9101\"", "");
    assert!(
        world
            .submit_to("/release?dry_run=true", &template.replace("HTTP", "TCP"))
            .await
            .problem()
            .contains("stage 10 % is judged")
    );
    // Its calls of HTTP are counted, and stages that last so long need nobody's count.
    world.submit_to("/release?dry_run=true", &template).await.ok();
    world.submit_to("/release?dry_run=true", &whole.replace("    end_action", by_errors)).await.ok();
    world.submit(&tcp).await.ok();
    world.stop().await;
}

#[tokio::test]
async fn an_nginx_leads_datagrams_and_counts_connections_alone() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    let template = release("r", "\"127.0.0.1:9101\"", "");
    world.submit_to("/release?dry_run=true", &template.replace("HTTP", "TCP")).await.ok();
    let over_udp = template.replace("HTTP", "UDP");
    let refused = world.submit_to("/release?dry_run=true", &over_udp).await.problem().replace(&id, "ID");
    let why = "409 /problems/can-not-lead: router ID is of kind nginx, which counts no calls";
    assert!(refused.starts_with(why), "{refused}");
    world.submit(&over_udp.replace("strategy: canary-10-25-50-100\n", BY_TIME)).await.ok();
    world.stop().await;
}

#[tokio::test]
async fn a_release_of_what_a_router_cannot_lead_is_refused_by_its_name() {
    let world = World::start().await;
    let id = router_of(&world, "edge-1", "aws_alb").await;
    for protocol in ["TCP", "UDP"] {
        let text = release("r", "\"127.0.0.1:9101\"", "")
            .replace("protocol: HTTP", &format!("protocol: {protocol}"));
        for path in ["/release?dry_run=true", "/release"] {
            assert_eq!(
                world.submit_to(path, &text).await.problem().replace(&id, "ID"),
                format!(
                    "409 /problems/can-not-lead: router ID is of kind aws_alb, which leads no {protocol}; service checkout asks for that"
                )
            );
        }
    }
    // Others lead it, and who isn't meant is not asked.
    let elsewhere = "    routers: {labels: {env: test}}\n";
    let text = release("r", "\"127.0.0.1:9101\"", elsewhere).replace("protocol: HTTP", "protocol: UDP");
    world.submit(&text).await.ok();
    world.stop().await;
}

#[tokio::test]
async fn a_part_of_a_port_is_refused_where_a_router_takes_the_whole_of_it() {
    let world = World::start().await;
    let id = router_of(&world, "edge-1", "embedded").await;
    for part in ["hosts: [shop.example]", "path: /api"] {
        let text = release("r", "\"127.0.0.1:9101\"", "").replace("protocol: HTTP", part);
        assert_eq!(
            world.submit_to("/release", &text).await.problem().replace(&id, "ID"),
            "409 /problems/can-not-lead: router ID is of kind embedded, which takes all calls at a port, whatever their host and path; \
             service checkout asks for that"
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn what_is_asked_of_connections_is_refused_where_a_router_cant_do_it() {
    let world = World::start().await;
    let id = router_of(&world, "edge-1", "haproxy").await;
    for (protocol, keys, lacks) in [
        ("HTTPS, tls: pass", "", "passes no TLS unopened (tls: pass)"),
        ("TCP", "    proxy_protocol: v2\n", "sends targets no PROXY header (proxy_protocol)"),
        (
            "TCP",
            "    drain: 1h\n",
            "isn't told by services how long connections may stay with a variation (drain)",
        ),
    ] {
        let text = release("r", "\"127.0.0.1:9101\"", keys);
        let text = text.replace("protocol: HTTP", &format!("protocol: {protocol}"));
        assert_eq!(
            world.submit_to("/release", &text).await.problem().replace(&id, "ID"),
            format!(
                "409 /problems/can-not-lead: router ID is of kind haproxy, which {lacks}; service checkout asks for that"
            )
        );
    }
    world.stop().await;

    // The proxies of agents can, but for agents of older versions.
    let world = World::start().await;
    let id = router_that_knows(&world, "edge-1", "embedded", &["shares"]).await;
    for (protocol, keys, asked) in [
        ("HTTPS, tls: pass", "", "tls: pass"),
        ("HTTP", "    proxy_protocol: v2\n", "proxy_protocol"),
        ("UDP", "    drain: 1h\n", "drain"),
    ] {
        let text = release("r", "\"127.0.0.1:9101\"", keys);
        let text = text.replace("protocol: HTTP", &format!("protocol: {protocol}"));
        assert_eq!(
            world.submit_to("/release", &text).await.problem().replace(&id, "ID"),
            format!(
                "409 /problems/can-not-lead: router ID is of kind embedded, which an agent of an older version leads, which passes over \
                 {asked} (it doesn't name the feature \"flows\"): update it first; service checkout asks for that"
            )
        );
    }
    let plain = release("r", "\"127.0.0.1:9101\"", "").replace("protocol: HTTP", "protocol: UDP");
    world.submit_to("/release?dry_run=true", &plain).await.ok();
    world.stop().await;

    let world = World::start().await;
    router_of(&world, "edge-2", "embedded").await;
    let text = release("r", "\"127.0.0.1:9101\"", "    proxy_protocol: v2\n    drain: 1h\n");
    let passing = "protocol: HTTPS, hosts: [shop.example], tls: pass";
    world.submit(&text.replace("protocol: HTTP", passing)).await.ok();
    world.stop().await;
}

#[tokio::test]
async fn services_of_releases_share_the_port_of_a_router_by_hosts_and_paths() {
    let world = World::start().await;
    let id = router_of(&world, "edge-1", "custom").await;
    let of = |name: &str, part: &str| {
        let text =
            release(name, "\"10.0.0.1:9\"", "").replace("checkout", name).replace("protocol: HTTP", part);
        text.replace("strategy: canary-10-25-50-100\n", BY_TIME)
    };
    let mut shop = led([10_000, 0]);
    shop["led"]["ports"] =
        json!([{"port": 8080, "protocol": "HTTP", "hosts": ["shop.example"], "path": "/api"}]);
    let mut told = report(&id, &[shop]);
    told["router"]["kind"] = json!("custom");
    tell(&world, &told).await.ok();
    let refused = |answer: String| answer.replace(&id, "ID");
    let twice = world.submit_to("/release", &of("a", "hosts: [shop.example, a.example], path: /api")).await;
    let why = "a is to have port 8080 at router ID: service checkout has shop.example/api at port 8080";
    assert_eq!(refused(twice.problem()), format!("422 /problems/port-taken: {why}"));
    let https = world.submit_to("/release", &of("a", "protocol: HTTPS, hosts: [a.example]")).await;
    assert_eq!(refused(https.problem()), format!("422 /problems/port-taken: {why}"));
    world.submit(&of("a", "hosts: [shop.example]")).await.ok();
    world.submit(&of("b", "path: /api")).await.ok();
    // What is told is kept.
    let world = world.restart().await;
    let twice = world.submit_to("/release", &of("c", "hosts: [shop.example], path: /api")).await;
    assert_eq!(refused(twice.problem()), format!("422 /problems/port-taken: {}", why.replacen('a', "c", 1)));
    world.stop().await;
}

#[tokio::test]
async fn traffic_view_shows_shares_history_and_router_trouble() {
    let world = World::start().await;
    let id = router(&world, "edge-1").await;
    world.submit(&release("r1", "\"127.0.0.1:9101\"", "")).await.ok();
    let with = |shares: [u16; 2], offer: &str| {
        let mut service = led(shares);
        service["offer"] = json!(offer);
        service
    };
    tell(&world, &report(&id, &[with([9000, 1000], "r1")])).await.ok();
    let mut wrong = report(&id, &[with([7500, 2500], "r1.2")]);
    wrong["router"]["reached"] = json!(false);
    wrong["router"]["trouble"] = json!("no answer within 2 s");
    tell(&world, &wrong).await.ok();
    let shown = world.get("/api/v1/releases/r1/traffic?limit=1").await.ok().json();
    let service = &shown["services"][0];
    assert_eq!((&service["service"], &service["routers"][0]["release"]), (&json!("checkout"), &json!("r1")));
    assert_eq!(service["variations"][1]["wanted"], json!({"lowest": 25.0, "highest": 25.0}));
    let newest = &shown["history"][0];
    assert_eq!(
        (&newest["from"], &newest["to"], &newest["by"], &newest["router"]),
        (&json!({"A": 90.0, "B": 10.0}), &json!({"A": 75.0, "B": 25.0}), &json!("r1.2"), &json!(id))
    );
    assert_eq!(newest["measured"]["variations"]["B"], json!({"calls": 100, "errors": 2, "share": 10.0}));
    let next = shown["next"].as_str().unwrap();
    let before = world.get(&format!("/api/v1/releases/r1/traffic?after={next}")).await.ok().json();
    assert_eq!((before["history"].as_array().unwrap().len(), &before["next"]), (1, &Value::Null));
    assert_eq!(before["history"][0]["from"], json!({}));
    let children = world.get("/api/v1/releases/r1/children").await.ok().json();
    let waits = children["items"][0]["waits_for"].as_str().unwrap();
    assert!(waits.ends_with("; its router can't be read: no answer within 2 s"), "{waits}");
    let trail = world.get("/api/v1/audit?release=r1&limit=1000").await.ok().text();
    assert_eq!(trail.matches("traffic_shifted").count(), 2);
    let metrics = world.get("/metrics").await.ok().text();
    for line in [
        "choirmaster_routers{phase=\"in_force\"} 1",
        "choirmaster_routers_away 1",
        "choirmaster_service_wanted_ratio{service=\"checkout\",variation=\"B\"} 0.25",
        "choirmaster_service_measured_ratio{service=\"checkout\",variation=\"B\"} 0.1",
        "choirmaster_service_healthy_targets{service=\"checkout\",variation=\"A\"} 2",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    let unknown = world.get("/api/v1/releases/r2/traffic").await;
    assert_eq!(unknown.status, 404);
    world.stop().await;
}
