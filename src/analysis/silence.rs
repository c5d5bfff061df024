//! Series that end before the analysis does: what they showed until then is no evidence of what came afterwards.
//!
//! Each look at a series is an interval, also one that had no value. A side has ended that has no value in the last of them, and
//! it has hardly been there if it has values in fewer than half as many as the other side.

use std::collections::BTreeSet;

use super::data::{Sample, Stratum};

/// A side that is measured no more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Silence {
    pub is_canary: bool,
    /// Intervals in which it has values, of so many.
    pub spoke: u64,
    pub of: u64,
    /// The last interval in which it has one.
    pub last: u64,
    /// It has none in the last interval.
    pub is_over: bool,
}

/// The side that fell silent first; none if both still speak. An earlier run that is compared with was as long as it was.
pub fn silence(strata: &[Stratum], is_against_earlier: bool) -> Option<Silence> {
    let intervals = |counts: &dyn Fn(&Stratum) -> bool| -> BTreeSet<u64> {
        strata.iter().filter(|stratum| counts(stratum)).map(|stratum| stratum.interval).collect()
    };
    let with_values = |side: fn(&Stratum) -> &Sample| intervals(&|stratum| side(stratum).count() > 0);
    let (all, baseline, canary) =
        (intervals(&|_| true), with_values(|s| &s.baseline), with_values(|s| &s.canary));
    let side = |own: &BTreeSet<u64>, other: &BTreeSet<u64>, is_canary: bool| {
        let (last, is_over) = (*own.last()?, own.last() != all.last());
        let [spoke, of] = [own, &all].map(|intervals| intervals.len() as u64);
        (is_over || 2 * own.len() < other.len()).then_some(Silence { is_canary, spoke, of, last, is_over })
    };
    let of_baseline = if is_against_earlier { None } else { side(&baseline, &canary, false) };
    let sides = [side(&canary, &baseline, true), of_baseline];
    sides.into_iter().flatten().min_by_key(|silence| silence.last)
}
