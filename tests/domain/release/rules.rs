//! The rules of offers and of the state machines, one story each.

use std::time::Duration;

use domain::release::{
    command::{Form, Refusal},
    settings::Proven,
    state::State,
};
use language::render::{ROLLOUT_STAGE, UNDO_STAGE};
use model::{ChildStatus, Cordon, Exclusion, Outcome, StageStatus};

use super::world::{
    WAIT, World, canary, forked, histogram, manager, numbered, strategy_text, summary, two_functions,
    two_stage,
};

use StageStatus::{Completed, Error, Failure, SuccessWaiting};

const MINUTE: Duration = Duration::from_mins(1);

fn world_with(text: &str) -> (World, String) {
    let mut world = World::new();
    let child = world.child("north");
    world.submit(text);
    (world, child)
}

#[test]
fn a_child_that_waits_is_told_to_end_and_rolls_out() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    assert_eq!(world.take(&child), ("7".to_owned(), Form::Stage { stage: 0 }));
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(false));
    world.report(&child, "7", summary("Canary", SuccessWaiting)).unwrap();
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(true));
    world.report(&child, "7", summary("Canary", Completed)).unwrap();
    assert_eq!(world.runs(&child, "sieve"), "base of 7", "what it tested is gone before it rolls out");
    assert_eq!(world.take(&child), ("7.rollout".to_owned(), Form::Rollout { function: 0 }));
    assert_eq!(world.may_end(&child, "7.rollout", ROLLOUT_STAGE), Ok(true));
    world.report(&child, "7.rollout", summary(ROLLOUT_STAGE, Completed)).unwrap();
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(world.poll(&child), "");
}

#[test]
fn a_release_that_was_paused_ends_its_waits_when_it_is_resumed() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.take(&child);
    world.pause("7");
    world.report(&child, "7", summary("Canary", SuccessWaiting)).unwrap();
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(false));
    world.resume("7");
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(true));
}

#[test]
fn deadlines_stand_still_during_a_pause() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.take(&child);
    world.pass(10 * MINUTE);
    world.pause("7");
    world.pass(600 * MINUTE);
    assert_eq!(world.assignment("7", &child).status, ChildStatus::Doing);
    world.resume("7");
    world.pass(4 * MINUTE);
    assert_eq!(world.assignment("7", &child).status, ChildStatus::Doing);
    // The calls of the child were 614 minutes ago in serving time, but 14 on the clock of the release.
    world.pass(2 * MINUTE);
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::TimedOut));
}

#[test]
fn a_resent_wait_is_answered_well_whatever_has_become_of_the_stage() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.take(&child);
    for _ in 0..3 {
        world.report(&child, "7", summary("Canary", SuccessWaiting)).unwrap();
    }
    world.abort("7");
    world.report(&child, "7", summary("Canary", SuccessWaiting)).unwrap();
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(true));
}

#[test]
fn a_repeat_changes_nothing_and_another_result_is_refused() {
    let (mut world, child) = world_with(&two_stage("7", "sieve"));
    world.child("south");
    world.take(&child);
    world.report(&child, "7", numbered("First", Completed, 5.0)).unwrap();
    world.report(&child, "7", numbered("First", Completed, 5.0)).unwrap();
    assert!(world.changes.is_empty());
    let other = world.report(&child, "7", numbered("First", Failure, 5.0));
    assert!(matches!(other, Err(Refusal::EndedOtherwise { .. })), "{other:?}");
    assert_eq!(world.assignment("7", &child).stage_status, StageStatus::Pending);
}

#[test]
fn what_was_not_fetched_has_not_started() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    let early = world.report(&child, "7", summary("Canary", Completed));
    assert!(matches!(early, Err(Refusal::NotStarted { .. })), "{early:?}");
}

#[test]
fn a_graph_that_no_agent_can_run_is_walked_stage_by_stage() {
    let (mut world, child) = world_with(&forked("7", "sieve"));
    assert_eq!(world.take(&child), ("7".to_owned(), Form::Stage { stage: 0 }));
    world.report(&child, "7", summary("Bold", Failure)).unwrap();
    assert_eq!(world.take(&child), ("7.2".to_owned(), Form::Stage { stage: 1 }));
    world.report(&child, "7.2", summary("Careful", Completed)).unwrap();
    world.roll_out(&child);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn what_follows_a_stage_is_offered_after_a_pause() {
    let (mut world, child) = world_with(&forked("7", "sieve"));
    world.take(&child);
    world.report(&child, "7", summary("Bold", Failure)).unwrap();
    world.pause("7");
    assert_eq!(world.poll(&child), "");
    world.resume("7");
    assert_eq!(world.take(&child), ("7.2".to_owned(), Form::Stage { stage: 1 }));
}

#[test]
fn several_functions_are_tried_one_by_one_and_rolled_out_at_the_end() {
    let (mut world, child) = world_with(&two_functions("7", "sieve", "greet"));
    assert_eq!(world.take(&child), ("7".to_owned(), Form::Stage { stage: 0 }));
    world.report(&child, "7", summary("One", Completed)).unwrap();
    assert_eq!(world.take(&child), ("7.2".to_owned(), Form::Stage { stage: 1 }));
    world.report(&child, "7.2", summary("Two", Completed)).unwrap();
    assert_eq!(world.take(&child), ("7.rollout".to_owned(), Form::Rollout { function: 0 }));
    assert_eq!(world.may_end(&child, "7.rollout", ROLLOUT_STAGE), Ok(true));
    world.report(&child, "7.rollout", summary(ROLLOUT_STAGE, Completed)).unwrap();
    assert_eq!(world.take(&child), ("7.rollout.2".to_owned(), Form::Rollout { function: 1 }));
    // A repeat about the first roll-out is one, although the second runs.
    world.report(&child, "7.rollout", summary(ROLLOUT_STAGE, Completed)).unwrap();
    world.report(&child, "7.rollout.2", summary(ROLLOUT_STAGE, Completed)).unwrap();
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn a_roll_out_that_fails_takes_back_those_before_it() {
    let (mut world, child) = world_with(&two_functions("7", "sieve", "greet"));
    for (offer, stage) in [("7", "One"), ("7.2", "Two"), ("7.rollout", ROLLOUT_STAGE)] {
        assert_eq!(world.take(&child).0, offer);
        world.report(&child, offer, summary(stage, Completed)).unwrap();
    }
    world.take(&child);
    world.report(&child, "7.rollout.2", summary(ROLLOUT_STAGE, Failure)).unwrap();
    assert_eq!(world.take(&child), ("7.undo".to_owned(), Form::Undo { function: 0 }));
    world.report(&child, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
}

#[test]
fn an_aborted_release_is_undone_wherever_the_new_version_may_run() {
    let mut world = World::new();
    let [done, doing, todo, failed] = ["a", "b", "c", "d"].map(|area| world.child(area));
    world.submit(&canary("7", "sieve"));
    for child in [&done, &doing, &failed] {
        world.take(child);
    }
    world.report(&done, "7", summary("Canary", Completed)).unwrap();
    world.roll_out(&done);
    world.report(&failed, "7", summary("Canary", Failure)).unwrap();
    world.abort("7");
    assert_eq!(world.state_of("7"), "RollingBack");
    assert_eq!(world.assignment("7", &todo).outcome, Some(Outcome::Excluded(Exclusion::NotReached)));
    assert_eq!(world.poll(&todo), "");
    assert_eq!(world.poll(&failed), "", "its last result proves that it runs the base version");
    for child in [&done, &doing] {
        assert_eq!(world.take(child), ("7.undo".to_owned(), Form::Undo { function: 0 }));
        assert_eq!(world.may_end(child, "7.undo", UNDO_STAGE), Ok(true));
        world.report(child, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    }
    assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
}

#[test]
fn an_undo_that_nobody_fetches_outlives_its_release() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.take(&child);
    world.abort("7");
    world.pass(31 * MINUTE);
    assert_eq!(world.ended(), ["Aborted, 1 unconfirmed"]);
    // Back at last.
    assert_eq!(world.take(&child), ("7.undo".to_owned(), Form::Undo { function: 0 }));
    world.report(&child, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.state_of("7"), "over");
    world.submit(&canary("8", "sieve"));
    assert_eq!(world.take(&child).0, "8");
}

#[test]
fn an_offer_once_shown_is_never_refused() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    assert_eq!(world.poll(&child), "7");
    world.pause("7");
    assert_eq!(world.fetch(&child, "7").unwrap().form, Form::Withdrawn);
    world.resume("7");
    assert_eq!(world.poll(&child), "7");
    let other = world.child("south");
    world.abort("7");
    assert_eq!(world.fetch(&child, "7").unwrap().form, Form::Withdrawn);
    let never = world.fetch(&other, "7");
    assert!(matches!(never, Err(Refusal::NeverOffered { .. })), "{never:?}");
}

#[test]
fn a_withdrawn_offer_is_empty() {
    let mut world = World::new();
    let (first, second) = (world.child("a"), world.child("b"));
    world.submit(&canary("7", "sieve"));
    assert_eq!((world.poll(&first), world.take(&second).0), ("7".to_owned(), "7".to_owned()));
    world.abort("7");
    assert_eq!(world.fetch(&first, "7").unwrap().form, Form::Withdrawn);
    let never = world.fetch(&first, "7.3");
    assert!(matches!(never, Err(Refusal::NeverOffered { .. })), "{never:?}");
}

#[test]
fn two_polls_after_a_download_show_that_the_result_was_lost() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.take(&child);
    assert_eq!(world.poll(&child), "");
    assert_eq!(world.assignment("7", &child).status, ChildStatus::Doing);
    assert_eq!(world.poll(&child), "7.undo");
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::Lost));
}

#[test]
fn a_manager_polls_while_it_works() {
    let mut world = World::new();
    let (child, _) = world.poll_as("", "north", Some(manager()));
    world.poll(&child);
    world.submit(&canary("7", "sieve"));
    world.take(&child);
    for _ in 0..5 {
        assert_eq!(world.poll(&child), "");
    }
    assert_eq!(world.assignment("7", &child).status, ChildStatus::Doing);
}

#[test]
fn a_lost_undo_is_offered_again_under_another_name() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.take(&child);
    world.abort("7");
    world.take(&child);
    assert_eq!(world.poll(&child), "");
    assert_eq!(world.take(&child), ("7.undo.2".to_owned(), Form::Undo { function: 0 }));
    world.report(&child, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.state_of("7"), "RollingBack", "the first one was lost");
    world.report(&child, "7.undo.2", summary(UNDO_STAGE, Failure)).unwrap();
    assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
}

#[test]
fn nobody_takes_the_place_of_a_child_that_proves_who_it_is() {
    let (mut world, old) = world_with(&canary("7", "sieve"));
    world.state.settings.proven = Proven::new([old.clone()]);
    world.take(&old);
    for _ in 0..20 {
        world.pass(Duration::from_secs(30));
        let (stranger, offer) = world.poll_as("", "north", None);
        assert_eq!(offer, "");
        assert_eq!(world.poll_as(&stranger, "north", None).1, "");
    }
    assert_eq!(world.assignment("7", &old).status, ChildStatus::Doing);
    world.report(&old, "7", summary("Canary", Completed)).unwrap();
    world.roll_out(&old);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn a_neighbour_that_calls_is_not_replaced() {
    let (mut world, old) = world_with(&canary("7", "sieve"));
    world.take(&old);
    world.pass(Duration::from_secs(5));
    world.may_end(&old, "7", "Canary").unwrap();
    assert_eq!(world.poll_as("", "north", None).1, "");
    assert_eq!(world.assignment("7", &old).status, ChildStatus::Doing);
}

#[test]
fn an_id_that_never_calls_again_is_forgotten_and_an_unknown_one_is_adopted() {
    let mut world = World::new();
    let (ghost, _) = world.poll_as("", "north", None);
    let stays = world.child("south");
    world.pass(2 * MINUTE);
    assert!(world.state.children.key(&ghost).is_none());
    assert!(world.state.children.key(&stays).is_some());
    assert_eq!(world.poll_as("from-before", "east", None).0, "from-before");
    assert!(world.state.children.key("from-before").is_some());
}

#[test]
fn what_is_not_known_is_refused() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    assert!(matches!(world.fetch("nobody", "7"), Err(Refusal::UnknownChild(_))));
    assert!(matches!(world.fetch(&child, "8"), Err(Refusal::NeverOffered { .. })));
    let late = world.child("late");
    assert!(matches!(world.fetch(&late, "7"), Err(Refusal::NeverOffered { .. })));
    world.take(&child);
    assert!(matches!(world.may_end(&child, "7", "Nowhere"), Err(Refusal::UnknownStage { .. })));
}

#[test]
fn releases_of_one_function_run_one_after_the_other() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.submit(&canary("8", "sieve"));
    world.submit(&canary("9", "greet"));
    assert_eq!((world.state_of("8"), world.state_of("9")), ("Planned", "Running"));
    assert_eq!(world.take(&child).0, "7");
    world.report(&child, "7", summary("Canary", Completed)).unwrap();
    world.roll_out(&child);
    assert_eq!(world.state_of("8"), "Running");
    // In the order of submission, although 9 started before.
    assert_eq!(world.take(&child).0, "8");
}

#[test]
fn a_release_may_refuse_to_wait_or_take_the_place_of_another() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.take(&child);
    let stages = [["Canary", WAIT, "sieve", "rollout", "rollback"]];
    let refused = world.submit_text(&strategy_text("8", "on_conflict: refuse\n", &["sieve"], &stages));
    assert!(matches!(refused, Err(Refusal::Conflict(_))), "{refused:?}");
    world.submit(&strategy_text("9", "on_conflict: supersede\n", &["sieve"], &stages));
    assert_eq!((world.state_of("7"), world.state_of("9")), ("RollingBack", "Planned"));
    assert_eq!(world.take(&child).0, "7.undo");
    world.report(&child, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!((world.state_of("7"), world.state_of("9")), ("over", "Running"));
}

#[test]
fn ids_that_could_be_confused_with_offers_are_refused() {
    let (mut world, _) = world_with(&canary("7", "sieve"));
    for id in ["\"7.2\"", "\"7.undo\"", "\"7.r2\""] {
        let refused = world.submit_text(&canary(id, "greet"));
        assert!(matches!(refused, Err(Refusal::IdAmbiguous { .. })), "{id}: {refused:?}");
    }
    world.submit(&canary("\"7.0\"", "greet"));
    world.submit(&canary("\"1.2\"", "hello"));
    assert!(matches!(world.submit_text(&canary("1", "other")), Err(Refusal::IdAmbiguous { .. })));
}

#[test]
fn the_same_release_twice_is_one_and_another_content_is_refused() {
    let (mut world, _) = world_with(&canary("7", "sieve"));
    world.submit(&canary("7", "sieve"));
    assert!(world.changes.is_empty());
    assert!(matches!(world.submit_text(&canary("7", "greet")), Err(Refusal::IdTaken(_))));
}

#[test]
fn a_retry_is_a_new_attempt_with_new_offers() {
    let mut world = World::new();
    let (bad, good) = (world.child("a"), world.child("b"));
    world.submit(&canary("7", "sieve"));
    world.take(&bad);
    world.take(&good);
    world.report(&bad, "7", summary("Canary", Failure)).unwrap();
    world.retry("7").unwrap();
    assert_eq!(world.take(&bad).0, "7.r2");
    let late = world.report(&bad, "7", numbered("Canary", Completed, 3.0));
    assert!(matches!(late, Err(Refusal::Late { .. })), "{late:?}");
    world.report(&bad, "7.r2", summary("Canary", Completed)).unwrap();
    world.roll_out(&bad);
    world.report(&good, "7", summary("Canary", Completed)).unwrap();
    world.roll_out(&good);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    let refused = world.retry("7");
    assert!(matches!(refused, Err(Refusal::WrongState { .. })), "{refused:?}");
}

#[test]
fn what_is_not_fetched_in_time_is_unreachable() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.pass(16 * MINUTE);
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
    assert_eq!(world.poll(&child), "");
}

#[test]
fn an_offer_behind_another_release_is_not_offered_yet() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.submit(&canary("8", "greet"));
    world.take(&child);
    for _ in 0..30 {
        world.pass(MINUTE);
        world.may_end(&child, "7", "Canary").unwrap();
    }
    assert_eq!(world.assignment("8", &child).status, ChildStatus::Todo);
    world.report(&child, "7", summary("Canary", Completed)).unwrap();
    world.roll_out(&child);
    world.pass(14 * MINUTE);
    assert_eq!(world.poll(&child), "8");
}

#[test]
fn a_stage_can_be_ended_for_all_who_are_in_it() {
    use domain::release::{command::Command, stages};
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.take(&child);
    world
        .command(&Command::Stages(stages::Command::End { release: "7".into(), stage: "Canary".into() }))
        .unwrap();
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(true));
}

#[test]
fn a_cordoned_child_gets_nothing_new_and_a_drained_one_nothing_more() {
    let mut world = World::new();
    let (cordoned, drained, works) = (world.child("a"), world.child("b"), world.child("c"));
    world.cordon(&cordoned, Cordon::Cordoned);
    world.submit(&canary("7", "sieve"));
    assert_eq!(world.poll(&cordoned), "");
    world.take(&works);
    assert_eq!(world.poll(&drained), "7");
    world.cordon(&drained, Cordon::Drained);
    world.cordon(&works, Cordon::Drained);
    assert_eq!(world.poll(&drained), "");
    assert_eq!(world.assignment("7", &works).status, ChildStatus::Doing);
    world.report(&works, "7", summary("Canary", Completed)).unwrap();
    world.roll_out(&works);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn an_error_of_its_own_proves_nothing_so_it_is_undone() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.take(&child);
    world.report(&child, "7", summary("Canary", Error)).unwrap();
    assert_eq!(world.poll(&child), "7.undo");
}

#[test]
fn percentiles_are_judged_here_and_missing_data_is_no_pass() {
    let text = canary("7", "sieve").replace(
        "- {name: errorRate, threshold: \"<0.1\"}",
        "- {name: responseTime, threshold: \"<=20\", compareWith: P95}",
    );
    let mut world = World::new();
    let [fast, slow, dumb] = ["a", "b", "c"].map(|area| world.child(area));
    world.submit(&text);
    for child in [&fast, &slow, &dumb] {
        assert_eq!(world.take(child).1, Form::Stage { stage: 0 });
    }
    let mut good = summary("Canary", Completed);
    good.f2_histogram = Some(Box::new(histogram(&[10.0, 20.0, 40.0], &[90, 9, 1, 0])));
    world.report(&fast, "7", good).unwrap();
    assert_eq!(world.poll(&fast), "7.rollout");
    let mut bad = summary("Canary", Completed);
    bad.f2_histogram = Some(Box::new(histogram(&[10.0, 20.0, 40.0], &[50, 9, 41, 0])));
    world.report(&slow, "7", bad).unwrap();
    world.report(&dumb, "7", summary("Canary", Completed)).unwrap();
    for child in [&slow, &dumb] {
        assert_eq!(world.assignment("7", child).outcome, Some(Outcome::Failed));
        assert_eq!(world.poll(child), "", "it has rolled back by itself");
    }
}

#[test]
fn nobody_eligible_ends_a_release_at_once() {
    let mut world = World::new();
    world.submit(&canary("7", "sieve"));
    assert_eq!(world.ended(), ["NoParticipants, 0 unconfirmed"]);
    assert!(State::default().releases.is_empty());
}

#[test]
fn a_retry_of_an_earlier_release_does_not_come_between_two_offers_of_another() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    let other = world.child("south");
    world.submit(&forked("8", "greet"));
    world.take(&child);
    world.report(&child, "7", summary("Canary", Failure)).unwrap();
    assert_eq!(world.take(&child).0, "8");
    world.report(&child, "8", summary("Bold", Failure)).unwrap();
    assert_eq!(world.poll(&other), "8");
    assert_eq!(world.poll(&child), "8.2");
}

#[test]
fn a_silent_child_that_owes_an_undo_holds_no_later_release_up() {
    let (mut world, child) = world_with(&canary("7", "sieve"));
    world.take(&child);
    world.submit(&canary("8", "sieve"));
    world.submit(&canary("9", "greet"));
    world.abort("7");
    for _ in 0..6 {
        world.pass(16 * MINUTE);
    }
    assert_eq!((world.state_of("8"), world.state_of("9")), ("over", "over"));
    assert_eq!(world.poll(&child), "7.undo");
}
