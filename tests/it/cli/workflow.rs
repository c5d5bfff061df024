//! `choirmaster workflow …`.

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
        let poll = json!({"id": "", "name": name, "kind": "agent", "capabilities": capabilities});
        world.post("/poll", &poll).await.ok();
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
