//! Children of different speed, ranked apart by how fast they were before the release, as it is told up a tree: classes of
//! children, merged within a class and never across.
//!
//! A class is known before any call was shared out, so on the boundary calls within it are exchangeable whatever it was made
//! of. Cells say how well the history predicts, from very well to not at all.

use std::{collections::BTreeMap, fmt::Write as _};

use analysis::{
    Design, End, Judgement, Occasion, Rounding, Sample, Spending, Stratum, Tolerance, Values,
    effects::{ChildEffects, Effect, Effects},
    speed_classes::{class_of, is_worth_ranking},
    values::Clock,
};

use super::{ALPHA, Ending, TOLERANCE, Tally, asked, exceeds, run_with, wrong};
use crate::random::Random;

/// Standard deviation of how much a child's speed changes from release to release, on the scale of logarithms.
const DRIFT: f64 = 0.1;

/// A child has a class if so many steps of its clock lie below its median.
const LEAST_STEPS: f64 = 16.0;

/// What the history of a child says of its speed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum History {
    /// How fast it was a release ago.
    Good,
    /// What correlates by 0.5 with the logarithm of its speed.
    Poor,
    /// What has nothing to do with it.
    Unrelated,
    /// Of every second child how fast it was, of the others nothing.
    Half,
}

/// By what calls are ranked apart.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Classes {
    None,
    Before,
    /// By what came out: the median of the child's base version in this release.
    CameOut,
}

#[derive(Debug, Clone, Copy)]
struct Fleet {
    children: usize,
    /// Calls of both versions.
    calls: u64,
    looks: u64,
    /// Standard deviations of logarithms: of children's speeds, of a child's calls, and of children's ratios.
    between: f64,
    within: f64,
    effects: f64,
    /// Of the clock, in milliseconds.
    step: f64,
    history: History,
    classes: Classes,
    ratio: f64,
}

/// A child: its speed in milliseconds, its ratio of new to base version, its class if that is known before, and all it
/// measured.
struct Child {
    speed: f64,
    ratio: f64,
    class: Option<u8>,
    so_far: [Values; 2],
}

impl Fleet {
    fn new(children: usize, between: f64, within: f64) -> Self {
        Self {
            children,
            calls: 1_000,
            looks: 1,
            between,
            within,
            effects: 0.0,
            step: 0.001,
            history: History::Good,
            classes: Classes::Before,
            ratio: 1.0 + TOLERANCE,
        }
    }

    fn name(&self) -> String {
        let mut name = format!(
            "{} children × {}, log-sd {} between and {} within, history {:?}",
            self.children,
            self.calls / self.children as u64,
            self.between,
            self.within,
            self.history
        );
        if self.effects > 0.0 {
            let _ = write!(name, ", effects {:.0} %", self.effects * 100.0);
        }
        if self.looks > 1 {
            let _ = write!(name, ", {} looks", self.looks);
        }
        if self.step >= 1.0 {
            let _ = write!(name, ", {} ms clock", self.step);
        }
        name
    }

    fn nothing(&self) -> [Values; 2] {
        [(); 2].map(|()| Values::new(Clock::stepped(self.step, Rounding::Nearest)).unwrap())
    }

    fn child(&self, at: usize, random: &mut Random) -> Child {
        let speed = self.between * random.normal();
        let drift = DRIFT * random.normal();
        let known = match self.history {
            History::Good => Some(speed + drift),
            History::Half => at.is_multiple_of(2).then_some(speed + drift),
            History::Poor => Some(0.5 * speed + 0.75_f64.sqrt() * self.between * random.normal() + drift),
            History::Unrelated => Some(self.between.max(0.5) * random.normal()),
        };
        let known = known.map(|known| 20.0 * known.exp()).filter(|ms| *ms >= LEAST_STEPS * self.step);
        Child {
            speed: 20.0 * speed.exp(),
            ratio: self.ratio * (self.effects * random.normal()).exp(),
            class: known.filter(|_| self.classes == Classes::Before).and_then(class_of),
            so_far: self.nothing(),
        }
    }

    /// The calls of a child until the next look.
    fn measure(&self, child: &Child, calls: u64, random: &mut Random) -> [Values; 2] {
        let mut sides = self.nothing();
        for _ in 0..calls {
            let side = usize::from(random.chance(0.5));
            let ms = child.speed * [1.0, child.ratio][side] * random.log_normal(self.within);
            sides[side].record((ms / self.step).round() * self.step, 1).unwrap();
        }
        sides
    }

    fn run(&self, random: &mut Random) -> Ending {
        let mut design = Design::new(Tolerance::Ratio(TOLERANCE));
        if self.looks > 1 {
            let spending = Spending::default();
            design.end = End::After { duration_ms: self.looks, interval_ms: 1, spending };
        }
        let mut judgement = Judgement::new(design).unwrap();
        let mut children: Vec<Child> = (0..self.children).map(|at| self.child(at, random)).collect();
        let mut waiting: BTreeMap<Option<u8>, [Values; 2]> = BTreeMap::new();
        let mut ranked: BTreeMap<Option<u8>, u64> = BTreeMap::new();
        let (mut strata, mut few) = (Vec::new(), Vec::new());
        for look in 1..=self.looks {
            let is_last = look == self.looks;
            let mut effects = Effects::default();
            for child in &mut children {
                let calls = self.calls / self.children as u64;
                let sides =
                    self.measure(child, calls * look / self.looks - calls * (look - 1) / self.looks, random);
                merge(&mut child.so_far, &sides);
                let [baseline, canary] = child.so_far.clone().map(Sample::Measured);
                if let Some(effect) = Effect::of(&Stratum::new("", 0, baseline, canary)) {
                    effects.note(effect);
                }
                let came_out = || sides[0].quantile(0.5).and_then(class_of);
                let class = if self.classes == Classes::CameOut { came_out() } else { child.class };
                merge(waiting.entry(class).or_insert_with(|| self.nothing()), &sides);
            }
            for (class, sides) in std::mem::take(&mut waiting) {
                let ranked = ranked.entry(class).or_default();
                let [baseline, canary] = sides.clone().map(Sample::Measured);
                if class.is_some() && !is_last && !is_worth_ranking(&baseline, &canary, *ranked) {
                    waiting.insert(class, sides);
                    continue;
                }
                *ranked += baseline.count() + canary.count();
                // What is left at the end of classes of which there is too little are ranked together.
                if class.is_some() && !is_worth_ranking(&baseline, &canary, 0) {
                    few.push(Stratum::new("canary, few of a class", look - 1, baseline, canary));
                } else {
                    strata.push(Stratum::new(format!("canary, class {class:?}"), look - 1, baseline, canary));
                }
            }
            strata.append(&mut few);
            judgement.set_children(ChildEffects::of([effects]));
            let occasion = if is_last { Occasion::Last } else { Occasion::Look };
            if let Some(verdict) = judgement.decide(&strata, look, occasion).verdict {
                return Ending { verdict, look };
            }
        }
        unreachable!("the last look has a verdict")
    }

    /// About how many calls let 80 % of equal versions pass: in proportion between doublings. `None`: more than 16,000.
    fn calls_needed(&self, runs: u64) -> Option<f64> {
        let (mut calls, mut before): (u64, Option<(u64, f64)>) = (self.children.max(50) as u64, None);
        while calls <= 16_000 {
            let passes = tally(&Self { ratio: 1.0, calls, ..*self }, runs).share_passed();
            if passes >= 0.8 {
                let Some((fewer, few)) = before else { return Some(calls as f64) };
                let share = (0.8 - few) / (passes - few);
                return Some(fewer as f64 * (share * 2.0_f64.ln()).exp());
            }
            before = Some((calls, passes));
            calls *= 2;
        }
        None
    }
}

fn merge(sum: &mut [Values; 2], more: &[Values; 2]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        sum.merge(more).unwrap();
    }
}

fn tally(fleet: &Fleet, runs: u64) -> Tally {
    run_with(runs, |random| fleet.run(random))
}

fn cells() -> Vec<Fleet> {
    let mut cells = Vec::new();
    for children in [20, 200] {
        for within in [0.1, 0.3] {
            for between in [0.0, 0.25, 0.5, 1.0] {
                for history in [History::Good, History::Poor, History::Unrelated] {
                    cells.push(Fleet { history, ..Fleet::new(children, between, within) });
                }
                // A child with fewer than 3 values of a version tells nothing of how children differ.
                let calls = 20 * children.max(50) as u64;
                cells.push(Fleet { effects: 0.05, calls, ..Fleet::new(children, between, within) });
            }
            let half = Fleet { history: History::Half, ..Fleet::new(children, 0.5, within) };
            let looks = Fleet { looks: 10, calls: 4_000, ..Fleet::new(children, 0.5, within) };
            let unrelated = Fleet { history: History::Unrelated, ..looks };
            let clock = Fleet { step: 1.0, ..Fleet::new(children, 0.5, within) };
            cells.extend([half, looks, unrelated, clock]);
        }
    }
    cells
}

/// What is wrong with null cells, and their table: equal versions that pass and 20 % slower ones that fail, ranked together and
/// apart, and the calls for 80 % passes.
fn measure(cells: &[Fleet], runs: u64) -> (String, Vec<String>) {
    let mut text = "| cell | false alarms | false passes | equal: passes | by class | 1.2: fails | by class | calls for 80 % | by class |\n\
                    |---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    let mut faults = Vec::new();
    for cell in cells {
        let null = tally(cell, runs);
        let ways = [Fleet { classes: Classes::None, ..*cell }, *cell];
        let passes = ways.map(|of| tally(&Fleet { ratio: 1.0, ..of }, runs / 4).share_passed());
        let fails = ways.map(|of| tally(&Fleet { ratio: 1.2, ..of }, runs / 4).share_failed());
        let shares = [null.share_failed(), null.share_passed(), passes[0], passes[1], fails[0], fails[1]];
        let mut row: Vec<String> = shares.iter().map(|share| format!("{share:.4}")).collect();
        row.extend(ways.map(|of| {
            let needed = of.calls_needed(runs / 10);
            needed.map_or_else(|| "> 16,000".to_owned(), |calls| format!("{calls:.0}"))
        }));
        let _ = writeln!(text, "| {} | {} |", cell.name(), row.join(" | "));
        faults.extend(wrong(&cell.name(), &null, [ALPHA; 2], cells.len()));
    }
    (text, faults)
}

#[test]
fn children_are_judged_at_alpha_whatever_their_history_says() {
    let cells = [History::Good, History::Poor, History::Unrelated]
        .map(|history| Fleet { history, ..Fleet::new(200, 0.5, 0.1) });
    for cell in &cells {
        let found = tally(cell, 300);
        for count in [found.failed, found.passed] {
            assert!(!exceeds(count, found.runs, ALPHA, cells.len()), "{}: {found:?}", cell.name());
        }
    }
}

#[test]
fn a_history_that_predicts_lets_more_equal_versions_pass() {
    let cell = Fleet { ratio: 1.0, ..Fleet::new(20, 0.5, 0.1) };
    let together = tally(&Fleet { classes: Classes::None, ..cell }, 200).share_passed();
    let apart = tally(&cell, 200).share_passed();
    assert!(together < 0.7 && apart > 0.95, "{together} {apart}");
}

/// Calls of a class are selected then: by chance its base version was about as fast there, and the new one was not.
#[test]
fn a_judge_that_classes_children_by_what_came_out_is_refused() {
    let cell = Fleet::new(200, 0.5, 0.1);
    let found = tally(&Fleet { classes: Classes::CameOut, ..cell }, 400);
    assert!(exceeds(found.failed.max(found.passed), found.runs, ALPHA, 2), "{found:?}");
    let found = tally(&cell, 400);
    assert!(!exceeds(found.failed.max(found.passed), found.runs, ALPHA, 2), "{found:?}");
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release -p analysis simulation -- --ignored --nocapture"]
fn children_ranked_apart_by_their_history_are_judged_at_alpha() {
    let asked = asked(2_000);
    let cells: Vec<Fleet> =
        cells().into_iter().filter(|cell| cell.name().contains(asked.only.as_str())).collect();
    let (text, faults) = measure(&cells, asked.runs);
    println!("{text}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
