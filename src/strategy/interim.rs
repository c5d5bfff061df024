//! How children report a stage that goes on: those that can, while an analysis looks at what they report.

use serde::{Deserialize, Serialize};

use super::{Strategy, analysis::Analysis};

/// Intervals into which the time of an analysis is cut at most: a report has a stratum for each.
pub const MAX_CUTS: u64 = 32;

/// When a child reports a stage that goes on, and how it cuts what it measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interim {
    /// Between two reports, in milliseconds.
    pub every_ms: u64,
    /// How long the intervals are in which calls are counted apart, in milliseconds: a multiple of the other.
    pub cut_ms: u64,
}

impl Interim {
    /// What an analysis looks at on the way, if it does.
    fn of(analysis: &Analysis) -> Option<Self> {
        if !analysis.metrics.iter().any(super::analysis::Metric::is_judged_on_the_way) {
            return None;
        }
        let every_ms = (analysis.interval.as_millis() as u64).max(1);
        let longest = analysis.duration.map_or(0, |duration| duration.as_millis() as u64);
        let times = longest.div_ceil(every_ms.saturating_mul(MAX_CUTS)).max(1);
        Some(Self { every_ms, cut_ms: every_ms.saturating_mul(times) })
    }
}

impl Strategy {
    /// How a stage is reported while it goes on; `None`: nobody looks before it is over. What comes from above says it for
    /// those who judge there.
    pub fn interim(&self, stage: usize) -> Option<Interim> {
        let name = &self.stages.get(stage)?.name;
        let told = self.from_above.iter().flat_map(|above| &above.interim);
        let told = told.filter(|(of, _)| of == name).map(|(_, interim)| *interim);
        let looked_at = self.analyses().filter(|(of, _)| of.is_none_or(|of| of == stage));
        told.chain(looked_at.filter_map(|(_, analysis)| Interim::of(analysis)))
            .min_by_key(|found| found.every_ms)
    }

    /// The same of all stages, by name.
    pub fn interims(&self) -> Vec<(String, Interim)> {
        let stages = self.stages.iter().enumerate();
        stages.filter_map(|(at, stage)| Some((stage.name.clone(), self.interim(at)?))).collect()
    }
}
