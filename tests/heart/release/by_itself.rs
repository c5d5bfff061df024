//! What earlier builds handed out is led to its end: agents that walk on by themselves.

use std::time::Duration;

use heart::release::command::{Form, Refusal};
use model::{ChildStatus, Outcome, StageStatus};

use super::world::{AB, World, canary, numbered, strategy_text, summary, two_stage};

use StageStatus::{Completed, Failure, SuccessWaiting};

const MINUTE: Duration = Duration::from_mins(1);

fn world_with(text: &str) -> (World, String) {
    let mut world = World::of_an_earlier_build();
    let child = world.child("north");
    world.submit(text);
    (world, child)
}

#[test]
fn a_summary_without_a_stage_is_about_the_current_one_or_a_repeat() {
    let (mut world, child) = world_with(&two_stage("7", "sieve"));
    world.take(&child);
    world.report(&child, "7", numbered("", Completed, 5.0)).unwrap();
    world.report(&child, "7", numbered("", Completed, 5.0)).unwrap();
    assert!(world.changes.is_empty());
    world.report(&child, "7", numbered("", Completed, 6.0)).unwrap();
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn several_summaries_count_all_or_none() {
    let (mut world, child) = world_with(&two_stage("7", "sieve"));
    world.take(&child);
    let refused = world.reports(&child, "7", vec![summary("First", Completed), summary("Third", Completed)]);
    assert!(matches!(refused, Err(Refusal::UnknownStage { .. })));
    assert_eq!(world.assignment("7", &child).stage_status, StageStatus::InProgress);
    world.reports(&child, "7", vec![summary("First", Completed), summary("Second", Completed)]).unwrap();
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn an_ab_stage_can_not_wait() {
    let stages = [["Halves", AB, "sieve", "rollout", "rollback"]];
    let (mut world, child) = world_with(&strategy_text("7", "", &["sieve"], &stages));
    world.take(&child);
    let waiting = world.report(&child, "7", summary("Halves", SuccessWaiting));
    assert!(matches!(waiting, Err(Refusal::DoesNotWait { .. })), "{waiting:?}");
}

#[test]
fn an_agent_that_walks_on_after_a_failure_and_rolls_out_is_undone() {
    let mut world = World::of_an_earlier_build();
    let (child, other) = (world.child("a"), world.child("b"));
    world.submit(&two_stage("7", "sieve"));
    world.take(&child);
    world.take(&other);
    world.report(&child, "7", summary("First", Failure)).unwrap();
    assert_eq!(world.poll(&child), "");
    let late = world.report(&child, "7", summary("Second", Completed));
    assert!(matches!(late, Err(Refusal::Late { .. })), "{late:?}");
    assert_eq!(world.take(&child), ("7.undo".to_owned(), Form::Undo { function: 0 }));
}

#[test]
fn a_call_about_a_later_stage_shows_that_the_result_was_lost() {
    let mut world = World::of_an_earlier_build();
    let (asks, reports) = (world.child("a"), world.child("b"));
    world.submit(&two_stage("7", "sieve"));
    world.take(&asks);
    world.take(&reports);
    assert_eq!(world.may_end(&asks, "7", "Second"), Ok(true));
    assert_eq!(world.assignment("7", &asks).outcome, Some(Outcome::Lost));
    let late = world.report(&reports, "7", summary("Second", Completed));
    assert!(matches!(late, Err(Refusal::Late { .. })), "{late:?}");
    assert_eq!(world.assignment("7", &reports).outcome, Some(Outcome::Lost));
    assert_eq!((world.poll(&asks), world.poll(&reports)), ("7.undo".to_owned(), "7.undo".to_owned()));
}

#[test]
fn silence_counts_where_a_child_should_call_and_not_in_an_ab_stage() {
    let mut world = World::of_an_earlier_build();
    let (waits, silent) = (world.child("a"), world.child("b"));
    world.submit(&canary("7", "sieve"));
    world.take(&waits);
    world.take(&silent);
    for _ in 0..20 {
        world.pass(MINUTE);
        world.may_end(&waits, "7", "Canary").unwrap();
    }
    assert_eq!(world.assignment("7", &waits).status, ChildStatus::Doing);
    assert_eq!(world.assignment("7", &silent).outcome, Some(Outcome::TimedOut));
    assert_eq!(world.poll(&silent), "7.undo");

    let stages = [["Halves", AB, "greet", "rollout", "rollback"]];
    let (mut world, child) = world_with(&strategy_text("8", "", &["greet"], &stages));
    world.take(&child);
    world.pass(600 * MINUTE);
    assert_eq!(world.assignment("8", &child).status, ChildStatus::Doing);
    world.pass(900 * MINUTE);
    assert_eq!(world.assignment("8", &child).outcome, Some(Outcome::TimedOut));
}

#[test]
fn a_late_result_is_refused_and_kept_and_a_late_roll_out_is_undone() {
    let (mut world, child) = world_with(&two_stage("7", "sieve"));
    let other = world.child("south");
    world.take(&child);
    world.report(&child, "7", summary("First", Failure)).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"], "{other} is no member");
}
