//! Cells whose data come as children send them: each child's calls as its clock shows them, in the form of its report,
//! written and read as on the wire, merged by managers on two levels, and judged.

mod cells;
mod fleet;
mod mutants;

use std::{collections::BTreeMap, fmt};

use analysis::{
    Clock, Design, End, Histogram, Judgement, Occasion, Rounding, Sample, Stratum, Tolerance, Values, bounds,
    grid, values::GAMMA,
};

use self::cells::{MICROSECONDS, NEAREST, cell, nulls, thin, twice, whole};
use super::{
    ALPHA, Ending, Finds, Null, TOLERANCE, Tally, asked, design, exceeds, looked_at, measure, run_with, wrong,
};
use crate::random::Random;

/// Children, and how many of them a manager has.
const CHILDREN: usize = 12;
const PER_MANAGER: usize = 4;

/// Upper ends of buckets as Prometheus' libraries have them by default, in milliseconds.
const PROMETHEUS: [f64; 11] = [5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 10_000.0];

/// What children know of their calls, and what they say of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Report {
    /// Whole microseconds, named.
    Microseconds,
    /// Values on whole milliseconds; the clock is named as this.
    Whole { rounding: Rounding, named: Clock },
    /// Values on multiples of this, in milliseconds; the clock is named as that.
    Stepped { step: f64, named: Clock },
    /// Values on multiples of this, and these told in whole milliseconds; the clock is named as that.
    Twice { step: f64, rounding: Rounding, named: Clock },
    /// Every second child has whole milliseconds, the others all digits; each names its clock.
    HalfWhole,
    /// The same, and nobody names a clock.
    HalfWholeUnnamed,
    /// Each child has this share of its calls in whole milliseconds, the others to the microsecond, and names no clock.
    TwoClocks { whole: f64 },
    /// The same in a histogram.
    TwoClocksHistogram { whole: f64 },
    /// A plain histogram of whole milliseconds.
    WholeHistogram,
    /// Between Prometheus' bounds.
    Prometheus,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Microseconds => f.write_str("whole µs"),
            Self::Whole { rounding, named } => {
                let unnamed = if named.step.is_none() { ", unnamed" } else { "" };
                let down = if *rounding == Rounding::Down { ", cut off" } else { "" };
                write!(f, "whole ms{down}{unnamed}")
            }
            Self::Stepped { step, named: Clock { step: None, .. } } => {
                write!(f, "steps of {step} ms, unnamed")
            }
            Self::Stepped { step, named: Clock { step: Some(named), .. } } => {
                write!(f, "steps of {step} ms, named {named}")
            }
            Self::Twice { step, rounding, named } => {
                let unnamed = if named.step.is_none() { ", unnamed" } else { "" };
                let down = if *rounding == Rounding::Down { ", cut off" } else { "" };
                write!(f, "steps of {step} ms in whole ms{down}{unnamed}")
            }
            Self::HalfWhole => f.write_str("half the children whole ms"),
            Self::HalfWholeUnnamed => f.write_str("half the children whole ms, unnamed"),
            Self::TwoClocks { whole } => write!(f, "{} % of the calls whole ms, unnamed", whole * 100.0),
            Self::TwoClocksHistogram { whole } => {
                write!(f, "{} % of the calls whole ms, histogram", whole * 100.0)
            }
            Self::WholeHistogram => f.write_str("whole ms, histogram"),
            Self::Prometheus => f.write_str("Prometheus' bounds"),
        }
    }
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
    pub looks: u64,
}

/// What each interval has of both versions, as it is told.
type Parts = BTreeMap<u64, [Values; 2]>;

impl Null for WireCell {
    fn name(&self) -> String {
        let Self { report, median, variation, calls, looks, .. } = self;
        let looks = if *looks > 1 { format!(" in {looks} looks") } else { String::new() };
        format!("wire: {report}, {median} ms, CV {variation}, {calls} calls{looks}")
    }

    fn run(&self, random: &mut Random) -> Ending {
        if self.looks > 1 {
            return self.looked_at(random);
        }
        let [baseline, canary] = self.told(random).map(Sample::Measured);
        let strata = [Stratum::new("canary", 0, baseline, canary)];
        let verdict = judgement(End::Once).decide(&strata, 0, Occasion::Last).verdict.unwrap();
        Ending { verdict, look: 1 }
    }

    fn at(&self, ratio: f64) -> Self {
        Self { ratio, ..*self }
    }

    fn finds(&self) -> [Finds; 2] {
        let step = match self.report {
            Report::Microseconds => 0.0,
            Report::Stepped { step, .. } | Report::Twice { step, .. } => step,
            // Most bounds are twice as high as the one before, or more.
            Report::Prometheus => return [Finds::seldom(1.2), Finds::promised(10.0)],
            _ => 1.0,
        };
        // Hardly more than two steps are told apart.
        let fifth = if step < 0.5 * self.median { Finds::promised(1.2) } else { Finds::seldom(1.2) };
        [fifth, Finds::promised(2.0)]
    }
}

fn judgement(end: End) -> Judgement {
    Judgement::new(Design { alpha: ALPHA, end, ..Design::new(Tolerance::Ratio(TOLERANCE)) }).unwrap()
}

impl WireCell {
    /// Both sides, as the manager at the top has them.
    pub fn told(&self, random: &mut Random) -> [Values; 2] {
        let children: Vec<[Values; 2]> =
            (0..CHILDREN).map(|child| self.child(child, self.calls / CHILDREN, random)).collect();
        let lower: Vec<[Values; 2]> = children.chunks(PER_MANAGER).map(merged).collect();
        merged(&lower)
    }

    /// Looked at in every interval, at all that was told until then. A third of the children are late each time, so that what
    /// they measured comes with the next look.
    fn looked_at(&self, random: &mut Random) -> Ending {
        let mut measured = vec![Parts::new(); CHILDREN];
        let mut told = measured.clone();
        let mut taken = Parts::new();
        looked_at(Judgement::new(design(self.looks, false)).unwrap(), self.looks, |look, _| {
            for (child, measured) in measured.iter_mut().enumerate() {
                measured.insert(look, self.child(child, self.calls / CHILDREN / self.looks as usize, random));
                if look == self.looks || !random.chance(1.0 / 3.0) {
                    told[child] = measured.clone();
                }
            }
            let lower: Vec<Parts> = told.chunks(PER_MANAGER).map(merged_parts).collect();
            let mut strata = Vec::new();
            for (interval, now) in merged_parts(&lower) {
                let new = match taken.get(&interval) {
                    Some([base, canary]) => [now[0].since(base).unwrap(), now[1].since(canary).unwrap()],
                    None => now.clone(),
                };
                taken.insert(interval, now);
                if new.iter().any(|side| !side.is_empty()) {
                    let [baseline, canary] = new.map(Sample::Measured);
                    let name = format!("canary, interval {interval}");
                    strata.push(Stratum::new(name, look - 1, baseline, canary));
                }
            }
            strata
        })
    }

    fn child(&self, child: usize, calls: usize, random: &mut Random) -> [Values; 2] {
        let sd = (1.0 + self.variation * self.variation).ln().sqrt();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..calls {
            let side = usize::from(random.chance(0.5));
            let time = self.median * [1.0, self.ratio][side] * random.log_normal(sd);
            times[side].push(match self.report {
                Report::TwoClocks { whole } | Report::TwoClocksHistogram { whole }
                    if random.chance(whole) =>
                {
                    time.round()
                }
                Report::Microseconds | Report::TwoClocks { .. } => (time * 1e3).round() / 1e3,
                _ => time,
            });
        }
        sent(times.map(|times| self.values(child, &times)))
    }

    /// What a manager makes of a child's report.
    fn values(&self, child: usize, times: &[f64]) -> Values {
        let whole = |time: f64, rounding: Rounding| match rounding {
            Rounding::Nearest => time.round(),
            Rounding::Down => time.floor(),
        };
        let read = |rounding: Rounding| times.iter().map(move |time| whole(*time, rounding));
        let values = match self.report {
            Report::Microseconds => Values::of(times.iter().copied(), MICROSECONDS).unwrap(),
            Report::TwoClocksHistogram { .. } => in_buckets(times.iter().copied()),
            Report::Whole { rounding, named } => Values::of(read(rounding), named).unwrap(),
            Report::Stepped { step, named } => {
                Values::of(times.iter().map(|time| (time / step).round() * step), named).unwrap()
            }
            Report::Twice { step, rounding, named } => {
                Values::of(times.iter().map(|time| whole((time / step).round() * step, rounding)), named)
                    .unwrap()
            }
            Report::HalfWhole if child.is_multiple_of(2) => {
                Values::of(read(Rounding::Nearest), Clock::stepped(1.0, Rounding::Nearest)).unwrap()
            }
            Report::HalfWholeUnnamed if child.is_multiple_of(2) => {
                Values::of(read(Rounding::Nearest), Clock::UNKNOWN).unwrap()
            }
            Report::HalfWhole => Values::of(times.iter().copied(), Clock::CONTINUOUS).unwrap(),
            Report::HalfWholeUnnamed | Report::TwoClocks { .. } => {
                Values::of(times.iter().copied(), Clock::UNKNOWN).unwrap()
            }
            Report::WholeHistogram => in_buckets(read(Rounding::Nearest)),
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

/// Times in buckets without a clock.
fn in_buckets(times: impl Iterator<Item = f64>) -> Values {
    let mut histogram = Histogram::new(GAMMA).unwrap();
    times.for_each(|time| histogram.record(time).unwrap());
    bounds::of_sketch(&histogram).unwrap()
}

/// As it is written and read.
fn sent(sides: [Values; 2]) -> [Values; 2] {
    sides.map(|side| serde_json::from_str(&serde_json::to_string(&side).unwrap()).unwrap())
}

/// Added up, and sent on.
fn merged(parts: &[[Values; 2]]) -> [Values; 2] {
    let mut sum = parts[0].clone();
    for part in &parts[1..] {
        sum.iter_mut().zip(part).for_each(|(sum, more)| sum.merge(more).unwrap());
    }
    sent(sum)
}

/// The same interval by interval.
fn merged_parts(parts: &[Parts]) -> Parts {
    let intervals = parts.iter().flat_map(|part| part.keys().copied());
    let sides = |interval: u64| -> Vec<[Values; 2]> {
        parts.iter().filter_map(|part| part.get(&interval)).cloned().collect()
    };
    intervals.map(|interval| (interval, sides(interval))).map(|(at, sides)| (at, merged(&sides))).collect()
}

fn run(cell: &WireCell, runs: u64) -> Tally {
    run_with(runs, |random| cell.run(random))
}

#[test]
fn what_children_send_keeps_alpha_whatever_their_clocks() {
    let cells = thin();
    let faults = cells.iter().flat_map(|cell| wrong(&cell.name(), &run(cell, 150), [ALPHA; 2], cells.len()));
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release -p analysis simulation::wire -- --ignored --nocapture"]
fn the_whole_simulation_of_what_children_send_keeps_alpha() {
    let asked = asked(2_000);
    let faults = measure(&asked.of(nulls()), asked.runs, 10);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Once half the calls on a clock of a millisecond, of one child that names none, were taken for as exact as the others.
#[test]
fn two_clocks_in_one_histogram_are_told_from_one() {
    const RUNS: u64 = 60;
    for report in [Report::TwoClocks { whole: 0.5 }, Report::TwoClocksHistogram { whole: 0.5 }] {
        for median in [2.0, 5.0, 15.0] {
            let found = run(&cell(report, median, 0.1, 12_000), RUNS);
            assert!(
                !exceeds(found.failed.max(found.passed), RUNS, ALPHA, 6),
                "{report:?}, {median}: {found:?}"
            );
        }
        assert_eq!(run(&cell(report, 15.0, 0.1, 12_000).at(1.15), RUNS).failed, RUNS, "{report:?}");
        assert_eq!(run(&cell(report, 15.0, 0.1, 12_000).at(1.0), RUNS).passed, RUNS, "{report:?}");
    }
}

/// Once steps of 15 and 16 ms were taken for those of 1 ms.
#[test]
fn a_clock_that_is_rounded_twice_passes_nothing_that_it_does_not_show() {
    const RUNS: u64 = 60;
    for cell in twice().into_iter().filter(|cell| cell.median < 100.0) {
        let found = run(&cell.at(1.1), RUNS);
        assert!(!exceeds(found.passed, RUNS, ALPHA, 12), "{}: {found:?}", cell.name());
    }
    // Where a step is little beside what is measured, it is judged.
    let cell = cell(
        Report::Twice { step: 15.625, rounding: Rounding::Nearest, named: NEAREST },
        1_000.0,
        0.3,
        12_000,
    );
    assert_eq!(run(&cell.at(1.0), RUNS).passed, RUNS);
    assert_eq!(run(&cell.at(1.2), RUNS).failed, RUNS);
}

/// Who sees a coarse clock where there is none can't pass what a fine one could tell.
#[test]
fn times_of_a_fine_clock_are_not_taken_for_those_of_two() {
    let mut random = Random::new(9);
    for median in [2.0, 5.0, 15.0, 50.0] {
        for variation in [0.005, 0.01, 0.02, 0.03, 0.1, 0.3, 1.0] {
            let times = (0..20_000).map(|_| median * random.log_normal(variation));
            let values = in_buckets(times);
            assert_eq!(grid::clock(&values).step, Some(0.0), "{median} ms, CV {variation}");
            assert_eq!(grid::common_clock(&values.with_clock(Clock::CONTINUOUS)), Clock::CONTINUOUS);
        }
    }
}

/// Whatever is said of how many there were, it costs no more to look at.
#[test]
fn as_many_calls_as_are_counted_are_looked_at_in_no_time() {
    let step_of = |whole: u64, beside: u64, others: u64| {
        let mut all = in_buckets([15.0].into_iter());
        for (ms, count) in [(15.0, whole - 1), (14.85, beside / 2), (15.15, beside / 2), (14.6, others)] {
            all.record(ms, count).unwrap();
        }
        grid::common_clock(&all.with_clock(Clock::CONTINUOUS)).step
    };
    // Two fifths, hardly more than that, and nearly all.
    assert_eq!(step_of(1 << 46, 3 << 45, 1 << 46), Some(0.0));
    assert_eq!(step_of((1 << 46) + (1 << 24), 3 << 45, 1 << 46), Some(0.0));
    assert_eq!(step_of(1 << 47, 1 << 44, 1 << 46), Some(1.0));
}

/// Ten calls a child are too few to show two clocks; those of all children show them.
#[test]
fn what_no_child_shows_by_itself_is_seen_in_all_together() {
    let (mut random, mut all) = (Random::new(3), Values::new(Clock::CONTINUOUS).unwrap());
    for _ in 0..200 {
        let time = |_: u64| 15.0 * random.log_normal(0.1);
        let of_child = (0..10).map(time).enumerate();
        let of_child = in_buckets(of_child.map(|(at, time)| if at % 2 == 0 { time.round() } else { time }));
        let clock = grid::clock(&of_child);
        all.merge(&of_child.with_clock(clock)).unwrap();
    }
    assert_eq!(grid::common_clock(&all).step, Some(1.0));
}

/// What was once wrong, with the calls and runs that showed it.
#[test]
fn coarse_clocks_and_buckets_make_no_verdicts() {
    const RUNS: u64 = 60;
    let cell = |report, median, variation, ratio| cell(report, median, variation, 12_000).at(ratio);
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
