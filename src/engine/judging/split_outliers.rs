//! The children whose calls were shared out furthest from what was ordered: to be looked at, not judged by. In a large
//! fleet some are off by chance.

use crate::Engine;
use analysis::split::{ChildSplit, Split};
use domain::release::analysis::Metered;
use model::ChildKey;

/// Most children that are shown.
const MOST_SHOWN: usize = 5;

/// Standard deviations from which on they are.
const DEVIATIONS_SHOWN: f64 = 4.0;

/// Standard deviations from which on they are where it is known that single children are off.
const DEVIATIONS_BY_CHANCE: f64 = 2.0;

/// The furthest first.
#[derive(Debug, Default)]
pub(super) struct Off(Vec<(ChildKey, Split)>);

impl Off {
    /// Takes note of how a child shared out its calls in a stage.
    pub fn note(&mut self, child: ChildKey, splits: &[Split]) {
        let most = splits.iter().max_by(|a, b| a.z().abs().total_cmp(&b.z().abs()));
        let Some(most) = most.filter(|most| most.z().abs() > DEVIATIONS_BY_CHANCE) else { return };
        self.0.push((child, most.clone()));
        self.0.sort_by(|(_, a), (_, b)| b.z().abs().total_cmp(&a.z().abs()));
        self.0.truncate(MOST_SHOWN);
    }

    /// Adds them to what is shown of the split, and names them in the sentence where single children are off.
    pub fn show(&self, engine: &Engine, found: &mut Metered) {
        let Some(evidence) = &mut found.evidence else { return };
        let Some(shown) = &mut evidence.split else { return };
        let is_of_children = shown.is_of_children();
        let least = if is_of_children { DEVIATIONS_BY_CHANCE } else { DEVIATIONS_SHOWN };
        let child = |(child, split): &(ChildKey, Split)| {
            let child = engine.view().children.entry(*child)?.id.to_string();
            Some(ChildSplit { child, z: split.z(), split: split.clone() })
        };
        let shown_ones = self.0.iter().filter(|(_, split)| split.z().abs() > least);
        shown.children = shown_ones.filter_map(child).collect();
        if is_of_children && !shown.children.is_empty() {
            let names: Vec<String> = shown.children.iter().map(name).collect();
            let furthest = format!(" The splits that are furthest off: {}.", names.join(", "));
            evidence.sentence.push_str(&furthest);
            found.sentence.push_str(&furthest);
        }
    }
}

/// "edge-7 (90 of 100 calls instead of 50 %)".
fn name(ChildSplit { child, split, .. }: &ChildSplit) -> String {
    let Split { share, baseline, canary, .. } = split;
    let percent = (share * 1e4).round() / 1e2;
    format!("{child} ({canary} of {} calls instead of {percent} %)", baseline.saturating_add(*canary))
}
