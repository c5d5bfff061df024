//! Shares of calls that fail: of children that differ, of users who stick to a version, of runs that differ; told up a tree of two
//! levels, each level written and read again.
//!
//! Null cells as in `children`. The calls of a cell are those with which [`Power`] promises that twice as many errors are found. Where
//! the baseline has none at all, ratios are those to the floor: no ratio to nothing is on a boundary.

use analysis::{
    Counts, Design, Judgement, Question, RunVariation, Sample, Stratum,
    clusters::MAX_GROUPS,
    effects::{ChildEffects, Effect, Effects},
    power::{Among, POWER, Power, Spread},
};
use serde::{Deserialize, Serialize};

use super::{
    ALPHA, Ending, Finds, Null, TOLERANCE, asked, design, exceeds, looked_at, measure, missed, run_with,
};
use crate::random::Random;

/// Children of one manager.
const OF_MANAGER: usize = 5;

/// Standard deviations of the logarithm of a rate: of children, and of users.
const CHILD_SD: f64 = 0.5;
const USER_SD: f64 = 0.5;

/// Where the baseline has no errors: below it nothing fails.
const FLOOR: f64 = 0.001;

/// Calls of a user.
const SESSION: u64 = 10;

#[derive(Debug, Clone, Copy)]
struct Errors {
    /// Of the calls of the baseline.
    rate: f64,
    children: usize,
    /// Standard deviation of the logarithm of a child's ratio.
    sd: f64,
    /// All calls of a user go to one version.
    is_sticky: bool,
    /// Of the logarithm of a rate from run to run: the baseline is an earlier run.
    between_runs: f64,
    looks: u64,
    ratio: f64,
    /// With which twice as many errors are found, as it is promised.
    calls: u64,
}

/// What is told of some children, group of users by group; a single group where calls were assigned one by one.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Told {
    groups: Vec<[Counts; 2]>,
    effects: Effects,
}

impl Told {
    fn merged(told: &[Self]) -> Self {
        let mut all = told[0].clone();
        for more in &told[1..] {
            for (sum, more) in all.groups.iter_mut().flatten().zip(more.groups.iter().flatten()) {
                *sum = added(*sum, *more);
            }
            all.effects.add(&more.effects);
        }
        serde_json::from_str(&serde_json::to_string(&all).unwrap()).unwrap()
    }
}

fn added(a: Counts, b: Counts) -> Counts {
    Counts { calls: a.calls + b.calls, events: a.events + b.events }
}

/// A child: the rates of its versions, and what it counted so far.
struct Child {
    rates: [f64; 2],
    so_far: Vec<[Counts; 2]>,
}

impl Errors {
    fn of(rate: f64, children: usize, sd: f64) -> Self {
        let plain = Self {
            rate,
            children,
            sd,
            is_sticky: false,
            between_runs: 0.0,
            looks: 1,
            ratio: 1.0 + TOLERANCE,
            calls: 0,
        };
        plain.with_calls()
    }

    fn in_looks(self, looks: u64) -> Self {
        Self { looks, ..self }.with_calls()
    }

    fn between_runs(self, between_runs: f64) -> Self {
        Self { between_runs, ..self }.with_calls()
    }

    /// Users whose calls fail together tell as much with twice as many calls.
    fn of_users(self) -> Self {
        Self { is_sticky: true, calls: 2 * self.calls, ..self }
    }

    fn design(&self) -> Design {
        let run_variation = (self.between_runs > 0.0).then_some(RunVariation::Given(self.between_runs));
        let floor = if self.is_without() { FLOOR } else { 0.0 };
        Design { question: Question::Rate { floor }, run_variation, ..design(self.looks, false) }
    }

    /// The baseline has no errors.
    fn is_without(&self) -> bool {
        self.rate == 0.0
    }

    /// Of the calls of the canary.
    fn canary_rate(&self) -> f64 {
        match self.ratio {
            ratio if !self.is_without() => self.rate * ratio,
            ratio if ratio <= 1.0 => 0.0,
            ratio if ratio <= 1.0 + TOLERANCE => FLOOR,
            ratio => FLOOR * ratio,
        }
    }

    fn with_calls(self) -> Self {
        let spread = Spread::Events { rate: self.rate };
        let among = (self.children > 1).then(|| Among::alike(self.children as u64));
        let power = Power::new(&self.design(), &spread, 0.5).unwrap().among(among);
        let mut calls = 64;
        // Of versions without errors it is promised how many pass.
        let is_enough = |calls: u64| {
            if self.is_without() { power.passes(calls) >= 0.95 } else { power.fails(calls, 2.0) >= POWER }
        };
        while !is_enough(calls) {
            calls += calls / 16;
        }
        Self { calls, ..self }
    }

    /// Children with this rate in the mean.
    fn children(&self, random: &mut Random) -> Vec<Child> {
        let run = self.between_runs * (random.normal() - random.normal());
        let mut effects: Vec<f64> = (0..self.children).map(|_| self.sd * random.normal()).collect();
        if self.children < 8 {
            let mean = effects.iter().sum::<f64>() / self.children as f64;
            for effect in &mut effects {
                *effect -= mean;
            }
        }
        let levels: Vec<f64> = effects.iter().map(|_| random.log_normal(CHILD_SD)).collect();
        let mean = levels.iter().sum::<f64>() / self.children as f64;
        let groups = if self.is_sticky { usize::from(MAX_GROUPS) } else { 1 };
        let child = |(effect, level): (f64, f64)| {
            let rates = [self.rate, self.canary_rate() * (effect + run).exp()];
            let rates = rates.map(|rate| (rate * level / mean).min(1.0));
            Child { rates, so_far: vec![<[Counts; 2]>::default(); groups] }
        };
        effects.into_iter().zip(levels).map(child).collect()
    }

    /// What a child counts until the next look.
    fn measure(&self, child: &mut Child, calls: f64, random: &mut Random) -> Told {
        let mut groups = vec![<[Counts; 2]>::default(); child.so_far.len()];
        if self.is_sticky {
            for _ in 0..random.count(calls / SESSION as f64) {
                let side = usize::from(random.chance(0.5));
                let rate = child.rates[side] * random.log_normal(USER_SD) * (-0.5 * USER_SD * USER_SD).exp();
                let group = (random.uniform() * groups.len() as f64) as usize;
                let events = random.binomial(SESSION, rate.min(1.0));
                groups[group][side] = added(groups[group][side], Counts { calls: SESSION, events });
            }
        } else {
            let calls = random.count(calls);
            let canary = random.binomial(calls, 0.5);
            groups[0] = [(calls - canary, 0), (canary, 1)]
                .map(|(calls, side)| Counts { calls, events: random.binomial(calls, child.rates[side]) });
        }
        for (sum, more) in child.so_far.iter_mut().flatten().zip(groups.iter().flatten()) {
            *sum = added(*sum, *more);
        }
        let mut effects = Effects::default();
        if let Some(effect) = Effect::of_part(&self.strata(0, &child.so_far)) {
            effects.note(effect);
        }
        Told { groups, effects }
    }

    fn strata(&self, interval: u64, groups: &[[Counts; 2]]) -> Vec<Stratum> {
        let stratum = |(group, [baseline, canary]): (u8, &[Counts; 2])| {
            let [baseline, canary] = [baseline, canary].map(|counts| Sample::Counts(*counts));
            let stratum = Stratum::new("canary", interval, baseline, canary);
            if self.is_sticky { stratum.of_users(group) } else { stratum }
        };
        (0..).zip(groups).map(stratum).collect()
    }
}

impl Null for Errors {
    fn name(&self) -> String {
        let Self { rate, children, sd, is_sticky, between_runs, looks, .. } = self;
        let looks = if *looks > 1 { format!(", {looks} looks") } else { String::new() };
        let sticky = if *is_sticky { ", users stick" } else { "" };
        let runs = if *between_runs > 0.0 {
            format!(", {} % between runs", between_runs * 100.0)
        } else {
            String::new()
        };
        format!("errors {} %, {children} children, sd {} %{sticky}{runs}{looks}", rate * 100.0, sd * 100.0)
    }

    fn run(&self, random: &mut Random) -> Ending {
        let mut children = self.children(random);
        let calls = self.calls as f64 / self.looks as f64 / self.children as f64;
        looked_at(Judgement::new(self.design()).unwrap(), self.looks, |look, judgement| {
            let told: Vec<Told> =
                children.iter_mut().map(|child| self.measure(child, calls, random)).collect();
            let managers: Vec<Told> = told.chunks(OF_MANAGER).map(Told::merged).collect();
            let told = Told::merged(&managers);
            judgement.set_children(ChildEffects::of([told.effects]));
            self.strata(look - 1, &told.groups)
        })
    }

    fn at(&self, ratio: f64) -> Self {
        Self { ratio, ..*self }
    }

    /// A canary with errors beside a baseline without any is worse: at the floor it may fail, and may not pass.
    fn limits(&self) -> [f64; 2] {
        if self.is_without() { [1.0, ALPHA] } else { [ALPHA; 2] }
    }

    fn finds(&self) -> [Finds; 2] {
        // Of eight children some have few errors: they count as six, and the promise takes them for alike.
        let share = if self.children == 8 && !self.is_sticky { 0.5 } else { POWER };
        [Finds { ratio: 2.0, share }, Finds::promised(10.0)]
    }
}

fn cells() -> Vec<Errors> {
    let mut cells = Vec::new();
    for rate in [0.0, 0.001, 0.01, 0.05] {
        for (children, sd) in [(1, 0.0), (3, 0.1), (8, 0.0), (8, 0.1), (20, 0.0), (20, 0.1), (1_000, 0.1)] {
            cells.push(Errors::of(rate, children, sd));
        }
        cells.push(Errors::of(rate, 20, 0.1).in_looks(6));
        for children in [1, 8, 20, 1_000] {
            let differ = Errors::of(rate, children, 0.1);
            cells.extend([differ.between_runs(0.03), differ.of_users(), differ.in_looks(6).of_users()]);
        }
    }
    cells
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release -p choirmaster-analysis simulation -- --ignored --nocapture"]
fn errors_are_judged_at_alpha_and_found() {
    let asked = asked(4_000);
    let faults = measure(&asked.of(cells()), asked.runs, 4);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whatever inflated the variance, an error rate neither failed nor passed.
#[test]
fn errors_are_found_whatever_makes_them_vary() {
    let cells = [
        Errors::of(0.05, 20, 0.1),
        Errors::of(0.05, 1, 0.0).of_users(),
        Errors::of(0.05, 1, 0.0).between_runs(0.03),
    ];
    for cell in cells {
        let (name, runs) = (cell.name(), 100);
        let null = run_with(runs, |random| cell.run(random));
        assert!(!exceeds(null.failed.max(null.passed), runs, ALPHA, cells.len()), "{name}: {null:?}");
        for finds in cell.finds() {
            let found = run_with(runs, |random| cell.at(finds.ratio).run(random));
            assert_eq!(missed(&name, &found, finds, cells.len()), None);
        }
        let good = run_with(runs, |random| cell.at(0.5).run(random));
        assert!(good.passed > runs / 2, "{name}: {good:?}");
    }
}
