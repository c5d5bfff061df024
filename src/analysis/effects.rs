//! Children differ: a new version may suit one better than another. How much they differ beyond the chance of their calls
//! limits what any number of calls tells of the fleet's mean.
//!
//! Each child c that measured both versions has an estimate θ of the logarithm of the ratio of new to base version, with
//! information w (one over the variance by the chance of its calls). Of these only five sums are kept, so children add up
//! exactly, in any order and over any levels of a tree. From them follows the variance τ² between children:
//! Q = Σwθ² − (Σwθ)²/Σw exceeds k − 1 by τ² (Σw − Σw²/Σw) in the mean (Cochran 1954; `DerSimonian` and Laird 1986). The judge
//! takes an upper bound of it: an estimate that is too low half of the time gives false alarms then. The mean over children
//! varies by τ² Σw²/(Σw)² more than by their calls alone.
//!
//! Fewer than [`LEAST_CHILDREN`] tell next to nothing of how children differ. What is judged then is how the new version
//! does on these children, by their calls alone.

use serde::{Deserialize, Serialize};

use super::{
    clusters::{LEAST_GROUPS, jackknife},
    data::{Counts, Sample, Stratum},
    dispersion::SplitDispersion,
    dist::normal_z,
    interval_merging::{Group, Rule},
    previous::BetweenRuns,
    spread::{SortedSide, Step},
};

/// Children from which on it is estimated how they differ.
pub const LEAST_CHILDREN: f64 = 8.0;

/// Children of the same weight as which these count, from which on they count as many.
const MANY: f64 = 6.0;

/// The probability that the variance between children is underestimated, where they count as many, and as few. Chosen by simulation: with these a fleet is judged at alpha, see `SIMULATION.md`.
const UNDERESTIMATED: f64 = 0.35;
const UNDERESTIMATED_OF_FEW: f64 = 0.2;

/// Least values a side whose spread says how exactly a child is known.
pub(super) const LEAST_VALUES: f64 = 3.0;

/// A time of 0 is taken for this part of the least that is not 0 where logarithms are taken.
const PART_OF_LEAST: f64 = 0.25;

/// Sums over children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 5]", into = "[f64; 5]")]
pub struct Effects {
    /// How many.
    pub children: f64,
    /// Σw, Σw², Σwθ and Σwθ².
    pub w: f64,
    pub w2: f64,
    pub wt: f64,
    pub wt2: f64,
}

impl From<[f64; 5]> for Effects {
    fn from([children, w, w2, wt, wt2]: [f64; 5]) -> Self {
        Self { children, w, w2, wt, wt2 }
    }
}

impl From<Effects> for [f64; 5] {
    fn from(of: Effects) -> Self {
        [of.children, of.w, of.w2, of.wt, of.wt2]
    }
}

/// What a manager tells of its children, metric by metric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "Told")]
pub struct EffectsTold {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Effects>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Effects>,
    /// How their splits differ from what was ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub splits: Option<SplitDispersion>,
}

impl EffectsTold {
    /// Adds other children.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [(&mut self.times, &other.times), (&mut self.errors, &other.errors)] {
            if let Some(more) = more {
                sum.get_or_insert_default().add(more);
            }
        }
        if let Some(more) = &other.splits {
            self.splits.get_or_insert_default().add(more);
        }
    }

    /// Whether any child measured both versions.
    pub fn has_estimates(&self) -> bool {
        self.times.is_some() || self.errors.is_some()
    }

    /// Whether these can be sums over children.
    pub fn is_possible(&self) -> bool {
        [&self.times, &self.errors].into_iter().flatten().all(Effects::is_possible)
            && self.splits.as_ref().is_none_or(SplitDispersion::is_possible)
    }
}

/// What a child measured of the two versions, as the sums are made of it: its estimate and its information.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    pub theta: f64,
    pub w: f64,
}

/// How children differ, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Between {
    /// How many measured both versions.
    pub children: u64,
    /// As how many children of the same weight they count.
    pub effective: f64,
    /// The standard deviation of the logarithms of their ratios that is reckoned with; absent: there are too few children
    /// to tell, and these alone are judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
}

impl Effect {
    /// What a child measured of both versions under one split, in groups of users where calls depend on each other; `None`:
    /// too little.
    pub fn of_part(strata: &[Stratum]) -> Option<Self> {
        match strata {
            [stratum] if !stratum.assignment.is_sticky() => Self::of(stratum),
            groups => Self::of_users(groups),
        }
    }

    /// What a child measured of both versions in calls that don't depend on each other; `None`: too little.
    pub fn of(stratum: &Stratum) -> Option<Self> {
        match (&stratum.baseline, &stratum.canary) {
            (Sample::Counts(baseline), Sample::Counts(canary)) => Self::of_counts(*baseline, *canary),
            (Sample::Counts(_), _) | (_, Sample::Counts(_)) => None,
            _ => {
                let group = times_of(stratum);
                Self::of_times(&group.baseline, &group.canary)
            }
        }
    }

    /// The same estimates, with the information that is left where calls depend on each other, as it shows between groups of
    /// users. Without groups such calls tell nothing.
    fn of_users(strata: &[Stratum]) -> Option<Self> {
        let has_calls = |stratum: &&Stratum| stratum.calls() != [0, 0];
        let groups: Vec<&Stratum> = strata.iter().filter(has_calls).collect();
        if groups.len() < LEAST_GROUPS || groups.iter().any(|stratum| stratum.group.is_none()) {
            return None;
        }
        let counts = |stratum: &&Stratum| match (&stratum.baseline, &stratum.canary) {
            (Sample::Counts(baseline), Sample::Counts(canary)) => Some([*baseline, *canary]),
            _ => None,
        };
        match groups.iter().map(counts).collect::<Option<Vec<_>>>() {
            Some(groups) => Self::of_counted_users(&groups),
            None => Self::of_timed_users(&groups),
        }
    }

    /// The variance of the score is the sum of the groups' squared scores, and no less than that of independent calls: so it is
    /// right in the mean for one user with errors too.
    fn of_counted_users(groups: &[[Counts; 2]]) -> Option<Self> {
        let sum = |side: usize| {
            groups.iter().fold(Counts::default(), |sum, group| Counts {
                calls: sum.calls.saturating_add(group[side].calls),
                events: sum.events.saturating_add(group[side].events),
            })
        };
        let [baseline, canary] = [sum(0), sum(1)];
        let whole = Self::of_counts(baseline, canary)?;
        let share = canary.calls as f64 / (baseline.calls as f64 + canary.calls as f64);
        let score = |[base, new]: &[Counts; 2]| new.events as f64 - (base.events + new.events) as f64 * share;
        let squares: f64 = groups.iter().map(|group| score(group).powi(2)).sum();
        Some(Self { w: whole.w / (squares / whole.w).max(1.0), ..whole })
    }

    fn of_timed_users(groups: &[&Stratum]) -> Option<Self> {
        let logs: Vec<[Logs; 2]> = groups.iter().map(|group| Logs::of(group)).collect();
        let jackknifed = jackknife(&logs, Logs::difference)?;
        // As of few values: one over a variance of so few groups is too large in the mean by this.
        let shrink = (jackknifed.groups - 3.0) / (jackknifed.groups - 1.0);
        let w = shrink / jackknifed.variance;
        (w > 0.0 && w.is_finite()).then_some(Self { theta: jackknifed.estimate, w })
    }

    /// The difference of the means of the logarithms of times.
    fn of_times(baseline: &SortedSide, canary: &SortedSide) -> Option<Self> {
        let (a, b) = (Moments::of(baseline)?, Moments::of(canary)?);
        if a.n < LEAST_VALUES || b.n < LEAST_VALUES {
            return None;
        }
        let freedom = a.n + b.n - 2.0;
        let variance = (a.squares + b.squares) / freedom;
        // One over a variance of so few values is too large in the mean by this.
        let shrink = (freedom - 2.0) / freedom;
        let w = shrink / (variance * (1.0 / a.n + 1.0 / b.n));
        (variance > 0.0 && w.is_finite()).then_some(Self { theta: b.mean - a.mean, w })
    }

    /// Of the events that a child counted. Of E events, given their number, the new version has E·π in the mean and with
    /// variance E·π(1 − π) if the rates are the same, π its share of the calls: the score and the information of the
    /// logarithm of the ratio, exact for one event too.
    fn of_counts(baseline: Counts, canary: Counts) -> Option<Self> {
        let (m, n) = (baseline.calls as f64, canary.calls as f64);
        let events = baseline.events as f64 + canary.events as f64;
        let share = n / (m + n);
        let w = events * share * (1.0 - share);
        (w > 0.0).then(|| Self { theta: (canary.events as f64 - events * share) / w, w })
    }

    /// Of several estimates of one child.
    pub fn mean(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let (w, wt) = all.into_iter().fold((0.0, 0.0), |(w, wt), of| (w + of.w, wt + of.w * of.theta));
        (w > 0.0).then(|| Self { theta: wt / w, w })
    }
}

fn times_of(stratum: &Stratum) -> Group {
    let rule = Rule { least_total: 0, zero_free: false };
    Group::of(std::slice::from_ref(stratum), rule, &<[Step; 2]>::default())
}

/// Values of one version in a group of users, and the sum of their logarithms.
#[derive(Debug, Clone, Copy)]
struct Logs {
    n: f64,
    sum: f64,
}

impl Logs {
    fn of(stratum: &Stratum) -> [Self; 2] {
        let group = times_of(stratum);
        [&group.baseline, &group.canary].map(|side| {
            Moments::of(side).map_or(Self { n: 0.0, sum: 0.0 }, |of| Self { n: of.n, sum: of.n * of.mean })
        })
    }

    /// Of their means over groups, canary less baseline; `None`: too few values.
    fn difference(groups: &mut dyn Iterator<Item = &[Self; 2]>) -> Option<f64> {
        let mut sums = [Self { n: 0.0, sum: 0.0 }; 2];
        for (sum, more) in groups.flat_map(|sides| (0..2).zip(sides)) {
            let sum = &mut sums[sum];
            *sum = Self { n: sum.n + more.n, sum: sum.sum + more.sum };
        }
        let [baseline, canary] = sums;
        let are_enough = baseline.n >= LEAST_VALUES && canary.n >= LEAST_VALUES;
        are_enough.then(|| canary.sum / canary.n - baseline.sum / baseline.n)
    }
}

/// Moments of logarithms.
#[derive(Debug, Clone, Copy)]
struct Moments {
    n: f64,
    mean: f64,
    /// Σ (x − mean)².
    squares: f64,
}

impl Moments {
    fn of(side: &SortedSide) -> Option<Self> {
        let weighted: Vec<(f64, f64)> =
            side.to_cells().iter().map(|cell| (cell.at(0.5), cell.mass)).collect();
        let positive = weighted.iter().map(|(value, _)| *value).filter(|value| *value > 0.0);
        let least = positive.fold(f64::INFINITY, f64::min);
        if !least.is_finite() {
            return None;
        }
        let log = |value: f64| value.max(PART_OF_LEAST * least).ln();
        let n: f64 = weighted.iter().map(|(_, count)| count).sum();
        let mean = weighted.iter().map(|(value, count)| count * log(*value)).sum::<f64>() / n;
        let squares = weighted.iter().map(|(value, count)| count * (log(*value) - mean).powi(2)).sum();
        Some(Self { n, mean, squares })
    }
}

impl Effects {
    /// Adds a child.
    pub fn note(&mut self, Effect { theta, w }: Effect) {
        self.add(&Self { children: 1.0, w, w2: w * w, wt: w * theta, wt2: w * theta * theta });
    }

    /// Adds other children.
    pub fn add(&mut self, other: &Self) {
        self.children += other.children;
        self.w += other.w;
        self.w2 += other.w2;
        self.wt += other.wt;
        self.wt2 += other.wt2;
    }

    /// Whether these can be sums over children: finite, and neither Σw² nor (Σwθ)² larger than weights allow.
    pub fn is_possible(&self) -> bool {
        const ROUNDING: f64 = 1.0 + 1e-9;
        let Self { children, w, w2, wt, wt2 } = *self;
        let all = [children, w, w2, wt, wt2].iter().all(|sum| sum.is_finite());
        all && children >= 0.0
            && w >= 0.0
            && wt2 >= 0.0
            && w2 <= w * w * ROUNDING
            && w * w <= children * w2 * ROUNDING
            && wt * wt <= w * wt2 * ROUNDING
    }

    /// Σw − Σw²/Σw, by which τ² moves Q in the mean.
    pub(super) fn spare(&self) -> f64 {
        if self.w > 0.0 { (self.w - self.w2 / self.w).max(0.0) } else { 0.0 }
    }

    pub(super) fn q(&self) -> f64 {
        if self.w > 0.0 { (self.wt2 - self.wt * self.wt / self.w).max(0.0) } else { 0.0 }
    }
}

/// What is known of the children of a judgement: sums over the same children, a stage each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChildEffects(Vec<Effects>);

impl ChildEffects {
    pub fn of(stages: impl IntoIterator<Item = Effects>) -> Self {
        Self(stages.into_iter().filter(|stage| stage.children > 0.0 && stage.is_possible()).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn count(&self) -> f64 {
        self.0.iter().map(|stage| stage.children).fold(0.0, f64::max)
    }

    fn sum(&self, of: fn(&Effects) -> f64) -> f64 {
        self.0.iter().map(of).sum()
    }

    /// Σw² of the children over all stages, at most: the norm of a sum is at most the sum of norms.
    fn w2(&self) -> f64 {
        self.sum(|stage| stage.w2.max(0.0).sqrt()).powi(2)
    }

    /// As how many children of the same weight they count.
    fn effective(&self) -> f64 {
        let (w, w2) = (self.sum(|stage| stage.w), self.w2());
        if w2 > 0.0 { w * w / w2 } else { 0.0 }
    }

    /// An upper bound of the variance between children; `None`: there are too few of them to tell.
    fn variance(&self) -> Option<f64> {
        let freedom = self.sum(|stage| (stage.children - 1.0).max(0.0));
        let spare = self.sum(Effects::spare);
        if self.count() < LEAST_CHILDREN || spare <= 0.0 {
            return None;
        }
        let q = self.sum(Effects::q) * bound(freedom, self.effective());
        Some(((q - freedom) / spare).max(0.0))
    }

    /// What the mean over children has in variance beyond that of their calls; `None`: nothing that is known of.
    pub fn beyond_calls(&self) -> Option<BetweenRuns> {
        let variance = self.variance().filter(|variance| *variance > 0.0)?;
        let w = self.sum(|stage| stage.w);
        let freedom = (self.effective() - 1.0).max(1.0);
        Some(BetweenRuns { variance: variance * self.w2() / (w * w), freedom })
    }

    /// What is to be shown of them; `None`: nothing is known of children.
    pub fn between(&self) -> Option<Between> {
        (!self.is_empty()).then(|| Between {
            children: self.count().round() as u64,
            effective: self.effective(),
            deviation: self.variance().map(f64::sqrt),
        })
    }
}

/// By what Q is multiplied, so that the variance between children is an upper bound.
pub(super) fn bound(freedom: f64, effective: f64) -> f64 {
    let p = if effective >= MANY { UNDERESTIMATED } else { UNDERESTIMATED_OF_FEW };
    freedom / chi_squared(freedom, p)
}

/// The quantile p of χ² with so many degrees of freedom (Wilson and Hilferty 1931).
pub(super) fn chi_squared(freedom: f64, p: f64) -> f64 {
    let part = 2.0 / (9.0 * freedom);
    freedom * (1.0 - part - normal_z(p) * part.sqrt()).powi(3)
}
