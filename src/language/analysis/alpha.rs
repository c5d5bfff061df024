//! How the chance to stop a good release by mistake is shared over all that is compared.

use super::spec::{Analysis, DEFAULT_ALPHA, Metric};
use crate::strategy::Strategy;

/// The share of one metric in a release's alpha.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlphaShare<'s> {
    /// Index into [`Strategy::stages`]; `None`: the whole release.
    pub stage: Option<usize>,
    pub metric: &'s Metric,
    pub alpha: f64,
}

impl Strategy {
    /// Every block, that of the whole release first, each with its stage.
    pub fn analyses(&self) -> impl Iterator<Item = (Option<usize>, &Analysis)> {
        let whole = self.rollout.iter().filter_map(|rollout| rollout.analysis.as_ref());
        let stages = self.stages.iter().enumerate();
        let stages = stages.filter_map(|(at, stage)| Some((Some(at), stage.analysis.as_ref()?)));
        whole.map(|analysis| (None, analysis)).chain(stages)
    }

    /// The share of good releases that may be stopped by mistake.
    pub fn alpha(&self) -> f64 {
        self.analyses().find_map(|(_, analysis)| analysis.alpha).unwrap_or(DEFAULT_ALPHA)
    }

    /// How alpha is shared over everything that is compared, by weight. The shares add up to alpha, so that by
    /// Bonferroni's inequality a good release is stopped by mistake with no more than that.
    pub fn alpha_shares(&self) -> Vec<AlphaShare<'_>> {
        let metrics = || {
            let each = |(stage, analysis)| {
                let analysis: &Analysis = analysis;
                analysis.metrics.iter().filter_map(move |metric| Some((stage, metric, metric.weight()?)))
            };
            self.analyses().flat_map(each)
        };
        let sum: f64 = metrics().map(|(_, _, weight)| weight).sum();
        let alpha = self.alpha();
        metrics()
            .map(|(stage, metric, weight)| AlphaShare { stage, metric, alpha: alpha * weight / sum })
            .collect()
    }
}
