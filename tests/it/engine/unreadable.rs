//! Rows that can't be read, and what is done instead of taking them for absent.

use std::{collections::BTreeMap, path::Path, time::Duration};

use choirmaster::{app, app::Options};
use domain::release::analysis::{Metered, Run, RunStatus};
use engine::json_columns;
use serde_json::json;
use sqlx::{Connection as _, SqliteConnection};
use store::{StoreError, rows::AuditRow};

use crate::{
    deadline::until,
    world::{AREA, STAGE, World, strategy},
};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_which_something_can_not_be_read_stays_in_the_history() {
    for broken in [
        "UPDATE releases SET detail = '{}' WHERE id = 'one'",
        "UPDATE releases SET functions = 'sieve' WHERE id = 'one'",
    ] {
        let world = with_history(broken).await;
        until("releases", async || world.unreadable("releases").await, |count| *count > 0).await;
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
async fn version_one_audit_event_is_shown_and_newer_reported_unreadable() {
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
    let row = AuditRow { seq: 3, idx: 4, at_ms: 5, release_key, actor, events, steps: false };
    let error = json_columns::events(&row).unwrap_err().to_string();
    let said = "table audit, key (3, 4), column events: its form has version 2, and this program knows those up to 1";
    assert!(error.contains(said), "{error}");
    world.stop().await;
}

/// Without its id it would take another, and be another manager for its parent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manager_whose_own_settings_have_a_newer_form_does_not_start_and_keeps_them() {
    for name in ["identity", "offer_key"] {
        let world = World::start().await;
        let url = world.store();
        world.manager.stop().await.unwrap();
        let mut store = SqliteConnection::connect(&url).await.unwrap();
        let newer = r#"{"version":2,"id":"me"}"#;
        let change = sqlx::query("UPDATE settings SET value = $1 WHERE name = $2").bind(newer).bind(name);
        assert_eq!(change.execute(&mut store).await.unwrap().rows_affected(), 1);
        let options = Options::local(url.clone(), Path::new(env!("CARGO_MANIFEST_DIR")).to_owned());
        let error = format!("{:#}", app::start(options).await.expect_err("it is newer"));
        let named = format!("table settings, key {name}, column value: its form has version 2");
        assert!(error.contains(&named), "{error}");
        let kept = sqlx::query_scalar::<_, String>("SELECT value FROM settings WHERE name = $1").bind(name);
        assert_eq!(kept.fetch_one(&mut store).await.unwrap(), newer);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_members_make_late_report_an_error_not_unknown_child() {
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
async fn unreadable_parent_result_is_kept_without_blocking_history_pruning() {
    let world = with_history(
        "INSERT INTO outbox (id, kind, at_ms, payload, served_ms) VALUES (1, 'upward', 0, '{\"offer\": 7}', 0)",
    )
    .await;
    until("the release", async || world.get("/api/v1/releases/one").await.status, |status| *status == 404)
        .await;
    assert_eq!(world.unreadable("outbox").await, 1);
    world.sql("UPDATE outbox SET at_ms = 0 WHERE id = 1").await;
    world.stop().await;
}

/// A release of the place where every child of a world is.
fn at_home(id: &str) -> String {
    format!("target: {{area: {AREA}}}\nrollout: {{late_joiners: include}}\n{}", strategy(id))
}

/// Why children take no part in a release: `its reason: how many`.
async fn excluded(world: &World, yaml: &str) -> Vec<String> {
    let plan = world.submit_to("/api/v1/plan", yaml).await.ok().json();
    let excluded = plan["excluded"].as_array().unwrap().iter();
    excluded.map(|why| format!("{}: {}", why["reason"].as_str().unwrap(), why["children"])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_with_unreadable_area_is_excluded_until_it_reports_area() {
    let world = World::start().await;
    let children = [world.child().await, world.child().await];
    assert_eq!(excluded(&world, &at_home("home")).await, [] as [String; 0]);
    world.sql("UPDATE children SET area = substr(area, 1, 40) WHERE child_key = 1").await;
    let world = world.restart().await;
    assert_eq!(world.unreadable("children").await, 1);
    assert_eq!(excluded(&world, &at_home("home")).await, ["no area known: 1"]);
    // It stays as it is in the store, and is said again.
    let world = world.restart().await;
    assert_eq!(world.unreadable("children").await, 1);

    world.submit(&at_home("home")).await.ok();
    assert_eq!(world.poll(&children[0]).await.1, "home");
    // Every call names the area.
    assert_eq!(world.poll(&children[1]).await.1, "home");
    let world = world.restart().await;
    assert_eq!(world.unreadable("children").await, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_of_a_release_that_there_is_not_names_its_number_and_is_counted() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("one")).await.ok();
    world.run(&child, "one").await;
    world.sql("UPDATE deployments SET release_key = 77").await;
    let shown = world.get("/api/v1/deployments").await.ok().json();
    assert_eq!(shown["items"][0]["child"], child, "{shown:#}");
    assert_eq!(shown["items"][0]["release"], "unknown release 77", "{shown:#}");
    assert_eq!(world.unreadable("deployments").await, 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_function_archive_is_error_not_missing_functions() {
    let world = World::start().await;
    let child = world.child().await;
    world.submit(&strategy("one")).await.ok();
    world.run(&child, "one").await;
    let download = async || world.get("/release/functions/one").await;
    assert_eq!(download().await.status, 200);
    world.sql("UPDATE releases SET archive = x'00'").await;
    let world = world.restart().await;
    let answer = world.get("/release/functions/one").await;
    assert_eq!(answer.status, 500, "{}", answer.text());
    assert!(world.unreadable("releases").await >= 1);
    world.stop().await;
}

#[test]
fn a_value_without_a_json_form_is_refused_and_not_written_as_nothing() {
    assert!(matches!(json_columns::json(&BTreeMap::from([((1, 2), 3)])), Err(StoreError::Refused(_))));
    assert_eq!(json_columns::json(&json!({"a": 1})).unwrap(), r#"{"a":1}"#);
    let run = Run {
        block: 0,
        number: 0,
        of: 1,
        began: 0,
        looks: 0,
        looked_ms: 0,
        metrics: vec![Metered::default()],
        standing: RunStatus::Open,
        verdict: None,
        why: String::new(),
        extended: None,
    };
    assert!(json_columns::run_text(&run).is_ok());
}
