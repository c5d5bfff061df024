//! How values vary: from a sample, or log-normal.

use super::PowerFault;
use crate::{
    Design, Question, Sample, Sampling, Stratum, Tolerance,
    dist::{normal_sf, normal_z},
    interval_merging::{Group, Rule},
    rank::{Map, rank_sums},
    root::falling,
    spread::{SortedSide, Step, quantile},
};

/// Fewer observed values don't tell how they vary.
pub const LEAST_VALUES: u64 = 50;

/// More observed values than this tell no more.
const MOST_VALUES: usize = 8_192;

/// Places of a log-normal distribution that stand for it where no formula does.
const PLACES: usize = 2_048;

/// How much wider and narrower than the tail the stretch is from which the density at a quantile is taken.
const STRETCH: f64 = 2.0;

#[derive(Debug, Clone)]
pub struct Shape {
    values: ShapeValues,
    median: f64,
    /// By which ties reduce the variance of ranks.
    untied: f64,
    /// With which a location is known, in the tolerance's unit.
    error: f64,
}

#[derive(Debug, Clone)]
enum ShapeValues {
    LogNormal(f64),
    /// In order.
    Observed(SortedSide),
}

impl Shape {
    pub fn log_normal(ln_sd: f64, median: Option<f64>, design: &Design) -> Result<Self, PowerFault> {
        if !(ln_sd > 0.0 && ln_sd.is_finite()) {
            return Err(PowerFault::Spread(ln_sd));
        }
        let absolute = matches!(design.tolerance, Tolerance::Shift(_));
        let median = match median {
            Some(median) if median > 0.0 => median,
            None if !absolute => 1.0,
            _ => return Err(PowerFault::NoMedian),
        };
        Ok(Self { values: ShapeValues::LogNormal(ln_sd), median, untied: 1.0, error: 0.0 })
    }

    /// Of values as they were observed; `zero_free`: only of those that aren't 0.
    pub fn observed(sample: &Sample, design: &Design, zero_free: bool) -> Result<Self, PowerFault> {
        if matches!(sample, Sample::Counts(_)) {
            return Err(PowerFault::Kind);
        }
        // As it is judged, with whatever spreads its values.
        let mut steps = [Step::default(), Step::default()];
        if let (Sample::Values(values), Sampling::Calls) = (sample, design.sampling) {
            for step in &mut steps {
                step.see_all(values);
            }
        }
        let twice = [Stratum::new("", 0, sample.clone(), sample.clone())];
        let group = Group::of(&twice, Rule { least_total: 0, zero_free }, &steps);
        let count = group.baseline.count();
        if count < LEAST_VALUES as f64 {
            return Err(PowerFault::FewValues(count as u64));
        }
        let error = group.error_in(design.tolerance);
        let (Tolerance::Ratio(tolerance) | Tolerance::Shift(tolerance)) = design.tolerance;
        if error >= tolerance {
            return Err(PowerFault::Resolution { error, tolerance: design.tolerance });
        }
        let is_relative = matches!(design.tolerance, Tolerance::Ratio(_));
        let side = thinned(group.baseline);
        let [low, middle] = [0.0, 0.5].map(|q| quantile(&side, q));
        let (Some(low), Some(median)) = (low, middle) else { return Err(PowerFault::FewValues(0)) };
        if low < 0.0 && (is_relative || matches!(design.question, Question::Quantile(_))) {
            return Err(PowerFault::Spread(low));
        }
        if median == 0.0 && !is_relative {
            return Err(PowerFault::MostlyZero);
        }
        let sums = rank_sums(&side, &side, Map::IDENTITY);
        let whole = sums.baseline * sums.canary * (sums.baseline + sums.canary + 1.0) / 12.0;
        let untied = if whole > 0.0 { (sums.v / whole).clamp(1e-3, 1.0) } else { 1.0 };
        Ok(Self { values: ShapeValues::Observed(side), median: median.abs(), untied, error })
    }

    pub const fn median(&self) -> f64 {
        self.median
    }

    pub const fn untied(&self) -> f64 {
        self.untied
    }

    /// With which a location is known, in the tolerance's unit.
    pub const fn error(&self) -> f64 {
        self.error
    }

    /// How many values were observed; of a distribution none.
    pub fn count(&self) -> f64 {
        match &self.values {
            ShapeValues::LogNormal(_) => 0.0,
            ShapeValues::Observed(side) => side.count(),
        }
    }

    /// Of their logarithms, where it is known.
    pub const fn ln_variance(&self) -> Option<f64> {
        match self.values {
            ShapeValues::LogNormal(sd) => Some(sd * sd),
            ShapeValues::Observed(_) => None,
        }
    }

    /// P(changed canary > baseline at the boundary) + ½ P(equal) − ½.
    pub fn above(&self, boundary: f64, change: f64, relative: bool) -> f64 {
        match &self.values {
            // The difference of two logarithms has twice their variance.
            ShapeValues::LogNormal(sd) if relative => {
                0.5 - normal_sf((change / boundary).ln() / (sd * std::f64::consts::SQRT_2))
            }
            ShapeValues::LogNormal(sd) => self.above_by_places(*sd, change - boundary),
            ShapeValues::Observed(side) => {
                let map =
                    if relative { Map::scale(boundary / change) } else { Map::shift(boundary - change) };
                above_itself(side, map)
            }
        }
    }

    /// Of log-normal values, one of which is shifted.
    fn above_by_places(&self, sd: f64, shift: f64) -> f64 {
        let place = |at: usize| {
            let z = normal_z((at as f64 + 0.5) / PLACES as f64);
            let x = self.median * (sd * z).exp() - shift;
            if x > 0.0 { normal_sf((x / self.median).ln() / sd) } else { 1.0 }
        };
        (0..PLACES).map(place).sum::<f64>() / PLACES as f64 - 0.5
    }

    /// How much more of a changed canary than of the baseline at the boundary lies beyond their common quantile, and the
    /// variance of a share there. `share` of all is the canary's.
    pub fn beyond(&self, q: f64, boundary: f64, change: f64, relative: bool, share: f64) -> (f64, f64) {
        let tail = 1.0 - q;
        let moved = |t: f64, by: f64| if relative { t / by } else { t - by };
        let of = |t: f64| (self.beyond_place(moved(t, change), q), self.beyond_place(moved(t, boundary), q));
        let surplus = |t: f64| {
            let (canary, baseline) = of(t);
            share * canary + (1.0 - share) * baseline - tail
        };
        let start = if relative { self.place(q) } else { self.place(q) + 0.5 * (boundary + change) };
        let t = falling(surplus, start, 0.05 * start.abs().max(f64::MIN_POSITIVE), f64::MAX, 0.0);
        let (canary, baseline) = of(t.unwrap_or(start));
        (canary - baseline, q * tail)
    }

    /// Where the quantile lies.
    fn place(&self, q: f64) -> f64 {
        match &self.values {
            ShapeValues::LogNormal(sd) => self.median * (sd * normal_z(1.0 - q)).exp(),
            ShapeValues::Observed(side) => quantile(side, q).unwrap_or(self.median),
        }
    }

    /// The share beyond a place near the quantile `q`. Of observed values few lie there: between a tail twice and half as
    /// large they are taken to fall off evenly in logarithms, as a Pareto distribution does.
    fn beyond_place(&self, x: f64, q: f64) -> f64 {
        if x <= 0.0 {
            return 1.0;
        }
        match &self.values {
            ShapeValues::LogNormal(sd) => normal_sf((x / self.median).ln() / sd),
            ShapeValues::Observed(_) => {
                let tail = 1.0 - q;
                let wide = (STRETCH * tail).min(0.5 * (1.0 + tail));
                let [from, at, to] = [1.0 - wide, q, 1.0 - tail / STRETCH].map(|q| self.place(q));
                let width = (to / from.max(f64::MIN_POSITIVE)).ln().max(1e-6);
                let slope = (wide * STRETCH / tail).ln() / width;
                (tail * (-slope * (x / at).ln()).exp()).min(1.0)
            }
        }
    }
}

/// P(Y > mapped X) + ½ P(equal) − ½ of two different ones of the same values.
fn above_itself(side: &SortedSide, map: Map) -> f64 {
    let sums = rank_sums(side, side, map);
    let count = sums.canary;
    // Each value was compared with itself too, which says nothing. Zero stays zero in any ratio.
    let zeros = match side {
        SortedSide::Points(values) if map.shift == 0.0 => {
            values.iter().filter(|value| **value == 0.0).count() as f64
        }
        _ => 0.0,
    };
    let itself = if map.scale > 1.0 || map.shift > 0.0 {
        0.0
    } else if map == Map::IDENTITY {
        0.5
    } else {
        1.0
    };
    let itself = itself * (count - zeros) + 0.5 * zeros;
    (sums.s + 0.5 * count * count - itself) / (count * (count - 1.0)) - 0.5
}

fn thinned(side: SortedSide) -> SortedSide {
    match side {
        SortedSide::Points(values) if values.len() > MOST_VALUES => {
            let at = |i: usize| values[(2 * i + 1) * values.len() / (2 * MOST_VALUES)];
            SortedSide::Points((0..MOST_VALUES).map(at).collect())
        }
        side => side,
    }
}
