//! An agent is never handed more than one stage, and whatever becomes of it, the base version is what is left.

use domain::release::command::{Form, Refusal};
use language::render::ROLLOUT_STAGE;
use model::{ChildStatus, Outcome, StageStatus};

use super::world::{AB, World, canary, numbered, strategy_text, summary, two_stage};

use StageStatus::{Completed, Failure, SuccessWaiting};

fn world_with(text: &str) -> (World, String) {
    let mut world = World::new();
    let child = world.child("north");
    world.submit(text);
    (world, child)
}

/// Three stages, the second of type A/B, without a `rollout` block.
fn three() -> String {
    let stages = [
        ["One", "WaitForSignal", "a", "Two", "rollback"],
        ["Two", AB, "a", "Three", "rollback"],
        ["Three", "WaitForSignal", "a", "rollout", "rollback"],
    ];
    strategy_text("7", "", &["a"], &stages)
}

/// Takes the stage that is offered, and waits in it.
fn wait_in(world: &mut World, child: &str, expected: &str, stage: u8, name: &str) {
    assert_eq!(world.take(child), (expected.to_owned(), Form::Stage { stage }));
    assert_eq!(world.may_end(child, expected, name), Ok(false));
    world.report(child, expected, summary(name, SuccessWaiting)).unwrap();
}

#[test]
fn without_rollout_block_stages_end_when_ready_then_roll_out() {
    let (mut world, child) = world_with(&three());
    for (stage, offer, name) in [(0, "7", "One"), (1, "7.2", "Two"), (2, "7.3", "Three")] {
        wait_in(&mut world, &child, offer, stage, name);
        assert_eq!(world.may_end(&child, offer, name), Ok(true));
        world.report(&child, offer, summary(name, Completed)).unwrap();
        assert_eq!(world.runs(&child, "a"), "base of 7");
    }
    assert_eq!(world.take(&child), ("7.rollout".to_owned(), Form::Rollout { function: 0 }));
    assert_eq!(world.may_end(&child, "7.rollout", ROLLOUT_STAGE), Ok(true));
    world.report(&child, "7.rollout", summary(ROLLOUT_STAGE, Completed)).unwrap();
    assert_eq!(
        (world.ended(), world.runs(&child, "a")),
        (vec!["Done, 0 unconfirmed".to_owned()], "new of 7".to_owned())
    );
}

#[test]
fn failed_stage_is_last_and_needs_no_rollback() {
    for failing in 0..3 {
        let (mut world, child) = world_with(&three());
        for (stage, offer, name) in [(0, "7", "One"), (1, "7.2", "Two"), (2, "7.3", "Three")] {
            wait_in(&mut world, &child, offer, stage, name);
            let status = if usize::from(stage) == failing { Failure } else { Completed };
            world.report(&child, offer, summary(name, status)).unwrap();
            if status == Failure {
                break;
            }
        }
        assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"], "{failing}");
        assert_eq!((world.poll(&child).as_str(), world.runs(&child, "a").as_str()), ("", "base of 7"));
        assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::Failed));
    }
}

#[test]
fn abort_ends_stage_and_its_result_confirms_rollback() {
    let (mut world, child) = world_with(&three());
    wait_in(&mut world, &child, "7", 0, "One");
    world.report(&child, "7", summary("One", Completed)).unwrap();
    assert_eq!(world.take(&child).0, "7.2");
    assert_eq!(world.may_end(&child, "7.2", "Two"), Ok(false), "it would wait for its minima");
    world.abort("7");
    assert_eq!(world.may_end(&child, "7.2", "Two"), Ok(true), "with calls or without");
    let late = world.report(&child, "7.2", summary("Two", Failure));
    assert!(matches!(late, Err(Refusal::Late { .. })), "{late:?}");
    assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
    assert_eq!((world.poll(&child).as_str(), world.runs(&child, "a").as_str()), ("", "base of 7"));
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::Undone));
}

#[test]
fn an_abort_between_two_stages_has_nothing_to_take_back() {
    let (mut world, child) = world_with(&three());
    wait_in(&mut world, &child, "7", 0, "One");
    world.report(&child, "7", summary("One", Completed)).unwrap();
    assert_eq!(world.poll(&child), "7.2");
    world.abort("7");
    assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
    assert_eq!(world.fetch(&child, "7.2").unwrap().form, Form::Withdrawn);
}

#[test]
fn an_abort_during_the_roll_out_takes_it_back() {
    let (mut world, child) = world_with(&canary("7", "a"));
    wait_in(&mut world, &child, "7", 0, "Canary");
    world.report(&child, "7", summary("Canary", Completed)).unwrap();
    assert_eq!(world.take(&child).0, "7.rollout");
    world.abort("7");
    let late = world.report(&child, "7.rollout", summary(ROLLOUT_STAGE, Completed));
    assert!(matches!(late, Err(Refusal::Late { .. })), "{late:?}");
    assert_eq!(world.take(&child), ("7.undo".to_owned(), Form::Undo { function: 0 }));
}

#[test]
fn a_stage_of_type_ab_waits_like_any_other_and_can_be_ended_by_hand() {
    let stages = [["Halves", AB, "a", "rollout", "rollback"]];
    let (mut world, child) = world_with(&strategy_text("7", "", &["a"], &stages));
    assert_eq!(world.take(&child).1, Form::Stage { stage: 0 });
    world.end_now("7", "Halves").unwrap();
    assert_eq!(world.may_end(&child, "7", "Halves"), Ok(true));
}

#[test]
fn a_summary_without_a_stage_is_about_the_one_in_its_offer() {
    let (mut world, child) = world_with(&two_stage("7", "a"));
    world.take(&child);
    world.report(&child, "7", numbered("", Completed, 5.0)).unwrap();
    world.report(&child, "7", numbered("", Completed, 5.0)).unwrap();
    assert!(world.changes.is_empty());
    assert_eq!(world.take(&child).0, "7.2");
    world.report(&child, "7.2", numbered("", Completed, 5.0)).unwrap();
    world.roll_out(&child);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn several_summaries_count_all_or_none() {
    let (mut world, child) = world_with(&two_stage("7", "a"));
    world.take(&child);
    let refused = world.reports(&child, "7", vec![summary("First", Completed), summary("Second", Completed)]);
    assert!(matches!(refused, Err(Refusal::UnknownStage { .. })), "{refused:?}");
    assert_eq!(world.assignment("7", &child).status, ChildStatus::Doing);
    assert_eq!(world.assignment("7", &child).stage_status, StageStatus::InProgress);
    world.reports(&child, "7", vec![summary("First", SuccessWaiting), summary("First", Completed)]).unwrap();
    assert_eq!(world.poll(&child), "7.2");
}
