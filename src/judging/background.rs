//! The range in which what children report must lie, while a release runs, for as long as it takes: no end is known, and
//! nobody is waited for.
//!
//! A look measures the final results that came since the one before. A result that is stored while a look is made has the
//! next one. Preliminary numbers don't count here: they would count twice.

use super::{
    agenda::Due,
    children::{self, Report},
};
use crate::{
    analysis::Verdict,
    engine::Engine,
    release::analysis::Metered,
    strategy::analysis::{ChildMetric, Metric},
};

/// What came since the last look, of whom this is known so far. It takes note of how far it has read.
pub(super) async fn news(engine: &Engine, due: &Due, found: &mut Metered) -> Result<Vec<Report>, String> {
    let from = found.until_ms[0].unwrap_or(i64::MIN);
    // What has this very instant may not be stored yet.
    let until = due.now.wall_ms.max(from);
    let reports = children::read(engine, due, Some(from..until)).await?;
    found.until_ms[0] = Some(until);
    found.errors = 0;
    Ok(reports)
}

/// One measurement more, if there is anything new.
pub(super) fn measure(reports: &[Report], of: ChildMetric, metric: &Metric, before: &Metered) -> Metered {
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
