//! A stage that an operator skips: passed over by those who have not begun it, ended by those who are in it.

use domain::release::{
    command::{Command, Form, Refusal},
    members,
    offer::Unit,
    stages,
};
use model::StageStatus;

use super::world::{AB, WAIT, World, canary, strategy_text, summary};

use StageStatus::{Completed, Failure};

const STAGES: [[&str; 5]; 3] = [
    ["One", AB, "a", "Two", "rollback"],
    ["Two", WAIT, "a", "Three", "rollback"],
    ["Three", WAIT, "a", "rollout", "rollback"],
];

fn led(rollout: &str) -> String {
    strategy_text("7", &format!("rollout: {{{rollout}}}\n"), &["a"], &STAGES)
}

fn skip(world: &mut World, stage: &str) -> Result<(), Refusal> {
    let (release, stage) = ("7".to_owned(), stage.to_owned());
    world.command(&Command::Stages(stages::Command::Skip { release, stage })).map(|_| ())
}

fn piece(world: &World, child: &str) -> Unit {
    world.assignment("7", child).piece()
}

#[test]
fn skipped_stage_ends_where_begun_and_is_omitted_elsewhere() {
    let mut world = World::new();
    let [inside, shown, waits] = ["one", "two", "three"].map(|area| world.child(area));
    world.submit(&led("order: parallel"));
    world.take(&inside);
    assert_eq!(world.poll(&shown), "7");
    skip(&mut world, "One").unwrap();
    assert_eq!(world.may_end(&inside, "7", "One"), Ok(true));
    // It counts what the child makes of it.
    world.report(&inside, "7", summary("One", Completed)).unwrap();
    assert_eq!(world.poll(&inside), "7.2");
    assert_eq!((world.poll(&shown).as_str(), world.poll(&waits).as_str()), ("7.2", "7.2"));
    assert_eq!(
        world.fetch(&shown, "7").unwrap().form,
        Form::Withdrawn,
        "it was shown, so it is never refused"
    );
    assert_eq!(world.fetch(&shown, "7.2").unwrap().form, Form::Stage { stage: 1 });
    assert!(world.fetch(&waits, "7.3").is_err(), "that was never offered");
}

#[test]
fn stages_that_are_skipped_one_after_the_other_are_all_passed_over() {
    for order in [["Two", "Three"], ["Three", "Two"]] {
        let mut world = World::new();
        let (before, inside) = (world.child("one"), world.child("two"));
        world.submit(&led("order: parallel"));
        let offer = world.get_ready(&inside, "One");
        for stage in order {
            skip(&mut world, stage).unwrap();
            skip(&mut world, stage).unwrap();
        }
        assert_eq!(piece(&world, &before), Unit::Stage(0));
        world.report(&inside, &offer, summary("One", Completed)).unwrap();
        assert_eq!(world.poll(&inside), "7.rollout");
        skip(&mut world, "One").unwrap();
        assert_eq!(world.poll(&before), "7.rollout");
    }
}

#[test]
fn barriers_stay_where_they_are() {
    let mut world = World::new();
    let (first, second) = (world.child("one"), world.child("two"));
    world.submit(&led("order: global_incremental, approval: {stages: [Three]}"));
    let offer = world.get_ready(&first, "One");
    skip(&mut world, "Two").unwrap();
    assert_eq!(world.may_end(&first, &offer, "One"), Ok(false), "the other has not come");
    world.get_ready(&second, "One");
    for child in [&first, &second] {
        assert_eq!(world.may_end(child, "7", "One"), Ok(true));
        world.report(child, "7", summary("One", Completed)).unwrap();
        assert_eq!(world.poll(child), "", "nobody has approved of Three");
    }
    insta::assert_snapshot!(world.waits_child("7", &first), @"is held before stage Three: somebody must approve of stage Three");
    world.approve("7").unwrap();
    assert_eq!((world.poll(&first).as_str(), world.poll(&second).as_str()), ("7.3", "7.3"));
}

#[test]
fn a_new_attempt_and_a_late_joiner_pass_over_it_too() {
    let mut world = World::new();
    let children = ["one", "two", "three"].map(|area| world.child(area));
    world.submit(&led("late_joiners: include, on_failure: continue"));
    for child in &children {
        world.take(child);
    }
    skip(&mut world, "One").unwrap();
    for child in &children {
        world.report(child, "7", summary("One", Failure)).unwrap();
        if child == &children[0] {
            let (release, child) = ("7".to_owned(), child.clone());
            world.command(&Command::Members(members::Command::Retry { release, child })).unwrap();
        }
    }
    assert_eq!(world.poll(&children[0]), "7.r2.2");
    world.retry("7").unwrap();
    assert_eq!((world.poll(&children[1]).as_str(), world.poll(&children[2]).as_str()), ("7.r2.2", "7.r2.2"));
    let late = world.child("late");
    assert_eq!(world.poll(&late), "7.2");
}

#[test]
fn what_can_not_be_skipped_is_refused_with_the_reason() {
    let mut world = World::new();
    world.child("one");
    let [one, two, [name, kind, function, ..]] = STAGES;
    let dry = [one, two, [name, kind, function, "rollback", "rollback"]];
    world.submit(&strategy_text("7", "rollout: {}\n", &["a"], &dry));
    insta::assert_snapshot!(skip(&mut world, "Three").unwrap_err(), @"release 7 is Running: nothing follows this stage, so there is nothing to go on with");
    insta::assert_snapshot!(skip(&mut world, "Four").unwrap_err(), @r#"7 has no stage "Four""#);
    world.pause("7");
    insta::assert_snapshot!(skip(&mut world, "One").unwrap_err(), @"release 7 is Paused: a stage can be skipped while the release runs");
}

#[test]
fn without_a_rollout_block_a_stage_can_be_skipped_too() {
    let mut world = World::new();
    let child = world.child("one");
    world.submit(&canary("7", "a"));
    skip(&mut world, "Canary").unwrap();
    assert_eq!(world.poll(&child), "7.rollout");
}
