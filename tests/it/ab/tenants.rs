//! Two tenants use this interface on one manager, with the same names throughout: each has its own, and nothing of the other's is there.

use serde_json::{Value, json};

use super::player::{body, two_stages};
use crate::http::tenants::{Shared, told};

/// Two who know nothing of each other, each with an operator.
const WHO: [(&str, &str, u16); 2] = [("ann", "acme", 9_100), ("uma", "umbra", 9_200)];

/// What both register, each with targets of their own.
async fn register(shared: &Shared, who: &str, port: u16) {
    let environment = json!({"name": "shop-prod", "service": "checkout", "ports": [{"port": port}]});
    shared.post(who, "/api/v1/environments", &environment).await.ok();
    for (name, target) in [("v41", port + 1), ("v42", port + 11)] {
        let version = json!({"name": name, "targets": [format!("127.0.0.1:{target}")]});
        shared.post(who, "/api/v1/versions", &version).await.ok();
    }
    let group = json!({"name": "edge", "addresses": [format!("127.0.0.1:{}", port + 11)]});
    shared.post(who, "/api/v1/target-groups", &group).await.ok();
}

struct Two {
    shared: Shared,
    routers: [String; 2],
    /// UUIDs of the release that each calls `checkout-42`.
    releases: [String; 2],
}

impl Two {
    async fn start() -> Self {
        let shared = Shared::start().await;
        let mut routers = Vec::new();
        let mut releases = Vec::new();
        for (who, tenant, port) in WHO {
            routers.push(shared.router_of(tenant, "embedded", &json!([])).await);
            register(&shared, who, port).await;
            let created = shared.post(who, "/api/v1/ab-releases", &body("checkout-42", &two_stages())).await;
            assert_eq!(created.status, 201, "{}", created.text());
            releases.push(created.json()["id"].as_str().unwrap().to_owned());
        }
        Self { shared, routers: routers.try_into().unwrap(), releases: releases.try_into().unwrap() }
    }
}

fn names(listed: &Value) -> Vec<&str> {
    listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_lists_and_shows_its_own_under_the_same_names() {
    let two = Two::start().await;
    let shared = &two.shared;
    assert_ne!(two.releases[0], two.releases[1]);
    for (at, (who, _, port)) in WHO.into_iter().enumerate() {
        for (list, expected) in [
            ("ab-releases", vec!["checkout-42"]),
            ("environments", vec!["shop-prod"]),
            ("target-groups", vec!["edge"]),
            ("versions", vec!["v41", "v42"]),
        ] {
            let listed = shared.get(who, &format!("/api/v1/{list}")).await.ok().json();
            assert_eq!(names(&listed), expected, "{who} {list}");
        }
        let shown = shared.get(who, "/api/v1/ab-releases/checkout-42").await.ok();
        assert_eq!(shown.json()["id"], two.releases[at].as_str());
        assert_eq!(shown.json()["release"], "checkout-42");
        let other = &two.releases[1 - at];
        assert!(!shown.text().contains('~') && !shown.text().contains(other), "{}", shown.text());
        let environment = shared.get(who, "/api/v1/environments/shop-prod").await.ok().json();
        assert_eq!(environment["ports"][0]["port"], port);
        assert_eq!(environment["tenantId"], shown.json()["tenantId"]);
        let filtered = shared.get(who, "/api/v1/ab-releases?environmentId=shop-prod").await.ok().json();
        assert_eq!(filtered[0]["id"], two.releases[at].as_str());
    }
    let all = shared.get("root", "/api/v1/ab-releases").await.ok().json();
    assert_eq!(names(&all).len(), 2, "who sees everything sees both");
    assert_eq!(names(&shared.get("root", "/api/v1/environments").await.ok().json()), [""; 0]);
    two.shared.world.stop().await;
}

#[tokio::test]
async fn other_tenants_items_look_like_unknown_ones() {
    let two = Two::start().await;
    let (shared, theirs) = (&two.shared, &two.releases[1]);
    let nobody = "00000000-0000-5000-8000-000000000000";
    let promote = json!({"variation": "B"});
    let mut calls: Vec<(&str, String, String, Value)> = Vec::new();
    for (method, path, body) in [
        ("GET", "", Value::Null),
        ("GET", "/traffic", Value::Null),
        ("GET", "/health", Value::Null),
        ("POST", "/start", json!({})),
        ("POST", "/advance", json!({})),
        ("POST", "/promote", promote),
        ("POST", "/rollback", json!({})),
    ] {
        calls.push((method, format!("/api/v1/ab-releases/ID{path}"), theirs.clone(), body));
    }
    for (kind, name) in [("environments", "shop-prod"), ("target-groups", "edge"), ("versions", "v42")] {
        let shown = shared.get("uma", &format!("/api/v1/{kind}/{name}")).await.ok().json();
        let id = shown["id"].as_str().unwrap().to_owned();
        for method in ["GET", "DELETE"] {
            calls.push((method, format!("/api/v1/{kind}/ID"), id.clone(), Value::Null));
        }
    }
    for order in ["check", "repair", "reload"] {
        let path = format!("/api/v1/routers/ID/{order}");
        calls.push(("POST", path.clone(), two.routers[1].clone(), json!({})));
        calls.push(("POST", path, two.routers[1].clone(), json!({"note": "n"})));
    }
    for (method, path, id, body) in calls {
        let call = async |id: &str| match &body {
            Value::Null => shared.call("ann", method, &path.replace("ID", id)).await,
            body => shared.send("ann", method, &path.replace("ID", id), body).await,
        };
        let (hidden, absent) = (call(&id).await, call(nobody).await);
        assert_eq!(hidden.status, 404, "{method} {path}: {}", hidden.text());
        assert_eq!(told(&hidden, &[&id]), told(&absent, &[nobody]), "{method} {path}");
    }
    // A body names what is another's as it names what isn't there.
    let environment = shared.get("uma", "/api/v1/environments/shop-prod").await.ok().json();
    for (named, of) in [(environment["id"].as_str().unwrap(), "theirs"), (nobody, "nobody's")] {
        let mut wrong = body("other", &two_stages());
        wrong["environmentId"] = json!(named);
        let refused = shared.post("ann", "/api/v1/ab-releases", &wrong).await;
        let expected =
            format!("422 /problems/invalid-field: `environmentId`: there is no environment {named:?}");
        assert_eq!(refused.problem(), expected, "{of}");
    }
    // Nothing of all that has changed anything.
    let shown = shared.get("uma", "/api/v1/ab-releases/checkout-42").await.ok().json();
    assert_eq!((&shown["status"], &shown["phase"]), (&json!("created"), &json!("waiting_for_start")));
    assert_eq!(names(&shared.get("uma", "/api/v1/environments").await.ok().json()), ["shop-prod"]);
    two.shared.world.stop().await;
}

#[tokio::test]
async fn each_steers_its_own_and_the_stream_tells_nothing_of_the_other() {
    let two = Two::start().await;
    let shared = &two.shared;
    let request = shared.world.request("GET", "/events?after=0-0").bearer_auth(Shared::secret("ann"));
    let mut stream = request.send().await.unwrap();
    for (who, action, body) in
        [("uma", "start", json!({})), ("ann", "start", json!({})), ("ann", "rollback", json!({}))]
    {
        shared.post(who, &format!("/api/v1/ab-releases/checkout-42/{action}"), &body).await.ok();
    }
    let mut text = String::new();
    while !text.contains("release_aborted") {
        text += str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap();
    }
    assert!(text.contains("ab.created") && text.contains("ab.started"), "{text}");
    for secret in ["umbra", "uma", "~acme~", &two.releases[1], &two.routers[1]] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let stands = async |who: &str| {
        let shown = shared.get(who, "/api/v1/ab-releases/checkout-42").await.ok().json();
        shown["status"].as_str().unwrap().to_owned()
    };
    assert_eq!((stands("ann").await.as_str(), stands("uma").await.as_str()), ("rolled_back", "deploying"));
    // Each release is its own tenant's routers' alone.
    let traffic = shared.get("uma", "/api/v1/ab-releases/checkout-42/traffic").await.ok().text();
    assert!(!traffic.contains(&two.routers[0]), "{traffic}");
    two.shared.world.stop().await;
}

#[tokio::test]
async fn a_tenant_gives_orders_to_its_own_routers_and_reads_no_files_there() {
    let two = Two::start().await;
    let (shared, [own, other]) = (&two.shared, &two.routers);
    for order in ["check", "repair", "reload"] {
        let given =
            shared.post("ann", &format!("/api/v1/routers/{own}/{order}"), &json!({})).await.ok().json();
        assert_eq!((&given["what"], &given["by"]), (&json!(order), &json!("operator:acme/ann")), "{given}");
    }
    let file = json!({"config": "/etc/shadow"});
    let refused = shared.post("ann", &format!("/api/v1/routers/{own}/check"), &file).await;
    assert!(refused.problem().starts_with("403 /problems/whole-manager: "), "{}", refused.problem());
    shared.post("root", &format!("/api/v1/routers/{own}/check"), &file).await.ok();
    assert_eq!(shared.post("vic", &format!("/api/v1/routers/{own}/repair"), &json!({})).await.status, 403);
    // Whoever loses the child loses its router.
    let label = format!("/api/v1/children/{own}/labels/tenant");
    shared.post("ann", "/api/v1/ab-releases/checkout-42/rollback", &json!({})).await.ok();
    shared.send("root", "PUT", &label, &json!({"value": "umbra"})).await.ok();
    assert_eq!(shared.post("ann", &format!("/api/v1/routers/{own}/repair"), &json!({})).await.status, 404);
    assert_eq!(shared.ids("ann", "/api/v1/routers").await, [""; 0]);
    assert_eq!(shared.ids("uma", "/api/v1/routers").await, [own.as_str(), other.as_str()]);
    assert_eq!(shared.ids("uma", "/api/v1/children").await, [own.as_str(), other.as_str()]);
    assert_eq!(
        shared.ids("root", "/api/v1/children?label=tenant:umbra").await,
        [own.as_str(), other.as_str()]
    );
    two.shared.world.stop().await;
}

#[tokio::test]
async fn limits_hold_for_what_is_created_here() {
    let two = Two::start().await;
    let shared = &two.shared;
    let limits = json!({"limits": {"releases": 1}});
    shared.send("root", "PUT", "/api/v1/tenants/acme/limits", &limits).await.ok();
    let more = body("checkout-43", &two_stages());
    let refused = shared.post("ann", "/api/v1/ab-releases", &more).await;
    assert!(refused.problem().starts_with("429 /problems/tenant-limit: "), "{}", refused.problem());
    shared.post("uma", "/api/v1/ab-releases", &more).await.ok();
    let again = shared.post("ann", "/api/v1/ab-releases", &body("checkout-42", &two_stages())).await;
    assert_eq!(again.status, 200, "one that is there takes no more room");
    // A name that is longer than an id may be is an id's beginning, also where a tenant's is before it.
    shared.send("root", "PUT", "/api/v1/tenants/acme/limits", &json!({"limits": {"releases": 9}})).await.ok();
    let long = body(&"x".repeat(48), &two_stages());
    let created = shared.post("ann", "/api/v1/ab-releases", &long).await.ok().json();
    assert_eq!(created["name"], "x".repeat(48));
    two.shared.world.stop().await;
}
