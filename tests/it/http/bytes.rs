//! Arbitrary bytes for every endpoint: never an error of ours, never a hang.

use proptest::{collection::vec, prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use serde_json::Value;
use tokio::time::timeout;

use crate::world::{World, strategy};
use crate::{deadline::DEADLINE, hostile_input::routes::is_endless};

/// Requests in all.
const CASES: usize = 600;

/// A body: noise, JSON that means nothing, or a strategy with something cut out of it.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let json = any::<String>().prop_map(|text| {
        serde_json::json!({"id": text, "release_id": text, "strategy_id": text, "stage_name": text, "by": text,
            "note": text, "value": text, "name": text, "stage_summaries": [text], "geographic_area": text})
        .to_string()
        .into_bytes()
    });
    let cut = (0_usize..2_000, 0_usize..200, any::<String>()).prop_map(|(at, length, put)| {
        let mut text = strategy("x").into_bytes();
        let at = at.min(text.len());
        let end = (at + length).min(text.len());
        text.splice(at..end, put.into_bytes());
        text
    });
    prop_oneof![vec(any::<u8>(), 0..300), json, cut]
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9._~-]{0,70}", "(%[0-9A-F]{2}|[a-z/.]){1,20}", Just("x".to_owned())]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_bytes_cause_an_error_of_ours_or_a_hang() {
    let world = World::start().await;
    let child = world.child().await;
    let document = world.get("/openapi.json").await.ok().json();
    let mut operations: Vec<(String, String)> = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in
            item.as_object().unwrap().keys().filter(|method| item[*method]["responses"] != Value::Null)
        {
            if !is_endless(path) {
                operations.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    let kinds = ["application/json", "application/yaml", "multipart/form-data; boundary=x", "text/plain", ""];
    let mut runner = TestRunner::deterministic();
    let case = (0..operations.len(), word(), word(), body(), 0..kinds.len(), any::<bool>());
    for _ in 0..CASES {
        let (operation, one, two, body, kind, known) = case.new_tree(&mut runner).unwrap().current();
        let (method, path) = &operations[operation];
        let one = if known { &child } else { &one };
        let mut path = path.clone();
        for (name, value) in [("{id}", one), ("{offer}", one), ("{stage}", &two), ("{key}", &two)] {
            path = path.replace(name, value);
        }
        let query = format!("?after={two}&limit={one}&childID={one}&releaseID={two}");
        for path in [path.clone(), path + &query] {
            let mut request = world.request(method, &path).body(body.clone());
            if !kinds[kind].is_empty() {
                request = request.header("content-type", kinds[kind]);
            }
            let answer = timeout(DEADLINE, world.send(request)).await;
            let answer = answer.unwrap_or_else(|_| panic!("{method} {path}: no answer in time"));
            assert!(answer.status < 500, "{method} {path} {:?}: {answer:?}", String::from_utf8_lossy(&body));
        }
    }
    // It still works.
    assert_eq!(world.get("/readyz").await.status, 200);
    world.child().await;
    world.stop().await;
}
