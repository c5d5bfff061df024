//! `choirmaster status`.

use choirmaster::cli::status::text;
use jiff::{SignedDuration, Timestamp};
use protocol::api::ManagerStatus;
use serde_json::{Value, json};

use super::{code, err, out, program, run};
use crate::world::{World, strategy};

const URL: &str = "http://127.0.0.1:9991";

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

fn item(severity: &str, about: &str, of: (&str, &str), text: &str, help: &str) -> Value {
    json!({"severity": severity, "about": about, "id": of.0, "name": of.1, "text": text, "help": help})
}

/// A manager on which much is to be seen.
fn busy() -> Value {
    let counts = json!({"participants": 20, "done": 12, "succeeded": 12});
    json!({
        "version": "0.2.0", "state": "serving", "since": ago(273_600),
        "store": {"kind": "sqlite", "writable": true, "disk_free": 86_000_000_000_u64, "disk_total": 214_748_364_800_u64},
        "parent": {"answers": false, "last_answer": ago(240), "waiting_results": 2},
        "items": [
            item("critical", "release", ("checkout-41", "Checkout"), "its rollback is not proven: 1 agent has not shown that the base version runs again",
                "choirmaster release show checkout-41"),
            item("action", "child", ("7c3d2b67-9a23-4bbc-a80b-2913d09a1c26", "edge-1"), "nothing was heard of it for 4m",
                "choirmaster children show 7c3d2b67-9a23-4bbc-a80b-2913d09a1c26"),
            {"severity": "warning", "about": "callers", "text": "3 ids call that are not known here", "help": "choirmaster children unknown"},
        ],
        "more_items": 2,
        "releases": {
            "open": {"Running": 1},
            "running": [{
                "id": "checkout-42", "name": "Checkout", "state": "Running", "functions": [], "attempt": 1, "submitted": ago(600),
                "counts": counts, "unconfirmed": 0, "progress": {"ended": 12, "of": 20}, "since": ago(590),
                "waits_for": "12 of 20 children have ended, 8 at work",
            }],
            "more_running": 0,
        },
        "routers": {"known": 12, "troubled": 1},
        "children": {"known": 100_000, "silent": 3},
        "checked": ago(2),
    })
}

fn shown(status: Value, width: Option<usize>) -> String {
    let status: ManagerStatus = serde_json::from_value(status).unwrap();
    text(&status, URL, width, now())
}

#[test]
fn one_screen_has_the_most_urgent_first_each_with_the_command_that_helps() {
    insta::assert_snapshot!(shown(busy(), None), @r"
    choirmaster 0.2.0 at http://127.0.0.1:9991 serves for 3d 4h
      store     sqlite, takes writes; 80.1 GiB of 200.0 GiB of its disk free
      parent    does not answer, last 4m 0s ago; 2 results wait for it
      releases  1 Running
      routers   12 known, 1 to look at
      children  100000 known, 3 silent

    CRITICAL  release checkout-41 (Checkout): its rollback is not proven: 1 agent has not shown that the base version runs again
              → choirmaster release show checkout-41
    ACTION    child 7c3d2b67 (edge-1): nothing was heard of it for 4m
              → choirmaster children show 7c3d2b67
    WARNING   callers: 3 ids call that are not known here
              → choirmaster children unknown
    … and 2 more: choirmaster status --json, choirmaster children list --silent-for 1m

    RUNNING      STATE    PROGRESS  FOR     WAITS FOR
    checkout-42  Running  12/20     9m 50s  12 of 20 children have ended, 8 at work
    ");
}

#[test]
fn a_narrow_terminal_cuts_all_but_commands() {
    let text = shown(busy(), Some(60));
    insta::assert_snapshot!(text, @r"
    choirmaster 0.2.0 at http://127.0.0.1:9991 serves for 3d 4h
      store     sqlite, takes writes; 80.1 GiB of 200.0 GiB of …
      parent    does not answer, last 4m 0s ago; 2 results wait…
      releases  1 Running
      routers   12 known, 1 to look at
      children  100000 known, 3 silent

    CRITICAL  release checkout-41 (Checkout): its rollback is
              not proven: 1 agent has not shown that the base
              version runs again
              → choirmaster release show checkout-41
    ACTION    child 7c3d2b67 (edge-1): nothing was heard of it
              for 4m
              → choirmaster children show 7c3d2b67
    WARNING   callers: 3 ids call that are not known here
              → choirmaster children unknown
    … and 2 more: choirmaster status --json, choirmaster children list --silent-for 1m

    RUNNING      STATE    PROGRESS  FOR     WAITS FOR
    checkout-42  Running  12/20     9m 50s  12 of 20 children h…
    ");
}

#[test]
fn what_is_not_known_is_said_and_what_is_no_part_of_it_is_not() {
    let mut away = busy();
    away["state"] = json!("not_serving");
    away["store"] = json!({"kind": "postgres", "writable": false, "disk_free": null, "disk_total": null});
    away["items"] = json!([item("warning", "store", ("", ""), "x", "y")]);
    away["items"][0].as_object_mut().unwrap().retain(|key, _| !["id", "name"].contains(&key.as_str()));
    away["more_items"] = json!(0);
    for part in ["parent", "releases", "routers", "children", "checked"] {
        away[part] = Value::Null;
    }
    insta::assert_snapshot!(shown(away, None), @r"
    choirmaster 0.2.0 at http://127.0.0.1:9991 does not serve
      store     postgres, takes no writes
      releases  not known at the moment
      children  not known at the moment

    nothing is urgent

    WARNING   store: x
              → y
    ");
}

#[test]
fn a_command_about_a_release_has_its_whole_id() {
    let id = "7c3d2b67-9a23-4bbc-a80b-2913d09a1c26";
    let mut paused = busy();
    let help = format!("choirmaster release resume {id}");
    paused["items"] = json!([item("action", "release", (id, "Checkout"), "it is paused", &help)]);
    let text = shown(paused, None);
    assert!(text.contains(&format!("→ {help}\n")), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exit_code_says_whether_something_is_urgent() {
    let world = World::start().await;
    let url = format!("http://{}", world.manager.address);
    let folder = tempfile::tempdir().unwrap();
    let status = async |more: &'static [&'static str]| {
        let (folder, url) = (folder.path().to_owned(), url.clone());
        let run = move || program(&folder).args(["status", "--url", &url]).args(more).output().unwrap();
        tokio::task::spawn_blocking(run).await.unwrap()
    };
    world.child().await;
    let calm = status(&[]).await;
    assert_eq!(code(&calm), 0, "{}{}", out(&calm), err(&calm));
    assert!(out(&calm).contains("\nnothing is urgent\n"), "{}", out(&calm));
    world.submit(&strategy("a")).await.ok();
    world.call("POST", "/api/v1/releases/a/pause").await.ok();
    let paused = status(&[]).await;
    assert_eq!(code(&paused), 3, "{}{}", out(&paused), err(&paused));
    assert!(out(&paused).contains("\n          → choirmaster release resume a\n"), "{}", out(&paused));
    let json = status(&["--json"]).await;
    let read: Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!((code(&json), &read["items"][0]["help"]), (3, &json!("choirmaster release resume a")));
    world.stop().await;
}

#[test]
fn a_manager_that_does_not_answer_is_no_urgent_item_but_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let away = run(folder.path(), ["status", "--url", "http://127.0.0.1:1"]);
    assert_eq!((code(&away), out(&away)), (2, String::new()));
    assert!(err(&away).contains("A manager that waits as a standby answers at "), "{}", err(&away));
}
