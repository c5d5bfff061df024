//! The rank sum alone, of single values: how many pairs have the baseline below the canary.
//!
//! Which side the next value comes from is anybody's guess, also the processor's: it is taken without a branch. Each step
//! waits for the one before, so that long sides are cut into stretches that are gone through side by side.

use super::{super::spread::TIE, Map};

/// Stretches of long sides.
const STRETCHES: usize = 4;

/// Shorter sides are gone through in one stretch.
const LEAST_STRETCH: usize = 1_024;

/// Places at which a cut is tried before there is none.
const CUT_TRIES: usize = 64;

/// S of sorted sides. A tie is one of two values here; in a chain of values that are nearly as close as that, sums over
/// the order may see two ties.
pub(super) fn rank_sum(baseline: &[f64], canary: &[f64], map: Map) -> f64 {
    let (m, n) = (baseline.len(), canary.len());
    let long = m.min(n) >= STRETCHES * LEAST_STRETCH;
    let cuts = (1..STRETCHES).filter(|_| long).map(|part| cut(baseline, canary, map, n * part / STRETCHES));
    let mut from = (0, 0);
    let mut stretches = Vec::with_capacity(STRETCHES);
    for end in cuts.flatten().chain([(m, n)]) {
        stretches.push(Stretch { i: from.0, j: from.1, end, doubled: 0 });
        from = end;
    }
    let sides = (baseline, canary);
    if let Ok([mut a, mut b, mut c, mut d]) = <[Stretch; STRETCHES]>::try_from(stretches.as_slice()) {
        while a.goes_on() && b.goes_on() && c.goes_on() && d.goes_on() {
            a.step(sides, map);
            b.step(sides, map);
            c.step(sides, map);
            d.step(sides, map);
        }
        stretches = vec![a, b, c, d];
    }
    let of = |stretch: &mut Stretch| {
        while stretch.goes_on() {
            stretch.step(sides, map);
        }
        stretch.total()
    };
    let doubled: u64 = stretches.iter_mut().map(of).sum();
    0.5 * (doubled as f64 - m as f64 * n as f64)
}

/// A part of both sides, and how far it has been gone through.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    i: usize,
    j: usize,
    end: (usize, usize),
    /// Twice the baseline values below each canary value, ties counted once.
    doubled: u64,
}

impl Stretch {
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "its numbers stay in registers")]
    fn goes_on(&self) -> bool {
        self.i < self.end.0 && self.j < self.end.1
    }

    /// Takes the lower one of both sides' next values.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "its numbers stay in registers")]
    fn step(&mut self, (baseline, canary): (&[f64], &[f64]), map: Map) {
        let (x, y) = (map.of(baseline[self.i]), canary[self.j]);
        if (x - y).abs() <= TIE * y.abs() {
            self.tie(baseline, canary, map);
            return;
        }
        let of_baseline = u64::from(x < y);
        // Nothing for a value of the baseline.
        self.doubled += of_baseline.wrapping_sub(1) & (2 * self.i as u64);
        self.i += of_baseline as usize;
        self.j += 1 - of_baseline as usize;
    }

    /// Takes what is tied with the lower one.
    #[cold]
    fn tie(&mut self, baseline: &[f64], canary: &[f64], map: Map) {
        let least = map.of(baseline[self.i]).min(canary[self.j]);
        let limit = tied_up_to(least);
        let count = |values: &[f64], map: Map| values.iter().take_while(|v| map.of(**v) <= limit).count();
        // The lower one at least, whatever rounding says.
        let x = count(&baseline[self.i..self.end.0], map);
        let y = count(&canary[self.j..self.end.1], Map::IDENTITY);
        self.doubled += y as u64 * (2 * self.i as u64 + x as u64);
        self.i += x;
        self.j += y;
    }

    /// With the canary values that lie above all of the baseline's.
    fn total(&self) -> u64 {
        self.doubled + (self.end.1 - self.j) as u64 * 2 * self.end.0 as u64
    }
}

fn tied_up_to(value: f64) -> f64 {
    value + TIE * value.abs()
}

/// How many values of each side lie below a cut at about the given place of the canary that no tie crosses.
fn cut(baseline: &[f64], canary: &[f64], map: Map, about: usize) -> Option<(usize, usize)> {
    (about.max(1)..canary.len()).take(CUT_TRIES).find_map(|j| {
        let i = baseline.partition_point(|x| map.of(*x) < canary[j]);
        let below = i.checked_sub(1).map_or(f64::NEG_INFINITY, |i| map.of(baseline[i])).max(canary[j - 1]);
        (tied_up_to(below) < canary[j]).then_some((i, j))
    })
}
