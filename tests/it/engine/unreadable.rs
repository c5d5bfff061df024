//! Rows that can't be read, and what is done instead of taking them for absent.

use std::{collections::BTreeMap, time::Duration};

use engine::stored;
use heart::release::analysis::{Metered, Run, Standing};
use serde_json::json;
use store::StoreError;
use tokio::time::{sleep, timeout};

use crate::world::{STAGE, World, strategy};

const PATIENCE: Duration = Duration::from_secs(30);

/// Two releases that ended, of which the first could leave the history at once.
async fn with_history(broken: &'static str) -> World {
    let world = World::start().await;
    let child = world.child().await;
    for id in ["one", "two"] {
        world.submit(&strategy(id)).await.ok();
        world.run(&child, id).await;
    }
    world.sql(broken).await;
    let retention = Some(Duration::from_millis(1));
    world.restart_with(|options| options.task.history_retention = retention).await
}

async fn until(world: &World, table: &str) {
    let looking = async {
        while world.unreadable(table).await == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(PATIENCE, looking).await.is_ok(), "nothing unreadable in {table}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_which_something_can_not_be_read_stays_in_the_history() {
    for broken in [
        "UPDATE releases SET detail = '{}' WHERE id = 'one'",
        "UPDATE releases SET functions = 'sieve' WHERE id = 'one'",
    ] {
        let world = with_history(broken).await;
        until(&world, "releases").await;
        // It is looked at in the order of submission, and nothing was left to be removed.
        let shown = world.get("/api/v1/releases/one").await;
        assert_eq!(shown.status, 500, "it is there: {}", shown.text());
        assert_eq!(world.get("/api/v1/releases/two").await.status, 200);
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happened_and_can_not_be_read_is_shown_as_unreadable() {
    let world = World::start().await;
    world.child().await;
    world.sql("UPDATE audit SET events = '[{' WHERE seq = (SELECT min(seq) FROM audit)").await;
    let page = world.get("/api/v1/audit").await.ok().json();
    assert_eq!(page["items"][0]["events"], json!([{"event": "unreadable"}]), "{page:#}");
    assert_eq!(world.unreadable("audit").await, 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_call_about_members_that_can_not_be_read_is_refused_and_not_taken_for_a_strangers() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("one")).await.ok();
    world.run(&child, "one").await;
    let other = world.child().await;
    world.sql("UPDATE members SET keys = x'ff'").await;
    let answer = world.report(&other, "one", STAGE, 4).await;
    assert_eq!(answer.status, 500, "{}", answer.text());
    assert!(world.unreadable("members").await >= 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_for_the_parent_that_can_not_be_read_is_kept_and_holds_no_history_back() {
    let world = with_history(
        "INSERT INTO outbox (id, kind, at_ms, payload, served_ms) VALUES (1, 'upward', 0, '{\"offer\": 7}', 0)",
    )
    .await;
    let leaving = async {
        while world.get("/api/v1/releases/one").await.status != 404 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(PATIENCE, leaving).await.is_ok(), "the release stays");
    assert_eq!(world.unreadable("outbox").await, 1);
    world.sql("UPDATE outbox SET at_ms = 0 WHERE id = 1").await;
    world.stop().await;
}

#[test]
fn a_value_without_a_json_form_is_refused_and_not_written_as_nothing() {
    assert!(matches!(stored::json(&BTreeMap::from([((1, 2), 3)])), Err(StoreError::Refused(_))));
    assert_eq!(stored::json(&json!({"a": 1})).unwrap(), r#"{"a":1}"#);
    let run = Run {
        block: 0,
        number: 0,
        of: 1,
        began: 0,
        looks: 0,
        looked_ms: 0,
        metrics: vec![Metered::default()],
        standing: Standing::Open,
        verdict: None,
        why: String::new(),
        extended: None,
    };
    assert!(stored::run_text(&run).is_ok());
}
