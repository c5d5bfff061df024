//! How the history of a manager ends: what is removed when it is too old, and what never is.

use std::{path::Path, time::Duration};

use choirmaster::{
    app,
    app::{Manager, Options},
};
use domain::release::command::Reply;
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};

use super::durable::{get, poll, post, start, submit, summary};
use crate::deadline::until;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A sample under another id.
fn sample(file: &str, id: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("releases").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let own = text.lines().find(|line| line.starts_with("id: ")).unwrap().to_owned();
    text.replace(&own, &format!("id: {id}"))
}

/// Submits a release of one stage, and is the child that takes it to its end.
async fn roll_out(manager: &Manager, child: &str, text: &str) {
    let strategy = language::check(text).strategy.unwrap();
    let (id, stage) = (strategy.id.as_str().to_owned(), strategy.stages[0].name.clone());
    assert!(matches!(submit(manager, text).await, Reply::Submitted { created: true, .. }));
    for (offer, stage) in [(id.clone(), stage.as_str()), (format!("{id}.rollout"), "choirmaster rollout")] {
        assert_eq!(poll(manager, child).await.1, offer);
        assert_eq!(get(manager, &format!("/release?childID={child}&releaseID={offer}")).await.0, 200);
        let ended = json!({"id": child, "release_id": offer, "stage_summaries": [summary(stage, 4)], "next_stage": ""});
        assert_eq!(post(manager, "/result", ended).await, (200, String::new()));
    }
    assert_eq!(state_of(manager, &id).await, (200, json!("Done")));
}

async fn state_of(manager: &Manager, id: &str) -> (u16, Value) {
    let (status, text) = get(manager, &format!("/api/v1/releases/{id}")).await;
    let shown: Value = serde_json::from_str(&text).unwrap();
    (status, shown["state"].clone())
}

async fn store(folder: &Path) -> SqliteConnection {
    SqliteConnection::connect(&format!("sqlite://{}", folder.join("choir.db").display())).await.unwrap()
}

async fn number(folder: &Path, sql: &'static str) -> i64 {
    let mut store = store(folder).await;
    let (number,): (i64,) = sqlx::query_as(sql).fetch_one(&mut store).await.unwrap();
    store.close().await.unwrap();
    number
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_over_for_too_long_is_removed_unless_something_still_refers_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let manager = start(folder.path()).await;
    let (child, _) = poll(&manager, "").await;
    poll(&manager, &child).await;
    for (file, id) in
        [("bad.yml", "first"), ("canary.yml", "jumped"), ("canary.yml", "third"), ("canary.yml", "last")]
    {
        roll_out(&manager, &child, &sample(file, id)).await;
    }
    // A failure is the last that the child had a part in; the last that ended well is what the next is compared with.
    assert!(matches!(submit(&manager, &sample("canary.yml", "worse")).await, Reply::Submitted { .. }));
    assert_eq!(poll(&manager, &child).await.1, "worse");
    assert_eq!(get(&manager, &format!("/release?childID={child}&releaseID=worse")).await.0, 200);
    let failed = json!({"id": child, "release_id": "worse", "stage_summaries": [summary("Canary 5 Percent", 5)],
        "next_stage": ""});
    assert_eq!(post(&manager, "/result", failed).await, (200, String::new()));
    assert_eq!(state_of(&manager, "worse").await, (200, json!("DoneWithFailures")));
    manager.stop().await.unwrap();

    // Three days of serving later. One release was over yesterday; the wall clock says that it was half a century ago.
    let mut db = store(folder.path()).await;
    for sql in [
        "UPDATE lease SET served_ms = served_ms + 3 * 86400000",
        "UPDATE releases SET ended_ms = 0, updated_ms = 0, detail = json_set(detail, '$.ended.wall_ms', 0,
            '$.ended.served_ms', (SELECT served_ms - 86400000 FROM lease)) WHERE id = 'jumped'",
    ] {
        sqlx::query(sql).execute(&mut db).await.unwrap();
    }
    db.close().await.unwrap();
    let url = format!("sqlite://{}", folder.path().join("choir.db").display());
    let mut options = Options::local(url, Path::new(env!("CARGO_MANIFEST_DIR")).to_owned());
    options.task.history_retention = Some(Duration::from_millis(2 * DAY_MS.cast_unsigned()));
    let manager = app::start(options).await.unwrap();
    until("the third release", async || state_of(&manager, "third").await.0, |status| *status == 404).await;
    assert_eq!(state_of(&manager, "first").await.0, 404);
    assert_eq!(state_of(&manager, "jumped").await, (200, json!("Done")), "a wall clock removes nothing");
    assert_eq!(state_of(&manager, "last").await, (200, json!("Done")), "the next is compared with it");
    assert_eq!(state_of(&manager, "worse").await.0, 200, "it is why the child runs what it runs");

    // With everything that was theirs, and the functions that no other had.
    until("rows", async || number(folder.path(), "SELECT count(*) FROM releases").await, |count| *count == 3)
        .await;
    for sql in [
        "SELECT count(*) FROM assignments",
        "SELECT 1 + count(*) FROM precedents",
        "SELECT count(*) FROM members",
    ] {
        assert_eq!(number(folder.path(), sql).await, 3, "{sql}");
    }
    assert_eq!(number(folder.path(), "SELECT count(*) FROM archives").await, 1);
    assert_eq!(get(&manager, "/release/functions/first").await.0, 404);
    assert_eq!(get(&manager, "/release/functions/last").await.0, 200);
    // Nothing that is shown has lost its name.
    let (_, listed) = get(&manager, "/api/v1/releases").await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let ids: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["worse", "last", "jumped"]);
    let (_, runs) = get(&manager, "/api/v1/deployments").await;
    let runs: Value = serde_json::from_str(&runs).unwrap();
    assert_eq!(runs["items"][0]["release"], "worse", "{runs:#}");
    let (_, audit) = get(&manager, "/api/v1/audit?limit=1000").await;
    let audit: Value = serde_json::from_str(&audit).unwrap();
    let removed: Vec<&Value> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["events"][0]["event"] == "release_removed")
        .collect();
    assert_eq!(removed.len(), 2, "{audit:#}");
    assert_eq!((&removed[0]["actor"], &removed[0]["release"]), (&json!("timer"), &json!("first")));
    // Who still asks for the end of a stage of one is told to go back, as with any that can't be known.
    let ask = json!({"id": child, "strategy_id": "first", "stage_name": "Canary"});
    let (status, told) = post(&manager, "/end_stage", ask).await;
    assert_eq!((status, told.contains("true")), (200, true), "{told}");

    // The id is free again, and its number is not.
    roll_out(&manager, &child, &sample("canary.yml", "first")).await;
    manager.stop().await.unwrap();
    let manager = start(folder.path()).await;
    assert_eq!(state_of(&manager, "first").await, (200, json!("Done")));
    assert_eq!(number(folder.path(), "SELECT max(release_key) FROM releases").await, 5);
    manager.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_removed_where_nobody_said_for_how_long_it_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let manager = start(folder.path()).await;
    let (child, _) = poll(&manager, "").await;
    poll(&manager, &child).await;
    for id in ["first", "last"] {
        roll_out(&manager, &child, &sample("canary.yml", id)).await;
    }
    manager.stop().await.unwrap();
    let mut db = store(folder.path()).await;
    let ages = "UPDATE lease SET served_ms = served_ms + 3650 * 86400000";
    sqlx::query(ages).execute(&mut db).await.unwrap();
    db.close().await.unwrap();
    let manager = start(folder.path()).await;
    assert_eq!(Options::local(String::new(), folder.path().to_owned()).task.history_retention, None);
    assert_eq!(state_of(&manager, "first").await, (200, json!("Done")));
    manager.stop().await.unwrap();
}
