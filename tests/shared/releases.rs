//! Strategies, submissions and reports by which the domain is driven.

use std::sync::Arc;

use domain::release::{
    command::Command,
    lifecycle,
    lifecycle::Submission,
    summary::{Summary, Times},
};
use language::Strategy;
use model::{ReleaseId, StageStatus};

/// A strategy: `stages` are (name, type, function, onSuccess, onFailure).
pub fn strategy_text(id: &str, extra: &str, functions: &[&str], stages: &[[&str; 5]]) -> String {
    use std::fmt::Write as _;
    let mut text = format!("id: {id}\nname: {id}\ntype: patch\n{extra}functions:\n");
    for name in functions {
        let _ = write!(
            text,
            "  - name: {name}\n    base_version: {{path: fns/{name}_base, env: nodejs}}\n    \
             new_version: {{path: fns/{name}_new, env: nodejs}}\n"
        );
    }
    text.push_str("stages:\n");
    for [name, kind, function, on_success, on_failure] in stages {
        let _ = write!(
            text,
            "  - name: {name}\n    type: {kind}\n    func_name: {function}\n    variants:\n      - {{name: base_version, \
             trafficPercentage: 90}}\n      - {{name: new_version, trafficPercentage: 10}}\n    metrics_conditions:\n      \
             - {{name: errorRate, threshold: \"<0.1\"}}\n    end_conditions:\n      - {{name: minDuration, threshold: 5s}}\n      \
             - {{name: minCalls, threshold: \"10\"}}\n    end_action: {{onSuccess: {on_success}, onFailure: {on_failure}}}\n"
        );
    }
    text + "rollback:\n  action:\n    function: base_version\n"
}

pub const WAIT: &str = "WaitForSignal";
pub const AB: &str = "A/B";

/// A text as it is submitted, with a digest of its own.
pub fn submission(strategy: Strategy, text: &str) -> Command {
    let mut digest = [0_u8; 32];
    for (at, byte) in text.bytes().enumerate() {
        digest[at % 32] = digest[at % 32].rotate_left(3).wrapping_add(byte);
    }
    let submission = Submission {
        id: ReleaseId::parse(strategy.id.as_str()).unwrap(),
        strategy: Arc::new(strategy),
        text: text.into(),
        digest,
        archive: [1; 32],
        parent: None,
        deferred: false,
        adopts: None,
    };
    Command::Lifecycle(lifecycle::Command::Submit { submission: Box::new(submission), dry_run: false })
}

/// What an agent reports of a stage.
pub fn summary(stage: &str, status: StageStatus) -> Summary {
    let times = Times { median: 8.0, minimum: 6.0, maximum: 11.0 };
    Summary {
        says_next: None,
        agents: None,
        stage_name: (!stage.is_empty()).then(|| stage.to_owned()),
        status,
        proxy_times: times,
        f1_times_summary: times,
        f2_times_summary: times,
        f1_err_rate: 0.0,
        f2_err_rate: 0.0,
        f1_calls: None,
        f2_calls: None,
        f1_errors: None,
        f2_errors: None,
        f1_histogram: None,
        f2_histogram: None,
        f1_values: None,
        f2_values: None,
        why: None,
        assignment: analysis::Assignment::Call,
        effects: None,
        recount: None,
        failures: None,
        strata: Vec::new(),
        variations: Vec::new(),
    }
}

/// A summary whose numbers tell it from others.
pub fn numbered(stage: &str, status: StageStatus, median: f64) -> Summary {
    let mut summary = summary(stage, status);
    summary.f2_times_summary.median = median;
    summary
}
