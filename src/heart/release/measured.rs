//! Strata of a stage as they are judged.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    strata::{Key, Sides, Strata},
    summary::Summary,
};
use analysis::{
    Sample, Stratum,
    effects::{Effect, Effects, EffectsTold},
};
use language::{Stage, analysis::ChildMetric};

/// One for each of what children told apart of a stage, all at interval 0. What they don't know of both versions is left out.
pub fn judged(stage: &Stage, strata: &Strata, of: ChildMetric) -> Vec<Stratum> {
    strata.iter().filter_map(|(key, sides)| stratum(stage, *key, sides, of)).collect()
}

/// What was measured of base and new version; `None`: it isn't known of both.
pub fn samples(sides: &Sides, of: ChildMetric) -> Option<[Sample; 2]> {
    match of {
        ChildMetric::ErrorRate => Some(sides.counts?.map(Sample::Counts)),
        ChildMetric::ResponseTime => Some(sides.times.clone()?.map(Sample::Measured)),
    }
}

/// How much the children differ of whom these are the reports of a stage that gives the new version `split` percent of the
/// calls. A manager says it of its own children; one that doesn't counts as one child. `None`: nobody measured both versions.
pub fn effects<'s>(summaries: impl IntoIterator<Item = &'s Summary>, split: u8) -> Option<EffectsTold> {
    let mut all = EffectsTold::default();
    for summary in summaries {
        match &summary.effects {
            Some(told) => all.add(told),
            None => all.add(&child(summary, split)),
        }
    }
    (all != EffectsTold::default()).then_some(all)
}

fn child(summary: &Summary, split: u8) -> EffectsTold {
    let strata = Strata::of([summary], split);
    let of = |of: ChildMetric| {
        // Apart by what was ordered; groups of users tell together.
        let mut parts: BTreeMap<Key, Vec<Stratum>> = BTreeMap::new();
        for (key, sides) in strata.iter() {
            if let Some([baseline, canary]) = samples(sides, of) {
                let Key { assignment, group, .. } = *key;
                let stratum = Stratum { assignment, group, ..Stratum::new("", 0, baseline, canary) };
                parts.entry(key.family()).or_default().push(stratum);
            }
        }
        let effect = Effect::mean(parts.values().filter_map(|part| Effect::of_part(part)))?;
        let mut effects = Effects::default();
        effects.note(effect);
        Some(effects)
    };
    EffectsTold { times: of(ChildMetric::ResponseTime), errors: of(ChildMetric::ErrorRate) }
}

/// Both versions side by side, where both measured what is meant.
pub fn stratum(stage: &Stage, key: Key, sides: &Sides, of: ChildMetric) -> Option<Stratum> {
    let [baseline, canary] = samples(sides, of)?;
    let mut name = stage.name.clone();
    if key.split != stage.new_traffic {
        let _ = write!(name, ", split {} %", key.split);
    }
    let share = stage.share_of(key.split);
    let Key { assignment, group, .. } = key;
    let found = Stratum { assignment, group, ..Stratum::new(name, 0, baseline, canary) };
    // Times are of successful calls: how calls were shared out is told by those who count all of them.
    Some(match sides.counts.filter(|_| share > 0.0 && share < 1.0) {
        Some(counts) => found.ordered(share).called(counts.map(|side| side.calls)),
        None => found,
    })
}
