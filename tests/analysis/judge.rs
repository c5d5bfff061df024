//! What a judgement says, case by case.

use analysis::{
    Clock, Counts, Design, DesignFault, Deviation, End, Finding, Judgement, Occasion, Question, RunVariation,
    Sample, Sampling, Spending, Stratum, Tolerance, Values, Verdict, dependence::at_the_same_time,
    dist::binomial_sf, multiple_testing,
};

use super::random::Random;

/// Log-normal values around a median.
fn latencies(count: usize, median: f64, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..count).map(|_| median * random.log_normal(0.4)).collect()
}

fn high() -> Design {
    Design::new(Tolerance::Ratio(0.05))
}

fn rate(floor: f64) -> Design {
    Design { question: Question::Rate { floor }, ..high() }
}

fn over(looks: u64) -> Design {
    let end = End::After { duration_ms: looks * 1_000, interval_ms: 1_000, spending: Spending::Linear };
    Design { end, ..high() }
}

fn once(design: Design, strata: &[Stratum]) -> Finding {
    Judgement::new(design).unwrap().look(strata, 0, Occasion::Last)
}

fn values(baseline: Vec<f64>, canary: Vec<f64>) -> Vec<Stratum> {
    vec![Stratum::new("canary", 0, Sample::Values(baseline), Sample::Values(canary))]
}

fn measured(baseline: &[f64], canary: &[f64]) -> Vec<Stratum> {
    let side = |values: &[f64]| Sample::Measured(Values::of(values.iter().copied(), Clock::UNKNOWN).unwrap());
    vec![Stratum::new("canary", 0, side(baseline), side(canary))]
}

fn counts(baseline: (u64, u64), canary: (u64, u64)) -> Vec<Stratum> {
    let of = |(calls, events)| Sample::Counts(Counts { calls, events });
    vec![Stratum::new("canary", 0, of(baseline), of(canary))]
}

#[test]
fn sentences_say_what_was_found_and_what_would_decide() {
    let slow = values(latencies(2_000, 20.0, 1), latencies(2_000, 24.0, 2));
    let same = values(latencies(2_000, 20.0, 1), latencies(2_000, 20.0, 2));
    let few = values(latencies(10, 20.0, 1), latencies(10, 20.0, 2));
    let tail = Design { question: Question::Quantile(0.95), ..high() };
    let previous = Design { run_variation: Some(RunVariation::Unknown), ..high() };
    let cases = [
        (high(), slow.clone()),
        (high(), same),
        (high(), few),
        (tail, slow.clone()),
        (rate(0.001), counts((10_000, 12), (10_000, 80))),
        (Design::new(Tolerance::Shift(1.0)), slow.clone()),
        (high(), values(latencies(50, 20.0, 1), vec![])),
        (high(), values(vec![1.0, f64::NAN], vec![1.0])),
        (high(), values(vec![-1.0, 2.0], vec![1.0])),
        (previous, slow),
    ];
    let mut lines: Vec<String> =
        cases.into_iter().map(|(design, strata)| once(design, &strata).evidence.sentence).collect();
    let mut judgement = Judgement::new(over(12)).unwrap();
    let strata = intervals(12, 60, 1.1);
    lines.push(judgement.look(&strata[..1], 1_000, Occasion::Look).evidence.sentence);
    insta::assert_snapshot!(lines.join("\n"), @r"
    Fail: the canary is 21.9 % higher than the baseline; 5 % is allowed; if it were only 5 %, chance would show this less than once in a million.
    Pass: the canary is 1.54 % higher than the baseline (with 90 % confidence between 0.621 % lower and 3.78 % higher); 5 % is allowed.
    Inconclusive: the canary is between 14.7 % lower and 55.7 % higher than the baseline; the allowed 5 % lies in between; how many more values would settle it can't be told: measure for longer, or allow more (tolerance).
    Fail: the canary's p95 is 21.6 % higher than the baseline's; 5 % is allowed; if it were only 5 %, chance would show this less than once in a million.
    Fail: the canary's rate is 6.67 times as high as the baseline's (80 of 10,000 calls, the baseline 12 of 10,000); 5 % is allowed; if it were only 5 %, chance would show this less than once in a million.
    Fail: the canary is 4.13 higher than the baseline; 1 is allowed; if it were only 1, chance would show this less than once in a million.
    No data: the canary measured nothing; see that it gets calls.
    Error: NaN is no finite number.
    Error: -1 is negative: a relative tolerance has no meaning then, use an absolute one.
    Inconclusive: how much one version varies from run to run isn't known; it takes 5 earlier runs, or runVariation.
    It goes on: the canary is 12.1 % higher than the baseline so far (with 90 % confidence between 0.192 % lower and 24.6 % higher), at look 1 of 12; 5 % is allowed.
    ");
}

#[test]
fn designs_that_contradict_themselves_are_refused() {
    let fault = |design: Design| design.check().unwrap_err();
    assert_eq!(fault(Design::new(Tolerance::Ratio(0.0))), DesignFault::Tolerance(0.0));
    assert!(matches!(fault(Design::new(Tolerance::Ratio(f64::NAN))), DesignFault::Tolerance(_)));
    assert!(matches!(fault(Design { alpha: 0.0, ..high() }), DesignFault::Alpha(_)));
    assert!(matches!(
        fault(Design { question: Question::Quantile(1.0), ..high() }),
        DesignFault::Quantile(_)
    ));
    let low = Design { deviation: Deviation::Low, ..Design::new(Tolerance::Ratio(1.0)) };
    assert_eq!(fault(low), DesignFault::ToleranceDown(1.0));
    assert!(matches!(fault(over(2_000)), DesignFault::Looks { looks: 2_000 }));
    let open = Design { end: End::Open { interval_ms: 0 }, ..high() };
    assert_eq!(fault(open), DesignFault::Interval);
}

#[test]
fn what_can_not_be_judged_is_an_error_and_never_a_pass() {
    for (strata, design) in [
        (values(vec![1.0, f64::INFINITY], vec![1.0, 2.0]), high()),
        (counts((10, 11), (10, 0)), rate(0.0)),
        (counts((10, 1), (10, 0)), high()),
        (values(vec![1.0], vec![1.0]), rate(0.0)),
        (values(vec![1.0; 9], vec![-1.0; 9]), high()),
    ] {
        let finding = once(design, &strata);
        assert_eq!(finding.verdict, Some(Verdict::Error), "{}", finding.evidence.sentence);
        assert!(!finding.counted);
    }
}

#[test]
fn empty_sides_are_no_data() {
    let verdict = |strata: &[Stratum]| once(high(), strata).verdict;
    assert_eq!(verdict(&[]), Some(Verdict::NoData));
    assert_eq!(verdict(&values(vec![], vec![])), Some(Verdict::NoData));
    assert_eq!(verdict(&values(vec![1.0; 50], vec![])), Some(Verdict::NoData));
    assert_eq!(once(rate(0.0), &counts((100, 0), (0, 0))).verdict, Some(Verdict::NoData));
}

/// They may be all that a coarse clock has to say: a version that took 60 ms takes 90 ms now, and both show 100.
#[test]
fn fewer_than_three_different_values_decide_nothing() {
    let many = |parts: &[(f64, usize)]| -> Vec<f64> {
        parts.iter().flat_map(|(x, count)| vec![*x; *count]).collect()
    };
    for [baseline, canary] in [
        [&[(1.0, 300)][..], &[(1.0, 200), (2.0, 100)]],
        [&[(100.0, 300)], &[(100.0, 300)]],
        [&[(5.0, 40)], &[(5.5, 40)]],
    ] {
        let (baseline, canary) = (many(baseline), many(canary));
        for strata in [measured(&baseline, &canary), values(baseline, canary)] {
            let finding = once(high(), &strata);
            assert_eq!(finding.verdict, Some(Verdict::Inconclusive), "{}", finding.evidence.sentence);
            assert!(finding.evidence.sentence.contains("fewer than 3 different values"));
        }
    }
    let three = once(high(), &values(many(&[(1.0, 300), (3.0, 5)]), many(&[(2.0, 300)])));
    assert_eq!(three.verdict, Some(Verdict::Fail), "{}", three.evidence.sentence);
}

#[test]
fn a_few_values_decide_nothing() {
    let finding = once(high(), &values(vec![1.0, 2.0], vec![50.0, 60.0]));
    assert_eq!(finding.verdict, Some(Verdict::Inconclusive), "{}", finding.evidence.sentence);
    // 1 of 6 ways to share out four values.
    assert!((finding.evidence.tests[0].p - 1.0 / 6.0).abs() < 1e-12);
}

#[test]
fn a_split_that_was_not_ordered_is_inconclusive() {
    let strata = |share: f64| {
        let [stratum] =
            <[Stratum; 1]>::try_from(values(latencies(900, 20.0, 1), latencies(100, 40.0, 2))).unwrap();
        vec![stratum.ordered(share)]
    };
    assert_eq!(once(high(), &strata(0.1)).verdict, Some(Verdict::Fail));
    let wrong = once(high(), &strata(0.2));
    assert_eq!(wrong.verdict, Some(Verdict::Inconclusive));
    assert!(wrong.evidence.sentence.contains("20 %"), "{}", wrong.evidence.sentence);
}

#[test]
fn a_slow_tail_is_found_by_its_quantile_and_hardly_by_the_middle() {
    let mut random = Random::new(3);
    let mut draw = |tail: bool| -> Vec<f64> {
        let one = |_| {
            let slow = tail && random.chance(0.05);
            20.0 * random.log_normal(0.4) * if slow { 5.0 } else { 1.0 }
        };
        (0..2_000).map(one).collect()
    };
    let strata = values(draw(false), draw(true));
    let tail = Design { question: Question::Quantile(0.95), ..high() };
    assert_eq!(once(tail, &strata).verdict, Some(Verdict::Fail));
    assert_ne!(once(high(), &strata).verdict, Some(Verdict::Fail));
}

/// A slow child with a split of 50:50, a fast one with 95:5.
fn two_children(worse: f64) -> Vec<Stratum> {
    let child = |name, m, n, median: f64, seed| {
        let baseline = Sample::Values(latencies(m, median, seed));
        Stratum::new(name, 0, baseline, Sample::Values(latencies(n, median * worse, seed + 1)))
    };
    vec![child("edge", 200, 3_800, 10.0, 1), child("cloud", 2_000, 2_000, 60.0, 5)]
}

#[test]
fn children_with_different_splits_and_speeds_are_compared_each_with_itself() {
    assert_eq!(once(high(), &two_children(1.0)).verdict, Some(Verdict::Pass));
    let worse = once(high(), &two_children(1.2));
    assert_eq!(worse.verdict, Some(Verdict::Fail));
    let estimate = worse.evidence.effect.unwrap().estimate;
    assert!((estimate - 1.2).abs() < 0.03, "{estimate}");
    // Pooled, the slower canary looks far faster.
    let pooled = two_children(1.2).into_iter().fold((vec![], vec![]), |(mut x, mut y), stratum| {
        let (Sample::Values(baseline), Sample::Values(canary)) = (stratum.baseline, stratum.canary) else {
            unreachable!()
        };
        x.extend(baseline);
        y.extend(canary);
        (x, y)
    });
    assert!(once(high(), &values(pooled.0, pooled.1)).evidence.effect.unwrap().estimate < 0.8);
}

#[test]
fn what_varies_from_run_to_run_is_no_fault_of_the_new_version() {
    // 7 % above, 3 % variation: traffic makes sure that it is no chance, but nothing says that it is the version.
    let strata = values(latencies(50_000, 20.0, 1), latencies(50_000, 21.4, 2));
    assert_eq!(once(high(), &strata).verdict, Some(Verdict::Fail));
    let with = |variation| once(Design { run_variation: Some(variation), ..high() }, &strata);
    assert_eq!(with(RunVariation::Given(0.03)).verdict, Some(Verdict::Inconclusive));
    let windows = vec![20.1, 19.5, 20.9, 20.2, 19.2, 20.0];
    assert_eq!(with(RunVariation::Windows(windows.clone())).verdict, Some(Verdict::Inconclusive));
    assert_eq!(with(RunVariation::Windows(windows[..4].to_vec())).verdict, Some(Verdict::Inconclusive));
    assert_eq!(with(RunVariation::Unknown).verdict, Some(Verdict::Inconclusive));
    assert_eq!(with(RunVariation::Given(0.001)).verdict, Some(Verdict::Fail));
    // A version that is half as slow again is found through any such variation.
    let slow = values(latencies(5_000, 20.0, 1), latencies(5_000, 30.0, 2));
    let design = Design { run_variation: Some(RunVariation::Given(0.03)), ..high() };
    assert_eq!(once(design, &slow).verdict, Some(Verdict::Fail));
}

#[test]
fn a_series_needs_points_that_are_worth_something() {
    let series = Design { sampling: Sampling::Series, ..high() };
    let finding = once(series.clone(), &values(latencies(15, 20.0, 1), latencies(15, 90.0, 2)));
    assert_eq!(finding.verdict, Some(Verdict::Inconclusive), "{}", finding.evidence.sentence);
    // Each value ten times over is no more than one.
    let stretched = |median, seed| latencies(30, median, seed).iter().flat_map(|v| [*v; 10]).collect();
    let finding = once(series.clone(), &values(stretched(20.0, 1), stretched(20.0, 2)));
    assert_eq!(finding.verdict, Some(Verdict::Inconclusive));
    assert!(finding.evidence.sentence.contains("independent"), "{}", finding.evidence.sentence);
    assert_eq!(
        once(series, &values(latencies(90, 20.0, 1), latencies(90, 40.0, 2))).verdict,
        Some(Verdict::Fail)
    );
}

/// Points of 12 intervals that follow the load of the day, up and down by an amount over the time of the analysis, for both
/// versions alike; of the canary only each of so many.
fn under_load(seed: u64, amount: f64, ratio: f64, every: u64) -> Vec<Stratum> {
    let mut random = Random::new(seed);
    let mut side = |interval: u64, scale: f64, every: u64| {
        let point = |at: u64| {
            let time = (interval * 20 + at) as f64 / 240.0;
            let load = 1.0 + amount * (std::f64::consts::TAU * (time + seed as f64 / 50.0)).sin();
            20.0 * scale * load * random.log_normal(0.05)
        };
        Sample::Values((0..20).step_by(every as usize).map(point).collect())
    };
    let of = |interval| {
        let baseline = side(interval, 1.0, 1);
        Stratum::new("canary", interval, baseline, side(interval, ratio, every))
    };
    (0..12).map(of).collect()
}

/// Points that follow each other closely, 120 of a version, worth three or four: none of 30 doublings was found.
#[test]
fn far_worse_is_found_by_few_points_that_depend_on_each_other() {
    let series = |random: &mut Random, scale: f64| {
        let mut last = random.normal();
        let mut next = || {
            last = 0.9 * last + (1.0_f64 - 0.81).sqrt() * random.normal();
            20.0 * scale * (0.1 * last).exp()
        };
        (0..12).map(|_| (0..10).map(|_| next()).collect()).collect::<Vec<Vec<f64>>>()
    };
    let count = |ratio: f64| {
        let is_failed = |seed: &u64| {
            let mut random = Random::new(*seed);
            let (baseline, canary) = (series(&mut random, 1.0), series(&mut random, ratio));
            let sides = (0..).zip(baseline.into_iter().zip(canary));
            let strata: Vec<Stratum> = sides
                .map(|(at, (b, c))| Stratum::new("canary", at, Sample::Values(b), Sample::Values(c)))
                .collect();
            let design = Design { sampling: Sampling::Series, ..over(12) };
            let mut judgement = Judgement::new(design).unwrap();
            let found = judgement.look(&strata, 12_000, Occasion::Last);
            assert_ne!(found.verdict, Some(Verdict::Pass), "{}", found.evidence.sentence);
            found.verdict == Some(Verdict::Fail)
        };
        (0..60).filter(is_failed).count()
    };
    assert!(count(2.0) >= 54, "{}", count(2.0));
    assert!(count(1.05) <= 8, "{}", count(1.05));
}

/// The canary is asked in the second half of each look, while both become slower or faster: 80 of 300 failed at the boundary, and 79
/// passed.
#[test]
fn a_side_that_is_asked_later_is_compared_with_what_was_measured_then() {
    const RUNS: u64 = 200;
    let run = |seed: u64| {
        let mut random = Random::new(seed);
        let amount = if random.chance(0.5) { 0.6 } else { -0.3 };
        let strata = (0..12).map(|look| {
            let mut side = |from: i64, scale: f64| -> Vec<(i64, f64)> {
                let point = |at: i64| {
                    let time = (look * 20 + at) as f64 / 240.0;
                    (1_000 * at, 20.0 * scale * (1.0 + amount * time) * random.log_normal(0.02))
                };
                (from..20).map(point).collect()
            };
            let [baseline, canary] = at_the_same_time(&side(0, 1.0), &side(14, 1.05)).map(Sample::Values);
            Stratum::new("canary", look as u64, baseline, canary)
        });
        let design = Design { sampling: Sampling::Series, ..over(12) };
        let strata: Vec<Stratum> = strata.collect();
        Judgement::new(design).unwrap().look(&strata, 12_000, Occasion::Last).verdict
    };
    let count = |verdict| (0..RUNS).filter(|seed| run(*seed) == Some(verdict)).count() as u64;
    for verdict in [Verdict::Fail, Verdict::Pass] {
        assert!(binomial_sf(count(verdict), RUNS, 0.05) > 1e-3, "{verdict:?}: {}", count(verdict));
    }
    // Single points, and those of one side, are what they are.
    assert_eq!(at_the_same_time(&[(0, 1.0)], &[(900, 2.0)]), [[1.0], [2.0]]);
    assert_eq!(at_the_same_time(&[(0, 1.0), (5, 2.0)], &[]), [vec![1.0, 2.0], vec![]]);
    assert_eq!(
        at_the_same_time(&[(0, 1.0), (10, 2.0)], &[(90, 3.0), (100, 4.0)]),
        [Vec::<f64>::new(), Vec::new()]
    );
}

#[test]
fn a_series_that_ends_passes_nothing_and_says_since_when() {
    let design = Design { sampling: Sampling::Series, ..over(12) };
    let verdict = |strata: &[Stratum]| {
        let mut judgement = Judgement::new(design.clone()).unwrap();
        let found = judgement.look(strata, 12_000, Occasion::Last);
        (found.verdict, found.evidence.sentence)
    };
    let nothing = || Sample::Values(Vec::new());
    let whole = under_load(1, 0.0, 1.0, 1);
    assert_eq!(verdict(&whole).0, Some(Verdict::Pass), "{}", verdict(&whole).1);
    for until in [6, 9, 11] {
        let mut strata = whole.clone();
        strata[until..].iter_mut().for_each(|stratum| stratum.canary = nothing());
        let (found, sentence) = verdict(&strata);
        assert_eq!(found, Some(Verdict::NoData), "{sentence}");
        assert!(
            sentence.contains(&format!("values in {until} of 12 intervals and none after {until} s")),
            "{sentence}"
        );
        strata[until..].iter_mut().for_each(|stratum| stratum.baseline = nothing());
        assert_eq!(verdict(&strata).0, Some(Verdict::NoData));
    }
    // Here and there one is missing.
    let mut strata = whole.clone();
    strata.iter_mut().step_by(3).for_each(|stratum| stratum.canary = nothing());
    assert_eq!(verdict(&strata).0, Some(Verdict::Pass), "{}", verdict(&strata).1);
    strata.iter_mut().step_by(2).for_each(|stratum| stratum.canary = nothing());
    let (found, sentence) = verdict(&strata);
    assert_eq!(found, Some(Verdict::NoData), "{sentence}");
    // What fails by what there is fails.
    let mut worse = under_load(1, 0.0, 2.0, 1);
    worse[9..].iter_mut().for_each(|stratum| stratum.canary = nothing());
    assert_eq!(verdict(&worse).0, Some(Verdict::Fail), "{}", verdict(&worse).1);
}

/// Of 50 series, how many have a verdict.
fn count_series(tolerance: Tolerance, verdict: Verdict, strata: impl Fn(u64) -> Vec<Stratum>) -> usize {
    let design = Design { sampling: Sampling::Series, tolerance, ..over(12) };
    let found = |seed: &u64| {
        let (strata, mut judgement) = (strata(*seed), Judgement::new(design.clone()).unwrap());
        let mut look = |at: usize| judgement.look(&strata[..at], at as u64 * 1_000, Occasion::Look).verdict;
        (1..=12).find_map(&mut look) == Some(verdict)
    };
    (0..50).filter(found).count()
}

/// Of five hundred good releases none passed under a sine of a tenth, and of a fifth every second doubling was missed.
#[test]
fn what_moves_both_versions_alike_hides_nothing() {
    let five = Tolerance::Ratio(0.05);
    for amount in [0.1, 0.2] {
        for every in [1, 2] {
            let of = |ratio| move |seed| under_load(seed, amount, ratio, every);
            let (passed, found) =
                (count_series(five, Verdict::Pass, of(1.0)), count_series(five, Verdict::Fail, of(2.0)));
            assert!(passed >= 47, "{amount}, each of {every}: {passed} of 50 equal versions pass");
            assert_eq!(found, 50, "{amount}, each of {every}: a doubling is found");
            assert_eq!(count_series(five, Verdict::Fail, of(1.0)), 0);
            assert_eq!(count_series(five, Verdict::Pass, of(2.0)), 0);
        }
    }
    // One millisecond more: the same of what is compared by difference.
    let of = |ratio| move |seed| under_load(seed, 0.2, ratio, 1);
    assert!(count_series(Tolerance::Shift(1.0), Verdict::Pass, of(1.0)) >= 47);
    assert_eq!(count_series(Tolerance::Shift(1.0), Verdict::Fail, of(2.0)), 50);
}

#[test]
fn rates_need_a_floor_where_the_baseline_has_no_events() {
    let verdict = |floor, baseline, canary| once(rate(floor), &counts(baseline, canary)).verdict;
    assert_eq!(verdict(0.0, (10_000, 0), (10_000, 8)), Some(Verdict::Fail));
    assert_eq!(verdict(0.001, (10_000, 0), (10_000, 8)), Some(Verdict::Inconclusive), "about the floor");
    assert_eq!(verdict(0.001, (10_000, 0), (10_000, 2)), Some(Verdict::Pass), "less than the floor");
    assert_eq!(verdict(0.001, (10_000, 0), (10_000, 0)), Some(Verdict::Pass));
    assert_eq!(verdict(0.0, (10_000, 0), (10_000, 0)), Some(Verdict::Pass), "at most the default floor");
    assert_eq!(verdict(0.0, (1_000, 0), (1_000, 0)), Some(Verdict::Inconclusive));
    assert_eq!(verdict(0.001, (10_000, 5), (10_000, 60)), Some(Verdict::Fail));
    assert_eq!(verdict(0.0, (1_000, 5), (1_000, 5)), Some(Verdict::Inconclusive));
}

#[test]
fn lower_can_be_worse_too() {
    let strata = |median| values(latencies(3_000, 20.0, 1), latencies(3_000, median, 2));
    let verdict = |deviation, median| once(Design { deviation, ..high() }, &strata(median)).verdict;
    assert_eq!(verdict(Deviation::Low, 17.0), Some(Verdict::Fail));
    assert_eq!(verdict(Deviation::Low, 24.0), Some(Verdict::Pass));
    assert_eq!(verdict(Deviation::High, 17.0), Some(Verdict::Pass));
    assert_eq!(verdict(Deviation::Either, 17.0), Some(Verdict::Fail));
    assert_eq!(verdict(Deviation::Either, 24.0), Some(Verdict::Fail));
    assert_eq!(verdict(Deviation::Either, 20.0), Some(Verdict::Pass));
}

/// So many intervals, the canary worse by a factor.
fn intervals(count: u64, each: usize, worse: f64) -> Vec<Stratum> {
    let of = |interval| {
        let baseline = Sample::Values(latencies(each, 20.0, 100 + 2 * interval));
        let canary = Sample::Values(latencies(each, 20.0 * worse, 101 + 2 * interval));
        Stratum::new("canary", interval, baseline, canary)
    };
    (0..count).map(of).collect()
}

#[test]
fn looks_count_once_and_on_the_grid_only() {
    let strata = intervals(10, 40, 1.05);
    let mut judgement = Judgement::new(over(10)).unwrap();
    assert!(!judgement.look(&strata[..0], 999, Occasion::Look).counted, "no interval is over");
    assert!(judgement.look(&strata[..1], 1_000, Occasion::Look).counted);
    let spent = judgement.look(&strata[..1], 1_500, Occasion::Look);
    assert!(!spent.counted, "the same interval again");
    // A restart changes nothing.
    let stored = serde_json::to_string(&judgement).unwrap();
    let mut restarted: Judgement = serde_json::from_str(&stored).unwrap();
    assert_eq!(restarted.verdict(), judgement.verdict());
    assert!(!restarted.look(&strata[..1], 1_999, Occasion::Look).counted);
    let second = restarted.look(&strata[..2], 2_100, Occasion::Look);
    assert!(second.counted);
    assert!((second.evidence.alpha_spent - 0.01).abs() < 1e-12);
    assert_eq!(second.evidence.looks, 2);
}

#[test]
fn what_lies_beyond_the_grid_is_not_seen_early() {
    let strata = intervals(3, 40, 1.05);
    let look = |strata: &[Stratum]| {
        let mut judgement = Judgement::new(over(10)).unwrap();
        judgement.look(strata, 1_700, Occasion::Look).evidence.canary.count
    };
    assert_eq!(look(&strata), 40);
    assert_eq!(look(&strata[..1]), 40);
}

#[test]
fn an_end_before_the_time_spends_what_is_left() {
    let strata = intervals(3, 200, 1.2);
    let mut judgement = Judgement::new(over(100)).unwrap();
    let finding = judgement.look(&strata, 3_000, Occasion::Last);
    assert_eq!(finding.verdict, Some(Verdict::Fail));
    assert!((finding.evidence.alpha_spent - 0.05).abs() < 1e-12);
    // The verdict stands, whatever comes.
    let after = judgement.look(&intervals(9, 200, 0.5), 9_000, Occasion::Look);
    assert_eq!((after.verdict, after.counted), (Some(Verdict::Fail), false));
}

#[test]
fn a_bad_canary_is_found_early_and_a_good_one_passes_at_the_end() {
    let verdict = |worse| {
        let strata = intervals(12, 300, worse);
        let mut judgement = Judgement::new(over(12)).unwrap();
        (1..=12_usize)
            .find_map(|k| Some((k, judgement.look(&strata[..k], 1_000 * k as u64, Occasion::Look).verdict?)))
    };
    let (look, found) = verdict(1.5).unwrap();
    assert!(look <= 2 && found == Verdict::Fail, "{look} {found:?}");
    assert_eq!(verdict(1.0), Some((12, Verdict::Pass)));
}

#[test]
fn without_an_end_only_what_is_bad_is_found_on_the_way() {
    let design = Design { end: End::Open { interval_ms: 1_000 }, ..high() };
    let mut judgement = Judgement::new(design.clone()).unwrap();
    let strata = intervals(40, 50, 1.4);
    let found = (1..=40_usize)
        .find_map(|k| judgement.look(&strata[..k], 1_000 * k as u64, Occasion::Look).verdict.map(|v| (k, v)));
    assert!(matches!(found, Some((1..=15, Verdict::Fail))), "{found:?}");
    let mut judgement = Judgement::new(design).unwrap();
    let strata = intervals(60, 100, 1.0);
    for k in 1..60_usize {
        assert_eq!(judgement.look(&strata[..k], 1_000 * k as u64, Occasion::Look).verdict, None);
    }
    assert_eq!(judgement.look(&strata, 60_000, Occasion::Last).verdict, Some(Verdict::Pass));
}

#[test]
fn alpha_is_shared_by_weight_and_never_grows() {
    assert_eq!(multiple_testing::shares(0.05, &[1.0, 1.0]), [0.025, 0.025]);
    assert_eq!(multiple_testing::shares(0.06, &[2.0, 0.0, 1.0]), [0.04, 0.0, 0.02]);
    assert_eq!(multiple_testing::shares(0.05, &[0.0, f64::NAN]), [0.0, 0.0]);
}
