//! What children report while a release runs, for as long as it takes: no end is known, and nobody is waited for.
//!
//! A look takes the final results that came since the one before, a stratum for each stage and split, so that what was
//! looked at never changes. A result that is stored while a look is made has the next one. Preliminary numbers don't
//! count here: they would count twice.

use super::{
    agenda::Due,
    children::{self, Report},
};
use crate::{
    analysis::{Stratum, Verdict},
    engine::Engine,
    model::ChildKey,
    release::analysis::Metered,
    strategy::{Strategy, analysis::ChildMetric, analysis::Metric},
};

/// Most strata of one metric. A release is stored with them.
const MAX_STRATA: usize = 10_000;

/// What came since the last look, of whom this is known so far. It takes note of how far it has read.
pub(super) async fn news(
    engine: &Engine,
    due: &Due,
    members: &[ChildKey],
    found: &mut Metered,
) -> Result<Vec<Report>, String> {
    let from = found.until_ms[0].unwrap_or(i64::MIN);
    // What has this very instant may not be stored yet.
    let until = due.now.wall_ms.max(from);
    let reports = children::read(engine, due, members, None, Some(from..until)).await?;
    found.until_ms[0] = Some(until);
    found.errors = 0;
    Ok(reports)
}

/// The strata so far, with what is new in this interval.
pub(super) fn strata(
    before: Vec<Stratum>,
    reports: &[Report],
    of: ChildMetric,
    strategy: &Strategy,
    interval: u64,
) -> Result<Vec<Stratum>, String> {
    let mut strata = before;
    let new = children::strata(reports, of, strategy);
    strata.extend(new.into_iter().map(|stratum| Stratum { interval, ..stratum }));
    if strata.len() > MAX_STRATA {
        return Err(format!("children reported more than {MAX_STRATA} times apart: look less often"));
    }
    Ok(strata)
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
