//! What a tenant is told of what happened since, and who may act at all.

use serde_json::json;

use super::{Shared, secret};
use crate::world::{Answer, strategy};

async fn act(shared: &Shared, who: &str, path: &str, tag: &str) -> Answer {
    let request = shared.world.request("POST", &format!("/api/v1/releases/{path}"));
    let request = request.bearer_auth(secret(who)).header("if-match", tag);
    shared.world.send(request.json(&json!({}))).await
}

#[tokio::test]
async fn nobody_learns_of_a_release_by_a_tag_that_it_might_have() {
    let shared = Shared::start().await;
    shared.child_of("acme").await;
    shared.submit("ann", &strategy("a")).await.ok();
    let shown = shared.get("ann", "/api/v1/releases/a").await.ok();
    let tag = shown.header("etag").to_owned();
    // It is another's, so it isn't there; who only looks may not act, with whatever tag.
    assert_eq!(act(&shared, "uma", "a/abort", &tag).await.status, 404);
    assert_eq!(act(&shared, "vic", "a/abort", &tag).await.status, 403);
    let trail = |text: &str| text.contains("otto");
    act(&shared, "otto", "a/abort", &tag).await.ok();
    let late = act(&shared, "ann", "a/abort", &tag).await;
    assert_eq!(late.status, 412);
    assert!(trail(&late.text()), "{}", late.text());
    assert!(!late.text().contains("acme/a "), "{}", late.text());
    assert_eq!(act(&shared, "uma", "a/abort", &tag).await.status, 404);
    shared.world.stop().await;
}
