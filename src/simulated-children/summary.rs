//! What a child says of a stage: whether its conditions hold, and its numbers in the form that the manager reads.

use super::{
    calls::{StageCalls, Tally},
    offer::OfferStage,
    times::{TimesTold, stratum_of_both},
};
use analysis::Assignment;
use model::StageStatus;
use protocol::{StageSummary, StratumForm};

/// What a manager reads beside the reference.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reads {
    /// Times value by value.
    pub values: bool,
    /// Groups of users.
    pub groups: bool,
}

/// Whether all conditions of a stage hold for its new version.
pub fn conditions_hold(stage: &OfferStage, calls: &StageCalls) -> bool {
    let (times, error_rate) = (calls.new.times(), calls.new.error_rate());
    let quantile = |q| calls.new.quantile(q);
    stage.conditions.iter().all(|condition| condition.holds(&times, error_rate, quantile))
}

/// The summary that every child can send. Errors of the base version are not in it: 0 stands for unknown.
pub fn plain_summary(stage: &OfferStage, calls: &StageCalls, status: StageStatus) -> StageSummary {
    StageSummary {
        stage_name: Some(stage.name.clone()),
        proxy_times: calls.proxy_times(),
        f1_times: calls.base.times(),
        f2_times: calls.new.times(),
        f1_err_rate: 0.0,
        f2_err_rate: calls.new.error_rate(),
        ..StageSummary::without_calls(status)
    }
}

/// The summary of a stage that could not be run at all.
pub fn summary_of_none(stage: &OfferStage) -> StageSummary {
    StageSummary { stage_name: Some(stage.name.clone()), ..StageSummary::without_calls(StageStatus::Error) }
}

/// Everything a newer child can say to a manager that reads so much.
pub fn full_summary(
    stage: &OfferStage,
    calls: &StageCalls,
    status: StageStatus,
    reads: Reads,
) -> StageSummary {
    let exactly = reads.values;
    let (f1_values, f1_histogram) = times_of(&calls.base, exactly);
    let (f2_values, f2_histogram) = times_of(&calls.new, exactly);
    let strata = match calls.sessions() {
        None => {
            calls.parts().map(|(interval, sides)| stratum_of_interval(interval, sides, exactly)).collect()
        }
        Some(sessions) if reads.groups => sessions.strata(exactly),
        Some(_) => Vec::new(),
    };
    let whole = StageSummary {
        f1_err_rate: calls.base.error_rate(),
        f1_calls: Some(calls.base.calls),
        f2_calls: Some(calls.new.calls),
        f1_errors: Some(calls.base.errors),
        f2_errors: Some(calls.new.errors),
        f1_histogram,
        f2_histogram,
        f1_values,
        f2_values,
        strata,
        ..plain_summary(stage, calls, status)
    };
    if calls.sessions().is_some() { told_of_sessions(whole, reads) } else { whole }
}

/// The summary of calls that depend on each other. A manager that doesn't read groups would compare them as independent ones: it is told how many there
/// were, and how the new version did by itself.
fn told_of_sessions(whole: StageSummary, reads: Reads) -> StageSummary {
    if reads.groups {
        return StageSummary { assignment: Some(Assignment::User), ..whole };
    }
    StageSummary { f1_errors: None, f1_histogram: None, f1_values: None, ..whole }
}

fn stratum_of_interval(interval: u32, sides: [&Tally; 2], exactly: bool) -> StratumForm {
    let counted = sides.map(|side| [side.calls, side.errors]);
    StratumForm { interval, ..stratum_of_both(counted, sides.map(|side| times_of(side, exactly))) }
}

/// The times of successful calls in the one form that the manager reads.
fn times_of(tally: &Tally, exactly: bool) -> TimesTold {
    if exactly { (tally.values().cloned().map(Box::new), None) } else { (None, tally.histogram()) }
}
