//! How exactly a location can be known from values that are known to a cell only.
//!
//! Within a cell values are taken to be spread evenly, and they aren't. Where a distribution reaches over many cells the
//! errors cancel; where it lies within one, nothing tells where in it. What decides is how much of what lies near a cell
//! lies in it: 1 if its neighbours are empty, 0.2 if a cell and two on each side hold the same. The error that belongs to
//! that, in widths of a cell, is the largest that was found among normal, log-normal, exponential (with a sharp least
//! value), uniform and bimodal distributions of standard deviations from 0.05 to 5 cells, at all phases of the grid and
//! ratios from 1.02 to 1.1, worked out numerically; the simulation through the wire form holds verdicts to it.

use super::spread::{Axis, Cell, SortedSide, quantile};

/// Concentration, and the error of a location in widths of a cell.
const ERRORS: [(f64, f64); 14] = [
    (0.2, 0.002),
    (0.23, 0.015),
    (0.26, 0.022),
    (0.3, 0.036),
    (0.35, 0.052),
    (0.4, 0.07),
    (0.45, 0.085),
    (0.5, 0.12),
    (0.55, 0.17),
    (0.6, 0.25),
    (0.7, 0.5),
    (0.8, 0.65),
    (0.9, 0.8),
    (1.0, 0.85),
];

/// So many widths of a cell on each side of it are near.
const NEAR: f64 = 2.0;

/// The relative error with which the location of a side is known. `width`: the ratio of the ends of the buckets that its
/// values come from, where these were wider than its cells.
pub fn relative_error(side: &SortedSide, width: Option<f64>) -> f64 {
    let SortedSide::Cells(cells) = side else { return 0.0 };
    let coarse = width.map(|width| blocks(cells, width.ln()));
    let cells = coarse.as_deref().unwrap_or(cells);
    let location = quantile(side, 0.5).map_or(0.0, f64::abs);
    let (mut all, mut spread, mut concentration, mut widths) = (0.0, 0.0, 0.0, 0.0);
    let (mut first, mut behind, mut near) = (0, 0, 0.0);
    for cell in cells {
        // Pairs of values, for what is compared is pairs; and so it isn't biased where there are few.
        let pairs = cell.mass * (cell.mass - 1.0).max(0.0);
        all += pairs;
        if cell.is_point() {
            continue;
        }
        let [low, high] = surroundings(cell);
        while cells.get(behind).is_some_and(|next| middle(next) <= high) {
            near += cells[behind].mass;
            behind += 1;
        }
        while first < behind && middle(&cells[first]) < low {
            near -= cells[first].mass;
            first += 1;
        }
        let relative = match cell.axis {
            Axis::Log => (cell.hi / cell.lo).ln(),
            Axis::Linear if location > 0.0 => (cell.hi - cell.lo) / location,
            Axis::Linear => f64::INFINITY,
        };
        spread += pairs;
        widths += pairs * relative;
        concentration +=
            pairs * (cell.mass - 1.0).max(0.0) / (near - 1.0).max(f64::MIN_POSITIVE).max(cell.mass - 1.0);
    }
    if spread <= 0.0 { 0.0 } else { widths / all * error(concentration / spread) }
}

/// The error that belongs to a concentration, between the known ones in proportion.
fn error(concentration: f64) -> f64 {
    let mut last = (0.0, 0.0);
    for next in ERRORS {
        if concentration <= next.0 {
            return last.1 + (next.1 - last.1) * (concentration - last.0) / (next.0 - last.0);
        }
        last = next;
    }
    last.1
}

fn middle(cell: &Cell) -> f64 {
    cell.at(0.5)
}

fn surroundings(cell: &Cell) -> [f64; 2] {
    match cell.axis {
        Axis::Linear => {
            let far = NEAR * (cell.hi - cell.lo);
            [cell.lo - far, cell.hi + far]
        }
        Axis::Log => {
            let far = (cell.hi / cell.lo).powf(NEAR);
            let [low, high] = [cell.lo / far, cell.hi * far];
            // Of negative values the lower is the larger.
            if low <= high { [low, high] } else { [cell.lo * far, cell.hi / far] }
        }
    }
}

/// The same mass in wide cells: what is left of buckets that were spread over finer ones.
fn blocks(cells: &[Cell], ln_width: f64) -> Vec<Cell> {
    let mut blocks: Vec<Cell> = Vec::new();
    for cell in cells {
        if cell.lo <= 0.0 {
            blocks.push(*cell);
            continue;
        }
        let index = (middle(cell).ln() / ln_width).floor();
        let [lo, hi] = [(index * ln_width).exp(), ((index + 1.0) * ln_width).exp()];
        match blocks.last_mut() {
            Some(last) if last.axis == Axis::Log && last.hi >= hi * (1.0 - 1e-9) => last.mass += cell.mass,
            _ => blocks.push(Cell { lo, hi, mass: cell.mass, axis: Axis::Log }),
        }
    }
    blocks
}
