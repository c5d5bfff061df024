//! One metric of an analysis at one look, with all that it takes to look.

use super::{due_looks::DueLook, interim::Reports};
use crate::Engine;
use language::analysis::{Analysis, Metric};
use metrics_providers::provider::Registry;

/// What each part of a look hands on to the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetricLook<'l> {
    pub engine: &'l Engine,
    pub registry: &'l Registry,
    pub due: &'l DueLook,
    /// What children reported, read once for all metrics.
    pub reports: &'l Reports,
    pub analysis: &'l Analysis,
    pub metric: &'l Metric,
}

impl<'l> MetricLook<'l> {
    /// Whether an interval of the metric's own is over since the last look at the block.
    pub fn is_due(&self) -> bool {
        let (due, interval) = (self.due, self.interval_ms());
        due.is_last
            || self.metric.interval.is_none()
            || due.elapsed_ms / interval > due.run.looked_ms / interval
    }

    /// The time between two looks at the metric.
    pub fn interval_ms(&self) -> u64 {
        (self.analysis.interval_of(self.metric).as_millis() as u64).max(1)
    }

    /// Under which name, and in which interval, values of this look are kept.
    pub fn stage_and_interval(&self) -> (&'l str, u64) {
        let (due, interval_ms) = (self.due, self.interval_ms());
        let interval =
            if due.is_last { due.elapsed_ms.div_ceil(interval_ms) } else { due.elapsed_ms / interval_ms };
        let stage = due.stage.and_then(|stage| due.strategy.stages.get(stage));
        (stage.map_or("release", |stage| stage.name.as_str()), interval.saturating_sub(1))
    }
}
