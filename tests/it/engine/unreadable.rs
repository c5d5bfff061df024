//! Rows that can't be read, and what is done instead of taking them for absent.

use std::{collections::BTreeMap, path::Path, time::Duration};

use choirmaster::{app, app::Options};
use engine::stored;
use heart::release::analysis::{Metered, Run, Standing};
use serde_json::json;
use sqlx::{Connection as _, SqliteConnection};
use store::{StoreError, rows::AuditRow};
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
async fn an_event_of_the_first_version_is_shown_and_a_newer_one_is_unreadable_and_named() {
    let world = World::start().await;
    world.child().await;
    let versions = [
        (
            r#"UPDATE audit SET events = '[{"version":1,"event":"child_moved"}]' WHERE seq = (SELECT min(seq) FROM audit)"#,
            "child_moved",
        ),
        (
            r#"UPDATE audit SET events = '[{"version":2,"event":"child_moved"}]' WHERE seq = (SELECT min(seq) FROM audit)"#,
            "unreadable",
        ),
    ];
    for (update, shown) in versions {
        world.sql(update).await;
        let page = world.get("/api/v1/audit").await.ok().json();
        assert_eq!(page["items"][0]["events"][0]["event"], shown, "{page:#}");
    }
    assert_eq!(world.unreadable("audit").await, 1);
    let events = r#"[{"event":"a"},{"version":2,"event":"b"}]"#.to_owned();
    let (actor, release_key) = ("child".to_owned(), None);
    let row = AuditRow { seq: 3, idx: 4, at_ms: 5, release_key, actor, events };
    let error = stored::events(&row).unwrap_err().to_string();
    let said = "table audit, key (3, 4), column events: its form has version 2, and this program knows those up to 1";
    assert!(error.contains(said), "{error}");
    world.stop().await;
}

/// Without its id it would take another, and be another manager for its parent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_whose_own_id_has_a_newer_form_does_not_start_and_keeps_it() {
    let world = World::start().await;
    world.sql(r#"UPDATE settings SET value = '{"version":2,"id":"me"}' WHERE name = 'identity'"#).await;
    let url = world.store();
    world.manager.stop().await.unwrap();
    let options = Options::local(url.clone(), Path::new(env!("CARGO_MANIFEST_DIR")).to_owned());
    let error = format!("{:#}", app::start(options).await.expect_err("it is newer"));
    assert!(error.contains("table settings, key identity, column value: its form has version 2"), "{error}");
    let mut store = SqliteConnection::connect(&url).await.unwrap();
    let kept: Vec<String> =
        sqlx::query_scalar("SELECT value FROM settings").fetch_all(&mut store).await.unwrap();
    assert_eq!(kept, [r#"{"version":2,"id":"me"}"#]);
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
