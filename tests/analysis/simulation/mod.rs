//! A seeded simulation of the judgement: does it fail what is good, pass what is bad, and how soon does it find what is
//! bad?
//!
//! Whole, in minutes, as a table:
//!
//! ```text
//! cargo test --release -p analysis simulation -- --ignored --nocapture
//! ```
//!
//! `CHOIRMASTER_ANALYSIS_RUNS` (20000), `CHOIRMASTER_ANALYSIS_CELLS` (a part of their names, or `power`) and
//! `CHOIRMASTER_ANALYSIS_KEPT` (a file, to go on behind the cells that are finished there) change what is run.
//!
//! A thin cut runs with all other tests. **Null cells lie on the boundary**: the canary is the baseline × (1 +
//! tolerance). A cell fails when its false alarms or false passes exceed the binomial quantile for its alpha at
//! 1 − 0.001/cells, so that the whole table is wrong by chance once in a thousand seeds. What is declared weaker says so
//! in its own column. What it said is in `src/analysis/SIMULATION.md`.

mod cells;
mod children;
mod early;
mod errors;
mod history;
mod kept;
mod mutants;
mod needed;
mod planned;
mod power;
mod shapes;
mod sticky;
mod table;
mod wire;

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use analysis::{
    Design, EARLY_PART, End, Judgement, Occasion, Spending, Stratum, Tolerance, Verdict,
    dist::{binomial_cdf, binomial_sf},
};
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant};

use self::{cells::Cell, kept::Kept};
use super::random::Random;

/// Of every metric in the simulation.
pub const ALPHA: f64 = 0.05;

/// Of every metric in the simulation.
pub const TOLERANCE: f64 = 0.05;

/// How often a right table may be refused.
const CHANCE: f64 = 0.001;

/// Instead of the name of cells: only what is bad, and how soon it is found.
const POWER: &str = "power";

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ending {
    pub verdict: Verdict,
    /// The look at which it ended.
    pub look: u64,
}

/// What many runs of a cell came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    pub runs: u64,
    pub failed: u64,
    pub passed: u64,
    pub undecided: u64,
    pub looks_to_fail: u64,
    /// Sum of their squares.
    squared_looks: u64,
    #[serde(default)]
    pub looks_to_pass: u64,
}

impl Tally {
    fn add(&mut self, ending: Ending) {
        self.runs += 1;
        match ending.verdict {
            Verdict::Fail => {
                self.failed += 1;
                self.looks_to_fail += ending.look;
                self.squared_looks += ending.look * ending.look;
            }
            Verdict::Pass => {
                self.passed += 1;
                self.looks_to_pass += ending.look;
            }
            Verdict::Inconclusive | Verdict::NoData => self.undecided += 1,
            Verdict::Error => panic!("the simulation makes no faulty data"),
        }
    }

    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.failed += other.failed;
        self.passed += other.passed;
        self.undecided += other.undecided;
        self.looks_to_fail += other.looks_to_fail;
        self.squared_looks += other.squared_looks;
        self.looks_to_pass += other.looks_to_pass;
    }

    pub fn share_failed(&self) -> f64 {
        self.failed as f64 / self.runs as f64
    }

    pub fn share_passed(&self) -> f64 {
        self.passed as f64 / self.runs as f64
    }
}

impl Tally {
    /// Looks until a fail, in the mean.
    pub fn mean_looks(&self) -> Measured {
        let count = self.failed as f64;
        let value = self.looks_to_fail as f64 / count;
        let variance = (self.squared_looks as f64 / count - value * value).max(0.0);
        Measured { value, relative_error: (variance / count).sqrt() / value }
    }
}

/// A number with its relative standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    pub value: f64,
    pub relative_error: f64,
}

impl Measured {
    /// Of two that were measured apart.
    pub fn against(self, other: Self) -> Self {
        Self {
            value: self.value / other.value,
            relative_error: self.relative_error.hypot(other.relative_error),
        }
    }

    /// No more than it seems by chance: 2 standard errors above what was found.
    pub fn at_most(self) -> f64 {
        self.value * (1.0 + 2.0 * self.relative_error)
    }
}

/// More than chance allows at the level `alpha`, with `cells` cells.
pub fn exceeds(count: u64, runs: u64, alpha: f64, cells: usize) -> bool {
    binomial_sf(count, runs, alpha) < CHANCE / cells as f64
}

/// Runs of a cell, all from its seed.
pub fn run(cell: &Cell, seed: u64, runs: u64) -> Tally {
    tally(seed, runs, &|random: &mut Random| cell.run(random))
}

fn tally(seed: u64, runs: u64, one: &impl Fn(&mut Random) -> Ending) -> Tally {
    let mut tally = Tally::default();
    for run in 0..runs {
        tally.add(one(&mut Random::new(seed.wrapping_mul(1_000_003).wrapping_add(run))));
    }
    tally
}

/// All cells, in their order.
fn run_all(cells: &[Cell], runs: u64, kept: Kept) -> Vec<Tally> {
    let mut tallies: Vec<Option<Tally>> = cells.iter().map(|cell| kept.get(&cell.name, runs)).collect();
    let left: Vec<&Cell> =
        cells.iter().zip(&tallies).filter(|(_, known)| known.is_none()).map(|(cell, _)| cell).collect();
    let kept = Mutex::new(kept);
    let found = in_portions(
        left.len(),
        runs,
        |cell, portion, count| run(left[cell], left[cell].seed << 20 | portion, count),
        |cell, tally| kept.lock().unwrap().add(&left[cell].name, tally),
    );
    let mut found = found.into_iter();
    tallies.iter_mut().filter_map(|tally| tally.or_else(|| found.next())).collect()
}

/// One kind of run, so many times.
fn run_with(runs: u64, one: impl Fn(&mut Random) -> Ending + Sync) -> Tally {
    in_portions(1, runs, |_, portion, count| tally(portion, count, &one), |_, _| ())[0]
}

/// Work on all processors, a portion of a cell at a time: cell, portion, runs. `done` hears of cells that are finished.
fn in_portions(
    cells: usize,
    runs: u64,
    work: impl Fn(usize, u64, u64) -> Tally + Sync,
    done: impl Fn(usize, Tally) + Sync,
) -> Vec<Tally> {
    /// Runs that a thread takes at once.
    const PORTION: u64 = 500;
    let portions = runs.div_ceil(PORTION);
    let next = AtomicU64::new(0);
    let tallies = Mutex::new(vec![Tally::default(); cells]);
    let progress = Mutex::new(Progress::of(portions * cells as u64));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let (cell, portion) = ((at / portions) as usize, at % portions);
                    if cell >= cells {
                        break;
                    }
                    let count = PORTION.min(runs - portion * PORTION);
                    let tally = work(cell, portion, count);
                    let mut tallies = tallies.lock().unwrap();
                    tallies[cell].merge(tally);
                    if tallies[cell].runs == runs {
                        done(cell, tallies[cell]);
                    }
                    drop(tallies);
                    progress.lock().unwrap().portion_done();
                }
            });
        }
    });
    tallies.into_inner().unwrap()
}

/// Says on stderr how far it is, where that takes long.
struct Progress {
    all: u64,
    done: u64,
    start: Instant,
    said: Instant,
}

impl Progress {
    const EVERY: Duration = Duration::from_secs(10);

    fn of(all: u64) -> Self {
        let start = Instant::now();
        Self { all, done: 0, start, said: start }
    }

    fn portion_done(&mut self) {
        self.done += 1;
        if self.said.elapsed() < Self::EVERY {
            return;
        }
        self.said = Instant::now();
        let share = self.done as f64 / self.all as f64;
        let left = self.start.elapsed().as_secs_f64() * (1.0 / share - 1.0);
        eprintln!("… {:.0} %, about {:.0} min left", 100.0 * share, (left / 60.0).ceil());
    }
}

/// What is wrong with the tallies of null cells.
fn faults(cells: &[Cell], tallies: &[Tally]) -> Vec<String> {
    let mut faults = Vec::new();
    for (cell, tally) in cells.iter().zip(tallies) {
        faults.extend(wrong(&cell.name, tally, [cell.limit, cell.pass_limit], cells.len()));
    }
    faults
}

/// More false alarms or false passes than chance allows at these limits.
fn wrong(cell: &str, tally: &Tally, limits: [f64; 2], cells: usize) -> Vec<String> {
    let Tally { runs, failed, passed, undecided, .. } = *tally;
    assert_eq!(failed + passed + undecided, runs);
    let counts = [("false alarms", failed), ("false passes", passed)].into_iter().zip(limits);
    let too_many = counts.filter(|((_, count), limit)| exceeds(*count, runs, *limit, cells));
    too_many.map(|((what, count), _)| format!("{cell}: {count} {what} in {runs} runs")).collect()
}

/// A null cell whose versions can be made equal, or one of them worse.
trait Null: Sync + Sized {
    fn name(&self) -> String;
    fn run(&self, random: &mut Random) -> Ending;
    /// The same with another ratio between the versions.
    fn at(&self, ratio: f64) -> Self;
    /// What it has to find.
    fn finds(&self) -> [Finds; 2];
    /// Most false alarms, and most false passes.
    fn limits(&self) -> [f64; 2] {
        [ALPHA; 2]
    }
}

/// A judge that never speaks raises no false alarm: what is worse by this ratio fails in this share of runs, or more.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Finds {
    ratio: f64,
    share: f64,
}

impl Finds {
    /// As what is promised of the calls that a change takes to be found.
    const fn promised(ratio: f64) -> Self {
        Self { ratio, share: analysis::power::POWER }
    }

    /// Hardly ever, for the reason that stands beside the cell.
    const fn seldom(ratio: f64) -> Self {
        Self { ratio, share: 0.0 }
    }
}

/// What should have been found and wasn't, beyond what chance allows.
fn missed(cell: &str, found: &Tally, finds: Finds, cells: usize) -> Option<String> {
    let is_missed = binomial_cdf(found.failed, found.runs, finds.share) < CHANCE / cells as f64;
    let Finds { ratio, share } = finds;
    is_missed.then(|| {
        format!("{cell}: {ratio} found in {} of {} runs, {share} promised", found.failed, found.runs)
    })
}

/// What is asked of times, in so many looks.
fn design(looks: u64, is_early: bool) -> Design {
    let mut design = Design::new(Tolerance::Ratio(TOLERANCE));
    if looks > 1 {
        design.end = End::After { duration_ms: looks, interval_ms: 1, spending: Spending::default() };
    }
    if is_early {
        design.early = EARLY_PART;
    }
    design
}

/// Looks so many times, until there is a verdict. `next` gives the strata that came since the look before, and may tell the judgement
/// of children.
fn looked_at(
    mut judgement: Judgement,
    looks: u64,
    mut next: impl FnMut(u64, &mut Judgement) -> Vec<Stratum>,
) -> Ending {
    let mut strata = Vec::new();
    for look in 1..=looks {
        strata.extend(next(look, &mut judgement));
        let occasion = if look == looks { Occasion::Last } else { Occasion::Look };
        if let Some(verdict) = judgement.decide(&strata, look, occasion).verdict {
            return Ending { verdict, look };
        }
    }
    unreachable!("the last look has a verdict")
}

/// What the environment asks for.
struct Asked {
    runs: u64,
    /// A part of the names of cells.
    only: String,
}

/// Runs of a cell, if nothing else is asked for.
fn asked(runs: u64) -> Asked {
    Asked {
        runs: std::env::var("CHOIRMASTER_ANALYSIS_RUNS").map_or(runs, |runs| runs.parse().unwrap()),
        only: std::env::var("CHOIRMASTER_ANALYSIS_CELLS").unwrap_or_default(),
    }
}

impl Asked {
    fn of<C: Null>(&self, cells: Vec<C>) -> Vec<C> {
        cells.into_iter().filter(|cell| cell.name().contains(self.only.as_str())).collect()
    }
}

/// Prints the table of null cells, beside equal versions and those that are worse, which are run once for every `part` runs. What
/// is wrong.
fn measure<C: Null>(cells: &[C], runs: u64, part: u64) -> Vec<String> {
    println!(
        "| cell | false alarms | false passes | equal: passes | equal: fails | worse: fails | far worse: fails |\n\
         |---|---:|---:|---:|---:|---:|---:|"
    );
    let mut faults = Vec::new();
    for cell in cells {
        let tally = |cell: &C, runs| run_with(runs, |random| cell.run(random));
        let (null, equal) = (tally(cell, runs), tally(&cell.at(1.0), runs / part));
        let shares = [null.share_failed(), null.share_passed(), equal.share_passed(), equal.share_failed()];
        let mut shares: Vec<String> = shares.iter().map(|share| format!("{share:.4}")).collect();
        for finds in cell.finds() {
            let found = tally(&cell.at(finds.ratio), runs / part);
            shares.push(format!("{}: {:.4} (≥ {})", finds.ratio, found.share_failed(), finds.share));
            faults.extend(missed(&cell.name(), &found, finds, cells.len()));
        }
        println!("| {} | {} |", cell.name(), shares.join(" | "));
        faults.extend(wrong(&cell.name(), &null, cell.limits(), cells.len()));
        faults.extend(wrong(&format!("{}, equal", cell.name()), &equal, [ALPHA, 1.0], cells.len()));
    }
    faults
}

#[test]
fn a_thin_cut_of_the_simulation_keeps_alpha() {
    let cells = cells::thin();
    let tallies = run_all(&cells, 400, Kept::default());
    let faults = faults(&cells, &tallies);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Nor does it keep alpha by doing nothing.
    let failed: u64 = tallies.iter().map(|tally| tally.failed).sum();
    let passed: u64 = tallies.iter().map(|tally| tally.passed).sum();
    assert!(failed > 0 && passed > 0, "{failed} {passed}");
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release -p analysis simulation -- --ignored --nocapture"]
fn the_whole_simulation_keeps_what_it_promises() {
    let Asked { runs, only } = asked(20_000);
    let cells: Vec<Cell> =
        cells::all().into_iter().filter(|cell| cell.name.contains(only.as_str())).collect();
    let start = Instant::now();
    let mut faults = Vec::new();
    // What takes least comes first.
    if only.is_empty() || only == POWER {
        let (text, found) = power::measure(runs);
        println!("{text}");
        faults.extend(found);
    }
    if !cells.is_empty() {
        let kept = std::env::var("CHOIRMASTER_ANALYSIS_KEPT").map(|path| Kept::in_file(&path));
        let tallies = run_all(&cells, runs, kept.unwrap_or_default());
        println!("{}", table::nulls(&cells, &tallies));
        faults.extend(self::faults(&cells, &tallies));
    }
    println!("{:.0} minutes.", start.elapsed().as_secs_f64() / 60.0);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
