//! The description of the API and the routes are the same.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{hostile_input::routes::is_endless, world::World};

const METHODS: [&str; 5] = ["get", "post", "put", "delete", "patch"];

/// Method and path of every operation of the document.
fn operations(document: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS.into_iter().filter(|method| item.get(*method).is_some()) {
            found.push((method.to_uppercase(), path.clone()));
        }
    }
    found
}

fn sources(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
    found
}

#[tokio::test]
async fn every_operation_of_the_document_is_a_route() {
    let world = World::start().await;
    let document = world.get("/openapi.json").await.ok().json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let operations = operations(&document);
    let listed: Vec<String> = operations.iter().map(|(method, path)| format!("{method} {path}")).collect();
    insta::assert_snapshot!(listed.join("\n"), @r#"
    POST /answers
    GET /api/v1/ab-releases
    POST /api/v1/ab-releases
    GET /api/v1/ab-releases/{id}
    POST /api/v1/ab-releases/{id}/advance
    GET /api/v1/ab-releases/{id}/health
    POST /api/v1/ab-releases/{id}/promote
    POST /api/v1/ab-releases/{id}/rollback
    POST /api/v1/ab-releases/{id}/start
    GET /api/v1/ab-releases/{id}/traffic
    GET /api/v1/audit
    GET /api/v1/callers/unknown
    GET /api/v1/canary-releases
    GET /api/v1/canary-releases/folder
    GET /api/v1/canary-releases/{id}
    DELETE /api/v1/canary-releases/{id}
    GET /api/v1/children
    GET /api/v1/children/{id}
    DELETE /api/v1/children/{id}
    POST /api/v1/children/{id}/cordon
    POST /api/v1/children/{id}/drain
    PUT /api/v1/children/{id}/labels/{key}
    DELETE /api/v1/children/{id}/labels/{key}
    DELETE /api/v1/children/{id}/token
    POST /api/v1/children/{id}/uncordon
    GET /api/v1/deployments
    GET /api/v1/environments
    POST /api/v1/environments
    GET /api/v1/environments/{id}
    DELETE /api/v1/environments/{id}
    POST /api/v1/intents
    GET /api/v1/map
    GET /api/v1/map/areas
    GET /api/v1/map/cells
    GET /api/v1/map/changes
    GET /api/v1/map/children/{number}
    POST /api/v1/plan
    GET /api/v1/registered-releases
    GET /api/v1/registered-releases/{name}
    DELETE /api/v1/registered-releases/{name}
    GET /api/v1/releases
    GET /api/v1/releases/{id}
    POST /api/v1/releases/{id}/abort
    GET /api/v1/releases/{id}/actions
    POST /api/v1/releases/{id}/approve
    GET /api/v1/releases/{id}/children
    GET /api/v1/releases/{id}/children/{child}/offer
    POST /api/v1/releases/{id}/children/{child}/retry
    POST /api/v1/releases/{id}/children/{child}/skip
    POST /api/v1/releases/{id}/extend
    POST /api/v1/releases/{id}/extend-analysis
    GET /api/v1/releases/{id}/map
    GET /api/v1/releases/{id}/map/areas
    GET /api/v1/releases/{id}/map/cells
    GET /api/v1/releases/{id}/map/changes
    GET /api/v1/releases/{id}/map/history
    POST /api/v1/releases/{id}/pause
    POST /api/v1/releases/{id}/promote
    POST /api/v1/releases/{id}/resume
    POST /api/v1/releases/{id}/retry
    POST /api/v1/releases/{id}/rollback
    POST /api/v1/releases/{id}/stages/{stage}/end
    POST /api/v1/releases/{id}/stages/{stage}/skip
    GET /api/v1/releases/{id}/strategy
    GET /api/v1/releases/{id}/traffic
    GET /api/v1/rollout-strategies
    GET /api/v1/rollout-strategies/{id}
    GET /api/v1/routers
    GET /api/v1/routers/{id}
    POST /api/v1/routers/{id}/adopt
    POST /api/v1/routers/{id}/check
    GET /api/v1/routers/{id}/orders/{number}
    POST /api/v1/routers/{id}/reload
    POST /api/v1/routers/{id}/repair
    GET /api/v1/routers/{id}/routes
    GET /api/v1/services
    GET /api/v1/services/{name}
    POST /api/v1/services/{name}/retire
    GET /api/v1/status
    GET /api/v1/target-groups
    POST /api/v1/target-groups
    GET /api/v1/target-groups/{id}
    DELETE /api/v1/target-groups/{id}
    GET /api/v1/tenants
    POST /api/v1/tenants
    GET /api/v1/tenants/{name}
    DELETE /api/v1/tenants/{name}
    PUT /api/v1/tenants/{name}/limits
    GET /api/v1/tree
    GET /api/v1/versions
    POST /api/v1/versions
    GET /api/v1/versions/{id}
    DELETE /api/v1/versions/{id}
    GET /api/v1/workflows
    POST /api/v1/workflows
    POST /api/v1/workflows/plan
    GET /api/v1/workflows/{name}
    DELETE /api/v1/workflows/{name}
    POST /api/v1/workflows/{name}/move
    PUT /api/v1/workflows/{name}/strategy
    POST /end_stage
    GET /events
    GET /healthz
    POST /join
    GET /metrics
    GET /openapi.json
    POST /placements
    POST /poll
    GET /readyz
    GET /release
    POST /release
    GET /release/functions/{offer}
    POST /result
    POST /traffic
    "#);
    for (method, path) in &operations {
        let address = path.replace(['{', '}'], "x");
        if is_endless(path) {
            continue;
        }
        let answer = world.call(method, &address).await;
        assert_ne!(answer.status, 405, "{method} {path}");
        assert!(!answer.text().contains("/openapi.json lists"), "{method} {path}: {}", answer.text());
        // And no other method.
        for other in METHODS.map(str::to_uppercase) {
            if !operations.contains(&(other.clone(), path.clone())) {
                let answer = world.call(&other, &address).await;
                assert_eq!(answer.status, 405, "{other} {path}");
                assert!(answer.header("allow").contains(method.as_str()), "{other} {path}: {answer:?}");
            }
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn every_route_is_in_the_document() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http-api"));
    // Routes are made from described handlers alone, and each described handler is one.
    for undescribed in [".route(", ".route_service(", ".nest_service(", ".fallback_service("] {
        assert!(
            sources.iter().all(|text| !text.contains(undescribed)),
            "{undescribed} leaves the document behind"
        );
    }
    let described: usize = sources.iter().map(|text| text.matches("#[utoipa::path(").count()).sum();
    let world = World::start().await;
    let document = world.get("/openapi.json").await.ok().json();
    assert_eq!(operations(&document).len(), described);
    let mut ids: Vec<&str> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| METHODS.iter().filter_map(|method| item[*method]["operationId"].as_str()))
        .collect();
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    assert_eq!((all, ids.len()), (described, described));
    world.stop().await;
}

/// Errors of children's calls are one line of text, those of people's are problems, also where both share a path.
#[tokio::test]
async fn every_response_says_what_it_means() {
    let world = World::start().await;
    let document = world.get("/openapi.json").await.ok().json();
    for (method, path) in operations(&document) {
        let operation = &document["paths"][&path][method.to_lowercase()];
        for (status, response) in operation["responses"].as_object().unwrap() {
            let text = response["description"].as_str().unwrap_or_default();
            assert!(!text.trim().is_empty(), "{method} {path} {status}");
        }
        let other = operation["responses"]["default"]["description"].as_str().unwrap();
        let is_childs = operation["tags"][0] == "child protocol";
        assert_eq!(other.contains("one line"), is_childs, "{method} {path}: {other}");
    }
    let refused = world.get("/release").await;
    assert_eq!((refused.status, refused.header("content-type")), (400, "text/plain; charset=utf-8"));
    world.stop().await;
}

#[tokio::test]
async fn every_reference_of_the_document_leads_somewhere() {
    let world = World::start().await;
    let document = world.get("/openapi.json").await.ok().json();
    let text = document.to_string();
    for (at, _) in text.match_indices("\"$ref\":\"#") {
        let pointer = text[at + 9..].split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    world.stop().await;
}

#[tokio::test]
async fn the_document_tells_of_every_outcome_and_kind_of_child() {
    let world = World::start().await;
    let document = world.get("/openapi.json").await.ok().json();
    let schemas = &document["components"]["schemas"];
    let said = |schema: &str, field: &str| {
        let text = &schemas[schema]["properties"][field]["description"];
        text.as_str().unwrap_or_else(|| panic!("{schema}.{field}: {text}")).to_owned()
    };
    let outcomes = said("ReleaseChild", "outcome");
    for outcome in model::Outcome::NAMES {
        assert!(outcomes.contains(&format!("`{outcome}`")), "{outcome}: {outcomes}");
    }
    let kinds = said("Child", "kind");
    for kind in model::ChildKind::NAMES {
        assert!(kinds.contains(&format!("`{kind}`")), "{kind}: {kinds}");
    }
    world.stop().await;
}
