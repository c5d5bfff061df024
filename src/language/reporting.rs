//! How children report a stage that goes on: those that can, while an analysis looks at what they report.

use super::{
    analysis::{Analysis, Metric},
    interim::{Interim, MAX_CUTS},
    scalar::go_duration,
    strategy::Strategy,
};

/// How an analysis that looks at reports on the way has its stage reported; `None`: it looks at none.
fn interim_for(analysis: &Analysis) -> Option<Interim> {
    if !analysis.metrics.iter().any(Metric::is_judged_on_the_way) {
        return None;
    }
    let every_ms = (analysis.interval.as_millis() as u64).max(1);
    let longest = analysis.duration.map_or(0, |duration| duration.as_millis() as u64);
    let times = longest.div_ceil(every_ms.saturating_mul(MAX_CUTS)).max(1);
    Some(Interim { every_ms, cut_ms: every_ms.saturating_mul(times) })
}

impl Strategy {
    /// How a stage is reported while it goes on; `None`: nobody looks before it is over. What comes from above says it for
    /// those who judge there.
    pub fn interim(&self, stage: usize) -> Option<Interim> {
        let name = &self.stages.get(stage)?.name;
        let told = self.from_parent.iter().flat_map(|said| &said.interim);
        let told = told.filter(|(of, _)| of == name).map(|(_, interim)| *interim);
        let looked_at = self.analyses().filter(|(of, _)| of.is_none_or(|of| of == stage));
        told.chain(looked_at.filter_map(|(_, analysis)| interim_for(analysis)))
            .min_by_key(|found| found.every_ms)
    }

    /// Whether children are told apart by how fast they were before the release: where what they report of both versions is
    /// compared. What comes from above says it for those who judge there.
    pub fn is_classed(&self) -> bool {
        let is_compared = |analysis: &Analysis| analysis.metrics.iter().any(Metric::is_judged_on_the_way);
        match &self.from_parent {
            Some(above) => above.classes,
            None => self.analyses().any(|(_, analysis)| is_compared(analysis)),
        }
    }

    /// What it means for an analysis that some children report a stage once, in words; `None`: it isn't judged on the way.
    pub fn reported_once(&self, stage: Option<usize>, analysis: &Analysis) -> Option<String> {
        interim_for(analysis)?;
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
