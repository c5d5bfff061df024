//! What is said beforehand of a release, and whether it is kept.

use std::time::Duration;

use analysis::{
    Clock, Design, Judgement, Occasion, Rounding, Sample, Stratum, Tolerance, Values, Verdict,
    dist::binomial_cdf, effects::ChildEffects,
};
use domain::{
    plan::{Advice, stops},
    release::{
        measured::{effects, judged},
        power_analysis::{Measured, Observed, PowerAnalysis, PriorKnowledge, Reporting, prospects, risks},
        strata::Strata,
        summary::Summary,
    },
};
use language::{Stage, Strategy, analysis::ChildMetric, check, check_stored};
use model::StageStatus;

use super::world::summary;
use crate::{random::Random, texts::samples};

const TIMES: &str =
    "{name: times, provider: children, metric: responseTime, strategy: CANARY_BASELINE, deviation: HIGH}";
const ERRORS: &str =
    "{name: errors, provider: children, metric: errorRate, strategy: CANARY_BASELINE, deviation: HIGH}";
const LOAD: &str = "{name: load, provider: meter, query: 'v={{ .Variant.Name }}', strategy: CANARY_BASELINE, deviation: HIGH}";

/// Half of the calls for each version, judged for a minute.
fn strategy(metrics: &str) -> Strategy {
    let text = include_str!("../../../releases/canary.yml");
    let text = text.replace("trafficPercentage: 95", "trafficPercentage: 50");
    let text = text.replace("trafficPercentage: 5\n", "trafficPercentage: 50\n").replace("2s", "30s");
    let text = text.replace("\"200\"", "\"50\"");
    let block =
        format!("    analysis: {{duration: 1m, interval: 5s, metrics: [{metrics}]}}\n    end_action:");
    let text = text.replace("    end_action:", &block);
    let checked = check_stored(&format!("rollout: {{order: parallel}}\n{text}"));
    checked.strategy.unwrap_or_else(|| panic!("{:?}", checked.diagnostics))
}

fn stage() -> Stage {
    strategy(TIMES).stages.remove(0)
}

/// How fast children are.
fn speeds(children: usize, ln_sd: f64, random: &mut Random) -> Vec<f64> {
    (0..children).map(|_| 20.0 * random.log_normal(ln_sd)).collect()
}

/// What children report of two versions that are as good, of so many calls in all.
fn reports(speeds: &[f64], calls: u64, clock: Clock, random: &mut Random) -> Vec<Summary> {
    let child = |speed: &f64| {
        let calls = random.count(calls as f64 / speeds.len() as f64);
        let new = random.binomial(calls, 0.5);
        let mut times = |count: u64| {
            let read = |time: f64| match clock.step {
                Some(step) if step > 0.0 => (time / step).round() * step,
                _ => time,
            };
            let times: Vec<f64> = (0..count).map(|_| read(speed * random.log_normal(0.5))).collect();
            Some(Box::new(Values::of(times, clock).unwrap()))
        };
        Summary {
            f1_calls: Some(calls - new),
            f2_calls: Some(new),
            f1_errors: Some(0),
            f2_errors: Some(0),
            f1_values: times(calls - new),
            f2_values: times(new),
            ..summary("", StageStatus::Completed)
        }
    };
    speeds.iter().map(child).collect()
}

fn passes(reports: &[Summary]) -> bool {
    // As a release that can be extended: a tenth of alpha is kept.
    let design = Design { reserve: 0.1, ..Design::new(Tolerance::Ratio(0.05)) };
    let mut judgement = Judgement::new(design).unwrap();
    judgement.set_children(ChildEffects::of(effects(reports, 50).unwrap().times));
    let strata = judged(&stage(), &Strata::of(reports, 50), ChildMetric::ResponseTime);
    judgement.decide(&strata, 0, Occasion::Last).verdict == Some(Verdict::Pass)
}

fn of(strategy: &Strategy, known: PriorKnowledge<'_>) -> PowerAnalysis {
    prospects(strategy, known).into_iter().next().unwrap()
}

const ONCE: Reporting = Reporting { on_the_way: 0, once: 20 };

#[test]
fn as_many_equal_versions_pass_as_a_plan_says_of_children_of_different_speed() {
    let mut random = Random::new(30);
    let (mut passed, mut releases) = (0, 0);
    for _ in 0..4 {
        let speeds = speeds(20, 0.5, &mut random);
        let before = reports(&speeds, 20_000, Clock::CONTINUOUS, &mut random);
        let observed = [Some(Observed::of("before", &before, 50, 30.0))];
        let known = PriorKnowledge { observed: &observed, measured: &[], waves: &[20], reporting: ONCE };
        let plan = of(&strategy(TIMES), known);
        assert_eq!(plan.basis, "release before");
        let calls = plan.wanted[1].1.unwrap().calls;
        // Of children that were all as fast 5,000 would do.
        assert!((5_500..60_000).contains(&calls), "{plan:?}");
        for _ in 0..12 {
            releases += 1;
            passed += u64::from(passes(&reports(&speeds, calls, Clock::CONTINUOUS, &mut random)));
        }
    }
    assert!(binomial_cdf(passed, releases, 0.95) > 0.001, "{passed} of {releases}");
}

#[test]
fn a_clock_too_coarse_for_the_tolerance_is_said_before_anybody_waits() {
    let mut random = Random::new(31);
    let speeds = vec![2.0; 20];
    let clock = Clock::stepped(5.0, Rounding::Nearest);
    let before = reports(&speeds, 20_000, clock, &mut random);
    let observed = [Some(Observed::of("before", &before, 50, 30.0))];
    let known = PriorKnowledge { observed: &observed, measured: &[], waves: &[20], reporting: ONCE };
    let plan = of(&strategy(TIMES), known);
    let unknown = plan.unknown.unwrap();
    assert!(unknown.starts_with("it can't be told from such data: their clock leaves"), "{unknown}");
    // A finer one takes more calls than an exact one, or as many.
    let calls = [Clock::stepped(1.0, Rounding::Nearest), Clock::CONTINUOUS].map(|clock| {
        let before = reports(&[3.0; 20], 20_000, clock, &mut Random::new(32));
        let observed = [Some(Observed::of("before", &before, 50, 30.0))];
        let known = PriorKnowledge { observed: &observed, ..known };
        of(&strategy(TIMES), known).wanted[1].1.unwrap().calls
    });
    assert!(calls[0] > calls[1], "{calls:?}");
}

#[test]
fn it_is_said_who_reports_when_and_what_looks_on_the_way_cost() {
    let words = |on_the_way, once| {
        let reporting = Reporting { on_the_way, once };
        let waves = [on_the_way + once];
        let plan = of(
            &strategy(TIMES),
            PriorKnowledge { observed: &[None], measured: &[], waves: &waves, reporting },
        );
        let reporting = plan.reporting.unwrap();
        let (words, cost) =
            reporting.split_once("; with 1000 calls a change is found by one look from +").unwrap();
        // What looks on the way cost is said in either case.
        let (one, many) = cost.split_once(" %, by 12 looks from +").unwrap();
        let [one, many] = [one, many.trim_end_matches(" %")].map(|change| change.parse::<f64>().unwrap());
        assert!(one < many && many < 2.0 * one, "{reporting}");
        (plan.looks, words.to_owned())
    };
    let (looks, once) = words(0, 20);
    assert_eq!(looks, Some(1));
    insta::assert_snapshot!(once, @"one look: 20 agents report once, at minDuration (30s) and minCalls (50); interval (5s) acts only for children that report while a stage goes on");
    let (looks, on_the_way) = words(20, 0);
    assert_eq!(looks, Some(12));
    insta::assert_snapshot!(on_the_way, @"12 looks: 20 agents report at each interval");
    insta::assert_snapshot!(words(15, 5).1, @"12 looks: 15 agents report at each interval, and 5 agents report once, at minDuration (30s) and minCalls (50)");
}

#[test]
fn of_agents_that_nobody_knows_both_are_said() {
    let reporting = Reporting::default();
    let plan =
        of(&strategy(TIMES), PriorKnowledge { observed: &[None], measured: &[], waves: &[20], reporting });
    let said = plan.reporting.unwrap();
    assert!(
        said.starts_with("12 looks if somebody reports on the way, else one; a deployed agent reports once"),
        "{said}"
    );
}

#[test]
fn what_is_assumed_of_children_is_said() {
    let planned = |metric: &str, agents: u64| {
        let known = PriorKnowledge { observed: &[None], measured: &[], waves: &[agents], reporting: ONCE };
        of(&strategy(metric), known)
    };
    let few = planned(TIMES, 7);
    assert_eq!(few.basis, "assumed: times with a standard deviation of 0.5 of their mean");
    let many = planned(TIMES, 8);
    assert_eq!(
        many.basis,
        "assumed: times with a standard deviation of 0.5 of their mean, and no version that suits some children better"
    );
    // That it is looked for costs calls, the more the fewer children there are to tell it from.
    let calls = [8, 20, 1_000].map(|agents| planned(TIMES, agents).wanted[1].1.unwrap().calls);
    let alone = few.wanted[1].1.unwrap().calls;
    assert!(calls[0] > calls[1] && calls[1] > alone && calls[2] > alone, "{calls:?} {alone}");
    let errors = planned(ERRORS, 8);
    assert_eq!(errors.basis, "assumed: 0.1 % errors, and no version that suits some children better");
}

#[test]
fn children_that_differ_too_much_for_any_number_of_calls_are_a_warning() {
    let mut random = Random::new(33);
    let mut before = Vec::new();
    for at in 0..20 {
        let speed = if at % 2 == 0 { 20.0 } else { 30.0 };
        let mut report = reports(&[speed], 2_000, Clock::CONTINUOUS, &mut random).remove(0);
        // The new version is faster on some, and slower on others.
        let factor = [0.7, 1.4][at % 2];
        let times = report.f2_values.as_ref().unwrap().to_histogram();
        let moved = times.buckets().map(|(low, high, count)| (factor * (low * high).sqrt(), count));
        let mut values = Values::new(Clock::CONTINUOUS).unwrap();
        moved.for_each(|(time, count)| values.record(time, count).unwrap());
        report.f2_values = Some(Box::new(values));
        before.push(report);
    }
    let observed = [Some(Observed::of("before", &before, 50, 30.0))];
    let plan = of(
        &strategy(TIMES),
        PriorKnowledge { observed: &observed, measured: &[], waves: &[20], reporting: ONCE },
    );
    assert_eq!(plan.wanted.iter().map(|(_, point)| *point).collect::<Vec<_>>(), [None, None]);
    let warning = plan.warning.unwrap();
    assert!(warning.contains("no number of calls") || warning.contains("tolerance of"), "{warning}");
}

#[test]
fn a_query_is_planned_by_what_the_release_before_measured_for_the_same_question() {
    let mut random = Random::new(34);
    let strategy = strategy(LOAD);
    let analysis = strategy.stages[0].analysis.as_ref().unwrap();
    let mut last = 0.0_f64;
    let mut points = |random: &mut Random| -> Vec<f64> {
        let point = |_| {
            last = 0.1 * last + random.normal();
            50.0 * (0.01 * last).exp()
        };
        (0..10).map(point).collect()
    };
    // How much points depend on each other is known the better, the longer they were measured.
    let strata: Vec<Stratum> = (0..96)
        .map(|interval| {
            let [base, new] = [(); 2].map(|()| Sample::Values(points(&mut random)));
            Stratum::new(strategy.stages[0].name.clone(), interval, base, new)
        })
        .collect();
    let stage = Some(strategy.stages[0].name.clone());
    let metric = &analysis.metrics[0];
    let measured = [Measured::of("before", stage, analysis, metric, strata, 480_000)];
    let known = PriorKnowledge { observed: &[None], measured: &measured, waves: &[20], reporting: ONCE };
    let plan = of(&strategy, known);
    assert_eq!((plan.basis.as_str(), plan.unknown), ("release before", None));
    assert!((plan.calls_per_second.unwrap() - 4.0).abs() < 1e-9);
    let given = plan.given.unwrap();
    assert_eq!(given.calls, 240);
    assert!(given.passes > 0.7, "{given:?}");
    assert_eq!((plan.looks, plan.reporting), (Some(12), None));
    // Another question, or as often as never before, was never asked.
    let other = [Measured { interval: Duration::from_secs(7), ..measured[0].clone() }];
    let plan = of(&strategy, PriorKnowledge { measured: &other, ..known });
    assert_eq!(plan.basis, "assumed: points with a standard deviation of 0.5 of their mean");
}

#[test]
fn too_few_calls_are_said_with_how_many_to_wait_for() {
    let known = PriorKnowledge { observed: &[None], measured: &[], waves: &[20], reporting: ONCE };
    let few = of(&strategy(TIMES), known);
    let wanted = few.wanted[0].1.unwrap().calls;
    let warning = few.warning.unwrap();
    let advice = format!("raise minCalls to {}, or the tolerance to ", wanted.div_ceil(20));
    assert!(warning.starts_with(&advice), "{wanted}: {warning}");
    assert!(
        warning.contains(" %: with about 1000 calls only ") && warning.ends_with(" % of equal versions pass")
    );
    // So many are enough.
    let mut enough = strategy(TIMES);
    enough.stages[0].min_calls = wanted.div_ceil(20);
    assert_eq!(of(&enough, known).warning, None);
}

#[test]
fn a_condition_that_chance_breaks_is_said_with_a_number_that_helps() {
    let mut strategy = strategy(TIMES);
    strategy.stages[0].new_traffic = 5;
    let before = risks(&strategy, &[], 1_000).remove(0).warning.unwrap();
    let (advice, why) = before.split_once(": ").unwrap();
    let least: u64 = advice.strip_prefix("raise minCalls from 50 to ").unwrap().parse().unwrap();
    assert!(
        why.starts_with("an equal version fails by chance at ") && why.ends_with(" after 50 calls"),
        "{why}"
    );
    strategy.stages[0].min_calls = least;
    assert_eq!(risks(&strategy, &[], 1_000)[0].warning, None);
    // What the base version breaks itself no number of calls makes up for.
    let mut worse = summary("", StageStatus::Completed);
    (worse.f1_calls, worse.f1_errors) = (Some(10_000), Some(500));
    (worse.f2_calls, worse.f2_errors) = (Some(10_000), Some(500));
    let observed = [Some(Observed::of("before", &[worse], 50, 30.0))];
    let risk = risks(&strategy, &observed, 1).remove(0);
    assert_eq!(risk.least_calls, None);
    let warning = risk.warning.unwrap();
    let advice = "raise the limit of errorRate <0.02 well above 5 %, the rate of the base version: ";
    assert!(warning.starts_with(advice), "{warning}");
}

#[test]
fn nothing_is_said_against_the_samples() {
    for (file, text) in samples() {
        let checked = check(&text);
        let strategy = checked.strategy.unwrap();
        let observed = vec![None; strategy.stages.len()];
        for agents in [1, 10, 100, 1_000] {
            let waves = [agents / 10, agents - agents / 10];
            for (on_the_way, once) in [(agents, 0), (0, agents), (0, 0)] {
                let reporting = Reporting { on_the_way, once };
                let known = PriorKnowledge { observed: &observed, measured: &[], waves: &waves, reporting };
                for found in prospects(&strategy, known) {
                    let said = (found.warning, found.unknown);
                    assert_eq!(said, (None, None), "{file}, {}, of {agents}", found.metric);
                }
            }
            for risk in risks(&strategy, &[], agents) {
                assert_eq!(risk.warning, None, "{file}, stage {}, of {agents}", risk.stage);
            }
            let advice = Advice { in_place: 1, agents, ..Advice::default() };
            let slow = stops(&strategy, &checked.places, &advice);
            let slow: Vec<_> = slow.iter().filter(|found| found.code == "slow-stop").collect();
            assert!(slow.is_empty(), "{file}, of {agents}: {slow:?}");
        }
    }
}
