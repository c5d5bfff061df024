//! Tenants are made, shown, limited and deleted, and it stays in the trail who did that.

use serde_json::json;

use super::Shared;
use crate::world::strategy;

#[tokio::test]
async fn a_tenant_is_made_once_and_deleted_when_nothing_is_open() {
    let shared = Shared::start().await;
    let child = shared.child_of("acme").await;
    shared.submit("ann", &strategy("open")).await.ok();
    let mut seen = String::new();
    for body in [json!({"name": "acme"}), json!({"name": "A"}), json!({"name": "x", "limits": {"cpus": 1}})] {
        seen += &format!("{}\n", shared.post("root", "/api/v1/tenants", &body).await.problem());
    }
    seen += &format!("{}\n", shared.call("root", "DELETE", "/api/v1/tenants/acme").await.problem());
    seen += &format!("{}\n", shared.call("root", "DELETE", "/api/v1/tenants/nobody").await.problem());
    insta::assert_snapshot!(seen, @r#"
    409 /problems/tenant-taken: the name acme was given; choose another
    400 about:blank: a tenant's name has 1 to 16 small letters, digits and -, and does not begin with -
    400 about:blank: the body can't be read: unknown field `cpus`, expected one of `children`, `releases`, `bytes` at line 1 column 20
    409 /problems/wrong-state: tenant acme has 1 unfinished release: abort them, or wait for their ends
    404 /problems/unknown-tenant: tenant nobody is not known
    "#);
    shared.call("ann", "POST", "/api/v1/releases/open/abort").await.ok();
    shared.world.fetch(&child, "~acme~open").await;
    shared.call("root", "DELETE", "/api/v1/tenants/acme").await.ok();
    // Its tokens open nothing, its name is not given again, and what happened stays.
    insta::assert_snapshot!(shared.get("ann", "/api/v1/releases").await.problem(), @r#"403 /problems/unknown-tenant: the token is bound to the tenant acme, which is not there"#);
    insta::assert_snapshot!(shared.post("root", "/api/v1/tenants", &json!({"name": "acme"})).await.problem(), @r#"409 /problems/tenant-taken: the name acme was given; choose another"#);
    assert_eq!(shared.get("root", "/api/v1/tenants/acme").await.status, 404);
    let trail = shared.get("root", "/api/v1/audit?limit=1000").await.ok().json();
    let said: Vec<String> = trail["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["actor"].as_str().unwrap().starts_with("operator:"))
        .map(|entry| {
            format!("{} {}", entry["actor"].as_str().unwrap(), entry["events"][0]["event"].as_str().unwrap())
        })
        .collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    operator:root tenant_created
    operator:root tenant_created
    operator:root child_labelled
    operator:acme/ann release_submitted
    operator:acme/ann release_aborted
    operator:root tenant_deleted
    "#);
    shared.world.stop().await;
}

#[tokio::test]
async fn a_tenant_is_shown_with_what_it_has() {
    let shared = Shared::start().await;
    shared.child_of("acme").await;
    shared.child_of("acme").await;
    let child = shared.child_of("umbra").await;
    shared.submit("ann", &strategy("one")).await.ok();
    let mut shown = shared.get("ann", "/api/v1/tenants/acme").await.ok().json();
    assert!(shown["bytes"]["used"].take().as_u64().unwrap() > 1_000);
    shown["created"] = json!("then");
    let users: Vec<String> = shown["users"]
        .take()
        .as_array()
        .unwrap()
        .iter()
        .map(|user| user["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(users, ["acme/abe", "acme/ann", "acme/otto", "acme/vic"], "whoever has a token of it");
    insta::assert_snapshot!(shown, @r#"{"bytes":{"limit":1073741824,"used":null},"children":{"limit":10000,"used":2},"created":"then","id":"58c5620e-6883-53d8-aac2-ee495bfa2d22","name":"acme","releases":{"limit":100,"used":1},"users":null}"#);
    // It goes with what is gone.
    let label = format!("/api/v1/children/{child}/labels/tenant");
    shared.call("root", "DELETE", &label).await.ok();
    let umbra = shared.get("root", "/api/v1/tenants/umbra").await.ok().json();
    assert_eq!(umbra["children"], json!({"used": 0, "limit": 10_000}));
    assert_eq!(umbra["bytes"]["used"], 0);
    shared.world.stop().await;
}

#[tokio::test]
async fn a_child_says_nothing_of_whose_it_is() {
    let shared = Shared::start().await;
    let area: serde_json::Value = serde_json::from_str(crate::world::AREA).unwrap();
    let body = json!({"id": "sly", "kind": "agent", "geographic_area": area,
        "capabilities": {"labels": {"tenant": "acme", "tier": "edge"}}});
    shared.world.post("/poll", &body).await.ok();
    let shown = shared.get("root", "/api/v1/children/sly").await.ok().json();
    assert_eq!(shown["labels"], json!({"tier": "edge"}));
    assert_eq!(shared.get("ann", "/api/v1/children/sly").await.status, 404);
    assert_eq!(shared.submit("ann", &strategy("one")).await.ok().json()["participants"], 0);
    assert_eq!(
        shared.get("root", "/api/v1/children?label=tenant:acme").await.ok().json()["items"],
        json!([])
    );
    shared.world.stop().await;
}

#[tokio::test]
async fn who_joins_with_a_tenants_token_is_its_child() {
    let shared = Shared::start().await;
    let request = shared.world.request("POST", "/join").bearer_auth(super::DOOR).json(&json!({"name": "n"}));
    let joined = shared.world.send(request).await.ok().json();
    let (id, token) = (joined["id"].as_str().unwrap(), joined["token"].as_str().unwrap());
    let area: serde_json::Value = serde_json::from_str(crate::world::AREA).unwrap();
    let poll = json!({"id": id, "geographic_area": area, "number_of_children": 0});
    shared.world.send(shared.world.request("POST", "/poll").bearer_auth(token).json(&poll)).await.ok();
    let shown = shared.get("ann", &format!("/api/v1/children/{id}")).await.ok().json();
    assert_eq!(shown["labels"], json!({"tenant": "acme"}));
    // What an operator says later holds, however often it calls.
    let label = format!("/api/v1/children/{id}/labels/tenant");
    shared.send("root", "PUT", &label, &json!({"value": "umbra"})).await.ok();
    shared.world.send(shared.world.request("POST", "/poll").bearer_auth(token).json(&poll)).await.ok();
    assert_eq!(shared.get("ann", &format!("/api/v1/children/{id}")).await.status, 404);
    assert_eq!(shared.get("uma", &format!("/api/v1/children/{id}")).await.status, 200);
    shared.world.stop().await;
}

#[tokio::test]
async fn only_operators_of_the_whole_manager_say_whose_a_child_is() {
    let shared = Shared::start().await;
    let child = shared.child_of("acme").await;
    let label = format!("/api/v1/children/{child}/labels/tenant");
    let mut seen = String::new();
    seen += &format!("{}\n", shared.send("ann", "PUT", &label, &json!({"value": "umbra"})).await.problem());
    seen += &format!("{}\n", shared.call("ann", "DELETE", &label).await.problem());
    seen += &format!("{}\n", shared.send("root", "PUT", &label, &json!({"value": "nobody"})).await.problem());
    // Not while it has a part in a release of the one who has it.
    shared.submit("ann", &strategy("held")).await.ok();
    let moved = shared.send("root", "PUT", &label, &json!({"value": "umbra"})).await.problem();
    seen += &format!("{}\n", moved.replace(&child, "CHILD"));
    insta::assert_snapshot!(seen, @r#"
    403 /problems/whole-manager: whose a child is say operators of the whole manager, with a token that is bound to no tenant
    403 /problems/whole-manager: whose a child is say operators of the whole manager, with a token that is bound to no tenant
    404 /problems/unknown-tenant: tenant nobody is not known
    409 /problems/has-part: child CHILD has a part in release ~acme~held: it changes its tenant when it has none
    "#);
    let other = format!("/api/v1/children/{child}/labels/tier");
    shared.send("ann", "PUT", &other, &json!({"value": "edge"})).await.ok();
    shared.world.stop().await;
}
