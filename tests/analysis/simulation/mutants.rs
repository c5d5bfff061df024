//! Judges that are wrong in one point each. The simulation must refuse every one of them, or it would not notice if the
//! real one became so.

use analysis::{
    Design, Judgement, Occasion, Sample, Sampling, Spending, Stratum, Tolerance, Verdict,
    alpha_spending::{SpentBounds, spent},
    dependence::{LEAST_EFFECTIVE_POINTS, UPPER_BOUND, autocorrelation_time},
    dist::{binomial_sf, normal_sf, pearson3_sf},
    rank::{Alternative, Map, normal_p, rank_sums},
    split::{Split, Splits},
    spread::SortedSide,
};

use super::{ALPHA, Null as _, TOLERANCE, exceeds, shapes::Shape};
use crate::{
    random::Random,
    simulation::{
        shapes::{Autoregression, SD, SD_OF_TRENDS, Trend},
        sticky::{Cell, Managers},
    },
};

/// False alarms in so many runs, by a judge that says whether a run failed.
fn false_alarms(runs: u64, judge: impl Fn(&mut Random) -> bool) -> u64 {
    (0..runs).filter(|run| judge(&mut Random::new(77_000 + run))).count() as u64
}

/// The mutant is refused, the real judge on the same runs is not.
fn told_apart(runs: u64, real: impl Fn(&mut Random) -> bool, mutant: impl Fn(&mut Random) -> bool) {
    let (real, mutant) = (false_alarms(runs, real), false_alarms(runs, mutant));
    assert!(!exceeds(real, runs, ALPHA, 1), "the real one: {real} of {runs}");
    assert!(exceeds(mutant, runs, ALPHA, 1), "the mutant: {mutant} of {runs}");
}

fn boundary() -> Map {
    Map::scale(1.0 + TOLERANCE)
}

fn values(count: usize, scale: f64, random: &mut Random) -> Vec<f64> {
    (0..count).map(|_| Shape::Continuous.draw(random, scale)).collect()
}

/// Intervals with so many values a side, on the boundary.
fn strata(looks: u64, each: usize, random: &mut Random) -> Vec<Stratum> {
    let of = |interval| {
        let baseline = values(each, 1.0, random);
        let canary = values(each, 1.0 + TOLERANCE, random);
        Stratum::new("canary", interval, Sample::Values(baseline), Sample::Values(canary))
    };
    (0..looks).map(of).collect()
}

fn design(looks: u64) -> Design {
    let mut design = Design::new(Tolerance::Ratio(TOLERANCE));
    design.end = analysis::End::After { duration_ms: looks, interval_ms: 1, spending: Spending::default() };
    design
}

/// Does it fail at any look?
fn fails(design: &Design, strata: &[Stratum]) -> bool {
    let mut judgement = Judgement::new(design.clone()).unwrap();
    (1..=strata.len()).any(|look| {
        judgement.decide(&strata[..look], look as u64, Occasion::Look).verdict == Some(Verdict::Fail)
    })
}

#[test]
fn a_manager_that_drops_the_groups_of_sessions_is_refused() {
    let cell = Cell::new(10, 0.5, 1);
    let fails = |managers: Managers| {
        move |random: &mut Random| cell.with(managers).run(random).verdict == Verdict::Fail
    };
    told_apart(150, fails(Managers::Right), fails(Managers::DropGroups));
}

#[test]
fn a_judge_that_doesnt_pay_for_its_looks_is_refused() {
    let real = |random: &mut Random| fails(&design(12), &strata(12, 10, random));
    let mutant = |random: &mut Random| {
        let strata = strata(12, 10, random);
        (1..=12).any(|look| {
            let mut once = Judgement::new(Design::new(Tolerance::Ratio(TOLERANCE))).unwrap();
            once.decide(&strata[..look], 0, Occasion::Last).verdict == Some(Verdict::Fail)
        })
    };
    told_apart(300, real, mutant);
}

#[test]
fn a_judge_that_assumes_equal_information_at_every_look_is_refused() {
    // Traffic doubles from look to look. The statistic itself is drawn: all that matters is what the looks know.
    const LOOKS: u32 = 8;
    let crosses = |random: &mut Random, assumed: fn(u32) -> f64| {
        let mut bounds = SpentBounds::default();
        let (mut s, mut v) = (0.0, 0.0);
        (1..=LOOKS).any(|look| {
            let information = f64::from(look).exp2();
            s += (information - v).sqrt() * random.normal();
            v = information;
            let spent = spent(Spending::default(), ALPHA, f64::from(look) / f64::from(LOOKS));
            bounds.look(assumed(look), spent, normal_sf(s / v.sqrt()))
        })
    };
    told_apart(
        4_000,
        |random| crosses(random, |look| f64::from(look).exp2()),
        |random| crosses(random, f64::from),
    );
}

#[test]
fn a_judge_that_corrects_for_ties_without_the_third_moment_is_refused() {
    let sums = |random: &mut Random| {
        let draw = |count: usize, scale: f64, random: &mut Random| {
            let values = (0..count).map(|_| Shape::Zeros(0.99).draw(random, scale)).collect();
            SortedSide::of_values(values, None)
        };
        let (baseline, canary) = (draw(950, 1.0, random), draw(50, 1.0 + TOLERANCE, random));
        rank_sums(&baseline, &canary, boundary())
    };
    let real = |random: &mut Random| {
        let sums = sums(random);
        sums.v > 0.0 && pearson3_sf(sums.s / sums.v.sqrt(), sums.k / sums.v.powf(1.5)) <= ALPHA
    };
    let mutant = |random: &mut Random| {
        let sums = sums(random);
        sums.v > 0.0 && normal_p(&sums, Alternative::Greater, false) <= ALPHA
    };
    told_apart(1_500, real, mutant);
}

#[test]
fn a_judge_that_pools_strata_is_refused() {
    // The canary gets half of the traffic when everything has become slower.
    let two = |random: &mut Random| {
        let of = |stage, interval, scale: f64, m, n, random: &mut Random| {
            let baseline = values(m, scale, random);
            let canary = values(n, scale * (1.0 + TOLERANCE), random);
            Stratum::new(stage, interval, Sample::Values(baseline), Sample::Values(canary))
        };
        [of("5 %", 0, 1.0, 190, 10, random), of("50 %", 1, 1.3, 100, 100, random)]
    };
    let real = |random: &mut Random| fails(&design(2), &two(random));
    let mutant = |random: &mut Random| {
        let [mut first, second] = two(random);
        for (side, more) in [(&mut first.baseline, second.baseline), (&mut first.canary, second.canary)] {
            let (Sample::Values(values), Sample::Values(more)) = (side, more) else { unreachable!() };
            values.extend(more);
        }
        fails(&design(1), &[first])
    };
    told_apart(300, real, mutant);
}

#[test]
fn a_judge_that_ignores_autocorrelation_is_refused() {
    let series = |random: &mut Random| {
        let mut series = [(); 2].map(|()| Autoregression::new(0.8, random));
        let of = |interval| {
            let mut side = |which: usize, scale: f64| {
                let next = |_| 20.0 * scale * (SD * series[which].next(random)).exp();
                Sample::Values((0..10).map(next).collect())
            };
            let baseline = side(0, 1.0);
            Stratum::new("canary", interval, baseline, side(1, 1.0 + TOLERANCE))
        };
        (0..12).map(of).collect::<Vec<_>>()
    };
    let judged = |sampling, random: &mut Random| {
        let mut design = design(12);
        design.sampling = sampling;
        fails(&design, &series(random))
    };
    told_apart(300, |random| judged(Sampling::Series, random), |random| judged(Sampling::Calls, random));
}

/// The error is not to pass what is good.
#[test]
fn a_judge_that_takes_what_moves_both_versions_for_dependence_is_refused() {
    let strata = |random: &mut Random| {
        let phase = random.uniform();
        let mut side = |interval: u64| {
            let point = |at: u64| {
                let time = (interval * 10 + at) as f64 / 120.0;
                20.0 * Trend::Sine(0.1, 1.0).at(time, phase) * random.log_normal(SD_OF_TRENDS)
            };
            Sample::Values((0..10).map(point).collect())
        };
        (0..12).map(|at| Stratum::new("canary", at, side(at), side(at))).collect::<Vec<_>>()
    };
    let real = |random: &mut Random| {
        let mut series = Judgement::new(Design { sampling: Sampling::Series, ..design(12) }).unwrap();
        series.decide(&strata(random), 12, Occasion::Last).verdict != Some(Verdict::Pass)
    };
    // Such a judge asks each side by itself how many points it is worth.
    let mutant = |random: &mut Random| {
        let strata = strata(random);
        let canary = strata.iter().flat_map(|stratum| match &stratum.canary {
            Sample::Values(values) => values.as_slice(),
            _ => &[],
        });
        let points: Vec<f64> = canary.copied().collect();
        (points.len() as f64) < LEAST_EFFECTIVE_POINTS * autocorrelation_time(&points, 0.0)
    };
    told_apart(300, real, mutant);
}

/// At the first look at which there seem to be enough effective points, the autocorrelation is underestimated: what is left
/// of a common trend is looked at with a bound.
#[test]
fn a_judge_that_takes_the_autocorrelation_as_it_was_found_is_refused() {
    let too_short = |errors: f64| {
        move |random: &mut Random| {
            let mut series = Autoregression::new(0.8, random);
            let points: Vec<f64> = (0..100).map(|_| series.next(random)).collect();
            // True is (1 + 0.8) / (1 − 0.8).
            autocorrelation_time(&points, errors) < 9.0
        }
    };
    let (bounded, as_found) = (false_alarms(300, too_short(UPPER_BOUND)), false_alarms(300, too_short(0.0)));
    assert!(!exceeds(bounded, 300, 0.15, 1), "the real one: {bounded} of 300");
    assert!(exceeds(as_found, 300, 0.15, 1), "the mutant: {as_found} of 300");
}

#[test]
fn a_judge_that_tests_for_any_difference_and_filters_by_the_estimate_is_refused() {
    let sides = |random: &mut Random| {
        let baseline = SortedSide::of_values(values(500, 1.0, random), None);
        let canary = SortedSide::of_values(values(500, 1.0 + TOLERANCE, random), None);
        (baseline, canary)
    };
    let p = |baseline: &SortedSide, canary: &SortedSide, map| {
        normal_p(&rank_sums(baseline, canary, map), Alternative::Greater, false)
    };
    let real = |random: &mut Random| {
        let (baseline, canary) = sides(random);
        p(&baseline, &canary, boundary()) <= ALPHA
    };
    let mutant = |random: &mut Random| {
        let (baseline, canary) = sides(random);
        let estimate_exceeds = rank_sums(&baseline, &canary, boundary()).s > 0.0;
        p(&baseline, &canary, Map::IDENTITY) <= ALPHA && estimate_exceeds
    };
    told_apart(300, real, mutant);
}

#[test]
fn a_check_of_the_split_that_sees_only_those_that_are_off_is_refused() {
    // A thousand children, each with its calls as ordered.
    let fleet = |random: &mut Random| -> Vec<Split> {
        let child = |_| {
            let canary = random.binomial(128, 0.5);
            Split { share: 0.5, baseline: 128 - canary, canary, groups: Vec::new() }
        };
        (0..1_000).map(child).collect()
    };
    let is_off = |fleet: Vec<Split>| {
        let mut splits = Splits::default();
        for split in fleet {
            splits.note(split.share, None, [split.baseline, split.canary]);
        }
        splits.mismatch(ALPHA).is_some()
    };
    // Each of those by a binomial test at the level of the check.
    let strays_are_off = |fleet: Vec<Split>| {
        let p = |split: &Split| 2.0 * binomial_sf(split.canary, split.baseline + split.canary, split.share);
        fleet.iter().filter(|split| split.z() > 3.29).any(|split| p(split) < 0.001)
    };
    told_apart(300, |random| is_off(fleet(random)), |random| strays_are_off(fleet(random)));
}
