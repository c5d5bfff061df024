//! Where workflows would run.

use serde_json::{Value, json};

use crate::world::World;

const SAMPLE: &str = include_str!("../../placement/workflow.json");

/// A child with a machine that offers this; its id.
async fn node(world: &World, name: &str, east: i32, capabilities: Value) -> String {
    let area =
        json!({"type": "Polygon", "coordinates": [[[east, 0], [east + 1, 0], [east + 1, 1], [east, 0]]]});
    let mut poll = json!({"id": "", "name": name, "kind": "agent", "geographic_area": area, "capabilities": capabilities});
    let id = world.post("/poll", &poll).await.ok().json()["id"].as_str().unwrap().to_owned();
    poll["id"] = json!(id);
    world.post("/poll", &poll).await.ok();
    id
}

fn settings(options: &mut choirmaster::app::Options) {
    options.function_types.0.insert("RUST_WASM".to_owned(), "wasm".to_owned());
}

async fn plan(world: &World, query: &str, workflow: &Value) -> Value {
    world.post(&format!("/api/v1/workflows/plan{query}"), workflow).await.ok().json()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_part_is_planned_on_a_node_that_may_run_it_or_says_why_none_may() {
    let world = World::with(settings).await;
    let sample: Value = serde_json::from_str(SAMPLE).unwrap();
    let nothing = plan(&world, "?seed=1", &sample).await;
    assert_eq!((&nothing["nodes"], &nothing["functions"][0]["node"]), (&json!(0), &Value::Null));

    let machine = json!({"cpus": 1, "cores": 4, "mhz": 2000, "memory_mib": 512});
    let edge = json!({"runtimes": ["wasm"], "labels": {"tier": "edge"}, "node": machine});
    let edge = node(&world, "edge", 10, edge).await;
    let logs = json!({"runtimes": ["wasm"], "node": {"resources": ["file-log"]}});
    let logs = node(&world, "logs", 20, logs).await;
    // Neither a deployed agent nor one whose machine offers nothing is a node.
    world.child().await;
    node(&world, "agent", 10, json!({"runtimes": ["wasm", "python"], "labels": {"tier": "edge"}})).await;
    let seen = plan(&world, "?seed=1", &sample).await;
    assert_eq!((&seen["nodes"], &seen["strategy"], &seen["seed"]), (&json!(2), &json!("random"), &json!(1)));
    assert_eq!(seen["functions"][0]["node"], json!({"id": edge, "name": "edge"}));
    assert_eq!(seen["functions"][0]["runtime"], "wasm");
    assert_eq!(seen["resources"][0]["node"]["id"], json!(logs));
    assert_eq!(seen["functions"][1]["node"], Value::Null);
    assert_eq!(seen["functions"][1]["refused"][0]["reason"], "it runs no python");
    assert_eq!(seen["functions"][1]["refused"][0]["count"], 2);

    world.call("POST", &format!("/api/v1/children/{edge}/cordon")).await.ok();
    let seen = plan(&world, "", &sample).await;
    let reasons = &seen["functions"][0]["refused"];
    let reason = |at: usize| {
        (reasons[at]["reason"].as_str().unwrap(), reasons[at]["nodes"][0]["name"].as_str().unwrap())
    };
    assert_eq!([reason(0), reason(1)], [("it has no label tier=edge", "logs"), ("it is cordoned", "edge")]);
    world.call("POST", &format!("/api/v1/children/{edge}/uncordon")).await.ok();
    // A label that an operator gives counts as one of the node's own.
    world
        .send_json("PUT", &format!("/api/v1/children/{logs}/labels/tier"), &json!({"value": "edge"}))
        .await
        .ok();

    let mut there = sample.clone();
    let square = |east: i32| {
        format!(r#"{{"type":"Polygon","coordinates":[[[{east},0],[{0},0],[{0},1],[{east},0]]]}}"#, east + 2)
    };
    there["functions"][0]["annotations"]["area"] = json!(square(19));
    assert_eq!(plan(&world, "", &there).await["functions"][0]["node"]["name"], "logs");
    there["functions"][0]["annotations"]["area"] = json!(square(9));
    assert_eq!(plan(&world, "", &there).await["functions"][0]["node"]["name"], "edge");
    there["functions"][0]["annotations"]["area"] = json!(square(40));
    let seen = plan(&world, "", &there).await;
    assert_eq!(
        seen["functions"][0]["refused"][0],
        json!({"reason": "it is outside of the area", "count": 2, "nodes": [{"id": edge, "name": "edge"}, {"id": logs, "name": "logs"}]})
    );
    there["functions"][0]["annotations"]["area"] = Value::Null;
    world.stop().await;
}

/// Nodes that differ in what they have left are one reason, and an answer doesn't grow with functions times nodes.
#[tokio::test(flavor = "multi_thread")]
async fn reasons_are_told_of_the_first_parts_and_nodes() {
    let world = World::with(settings).await;
    for at in 0..30 {
        let machine = json!({"runtimes": ["python"], "node": {"memory_mib": 100 + at}});
        node(&world, &format!("n{at}"), at, machine).await;
    }
    let function = |at: u32| {
        json!({
            "name": format!("f{at}"), "annotations": {"memory_mib": "1000"},
            "class_specification": {"id": "f", "function_type": "python", "version": "1"},
        })
    };
    let workflow = json!({"functions": (0..150).map(function).collect::<Vec<_>>()});
    let seen = plan(&world, "", &workflow).await;
    let refused: Vec<&Value> = (0..150).map(|at| &seen["functions"][at]["refused"]).collect();
    assert_eq!(refused.iter().filter(|refused| refused.is_array()).count(), 100);
    assert_eq!(refused[0][0]["reason"], "it has less than 1000 MiB left");
    assert_eq!(refused[0][0]["count"], 30);
    assert_eq!(refused[0][0]["nodes"].as_array().unwrap().len(), 10);
    assert_eq!(refused[0][1], Value::Null);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_workflow_and_unknown_strategies_are_named() {
    let world = World::with(settings).await;
    let mut sample: Value = serde_json::from_str(SAMPLE).unwrap();
    sample["functions"][0]["output_mapping"]["out"] = json!("nobody");
    sample["functions"][1]["annotations"]["tpm"] = json!("perhaps");
    let answer = world.post("/api/v1/workflows/plan", &sample).await;
    assert_eq!(answer.status, 422);
    insta::assert_snapshot!(answer.problem(), @r#"
    422 /problems/invalid-workflow: functions[0].output_mapping.out: no part is called nobody
    functions[1].annotations.tpm: "perhaps" is not required or not-required
    "#);
    let answer = world.post("/api/v1/workflows/plan?strategy=best", &sample).await;
    insta::assert_snapshot!(answer.problem(), @r#"400 about:blank: `strategy` is one of random, round_robin, spread, nearest"#);
    world.stop().await;
}
