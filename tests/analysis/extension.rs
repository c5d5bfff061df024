//! A judgement that goes on after an end that decided nothing.

use analysis::{
    Counts, Design, EXTENSION_RESERVE, End, Judgement, NoExtension, Occasion, Question, Sample, Spending,
    Stratum, Tolerance, Verdict, dist::binomial_sf,
};

use super::random::Random;

const INTERVAL_MS: u64 = 1_000;
const LOOKS: u64 = 6;
const ALPHA: f64 = 0.05;

/// Looks of an extension.
const MORE: u64 = 6;

fn design(reserve: f64) -> Design {
    let end = End::After {
        duration_ms: LOOKS * INTERVAL_MS,
        interval_ms: INTERVAL_MS,
        spending: Spending::default(),
    };
    Design { end, reserve, ..Design::new(Tolerance::Ratio(0.05)) }
}

/// What is measured, interval by interval.
struct Run {
    random: Random,
    ratio: f64,
    calls: usize,
    strata: Vec<Stratum>,
    judgement: Judgement,
}

impl Run {
    fn new(design: Design, ratio: f64, calls: usize, seed: u64) -> Self {
        let judgement = Judgement::new(design).unwrap();
        Self { random: Random::new(seed), ratio, calls, strata: Vec::new(), judgement }
    }

    fn look(&mut self, is_last: bool) -> Option<Verdict> {
        let interval = self.strata.len() as u64;
        let mut side = |ratio: f64| {
            Sample::Values((0..self.calls).map(|_| 10.0 * ratio * self.random.log_normal(0.3)).collect())
        };
        let (baseline, canary) = (side(1.0), side(self.ratio));
        self.strata.push(Stratum::new("stage", interval, baseline, canary));
        let occasion = if is_last { Occasion::Last } else { Occasion::Look };
        self.judgement.decide(&self.strata, (interval + 1) * INTERVAL_MS, occasion).verdict
    }

    /// Looks so often, the last time for good.
    fn looks(&mut self, looks: u64) -> Verdict {
        (1..=looks).find_map(|look| self.look(look == looks)).unwrap()
    }

    /// How far the estimate lies above the tolerance, in standard errors.
    fn z(&self) -> f64 {
        self.judgement.clone().look(&self.strata, u64::MAX, Occasion::Last).evidence.tests[0].z
    }
}

/// How often a release at the very tolerance fails, and how often it passes, where somebody extends it up to three times.
fn wrong(runs: u64, extends: impl Fn(&Run) -> bool) -> [u64; 2] {
    let (mut failed, mut passed) = (0, 0);
    for seed in 0..runs {
        let mut run = Run::new(design(EXTENSION_RESERVE), 1.05, 30, seed);
        let mut verdict = run.looks(LOOKS);
        for _ in 0..3 {
            if verdict == Verdict::Inconclusive && extends(&run) {
                run.judgement.extend().unwrap();
                verdict = run.looks(MORE);
            }
        }
        failed += u64::from(verdict == Verdict::Fail);
        passed += u64::from(verdict == Verdict::Pass);
    }
    [failed, passed]
}

#[test]
fn however_often_and_for_whatever_reason_it_is_extended_alpha_is_kept() {
    let runs = 1_500;
    let always = |_: &Run| true;
    let near_miss = |run: &Run| run.z().abs() > 1.2;
    for wrong in [wrong(runs, always), wrong(runs, near_miss)] {
        for count in wrong {
            assert!(binomial_sf(count, runs, ALPHA) > 0.001, "{count} of {runs}");
        }
    }
}

/// What would be if each extension were one more look at the level of the planned end.
#[test]
fn one_more_look_at_the_same_level_after_a_near_miss_would_not_keep_it() {
    let runs = 1_500;
    let mut failed = 0;
    for seed in 0..runs {
        let mut run = Run::new(design(0.0), 1.05, 30, seed);
        let mut verdict = run.looks(LOOKS);
        for _ in 0..12 {
            if verdict == Verdict::Inconclusive {
                // Everything once more as if it had just been planned.
                run.judgement = Judgement::new(Design { end: End::Once, ..design(0.0) }).unwrap();
                verdict = run.look(true).unwrap();
            }
        }
        failed += u64::from(verdict == Verdict::Fail);
    }
    assert!(binomial_sf(failed, runs, ALPHA) < 1e-9, "{failed} of {runs}");
}

#[test]
fn what_is_quoted_decides_in_four_of_five_cases() {
    let (mut quoted, mut decided) = (0_u64, 0_u64);
    for seed in 0..1_500 {
        let mut run = Run::new(design(EXTENSION_RESERVE), 1.0, 60, seed);
        if run.looks(LOOKS) != Verdict::Inconclusive {
            continue;
        }
        let shown = run.judgement.clone().look(&run.strata, LOOKS * INTERVAL_MS, Occasion::Last);
        let Some(more) = shown.evidence.more_calls.filter(|more| *more < 20_000) else { continue };
        quoted += 1;
        run.judgement.extend().unwrap();
        // All of it in one look.
        run.calls = (more / 2) as usize;
        decided += u64::from(run.looks(1) != Verdict::Inconclusive);
    }
    assert!(quoted >= 50, "{quoted}");
    let share = decided as f64 / quoted as f64;
    assert!(share >= 0.75, "{decided} of {quoted}");
}

#[test]
fn a_good_version_passes_with_more_calls_and_a_bad_one_fails() {
    for (ratio, verdict) in [(1.0, Verdict::Pass), (1.12, Verdict::Fail)] {
        let mut run = Run::new(design(EXTENSION_RESERVE), ratio, 8, 1);
        assert_eq!(run.looks(LOOKS), Verdict::Inconclusive);
        run.judgement.extend().unwrap();
        // It comes back from the store.
        let kept = serde_json::to_string(&run.judgement).unwrap();
        run.judgement = serde_json::from_str(&kept).unwrap();
        run.calls = 1_000;
        assert_eq!(run.looks(MORE), verdict, "{ratio}");
        assert_eq!(run.judgement.clone().extend(), Err(NoExtension::Decided));
    }
}

#[test]
fn rates_below_the_floor_pass_in_an_extension_too() {
    let design = Design { question: Question::Rate { floor: 0.01 }, ..design(EXTENSION_RESERVE) };
    let mut judgement = Judgement::new(design).unwrap();
    let stratum = |interval, calls| {
        let side = |events| Sample::Counts(Counts { calls, events });
        Stratum::new("stage", interval, side(0), side(0))
    };
    let mut strata = vec![stratum(0, 100)];
    let end = LOOKS * INTERVAL_MS;
    assert_eq!(judgement.decide(&strata, end, Occasion::Last).verdict, Some(Verdict::Inconclusive));
    judgement.extend().unwrap();
    strata.push(stratum(LOOKS, 300));
    assert_eq!(judgement.decide(&strata, end + INTERVAL_MS, Occasion::Look).verdict, None);
    strata.push(stratum(LOOKS + 1, 3_000));
    assert_eq!(judgement.decide(&strata, end + 2 * INTERVAL_MS, Occasion::Look).verdict, Some(Verdict::Pass));
}

#[test]
fn where_nothing_was_kept_nothing_goes_on() {
    let mut run = Run::new(design(0.0), 1.0, 8, 1);
    assert_eq!(run.looks(LOOKS), Verdict::Inconclusive);
    assert_eq!(run.judgement.extend(), Err(NoExtension::NothingKept));
    assert_eq!(run.judgement.verdict(), Some(Verdict::Inconclusive));
}
