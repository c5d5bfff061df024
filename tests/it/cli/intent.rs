//! `choirmaster intent …`.

use serde_json::{Value, json};

use super::program;
use crate::{
    mirror::{patient, start_chain},
    world::World,
};

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

#[tokio::test(flavor = "multi_thread")]
async fn a_function_moves_and_a_node_is_cordoned_or_it_is_said_why_not() {
    let world = World::with(patient).await;
    let folder = tempfile::tempdir().unwrap();
    let capabilities = json!({"runtimes": ["python"], "node": {"resources": ["file-log"]}});
    let nodes = [world.node("one", &capabilities).await, world.node("two", &capabilities).await];
    start_chain(&world).await;
    for node in &nodes {
        world.run_placed(node).await;
    }
    let shown = world.get("/api/v1/workflows/chain").await.ok().json();
    let second = &shown["functions"][1];
    let logical = second["logical_id"].as_str().unwrap();
    let at = second["instance"]["node"]["id"].as_str().unwrap();
    let to = nodes.iter().find(|node| *node != at).unwrap().as_str();
    let run = async |line: &str| {
        let mut command = program(folder.path());
        let words = line.split(' ').map(|word| match word {
            "LOGICAL" => logical,
            "NODE" => to,
            "UNKNOWN" => UNKNOWN,
            word => word,
        });
        command.args(words).env("CHOIRMASTER_URL", format!("http://{}", world.manager.address));
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        let said = said.replace(logical, "LOGICAL").replace(to, "NODE").replace(UNKNOWN, "UNKNOWN");
        format!("$ {line}\n{said}({})\n", output.status.code().unwrap())
    };
    let mut seen = run("intent cordon NODE").await;
    seen += &run("intent migrate LOGICAL NODE").await;
    seen += &run("intent uncordon NODE").await;
    seen += &run("intent migrate LOGICAL UNKNOWN NODE --note rebalance").await;
    seen += &run("intent migrate UNKNOWN NODE --json").await;
    seen += &run("intent cordon UNKNOWN").await;
    insta::assert_snapshot!(seen, @r#"
    $ intent cordon NODE
    accepted
    (0)
    $ intent migrate LOGICAL NODE
    refused: second can't be moved: NODE: it is cordoned
    (1)
    $ intent uncordon NODE
    accepted
    (0)
    $ intent migrate LOGICAL UNKNOWN NODE --note rebalance
    accepted
    (0)
    $ intent migrate UNKNOWN NODE --json
    {
      "answers": [
        {
          "intent": "intent:migrate:UNKNOWN",
          "value": "NODE",
          "accepted": false,
          "reason": "no function or resource has the logical id UNKNOWN"
        }
      ]
    }
    (1)
    $ intent cordon UNKNOWN
    refused: child UNKNOWN is not known here
    (1)
    "#);
    let shown = world.get("/api/v1/workflows/chain").await.ok().json();
    assert_eq!(shown["functions"][1]["next"]["node"]["id"], json!(to));
    let trail = world.get("/api/v1/audit?limit=1000").await.ok().json();
    let mut notes = Vec::new();
    for item in trail["items"].as_array().unwrap() {
        for event in item["events"].as_array().unwrap() {
            if event["event"] == "intent_answered" {
                assert_eq!(item["actor"], "operator:tester");
                notes.push(event["note"].clone());
            }
        }
    }
    let none = Value::Null;
    assert_eq!(notes, [none.clone(), none.clone(), none.clone(), json!("rebalance"), none.clone(), none]);
    world.stop().await;
}
