use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use traffic::{
    Variation as Which,
    desired::{DesiredConfig, Service, Target},
    health::{
        Checks, Departure, DepartureChange, Effective, Grain, Health, Probe, Verdict, effective, turns,
    },
    observed::ObservedConfig,
};

use crate::{
    cases::cases,
    states::{any_wanted, obeyed, spec, target, wanted, wants_by_header},
};

/// Looks at every target, each time with the answer that `is_good` gives, so often.
fn look(checks: &mut Checks, times: usize, mut is_good: impl FnMut(&Probe) -> bool) {
    for _ in 0..times {
        for probe in checks.take_due(u64::MAX, usize::MAX) {
            let good = is_good(&probe);
            checks.answered(&probe, good, 0, 0.5);
        }
    }
}

fn looked_at(wanted: &DesiredConfig) -> Checks {
    let mut checks = Checks::default();
    checks.follow(wanted, 0, || 0.5);
    checks
}

/// All targets answer well but these.
fn health_with(wanted: &DesiredConfig, bad: &[&str]) -> Health {
    let bad: BTreeSet<_> = bad.iter().map(|text| target(text)).collect();
    let mut checks = looked_at(wanted);
    look(&mut checks, 3, |probe| !bad.contains(&probe.target));
    checks.health()
}

fn texts(effective: &Effective) -> String {
    effective.departures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[derive(Debug, Clone, Copy)]
enum Found {
    Nothing,
    Good,
    Bad,
}

fn any_found() -> impl Strategy<Value = Vec<Found>> {
    prop::collection::vec(prop_oneof![Just(Found::Nothing), Just(Found::Good), Just(Found::Bad)], 8)
}

/// Health in which the k-th target that is checked was found as `found` says.
fn found_health(wanted: &DesiredConfig, found: &[Found]) -> Health {
    let mut checks = looked_at(wanted);
    let mut given = BTreeMap::new();
    for _ in 0..3 {
        for probe in checks.take_due(u64::MAX, usize::MAX) {
            let next = given.len();
            match found[*given.entry(probe.clone()).or_insert(next) % found.len()] {
                Found::Nothing => {}
                Found::Good => drop(checks.answered(&probe, true, 0, 0.5)),
                Found::Bad => drop(checks.answered(&probe, false, 0, 0.5)),
            }
        }
    }
    checks.health()
}

/// The rule, written once more.
fn counts_as_there(
    service: &Service,
    which: Which,
    health: &Health,
    seen: Option<&ObservedConfig>,
) -> Vec<bool> {
    let variation = &service.variations[which.index()];
    let has_calls = |target: &Target| {
        let there = seen.and_then(|seen| seen.services.get(service.name.as_str()));
        there.is_some_and(|there| {
            let there = &there.variations[which.index()];
            there.hundredths > 0 && there.targets.iter().any(|one| one.target == *target)
        })
    };
    let of = |target: &Target| match variation.health.as_ref().map(|how| health.verdict(target, how)) {
        None | Some(Verdict::Healthy) => true,
        Some(Verdict::Unhealthy) => false,
        Some(Verdict::Unknown) => which.is_stable() || has_calls(target),
    };
    variation.targets.iter().map(of).collect()
}

fn any_case() -> impl Strategy<Value = (DesiredConfig, Health, Option<ObservedConfig>, Grain)> {
    let grain = prop_oneof![Just(Grain::Target), Just(Grain::Variation)];
    (any_wanted(), any_found(), any::<bool>(), grain).prop_map(|(wanted, found, was_seen, grain)| {
        let health = found_health(&wanted, &found);
        let seen = was_seen.then(|| obeyed(&wanted));
        (wanted, health, seen, grain)
    })
}

proptest! {
    // Each case builds tables of 10,000 buckets.
    #![proptest_config(cases(48))]

    #[test]
    fn nobody_is_sent_to_a_candidate_without_a_target_that_is_there((wanted, health, seen, grain) in any_case()) {
        let effective = effective(&wanted, &health, seen.as_ref(), grain);
        prop_assert_eq!(effective.wanted.number, wanted.number);
        for (before, after) in wanted.services().iter().zip(effective.wanted.services()) {
            for variant in after.variants().skip(1) {
                let there = counts_as_there(before, variant.which, &health, seen.as_ref());
                let asked = after.rule.iter().flat_map(|rule| &rule.values);
                let is_sent_to = variant.hundredths > 0 || asked.into_iter().any(|(_, to)| *to == variant.which);
                prop_assert!(!is_sent_to || there.contains(&true), "{} {:?}", before.name, variant.which);
            }
        }
    }

    #[test]
    fn exactly_the_buckets_of_the_emptied_move_and_the_stable_one_gets_them((wanted, health, seen, grain) in any_case()) {
        let effective = effective(&wanted, &health, seen.as_ref(), grain);
        for (before, after) in wanted.services().iter().zip(effective.wanted.services()) {
            let is_emptied: Vec<bool> = before.variants().map(|one| {
                !one.which.is_stable() && !counts_as_there(before, one.which, &health, seen.as_ref()).contains(&true)
            }).collect();
            let gone: u16 = before.variants().zip(&is_emptied).filter(|(_, gone)| **gone).map(|(one, _)| one.hundredths).sum();
            prop_assert_eq!(before.table.moved_buckets(&after.table), gone);
            for (was, is) in before.variants().zip(after.variants()) {
                let expected = match (was.which.is_stable(), is_emptied[was.which.index()]) {
                    (true, _) => was.hundredths + gone,
                    (false, true) => 0,
                    (false, false) => was.hundredths,
                };
                prop_assert_eq!(is.hundredths, expected);
            }
        }
    }

    #[test]
    fn a_variation_never_loses_its_last_target_and_only_those_that_are_away((wanted, health, seen, grain) in any_case()) {
        let effective = effective(&wanted, &health, seen.as_ref(), grain);
        for (before, after) in wanted.services().iter().zip(effective.wanted.services()) {
            for (was, is) in before.variants().zip(after.variants()) {
                let there = counts_as_there(before, was.which, &health, seen.as_ref());
                let all = &was.variation.targets;
                let kept: Vec<_> = all.iter().zip(&there).filter(|(_, is)| **is).map(|(one, _)| one.clone()).collect();
                let takes_out = grain == Grain::Target && !kept.is_empty();
                prop_assert_eq!(&is.variation.targets, if takes_out { &kept } else { all });
            }
        }
    }

    #[test]
    fn it_differs_from_what_is_wanted_just_where_a_departure_says_so((wanted, health, seen, grain) in any_case()) {
        let effective = effective(&wanted, &health, seen.as_ref(), grain);
        let differs: Vec<_> = wanted.services().iter().zip(effective.wanted.services())
            .filter(|(before, after)| before != after).map(|(before, _)| before.name.clone()).collect();
        let said: BTreeSet<_> = effective.departures.iter().filter(|one| !one.is_alarm()).map(|one| one.service().clone()).collect();
        prop_assert_eq!(differs, said.into_iter().collect::<Vec<_>>());
        for service in wanted.services() {
            let of_stable = service.variations[0].health.as_ref();
            let is_down = of_stable.is_some_and(|how| service.variations[0].targets.iter().all(|one| health.verdict(one, how) == Verdict::Unhealthy));
            let is_alarm = effective.departures.iter().any(|one| one.is_alarm() && *one.service() == service.name);
            prop_assert_eq!(is_down, is_alarm);
        }
    }

    #[test]
    fn all_that_was_taken_comes_back_as_it_was(wanted in any_wanted(), found in any_found(), grain in prop_oneof![Just(Grain::Target), Just(Grain::Variation)]) {
        let away = effective(&wanted, &found_health(&wanted, &found), None, grain);
        let healthy = effective(&wanted, &found_health(&wanted, &[Found::Good]), None, grain);
        prop_assert_eq!(&healthy.wanted, &wanted);
        prop_assert_eq!(&healthy.departures, &[]);
        let turns = turns(&away.departures, &healthy.departures);
        prop_assert_eq!(turns, away.departures.into_iter().map(DepartureChange::Returned).collect::<Vec<_>>());
    }

    #[test]
    fn a_verdict_changes_after_so_many_in_a_row_and_not_before(answers in prop::collection::vec(any::<bool>(), 1..40), healthy_after in 1..4_u32, unhealthy_after in 1..4_u32) {
        let mut spec = spec("a", 80, &[10_000]);
        spec.variations[0].targets.truncate(1);
        let how = spec.variations[0].health.as_mut().unwrap();
        (how.healthy_after, how.unhealthy_after) = (healthy_after, unhealthy_after);
        let wanted = wanted([spec]);
        let mut checks = looked_at(&wanted);
        let mut verdict = Verdict::Unknown;
        for until in 1..=answers.len() {
            let so_far = &answers[..until];
            let is_good = so_far[until - 1];
            let in_a_row = so_far.iter().rev().take_while(|one| **one == is_good).count() as u32;
            let before = verdict;
            if is_good && in_a_row >= healthy_after {
                verdict = Verdict::Healthy;
            } else if !is_good && in_a_row >= unhealthy_after {
                verdict = Verdict::Unhealthy;
            }
            let probe = checks.take_due(u64::MAX, 1).remove(0);
            let said = checks.answered(&probe, is_good, 0, 0.5);
            prop_assert_eq!(said, (before != verdict).then_some(verdict));
            prop_assert_eq!(checks.health().verdict(&probe.target, &probe.how), verdict);
        }
    }

    #[test]
    fn checks_keep_their_interval_within_a_tenth(chances in prop::collection::vec(0.0..1.0_f64, 1..50), took_ms in 0..3_000_u64) {
        let mut spec = spec("a", 80, &[10_000]);
        spec.variations[0].targets.truncate(1);
        let wanted = wanted([spec]);
        let mut checks = Checks::default();
        checks.follow(&wanted, 0, || chances[0]);
        for chance in &chances {
            let now_ms = checks.next_due_ms().unwrap();
            if now_ms > 0 {
                prop_assert_eq!(checks.take_due(now_ms - 1, 9), []);
            }
            let probe = checks.take_due(now_ms, 9).remove(0);
            prop_assert_eq!(checks.next_due_ms(), None);
            checks.answered(&probe, true, now_ms + took_ms, *chance);
            let pause_ms = checks.next_due_ms().unwrap() - now_ms;
            prop_assert!((1_800..=2_200).contains(&pause_ms) || pause_ms == took_ms && took_ms > 1_800, "{}", pause_ms);
        }
    }
}

#[test]
fn candidate_waits_for_healthy_target_but_stable_serves_at_once() {
    let wanted = wanted([spec("a", 80, &[9_000, 1_000])]);
    let mut checks = looked_at(&wanted);
    let unknown = effective(&wanted, &checks.health(), Some(&ObservedConfig::default()), Grain::Target);
    assert_eq!(unknown.wanted.services()[0].table.hundredths(), [10_000, 0]);
    insta::assert_snapshot!(texts(&unknown), @"B of a gets 0 % where 10 % is wanted: no target is proven healthy yet");
    look(&mut checks, 1, |_| true);
    assert_eq!(effective(&wanted, &checks.health(), None, Grain::Target), unknown);
    look(&mut checks, 1, |_| true);
    assert_eq!(effective(&wanted, &checks.health(), None, Grain::Target).wanted, wanted);
}

/// Whoever leads a router is started anew in the middle of a release: half of all users would be thrown back and forth.
#[test]
fn who_has_calls_already_keeps_them_until_it_is_proven_bad() {
    let wanted = wanted([spec("a", 80, &[5_000, 5_000])]);
    let seen = obeyed(&wanted);
    let mut checks = looked_at(&wanted);
    let now = |checks: &Checks| effective(&wanted, &checks.health(), Some(&seen), Grain::Target);
    assert_eq!(now(&checks).wanted, wanted);
    look(&mut checks, 2, |_| false);
    assert_eq!(now(&checks).wanted, wanted);
    look(&mut checks, 1, |_| false);
    assert_eq!(now(&checks).wanted.services()[0].table.hundredths(), [10_000, 0]);
    // Of another target of the same name nothing is known.
    let mut other = spec("a", 80, &[5_000, 5_000]);
    other.variations[1].targets = vec![target("10.7.7.7:1")];
    let other = crate::states::wanted([other]);
    let shares = effective(&other, &looked_at(&other).health(), Some(&seen), Grain::Target);
    assert_eq!(shares.wanted.services()[0].table.hundredths(), [10_000, 0]);
}

#[test]
fn what_differs_is_told_with_both_values() {
    let spec = wants_by_header(spec("a", 80, &[7_000, 2_000, 1_000]), &[("B", 1), ("C", 2)]);
    let wanted = wanted([spec]);
    let at = |bad: &[&str], grain| effective(&wanted, &health_with(&wanted, bad), None, grain);
    insta::assert_snapshot!(texts(&at(&["10.0.1.1:9000"], Grain::Target)), @"B of a has 1 of 2 targets: without 10.0.1.1:9000");
    assert_eq!(at(&["10.0.1.1:9000"], Grain::Variation).departures, []);
    let emptied = at(&["10.0.1.1:9000", "10.0.1.2:9000"], Grain::Variation);
    insta::assert_snapshot!(texts(&emptied), @"B of a gets 0 % where 20 % is wanted: no target is healthy");
    assert_eq!(emptied.wanted.services()[0].table.hundredths(), [9_000, 0, 1_000]);
    let rule: Vec<_> = emptied.wanted.services()[0]
        .rule
        .as_ref()
        .unwrap()
        .values
        .iter()
        .map(|(value, to)| (value.as_str().to_owned(), to.0))
        .collect();
    assert_eq!(rule, [("B".to_owned(), 0), ("C".to_owned(), 2)]);
    let down = at(&["10.0.0.1:9000", "10.0.0.2:9000"], Grain::Target);
    insta::assert_snapshot!(texts(&down), @"A of a is the stable variation and has no healthy target; it serves on all of them: 10.0.0.1:9000, 10.0.0.2:9000");
    assert_eq!(down.wanted, wanted);
    assert!(down.departures[0].is_alarm());
    let all = [
        "10.0.0.1:9000",
        "10.0.0.2:9000",
        "10.0.1.1:9000",
        "10.0.1.2:9000",
        "10.0.2.1:9000",
        "10.0.2.2:9000",
    ];
    assert_eq!(at(&all, Grain::Target).wanted.services()[0].table.hundredths(), [10_000, 0, 0]);
}

#[test]
fn departure_changes_report_new_changed_and_ended_ones() {
    let wanted = wanted([spec("a", 80, &[9_000, 1_000])]);
    let at = |bad: &[&str]| effective(&wanted, &health_with(&wanted, bad), None, Grain::Target).departures;
    let one = at(&["10.0.0.1:9000"]);
    let other = at(&["10.0.0.2:9000", "10.0.1.1:9000"]);
    assert_eq!(turns(&[], &one), [DepartureChange::Departed(one[0].clone())]);
    assert_eq!(turns(&one, &one), []);
    assert_eq!(
        turns(&one, &other),
        [DepartureChange::Departed(other[0].clone()), DepartureChange::Departed(other[1].clone())]
    );
    let emptied = at(&["10.0.1.1:9000", "10.0.1.2:9000"]);
    assert!(matches!(&emptied[0], Departure::Emptied { is_unproven: false, wanted: 1_000, .. }));
    assert_eq!(
        turns(&other, &emptied),
        [
            DepartureChange::Returned(other[0].clone()),
            DepartureChange::Returned(other[1].clone()),
            DepartureChange::Departed(emptied[0].clone())
        ]
    );
}

#[test]
fn a_target_that_services_share_is_looked_at_once_and_otherwise_by_each_way() {
    let (mut a, mut b) = (spec("a", 80, &[10_000]), spec("b", 81, &[10_000]));
    assert_eq!(looked_at(&wanted([a.clone(), b.clone()])).len(), 2);
    b.variations[0].health.as_mut().unwrap().path = Some("/other".into());
    assert_eq!(looked_at(&wanted([a.clone(), b])).len(), 4);
    a.variations[0].health = None;
    assert!(looked_at(&wanted([a])).is_empty());
}

#[test]
fn what_is_known_of_targets_that_stay_is_kept() {
    let before = wanted([spec("a", 80, &[9_000, 1_000])]);
    let mut checks = looked_at(&before);
    look(&mut checks, 2, |_| true);
    let in_flight = checks.take_due(u64::MAX, 1).remove(0);
    let mut changed = spec("a", 80, &[5_000, 5_000]);
    changed.variations[1].targets[1] = target("10.9.9.9:9000");
    let after = wanted([changed]);
    checks.follow(&after, 0, || 0.5);
    let verdicts: Vec<_> =
        checks.health().of(&after.services()[0]).map(|(_, _, verdict)| verdict.unwrap()).collect();
    assert_eq!(verdicts, [Verdict::Healthy, Verdict::Healthy, Verdict::Healthy, Verdict::Unknown]);
    // What is being carried out is not begun twice, and its answer counts; that of one that left is nothing.
    assert_eq!(checks.take_due(u64::MAX, 9).len(), 3);
    assert_eq!(checks.answered(&in_flight, false, 0, 0.5), None);
    assert_eq!(checks.take_due(u64::MAX, 9), [in_flight]);
    let gone = Probe { target: target("10.0.1.2:9000"), how: crate::states::health() };
    assert_eq!(checks.answered(&gone, false, 0, 0.5), None);
    assert_eq!(checks.len(), 4);
}

/// It left and came back while a check of it was on its way: then it would be looked at twice in each interval.
#[test]
fn a_target_that_comes_back_is_looked_at_once() {
    let (with, without) = (wanted([spec("a", 80, &[9_000, 1_000])]), wanted([spec("a", 80, &[10_000])]));
    let mut checks = looked_at(&with);
    let in_flight = checks.take_due(u64::MAX, usize::MAX);
    assert_eq!(in_flight.len(), 4);
    checks.follow(&without, 0, || 0.5);
    checks.follow(&with, 0, || 0.5);
    for probe in &in_flight {
        checks.answered(probe, true, 0, 0.5);
    }
    assert_eq!(checks.take_due(u64::MAX, usize::MAX).len(), 4);
}
