//! Every route, by whose it is. The description of the API says which there are (and tests of its own hold that it leaves
//! none out), so that a new route is tried as those of people are, or is listed here as a child's.

use serde_json::{Value, json};

use crate::world::{AREA, STAGE, World, summary};

/// Method and path of the calls of children.
pub const CHILDREN: [(&str, &str); 8] = [
    ("POST", "/answers"),
    ("POST", "/end_stage"),
    ("POST", "/placements"),
    ("POST", "/poll"),
    ("GET", "/release"),
    ("GET", "/release/functions/{offer}"),
    ("POST", "/result"),
    ("POST", "/traffic"),
];

/// With which somebody becomes a child.
pub const DOOR: (&str, &str) = ("POST", "/join");

/// For whoever watches the process.
pub const PROBES: [(&str, &str); 2] = [("GET", "/healthz"), ("GET", "/readyz")];

/// Answers without an end.
pub const ENDLESS: [&str; 3] = ["/events", "/api/v1/map/changes", "/api/v1/releases/{id}/map/changes"];

pub fn is_endless(path: &str) -> bool {
    ENDLESS.contains(&path)
}

/// A request in the name of a child.
#[derive(Debug)]
pub struct Call {
    pub method: &'static str,
    pub target: String,
    pub body: Option<Value>,
}

/// One request a call of children, in the name of `child` and about `offer`.
pub fn of_child(child: &str, offer: &str) -> Vec<Call> {
    let call = |(method, path): (&'static str, &'static str)| {
        let (target, body) = match path {
            "/release" => (format!("/release?childID={child}&releaseID={offer}"), None),
            "/release/functions/{offer}" => (format!("/release/functions/{offer}?childID={child}"), None),
            _ => (path.to_owned(), Some(body(path, child, offer))),
        };
        Call { method, target, body }
    };
    CHILDREN.map(call).into()
}

fn body(path: &str, child: &str, offer: &str) -> Value {
    match path {
        "/answers" => json!({"id": child, "answers": [{"id": "q", "body": {}}]}),
        "/end_stage" => json!({"id": child, "strategy_id": offer, "stage_name": STAGE}),
        "/placements" => json!({"id": child}),
        "/poll" => {
            let area: Value = serde_json::from_str(AREA).unwrap();
            json!({"id": child, "geographic_area": area, "number_of_children": 0})
        }
        "/result" => {
            json!({"id": child, "release_id": offer, "stage_summaries": [summary(STAGE, 2)], "next_stage": ""})
        }
        "/traffic" => json!({"id": child, "router": {"kind": "nginx", "phase": "idle", "reached": true}}),
        _ => panic!("{path} has a body that nothing here knows"),
    }
}

/// Method and path of each call of developers and operators, with something in the place of each parameter; beside each GET
/// a HEAD.
pub async fn of_people(world: &World, token: Option<&str>) -> Vec<(String, String)> {
    let mut request = world.request("GET", "/openapi.json");
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let document = world.send(request).await.ok().json();
    let mut all: Vec<(String, String)> = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().iter().filter(|(_, operation)| operation.is_object());
        all.extend(methods.map(|(method, _)| (method.to_uppercase(), path.clone())));
    }
    for (method, path) in CHILDREN.into_iter().chain([DOOR]).chain(PROBES) {
        let at = all.iter().position(|(known, at)| known == method && at == path);
        all.swap_remove(at.unwrap_or_else(|| panic!("{method} {path} is no route any more")));
    }
    let heads: Vec<_> = all.iter().filter(|(method, _)| method == "GET").cloned().collect();
    all.extend(heads.into_iter().map(|(_, path)| ("HEAD".to_owned(), path)));
    for (_, path) in &mut all {
        *path = path.replace(['{', '}'], "");
    }
    assert!(all.len() > 40, "{all:?}");
    all
}
