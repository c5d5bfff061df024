//! What a plan promises of a fleet whose children differ: a release is measured, what it told plans the next, and as many equal
//! versions as it says pass with the calls that it says. Children differ in how fast they are, and in what the new version does to
//! them.

use std::{fmt::Write as _, sync::Mutex};

use analysis::{
    Clock, Design, End, Judgement, Occasion, Sample, Spending, Stratum, Tolerance, Values, Verdict,
    dist::binomial_cdf,
    effects::{ChildEffects, Effect, Effects},
    power::{Among, Power, Spread},
};

use super::{CHANCE, Ending, TOLERANCE, asked, run_with};
use crate::random::Random;

/// What is to pass.
const WANTED: f64 = 0.95;

/// What passes where [`Fleet::tells_little`].
const DECLARED: f64 = 0.92;

/// Log standard deviation of the calls of one child.
const SD: f64 = 0.5;

/// Calls of the release before.
const BEFORE: u64 = 20_000;

/// Releases for each plan.
const RELEASES: u64 = 4;

/// What takes more than this isn't simulated: it is as good as never.
const MOST_CALLS: u64 = 150_000;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Fleet {
    children: usize,
    /// Standard deviations of logarithms: of medians, and of the ratio of the versions.
    levels: f64,
    effects: f64,
    /// Calls are spread over children with infinite variance.
    uneven: bool,
    looks: u64,
    /// What is known beforehand; else it is assumed that all children are alike.
    has_history: bool,
}

/// What a release measured: both versions over all children, and how they differ.
struct Told {
    sides: [Values; 2],
    effects: Effects,
}

impl Fleet {
    const fn new(children: usize, levels: f64, effects: f64) -> Self {
        Self { children, levels, effects, uneven: false, looks: 1, has_history: true }
    }

    fn name(&self) -> String {
        let mut name = format!(
            "{} children, log-sd {} of medians, {} % of effects",
            self.children,
            self.levels,
            self.effects * 100.0
        );
        if self.uneven {
            name.push_str(", uneven calls");
        }
        if self.looks > 1 {
            let _ = write!(name, ", {} looks", self.looks);
        }
        if !self.has_history {
            name.push_str(", no history");
        }
        name
    }

    /// Whether few children differ. One release tells little of how much they do, and by luck too little: it is then that a number
    /// of calls is named, for else no number does. Of 8 children nearly every plan says so, and nothing is promised of the few
    /// that don't.
    fn tells_little(&self) -> bool {
        self.effects > 0.0 && self.children <= 20
    }

    fn design(&self) -> Design {
        let mut design = Design { reserve: 0.1, ..Design::new(Tolerance::Ratio(TOLERANCE)) };
        if self.looks > 1 {
            let spending = Spending::default();
            design.end = End::After { duration_ms: self.looks, interval_ms: 1, spending };
        }
        design
    }

    /// Shares of calls, and how fast each is.
    fn children(&self, random: &mut Random) -> Vec<(f64, f64)> {
        let size = |random: &mut Random| if self.uneven { random.uniform().powf(-1.0 / 1.5) } else { 1.0 };
        let sizes: Vec<f64> = (0..self.children).map(|_| size(random)).collect();
        let all: f64 = sizes.iter().sum();
        sizes.iter().map(|size| (size / all, 20.0 * random.log_normal(self.levels))).collect()
    }

    /// A release of a version that is as good in the mean of children that are drawn from many.
    fn release(&self, children: &[(f64, f64)], calls: u64, ratio: f64, random: &mut Random) -> Vec<Told> {
        let ratios: Vec<f64> = children.iter().map(|_| ratio * random.log_normal(self.effects)).collect();
        let mut so_far: Vec<[Values; 2]> = children.iter().map(|_| [nothing(), nothing()]).collect();
        let looks = (0..self.looks).map(|_| {
            let mut told = Told { sides: [nothing(), nothing()], effects: Effects::default() };
            for (((share, speed), ratio), so_far) in children.iter().zip(&ratios).zip(&mut so_far) {
                let count = random.count(share * calls as f64 / self.looks as f64);
                let canary = random.binomial(count, 0.5);
                for (side, (count, scale)) in
                    [(count - canary, 1.0), (canary, *ratio)].into_iter().enumerate()
                {
                    let times: Vec<f64> = (0..count).map(|_| speed * scale * random.log_normal(SD)).collect();
                    let times = Values::of(times, Clock::CONTINUOUS).unwrap();
                    so_far[side].merge(&times).unwrap();
                    told.sides[side].merge(&times).unwrap();
                }
                let [baseline, canary] = so_far.clone().map(Sample::Measured);
                if let Some(effect) = Effect::of(&Stratum::new("", 0, baseline, canary)) {
                    told.effects.note(effect);
                }
            }
            told
        });
        looks.collect()
    }

    fn verdict(&self, children: &[(f64, f64)], calls: u64, ratio: f64, random: &mut Random) -> Ending {
        let mut judgement = Judgement::new(self.design()).unwrap();
        let mut strata = Vec::new();
        for (look, told) in (1..).zip(self.release(children, calls, ratio, random)) {
            let [baseline, canary] = told.sides.map(Sample::Measured);
            strata.push(Stratum::new("canary", look - 1, baseline, canary));
            judgement.set_children(ChildEffects::of([told.effects]));
            let occasion = if look == self.looks { Occasion::Last } else { Occasion::Look };
            if let Some(verdict) = judgement.decide(&strata, look, occasion).verdict {
                return Ending { verdict, look };
            }
        }
        unreachable!("the last look has a verdict")
    }

    /// What is planned for these children, by a release that they measured.
    fn planned(&self, children: &[(f64, f64)], random: &mut Random) -> Power {
        if !self.has_history {
            let spread = Spread::LogNormal { ln_sd: SD, median: None };
            let alike = Among::alike(self.children as u64);
            return Power::new(&self.design(), &spread, 0.5).unwrap().among(Some(alike));
        }
        let once = Self { looks: 1, ..*self };
        let before = once.release(children, BEFORE, 1.0, random).pop().unwrap();
        let calls = before.sides.each_ref().map(Values::count);
        let among = Among::observed(&before.effects, calls).map(|among| among.of(self.children as u64));
        let [baseline, _] = before.sides;
        let spread = Spread::Observed(Sample::Measured(baseline));
        Power::new(&self.design(), &spread, 0.5).unwrap().among(among)
    }
}

fn nothing() -> Values {
    Values::new(Clock::CONTINUOUS).unwrap()
}

/// Of many plans: how many say that no number of calls does, the calls of the others, and of releases with so many what
/// became.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    never: u64,
    plans: u64,
    calls: u64,
    releases: u64,
    passed: u64,
    /// Of changes that were promised to be found four times in five.
    changed: u64,
    found: u64,
}

impl Kept {
    /// Whether fewer passed than chance would have it of those that a fleet is promised.
    fn is_broken(self, fleet: &Fleet) -> bool {
        let is_settled = self.never * 10 > self.plans * 9;
        let promised = if fleet.tells_little() { DECLARED } else { WANTED };
        !is_settled && self.releases > 0 && binomial_cdf(self.passed, self.releases, promised) < CHANCE
    }

    fn share(self) -> f64 {
        self.passed as f64 / self.releases.max(1) as f64
    }
}

fn kept(fleet: &Fleet, plans: u64) -> Kept {
    let all = Mutex::new(Kept::default());
    run_with(plans, |random| {
        let children = fleet.children(random);
        let power = fleet.planned(&children, random);
        let calls = power.calls(WANTED).filter(|calls| *calls <= MOST_CALLS);
        let mut own = Kept { plans: 1, ..Kept::default() };
        match calls {
            None => own.never = 1,
            Some(calls) => {
                own.calls = calls;
                for _ in 0..RELEASES {
                    let ended = fleet.verdict(&children, calls, 1.0, random);
                    own.releases += 1;
                    own.passed += u64::from(ended.verdict == Verdict::Pass);
                }
                let change = power.smallest_change(calls).unwrap();
                own.changed = 1;
                let ended = fleet.verdict(&children, calls, change, random);
                own.found = u64::from(ended.verdict == Verdict::Fail);
            }
        }
        let mut all = all.lock().unwrap();
        all.never += own.never;
        all.plans += own.plans;
        all.calls += own.calls;
        all.releases += own.releases;
        all.passed += own.passed;
        all.changed += own.changed;
        all.found += own.found;
        Ending { verdict: Verdict::Pass, look: 1 }
    });
    all.into_inner().unwrap()
}

fn cells() -> Vec<Fleet> {
    let mut cells = Vec::new();
    for children in [8, 20, 200, 1_000] {
        for levels in [0.0, 0.25, 0.5] {
            for effects in [0.0, 0.05] {
                cells.push(Fleet::new(children, levels, effects));
            }
        }
        cells.push(Fleet { has_history: false, ..Fleet::new(children, 0.0, 0.0) });
    }
    cells.push(Fleet { uneven: true, ..Fleet::new(20, 0.25, 0.0) });
    cells.push(Fleet { uneven: true, ..Fleet::new(200, 0.25, 0.05) });
    cells.push(Fleet { looks: 12, ..Fleet::new(20, 0.25, 0.0) });
    cells.push(Fleet { looks: 12, ..Fleet::new(200, 0.25, 0.05) });
    cells
}

#[test]
fn a_plan_for_children_of_different_speed_is_kept() {
    let fleet = Fleet::new(20, 0.5, 0.0);
    let found = kept(&fleet, 40);
    assert!(!found.is_broken(&fleet) && found.never < 10, "{found:?}");
}

#[test]
#[ignore = "minutes, in release mode: cargo test --release -p analysis simulation::planned -- --ignored --nocapture"]
fn plans_for_fleets_are_kept() {
    let asked = asked(250);
    let mut faults = Vec::new();
    println!("| fleet | no number does | calls | equal versions that pass | promised changes found |");
    println!("|---|---:|---:|---:|---:|");
    for fleet in cells().into_iter().filter(|fleet| fleet.name().contains(asked.only.as_str())) {
        let found = kept(&fleet, asked.runs);
        let calls = found.calls / (found.plans - found.never).max(1);
        println!(
            "| {} | {:.3} | {calls} | {:.4} | {:.3} |",
            fleet.name(),
            found.never as f64 / found.plans as f64,
            found.share(),
            found.found as f64 / found.changed.max(1) as f64
        );
        if found.is_broken(&fleet) {
            faults.push(format!("{}: {found:?}", fleet.name()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
