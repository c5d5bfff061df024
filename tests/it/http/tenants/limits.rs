//! A tenant has no more than it may have, and is told which limit it meets.

use futures_util::future::join_all;
use serde_json::json;

use super::Shared;
use crate::world::strategy;

#[tokio::test]
async fn each_limit_is_named_where_it_is_met() {
    let shared = Shared::start().await;
    shared.child_of("acme").await;
    let limit = async |limits: serde_json::Value| {
        shared.send("root", "PUT", "/api/v1/tenants/acme/limits", &json!({"limits": limits})).await.ok();
    };
    let mut seen = String::new();
    limit(json!({"children": 1})).await;
    let child = shared.world.child().await;
    let label = format!("/api/v1/children/{child}/labels/tenant");
    seen += &format!("{}\n", shared.send("root", "PUT", &label, &json!({"value": "acme"})).await.problem());
    shared.send("root", "PUT", &label, &json!({"value": "umbra"})).await.ok();
    let join = shared.world.request("POST", "/join").bearer_auth(super::DOOR).json(&json!({"name": "n"}));
    let refused = shared.world.send(join).await;
    seen += &format!("{} {}\n", refused.status, refused.text());
    limit(json!({"releases": 1})).await;
    shared.submit("ann", &strategy("one")).await.ok();
    seen += &format!("{}\n", shared.submit("ann", &strategy("two")).await.problem());
    // What is there already is answered as ever.
    assert_eq!(shared.submit("ann", &strategy("one")).await.status, 200);
    limit(json!({"releases": 5, "bytes": 10})).await;
    let over = shared.submit("ann", &strategy("two")).await.problem();
    let digits = |text: &str| {
        text.split(' ')
            .map(|word| if word.parse::<u64>().is_ok_and(|n| n > 500) { "MANY" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    };
    seen += &format!("{}\n", digits(&over));
    shared.submit("uma", &strategy("two")).await.ok();
    insta::assert_snapshot!(seen, @r#"
    429 /problems/tenant-limit: tenant acme has as many children as it may have: 1 (the limit `children`)
    429 tenant acme has as many children as it may have: 1 (the limit `children`)

    429 /problems/tenant-limit: tenant acme has as many unfinished releases as it may have: 1 (the limit `releases`)
    413 /problems/tenant-limit: tenant acme would have MANY bytes of strategies and functions, and may have 10 (the limit `bytes`)
    "#);
    shared.world.stop().await;
}

#[tokio::test]
async fn calls_at_once_take_no_room_twice() {
    let shared = Shared::start().await;
    shared.child_of("acme").await;
    let limits = json!({"limits": {"releases": 3, "children": 3}});
    shared.send("root", "PUT", "/api/v1/tenants/acme/limits", &limits).await.ok();
    let submissions = (0..8).map(|n| {
        let shared = &shared;
        async move { shared.submit("ann", &strategy(&format!("at-once-{n}"))).await.status }
    });
    let mut statuses = join_all(submissions).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 201, 429, 429, 429, 429, 429]);
    let mut children = Vec::new();
    for _ in 0..6 {
        children.push(shared.world.child().await);
    }
    let labels = children.iter().map(|child| {
        let path = format!("/api/v1/children/{child}/labels/tenant");
        let shared = &shared;
        async move { shared.send("root", "PUT", &path, &json!({"value": "acme"})).await.status }
    });
    let mut statuses = join_all(labels).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 429, 429, 429, 429]);
    let shown = shared.get("root", "/api/v1/tenants/acme").await.ok().json();
    assert_eq!((&shown["releases"]["used"], &shown["children"]["used"]), (&json!(3), &json!(3)));
    shared.world.stop().await;
}
