//! How often a test of equal versions passes, and how often one of a changed version fails.

use super::{
    Data, Power,
    children::{Among, Case, student_t},
    rates::{Events, Test},
    series::Series,
    shape::Shape,
};
use crate::{
    design::{Question, Tolerance},
    dist::normal_sf,
    hypothesis::SLOPE,
};

/// Places and weights that stand for a normal variable (Gauss and Hermite).
const NORMAL: [(f64, f64); 3] =
    [(-1.732_050_807_568_877_2, 1.0 / 6.0), (0.0, 2.0 / 3.0), (1.732_050_807_568_877_2, 1.0 / 6.0)];

/// Variances of a comparison, in units of that of independent values.
#[derive(Debug, Clone, Copy)]
struct Factors {
    /// That is reckoned with.
    reckoned: f64,
    real: f64,
}

impl Factors {
    const NONE: Self = Self { reckoned: 1.0, real: 1.0 };

    fn of(series: &Series, points: u64, share: f64) -> Self {
        Self { reckoned: series.seeming_factor(points, share), real: series.factor() }
    }
}

impl Power {
    /// The share of equal versions that are found to be within the tolerance in one direction.
    pub(super) fn pass(&self, high: bool, calls: u64) -> f64 {
        match &self.data {
            Data::Events(events) => self.pass_events(*events, high, calls),
            Data::Values(values) => self.pass_values(values, high, calls as f64, Factors::NONE),
            Data::Parts { present, values } => {
                let both = calls as f64 * present.rate;
                self.pass_events(*present, high, calls) * self.pass_values(values, high, both, Factors::NONE)
            }
            Data::Series { series, values } => {
                let factors = Factors::of(series, calls, self.share);
                series.seem_enough(calls, self.share) * self.pass_values(values, high, calls as f64, factors)
            }
        }
    }

    /// The share of versions changed by so much that fail in one direction.
    pub(super) fn fail(&self, high: bool, calls: u64, change: f64) -> f64 {
        match &self.data {
            Data::Events(events) => self.fail_events(*events, high, calls, change),
            Data::Values(values) => self.fail_values(values, high, calls as f64, change, Factors::NONE),
            Data::Parts { present, values } => {
                self.fail_values(values, high, calls as f64 * present.rate, change, Factors::NONE)
            }
            Data::Series { series, values } => {
                let factors = Factors::of(series, calls, self.share);
                series.seem_enough(calls, self.share)
                    * self.fail_values(values, high, calls as f64, change, factors)
            }
        }
    }

    fn pass_values(&self, values: &Shape, high: bool, calls: f64, factors: Factors) -> f64 {
        let within = self.boundary(high) + if high { -values.error() } else { values.error() };
        let distance = -self.values_beyond(values, high, calls, within, self.unchanged());
        let slope = self.slope(values, high, calls);
        let alpha = self.level_of_pass;
        self.on_average(&self.cases(values, calls, slope), slope, factors, alpha, |reckoned, real, z| {
            normal_sf((z * reckoned - distance) / real)
        })
    }

    fn fail_values(&self, values: &Shape, high: bool, calls: f64, change: f64, factors: Factors) -> f64 {
        let beyond = self.boundary(high) + if high { values.error() } else { -values.error() };
        let distance = self.values_beyond(values, high, calls, beyond, change);
        let slope = self.slope(values, high, calls);
        self.on_average(&self.cases(values, calls, slope), slope, factors, self.level, |reckoned, real, z| {
            normal_sf((z * reckoned - distance) / real)
        })
    }

    /// Over the cases, each with the standard deviation that is reckoned with, the one there is, and the score that is
    /// demanded. What differs from run to run grows with the slope of the statistic, and isn't reduced by traffic.
    fn on_average(
        &self,
        cases: &[Case],
        slope: f64,
        factors: Factors,
        level: f64,
        of: impl Fn(f64, f64, f64) -> f64,
    ) -> f64 {
        let (squared, mut score) = (slope * slope, (f64::NAN, 0.0));
        let each = cases.iter().map(|case| {
            // Few numbers of degrees of freedom, and each is asked for in a row.
            if score.0.to_bits() != case.freedom.to_bits() {
                score = (case.freedom, student_t(level, case.freedom));
            }
            let deviation =
                |factor: f64, variance: f64| (factor + (self.between_runs + variance) * squared).sqrt();
            let (reckoned, real) = (factors.reckoned, factors.real);
            case.probability * of(deviation(reckoned, case.assumed), deviation(real, case.real), score.1)
        });
        each.sum()
    }

    fn cases(&self, values: &Shape, calls: f64, slope: f64) -> Vec<Case> {
        let Some(among) = &self.among else { return vec![Case::ALONE] };
        let pairs = self.pairs(calls);
        // Of children that are alike each varies as the fleet does.
        let of_fleet = values.ln_variance().map_or(slope * slope / pairs, |variance| 1.0 / variance);
        among.cases(among.heard_values(calls, self.share, pairs, of_fleet))
    }

    /// N c (1 − c).
    fn pairs(&self, calls: f64) -> f64 {
        calls * self.share * (1.0 - self.share)
    }

    fn pass_events(&self, events: Events, high: bool, calls: u64) -> f64 {
        let alpha = self.level_of_pass;
        let boundary = self.boundary(high);
        // A floor is another way to be safe, and shares alpha with the first.
        let floor = self.design.floor();
        let level = if floor.is_some() { 0.5 * alpha } else { alpha };
        let floor = floor.filter(|_| high).map(|floor| (floor, level));
        self.over_events(events, calls, boundary, level, |change, test| {
            events.pass(calls, boundary, change, floor, test)
        })
    }

    fn fail_events(&self, events: Events, high: bool, calls: u64, change: f64) -> f64 {
        let boundary = self.boundary(high);
        let floor = self.design.floor().map(|floor| (floor, self.level));
        self.over_events(events, calls, boundary, self.level, |by_chance, test| {
            events.fail(calls, boundary, change * by_chance, floor, test)
        })
    }

    /// Over the cases: by what the canary's rate is off, by chance of its children and of its run, and the test that is made.
    fn over_events(
        &self,
        events: Events,
        calls: u64,
        boundary: f64,
        level: f64,
        of: impl Fn(f64, Test) -> f64,
    ) -> f64 {
        let (counted, pi) = events.counted(calls, boundary);
        let cases = self
            .among
            .as_ref()
            .map_or_else(|| vec![Case::ALONE], |among: &Among| among.cases(among.heard_events(counted, pi)));
        let each = cases.iter().map(|case| {
            let assumed = case.assumed + self.between_runs;
            let test = if assumed > 0.0 {
                let more = assumed * counted * pi * (1.0 - pi);
                Test::Score(student_t(level, case.freedom) * (1.0 + more).sqrt())
            } else {
                Test::Exact(level)
            };
            let off = (case.real + self.between_runs).sqrt();
            let found = if off > 0.0 {
                NORMAL.iter().map(|(z, weight)| weight * of((z * off).exp(), test)).sum()
            } else {
                of(1.0, test)
            };
            case.probability * found
        });
        each.sum()
    }

    const fn unchanged(&self) -> f64 {
        match self.design.tolerance {
            Tolerance::Ratio(_) => 1.0,
            Tolerance::Shift(_) => 0.0,
        }
    }

    /// The ratio or shift at which the hypothesis is judged.
    fn boundary(&self, high: bool) -> f64 {
        match (self.design.tolerance, high) {
            (Tolerance::Ratio(r), true) => 1.0 + r,
            (Tolerance::Ratio(r), false) => 1.0 - r,
            (Tolerance::Shift(s), true) => s,
            (Tolerance::Shift(s), false) => -s,
        }
    }

    fn is_relative(&self) -> bool {
        matches!(self.design.tolerance, Tolerance::Ratio(_))
    }

    /// How far values of a changed canary lie beyond a boundary, in standard deviations of independent values; below 0 on this
    /// side of it.
    fn values_beyond(&self, values: &Shape, high: bool, calls: f64, boundary: f64, change: f64) -> f64 {
        let (z, lost) = self.score(values, calls, boundary, change);
        // A count moves in whole steps: half of one is lost.
        if high { z - lost.copysign(z) } else { -z - lost.copysign(-z) }
    }

    /// The score of a changed canary, and the half of a step that a whole number loses.
    fn score(&self, values: &Shape, calls: f64, boundary: f64, change: f64) -> (f64, f64) {
        let pairs = self.pairs(calls);
        if let Question::Quantile(q) = self.design.question {
            let (above, variance) = values.beyond(q, boundary, change, self.is_relative(), self.share);
            return (above * (pairs / variance).sqrt(), 0.5 / (pairs * variance).sqrt());
        }
        let above = values.above(boundary, change, self.is_relative());
        (above * (12.0 * pairs / values.untied()).sqrt(), 0.0)
    }

    /// How fast the score grows with the logarithm of the ratio, at the boundary, as the judge takes it.
    fn slope(&self, values: &Shape, high: bool, calls: f64) -> f64 {
        if self.between_runs <= 0.0 && self.among.is_none() {
            return 0.0;
        }
        let boundary = self.boundary(high);
        let at = |x: f64| {
            let change = if self.is_relative() { boundary * x.exp() } else { boundary + x * values.median() };
            self.score(values, calls, boundary, change).0
        };
        (at(SLOPE) - at(-SLOPE)) / (2.0 * SLOPE)
    }
}
