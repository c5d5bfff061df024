//! A tenant's release reaches what is that tenant's below a manager that is that tenant's, and nothing else.

use serde_json::json;

use super::Shared;
use crate::{
    deadline::until,
    tree::levels::{parent, url},
    world::{World, strategy},
};

#[tokio::test]
async fn a_release_goes_down_to_the_tenants_own_children() {
    let root = Shared::start().await;
    let above = parent(url(&root.world));
    let middle = World::with(|options| options.parent = Some(above)).await;
    let (own, other) = (middle.child().await, middle.child().await);
    let path = format!("/api/v1/children/{own}/labels/tenant");
    middle.send_json("PUT", &path, &json!({"value": "acme"})).await.ok();
    let managers = async || root.get("root", "/api/v1/children?kind=rm").await.ok().json()["items"].take();
    let listed = until("the manager", managers, |listed| listed[0]["agents"] == 2).await;
    let manager = listed[0]["id"].as_str().unwrap();
    // What is below it says nothing of whose it is.
    assert_eq!(root.get("ann", &format!("/api/v1/children/{manager}")).await.status, 404);
    assert_eq!(root.submit("ann", &strategy("too-early")).await.ok().json()["participants"], 0);
    let path = format!("/api/v1/children/{manager}/labels/tenant");
    root.send("root", "PUT", &path, &json!({"value": "acme"})).await.ok();
    assert_eq!(root.submit("uma", &strategy("theirs")).await.ok().json()["participants"], 0);
    assert_eq!(root.submit("ann", &strategy("below")).await.ok().json()["participants"], 1);
    assert!(middle.offered(&own).await.starts_with("~acme~"));
    assert_eq!(middle.poll(&other).await.1, "");
    reads_below(&root, &middle, manager, &own).await;
    middle.stop().await;
    root.world.stop().await;
}

/// What is asked of the manager below is answered with what is the tenant's own there.
async fn reads_below(root: &Shared, middle: &World, manager: &str, own: &str) {
    middle.submit(&strategy("local")).await.ok();
    let releases = format!("/api/v1/releases?below={manager}");
    let mut all = root.ids("root", &releases).await;
    all.sort();
    assert_eq!(all, ["local", "~acme~below"]);
    assert_eq!(root.ids("ann", &releases).await, ["below"]);
    assert_eq!(root.ids("ann", &format!("/api/v1/children?below={manager}")).await, [own]);
    let tree = format!("/api/v1/tree?below={manager}");
    assert_eq!(root.ids("root", &tree).await.len(), 2);
    for tree in [tree.clone(), format!("{tree}&release=below")] {
        assert_eq!(root.ids("ann", &tree).await, [own], "{tree}");
        assert_eq!(root.get("ann", &tree).await.ok().json()["sum"]["agents"], 1);
    }
    for (who, path, status) in [
        ("ann", format!("/api/v1/releases/below?manager={manager}"), 200),
        ("root", format!("/api/v1/releases/local?manager={manager}"), 200),
        ("ann", format!("/api/v1/releases/local?manager={manager}"), 404),
        ("uma", format!("/api/v1/releases/below?manager={manager}"), 404),
        ("uma", releases, 404),
        ("uma", tree.clone(), 404),
        ("uma", "/api/v1/tree?release=below".to_owned(), 404),
        ("uma", "/api/v1/tree?release=~acme~below".to_owned(), 404),
    ] {
        let answer = root.get(who, &path).await;
        assert_eq!(answer.status, status, "{who} {path}: {}", answer.text());
    }
}
