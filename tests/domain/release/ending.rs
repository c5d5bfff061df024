//! Why a release ended stays with it, and what children owe after a roll-back lives on.

use std::time::Duration;

use domain::children;
use domain::release::{
    command::Command,
    ending::{Cause, Ending},
    lifecycle,
    manager::Agents,
    members,
    summary::{Summary, Variation},
};
use model::{ChildStatus, Exclusion, FEATURE_WINNER, Outcome, StageStatus};

use super::{
    in_place::own_agent,
    winner::router,
    world::{World, canary, checkout, numbered, summary, traffic_stage},
};

const AREA: &str =
    r#"{"type":"Polygon","coordinates":[[[13.3,52.4],[13.4,52.4],[13.4,52.5],[13.3,52.5],[13.3,52.4]]]}"#;

const MINUTE: Duration = Duration::from_mins(1);

fn led(id: &str, block: &str) -> String {
    canary(id, "a") + &format!("rollout: {{{block}}}\n")
}

fn ending<'w>(world: &'w World, release: &str) -> &'w Ending {
    world.release(release).ending.as_deref().unwrap_or_else(|| panic!("of {release} nothing is told"))
}

fn undo(world: &mut World, child: &str, offer: &str) {
    assert_eq!(world.take(child).0, offer);
    world.report(child, offer, summary("choirmaster undo", StageStatus::Completed)).unwrap();
}

#[test]
fn rolled_back_release_records_deciding_child_stage_and_numbers() {
    let mut world = World::new();
    let [bad, other, unreached] = [(); 3].map(|()| world.child(AREA));
    world.submit(&led("7", "order: waves, waves: [2, 100%]"));
    world.take(&other);
    world.take(&bad);
    world.report(&bad, "7", numbered("Canary", StageStatus::Failure, 31.0)).unwrap();
    undo(&mut world, &other, "7.undo");
    assert_eq!(world.release("7").state.name(), "RolledBack");
    let told = ending(&world, "7");
    assert_eq!((told.cause, told.child.as_deref()), (Cause::Limit, Some(bad.as_str())));
    assert_eq!(told.stage.as_deref(), Some("Canary"));
    assert_eq!(told.numbers.as_deref(), Some("errors 0.0 %, median 31.0 ms"));
    assert_eq!(told.version.as_deref(), Some("fns/a_new"));
    insta::assert_snapshot!(told.text, @"child-1 failed in stage Canary with fns/a_new (errors 0.0 %, median 31.0 ms): 1 failed, max_failed is 0");
    let part = world.assignment("7", &unreached).outcome;
    assert_eq!(part, Some(Outcome::Excluded(Exclusion::NotReached)));
    insta::assert_snapshot!(world.waits_child("7", &unreached), @"takes no part: not reached: the release was taken back before it began");
}

/// Six of 48 calls of the new version failed.
fn failed_calls(stage: &str) -> Summary {
    let (f1_calls, f1_errors, f2_calls, f2_errors) = (Some(950), Some(4), Some(48), Some(6));
    let failed = summary(stage, StageStatus::Failure);
    Summary { f1_calls, f1_errors, f2_calls, f2_errors, f2_err_rate: 0.125, ..failed }
}

#[test]
fn a_broken_condition_is_told_with_its_numbers_by_whoever_tests_with_a_rollout_and_without() {
    let numbers = "errorRate 12.5 % (6 of 48 calls), allowed <10 %; base version 0.421 % (4 of 950 calls)";
    for text in [canary("7", "a"), led("7", "max_failed: 0")] {
        for is_own in [false, true] {
            let mut world = World::new();
            let child = if is_own { own_agent(&mut world, AREA) } else { world.child(AREA) };
            world.submit(&text);
            world.take(&child);
            world.report(&child, "7", failed_calls("Canary")).unwrap();
            let told = ending(&world, "7");
            let place = (told.child.as_deref(), told.stage.as_deref(), told.version.as_deref());
            assert_eq!(place, (Some(child.as_str()), Some("Canary"), Some("fns/a_new")), "{is_own}: {text}");
            assert_eq!(told.numbers.as_deref(), Some(numbers), "{is_own}: {text}");
            let words = format!("{child} failed in stage Canary with fns/a_new ({numbers})");
            assert!(told.text.starts_with(&words), "{is_own}: {}", told.text);
        }
    }
}

#[test]
fn what_an_agent_says_of_its_failure_is_told_with_stage_and_version() {
    for text in [canary("7", "a"), led("7", "max_failed: 0")] {
        let mut world = World::new();
        let agent = own_agent(&mut world, AREA);
        world.submit(&text);
        world.take(&agent);
        let said = "errorRate <0.1 is broken: 6 of 6 calls of the new version failed since 5m into the stage";
        let why = Some(Box::new(Ending::new(Cause::Limit, said)));
        world.report(&agent, "7", Summary { why, ..failed_calls("Canary") }).unwrap();
        let told = ending(&world, "7");
        assert_eq!(told.numbers.as_deref(), Some(said));
        assert_eq!((told.stage.as_deref(), told.version.as_deref()), (Some("Canary"), Some("fns/a_new")));
        assert!(told.text.starts_with(&format!("{agent} failed in stage Canary with fns/a_new ({said})")));
    }
}

#[test]
fn of_several_variations_the_one_that_broke_a_condition_is_named() {
    let mut world = World::new();
    let agent = router(&mut world, &[FEATURE_WINNER]);
    let stage = traffic_stage("little", "A: 80, B: 15, C: 5", "rollout");
    world.submit(&format!("id: s\nname: checkout\n{}stages:\n{stage}", checkout(&["A", "B", "C"])));
    world.take(&agent);
    let counted = [("A", 80, 0), ("B", 15, 0), ("C", 5, 4)];
    let variation = |(name, calls, errors): (&str, u64, u64)| Variation {
        name: name.to_owned(),
        calls,
        errors,
        ..Variation::default()
    };
    let variations = counted.map(variation).into();
    world.report(&agent, "s", Summary { variations, ..summary("little", StageStatus::Failure) }).unwrap();
    let told = ending(&world, "s");
    assert_eq!((told.stage.as_deref(), told.version.as_deref()), (Some("little"), Some("C")));
    insta::assert_snapshot!(told.numbers.as_deref().unwrap(), @"errorRate 80 % (4 of 5 calls), allowed <2 %; base version 0 % (0 of 80 calls)");
}

#[test]
fn who_failed_below_is_told_as_soon_as_its_manager_waits() {
    let mut world = World::new();
    let manager = world.manager(AREA, 4);
    world.submit(&led("7", "max_failed: 2"));
    world.take(&manager);
    let below = Ending {
        child: Some("agent-3".to_owned()),
        version: Some("fns/a_new".to_owned()),
        ..Ending::new(Cause::Children, "agent-3 failed in stage Canary with fns/a_new (errors 12.5 %)")
    };
    let agents = Some(Agents { participants: 4, failed: 1, ..Agents::default() });
    let why = Some(Box::new(below));
    world
        .report(&manager, "7", Summary { agents, why, ..summary("Canary", StageStatus::SuccessWaiting) })
        .unwrap();
    let told = ending(&world, "7");
    assert_eq!(
        (told.child.as_deref(), told.version.as_deref()),
        (Some("child-1: agent-3"), Some("fns/a_new"))
    );
    assert_eq!(told.text, "child-1: agent-3 failed in stage Canary with fns/a_new (errors 12.5 %)");
}

#[test]
fn of_an_aborted_release_stays_who_aborted_it_and_why() {
    let mut world = World::new();
    let child = world.child(AREA);
    world.submit(&canary("7", "a"));
    world.take(&child);
    let (release, note) = ("7".to_owned(), Some("wrong folder".to_owned()));
    world
        .command(&Command::Lifecycle(lifecycle::Command::Abort {
            release,
            note,
            by: Some("operator:ann".to_owned()),
        }))
        .unwrap();
    undo(&mut world, &child, "7.undo");
    let told = ending(&world, "7");
    assert_eq!((told.cause, told.text.as_str()), (Cause::Operator, "wrong folder"));
    assert_eq!((told.by.as_deref(), told.note.as_deref()), (Some("operator:ann"), Some("wrong folder")));
}

#[test]
fn of_one_aborted_without_a_note_stays_who_aborted_it() {
    let (mut world, release) = (World::new(), "7".to_owned());
    let child = world.child(AREA);
    world.submit(&canary("7", "a"));
    world.take(&child);
    let by = Some("operator:ann".to_owned());
    world.command(&Command::Lifecycle(lifecycle::Command::Abort { release, note: None, by })).unwrap();
    let told = ending(&world, "7");
    assert_eq!(told.text, "an operator aborted it");
    assert_eq!((told.by.as_deref(), told.note.as_deref()), (Some("operator:ann"), None));
}

#[test]
fn release_ending_names_a_failed_child_not_one_since_succeeded() {
    let mut world = World::new();
    let [first, second, third] = [(); 3].map(|()| world.child(AREA));
    world.submit(&led("7", "max_failed: 3, on_failure: pause"));
    let fail = |world: &mut World, child: &str| {
        let (offer, _) = world.take(child);
        world.report(child, &offer, summary("Canary", StageStatus::Failure)).unwrap();
    };
    let rolls_out = |world: &mut World, child: &str| {
        let (offer, _) = world.take(child);
        world.report(child, &offer, summary("Canary", StageStatus::Completed)).unwrap();
        let (offer, _) = world.take(child);
        world.report(child, &offer, summary("choirmaster rollout", StageStatus::Completed)).unwrap();
    };
    fail(&mut world, &first);
    assert_eq!(ending(&world, "7").child.as_deref(), Some(first.as_str()));
    fail(&mut world, &second);
    let again = Command::Members(members::Command::Retry { release: "7".to_owned(), child: first.clone() });
    world.command(&again).unwrap();
    rolls_out(&mut world, &first);
    rolls_out(&mut world, &third);
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
    let told = ending(&world, "7");
    assert_eq!((told.cause, told.child.as_deref()), (Cause::Children, Some(second.as_str())));
    // When nothing is wrong any more, nothing is told.
    world.retry("7").unwrap();
    rolls_out(&mut world, &second);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(world.release("7").ending, None);
}

#[test]
fn an_abort_below_is_no_failure_of_an_agent_and_its_reason_comes_up() {
    let mut world = World::new();
    let managers = [world.manager(AREA, 4), world.manager(AREA, 4)];
    world.submit(&led("7", "max_failed: 0"));
    for manager in &managers {
        world.take(manager);
    }
    let note = Some("the fair is on".to_owned());
    let by = Some("operator:bea".to_owned());
    let why = Some(Box::new(Ending { by, note, ..Ending::new(Cause::Operator, "the fair is on") }));
    let agents = Some(Agents { participants: 4, ..Agents::default() });
    let aborted = Summary { agents, why, ..summary("Canary", StageStatus::Failure) };
    world.report(&managers[0], "7", aborted).unwrap();
    assert_eq!(world.state_of("7"), "Running", "no limit counts it");
    let done = Some(Agents { participants: 4, succeeded: 4, ..Agents::default() });
    let done = Summary { agents: done, ..summary("Canary", StageStatus::Completed) };
    world.report(&managers[1], "7", done).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"], "not everybody has it");
    assert_eq!(world.release("7").agents(), Agents { participants: 8, succeeded: 4, ..Agents::default() });
    let told = ending(&world, "7");
    assert_eq!((told.cause, told.child.as_deref()), (Cause::Operator, Some(managers[0].as_str())));
    insta::assert_snapshot!(told.text, @"child-1: the fair is on");
    assert_eq!(told.by.as_deref(), Some("operator:bea"));
}

#[test]
fn a_failure_two_levels_below_is_told_with_its_child_and_its_numbers() {
    let mut world = World::new();
    let manager = world.manager(AREA, 4);
    world.submit(&led("7", "max_failed: 0"));
    world.take(&manager);
    let below = Ending {
        child: Some("agent-3".to_owned()),
        stage: Some("Canary".to_owned()),
        numbers: Some("errors 12.5 %, median 31.0 ms".to_owned()),
        ..Ending::new(
            Cause::Limit,
            "agent-3 failed in stage Canary (errors 12.5 %, median 31.0 ms): 1 failed, max_failed is 0",
        )
    };
    let agents = Some(Agents { participants: 4, failed: 1, ..Agents::default() });
    let failed = Summary { agents, why: Some(Box::new(below)), ..summary("Canary", StageStatus::Failure) };
    world.report(&manager, "7", failed).unwrap();
    let told = ending(&world, "7");
    assert_eq!(told.child.as_deref(), Some("child-1: agent-3"));
    assert_eq!(told.numbers.as_deref(), Some("errors 12.5 %, median 31.0 ms"));
    insta::assert_snapshot!(told.text, @"child-1: agent-3 failed in stage Canary (errors 12.5 %, median 31.0 ms): 1 failed, max_failed is 0");
}

/// Two children of which one doesn't come for its undo.
fn in_debt() -> (World, [String; 2]) {
    let mut world = World::new();
    let children = [world.child(AREA), world.child(AREA)];
    world.submit(&led("7", "max_failed: 0"));
    for child in &children {
        world.take(child);
    }
    world.report(&children[0], "7", summary("Canary", StageStatus::Failure)).unwrap();
    assert_eq!(world.state_of("7"), "RollingBack");
    world.pass(29 * MINUTE);
    assert_eq!(world.state_of("7"), "RollingBack", "it has half an hour");
    world.pass(2 * MINUTE);
    assert_eq!(world.ended(), ["RolledBack, 1 unconfirmed"]);
    (world, children)
}

#[test]
fn a_roll_back_is_unproven_until_the_last_has_proven_it() {
    let (mut world, [_, debtor]) = in_debt();
    assert_eq!(world.state_of("7"), "RolledBackUnproven");
    undo(&mut world, &debtor, "7.undo");
    assert_eq!(world.release("7").state.name(), "RolledBack");
    assert!(world.release("7").ending.is_some(), "why it was rolled back stays");
}

#[test]
fn agents_below_that_are_not_proven_keep_a_roll_back_unproven() {
    let mut world = World::new();
    let manager = world.manager(AREA, 4);
    world.submit(&led("7", "max_failed: 0"));
    world.take(&manager);
    let agents = Some(Agents { participants: 4, failed: 1, unconfirmed: 2, ..Agents::default() });
    let failed = Summary { agents, ..summary("Canary", StageStatus::Failure) };
    world.report(&manager, "7", failed).unwrap();
    assert_eq!(world.state_of("7"), "RolledBackUnproven");
    assert_eq!(world.release("7").unproven(), 2);
    assert!(world.forget(&manager).is_err(), "it may run the new version below");
    let force = Command::Children(children::Command::Forget { child: manager, even_if_it_owes: true });
    world.command(&force).unwrap();
    assert_eq!(world.release("7").unproven(), 0);
}

#[test]
fn unconfirmed_rollback_excludes_child_from_later_releases_of_function() {
    let (mut world, [other, debtor]) = in_debt();
    world.submit(&canary("8", "a"));
    let told: Vec<(Exclusion, u32)> = world.release("8").excluded.clone();
    assert_eq!((told, world.release("8").participants()), (vec![(Exclusion::Owes, 1)], 1));
    // Another function is another matter.
    world.submit(&canary("9", "b"));
    assert_eq!(world.release("9").participants(), 2);
    assert_eq!(world.take(&other).0, "8");
    world.abort("8");
    undo(&mut world, &other, "8.undo");
    // It has paid.
    undo(&mut world, &debtor, "7.undo");
    world.submit(&canary("10", "a"));
    assert_eq!(world.release("10").participants(), 2);
}

#[test]
fn who_was_forgotten_owes_nothing_any_more() {
    let (mut world, [_, debtor]) = in_debt();
    world.forget(&debtor).unwrap_err();
    world
        .command(&Command::Children(children::Command::Forget { child: debtor, even_if_it_owes: true }))
        .unwrap();
    assert_eq!(world.release("7").state.name(), "RolledBack");
}

#[test]
fn outcomes_are_read_back_by_their_names_and_an_exclusion_with_its_reason() {
    for name in Outcome::NAMES {
        assert_eq!(Outcome::named(name, Some(Exclusion::Owes)).map(Outcome::name), Some(*name));
    }
    assert_eq!(Outcome::named("excluded", Some(Exclusion::Owes)), Some(Outcome::Excluded(Exclusion::Owes)));
    assert_eq!(Outcome::named("excluded", None), None);
    assert_eq!(Outcome::named("lost", None), Some(Outcome::Lost));
    assert_eq!(Outcome::named("vanished", Some(Exclusion::Owes)), None);
}

#[test]
fn the_statuses_that_are_stored_as_numbers_are_read_back_by_them() {
    for (number, status) in (0..).zip(ChildStatus::ALL) {
        assert_eq!((status as i16, ChildStatus::from_number(number)), (number, Some(status)));
    }
    for status in StageStatus::ALL {
        assert_eq!(StageStatus::from_wire(status.wire().into()), Some(status));
    }
}
