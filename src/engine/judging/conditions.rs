//! `metrics_conditions`, judged once more by the manager from what children report.
//!
//! A deployed agent takes missing calls for good ones: -1 is less than 200 ms for it, and no error of no calls is a rate of
//! 0. Here both are no data. Only who reports a success is judged again: who reports a failure has failed already, and
//! counts in the limits of the roll-out.

use super::children::StageReport;
use analysis::Verdict;
use domain::release::{analysis::Metered, summary::Summary};
use language::{Condition, Metric, Statistic};
use model::StageStatus;

/// Judges each child by itself; as many as `limit` may be outside, or without data.
pub(super) fn judge(
    reports: &[StageReport],
    condition: &Condition,
    limit: u32,
    mut found: Metered,
) -> Metered {
    found.errors = 0;
    (found.measured, found.empty, found.outside) = (0, 0, 0);
    let mut fault = None;
    let is_success = |summary: &&Summary| {
        let has_somebody = summary.agents.is_none_or(|agents| agents.participants > 0);
        has_somebody && matches!(summary.status, StageStatus::Completed | StageStatus::SuccessWaiting)
    };
    for summary in reports.iter().map(StageReport::summary).filter(is_success) {
        let Some(value) = value(condition.metric, summary) else {
            found.empty += 1;
            continue;
        };
        found.measured += 1;
        if !condition.holds(value) {
            found.outside += 1;
            fault.get_or_insert(value);
        }
    }
    let all = found.measured + found.empty;
    let (verdict, sentence) = if let Some(value) = fault.filter(|_| found.outside > limit) {
        let outside = found.outside;
        (Verdict::Fail, format!("{outside} of {all} successful children don't keep it, one has {value}"))
    } else if all == 0 {
        (Verdict::NoData, "no child reports a success".to_owned())
    } else if found.empty > limit || found.measured == 0 {
        (Verdict::NoData, format!("{} of {all} successful children measured nothing", found.empty))
    } else {
        (Verdict::Pass, format!("{} of {all} successful children keep it", found.measured - found.outside))
    };
    found.verdict = Some(verdict);
    found.sentence = sentence;
    found
}

/// What a child measured of the new version; `None`: nothing.
fn value(metric: Metric, summary: &Summary) -> Option<f64> {
    let times = summary.f2_times_summary;
    match metric {
        Metric::ErrorRate => match (summary.f2_errors, summary.f2_calls) {
            (_, Some(0)) => None,
            (Some(errors), Some(calls)) => Some(errors as f64 / calls as f64),
            // Who counts no calls has had one if there is a time, or an error.
            _ => Some(summary.f2_err_rate).filter(|rate| times.median >= 0.0 || *rate > 0.0),
        },
        Metric::ResponseTime(statistic) => match statistic {
            Statistic::Median => Some(times.median),
            Statistic::Minimum => Some(times.minimum),
            Statistic::Maximum => Some(times.maximum),
            Statistic::Quantile(q) => summary.new_quantile(q),
        }
        .filter(|time| *time >= 0.0),
    }
}
