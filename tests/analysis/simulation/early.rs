//! A pass before the last look: how much sooner what is good passes, and what that costs at the end; beside an anytime-valid
//! bound, which is another way to pay for it. That neither passes what is bad is part of the null cells.

use std::fmt::Write as _;

use analysis::{
    Judgement, Occasion, Sample, Stratum, Verdict,
    anytime_test::ln_mixture,
    dist::normal_z,
    rank::{Map, weighted_rank_sums},
    spread::SortedSide,
};

use super::{
    ALPHA, Ending, TOLERANCE, Tally,
    cells::{Cell, Story},
    exceeds, run_with,
    shapes::Shape,
};
use crate::random::Random;

/// Most of the passes at the end that an early pass may cost, as a share of equal versions.
const MOST_LOST: f64 = 0.02;

/// Most of the time that equal versions take with twice the data of what lets 95 % pass at one look.
const MOST_TIME: f64 = 0.5;

/// Values on both sides in all that let 95 % of equal versions pass at one look: log-sd 0.5, tolerance 5 %, 50:50.
const ENOUGH: u64 = 4_700;

/// How a pass is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Judge {
    /// At the last look alone.
    AtTheEnd,
    /// The real one.
    Early,
    /// By the mixture without an end at a tenth of alpha, made for this part of the data, and nine tenths of alpha at the end.
    Mixture(f64),
    /// By a test at alpha at every look.
    Unpaid,
}

impl Judge {
    fn run(self, looks: u64, values: u64, ratio: f64, random: &mut Random) -> Ending {
        let cell = Cell { ratio, ..Cell::new(looks, values, 0.5, Story::Plain(Shape::Continuous)) };
        match self {
            Self::AtTheEnd => cell.run(random),
            Self::Early => cell.passing_early().run(random),
            Self::Mixture(_) | Self::Unpaid => self.by_sums(&cell, random),
        }
    }

    /// Beside the real judge's fails, so that the ways to pass are compared and nothing else.
    fn by_sums(self, cell: &Cell, random: &mut Random) -> Ending {
        let mut judgement = Judgement::new(cell.design()).unwrap();
        let (mut strata, mut s, mut v, mut proxy) = (Vec::new(), 0.0, 0.0, 0.0);
        for look in 1..=cell.looks {
            let is_last = look == cell.looks;
            let [baseline, canary] = sides(cell, random);
            let sum = weighted_rank_sums(
                &SortedSide::of_values(baseline.clone(), None),
                &SortedSide::of_values(canary.clone(), None),
                Map::scale(1.0 + TOLERANCE),
            );
            (s, v, proxy) = (s + sum.s, v + sum.v, proxy + sum.proxy);
            strata.push(Stratum::new("canary", look - 1, Sample::Values(baseline), Sample::Values(canary)));
            let occasion = if is_last { Occasion::Last } else { Occasion::Look };
            let verdict = judgement.decide(&strata, look * 1_000, occasion).verdict;
            if verdict == Some(Verdict::Fail) {
                return Ending { verdict: Verdict::Fail, look };
            }
            let z = -s / v.sqrt();
            let is_safe = match self {
                Self::Mixture(part) => {
                    let rho = part * proxy * cell.looks as f64 / look as f64;
                    ln_mixture(-s, proxy, rho) >= -(0.1 * ALPHA).ln()
                        || (is_last && z >= normal_z(0.9 * ALPHA))
                }
                _ => z >= normal_z(ALPHA),
            };
            if is_safe {
                return Ending { verdict: Verdict::Pass, look };
            }
        }
        Ending { verdict: Verdict::Inconclusive, look: cell.looks }
    }
}

fn sides(cell: &Cell, random: &mut Random) -> [Vec<f64>; 2] {
    let canary = random.binomial(cell.values, cell.share);
    let draw = |count: u64, scale: f64, random: &mut Random| {
        (0..count).map(|_| Shape::Continuous.draw(random, scale)).collect()
    };
    [draw(cell.values - canary, 1.0, random), draw(canary, cell.ratio, random)]
}

fn tally(judge: Judge, looks: u64, values: u64, ratio: f64, runs: u64) -> Tally {
    run_with(runs, |random| judge.run(looks, values, ratio, random))
}

/// Of all that ended, the share of the time that it took.
fn share_of_time(tally: &Tally, looks: u64) -> f64 {
    let until_the_end = (tally.undecided * looks + tally.looks_to_fail + tally.looks_to_pass) as f64;
    until_the_end / (tally.runs * looks) as f64
}

fn measure(looks: &[u64], runs: u64) -> (String, Vec<String>) {
    let mut text = "| looks | data | at the end | early: passes | time | mixture: passes | time | mixture for little: passes | time |\n\
                    |---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    let mut faults = Vec::new();
    for &looks in looks {
        for times in [0.6, 1.0, 2.0, 4.0] {
            let values = (times * ENOUGH as f64 / looks as f64).round() as u64;
            let of = |judge| tally(judge, looks, values, 1.0, runs);
            let [end, early, mixture, little] =
                [Judge::AtTheEnd, Judge::Early, Judge::Mixture(1.0 / 8.0), Judge::Mixture(1.0 / 30.0)]
                    .map(of);
            let _ = write!(text, "| {looks} | × {times} | {:.3} |", end.share_passed());
            for tally in [&early, &mixture, &little] {
                let _ = write!(text, " {:.3} | {:.2} |", tally.share_passed(), share_of_time(tally, looks));
            }
            text.push('\n');
            // Two standard errors of the difference, at most.
            let chance = 2.0 * (0.5 / runs as f64).sqrt();
            if end.share_passed() - early.share_passed() > MOST_LOST + chance {
                faults.push(format!(
                    "{looks} looks, × {times}: an early pass costs too much: {early:?}, {end:?}"
                ));
            }
            if times >= 2.0 && share_of_time(&early, looks) > MOST_TIME {
                faults.push(format!("{looks} looks, × {times}: an early pass is late: {early:?}"));
            }
        }
    }
    (text, faults)
}

#[test]
fn equal_versions_pass_early_and_hardly_less_often() {
    let (text, faults) = measure(&[10], 120);
    assert!(faults.is_empty(), "{text}\n{}", faults.join("\n"));
}

#[test]
fn a_judge_that_tests_at_alpha_at_every_look_passes_what_is_bad() {
    let (looks, values, runs) = (10, 40, 300);
    let real = tally(Judge::Early, looks, values, 1.0 + TOLERANCE, runs);
    assert!(!exceeds(real.passed, runs, ALPHA, 1), "the real one: {real:?}");
    let mutant = tally(Judge::Unpaid, looks, values, 1.0 + TOLERANCE, runs);
    assert!(exceeds(mutant.passed, runs, ALPHA, 1), "the mutant: {mutant:?}");
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release -p analysis simulation -- --ignored --nocapture"]
fn an_early_pass_comes_early_and_costs_little() {
    let runs = std::env::var("CHOIRMASTER_ANALYSIS_RUNS").map_or(4_000, |runs| runs.parse().unwrap());
    let (text, faults) = measure(&[10, 60], runs);
    println!("{text}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
