//! Who paused a release, as it is stored.

use domain::release::{
    pause::{Pause, PausedBy},
    state::ReleaseState,
};
use engine::json_columns::{self, ReleaseDetail};

use super::json_columns::release_detail;

fn read(state: &str) -> ReleaseDetail {
    serde_json::from_str(&release_detail(state, "")).unwrap()
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
        let release =
            ReleaseDetail { state: ReleaseState::Paused(pause.clone()), ..read(r#"{"state":"Running"}"#) };
        let text = json_columns::json(&release).unwrap();
        let words = serde_json::to_string(&pause.reason).unwrap();
        let stored = format!(r#"{{"state":"Paused","reason":{words},"by_limit":{by_limit},"by":"{by}"}}"#);
        assert_eq!(text, release_detail(&stored, ""));
        assert_eq!(read(&stored).state, ReleaseState::Paused(pause));
    }
}
