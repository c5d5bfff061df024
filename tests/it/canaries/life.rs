//! What becomes of a canary: created, adopted, deprecated, and all that is refused on its way.

use std::{fs, path::Path};

use ab_releases::{DEFAULT_TENANT, Kind, Uuid};
use serde_json::{Value, json};

use super::{ADOPTED, DEPRECATED, canary, canary_of, release, shop};
use crate::{
    ab::player::Player,
    http::tenants::Shared,
    world::{Answer, World},
};

/// A router, and the release `shop` with two versions, of which the first serves.
pub(super) async fn start() -> Player {
    let player = Player::start().await;
    let registered = player.world.submit(&shop(1, &[1, 2])).await;
    assert_eq!(registered.status, 201, "{}", registered.text());
    player
}

/// The same, with a router that has begun a canary of the second version.
pub(super) async fn under_way() -> Player {
    let player = start().await;
    let created = player.world.submit(&canary(2, "")).await;
    assert_eq!(created.status, 201, "{}", created.text());
    player.begins("checkout-2").await;
    player
}

/// The row of a registered release as it is stored, but for its names.
pub(super) async fn stored(world: &World, tenant: &str, name: &str) -> (String, i64, Option<String>) {
    let id = Uuid::of(Kind::RegisteredRelease, &[tenant, name]).to_string();
    let row = world.manager.engine.reader().registered_one(&id).await.unwrap().unwrap();
    assert_eq!(row.removed_ms, None);
    (row.detail, row.at_ms, row.actor)
}

pub(super) async fn registered(player: &Player) -> Value {
    serde_json::from_str(&stored(&player.world, DEFAULT_TENANT, "shop").await.0).unwrap()
}

pub(super) async fn trail(world: &World, release: &str) -> String {
    world.get(&format!("/api/v1/audit?release={release}&limit=1000")).await.ok().text()
}

pub(super) async fn state(player: &Player, id: &str) -> String {
    let shown = player.world.get(&format!("/api/v1/releases/{id}")).await.ok().json();
    shown["state"].as_str().unwrap().to_owned()
}

/// What a submission answers, in short: status, whether it was created, what was changed.
pub(super) fn told(answer: &Answer) -> (u16, Value, Value) {
    let body = answer.clone().ok().json();
    (answer.status, body["created"].clone(), body["changed"].clone())
}

/// The router ends the stage, as whoever adopted the canary wants.
pub(super) async fn serves_alone(player: &Player, canary: &str) {
    player.reports(canary, "canary", 2, 10).await.ok();
    assert!(player.leaves(canary, "canary").await, "{canary} may end");
}

/// The router goes back.
pub(super) async fn goes_back(player: &Player, canary: &str) {
    let answer = player.world.end_stage(&player.router, canary, "canary").await.ok().json();
    assert_eq!(answer["then"], "rollback", "{answer}");
    player.reports(canary, "canary", 5, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_is_created_adopted_and_is_the_release_then() {
    let player = start().await;
    let created = player.world.submit_to("/release?by=ann", &canary(2, "")).await;
    assert_eq!(told(&created), (201, json!(true), Value::Null));
    assert_eq!(created.header("location"), "/api/v1/releases/checkout-2");
    let body = created.json();
    assert_eq!((&body["participants"], &body["warnings"]), (&json!(1), &json!([])), "{body:#}");
    player.begins("checkout-2").await;
    let text = player.world.get("/api/v1/releases/checkout-2/strategy").await.ok().text();
    assert!(text.contains(r#"shares: {"stable":"90","canary":"10"}"#), "{text}");
    assert_eq!(state(&player, "checkout-2").await, "Running");

    let adopted = player.world.submit_to("/release?by=ann", &canary(2, ADOPTED)).await;
    assert_eq!(told(&adopted), (200, json!(false), json!("adopted")));
    let before = registered(&player).await;
    assert_eq!(
        (&before["version"], &before["config"]),
        (&json!(1), &json!("")),
        "its router has yet to do it"
    );
    serves_alone(&player, "checkout-2").await;
    assert_eq!(state(&player, "checkout-2").await, "Done");
    let after = registered(&player).await;
    assert_eq!((&after["version"], &after["config"]), (&json!(2), &json!("colour: 2\n")));
    let rest = |mut release: Value| {
        (release["version"], release["config"]) = (Value::Null, Value::Null);
        release
    };
    assert_eq!(rest(after), rest(before), "nothing else has changed");
    // What is registered would not go back with it.
    let refused = player.world.post("/api/v1/releases/checkout-2/rollback", &json!({})).await.problem();
    assert!(
        refused.starts_with("409 /problems/wrong-state: release checkout-2 is a canary that was adopted, and shop is registered"),
        "{refused}"
    );

    // What serves now is what the next one begins with.
    player.world.submit(&shop(2, &[1, 2, 3])).await.ok();
    assert_eq!(told(&player.world.submit(&canary(3, "")).await), (201, json!(true), Value::Null));
    let text = player.world.get("/api/v1/releases/checkout-3/strategy").await.ok().text();
    for variation in [
        r#"{"name":"stable","targets":["127.0.0.1:9111"]}"#,
        r#"{"name":"canary","targets":["127.0.0.1:9121"]}"#,
    ] {
        assert!(text.contains(variation), "{text}");
    }
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_is_adopted_over_a_restart() {
    let player = under_way().await;
    player.world.submit(&canary(2, ADOPTED)).await.ok();
    let Player { world, router, capabilities } = player;
    let player = Player { world: world.restart().await, router, capabilities };
    serves_alone(&player, "checkout-2").await;
    assert_eq!(state(&player, "checkout-2").await, "Done");
    assert_eq!(registered(&player).await["version"], 2);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_is_paused_is_adopted_too() {
    let player = under_way().await;
    player.world.call("POST", "/api/v1/releases/checkout-2/pause").await.ok();
    assert_eq!(state(&player, "checkout-2").await, "Paused");
    assert_eq!(told(&player.world.submit(&canary(2, ADOPTED)).await).2, "adopted");
    serves_alone(&player, "checkout-2").await;
    assert_eq!(registered(&player).await["version"], 2);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_is_deprecated_and_the_release_is_as_it_was() {
    let player = start().await;
    let before = stored(&player.world, DEFAULT_TENANT, "shop").await;
    player.world.submit(&canary(2, "")).await.ok();
    assert_eq!(player.polls().await.1, "checkout-2");
    let offer = player.world.fetch(&player.router, "checkout-2").await.ok().text();
    assert!(offer.contains("    at_rollback: retire\n"), "what came with it is to go with it: {offer}");
    let deprecated = player.world.submit_to("/release?by=ann&note=slow", &canary(2, DEPRECATED)).await;
    assert_eq!(told(&deprecated), (200, json!(false), json!("deprecated")));
    assert_eq!(state(&player, "checkout-2").await, "RollingBack");
    goes_back(&player, "checkout-2").await;
    assert_eq!(state(&player, "checkout-2").await, "Aborted");
    assert_eq!(stored(&player.world, DEFAULT_TENANT, "shop").await, before);
    let shown = player.world.get("/api/v1/releases/checkout-2").await.ok().json();
    assert_eq!((&shown["why"]["by"], &shown["why"]["note"]), (&json!("operator:ann"), &json!("slow")));

    // It is over for good, under this name.
    let again = player.world.submit(&canary(2, "")).await.problem();
    assert_eq!(
        again,
        "409 /problems/wrong-state: canary release checkout-2 was deprecated: create another one under another name"
    );
    assert_eq!(player.world.submit(&canary(2, ADOPTED)).await.problem(), again);
    assert_eq!(told(&player.world.submit(&canary_of("shop", "another", 2, "")).await).0, 201);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_adopted_cant_be_deprecated() {
    let player = under_way().await;
    player.world.submit(&canary(2, ADOPTED)).await.ok();
    serves_alone(&player, "checkout-2").await;
    let before = (trail(&player.world, "checkout-2").await, registered(&player).await);
    let why = "409 /problems/wrong-state: canary release checkout-2 was adopted, and can't be changed or deprecated any more: release \
               another version";
    assert_eq!(player.world.submit(&canary(2, DEPRECATED)).await.problem(), why);
    let heavier = canary(2, "").replace("weight: 10", "weight: 30");
    assert_eq!(player.world.submit(&heavier).await.problem(), why);
    assert_eq!((trail(&player.world, "checkout-2").await, registered(&player).await), before);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_again_changes_nothing() {
    let player = under_way().await;
    let again = async |what: &str, manifest: String| {
        let before = trail(&player.world, "checkout-2").await;
        assert_eq!(told(&player.world.submit(&manifest).await), (200, json!(false), Value::Null), "{what}");
        assert_eq!(trail(&player.world, "checkout-2").await, before, "{what}");
    };
    let before = stored(&player.world, DEFAULT_TENANT, "shop").await;
    again("the release", shop(1, &[1, 2])).await;
    assert_eq!(stored(&player.world, DEFAULT_TENANT, "shop").await, before);
    again("the canary", canary(2, "")).await;
    player.world.submit(&canary(2, ADOPTED)).await.ok();
    again("adopted, which its router has yet to do", canary(2, ADOPTED)).await;
    serves_alone(&player, "checkout-2").await;
    again("adopted", canary(2, ADOPTED)).await;
    again("the canary, adopted by now", canary(2, "")).await;
    let Player { world, router, capabilities } = player;
    let player = Player { world: world.restart().await, router, capabilities };
    assert_eq!(
        told(&player.world.submit(&canary(2, ADOPTED)).await),
        (200, json!(false), Value::Null),
        "after a restart"
    );

    player.world.submit(&shop(2, &[1, 2, 3])).await.ok();
    player.world.submit(&canary(3, "")).await.ok();
    player.begins("checkout-3").await;
    player.world.submit(&canary(3, DEPRECATED)).await.ok();
    for what in ["deprecated, which its router has yet to do", "deprecated"] {
        let before = trail(&player.world, "checkout-3").await;
        let answer = player.world.submit(&canary(3, DEPRECATED)).await;
        assert_eq!(told(&answer), (200, json!(false), Value::Null), "{what}");
        assert_eq!(trail(&player.world, "checkout-3").await, before, "{what}");
        if state(&player, "checkout-3").await == "RollingBack" {
            goes_back(&player, "checkout-3").await;
        }
    }
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_a_release_or_a_service_is_refused_by_name() {
    let player = start().await;
    player.world.submit(&shop(1, &[1, 2, 3])).await.ok();
    player.world.submit(&release("mall", 1, &[1, 3])).await.ok();
    player.world.submit(&canary(2, "")).await.ok();
    let under_way =
        "409 /problems/conflict: canary release checkout-2 of shop is under way: adopt or deprecate it first";
    assert_eq!(player.world.submit(&canary(3, "")).await.problem(), under_way);
    assert_eq!(player.world.submit_to("/release?dry_run=true", &canary(3, "")).await.problem(), under_way);
    let of_service = player.world.submit(&canary_of("mall", "mall-3", 3, "")).await.problem();
    assert!(
        of_service.starts_with("409 /problems/conflict: ") && of_service.contains("checkout-2"),
        "{of_service}"
    );
    player.begins("checkout-2").await;
    player.world.submit(&canary(2, DEPRECATED)).await.ok();
    assert_eq!(
        player.world.submit(&canary(3, "")).await.problem(),
        "409 /problems/conflict: canary release checkout-2 of shop is being rolled back: wait until it has been"
    );
    goes_back(&player, "checkout-2").await;
    assert_eq!(told(&player.world.submit(&canary(3, "")).await).0, 201);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_failed_is_tried_again_while_its_release_is_what_it_was() {
    let player = under_way().await;
    player.reports("checkout-2", "canary", 5, 10).await.ok();
    assert_eq!(state(&player, "checkout-2").await, "Paused");
    player.world.call("POST", "/api/v1/releases/checkout-2/resume").await.ok();
    assert_eq!(state(&player, "checkout-2").await, "DoneWithFailures");

    player.world.submit(&shop(1, &[1, 2, 3])).await.ok();
    let retried = player.world.call("POST", "/api/v1/releases/checkout-2/retry").await;
    assert_eq!(
        (retried.status, &retried.json()["type"]),
        (409, &json!("/problems/in-use")),
        "{}",
        retried.text()
    );
    assert_eq!(state(&player, "checkout-2").await, "DoneWithFailures");

    player.world.submit(&shop(1, &[1, 2])).await.ok();
    player.world.call("POST", "/api/v1/releases/checkout-2/retry").await.ok();
    player.begins("checkout-2.r2").await;
    player.world.submit(&canary(2, ADOPTED)).await.ok();
    serves_alone(&player, "checkout-2.r2").await;
    assert_eq!(state(&player, "checkout-2").await, "Done");
    assert_eq!(registered(&player).await["version"], 2);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_failed_at_its_router_is_not_adopted() {
    let player = under_way().await;
    player.reports("checkout-2", "canary", 5, 10).await.ok();
    for path in ["/release?dry_run=true", "/release"] {
        let refused = player.world.submit_to(path, &canary(2, ADOPTED)).await.problem();
        assert!(
            refused.starts_with("409 /problems/wrong-state: canary release checkout-2 has failed at each"),
            "{refused}"
        );
        assert_eq!(state(&player, "checkout-2").await, "Paused");
    }
    player.world.submit(&canary(2, DEPRECATED)).await.ok();
    assert_eq!(registered(&player).await["version"], 1);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_canary_left_that_failed_at_one_of_its_routers_is_put_back_as_that_of_any_release() {
    let mut player = start().await;
    let good = std::mem::take(&mut player.router);
    player.router = player.polls().await.0;
    player.polls().await;
    player.world.submit(&canary(2, "")).await.ok();
    let bad = std::mem::replace(&mut player.router, good.clone());
    for router in [&bad, &good] {
        player.router.clone_from(router);
        player.begins("checkout-2").await;
    }
    player.world.submit(&canary(2, ADOPTED)).await.ok();
    for router in [&bad, &good] {
        player.router.clone_from(router);
        player.reports("checkout-2", "canary", 2, 10).await.ok();
    }
    assert!(player.leaves("checkout-2", "canary").await);
    player.router = bad;
    player.reports("checkout-2", "canary", 5, 10).await.ok();
    assert_eq!(state(&player, "checkout-2").await, "Paused");
    player.world.call("POST", "/api/v1/releases/checkout-2/resume").await.ok();
    assert_eq!(state(&player, "checkout-2").await, "DoneWithFailures");
    assert_eq!(registered(&player).await["version"], 1, "it is not adopted");
    let path = "/api/v1/releases/checkout-2/rollback?dry_run=true";
    let plan = player.world.post(path, &json!({})).await.ok().json();
    assert_eq!(
        plan["puts_back"],
        json!([{"name": "service/checkout", "from": "canary (127.0.0.1:9111)", "to": "stable (127.0.0.1:9101)"}])
    );
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotations_of_a_strategy_hold_up_no_registered_release() {
    let player = start().await;
    let text = "id: plain\nname: plain\nannotations: {registered-release: shop, canary-release: \"0\"}\nservices: [{name: other, ports: \
                [{port: 8081}], variations: [{name: A, targets: ['127.0.0.1:9201']}, {name: B, targets: ['127.0.0.1:9211']}]}]\nstages: \
                [{name: s, type: Traffic, shares: {A: 90, B: 10}, end_conditions: [{name: minDuration, threshold: 1s}], end_action: \
                {onSuccess: rollout, onFailure: rollback}}]\n";
    player.world.submit_to("/release?start=false", text).await.ok();
    player.world.submit(&shop(1, &[1, 2, 3])).await.ok();
    player.world.submit(&canary(2, "")).await.ok();
    let dry = player.world.submit_to("/release?dry_run=true", &shop(1, &[1, 2])).await.problem();
    assert!(
        dry.starts_with("409 /problems/conflict: canary release checkout-2 of shop is under way"),
        "{dry}"
    );
    assert_eq!(
        player.world.submit(&canary_of("shop", "plain", 2, "")).await.problem(),
        "409 /problems/id-taken: there is a release plain that is no canary release: take another name"
    );
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registered_release_that_a_canary_has_in_hand_stays() {
    let player = under_way().await;
    let before = stored(&player.world, DEFAULT_TENANT, "shop").await;
    let changed = shop(1, &[1, 2, 3]);
    assert_eq!(
        player.world.submit(&changed).await.problem(),
        "409 /problems/in-use: release checkout-2 is not over, and names registered release shop: wait until it is"
    );
    assert_eq!(stored(&player.world, DEFAULT_TENANT, "shop").await, before);
    player.world.submit(&canary(2, DEPRECATED)).await.ok();
    goes_back(&player, "checkout-2").await;
    assert_eq!(told(&player.world.submit(&changed).await), (200, json!(false), json!("registered")));
    assert_ne!(stored(&player.world, DEFAULT_TENANT, "shop").await, before);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_content_under_the_name_is_refused() {
    let player = under_way().await;
    player.world.submit(&release("mall", 1, &[1, 2])).await.ok();
    let before = trail(&player.world, "checkout-2").await;
    let taken = "409 /problems/id-taken: canary release checkout-2 is there with another release, version, path, config, services or \
                 resources: only weights and transition change";
    for (what, from, to) in [
        ("release", "release: shop", "release: mall"),
        ("version", "version: 2", "version: 1"),
        ("config", "colour: 2", "colour: 3"),
        ("path", "  config:", "  path: /api\n  config:"),
    ] {
        let other = canary(2, "").replacen(from, to, 1);
        assert_ne!(other, canary(2, ""), "{what}");
        assert_eq!(player.world.submit(&other).await.problem(), taken, "{what}");
    }
    assert_eq!(trail(&player.world, "checkout-2").await, before);
    let plain = "services: [{name: other, ports: [{port: 8081}], variations: [{name: A, targets: ['127.0.0.1:9201']}, {name: B, targets: \
                 ['127.0.0.1:9211']}]}]\nstages: [{name: s, type: Traffic, shares: {A: 90, B: 10}, end_conditions: [{name: minDuration, \
                 threshold: 1s}], end_action: {onSuccess: rollout, onFailure: rollback}}]\n";
    player.world.submit(&format!("id: plain\nname: plain\n{plain}")).await.ok();
    assert_eq!(
        player.world.submit(&canary_of("mall", "plain", 2, "")).await.problem(),
        "409 /problems/id-taken: there is a release plain that is no canary release: take another name"
    );
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_canary_names_has_to_be_there() {
    let player = start().await;
    for (manifest, why) in [
        (
            canary_of("mall", "c", 2, ""),
            "`spec.release`: there is no release \"mall\": register it with kind: Release",
        ),
        (canary(7, ""), "`spec.version`: release shop has no version 7; it has 1, 2"),
        (
            canary(2, ADOPTED),
            "`spec.transition`: there is no canary release checkout-2 that could be adopted: leave it out, and it is created",
        ),
        (
            canary(2, DEPRECATED),
            "`spec.transition`: there is no canary release checkout-2 that could be deprecated: leave it out, and it is created",
        ),
    ] {
        assert_eq!(
            player.world.submit(&manifest).await.problem(),
            format!("422 /problems/invalid-field: {why}")
        );
    }
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_says_what_would_happen_and_changes_nothing() {
    let player = Player::start().await;
    let dry = async |manifest: &str| player.world.submit_to("/release?dry_run=true", manifest).await;
    assert_eq!(told(&dry(&shop(1, &[1, 2])).await), (200, json!(true), json!("registered")));
    assert!(dry(&canary(2, "")).await.problem().contains("there is no release"), "it was not registered");
    player.world.submit(&shop(1, &[1, 2])).await.ok();
    assert_eq!(told(&dry(&canary(2, "")).await), (200, json!(true), Value::Null));
    assert_eq!(player.polls().await.1, "", "it was not created");
    player.world.submit(&canary(2, "")).await.ok();
    player.begins("checkout-2").await;
    let before = trail(&player.world, "checkout-2").await;
    for (rest, changed) in [(ADOPTED, json!("adopted")), (DEPRECATED, json!("deprecated"))] {
        assert_eq!(told(&dry(&canary(2, rest)).await), (200, json!(false), changed));
    }
    assert_eq!(trail(&player.world, "checkout-2").await, before);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_of_strategies_alone_is_refused_for_manifests() {
    let player = start().await;
    for manifest in [shop(1, &[1]), canary(2, "")] {
        let deferred = player.world.submit_to("/release?start=false", &manifest).await;
        assert!(deferred.problem().starts_with("400 about:blank: a CanaryRelease or Release can't wait"));
    }
    let planned = player.world.submit_to("/api/v1/plan", &shop(1, &[1])).await.problem();
    assert!(
        planned.starts_with("400 about:blank: kind: Release ") && planned.contains("dry_run"),
        "{planned}"
    );
    player.world.stop().await;
}

/// A router has one release in hand, whichever services that is about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_waits_for_a_busy_router_says_so() {
    let player = under_way().await;
    let other = release("mall", 3, &[3, 4]).replace("checkout", "basket").replace("8080", "8081");
    player.world.submit(&other).await.ok();
    let second = canary_of("mall", "basket-4", 4, "").replace("checkout", "basket").replace("8080", "8081");
    let created = player.world.submit(&second).await;
    assert_eq!(created.status, 201, "{}", created.text());
    let warnings = created.json()["warnings"].clone();
    let of_router = warnings.as_array().unwrap().iter().find(|one| one["code"] == "router-busy");
    assert_eq!(
        of_router.expect("it is warned of")["message"],
        "a router of it has release checkout-2 in hand, and begins this one once that is over"
    );
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manifests_of_the_page_are_taken_as_they_stand_there() {
    let player = Player::start().await;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/canary-releases.md");
    let page = fs::read_to_string(page).unwrap();
    let mut manifests = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let registered = player.world.submit(manifests.next().unwrap()).await;
    assert_eq!(told(&registered), (201, json!(true), json!("registered")));
    // Nobody has its labels here. Once somebody has, the same manifest begins.
    let canary = manifests.next().unwrap();
    let created = player.world.submit(canary).await;
    assert_eq!(told(&created), (201, json!(true), Value::Null));
    assert_eq!((&created.json()["participants"], manifests.next()), (&json!(0), None));
    assert_eq!(state(&player, "checkout-2").await, "NoParticipants");
    let label = format!("/api/v1/children/{}/labels/env", player.router);
    player.world.send_json("PUT", &label, &json!({"value": "prod"})).await.ok();
    assert_eq!(told(&player.world.submit(canary).await), (201, json!(true), Value::Null));
    player.begins("checkout-2").await;
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_approve_cant_adopt() {
    let shared = Shared::start().await;
    shared.router_of("acme", "embedded", &json!([])).await;
    assert_eq!(told(&shared.submit("otto", &shop(1, &[1, 2])).await).0, 201);
    assert_eq!(told(&shared.submit("otto", &canary(2, "")).await).0, 201);
    let refused = shared.submit("otto", &canary(2, ADOPTED)).await.problem();
    assert_eq!(
        refused,
        "403 /problems/missing-role: to adopt canary release checkout-2 takes the role approver"
    );
    assert_eq!(told(&shared.submit("ann", &canary(2, ADOPTED)).await), (200, json!(false), json!("adopted")));
    // Whoever may submit may take back.
    let deprecated = shared.submit("otto", &canary(2, DEPRECATED)).await;
    assert_eq!(told(&deprecated), (200, json!(false), json!("deprecated")));
    shared.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_have_releases_and_canaries_of_their_own_under_the_same_names() {
    let shared = Shared::start().await;
    for (tenant, who) in [("acme", "ann"), ("umbra", "uma")] {
        shared.router_of(tenant, "embedded", &json!([])).await;
        let unknown = shared.submit(who, &canary(2, "")).await.problem();
        assert!(unknown.contains("there is no release"), "{who}: {unknown}");
        let own =
            shop(1, &[1, 2]).replace("127.0.0.1", if tenant == "acme" { "10.0.0.1" } else { "10.0.0.2" });
        assert_eq!(told(&shared.submit(who, &own).await).0, 201, "{who}");
        let created = shared.submit(who, &canary(2, "")).await;
        assert_eq!((told(&created).0, &created.json()["id"]), (201, &json!("checkout-2")), "{who}");
        assert_eq!(created.json()["participants"], 1, "{who}");
    }
    let acme = stored(&shared.world, "acme", "shop").await.0;
    assert!(acme.contains("10.0.0.1:9101") && !acme.contains("10.0.0.2"), "{acme}");
    // Who acts for a tenant names its canary as it does.
    let ended = shared.world.request("POST", "/release?tenant=umbra").bearer_auth(Shared::secret("root"));
    let ended = ended.header("content-type", "application/yaml").body(canary(2, DEPRECATED));
    assert_eq!(told(&shared.world.send(ended).await).2, "deprecated");
    assert_eq!(shared.get("ann", "/api/v1/releases/checkout-2").await.ok().json()["state"], "Running");
    shared.world.stop().await;
}
