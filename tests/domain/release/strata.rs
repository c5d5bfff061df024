//! What children measured, merged within strata: exactly, whichever way it goes up.

use std::collections::BTreeMap;

use analysis::{
    Assignment, Clock, Counts, Design, Finding, Histogram, HistogramFault, Judgement, Occasion, Rounding,
    Sample, Tolerance, Values, histogram::MAX_BUCKETS, speed_classes::class_of, values::GAMMA,
};
use domain::release::{
    manager::Agents,
    speed_classes::Classes,
    strata::{Key, MAX_GROUPED_BYTES, MAX_STRATA, Strata, Understood, one_form},
    summary::{Histogram as Bounds, Reported, Stratum, Summary, Times},
};
use model::{ChildKey, StageStatus};
use proptest::prelude::*;

use super::{reports, world::summary};

/// The split of the stage, in percent.
const ORDERED: u8 = 5;

/// What an agent measured under one split in one interval.
#[derive(Debug, Clone)]
struct Measured {
    split: Option<u8>,
    interval: u32,
    /// Of users all of whose calls go to one version.
    group: Option<u8>,
    is_counted: bool,
    /// It reports values read by this clock; else a histogram.
    clock: Option<Clock>,
    base: Vec<f64>,
    new: Vec<f64>,
    errors: [u64; 2],
}

fn sketch_with(gamma: f64, values: &[f64]) -> Histogram {
    let mut sketch = Histogram::new(gamma).unwrap();
    for value in values {
        sketch.record(*value).unwrap();
    }
    sketch
}

fn sketch(values: &[f64]) -> Histogram {
    sketch_with(GAMMA, values)
}

fn reported(values: &[f64]) -> Reported {
    Reported::Sketch(sketch(values))
}

fn stratum(of: &Measured) -> Stratum {
    let calls = |values: &[f64], errors: u64| of.is_counted.then_some(values.len() as u64 + errors);
    let [f1_errors, f2_errors] = of.errors.map(|errors| of.is_counted.then_some(errors));
    Stratum {
        split: of.split,
        interval: of.interval,
        assignment: None,
        group: of.group,
        class: None,
        f1_calls: calls(&of.base, of.errors[0]),
        f2_calls: calls(&of.new, of.errors[1]),
        f1_errors,
        f2_errors,
        f1_histogram: of.clock.is_none().then(|| reported(&of.base).into()),
        f2_histogram: of.clock.is_none().then(|| reported(&of.new).into()),
        f1_values: of.clock.map(|clock| Box::new(Values::of(of.base.iter().copied(), clock).unwrap())),
        f2_values: of.clock.map(|clock| Box::new(Values::of(of.new.iter().copied(), clock).unwrap())),
    }
}

/// An agent that tells its intervals apart, or, if there is but one of the stage's split, one that knows of none.
fn agent(measured: &[Measured]) -> Summary {
    let strata: Vec<Stratum> = measured.iter().map(stratum).collect();
    let plain = summary("", StageStatus::Completed);
    match &strata[..] {
        [Stratum { split: None, interval: 0, group: None, .. }] => {
            let lone = strata.into_iter().next().unwrap();
            Summary {
                f1_calls: lone.f1_calls,
                f2_calls: lone.f2_calls,
                f1_errors: lone.f1_errors,
                f2_errors: lone.f2_errors,
                f1_histogram: lone.f1_histogram,
                f2_histogram: lone.f2_histogram,
                f1_values: lone.f1_values,
                f2_values: lone.f2_values,
                ..plain
            }
        }
        _ => Summary { strata, ..plain },
    }
}

/// What a manager tells of its children, as it is written and read.
fn manager(children: &[Summary]) -> Summary {
    let strata = Strata::of(children, ORDERED).told(Understood { groups: true }, reports::bytes);
    let sum = Summary { strata, agents: Some(Agents::default()), ..summary("", StageStatus::Completed) };
    reports::again(sum)
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(
        prop_oneof![4 => 1.0..100.0_f64, 1 => 0.001..100_000.0_f64, 1 => Just(0.0)],
        0..30,
    )
}

fn measured() -> impl Strategy<Value = Measured> {
    let split = prop_oneof![2 => Just(None), 1 => Just(Some(ORDERED)), 1 => Just(Some(50))];
    let clock = prop_oneof![
        Just(None),
        Just(Some(Clock::UNKNOWN)),
        Just(Some(Clock::CONTINUOUS)),
        Just(Some(Clock::stepped(1.0, Rounding::Down))),
    ];
    let group = proptest::option::weighted(0.5, prop_oneof![0_u8..3, Just(63)]);
    (split, 0_u32..3, group, any::<bool>(), clock, values(), values(), [0_u64..5, 0_u64..5]).prop_map(
        |(split, interval, group, is_counted, clock, base, new, errors)| Measured {
            split,
            // A group counts over the whole stage.
            interval: if group.is_some() { 0 } else { interval },
            group,
            is_counted,
            clock,
            base,
            new,
            errors,
        },
    )
}

fn judge(strata: &BTreeMap<(u8, u32), [Values; 2]>) -> Finding {
    let mut judgement = Judgement::new(Design::new(Tolerance::Ratio(0.05))).unwrap();
    let strata: Vec<_> = (0..)
        .zip(strata)
        .map(|(interval, ((split, _), [base, new]))| {
            let side = |side: &Values| Sample::Measured(side.clone());
            analysis::Stratum::new(format!("split {split}"), interval, side(base), side(new))
        })
        .collect();
    judgement.look(&strata, 0, Occasion::Last)
}

proptest! {
    #[test]
    fn a_tree_of_any_shape_and_a_flat_fleet_have_the_same_strata(
        fleet in proptest::collection::vec(proptest::collection::vec(measured(), 1..4), 1..12),
        (wide, narrow) in (1_usize..6, 1_usize..4),
    ) {
        let agents: Vec<Summary> = fleet.iter().map(|measured| agent(measured)).collect();
        let flat = Strata::of(&agents, ORDERED);
        let managers: Vec<Summary> = agents.chunks(wide).map(manager).collect();
        prop_assert_eq!(&Strata::of(&managers, ORDERED), &flat);
        let higher: Vec<Summary> = managers.chunks(narrow).map(manager).collect();
        prop_assert_eq!(&Strata::of(higher.iter().rev(), ORDERED), &flat);
        // Agents and managers beside each other.
        let (some, others) = agents.split_at(agents.len() / 2);
        let mixed = [some, &[manager(others)]].concat();
        prop_assert_eq!(&Strata::of(&mixed, ORDERED), &flat);
    }

    #[test]
    fn what_is_merged_is_judged_as_the_pooled_samples_bit_for_bit(
        fleet in proptest::collection::vec(proptest::collection::vec(measured(), 1..4), 1..12),
    ) {
        let clock = Some(Clock::CONTINUOUS);
        let fleet: Vec<Vec<Measured>> = fleet.into_iter().map(|agent| {
            agent.into_iter().map(|measured| Measured { clock, group: None, ..measured }).collect()
        }).collect();
        let mut pooled: BTreeMap<(u8, u32), [Vec<f64>; 2]> = BTreeMap::new();
        for measured in fleet.iter().flatten() {
            let [base, new] = pooled.entry((measured.split.unwrap_or(ORDERED), measured.interval)).or_default();
            base.extend(&measured.base);
            new.extend(&measured.new);
        }
        let pooled = pooled.into_iter().map(|(key, sides)| (key, sides.map(|side| Values::of(side, Clock::CONTINUOUS).unwrap()))).collect();
        let managers: Vec<Summary> =
            fleet.chunks(3).map(|some| manager(&some.iter().map(|of| agent(of)).collect::<Vec<_>>())).collect();
        let strata = Strata::of(&managers, ORDERED);
        let merged = strata.iter().map(|(key, sides)| ((key.split, key.interval), sides.times.clone().unwrap())).collect();
        prop_assert_eq!(&merged, &pooled);
        prop_assert_eq!(judge(&merged), judge(&pooled));
    }

    #[test]
    fn another_form_keeps_every_call_within_its_bucket((gamma, values) in within_the_buckets_of_one_histogram()) {
        let sketch = sketch_with(gamma, &values);
        let times = Times { median: 1.0, minimum: 0.01, maximum: 1e5 };
        let found = one_form(&Reported::Sketch(sketch.clone()), times).unwrap();
        prop_assert_eq!((found.count(), found.gamma()), (sketch.count(), GAMMA));
        for q in [0.1, 0.5, 0.9] {
            let (before, after) = (sketch.quantile(q).unwrap(), found.quantile(q).unwrap());
            prop_assert!((after / before).ln().abs() <= gamma.ln() + 2.0 * GAMMA.ln(), "{} {}", before, after);
        }
    }
}

/// Values that one histogram holds with buckets of that ratio: the finer they are, the less lies between the first and the
/// last.
fn within_the_buckets_of_one_histogram() -> impl Strategy<Value = (f64, Vec<f64>)> {
    let values = proptest::collection::vec(0.01..1e5_f64, 1..100);
    (1.001..1.5_f64, values).prop_map(|(gamma, mut values)| {
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = lowest * gamma.powi(MAX_BUCKETS as i32 - 2);
        values.retain(|value| *value <= highest);
        (gamma, values)
    })
}

/// What once failed by chance: the finest buckets don't reach over seven decimal orders.
#[test]
fn too_many_histogram_buckets_are_reported_and_merged() {
    let values = [0.01, 43_396.187_820_633_16];
    let mut fine = Histogram::new(1.001).unwrap();
    fine.record(values[0]).unwrap();
    assert_eq!(fine.record(values[1]), Err(HistogramFault::Buckets));
    // What could not be counted changed nothing.
    assert_eq!((fine.count(), fine.buckets().count()), (1, 1));
    let written =
        r#"{"mapping": {"gamma": 1.001}, "positiveValues": {"binCounts": {"-4608": 1, "10684": 1}}}"#;
    let refused = serde_json::from_str::<protocol::HistogramForm>(written).unwrap_err();
    assert_eq!(refused.to_string(), "more than 4096 buckets of one sign");
    // As wide as may be.
    fine.record(0.01 * 1.001_f64.powi(MAX_BUCKETS as i32 - 2)).unwrap();
    let times = Times { median: 0.1, minimum: 0.01, maximum: 1.0 };
    let found = one_form(&Reported::Sketch(fine), times).unwrap();
    assert_eq!((found.count(), found.gamma()), (2, GAMMA));
    // One of another form takes both.
    assert_eq!(sketch_with(1.01, &values).count(), 2);
}

#[test]
fn buckets_of_a_childs_own_are_spread_within_their_bounds() {
    let bounds = Bounds { bounds_ms: vec![10.0, 20.0, 40.0], counts: vec![10, 70, 15, 5] };
    let times = Times { median: 15.0, minimum: 5.0, maximum: 80.0 };
    let found = one_form(&Reported::Bounds(bounds), times).unwrap();
    assert_eq!(found.count(), 100);
    let at = |q| found.quantile(q).unwrap();
    for (q, low, high) in [(0.001, 4.9, 10.1), (0.5, 9.9, 20.2), (0.9, 19.8, 40.4), (0.999, 39.6, 80.8)] {
        assert!((low..high).contains(&at(q)), "{q}: {}", at(q));
    }
}

fn counted(base: u64, new: u64) -> Summary {
    Summary {
        f1_calls: Some(base),
        f2_calls: Some(new),
        f1_errors: Some(1),
        f2_errors: Some(1),
        ..summary("", StageStatus::Completed)
    }
}

fn keys(strata: &Strata) -> Vec<u8> {
    strata.iter().map(|(key, _)| key.split).collect()
}

#[test]
fn strata_follow_ordered_split_not_measured_split() {
    let agents = [counted(9_500, 500), counted(9_470, 530), counted(5_000, 5_000), counted(0, 0)];
    let strata = Strata::of(&agents, ORDERED);
    assert_eq!(keys(&strata), [5]);
    let first = strata.iter().next().unwrap().1;
    let side = |calls| Counts { calls, events: 3 };
    assert_eq!(first.counts, Some([side(23_970), side(6_030)]));
}

#[test]
fn values_count_instead_of_the_histogram_beside_them() {
    let values =
        |value: f64| Some(Box::new(Values::of([value; 3], Clock::stepped(1.0, Rounding::Nearest)).unwrap()));
    let agent = Summary {
        f1_histogram: Some(reported(&[90.0; 9]).into()),
        f2_histogram: Some(reported(&[90.0; 9]).into()),
        f1_values: values(15.0),
        f2_values: values(16.0),
        ..counted(95, 5)
    };
    assert_eq!(agent.new_quantile(0.95), Some(16.0));
    let strata = Strata::of([&agent, &manager(std::slice::from_ref(&agent))], ORDERED);
    let [base, new] = strata.iter().next().unwrap().1.times.clone().unwrap();
    assert_eq!((base.exact(), new.exact()), (Some(&[(15.0, 6)][..]), Some(&[(16.0, 6)][..])));
}

#[test]
fn the_clock_of_a_child_that_names_none_is_recognised_from_its_own_report() {
    // Whole milliseconds in buckets of 1 %: each bucket that holds one holds a whole number.
    let whole: Vec<f64> = (0..400).map(|i| f64::from(i * i % 23 + 8)).collect();
    let fine: Vec<f64> = (0..400).map(|i| 8.0 + f64::from(i) * 0.057_31).collect();
    let agent = |values: &[f64]| Summary {
        f1_histogram: Some(reported(values).into()),
        f2_histogram: Some(reported(values).into()),
        ..counted(5_000, 5_000)
    };
    let step = |agents: &[Summary]| {
        let strata = Strata::of(agents, ORDERED);
        strata.iter().next().unwrap().1.times.clone().unwrap()[0].clock().step
    };
    assert_eq!(step(&[agent(&whole)]), Some(1.0));
    assert_eq!(step(&[agent(&fine)]), Some(0.0));
    // Together the coarser one holds, whichever way they come.
    assert_eq!(step(&[agent(&fine), agent(&whole)]), Some(1.0));
    assert_eq!(step(&[manager(&[agent(&fine)]), manager(&[agent(&whole)])]), Some(1.0));
}

#[test]
fn what_is_not_known_of_both_versions_is_not_known() {
    let times = Some(reported(&[8.0; 9]).into());
    for unknown in [
        summary("", StageStatus::Completed),
        // A deployed agent: its base version's errors are not 0.
        Summary {
            f1_err_rate: 0.0,
            f2_calls: Some(90),
            f2_errors: Some(1),
            ..summary("", StageStatus::Completed)
        },
        Summary { f1_errors: None, ..counted(95, 5) },
        Summary { f2_histogram: times.clone(), ..summary("", StageStatus::Completed) },
        // A manager that says nothing of strata pooled its children across them.
        Summary { agents: Some(Agents::default()), f1_histogram: times.clone(), ..counted(95, 5) },
    ] {
        assert_eq!(Strata::of([&unknown], ORDERED), Strata::default(), "{unknown:?}");
    }
}

#[test]
fn numbers_beyond_what_is_counted_move_nothing() {
    let huge =
        |count| Some(Box::new(Reported::Bounds(Bounds { bounds_ms: vec![10.0], counts: vec![count, 0] })));
    let good = Summary { f1_histogram: huge(20), f2_histogram: huge(30), ..counted(9_500, 500) };
    let alone = Strata::of([&good], ORDERED);
    let huge = Summary { f1_histogram: huge(u64::MAX), f2_histogram: huge(u64::MAX), ..counted(u64::MAX, 1) };
    let large = Summary { agents: None, ..counted((1 << 48) / 20 * 19, (1 << 48) / 20) };
    assert!(keys(&Strata::of([&huge], ORDERED)).is_empty());
    assert_eq!(Strata::of([&good, &huge], ORDERED), alone);
    let full = Strata::of(vec![&large; 30], ORDERED);
    assert!(full.iter().all(|(_, sides)| sides.counts.unwrap()[0].calls <= 1 << 48));
    // Calls that took less than light takes for a mile, and others that took years.
    let odd = |value: f64| Summary {
        f1_histogram: Some(reported(&[value]).into()),
        f2_histogram: Some(reported(&[8.0]).into()),
        ..counted(95, 5)
    };
    let strata = Strata::of([&odd(1e-9), &odd(1e15)], ORDERED);
    assert!(strata.iter().all(|(_, sides)| sides.times.is_none()));
}

#[test]
fn a_parent_is_told_the_strata_with_the_most_calls() {
    let strata = (0..100_u32).map(|interval| Stratum {
        interval,
        f1_histogram: Some(reported(&vec![8.0; 100 + interval as usize]).into()),
        f2_histogram: Some(reported(&[8.0; 5]).into()),
        ..Stratum::default()
    });
    let agent = Summary { strata: strata.collect(), ..summary("", StageStatus::Completed) };
    let told = Strata::of([&agent], ORDERED).told(Understood { groups: true }, reports::bytes);
    let intervals: Vec<u32> = told.iter().map(|stratum| stratum.interval).collect();
    assert_eq!(intervals, (100 - MAX_STRATA as u32..100).collect::<Vec<_>>());
    let all = Strata::of([&agent], ORDERED);
    assert!(all.iter().any(|(key, _)| *key == Key { split: ORDERED, ..Key::default() }));
}

/// An agent whose calls go by session: a stratum for each of 64 groups, with so many different values a side.
fn sticky(values: usize) -> Summary {
    let side = |group: u8, shift: f64| {
        let values = (0..values).map(|at| 8.0 + f64::from(group) + shift + at as f64 / 1_000.0);
        Some(Box::new(Values::of(values, Clock::stepped(0.001, Rounding::Nearest)).unwrap()))
    };
    let calls = Some(values as u64);
    let stratum = |group: u8| Stratum {
        group: Some(group),
        f1_calls: calls,
        f2_calls: calls,
        f1_errors: Some(0),
        f2_errors: Some(0),
        f1_values: side(group, 0.0),
        f2_values: side(group, 0.000_5),
        ..Stratum::default()
    };
    let strata = (0..64).map(stratum).collect();
    Summary { assignment: Assignment::User, strata, ..summary("", StageStatus::Completed) }
}

fn text_bytes(strata: &[Stratum]) -> usize {
    strata.iter().map(reports::bytes).sum()
}

#[test]
fn groups_of_users_are_never_added_to_calls_that_do_not_depend_on_each_other() {
    let plain = Summary { f1_calls: Some(500), f2_calls: Some(500), ..counted(0, 0) };
    let strata = Strata::of([&sticky(4), &plain, &manager(&[sticky(4), plain.clone()])], ORDERED);
    let groups: Vec<_> = strata.iter().map(|(key, _)| (key.assignment, key.group)).collect();
    let mut expected = vec![(Assignment::Call, None)];
    expected.extend((0..64).map(|group| (Assignment::User, Some(group))));
    assert_eq!(groups, expected);
    let calls: Vec<u64> = strata.iter().map(|(_, sides)| sides.counts.unwrap()[0].calls).collect();
    assert_eq!((calls[0], &calls[1..]), (1_000, &[8; 64][..]));
}

#[test]
fn calls_that_depend_on_each_other_keep_that_without_groups_and_up_the_tree() {
    for assignment in [Assignment::User, Assignment::Child] {
        let agent = Summary { assignment, ..counted(500, 500) };
        for summary in [
            &agent,
            &manager(std::slice::from_ref(&agent)),
            &manager(&[manager(std::slice::from_ref(&agent))]),
        ] {
            let strata = Strata::of([summary], ORDERED);
            let keys: Vec<_> = strata.iter().map(|(key, _)| *key).collect();
            assert_eq!(keys, [Key { split: ORDERED, assignment, ..Key::default() }]);
        }
    }
}

#[test]
fn dependent_calls_are_withheld_from_parent_without_group_support() {
    let lone = Summary { assignment: Assignment::User, ..counted(500, 500) };
    let strata = Strata::of([&sticky(4), &lone], ORDERED);
    assert!(strata.are_sticky());
    assert_eq!(strata.clone().told(Understood { groups: true }, reports::bytes).len(), 65);
    assert_eq!(strata.told(Understood::default(), reports::bytes), []);
    // What doesn't depend on each other is told as before.
    let mixed = Strata::of([&sticky(4), &counted(500, 500)], ORDERED);
    let told = mixed.told(Understood::default(), reports::bytes);
    let calls = |told: &[Stratum]| told.iter().map(|of| (of.group, of.f1_calls)).collect::<Vec<_>>();
    assert_eq!(calls(&told), [(None, Some(500))]);
    assert!(told.iter().all(|stratum| !reports::text(stratum).contains("assignment")));
}

#[test]
fn a_group_without_a_call_of_one_version_still_tells_the_times_of_the_other() {
    let mut agent = sticky(4);
    let first = &mut agent.strata[0];
    (first.f2_calls, first.f2_values) = (Some(0), None);
    // A version whose calls all failed has no times either.
    let second = &mut agent.strata[1];
    (second.f2_errors, second.f2_values) = (Some(4), None);
    // How many calls there were isn't known: nor is that there were none.
    let third = &mut agent.strata[2];
    (third.f2_calls, third.f2_errors, third.f2_values) = (None, None, None);
    for summary in [&agent, &manager(std::slice::from_ref(&agent))] {
        let strata = Strata::of([summary], ORDERED);
        let of = |group: u8| strata.iter().find(|(key, _)| key.group == Some(group)).map(|(_, sides)| sides);
        let counts = |group| of(group).unwrap().times.as_ref().unwrap().each_ref().map(Values::count);
        assert_eq!([counts(0), counts(1), counts(3)], [[4, 0], [4, 0], [4, 4]]);
        assert!(of(2).is_none());
    }
}

#[test]
fn groups_keep_their_values_exactly_while_they_are_few_and_fit_into_a_report() {
    for (values, is_exact) in [(100, true), (200, false), (510, false)] {
        let agent = sticky(values);
        let strata = Strata::of([&agent], ORDERED);
        let mut times = strata.iter().flat_map(|(_, sides)| sides.times.clone().unwrap());
        assert!(times.all(|side| side.exact().is_some() == is_exact), "{values}");
        let told = strata.clone().told(Understood { groups: true }, reports::bytes);
        assert_eq!(told.len(), 64);
        assert!(text_bytes(&told) <= MAX_GROUPED_BYTES, "{}", text_bytes(&told));
        assert!(told.iter().all(|stratum| stratum.f1_values.is_some()));
        // However it goes up.
        let manager = manager(std::slice::from_ref(&agent));
        assert_eq!(Strata::of([&manager], ORDERED), strata);
        assert_eq!(Strata::of([&manager, &agent], ORDERED), Strata::of([&agent, &agent], ORDERED));
    }
    // Ever more different values together: what was in buckets stays so, and sums stay known.
    let shifted = |by: f64| {
        let mut agent = sticky(200);
        for stratum in &mut agent.strata {
            let values = (0..200).map(|at| 90.0 + by + f64::from(at) / 1_000.0);
            let side = Values::of(values, Clock::stepped(0.001, Rounding::Nearest)).unwrap();
            (stratum.f1_values, stratum.f2_values) = (Some(Box::new(side.clone())), Some(Box::new(side)));
        }
        agent
    };
    let one = Strata::of([&shifted(0.0)], ORDERED);
    let both = Strata::of([&shifted(0.0), &shifted(1.0)], ORDERED);
    for ((_, now), (_, before)) in both.iter().zip(one.iter()) {
        let [now, before] = [now, before].map(|sides| sides.times.clone().unwrap()[0].clone());
        let more = now.since(&before).unwrap();
        assert_eq!(more.count(), 200);
        assert!((more.mean_ms().unwrap() - 91.099_5).abs() < 1e-6, "{:?}", more.mean_ms());
    }
}

#[test]
fn oversized_group_reports_to_parent_keep_or_drop_whole_splits() {
    let wide = |split: u8, calls: u64| {
        let stratum = |group: u8| {
            // From a microsecond to ten minutes.
            let values = (0..510).map(|at| 0.001 * 1.04_f64.powi(at));
            let side = || Some(Box::new(Values::of(values.clone(), Clock::CONTINUOUS).unwrap()));
            Stratum {
                split: Some(split),
                group: Some(group),
                f1_calls: Some(calls),
                f2_calls: Some(calls),
                f1_errors: Some(0),
                f2_errors: Some(0),
                f1_values: side(),
                f2_values: side(),
                ..Stratum::default()
            }
        };
        (0..64).map(stratum).collect::<Vec<_>>()
    };
    let strata = [wide(5, 900), wide(10, 700), wide(20, 800), wide(50, 600), wide(90, 1_000)].concat();
    let agent = Summary { strata, ..summary("", StageStatus::Completed) };
    let told = Strata::of([&agent], ORDERED).told(Understood { groups: true }, reports::bytes);
    assert!(text_bytes(&told) <= MAX_GROUPED_BYTES);
    let mut splits: BTreeMap<u8, (usize, usize)> = BTreeMap::new();
    for stratum in &told {
        let (groups, timed) = splits.entry(stratum.split.unwrap()).or_default();
        *groups += 1;
        *timed += usize::from(stratum.f1_values.is_some());
        assert_eq!(stratum.f1_errors, Some(0));
    }
    // The four with the most calls.
    assert_eq!(splits.keys().copied().collect::<Vec<_>>(), [5, 10, 20, 90]);
    assert!(splits.values().all(|(groups, timed)| *groups == 64 && matches!(timed, 0 | 64)), "{splits:?}");
}

/// Agents whose median before the release was so many milliseconds, by a clock of this step.
fn before(median: f64, step: f64) -> Summary {
    let clock = Clock::stepped(step, Rounding::Nearest);
    let around = |at: i32| ((median + f64::from(at - 10) * 0.01 * median) / step).round() * step;
    let values = || Some(Box::new(Values::of((0..=20).map(around), clock).unwrap()));
    Summary { f1_values: values(), f2_values: values(), ..summary("", StageStatus::Completed) }
}

#[test]
fn classes_of_children_follow_from_the_report_before_unless_their_clock_was_coarse() {
    let mut classes = Classes::default();
    for (child, (median, step)) in (1..).zip([(20.0, 0.001), (21.0, 0.001), (40.0, 0.001), (20.0, 1.0)]) {
        classes.note(ChildKey(child), &before(1_000.0, 0.001), 50);
        classes.note(ChildKey(child), &before(median, step), 50);
    }
    let manager = Summary { agents: Some(Agents::default()), ..before(20.0, 0.001) };
    classes.note(ChildKey(5), &manager, 50);
    classes.note(ChildKey(6), &before(15.0, 1.0), 50);
    let found: Vec<_> = (0..=6).map(|child| classes.of(ChildKey(child))).collect();
    assert_eq!(found[1..5], [20.0, 21.0, 40.0, 20.0].map(class_of));
    assert_eq!(class_of(20.0), class_of(21.0));
    assert_ne!(class_of(20.0), class_of(40.0));
    let unknown = [found[0], found[5], found[6]];
    assert_eq!(unknown, [None; 3], "who never reported, a manager, and whose clock is too coarse");
}

#[test]
fn classes_are_merged_apart_and_come_to_the_same_over_any_managers() {
    let clock = Some(Clock::CONTINUOUS);
    let of = |interval, base: &[f64], new: &[f64]| Measured {
        split: None,
        group: None,
        interval,
        is_counted: true,
        clock,
        base: base.to_vec(),
        new: new.to_vec(),
        errors: [0, 0],
    };
    let agents = [
        (agent(&[of(0, &[1.0], &[2.0]), of(1, &[3.0], &[4.0])]), Some(3)),
        (agent(&[of(1, &[5.0], &[6.0])]), Some(3)),
        (agent(&[of(1, &[7.0], &[8.0])]), Some(4)),
        (agent(&[of(1, &[9.0], &[10.0])]), None),
    ];
    let each = || agents.iter().map(|(summary, class)| (summary, *class));
    let flat = Strata::classed(each(), ORDERED);
    let keys: Vec<_> =
        flat.iter().map(|(key, sides)| (key.interval, key.class, sides.counts.unwrap()[0].calls)).collect();
    assert_eq!(keys, [(0, Some(3), 3), (0, Some(4), 1), (1, None, 1)], "a class has no intervals");
    let managers: Vec<Summary> = [0..2, 2..4]
        .map(|some| {
            let strata = Strata::classed(each().skip(some.start).take(2), ORDERED)
                .told(Understood::default(), reports::bytes);
            let sum =
                Summary { strata, agents: Some(Agents::default()), ..summary("", StageStatus::Completed) };
            reports::again(sum)
        })
        .into();
    // What is known of a manager itself says nothing of its children.
    assert_eq!(Strata::classed(managers.iter().map(|told| (told, Some(9))), ORDERED), flat);
    assert_eq!(Strata::of(&managers, ORDERED), flat.clone().without_classes());
    assert_eq!(flat.total(), Strata::of(agents.iter().map(|(summary, _)| summary), ORDERED).total());
}

#[test]
fn calls_that_depend_on_each_other_have_groups_and_no_classes() {
    let (sticky, plain) = (sticky(4), counted(3, 3));
    let strata = Strata::classed([(&sticky, Some(3)), (&plain, Some(3))], ORDERED);
    let classes: Vec<_> = strata.iter().map(|(key, _)| (key.group.is_some(), key.class)).collect();
    assert_eq!(classes.iter().filter(|of| **of == (true, None)).count(), 64);
    assert_eq!(classes.iter().filter(|of| **of == (false, Some(3))).count(), 1);
}
