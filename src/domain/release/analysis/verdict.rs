//! What verdicts weigh, how those of the metrics become one, and how it is said.

use super::run::Metered;
use crate::release::pause::OF_ANALYSIS;
use ::analysis::Verdict;
use language::analysis::{Analysis, Unclear};

/// A verdict as it is shown.
pub const fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Inconclusive => "inconclusive",
        Verdict::NoData => "no data",
        Verdict::Error => "error",
    }
}

/// The reason of an analysis without its evidence, which is said once of the release and not once of each child.
pub(in crate::release) fn brief(reason: &str) -> &str {
    const VERDICTS: [Verdict; 5] =
        [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive, Verdict::NoData, Verdict::Error];
    if !reason.starts_with(OF_ANALYSIS) {
        return reason;
    }
    let end = |verdict: Verdict| {
        let verdict = format!(": {}", name(verdict));
        reason.find(&format!("{verdict}: ")).map(|at| at + verdict.len())
    };
    VERDICTS.into_iter().filter_map(end).min().map_or(reason, |end| &reason[..end])
}

/// That of an error, see [`weight`]: worse than what pauses, for it decides at once, and no failure.
pub(super) const WEIGHT_OF_ERROR: u8 = 3;

/// How bad a metric's verdict is, and whether it decides without waiting for the others.
pub(in crate::release) const fn weight(verdict: Verdict, analysis: &Analysis) -> (u8, bool) {
    const fn unclear(unclear: Unclear) -> u8 {
        match unclear {
            Unclear::Pass => 1,
            Unclear::Pause => 2,
            Unclear::Fail => 4,
        }
    }
    match verdict {
        Verdict::Pass => (0, false),
        Verdict::Inconclusive => (unclear(analysis.inconclusive), false),
        Verdict::NoData => (unclear(analysis.no_data), false),
        Verdict::Error => (WEIGHT_OF_ERROR, true),
        Verdict::Fail => (5, true),
    }
}

/// Whether everything with a consequence has passed, some of it before its end.
pub fn is_passed_early(analysis: &Analysis, found: &[Metered]) -> bool {
    let judged = || analysis.metrics.iter().zip(found).filter(|(metric, _)| !metric.dry_run);
    analysis.early_pass
        && judged().all(|(_, found)| found.passes_early() || found.verdict == Some(Verdict::Pass))
        && judged().any(|(_, found)| found.passes_early())
}

/// The verdict of a block: that of its worst metric, as soon as it decides. `is_over`: whatever has no verdict gets none.
pub(in crate::release) fn combined(
    analysis: &Analysis,
    found: &[Metered],
    is_over: bool,
) -> Option<(Verdict, String)> {
    let metrics = || analysis.metrics.iter().zip(found);
    let judged = metrics().filter(|(metric, _)| !metric.dry_run);
    let judged = judged.filter_map(|(metric, found)| Some((metric, found, found.verdict?)));
    // Of several that are as bad it is the first.
    let worst = judged.rev().max_by_key(|(_, _, verdict)| weight(*verdict, analysis).0);
    let all = is_over || found.iter().all(|found| found.verdict.is_some());
    match worst {
        Some((metric, found, verdict))
            if weight(verdict, analysis).1 || (all && verdict != Verdict::Pass) =>
        {
            Some((verdict, format!("{}: {}", metric.name, found.sentence)))
        }
        Some(_) if all => {
            let each = metrics().filter(|(metric, _)| !metric.dry_run);
            let each: Vec<String> =
                each.map(|(metric, found)| format!("{}: {}", metric.name, found.sentence)).collect();
            Some((Verdict::Pass, each.join("; ")))
        }
        None if all => Some((Verdict::Pass, "its metrics are all without consequence".to_owned())),
        _ => None,
    }
}
