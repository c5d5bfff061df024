//! What a manager has to tell the one above can't be read: it tells nothing in its place, and drops nothing.

use serde_json::json;
use sqlx::{Connection as _, SqliteConnection};

use super::{
    levels::{below_url, parent},
    plain::PlainParent,
    rough::{offer, seen},
};
use crate::{
    deadline::until,
    world::{STAGE, World, summary},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_is_not_told_without_the_report_that_can_not_be_read() {
    let above = PlainParent::start().await;
    let middle = below_url(above.url()).await;
    let children = [middle.child().await, middle.child().await];
    above.script().offer = Some(offer("31").await);
    middle.until("/api/v1/releases/31", |shown| shown["state"] == "Running").await;
    for child in &children {
        middle.offered(child).await;
        middle.fetch(child, "31").await.ok();
    }
    let report = async |child: &str| {
        let body = json!({"id": child, "release_id": "31", "stage_summaries": [summary(STAGE, 2)], "next_stage": ""});
        middle.post("/result", &body).await.ok();
    };
    report(&children[0]).await;
    middle.sql("UPDATE stage_results SET summary = substr(summary, 2)").await;
    // With the other one the stage is complete, and would be told.
    report(&children[1]).await;
    until(
        "reports that can't be read",
        async || middle.unreadable("stage_results").await,
        |count| *count >= 2,
    )
    .await;
    assert_eq!(above.statuses(), [] as [u64; 0], "the parent judges by what it is told");
    middle.sql("UPDATE stage_results SET summary = '{' || summary WHERE summary NOT LIKE '{%'").await;
    seen(&above, "a stage that waits", |parent| parent.statuses() == [2]).await;
    middle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_that_can_not_be_read_are_counted_and_stay_in_the_store() {
    let above = PlainParent::start().await;
    let url = above.url();
    let settings = move |options: &mut choirmaster::app::Options| {
        options.parent = Some(parent(url));
        options.task.webhooks = vec!["http://127.0.0.1:1/hook".to_owned()];
    };
    let world = World::with(|_| ()).await;
    world
        .sql(
            "INSERT INTO outbox (id, kind, at_ms, payload, served_ms) VALUES
                (1, 'webhook', 0, '{\"url\": \"http://token@secret/\"}', 0), (2, 'upward', 0, '{\"offer\": 7}', 0),
                (3, 'enrolled', 0, 'cut', 0), (4, 'forwarded', 0, '[]', 0), (5, 'unheard-of', 0, '{}', 0),
                (6, 'webhook', 0, '{\"version\": 2, \"url\": \"http://127.0.0.1:1/\", \"body\": {}}', 0)",
        )
        .await;
    let world = world.restart_with(settings).await;
    until("effects", async || world.unreadable("outbox").await, |count| *count == 6).await;
    let mut store = SqliteConnection::connect(&world.store()).await.unwrap();
    let left: Vec<i64> = sqlx::query_scalar("SELECT id FROM outbox WHERE id BETWEEN 1 AND 6 ORDER BY id")
        .fetch_all(&mut store)
        .await
        .unwrap();
    assert_eq!(left, [1, 2, 3, 4, 5, 6]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manager_with_unreadable_parent_identity_does_not_register_again() {
    let above = PlainParent::start().await;
    let url = above.url();
    let world = World::with(|_| ()).await;
    world.child().await;
    let newer = r#"INSERT INTO settings (name, value, at_ms) VALUES
            ('enrolled', '{"version":2,"url":"http://127.0.0.1:1","id":"c1"}', 0), ('unheard-of', 'x', 0)"#;
    world.sql(newer).await;
    let newer = r#"INSERT INTO pointers (pointer_key, at_ms, detail) VALUES (1, 0, '[]'),
            (2, 0, '{"release":"wide","to":"http://127.0.0.1:1/"}'), (3, 0, '{"version":2,"release":"wide"}')"#;
    world.sql(newer).await;
    let again = url.clone();
    let world = world.restart_with(move |options| options.parent = Some(parent(again))).await;
    until("settings", async || world.unreadable("settings").await, |count| *count == 2).await;
    until("pointers", async || world.unreadable("pointers").await, |count| *count == 2).await;
    // The one that can be read is shown.
    assert!(world.get("/api/v1/releases/wide").await.problem().contains("--url http://127.0.0.1:1/"));
    world.child().await;
    assert_eq!(above.script().polls, [] as [serde_json::Value; 0]);
    let mut store = SqliteConnection::connect(&world.store()).await.unwrap();
    let kept = "SELECT (SELECT count(*) FROM pointers) + (SELECT count(*) FROM settings WHERE value = 'x' OR value LIKE '%:2,%')";
    let left: i64 = sqlx::query_scalar(kept).fetch_one(&mut store).await.unwrap();
    assert_eq!(left, 5);
    // Whoever takes the setting away lets it register.
    world.sql("DELETE FROM settings WHERE name = 'enrolled'").await;
    let world = world.restart_with(move |options| options.parent = Some(parent(url))).await;
    until("polls", async || above.script().polls.len(), |count| *count > 0).await;
    world.stop().await;
}
