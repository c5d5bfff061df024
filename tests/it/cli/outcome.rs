use choirmaster::cli::outcome;
use domain::release::state::{End, ReleaseState};
use protocol::api::Release;
use serde_json::json;

/// What the API shows of a release where both children succeeded.
fn shown(state: &ReleaseState) -> Release {
    let value = json!({
        "id": "7", "name": "Seven", "state": state.name(), "reason": null, "waits_for": null, "functions": ["f1"],
        "attempt": 1, "submitted": "2026-03-01T06:00:00Z", "started": null, "ended": null, "unconfirmed": 0,
        "counts": {"participants": 2, "done": 2, "succeeded": 2},
    });
    serde_json::from_value(value).unwrap()
}

#[test]
fn every_end_has_an_exit_code_that_the_help_explains() {
    for end in End::ALL {
        for unconfirmed in [0, 1] {
            let state = ReleaseState::Over { end, unconfirmed };
            let name = state.name();
            let code = outcome::code(&shown(&state)).unwrap_or_else(|| panic!("{name} has no exit code"));
            let lines = outcome::HELP.split([',', ';', ':']);
            let line = lines.map(str::trim).find(|line| {
                let number = line.split(' ').next().and_then(|number| number.parse().ok());
                number == Some(code)
            });
            let line = line.unwrap_or_else(|| panic!("{code} is not explained:\n{}", outcome::HELP));
            assert!(
                line.split([' ', '(']).any(|word| word == name),
                "{name} ends with {code}, which is {line:?}"
            );
        }
    }
}

#[test]
fn what_is_not_over_has_no_exit_code() {
    for state in [
        ReleaseState::Planned,
        ReleaseState::Running,
        ReleaseState::RollingBack { reason: "too many failed".to_owned(), end: End::RolledBack },
    ] {
        assert_eq!(outcome::code(&shown(&state)), None, "{}", state.name());
    }
}
