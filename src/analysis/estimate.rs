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
    group::Group,
    hypothesis::{Hypothesis, Inflation, Kind},
    rank::{Map, rank_sum},
    root::falling,
    spread::Side,
    sums::Tails,
};

/// Least probability that is told from the next.
const LEAST_P: f64 = 1e-300;

/// Largest ratio searched for, as a logarithm: a factor of 10^20.
const MAX_LN_RATIO: f64 = 46.0;

/// How far beyond the values a shift is searched for, in their range.
const MAX_SHIFT: f64 = 4.0;

/// Ends of a plateau are searched for up to so many values: with more of them it is narrower than the interval by far.
const MAX_PLATEAU_VALUES: f64 = 10_000.0;

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
        trial.tails(self.inflation)
    }

    fn map(&self, x: f64) -> Map {
        if self.relative { Map::scale(x.exp()) } else { Map::shift(x) }
    }

    /// The estimate, and the bounds that one-sided tests at `alpha` exclude.
    pub fn estimate(&self, alpha: f64) -> Option<Estimate> {
        let (start, step, limit) = self.start()?;
        let middle = self.middle(start, step, limit)?;
        let wanted = normal_z(alpha);
        let score = |p: f64| normal_z(p.max(LEAST_P));
        let low = falling(|x| score(self.tails(x).upper) - wanted, middle - step, step, limit);
        let high = falling(|x| wanted - score(self.tails(x).lower), middle + step, step, limit);
        Some(Estimate { middle, low, high })
    }

    /// Where the statistic crosses zero; the middle of the stretch, where it stays there for a while.
    fn middle(&self, start: f64, step: f64, limit: f64) -> Option<f64> {
        let statistic = |x: f64| match (&self.compared, self.hypothesis.kind) {
            (Compared::Groups(groups), Kind::Rank | Kind::Rest) => self.rank_statistic(groups, x),
            _ => self.tails(x).z,
        };
        let values = match &self.compared {
            Compared::Groups(groups) => groups.iter().map(|g| g.baseline.count() + g.canary.count()).sum(),
            Compared::Counts(_) => f64::INFINITY,
        };
        let down = falling(statistic, start, step, limit)?;
        if values > MAX_PLATEAU_VALUES {
            return Some(down);
        }
        let leaves = |x: f64| if statistic(x) < 0.0 { -1.0 } else { 1.0 };
        let up = falling(leaves, down, step, limit).unwrap_or(down);
        Some(0.5 * (down + up))
    }

    fn rank_statistic(&self, groups: &[Group], x: f64) -> f64 {
        let of = |group: &Group| {
            let s = rank_sum(&group.baseline, &group.canary, self.map(x));
            s / (group.baseline.count() + group.canary.count() + 1.0)
        };
        groups.iter().map(of).sum()
    }

    /// Where the search begins, its first step, and how far it goes.
    fn start(&self) -> Option<(f64, f64, f64)> {
        let groups = match &self.compared {
            Compared::Counts(_) => return Some((0.0, 0.1, MAX_LN_RATIO)),
            Compared::Groups(groups) => *groups,
        };
        let largest = groups.iter().max_by(|a, b| weight(a).total_cmp(&weight(b)))?;
        let (x, y) = (quartiles(&largest.baseline)?, quartiles(&largest.canary)?);
        let precision = weight(largest).max(1.0).sqrt();
        if self.relative {
            let start = if x[1] > 0.0 && y[1] > 0.0 { (y[1] / x[1]).ln() } else { 0.0 };
            let spread = if x[0] > 0.0 { (x[2] / x[0]).ln() } else { 1.0 };
            return Some((start, (spread / precision).clamp(1e-6, 1.0), MAX_LN_RATIO));
        }
        let range = (x[4].max(y[4]) - x[3].min(y[3])).max(f64::MIN_POSITIVE);
        let step = ((x[2] - x[0]) / precision).max(1e-6 * range);
        Some((y[1] - x[1], step, MAX_SHIFT * range))
    }
}

/// Of the smaller side.
fn weight(group: &Group) -> f64 {
    group.baseline.count().min(group.canary.count())
}

/// Quartiles, least and largest value.
fn quartiles(side: &Side) -> Option<[f64; 5]> {
    let all = [0.25, 0.5, 0.75, 0.0, 1.0].map(|q| quantile(side, q));
    let [a, b, c, d, e] = all;
    Some([a?, b?, c?, d?, e?])
}

/// A value below which the share `q` lies.
pub fn quantile(side: &Side, q: f64) -> Option<f64> {
    match side {
        Side::Points(values) => {
            let last = values.len().checked_sub(1)?;
            // Linear between order statistics (Hyndman and Fan 1996, type 7).
            let at = q * last as f64;
            let below = values[at.floor() as usize];
            Some(below + (values[at.ceil() as usize] - below) * at.fract())
        }
        Side::Cells(cells) => {
            let wanted = q * side.count();
            let mut before = 0.0;
            for cell in cells {
                if before + cell.mass >= wanted {
                    return Some(cell.at(((wanted - before) / cell.mass).clamp(0.0, 1.0)));
                }
                before += cell.mass;
            }
            cells.last().map(|cell| cell.hi)
        }
    }
}

/// P(Y > X) + ½ P(Y = X) over all pairs of a stratum.
pub fn superiority(groups: &[Group]) -> Option<f64> {
    let pairs: f64 = groups.iter().map(|g| g.baseline.count() * g.canary.count()).sum();
    let s: f64 = groups.iter().map(|g| rank_sum(&g.baseline, &g.canary, Map::IDENTITY)).sum();
    (pairs > 0.0).then(|| 0.5 + s / pairs)
}
