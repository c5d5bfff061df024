//! Intents that come over HTTP.

use serde_json::{Value, json};

use crate::{
    mirror::{patient, start_chain},
    world::World,
};

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// Two nodes that may run all of a workflow, which runs.
async fn steered() -> (World, [String; 2]) {
    let world = World::with(patient).await;
    let capabilities = json!({"runtimes": ["python"], "node": {"resources": ["file-log"]}});
    let nodes = [world.node("one", &capabilities).await, world.node("two", &capabilities).await];
    start_chain(&world).await;
    run_placed(&world, &nodes).await;
    (world, nodes)
}

async fn run_placed(world: &World, nodes: &[String]) {
    for node in nodes {
        world.run_placed(node).await;
    }
}

async fn shown(world: &World) -> Value {
    world.get("/api/v1/workflows/chain").await.ok().json()
}

/// The node on which a part doesn't run.
fn elsewhere<'n>(nodes: &'n [String; 2], part: &Value) -> &'n str {
    let at = part["instance"]["node"]["id"].as_str().unwrap();
    nodes.iter().find(|node| *node != at).unwrap()
}

/// What became of intents, which are sent in one call.
async fn answers(world: &World, intents: &[(String, String)]) -> Vec<Value> {
    let all: Vec<Value> =
        intents.iter().map(|(intent, value)| json!({"intent": intent, "value": value})).collect();
    let body = json!({"intents": all, "by": "planner", "note": "rebalance"});
    let answered = world.post("/api/v1/intents", &body).await.ok().json();
    let answers = answered["answers"].as_array().unwrap().clone();
    assert_eq!(answers.len(), intents.len(), "{answers:?}");
    for (answer, (intent, value)) in answers.iter().zip(intents) {
        assert_eq!((&answer["intent"], &answer["value"]), (&json!(intent), &json!(value)));
        assert_eq!(answer["accepted"], json!(answer["reason"].is_null()));
    }
    answers
}

/// A line an answer.
fn lines(answers: &[Value]) -> String {
    let line = |answer: &Value| {
        let outcome = answer["reason"].as_str().unwrap_or("accepted");
        format!("{}: {outcome}", answer["intent"].as_str().unwrap())
    };
    answers.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The trail has each with whoever had it, in their order.
async fn assert_all_are_in_the_trail(world: &World, answers: &[Value]) {
    let trail = world.get("/api/v1/audit?limit=1000").await.ok().json();
    let mut noted = Vec::new();
    for item in trail["items"].as_array().unwrap() {
        for event in item["events"].as_array().unwrap() {
            if event["event"] == "intent_answered" {
                assert_eq!(
                    (&item["actor"], &event["note"]),
                    (&json!("operator:planner"), &json!("rebalance"))
                );
                noted.push((event["intent"].clone(), event["value"].clone(), event["refused"].clone()));
            }
        }
    }
    let all = answers
        .iter()
        .map(|answer| (answer["intent"].clone(), answer["value"].clone(), answer["reason"].clone()));
    assert_eq!(noted, all.collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_carried_out_in_their_order_and_each_is_answered() {
    let (world, nodes) = steered().await;
    let before = shown(&world).await;
    let (second, log) = (&before["functions"][1], &before["resources"][0]);
    let [function, resource] = [second, log].map(|part| part["logical_id"].as_str().unwrap().to_owned());
    let (to, log_to) = (elsewhere(&nodes, second), elsewhere(&nodes, log));
    let (cordon, migrate) = (format!("intent:cordon:{to}"), format!("intent:migrate:{function}"));
    let answers = answers(
        &world,
        &[
            (cordon.clone(), "yes".to_owned()),
            (migrate.clone(), to.to_owned()),
            (cordon, "no".to_owned()),
            // The first is nobody's.
            (migrate.clone(), format!("{UNKNOWN},{}", to.to_ascii_uppercase())),
            (migrate, to.to_owned()),
            (format!("intent:migrate:{resource}"), log_to.to_owned()),
        ],
    )
    .await;
    let seen = lines(&answers).replace(&function, "SECOND").replace(&resource, "LOG").replace(to, "NODE");
    insta::assert_snapshot!(seen, @r"
    intent:cordon:NODE: accepted
    intent:migrate:SECOND: second can't be moved: NODE: it is cordoned
    intent:cordon:NODE: accepted
    intent:migrate:SECOND: accepted
    intent:migrate:SECOND: accepted
    intent:migrate:LOG: accepted
    ");
    assert_all_are_in_the_trail(&world, &answers).await;
    for _ in 0..3 {
        run_placed(&world, &nodes).await;
    }
    let after = shown(&world).await;
    assert_eq!(after["functions"][1]["instance"]["node"]["id"], json!(to));
    assert_eq!(after["resources"][0]["instance"]["node"]["id"], json!(log_to));
    assert_eq!(after["workflow"]["state"], "running");
    let child = world.get(&format!("/api/v1/children/{to}")).await.ok().json();
    assert_eq!(child["cordon"], "open");
    world.stop().await;
}

/// Each is refused with the reason, and those behind it are carried out.
#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_done_is_refused_and_keeps_nothing_else_from_being_done() {
    let (world, nodes) = steered().await;
    let before = shown(&world).await;
    let logical = before["functions"][1]["logical_id"].as_str().unwrap();
    let [node, _] = &nodes;
    let (migrate, cordon) = (format!("intent:migrate:{logical}"), format!("intent:cordon:{node}"));
    let answers = answers(
        &world,
        &[
            (format!("intent:migrate:{UNKNOWN}"), node.clone()),
            (migrate.clone(), UNKNOWN.to_owned()),
            (migrate.clone(), String::new()),
            (migrate, "n,".repeat(101)),
            ("intent:migrate:".to_owned(), node.clone()),
            (cordon.clone(), "perhaps".to_owned()),
            (format!("intent:cordon:{UNKNOWN}"), "yes".to_owned()),
            (format!("intent:restart:{node}"), "yes".to_owned()),
            ("shop:basket".to_owned(), "7".to_owned()),
            (format!("intent:cordon:{}", "n".repeat(250)), "yes".to_owned()),
            (cordon, "yes".to_owned()),
        ],
    )
    .await;
    let seen = lines(&answers).replace(logical, "LOGICAL").replace(node, "NODE").replace(UNKNOWN, "UNKNOWN");
    insta::assert_snapshot!(seen.replace(&"n".repeat(250), "LONG"), @r"
    intent:migrate:UNKNOWN: no function or resource has the logical id UNKNOWN
    intent:migrate:LOGICAL: second can't be moved: UNKNOWN is not known
    intent:migrate:LOGICAL: the value has 1 to 100 ids of nodes, with commas between them
    intent:migrate:LOGICAL: the value has 1 to 100 ids of nodes, with commas between them
    intent:migrate:: an intent is intent:migrate:LOGICAL or intent:cordon:NODE
    intent:cordon:NODE: the value is yes or no
    intent:cordon:UNKNOWN: child UNKNOWN is not known here
    intent:restart:NODE: an intent is intent:migrate:LOGICAL or intent:cordon:NODE
    shop:basket: an intent is intent:migrate:LOGICAL or intent:cordon:NODE
    intent:cordon:LONG: a key has at most 256 bytes, a value 65536
    intent:cordon:NODE: accepted
    ");
    assert_all_are_in_the_trail(&world, &answers).await;
    assert_eq!(shown(&world).await, before);
    let child = world.get(&format!("/api/v1/children/{node}")).await.ok().json();
    assert_eq!(child["cordon"], "cordoned");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_none_does_nothing() {
    let (world, nodes) = steered().await;
    let cordon = json!({"intent": format!("intent:cordon:{}", nodes[0]), "value": "yes"});
    let mut more = cordon.clone();
    more["at"] = json!(1);
    for (body, why) in [
        (json!({"intents": vec![cordon.clone(); 101]}), "`intents` has at most 100 of them"),
        (json!({"intents": [cordon, more]}), "unknown field `at`"),
        (json!({"intents": [cordon], "at": 1}), "unknown field `at`"),
        (json!({"intents": [cordon, {"intent": "intent:cordon:x"}]}), "missing field `value`"),
        (json!({"intents": [[cordon["intent"], "yes"]]}), "the body can't be read"),
        (json!({"intents": [cordon], "by": ""}), "`by` has 1 to 64 characters"),
        (json!({}), "missing field `intents`"),
        (Value::Null, "the body must be JSON"),
    ] {
        let refused = world.post("/api/v1/intents", &body).await;
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.problem().contains(why), "{body}: {}", refused.problem());
    }
    assert!(answers(&world, &[]).await.is_empty());
    assert_all_are_in_the_trail(&world, &[]).await;
    let child = world.get(&format!("/api/v1/children/{}", nodes[0])).await.ok().json();
    assert_eq!(child["cordon"], "open");
    world.stop().await;
}
