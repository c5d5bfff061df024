//! The children whose calls were shared out furthest from what was ordered: to be looked at, not judged by. In a large
//! fleet some are off by chance.

use std::{borrow::Cow, collections::BTreeMap};

use crate::Engine;
use analysis::split::{ChildSplit, Split};
use heart::release::{
    analysis::Metered,
    strata::Key,
    summary::{Stratum, Summary},
};
use language::Stage;
use model::ChildKey;

/// Most children that are shown.
const MOST_SHOWN: usize = 5;

/// Standard deviations from which on they are.
const DEVIATIONS_SHOWN: f64 = 4.0;

/// The furthest first.
#[derive(Debug, Default)]
pub(super) struct Off(Vec<(ChildKey, Split)>);

/// The calls of both versions that a child told apart, or those of the whole stage.
fn calls_of(summary: &Summary, ordered: u8) -> Vec<(Key, [u64; 2])> {
    let both = |base: Option<u64>, new: Option<u64>| base.zip(new).map(|(base, new)| [base, new]);
    if summary.strata.is_empty() {
        let whole = Key { split: ordered, assignment: summary.assignment, ..Key::default() };
        return both(summary.f1_calls, summary.f2_calls).map(|calls| (whole, calls)).into_iter().collect();
    }
    let of = |of: &Stratum| Some((Key::of(of, summary, ordered), both(of.f1_calls, of.f2_calls)?));
    summary.strata.iter().filter_map(of).collect()
}

impl Off {
    /// Takes note of what a child reported of a stage.
    pub fn note(&mut self, child: ChildKey, summaries: &[Cow<'_, Summary>], stage: &Stage) {
        let mut splits: BTreeMap<Key, Split> = BTreeMap::new();
        for summary in summaries {
            for (key, calls) in calls_of(summary, stage.new_traffic) {
                // Without groups it can't be told what calls that depend on each other are worth.
                if key.assignment.is_sticky() && key.group.is_none() {
                    continue;
                }
                let of = Key { interval: 0, group: None, ..key };
                let split = splits.entry(of).or_insert_with(|| Split::new(stage.share_of(key.split)));
                split.note(key.group, calls);
            }
        }
        let most = splits.into_values().max_by(|a, b| a.z().abs().total_cmp(&b.z().abs()));
        let Some(most) = most else { return };
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
            let child = engine.view().children.entry(*child)?.id.to_string();
            Some(ChildSplit { child, z: split.z(), split: split.clone() })
        };
        shown.children = self.0.iter().filter_map(child).collect();
    }
}
