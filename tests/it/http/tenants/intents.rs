//! A tenant has intents of what is its own.

use serde_json::json;

use super::{Shared, told};
use crate::mirror::patient;

/// A workflow of one function.
struct Started {
    logical: String,
    /// The node where the function is.
    at: String,
    /// Another node of the same tenant.
    other: String,
}

async fn start(shared: &Shared, who: &str, tenant: &str) -> Started {
    let mut nodes = Vec::new();
    for name in ["one", "two"] {
        let capabilities = json!({"runtimes": ["python"], "node": {"memory_mib": 512}});
        let node = shared.world.node(name, &capabilities).await;
        let label = format!("/api/v1/children/{node}/labels/tenant");
        shared.send("root", "PUT", &label, &json!({"value": tenant})).await.ok();
        nodes.push(node);
    }
    let code = json!({"id": "f", "function_type": "python", "version": "1", "code": "fns/sieve_base"});
    let workflow = json!({"functions": [{"name": "f", "class_specification": code}]});
    let started = shared.post(who, "/api/v1/workflows?name=chain", &workflow).await.ok().json();
    let function = &started["functions"][0];
    let at = function["instance"]["node"]["id"].as_str().unwrap().to_owned();
    let other = nodes.into_iter().find(|node| *node != at).unwrap();
    Started { logical: function["logical_id"].as_str().unwrap().to_owned(), at, other }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_steers_its_own_and_learns_nothing_of_what_is_anothers() {
    let shared = Shared::with(patient).await;
    let mine = start(&shared, "ann", "acme").await;
    let theirs = start(&shared, "uma", "umbra").await;
    // Some choose their ids, and not all of these are small letters.
    for _ in 0..2 {
        shared.world.poll("NORTH-1").await;
    }
    shared.get("root", "/api/v1/children/NORTH-1").await.ok();
    let before = shared.get("uma", "/api/v1/workflows/chain").await.ok().json();
    // As long as those that are there, so that the lengths of answers may be compared as well.
    let nobody = "abcdef00-0000-4000-8000-000000000000";
    let node = theirs.at.as_str();
    let capitals = [node, nobody].map(str::to_ascii_uppercase);
    let [node_in_capitals, nobody_in_capitals] = capitals.each_ref().map(String::as_str);
    let mut seen = Vec::new();
    for (intent, value, hidden, absent) in [
        ("intent:migrate:ID", mine.other.as_str(), theirs.logical.as_str(), nobody),
        ("intent:migrate:MINE", "ID", node, nobody),
        ("intent:migrate:MINE", "ID", node_in_capitals, nobody_in_capitals),
        ("intent:migrate:MINE", "ID", "NORTH-1", "SOUTH-1"),
        ("intent:cordon:ID", "yes", node, nobody),
        ("intent:cordon:ID", "yes", node_in_capitals, nobody_in_capitals),
        ("intent:cordon:ID", "yes", "NORTH-1", "SOUTH-1"),
    ] {
        let ask = async |id: &str| {
            let intent = intent.replace("MINE", &mine.logical).replace("ID", id);
            let body = json!({"intents": [{"intent": intent, "value": value.replace("ID", id)}]});
            let answer = shared.post("ann", "/api/v1/intents", &body).await.ok();
            let reason = answer.json()["answers"][0]["reason"].as_str().unwrap().to_owned();
            let small = id.to_ascii_lowercase();
            (told(&answer, &[id, &small]), reason.replace(&small, "ID"))
        };
        let (hidden, absent) = (ask(hidden).await, ask(absent).await);
        assert_eq!(hidden, absent, "{intent}");
        seen.push(format!("{intent}: {}", hidden.1));
    }
    insta::assert_snapshot!(seen.join("\n"), @r"
    intent:migrate:ID: no function or resource has the logical id ID
    intent:migrate:MINE: f can't be moved: ID is not known
    intent:migrate:MINE: f can't be moved: ID is not known
    intent:migrate:MINE: f can't be moved: ID is not known
    intent:cordon:ID: child ID is not known here
    intent:cordon:ID: child ID is not known here
    intent:cordon:ID: child ID is not known here
    ");
    assert_eq!(shared.get("uma", "/api/v1/workflows/chain").await.ok().json(), before);
    let child = shared.get("uma", &format!("/api/v1/children/{node}")).await.ok().json();
    assert_eq!(child["cordon"], "open");

    let own = json!({"intents": [
        {"intent": format!("intent:migrate:{}", mine.logical), "value": mine.other},
        {"intent": format!("intent:cordon:{}", mine.at), "value": "yes"},
    ]});
    let answered = shared.post("otto", "/api/v1/intents", &own).await.ok().json();
    for answer in answered["answers"].as_array().unwrap() {
        assert_eq!(answer["accepted"], json!(true), "{answer}");
    }
    let shown = shared.get("ann", "/api/v1/workflows/chain").await.ok().json();
    assert_eq!(shown["functions"][0]["next"]["node"]["id"], json!(mine.other));
    let trail = shared.get("ann", "/api/v1/audit?limit=1000").await.ok().text();
    assert_eq!(trail.matches("intent_answered").count(), 16, "{trail}");
    assert!(trail.contains("operator:acme/ann") && trail.contains("operator:acme/otto"), "{trail}");
    let trail = shared.get("uma", "/api/v1/audit?limit=1000").await.ok().text();
    assert!(!trail.contains("intent_answered"), "{trail}");
    shared.world.stop().await;
}
