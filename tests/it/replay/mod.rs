//! A session of two agents, call by call, as deployed agents make them: the server must answer each alike.
//!
//! `session.jsonl` has the calls of two agents and one release with one `WaitForSignal` stage, with the status,
//! the content type and the shape of each answer. What a server may decide for itself is when a child is offered
//! the release and when its stage may end; ids, dates and the text of the offer are its own.

use std::{collections::BTreeSet, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::{engine::durable, world::client};

const STRATEGY: &str = "\
id: 7
name: fivepercent
type: patch
functions:
  - name: sieve
    base_version:
      path: fns/sieve_base
      env: nodejs
    new_version:
      path: fns/sieve_new
      env: nodejs
stages:
  - name: Five percent
    type: WaitForSignal
    func_name: sieve
    variants:
      - name: base_version
        trafficPercentage: 95
      - name: new_version
        trafficPercentage: 5
    metrics_conditions:
      - name: errorRate
        threshold: \"<0.02\"
      - name: responseTime
        threshold: \"<=200\"
        compareWith: \"Median\"
    end_conditions:
      - name: minDuration
        threshold: 10s
      - name: minCalls
        threshold: \"100\"
    end_action:
      onSuccess: rollback
      onFailure: rollback
rollback:
  action:
    function: base_version";

#[derive(Debug, Deserialize)]
struct Exchange {
    call: String,
    method: String,
    path: String,
    body: String,
    status: u16,
    #[serde(rename = "type")]
    kind: String,
    answer: String,
}

/// The names of the fields of a JSON object.
fn fields(text: &str) -> BTreeSet<String> {
    let value: Value = serde_json::from_str(text).unwrap();
    value.as_object().unwrap().keys().cloned().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_two_agents_is_answered_alike_call_by_call() {
    let folder = tempfile::tempdir().unwrap();
    let manager = durable::start(folder.path()).await;
    let client = client().build().unwrap();
    let session = include_str!("session.jsonl");
    let exchanges: Vec<Exchange> = session.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(exchanges.len(), 43);
    let mut ids = Vec::new();
    let mut last_end_stage = Value::Null;
    for (place, exchange) in exchanges.iter().enumerate() {
        if ids.len() == 2 && place == 2 {
            durable::submit(&manager, STRATEGY).await;
        }
        let fill = |text: &str| {
            let first = ids.first().map_or("", String::as_str);
            let second = ids.get(1).map_or("", String::as_str);
            text.replace("{first}", first).replace("{second}", second)
        };
        let method: reqwest::Method = exchange.method.parse().unwrap();
        let url = format!("http://{}{}", manager.address, fill(&exchange.path));
        let answer = client
            .request(method, url)
            .header("Content-Type", "application/json")
            .body(fill(&exchange.body))
            .send()
            .await
            .unwrap();
        let what = format!("call {place}: {} {}", exchange.call, exchange.path);
        assert_eq!(answer.status().as_u16(), exchange.status, "{what}");
        let kind = answer.headers().get("content-type").map_or("", |kind| kind.to_str().unwrap()).to_owned();
        let bytes = answer.bytes().await.unwrap();
        if !exchange.kind.is_empty() {
            assert_eq!(kind, exchange.kind, "{what}");
        }
        match exchange.call.as_str() {
            "poll" => {
                let text = std::str::from_utf8(&bytes).unwrap();
                assert_eq!(fields(text), fields(&exchange.answer), "{what}");
                let polled: Value = serde_json::from_str(text).unwrap();
                if exchange.body.contains("\"id\":\"\"") {
                    ids.push(polled["id"].as_str().unwrap().to_owned());
                }
                assert!(matches!(polled["new_release"].as_str(), Some("" | "7")), "{what}: {text}");
                // Whoever downloads next must have been offered the release.
                let then = &exchanges[place + 1];
                if then.call == "release" {
                    assert_eq!(polled["new_release"], "7", "{what}");
                }
            }
            "release" => assert!(String::from_utf8_lossy(&bytes).starts_with("id: \"7\"\n"), "{what}"),
            "functions" => assert!(bytes.starts_with(b"PK"), "{what}"),
            "result" => assert!(bytes.is_empty(), "{what}"),
            "end_stage" => {
                let text = std::str::from_utf8(&bytes).unwrap();
                assert_eq!(fields(text), fields(&exchange.answer), "{what}");
                last_end_stage = serde_json::from_str(text).unwrap();
            }
            other => panic!("{other} is no call"),
        }
    }
    assert_eq!(last_end_stage["end_stage"], true);
    let shown = manager.engine.reader().release("7").await.unwrap().map(|row| (row.state, row.open));
    assert_eq!(shown, Some(("Done".to_owned(), false)));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(root.join("fns/sieve_base").is_dir());
    manager.stop().await.unwrap();
}
