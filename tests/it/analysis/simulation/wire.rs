//! Cells whose data come as children send them: each child's calls as its clock shows them, in the form of its report,
//! written and read as on the wire, merged by managers on two levels, and judged.

use choirmaster::analysis::{
    Clock, Design, Histogram, Judgement, Occasion, Rounding, Sample, Stratum, Tolerance, Values, Verdict,
    bounds, grid, values::GAMMA,
};

use super::{ALPHA, Ending, TOLERANCE, Tally, exceeds, run_with};
use crate::analysis::random::Random;

/// Children, and how many of them a manager has.
const CHILDREN: usize = 12;
const PER_MANAGER: usize = 4;

/// Upper ends of buckets as Prometheus' libraries have them by default, in milliseconds.
const PROMETHEUS: [f64; 11] = [5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 10_000.0];

/// What children know of their calls, and what they say of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Report {
    /// Values on whole milliseconds; the clock is named as this.
    Whole { rounding: Rounding, named: Clock },
    /// Every second child has whole milliseconds, the others all digits; each names its clock.
    HalfWhole,
    /// The same, and nobody names a clock.
    HalfWholeUnnamed,
    /// A plain histogram of whole milliseconds, as earlier builds have it.
    WholeHistogram,
    /// Between Prometheus' bounds.
    Prometheus,
}

/// A cell: log-normal calls with this median, coefficient of variation, and ratio between the versions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WireCell {
    pub report: Report,
    pub median: f64,
    pub variation: f64,
    pub ratio: f64,
    /// Of both versions together.
    pub calls: usize,
}

impl WireCell {
    pub fn name(&self) -> String {
        let Self { report, median, variation, ratio, calls } = self;
        format!("wire {report:?}, {median} ms, CV {variation}, ratio {ratio}, {calls} calls")
    }

    /// One run.
    pub fn run(&self, random: &mut Random) -> Ending {
        let merged = self.told(random);
        let mut judgement =
            Judgement::new(Design { alpha: ALPHA, ..Design::new(Tolerance::Ratio(TOLERANCE)) }).unwrap();
        let [baseline, canary] = merged.map(Sample::Measured);
        let strata = [Stratum::new("canary", 0, baseline, canary)];
        let verdict = judgement.decide(&strata, 0, Occasion::Last).verdict.unwrap();
        Ending { verdict, look: 1 }
    }

    /// Both sides, as the manager at the top has them.
    pub fn told(&self, random: &mut Random) -> [Values; 2] {
        let children: Vec<[Values; 2]> = (0..CHILDREN).map(|child| self.child(child, random)).collect();
        let lower: Vec<[Values; 2]> = children.chunks(PER_MANAGER).map(merged).collect();
        merged(&lower)
    }

    fn child(&self, child: usize, random: &mut Random) -> [Values; 2] {
        let sd = (1.0 + self.variation * self.variation).ln().sqrt();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..self.calls / CHILDREN {
            let side = usize::from(random.chance(0.5));
            times[side].push(self.median * [1.0, self.ratio][side] * random.log_normal(sd));
        }
        times.map(|times| self.values(child, &times))
    }

    /// What a manager makes of a child's report.
    fn values(&self, child: usize, times: &[f64]) -> Values {
        let read = |rounding: Rounding| {
            times.iter().map(move |time| match rounding {
                Rounding::Nearest => time.round(),
                Rounding::Down => time.floor(),
            })
        };
        let values = match self.report {
            Report::Whole { rounding, named } => Values::of(read(rounding), named).unwrap(),
            Report::HalfWhole if child.is_multiple_of(2) => {
                Values::of(read(Rounding::Nearest), Clock::stepped(1.0, Rounding::Nearest)).unwrap()
            }
            Report::HalfWholeUnnamed if child.is_multiple_of(2) => {
                Values::of(read(Rounding::Nearest), Clock::UNKNOWN).unwrap()
            }
            Report::HalfWhole => Values::of(times.iter().copied(), Clock::CONTINUOUS).unwrap(),
            Report::HalfWholeUnnamed => Values::of(times.iter().copied(), Clock::UNKNOWN).unwrap(),
            Report::WholeHistogram => {
                let mut histogram = Histogram::new(GAMMA).unwrap();
                read(Rounding::Nearest).for_each(|time| histogram.record(time).unwrap());
                bounds::of_sketch(&histogram).unwrap()
            }
            Report::Prometheus => {
                let mut counts = vec![0; PROMETHEUS.len() + 1];
                for time in times {
                    counts[PROMETHEUS.partition_point(|bound| bound < time)] += 1;
                }
                let least = times.iter().copied().fold(f64::INFINITY, f64::min);
                let most = times.iter().copied().fold(0.0, f64::max);
                bounds::of_bounds(&PROMETHEUS, &counts, [least, most]).unwrap()
            }
        };
        let clock = grid::clock(&values);
        values.with_clock(clock)
    }
}

/// Added up, and sent on.
fn merged(parts: &[[Values; 2]]) -> [Values; 2] {
    let sum = |side: usize| {
        let mut sum = parts[0][side].clone();
        parts[1..].iter().for_each(|part| sum.merge(&part[side]).unwrap());
        serde_json::from_str(&serde_json::to_string(&sum).unwrap()).unwrap()
    };
    [sum(0), sum(1)]
}

const NEAREST: Clock = Clock { step: Some(1.0), rounding: Some(Rounding::Nearest) };
const DOWN: Clock = Clock { step: Some(1.0), rounding: Some(Rounding::Down) };

fn whole(rounding: Rounding, named: Clock) -> Report {
    Report::Whole { rounding, named }
}

/// All of them, on the boundary.
pub fn nulls() -> Vec<WireCell> {
    let mut cells = Vec::new();
    let of = |report, median, variation| WireCell {
        report,
        median,
        variation,
        ratio: 1.0 + TOLERANCE,
        calls: 6_000,
    };
    for median in [2.0, 5.0, 15.0, 60.0, 300.0] {
        for variation in [0.1, 0.3, 1.0] {
            cells.push(of(whole(Rounding::Nearest, NEAREST), median, variation));
            cells.push(of(whole(Rounding::Down, DOWN), median, variation));
            cells.push(of(whole(Rounding::Nearest, Clock::UNKNOWN), median, variation));
            cells.push(of(whole(Rounding::Down, Clock::UNKNOWN), median, variation));
        }
        cells.push(of(Report::HalfWhole, median, 0.3));
        cells.push(of(Report::HalfWholeUnnamed, median, 0.3));
        cells.push(of(Report::WholeHistogram, median, 0.3));
    }
    for variation in [0.1, 0.3, 1.0] {
        cells.push(of(Report::Prometheus, 60.0, variation));
        cells.push(of(Report::HalfWhole, 5.0, variation));
    }
    cells
}

/// A few of them, with fewer calls.
pub fn thin() -> Vec<WireCell> {
    let of = |report, median, variation| WireCell {
        report,
        median,
        variation,
        ratio: 1.0 + TOLERANCE,
        calls: 3_000,
    };
    vec![
        of(whole(Rounding::Nearest, NEAREST), 15.0, 0.1),
        of(whole(Rounding::Down, Clock::UNKNOWN), 15.0, 0.1),
        of(whole(Rounding::Nearest, NEAREST), 5.0, 0.3),
        of(whole(Rounding::Down, DOWN), 5.0, 0.3),
        of(whole(Rounding::Nearest, NEAREST), 2.0, 0.1),
        of(Report::HalfWhole, 5.0, 0.3),
        of(Report::HalfWholeUnnamed, 15.0, 0.1),
        of(Report::WholeHistogram, 15.0, 0.1),
        of(Report::Prometheus, 60.0, 0.5),
    ]
}

/// More false alarms or false passes than chance allows.
fn faults(cells: &[WireCell], tallies: &[Tally]) -> Vec<String> {
    let mut faults = Vec::new();
    for (cell, tally) in cells.iter().zip(tallies) {
        for (what, count) in [("false alarms", tally.failed), ("false passes", tally.passed)] {
            if exceeds(count, tally.runs, ALPHA, cells.len()) {
                faults.push(format!("{}: {count} {what} in {} runs", cell.name(), tally.runs));
            }
        }
    }
    faults
}

fn run(cell: &WireCell, runs: u64) -> Tally {
    run_with(runs, |random| cell.run(random))
}

#[test]
fn what_children_send_keeps_alpha_whatever_their_clocks() {
    let cells = thin();
    let tallies: Vec<Tally> = cells.iter().map(|cell| run(cell, 150)).collect();
    let faults = faults(&cells, &tallies);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release --test it analysis::simulation::wire -- --ignored --nocapture"]
fn the_whole_simulation_of_what_children_send_keeps_alpha() {
    let runs = std::env::var("CHOIRMASTER_ANALYSIS_RUNS").map_or(2_000, |runs| runs.parse().unwrap());
    let only = std::env::var("CHOIRMASTER_ANALYSIS_CELLS").unwrap_or_default();
    let cells: Vec<WireCell> =
        nulls().into_iter().filter(|cell| cell.name().contains(only.as_str())).collect();
    println!(
        "| cell | false alarms | false passes | found at 1.15 | equal ones pass |\n|---|---:|---:|---:|---:|"
    );
    let mut tallies = Vec::new();
    for cell in &cells {
        let tally = run(cell, runs);
        let slow = run(&WireCell { ratio: 1.15, ..*cell }, runs / 10);
        let equal = run(&WireCell { ratio: 1.0, ..*cell }, runs / 10);
        println!(
            "| {} | {:.4} | {:.4} | {:.3} | {:.3} |",
            cell.name(),
            tally.share_failed(),
            tally.share_passed(),
            slow.share_failed(),
            equal.share_passed()
        );
        tallies.push(tally);
    }
    let faults = faults(&cells, &tallies);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What was once wrong, with the calls and runs that showed it.
#[test]
fn coarse_clocks_and_buckets_make_no_verdicts() {
    const RUNS: u64 = 60;
    let cell =
        |report, median, variation, ratio| WireCell { report, median, variation, ratio, calls: 12_000 };
    let nearest = whole(Rounding::Nearest, NEAREST);
    let unnamed = whole(Rounding::Nearest, Clock::UNKNOWN);
    for report in [nearest, unnamed, Report::WholeHistogram] {
        // Nearly all of them failed.
        assert!(!exceeds(run(&cell(report, 15.0, 0.1, 1.05), RUNS).failed, RUNS, ALPHA, 1), "{report:?}");
        assert_eq!(run(&cell(report, 15.0, 0.1, 1.04), RUNS).failed, 0, "{report:?}");
        // Nearly all of them passed, and hardly any was caught.
        assert!(!exceeds(run(&cell(report, 5.0, 0.3, 1.05), RUNS).passed, RUNS, ALPHA, 1), "{report:?}");
        assert!(run(&cell(report, 5.0, 0.3, 1.1), RUNS).failed > RUNS * 3 / 4, "{report:?}");
    }
    let prometheus = run(&cell(Report::Prometheus, 60.0, 0.5, 1.05), RUNS);
    assert_eq!((prometheus.passed, prometheus.failed), (0, 0));
    // However coarse they are, what is far slower is found.
    assert_eq!(run(&cell(Report::Prometheus, 60.0, 0.5, 10.0), RUNS).failed, RUNS);
    assert_eq!(run(&cell(nearest, 2.0, 0.1, 10.0), RUNS).failed, RUNS);
    for report in [Report::HalfWhole, Report::HalfWholeUnnamed] {
        let half = run(&cell(report, 5.0, 0.3, 1.05), RUNS);
        assert!(!exceeds(half.failed.max(half.passed), RUNS, ALPHA, 1), "{report:?} {half:?}");
    }
}

/// Judges of what children sent that are wrong in one point each.
mod mutants {
    use super::*;

    const RUNS: u64 = 60;

    fn judged(sides: [Sample; 2]) -> Verdict {
        let mut judgement =
            Judgement::new(Design { alpha: ALPHA, ..Design::new(Tolerance::Ratio(TOLERANCE)) }).unwrap();
        let [baseline, canary] = sides;
        let strata = [Stratum::new("canary", 0, baseline, canary)];
        judgement.decide(&strata, 0, Occasion::Last).verdict.unwrap()
    }

    /// The real judge keeps alpha, and one that sees the values as `mutant` makes them doesn't.
    fn refused(cell: WireCell, wrong: Verdict, mutant: impl Fn(Values) -> Sample + Sync) {
        let count = |tally: Tally| if wrong == Verdict::Fail { tally.failed } else { tally.passed };
        let real = count(run(&cell, RUNS));
        assert!(!exceeds(real, RUNS, ALPHA, 1), "the real one: {real} of {RUNS}");
        let verdict =
            |random: &mut Random| Ending { verdict: judged(cell.told(random).map(&mutant)), look: 1 };
        let mutant = count(run_with(RUNS, verdict));
        assert!(exceeds(mutant, RUNS, ALPHA, 1), "the mutant: {mutant} of {RUNS}");
    }

    fn cell(report: Report, median: f64, variation: f64) -> WireCell {
        WireCell { report, median, variation, ratio: 1.0 + TOLERANCE, calls: 12_000 }
    }

    #[test]
    fn one_that_takes_whole_milliseconds_for_exact_is_refused() {
        let whole = whole(Rounding::Nearest, NEAREST);
        let exact = |values: Values| Sample::Measured(values.with_clock(Clock::CONTINUOUS));
        refused(cell(whole, 15.0, 0.1), Verdict::Fail, exact);
    }

    #[test]
    fn one_that_spreads_a_whole_millisecond_over_its_bucket_is_refused() {
        let whole = whole(Rounding::Nearest, NEAREST);
        let bucketed = |values: Values| {
            let values = Values::from_histogram(values.to_histogram(), None).unwrap();
            Sample::Measured(values.with_clock(Clock::CONTINUOUS))
        };
        refused(cell(whole, 15.0, 0.1), Verdict::Fail, bucketed);
    }

    #[test]
    fn one_that_judges_a_mixture_by_the_finer_clock_is_refused() {
        let finer = |values: Values| Sample::Measured(values.with_clock(Clock::CONTINUOUS));
        refused(cell(Report::HalfWhole, 15.0, 0.1), Verdict::Fail, finer);
    }

    #[test]
    fn one_that_forgets_how_wide_buckets_were_is_refused() {
        let narrow = |values: Values| {
            let values = Values::from_histogram(values.to_histogram(), None).unwrap();
            Sample::Measured(values.with_clock(Clock::CONTINUOUS))
        };
        refused(cell(Report::Prometheus, 60.0, 0.1), Verdict::Pass, narrow);
    }
}
