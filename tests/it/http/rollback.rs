//! What ran before a release that is over comes back, by a release of its own.

use serde_json::{Value, json};

use super::{tenants::Shared, traffic::tell};
use crate::{
    ab::player::Player,
    world::{Answer, STAGE, World, strategy},
};

/// The stage in which something comes back at once.
const BACK: &str = "put back";

async fn roll_back(world: &World, id: &str, query: &str) -> Answer {
    world.post(&format!("/api/v1/releases/{id}/rollback{query}"), &json!({"by": "eve"})).await
}

async fn state(world: &World, id: &str) -> Value {
    world.get(&format!("/api/v1/releases/{id}")).await.ok().json()["state"].clone()
}

/// Takes a child through a release that puts something back.
async fn run_back(world: &World, child: &str, id: &str) {
    world.run_stage(child, id, BACK).await;
    world.roll_out(child, id).await;
    assert_eq!(state(world, id).await, "Done");
}

/// The folder of the function's version that the only child has, and the release that left it there.
async fn deployed(world: &World) -> (Value, Value) {
    let all = world.get("/api/v1/deployments?function=sieve").await.ok().json();
    (all["items"][0]["path"].clone(), all["items"][0]["release"].clone())
}

/// The canary sample from one version of the function to another.
fn between(id: &str, base: &str, new: &str) -> String {
    let text = strategy(id).replace("fns/sieve_base", "BASE").replace("fns/sieve_new", "NEW");
    text.replace("BASE", &format!("fns/{base}")).replace("NEW", &format!("fns/{new}"))
}

#[tokio::test]
async fn what_ran_before_is_shown_submitted_once_and_rolled_out() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.run(&child, "a").await;

    let plan = roll_back(&world, "a", "?dry_run=true").await;
    assert_eq!((plan.status, plan.header("location")), (200, ""));
    insta::assert_snapshot!(plan.text(), @r#"{"id":"a-rollback","created":true,"dry_run":true,"participants":1,"least_ms":0,"excluded":{},"waits_for":[],"warnings":[],"rollback_of":"a","puts_back":[{"name":"sieve","from":"fns/sieve_new","to":"fns/sieve_base"}],"staged":false}"#);
    assert_eq!(world.get("/api/v1/releases/a-rollback").await.status, 404);

    let made = roll_back(&world, "a", "").await;
    assert_eq!((made.status, made.header("location")), (201, "/api/v1/releases/a-rollback"));
    // Whoever asks again is told of the same.
    let again = roll_back(&world, "a", "").await;
    assert_eq!((again.status, again.json()["created"].clone()), (200, json!(false)));
    assert_eq!(again.json()["id"], "a-rollback");
    let other = roll_back(&world, "a", "?new_id=other").await;
    insta::assert_snapshot!(other.problem(), @"409 /problems/conflict: release a-rollback puts that back already: choirmaster release watch a-rollback shows how it goes");

    run_back(&world, &child, "a-rollback").await;
    assert_eq!(deployed(&world).await, (json!("fns/sieve_base"), json!("a-rollback")));
    let text = world.get("/api/v1/releases/a-rollback/strategy").await.ok().text();
    assert!(text.contains("\"rollback-of\": \"a\""), "{text}");
    let trail = world.get("/api/v1/audit?release=a-rollback&limit=1000").await.ok().text();
    assert!(trail.contains("\"note\":\"rollback of a\"") && trail.contains("operator:eve"), "{trail}");
    world.stop().await;
}

#[tokio::test]
async fn a_rollback_is_rolled_back_by_the_same_rules_and_each_has_its_own_id() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.run(&child, "a").await;
    roll_back(&world, "a", "").await.ok();
    run_back(&world, &child, "a-rollback").await;
    let twice = roll_back(&world, "a", "").await;
    insta::assert_snapshot!(twice.problem(), @"409 /problems/changed-since: release a was rolled back already, by release a-rollback");

    // As it was after the release, so that can be rolled back again; also after a restart.
    roll_back(&world, "a-rollback", "").await.ok();
    run_back(&world, &child, "a-rollback-rollback").await;
    assert_eq!(deployed(&world).await.0, "fns/sieve_new");
    let world = world.restart().await;
    for query in ["?new_id=a-rollback", "?new_id=a-rollback&dry_run=true"] {
        let taken = roll_back(&world, "a", query).await.problem();
        let said = "409 /problems/id-taken: release a-rollback is over: name another id for this rollback (new_id, --id)";
        assert_eq!(taken, said, "{query}");
    }
    assert_eq!(roll_back(&world, "a", "").await.ok().json()["id"], "a-rollback-2");
    run_back(&world, &child, "a-rollback-2").await;
    assert_eq!(deployed(&world).await, (json!("fns/sieve_base"), json!("a-rollback-2")));
    world.stop().await;
}

#[tokio::test]
async fn what_a_later_release_left_is_not_taken_away() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.run(&child, "a").await;
    // Nobody has begun the one, and nobody got anything of the other.
    let late = between("late", "sieve_new", "sieve_broken");
    world.submit_to("/release?start=false", &late).await.ok();
    world.submit(&between("aborted", "sieve_new", "sieve_broken")).await.ok();
    world.call("POST", "/api/v1/releases/aborted/abort").await.ok();
    roll_back(&world, "a", "?dry_run=true").await.ok();

    world.submit(&between("b", "sieve_new", "sieve_broken")).await.ok();
    let running = roll_back(&world, "a", "?dry_run=true").await;
    insta::assert_snapshot!(running.problem(), @"409 /problems/conflict: release b changes sieve, and is Running: abort it, or wait until it is over");
    world.run(&child, "b").await;
    for query in ["?dry_run=true", ""] {
        let changed = roll_back(&world, "a", query).await.problem();
        let said = "409 /problems/changed-since: release b came after a and changed sieve: roll that one back, or release what is to run";
        assert_eq!(changed, said, "{query}");
    }
    // Once that is rolled back, what the first one left serves again.
    roll_back(&world, "b", "").await.ok();
    run_back(&world, &child, "b-rollback").await;
    roll_back(&world, "a", "").await.ok();
    run_back(&world, &child, "a-rollback").await;
    assert_eq!(deployed(&world).await.0, "fns/sieve_base");
    world.stop().await;
}

#[tokio::test]
async fn what_is_not_over_or_left_nothing_is_refused_with_what_to_do() {
    let world = World::start().await;
    let mut seen = String::new();
    world.submit(&strategy("nobody")).await.ok();
    let child = world.child().await;
    world.submit_to("/release?start=false", &strategy("planned")).await.ok();
    world.submit(&strategy("aborted")).await.ok();
    world.call("POST", "/api/v1/releases/aborted/abort").await.ok();
    world.submit(&strategy("failed")).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "failed").await.ok();
    world.report(&child, "failed", STAGE, 5).await.ok();
    world.submit(&strategy("running")).await.ok();
    for id in ["nobody", "planned", "aborted", "failed", "running", "unknown"] {
        seen += &format!("{}\n", roll_back(&world, id, "").await.problem());
    }
    insta::assert_snapshot!(seen, @r"
    409 /problems/wrong-state: release nobody had nobody who took part: there is nothing to put back
    409 /problems/wrong-state: release planned is Planned, and not over: choirmaster release abort planned ends it and puts back what ran before
    409 /problems/wrong-state: release aborted was rolled back already
    409 /problems/wrong-state: release failed has left its new version nowhere: there is nothing to put back
    409 /problems/wrong-state: release running is Running, and not over: choirmaster release abort running ends it and puts back what ran before
    404 /problems/unknown-release: release unknown is not known
    ");
    world.stop().await;
}

#[tokio::test]
async fn annotations_of_a_strategy_make_no_canary_of_it() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&format!("{}annotations: {{canary-release: \"0\"}}\n", strategy("a"))).await.ok();
    world.run(&child, "a").await;
    roll_back(&world, "a", "?dry_run=true").await.ok();
    world.stop().await;
}

#[tokio::test]
async fn where_what_ran_before_is_gone_it_is_named() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    world.run(&child, "a").await;
    world.sql("DELETE FROM archives").await;
    let gone = roll_back(&world, "a", "?dry_run=true").await.problem();
    let (what, rest) = gone.split_once(" with ").unwrap();
    assert!(
        what.starts_with(
            "409 /problems/not-kept: what ran before release a is not kept any more: the archive "
        ),
        "{gone}"
    );
    assert_eq!(rest, "fns/sieve_base is gone; submit a release that brings it along");
    world.stop().await;
}

#[tokio::test]
async fn it_may_go_through_the_stages_of_the_release() {
    let world = World::start().await;
    let (one, two) = (world.child().await, world.child().await);
    let waves = "rollout: {order: waves, waves: [1, 100%], start: \"2020-01-01T00:00:00Z\"}\n";
    world.submit(&format!("{}{waves}", strategy("a"))).await.ok();
    world.run(&one, "a").await;
    world.run(&two, "a").await;
    assert_eq!(state(&world, "a").await, "Done");
    let made = roll_back(&world, "a", "?like=true&new_id=back").await.ok().json();
    assert_eq!((&made["id"], &made["staged"], &made["warnings"]), (&json!("back"), &json!(true), &json!([])));
    let shown = world.get("/api/v1/releases/back").await.ok().json();
    assert_eq!((&shown["stages"][0]["name"], &shown["stages"][0]["new_traffic"]), (&json!(STAGE), &json!(5)));
    // One after the other, as then.
    let (first, second) = if world.poll(&one).await.1 == "back" { (&one, &two) } else { (&two, &one) };
    assert_eq!(world.poll(second).await.1, "");
    world.run(first, "back").await;
    world.run(second, "back").await;
    assert_eq!(state(&world, "back").await, "Done");
    world.stop().await;
}

#[tokio::test]
async fn an_id_can_be_chosen_and_a_note_demanded() {
    let world = World::start().await;
    let child = world.child().await;
    let long = "a".repeat(45);
    world.submit(&format!("{}rollout: {{notes: required}}\n", strategy(&long))).await.ok();
    world.run(&child, &long).await;
    let refused = async |query: &str| roll_back(&world, &long, query).await.problem().replace(&long, "LONG");
    insta::assert_snapshot!(refused("").await, @r#"422 /problems/note-required: release LONG wants a note with whatever is done to it: say why, with "note" in the body or --note on the command line"#);
    insta::assert_snapshot!(refused("?dry_run=true").await, @"400 about:blank: the id LONG-rollback would have more than 48 bytes: name another one (new_id, --id)");
    assert!(refused("?dry_run=true&new_id=a%20b").await.starts_with("400 about:blank: `new_id`: "));
    let body = json!({"by": "eve", "note": "orders fail"});
    let made = world.post(&format!("/api/v1/releases/{long}/rollback?new_id=back"), &body).await;
    assert_eq!((made.status, made.json()["id"].clone()), (201, json!("back")));
    let trail = world.get("/api/v1/audit?release=back&limit=1000").await.ok().text();
    assert!(trail.contains(&format!("\"note\":\"rollback of {long}: orders fail\"")), "{trail}");
    world.stop().await;
}

#[tokio::test]
async fn a_tenant_rolls_back_its_own_and_names_it_as_ever() {
    let shared = Shared::start().await;
    let child = shared.child_of("acme").await;
    shared.submit("ann", &strategy("a")).await.ok();
    shared.world.run(&child, "~acme~a").await;
    let path = "/api/v1/releases/a/rollback";
    let body = json!({});
    assert_eq!(shared.post("vic", path, &body).await.status, 403);
    assert_eq!(shared.post("uma", path, &body).await.status, 404);
    let made = shared.post("otto", path, &body).await;
    assert_eq!((made.status, made.header("location")), (201, "/api/v1/releases/a-rollback"));
    assert!(!made.text().contains("~acme~") && made.json()["rollback_of"] == "a", "{}", made.text());
    // Whoever has the whole manager says its long id.
    let again = shared.post("root", "/api/v1/releases/~acme~a/rollback", &body).await;
    assert_eq!((again.status, again.json()["id"].clone()), (200, json!("~acme~a-rollback")));
    let text = shared.get("ann", "/api/v1/releases/a-rollback/strategy").await.ok().text();
    assert!(text.contains("\"rollback-of\": \"a\""), "{text}");
    shared.world.stop().await;
}

/// A release of a service from A to B.
const SERVICE: &str = r#"id: s
name: s
services:
  - name: checkout
    ports: [{port: 8080, protocol: HTTP}]
    at_rollback: retire
    variations:
      - {name: A, targets: ["127.0.0.1:9101"]}
      - {name: B, targets: ["127.0.0.1:9111"]}
stages:
  - {name: half, type: WaitForSignal, shares: {A: 50, B: 50}, end_action: {onSuccess: rollout}}
"#;

/// The router goes through the only stage of a release.
async fn led(player: &Player, release: &str, stage: &str) {
    player.begins(release).await;
    assert!(player.walks(release, stage).await, "{release}");
    assert_eq!(state(&player.world, release).await, "Done");
}

#[tokio::test]
async fn a_service_gets_the_variation_back_that_was_stable() {
    let player = Player::start().await;
    player.world.submit(SERVICE).await.ok();
    led(&player, "s", "half").await;
    let made = roll_back(&player.world, "s", "").await.ok().json();
    assert_eq!(
        made["puts_back"],
        json!([{"name": "service/checkout", "from": "B (127.0.0.1:9111)", "to": "A (127.0.0.1:9101)"}])
    );
    let codes: Vec<_> = made["warnings"].as_array().unwrap().iter().map(|warning| &warning["code"]).collect();
    assert_eq!(codes, ["stays-led"]);
    led(&player, "s-rollback", BACK).await;
    let twice = roll_back(&player.world, "s", "").await.problem();
    assert_eq!(
        twice,
        "409 /problems/changed-since: release s was rolled back already, by release s-rollback"
    );
    let made = roll_back(&player.world, "s-rollback", "?dry_run=true").await.ok().json();
    assert_eq!(made["puts_back"][0]["to"], "B (127.0.0.1:9111)");
    player.world.stop().await;
}

#[tokio::test]
async fn a_router_that_serves_something_else_is_named() {
    let player = Player::start().await;
    player.world.submit(SERVICE).await.ok();
    led(&player, "s", "half").await;
    let variation = |name: &str, share: u16| json!({"name": name, "wanted": share, "seen": share, "targets": {"healthy": null, "total": 1}, "calls": 9, "errors": 0});
    let stands = json!({
        "id": player.router,
        "router": {"kind": "embedded", "phase": "in_force", "reached": true},
        "services": [{
            "name": "checkout", "epoch": 1, "generation": 7, "offer": "s", "seen_ago_ms": 5, "measured_ms": 60_000, "standing": true,
            "variations": [variation("A", 10_000), variation("B", 0)],
            "led": {
                "ports": [{"port": 8080, "protocol": "HTTP"}],
                "variations": [
                    {"name": "A", "targets": ["127.0.0.1:9101"]}, {"name": "B", "targets": ["127.0.0.1:9111"]},
                ],
            },
        }],
    });
    tell(&player.world, &stands).await.ok();
    let refused = roll_back(&player.world, "s", "?dry_run=true").await.problem();
    assert!(
        refused.starts_with("409 /problems/other-base: release s serves not everywhere any more: "),
        "{refused}"
    );
    assert!(refused.contains(&format!("at router {} is A at 127.0.0.1:9101", player.router)), "{refused}");
    assert!(refused.ends_with("choirmaster children cordon"), "{refused}");
    // Without that router there is nobody left, and that is said.
    let cordon = format!("/api/v1/children/{}/cordon", player.router);
    player.world.post(&cordon, &json!({"by": "eve"})).await.ok();
    let plan = roll_back(&player.world, "s", "?dry_run=true").await.ok().json();
    assert_eq!((&plan["participants"], &plan["excluded"]), (&json!(0), &json!({"cordoned": 1})));
    player.world.stop().await;
}
