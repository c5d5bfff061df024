//! The exact null distribution of the rank sum, where it is within reach.

use super::rank::Element;

/// Additions of one exact distribution.
const MAX_WORK: f64 = 3e7;

/// Largest N of an exact distribution: the number of ways to draw must stay a float.
const MAX_TOTAL: f64 = 1_000.0;

/// Largest N that is judged exactly between looks: so few values tell little, and there are many looks.
pub(super) const MAX_TOTAL_BETWEEN_LOOKS: f64 = 40.0;

/// Distributions that are kept: a search for a bound ends between two of them.
const KEPT: usize = 8;

/// P(as high or higher) and P(as low or lower).
pub type Exact = (f64, f64);

/// Exact distributions, the latest of them kept: one depends on nothing but the sizes of the ties from low to high and
/// on how many values are drawn, and a search over many ratios meets the same again and again.
#[derive(Debug, Clone)]
pub struct Distributions {
    /// Largest N.
    most: f64,
    /// The latest last.
    known: Vec<Distribution>,
}

#[derive(Debug, Clone)]
struct Distribution {
    drawn: usize,
    /// Sizes of ties from low to high; empty without any.
    ties: Vec<u32>,
    total: usize,
    /// P(sum ≤ k) and, where it isn't symmetric, P(sum ≥ k).
    at_most: Vec<f64>,
    at_least: Vec<f64>,
}

impl Distributions {
    /// For a single look, as far as they are within reach.
    pub fn at_once() -> Self {
        Self { most: MAX_TOTAL, known: Vec::new() }
    }

    /// For one look of many.
    pub fn between_looks() -> Self {
        Self { most: MAX_TOTAL_BETWEEN_LOOKS, known: Vec::new() }
    }

    /// For those who need no tails.
    pub fn none() -> Self {
        Self { most: 0.0, known: Vec::new() }
    }

    /// Is a distribution of so many values ever worked out?
    pub fn reaches(&self, total: f64) -> bool {
        total <= self.most
    }

    /// The exact tails of U, if all values are exact and the work is small.
    pub fn tails(&mut self, order: &[Element]) -> Option<Exact> {
        if order.iter().any(|element| !element.tie) {
            return None;
        }
        let m: f64 = order.iter().map(|element| element.baseline).sum();
        let n: f64 = order.iter().map(|element| element.canary).sum();
        if m < 1.0 || n < 1.0 || !self.reaches(m + n) {
            return None;
        }
        let (low, high) = (m.min(n), m.max(n));
        if order.iter().all(|element| element.baseline + element.canary < 1.5) {
            if m * n * low > MAX_WORK {
                return None;
            }
            let u: f64 = below(order, |element| element.baseline, |element| element.canary);
            let (low, high) = (low as usize, high as usize);
            return Some(self.of(low, Vec::new(), low + high, || without_ties(high, low)).untied(u as usize));
        }
        // Doubled midranks of N values reach 2N; drawing the smaller side, sums reach 2nN.
        let total = m + n;
        if total * low * 2.0 * low * total > MAX_WORK {
            return None;
        }
        let ties: Vec<u32> = order.iter().map(|element| (element.baseline + element.canary) as u32).collect();
        let drawn: fn(&Element) -> f64 =
            if n <= m { |element| element.canary } else { |element| element.baseline };
        let observed: usize =
            doubled_midranks(&ties).zip(order).map(|(rank, element)| rank * drawn(element) as usize).sum();
        let known = self.of(low as usize, ties.clone(), total as usize, || with_ties(&ties, low as usize));
        let (upper, lower) = (known.at_least[observed], known.at_most[observed]);
        // What is high for one side is low for the other.
        Some(if n <= m { (upper, lower) } else { (lower, upper) })
    }

    fn of(
        &mut self,
        drawn: usize,
        ties: Vec<u32>,
        total: usize,
        make: impl FnOnce() -> (Vec<f64>, Vec<f64>),
    ) -> &Distribution {
        let same = |known: &Distribution| known.drawn == drawn && known.total == total && known.ties == ties;
        if let Some(at) = self.known.iter().position(same) {
            let found = self.known.remove(at);
            self.known.push(found);
        } else {
            let (at_most, at_least) = make();
            if self.known.len() == KEPT {
                self.known.remove(0);
            }
            self.known.push(Distribution { drawn, ties, total, at_most, at_least });
        }
        &self.known[self.known.len() - 1]
    }
}

impl Distribution {
    /// Symmetric: only its lower half is kept.
    fn untied(&self, u: usize) -> Exact {
        let pairs = self.drawn * (self.total - self.drawn);
        let at_most = |k: usize| {
            self.at_most
                .get(k)
                .copied()
                .unwrap_or_else(|| 1.0 - (pairs - k).checked_sub(1).map_or(0.0, |k| self.at_most[k]))
        };
        (at_most(pairs - u), at_most(u))
    }
}

/// The exact tails of U at a single look.
pub fn exact_tails(order: &[Element]) -> Option<Exact> {
    Distributions::at_once().tails(order)
}

/// Pairs in which the one lies below the other.
fn below(order: &[Element], low: impl Fn(&Element) -> f64, high: impl Fn(&Element) -> f64) -> f64 {
    let (mut below, mut u) = (0.0, 0.0);
    for element in order {
        u += high(element) * below;
        below += low(element);
    }
    u
}

/// The doubled midrank of each tie.
fn doubled_midranks(ties: &[u32]) -> impl Iterator<Item = usize> {
    ties.iter().scan(0, |below, tie| {
        let midrank = 2 * *below + *tie as usize + 1;
        *below += *tie as usize;
        Some(midrank)
    })
}

/// Coefficients of the Gaussian binomial, (1 − q^(m+1)) … (1 − q^(m+n)) / ((1 − q) … (1 − q^n)), which count the ways
/// to each U (Mann and Whitney 1947); symmetric, so half of them is enough.
fn without_ties(m: usize, n: usize) -> (Vec<f64>, Vec<f64>) {
    let half = m * n / 2;
    let mut ways = vec![0.0_f64; half + 1];
    ways[0] = 1.0;
    for i in 1..=n {
        for k in (m + i..=half).rev() {
            ways[k] -= ways[k - m - i];
        }
        for k in i..=half {
            ways[k] += ways[k - i];
        }
    }
    let sum_to = |end: usize| ways[..end].iter().sum::<f64>();
    let all =
        if (m * n).is_multiple_of(2) { 2.0 * sum_to(half) + ways[half] } else { 2.0 * sum_to(half + 1) };
    (cumulated(ways.iter(), all), Vec::new())
}

/// The permutation distribution over midranks by the shift algorithm (Streitberg and Röhmel 1986), a tie at a time:
/// P(sum ≤ k) and P(sum ≥ k) of the doubled midranks of `n` values that are drawn.
fn with_ties(ties: &[u32], n: usize) -> (Vec<f64>, Vec<f64>) {
    let total: usize = ties.iter().map(|tie| *tie as usize).sum();
    // ways[drawn][sum], and from where to where there are any.
    let highest = 2 * total * n;
    let mut ways = vec![vec![0.0_f64; highest + 1]; n + 1];
    let mut reach: Vec<Option<(usize, usize)>> = vec![None; n + 1];
    ways[0][0] = 1.0;
    reach[0] = Some((0, 0));
    for (&tie, doubled) in ties.iter().zip(doubled_midranks(ties)) {
        let choose = binomials(tie as usize);
        for drawn in (0..n).rev() {
            let Some((low, high)) = reach[drawn] else { continue };
            for (c, &choices) in choose.iter().enumerate().skip(1).take_while(|(c, _)| drawn + c <= n) {
                let (from, to) = ways.split_at_mut(drawn + 1);
                let shift = c * doubled;
                let target = &mut to[c - 1][low + shift..=high + shift];
                for (slot, old) in target.iter_mut().zip(&from[drawn][low..=high]) {
                    *slot += old * choices;
                }
                let grown = reach[drawn + c].unwrap_or((usize::MAX, 0));
                reach[drawn + c] = Some((grown.0.min(low + shift), grown.1.max(high + shift)));
            }
        }
    }
    let ways = &ways[n];
    let all: f64 = ways.iter().sum();
    let mut at_least = cumulated(ways.iter().rev(), all);
    at_least.reverse();
    (cumulated(ways.iter(), all), at_least)
}

/// Shares of `all` up to each.
fn cumulated<'a>(ways: impl Iterator<Item = &'a f64>, all: f64) -> Vec<f64> {
    let sum = |sum: &mut f64, ways: &f64| {
        *sum += ways;
        Some(*sum / all)
    };
    ways.scan(0.0, sum).collect()
}

fn binomials(t: usize) -> Vec<f64> {
    let mut row = vec![1.0];
    for c in 1..=t {
        row.push(row[c - 1] * (t + 1 - c) as f64 / c as f64);
    }
    row
}
