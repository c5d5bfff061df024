//! A pass before the last look.

use analysis::{
    Counts, Design, EARLY_PART, EXTENSION_RESERVE, End, Judgement, Occasion, Question, Sample, Spending,
    Stratum, Tolerance, Verdict,
};

use super::random::Random;

const LOOKS: u64 = 20;

fn design() -> Design {
    let end = End::After { duration_ms: LOOKS, interval_ms: 1, spending: Spending::default() };
    Design { end, early: EARLY_PART, ..Design::new(Tolerance::Ratio(0.05)) }
}

/// What is measured in an interval, of a canary with this ratio.
fn interval(at: u64, calls: usize, ratio: f64) -> Stratum {
    let mut random = Random::new(at + 1);
    let mut side =
        |ratio: f64| Sample::Values((0..calls).map(|_| 10.0 * ratio * random.log_normal(0.3)).collect());
    let (baseline, canary) = (side(1.0), side(ratio));
    Stratum::new("stage", at, baseline, canary)
}

/// Looks until one decides.
fn until_decided(design: Design, calls: usize, ratio: f64) -> (Judgement, Vec<Stratum>, u64) {
    let mut judgement = Judgement::new(design).unwrap();
    let mut strata = Vec::new();
    for look in 1..=LOOKS {
        strata.push(interval(look - 1, calls, ratio));
        if judgement.decide(&strata, look, Occasion::Look).verdict.is_some() {
            return (judgement, strata, look);
        }
    }
    unreachable!("the last look has a verdict")
}

#[test]
fn good_canary_passes_early_and_verdict_names_the_interim_analysis() {
    let mut judgement = Judgement::new(design()).unwrap();
    let strata: Vec<Stratum> = (0..3).map(|at| interval(at, 400, 1.0)).collect();
    let findings: Vec<_> =
        (1..=3).map(|look| judgement.look(&strata[..look as usize], look, Occasion::Look)).collect();
    assert_eq!(findings[0].verdict, None, "{}", findings[0].evidence.sentence);
    let found = findings.iter().find(|finding| finding.verdict.is_some()).unwrap();
    assert_eq!(found.verdict, Some(Verdict::Pass));
    insta::assert_snapshot!(found.evidence.sentence, @"Pass: the canary is 0.567 % higher than the baseline (with 99.8 % confidence between 3.26 % lower and 4.57 % higher); 5 % is allowed; passed early, at look 3 of 20.");
    // What is said of the interval is what it passed by.
    let (evidence, test) = (&found.evidence, &found.evidence.tests[0]);
    let effect = evidence.effect.unwrap();
    assert!(evidence.early && effect.high.unwrap() < 1.05, "{effect:?}");
    assert!(test.p_pass <= test.pass_level.unwrap() && test.pass_level.unwrap() < 0.01, "{test:?}");
    assert!((effect.confidence - (1.0 - 2.0 * test.pass_level.unwrap())).abs() < 1e-12);
}

#[test]
fn without_being_asked_to_nothing_passes_before_the_last_look() {
    let (judgement, _, look) = until_decided(Design { early: 0.0, ..design() }, 400, 1.0);
    assert_eq!((judgement.verdict(), look), (Some(Verdict::Pass), LOOKS));
    assert!(!judgement.is_early_pass());
    let stored = serde_json::to_string(&judgement).unwrap();
    assert!(!stored.contains("early") && !stored.contains("passing"), "{stored}");
}

#[test]
fn one_look_at_data_that_are_complete_has_all_of_alpha() {
    let once = |early| {
        let mut judgement = Judgement::new(Design { end: End::Once, early, ..design() }).unwrap();
        judgement.look(&[interval(0, 1_000, 1.0)], 0, Occasion::Last)
    };
    assert_eq!(once(EARLY_PART), once(0.0));
}

#[test]
fn a_metric_that_passed_while_others_have_not_goes_on_and_may_still_fail() {
    let (mut judgement, mut strata, look) = until_decided(design(), 600, 1.0);
    assert!(judgement.is_early_pass() && look < LOOKS, "{look}");
    judgement.go_on();
    assert_eq!((judgement.verdict(), judgement.is_early_pass()), (None, false));
    // Nothing new says nothing else.
    assert_eq!(judgement.decide(&strata, look + 1, Occasion::Look).verdict, Some(Verdict::Pass));
    judgement.go_on();
    strata.push(interval(look + 1, 60_000, 1.3));
    assert_eq!(judgement.decide(&strata, look + 2, Occasion::Look).verdict, Some(Verdict::Fail));
    judgement.go_on();
    assert_eq!(judgement.verdict(), Some(Verdict::Fail), "what isn't an early pass stands");
}

#[test]
fn it_comes_back_from_the_store_as_it_was() {
    let kept = |judgement: Judgement| -> Judgement {
        serde_json::from_str(&serde_json::to_string(&judgement).unwrap()).unwrap()
    };
    let (judgement, _, look) = until_decided(design(), 150, 1.0);
    let mut again = Judgement::new(design()).unwrap();
    let mut strata = Vec::new();
    for at in 0..look {
        strata.push(interval(at, 150, 1.0));
        again.decide(&strata, at + 1, Occasion::Look);
        again = kept(again);
        // A look that was made already decides nothing.
        assert!(!again.decide(&strata, at + 1, Occasion::Look).counted);
    }
    assert_eq!(kept(judgement), again);
}

#[test]
fn a_rate_below_its_floor_passes_early_too() {
    let design = Design { question: Question::Rate { floor: 0.01 }, ..design() };
    let mut judgement = Judgement::new(design).unwrap();
    let mut strata = Vec::new();
    let mut look = 0;
    let found = loop {
        let side = |events| Sample::Counts(Counts { calls: 500, events });
        strata.push(Stratum::new("stage", look, side(1), side(1)));
        look += 1;
        let found = judgement.look(&strata, look, Occasion::Look);
        if found.verdict.is_some() {
            break found;
        }
    };
    assert_eq!(found.verdict, Some(Verdict::Pass));
    insta::assert_snapshot!(found.evidence.sentence, @"Pass: the canary's rate is at most 0.925 % (3 of 1,500 calls, the baseline 3 of 1,500), and up to 1 % is always allowed; passed early, at look 3 of 20.");
}

#[test]
fn what_is_kept_for_an_extension_stays_kept() {
    let design = Design { reserve: EXTENSION_RESERVE, ..design() };
    let (mut judgement, mut strata, look) = until_decided(design, 6, 1.03);
    assert_eq!((judgement.verdict(), look), (Some(Verdict::Inconclusive), LOOKS));
    judgement.extend().unwrap();
    strata.push(interval(LOOKS, 4_000, 1.0));
    assert_eq!(judgement.decide(&strata, LOOKS + 1, Occasion::Look).verdict, Some(Verdict::Pass));
    // That is the end of an extension, and nothing that could go on.
    assert!(!judgement.is_early_pass());
}

#[test]
fn a_split_that_is_not_as_ordered_passes_nothing() {
    let mut judgement = Judgement::new(design()).unwrap();
    let mut strata = Vec::new();
    for look in 1..LOOKS {
        strata.push(interval(look - 1, 1_000, 1.0).ordered(0.1));
        assert_eq!(judgement.decide(&strata, look, Occasion::Look).verdict, None, "{look}");
    }
}

#[test]
fn a_part_of_alpha_that_leaves_the_end_next_to_nothing_is_refused() {
    for early in [-0.1, 0.95, f64::NAN] {
        assert!(Judgement::new(Design { early, ..design() }).is_err(), "{early}");
    }
}
