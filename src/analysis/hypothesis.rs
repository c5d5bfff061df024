//! One null hypothesis of a metric: its sums over strata, its part of alpha and its looks.

use serde::{Deserialize, Serialize};

use super::{
    alpha_spending::SpentBounds,
    anytime_test::ln_mixture,
    clusters::Clusters,
    data::{Counts, Sample, Stratum},
    design::Tolerance,
    dist::{Lattice, student_sf},
    early_pass::Passing,
    exact::{Distributions, MAX_TOTAL_BETWEEN_LOOKS},
    interval_merging::{Group, Rule, interval_from, next_group},
    rank::{Map, walk, weighted_rank_sums},
    rate::{Independent, Rates, ln_above},
    spread::Step,
    sums::{Sums, Tails},
    tail::tail_sums,
};

/// Least values beyond the pooled quantile in a group.
const LEAST_BEYOND: f64 = 5.0;

/// Half the relative width over which the slope of a statistic is taken.
pub(super) const SLOPE: f64 = 0.05;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HypothesisKind {
    Rank,
    /// Ranks of the values that aren't 0.
    Rest,
    /// The share of values that aren't 0.
    NonZero,
    Tail {
        q: f64,
    },
    Rate,
}

/// A null hypothesis and what is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hypothesis {
    pub kind: HypothesisKind,
    /// Higher is worse.
    pub high: bool,
    pub tolerance: Tolerance,
    /// Its part of the metric's alpha.
    pub alpha: f64,
    /// Strata that are in the sums.
    taken: usize,
    groups: u64,
    sums: Sums,
    /// ln of the ways in which ranked values could have been shared out among the sides: nothing is less probable.
    ln_ways: f64,
    /// Exact tails, while there is one group that is small.
    exact: Option<(f64, f64)>,
    lattice: Lattice,
    beyond: u64,
    rates: Rates,
    /// Where calls depend on each other.
    #[serde(default, skip_serializing_if = "Clusters::is_empty")]
    clusters: Clusters,
    /// Variance for which the mixture is made, fixed at the first look.
    rho: Option<f64>,
    pub bounds: SpentBounds,
    /// The same of "the rate is the floor or less".
    #[serde(default, skip_serializing_if = "SpentBounds::is_empty")]
    bounds_of_floor: SpentBounds,
    pub crossed: bool,
    /// Looks at whether it is safe, where it may pass early.
    #[serde(default, skip_serializing_if = "Passing::is_empty")]
    pub passing: Passing,
    /// The same where what the values can't tell speaks against a pass; `None`: they tell everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strict: Option<Box<Hypothesis>>,
    /// The errors with which the groups' locations are known, in the tolerance's unit, each times its values.
    #[serde(default, skip_serializing_if = "is_zero")]
    errors: f64,
}

/// Serde hands over a reference.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// What makes the variance larger than that of exchangeable values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inflation {
    pub factor: f64,
    /// Degrees of freedom with which the factor is known.
    pub freedom: f64,
}

impl Inflation {
    pub const NONE: Self = Self { factor: 1.0, freedom: f64::INFINITY };
}

impl Hypothesis {
    pub fn new(kind: HypothesisKind, high: bool, tolerance: Tolerance, alpha: f64) -> Self {
        Self {
            kind,
            high,
            tolerance,
            alpha,
            taken: 0,
            groups: 0,
            sums: Sums::default(),
            ln_ways: 0.0,
            exact: None,
            lattice: Lattice::default(),
            beyond: 0,
            rates: Rates::default(),
            clusters: Clusters::default(),
            rho: None,
            bounds: SpentBounds::default(),
            bounds_of_floor: SpentBounds::default(),
            crossed: false,
            passing: Passing::default(),
            strict: None,
            errors: 0.0,
        }
    }

    /// The same without any data: to be judged at another tolerance.
    #[must_use]
    pub fn blank(&self) -> Self {
        Self::new(self.kind, self.high, self.tolerance, self.alpha)
    }

    /// The same with another statistic.
    #[must_use]
    pub fn with_statistic(mut self, s: f64) -> Self {
        self.sums.s = s;
        self
    }

    /// What the baseline is compared as: at the boundary of the hypothesis.
    pub fn map(&self) -> Map {
        match (self.tolerance, self.high) {
            (Tolerance::Ratio(r), true) => Map::scale(1.0 + r),
            (Tolerance::Ratio(r), false) => Map::scale(1.0 - r),
            (Tolerance::Shift(s), true) => Map::shift(s),
            (Tolerance::Shift(s), false) => Map::shift(-s),
        }
    }

    pub fn rule(&self) -> Rule {
        let least_total = match self.kind {
            HypothesisKind::Tail { q } => (LEAST_BEYOND / (1.0 - q).max(1e-9) - 1e-6).ceil() as u64,
            HypothesisKind::Rank | HypothesisKind::Rest | HypothesisKind::NonZero | HypothesisKind::Rate => 0,
        };
        Rule { least_total, zero_free: self.kind == HypothesisKind::Rest }
    }

    /// Takes in the strata that are complete; at the end whatever there is. Gives the groups back if they are all that
    /// there is to the hypothesis: an estimate needs them again.
    pub fn advance(&mut self, strata: &[Stratum], steps: &[Step; 2], end: bool, once: bool) -> Vec<Group> {
        if matches!(self.kind, HypothesisKind::Rate | HypothesisKind::NonZero) {
            let new = &strata[self.taken.min(strata.len())..];
            let pairs = self.pairs(new);
            self.note_intervals(new, steps);
            self.taken = self.taken.max(strata.len());
            self.take_counts(&pairs, self.map().scale);
            return Vec::new();
        }
        let (first, mut groups) = (self.taken == 0, Vec::new());
        let mut exact = if once { Distributions::at_once() } else { Distributions::between_looks() };
        while let Some(range) = next_group(strata, self.taken, self.rule(), end) {
            self.taken = range.end;
            self.note_clusters(&strata[range.clone()], steps);
            let group = Group::of(&strata[range], self.rule(), steps);
            self.take_within(&group, &mut exact);
            groups.push(group);
        }
        if first && self.taken == strata.len() { groups } else { Vec::new() }
    }

    /// Adds a group at the boundary of the hypothesis: for a fail beyond the tolerance by what the values can't tell, for a
    /// pass within it by as much.
    fn take_within(&mut self, group: &Group, exact: &mut Distributions) {
        let error = group.error_in(self.tolerance);
        if error > 0.0 && self.strict.is_none() {
            self.strict = Some(Box::new(self.clone()));
        }
        let away = if self.high { error } else { -error };
        let map = self.map();
        if let Some(strict) = &mut self.strict {
            strict.take(group, map.moved(self.tolerance, -away), exact);
        }
        self.take(group, map.moved(self.tolerance, away), exact);
        self.errors += error * (group.baseline.count() + group.canary.count());
    }

    /// The error with which the locations are known, in the tolerance's unit: what is below it can't be told.
    pub fn error(&self) -> f64 {
        let values = self.sums.baseline + self.sums.canary;
        if values > 0.0 { self.errors / values } else { 0.0 }
    }

    /// The hypothesis as it is judged for a pass: more strictly, where that makes a difference.
    pub fn for_pass(&self) -> &Self {
        self.strict.as_deref().unwrap_or(self)
    }

    fn note_clusters(&mut self, strata: &[Stratum], steps: &[Step; 2]) {
        let mut clusters = std::mem::take(&mut self.clusters);
        clusters.note(self, strata, steps, self.map());
        self.clusters = clusters;
    }

    fn note_intervals(&mut self, strata: &[Stratum], steps: &[Step; 2]) {
        let mut from = 0;
        while from < strata.len() {
            let interval = interval_from(strata, from);
            from = interval.end;
            self.note_clusters(&strata[interval], steps);
        }
    }

    /// What calls that depend on each other add to the variance. Too few groups to tell are refused with how many had calls.
    pub fn between_groups(&self) -> Result<Inflation, usize> {
        self.clusters.inflation(self.sums.variance())
    }

    /// What a rate sees of strata, an interval each.
    pub fn pairs(&self, strata: &[Stratum]) -> Vec<(Counts, Counts)> {
        let mut pairs = Vec::new();
        let mut from = 0;
        while from < strata.len() {
            let interval = interval_from(strata, from);
            from = interval.end;
            let side = |side: fn(&Stratum) -> &Sample| {
                let counts = strata[interval.clone()].iter().map(|stratum| self.counts(side(stratum)));
                counts.fold(Counts::default(), |sum, more| Counts {
                    calls: sum.calls + more.calls,
                    events: sum.events + more.events,
                })
            };
            pairs.push((side(|s| &s.baseline), side(|s| &s.canary)));
        }
        pairs
    }

    /// Adds counts of strata, at the ratio that the hypothesis is judged at.
    pub fn take_counts(&mut self, pairs: &[(Counts, Counts)], ratio: f64) {
        for (baseline, canary) in pairs {
            self.rates.add(*baseline, *canary, ratio);
        }
        self.sums = self.rates.sums;
    }

    /// What a rate sees of a sample.
    pub fn counts(&self, sample: &Sample) -> Counts {
        match sample {
            Sample::Counts(counts) => *counts,
            Sample::Values(values) => Counts {
                calls: values.len() as u64,
                events: values.iter().filter(|value| **value != 0.0).count() as u64,
            },
            Sample::Histogram(histogram) => {
                Counts { calls: histogram.count(), events: histogram.zero_free() }
            }
            Sample::Measured(values) => {
                Counts { calls: values.count(), events: values.count() - values.zeros() }
            }
        }
    }

    /// Adds a group, with the baseline mapped.
    pub fn take(&mut self, group: &Group, map: Map, exact: &mut Distributions) {
        let sums = match self.kind {
            HypothesisKind::Tail { q } => {
                let (sums, beyond) = tail_sums(&group.baseline, &group.canary, map, q, &mut self.lattice);
                self.beyond += beyond;
                sums
            }
            HypothesisKind::Rank | HypothesisKind::Rest | HypothesisKind::NonZero | HypothesisKind::Rate => {
                weighted_rank_sums(&group.baseline, &group.canary, map)
            }
        };
        let (m, n) = (sums.baseline, sums.canary);
        if m < 1.0 || n < 1.0 {
            return;
        }
        self.groups += 1;
        self.sums.add(&sums);
        self.ln_ways += libm::lgamma(m + n + 1.0) - libm::lgamma(m + 1.0) - libm::lgamma(n + 1.0);
        let ranks = matches!(self.kind, HypothesisKind::Rank | HypothesisKind::Rest);
        self.exact = None;
        if ranks && self.groups == 1 && exact.reaches(m + n) {
            let mut order = Vec::new();
            walk(&group.baseline, &group.canary, map, |element| order.push(element));
            self.exact = exact.tails(&order);
        }
    }

    /// Tails, with `upper` for what is worse.
    pub fn tails(&self, inflation: Inflation) -> Tails {
        let tails = self.plain_tails(inflation);
        if self.high { tails } else { tails.flipped() }
    }

    fn plain_tails(&self, inflation: Inflation) -> Tails {
        let plain = inflation == Inflation::NONE;
        let mut tails = match self.kind {
            HypothesisKind::Rate | HypothesisKind::NonZero if plain => return self.rates.tails(),
            HypothesisKind::Tail { .. } | HypothesisKind::Rate | HypothesisKind::NonZero => {
                self.sums.tails(inflation.factor, 0.5)
            }
            HypothesisKind::Rank | HypothesisKind::Rest => {
                self.sums.tails(inflation.factor, self.half_a_step())
            }
        };
        if self.sums.v <= 0.0 {
            return Tails::NOTHING;
        }
        if inflation.freedom.is_finite() {
            tails.upper = student_sf(tails.z, inflation.freedom);
            tails.lower = student_sf(-tails.z, inflation.freedom);
        }
        let exact = match self.kind {
            HypothesisKind::Tail { .. } => self.lattice.tails(self.beyond),
            HypothesisKind::Rank | HypothesisKind::Rest | HypothesisKind::NonZero | HypothesisKind::Rate => {
                self.exact
            }
        };
        if let (true, Some((upper, lower))) = (plain, exact) {
            return Tails { upper, lower, ..tails };
        }
        let least = match self.kind {
            HypothesisKind::Rate | HypothesisKind::NonZero => self.rates.least(),
            HypothesisKind::Rank | HypothesisKind::Rest | HypothesisKind::Tail { .. } => {
                [(-self.ln_ways).exp(); 2]
            }
        };
        Tails { upper: tails.upper.max(least[0]), lower: tails.lower.max(least[1]), ..tails }
    }

    /// Half of what a rank sum over several groups moves by, as far as a single group of so many values is judged exactly; beyond
    /// that it makes no difference.
    fn half_a_step(&self) -> f64 {
        let (values, groups) = (self.sums.baseline + self.sums.canary, self.groups as f64);
        if values <= MAX_TOTAL_BETWEEN_LOOKS { 0.5 * groups / (values + groups) } else { 0.0 }
    }

    /// The variance gathered so far, with what inflates it.
    pub fn information(&self, inflation: Inflation) -> f64 {
        self.sums.v / inflation.factor
    }

    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    pub fn groups(&self) -> u64 {
        self.groups
    }

    /// What is held against a floor: the higher rate, if this is what is worse.
    pub fn against_floor(&self) -> Independent {
        let (side, counts) = if self.high { (1, self.rates.canary) } else { (0, self.rates.baseline) };
        let factor = if self.clusters.is_empty() {
            1.0
        } else if counts.events == 0 {
            self.clusters.calls_of_a_user(side)
        } else {
            self.clusters.inflation(self.sums.variance()).map_or(1.0, |inflation| inflation.factor)
        };
        Independent::of(counts, factor)
    }

    /// A look at which `alpha_spent` of its alpha is gone. True once it was crossed, and the rate was above its floor by more than
    /// chance at the same look: both have to be shown, so each has the whole of alpha (Berger 1982).
    pub fn look(&mut self, inflation: Inflation, alpha_spent: f64, last: bool, floor: Option<f64>) -> bool {
        let information = self.information(inflation);
        if last || self.bounds.worthwhile(information) {
            let p = self.tails(inflation).upper;
            let is_above = floor.is_none_or(|floor| {
                let counts = self.against_floor();
                let (information, p) = (counts.information(floor), counts.upper(floor));
                self.bounds_of_floor.look(information, alpha_spent, p)
            });
            // Nothing was gathered: nothing to be found, whatever was spent.
            self.crossed |= self.bounds.look(information, alpha_spent, p) && is_above && self.sums.v > 0.0;
        }
        self.crossed
    }

    /// A look of a judgement without an end.
    pub fn look_anytime(&mut self, inflation: Inflation, floor: Option<f64>) -> bool {
        let proxy = self.sums.proxy * inflation.factor;
        if proxy > 0.0 {
            let rho = *self.rho.get_or_insert(proxy);
            let is_above =
                floor.is_none_or(|floor| ln_above(self.against_floor(), floor) >= -self.alpha.ln());
            self.crossed |= is_above && self.ln_evidence(rho, inflation) >= -self.alpha.ln();
        }
        self.crossed
    }

    fn ln_evidence(&self, rho: f64, inflation: Inflation) -> f64 {
        let s = if self.high { self.sums.s } else { -self.sums.s };
        ln_mixture(s, self.sums.proxy * inflation.factor, rho)
    }

    /// The probability of ever seeing as much under the null, of a judgement without an end.
    pub fn anytime_p(&self, inflation: Inflation) -> f64 {
        self.rho.map_or(1.0, |rho| (-self.ln_evidence(rho, inflation)).exp().min(1.0))
    }
}
