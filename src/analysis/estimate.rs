//! How large the difference is: Hodges and Lehmann's estimate, and the interval that inverts the test of the verdict.
//!
//! The rank sum of the canary against baseline × ρ falls with ρ. Where it crosses zero lies the estimate (Hodges and
//! Lehmann 1963: the median of all quotients), where its tails reach alpha the ends of the interval (Lehmann 1963). The
//! crossings are searched for instead of selected among the mn quotients (Monahan 1984): each step costs O(n) on sorted
//! values, and the same search serves strata, histograms, tails and rates.

use std::cell::RefCell;

use super::{
    data::{Counts, Stratum},
    dist::normal_z,
    exact::Distributions,
    hypothesis::{Hypothesis, HypothesisKind, Inflation},
    interval_merging::Group,
    rank::{Map, rank_sum},
    root::falling,
    spread::{SortedSide, quantile},
    sums::Tails,
};

/// Least probability that is told from the next.
const LEAST_P: f64 = 1e-300;

/// Largest ratio searched for, as a logarithm: a factor of 10^20.
const MAX_LN_RATIO: f64 = 46.0;

/// How far beyond the values a shift is searched for, in their range.
const MAX_SHIFT: f64 = 4.0;

/// Up to so many values, places are searched for to the last digit and ends of a plateau too: with more of them both are
/// narrower than the interval by far.
const FEW_VALUES: f64 = 10_000.0;

/// How exactly a place is searched for among more values, in parts of the first step.
const WIDTH_AMONG_MANY: f64 = 1e-6;

/// Many values are thinned to about so many a side, to find out where to search.
const THINNED: usize = 16_384;

/// How exactly a place is searched for among them, in parts of the first step.
const WIDTH_AMONG_THINNED: f64 = 1e-3;

/// The first step from a place found among thinned values, in parts of the distance between the bounds.
const STEP_AFTER_THINNING: f64 = 0.002;

/// An estimate with its bounds, in logarithms of a ratio or as a shift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub middle: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// What is compared at a trial ratio.
#[derive(Debug)]
pub enum Compared<'a> {
    Groups(&'a [Group]),
    Counts(Vec<(Counts, Counts)>),
}

impl<'a> Compared<'a> {
    pub fn counts(hypothesis: &Hypothesis, strata: &'a [Stratum]) -> Self {
        Self::Counts(hypothesis.pairs(strata))
    }
}

/// The search over ratios or shifts.
#[derive(Debug)]
pub struct Search<'a> {
    pub hypothesis: &'a Hypothesis,
    pub compared: Compared<'a>,
    pub inflation: Inflation,
    pub relative: bool,
    /// Where samples are small.
    pub exact: RefCell<Distributions>,
}

impl Search<'_> {
    fn tails(&self, x: f64) -> Tails {
        self.trial(x).tails(self.inflation)
    }

    /// The hypothesis that the truth is `x`.
    fn trial(&self, x: f64) -> Hypothesis {
        let mut trial = self.hypothesis.blank();
        trial.high = true;
        match &self.compared {
            Compared::Groups(groups) => {
                for group in *groups {
                    trial.take(group, self.map(x), &mut self.exact.borrow_mut());
                }
            }
            Compared::Counts(pairs) => trial.take_counts(pairs, x.exp()),
        }
        trial
    }

    fn map(&self, x: f64) -> Map {
        if self.relative { Map::scale(x.exp()) } else { Map::shift(x) }
    }

    /// The estimate, and the bounds that one-sided tests at `alpha` exclude.
    pub fn estimate(&self, alpha: f64) -> Option<Estimate> {
        let places = self.places(alpha)?;
        let middle = self.middle(&places)?;
        let wanted = normal_z(alpha);
        let score = |p: f64| normal_z(p.max(LEAST_P));
        let SearchPlaces { low, high, .. } = places.around(middle);
        if let (true, Compared::Groups(groups)) = (places.thinned, &self.compared) {
            // Between these places and the bounds the statistic alone changes, not its moments.
            let tails = |trial: &Hypothesis, x: f64| {
                trial.clone().with_statistic(self.rank_statistic(groups, x)).tails(self.inflation)
            };
            let [at_low, at_high] = [low, high].map(|x| self.trial(x));
            let low = places.falling(|x| score(tails(&at_low, x).upper) - wanted, low);
            let high = places.falling(|x| wanted - score(tails(&at_high, x).lower), high);
            return Some(Estimate { middle, low, high });
        }
        let low = places.falling(|x| score(self.tails(x).upper) - wanted, low);
        let high = places.falling(|x| wanted - score(self.tails(x).lower), high);
        Some(Estimate { middle, low, high })
    }

    /// Where the statistic crosses zero; the middle of the stretch, where it stays there for a while.
    fn middle(&self, places: &SearchPlaces) -> Option<f64> {
        let statistic = |x: f64| match (&self.compared, self.hypothesis.kind) {
            (Compared::Groups(groups), HypothesisKind::Rank | HypothesisKind::Rest) => {
                self.rank_statistic(groups, x)
            }
            (Compared::Counts(_), _)
            | (
                Compared::Groups(_),
                HypothesisKind::NonZero | HypothesisKind::Tail { .. } | HypothesisKind::Rate,
            ) => self.tails(x).z,
        };
        let down = places.falling(statistic, places.middle)?;
        if self.has_many() {
            return Some(down);
        }
        let leaves = |x: f64| if statistic(x) < 0.0 { -1.0 } else { 1.0 };
        let up = places.falling(leaves, down).unwrap_or(down);
        Some(0.5 * (down + up))
    }

    fn has_many(&self) -> bool {
        let Compared::Groups(groups) = &self.compared else { return true };
        groups.iter().map(|g| g.baseline.count() + g.canary.count()).sum::<f64>() > FEW_VALUES
    }

    fn rank_statistic(&self, groups: &[Group], x: f64) -> f64 {
        let of = |group: &Group| {
            let s = rank_sum(&group.baseline, &group.canary, self.map(x));
            s / (group.baseline.count() + group.canary.count() + 1.0)
        };
        groups.iter().map(of).sum()
    }

    /// Where to search.
    fn places(&self, alpha: f64) -> Option<SearchPlaces> {
        let groups = match &self.compared {
            Compared::Counts(_) => return Some(SearchPlaces::about(0.0, 0.1, MAX_LN_RATIO, 0.0)),
            Compared::Groups(groups) => *groups,
        };
        let largest = groups.iter().max_by(|a, b| weight(a).total_cmp(&weight(b)))?;
        let (x, y) = (quartiles(&largest.baseline)?, quartiles(&largest.canary)?);
        let precision = weight(largest).max(1.0).sqrt();
        let (start, step, limit) = if self.relative {
            let start = if x[1] > 0.0 && y[1] > 0.0 { (y[1] / x[1]).ln() } else { 0.0 };
            let spread = if x[0] > 0.0 { (x[2] / x[0]).ln() } else { 1.0 };
            (start, (spread / precision).clamp(1e-6, 1.0), MAX_LN_RATIO)
        } else {
            let range = (x[4].max(y[4]) - x[3].min(y[3])).max(f64::MIN_POSITIVE);
            let step = ((x[2] - x[0]) / precision).max(1e-6 * range);
            (y[1] - x[1], step, MAX_SHIFT * range)
        };
        let width = if self.has_many() { WIDTH_AMONG_MANY * step } else { 0.0 };
        let rough = SearchPlaces::about(start, step, limit, width);
        let ranks = matches!(self.hypothesis.kind, HypothesisKind::Rank | HypothesisKind::Rest);
        let better = if ranks && self.has_many() { self.thinned(groups, &rough, alpha) } else { None };
        Some(better.unwrap_or(rough))
    }

    /// The places among a few of the values, at even distances in their order. The statistic of these is that of all to
    /// within a small part of its deviation.
    fn thinned(&self, groups: &[Group], rough: &SearchPlaces, alpha: f64) -> Option<SearchPlaces> {
        let largest = groups.iter().map(|g| g.baseline.count().max(g.canary.count())).fold(0.0, f64::max);
        let every = largest as usize / THINNED;
        if every < 2 {
            return None;
        }
        let thin: Vec<(Group, f64)> = groups.iter().map(|group| thin(group, every)).collect();
        let statistic = |x: f64| -> f64 {
            let of = |(group, weight): &(Group, f64)| {
                weight * rank_sum(&group.baseline, &group.canary, self.map(x))
            };
            thin.iter().map(of).sum()
        };
        let deviation = (self.hypothesis.sums().variance() * self.inflation.factor).sqrt();
        let far = normal_z(alpha) * deviation;
        let rough = SearchPlaces { width: WIDTH_AMONG_THINNED * rough.step, ..*rough };
        let middle = rough.falling(statistic, rough.middle)?;
        let low = rough.falling(|x| statistic(x) - far, middle - rough.step)?;
        let high = rough.falling(|x| statistic(x) + far, middle + rough.step)?;
        let step = STEP_AFTER_THINNING * (high - low);
        let width = WIDTH_AMONG_MANY * rough.step;
        (step > 0.0).then_some(SearchPlaces { middle, low, high, step, width, thinned: true, ..rough })
    }
}

/// Where to search for the estimate and its bounds.
#[derive(Debug, Clone, Copy)]
struct SearchPlaces {
    middle: f64,
    low: f64,
    high: f64,
    /// The first step of a search, how far it goes, and how exactly.
    step: f64,
    limit: f64,
    width: f64,
    /// The bounds are known too, not the middle alone.
    thinned: bool,
}

impl SearchPlaces {
    fn about(middle: f64, step: f64, limit: f64, width: f64) -> Self {
        Self { middle, low: middle - step, high: middle + step, step, limit, width, thinned: false }
    }

    /// When the middle has been found.
    fn around(&self, middle: f64) -> Self {
        if self.thinned { *self } else { Self::about(middle, self.step, self.limit, self.width) }
    }

    fn falling(&self, f: impl Fn(f64) -> f64, start: f64) -> Option<f64> {
        falling(f, start, self.step, self.limit, self.width)
    }
}

/// Every so many values of each side, and what a pair of them counts for in the statistic.
fn thin(group: &Group, every: usize) -> (Group, f64) {
    let side = |side: &SortedSide| match side {
        SortedSide::Points(values) if values.len() >= 2 * every => {
            SortedSide::Points(values.iter().skip(every / 2).step_by(every).copied().collect())
        }
        SortedSide::Points(_) | SortedSide::Cells(_) => side.clone(),
    };
    let (m, n) = (group.baseline.count(), group.canary.count());
    let thin = Group { baseline: side(&group.baseline), canary: side(&group.canary), ..*group };
    let pairs = (thin.baseline.count() * thin.canary.count()).max(1.0);
    (thin, m * n / pairs / (m + n + 1.0))
}

/// Of the smaller side.
fn weight(group: &Group) -> f64 {
    group.baseline.count().min(group.canary.count())
}

/// Quartiles, least and largest value.
fn quartiles(side: &SortedSide) -> Option<[f64; 5]> {
    let all = [0.25, 0.5, 0.75, 0.0, 1.0].map(|q| quantile(side, q));
    let [a, b, c, d, e] = all;
    Some([a?, b?, c?, d?, e?])
}

/// P(Y > X) + ½ P(Y = X) over all pairs of a stratum.
pub fn superiority(groups: &[Group]) -> Option<f64> {
    let pairs: f64 = groups.iter().map(|g| g.baseline.count() * g.canary.count()).sum();
    let s: f64 = groups.iter().map(|g| rank_sum(&g.baseline, &g.canary, Map::IDENTITY)).sum();
    (pairs > 0.0).then(|| 0.5 + s / pairs)
}
