//! The range in which what children report must lie, while a release runs, for as long as it takes: no end is known, and
//! nobody is waited for.
//!
//! A look measures the final results that came since the one before. A result that is stored while a look is made has the
//! next one. Preliminary numbers don't count there: they would count twice. They fail the release by themselves if they, with all
//! that came before, lie outside by more than chance explains.

use super::{
    children::{self, StageReport},
    due_looks::DueLook,
    interim::Reports,
    ranges,
};
use crate::Engine;
use analysis::Verdict;
use domain::release::analysis::Metered;
use language::analysis::{ChildMetric, Metric};

/// A look at what children reported until now.
pub(super) async fn look(
    engine: &Engine,
    due: &DueLook,
    reports: &Reports,
    of: ChildMetric,
    metric: &Metric,
    mut found: Metered,
) -> Result<Metered, String> {
    if metric.is_judged_on_the_way() {
        let merged = reports.merged(engine, due, metric.pair.as_ref()).await?;
        let so_far = ranges::so_far(merged, of, metric, &due.strategy, found.clone());
        if so_far.verdict.is_some() {
            return Ok(so_far);
        }
    }
    let news = read_news(engine, due, metric, &mut found).await?;
    Ok(measure(&news, of, metric, &found))
}

/// What came since the last look, of whom this is known so far. It takes note of how far it has read.
async fn read_news(
    engine: &Engine,
    due: &DueLook,
    metric: &Metric,
    found: &mut Metered,
) -> Result<Vec<StageReport>, String> {
    let from = found.until_ms[0].unwrap_or(i64::MIN);
    // What has this very instant may not be stored yet.
    let until = due.now.wall_ms.max(from);
    let reports = children::read(engine, due, metric.pair.as_ref(), Some(from..until)).await?;
    found.until_ms[0] = Some(until);
    found.errors = 0;
    Ok(reports)
}

/// One measurement more, if there is anything new.
fn measure(reports: &[StageReport], of: ChildMetric, metric: &Metric, before: &Metered) -> Metered {
    if reports.is_empty() {
        return before.clone();
    }
    let mut found = children::measure(reports, of, metric, before.clone());
    if found.verdict != Some(Verdict::Fail) {
        // Whether it was good the end tells.
        found.verdict = None;
    }
    found
}
