use proptest::prelude::*;
use traffic::{
    desired::Number,
    observed::{Difference, ObservedConfig, differences},
};

use crate::{
    cases::cases,
    states::{NUMBER, any_shares, any_wanted, obeyed, spec, table, target, wanted},
};

/// Ways in which a router does something else.
#[derive(Debug, Clone)]
enum Change {
    Number(Option<Number>),
    Forget(usize),
    Stranger,
    Mark,
    RenameFirst(usize),
    DropLast(usize),
    Shares(usize),
    Buckets(usize),
    DropTarget(usize),
    OtherTarget(usize),
    TwiceTheTarget(usize),
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        prop::option::of(0..7_u64)
            .prop_map(|old| Change::Number(old.map(|generation| Number { generation, ..NUMBER }))),
        (0..9_usize).prop_map(Change::Forget),
        Just(Change::Stranger),
        Just(Change::Mark),
        (0..9_usize).prop_map(Change::RenameFirst),
        (0..9_usize).prop_map(Change::DropLast),
        (0..9_usize).prop_map(Change::Shares),
        (0..9_usize).prop_map(Change::Buckets),
        (0..9_usize).prop_map(Change::DropTarget),
        (0..9_usize).prop_map(Change::OtherTarget),
        (0..9_usize).prop_map(Change::TwiceTheTarget),
    ]
}

/// Does it, unless there is nothing to do it to.
fn change(seen: &mut ObservedConfig, change: &Change) -> bool {
    let names: Vec<String> = seen.services.keys().cloned().collect();
    let name = |at: &usize| &names[at % names.len()];
    match change {
        Change::Number(number) => seen.number = *number,
        Change::Forget(at) => drop(seen.services.remove(name(at))),
        Change::Stranger => {
            let other = seen.services[&names[0]].clone();
            seen.services.insert("stranger".to_owned(), other);
        }
        Change::Mark => seen.left_over.push("cm_old".to_owned()),
        Change::RenameFirst(at) => seen.services.get_mut(name(at)).unwrap().variations[0].name.push('x'),
        Change::DropLast(at) => drop(seen.services.get_mut(name(at)).unwrap().variations.pop()),
        Change::Shares(at) => {
            let variation = &mut seen.services.get_mut(name(at)).unwrap().variations[0];
            variation.hundredths = if variation.hundredths == 0 { 1 } else { variation.hundredths - 1 };
        }
        Change::Buckets(at) => {
            let there = seen.services.get_mut(name(at)).unwrap();
            let Some(table) = &there.table else { return false };
            // The same shares, in another order.
            let mut runs = table.runs();
            if runs.len() < 2 {
                return false;
            }
            runs.reverse();
            let mut from = 0;
            for run in &mut runs {
                let width = run.to - run.from;
                (run.from, run.to) = (from, from + width);
                from += width;
            }
            let other = traffic::Table::from_runs(table.variations(), &runs).unwrap();
            let differs = other != *table;
            there.table = Some(other);
            return differs;
        }
        Change::DropTarget(at) => drop(seen.services.get_mut(name(at)).unwrap().variations[0].targets.pop()),
        Change::OtherTarget(at) => {
            seen.services.get_mut(name(at)).unwrap().variations[0].targets[0].target = target("192.0.2.1:1");
        }
        Change::TwiceTheTarget(at) => {
            let targets = &mut seen.services.get_mut(name(at)).unwrap().variations[0].targets;
            targets.push(targets[0].clone());
        }
    }
    true
}

proptest! {
    // Each case builds tables of 10,000 buckets.
    #![proptest_config(cases(48))]

    #[test]
    fn who_does_what_is_wanted_differs_in_nothing(wanted in any_wanted(), tells_tables in any::<bool>()) {
        let mut seen = obeyed(&wanted);
        for service in seen.services.values_mut() {
            // Targets are told in any order, and with what the router thinks of them.
            for variation in &mut service.variations {
                variation.targets.reverse();
                for target in &mut variation.targets {
                    (target.is_healthy, target.connections) = (Some(false), Some(7));
                }
            }
            service.table = service.table.take().filter(|_| tells_tables);
        }
        prop_assert_eq!(differences(&wanted, &seen), []);
    }

    #[test]
    fn whatever_else_a_router_does_is_a_difference(wanted in any_wanted(), what in any_change()) {
        let mut seen = obeyed(&wanted);
        prop_assume!(change(&mut seen, &what));
        let found = differences(&wanted, &seen);
        prop_assert!(!found.is_empty(), "{:?}", what);
        // Each has a text of one line.
        for difference in found {
            let text = difference.to_string();
            prop_assert!(!text.is_empty() && !text.contains('\n'), "{}", text);
        }
    }

    #[test]
    fn differences_in_shares_tell_both(there in any_shares(3), asked in any_shares(3)) {
        let seen = obeyed(&wanted([spec("a", 80, &there)]));
        let found = differences(&wanted([spec("a", 80, &asked)]), &seen);
        let expected = Difference::Shares { service: "a".to_owned(), wanted: asked.clone(), seen: there.clone() };
        prop_assert_eq!(found, if there == asked { vec![] } else { vec![expected] });
    }
}

fn texts(seen: &ObservedConfig) -> String {
    let wanted = wanted([spec("a", 80, &[8_750, 1_250]), spec("b", 81, &[10_000])]);
    let all: Vec<String> = differences(&wanted, seen).iter().map(ToString::to_string).collect();
    all.join("\n")
}

#[test]
fn differences_are_told_in_a_line_each_with_both_values() {
    let mut seen = obeyed(&wanted([spec("a", 80, &[9_993, 7]), spec("c", 82, &[10_000])]));
    seen.number = Some(Number { epoch: 1, generation: 6 });
    seen.left_over.push("cm_old".to_owned());
    seen.services.get_mut("a").unwrap().variations[1].targets.pop();
    insta::assert_snapshot!(texts(&seen), @r"
    runs by 1.6, and is to run by 1.7
    a is shared 99.93/0.07 %, and is to be 87.5/12.5 %
    B of a leads to 10.0.1.1:9000, and is to lead to 10.0.1.1:9000, 10.0.1.2:9000
    b isn't there
    c is there and belongs to nothing that is wanted
    cm_old is there and belongs to nothing that is wanted
    ");
    insta::assert_snapshot!(texts(&ObservedConfig::default()), @r"
    runs by nothing of ours, and is to run by 1.7
    a isn't there
    b isn't there
    ");
}

#[test]
fn other_users_with_the_same_shares_are_a_difference() {
    let wanted = wanted([spec("a", 80, &[5_000, 2_500, 2_500])]);
    let mut seen = obeyed(&wanted);
    // Grown to the same shares by another way.
    let other = table(&[5_000, 5_000, 0]);
    let other = other.with_shares(&traffic::Shares::new([5_000, 2_500, 2_500]).unwrap()).unwrap();
    let differ = wanted.services()[0].table.moved_buckets(&other);
    seen.services.get_mut("a").unwrap().table = Some(other);
    let expected = Difference::Buckets { service: "a".to_owned(), differ };
    assert_eq!(differences(&wanted, &seen), if differ == 0 { vec![] } else { vec![expected] });
}
