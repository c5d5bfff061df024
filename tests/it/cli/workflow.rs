//! `choirmaster workflow …`.

use std::time::Duration;

use serde_json::json;

use super::program;
use crate::world::World;

const SAMPLE: &str = include_str!("../../placement/workflow.json");

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_where_each_part_would_run_and_why_not() {
    let world = World::start().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("workflow.json"), SAMPLE.replace("RUST_WASM", "wasm")).unwrap();
    std::fs::write(folder.path().join("types.json"), SAMPLE).unwrap();
    let run = async |line: &str| {
        let mut command = program(folder.path());
        command.args(line.split(' ')).env("CHOIRMASTER_URL", format!("http://{}", world.manager.address));
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        format!("$ {line}\n{said}({})\n", output.status.code().unwrap())
    };
    let mut seen = run("workflow plan workflow.json --seed 7").await;
    for (name, capabilities) in [
        ("edge", json!({"runtimes": ["wasm"], "labels": {"tier": "edge"}, "node": {"memory_mib": 512}})),
        ("logs", json!({"runtimes": ["wasm"], "node": {"resources": ["file-log"]}})),
    ] {
        world.node(name, &capabilities).await;
    }
    seen += &run("workflow plan workflow.json --seed 7 --strategy spread").await;
    seen += &run("workflow plan types.json").await;
    seen += &run("workflow plan missing.json").await;
    insta::assert_snapshot!(seen, @r#"
    $ workflow plan workflow.json --seed 7
    PART      NAME    CLASS     RUNTIME  NODE
    function  ping    pinger    wasm     -
    function  pong    ponger    python   -
    resource  my-log  file-log  -        -

    ping can't run:
      there is no node: agents with node.placements: true are

    pong can't run:
      there is no node: agents with node.placements: true are

    my-log can't run:
      there is no node: agents with node.placements: true are

    0 nodes, strategy random, seed 7
    (1)
    $ workflow plan workflow.json --seed 7 --strategy spread
    PART      NAME    CLASS     RUNTIME  NODE
    function  ping    pinger    wasm     edge
    function  pong    ponger    python   -
    resource  my-log  file-log  -        logs

    pong can't run:
      it runs no python: 2 nodes (edge, logs)

    2 nodes, strategy spread, seed 7
    (1)
    $ workflow plan types.json
    error: functions[0].class_specification.function_type: nothing here runs RUST_WASM: placement.function_types of the manager's configuration says which runtime does
    (1)
    $ workflow plan missing.json
    error: missing.json can't be read: No such file or directory (os error 2)
    (1)
    "#);
    world.stop().await;
}

/// From the start of a workflow to its end, with nodes that do what they are told.
#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_started_shown_moved_and_stopped() {
    let world = World::with(|options| options.rules.placement.keep_alive = Duration::from_hours(1)).await;
    let folder = tempfile::tempdir().unwrap();
    let text = json!({
        "functions": [{
            "name": "f", "output_mapping": {"out": "log"},
            "class_specification":
                {"id": "f", "function_type": "python", "version": "1", "code": "./f", "outputs": ["out"]},
        }],
        "resources": [{"name": "log", "class_type": "file-log", "configurations": {"filename": "a.log"}}],
    });
    std::fs::write(folder.path().join("chain.json"), text.to_string()).unwrap();
    std::fs::create_dir(folder.path().join("f")).unwrap();
    std::fs::write(folder.path().join("f/fn.py"), "def fn(body):\n    return body\n").unwrap();
    let mut nodes = Vec::new();
    for (name, resources) in [("one", json!(["file-log"])), ("two", json!([]))] {
        let capabilities = json!({"runtimes": ["python"], "node": {"resources": resources}});
        nodes.push(world.node(name, &capabilities).await);
    }
    let run = async |line: &str| {
        let mut command = program(folder.path());
        command.args(line.split(' ')).env("CHOIRMASTER_URL", format!("http://{}", world.manager.address));
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        format!("$ {}\n{said}({})\n", line.replace(&nodes[1], "NODE"), output.status.code().unwrap())
    };
    let all_run = async || {
        for node in &nodes {
            world.run_placed(node).await;
        }
    };
    all_run().await;
    let mut seen = run("workflow start chain.json --strategy round_robin").await;
    all_run().await;
    seen += &run("workflow show chain").await;
    seen += &run("workflow strategy chain spread --note tried").await;
    seen += &run("workflow strategy chain best").await;
    seen += &run(&format!("workflow move chain f {}", nodes[1])).await;
    // The next one is ready, then the old one has ended, and then the next one runs.
    for _ in 0..3 {
        all_run().await;
    }
    seen += &run("workflow show chain").await;
    seen += &run("workflow strategy chain configured").await;
    seen += &run("workflow move chain f nowhere").await;
    seen += &run("workflow stop chain").await;
    all_run().await;
    seen += &run("workflow show chain").await;
    seen += &run("workflow start chain.json --name my.chain").await;
    let trail = world.get("/api/v1/audit?limit=1000").await.ok().json();
    let items = trail["items"].as_array().unwrap().iter();
    let events =
        items.flat_map(|item| item["events"].as_array().unwrap()).map(|one| one["event"].as_str().unwrap());
    seen += &events
        .filter(|event| event.starts_with("workflow") || event.starts_with("instance"))
        .collect::<Vec<_>>()
        .join("\n");
    insta::assert_snapshot!(seen, @r#"
    $ workflow start chain.json --strategy round_robin
    chain: starting, strategy round_robin

    FUNCTION  STATE   NODE  CALLED
    f         placed  one   chain.f

    RESOURCE  STATE   NODE  CLASS
    log       placed  one   file-log
    (0)
    $ workflow show chain
    chain: running, strategy round_robin

    FUNCTION  STATE    NODE  CALLED
    f         running  one   chain.f

    RESOURCE  STATE    NODE  CLASS
    log       running  one   file-log
    (0)
    $ workflow strategy chain spread --note tried
    chain: running, strategy spread

    FUNCTION  STATE    NODE  CALLED
    f         running  one   chain.f

    RESOURCE  STATE    NODE  CLASS
    log       running  one   file-log
    (0)
    $ workflow strategy chain best
    error: `strategy` is one of random, round_robin, spread, nearest
    (1)
    $ workflow move chain f NODE
    chain: running, strategy spread

    FUNCTION  STATE   NODE        CALLED
    f         moving  one -> two  chain.f

    RESOURCE  STATE    NODE  CLASS
    log       running  one   file-log
    (0)
    $ workflow show chain
    chain: running, strategy spread

    FUNCTION  STATE    NODE  CALLED
    f         running  two   chain.f

    RESOURCE  STATE    NODE  CLASS
    log       running  one   file-log
    (0)
    $ workflow strategy chain configured
    chain: running, strategy random

    FUNCTION  STATE    NODE  CALLED
    f         running  two   chain.f

    RESOURCE  STATE    NODE  CLASS
    log       running  one   file-log
    (0)
    $ workflow move chain f nowhere
    error: child nowhere is not known here
    (1)
    $ workflow stop chain
    chain: stopping
    (0)
    $ workflow show chain
    error: there is no workflow chain
    (1)
    $ workflow start chain.json --name my.chain
    error: `name`: it has letters, digits, _ and -
    (1)
    workflow_started
    instance_placed
    instance_placed
    workflow_strategy_set
    instance_placed
    instance_left
    instance_moved
    workflow_strategy_set
    workflow_stopping
    "#);
    world.stop().await;
}
