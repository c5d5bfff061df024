//! What a clock's step does to values: where each may have lain before it was read.
//!
//! A clock that counts in milliseconds makes 15 of everything from 14.5 to 15.5, or of everything from 15 to 16 if it
//! rounds down. So a value is spread over that cell of the grid and over nothing else. A bucket of a histogram holds the
//! grid points that lie within it: its values are spread over the cells of these points. Spread over the bucket itself,
//! fifteens would lie between 14.93 and 15.08, and a canary that is 5 % slower would seem to be 6.7 % slower or not at all.
//!
//! Where values of a finer clock are mixed in, they are read once more, as the coarser clock would have read them.
//!
//! A step that nobody named is recognised: of exact values it is the largest number of which all are multiples, of buckets
//! the coarsest usual step of which every filled bucket holds a multiple, if that is no chance. Whole milliseconds among
//! finer values are recognised too: of exact values by how many they are, of buckets by what stands out of its neighbours. And a clock
//! of 64 ticks a second whose times are told in whole milliseconds, whatever step was named, by all exact times of a side so far (`spread`).

use std::collections::BTreeMap;

use super::{
    histogram::Histogram,
    spread::{Axis, Cell, LEAST_STEP, Step, TIE},
    values::{Clock, Rounding, Values},
};

/// Steps of clocks that are recognised by the buckets they leave empty, in milliseconds, from coarse to fine.
const USUAL_STEPS_MS: [f64; 12] = [100.0, 50.0, 20.0, 15.625, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.01];

/// The step of most clocks that are worth a mention, in milliseconds: assumed unless something speaks against it.
const COMMON_STEP_MS: f64 = 1.0;

/// A step as improbable as this by chance is one: few among the children of a large fleet may be taken for coarser than
/// they are.
const CHANCE: f64 = 1e-9;

/// Least share of values on whole milliseconds, and how much more than by chance, that show a coarser clock among finer.
const LEAST_MIXED: f64 = 0.02;
const MORE_THAN_CHANCE: f64 = 3.0;

/// Different whole milliseconds that show a coarser clock by themselves: a single peak may be where all times are.
const LEAST_PEAKS: u32 = 3;

/// The share of a bucket among itself and its two neighbours that a smooth distribution comes to, however narrow it is: three
/// equal buckets are a third.
const SMOOTH_SHARE: f64 = 0.4;

/// A bucket so wide, in steps, holds so many points of the grid that they are spread together.
const WIDE: f64 = 2.0;

/// The clock of values, with the step recognised where it isn't known.
pub fn clock(values: &Values) -> Clock {
    let known = values.clock();
    if known.step.is_some() {
        return known;
    }
    let step = match values.exact() {
        _ if values.width().is_some() => None,
        Some(pairs) => step_of_values(pairs),
        None => {
            let buckets = values.to_histogram();
            // Few values tell nothing for certain, and a step that is too coarse misleads nobody.
            let assumed = || holds(&filled(&buckets), COMMON_STEP_MS).then_some(COMMON_STEP_MS);
            step_of_buckets(&buckets).or_else(assumed).or_else(|| mixed_buckets(&buckets))
        }
    };
    Clock { step: Some(step.unwrap_or(0.0)), ..known }
}

/// The step that exact values have in common, where they have one.
fn step_of_values(pairs: &[(f64, u64)]) -> Option<f64> {
    let values: Vec<f64> = pairs.iter().map(|(value, _)| *value).filter(|value| *value > 0.0).collect();
    let largest = values.last().copied()?;
    let divisor = Step::divisor_of(&values)?;
    // The clock that values seem to be of by their digits.
    let mut plain = COMMON_STEP_MS;
    while plain > LEAST_STEP * largest && !is_multiple(divisor, plain) {
        plain /= 10.0;
    }
    // Multiples of so many different powers of ten are no chance; of more than them only with enough values.
    if (plain / divisor).powf(values.len() as f64) < CHANCE {
        return Some(divisor);
    }
    if plain <= LEAST_STEP * largest {
        return mixed(pairs, 0.0);
    }
    if plain < COMMON_STEP_MS { mixed(pairs, plain).or(Some(plain)) } else { Some(plain) }
}

/// Whole milliseconds among finer values: more of them than by chance.
fn mixed(pairs: &[(f64, u64)], finer: f64) -> Option<f64> {
    let (mut all, mut whole, mut different) = (0, 0, 0);
    for (value, count) in pairs.iter().filter(|(value, _)| *value > 0.0) {
        all += count;
        if is_multiple(*value, COMMON_STEP_MS) {
            whole += count;
            different += 1;
        }
    }
    let share = whole as f64 / all as f64;
    let is_common = share >= LEAST_MIXED.max(MORE_THAN_CHANCE * finer / COMMON_STEP_MS);
    (is_common && different >= LEAST_PEAKS).then_some(COMMON_STEP_MS)
}

/// The clock by which values of many are to be judged. What is too little at each of them to be seen may be seen in all
/// together: a coarser clock among finer ones.
pub fn common_clock(values: &Values) -> Clock {
    let known = values.clock();
    if values.exact().is_some()
        || values.width().is_some()
        || known.step.is_none_or(|step| step >= COMMON_STEP_MS)
    {
        return known;
    }
    let coarser = mixed_buckets(&values.to_histogram());
    known.coarser(coarser.map_or(known, |step| Clock { step: Some(step), rounding: None }))
}

/// Whole milliseconds among finer values: buckets that hold one stand out of their neighbours, more than by chance.
fn mixed_buckets(buckets: &Histogram) -> Option<f64> {
    let ln_base = buckets.gamma().ln();
    let edge = |index: i64| (index as f64 * ln_base).exp();
    let counts: BTreeMap<i64, u64> = buckets
        .buckets()
        .filter(|(low, ..)| *low > 0.0)
        .map(|(low, _, count)| ((low.ln() / ln_base).round() as i64, count))
        .collect();
    let within = |from: f64, to: f64| -> u64 {
        let index = |value: f64| (value.ln() / ln_base).floor() as i64;
        counts.range(index(from)..=index(to)).map(|(_, count)| count).sum()
    };
    let at = |index: i64| counts.get(&index).copied().unwrap_or(0);
    let (mut peaks, mut beside, mut others, mut different) = (0, 0, 0, 0);
    for whole in 1.. {
        let value = f64::from(whole) * COMMON_STEP_MS;
        let index = (value.ln() / ln_base).floor() as i64;
        let [lower, low, high, higher] = [-1, 0, 1, 2].map(|more| edge(index + more));
        // From here on each bucket holds one, or has a neighbour that does.
        if high - low > 0.5 * COMMON_STEP_MS {
            break;
        }
        let is_inside = value > low * (1.0 + TIE) && value < high * (1.0 - TIE);
        if !is_inside || value - COMMON_STEP_MS >= lower * (1.0 - TIE) || value + COMMON_STEP_MS < higher {
            continue;
        }
        let (peak, neighbours) = (at(index), at(index - 1) + at(index + 1));
        peaks += peak;
        beside += neighbours;
        let all = within(value - 0.5 * COMMON_STEP_MS, value + 0.5 * COMMON_STEP_MS);
        others += all.saturating_sub(peak + neighbours);
        different += u32::from(2 * peak > neighbours);
    }
    // The sides of a narrow peak are steep: what is beside it is more than what is further off.
    let is_apart = different >= LEAST_PEAKS || beside <= 2 * others;
    (is_apart && ln_chance(peaks, peaks + beside, SMOOTH_SHARE) < CHANCE.ln()).then_some(COMMON_STEP_MS)
}

/// The logarithm of a bound on the probability of `k` or more of `n` (Chernoff 1952), at a cost that doesn't grow with them.
fn ln_chance(k: u64, n: u64, p: f64) -> f64 {
    let share = k as f64 / n as f64;
    if n == 0 || share <= p {
        return 0.0;
    }
    let part = |of: f64, expected: f64| if of > 0.0 { of * (of / expected).ln() } else { 0.0 };
    -(n as f64) * (part(share, p) + part(1.0 - share, 1.0 - p))
}

fn is_multiple(value: f64, of: f64) -> bool {
    let times = value / of;
    (times - times.round()).abs() <= 1e-6 && times.round() >= 1.0
}

/// The coarsest usual step of which every filled bucket holds a multiple, if that is no chance.
fn step_of_buckets(buckets: &Histogram) -> Option<f64> {
    let filled = filled(buckets);
    let chance =
        |step: f64| -> f64 { filled.iter().map(|(low, high)| ((high - low) / step).min(1.0)).product() };
    USUAL_STEPS_MS.into_iter().find(|step| chance(*step) < CHANCE && holds(&filled, *step))
}

/// Whether values in buckets can be those of a clock with this step.
pub fn fits(values: &Values, step: f64) -> bool {
    holds(&filled(&values.to_histogram()), step)
}

fn filled(buckets: &Histogram) -> Vec<(f64, f64)> {
    buckets.buckets().filter(|(low, ..)| *low > 0.0).map(|(low, high, _)| (low, high)).collect()
}

/// Whether there is a bucket, and each holds a multiple of the step.
fn holds(filled: &[(f64, f64)], step: f64) -> bool {
    let point = |(low, high): &(f64, f64)| (low * (1.0 - TIE) / step).ceil() * step <= high * (1.0 + TIE);
    !filled.is_empty() && filled.iter().all(point)
}

/// Where values lay, in order, if they were read by a clock, or read once more by a coarser one.
pub fn cells(values: &Values, clock: Clock) -> Vec<Cell> {
    let step = clock.step.unwrap_or(0.0);
    let typical = values.quantile(0.5).unwrap_or(0.0);
    if step == 0.0 || step < LEAST_STEP * typical {
        return match values.exact() {
            Some(pairs) => {
                pairs.iter().map(|(value, count)| Cell::new(*value, *value, *count, Axis::Linear)).collect()
            }
            None => values.to_histogram().cells(),
        };
    }
    let mut grid = Grid { step, down: clock.rounding == Some(Rounding::Down), ..Grid::default() };
    match values.exact() {
        Some(pairs) => pairs.iter().for_each(|(value, count)| grid.add(*value, *count as f64)),
        None => values
            .to_histogram()
            .buckets()
            .for_each(|(low, high, count)| grid.spread(low, high, count as f64)),
    }
    grid.cells()
}

/// The cells of a histogram with buckets of any base, spread over the steps of the clock that its buckets show.
pub fn histogram_cells(histogram: &Histogram) -> Vec<Cell> {
    let plain = histogram.cells();
    let Some(step) = step_of_buckets(histogram).filter(|_| !histogram.has_negative()) else { return plain };
    let typical = histogram.quantile(0.5).unwrap_or(0.0);
    if step < LEAST_STEP * typical {
        return plain;
    }
    let mut grid = Grid { step, ..Grid::default() };
    histogram.buckets().for_each(|(low, high, count)| grid.spread(low, high, count as f64));
    grid.cells()
}

/// Mass on the points of a grid.
#[derive(Debug, Default)]
struct Grid {
    step: f64,
    /// A point stands for what lies from it to the next, else for what lies half a step around it.
    down: bool,
    points: BTreeMap<i64, f64>,
    /// From one point to another, both included; they hold no other points.
    runs: Vec<(i64, i64, f64)>,
}

impl Grid {
    /// The point that a value is read as.
    fn point(&self, value: f64) -> i64 {
        let times = value / self.step;
        let near = times.round();
        // What is a point already stays one, though the division is off by a little.
        if !self.down || (times - near).abs() <= TIE * near.max(1.0) {
            near as i64
        } else {
            times.floor() as i64
        }
    }

    fn add(&mut self, value: f64, mass: f64) {
        *self.points.entry(self.point(value)).or_default() += mass;
    }

    /// A bucket: over its points, or over those that what lies between points is read as.
    fn spread(&mut self, low: f64, high: f64, mass: f64) {
        let (first, last) =
            ((low * (1.0 - TIE) / self.step).ceil(), (high * (1.0 + TIE) / self.step).floor());
        // The upper end belongs to the next bucket.
        let last = if last > first && last * self.step >= high * (1.0 - TIE) { last - 1.0 } else { last };
        let (first, last) = (first as i64, last as i64);
        if high - low >= WIDE * self.step {
            self.runs.push((first, last, mass));
        } else if first <= last {
            let each = mass / (last - first + 1) as f64;
            (first..=last).for_each(|point| *self.points.entry(point).or_default() += each);
        } else {
            // Values of a finer clock.
            let (from, to) = (self.point(low), self.point(high));
            let edge = (from as f64 + if self.down { 1.0 } else { 0.5 }) * self.step;
            let share = if from == to { 1.0 } else { ((edge - low) / (high - low)).clamp(0.0, 1.0) };
            *self.points.entry(from).or_default() += mass * share;
            *self.points.entry(to).or_default() += mass * (1.0 - share);
        }
    }

    fn cells(self) -> Vec<Cell> {
        let (before, after) = if self.down { (0.0, 1.0) } else { (0.5, 0.5) };
        let points = self.points.into_iter().map(|(point, mass)| (point, point, mass));
        let mut all: Vec<_> = points.chain(self.runs).filter(|(.., mass)| *mass > 0.0).collect();
        all.sort_unstable_by_key(|(first, ..)| *first);
        let cell = |(first, last, mass): (i64, i64, f64)| Cell {
            lo: ((first as f64 - before) * self.step).max(0.0),
            hi: (last as f64 + after) * self.step,
            mass,
            axis: Axis::Linear,
        };
        all.into_iter().map(cell).collect()
    }
}
