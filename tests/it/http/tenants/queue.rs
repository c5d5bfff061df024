//! No tenant waits for another, and whoever waits for somebody else isn't told for whom.

use serde_json::json;

use super::Shared;
use crate::world::strategy;

#[tokio::test]
async fn a_tenant_is_held_up_by_no_other_also_not_through_the_managers_own() {
    let shared = Shared::start().await;
    let (acme, umbra) = (shared.child_of("acme").await, shared.child_of("umbra").await);
    shared.submit("ann", &strategy("stuck")).await.ok();
    shared.call("ann", "POST", "/api/v1/releases/stuck/pause").await.ok();
    // The manager's own meets both: it waits for the one that is under way.
    let own = shared.submit("root", &strategy("of-all")).await.ok().json();
    assert_eq!(own["waits_for"], json!(["~acme~stuck"]));
    assert_eq!(shared.state("root", "of-all").await, "Planned");
    // The other tenant is not held up by what waits for acme's.
    let free = shared.submit("uma", &strategy("free")).await.ok().json();
    assert_eq!(free["participants"], 1);
    assert_eq!(shared.state("uma", "free").await, "Running");
    shared.world.run(&umbra, "~umbra~free").await;
    assert_eq!(shared.state("uma", "free").await, "Done");
    // Acme's next waits for its own.
    let next = shared.submit("ann", &strategy("next")).await.ok().json();
    assert_eq!(next["waits_for"].as_array().unwrap()[0], "stuck");
    shared.call("ann", "POST", "/api/v1/releases/stuck/resume").await.ok();
    shared.world.run(&acme, "~acme~stuck").await;
    assert_eq!(shared.state("ann", "stuck").await, "Done");
    assert_eq!(shared.state("root", "of-all").await, "Running");
    shared.world.stop().await;
}

#[tokio::test]
async fn who_waits_for_somebody_else_is_not_told_for_whom() {
    let shared = Shared::start().await;
    let child = shared.child_of("acme").await;
    shared.submit("root", &strategy("secret-plan")).await.ok();
    let body = shared.submit("ann", &strategy("mine")).await.ok().json();
    assert_eq!(body["waits_for"], json!(["another tenant's"]));
    let refuse = strategy("only") + "on_conflict: refuse\n";
    let supersede = strategy("over-you") + "on_conflict: supersede\n";
    let mut seen = String::new();
    let shown = shared.get("ann", "/api/v1/releases/mine").await.ok().json();
    seen += &format!("{}\n", shown["waits_for"].as_str().unwrap());
    seen += &format!("{}\n", shared.submit("ann", &refuse).await.problem());
    let plan = shared.yaml("ann", "/api/v1/plan", &strategy("other")).await.ok().json();
    seen += &format!("{}\n", plan["waits_for"]);
    let seen_child = shared.get("ann", &format!("/api/v1/children/{child}")).await.ok().json();
    seen += &format!("{} {}\n", seen_child["releases"], seen_child["doing"]);
    insta::assert_snapshot!(seen, @r#"
    waits behind another tenant's release, which changes the same functions
    409 /problems/conflict: unfinished releases change the same functions: mine
    ["another tenant's","mine"]
    [] "takes part in another tenant's release"
    "#);
    // A tenant takes back what is its own, and nothing else.
    shared.submit("ann", &supersede).await.ok();
    assert_eq!(shared.state("root", "secret-plan").await, "Running");
    assert_eq!(shared.state("ann", "mine").await, "Aborted");
    for path in ["/api/v1/releases", "/api/v1/audit?limit=1000", "/api/v1/children", "/api/v1/deployments"] {
        let text = shared.get("ann", path).await.ok().text();
        assert!(!text.contains("secret-plan"), "{path}: {text}");
    }
    // The manager's own may take a tenant's back, and isn't named there either.
    let over_all = strategy("over-all") + "on_conflict: supersede\n";
    shared.submit("root", &over_all).await.ok();
    let shown = shared.get("ann", "/api/v1/releases/over-you").await.ok().text();
    assert!(
        !shown.contains("over-all") && shown.contains("superseded by another tenant's release"),
        "{shown}"
    );
    shared.world.stop().await;
}
