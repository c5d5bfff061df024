//! Who paused a release, as it is stored and as earlier builds stored it.

use heart::release::{
    pause::{Pause, PausedBy},
    state::ReleaseState,
};

fn read(text: &str) -> Pause {
    match serde_json::from_str(text).unwrap() {
        ReleaseState::Paused(pause) => pause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn whoever_paused_a_release_is_stored_beside_the_words() {
    let all = [
        (Pause::new(PausedBy::Operator, "the manager above paused it"), "operator", false),
        (Pause::by_parent(false), "above", false),
        (Pause::by_parent(true), "above", true),
        (Pause::new(PausedBy::Limit, "2 of 3 failed"), "limit", true),
        (Pause::new(PausedBy::Unproven, "unproven: 0 agents"), "unproven", true),
        (Pause::new(PausedBy::Analysis, "analysis of A: fail: x"), "analysis", false),
    ];
    for (pause, by, by_limit) in all {
        let text = serde_json::to_string(&ReleaseState::Paused(pause.clone())).unwrap();
        let words = serde_json::to_string(&pause.reason).unwrap();
        let stored = format!(r#"{{"state":"Paused","reason":{words},"by_limit":{by_limit},"by":"{by}"}}"#);
        assert_eq!(text, stored);
        assert_eq!(read(&text), pause);
    }
}

#[test]
fn what_an_earlier_build_paused_is_known_by_its_words() {
    let all = [
        ("the manager above paused it", false, PausedBy::Parent { at_limit: false }),
        ("the manager above paused it", true, PausedBy::Parent { at_limit: true }),
        ("unproven: 0 agents have succeeded so far", true, PausedBy::Unproven),
        ("unproven: says an operator", false, PausedBy::Operator),
        ("2 of 3 failed", true, PausedBy::Limit),
        ("analysis of stage A: fail: x", false, PausedBy::Analysis),
        ("lunch", false, PausedBy::Operator),
    ];
    for (reason, by_limit, by) in all {
        let text = format!(r#"{{"state":"Paused","reason":"{reason}","by_limit":{by_limit}}}"#);
        assert_eq!(read(&text), Pause { reason: reason.to_owned(), by });
    }
}
