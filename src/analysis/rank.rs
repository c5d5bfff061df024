//! Rank sums within a stratum, in O(n log n) with sorting, O(n) on what is sorted.
//!
//! With centred midranks r of canary and mapped baseline together, m baseline and n canary values, N = m + n:
//!
//! - S = Σ r over the canary, U = S + mn/2 (Mann and Whitney 1947);
//! - V = mn/(N(N−1)) Σr² and K = mn(m−n)/(N(N−1)(N−2)) Σr³, the moments of a sum drawn without replacement;
//!   with ties of t values, Σr² = (N³ − N − Σ(t³ − t))/12 and Σr³ = −¼ Σ r (t³ − t);
//! - the placement variance (Brunner and Munzel 2000) from the places of each side's values among the other's, without what it is
//!   too large by in the mean where the sides can be exchanged: mn/12 without ties.
//!
//! Strata are weighted with 1/(N + 1) (van Elteren 1960). Values that were spread over a cell enter with the mean of S
//! over all ways they may lie; V and K are those of values without ties then, which is no less than the truth.

mod pairs;

use super::{
    design::Tolerance,
    dist::normal_sf,
    spread::{Cell, SortedSide, TIE, tied},
    sums::Sums,
};

/// Least ratio that a baseline is compared at.
const LEAST_SCALE: f64 = 1e-9;

/// What is done to the baseline before it is compared: value × scale + shift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Map {
    pub scale: f64,
    pub shift: f64,
}

impl Map {
    pub const IDENTITY: Self = Self { scale: 1.0, shift: 0.0 };

    pub const fn scale(scale: f64) -> Self {
        Self { scale, shift: 0.0 }
    }

    pub const fn shift(shift: f64) -> Self {
        Self { scale: 1.0, shift }
    }

    /// By so much further, in the unit of the tolerance.
    #[must_use]
    pub fn moved(self, tolerance: Tolerance, by: f64) -> Self {
        match tolerance {
            Tolerance::Ratio(_) => Self { scale: (self.scale + by).max(LEAST_SCALE), ..self },
            Tolerance::Shift(_) => Self { shift: self.shift + by, ..self },
        }
    }

    pub fn of(self, value: f64) -> f64 {
        value * self.scale + self.shift
    }
}

/// A place of the pooled order, from low to high: tied values, or a stretch in which both sides are spread evenly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Element {
    pub baseline: f64,
    pub canary: f64,
    pub tie: bool,
}

/// Goes through the pooled order from low to high.
pub fn walk(baseline: &SortedSide, canary: &SortedSide, map: Map, mut see: impl FnMut(Element)) {
    if let (SortedSide::Points(baseline), SortedSide::Points(canary)) = (baseline, canary) {
        return walk_points(baseline, canary, map, &mut see);
    }
    let mapped = |cell: &Cell| Cell { lo: map.of(cell.lo), hi: map.of(cell.hi), ..*cell };
    let baseline: Vec<Cell> = baseline.to_cells().iter().map(mapped).collect();
    walk_cells(&baseline, &canary.to_cells(), &mut see);
}

fn walk_points(baseline: &[f64], canary: &[f64], map: Map, see: &mut impl FnMut(Element)) {
    let (mut i, mut j) = (0, 0);
    let mut x = baseline.first().map_or(f64::INFINITY, |x| map.of(*x));
    let mut y = canary.first().copied().unwrap_or(f64::INFINITY);
    while i < baseline.len() || j < canary.len() {
        let least = if x < y { x } else { y };
        // Values are finite: nothing is tied with the infinity behind the end.
        let limit = least + TIE * least.abs();
        let (i0, j0) = (i, j);
        while x <= limit {
            i += 1;
            x = baseline.get(i).map_or(f64::INFINITY, |x| map.of(*x));
        }
        while y <= limit {
            j += 1;
            y = canary.get(j).copied().unwrap_or(f64::INFINITY);
        }
        see(Element { baseline: (i - i0) as f64, canary: (j - j0) as f64, tie: true });
    }
}

fn walk_cells(baseline: &[Cell], canary: &[Cell], see: &mut impl FnMut(Element)) {
    let mut edges: Vec<f64> = baseline.iter().chain(canary).flat_map(|cell| [cell.lo, cell.hi]).collect();
    edges.sort_unstable_by(f64::total_cmp);
    edges.dedup_by(|next, kept| tied(*next, *kept));
    let (mut i, mut j) = (0, 0);
    for (at, &edge) in edges.iter().enumerate() {
        let point = Element {
            baseline: take_points(baseline, &mut i, edge),
            canary: take_points(canary, &mut j, edge),
            tie: true,
        };
        if point.baseline + point.canary > 0.0 {
            see(point);
        }
        if let Some(&next) = edges.get(at + 1) {
            let stretch = Element {
                baseline: take_stretch(baseline, &mut i, edge, next),
                canary: take_stretch(canary, &mut j, edge, next),
                tie: false,
            };
            if stretch.baseline + stretch.canary > 0.0 {
                see(stretch);
            }
        }
    }
}

/// The mass of the points at an edge. `at` is the first cell that isn't over.
fn take_points(cells: &[Cell], at: &mut usize, edge: f64) -> f64 {
    let mut mass = 0.0;
    while let Some(cell) = cells.get(*at) {
        if cell.is_point() && (cell.lo <= edge || tied(cell.lo, edge)) {
            mass += cell.mass;
        } else if cell.is_point() || !(cell.hi <= edge || tied(cell.hi, edge)) {
            break;
        }
        *at += 1;
    }
    mass
}

/// The mass between two neighbouring edges.
fn take_stretch(cells: &[Cell], at: &mut usize, from: f64, to: f64) -> f64 {
    match cells.get(*at) {
        Some(cell) if !cell.is_point() && (cell.lo <= from || tied(cell.lo, from)) => {
            cell.mass * cell.share(from.max(cell.lo), to.min(cell.hi))
        }
        _ => 0.0,
    }
}

/// The sums of one stratum, unweighted: U is `s` + mn/2.
pub fn rank_sums(baseline: &SortedSide, canary: &SortedSide, map: Map) -> Sums {
    let (m, n) = (baseline.count(), canary.count());
    if m < 1.0 || n < 1.0 {
        return Sums { baseline: m, canary: n, ..Sums::default() };
    }
    let mut order = Order { m, n, ..Order::default() };
    walk(baseline, canary, map, |element| order.see(element));
    order.sums()
}

/// The sums of one stratum, weighted for a sum over strata.
pub fn weighted_rank_sums(baseline: &SortedSide, canary: &SortedSide, map: Map) -> Sums {
    let sums = rank_sums(baseline, canary, map);
    let w = 1.0 / (sums.baseline + sums.canary + 1.0);
    Sums {
        s: sums.s * w,
        v: sums.v * w * w,
        k: sums.k * w * w * w,
        placement: sums.placement * w * w,
        proxy: sums.proxy * w * w,
        ..sums
    }
}

/// S alone: what an estimate needs.
pub fn rank_sum(baseline: &SortedSide, canary: &SortedSide, map: Map) -> f64 {
    match (baseline, canary) {
        (SortedSide::Points(baseline), SortedSide::Points(canary)) => pairs::rank_sum(baseline, canary, map),
        (SortedSide::Cells(_), _) | (_, SortedSide::Cells(_)) => rank_sums(baseline, canary, map).s,
    }
}

/// Sums while going through the order.
#[derive(Debug, Default)]
struct Order {
    m: f64,
    n: f64,
    baseline_below: f64,
    canary_below: f64,
    s: f64,
    /// Squares of the centred places of each side's values among the other's.
    canary_squares: f64,
    baseline_squares: f64,
    /// Pairs of a baseline and a canary value that are tied.
    tied_pairs: f64,
    /// Σ(t³ − t) and Σ r (t³ − t) over ties.
    ties: f64,
    tie_moments: f64,
}

impl Order {
    fn see(&mut self, Element { baseline, canary, tie }: Element) {
        let place = self.baseline_below + 0.5 * baseline - 0.5 * self.m;
        let other = self.canary_below + 0.5 * canary - 0.5 * self.n;
        self.s += canary * place;
        self.canary_squares += canary * place * place;
        self.baseline_squares += baseline * other * other;
        if tie {
            let t = baseline + canary;
            self.tied_pairs += baseline * canary;
            if t > 1.0 {
                let cubes = t * (t * t - 1.0);
                self.ties += cubes;
                self.tie_moments += (place + other) * cubes;
            }
        } else {
            self.canary_squares += canary * baseline * baseline / 12.0;
            self.baseline_squares += baseline * canary * canary / 12.0;
        }
        self.baseline_below += baseline;
        self.canary_below += canary;
    }

    fn sums(&self) -> Sums {
        let (m, n) = (self.m, self.n);
        let total = m + n;
        let squares = (total * (total * total - 1.0) - self.ties) / 12.0;
        let drawn = m * n / (total * (total - 1.0));
        let cubes = -0.25 * self.tie_moments;
        let third = if total > 2.0 { drawn * (m - n) / (total - 2.0) * cubes } else { 0.0 };
        // The placements of the canary sum to S, those of the baseline to −S.
        let spread = |squares: f64, count: f64| {
            if count < 2.0 { 0.0 } else { (squares - self.s * self.s / count).max(0.0) / (count - 1.0) }
        };
        let enough = m >= 2.0 && n >= 2.0;
        let v = drawn * squares.max(0.0);
        // Of sides that can be exchanged the placements are too wide in the mean, for those of one side have the other's values in
        // common: by a tenth of the variance where each side has 5 values.
        let untied = 0.25 * (m * n - self.tied_pairs);
        let bias = (untied * total - 2.0 * v) / (total - 2.0);
        let placement = n * spread(self.canary_squares, n) + m * spread(self.baseline_squares, m) - bias;
        Sums {
            baseline: m,
            canary: n,
            s: self.s,
            v,
            k: third,
            placement: if enough { placement.max(0.0) } else { 0.0 },
            proxy: m * n * (total + 1.0) / 12.0,
        }
    }
}

/// The alternative to "both sides can be exchanged".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternative {
    /// The canary tends to be higher.
    Greater,
    Less,
    TwoSided,
}

/// The p of Mann and Whitney's test as textbooks and scipy give it: normal, tie-corrected, with or without continuity
/// correction. Verdicts don't rest on it; it is the reference for those who check this module against another.
pub fn normal_p(sums: &Sums, alternative: Alternative, continuity: bool) -> f64 {
    let root = sums.v.sqrt();
    let half = if continuity { 0.5 } else { 0.0 };
    match alternative {
        Alternative::Greater => normal_sf((sums.s - half) / root),
        Alternative::Less => normal_sf((-sums.s - half) / root),
        Alternative::TwoSided => (2.0 * normal_sf((sums.s.abs() - half) / root)).min(1.0),
    }
}
