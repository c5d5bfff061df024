//! What the children of a release measured in its stages, all of them together.

use std::collections::BTreeMap;

use super::{Engine, stored};
use analysis::Histogram;
use heart::release::{
    assignment::Slot,
    summary::{Reported, Summary},
};
use language::Strategy;
use model::StageStatus;
use store::{MAX_PAGE, StoreError};

/// Of one version in one stage.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    pub calls: u64,
    pub errors: u64,
    /// Times of successful calls, in milliseconds; `None`: nobody told how they were spread.
    pub times: Option<Histogram>,
}

/// Of one stage, by the last report of each child.
#[derive(Debug, Clone, Default)]
pub struct StageMeasured {
    pub base: Measured,
    pub new: Measured,
    /// Of each of more than two variations, by name; `base` and `new` are the first two of these.
    pub variations: BTreeMap<String, Measured>,
    /// A child ended it badly.
    pub has_failed: bool,
    /// When the last report came, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Measured {
    fn add(&mut self, calls: Option<u64>, errors: Option<u64>, times: Option<Histogram>) {
        self.calls += calls.unwrap_or_default();
        self.errors += errors.unwrap_or_default();
        match (&mut self.times, times) {
            // Those of another form can't be told apart from these any more, so nothing is said of either.
            (Some(all), Some(times)) => {
                if all.merge(&times).is_err() {
                    self.times = None;
                }
            }
            (all @ None, times) => *all = times,
            (Some(_), None) => {}
        }
    }
}

impl StageMeasured {
    fn add(&mut self, summary: &Summary, status: StageStatus, at_ms: i64) {
        let times = |values: &Option<Box<analysis::Values>>, reported: &Option<Box<Reported>>| match (
            values,
            reported.as_deref(),
        ) {
            (Some(values), _) => Some(values.to_histogram()),
            (None, Some(Reported::Sketch(sketch))) => Some(sketch.clone()),
            (None, Some(Reported::Bounds(_)) | None) => None,
        };
        let (base, new) = (
            times(&summary.f1_values, &summary.f1_histogram),
            times(&summary.f2_values, &summary.f2_histogram),
        );
        self.base.add(summary.f1_calls, summary.f1_errors, base);
        self.new.add(summary.f2_calls, summary.f2_errors, new);
        for one in &summary.variations {
            let times = times(&None, &one.histogram);
            let of = self.variations.entry(one.name.clone()).or_default();
            of.add(Some(one.calls), Some(one.errors), times);
        }
        self.has_failed |= matches!(status, StageStatus::Failure | StageStatus::Error);
        self.at_ms = self.at_ms.max(at_ms);
    }
}

impl Engine {
    /// By the place of each stage of which anything was reported.
    ///
    /// # Errors
    ///
    /// The store's, and rows that can't be read.
    pub async fn measured(
        &self,
        release_key: u32,
        strategy: &Strategy,
    ) -> Result<BTreeMap<u8, StageMeasured>, StoreError> {
        let mut found: BTreeMap<u8, StageMeasured> = BTreeMap::new();
        let mut after = None;
        loop {
            let page = self.reader().assignments(release_key, after, MAX_PAGE).await?;
            let (Some(first), Some(last)) = (page.first(), page.last()) else { return Ok(found) };
            let rows = self.reader().stage_results(release_key, first.child_key, last.child_key).await?;
            let mut latest: BTreeMap<(u32, Slot), _> = BTreeMap::new();
            for row in &rows {
                // They come in the order of attempts.
                latest.insert((row.child_key, stored::slot_of(row, strategy)?), row);
            }
            for ((_, slot), row) in latest {
                let stage = slot.stage_index().and_then(|stage| u8::try_from(stage).ok());
                let Some(stage) = stage else { continue };
                let (summary, status) = (stored::summary(row)?, stored::stage_status(row)?);
                found.entry(stage).or_default().add(&summary, status, row.at_ms);
            }
            after = Some(last.child_key);
        }
    }
}
