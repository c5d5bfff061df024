//! What becomes of an A/B release: statuses, stages, events, and what each action does.

use serde_json::{Value, json};

use super::player::{Player, body, two_stages};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_goes_through_its_statuses_and_stages_and_ends_promoted() {
    let player = Player::start().await;
    let created = player.create(&body("r", &two_stages())).await;
    assert_eq!(created.status, 201);
    let id = created.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(created.header("location"), format!("/api/v1/ab-releases/{id}"));
    assert_eq!(player.stands("r").await, ("created".into(), "waiting_for_start".into()));
    assert_eq!(player.polls().await.1, "", "nothing is offered before it is started");
    assert_eq!(player.stages("r").await, ["pending", "pending"]);

    player.act(&id, "start", &Value::Null).await.ok();
    assert_eq!(player.stands("r").await, ("deploying".into(), "deploying".into()));
    player.begins("r").await;
    assert!(!player.walks("r", "10 %").await, "somebody has to approve");
    assert_eq!(player.stands("r").await, ("running".into(), "awaiting_approval".into()));
    assert_eq!(player.stages("r").await, ["running", "pending"]);
    let shown = player.shown("r").await;
    assert_eq!(shown["trafficSplit"]["percentages"], json!({"A": 90.0, "B": 10.0}));
    assert_eq!(shown["activeVariation"], "A");

    let answer = player.act("r", "advance", &json!({})).await.ok().json();
    assert_eq!(answer["phase"], "in_stage", "{answer:#}");
    assert!(player.leaves("r", "10 %").await);
    assert_eq!(player.stands("r").await, ("promoting".into(), "promoting".into()));
    assert_eq!(player.stages("r").await, ["succeeded", "running"]);
    assert!(player.walks("r", "100 %").await);
    let done = player.shown("r").await;
    assert_eq!((&done["status"], &done["phase"]), (&json!("completed"), &json!("done")), "{done:#}");
    assert_eq!(done["activeVariation"], "B", "it changes when another is promoted");
    assert_eq!(player.stages("r").await, ["succeeded", "succeeded"]);
    assert!(done["completedAt"].is_string());
    assert_eq!(
        player.told("r").await,
        [
            "ab.created",
            "ab.started",
            "canary.stage_started",
            "canary.stage_passed",
            "ab.stage_advanced",
            "canary.stage_started",
            "canary.stage_passed",
            "ab.promoted"
        ]
    );
    for action in ["start", "advance", "rollback"] {
        assert_eq!(player.act("r", action, &Value::Null).await.status, 409, "{action} of what is over");
    }
    assert_eq!(player.act("r", "promote", &json!({"variation": "B"})).await.status, 409);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_measured_is_the_share_of_calls_and_quantiles_of_their_times() {
    let player = Player::start().await;
    player.create(&body("r", &two_stages())).await.ok();
    let nothing = player.world.get("/api/v1/ab-releases/r/health").await.ok().json();
    let of = |health: &Value, which: usize| health["variations"][which].clone();
    assert_eq!(of(&nothing, 1)["healthStatus"], "unknown", "no sample is neither healthy nor unhealthy");
    assert_eq!(of(&nothing, 1)["metrics"]["errorRate"], Value::Null);
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    player.walks("r", "10 %").await;
    let stage = player.shown("r").await["stages"][0].clone();
    let result = &stage["healthResult"];
    assert_eq!(result["samples"], 1_000);
    assert_eq!(result["healthy"], true);
    assert_eq!(result["healthPercentage"], Value::Null, "no router tells which targets are healthy");
    assert_eq!(result["metrics"]["errorRate"], 1.0, "percent of calls");
    assert_eq!(result["metrics"]["successRate"], 99.0);
    for quantile in ["latencyP50", "latencyP99"] {
        let ms = result["metrics"][quantile].as_f64().unwrap();
        assert!((7.2..7.4).contains(&ms), "{quantile} in milliseconds: {ms}");
    }
    assert!(result["evaluatedAt"].is_string());
    let health = player.world.get("/api/v1/ab-releases/r/health").await.ok().json();
    assert_eq!(of(&health, 0)["healthStatus"], "healthy");
    assert_eq!(
        (of(&health, 1)["name"].clone(), of(&health, 1)["samples"].clone()),
        (json!("B"), json!(1_000))
    );
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_fails_takes_the_release_back() {
    let player = Player::start().await;
    player.create(&body("r", &two_stages())).await.ok();
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    player.reports("r", "10 %", 5, 300).await.ok();
    let (status, phase) = player.stands("r").await;
    assert!(["rolling_back", "rolled_back"].contains(&phase.as_str()), "{status} {phase}");
    assert_eq!(player.stages("r").await[0], "failed");
    let health = player.world.get("/api/v1/ab-releases/r/health").await.ok().json();
    assert_eq!(health["variations"][1]["healthStatus"], "unhealthy");
    assert_eq!(player.shown("r").await["activeVariation"], "A");
    let told = player.told("r").await;
    assert!(told.contains(&"canary.stage_failed".to_owned()), "{told:?}");
    player.world.stop().await;
}

/// A router that judges for itself is back at the stable variation by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_stage_without_rollback_never_ends_as_success() {
    for goes_on in [false, true] {
        let player = Player::start().await;
        let mut strategy = two_stages();
        strategy["rollbackOnFailure"] = json!(false);
        player.create(&body("r", &strategy)).await.ok();
        player.act("r", "start", &Value::Null).await.ok();
        player.begins("r").await;
        player.reports("r", "10 %", 5, 300).await.ok();
        let paused = player.shown("r").await;
        assert_eq!((&paused["status"], &paused["phase"]), (&json!("running"), &json!("paused")));
        assert_eq!(player.stages("r").await, ["failed", "pending"]);
        assert_eq!(paused["trafficSplit"]["percentages"], json!({"A": 100.0, "B": 0.0}));
        for (what, body) in [("advance", json!({})), ("promote", json!({"variation": "B"}))] {
            let refused = player.act("r", what, &body).await;
            assert_eq!(refused.status, 409);
            assert!(refused.problem().contains("has failed at every router"), "{}", refused.text());
            assert_eq!(player.shown("r").await, paused, "nothing has changed");
        }
        if goes_on {
            player.world.call("POST", "/api/v1/releases/r/resume").await.ok();
        } else {
            player.act("r", "rollback", &Value::Null).await.ok();
        }
        let over = player.shown("r").await;
        assert_eq!(
            (&over["status"], &over["activeVariation"]),
            (&json!("rolled_back"), &json!("A")),
            "{over:#}"
        );
        assert_eq!(player.stages("r").await, ["failed", "skipped"]);
        assert_eq!(over["trafficSplit"]["percentages"], json!({"A": 100.0, "B": 0.0}));
        let told = player.told("r").await;
        assert_eq!(told.last().unwrap(), "ab.rolled_back", "{told:?}");
        assert!(!told.contains(&"ab.promoted".to_owned()), "{told:?}");
        player.world.stop().await;
    }
}

/// What an agent says of a stage of the release `r` that has failed: `kept` where it keeps its shares, or went on from it.
fn failed_stage(player: &Player, stage: &str, status: u8, next: &str) -> Value {
    let mut summary = crate::world::summary(stage, status);
    (summary["f1_calls"], summary["f2_calls"]) = (json!(1_000), json!(1_000));
    (summary["f1_errors"], summary["f2_errors"]) = (json!(0), json!(300));
    summary["f2_err_rate"] = json!(0.3);
    summary["why"] = json!({"cause": "kept", "text": "errorRate of B is 0.3"});
    json!({"id": player.router, "release_id": "r", "stage_summaries": [summary], "next_stage": next})
}

/// A release in a stage that has failed and keeps its shares.
async fn kept(strategy: &Value) -> Player {
    let player = Player::start().await;
    let mut strategy = strategy.clone();
    strategy["rollbackOnFailure"] = json!(false);
    player.create(&body("r", &strategy)).await.ok();
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    let offer = player.world.fetch(&player.router, "r").await.ok();
    assert!(offer.text().contains("keeps_failed: true"), "{}", offer.text());
    let failed = failed_stage(&player, "10 %", 2, "100 %");
    player.world.post("/result", &failed).await.ok();
    // A call that is sent again changes nothing more.
    player.world.post("/result", &failed).await.ok();
    let paused = player.shown("r").await;
    assert_eq!((&paused["status"], &paused["phase"]), (&json!("running"), &json!("paused")), "{paused:#}");
    assert_eq!(player.stages("r").await, ["failed", "pending"]);
    assert_eq!(paused["trafficSplit"]["percentages"], json!({"A": 90.0, "B": 10.0}));
    let asked = player.world.end_stage(&player.router, "r", "10 %").await.ok().json();
    assert_eq!(asked["end_stage"], false);
    player
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_stage_that_keeps_its_shares_is_gone_on_from_by_whoever_wants_it() {
    for (what, body) in [("advance", json!({})), ("promote", json!({"variation": "B"}))] {
        let player = kept(&two_stages()).await;
        let failed = failed_stage(&player, "10 %", 2, "100 %");
        player.act("r", what, &body).await.ok();
        // What was sent before that, and comes again, pauses nothing.
        player.world.post("/result", &failed).await.ok();
        assert_ne!(player.stands("r").await.1, "paused");
        let ended = player.world.end_stage(&player.router, "r", "10 %").await.ok().json();
        assert_eq!((&ended["end_stage"], &ended["then"]), (&json!(true), &Value::Null), "{what}");
        player.world.post("/result", &failed_stage(&player, "10 %", 5, "100 %")).await.ok();
        let on = player.shown("r").await;
        assert_eq!(on["trafficSplit"]["percentages"], json!({"A": 0.0, "B": 100.0}), "{on:#}");
        assert_eq!(player.stages("r").await[0], "failed");
        assert!(player.walks("r", "100 %").await);
        let over = player.shown("r").await;
        assert_eq!((&over["status"], &over["activeVariation"]), (&json!("completed"), &json!("B")), "{what}");
        assert_eq!(player.stages("r").await[0], "failed");
        player.world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_stage_that_failed_and_kept_its_shares_may_be_rolled_out() {
    let mut one = two_stages();
    one["stages"].as_array_mut().unwrap().truncate(1);
    let player = Player::start().await;
    one["rollbackOnFailure"] = json!(false);
    player.create(&body("r", &one)).await.ok();
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    player.world.post("/result", &failed_stage(&player, "10 %", 2, "rollout")).await.ok();
    player.act("r", "promote", &json!({"variation": "B"})).await.ok();
    let ended = player.world.end_stage(&player.router, "r", "10 %").await.ok().json();
    assert_eq!((&ended["end_stage"], &ended["then"]), (&json!(true), &Value::Null));
    player.world.post("/result", &failed_stage(&player, "10 %", 5, "rollout")).await.ok();
    let over = player.shown("r").await;
    assert_eq!((&over["status"], &over["activeVariation"]), (&json!("completed"), &json!("B")), "{over:#}");
    assert_eq!(player.stages("r").await, ["failed"]);
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_stage_that_keeps_its_shares_is_rolled_back_by_whoever_wants_it() {
    let player = kept(&two_stages()).await;
    player.act("r", "rollback", &Value::Null).await.ok();
    let ended = player.world.end_stage(&player.router, "r", "10 %").await.ok().json();
    assert_eq!(ended["then"], "rollback");
    player.reports("r", "10 %", 5, 300).await;
    let over = player.shown("r").await;
    assert_eq!((&over["status"], &over["activeVariation"]), (&json!("rolled_back"), &json!("A")));
    assert_eq!(player.stages("r").await, ["failed", "skipped"]);
    assert_eq!(over["trafficSplit"]["percentages"], json!({"A": 100.0, "B": 0.0}));
    player.world.stop().await;
}

/// Whoever paused it for something else is to hear of it before it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stage_failure_replaces_reason_of_an_existing_pause() {
    let player = Player::start().await;
    let mut strategy = two_stages();
    strategy["rollbackOnFailure"] = json!(false);
    player.create(&body("r", &strategy)).await.ok();
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    player.world.call("POST", "/api/v1/releases/r/pause").await.ok();
    player.world.post("/result", &failed_stage(&player, "10 %", 2, "100 %")).await.ok();
    let release = player.world.get("/api/v1/releases/r").await.ok().text();
    assert!(release.contains("failed in stage 10 % with B (errorRate of B is 0.3)"), "{release}");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_back_gives_everything_to_the_stable_variation() {
    let player = Player::start().await;
    player.create(&body("r", &two_stages())).await.ok();
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    player.walks("r", "10 %").await;
    // While an approval is awaited.
    let answer = player.act("r", "rollback", &json!({"by": "ann", "note": "slow"})).await.ok().json();
    assert_eq!(answer["phase"], "rolling_back", "{answer:#}");
    assert_eq!(answer["trafficSplit"]["percentages"], json!({"A": 100.0, "B": 0.0}));
    player.act("r", "rollback", &Value::Null).await.ok();
    assert_eq!(player.act("r", "advance", &json!({})).await.status, 409);
    let ended = player.world.end_stage(&player.router, "r", "10 %").await.ok().json();
    assert_eq!(ended["then"], "rollback");
    player.reports("r", "10 %", 5, 10).await;
    let (status, phase) = player.stands("r").await;
    assert_eq!((status.as_str(), phase.as_str()), ("rolled_back", "aborted"));
    assert_eq!(player.stages("r").await, ["failed", "skipped"]);
    let told = player.told("r").await;
    assert_eq!(told.last().unwrap(), "ab.rolled_back");
    let traffic = player.world.get("/api/v1/ab-releases/r/traffic").await.ok().json();
    let history = traffic["history"].as_array().unwrap();
    assert_eq!(history.len(), 2, "{traffic:#}");
    assert_eq!((&history[0]["from"]["B"], &history[0]["to"]["B"]), (&json!(0.0), &json!(10.0)));
    assert_eq!((&history[1]["to"]["A"], &history[1]["by"]), (&json!(100.0), &json!("operator:ann")));
    player.world.stop().await;
}

/// What a router tells of the service while it gives B so much, in units of 0.01 %.
fn told_by_router(id: &str, of_b: u16) -> Value {
    let variation = |name: &str, share: u16, calls: u64| json!({"name": name, "wanted": share, "seen": share, "targets": {"healthy": 1, "total": 1}, "calls": calls, "errors": 0});
    let target = |name: &str, port: u16| json!({"name": name, "targets": [format!("127.0.0.1:{port}")]});
    json!({
        "id": id,
        "router": {"kind": "nginx", "version": "1.26.0", "phase": "in_force", "reached": true},
        "services": [{
            "name": "checkout", "epoch": 0, "generation": 7 + u64::from(of_b), "offer": "r", "seen_ago_ms": 5, "measured_ms": 60_000,
            "variations": [variation("A", 10_000 - of_b, 180), variation("B", of_b, 20)],
            "led": {"ports": [{"port": 8080, "protocol": "HTTP"}], "variations": [target("A", 9101), target("B", 9111)]},
        }],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_routers_read_back_and_count_is_shown_by_router_and_over_all() {
    let player = Player::start().await;
    player.create(&body("r", &two_stages())).await.ok();
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    for of_b in [0, 1_000] {
        player.world.post("/traffic", &told_by_router(&player.router, of_b)).await.ok();
    }
    let traffic = player.world.get("/api/v1/ab-releases/r/traffic").await.ok().json();
    let split = &traffic["currentSplit"];
    let of_b = &split["backends"][1];
    assert_eq!(
        (&of_b["lowest"], &of_b["highest"], &of_b["healthyTargets"]),
        (&json!(10.0), &json!(10.0), &json!(1))
    );
    let router = &split["routers"][0];
    assert_eq!((&router["router"], &router["generation"]), (&json!(player.router), &json!(1_007)));
    assert_eq!(
        (&router["seen"], &router["measured"]),
        (&json!({"A": 90.0, "B": 10.0}), &json!({"A": 90.0, "B": 10.0}))
    );
    let last = traffic["history"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["router"], &last["generation"]), (&json!(player.router), &json!(1_007)));
    assert_eq!((&last["from"]["B"], &last["to"]["B"]), (&json!(0.0), &json!(10.0)));
    assert_eq!((&last["wanted"]["B"], &last["seen"]["B"]), (&json!(10.0), &json!(10.0)));
    assert_eq!(last["measured"], json!({"A": 90.0, "B": 10.0}), "what came of the shares before");
    player.reports("r", "10 %", 2, 10).await.ok();
    let health = async || player.shown("r").await["stages"][0]["healthResult"].clone();
    assert_eq!(
        (&health().await["healthPercentage"], &health().await["healthy"]),
        (&json!(100.0), &json!(true))
    );
    let mut ill = told_by_router(&player.router, 1_000);
    ill["services"][0]["variations"][1]["targets"]["healthy"] = json!(0);
    player.world.post("/traffic", &ill).await.ok();
    assert_eq!(
        (&health().await["healthPercentage"], &health().await["healthy"]),
        (&json!(0.0), &json!(false))
    );
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_are_advanced_forward_alone_and_promotion_skips_what_is_left() {
    let player = Player::start().await;
    let mut four = two_stages();
    let stage = |traffic: f64| json!({"trafficPercentage": traffic, "durationSeconds": 600, "healthThreshold": 95, "requireApproval": false});
    four["stages"] = json!([stage(0.25), stage(10.0), stage(50.0), stage(100.0)]);
    let mut body = body("r", &four);
    body["trafficSplit"]["percentages"] = json!({"A": 99.75, "B": 0.25});
    player.create(&body).await.ok();
    let refused = |answer: crate::world::Answer| (answer.status, answer.problem());
    assert_eq!(refused(player.act("r", "advance", &json!({})).await).0, 409, "it has not begun");
    assert_eq!(player.act("r", "promote", &json!({"variation": "B"})).await.status, 409);
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    player.reports("r", "0.25 %", 1, 10).await.ok();
    for wrong in [0, 5] {
        let (status, problem) = refused(player.act("r", "advance", &json!({"stageNumber": wrong})).await);
        assert_eq!(status, 404, "{problem}");
    }
    // To where it is already.
    player.act("r", "advance", &json!({"stageNumber": 1})).await.ok();
    assert_eq!(player.stages("r").await, ["running", "pending", "pending", "pending"]);
    player.act("r", "advance", &json!({"stageNumber": 3})).await.ok();
    assert_eq!(player.stages("r").await, ["skipped", "skipped", "pending", "pending"]);
    let unknown = player.act("r", "promote", &json!({"variation": "C"})).await;
    assert_eq!((unknown.status, unknown.problem().contains("`variation`")), (422, true));
    player.act("r", "promote", &json!({"variation": "B"})).await.ok();
    assert_eq!(player.stages("r").await, ["skipped", "skipped", "skipped", "skipped"]);
    // Of the stable one it is a roll-back.
    let answer = player.act("r", "promote", &json!({"variation": "A"})).await.ok().json();
    assert_eq!(answer["phase"], "rolling_back");
    player.world.stop().await;
}

/// A release of three variations whose router can be told that another one wins than its stages lead to.
async fn three_to_choose_from(player: &mut Player) {
    player.capabilities["features"] = json!(["winner"]);
    player.polls().await;
    player.three_under_way().await;
}

/// Ends a stage and answers what it is told of who wins.
async fn told_winner(player: &Player, stage: &str) -> Value {
    player.reports("r", stage, 2, 10).await.ok();
    let answer = player.world.end_stage(&player.router, "r", stage).await.ok().json();
    assert_eq!(answer["end_stage"], true, "{stage}");
    player.reports("r", stage, 4, 10).await.ok();
    answer["winner"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_third_variation_is_promoted_also_over_a_restart_and_is_the_active_one_then() {
    let mut player = Player::start().await;
    three_to_choose_from(&mut player).await;
    let promoted = player.act("r", "promote", &json!({"variation": "C"})).await.ok().json();
    assert_eq!(promoted["activeVariation"], "A", "it has not taken over");
    let Player { world, router, capabilities } = player;
    let player = Player { world: world.restart().await, router, capabilities };
    assert_eq!(told_winner(&player, "10 %").await, "C");
    assert_eq!(told_winner(&player, "100 %").await, "C");
    let shown = player.shown("r").await;
    assert_eq!(
        (&shown["status"], &shown["activeVariation"]),
        (&json!("completed"), &json!("C")),
        "{shown:#}"
    );
    assert_eq!(shown["trafficSplit"]["percentages"], json!({"A": 0.0, "B": 0.0, "C": 100.0}));
    let kinds = player.kinds("r").await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "winner_chosen").count(), 1, "{kinds:?}");
    let trail = player.world.get("/api/v1/audit?release=r&limit=1000").await.ok().json();
    let events =
        trail["items"].as_array().unwrap().iter().flat_map(|entry| entry["events"].as_array().unwrap());
    let told: Vec<&Value> = events.filter(|event| event["event"] == "ab.promoted").collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["variation"], "C");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variation_is_promoted_by_our_own_call_too() {
    let mut player = Player::start().await;
    three_to_choose_from(&mut player).await;
    let promote = |variation: &str| format!("/api/v1/releases/r/promote?variation={variation}");
    assert_eq!(player.world.post(&promote("D"), &json!({})).await.status, 422);
    player.world.post(&promote("C"), &json!({})).await.ok();
    assert_eq!(told_winner(&player, "10 %").await, "C");
    // Of the stable one it is a roll-back.
    player.world.post(&promote("A"), &json!({})).await.ok();
    let shown = player.shown("r").await;
    assert_eq!((&shown["phase"], &shown["activeVariation"]), (&json!("rolling_back"), &json!("A")));
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_auto_advance_each_stage_but_the_last_waits_for_somebody() {
    let player = Player::start().await;
    let mut strategy = two_stages();
    strategy["autoAdvance"] = json!(false);
    strategy["stages"][0]["requireApproval"] = json!(false);
    let created = player.create(&body("r", &strategy)).await.ok().json();
    assert_eq!(created["rolloutStrategy"]["autoAdvance"], false);
    let asks = |at: usize| created["stages"][at]["requireApproval"].clone();
    assert_eq!((asks(0), asks(1)), (json!(true), json!(false)));
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    assert!(!player.walks("r", "10 %").await);
    assert_eq!(player.stands("r").await.1, "awaiting_approval");
    player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blue_green_instant_gives_green_nothing_and_then_everything() {
    let player = Player::start().await;
    let mut body = body("r", &json!("blue-green-instant"));
    body["trafficSplit"] =
        json!({"type": "header", "headerMatch": {"header": "X-Variation", "values": {"B": "B"}}});
    let created = player.create(&body).await.ok().json();
    assert_eq!(
        created["trafficSplit"]["percentages"],
        json!({"A": 100.0, "B": 0.0}),
        "values not listed are stable"
    );
    assert_eq!(created["trafficSplit"]["headerMatch"], body["trafficSplit"]["headerMatch"]);
    let stages: Vec<&Value> =
        created["stages"].as_array().unwrap().iter().map(|one| &one["trafficPercentage"]).collect();
    assert_eq!(stages, [&json!(0.0), &json!(100.0)]);
    assert_eq!(created["stages"][0]["requireApproval"], true);
    player.act("r", "start", &Value::Null).await.ok();
    player.begins("r").await;
    assert_eq!(player.stands("r").await.0, "deploying", "nothing has a share");
    player.world.stop().await;
}

/// However a rollout is submitted, the same happens and is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_rollout_by_yaml_and_by_this_interface_has_the_same_trail() {
    let mut trails = Vec::new();
    for by_yaml in [false, true] {
        let player = Player::start().await;
        if by_yaml {
            let made = Player::start().await;
            made.create(&body("r", &two_stages())).await.ok();
            let text = made.world.get("/api/v1/releases/r/strategy").await.ok().text();
            made.world.stop().await;
            player.world.submit_to("/release?start=false&by=ann", &text).await.ok();
        } else {
            player.create(&body("r", &two_stages())).await.ok();
        }
        let created = player.shown("r").await;
        player.act("r", "start", &Value::Null).await.ok();
        player.begins("r").await;
        player.walks("r", "10 %").await;
        player.act("r", "advance", &json!({})).await.ok();
        player.leaves("r", "10 %").await;
        player.walks("r", "100 %").await;
        assert_eq!(player.stands("r").await.0, "completed");
        let same = |mut shown: Value| {
            shown["createdAt"] = Value::Null;
            shown
        };
        trails.push((player.kinds("r").await, same(created)));
        player.world.stop().await;
    }
    assert_eq!(trails[0], trails[1]);
}
