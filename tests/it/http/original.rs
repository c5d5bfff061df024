//! What people who come from the original release manager rely on: releases that wait to be started, the text that a
//! child is handed, what an agent says of its next stage, the area that a manager is there for.

use serde_json::{Value, json};

use crate::world::{STAGE, World, strategy, summary};

/// Two stages, which an agent walks through.
fn two_stages(id: &str) -> String {
    let stage = |name: &str, then: &str| {
        format!(
            "  - name: {name}\n    type: WaitForSignal\n    func_name: sieve\n    variants:\n      - {{name: base_version, \
             trafficPercentage: 90}}\n      - {{name: new_version, trafficPercentage: 10}}\n    metrics_conditions:\n      \
             - {{name: errorRate, threshold: \"<0.02\"}}\n    end_action: {{onSuccess: {then}, onFailure: rollback}}\n"
        )
    };
    let head = strategy(id);
    let head = head.split("stages:").next().unwrap().to_owned();
    head + "stages:\n" + &stage("first", "second") + &stage("second", "rollout")
}

#[tokio::test]
async fn a_release_that_is_not_started_holds_nobody_up_and_starts_when_it_is_resumed() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit_to("/release?start=false", &strategy("later")).await.ok();
    let detail = world.get("/api/v1/releases/later").await.ok().json();
    assert_eq!(detail["state"], "Planned");
    assert!(detail["waits_for"].as_str().unwrap().contains("not started"), "{detail}");
    assert_eq!(world.poll(&child).await.1, "");
    // It survives a restart as it is.
    let world = world.restart().await;
    assert_eq!(world.poll(&child).await.1, "");

    world.submit(&strategy("now")).await.ok();
    world.run(&child, "now").await;
    assert_eq!(world.get("/api/v1/releases/now").await.ok().json()["state"], "Done");
    assert_eq!(world.poll(&child).await.1, "");

    let resumed = world.post("/api/v1/releases/later/resume", &json!({})).await.ok().json();
    assert_eq!(resumed["state"], "Running");
    assert_eq!(world.poll(&child).await.1, "later");
    world.run(&child, "later").await;
    assert_eq!(world.get("/api/v1/releases/later").await.ok().json()["state"], "Done");
    // What ran last is what the child has.
    let deployed = world.get("/api/v1/deployments").await.ok().json();
    assert_eq!(deployed["items"][0]["release"], "later", "{deployed}");
}

#[tokio::test]
async fn what_supersedes_or_refuses_others_does_so_when_it_is_started() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("a")).await.ok();
    assert_eq!(world.poll(&child).await.1, "a");
    world.submit_to("/release?start=false", &(strategy("b") + "\non_conflict: supersede\n")).await.ok();
    world.submit_to("/release?start=false", &(strategy("c") + "\non_conflict: refuse\n")).await.ok();
    assert_eq!(world.get("/api/v1/releases/a").await.json()["state"], "Running");
    let refused = world.post("/api/v1/releases/c/resume", &json!({})).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    world.post("/api/v1/releases/b/resume", &json!({})).await.ok();
    assert_eq!(world.get("/api/v1/releases/a").await.json()["state"], "Aborted");
    // One that waits to be started is nobody's rival, and is not superseded.
    assert_eq!(world.get("/api/v1/releases/c").await.json()["state"], "Planned");
    world.post("/api/v1/releases/c/abort", &json!({})).await.ok();
    assert_eq!(world.get("/api/v1/releases/c").await.json()["state"], "Aborted");
}

#[tokio::test]
async fn the_offer_that_is_shown_is_the_text_that_the_child_gets() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit_to("/release?start=false", &two_stages("21")).await.ok();
    let shown = |release: &'static str| {
        let path = format!("/api/v1/releases/{release}/children/{child}/offer");
        let world = &world;
        async move { world.get(&path).await }
    };
    let would_be = shown("21").await.ok();
    assert_eq!(would_be.header("content-type"), "application/yaml");
    world.post("/api/v1/releases/21/resume", &json!({})).await.ok();
    let before = shown("21").await.ok();
    assert_eq!(world.get("/api/v1/releases/21/children").await.json()["items"][0]["status"], "Todo");
    let offer = world.poll(&child).await.1;
    let got = world.fetch(&child, &offer).await.ok();
    assert_eq!((would_be.text(), before.text()), (got.text(), got.text()));
    assert_eq!(before.header("choirmaster-offer"), offer);
    world.post("/api/v1/releases/21/abort", &json!({})).await.ok();
    let undo = shown("21").await.ok();
    assert_eq!(undo.header("choirmaster-offer"), "21.undo");
    assert!(undo.text().contains("choirmaster undo"), "{}", undo.text());

    let elsewhere = "\ntarget: {area: {type: Polygon, coordinates: [[[0, 0], [1, 0], [1, 1], [0, 0]]]}}\n";
    world.submit_to("/release?start=false", &(strategy("far") + elsewhere)).await.ok();
    insta::assert_snapshot!(shown("far").await.problem(), @"404 /problems/no-offer: the child would have no part in this release: outside the area");
    insta::assert_snapshot!(shown("none").await.problem(), @"404 /problems/unknown-release: release none is not known");
}

#[tokio::test]
async fn a_child_that_goes_on_otherwise_than_its_offer_says_is_shown_to_do_so() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("21")).await.ok();
    world.poll(&child).await;
    world.fetch(&child, "21").await.ok();
    world.report(&child, "21", STAGE, 2).await.ok();
    world.end_stage(&child, "21", STAGE).await.ok();
    let report = |next: &str| {
        let summaries = [summary(STAGE, 4)];
        json!({"id": child, "release_id": "21", "stage_summaries": summaries, "next_stage": next})
    };
    world.post("/result", &report("A stage of its own")).await.ok();
    // The same numbers are the same report, whatever it says of the next stage.
    world.post("/result", &report("")).await.ok();
    let children = world.get("/api/v1/releases/21/children").await.json();
    let results: Vec<&Value> = children["items"][0]["results"].as_array().unwrap().iter().collect();
    assert_eq!(results.last().unwrap()["summary"]["next_stage"], "A stage of its own", "{children}");
    world.roll_out(&child, "21").await;
    assert_eq!(world.get("/api/v1/releases/21").await.json()["state"], "Done");

    // What the offer says itself is not worth a word; `rollback` and `rollout` name no stage.
    for (id, next) in [("22", ""), ("23", "rollout")] {
        world.submit(&strategy(id)).await.ok();
        world.poll(&child).await;
        world.fetch(&child, id).await.ok();
        let summaries = [summary(STAGE, 4)];
        let body = json!({"id": child, "release_id": id, "stage_summaries": summaries, "next_stage": next});
        world.post("/result", &body).await.ok();
        let children = world.get(&format!("/api/v1/releases/{id}/children")).await.json();
        let result = &children["items"][0]["results"][0];
        assert!(result["status"] == "Completed" && result["summary"]["next_stage"].is_null(), "{children}");
        world.roll_out(&child, id).await;
    }
}

#[tokio::test]
async fn children_outside_of_the_managers_area_are_listed_and_take_part_all_the_same() {
    let around_berlin = r#"{"type":"Polygon","coordinates":[[[13,52],[14,52],[14,53],[13,53],[13,52]]]}"#;
    let world = World::with(|options| options.service_area = Some(around_berlin.to_owned())).await;
    let inside = world.child().await;
    // Latitude first.
    let swapped = json!({"type": "Polygon", "coordinates": [[[52, 13], [53, 13], [53, 14], [52, 13]]]});
    let poll = |id: &str| json!({"id": id, "geographic_area": swapped, "number_of_children": 0});
    let id = world.post("/poll", &poll("")).await.ok().json()["id"].as_str().unwrap().to_owned();
    let list = world.get("/api/v1/children?outside=true").await.ok().json();
    let ids: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [id.as_str()]);
    assert_eq!(world.get(&format!("/api/v1/children/{id}")).await.json()["outside"], true);
    assert_eq!(world.get(&format!("/api/v1/children/{inside}")).await.json()["outside"], Value::Null);
    world.post("/poll", &poll(&id)).await.ok();
    world.submit(&strategy("21")).await.ok();
    assert_eq!(world.get("/api/v1/releases/21").await.json()["counts"]["participants"], 2);
    // A manager that knows of no area has nobody outside of it.
    let elsewhere = World::start().await;
    elsewhere.child().await;
    let list = elsewhere.get("/api/v1/children?outside=true").await.ok().json();
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn functions_come_under_the_name_by_which_agents_know_them() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("21")).await.ok();
    world.poll(&child).await;
    let functions = world.get("/release/functions/21").await.ok();
    assert_eq!(functions.header("content-disposition"), "attachment; filename=\"fns.zip\"");
}
