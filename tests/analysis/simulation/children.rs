//! Children on which the new version does better or worse than on others, as it is told up a tree: histograms merged and
//! effects added over two levels, each written and read again.
//!
//! Null cells: the mean of the population from which children are drawn lies on the boundary. Of fewer than 8 children
//! nothing is known of that population: they are judged for themselves, and it is their own mean that lies there.

use analysis::{
    Histogram, Judgement, Sample, Stratum,
    effects::{ChildEffects, Effect, Effects},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    ALPHA, Ending, Finds, Null, TOLERANCE, Tally, asked, design, exceeds, looked_at, measure, run_with,
    shapes::latency,
};
use crate::random::Random;

/// Calls of a release in all.
const CALLS: u64 = 8_000;

/// Children of one manager.
const OF_MANAGER: usize = 5;

/// How calls are spread over children.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sizes {
    Equal,
    /// Of infinite variance.
    Pareto,
    /// One has nine of ten calls.
    OneLarge,
}

#[derive(Debug, Clone, Copy)]
struct Fleet {
    children: usize,
    /// Standard deviation of the logarithm of a child's ratio.
    sd: f64,
    sizes: Sizes,
    looks: u64,
    ratio: f64,
    /// Whether the judge is told how children differ.
    is_told: bool,
    /// It may pass before its last look.
    is_early: bool,
}

/// What is told of some children, as it is sent.
#[derive(Debug, Clone, Serialize, serde::Deserialize)]
struct Told {
    sides: [Histogram; 2],
    effects: Effects,
}

/// As it is written and read.
fn sent<T: Serialize + DeserializeOwned>(told: &T) -> T {
    serde_json::from_str(&serde_json::to_string(told).unwrap()).unwrap()
}

fn merge(told: &[Told]) -> Told {
    let mut all = told[0].clone();
    for more in &told[1..] {
        for (sum, side) in all.sides.iter_mut().zip(&more.sides) {
            sum.merge(side).unwrap();
        }
        all.effects.add(&more.effects);
    }
    sent(&all)
}

/// A child: its speed, its ratio of new to base version, its calls a look, and what it has measured so far.
struct Child {
    speed: f64,
    ratio: f64,
    calls: u64,
    so_far: [Histogram; 2],
}

impl Null for Fleet {
    fn name(&self) -> String {
        let looks = if self.looks > 1 { format!(", {} looks", self.looks) } else { String::new() };
        let looks = if self.is_early { format!("{looks}, early pass") } else { looks };
        format!("{} children, sd {:.0} %, {:?}{looks}", self.children, self.sd * 100.0, self.sizes)
    }

    fn run(&self, random: &mut Random) -> Ending {
        let mut children = self.children(random);
        looked_at(
            Judgement::new(design(self.looks, self.is_early)).unwrap(),
            self.looks,
            |look, judgement| {
                let told = Self::told(&mut children, random);
                let [baseline, canary] = told.sides.map(Sample::Histogram);
                if self.is_told {
                    judgement.set_children(ChildEffects::of([told.effects]));
                }
                vec![Stratum::new("canary", look - 1, baseline, canary)]
            },
        )
    }

    fn at(&self, ratio: f64) -> Self {
        Self { ratio, ..*self }
    }

    fn finds(&self) -> [Finds; 2] {
        match self.sizes {
            // It tells as little as one child: whether the version suits that one or all can't be told.
            Sizes::OneLarge => [Finds::seldom(1.2), Finds::seldom(2.0)],
            Sizes::Equal | Sizes::Pareto => [Finds::promised(1.2), Finds::promised(2.0)],
        }
    }
}

impl Fleet {
    fn new(children: usize, sd: f64, sizes: Sizes) -> Self {
        Self { children, sd, sizes, looks: 1, ratio: 1.0 + TOLERANCE, is_told: true, is_early: false }
    }

    fn sizes(&self, random: &mut Random) -> Vec<f64> {
        let size = |at: usize, random: &mut Random| match self.sizes {
            Sizes::Pareto => random.uniform().powf(-1.0 / 1.5),
            Sizes::OneLarge if at == 0 => 9.0 * (self.children - 1) as f64,
            Sizes::Equal | Sizes::OneLarge => 1.0,
        };
        let sizes: Vec<f64> = (0..self.children).map(|at| size(at, random)).collect();
        let all: f64 = sizes.iter().sum();
        sizes.iter().map(|size| size / all).collect()
    }

    fn children(&self, random: &mut Random) -> Vec<Child> {
        let sizes = self.sizes(random);
        let mut effects: Vec<f64> = sizes.iter().map(|_| self.sd * random.normal()).collect();
        if self.children < 8 {
            let mean: f64 = effects.iter().zip(&sizes).map(|(effect, size)| effect * size).sum();
            for effect in &mut effects {
                *effect -= mean;
            }
        }
        let each = sizes.iter().zip(effects);
        each.map(|(size, effect)| Child {
            speed: 20.0 * random.log_normal(0.5),
            ratio: self.ratio * effect.exp(),
            calls: (size * CALLS as f64 / self.looks as f64).round() as u64,
            so_far: [nothing(), nothing()],
        })
        .collect()
    }

    /// The calls of a child until the next look.
    fn measure(child: &Child, random: &mut Random) -> [Histogram; 2] {
        let canary = random.binomial(child.calls, 0.5);
        [(child.calls - canary, 1.0), (canary, child.ratio)].map(|(calls, ratio)| {
            let mut histogram = nothing();
            for _ in 0..calls {
                histogram.record(child.speed * ratio * latency(random)).unwrap();
            }
            histogram
        })
    }

    /// What comes to the top: calls since the last look, effects of all so far.
    fn told(children: &mut [Child], random: &mut Random) -> Told {
        let told: Vec<Told> = children
            .iter_mut()
            .map(|child| {
                let sides = Self::measure(child, random);
                let before = Told { sides: child.so_far.clone(), effects: Effects::default() };
                let now = Told { sides: sides.clone(), effects: Effects::default() };
                child.so_far = merge(&[before, now]).sides;
                let [baseline, canary] = child.so_far.clone().map(Sample::Histogram);
                let mut effects = Effects::default();
                if let Some(effect) = Effect::of(&Stratum::new("", 0, baseline, canary)) {
                    effects.note(effect);
                }
                sent(&Told { sides, effects })
            })
            .collect();
        let managers: Vec<Told> = told.chunks(OF_MANAGER).map(merge).collect();
        let higher: Vec<Told> = managers.chunks(OF_MANAGER).map(merge).collect();
        merge(&higher)
    }
}

fn nothing() -> Histogram {
    Histogram::new(1.01).unwrap()
}

fn cells() -> Vec<Fleet> {
    let mut cells = Vec::new();
    for children in [3, 8, 20, 200] {
        for sd in [0.0, 0.02, 0.05, 0.1] {
            cells.push(Fleet::new(children, sd, Sizes::Equal));
        }
    }
    for (children, sizes) in
        [(8, Sizes::OneLarge), (20, Sizes::Pareto), (200, Sizes::Pareto), (50, Sizes::OneLarge)]
    {
        for sd in [0.0, 0.1] {
            cells.push(Fleet::new(children, sd, sizes));
        }
    }
    for sd in [0.0, 0.1] {
        cells.push(Fleet { looks: 6, ..Fleet::new(20, sd, Sizes::Equal) });
    }
    for (children, sd) in [(8, 0.05), (20, 0.0), (20, 0.1), (200, 0.1)] {
        let fleet = Fleet::new(children, sd, Sizes::Equal);
        cells.push(Fleet { looks: 6, is_early: true, ..fleet });
    }
    cells
}

fn tally(fleet: &Fleet, runs: u64) -> Tally {
    run_with(runs, |random| fleet.run(random))
}

#[test]
fn children_that_differ_are_judged_at_alpha() {
    let cells = [
        Fleet::new(3, 0.1, Sizes::Equal),
        Fleet::new(8, 0.05, Sizes::Equal),
        Fleet::new(20, 0.1, Sizes::Pareto),
    ];
    for cell in &cells {
        let found = tally(cell, 200);
        for count in [found.failed, found.passed] {
            assert!(!exceeds(count, found.runs, ALPHA, cells.len()), "{}: {found:?}", cell.name());
        }
    }
}

#[test]
fn a_judge_that_takes_children_for_alike_is_refused() {
    let told = Fleet::new(20, 0.1, Sizes::Equal);
    let found = tally(&Fleet { is_told: false, ..told }, 200);
    assert!(exceeds(found.failed, found.runs, ALPHA, 1), "{found:?}");
    let found = tally(&told, 200);
    assert!(!exceeds(found.failed, found.runs, ALPHA, 1), "{found:?}");
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release -p analysis simulation -- --ignored --nocapture"]
fn fleets_of_children_that_differ_are_judged_at_alpha() {
    // A run makes thousands of calls: fewer of them.
    let asked = asked(4_000);
    let faults = measure(&asked.of(cells()), asked.runs, 4);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
