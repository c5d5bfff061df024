//! Repeated looks are paid for: what of alpha is spent when, and which boundary that gives.
//!
//! The statistics of successive looks have the canonical joint distribution (Scharfstein, Tsiatis and Robins 1997;
//! Jennison and Turnbull 2000): sums of independent increments whose variances are the information gathered. Boundaries
//! follow from alpha spent at each look (Lan and `DeMets` 1983, 1989) by the recursion of Armitage, `McPherson` and Rowe (1969).

use serde::{Deserialize, Serialize};

use super::{
    design::Spending,
    dist::{normal_pdf, normal_sf, normal_z},
};

/// A look with a smaller share of new information is as good as the one before: it spends nothing, or, as the last one,
/// what is left by itself.
pub const LEAST_NEW_INFORMATION: f64 = 0.005;

/// Steps of a grid within the standard deviation of an increment.
const STEPS: f64 = 4.0;

/// A grid is made for increments smaller than the last by this factor.
const FINER: f64 = 0.7;

/// How far a grid reaches, in standard deviations.
const REACH: f64 = 7.5;

/// Gregory's weights at the end of a sum over equal steps.
const END_WEIGHTS: [f64; 3] = [3.0 / 8.0, 7.0 / 6.0, 23.0 / 24.0];

/// What is kept for the last look. Worked out for 100 looks at a normal statistic, data for power 0.8 are 1.13 × those of
/// one look and a strong effect is found in 1.23 × the time of a test that is told the shift; linear spending has 1.21
/// and 1.25. `SIMULATION.md` says what was measured.
const RESERVE: f64 = 0.3;

/// The power of time by which the rest is spent (Kim and `DeMets` 1987).
const ON_THE_WAY: f64 = 0.7;

/// Alpha spent when the share `t` of the duration has gone by.
pub fn spent(spending: Spending, alpha: f64, t: f64) -> f64 {
    let t = t.clamp(0.0, 1.0);
    match spending {
        Spending::Reserve if t < 1.0 => alpha * (1.0 - RESERVE) * t.powf(ON_THE_WAY),
        Spending::Reserve => alpha,
        Spending::Linear => alpha * t,
        Spending::OBrienFleming if t <= 0.0 => 0.0,
        Spending::OBrienFleming => (2.0 * normal_sf(normal_z(0.5 * alpha) / t.sqrt())).min(alpha),
        Spending::Pocock => alpha * ((std::f64::consts::E - 1.0) * t).ln_1p(),
    }
}

/// A look that counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The variance of the statistic so far.
    pub information: f64,
    /// Alpha spent so far, this look included.
    pub spent: f64,
    /// The standard score that crosses; worked out when somebody needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub z: Option<f64>,
}

/// All looks that counted, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpentBounds {
    looks: Vec<Bound>,
    /// What the last boundary was worked out with; it follows from the looks.
    #[serde(skip)]
    worked_out: Option<WorkedOut>,
}

impl PartialEq for SpentBounds {
    fn eq(&self, other: &Self) -> bool {
        self.looks == other.looks
    }
}

/// The distribution after some of the looks.
#[derive(Debug, Clone)]
struct WorkedOut {
    /// How many.
    looks: usize,
    information: f64,
    spent: f64,
    z: f64,
    density: Density,
    /// The smallest standard deviation of an increment that the grid is fine enough for.
    finest: f64,
}

impl SpentBounds {
    pub fn iter(&self) -> impl Iterator<Item = &Bound> {
        self.looks.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.looks.is_empty()
    }

    pub fn last(&self) -> Option<&Bound> {
        self.looks.last()
    }

    pub fn spent(&self) -> f64 {
        self.last().map_or(0.0, |bound| bound.spent)
    }

    /// Is there enough that is new for another look?
    pub fn worthwhile(&self, information: f64) -> bool {
        let before = self.last().map_or(0.0, |bound| bound.information);
        information > 0.0 && information - before >= LEAST_NEW_INFORMATION * information
    }

    /// Adds a look with the alpha spent after it. True if `p` crosses.
    ///
    /// The level of a look lies between what it spends by itself and all that was spent so far; only in between is the
    /// boundary worked out.
    pub fn look(&mut self, information: f64, spent: f64, p: f64) -> bool {
        let increment = (spent - self.spent()).max(0.0);
        if !self.worthwhile(information) {
            // Next to nothing new: by itself, which is always on the safe side.
            let information = self.last().map_or(information, |bound| bound.information.max(information));
            self.looks.push(Bound { information, spent, z: Some(normal_z(increment)) });
            return p <= increment;
        }
        self.looks.push(Bound { information, spent, z: None });
        if p <= increment {
            return true;
        }
        p <= spent && p <= normal_sf(self.boundary())
    }

    /// The probability that any of these looks crosses if the statistic drifts by `drift` a unit of information: 1 less
    /// what is left after the last. The density of a drifting sum is the one without, times
    /// exp(drift · sum − drift² · information / 2).
    pub fn crossed(&mut self, drift: f64) -> f64 {
        self.boundary();
        let Some(known) = &self.worked_out else { return 0.0 };
        let Density { top, h, values } = &known.density;
        let left = values.iter().enumerate().map(|(at, value)| {
            let sum = top - at as f64 * h;
            Density::weight(at) * value * (drift * sum - 0.5 * drift * drift * known.information).exp()
        });
        (1.0 - left.sum::<f64>() * h).clamp(0.0, 1.0)
    }

    /// The boundary of the last look, as a standard score.
    pub fn boundary(&mut self) -> f64 {
        let Some(last) = self.looks.last().copied() else { return f64::INFINITY };
        if let Some(z) = last.z {
            return z;
        }
        // Go on from what is known, if its grid is fine enough for the look that is new.
        let mut known = self.worked_out.take().filter(|known| {
            let step = (last.information - known.information).max(0.0).sqrt();
            known.looks + 1 < self.looks.len() || known.finest <= step
        });
        for at in known.as_ref().map_or(0, |known| known.looks)..self.looks.len() {
            let Bound { information, spent, z } = self.looks[at];
            let (before, gone) = known.as_ref().map_or((0.0, 0.0), |known| (known.information, known.spent));
            if information - before < LEAST_NEW_INFORMATION * information {
                // A look without news has no part in the distribution; what it spent is spent.
                if let Some(known) = &mut known {
                    (known.looks, known.spent) = (at + 1, spent);
                }
                continue;
            }
            let root = information.sqrt();
            let step = (information - before).sqrt();
            let increment = (spent - gone).max(0.0);
            let c = z.map_or_else(
                || match &known {
                    None => normal_z(increment) * root,
                    Some(known) => {
                        let guess = known.z * root;
                        known.density.solve(step, increment, spent, root, guess)
                    }
                },
                |z| z * root,
            );
            self.looks[at].z = Some(c / root);
            let next = self.looks.get(at + 1).map(|next| next.information - information);
            let next = next.filter(|next| *next > 0.0).map_or(step, f64::sqrt);
            // Somewhat finer than this look needs: the next may have less to add.
            let finest = next.min(FINER * step);
            let density = Density::after(known.as_ref().map(|known| &known.density), c, step, root, finest);
            known = Some(WorkedOut { looks: at + 1, information, spent, z: c / root, density, finest });
        }
        self.worked_out = known;
        self.last().and_then(|bound| bound.z).unwrap_or(f64::INFINITY)
    }
}

/// The density of the statistic of those who haven't crossed yet, on a grid from the boundary downwards.
#[derive(Debug, Clone)]
struct Density {
    top: f64,
    h: f64,
    values: Vec<f64>,
}

impl Density {
    /// After a look with boundary `c`: its increment has standard deviation `step`, its sum `root`.
    fn after(before: Option<&Self>, c: f64, step: f64, root: f64, finest: f64) -> Self {
        let top = c.min(REACH * root);
        let wanted = finest / STEPS;
        // A grid of the step of the one before costs far less: only one that is too coarse or far too fine is left.
        let h =
            before.map(|before| before.h).filter(|h| (0.4 * wanted..=wanted).contains(h)).unwrap_or(wanted);
        let count = ((top + REACH * root) / h).ceil().max(4.0) as usize;
        let Some(before) = before else {
            let values = (0..=count).map(|i| normal_pdf((top - i as f64 * h) / root) / root).collect();
            return Self { top, h, values };
        };
        let values = if before.h.to_bits() == h.to_bits() {
            before.convolved_evenly(top, step, count)
        } else {
            let at = |i: usize| before.convolved_at(top - i as f64 * h, step);
            (0..=count).map(at).collect()
        };
        Self { top, h, values }
    }

    fn weighted(&self) -> Vec<f64> {
        let mut weighted = self.values.clone();
        for (value, weight) in weighted.iter_mut().zip(END_WEIGHTS) {
            *value *= weight;
        }
        weighted
    }

    /// Grid points within reach of a place.
    fn near(&self, place: f64, step: f64) -> std::ops::Range<usize> {
        let from = ((self.top - place - REACH * step) / self.h).floor().max(0.0) as usize;
        let to = ((self.top - place + REACH * step) / self.h).ceil().max(0.0) as usize + 1;
        from.min(self.values.len())..to.min(self.values.len())
    }

    fn weight(at: usize) -> f64 {
        END_WEIGHTS.get(at).copied().unwrap_or(1.0)
    }

    fn convolved_at(&self, place: f64, step: f64) -> f64 {
        let near = self.near(place, step);
        // The normal density at equal distances, each from the one before: far fewer powers than places.
        let apart = self.h / step;
        let z = (place - self.top + near.start as f64 * self.h) / step;
        let mut density = normal_pdf(z);
        let mut factor = (-apart * (z + 0.5 * apart)).exp();
        let shrink = (-apart * apart).exp();
        let mut sum = 0.0;
        for j in near {
            sum += Self::weight(j) * self.values[j] * density;
            density *= factor;
            factor *= shrink;
        }
        sum * apart
    }

    /// The density after one more step, at `count + 1` places from `top` down that are as far apart as those of this grid: the
    /// kernel depends on the difference of places alone.
    fn convolved_evenly(&self, top: f64, step: f64, count: usize) -> Vec<f64> {
        let weighted = self.weighted();
        let offset = (top - self.top) / self.h;
        let reach = REACH * step / self.h;
        // Place i of the new grid and j of the old one are (offset − i + j) steps apart.
        let lowest = (-offset - reach).floor() as i64;
        let highest = (-offset + reach).ceil() as i64;
        let kernel: Vec<f64> = (lowest..=highest)
            .map(|d| normal_pdf((offset + d as f64) * self.h / step) * self.h / step)
            .collect();
        // Weight by weight over all places: the same sums in the same order, several places at a time.
        let mut values = vec![0.0; count + 1];
        for (weight, d) in kernel.iter().zip(lowest..) {
            let (skip, from) = ((-d).max(0) as usize, d.max(0) as usize);
            let (Some(places), Some(from)) = (values.get_mut(skip..), weighted.get(from..)) else { continue };
            for (place, value) in places.iter_mut().zip(from) {
                *place += value * weight;
            }
        }
        values
    }

    /// The probability to cross `c` at the next look for the first time, and how fast it falls with `c`.
    fn crossing(&self, c: f64, step: f64) -> (f64, f64) {
        let end = ((self.top - c + REACH * step) / self.h).ceil().max(0.0) as usize + 1;
        let (mut sum, mut fall) = (0.0, 0.0);
        for (j, value) in self.values.iter().enumerate().take(end) {
            let value = Self::weight(j) * value;
            let z = (c - (self.top - j as f64 * self.h)) / step;
            sum += value * normal_sf(z);
            fall += value * normal_pdf(z);
        }
        (sum * self.h, fall * self.h / step)
    }

    /// The boundary that is crossed with the probability `increment`: Newton's method on its logarithm, which is concave,
    /// from the boundary before on; bisection where a step leaves what is known.
    fn solve(&self, step: f64, increment: f64, spent: f64, root: f64, guess: f64) -> f64 {
        if increment <= 0.0 {
            return f64::INFINITY;
        }
        let target = increment.ln();
        let (mut low, mut high) = (normal_z(spent) * root, normal_z(increment) * root);
        let mut c = if guess > low && guess < high { guess } else { 0.5 * (low + high) };
        for _ in 0..60 {
            let (crossing, fall) = self.crossing(c, step);
            let value = crossing.max(f64::MIN_POSITIVE).ln() - target;
            if value > 0.0 {
                low = c;
            } else {
                high = c;
            }
            if value.abs() < 1e-10 || (high - low) < 1e-12 * root {
                break;
            }
            let newton = c + value * crossing / fall;
            c = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        }
        c
    }
}
