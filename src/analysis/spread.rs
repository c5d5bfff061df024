//! Values that are known only to a bucket or to a rounding step, spread over it before they are scaled.
//!
//! A clock that counts in milliseconds makes 15 of 15.4. Scaled by 1.05, all fifteens become 15.75 and lie above every
//! fifteen of the canary: identical versions then differ. Spread evenly over 14.5 to 15.5 they don't.

use super::{grid, order, values::Values};

/// Values closer than this, relatively, are ties: 0.15 × 1.05 and 0.1575 are one value.
pub const TIE: f64 = 1e-9;

/// A step below this share of a typical value is nothing to be spread.
pub const LEAST_STEP: f64 = 1e-4;

/// What is left of a division counts as nothing below this share of the largest value.
const REMAINDER: f64 = 1e-7;

/// Fewer different values don't tell a step.
const LEAST_DISTINCT: usize = 3;

/// On which axis the values within a cell are spread evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Linear,
    Log,
}

/// So many values somewhere from `lo` to `hi`; exactly there, if both are the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    pub lo: f64,
    pub hi: f64,
    pub mass: f64,
    pub axis: Axis,
}

impl Cell {
    pub fn new(lo: f64, hi: f64, count: u64, axis: Axis) -> Self {
        Self { lo, hi, mass: count as f64, axis }
    }

    pub fn is_point(&self) -> bool {
        self.lo >= self.hi
    }

    /// The share of its mass that lies between two places within it.
    pub fn share(&self, from: f64, to: f64) -> f64 {
        match self.axis {
            Axis::Linear => (to - from) / (self.hi - self.lo),
            // Both ends of a logarithmic cell have one sign.
            Axis::Log => (to / from).ln() / (self.hi / self.lo).ln(),
        }
    }

    /// The place below which the share `q` of its mass lies.
    pub fn at(&self, q: f64) -> f64 {
        match self.axis {
            Axis::Linear => self.lo + q * (self.hi - self.lo),
            Axis::Log => self.lo * (self.hi / self.lo).powf(q),
        }
    }
}

/// One side of a stratum in order: single values, or cells that don't overlap.
#[derive(Debug, Clone, PartialEq)]
pub enum SortedSide {
    Points(Vec<f64>),
    Cells(Vec<Cell>),
}

impl SortedSide {
    /// Finite values, sorted, spread over `step` if there is one. Zeros stay zero.
    pub fn of_values(values: Vec<f64>, step: Option<f64>) -> Self {
        let values = order::sorted(values);
        match step {
            None => Self::Points(values),
            Some(step) => Self::Cells(cells(&values, Some(step))),
        }
    }

    pub fn count(&self) -> f64 {
        match self {
            Self::Points(values) => values.len() as f64,
            Self::Cells(cells) => cells.iter().map(|cell| cell.mass).sum(),
        }
    }

    /// As cells, whatever it is.
    pub fn to_cells(&self) -> std::borrow::Cow<'_, [Cell]> {
        match self {
            Self::Points(values) => cells(values, None).into(),
            Self::Cells(cells) => cells.into(),
        }
    }
}

/// Sorted values as cells.
fn cells(values: &[f64], step: Option<f64>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    let mut first = f64::NAN;
    for &value in values {
        if tied(first, value) {
            if let Some(last) = cells.last_mut() {
                last.mass += 1.0;
            }
            continue;
        }
        first = value;
        let half = if value == 0.0 { 0.0 } else { 0.5 * step.unwrap_or(0.0) };
        cells.push(Cell::new(value - half, value + half, 1, Axis::Linear));
    }
    cells
}

/// One value, as far as numbers tell.
pub fn tied(a: f64, b: f64) -> bool {
    (a - b).abs() <= TIE * a.abs().max(b.abs())
}

/// The step of a clock of 64 ticks a second, whose times are often told in whole milliseconds: steps of 15 and of 16 then, of which 1
/// is the largest common divisor. Three different times that all are such are that by chance once in some thousand times.
const TICK_MS: f64 = 15.625;

/// What is known so far of the step to which a side's values are rounded: the largest number of which all are multiples.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Step {
    /// 0 before any value was seen.
    divisor: f64,
    largest: f64,
    /// Different values, as far as they matter.
    distinct: Vec<f64>,
    /// The values are fine enough to be taken as they are.
    fine: bool,
    /// There are times that aren't those of [`TICK_MS`], rounded to whole milliseconds, and that aren't, cut off to them.
    #[serde(default = "neither", skip_serializing_if = "are_neither")]
    not_ticks: [bool; 2],
}

const fn neither() -> [bool; 2] {
    [true; 2]
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn are_neither(not_ticks: &[bool; 2]) -> bool {
    *not_ticks == neither()
}

impl Step {
    /// Takes notice of values in any order; what comes of it doesn't depend on their order.
    pub fn see_all(&mut self, values: &[f64]) {
        self.not_ticks = neither();
        // Two values are enough to see that those of most samples are fine, and nothing has to be sorted then.
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !values.is_empty() {
            self.see(&[least, most]);
        }
        if !self.fine {
            self.see(&order::sorted(values.to_vec()));
        }
    }

    /// Takes notice of counted times.
    pub fn see_measured(&mut self, values: &Values) {
        let Some(pairs) = values.exact() else {
            self.not_ticks = neither();
            self.fine |= !self.size().is_some_and(|step| grid::fits(values, step));
            return;
        };
        let values: Vec<f64> = pairs.iter().map(|(value, _)| *value).collect();
        self.see(&values);
        for (not, is) in self.not_ticks.iter_mut().zip([is_tick, is_cut_tick]) {
            *not = *not || !values.iter().all(|value| is(*value));
        }
    }

    /// Takes notice of sorted values.
    fn see(&mut self, sorted: &[f64]) {
        let mut last = f64::NAN;
        for &value in sorted {
            if self.fine {
                return;
            }
            if value == 0.0 || tied(last, value) {
                continue;
            }
            last = value;
            if self.distinct.len() < LEAST_DISTINCT && !self.distinct.iter().any(|known| tied(*known, value))
            {
                self.distinct.push(value);
            }
            self.largest = self.largest.max(value.abs());
            self.divisor = divisor(self.divisor, value.abs(), REMAINDER * self.largest);
            self.fine = self.divisor < LEAST_STEP * self.largest;
        }
    }

    /// The largest number of which all of these are multiples, however few they are; `None`: there is none that is more than
    /// nothing beside them.
    pub fn divisor_of(sorted: &[f64]) -> Option<f64> {
        let mut step = Self::default();
        step.see(sorted);
        (!step.fine && step.divisor > 0.0).then_some(step.divisor)
    }

    /// Nothing that is yet to come makes it a step again.
    pub fn is_fine(&self) -> bool {
        self.fine
    }

    /// The step, where there is one worth a mention.
    pub fn size(&self) -> Option<f64> {
        let least = if are_neither(&self.not_ticks) { 0.0 } else { TICK_MS };
        (!self.fine && self.distinct.len() >= LEAST_DISTINCT).then_some(self.divisor.max(least))
    }
}

/// Whether it is a multiple of [`TICK_MS`] in the whole millisecond next to it; of 62.5 that is 62 or 63.
fn is_tick(value: f64) -> bool {
    let whole = value.round();
    tied(value, whole) && (whole - (whole / TICK_MS).round() * TICK_MS).abs() <= 0.5
}

/// The same in the one below.
fn is_cut_tick(value: f64) -> bool {
    let whole = value.round();
    tied(value, whole) && ((whole / TICK_MS).ceil() * TICK_MS).floor() <= whole
}

/// Euclid's algorithm; a remainder next to nothing, or next to the whole divisor, is none.
fn divisor(mut a: f64, mut b: f64, nothing: f64) -> f64 {
    while b > nothing {
        let rest = a % b;
        let rest = if b - rest <= nothing { 0.0 } else { rest };
        (a, b) = (b, rest);
    }
    a
}

/// A value below which the share `q` lies.
pub fn quantile(side: &SortedSide, q: f64) -> Option<f64> {
    match side {
        SortedSide::Points(values) => {
            let last = values.len().checked_sub(1)?;
            // Linear between order statistics (Hyndman and Fan 1996, type 7).
            let at = q * last as f64;
            let below = values[at.floor() as usize];
            Some(below + (values[at.ceil() as usize] - below) * at.fract())
        }
        SortedSide::Cells(cells) => {
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
