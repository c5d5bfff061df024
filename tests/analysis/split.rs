//! Whether calls were shared out as ordered: one check over everything, as often as one likes.

use analysis::{
    Counts, Design, Judgement, Occasion, Question, Sample, Stratum, Tolerance, Verdict, dist::binomial_sf,
    split::Splits,
};

use super::random::Random;

const ALPHA: f64 = 0.05;

/// What a release with this alpha is to be paused with by mistake.
const LEVEL: f64 = 0.001;

/// The look at which a split is found not to be the ordered one, if it is: `children` with so many calls a look.
fn found(
    ordered: f64,
    truth: f64,
    children: u64,
    calls: u64,
    looks: u64,
    random: &mut Random,
) -> Option<u64> {
    let mut splits = Splits::default();
    (1..=looks).find(|_| {
        for _ in 0..children {
            let canary = random.binomial(calls, truth);
            splits.note(ordered, None, [calls - canary, canary]);
        }
        splits.mismatch(ALPHA).is_some()
    })
}

#[test]
fn calls_shared_out_as_ordered_are_taken_for_that_at_every_look() {
    for (share, runs) in [(0.5, 4_000), (0.05, 1_000), (0.95, 1_000)] {
        let mut random = Random::new(7);
        let wrong = (0..runs).filter(|_| found(share, share, 1, 64, 200, &mut random).is_some()).count();
        assert!(binomial_sf(wrong as u64, runs, LEVEL) > 0.001, "{share}: {wrong} of {runs}");
    }
}

#[test]
fn another_split_is_found_within_some_thousand_calls() {
    let mut random = Random::new(8);
    for (ordered, truth, most) in [(0.5, 0.55, 6_000), (0.05, 0.08, 6_000), (0.5, 0.9, 300)] {
        for _ in 0..100 {
            let look = found(ordered, truth, 10, 10, most / 100, &mut random);
            assert!(look.is_some(), "{truth} instead of {ordered}");
        }
    }
}

#[test]
fn opposite_deviations_across_fleet_match_ordered_split() {
    let mut splits = Splits::default();
    splits.note(0.5, None, [5_500, 4_500]);
    splits.note(0.5, None, [4_500, 5_500]);
    assert_eq!(splits.mismatch(ALPHA), None);
    // Under two orders, neither is.
    splits.note(0.2, None, [8_000, 2_000]);
    splits.note(0.3, None, [8_000, 2_000]);
    let most = splits.mismatch(ALPHA).unwrap();
    assert_eq!((most.share, most.canary), (0.3, 2_000));
}

#[test]
fn evidence_of_several_orders_adds_up() {
    // Each of them would be taken for chance.
    let one = |share: f64| {
        let mut splits = Splits::default();
        splits.note(share, None, [5_000 - (5_000.0 * share) as u64 - 120, (5_000.0 * share) as u64 + 120]);
        splits
    };
    assert!(one(0.5).mismatch(ALPHA).is_none() && one(0.4).mismatch(ALPHA).is_none());
    let mut all = one(0.5);
    for share in [0.4, 0.3] {
        all.note(share, None, [5_000 - (5_000.0 * share) as u64 - 120, (5_000.0 * share) as u64 + 120]);
    }
    assert!(all.mismatch(ALPHA).is_some(), "{:?}", all.evidence(ALPHA));
}

#[test]
fn what_the_judge_found_of_the_split_is_shown_with_the_verdict() {
    let strata = |[baseline, canary]: [u64; 2]| {
        let of = |calls| Sample::Counts(Counts { calls, events: 100.min(calls / 100) });
        [Stratum::new("canary", 0, of(baseline), of(canary)).ordered(0.5)]
    };
    let look = |calls| {
        let mut design = Design::new(Tolerance::Ratio(0.05));
        design.question = Question::Rate { floor: 0.05 };
        Judgement::new(design).unwrap().look(&strata(calls), 0, Occasion::Last)
    };
    let fine = look([10_100, 9_900]);
    let shown = fine.evidence.split.unwrap();
    assert_eq!((fine.verdict, shown.threshold), (Some(Verdict::Pass), 1_000.0));
    assert!(shown.e_value < 1.0, "{}", shown.e_value);
    let off = look([11_000, 9_000]);
    assert_eq!(off.verdict, Some(Verdict::Inconclusive), "{}", off.evidence.sentence);
    let written = serde_json::to_value(&off.evidence).unwrap();
    assert_eq!(written["split"]["splits"][0]["canary"], 9_000, "{written:#}");
    // However many calls there were, what is shown can be read again.
    let most = look([1 << 40, 1 << 30]).evidence;
    let written = serde_json::to_string(&most).unwrap();
    assert_eq!(serde_json::from_str::<analysis::Evidence>(&written).unwrap(), most);
}

#[test]
fn failed_calls_are_calls_of_the_split_too() {
    // Every third call of the canary fails: of its times a third is missing.
    let mut random = Random::new(9);
    let mut times = |count: usize| (0..count).map(|_| random.log_normal(0.4)).collect::<Vec<_>>();
    let stratum =
        Stratum::new("canary", 0, Sample::Values(times(3_000)), Sample::Values(times(2_000))).ordered(0.5);
    let look = |stratum: Stratum| {
        let mut judgement = Judgement::new(Design::new(Tolerance::Ratio(0.2))).unwrap();
        judgement.look(&[stratum], 0, Occasion::Last)
    };
    assert_eq!(look(stratum.clone()).verdict, Some(Verdict::Inconclusive));
    assert_eq!(look(stratum.clone().called([3_000, 3_000])).verdict, Some(Verdict::Pass));
    assert_eq!(look(stratum.called([3_300, 2_700])).verdict, Some(Verdict::Inconclusive));
}
