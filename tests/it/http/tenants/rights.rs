//! Every route has a line in the table of rights, and the table holds.

use http_api::rights::{ROUTES, Right};
use model::Role;
use serde_json::{Value, json};

use super::{Shared, TOKENS};
use crate::hostile_input::routes::is_endless;

/// Method and path of every operation of the description that isn't a child's.
async fn operations(shared: &Shared) -> Vec<(String, String)> {
    let document = shared.get("root", "/openapi.json").await.ok().json();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let is_operation = ["get", "post", "put", "delete", "patch", "head"].contains(&method.as_str());
            let is_childs =
                operation["tags"].as_array().is_some_and(|tags| tags.contains(&json!("child protocol")));
            if is_operation && !is_childs {
                found.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    found
}

#[tokio::test]
async fn every_route_has_a_right_and_every_right_a_route() {
    let shared = Shared::start().await;
    let mut described = operations(&shared).await;
    let mut table: Vec<(String, String)> =
        ROUTES.iter().map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
    described.sort();
    table.sort();
    assert_eq!(described, table);
    shared.world.stop().await;
}

/// With ids that are nobody's: what is let pass is told that there is nothing, or that a body is missing.
fn filled(path: &str) -> String {
    path.split('/')
        .map(|part| if part.starts_with('{') { "nothing" } else { part })
        .collect::<Vec<_>>()
        .join("/")
}

#[tokio::test]
async fn each_role_does_what_the_table_says() {
    let shared = Shared::start().await;
    for route in ROUTES.iter().filter(|route| !is_endless(route.path)) {
        for (who, _, tenant, roles) in TOKENS.iter().filter(|(who, ..)| *who != "ghost") {
            let has_any =
                |wanted: &[Role]| roles.is_empty() || roles.iter().any(|role| wanted.contains(role));
            let may = match route.right {
                Right::Anybody => true,
                Right::Any(wanted) => has_any(wanted),
                Right::Whole(wanted) => tenant.is_none() && has_any(wanted),
            };
            let answer = shared.call(who, route.method, &filled(route.path)).await;
            assert_eq!(answer.status != 403, may, "{who} {} {}: {}", route.method, route.path, answer.text());
        }
    }
    shared.world.stop().await;
}

#[tokio::test]
async fn a_role_that_is_missing_is_named() {
    let shared = Shared::start().await;
    let mut seen = String::new();
    for (who, method, path) in [
        ("vic", "POST", "/release"),
        ("otto", "POST", "/api/v1/releases/x/approve"),
        ("abe", "POST", "/api/v1/releases/x/abort"),
        ("watch", "POST", "/api/v1/tenants"),
        ("ann", "GET", "/metrics"),
        ("ann", "POST", "/api/v1/tenants"),
        ("ghost", "GET", "/api/v1/releases"),
    ] {
        seen += &format!("{who}: {}\n", shared.call(who, method, path).await.problem());
    }
    insta::assert_snapshot!(seen, @r#"
    vic: 403 /problems/missing-role: this takes the role operator; the token vic has viewer
    otto: 403 /problems/missing-role: this takes the role approver; the token otto has operator
    abe: 403 /problems/missing-role: this takes the role operator; the token abe has approver
    watch: 403 /problems/missing-role: this takes the role operator; the token watch has viewer
    ann: 403 /problems/whole-manager: this is about the whole manager, and takes a token that is bound to no tenant
    ann: 403 /problems/whole-manager: this is about the whole manager, and takes a token that is bound to no tenant
    ghost: 403 /problems/unknown-tenant: the token is bound to the tenant nobody, which is not there
    "#);
    shared.world.stop().await;
}

#[tokio::test]
async fn a_token_without_tenant_and_roles_does_what_it_ever_did() {
    let shared = Shared::start().await;
    let answer = shared.get("root", "/api/v1/releases").await.ok().json();
    assert_eq!(answer, json!({"items": Value::Array(Vec::new()), "next": null}));
    assert_eq!(shared.get("root", "/metrics").await.status, 200);
    shared.world.stop().await;
}

/// The table in `src/TENANTS.md` is that of the code.
#[test]
fn the_documented_table_is_the_one_in_the_code() {
    let mut lines = vec!["| call | role |".to_owned(), "|---|---|".to_owned()];
    for route in ROUTES {
        let names = |roles: &[Role]| {
            if roles.len() == Role::ALL.len() {
                "any".to_owned()
            } else {
                roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(", ")
            }
        };
        let right = match route.right {
            Right::Anybody => "no token".to_owned(),
            Right::Any(roles) => names(roles),
            Right::Whole(roles) => format!("{}, of the whole manager", names(roles)),
        };
        lines.push(format!("| `{} {}` | {right} |", route.method, route.path));
    }
    let table = lines.join("\n");
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/TENANTS.md")).unwrap();
    assert!(text.contains(&table), "src/TENANTS.md must have this table:\n{table}");
}
