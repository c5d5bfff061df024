//! The line of a release on its way.

use serde_json::json;

use choirmaster::cli::release::progress::line;
use protocol::api::Release;

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
