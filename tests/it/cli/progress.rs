//! The line of a release on its way.

use serde_json::json;

use choirmaster::cli::release::{progress::line, stage_progress};
use protocol::api::{Release, StageOverview};

fn release(state: &str, reason: Option<&str>, waits_for: Option<&str>) -> Release {
    let counts = json!({"participants": 5, "todo": 3, "doing": 1, "done": 1, "failed_status": 0, "succeeded": 1,
        "failed": 0, "timed_out": 0, "unreachable": 0, "lost": 0, "undone": 0, "untested": 0, "excluded": 0,
        "undoing": 0});
    let release = json!({"id": "r", "name": "R", "state": state, "reason": reason, "why": null,
        "waits_for": waits_for, "functions": ["f"], "attempt": 1, "submitted": "2026-03-01T12:00:00Z",
        "started": null, "ended": null, "counts": counts, "unconfirmed": 0, "agents": null, "left_out": 0});
    serde_json::from_value(release).unwrap()
}

#[test]
fn nothing_is_said_twice_in_a_line() {
    let id = "7c3d2b67-9a23-4bbc-a80b-2913d09a1c26";
    let table = [
        (
            release("Running", None, Some("1 of 5 children has ended, 3 have yet to begin, 1 at work")),
            "Running: 1 of 5 children has ended, 3 have yet to begin, 1 at work; 1 succeeded",
        ),
        (
            release("Paused", Some("lunch"), Some("is paused (lunch): resume or abort it")),
            "Paused: 1 of 5 children over; 1 succeeded; is paused (lunch): resume or abort it",
        ),
        (
            release("RolledBack", Some(&format!("{id} failed: 1 failed, max_failed is 0")), None),
            "RolledBack (7c3d2b67 failed: 1 failed, max_failed is 0): 1 of 5 children over; 1 succeeded",
        ),
    ];
    for (release, expected) in table {
        assert_eq!(line(&release), expected);
    }
}

/// How far a stage of one child is that began at noon, eight seconds later.
fn told(
    children: &serde_json::Value,
    ended: &serde_json::Value,
    measured: &serde_json::Value,
) -> Vec<String> {
    let stage = json!({"name": "Canary", "kind": "WaitForSignal", "function": "f", "new_traffic": 5,
        "children": children, "min_calls": 400, "min_ms": 10_000, "on_success": "rollout", "on_failure": "rollback",
        "began": "2026-03-01T12:00:00Z", "ended": ended, "measured": measured});
    let stage: StageOverview = serde_json::from_value(stage).unwrap();
    stage_progress::lines(&stage, "2026-03-01T12:00:08Z".parse().unwrap())
}

#[test]
fn a_stage_tells_its_calls_its_time_what_follows_and_what_was_measured() {
    let at_work = json!({"InProgress": 1});
    let none = json!(null);
    let counted =
        |calls: u64| json!({"children": 1, "calls": calls, "numbers": ["errorRate 1.2 %, allowed <2 %"]});
    let table = [
        (
            told(&at_work, &none, &counted(300)),
            vec![
                "Canary: calls 300 of 400, time 8s of 10s; next: rollout in about 3s",
                "  errorRate 1.2 %, allowed <2 %",
            ],
        ),
        (
            told(&at_work, &none, &json!({"children": 1, "calls": 0, "numbers": []})),
            vec!["Canary: calls 0 of 400, time 8s of 10s; next: rollout after 400 more calls"],
        ),
        (
            told(&at_work, &none, &none),
            vec!["Canary: calls told at its end, 400 at least, time 8s of 10s; next: rollout in about 2s"],
        ),
        (
            told(&json!({"Completed": 1}), &json!("2026-03-01T12:00:05Z"), &counted(420)),
            vec!["Canary: 420 calls in 5s", "  errorRate 1.2 %, allowed <2 %"],
        ),
        (told(&json!({"Pending": 1}), &none, &none), vec![]),
    ];
    for (lines, expected) in table {
        assert_eq!(lines, expected);
    }
}
