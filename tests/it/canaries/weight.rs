//! Another weight for a canary that is under way: who is told of it, what shows it, and when it is refused.

use std::sync::Arc;

use domain::release::{assignment::Dated, state::Snapshot};
use http_api::context::PATIENCE;
use language::Strategy;
use serde_json::{Value, json};

use super::{
    ADOPTED, canary,
    life::{self, registered, serves_alone, state, told, trail},
    shop, with_weight,
};
use crate::{
    ab::player::Player,
    real_agents::wait::wait_until,
    world::{Answer, World},
};

/// How an agent that was told of nothing is answered, and what a deployed one is answered always.
const NOT_YET: &str = "{\"end_stage\":false}\n";

/// A router that can be told of weights, and the release `shop`.
pub(super) async fn start() -> Player {
    let mut player = life::start().await;
    player.capabilities["features"] = json!(["shares"]);
    player.polls().await;
    player
}

/// The same, with a canary that has begun with a tenth of the calls.
pub(super) async fn under_way() -> Player {
    let player = start().await;
    player.world.submit(&canary(2, "")).await.ok();
    player.begins("checkout-2").await;
    player
}

async fn weigh(player: &Player, weight: u8) -> Answer {
    player.world.submit_to("/release?by=ann", &with_weight(&canary(2, ""), weight)).await
}

/// A weight is changed to another one.
async fn changes(player: &Player, weight: u8) {
    let changed = weigh(player, weight).await;
    assert_eq!(told(&changed), (200, json!(false), json!(format!("weight {weight}"))));
}

/// The question of the router, which was told these shares.
fn question(player: &Player, known: &Value) -> Value {
    json!({"id": player.router, "strategy_id": "checkout-2", "stage_name": "canary", "shares": known})
}

pub(super) async fn asks(player: &Player, known: Value) -> String {
    player.world.post("/end_stage", &question(player, &known)).await.ok().text()
}

/// The answer that tells so much of the canary's stage, in units of 0.01 %.
fn told_of(share: u16) -> String {
    format!("{{\"end_stage\":false,\"shares\":{{\"canary\":{share}}}}}")
}

/// What everybody is shown of the shares, in percent.
pub(super) async fn shown(player: &Player) -> [Value; 3] {
    let release = player.world.get("/api/v1/releases/checkout-2").await.ok().json();
    let service = player.shown("checkout-2").await;
    let [of_service, of_stage] =
        [&service["trafficSplit"]["percentages"], &service["stages"][0]["trafficPercentage"]];
    [release["stages"][0]["shares"].clone(), of_service.clone(), of_stage.clone()]
}

fn all_say(canary: u8) -> [Value; 3] {
    let (canary, stable) = (f64::from(canary), f64::from(100 - canary));
    let each = json!({"stable": stable, "canary": canary});
    [each.clone(), each, json!(canary)]
}

/// What the trail has of changed shares, from the first to the last.
pub(super) async fn trailed(player: &Player) -> Vec<Value> {
    let trail = player.world.get("/api/v1/audit?release=checkout-2&limit=1000").await.ok().json();
    let entries = trail["items"].as_array().unwrap().iter();
    let events = entries.flat_map(|entry| entry["events"].as_array().unwrap());
    events.filter(|event| event["event"] == "shares_chosen").map(|event| event["shares"].clone()).collect()
}

/// What is in memory of it.
async fn in_memory(world: &World) -> (Arc<Strategy>, Vec<Dated>) {
    let look = |state: &Snapshot| {
        let release = state.release_by_id("checkout-2")?;
        Some((Arc::clone(&release.strategy), release.facts.clone()))
    };
    world.manager.engine.read(PATIENCE, look).await.unwrap().unwrap()
}

async fn restarted(player: Player) -> Player {
    let Player { world, router, capabilities } = player;
    Player { world: world.restart().await, router, capabilities }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_weight_is_changed_in_place_and_everybody_says_so() {
    let player = under_way().await;
    assert_eq!(asks(&player, json!({})).await, NOT_YET);
    assert_eq!(shown(&player).await, all_say(10));
    let weights = [30, 5, 0, 100, 40];
    for weight in weights {
        changes(&player, weight).await;
        assert_eq!(asks(&player, json!({})).await, told_of(u16::from(weight) * 100));
        assert_eq!(shown(&player).await, all_say(weight));
        let before = trail(&player.world, "checkout-2").await;
        assert_eq!(told(&weigh(&player, weight).await), (200, json!(false), Value::Null), "it is so already");
        assert_eq!(trail(&player.world, "checkout-2").await, before);
    }
    assert_eq!(trailed(&player).await, weights.map(|weight| all_say(weight)[0].clone()));
    // Nothing has begun or ended by that, and whoever asks for the offer once more has the last weight in it.
    assert_eq!(state(&player, "checkout-2").await, "Running");
    let offer = player.world.fetch(&player.router, "checkout-2").await.ok().text();
    assert!(offer.contains(r#"{"stable": 60.00, "canary": 40.00}"#), "{offer}");
    assert_eq!(player.polls().await.1, "", "there is no other offer");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_waits_is_answered_with_a_weight_that_is_news() {
    let player = under_way().await;
    // In the second round the router has the share already that counts, which is no news: it waits as well.
    for (known, weight) in [(json!({}), 30), (json!({"canary": 3_000}), 20)] {
        let ask = player.world.request("POST", "/end_stage?wait=55s").json(&question(&player, &known));
        let answer = tokio::spawn(ask.send());
        let waiters = &player.world.manager.engine.view().waiters;
        wait_until("the question waits", async || waiters.count() == 1).await;
        changes(&player, weight).await;
        let answer = answer.await.unwrap().unwrap().text().await.unwrap();
        assert_eq!(answer, told_of(u16::from(weight) * 100));
    }
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_weight_is_the_same_after_a_restart() {
    let player = under_way().await;
    changes(&player, 30).await;
    changes(&player, 20).await;
    let before = (in_memory(&player.world).await, shown(&player).await, asks(&player, json!({})).await);
    assert_eq!((&before.1, &before.2), (&all_say(20), &told_of(2_000)));
    let player = restarted(player).await;
    let after = (in_memory(&player.world).await, shown(&player).await, asks(&player, json!({})).await);
    assert_eq!(after, before);
    assert_eq!(told(&weigh(&player, 20).await), (200, json!(false), Value::Null));
    changes(&player, 50).await;
    assert_eq!(shown(&player).await, all_say(50));
    player.world.stop().await;
}

/// As after a backup of the manager's data was put back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_was_told_what_nobody_knows_of_is_told_what_counts() {
    let player = under_way().await;
    assert_eq!(asks(&player, json!({"canary": 7_000})).await, told_of(1_000));
    assert_eq!(asks(&player, json!({"half": 7_000})).await, NOT_YET, "it has no such stage");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_cant_be_told_keeps_its_weight_and_hears_what_it_always_heard() {
    let player = life::under_way().await;
    let offer = player.world.fetch(&player.router, "checkout-2").await.ok().text();
    let before = (trail(&player.world, "checkout-2").await, shown(&player).await);
    let why = format!(
        "409 /problems/wrong-state: the shares of stage \"canary\" of release checkout-2 can't be changed: {} can't change shares during a stage (it doesn't \
         name the feature \"shares\")",
        player.router
    );
    assert_eq!(weigh(&player, 30).await.problem(), why);
    assert_eq!((trail(&player.world, "checkout-2").await, shown(&player).await), before);
    let plain = player.world.end_stage(&player.router, "checkout-2", "canary").await.ok().text();
    assert_eq!(plain, NOT_YET);
    assert_eq!(player.world.fetch(&player.router, "checkout-2").await.ok().text(), offer);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_weight_stays_while_a_canary_is_paused_or_adopted_and_in_a_dry_run() {
    let player = under_way().await;
    let before = trail(&player.world, "checkout-2").await;
    let heavier = with_weight(&canary(2, ""), 30);
    let dry = player.world.submit_to("/release?dry_run=true", &heavier).await;
    assert_eq!(told(&dry), (200, json!(false), json!("weight 30")));
    assert_eq!(trail(&player.world, "checkout-2").await, before);

    let refused = async |why: &str| {
        let before = (trail(&player.world, "checkout-2").await, asks(&player, json!({})).await);
        let why = format!("409 /problems/wrong-state: canary release checkout-2 {why}");
        assert_eq!(player.world.submit(&heavier).await.problem(), why);
        assert_eq!((trail(&player.world, "checkout-2").await, asks(&player, json!({})).await), before);
    };
    player.world.call("POST", "/api/v1/releases/checkout-2/pause").await.ok();
    refused("is paused: resume it before its weight changes").await;
    assert_eq!(told(&weigh(&player, 10).await), (200, json!(false), Value::Null), "it has this");
    player.world.call("POST", "/api/v1/releases/checkout-2/resume").await.ok();
    changes(&player, 20).await;
    player.world.submit(&with_weight(&canary(2, ADOPTED), 20)).await.ok();
    refused("is being adopted: its weight can't be changed any more").await;
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_of_another_weight_is_adopted_and_the_same_one_again_changes_nothing() {
    let player = under_way().await;
    changes(&player, 30).await;
    // The weight of a manifest that adopts it doesn't matter any more.
    assert_eq!(told(&player.world.submit(&canary(2, ADOPTED)).await).2, "adopted");
    serves_alone(&player, "checkout-2").await;
    assert_eq!(state(&player, "checkout-2").await, "Done");
    assert_eq!(registered(&player).await["version"], 2);
    let player = restarted(player).await;
    assert_eq!(told(&weigh(&player, 30).await), (200, json!(false), Value::Null));
    let why = weigh(&player, 10).await.problem();
    assert!(why.starts_with("409 /problems/wrong-state: canary release checkout-2 was adopted"), "{why}");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_in_which_nobody_could_take_part_begins_with_its_weight() {
    let player = start().await;
    let labelled = shop(1, &[1, 2]).replace("spec:\n", "spec:\n  routers: {env: prod}\n");
    player.world.submit(&labelled).await.ok();
    assert_eq!(told(&weigh(&player, 10).await), (201, json!(true), Value::Null));
    assert_eq!(state(&player, "checkout-2").await, "NoParticipants");
    let label = format!("/api/v1/children/{}/labels/env", player.router);
    player.world.send_json("PUT", &label, &json!({"value": "prod"})).await.ok();
    let refused = weigh(&player, 30).await.problem();
    assert!(
        refused.starts_with(
            "409 /problems/wrong-state: canary release checkout-2 had nobody who could take part"
        ),
        "{refused}"
    );
    assert_eq!(state(&player, "checkout-2").await, "NoParticipants");
    assert_eq!(told(&weigh(&player, 10).await), (201, json!(true), Value::Null));
    let offer = player.polls().await.1;
    player.world.fetch(&player.router, &offer).await.ok();
    assert_eq!(shown(&player).await, all_say(10));
    changes(&player, 30).await;
    assert_eq!(shown(&player).await, all_say(30));
    player.world.stop().await;
}
