//! What it takes to find that a new version is slower, beside the fewest calls that any test can need.
//!
//! The other side is a sequential probability ratio test (Wald 1945) that is told how much slower the new version is, which nobody
//! knows: of all tests with the same two errors it needs the fewest calls in the mean (Wald and Wolfowitz 1948). Both see the same:
//! rank sums of [`SIDE`] calls a side, the fewest that are ranked together, and both look after each of them. Both have the same
//! alpha at the tolerance and find the change with the same power, exactly: Wald's own thresholds, which forget that the last step
//! goes beyond them, would leave such a test with smaller errors and more calls, the more the fewer looks there are, so its
//! thresholds are those at which its errors are alpha and one less the power as simulated. What it is told of a rank sum is how
//! often that comes at the change and how often at the tolerance.
//!
//! Our side has as many looks as give that power, a mean of two neighbouring plans where none hits it. Told are
//!
//! - the calls until it ends, in the mean over all runs, those that end undecided included, as the other test's calls are a mean
//!   over all of its runs;
//! - the calls that such a plan has to have. They can't come near the other test's mean, which has no end: a test of all calls
//!   at once that is told the change (Neyman and Pearson 1933) takes 1.62 times as many where looks are many.
//!
//! What keeps the first above 1: our boundaries hold for a change of any size, a run that won't fail goes on to its end, and a
//! third of alpha is kept for that end, which makes it come sooner.

use std::{num::NonZero, thread};

use analysis::{
    Design, End, Judgement, Occasion, Sample, Spending, Stratum, Tolerance, Verdict, rank, spread::SortedSide,
};

use crate::random::Random;

/// Calls of a version in what is ranked together.
const SIDE: usize = 5;

/// Rank sums of so many calls are these, from 0 on.
const SUMS: usize = SIDE * SIDE + 1;

const TOLERANCE: f64 = 0.05;
const ALPHA: f64 = 0.05;
const POWER: f64 = analysis::power::POWER;

/// Standard deviation of the logarithm of times.
const SD: f64 = 0.5;

/// Rank sums by which it is told how often each comes.
const DRAWS: u64 = 4_000_000;

/// Most looks of the other test: next to never so many.
const MOST_STEPS: u64 = 2_000;

/// Rounds in which its thresholds are found.
const ROUNDS: usize = 12;

/// Calls on both sides together for the power, in the mean where it isn't a plan.
#[derive(Debug, Clone, Copy)]
pub struct Needed {
    pub planned: f64,
    pub mean: f64,
    /// Of the test that is told the change.
    pub told: f64,
}

/// To find that the new version takes `ratio` times as long; each number of so many runs.
pub fn needed(ratio: f64, runs: u64) -> Needed {
    let told = told(ratio, runs);
    // Power grows with the number of looks: halving finds the two between which it is reached.
    let (mut few, mut many) = (Ours { looks: 0, power: 0.0, mean: 0.0 }, Ours::of(ratio, 2, runs));
    while many.power < POWER {
        (few, many) = (many, Ours::of(ratio, 2 * many.looks, runs));
    }
    while many.looks - few.looks > 1 {
        let middle = Ours::of(ratio, u64::midpoint(few.looks, many.looks), runs);
        if middle.power < POWER { few = middle } else { many = middle }
    }
    let part = (POWER - few.power) / (many.power - few.power);
    let between = |few: f64, many: f64| few + part * (many - few);
    Needed {
        planned: between(calls(few.looks as f64), calls(many.looks as f64)),
        mean: between(few.mean, many.mean),
        told,
    }
}

fn calls(looks: f64) -> f64 {
    looks * 2.0 * SIDE as f64
}

fn times(ratio: f64, random: &mut Random) -> Vec<f64> {
    (0..SIDE).map(|_| 20.0 * ratio * random.log_normal(SD)).collect()
}

/// The mean of each number that `one` gives, over so many runs.
fn means<const N: usize>(runs: u64, one: impl Fn(&mut Random) -> [f64; N] + Sync) -> [f64; N] {
    let threads = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let part = |thread: u64| {
        let mut sums = [0.0; N];
        for run in (thread..runs).step_by(threads as usize) {
            let found = one(&mut Random::new(run));
            sums.iter_mut().zip(found).for_each(|(sum, more)| *sum += more);
        }
        sums
    };
    let all = thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        parts.into_iter().filter_map(|part| part.join().ok()).collect::<Vec<_>>()
    });
    let sum = |at: usize| all.iter().map(|part| part[at]).sum::<f64>() / runs as f64;
    std::array::from_fn(sum)
}

/// The judge with so many looks.
#[derive(Debug, Clone, Copy)]
struct Ours {
    looks: u64,
    power: f64,
    mean: f64,
}

impl Ours {
    fn of(ratio: f64, looks: u64, runs: u64) -> Self {
        let mut design = Design::new(Tolerance::Ratio(TOLERANCE));
        design.alpha = ALPHA;
        design.end = End::After { duration_ms: looks, interval_ms: 1, spending: Spending::default() };
        let [power, mean] = means(runs, |random| {
            // A design that is right is no fault.
            let Ok(mut judgement) = Judgement::new(design.clone()) else { return [0.0; 2] };
            let mut strata = Vec::new();
            for look in 1..=looks {
                let [baseline, canary] = [1.0, ratio].map(|ratio| Sample::Values(times(ratio, random)));
                strata.push(Stratum::new("canary", look - 1, baseline, canary));
                if judgement.decide(&strata, look, Occasion::Look).verdict == Some(Verdict::Fail) {
                    return [1.0, calls(look as f64)];
                }
            }
            [0.0, calls(looks as f64)]
        });
        Self { looks, power, mean }
    }
}

/// Calls of the test that is told the change.
fn told(ratio: f64, runs: u64) -> f64 {
    let [null, change] = [1.0 + TOLERANCE, ratio].map(frequencies);
    let worth: Vec<f64> = null.iter().zip(&change).map(|(null, change)| (change / null).ln()).collect();
    let apart = (worth[SUMS - 1] - worth[0]) / (SUMS - 1) as f64;
    let [null, change] = [summed(&null), summed(&change)];
    let run = |sums: &[f64], [fail, pass]: [f64; 2]| {
        means(10 * runs, |random| {
            // Rank sums are whole numbers: between two of them chance decides, so that any level can be had.
            let mut ln_ratio = apart * (random.uniform() - 0.5);
            for step in 1..=MOST_STEPS {
                let place = random.uniform();
                ln_ratio += worth[sums.partition_point(|sum| *sum < place).min(SUMS - 1)];
                if ln_ratio >= fail || ln_ratio <= pass {
                    return [f64::from(u8::from(ln_ratio >= fail)), step as f64];
                }
            }
            [0.0, MOST_STEPS as f64]
        })
    };
    let mut thresholds = [(POWER / ALPHA).ln(), ((1.0 - POWER) / (1.0 - ALPHA)).ln()];
    for _ in 0..ROUNDS {
        let ([alpha, _], [power, _]) = (run(&null, thresholds), run(&change, thresholds));
        thresholds[0] += (alpha / ALPHA).ln();
        thresholds[1] -= ((1.0 - power) / (1.0 - POWER)).ln();
    }
    let [_, steps] = run(&change, thresholds);
    calls(steps)
}

/// How often each rank sum comes if the new version takes `ratio` times as long.
fn frequencies(ratio: f64) -> Vec<f64> {
    let found: [f64; SUMS] = means(DRAWS, |random| {
        let [baseline, canary] = [1.0, ratio].map(|ratio| SortedSide::of_values(times(ratio, random), None));
        let sums = rank::rank_sums(&baseline, &canary, rank::Map::scale(1.0 + TOLERANCE));
        let mut one = [0.0; SUMS];
        one[(sums.s + 0.5 * (SIDE * SIDE) as f64).round() as usize] = 1.0;
        one
    });
    // Those that never came are taken for half as frequent as can be seen.
    found.iter().map(|part| part.max(0.5 / DRAWS as f64)).collect()
}

fn summed(frequencies: &[f64]) -> Vec<f64> {
    frequencies
        .iter()
        .scan(0.0, |sum, part| {
            *sum += part;
            Some(*sum)
        })
        .collect()
}
