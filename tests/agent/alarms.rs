//! How often agents of a fleet stop a version that keeps its conditions, if only just: no more often than their part of alpha says.
//!
//! An agent has what a manager tells it: its part of a tenth of the release's alpha, of which the k-th attempt has 6/(π²k²), and each
//! stage that is judged an equal part. It looks five times a second, over the whole stage and over windows that begin each minute; its
//! calls come by chance, a tenth of one up to ten a second. The version is at its limit in all of them, which is where most is
//! stopped by mistake: two of a hundred calls fail, and half of the calls of some agents take longer than the median may.
//!
//! As small as alpha is, no simulation would see it exceeded. So each fleet is judged with a hundred thousand times as much, too, where
//! alarms are as many as can be counted, by the same code.
//!
//! A run of the tests makes a twentieth of a fleet of 1,000; `tests/long alarms` makes 20 whole ones.

use std::{env, time::Duration};

use agent::judge::Judge;
use call_metrics::{Tally, Times};
use language::{LOCAL_SHARE, Stage, part_of_the};

use super::{judge::counted, measure::stage};

const AGENTS: u64 = 1_000;
/// Each run of the tests asks so many of one fleet.
const AGENTS_OF_A_TEST: u64 = 50;
/// Which fleet, where `tests/long` has all of them asked.
const PART: &str = "CHOIRMASTER_LOSS_PART";

/// Of a release where nothing else is said.
const ALPHA: f64 = 0.05;
/// What all agents of a release have together.
const OF_FLEET: f64 = ALPHA * LOCAL_SHARE;
/// What each of them has where alarms are to be many.
const LOUD: f64 = 0.5;

/// A release that failed is tried again.
const ATTEMPTS: u64 = 2;
/// How long the stages of a release last.
const STAGES: [Duration; 2] = [Duration::from_mins(2), Duration::from_mins(30)];
const LOOK: Duration = Duration::from_millis(200);

/// Where the version is, in all conditions.
const FAILS: f64 = 0.02;
const TAKES_LONGER: f64 = 0.5;
const ERRORS: &str = "[{name: errorRate, threshold: '<0.02'}]";
const BOTH: &str =
    "[{name: errorRate, threshold: '<0.02'}, {name: responseTime, threshold: '<=250', compareWith: Median}]";

/// An agent, and whether its version has times, of which it then keeps few.
struct Agent {
    rng: fastrand::Rng,
    stage: Stage,
    calls_per_second: f64,
    has_times: bool,
}

impl Agent {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let has_times = rng.u8(..4) == 0;
        let rates: [f64; 2] = if has_times { [0.1, 0.5] } else { [0.1, 10.0] };
        let [least, most] = rates.map(f64::ln);
        let calls_per_second = (least + (most - least) * rng.f64()).exp();
        let stage = stage(if has_times { BOTH } else { ERRORS });
        Self { rng, stage, calls_per_second, has_times }
    }

    /// How many calls end between two looks: as by a Poisson process.
    fn calls(&mut self) -> u64 {
        let mean = self.calls_per_second * LOOK.as_secs_f64();
        let (mut calls, mut left) = (0, self.rng.f64());
        let mut chance = (-mean).exp();
        while left >= chance && calls < 100 {
            left -= chance;
            calls += 1;
            chance *= mean / calls as f64;
        }
        calls
    }

    /// Whether the version is stopped in a stage.
    fn stops_in(&mut self, lasts: Duration, alpha: f64) -> bool {
        let mut judge = Judge::new(&self.stage, alpha);
        let (mut elapsed, mut tally, mut us) = (Duration::ZERO, Tally::default(), Vec::new());
        while elapsed < lasts {
            elapsed += LOOK;
            let calls = self.calls();
            // A look at what was looked at before shows nothing new.
            if calls == 0 {
                continue;
            }
            let errors = (0..calls).filter(|_| self.rng.f64() < FAILS).count() as u64;
            tally.calls += calls;
            tally.errors += errors;
            tally.succeeded += calls - errors;
            if self.has_times {
                us.extend((0..calls).map(|_| if self.rng.f64() < TAKES_LONGER { 300_000 } else { 200_000 }));
                tally.times = Times::of(us.clone());
            }
            if judge.look(&counted(tally.clone()), elapsed).is_some() {
                return true;
            }
        }
        false
    }

    /// Whether it is stopped in any stage of any attempt. `alpha` is that of all of them.
    fn stops(mut self, alpha: f64) -> bool {
        (1..=ATTEMPTS).any(|attempt| {
            let of_stage = alpha * part_of_the(attempt) / STAGES.len() as f64;
            STAGES.into_iter().any(|lasts| self.stops_in(lasts, of_stage))
        })
    }
}

/// How many alarms are too many, where each of so many agents has one with a probability of `alpha` at most: five standard deviations
/// above that.
fn most(agents: u64, alpha: f64) -> u64 {
    let mean = agents as f64 * alpha;
    (mean + 5.0 * (mean * (1.0 - alpha)).sqrt()).ceil() as u64
}

#[test]
fn fleet_false_stops_stay_within_its_share_of_alpha() {
    let part: Option<u64> = env::var(PART).ok().map(|part| part.parse().unwrap());
    let agents = if part.is_some() { AGENTS } else { AGENTS_OF_A_TEST };
    let fleet = part.unwrap_or_default();
    let seeds = (0..agents).map(|agent| fleet * AGENTS + agent);
    let loud: Vec<u64> = seeds.filter(|&seed| Agent::new(seed).stops(LOUD)).collect();
    // What is not stopped with much of alpha isn't with little.
    let of_one = OF_FLEET / AGENTS as f64;
    let alarms = loud.iter().filter(|&&seed| Agent::new(seed).stops(of_one)).count() as u64;
    println!(
        "part {fleet}: {agents} agents through {} attempts with {alarms} alarms, and {} loud-alarms where each agent has {LOUD}",
        agents * ATTEMPTS,
        loud.len(),
    );
    let loud = loud.len() as u64;
    assert!(loud <= most(agents, LOUD), "{loud} of {agents} agents with an alpha of {LOUD} each");
    assert!(loud > 0, "with as large an alpha some are stopped, or nothing was looked at");
    assert!(
        alarms <= most(1, OF_FLEET),
        "{alarms} in one fleet, of which one in {} may have any",
        1.0 / OF_FLEET
    );
}
