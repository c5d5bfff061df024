//! Judges of what children sent that are wrong in one point each.

use analysis::{Clock, End, Occasion, Rounding, Sample, Stratum, Values, Verdict};

use super::{
    super::{ALPHA, Ending, Tally, exceeds, run_with},
    Report, WireCell,
    cells::{self, NEAREST, whole},
    judgement, run,
};
use crate::random::Random;

const RUNS: u64 = 60;

fn judged([baseline, canary]: [Sample; 2]) -> Verdict {
    let strata = [Stratum::new("canary", 0, baseline, canary)];
    judgement(End::Once).decide(&strata, 0, Occasion::Last).verdict.unwrap()
}

/// The real judge keeps alpha, and one that sees the values as `mutant` makes them doesn't.
fn refused(cell: WireCell, wrong: Verdict, mutant: impl Fn(Values) -> Sample + Sync) {
    let count = |tally: Tally| if wrong == Verdict::Fail { tally.failed } else { tally.passed };
    let real = count(run(&cell, RUNS));
    assert!(!exceeds(real, RUNS, ALPHA, 1), "the real one: {real} of {RUNS}");
    let verdict = |random: &mut Random| Ending { verdict: judged(cell.told(random).map(&mutant)), look: 1 };
    let mutant = count(run_with(RUNS, verdict));
    assert!(exceeds(mutant, RUNS, ALPHA, 1), "the mutant: {mutant} of {RUNS}");
}

fn cell(report: Report, median: f64, variation: f64) -> WireCell {
    cells::cell(report, median, variation, 12_000)
}

/// Each value somewhere in its bucket, whatever grid there was.
#[expect(clippy::needless_pass_by_value, reason = "every mutant takes what a child reported")]
fn spread_over_buckets(values: Values) -> Sample {
    let buckets = values.to_histogram();
    let each = buckets.buckets().flat_map(|(low, high, count)| {
        (0..count).map(move |at| low + (high - low) * (at as f64 + 0.5) / count as f64)
    });
    Sample::Values(each.collect())
}

#[test]
fn one_that_takes_whole_milliseconds_for_exact_is_refused() {
    let whole = whole(Rounding::Nearest, NEAREST);
    // So many digits that no step is seen, and still where they were.
    let exact = |values: Values| {
        let pairs = values.exact().unwrap().iter();
        let each =
            pairs.flat_map(|(value, count)| (0..*count).map(move |at| value * (1.0 + 1e-8 * at as f64)));
        Sample::Values(each.collect())
    };
    refused(cell(whole, 15.0, 0.1), Verdict::Fail, exact);
}

#[test]
fn one_that_spreads_a_whole_millisecond_over_its_bucket_is_refused() {
    let whole = whole(Rounding::Nearest, NEAREST);
    refused(cell(whole, 15.0, 0.1), Verdict::Fail, spread_over_buckets);
}

#[test]
fn one_that_judges_a_mixture_by_the_finer_clock_is_refused() {
    refused(cell(Report::HalfWhole, 15.0, 0.1), Verdict::Fail, spread_over_buckets);
}

#[test]
fn one_that_does_not_see_two_clocks_in_one_histogram_is_refused() {
    refused(cell(Report::TwoClocksHistogram { whole: 0.5 }, 15.0, 0.1), Verdict::Fail, spread_over_buckets);
}

#[test]
fn one_that_forgets_how_wide_buckets_were_is_refused() {
    let narrow = |values: Values| {
        let values = Values::from_histogram(values.to_histogram(), None).unwrap();
        Sample::Measured(values.with_clock(Clock::CONTINUOUS))
    };
    refused(cell(Report::Prometheus, 60.0, 0.1), Verdict::Pass, narrow);
}
