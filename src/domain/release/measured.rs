//! Strata of a stage as they are judged.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    strata::{Key, Sides, Strata},
    summary::{self, Summary},
};
use analysis::{
    Assignment, Sample, Stratum,
    dispersion::SplitDispersion,
    effects::{Effect, Effects, EffectsTold},
    split::Split,
    values::MAX_CALLS,
};
use language::{Stage, Strategy, analysis::ChildMetric};

/// One for each of what children told apart of a stage, all at interval 0. What they don't know of both versions is left out.
pub fn judged(stage: &Stage, strata: &Strata, of: ChildMetric) -> Vec<Stratum> {
    strata.iter().filter_map(|(key, sides)| stratum(stage, *key, sides, of, false)).collect()
}

/// What was measured of base and new version; `None`: it isn't known of both.
pub fn samples(sides: &Sides, of: ChildMetric) -> Option<[Sample; 2]> {
    match of {
        ChildMetric::ErrorRate => Some(sides.counts?.map(Sample::Counts)),
        ChildMetric::ResponseTime => Some(sides.times.clone()?.map(Sample::Measured)),
    }
}

/// How much the children differ of whom these are the reports of a stage that gives the new version `split` percent of the
/// calls. A manager says it of its own children; one that doesn't counts as one child. `None`: nobody measured both versions. How
/// their splits differ is [`dispersion`].
pub fn effects<'s>(summaries: impl IntoIterator<Item = &'s Summary>, split: u8) -> Option<EffectsTold> {
    let mut all = EffectsTold::default();
    for summary in summaries {
        match &summary.effects {
            Some(told) if told.has_estimates() => all.add(&EffectsTold { splits: None, ..*told }),
            Some(_) | None => all.add(&child(summary, split)),
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
    EffectsTold { times: of(ChildMetric::ResponseTime), errors: of(ChildMetric::ErrorRate), splits: None }
}

/// The calls of both versions that a child counted in a stage of the strategy, over all its attempts, by what was ordered. Left out is
/// what went to one version alone by order, and calls that depend on each other without groups: it can't be told what these
/// are worth.
pub fn splits<'s>(
    summaries: impl IntoIterator<Item = &'s Summary>,
    strategy: &Strategy,
    index: usize,
) -> Vec<Split> {
    let Some(stage) = strategy.stages.get(index) else { return Vec::new() };
    let mut splits: BTreeMap<Key, Split> = BTreeMap::new();
    for summary in summaries {
        for (key, calls) in calls(summary, stage.new_traffic) {
            // Not every child knows how its calls are routed.
            let is_sticky = key.assignment.is_sticky() || strategy.is_sticky(Some(index));
            let is_one_side = key.assignment == Assignment::Child;
            let share = stage.share_of(key.split);
            if is_one_side || is_sticky && key.group.is_none() || share <= 0.0 || share >= 1.0 {
                continue;
            }
            let of = Key { interval: 0, group: None, class: None, ..key };
            splits.entry(of).or_insert_with(|| Split::new(share)).note(key.group, calls);
        }
    }
    splits.into_values().collect()
}

/// The calls of both versions that a child told apart, or those of the whole stage.
fn calls(summary: &Summary, split: u8) -> Vec<(Key, [u64; 2])> {
    let both = |base: Option<u64>, new: Option<u64>| {
        base.zip(new).map(|(base, new)| [base, new]).filter(|calls| calls.iter().all(|of| *of <= MAX_CALLS))
    };
    if summary.strata.is_empty() {
        let whole = Key { split, assignment: summary.assignment, ..Key::default() };
        return both(summary.f1_calls, summary.f2_calls).map(|calls| (whole, calls)).into_iter().collect();
    }
    let of = |of: &summary::Stratum| Some((Key::of(of, summary, split), both(of.f1_calls, of.f2_calls)?));
    summary.strata.iter().filter_map(of).collect()
}

/// How the splits of these children differ from what was ordered, of each what it says and its [`splits`]. A manager says it of its own
/// children; of one that doesn't nothing is known.
pub fn dispersion<'s>(children: impl IntoIterator<Item = (&'s Summary, Vec<Split>)>) -> SplitDispersion {
    let mut all = SplitDispersion::default();
    for (summary, splits) in children {
        match (&summary.agents, summary.effects.and_then(|told| told.splits)) {
            (Some(agents), Some(told)) => all.add(&told.of_at_most(agents.participants)),
            (Some(_), None) => {}
            (None, _) => all.note(&splits),
        }
    }
    all
}

/// Both versions side by side, where both measured what is meant. `has_moved`: the shares of the stage changed while it went on. Calls of
/// one name are ranked together, so what it orders now may not have the name that another split had at an earlier look.
pub fn stratum(stage: &Stage, key: Key, sides: &Sides, of: ChildMetric, has_moved: bool) -> Option<Stratum> {
    let [baseline, canary] = samples(sides, of)?;
    let mut name = stage.name.clone();
    if has_moved || key.split != stage.new_traffic {
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
