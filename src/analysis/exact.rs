//! The exact null distribution of the rank sum, where it is within reach.

use super::rank::Element;

/// Additions of one exact distribution.
const MAX_WORK: f64 = 3e7;

/// Largest N of an exact distribution: the number of ways to draw must stay a float.
pub const MAX_TOTAL: f64 = 1_000.0;

/// P(as high or higher) and P(as low or lower).
pub type Exact = (f64, f64);

/// The exact tails of U, if all values are exact and the work is small.
pub fn exact_tails(order: &[Element]) -> Option<Exact> {
    if order.iter().any(|element| !element.tie) {
        return None;
    }
    let m: f64 = order.iter().map(|element| element.baseline).sum();
    let n: f64 = order.iter().map(|element| element.canary).sum();
    if m < 1.0 || n < 1.0 || m + n > MAX_TOTAL {
        return None;
    }
    if order.iter().all(|element| element.baseline + element.canary < 1.5) {
        if m * n * m.min(n) > MAX_WORK {
            return None;
        }
        let mut below = 0.0;
        let mut u = 0.0;
        for element in order {
            u += element.canary * below;
            below += element.baseline;
        }
        return Some(without_ties(m as usize, n as usize, u as usize));
    }
    // Doubled midranks of N values reach 2N; drawing n of them, sums reach 2nN.
    if (m + n) * n * 2.0 * n * (m + n) > MAX_WORK {
        return None;
    }
    Some(with_ties(order, n as usize))
}

/// Coefficients of the Gaussian binomial, (1 − q^(m+1)) … (1 − q^(m+n)) / ((1 − q) … (1 − q^n)), which count the ways
/// to each U (Mann and Whitney 1947); symmetric, so half of them is enough.
fn without_ties(m: usize, n: usize, u: usize) -> Exact {
    let (m, n) = (m.max(n), m.min(n));
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
    let all = if (m * n) % 2 == 0 { 2.0 * sum_to(half) + ways[half] } else { 2.0 * sum_to(half + 1) };
    // P(U ≤ k) for k up to half; above by symmetry.
    let at_most = |k: usize| {
        if k <= half { sum_to(k + 1) / all } else { 1.0 - sum_to((m * n).saturating_sub(k)) / all }
    };
    (at_most(m * n - u), at_most(u))
}

/// The permutation distribution over midranks by the shift algorithm (Streitberg and Röhmel 1986), a tie at a time.
fn with_ties(order: &[Element], n: usize) -> Exact {
    let total: f64 = order.iter().map(|element| element.baseline + element.canary).sum();
    let total = total as usize;
    // ways[drawn][sum of doubled midranks, from the lowest midrank on]
    let highest = 2 * total * n;
    let mut ways = vec![vec![0.0_f64; highest + 1]; n + 1];
    ways[0][0] = 1.0;
    let (mut below, mut observed) = (0_usize, 0_usize);
    for element in order {
        let t = (element.baseline + element.canary) as usize;
        let doubled = 2 * below + t + 1;
        observed += doubled * element.canary as usize;
        let choose = binomials(t);
        for drawn in (0..n).rev() {
            for (c, &choices) in choose.iter().enumerate().skip(1).take_while(|(c, _)| drawn + c <= n) {
                let (from, to) = ways.split_at_mut(drawn + 1);
                let shift = c * doubled;
                if shift > highest {
                    break;
                }
                let source = &from[drawn][..=highest - shift];
                for (slot, old) in to[c - 1][shift..].iter_mut().zip(source) {
                    *slot += old * choices;
                }
            }
        }
        below += t;
    }
    let ways = &ways[n];
    let all: f64 = ways.iter().sum();
    let upper: f64 = ways[observed..].iter().rev().sum();
    let lower: f64 = ways[..=observed].iter().sum();
    (upper / all, lower / all)
}

fn binomials(t: usize) -> Vec<f64> {
    let mut row = vec![1.0];
    for c in 1..=t {
        row.push(row[c - 1] * (t + 1 - c) as f64 / c as f64);
    }
    row
}
