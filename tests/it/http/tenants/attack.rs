//! A tenant goes through every route with another's ids, and learns as much as with ids that nobody has.

use http_api::rights::ROUTES;
use serde_json::{Value, json};

use super::{Shared, told};
use crate::world::strategy;

/// Bodies that get past the look at what was sent.
fn bodies(method: &str, path: &str) -> Vec<Value> {
    match (method, path) {
        ("PUT", path) if path.ends_with("/{key}") => vec![json!({"value": "edge"})],
        ("PUT", path) if path.ends_with("/limits") => vec![json!({"limits": {}})],
        ("POST", path) if path.ends_with("/ab-releases/{id}/promote") => {
            vec![json!({"variation": "A"}), json!({"variation": "A", "note": "n"})]
        }
        ("PUT", path) if path.ends_with("/strategy") => vec![json!({"strategy": "spread"})],
        ("POST", path) if path.ends_with("/move") => vec![json!({"function": "f", "nodes": ["x"]})],
        ("POST" | "DELETE", _) => vec![json!({}), json!({"note": "n"})],
        _ => vec![Value::Null],
    }
}

#[tokio::test]
async fn anothers_ids_are_as_unknown_as_nobodys() {
    let shared = Shared::start().await;
    let theirs = shared.child_of("umbra").await;
    shared.child_of("acme").await;
    shared.submit("uma", &strategy("their-release-0001")).await.ok();
    shared.submit("root", &strategy("managers-own-00001")).await.ok();
    shared.submit("ann", &strategy("mine-own-release-1")).await.ok();
    // As long as those that are there, so that the lengths of answers may be compared as well.
    let nobody = "00000000-0000-4000-8000-000000000000";
    assert_eq!(theirs.len(), nobody.len());
    let releases = [
        ("their-release-0001", "nobody-release-001"),
        ("managers-own-00001", "nobody-release-001"),
        ("~umbra~their-release-0001", "~umbra~nobody-release-001"),
    ];
    let mut compared = 0;
    for route in ROUTES.iter().filter(|route| route.path.contains('{')) {
        for (release, unknown) in releases {
            let path = |release: &str, child: &str, tenant: &str| {
                let id = if route.path.starts_with("/api/v1/children") { child } else { release };
                route
                    .path
                    .replace("{id}", id)
                    .replace("{child}", child)
                    .replace("{name}", tenant)
                    .replace("{stage}", "Canary%205%20Percent")
                    .replace("{key}", "tier")
            };
            for body in bodies(route.method, route.path) {
                let call = async |path: &str| {
                    if body.is_null() {
                        shared.call("ann", route.method, path).await
                    } else {
                        shared.send("ann", route.method, path, &body).await
                    }
                };
                let hidden = call(&path(release, &theirs, "umbra")).await;
                let absent = call(&path(unknown, nobody, "ember")).await;
                assert!([404, 403].contains(&hidden.status), "{} {}: {hidden:?}", route.method, route.path);
                assert_eq!(
                    told(&hidden, &[release, &theirs, "umbra"]),
                    told(&absent, &[unknown, nobody, "ember"]),
                    "{} {}",
                    route.method,
                    route.path
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 60, "{compared}");
    // In queries.
    for (path, theirs, unknown) in [
        ("/api/v1/audit?release=", "their-release-0001", "nobody-release-001"),
        ("/events?release=", "managers-own-00001", "nobody-release-001"),
        ("/api/v1/deployments?child=", theirs.as_str(), nobody),
        ("/api/v1/children?below=", theirs.as_str(), nobody),
        ("/api/v1/deployments?below=", theirs.as_str(), nobody),
    ] {
        let hidden = shared.get("ann", &format!("{path}{theirs}")).await;
        let absent = shared.get("ann", &format!("{path}{unknown}")).await;
        assert_eq!(hidden.status, 404, "{path}");
        assert_eq!(told(&hidden, &[theirs]), told(&absent, &[unknown]), "{path}");
    }
    shared.world.stop().await;
}

/// Everything that a tenant can read.
async fn all_that_is_read(shared: &Shared, who: &str) -> String {
    let mut text = String::new();
    for path in [
        "/api/v1/releases",
        "/api/v1/children",
        "/api/v1/deployments",
        "/api/v1/audit?limit=1000",
        "/api/v1/tenants",
        "/api/v1/releases/mine",
        "/api/v1/releases/mine/children",
        "/api/v1/releases/mine?below=true",
    ] {
        text += &format!("{path}\n{}\n", shared.get(who, path).await.text());
    }
    for query in ["", "?children=all&areas=true", "?children=participants"] {
        text += &shared.yaml(who, &format!("/api/v1/plan{query}"), &strategy("planned")).await.text();
    }
    let dry = shared.yaml(who, "/release?dry_run=true", &strategy("planned")).await;
    text + &dry.text()
}

#[tokio::test]
async fn nothing_that_a_tenant_reads_names_anything_of_others() {
    let shared = Shared::start().await;
    let mine = shared.child_of("acme").await;
    let theirs = [shared.child_of("umbra").await, shared.world.child().await];
    shared.submit("uma", &strategy("their-secret")).await.ok();
    shared.submit("ann", &strategy("mine")).await.ok();
    shared.world.run(&mine, "~acme~mine").await;
    shared.world.run(&theirs[0], "~umbra~their-secret").await;
    shared.submit("root", &strategy("managers-secret")).await.ok();
    shared.submit("uma", &strategy("their-secret-2")).await.ok();
    let text = all_that_is_read(&shared, "ann").await;
    assert!(text.contains(&mine) && text.contains("\"mine\""), "{text}");
    for secret in
        [theirs[0].as_str(), &theirs[1], "their-secret", "managers-secret", "umbra", "~acme~", "uma"]
    {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    shared.world.stop().await;
}

#[tokio::test]
async fn the_stream_of_a_tenant_has_its_own_alone() {
    let shared = Shared::start().await;
    shared.child_of("acme").await;
    shared.child_of("umbra").await;
    let request = shared.world.request("GET", "/events?after=0-0").bearer_auth(super::secret("ann"));
    let mut stream = request.send().await.unwrap();
    shared.submit("uma", &strategy("their-secret")).await.ok();
    shared.submit("root", &strategy("managers-secret")).await.ok();
    shared.submit("ann", &strategy("mine")).await.ok();
    shared.call("ann", "POST", "/api/v1/releases/mine/abort").await.ok();
    let mut text = String::new();
    while !text.contains("release_aborted") {
        text += str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap();
    }
    assert!(text.contains("\"release\":\"mine\"") && text.contains("operator:acme/ann"), "{text}");
    for secret in ["secret", "umbra", "~acme~"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    shared.world.stop().await;
}
