//! What a verdict says.

use analysis::{
    Clock, Counts, Design, Deviation, End, Judgement, Occasion, Question, Rounding, Sample, Sampling,
    Spending, Stratum, Tolerance, Values, Verdict,
};

fn rate(floor: f64, baseline: (u64, u64), canary: (u64, u64)) -> analysis::Finding {
    let question = Question::Rate { floor };
    let design = Design { question, ..Design::new(Tolerance::Ratio(0.05)) };
    let counts = |(events, calls): (u64, u64)| Sample::Counts(Counts { calls, events });
    let strata = [Stratum::new("canary", 0, counts(baseline), counts(canary))];
    Judgement::new(design).unwrap().look(&strata, 0, Occasion::Last)
}

#[test]
fn a_pass_by_the_floor_says_so_and_shows_no_interval_that_says_nothing() {
    let few = rate(0.001, (2, 5_000), (1, 8_000));
    assert_eq!(few.verdict, Some(Verdict::Pass));
    insta::assert_snapshot!(few.evidence.sentence, @"Pass: the canary's rate is at most 0.0696 % (1 of 8,000 calls, the baseline 2 of 5,000), and up to 0.1 % is always allowed.");
    let none = rate(0.001, (0, 5_000), (0, 5_000));
    insta::assert_snapshot!(none.evidence.sentence, @"Pass: the canary's rate is at most 0.0738 % (0 of 5,000 calls, the baseline 0 of 5,000), and up to 0.1 % is always allowed.");
    let floor = none.evidence.below_floor.unwrap();
    // The upper bound of no event in n calls: 1 − 0.025^(1/n).
    assert!((floor.at_most - (1.0 - 0.025_f64.powf(1.0 / 5_000.0))).abs() < 1e-9, "{floor:?}");
    // Where the floor doesn't help, the comparison is what counts.
    assert_eq!(rate(0.001, (500, 100_000), (250, 100_000)).evidence.below_floor, None);
}

#[test]
fn what_can_only_be_counted_is_counted() {
    let nothing = rate(0.0, (0, 900), (0, 1_000));
    assert_eq!(nothing.verdict, Some(Verdict::Inconclusive));
    insta::assert_snapshot!(nothing.evidence.sentence, @"Inconclusive: neither version had an event (0 of 1,000 calls, the baseline 0 of 900); 3,791 more without one (both together) would show that the canary's rate is at most 0.1 %; or allow more (floor).");
    let worse = rate(0.0, (0, 10_000), (60, 10_000));
    assert_eq!(worse.verdict, Some(Verdict::Fail));
    assert!(!worse.evidence.sentence.contains("estimate"), "{}", worse.evidence.sentence);
}

/// What is beyond the tolerance and isn't surely above the floor fails no more than it passes.
#[test]
fn a_rate_near_its_floor_names_it() {
    let near = |floor| rate(floor, (1, 20_000), (14, 20_000));
    assert_eq!(near(0.000_1).verdict, Some(Verdict::Fail), "{}", near(0.000_1).evidence.sentence);
    let found = near(0.000_5);
    assert_eq!(found.verdict, Some(Verdict::Inconclusive), "{}", found.evidence.sentence);
    insta::assert_snapshot!(found.evidence.sentence, @"Inconclusive: the canary's rate is between 158 % and 29094 % higher than the baseline's (14 of 20,000 calls, the baseline 1 of 20,000), by more than the allowed 5 %; but up to a rate of 0.05 % nothing fails (floor), and it isn't certain that the canary's, 0.07 %, is above that; about 480,000 more calls would most likely settle it, or allow more (floor).");
    // So many more calls with the same rates show that it is above.
    let more = found.evidence.more_calls.unwrap();
    let calls = 40_000 + more;
    let times = |events: u64| (events * calls / 40_000, calls / 2);
    assert_eq!(rate(0.000_5, times(1), times(14)).verdict, Some(Verdict::Fail), "{more}");
}

/// A fail stands, and what came afterwards is told with it.
#[test]
fn a_fail_that_later_data_dont_show_says_so() {
    let end = End::After { duration_ms: 4_000, interval_ms: 1_000, spending: Spending::default() };
    let mut judgement = Judgement::new(Design { end, ..Design::new(Tolerance::Ratio(0.05)) }).unwrap();
    let sample = |step: usize, factor: f64| {
        Sample::Values(around_20(300, step).iter().map(|value| value * factor).collect())
    };
    let mut strata = vec![Stratum::new("canary", 0, sample(7, 1.0), sample(11, 1.2))];
    assert_eq!(judgement.look(&strata, 1_000, Occasion::Look).verdict, Some(Verdict::Fail));
    strata.extend((1..4).map(|interval| Stratum::new("canary", interval, sample(7, 1.0), sample(11, 0.9))));
    let found = judgement.look(&strata, 4_000, Occasion::Last);
    assert_eq!(found.verdict, Some(Verdict::Fail));
    insta::assert_snapshot!(found.evidence.sentence, @"Fail: at an earlier look the canary was higher by more than the allowed 5 % and chance; by now the canary is 2.87 % lower than the baseline, at look 1 of 4.");
}

#[test]
fn a_probability_is_never_said_to_be_nothing() {
    let certain = rate(0.0, (100, 1_000_000), (9_000, 1_000_000));
    assert!(
        certain.evidence.sentence.ends_with("chance would show this less than once in a million."),
        "{}",
        certain.evidence.sentence
    );
}

#[test]
fn looks_are_counted_as_they_were_made() {
    let end = End::After { duration_ms: 4_000, interval_ms: 1_000, spending: Spending::default() };
    let mut judgement = Judgement::new(Design { end, ..Design::new(Tolerance::Ratio(0.05)) }).unwrap();
    let values = |factor: f64| {
        Sample::Values((0..300).map(|i| (10.0 + f64::from(i * 7 % 300) / 30.0) * factor).collect())
    };
    // Nothing was there at the first look.
    assert_eq!(judgement.look(&[], 1_000, Occasion::Look).evidence.looks, 1);
    let strata = [Stratum::new("canary", 1, values(1.0), values(2.0))];
    let finding = judgement.look(&strata, 2_000, Occasion::Look);
    assert_eq!(finding.verdict, Some(Verdict::Fail));
    assert!(finding.evidence.sentence.contains("at look 2 of 4"), "{}", finding.evidence.sentence);
}

fn values(design: Design, baseline: &[f64], canary: &[f64]) -> analysis::Finding {
    let strata =
        [Stratum::new("canary", 0, Sample::Values(baseline.to_vec()), Sample::Values(canary.to_vec()))];
    Judgement::new(design).unwrap().look(&strata, 0, Occasion::Last)
}

/// So many different values around 20, the same ones in another order for another step.
fn around_20(count: usize, step: usize) -> Vec<f64> {
    (0..count).map(|i| 20.0 + (i * step % count) as f64 * 10.0 / count as f64).collect()
}

fn share_of(count: usize, ones_in: usize) -> Vec<f64> {
    (0..count)
        .map(|i| if i % ones_in == 0 { 1.0 + (i / ones_in * 7 % 100) as f64 / 9.0 } else { 0.0 })
        .collect()
}

#[test]
fn zeros_beside_zeros_pass_where_they_are_enough_and_else_say_what_helps() {
    let high = || Design::new(Tolerance::Ratio(0.05));
    let either = || Design { deviation: Deviation::Either, ..high() };
    let series = || Design { sampling: Sampling::Series, ..either() };
    let tail = || Design { question: Question::Quantile(0.99), ..high() };
    let zeros = |count| vec![0.0; count];
    for design in [high(), either(), series(), tail(), Design { sampling: Sampling::Series, ..tail() }] {
        // (1 − 0.001)ⁿ ≤ 0.05.
        for (count, verdict) in [(2_994, Verdict::Inconclusive), (2_995, Verdict::Pass)] {
            let found = values(design.clone(), &zeros(count), &zeros(count));
            assert_eq!(found.verdict, Some(verdict), "{design:?}: {}", found.evidence.sentence);
        }
        // What isn't only zeros is compared.
        let one = values(design.clone(), &zeros(3_000), &[zeros(2_999), vec![1.0]].concat());
        assert_ne!(one.verdict, Some(Verdict::Pass), "{}", one.evidence.sentence);
    }
    // Where lower is worse it takes as many of the baseline; where that alone is asked, 0 is the worst there is.
    assert_eq!(values(high(), &zeros(50), &zeros(3_000)).verdict, Some(Verdict::Pass));
    assert_eq!(values(either(), &zeros(50), &zeros(3_000)).verdict, Some(Verdict::Inconclusive));
    let low = Design { deviation: Deviation::Low, ..high() };
    assert_eq!(values(low.clone(), &zeros(9_000), &zeros(9_000)).verdict, Some(Verdict::Inconclusive));
    // An amount tells 0 from what is worse.
    let amount = Design { sampling: Sampling::Series, ..Design::new(Tolerance::Shift(1.0)) };
    assert_eq!(values(amount, &zeros(40), &zeros(40)).verdict, Some(Verdict::Pass));
    let reserved = Design { reserve: 0.1, ..series() };
    let sentences = [
        values(series(), &zeros(4_000), &zeros(5_000)),
        values(reserved, &zeros(400), &zeros(400)),
        values(low, &zeros(9_000), &zeros(9_000)),
        rate(0.0, (0, 5_000), (0, 5_000)),
        rate(0.0, (0, 900), (0, 1_000)),
        rate(0.001, (0, 900), (0, 1_000)),
    ]
    .map(|found| found.evidence.sentence);
    insta::assert_snapshot!(sentences.join("\n"), @r"
    Pass: all points are 0, 5,000 of the canary and 4,000 of the baseline, so at most 0.0749 % of the canary's are anything else; up to 0.1 % is allowed.
    Inconclusive: all points are 0, 400 of the canary and 400 of the baseline; 5,400 more zeros (both together) would show that at most 0.1 % of the canary's are anything else: `choirmaster release extend-analysis ID --calls 5400`; or say what is allowed: `expected: {max: 0}` as a THRESHOLD, or a tolerance that is an amount.
    Inconclusive: all values are 0, 9,000 of the canary and 9,000 of the baseline, and lower is worse: see that it is measured, or say what is allowed by `expected: {min: …}` as a THRESHOLD.
    Pass: neither version had an event (0 of 5,000 calls, the baseline 0 of 5,000), so the canary's rate is at most 0.0599 %; up to 0.1 % is allowed.
    Inconclusive: neither version had an event (0 of 1,000 calls, the baseline 0 of 900); 3,791 more without one (both together) would show that the canary's rate is at most 0.1 %; or allow more (floor).
    Inconclusive: neither version had an event (0 of 1,000 calls, the baseline 0 of 900); 5,108 more without one (both together) would show that the canary's rate is at most 0.1 %; or allow more (floor).
    ");
}

/// Looks may come as often as they like: each at which all are 0 comes after some at which they were.
#[test]
fn zeros_pass_before_the_end_and_after_it_as_soon_as_they_are_enough() {
    let end = End::After { duration_ms: 10_000, interval_ms: 1_000, spending: Spending::default() };
    let design = Design { end, early: 0.3, reserve: 0.1, ..Design::new(Tolerance::Ratio(0.05)) };
    let strata = |count: u64| -> Vec<Stratum> {
        let zeros = || Sample::Values(vec![0.0; 1_000]);
        (0..count).map(|interval| Stratum::new("canary", interval, zeros(), zeros())).collect()
    };
    let mut judgement = Judgement::new(design.clone()).unwrap();
    let mut found = |look| judgement.look(&strata(look), look * 1_000, Occasion::Look);
    let early = [found(2), found(3), found(4)];
    assert_eq!(early.each_ref().map(|found| found.verdict), [None, None, Some(Verdict::Pass)]);
    // Without an early pass only the last look passes.
    let mut judgement = Judgement::new(Design { early: 0.0, ..design.clone() }).unwrap();
    let open = judgement.look(&strata(4), 4_000, Occasion::Look);
    assert_eq!(open.verdict, None);
    assert_eq!(judgement.look(&strata(5), 5_000, Occasion::Last).verdict, Some(Verdict::Pass));
    // What ended with too few goes on until there are enough.
    let mut judgement = Judgement::new(design).unwrap();
    assert_eq!(judgement.look(&strata(2), 10_000, Occasion::Last).verdict, Some(Verdict::Inconclusive));
    judgement.extend().unwrap();
    assert_eq!(judgement.look(&strata(3), 11_000, Occasion::Look).verdict, None);
    assert_eq!(judgement.look(&strata(4), 12_000, Occasion::Look).verdict, Some(Verdict::Pass));
    let sentences = [&early[0], &early[2], &open].map(|found| found.evidence.sentence.as_str());
    insta::assert_snapshot!(sentences.join("\n"), @r"
    It goes on: all values are 0, 2,000 of the canary and 2,000 of the baseline, at look 1 of 10; 2,200 more zeros (both together) will show that at most 0.1 % of the canary's are anything else.
    Pass: all values are 0, 4,000 of the canary and 4,000 of the baseline, so at most 0.0775 % of the canary's are anything else; up to 0.1 % is allowed; passed early, at look 3 of 10.
    It goes on: all values are 0, 4,000 of the canary and 4,000 of the baseline, at look 1 of 10; if that stays so, it passes at the end.
    ");
}

/// Times of a clock that shows nothing but 0, and calls that depend on each other, tell nothing.
#[test]
fn zeros_that_say_nothing_pass_nothing() {
    let design = || Design::new(Tolerance::Ratio(0.05));
    let times = || Sample::Measured(Values::of(vec![0.0; 9_000], Clock::UNKNOWN).unwrap());
    let coarse = [Stratum::new("canary", 0, times(), times())];
    let found = Judgement::new(design()).unwrap().look(&coarse, 0, Occasion::Last);
    assert_eq!(found.verdict, Some(Verdict::Inconclusive), "{}", found.evidence.sentence);
    let zeros = || Sample::Values(vec![0.0; 900]);
    let of = |group| Stratum::new("canary", 0, zeros(), zeros()).of_users(group);
    let sticky: Vec<Stratum> = (0..40).map(of).collect();
    let found = Judgement::new(design()).unwrap().look(&sticky, 0, Occasion::Last);
    assert_eq!(found.verdict, Some(Verdict::Inconclusive), "{}", found.evidence.sentence);
}

/// It quotes the test that decided, and no estimate that says the opposite.
#[test]
fn a_fail_quotes_what_failed() {
    let design = || Design::new(Tolerance::Ratio(0.05));
    let rare = values(design(), &share_of(9_000, 90), &share_of(9_000, 30));
    assert_eq!(rare.verdict, Some(Verdict::Fail));
    // What was higher below its floor is no fail when both are above it and there is nothing more to find.
    let end = End::After { duration_ms: 4_000, interval_ms: 1_000, spending: Spending::default() };
    let mut judgement =
        Judgement::new(Design { question: Question::Rate { floor: 0.001 }, end, ..design() }).unwrap();
    let counts = |calls, events| Sample::Counts(Counts { calls, events });
    let mut strata = vec![Stratum::new("canary", 0, counts(20_000, 0), counts(20_000, 12))];
    assert_eq!(judgement.look(&strata, 1_000, Occasion::Look).verdict, None);
    strata.push(Stratum::new("canary", 1, counts(10_000, 400), counts(10_000, 380)));
    let floor = judgement.look(&strata, 2_000, Occasion::Look);
    assert_eq!(floor.verdict, None, "{}", floor.evidence.sentence);
    // As high where they aren't 0, and it isn't certain that they are so as often.
    let undecided =
        values(design(), &share_of(200_000, 20), &[share_of(180_000, 20), share_of(20_000, 15)].concat());
    assert_eq!(undecided.verdict, Some(Verdict::Inconclusive), "{}", undecided.evidence.sentence);
    let sentences = [rare, floor, undecided].map(|found| found.evidence.sentence);
    insta::assert_snapshot!(sentences.join("\n"), @r"
    Fail: 3.33 % of the canary's values aren't 0, and 1.11 % of the baseline's; 5 % more often is allowed; if it were only 5 %, chance would show this less than once in a million.
    It goes on: the canary's rate is 2 % lower than the baseline's so far (with 90 % confidence between 13 % lower and 10.4 % higher), at look 2 of 4; 5 % is allowed.
    Inconclusive: 5.17 % of the canary's values aren't 0, and 5 % of the baseline's: whether that is within the allowed 5 % isn't certain; measure for longer, or allow more (tolerance).
    ");
}

#[test]
fn units_and_commands_are_those_of_the_metric() {
    let times = |values: Vec<f64>| {
        Sample::Measured(Values::of(values, Clock::stepped(0.0, Rounding::Nearest)).unwrap())
    };
    let once = |design: Design, factor: f64, count: usize| {
        let canary = around_20(count, 11).into_iter().map(|value| value * factor).collect();
        let strata = [Stratum::new("canary", 0, times(around_20(count, 7)), times(canary))];
        Judgement::new(design).unwrap().look(&strata, 0, Occasion::Last).evidence.sentence
    };
    let ratio = || Design { reserve: 0.1, ..Design::new(Tolerance::Ratio(0.05)) };
    let series = Design { sampling: Sampling::Series, ..ratio() };
    let points = values(
        series,
        &around_20(200, 77),
        &around_20(200, 123).iter().map(|x| x * 1.02).collect::<Vec<_>>(),
    );
    let low = Design { deviation: Deviation::Low, ..ratio() };
    let sentences = [
        once(ratio(), 1.08, 3_000),
        once(ratio(), 1.02, 3_000),
        once(ratio(), 1.03, 120),
        once(ratio(), 1.05, 3_000),
        once(ratio(), 2.5, 3_000),
        once(low, 0.9, 3_000),
        once(ratio(), 1.08, 260),
        once(Design::new(Tolerance::Shift(2.0)), 1.2, 3_000),
        once(Design::new(Tolerance::Shift(2.0)), 1.0, 3_000),
        once(Design { question: Question::Quantile(0.95), ..ratio() }, 1.2, 3_000),
        points.evidence.sentence,
    ];
    insta::assert_snapshot!(sentences.join("\n"), @r"
    Fail: the canary took 8 % longer than the baseline; 5 % is allowed; if it were only 5 %, chance would show this less than once in a million.
    Pass: the canary took 2 % longer than the baseline (with 91 % confidence between 1.48 % and 2.53 % longer); 5 % is allowed.
    Inconclusive: the canary took between 0.311 % and 5.75 % longer than the baseline; the allowed 5 % lies in between; about 23,000 more calls would most likely settle it: `choirmaster release extend-analysis ID --calls 23000`.
    Inconclusive: the canary took between 4.46 % and 5.54 % longer than the baseline; the allowed 5 % lies in between; how many more calls would settle it can't be told: measure for longer, or allow more (tolerance).
    Fail: the canary took 2.5 times as long as the baseline; 5 % is allowed; if it were only 5 %, chance would show this less than once in a million.
    Fail: the canary took 10 % less than the baseline; 5 % is allowed; if it were only 5 %, chance would show this less than once in a million.
    Fail: the canary took 8 % longer than the baseline; 5 % is allowed; if it were only 5 %, chance would show this 4 times in 1,000.
    Fail: the canary took 5 ms longer than the baseline; 2 ms is allowed; if it were only 2 ms, chance would show this less than once in a million.
    Pass: the canary took as long as the baseline (with 90 % confidence between 0.125 ms less and 0.125 ms longer); 2 ms is allowed.
    Fail: the canary's p95 is 20 % higher than the baseline's; 5 % is allowed; if it were only 5 %, chance would show this less than once in a million.
    Pass: the canary is 2 % higher than the baseline (with 91 % confidence between 0.0363 % lower and 4.08 % higher); 5 % is allowed.
    ");
}
