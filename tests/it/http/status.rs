//! How the manager stands, at a glance.

use std::time::Duration;

use engine::view::MAX_NAMED;
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};

use super::{
    tenants::Shared,
    traffic::{led, report, router, tell},
};
use crate::{
    deadline::until,
    virtual_time::VirtualTime,
    world::{STAGE, World, strategy},
};

const STATUS: &str = "/api/v1/status";

/// Severity, what it is about, text and help of each item, but for the disk of whoever runs the tests.
fn items(status: &Value) -> String {
    let part = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let line = |item: &Value| {
        let of = |name: &str| part(item, name);
        format!("{} {} {}: {} → {}\n", of("severity"), of("about"), of("id"), of("text"), of("help"))
    };
    let all = status["items"].as_array().unwrap().iter().map(line);
    all.filter(|line| !line.contains("of its disk is free")).collect()
}

/// The ids of the items about something.
fn ids<'s>(status: &'s Value, about: &str) -> Vec<&'s str> {
    let items = status["items"].as_array().unwrap().iter();
    items.filter(|item| item["about"] == about).map(|item| item["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn nothing_is_urgent_where_all_is_well() {
    let world = World::start().await;
    world.child().await;
    world.submit(&strategy("a")).await.ok();
    let status = world.get(STATUS).await.ok().json();
    assert_eq!(items(&status), "", "{status:#}");
    assert_eq!((&status["state"], &status["parent"]), (&json!("serving"), &Value::Null));
    let store = &status["store"];
    assert_eq!((&store["kind"], &store["writable"]), (&json!("sqlite"), &json!(true)));
    let (free, total) = (store["disk_free"].as_u64().unwrap(), store["disk_total"].as_u64().unwrap());
    assert!(0 < free && free < total, "{store}");
    assert_eq!(status["children"], json!({"known": 1, "silent": 0}));
    assert_eq!(status["routers"], json!({"known": 0, "troubled": 0}));
    let releases = &status["releases"];
    assert_eq!(releases["open"], json!({"Running": 1}));
    assert_eq!((&releases["running"][0]["id"], &releases["more_running"]), (&json!("a"), &json!(0)));
    for time in ["since", "checked"] {
        status[time].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    }
    world.stop().await;
}

#[tokio::test]
async fn releases_that_want_somebody_come_before_those_that_run_the_most_urgent_first() {
    let world = World::with(|options| options.rules.undo_deadline = Duration::from_millis(1)).await;
    let one = world.child().await;
    world.child().await;
    let waves = "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave}\n";
    world.submit(&(strategy("waves") + waves)).await.ok();
    let (_, offer) = world.poll(&one).await;
    world.run(&one, &offer).await;
    world.submit(&strategy("next")).await.ok();
    let status = world.get(STATUS).await.ok().json();
    let text = items(&status);
    assert!(text.starts_with("action release waves: waits for approval of wave 2 of 2: "), "{text}");
    assert!(text.ends_with(" → choirmaster release approve waves\n"), "{text}");
    let running = &status["releases"]["running"];
    assert_eq!((&running[0]["id"], &running[1]), (&json!("next"), &Value::Null), "{running:#}");

    world.call("POST", "/api/v1/releases/waves/pause").await.ok();
    let text = items(&world.get(STATUS).await.ok().json());
    assert!(text.ends_with(" → choirmaster release resume waves\n"), "{text}");

    // The one that ran the new version never proves that it is back.
    world.call("POST", "/api/v1/releases/waves/abort").await.ok();
    let unproven =
        |status: &Value| ids(status, "release") == ["waves"] && status["items"][0]["severity"] == "critical";
    let status = world.until(STATUS, unproven).await;
    let text = items(&status);
    insta::assert_snapshot!(text.trim_end(), @"critical release waves: its rollback is not proven: 1 agent has not shown that the base version runs again → choirmaster release show waves");
    let open: u64 =
        status["releases"]["open"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(open, 1, "it is over: {status:#}");
    world.stop().await;
}

#[tokio::test]
async fn routers_come_by_what_is_the_matter_with_them() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let names = ["away", "left", "fine", "repaired", "idle"];
    let mut known = Vec::new();
    for name in names {
        known.push(router(&world, name).await);
    }
    let said = |at: usize, change: Value| {
        let mut body = report(&known[at], &[led([9000, 1000])]);
        for (key, value) in change.as_object().unwrap() {
            body["router"][key] = value.clone();
        }
        body
    };
    tell(&world, &said(0, json!({"reached": false, "trouble": "connection refused"}))).await.ok();
    tell(&world, &said(1, json!({"phase": "paused", "trouble": "it is left alone, and differs: port 8080"})))
        .await
        .ok();
    tell(&world, &said(2, json!({}))).await.ok();
    // One that was never read has nothing to be read for.
    let mut idle = said(4, json!({"phase": "idle", "reached": false}));
    idle["services"] = json!([]);
    tell(&world, &idle).await.ok();
    // How often one was repaired is not kept at once.
    let repaired = async || {
        tell(&world, &said(3, json!({"repairs": 2}))).await.ok();
        world.get(STATUS).await.ok().json()
    };
    let status = until("the routers", repaired, |status| status["routers"]["troubled"] == 3).await;
    let mut text = items(&status);
    for (id, name) in known.iter().zip(names) {
        text = text.replace(id, name);
    }
    insta::assert_snapshot!(text.trim_end(), @r"
    critical router away: it can't be read: connection refused → choirmaster router show away
    action router left: it differs from what is wanted: it is left alone, and differs: port 8080 → choirmaster router repair left
    warning router repaired: it was changed and put right 2 times within an hour → choirmaster router show repaired
    ");
    assert_eq!(status["routers"]["known"], 5);
    // What is over is told no more, however long ago all were looked at.
    tell(&world, &said(0, json!({}))).await.ok();
    let status = world.get(STATUS).await.ok().json();
    assert_eq!(ids(&status, "router"), [&known[1], &known[3]], "{status:#}");
    world.stop().await;
}

/// An agent that takes whole releases, somewhere.
async fn agent(world: &World, id: &str) -> String {
    let poll =
        |id: &str| json!({"id": id, "kind": "agent", "name": "edge", "capabilities": {"leads": "whole"}});
    let answer = world.post("/poll", &poll(id)).await.ok().json();
    let id = answer["id"].as_str().unwrap().to_owned();
    world.post("/poll", &poll(&id)).await.ok();
    id
}

#[tokio::test]
async fn a_silent_child_is_told_until_it_calls_again_or_is_cordoned() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let (one, two) = (agent(&world, "").await, agent(&world, "").await);
    // Who is in a stage of a plain agent calls nobody until that is over.
    let busy = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.poll(&busy).await;
    world.fetch(&busy, "a").await.ok();
    let status = world.until(STATUS, |status| status["children"]["silent"] == 2).await;
    assert_eq!(status["children"]["known"], 3);
    assert_eq!(ids(&status, "child").len(), 2, "{status:#}");
    let text = items(&status);
    let begin = format!("critical child {two}: nothing was heard of it for 1m");
    let end = format!("; it has a part in release a → choirmaster children show {two}\n");
    assert!(text.contains(&begin) && text.contains(&end), "{text}");

    agent(&world, &one).await;
    let status = world.get(STATUS).await.ok().json();
    assert_eq!(ids(&status, "child"), [&two], "{status:#}");
    world.call("POST", &format!("/api/v1/children/{two}/cordon")).await.ok();
    assert_eq!(ids(&world.get(STATUS).await.ok().json(), "child"), [""; 0]);
    world.until(STATUS, |status| status["children"]["silent"] == 1).await;
    world.stop().await;
}

#[tokio::test]
async fn of_very_many_silent_children_those_are_named_that_fell_silent_last() {
    let _time = VirtualTime::begin();
    let world = World::start().await;
    let mut all = Vec::new();
    for _ in 0..MAX_NAMED + 3 {
        all.push(agent(&world, "").await);
    }
    let silent = all.len();
    let status = world.until(STATUS, |status| status["children"]["silent"] == silent).await;
    let named = ids(&status, "child");
    assert_eq!((named.len(), &status["more_items"]), (MAX_NAMED, &json!(3)));
    assert!(all[3..].iter().all(|id| named.contains(&id.as_str())), "{status:#}");
    world.stop().await;
}

#[tokio::test]
async fn a_manager_above_that_is_away_and_callers_that_nobody_knows_are_told() {
    let parent = crate::tree::levels::parent("http://127.0.0.1:1".to_owned());
    let world = World::with(|options| options.parent = Some(parent)).await;
    assert_eq!(world.report("stranger", "a", STAGE, 4).await.status, 404);
    let status = world.until(STATUS, |status| status["parent"]["answers"] == false).await;
    insta::assert_snapshot!(items(&status).trim_end(), @r"
    critical parent : the manager above does not answer, and never did since this manager started; 0 results wait for it → choirmaster status --url PARENT
    warning callers : an id calls that is not known here → choirmaster children unknown
    ");
    world.stop().await;
}

#[tokio::test]
async fn a_store_that_takes_nothing_is_told_and_nothing_else_is_read() {
    let world = World::start().await;
    world.child().await;
    let mut other = SqliteConnection::connect(&world.store()).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let status = world.until(STATUS, |status| status["store"]["writable"] == false).await;
    let first = &status["items"][0];
    assert_eq!((&first["severity"], &first["about"]), (&json!("critical"), &json!("store")), "{status:#}");
    assert_eq!((&status["releases"], &status["children"]), (&Value::Null, &Value::Null), "{status:#}");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let status = world.until(STATUS, |status| status["store"]["writable"] == true).await;
    assert_eq!(items(&status), "", "{status:#}");
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_is_told_of_what_is_its_own() {
    let shared = Shared::start().await;
    let own = shared.child_of("acme").await;
    shared.child_of("umbra").await;
    let router = shared.router_of("acme", "nginx", &json!([])).await;
    let other = shared.router_of("umbra", "nginx", &json!([])).await;
    for id in [&router, &other] {
        let body = json!({"id": id, "router": {"kind": "nginx", "phase": "superseded", "reached": true}});
        shared.world.post("/traffic", &body).await.ok();
    }
    for (who, id) in [("ann", "mine"), ("uma", "theirs")] {
        shared.submit(who, &strategy(id)).await.ok();
        shared.call(who, "POST", &format!("/api/v1/releases/{id}/pause")).await.ok();
    }
    let both = |status: &Value| status["routers"]["troubled"] == 2;
    let ask = async || shared.get("root", STATUS).await.ok().json();
    let whole = until(STATUS, ask, both).await;
    assert_eq!(ids(&whole, "router").len(), 2);
    assert_eq!(ids(&whole, "release"), ["~acme~mine", "~umbra~theirs"]);
    let status = shared.get("ann", STATUS).await.ok().json();
    assert_eq!((&status["store"], &status["parent"]), (&Value::Null, &Value::Null));
    assert_eq!((ids(&status, "router"), ids(&status, "release")), (vec![&*router], vec!["mine"]));
    assert_eq!(status["routers"], json!({"known": null, "troubled": 1}));
    assert_eq!(status["children"], json!({"known": 2, "silent": 0}));
    assert_eq!(status["releases"]["open"], json!({"Paused": 1}));
    let text = status.to_string();
    assert!(text.contains("choirmaster release resume mine\""), "{text}");
    assert!(!text.contains("umbra") && !text.contains("theirs") && !text.contains('~'), "{text}");
    assert!(text.contains(&router) && !text.contains(&own), "{text}");
    shared.world.stop().await;
}
