//! The share of values beyond a quantile of both sides together.
//!
//! Within a stratum the number t of values beyond the pooled quantile is given; if both sides can be exchanged, the
//! canary's part of them is hypergeometric. Seen as ranks: scores that are 1 beyond and 0 below, so that sums add over
//! strata (Mantel and Haenszel 1959). A slow tail of 5 % of the calls moves such a count far, and a median hardly.

use super::{
    dist::{Lattice, hypergeometric_pmf},
    rank::{Element, Map, walk},
    rate::sub_gaussian,
    spread::SortedSide,
    sums::Sums,
};

/// The sums of one stratum; its exact distribution is added to `lattice`, which counts canary values beyond.
pub fn tail_sums(
    baseline: &SortedSide,
    canary: &SortedSide,
    map: Map,
    q: f64,
    lattice: &mut Lattice,
) -> (Sums, u64) {
    let (m, n) = (baseline.count(), canary.count());
    let total = m + n;
    let mut order: Vec<Element> = Vec::new();
    walk(baseline, canary, map, |element| order.push(element));
    // From the top: as many whole elements as fit into the share beyond.
    let room = (1.0 - q) * total + 1e-6;
    let (mut beyond, mut mine) = (0.0, 0.0);
    for element in order.iter().rev() {
        let next = beyond + element.baseline + element.canary;
        if next > room {
            break;
        }
        beyond = next;
        mine += element.canary;
    }
    if beyond <= 0.0 || m < 1.0 || n < 1.0 {
        return (Sums { baseline: m, canary: n, ..Sums::default() }, 0);
    }
    let v = n * m * beyond * (total - beyond) / (total * total * (total - 1.0));
    let sums = Sums {
        baseline: m,
        canary: n,
        s: mine - n * beyond / total,
        v,
        k: if total > 2.0 {
            v * (total - 2.0 * beyond) * (total - 2.0 * n) / (total * (total - 2.0))
        } else {
            0.0
        },
        placement: 0.0,
        proxy: beyond * sub_gaussian(n / total),
    };
    // Parts of spread values are rounded for the lattice: what counts is that they are the same for both tails.
    let (whole, drawn, marked) = (total.round() as u64, n.round() as u64, beyond.round() as u64);
    lattice.add(marked.min(drawn), |k| hypergeometric_pmf(k, whole, marked, drawn));
    (sums, mine.round() as u64)
}
