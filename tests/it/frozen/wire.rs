//! What a manager and its parent of the earlier build said to each other, call by call.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, Deserialize)]
pub struct Exchange {
    pub method: String,
    pub path: String,
    pub body: String,
    pub status: u16,
    pub answer: String,
}

impl Exchange {
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub fn answer(&self) -> Value {
        serde_json::from_str(&self.answer).unwrap_or_default()
    }

    /// The path without its query.
    pub fn call(&self) -> &str {
        self.path.split('?').next().unwrap()
    }

    /// The offer that it is about.
    pub fn offer(&self) -> Option<String> {
        let body = self.body();
        let of_body = body.get("release_id").or(body.get("strategy_id"));
        let of_path = || self.path.rsplit_once("releaseID=").map(|(_, offer)| offer.to_owned());
        of_body.and_then(Value::as_str).map(str::to_owned).or_else(of_path)
    }
}

pub fn recorded() -> Vec<Exchange> {
    let text = std::fs::read_to_string(super::path("wire.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The text that an offer was handed out as.
pub fn text_of(offer: &str) -> String {
    let is_it = |e: &&Exchange| e.call() == "/release" && e.offer().as_deref() == Some(offer);
    recorded().iter().find(is_it).unwrap().answer.clone()
}

/// Results of an offer that were taken, as stage and status.
pub fn results_of(offer: &str) -> Vec<(String, u64)> {
    let of = |e: &Exchange| stage_and_status(&e.body());
    let is_it =
        |e: &&Exchange| e.call() == "/result" && e.offer().as_deref() == Some(offer) && e.status == 200;
    recorded().iter().filter(is_it).map(of).collect()
}

pub fn stage_and_status(result: &Value) -> (String, u64) {
    let summary = &result["stage_summaries"][0];
    (summary["stage_name"].as_str().unwrap().to_owned(), summary["status"].as_u64().unwrap())
}

/// Keys in the text of an offer that the earlier build does not read, and would refuse.
pub fn unknown_keys(text: &str) -> Vec<String> {
    let known = super::json("keys.json");
    let known: BTreeSet<&str> = known.as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    let mut keys = BTreeSet::new();
    collect(&serde_saphyr::from_str(text).unwrap(), &mut keys);
    keys.into_iter().filter(|key| !known.contains(key.as_str())).collect()
}

fn collect(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            keys.insert(key.clone());
            collect(value, keys);
        }),
        Value::Array(items) => items.iter().for_each(|item| collect(item, keys)),
        _ => {}
    }
}

#[test]
fn what_the_earlier_build_handed_out_has_only_keys_that_it_reads() {
    for offer in ["waves", "waves.r2", "global", "undone", "undone.r2", "undone.undo"] {
        assert_eq!(unknown_keys(&text_of(offer)), Vec::<String>::new(), "{offer}");
    }
    assert_eq!(unknown_keys("rollout: {tomorrow: 1}"), ["tomorrow"]);
}
