//! The children whose calls were shared out furthest from what was ordered: to be looked at, not judged by. In a large
//! fleet some are off by chance.

use std::collections::BTreeMap;

use crate::{
    analysis::split::{ChildSplit, Split},
    engine::Engine,
    model::ChildKey,
    release::{analysis::Metered, summary::Summary},
};

/// Most children that are shown.
const MOST_SHOWN: usize = 5;

/// Standard deviations from which on they are.
const DEVIATIONS_SHOWN: f64 = 4.0;

/// The furthest first.
#[derive(Debug, Default)]
pub(super) struct Off(Vec<(ChildKey, Split)>);

impl Off {
    /// Takes note of what a child reported of a stage that orders this split.
    pub fn note(&mut self, child: ChildKey, summaries: &[Summary], ordered: u8) {
        let mut calls: BTreeMap<u8, [u64; 2]> = BTreeMap::new();
        for summary in summaries {
            let whole = [(None, summary.f1_calls, summary.f2_calls)];
            let parts: Vec<_> =
                summary.strata.iter().map(|of| (of.split, of.f1_calls, of.f2_calls)).collect();
            for (split, base, new) in if parts.is_empty() { &whole[..] } else { &parts } {
                let Some((base, new)) = base.zip(*new) else { continue };
                let [baseline, canary] = calls.entry(split.unwrap_or(ordered)).or_default();
                *baseline = baseline.saturating_add(base);
                *canary = canary.saturating_add(new);
            }
        }
        let splits = calls.into_iter().map(|(split, [baseline, canary])| Split {
            share: f64::from(split) / 100.0,
            baseline,
            canary,
            groups: Vec::new(),
        });
        let Some(most) = splits.max_by(|a, b| a.z().abs().total_cmp(&b.z().abs())) else { return };
        if most.z().abs() > DEVIATIONS_SHOWN {
            self.0.push((child, most));
            self.0.sort_by(|(_, a), (_, b)| b.z().abs().total_cmp(&a.z().abs()));
            self.0.truncate(MOST_SHOWN);
        }
    }

    /// Adds them to what is shown of the split.
    pub fn show(&self, engine: &Engine, found: &mut Metered) {
        let shown = found.evidence.as_mut().and_then(|evidence| evidence.split.as_mut());
        let Some(shown) = shown else { return };
        let child = |(child, split): &(ChildKey, Split)| {
            let child = engine.view().entry(*child)?.id.to_string();
            Some(ChildSplit { child, z: split.z(), split: split.clone() })
        };
        shown.children = self.0.iter().filter_map(child).collect();
    }
}
