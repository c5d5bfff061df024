//! What the children of a release measured in its stages, all of them together.

use std::collections::{BTreeMap, btree_map::Entry};

use super::{Engine, json_columns};
use analysis::Histogram;
use domain::release::{
    assignment::StepIndex,
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
    pub times: Times,
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
        if let Some(times) = times {
            self.times.add(&times);
        }
    }

    /// Adds what was measured of another version.
    pub fn add_all(&mut self, other: &Self) {
        self.add(Some(other.calls), Some(other.errors), None);
        other.times.0.values().for_each(|times| self.times.add(times));
    }
}

/// Times of successful calls, in milliseconds, as children counted them. What was counted in buckets of one kind adds up exactly, and
/// what was counted in others can't be added to it: then what is said is of the kind in which most were counted.
#[derive(Debug, Clone, Default)]
pub struct Times(BTreeMap<Kind, Histogram>);

/// Base and offset of buckets, by their bits: of bases, which are above 1, the finest comes first.
type Kind = (u64, u64);

impl Times {
    pub(crate) fn add(&mut self, times: &Histogram) {
        match self.0.entry((times.gamma().to_bits(), times.offset().to_bits())) {
            // They are of one kind; what was too much for a bucket is left out.
            Entry::Occupied(mut all) => drop(all.get_mut().merge(times)),
            Entry::Vacant(vacant) => drop(vacant.insert(times.clone())),
        }
    }

    /// The quantile `q`, from 0 to 1; `None`: nobody told how times were spread.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        // Of as many the finest buckets count, which is what the store's views say too.
        self.0.values().rev().max_by_key(|times| times.count())?.quantile(q)
    }
}

impl StageMeasured {
    /// Of the variation that has this place, the stable one first, and this name; `None`: no child told anything of it.
    #[must_use]
    pub fn variation(&self, at: usize, name: &str) -> Option<&Measured> {
        match at {
            0 => Some(&self.base),
            1 => Some(&self.new),
            _ => self.variations.get(name),
        }
    }

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
            let mut latest: BTreeMap<(u32, StepIndex), _> = BTreeMap::new();
            for row in &rows {
                // They come in the order of attempts.
                latest.insert((row.child_key, json_columns::slot_of(row, strategy)?), row);
            }
            for ((_, slot), row) in latest {
                let stage = slot.stage_index().and_then(|stage| u8::try_from(stage).ok());
                let Some(stage) = stage else { continue };
                let (summary, status) = (json_columns::summary(row)?, json_columns::stage_status(row)?);
                found.entry(stage).or_default().add(&summary, status, row.at_ms);
            }
            after = Some(last.child_key);
        }
    }
}
