//! What a manifest would do: a plan and a dry run say what its submission does, and are refused for what that is refused for.

use serde_json::{Value, json};

use super::{
    ADOPTED, DEPRECATED, canary, canary_of,
    life::{self, goes_back, serves_alone, state, told, trail},
    release, shop, weight, with_weight,
};
use crate::{ab::player::Player, http::tenants::Shared};

const PLAN: &str = "/api/v1/plan?children=all";
const DRY: &str = "/release?dry_run=true";

/// What a plan says of a canary by which nothing would change.
fn nothing() -> Value {
    json!({"changed": null, "shares": [], "follows": []})
}

/// What a plan says of a canary whose service is to get another share of the calls.
fn would(changed: &str, [from, to]: [f64; 2], follows: &[&str]) -> Value {
    json!({"changed": changed, "shares": [{"part": "checkout", "from": from, "to": to}], "follows": follows})
}

async fn planned(player: &Player, manifest: &str) -> Value {
    player.world.submit_to(PLAN, manifest).await.ok().json()
}

/// What a plan says of a canary. A dry run says the same to change, and neither does anything.
async fn says(player: &Player, manifest: &str) -> Value {
    let before = trail(&player.world, "checkout-2").await;
    let plan = planned(player, manifest).await;
    let dry = player.world.submit_to(DRY, manifest).await;
    assert_eq!(told(&dry), (200, json!(false), plan["canary"]["changed"].clone()), "{manifest}");
    assert_eq!(trail(&player.world, "checkout-2").await, before, "{manifest}");
    plan["canary"].clone()
}

/// The same of one that is submitted then, which comes to what was said.
async fn does(player: &Player, manifest: &str) -> Value {
    let said = says(player, manifest).await;
    let done = player.world.submit(manifest).await;
    assert_eq!(told(&done), (200, json!(false), said["changed"].clone()), "{manifest}");
    said
}

/// Why a submission is refused; so are a plan and a dry run.
async fn refused(player: &Player, manifest: &str) -> String {
    let why = player.world.submit(manifest).await.problem();
    for path in [PLAN, DRY] {
        assert_eq!(player.world.submit_to(path, manifest).await.problem(), why, "{path}: {manifest}");
    }
    why
}

async fn act(player: &Player, what: &str) {
    player.world.call("POST", &format!("/api/v1/releases/checkout-2/{what}")).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_of_a_canary_under_way_says_what_its_submission_does() {
    let player = weight::under_way().await;
    let plan = planned(&player, &canary(2, "")).await;
    assert_eq!(
        (&plan["id"], &plan["participants"]["children"], &plan["canary"]),
        (&json!("checkout-2"), &json!(1), &nothing())
    );
    let children = plan["children"].as_array().unwrap();
    assert_eq!(children.len(), 1, "{plan:#}");
    assert_eq!(
        (&children[0]["child"], &children[0]["takes_part"], &children[0]["busy_with"]),
        (&json!(player.router), &json!(true), &json!([])),
        "it is no other release that it has in hand"
    );
    let heavier = with_weight(&canary(2, ""), 30);
    let stages = planned(&player, &heavier).await["stages"].clone();
    assert_eq!(stages[0]["shares"], json!({"stable": 70.0, "canary": 30.0}));
    let told = "1 router is told at once";
    assert_eq!(does(&player, &heavier).await, would("weight 30", [10.0, 30.0], &[told]));
    assert_eq!(says(&player, &heavier).await, nothing(), "it is so already");

    act(&player, "pause").await;
    let all = "its routers ask the canary once more, and give it all calls";
    let then = "when all have, version 2 is that of release shop, with the canary's config";
    let follows = ["it is paused, and goes on", told, all, then];
    assert_eq!(does(&player, &canary(2, ADOPTED)).await, would("adopted", [30.0, 100.0], &follows));
    assert_eq!(does(&player, &canary(2, ADOPTED)).await, nothing(), "its router has yet to do it");
    let back = [told, "all calls go to the version that served before", "release shop stays as it is"];
    assert_eq!(says(&player, &canary(2, DEPRECATED)).await, would("deprecated", [100.0, 0.0], &back));
    serves_alone(&player, "checkout-2").await;
    assert_eq!(state(&player, "checkout-2").await, "Done");
    assert_eq!(does(&player, &canary(2, ADOPTED)).await, nothing());
    let plan = planned(&player, &heavier).await;
    assert_eq!((&plan["canary"], &plan["children"]), (&nothing(), &json!([])), "nobody has a part any more");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_says_what_becomes_of_a_router_that_has_yet_to_begin() {
    let player = weight::start().await;
    player.world.submit(&canary(2, "")).await.ok();
    let later = |what: &str| format!("1 router has yet to begin, {what}");
    let heavier = with_weight(&canary(2, ""), 30);
    let follows = later("with that from the start");
    assert_eq!(does(&player, &heavier).await, would("weight 30", [10.0, 30.0], &[&follows]));
    let adopted = says(&player, &canary(2, ADOPTED)).await;
    assert_eq!(adopted["follows"][0], later("with all calls from the start"));
    let said = does(&player, &canary(2, DEPRECATED)).await;
    assert_eq!(said["follows"][0], later("and never will"));
    assert_eq!(said["shares"], json!([{"part": "checkout", "from": 30.0, "to": 0.0}]));
    assert_eq!(does(&player, &canary(2, DEPRECATED)).await, nothing());
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_and_a_dry_run_are_refused_as_the_submission_is() {
    let player = weight::start().await;
    player.world.submit(&release("mall", 1, &[1, 2])).await.ok();
    for transition in [ADOPTED, DEPRECATED] {
        let why = refused(&player, &canary(2, transition)).await;
        assert!(
            why.starts_with("422 /problems/invalid-field: `spec.transition`: there is no canary"),
            "{why}"
        );
    }
    player.world.submit(&canary(2, "")).await.ok();
    player.begins("checkout-2").await;
    for (from, to) in [
        ("release: shop", "release: mall"),
        ("version: 2", "version: 1"),
        ("colour: 2", "colour: 3"),
        ("  config:", "  path: /api\n  config:"),
        ("service: checkout", "service: pay"),
        ("port: 8080", "port: 8081"),
    ] {
        let why = refused(&player, &canary(2, "").replacen(from, to, 1)).await;
        assert!(why.starts_with("409 /problems/id-taken: canary release checkout-2 is there"), "{to}: {why}");
    }
    let why = refused(&player, &with_weight(&canary(2, ""), 101)).await;
    assert!(why.starts_with("422 /problems/invalid-field: "), "{why}");
    let heavier = with_weight(&canary(2, ""), 30);
    let is_wrong = async |manifest: &str, why: &str| {
        let found = refused(&player, manifest).await;
        let expected = format!("409 /problems/wrong-state: canary release checkout-2 {why}");
        assert!(found.starts_with(&expected), "{found}");
    };
    act(&player, "pause").await;
    is_wrong(&heavier, "is paused: resume it before its weight changes").await;
    act(&player, "resume").await;
    player.world.submit(&canary(2, ADOPTED)).await.ok();
    is_wrong(&heavier, "is being adopted").await;
    serves_alone(&player, "checkout-2").await;
    for manifest in [canary(2, DEPRECATED), heavier] {
        is_wrong(&manifest, "was adopted, and can't be changed or deprecated any more").await;
    }
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_commands_of_a_submission_are_refused_for_a_plan_and_a_dry_run_are_refused_for() {
    // Its router can't be told of another weight.
    let player = life::under_way().await;
    let why = refused(&player, &with_weight(&canary(2, ""), 30)).await;
    assert!(why.contains("can't change shares during a stage"), "{why}");
    // It has failed at its router.
    player.reports("checkout-2", "canary", 5, 10).await.ok();
    let why = refused(&player, &canary(2, ADOPTED)).await;
    assert!(why.contains("has failed at each of its routers"), "{why}");
    act(&player, "resume").await;
    assert_eq!(state(&player, "checkout-2").await, "DoneWithFailures");
    let why = refused(&player, &canary(2, ADOPTED)).await;
    assert!(why.contains("ended as DoneWithFailures"), "{why}");
    player.world.stop().await;

    let player = life::under_way().await;
    assert_eq!(does(&player, &canary(2, DEPRECATED)).await["changed"], "deprecated");
    goes_back(&player, "checkout-2").await;
    for manifest in [canary(2, ""), canary(2, ADOPTED)] {
        let why = refused(&player, &manifest).await;
        assert!(why.contains("was deprecated: create another one under another name"), "{why}");
    }
    assert_eq!(does(&player, &canary(2, DEPRECATED)).await, nothing());
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_approve_is_told_so_by_a_plan() {
    let shared = Shared::start().await;
    shared.router_of("acme", "embedded", &json!([])).await;
    shared.submit("otto", &shop(1, &[1, 2])).await.ok();
    shared.submit("otto", &canary(2, "")).await.ok();
    let why = shared.submit("otto", &canary(2, ADOPTED)).await.problem();
    assert_eq!(why, "403 /problems/missing-role: to adopt canary release checkout-2 takes the role approver");
    assert_eq!(shared.yaml("otto", PLAN, &canary(2, ADOPTED)).await.problem(), why);
    let plan = shared.yaml("ann", PLAN, &canary(2, ADOPTED)).await.ok();
    assert_eq!(
        (&plan.json()["id"], &plan.json()["canary"]["changed"]),
        (&json!("checkout-2"), &json!("adopted"))
    );
    assert!(!plan.text().contains('~'), "{}", plan.text());
    // Of another tenant's it knows nothing.
    let unknown = shared.yaml("uma", PLAN, &canary(2, ADOPTED)).await.problem();
    assert!(
        unknown.starts_with("422 /problems/invalid-field: `spec.transition`: there is no canary"),
        "{unknown}"
    );
    shared.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_in_which_nobody_could_take_part_is_planned_and_tried_as_one_that_begins() {
    let player = life::start().await;
    let labelled = shop(1, &[1, 2]).replace("spec:\n", "spec:\n  routers: {env: prod}\n");
    player.world.submit(&labelled).await.ok();
    player.world.submit(&canary(2, "")).await.ok();
    assert_eq!(state(&player, "checkout-2").await, "NoParticipants");
    let label = format!("/api/v1/children/{}/labels/env", player.router);
    player.world.send_json("PUT", &label, &json!({"value": "prod"})).await.ok();
    let before = trail(&player.world, "checkout-2").await;
    let dry = player.world.submit_to(DRY, &canary(2, "")).await;
    assert_eq!((told(&dry), &dry.json()["participants"]), ((200, json!(true), Value::Null), &json!(1)));
    let plan = planned(&player, &canary(2, "")).await;
    assert_eq!((&plan["canary"], &plan["participants"]["children"]), (&Value::Null, &json!(1)));
    let why = refused(&player, &with_weight(&canary(2, ""), 30)).await;
    assert!(why.contains("had nobody who could take part"), "{why}");
    assert_eq!(trail(&player.world, "checkout-2").await, before);
    assert_eq!(told(&player.world.submit(&canary(2, "")).await), (201, json!(true), Value::Null));

    // What begins is planned as it always was, also where another one is to be over first.
    let other = planned(&player, &canary_of("shop", "other", 2, "")).await;
    assert_eq!((&other["canary"], &other["waits_for"]), (&Value::Null, &json!(["checkout-2"])));
    player.world.stop().await;
}
