//! What is promised beforehand is what happens: promises beside simulations of the judgement itself.

use analysis::{
    Clock, Counts, Design, Deviation, End, Judgement, Occasion, Question, Rounding, RunVariation, Sample,
    Spending, Stratum, Tolerance, Values, Verdict,
    power::{KeptCondition, Power, PowerFault, Spread, chances, least_calls, level},
};

use super::random::Random;

/// Runs of a simulation, where `CHOIRMASTER_ANALYSIS_RUNS` doesn't say.
const RUNS: u64 = 100;

/// How far a share may be off what was promised, beside chance.
const OFF: f64 = 0.02;

fn runs() -> u64 {
    std::env::var("CHOIRMASTER_ANALYSIS_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS)
}

const TOLERANCE: Tolerance = Tolerance::Ratio(0.05);

fn once(question: Question) -> Design {
    Design { question, ..Design::new(TOLERANCE) }
}

fn looks(count: u64, question: Question) -> Design {
    let end = End::After { duration_ms: count * 1_000, interval_ms: 1_000, spending: Spending::default() };
    Design { end, ..once(question) }
}

/// How one version's data come about, with a change.
type Draw<'a> = &'a dyn Fn(&mut Random, u64, f64) -> Sample;

/// Shares of runs that failed and that passed, with `calls` on both sides.
fn simulated(design: &Design, share: f64, calls: u64, change: f64, seed: u64, draw: Draw<'_>) -> [f64; 2] {
    let mut random = Random::new(seed);
    let count = design.looks().unwrap_or(1);
    let (mut failed, mut passed) = (0, 0);
    for _ in 0..runs() {
        let canary = (calls as f64 * share).round() as u64;
        let part = |all: u64, at: u64| all * (at + 1) / count - all * at / count;
        let strata: Vec<Stratum> = (0..count)
            .map(|at| {
                let baseline = draw(&mut random, part(calls - canary, at), 1.0);
                Stratum::new("canary", at, baseline, draw(&mut random, part(canary, at), change))
            })
            .collect();
        let mut judgement = Judgement::new(design.clone()).unwrap();
        for look in 1..=count {
            let occasion = if look == count { Occasion::Last } else { Occasion::Look };
            let decision = judgement.decide(&strata[..look as usize], look * 1_000, occasion);
            match decision.verdict {
                Some(Verdict::Fail) => failed += 1,
                Some(Verdict::Pass) => passed += 1,
                _ => continue,
            }
            break;
        }
    }
    [failed, passed].map(|count| f64::from(count) / runs() as f64)
}

fn ln_sd(cv: f64) -> f64 {
    (cv * cv).ln_1p().sqrt()
}

fn log_normal(cv: f64) -> impl Fn(&mut Random, u64, f64) -> Sample {
    move |random, count, change| {
        Sample::Values((0..count).map(|_| change * random.log_normal(ln_sd(cv))).collect())
    }
}

/// Of a clock that rounds down to so many milliseconds.
fn measured(pairs: &[(f64, u64)], step: f64) -> Values {
    let mut values = Values::new(Clock::stepped(step, Rounding::Down)).unwrap();
    for (value, count) in pairs {
        values.record(*value, *count).unwrap();
    }
    values
}

fn events(rate: f64) -> impl Fn(&mut Random, u64, f64) -> Sample {
    move |random, calls, change| {
        Sample::Counts(Counts { calls, events: random.binomial(calls, rate * change) })
    }
}

#[track_caller]
fn near(found: f64, promised: f64, what: &str) {
    // Four standard errors: wrong by chance once in 16,000 seeds.
    let chance = 4.0 * (promised * (1.0 - promised) / runs() as f64).sqrt();
    assert!((found - promised).abs() < OFF + chance, "{what}: {found:.3} where {promised:.3} was promised");
}

/// Calls that let 80 and 95 of 100 equal versions pass, as they were measured by searching for them with simulations of
/// some thousand runs each; such a search is uncertain by 15 %.
#[test]
fn promised_calls_are_those_that_were_measured() {
    let rows = [
        (0.05, 0.5, 0.3, None, 917, 1_588),
        (0.05, 0.5, 0.5, None, 2_475, 4_568),
        (0.05, 0.5, 1.0, None, 7_585, 11_822),
        (0.05, 0.5, 0.5, Some(0.95), 10_864, 20_916),
        (0.05, 0.2, 0.3, None, 1_522, 2_751),
        (0.05, 0.2, 0.5, None, 3_857, 6_682),
        (0.05, 0.2, 1.0, None, 10_414, 20_479),
        (0.1, 0.2, 0.3, None, 411, 696),
        (0.1, 0.2, 0.5, None, 1_085, 1_765),
    ];
    for (tolerance, share, cv, quantile, eighty, ninety_five) in rows {
        let design = Design {
            question: quantile.map_or(Question::Location, Question::Quantile),
            ..Design::new(Tolerance::Ratio(tolerance))
        };
        let power = Power::new(&design, &Spread::of_variation(cv, None), share).unwrap();
        for (passes, measured) in [(0.8, eighty), (0.95, ninety_five)] {
            let calls = power.calls(passes).unwrap();
            let ratio = calls as f64 / f64::from(measured);
            assert!(
                (0.85..1.15).contains(&ratio),
                "{tolerance} {share} {cv} {quantile:?} {passes}: {calls} of {measured}"
            );
        }
    }
}

#[test]
fn equal_versions_pass_as_often_as_promised() {
    for (at, (question, share, cv, wanted)) in [
        (Question::Location, 0.5, 0.5, 0.8),
        (Question::Location, 0.2, 0.3, 0.95),
        (Question::Quantile(0.95), 0.5, 0.3, 0.8),
        (Question::Quantile(0.95), 0.3, 0.3, 0.95),
    ]
    .into_iter()
    .enumerate()
    {
        let design = once(question);
        let power = Power::new(&design, &Spread::of_variation(cv, None), share).unwrap();
        let calls = power.calls(wanted).unwrap();
        let [failed, passed] = simulated(&design, share, calls, 1.0, 100 + at as u64, &log_normal(cv));
        near(passed, wanted, &format!("{question:?} {share} {cv}, {calls} calls"));
        assert!(failed < 0.02);
    }
}

#[test]
fn rates_pass_as_often_as_promised() {
    // Most good releases pass by their floor; without one it takes a hundred times as much.
    for (at, (rate, floor, share, tolerance)) in
        [(0.001, 0.005, 0.5, 0.05), (0.001, 0.002, 0.2, 0.5), (0.02, 0.0, 0.5, 0.5), (0.01, 0.001, 0.5, 1.0)]
            .into_iter()
            .enumerate()
    {
        let question = Question::Rate { floor };
        let design = Design { question, ..Design::new(Tolerance::Ratio(tolerance)) };
        let power = Power::new(&design, &Spread::Events { rate }, share).unwrap();
        for wanted in [0.8, 0.95] {
            let calls = power.calls(wanted).unwrap();
            let [_, passed] = simulated(&design, share, calls, 1.0, 200 + at as u64, &events(rate));
            let promised = power.passes(calls);
            near(passed, promised, &format!("rate {rate} floor {floor}, {calls} calls"));
            // Where few events decide, one more that is allowed lets many more pass at once.
            assert!(promised >= wanted && power.passes(calls / 2) < wanted, "{promised} for {wanted}");
        }
    }
}

#[test]
fn a_change_of_the_promised_size_is_found_four_times_in_five() {
    let location = Question::Location;
    let tail = Question::Quantile(0.9);
    for (at, (design, share, cv, calls)) in [
        (once(location), 0.5, 0.5, 2_000),
        (looks(12, location), 0.2, 0.5, 4_000),
        (looks(40, location), 0.5, 0.3, 2_000),
        (once(tail), 0.5, 0.3, 4_000),
        (Design { deviation: Deviation::Either, ..once(location) }, 0.5, 0.3, 1_000),
        (Design { deviation: Deviation::Low, ..once(location) }, 0.5, 0.3, 1_000),
    ]
    .into_iter()
    .enumerate()
    {
        let power = Power::new(&design, &Spread::of_variation(cv, None), share).unwrap();
        let change = power.smallest_change(calls).unwrap();
        let [failed, _] = simulated(&design, share, calls, change, 300 + at as u64, &log_normal(cv));
        near(failed, 0.8, &format!("{design:?}: {change}"));
    }
    for (at, (design, rate, calls)) in [
        (once(Question::Rate { floor: 0.001 }), 0.001, 20_000),
        (looks(12, Question::Rate { floor: 0.0 }), 0.01, 20_000),
    ]
    .into_iter()
    .enumerate()
    {
        let power = Power::new(&design, &Spread::Events { rate }, 0.5).unwrap();
        let change = power.smallest_change(calls).unwrap();
        let [failed, _] = simulated(&design, 0.5, calls, change, 400 + at as u64, &events(rate));
        near(failed, 0.8, &format!("{design:?}: {change}"));
    }
}

#[test]
fn doubled_errors_are_found_as_seldom_as_it_says() {
    // 0.1 % of 12,000 calls are twelve errors: without a word beforehand nobody would know that this is too few.
    let design = once(Question::Rate { floor: 0.0 });
    let power = Power::new(&design, &Spread::Events { rate: 0.001 }, 0.5).unwrap();
    let found = power.fails(12_000, 2.0);
    assert!((0.15..0.30).contains(&found), "{found}");
    assert!(power.fails(120_000, 2.0) > 0.97);
    assert!(power.passes(12_000) < 0.06, "{}", power.passes(12_000));
    assert!(power.calls(0.8).unwrap() > 1_000_000);
    assert!(power.smallest_change(12_000).unwrap() > 2.5);
    let with_floor = Power::new(&once(Question::Rate { floor: 0.005 }), &Spread::Events { rate: 0.001 }, 0.5);
    assert!(with_floor.unwrap().passes(12_000) > 0.99);
}

#[test]
fn a_sample_tells_the_spread_as_well_as_a_number_does() {
    let mut random = Random::new(7);
    let values: Vec<f64> = (0..4_000).map(|_| 20.0 * random.log_normal(ln_sd(0.5))).collect();
    let known = Spread::of_variation(0.5, Some(20.0));
    let observed = Spread::Observed(Sample::Values(values));
    let shift = Tolerance::Shift(1.0);
    for (question, tolerance) in [
        (Question::Location, TOLERANCE),
        (Question::Quantile(0.95), TOLERANCE),
        (Question::Location, shift),
        (Question::Quantile(0.95), shift),
    ] {
        for deviation in [Deviation::High, Deviation::Low, Deviation::Either] {
            let design = Design { question, deviation, ..Design::new(tolerance) };
            let of = |spread| Power::new(&design, spread, 0.5).unwrap();
            let (known, observed) = (of(&known), of(&observed));
            let ratio = observed.calls(0.8).unwrap() as f64 / known.calls(0.8).unwrap() as f64;
            assert!((0.7..1.4).contains(&ratio), "{question:?} {tolerance:?} {deviation:?}: {ratio}");
            let (a, b) = (observed.smallest_change(5_000), known.smallest_change(5_000));
            let (a, b) = (a.unwrap(), b.unwrap());
            assert!((a - b).abs() < 0.1 * b.abs(), "{question:?} {tolerance:?} {deviation:?}: {a} and {b}");
        }
    }
}

#[test]
fn values_that_are_mostly_0_pass_as_often_as_promised() {
    let draw = |random: &mut Random, count: u64, change: f64| {
        let mut value = || if random.chance(0.6) { 0.0 } else { change * random.log_normal(ln_sd(0.5)) };
        Sample::Values((0..count).map(|_| value()).collect())
    };
    let design = once(Question::Location);
    let spread = Spread::Observed(draw(&mut Random::new(8), 8_000, 1.0));
    let power = Power::new(&design, &spread, 0.5).unwrap();
    // Both parts are to be shown: how many aren't 0, and how long these take.
    let calls = power.calls(0.8).unwrap();
    let all = Power::new(&design, &Spread::of_variation(0.5, None), 0.5).unwrap().calls(0.8).unwrap();
    assert!(calls > 2 * all, "{calls} {all}");
    let [_, passed] = simulated(&design, 0.5, calls, 1.0, 600, &draw);
    near(passed, power.passes(calls), &format!("{calls} calls"));
}

#[test]
fn what_varies_from_run_to_run_no_traffic_makes_good() {
    let with = |variation| {
        let run_variation = Some(RunVariation::Given(variation));
        Power::new(
            &Design { run_variation, ..once(Question::Location) },
            &Spread::of_variation(0.5, None),
            0.5,
        )
        .unwrap()
    };
    let without = Power::new(&once(Question::Location), &Spread::of_variation(0.5, None), 0.5).unwrap();
    assert!(with(0.01).calls(0.8).unwrap() > without.calls(0.8).unwrap());
    assert_eq!(with(0.03).calls(0.8), None);
    let least = with(0.03).smallest_change(100_000_000).unwrap();
    // 5 % and 2.49 standard deviations of a difference of two runs.
    assert!((least - 1.05 * (2.4865 * 0.03 * 2.0_f64.sqrt()).exp()).abs() < 0.003, "{least}");
}

#[test]
fn looks_cost_power_and_the_level_says_how_much() {
    let end = |looks| End::After { duration_ms: looks, interval_ms: 1, spending: Spending::Pocock };
    assert!((level(End::Once, 0.05) - 0.05).abs() < 1e-12);
    assert!((level(end(1), 0.05) - 0.05).abs() < 1e-12);
    // Pocock's bounds take 1.26 times the data at 12 looks: (2.4865 √1.26 − 0.8416) standard deviations.
    let z = 2.4865 * 1.26_f64.sqrt() - 0.8416;
    let expected = analysis::dist::normal_sf(z);
    assert!((level(end(12), 0.05) / expected - 1.0).abs() < 0.05, "{} {expected}", level(end(12), 0.05));
    assert!(level(End::Open { interval_ms: 1 }, 0.05) < 0.01);
}

#[test]
fn plain_conditions_break_by_chance_as_often_as_it_says() {
    // One stray error among the one or two calls that a canary has of ten fails it.
    let kept = KeptCondition::Errors { threshold: 0.02, or_equal: false };
    for (at, (calls, share, rate)) in
        [(10, 0.05, 0.01), (100, 0.2, 0.01), (1_000, 0.5, 0.015), (5_000, 0.1, 0.01)].into_iter().enumerate()
    {
        let mut random = Random::new(500 + at as u64);
        let (mut failed, mut untested) = (0, 0);
        for _ in 0..5_000 {
            let n = random.binomial(calls, share);
            let errors = random.binomial(n, rate);
            untested += u32::from(n == 0);
            failed += u32::from(n > 0 && errors as f64 / n as f64 >= 0.02);
        }
        let found = chances(kept, calls, share, rate);
        let [failed, untested] = [failed, untested].map(|count| f64::from(count) / 5_000.0);
        assert!((found.fails - failed).abs() < 0.02, "{calls} {share}: {found:?} {failed}");
        assert!((found.untested - untested).abs() < 0.02, "{calls} {share}: {found:?} {untested}");
    }
    let few = chances(kept, 10, 0.05, 0.01);
    assert!(few.untested > 0.59 && few.fails > 0.004, "{few:?}");
    let enough = least_calls(kept, 0.05, 0.01, 0.05).unwrap();
    for calls in [enough, enough + enough / 3, 3 * enough] {
        let found = chances(kept, calls, 0.05, 0.01);
        assert!(found.fails + found.untested <= 0.05, "{calls}: {found:?}");
    }
    assert!(chances(kept, enough * 9 / 10, 0.05, 0.01).fails > 0.04);
    assert_eq!(least_calls(kept, 0.05, 0.03, 0.05), None, "a version that breaks it always does");
    // Times: a median of many calls is safe, a maximum of many never.
    assert!(chances(KeptCondition::Quantile { q: 0.5, beyond: 0.3 }, 1_000, 0.5, 0.0).fails < 1e-6);
    assert!(chances(KeptCondition::All { beyond: 0.01 }, 1_000, 0.5, 0.0).fails > 0.99);
    let one = chances(KeptCondition::One { beyond: 0.5 }, 2, 0.5, 0.0);
    assert!((one.fails - (0.5 * 0.5 + 0.25 * 0.25)).abs() < 1e-9, "{one:?}");
}

#[test]
fn what_cannot_be_planned_says_why() {
    let location = once(Question::Location);
    let rate = once(Question::Rate { floor: 0.0 });
    let cv = Spread::of_variation(0.5, None);
    let fault = |design: &Design, spread: &Spread, share| Power::new(design, spread, share).unwrap_err();
    assert_eq!(fault(&location, &cv, 0.0), PowerFault::Share(0.0));
    assert_eq!(fault(&location, &Spread::Events { rate: 0.1 }, 0.5), PowerFault::Kind);
    assert_eq!(fault(&rate, &cv, 0.5), PowerFault::Kind);
    assert_eq!(fault(&rate, &Spread::Events { rate: 2.0 }, 0.5), PowerFault::Rate(2.0));
    assert_eq!(fault(&location, &Spread::of_variation(0.0, None), 0.5), PowerFault::Spread(0.0));
    let shift = Design::new(Tolerance::Shift(2.0));
    assert_eq!(fault(&shift, &cv, 0.5), PowerFault::NoMedian);
    let few = Spread::Observed(Sample::Values(vec![1.0; 49]));
    assert_eq!(fault(&location, &few, 0.5), PowerFault::FewValues(49));
    let zeros = Spread::Observed(Sample::Values((0..100).map(|i| f64::from(i % 3 / 2)).collect()));
    assert_eq!(fault(&location, &zeros, 0.5), PowerFault::FewValues(33));
    assert_eq!(fault(&shift, &zeros, 0.5), PowerFault::MostlyZero);
    let coarse = Spread::Observed(Sample::Measured(measured(&[(1.0, 900), (2.0, 100)], 1.0)));
    let found = fault(&location, &coarse, 0.5);
    assert!(matches!(found, PowerFault::Resolution { error, .. } if error > 0.05), "{found:?}");
    assert!(found.to_string().starts_with("it can't be told from such data"), "{found}");
    let unknown = Design { run_variation: Some(RunVariation::Unknown), ..location };
    assert_eq!(fault(&unknown, &cv, 0.5), PowerFault::RunVariation);
}
