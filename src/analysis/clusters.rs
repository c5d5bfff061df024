//! Calls of one user are no independent calls: where all calls of a user go to one version, it is users that were assigned
//! at random, and so many calls are worth as much as their users.
//!
//! Who assigns calls so tells users apart by a hash into groups, each with its calls to both versions. All groups are
//! ranked together; how much the statistic varies is then seen between groups, by the jackknife (Quenouille 1956, Tukey
//! 1958): each group is left out once, and what it was worth is S − S without it, on one scale. What a group was worth at
//! several looks, stages or splits is added up before it is squared, for its users are the same.

use serde::{Deserialize, Serialize};

pub use super::data::MAX_GROUPS;
use super::{
    data::{Counts, Stratum},
    exact::Distributions,
    hypothesis::{Hypothesis, HypothesisKind, Inflation},
    interval_merging::{Group, Rule},
    rank::Map,
    spread::Step,
    sums::Sums,
};

/// Most different values that the groups of one split keep exactly, all together: a quarter of what each could keep by itself.
pub const MAX_EXACT_IN_GROUPS: usize = 16_384;

/// Fewer groups with calls of a version don't tell how they vary.
pub const LEAST_GROUPS: usize = 8;

/// What groups of users were worth to a statistic.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Clusters {
    /// Of each group: what it was worth so far, and its calls.
    groups: Vec<Worth>,
    /// The part of the statistic's variance that calls of groups would have, were they independent.
    variance: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Worth {
    group: u8,
    score: f64,
    /// Of baseline and canary.
    calls: [f64; 2],
}

impl Clusters {
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes in what is ranked together, if it comes in groups of users.
    pub fn note(&mut self, hypothesis: &Hypothesis, strata: &[Stratum], steps: &[Step; 2], map: Map) {
        let mut groups: Vec<u8> = strata.iter().filter_map(|stratum| stratum.group).collect();
        groups.sort_unstable();
        groups.dedup();
        if groups.is_empty() {
            return;
        }
        let all = measured(hypothesis, strata, steps, map, None);
        let whole = mean(&all);
        for group in groups {
            let without = mean(&measured(hypothesis, strata, steps, map, Some(group)));
            let of_group = strata.iter().filter(|stratum| stratum.group == Some(group));
            let calls =
                of_group.map(Stratum::calls).fold([0.0; 2], |sum, more| added(sum, more.map(|n| n as f64)));
            self.add(group, pairs(&all) * (whole - without), calls);
        }
        self.variance += all.variance();
    }

    /// How much more the events of a version vary than independent ones if users fail with all of their calls or with none, as it may
    /// be where no event was seen: by the calls of a user. Users come to groups by chance, so calls vary between groups by as much
    /// more than independent ones do.
    pub fn calls_of_a_user(&self, side: usize) -> f64 {
        let groups = f64::from(MAX_GROUPS);
        let calls = || self.groups.iter().map(move |group| group.calls[side]);
        let sum: f64 = calls().sum();
        if sum <= 0.0 {
            return 1.0;
        }
        let squares = calls().map(|calls| calls * calls).sum::<f64>() - sum * sum / groups;
        (squares / (groups - 1.0) / (sum / groups)).max(1.0)
    }

    fn add(&mut self, group: u8, score: f64, calls: [f64; 2]) {
        match self.groups.iter_mut().find(|known| known.group == group) {
            Some(known) => {
                (known.score, known.calls) = (known.score + score, added(known.calls, calls));
            }
            None => self.groups.push(Worth { group, score, calls }),
        }
    }

    /// How much more a statistic of this variance varies than that of independent calls. Too few groups to tell are refused with
    /// how many had calls of the version that fewer had calls of: few users of one version tell little, whatever the others do.
    pub fn inflation(&self, variance: f64) -> Result<Inflation, usize> {
        if self.is_empty() || variance <= 0.0 {
            return Ok(Inflation::NONE);
        }
        let of_side =
            |side: usize| self.groups.iter().map(move |group| group.calls[side]).filter(|calls| *calls > 0.0);
        let count = of_side(0).count().min(of_side(1).count());
        if count < LEAST_GROUPS {
            return Err(count);
        }
        let with_calls =
            self.groups.iter().filter(|group| group.calls.iter().any(|calls| *calls > 0.0)).count() as f64;
        let between = self.groups.iter().map(|group| group.score * group.score).sum::<f64>();
        let between = between * (with_calls - 1.0) / with_calls;
        let effective = |side: usize| {
            let squares: f64 = of_side(side).map(|calls| calls * calls).sum();
            of_side(side).sum::<f64>().powi(2) / squares
        };
        let freedom = (effective(0).min(effective(1)) - 1.0).max(1.0);
        // Calls of one user are alike or they are not: they aren't worth more than others.
        Ok(Inflation { factor: 1.0 + (between - self.variance).max(0.0) / variance, freedom })
    }
}

fn added([a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
    [a + c, b + d]
}

/// What the jackknife tells of an estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jackknifed {
    pub estimate: f64,
    pub variance: f64,
    /// How many groups it was seen between.
    pub groups: f64,
}

/// An estimate from all groups, and its variance as it is seen between them. `None`: fewer than [`LEAST_GROUPS`], or none can be
/// spared.
pub fn jackknife<T>(
    groups: &[T],
    estimate: impl Fn(&mut dyn Iterator<Item = &T>) -> Option<f64>,
) -> Option<Jackknifed> {
    if groups.len() < LEAST_GROUPS {
        return None;
    }
    let without = |left_out: usize| {
        let mut others = groups.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, group)| group);
        estimate(&mut others)
    };
    let each = (0..groups.len()).map(without).collect::<Option<Vec<f64>>>()?;
    let count = groups.len() as f64;
    let mean = each.iter().sum::<f64>() / count;
    let squares: f64 = each.iter().map(|one| (one - mean).powi(2)).sum();
    let variance = squares * (count - 1.0) / count;
    Some(Jackknifed { estimate: estimate(&mut groups.iter())?, variance, groups: count })
}

/// The sums of a hypothesis over strata that are ranked together, without a group.
fn measured(
    hypothesis: &Hypothesis,
    strata: &[Stratum],
    steps: &[Step; 2],
    map: Map,
    without: Option<u8>,
) -> Sums {
    let left: Vec<Stratum> =
        strata.iter().filter(|stratum| without.is_none() || stratum.group != without).cloned().collect();
    let mut trial = hypothesis.blank();
    if matches!(hypothesis.kind, HypothesisKind::Rate | HypothesisKind::NonZero) {
        trial.take_counts(&[summed(hypothesis, &left)], map.scale);
    } else {
        let rule = Rule { least_total: 0, ..hypothesis.rule() };
        trial.take(&Group::of(&left, rule, steps), map, &mut Distributions::none());
    }
    *trial.sums()
}

fn summed(hypothesis: &Hypothesis, strata: &[Stratum]) -> (Counts, Counts) {
    let mut sums = [Counts::default(); 2];
    for stratum in strata {
        for (sum, sample) in sums.iter_mut().zip([&stratum.baseline, &stratum.canary]) {
            let more = hypothesis.counts(sample);
            (sum.calls, sum.events) = (sum.calls + more.calls, sum.events + more.events);
        }
    }
    (sums[0], sums[1])
}

/// The scale on which statistics of different numbers of calls are one: the statistic is about this large times a
/// difference between the versions.
fn pairs(sums: &Sums) -> f64 {
    if sums.baseline > 0.0 && sums.canary > 0.0 {
        sums.baseline * sums.canary / (sums.baseline + sums.canary)
    } else {
        0.0
    }
}

fn mean(sums: &Sums) -> f64 {
    let pairs = pairs(sums);
    if pairs > 0.0 { sums.s / pairs } else { 0.0 }
}
