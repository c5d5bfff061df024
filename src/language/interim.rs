//! How children report a stage that goes on: those that can, while an analysis looks at what they report.

use serde::{Deserialize, Serialize};

use super::{Strategy, analysis::Analysis, scalar::go_duration};

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
        let told = self.from_parent.iter().flat_map(|said| &said.interim);
        let told = told.filter(|(of, _)| of == name).map(|(_, interim)| *interim);
        let looked_at = self.analyses().filter(|(of, _)| of.is_none_or(|of| of == stage));
        told.chain(looked_at.filter_map(|(_, analysis)| Interim::of(analysis)))
            .min_by_key(|found| found.every_ms)
    }

    /// Whether children are told apart by how fast they were before the release: where what they report of both versions is
    /// compared. What comes from above says it for those who judge there.
    pub fn is_classed(&self) -> bool {
        let is_compared =
            |analysis: &Analysis| analysis.metrics.iter().any(super::analysis::Metric::is_judged_on_the_way);
        match &self.from_parent {
            Some(above) => above.classes,
            None => self.analyses().any(|(_, analysis)| is_compared(analysis)),
        }
    }

    /// What it means for an analysis that some children report a stage once, in words; `None`: it isn't judged on the way.
    pub fn reported_once(&self, stage: Option<usize>, analysis: &Analysis) -> Option<String> {
        Interim::of(analysis)?;
        let every = go_duration(analysis.interval);
        let of = match stage.and_then(|stage| self.stages.get(stage)) {
            None => "each stage once, when it has met its minDuration and minCalls".to_owned(),
            Some(stage) => format!(
                "once, when it has met minDuration ({}) and minCalls ({})",
                go_duration(stage.min_duration),
                stage.min_calls
            ),
        };
        Some(format!(
            "a deployed agent reports {of}, and so is looked at once; interval ({every}) acts only for children that report \
             while a stage goes on"
        ))
    }

    /// The same of all analyses, each with what it judges.
    pub fn all_reported_once(&self) -> Vec<(Option<&str>, String)> {
        let each = |(stage, analysis): (Option<usize>, &Analysis)| {
            let name = stage.and_then(|stage| self.stages.get(stage)).map(|stage| stage.name.as_str());
            Some((name, self.reported_once(stage, analysis)?))
        };
        self.analyses().filter_map(each).collect()
    }

    /// How all stages are reported, by name.
    pub fn interims(&self) -> Vec<(String, Interim)> {
        let stages = self.stages.iter().enumerate();
        stages.filter_map(|(at, stage)| Some((stage.name.clone(), self.interim(at)?))).collect()
    }
}
