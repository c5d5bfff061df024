//! The target-group model: agents with the labels of a group run both variations and share the calls; no router is there.

use serde_json::{Value, json};

use super::player::{Player, two_stages};
use crate::{
    http::tenants::Shared,
    store::place::Place,
    world::{self, Answer},
};

/// A release to the agents of a group.
fn body(name: &str) -> Value {
    json!({
        "environmentId": "batch", "name": name, "rolloutStrategy": two_stages(),
        "variations": [{"name": "A", "releaseId": "old"}, {"name": "B", "releaseId": "new", "targetGroupId": "workers"}],
        "trafficSplit": {"type": "sticky", "stickyKey": "cookie:session", "percentages": {"A": 90, "B": 10}},
    })
}

/// An agent with these labels, which has called twice.
async fn agent(player: &mut Player, tier: &str) -> String {
    player.capabilities = json!({"leads": "whole", "runtimes": ["nodejs"], "labels": {"tier": tier}});
    player.router = String::new();
    player.router = player.polls().await.0;
    player.polls().await;
    player.router.clone()
}

/// What such releases name. The archive came with a release of before.
async fn registered(player: &Player) -> String {
    let world = &player.world;
    world.submit(&world::strategy("before")).await.ok();
    let shown = world.get("/api/v1/releases/before").await.ok().json();
    let digest = shown["functions_digest"].as_str().unwrap().to_owned();
    world.post("/api/v1/releases/before/abort", &json!({})).await.ok();
    world.post("/api/v1/environments", &json!({"name": "batch", "service": "sieve"})).await.ok();
    world.post("/api/v1/target-groups", &json!({"name": "workers", "labels": {"tier": "batch"}})).await.ok();
    for (name, folder) in [("old", "fns/sieve_base"), ("new", "fns/sieve_new")] {
        let version = json!({"name": name, "digest": digest, "path": folder, "env": "nodejs"});
        world.post("/api/v1/versions", &version).await.ok();
    }
    digest
}

async fn release_to_agent_group_deploys_and_is_shown_like_others(place: &Place) {
    let mut player = Player::at(place).await;
    registered(&player).await;
    let other = agent(&mut player, "web").await;
    let own = agent(&mut player, "batch").await;
    let created = player.create(&body("r")).await;
    assert_eq!(created.status, 201, "{}", created.text());
    let shown = created.json();
    let text = player.world.get("/api/v1/releases/r/strategy").await.ok().text();
    insta::allow_duplicates! { insta::assert_snapshot!(text, @r##"
    id: r
    name: "r"
    annotations: {"environment":"batch","rollout-strategy":"{\"auto_advance\":\"true\",\"interval\":\"30s\",\"name\":\"mine\",\"on_failure\":\"rollback\",\"stages\":[{\"approval\":\"true\",\"duration\":\"0s\",\"healthy_targets\":\"95.00\",\"traffic\":\"10.00\"},{\"approval\":\"false\",\"duration\":\"0s\",\"healthy_targets\":\"95.00\",\"traffic\":\"100.00\"}]}","target-group/B":"workers","variation/base_version":"A","variation/new_version":"B","version/A":"old","version/B":"new"}
    target: {"labels":{"tier":"batch"}}
    functions: [{"base_version":{"env":"nodejs","path":"fns/sieve_base"},"name":"sieve","new_version":{"env":"nodejs","path":"fns/sieve_new"},"sticky":{"cookie":"session"}}]
    stages: [{"end_action":{"onFailure":"rollback","onSuccess":"100 %"},"end_conditions":[{"name":"minDuration","threshold":"0s"},{"name":"minCalls","threshold":"1000"}],"func_name":"sieve","metrics_conditions":[{"name":"errorRate","threshold":"<0.05"}],"name":"10 %","type":"A/B","variants":[{"name":"base_version","trafficPercentage":90},{"name":"new_version","trafficPercentage":10}]},{"end_action":{"onFailure":"rollback","onSuccess":"rollout"},"end_conditions":[{"name":"minDuration","threshold":"0s"},{"name":"minCalls","threshold":"100"}],"func_name":"sieve","metrics_conditions":[{"name":"errorRate","threshold":"<0.05"}],"name":"100 %","type":"A/B","variants":[{"name":"base_version","trafficPercentage":0},{"name":"new_version","trafficPercentage":100}]}]
    rollout: {"approval":{"stages":["100 %"]},"on_failure":"rollback","order":"global_incremental"}
    "##); }
    assert_eq!(shown["variations"][0]["deploymentJobId"], Value::Null, "it runs already");
    assert_eq!(shown["variations"][1]["deploymentJobId"], "r", "the offer that deploys it");
    assert_eq!(shown["variations"][1]["targetGroup"], "workers");
    assert_eq!(shown["trafficSplit"]["stickyKey"], "cookie:session");
    assert_eq!((&shown["environment"], &shown["status"]), (&json!("batch"), &json!("created")));
    assert_eq!(shown["rolloutStrategy"]["name"], "mine");
    assert_eq!(shown["rolloutStrategy"]["stages"], two_stages_as_shown());
    player.act("r", "start", &Value::Null).await.ok();
    player.router = other;
    assert_eq!(player.polls().await.1, "", "who isn't of the group has no part");
    player.router = own;
    player.begins("r").await;
    assert_eq!(player.stands("r").await.0, "running");
    super::views::agree(place, &player).await;
    player.walks("r", "10 %").await;
    player.act("r", "advance", &json!({})).await.ok();
    player.leaves("r", "10 %").await;
    player.walks("r", "100 %").await;
    super::views::agree(place, &player).await;
    let told = player.told("r").await;
    for kind in
        ["ab.created", "ab.started", "canary.stage_started", "canary.stage_passed", "ab.stage_advanced"]
    {
        assert!(told.iter().any(|told| told == kind), "{kind}: {told:?}");
    }
    player.world.stop().await;
}

fn two_stages_as_shown() -> Value {
    let stage = |traffic: f64, asks: bool| json!({"trafficPercentage": traffic, "durationSeconds": 0.0, "healthThreshold": 95.0, "requireApproval": asks});
    json!([stage(10.0, true), stage(100.0, false)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_agents_cannot_do_is_refused_by_the_field_that_asks_for_it() {
    let player = Player::start().await;
    let digest = registered(&player).await;
    let world = &player.world;
    let version = async |name: &str, more: Value| {
        let mut spec = json!({"name": name, "digest": digest, "path": "fns/sieve_new", "env": "nodejs"});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        world.post("/api/v1/versions", &spec).await.ok();
    };
    version("nowhere", json!({"path": null})).await;
    version("anything", json!({"env": null})).await;
    version("empty", json!({"path": "fns/none"})).await;
    version("unknown", json!({"digest": "0".repeat(64)})).await;
    world.post("/api/v1/target-groups", &json!({"name": "others", "labels": {"tier": "web"}})).await.ok();
    world.post("/api/v1/target-groups", &json!({"name": "fixed", "addresses": ["127.0.0.1:1"]})).await.ok();
    let three = json!([{"name": "A", "releaseId": "old"}, {"name": "B", "releaseId": "new", "targetGroupId": "workers"}, {"name": "C", "releaseId": "new"}]);
    let pair = |stable: Value, new: Value| json!([stable, new]);
    let old = || json!({"name": "A", "releaseId": "old"});
    let of = |version: &str| json!({"name": "B", "releaseId": version, "targetGroupId": "workers"});
    let stages = |first: f64| {
        let stage = |traffic: f64| json!({"trafficPercentage": traffic, "durationSeconds": 0});
        json!({"stages": [stage(first), stage(100.0)]})
    };
    let mut seen = String::new();
    for change in [
        json!({"variations": three, "trafficSplit": {"type": "percentage"}}),
        json!({"variations": pair(old(), json!({"name": "B", "releaseId": "new"}))}),
        json!({"variations": pair(old(), json!({"name": "B", "releaseId": "new", "targetGroupId": "fixed"}))}),
        json!({"variations": pair(json!({"name": "A", "releaseId": "old", "targetGroupId": "others"}), of("new"))}),
        json!({"variations": pair(json!({"name": "A", "releaseId": "v41"}), of("new"))}),
        json!({"variations": pair(old(), of("nowhere"))}),
        json!({"variations": pair(old(), of("anything"))}),
        json!({"variations": pair(old(), of("empty"))}),
        json!({"variations": pair(old(), of("unknown"))}),
        json!({"trafficSplit": {"type": "header", "percentages": {"A": 90, "B": 10}, "headerMatch": {"header": "X", "values": {"1": "B"}}}}),
        json!({"trafficSplit": {"type": "percentage"}, "rolloutStrategy": stages(0.25)}),
        json!({"trafficSplit": {"type": "percentage"}, "rolloutStrategy": "blue-green-instant"}),
    ] {
        let mut wrong = body("r");
        for (key, value) in change.as_object().unwrap() {
            wrong[key] = value.clone();
        }
        let answer: Answer = player.create(&wrong).await;
        seen += &format!("{}\n", answer.problem().replace(&digest, "DIGEST"));
    }
    insta::assert_snapshot!(seen, @r##"
    422 /problems/invalid-field: `variations`: agents run two versions of a function side by side: without a router there are two variations
    422 /problems/invalid-field: `variations[1].targetGroupId`: environment batch has no ports, so no router leads calls there: name a target group with the labels of agents
    422 /problems/invalid-field: `variations[1].targetGroupId`: environment batch has no ports, so no router leads calls there: name a target group with the labels of agents
    422 /problems/invalid-field: `variations[0].targetGroupId`: without a router nobody shares calls among groups: name workers, whose agents run both, or none
    422 /problems/invalid-field: `variations[0].releaseId`: version v41 names no archive by its digest, so agents have nothing to run
    422 /problems/invalid-field: `variations[1].releaseId`: version nowhere doesn't say in which folder of its archive it is: register it with a path
    422 /problems/invalid-field: `variations[1].releaseId`: version anything doesn't say what runs it: register it with an env, as in nodejs
    422 /problems/invalid-field: `variations[1].releaseId`: its archive has no folder "fns/none", or nothing is in it
    422 /problems/invalid-field: `variations[1].releaseId`: no release has brought the archive 0000000000000000000000000000000000000000000000000000000000000000 of version unknown along: submit one with it first, and register the functions_digest that `release show --json` tells
    422 /problems/invalid-field: `trafficSplit.headerMatch`: a header asks routers for a variation, and this environment has none
    422 /problems/invalid-field: `rolloutStrategy.stages[0].trafficPercentage`: agents share calls out by whole percents, and prove a version by its calls: it is from 1 to 100
    422 /problems/invalid-field: `rolloutStrategy.stages[0].trafficPercentage`: agents share calls out by whole percents, and prove a version by its calls: it is from 1 to 100
    "##);
    player.world.stop().await;
}

/// Whoever knows the digest of another tenant's archive has nothing of it deployed.
#[tokio::test]
async fn an_archive_of_another_tenants_release_is_as_one_that_is_not_there() {
    let shared = Shared::start().await;
    shared.submit("uma", &world::strategy("theirs")).await.ok();
    let shown = shared.get("uma", "/api/v1/releases/theirs").await.ok().json();
    let mut refused = Vec::new();
    for digest in [shown["functions_digest"].as_str().unwrap(), &"0".repeat(64)] {
        shared.post("ann", "/api/v1/environments", &json!({"name": "batch", "service": "sieve"})).await.ok();
        let group = json!({"name": "workers", "labels": {"tier": "batch"}});
        shared.post("ann", "/api/v1/target-groups", &group).await.ok();
        for (name, folder) in [("old", "fns/sieve_base"), ("new", "fns/sieve_new")] {
            let version = json!({"name": name, "digest": digest, "path": folder, "env": "nodejs"});
            shared.post("ann", "/api/v1/versions", &version).await.ok();
        }
        let answer = shared.post("ann", "/api/v1/ab-releases", &body("r")).await;
        refused.push(answer.problem().replace(digest, "DIGEST"));
    }
    assert!(
        refused[0]
            .starts_with("422 /problems/invalid-field: `variations[0].releaseId`: no release has brought")
    );
    assert_eq!(refused[0], refused[1]);
    shared.world.stop().await;
}

crate::store::place::stories!(release_to_agent_group_deploys_and_is_shown_like_others,);
