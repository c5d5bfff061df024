//! Children that differ, as far as it bears on what a number of calls is good for.
//!
//! How much a new version does better on one child than on another is estimated by the judge, who reckons with an upper bound
//! (see [`crate::effects`]) and with as many degrees of freedom as there are children to tell it from. That costs power
//! where children don't differ at all, too: Q is a χ² then, and its bound lies above 0 more often than not. So what comes of a
//! test is averaged over places of Q that are equally probable.
//!
//! An earlier release tells how much children differ, and not exactly: what it leaves possible is averaged over as well, by the
//! quantiles of the variance that its Q implies.

use crate::{
    dist::{binomial_sf, normal_z, student_sf},
    effects::{Effects, LEAST_CHILDREN, LEAST_VALUES, bound, chi_squared},
};

/// Places of Q, equally probable.
const PLACES: usize = 12;

/// Places of the variance between children that an earlier release leaves possible.
const POSSIBLE: usize = 6;

/// A variance of squares larger than this, by few values a child, is no better known.
const MOST_KURTOSIS: f64 = 10.0;

/// More calls a child than this tell its spread well enough.
const MANY_CALLS: f64 = 60.0;

/// Places of the draws of what children's spreads are.
const DRAWS: usize = 24;

/// Steps in which a quantile of Student's distribution is searched for.
const HALVINGS: u32 = 40;

/// Among how many children calls are shared out, and how these differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Among {
    children: f64,
    /// As how large a part of them they count, for some have more calls than others: 0 to 1.
    even: f64,
    /// What one of N·c(1 − c) pairs of calls tells of the logarithm of a child's ratio; `None`: what it tells of that of the
    /// fleet.
    information: Option<f64>,
    /// Variances of the logarithms of their ratios, equally probable.
    variances: Vec<f64>,
}

/// What a release measures of its children, as a number of calls has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ChildSpread {
    /// That measure both versions.
    pub children: f64,
    pub effective: f64,
    /// Σw.
    pub information: f64,
    /// The variance of a child's part in Q, of that of χ² with one degree of freedom.
    pub kurtosis: f64,
}

/// One way in which the variance between children may come out: of the logarithm of the fleet's ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Case {
    pub probability: f64,
    /// As it is reckoned with; above 0 it comes with degrees of freedom.
    pub assumed: f64,
    /// As it is.
    pub real: f64,
    pub freedom: f64,
}

impl Case {
    /// Nobody looks at how children differ.
    pub const ALONE: Self = Self { probability: 1.0, assumed: 0.0, real: 0.0, freedom: f64::INFINITY };
}

impl Among {
    /// So many children with as many calls each, on all of which the versions do alike.
    pub fn alike(children: u64) -> Self {
        Self { children: children as f64, even: 1.0, information: None, variances: vec![0.0] }
    }

    /// As they differed in an earlier release, with so many calls of baseline and canary; `None`: that tells nothing.
    pub fn observed(effects: &Effects, calls: [u64; 2]) -> Option<Self> {
        let [m, n] = calls.map(|calls| calls as f64);
        let spare = effects.spare();
        if !effects.is_possible() || effects.children < 2.0 || spare <= 0.0 || m < 1.0 || n < 1.0 {
            return None;
        }
        let freedom = effects.children - 1.0;
        let possible = (0..POSSIBLE).map(|at| {
            let quantile = chi_squared(freedom, (at as f64 + 0.5) / POSSIBLE as f64).max(f64::MIN_POSITIVE);
            ((effects.q() * freedom / quantile - freedom) / spare).max(0.0)
        });
        Some(Self {
            children: effects.children,
            even: (effects.w * effects.w / effects.w2 / effects.children).clamp(0.0, 1.0),
            information: Some(effects.w * (m + n) / (m * n)),
            variances: possible.collect(),
        })
    }

    /// The same of so many children.
    #[must_use]
    pub fn of(self, children: u64) -> Self {
        Self { children: children as f64, ..self }
    }

    pub fn children(&self) -> u64 {
        self.children as u64
    }

    /// What is heard of values: `pairs` are N·c(1 − c) of `calls` with the share c on the canary.
    pub(super) fn heard_values(&self, calls: f64, share: f64, pairs: f64, of_fleet: f64) -> ChildSpread {
        let few = Few::of(calls / self.children, share, self.children);
        ChildSpread {
            children: self.children * few.measured,
            effective: (self.children * self.even * few.measured * few.even).max(1.0),
            information: self.information.unwrap_or(of_fleet) * pairs * few.calls,
            kurtosis: few.kurtosis.min(MOST_KURTOSIS),
        }
    }

    /// What is heard of events, of which the canary gets the share `pi`. Who has none says nothing.
    pub(super) fn heard_events(&self, events: f64, pi: f64) -> ChildSpread {
        let each = events / self.children;
        let measured = -(-each).exp_m1();
        let kurtosis = 1.0 + (1.0 / (pi * (1.0 - pi)) - 6.0) * measured / (2.0 * each);
        ChildSpread {
            children: self.children * measured,
            effective: (self.children * self.even * each / (1.0 + each)).max(1.0),
            information: events * pi * (1.0 - pi),
            kurtosis: kurtosis.clamp(0.02, MOST_KURTOSIS),
        }
    }

    /// The ways in which it may come out.
    pub(super) fn cases(&self, heard: ChildSpread) -> Vec<Case> {
        let ChildSpread { children, effective, information, kurtosis } = heard;
        let spare = information * (1.0 - 1.0 / effective);
        // Of enough children a few hundredths of one measure nothing in the mean.
        if children.round() < LEAST_CHILDREN || spare <= 0.0 {
            return vec![Case::ALONE];
        }
        let freedom = children - 1.0;
        let bound = bound(freedom, effective);
        let probability = 1.0 / (self.variances.len() * PLACES) as f64;
        let of = |variance: f64| {
            // The moments of Q (Biggerstaff and Tweedie 1997), as those of a multiple of a χ².
            let moved = spare * variance;
            let mean = freedom + moved;
            let squares = freedom * kurtosis + 2.0 * moved + moved * moved / (effective - 1.0);
            let like = mean * mean / squares;
            (0..PLACES).map(move |at| {
                let q = mean * chi_squared(like, (at as f64 + 0.5) / PLACES as f64).max(0.0) / like;
                let assumed = ((q * bound - freedom) / spare).max(0.0);
                Case {
                    probability,
                    assumed: assumed / effective,
                    real: variance / effective,
                    freedom: if assumed > 0.0 { (effective - 1.0).max(1.0) } else { f64::INFINITY },
                }
            })
        };
        let mut cases: Vec<Case> = self.variances.iter().flat_map(|variance| of(*variance)).collect();
        // Those that come out alike are one.
        cases.dedup_by(|next, kept| {
            let alike = next.assumed.to_bits() == kept.assumed.to_bits()
                && next.real.to_bits() == kept.real.to_bits();
            if alike {
                kept.probability += next.probability;
            }
            alike
        });
        cases
    }
}

/// What few calls a child make of it: some have too few on a side, and of the others the information is itself known by the
/// spread of few values.
#[derive(Debug, Clone, Copy)]
struct Few {
    /// The part of the children that measure both versions, and of the calls that is theirs.
    measured: f64,
    calls: f64,
    /// As how large a part of these they count, by what their information differs.
    even: f64,
    kurtosis: f64,
}

impl Few {
    /// Of children with `each` calls in the mean, as many as come by chance.
    fn of(each: f64, share: f64, children: f64) -> Self {
        if each > MANY_CALLS {
            let freedom = each - 2.0;
            let kurtosis = (freedom - 1.0) / (freedom - 4.0);
            return Self { measured: 1.0, calls: 1.0, even: (freedom - 4.0) / (freedom - 2.0), kurtosis };
        }
        let most = (each + 6.0 * each.sqrt()).ceil() as u64;
        let (mut ln_poisson, mut sums) = (-each, [0.0; 4]);
        for n in 1..=most {
            ln_poisson += each.ln() - (n as f64).ln();
            if n < 2 * LEAST_VALUES as u64 {
                continue;
            }
            let least = LEAST_VALUES as u64;
            let both = binomial_sf(least, n, share) - binomial_sf(n + 1 - least, n, share);
            let p = ln_poisson.exp() * both.max(0.0);
            let (n, freedom) = (n as f64, n as f64 - 2.0);
            // Information is n·(ν − 2)/χ² of ν degrees of freedom: n in the mean.
            let squares = (freedom - 2.0).powi(2) * inverse_squares(freedom, children);
            for (sum, more) in sums.iter_mut().zip([1.0, n, n * n * squares, 3.0 * squares - 1.0]) {
                *sum += p * more;
            }
        }
        let [measured, calls, squares, varying] = sums;
        if measured * children < 1.0 {
            return Self { measured: 0.0, calls: 0.0, even: 1.0, kurtosis: 1.0 };
        }
        Self {
            measured,
            calls: calls / each,
            even: calls * calls / (measured * squares),
            kurtosis: 0.5 * varying / measured,
        }
    }
}

/// The mean of 1/χ⁴ of so many degrees of freedom over as many draws: with four or fewer it has no end, and the largest of so
/// many draws decides.
fn inverse_squares(freedom: f64, draws: f64) -> f64 {
    let ln_least = -(2.0 * draws).ln();
    let at = |place: usize| {
        let u = (ln_least * (place as f64 + 0.5) / DRAWS as f64).exp();
        // Far below, where the approximation fails, the distribution is a power.
        let power = 2.0 * ((u.ln() + libm::lgamma(0.5 * freedom + 1.0)) * 2.0 / freedom).exp();
        u / chi_squared(freedom, u).max(power).powi(2)
    };
    (0..DRAWS).map(at).sum::<f64>() * -ln_least / DRAWS as f64
}

/// The t of which P(T > t) = p with ν degrees of freedom, for p up to a half.
pub(super) fn student_t(p: f64, freedom: f64) -> f64 {
    let normal = normal_z(p);
    if freedom.is_infinite() {
        return normal;
    }
    let (mut low, mut high) = (0.0, 2.0 * normal.max(1.0));
    while student_sf(high, freedom) > p && high < 1e6 {
        high *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if student_sf(middle, freedom) > p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}
