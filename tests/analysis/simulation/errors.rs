//! Shares of calls that fail: of children that differ, of users who stick to a version, of runs that differ; told up a tree of two
//! levels, each level written and read again.
//!
//! Null cells as in `children`. The calls of a cell are those with which [`Power`] promises that twice as many errors are found, by what an
//! earlier release told of how children differ. Where the baseline has none at all, ratios are those to the floor: no ratio to nothing
//! is on a boundary.

use analysis::{
    Counts, Design, Judgement, Question, RunVariation, Sample, Stratum,
    clusters::MAX_GROUPS,
    dist::normal_z,
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

/// Events of a child in an earlier release.
const EARLIER_EVENTS: f64 = 200.0;

/// A rate of next to nothing.
const NEARLY_NONE: f64 = 1e-9;

#[derive(Debug, Clone, Copy)]
struct Errors {
    /// Of the calls of the baseline.
    rate: f64,
    children: usize,
    /// Standard deviation of the logarithm of a child's ratio.
    sd: f64,
    /// All calls of a user go to one version.
    is_sticky: bool,
    /// All calls of a user fail, or none.
    is_together: bool,
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
            is_together: false,
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

    /// Each of whom tells as much as a call.
    fn failing_together(self) -> Self {
        Self { is_sticky: true, is_together: true, calls: SESSION * self.calls, ..self }
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
        let power = |rate| {
            let power = Power::new(&self.design(), &Spread::Events { rate }, 0.5).unwrap();
            power.among(self.known_of_children())
        };
        let (of_rate, of_none) = (power(self.rate), power(NEARLY_NONE));
        let mut calls = 64;
        // Of versions without errors it is promised how many pass as well.
        let is_enough = |calls: u64| {
            if self.is_without() {
                of_rate.passes(calls) >= 0.95 && of_none.fails(calls, 2.0 * FLOOR / NEARLY_NONE) >= POWER
            } else {
                of_rate.fails(calls, 2.0) >= POWER
            }
        };
        while !is_enough(calls) {
            calls += calls / 16;
        }
        Self { calls, ..self }
    }

    /// How children differed in an earlier release of equal versions; without errors nothing is known of that.
    fn known_of_children(&self) -> Option<Among> {
        if self.children == 1 {
            return None;
        }
        if self.is_without() {
            return Some(Among::alike(self.children as u64));
        }
        let earlier = Self { ratio: 1.0, between_runs: 0.0, is_sticky: false, ..*self };
        let (mut random, each) = (Random::new(1), EARLIER_EVENTS / self.rate);
        let mut children = earlier.children(&mut random);
        let told: Vec<Told> =
            children.iter_mut().map(|child| earlier.measure(child, each, &mut random)).collect();
        let told = Told::merged(&told);
        let [baseline, canary] = told.groups[0].map(|counts| counts.calls);
        Among::observed(&told.effects, [baseline, canary])
    }

    /// Children with this rate in the mean, the same at each release.
    fn children(&self, random: &mut Random) -> Vec<Child> {
        let run = self.between_runs * (random.normal() - random.normal());
        let mut effects: Vec<f64> = (0..self.children).map(|_| self.sd * random.normal()).collect();
        if self.children < 8 {
            let mean = effects.iter().sum::<f64>() / self.children as f64;
            for effect in &mut effects {
                *effect -= mean;
            }
        }
        let place = |at: usize| normal_z((at as f64 + 0.5) / self.children as f64);
        let levels: Vec<f64> = (0..self.children).map(|at| (CHILD_SD * place(at)).exp()).collect();
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
                let group = (random.uniform() * groups.len() as f64) as usize;
                let events = if self.is_together {
                    SESSION * u64::from(random.chance(child.rates[side]))
                } else {
                    let of_user = random.log_normal(USER_SD) * (-0.5 * USER_SD * USER_SD).exp();
                    random.binomial(SESSION, (child.rates[side] * of_user).min(1.0))
                };
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
        let Self { rate, children, sd, is_sticky, is_together, between_runs, looks, .. } = self;
        let looks = if *looks > 1 { format!(", {looks} looks") } else { String::new() };
        let sticky = match (is_sticky, is_together) {
            (true, true) => ", users fail together",
            (true, false) => ", users stick",
            (false, _) => "",
        };
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

    fn finds(&self) -> [Finds; 2] {
        [Finds::promised(2.0), Finds::promised(10.0)]
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
        let alike = Errors::of(rate, 20, 0.0);
        cells.extend([alike.failing_together(), alike.in_looks(6).failing_together()]);
    }
    cells
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release -p analysis simulation -- --ignored --nocapture"]
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
        Errors::of(0.0, 1, 0.0),
        Errors::of(0.0, 1, 0.0).failing_together(),
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
