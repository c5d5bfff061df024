//! Ids are a tenant's own, and what children are offered tells them apart.

use serde_json::json;

use super::Shared;
use crate::world::strategy;

#[tokio::test]
async fn two_tenants_and_the_manager_have_a_release_of_the_same_id() {
    let shared = Shared::start().await;
    let (one, other, third) =
        (shared.child_of("acme").await, shared.child_of("umbra").await, shared.world.child().await);
    let mut answers = Vec::new();
    for who in ["ann", "uma"] {
        let answer = shared.submit(who, &strategy("checkout-42")).await;
        assert_eq!(answer.status, 201);
        assert_eq!(answer.header("location"), "/api/v1/releases/checkout-42");
        let body = answer.json();
        assert_eq!(
            (&body["id"], &body["participants"], &body["waits_for"]),
            (&json!("checkout-42"), &json!(1), &json!([]))
        );
        assert_eq!(body["excluded"], json!({}));
        answers.push(body);
    }
    assert_eq!(answers[0], answers[1]);
    // What children are offered is unique, and in the alphabet that deployed agents put into URLs.
    assert!(shared.world.poll(&one).await.1.starts_with("~acme~"));
    assert!(shared.world.poll(&other).await.1.starts_with("~umbra~"));
    assert_eq!(shared.world.poll(&third).await.1, "");
    assert_eq!(shared.ids("ann", "/api/v1/releases").await, ["checkout-42"]);
    assert_eq!(shared.ids("root", "/api/v1/releases").await, ["~umbra~checkout-42", "~acme~checkout-42"]);
    shared.world.run(&one, "~acme~checkout-42").await;
    assert_eq!(shared.state("ann", "checkout-42").await, "Done");
    assert_eq!(shared.state("uma", "checkout-42").await, "Running");
    // The same again is known, other content under the id is refused, and each sees its own.
    assert_eq!(shared.submit("uma", &strategy("checkout-42")).await.status, 200);
    let strategy = shared.get("ann", "/api/v1/releases/checkout-42/strategy").await.ok().text();
    assert!(strategy.contains("id: checkout-42\n"), "{strategy}");
    shared.world.stop().await;
}

#[tokio::test]
async fn releases_of_tenants_come_back_after_a_restart_as_they_were() {
    let mut shared = Shared::start().await;
    let child = shared.child_of("acme").await;
    shared.child_of("umbra").await;
    shared.submit("ann", &strategy("kept")).await.ok();
    let before = shared.get("ann", "/api/v1/releases/kept").await.ok().json();
    let root = shared.functions.path().to_owned();
    shared.world = shared
        .world
        .restart_with(|options| (options.auth, options.functions_root) = (super::settings(), root))
        .await;
    let after = shared.get("ann", "/api/v1/releases/kept").await.ok().json();
    for part in ["id", "state", "participants", "functions"] {
        assert_eq!(before[part], after[part], "{part}");
    }
    assert!(shared.world.poll(&child).await.1.starts_with("~acme~"));
    shared.world.run(&child, "~acme~kept").await;
    assert_eq!(shared.state("ann", "kept").await, "Done");
    // From the store, once it has left memory.
    let shown = shared.get("ann", "/api/v1/releases/kept/children").await.ok().json();
    assert_eq!(shown["items"].as_array().unwrap().len(), 1);
    shared.world.stop().await;
}

#[tokio::test]
async fn an_id_of_a_tenants_form_is_nobody_elses() {
    let shared = Shared::start().await;
    let mut seen = String::new();
    for (who, id) in
        [("root", "~acme~sly"), ("uma", "~acme~sly"), ("ann", "an-id-of-forty-three-bytes-is-one-too-many0")]
    {
        let answer = shared.submit(who, &strategy(id)).await;
        seen += &match answer.status {
            201 => format!("201 {}\n", answer.json()["id"]),
            _ => format!("{}\n", answer.problem()),
        };
    }
    let other = strategy("elsewhere") + "target:\n  labels: {tenant: umbra}\n";
    seen += &format!("{}\n", shared.submit("ann", &other).await.problem());
    insta::assert_snapshot!(seen, @r#"
    422 /problems/reserved-id: the id ~acme~sly is of the form ~TENANT~ID, which is kept for tenants
    201 "~acme~sly"
    422 /problems/invalid-strategy: an id has at most 42 bytes, this one has 43
    422 /problems/invalid-strategy: target.labels names another tenant: children of this one alone can take part
    "#);
    // What umbra called so is its own, and nobody else's.
    assert_eq!(shared.ids("root", "/api/v1/releases").await, ["~umbra~~acme~sly"]);
    assert_eq!(shared.ids("uma", "/api/v1/releases").await, ["~acme~sly"]);
    assert_eq!(shared.ids("ann", "/api/v1/releases").await, Vec::<String>::new());
    shared.world.stop().await;
}

#[tokio::test]
async fn an_operator_of_the_whole_manager_submits_for_a_tenant() {
    let shared = Shared::start().await;
    shared.child_of("acme").await;
    let body = shared.yaml("root", "/release?tenant=acme", &strategy("given")).await.ok().json();
    assert_eq!((&body["id"], &body["participants"]), (&json!("~acme~given"), &json!(1)));
    assert_eq!(shared.state("ann", "given").await, "Running");
    let mut seen = String::new();
    for (who, of) in [("uma", "acme"), ("uma", "nobody"), ("root", "nobody"), ("root", "A")] {
        let answer = shared.yaml(who, &format!("/release?tenant={of}"), &strategy("taken")).await;
        seen += &format!("{}\n", answer.problem());
    }
    insta::assert_snapshot!(seen, @r#"
    404 /problems/unknown-tenant: tenant acme is not known
    404 /problems/unknown-tenant: tenant nobody is not known
    404 /problems/unknown-tenant: tenant nobody is not known
    400 about:blank: a tenant's name has 1 to 16 small letters, digits and -, and does not begin with -
    "#);
    shared.world.stop().await;
}
