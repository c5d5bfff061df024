//! What a verdict says.

use analysis::{
    Counts, Design, End, Judgement, Occasion, Question, Sample, Spending, Stratum, Tolerance, Verdict,
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
    insta::assert_snapshot!(few.evidence.sentence, @"Pass: the canary's rate is at most 0.0696 %, below the floor of 0.1 % (1 of 8000 calls, the baseline 2 of 5000).");
    let none = rate(0.001, (0, 5_000), (0, 5_000));
    insta::assert_snapshot!(none.evidence.sentence, @"Pass: the canary's rate is at most 0.0738 %, below the floor of 0.1 % (0 of 5000 calls, the baseline 0 of 5000).");
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
    insta::assert_snapshot!(nothing.evidence.sentence, @"Inconclusive: how the canary compares can't be said, so nothing is shown (0 of 1000 calls, the baseline 0 of 900).");
    let worse = rate(0.0, (0, 10_000), (60, 10_000));
    assert_eq!(worse.verdict, Some(Verdict::Fail));
    assert!(!worse.evidence.sentence.contains("estimate"), "{}", worse.evidence.sentence);
}

#[test]
fn a_probability_is_never_said_to_be_nothing() {
    let certain = rate(0.0, (100, 1_000_000), (9_000, 1_000_000));
    assert!(
        certain.evidence.sentence.contains("(p < 1e-300, 0.05 was enough)"),
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
