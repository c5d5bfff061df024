//! The hybrid model: agents with the labels of a group deploy the new variation, and then routers shift the calls to it.

use serde_json::{Value, json};

use super::player::{Player, two_stages};
use crate::{
    store::place::Place,
    world::{self, Answer},
};

/// A release in an environment with ports, whose new variation agents deploy.
fn body(name: &str) -> Value {
    json!({
        "environmentId": "both", "name": name, "rolloutStrategy": two_stages(),
        "variations": [{"name": "A", "releaseId": "old"}, {"name": "B", "releaseId": "new", "targetGroupId": "workers"}],
        "trafficSplit": {"type": "sticky", "stickyKey": "cookie:session", "percentages": {"A": 90, "B": 10}},
    })
}

/// A child by its id, and what it says of itself.
type Played = (String, Value);

/// A router, an agent of the group and one of another, each of which has called twice.
struct Crew {
    player: Player,
    router: Played,
    agent: Played,
    other: Played,
    digest: String,
}

impl Crew {
    async fn of(mut player: Player) -> Self {
        let router = (player.router.clone(), player.capabilities.clone());
        let agent = join(&mut player, "batch").await;
        let other = join(&mut player, "web").await;
        let digest = registered(&player).await;
        Self { player, router, agent, other, digest }
    }

    /// The player is this child from now on.
    fn play(&mut self, child: &Played) {
        (self.player.router, self.player.capabilities) = child.clone();
    }

    /// What waits for a child.
    async fn offered(&mut self, child: &Played) -> String {
        self.play(child);
        self.player.polls().await.1
    }

    /// The release is created and started, and the agent has deployed.
    async fn deployed(&mut self) {
        self.player.create(&body("r")).await.ok();
        self.player.act("r", "start", &Value::Null).await.ok();
        self.play(&self.agent.clone());
        self.player.begins("r").await;
        assert!(self.player.walks("r", "deploy").await);
    }
}

/// An agent with these labels.
async fn join(player: &mut Player, tier: &str) -> Played {
    player.capabilities = json!({"leads": "whole", "runtimes": ["nodejs"], "labels": {"tier": tier}});
    player.router = String::new();
    player.router = player.polls().await.0;
    player.polls().await;
    (player.router.clone(), player.capabilities.clone())
}

/// What such releases name. The archive came with a release of before.
async fn registered(player: &Player) -> String {
    let world = &player.world;
    world.submit(&world::strategy("before")).await.ok();
    let shown = world.get("/api/v1/releases/before").await.ok().json();
    let digest = shown["functions_digest"].as_str().unwrap().to_owned();
    world.post("/api/v1/releases/before/abort", &json!({})).await.ok();
    let environment = json!({"name": "both", "service": "sieve", "ports": [{"port": 8080}]});
    world.post("/api/v1/environments", &environment).await.ok();
    world.post("/api/v1/target-groups", &json!({"name": "workers", "labels": {"tier": "batch"}})).await.ok();
    for (name, folder, target) in
        [("old", "fns/sieve_base", "127.0.0.1:9101"), ("new", "fns/sieve_new", "127.0.0.1:9111")]
    {
        let version =
            json!({"name": name, "digest": digest, "path": folder, "env": "nodejs", "targets": [target]});
        world.post("/api/v1/versions", &version).await.ok();
    }
    digest
}

async fn agents_of_a_group_deploy_a_variation_before_any_router_gives_it_calls(place: &Place) {
    let mut crew = Crew::of(Player::at(place).await).await;
    let (router, agent, other) = (crew.router.clone(), crew.agent.clone(), crew.other.clone());
    let created = crew.player.create(&body("r")).await;
    assert_eq!(created.status, 201, "{}", created.text());
    let shown = created.json();
    let text = crew.player.world.get("/api/v1/releases/r/strategy").await.ok().text();
    insta::allow_duplicates! { insta::assert_snapshot!(text, @r##"
    id: r
    name: "r"
    annotations: {"environment":"both","target-group/B":"workers","variation/base_version":"A","variation/new_version":"B","version/A":"old","version/B":"new"}
    functions: [{"agents":{"labels":{"tier":"batch"}},"base_version":{"env":"nodejs","path":"fns/sieve_base"},"name":"sieve","new_version":{"env":"nodejs","path":"fns/sieve_new"}}]
    services:
      - name: "sieve"
        ports: [{"port":8080,"protocol":"HTTP"}]
        sticky: {"cookie":"session"}
        variations:
          - {"name":"A","targets":["127.0.0.1:9101"]}
          - {"name":"B","targets":["127.0.0.1:9111"]}
    stages: [{"end_action":{"onFailure":"rollback","onSuccess":"rollout"},"func_name":"sieve","name":"deploy","type":"A/B","variants":[{"name":"base_version","trafficPercentage":100},{"name":"new_version","trafficPercentage":0}]}]
    strategy: {"auto_advance":"true","interval":"30s","name":"mine","on_failure":"rollback","stages":[{"approval":"true","duration":"0s","healthy_targets":"95.00","traffic":"10.00"},{"approval":"false","duration":"0s","healthy_targets":"95.00","traffic":"100.00"}]}
    "##); }
    assert_eq!(shown["variations"][0]["deploymentJobId"], Value::Null, "it runs already");
    assert_eq!(shown["variations"][1]["deploymentJobId"], "r", "the offer that deploys it");
    assert_eq!(shown["variations"][1]["targetGroup"], "workers");
    assert_eq!(shown["stages"].as_array().unwrap().len(), 2, "those of the routers");
    crew.player.act("r", "start", &Value::Null).await.ok();
    assert_eq!(crew.offered(&router).await, "", "agents go first");
    assert_eq!(crew.offered(&other).await, "", "who isn't of the group has no part");
    crew.play(&agent);
    crew.player.begins("r").await;
    assert_eq!(crew.player.stands("r").await, ("deploying".into(), "deploying".into()));
    assert_eq!(crew.player.stages("r").await, ["pending", "pending"]);
    super::views::agree(place, &crew.player).await;
    let early = crew.player.act("r", "promote", &json!({"variation": "B"})).await;
    assert!(early.problem().starts_with("409 /problems/wrong-state: "), "{}", early.problem());
    assert_eq!(crew.player.stages("r").await, ["pending", "pending"], "and nothing was left out for it");
    assert_eq!(crew.offered(&router).await, "");
    crew.play(&agent);
    assert!(crew.player.walks("r", "deploy").await);
    crew.play(&router);
    crew.player.begins("r").await;
    assert_eq!(crew.player.stands("r").await, ("running".into(), "in_stage".into()));
    let traffic = crew.player.world.get("/api/v1/ab-releases/r/traffic").await.ok().json();
    let told = traffic["currentSplit"]["routers"].as_array().unwrap();
    assert_eq!((told.len(), &told[0]["router"]), (1, &json!(router.0)), "agents are no routers: {traffic:#}");
    assert_eq!(told[0]["wanted"], json!({"A": 90.0, "B": 10.0}));
    super::views::agree(place, &crew.player).await;
    crew.player.walks("r", "10 %").await;
    let health = crew.player.world.get("/api/v1/ab-releases/r/health").await.ok().json();
    assert_eq!(health["variations"][1]["samples"], 1_000, "those of the routers: {health:#}");
    assert_eq!(crew.player.stands("r").await, ("running".into(), "awaiting_approval".into()));
    crew.player.act("r", "advance", &json!({})).await.ok();
    crew.player.leaves("r", "10 %").await;
    crew.player.walks("r", "100 %").await;
    assert_eq!(crew.player.stands("r").await, ("completed".into(), "done".into()));
    assert_eq!(crew.player.shown("r").await["activeVariation"], "B");
    super::views::agree(place, &crew.player).await;
    assert_eq!(
        crew.player.told("r").await,
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
    crew.player.world.stop().await;
}

async fn a_variation_that_agents_cannot_deploy_never_gets_a_call(place: &Place) {
    let mut crew = Crew::of(Player::at(place).await).await;
    let (router, agent) = (crew.router.clone(), crew.agent.clone());
    crew.player.create(&body("r")).await.ok();
    crew.player.act("r", "start", &Value::Null).await.ok();
    crew.play(&agent);
    crew.player.begins("r").await;
    crew.player.reports("r", "deploy", 5, 1_000).await.ok();
    assert_eq!(crew.offered(&router).await, "");
    let shown = crew.player.shown("r").await;
    assert_eq!((&shown["status"], &shown["activeVariation"]), (&json!("rolled_back"), &json!("A")));
    assert_eq!(crew.player.stages("r").await, ["skipped", "skipped"]);
    super::views::agree(place, &crew.player).await;
    assert_eq!(crew.player.told("r").await, ["ab.created", "ab.started", "ab.rolled_back"]);
    crew.player.world.stop().await;
}

async fn what_routers_find_bad_goes_back_there_before_agents_take_it_back(place: &Place) {
    let mut crew = Crew::of(Player::at(place).await).await;
    let (router, agent) = (crew.router.clone(), crew.agent.clone());
    crew.deployed().await;
    crew.play(&router);
    crew.player.begins("r").await;
    crew.player.act("r", "rollback", &Value::Null).await.ok();
    assert_eq!(
        crew.player.stands("r").await,
        ("running".into(), "rolling_back".into()),
        "calls may still come"
    );
    super::views::agree(place, &crew.player).await;
    assert_eq!(crew.offered(&agent).await, "", "routers may still send calls there");
    for child in [&router, &agent] {
        assert_eq!(crew.offered(child).await, "r.undo", "routers first");
        crew.player.begins("r.undo").await;
        crew.player.reports("r.undo", "choirmaster undo", 4, 0).await.ok();
    }
    let shown = crew.player.shown("r").await;
    assert_eq!((&shown["status"], &shown["phase"]), (&json!("rolled_back"), &json!("aborted")));
    assert_eq!(crew.player.stages("r").await, ["failed", "skipped"]);
    super::views::agree(place, &crew.player).await;
    crew.player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_make_a_hybrid_is_refused_by_the_field() {
    let crew = Crew::of(Player::start().await).await;
    let (player, digest) = (&crew.player, &crew.digest);
    let world = &player.world;
    for (name, spec) in [
        ("elsewhere", json!({"targets": ["127.0.0.1:9121"]})),
        ("nowhere", json!({"digest": digest, "path": "fns/sieve_new", "env": "nodejs"})),
        (
            "empty",
            json!({"digest": digest, "path": "fns/none", "env": "nodejs", "targets": ["127.0.0.1:9131"]}),
        ),
    ] {
        let mut version = spec.clone();
        version["name"] = json!(name);
        world.post("/api/v1/versions", &version).await.ok();
    }
    world.post("/api/v1/target-groups", &json!({"name": "others", "labels": {"tier": "web"}})).await.ok();
    world
        .post("/api/v1/target-groups", &json!({"name": "fixed", "addresses": ["127.0.0.1:9101"]}))
        .await
        .ok();
    let of = |name: &str, version: &str, group: &str| json!({"name": name, "releaseId": version, "targetGroupId": group});
    let b = || of("B", "new", "workers");
    let mut seen = String::new();
    for variations in [
        json!([{"name": "A", "releaseId": "old"}, of("B", "nowhere", "workers")]),
        json!([{"name": "A", "releaseId": "elsewhere"}, b()]),
        json!([{"name": "A", "releaseId": "old"}, of("B", "elsewhere", "workers")]),
        json!([{"name": "A", "releaseId": "old"}, of("B", "empty", "workers")]),
        json!([of("A", "old", "others"), b()]),
        json!([of("A", "old", "workers"), {"name": "B", "releaseId": "new"}]),
        json!([{"name": "A", "releaseId": "old"}, b(), of("C", "new", "others")]),
    ] {
        let mut wrong = body("r");
        wrong["variations"] = variations;
        wrong["trafficSplit"] = json!({"type": "percentage"});
        let answer: Answer = player.create(&wrong).await;
        seen += &format!("{}\n", answer.problem());
    }
    insta::assert_snapshot!(seen, @r##"
    422 /problems/invalid-field: `variations[1].releaseId`: version nowhere has no targets, and routers need to know where the agents of workers serve it: register it with them
    422 /problems/invalid-field: `variations[0].releaseId`: version elsewhere names no archive by its digest, so agents have nothing to run
    422 /problems/invalid-field: `variations[1].releaseId`: version elsewhere names no archive by its digest, so agents have nothing to run
    422 /problems/invalid-field: `variations[1].releaseId`: its archive has no folder "fns/none", or nothing is in it
    422 /problems/invalid-field: `variations[0].targetGroupId`: target group others is of agents, and the stable variation runs already: name the group whose agents deploy another one, or none
    422 /problems/invalid-field: `variations[0].targetGroupId`: target group workers is of agents, and the stable variation runs already: name the group whose agents deploy another one, or none
    422 /problems/invalid-field: `variations[2].targetGroupId`: agents deploy one variation of a release, and B is one: give C a target group with addresses
    "##);
    // The group that runs both may be named at both, and the stable one may be where its group says.
    for (name, group) in [("s", "workers"), ("t", "fixed")] {
        let mut same = body(name);
        same["variations"] = json!([of("A", "old", group), b()]);
        player.create(&same).await.ok();
    }
    crew.player.world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_variations_agents_deploy_the_one_of_their_group() {
    let mut crew = Crew::of(Player::start().await).await;
    let other = json!({"name": "other", "targets": ["127.0.0.1:9121"]});
    crew.player.world.post("/api/v1/versions", &other).await.ok();
    let mut three = body("r");
    three["variations"] = json!([
        {"name": "A", "releaseId": "old"}, {"name": "B", "releaseId": "other"},
        {"name": "C", "releaseId": "new", "targetGroupId": "workers"},
    ]);
    three["trafficSplit"]["percentages"] = json!({"A": 90, "B": 7.5, "C": 2.5});
    let shown = crew.player.create(&three).await.ok().json();
    let jobs: Vec<&Value> =
        shown["variations"].as_array().unwrap().iter().map(|one| &one["deploymentJobId"]).collect();
    assert_eq!(jobs, [&Value::Null, &Value::Null, &json!("r")]);
    crew.player.act("r", "start", &Value::Null).await.ok();
    crew.play(&crew.agent.clone());
    crew.player.begins("r").await;
    crew.player.walks("r", "deploy").await;
    crew.play(&crew.router.clone());
    crew.player.begins("r").await;
    let shown = crew.player.shown("r").await;
    assert_eq!(shown["trafficSplit"]["percentages"], json!({"A": 90.0, "B": 7.5, "C": 2.5}), "{shown:#}");
    crew.player.world.stop().await;
}

/// Whoever writes the text of such a release themselves gets the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_text_of_a_hybrid_release_is_one_that_anybody_may_submit() {
    let crew = Crew::of(Player::start().await).await;
    let created = crew.player.create(&body("r")).await.ok().json();
    let text = crew.player.world.get("/api/v1/releases/r/strategy").await.ok().text();
    crew.player.world.submit(&text.replace("id: r\n", "id: q\n")).await.ok();
    let shown = crew.player.shown("q").await;
    for key in ["variations", "environment", "rolloutStrategy", "trafficSplit"] {
        let created = created[key].to_string().replace("\"r\"", "\"q\"");
        assert_eq!(shown[key].to_string(), created, "{key}");
    }
    crew.player.world.stop().await;
}

crate::store::place::stories!(
    agents_of_a_group_deploy_a_variation_before_any_router_gives_it_calls,
    a_variation_that_agents_cannot_deploy_never_gets_a_call,
    what_routers_find_bad_goes_back_there_before_agents_take_it_back,
);
