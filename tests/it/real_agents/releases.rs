//! Strategies of these tests.

use super::site::FUNCTION;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    AB,
    Wait,
}

/// A stage as it is to go.
#[derive(Debug, Clone, Copy)]
pub struct Stage {
    pub kind: Kind,
    /// Of the new version, in percent.
    pub share: u8,
    pub milliseconds: u64,
}

/// So many calls, divided by the percent that the new version gets, make it unlikely beyond measure that it gets none: nothing would
/// be known of it then.
const CALLS_BY_SHARE: u32 = 2_000;

/// Stages of one kind that last so long each.
pub fn stages(kind: Kind, shares: &[u8], milliseconds: u64) -> Vec<Stage> {
    shares.iter().map(|&share| Stage { kind, share, milliseconds }).collect()
}

pub const A_B: &[u8] = &[50];
pub const TWO_STAGES: &[u8] = &[10, 50];
pub const GRADUAL: &[u8] = &[1, 5, 10, 20, 30, 50, 75, 90];

/// A function, and the form that its versions have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    pub function: &'static str,
    pub env: &'static str,
}

/// A release of the function that most tests have. Stages are called `s0`, `s1`, … `more`: whatever else is said at its top.
pub fn strategy(id: &str, versions: [&str; 2], stages: &[Stage], more: &str) -> String {
    strategy_of(Form { function: FUNCTION, env: "program" }, id, versions, stages, more)
}

/// The same of another function.
pub fn strategy_of(form: Form, id: &str, [base, new]: [&str; 2], stages: &[Stage], more: &str) -> String {
    let Form { function, env } = form;
    let mut text = format!(
        "id: {id}\nname: {id}\ntype: patch\n{more}functions:\n  - name: {function}\n    \
         base_version: {{path: fns/{base}, env: {env}}}\n    new_version: {{path: fns/{new}, env: {env}}}\n\
         stages:\n"
    );
    for (number, stage) in stages.iter().enumerate() {
        let kind = if stage.kind == Kind::AB { "A/B" } else { "WaitForSignal" };
        let next = if number + 1 < stages.len() { format!("s{}", number + 1) } else { "rollout".to_owned() };
        text.push_str(&format!(
            "  - name: s{number}\n    type: {kind}\n    func_name: {function}\n    variants:\n      \
             - {{name: base_version, trafficPercentage: {}}}\n      \
             - {{name: new_version, trafficPercentage: {}}}\n    metrics_conditions:\n      \
             - {{name: errorRate, threshold: \"<0.1\"}}\n      \
             - {{name: responseTime, threshold: \"<=5000\", compareWith: Median}}\n    end_conditions:\n      \
             - {{name: minDuration, threshold: {}ms}}\n      - {{name: minCalls, threshold: \"{}\"}}\n    \
             end_action: {{onSuccess: {next}, onFailure: rollback}}\n",
            100 - stage.share,
            stage.share,
            stage.milliseconds,
            CALLS_BY_SHARE / u32::from(stage.share.max(1))
        ));
    }
    text + "rollback:\n  action:\n    function: base_version\n"
}
