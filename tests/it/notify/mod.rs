//! Webhooks that aren't reached at once: how long they are called again is serving time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{Json, Router, http::StatusCode, routing::post};
use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};
use tokio::{net::TcpListener, sync::mpsc, time::sleep};

use crate::{
    deadline::DEADLINE,
    engine::durable::start,
    store::place::{Kind, Place},
    world::{STAGE, World, strategy, summary},
};

/// A webhook that fails so often before it takes a call.
struct Hook {
    url: String,
    calls: Arc<AtomicU32>,
}

impl Hook {
    async fn failing(times: u32) -> Self {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let answer = move || async move {
            let before = counted.fetch_add(1, Ordering::Relaxed);
            if before < times { StatusCode::BAD_GATEWAY } else { StatusCode::OK }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let router = Router::new().route("/hook", post(answer));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, calls }
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// Starts a manager on a store in whose outbox a call of the hook waits, made at `at_ms` and `served_ms`, when
/// `served_now_ms` have been served; ends it when the call is done with.
async fn carry_out(hook: &Hook, at_ms: i64, served_ms: Option<i64>, served_now_ms: i64) {
    Place::with(Kind::Sqlite, async |place| {
        let folder = place.file().parent().unwrap().to_owned();
        start(&folder).await.stop().await.unwrap();
        let url = format!("sqlite://{}", folder.join("choir.db").display());
        let payload = serde_json::json!({"url": hook.url, "body": {"event": "release_ended"}}).to_string();
        let mut store = SqliteConnection::connect(&url).await.unwrap();
        sqlx::query("UPDATE lease SET served_ms = $1").bind(served_now_ms).execute(&mut store).await.unwrap();
        sqlx::query(
            "INSERT INTO outbox (id, kind, at_ms, payload, served_ms) VALUES (1, 'webhook', $1, $2, $3)",
        )
        .bind(at_ms)
        .bind(payload)
        .bind(served_ms)
        .execute(&mut store)
        .await
        .unwrap();
        let manager = start(&folder).await;
        let done = async {
            let left = "SELECT count(*) FROM outbox WHERE id = 1";
            while sqlx::query_scalar::<_, i64>(left).fetch_one(&mut store).await.unwrap() > 0 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, done).await.expect("the effect stays in the outbox");
        manager.stop().await.unwrap();
    })
    .await;
}

const HOUR_MS: i64 = 60 * 60 * 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_called_again_although_the_wall_clock_has_jumped_by_years() {
    for at_ms in [0, i64::MAX / 2, -HOUR_MS] {
        // Known to have waited for an hour, and not known.
        for served_ms in [Some(99 * HOUR_MS), None] {
            let hook = Hook::failing(1).await;
            carry_out(&hook, at_ms, served_ms, 100 * HOUR_MS).await;
            assert_eq!(hook.calls(), 2, "{at_ms} {served_ms:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_was_not_reached_in_a_day_of_serving_is_given_up() {
    let hook = Hook::failing(u32::MAX).await;
    carry_out(&hook, i64::MAX / 2, Some(75 * HOUR_MS), 100 * HOUR_MS).await;
    assert_eq!(hook.calls(), 1);
}

/// A manager that tells a webhook, and what that one is told.
async fn told() -> (World, mpsc::UnboundedReceiver<Value>) {
    let (told, bodies) = mpsc::unbounded_channel::<Value>();
    let answer = move |Json(body): Json<Value>| async move {
        told.send(body).unwrap();
        StatusCode::OK
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(
        async move { axum::serve(listener, Router::new().route("/hook", post(answer))).await.unwrap() },
    );
    (World::with(|options| options.task.webhooks = vec![url]).await, bodies)
}

#[tokio::test]
async fn a_failure_is_told_with_its_numbers_to_webhooks_and_in_the_trail() {
    let (world, mut bodies) = told().await;
    let child = world.child().await;
    world.submit(&strategy("bad")).await.ok();
    assert_eq!(world.poll(&child).await.1, "bad");
    world.fetch(&child, "bad").await.ok();
    let mut failed = summary(STAGE, 5);
    (failed["f2_err_rate"], failed["f2_calls"], failed["f2_errors"]) = (json!(0.125), json!(48), json!(6));
    let result =
        json!({"id": child, "release_id": "bad", "stage_summaries": [failed], "next_stage": "rollback"});
    world.post("/result", &result).await.ok();
    let body = tokio::time::timeout(DEADLINE, bodies.recv()).await.expect("it is called").unwrap();
    let why = &body["why"];
    assert_eq!((&body["state"], &why["stage"]), (&json!("DoneWithFailures"), &json!(STAGE)));
    assert_eq!((&why["child"], &why["version"]), (&json!(child), &json!("fns/sieve_new")));
    let numbers = "errorRate 12.5 % (6 of 48 calls), allowed <2 %";
    assert_eq!(why["numbers"], numbers);
    let text = format!("{child} failed in stage {STAGE} with fns/sieve_new ({numbers})");
    assert_eq!(why["text"], json!(text));
    let trail = world.get("/api/v1/audit?release=bad").await.ok().json();
    let entries = trail["items"].as_array().unwrap().iter();
    let events: Vec<&Value> = entries.flat_map(|entry| entry["events"].as_array().unwrap()).collect();
    let named = |name: &str| events.iter().find(|event| event["event"] == name).expect("it is in the trail");
    assert_eq!(
        (&named("child_failed")["child"], &named("child_failed")["reason"]),
        (&json!(child), &json!(text))
    );
    assert_eq!(named("release_ended")["reason"], json!(text));
    let reported = events.iter().find(|event| event["step"] == "reported").expect("its result");
    assert_eq!(reported["why"], numbers);
    world.stop().await;
}

#[tokio::test]
async fn a_webhook_is_told_why_a_release_ended_who_wanted_it_and_their_words() {
    let (world, mut bodies) = told().await;
    world.child().await;
    world.submit(&strategy("cut")).await.ok();
    let note = json!({"by": "dee", "note": "the fair is on"});
    world.post("/api/v1/releases/cut/abort", &note).await.ok();
    let body = tokio::time::timeout(DEADLINE, bodies.recv()).await.expect("it is called").unwrap();
    let shown = world.get("/api/v1/releases/cut").await.ok().json();
    assert_eq!((&body["release"], &body["state"]), (&json!("cut"), &json!("Aborted")));
    assert_eq!((&body["why"]["cause"], &body["why"]["note"]), (&json!("operator"), &json!("the fair is on")));
    assert_eq!(body["why"], shown["why"], "it is what is shown");
    let ended_ms = body["ended_ms"].as_i64().unwrap();
    let text = format!(
        r#"{{"counts":{{"awaited":0,"doing":0,"done":0,"excluded":1,"failed":0,"lost":0,"no":1,"outcome_failed":0,"succeeded":0,"timed_out":0,"todo":0,"undo_overdue":0,"undoing":0,"undone":0,"unreachable":0,"untested":0}},"ended_ms":{ended_ms},"event":"release_ended","release":"cut","state":"Aborted","unconfirmed":0,"why":{{"by":"operator:dee","cause":"operator","note":"the fair is on","text":"the fair is on"}}}}"#
    );
    assert_eq!(body.to_string(), text);
    world.stop().await;
}
