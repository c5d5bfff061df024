//! What was once broken, one story each.

use std::time::Duration;

use domain::release::{
    change::Change,
    command::{Form, Refusal},
    lifecycle, stages,
};
use language::render::{ROLLOUT_STAGE, UNDO_STAGE};
use model::{ChildStatus, Outcome, StageStatus};

use super::in_place::own_agent;
use super::world::{
    WAIT, World, canary, forked, manager, numbered, strategy_text, summary, two_functions, two_stage,
};

use StageStatus::{Completed, Error, Failure, SuccessWaiting};

const MINUTE: Duration = Duration::from_mins(1);
const SOON: Duration = Duration::from_secs(3);
const SECOND: Duration = Duration::from_secs(1);

fn world_with(text: &str) -> (World, String) {
    let mut world = World::new();
    let child = world.child("north");
    world.submit(text);
    (world, child)
}

/// A child whose roll-out was taken back. What it reports of that roll-out is on its way still.
fn taken_back() -> (World, String) {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    world.report(&child, "7", summary("Canary", Completed)).unwrap();
    assert_eq!(world.take(&child).0, "7.rollout");
    world.abort("7");
    assert_eq!(world.take(&child).0, "7.undo");
    world.report(&child, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.state_of("7"), "over");
    (world, child)
}

/// An agent that has all stages in hand.
fn in_place_with(text: &str) -> (World, String) {
    let mut world = World::new();
    let child = own_agent(&mut world, "north");
    world.submit(text);
    (world, child)
}

fn is_late(answer: &Result<(), Refusal>) -> bool {
    matches!(answer, Err(Refusal::Late { .. }))
}

// --- late results

#[test]
fn a_late_roll_out_of_a_release_that_left_memory_is_undone() {
    let (mut world, child) = taken_back();
    let late = world.report(&child, "7.rollout", summary(ROLLOUT_STAGE, Completed));
    assert!(is_late(&late), "{late:?}");
    assert_eq!(world.runs(&child, "a"), "new of 7");
    assert_eq!(world.take(&child).0, "7.undo.2");
    world.report(&child, "7.undo.2", summary(UNDO_STAGE, Failure)).unwrap();
    assert_eq!(world.runs(&child, "a"), "base of 7");
}

#[test]
fn a_late_result_that_comes_twice_changes_nothing_more_even_after_the_undo() {
    let (mut world, child) = taken_back();
    let _ = world.report(&child, "7.rollout", summary(ROLLOUT_STAGE, Completed));
    world.take(&child);
    world.report(&child, "7.undo.2", summary(UNDO_STAGE, Completed)).unwrap();
    let again = world.report(&child, "7.rollout", summary(ROLLOUT_STAGE, Completed));
    assert!(is_late(&again), "{again:?}");
    assert_eq!(world.changes, []);
    assert_eq!(world.poll(&child), "");
}

#[test]
fn refused_report_still_confirms_running_version_once_late() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    let said = vec![summary("", Failure), summary("Bold", Completed)];
    let answer = world.reports(&child, "7", said.clone());
    assert!(matches!(answer, Err(Refusal::UnknownStage { .. })), "{answer:?}");
    assert_eq!(world.changes, [], "all of a call counts, or none of it");
    world.pass(Duration::from_hours(25));
    assert_eq!(world.state_of("7"), "Running", "an undo of the child that was given up is awaited");
    let answer = world.reports(&child, "7", said);
    assert!(matches!(answer, Err(Refusal::UnknownStage { .. })), "{answer:?}");
    assert_eq!(
        world.state_of("7"),
        "over",
        "its failure shows the base version, and nothing is left to undo"
    );
    assert_eq!(world.runs(&child, "a"), "base of 7");
}

#[test]
fn a_late_result_does_not_undo_what_a_later_release_changed() {
    let (mut world, child) = taken_back();
    world.submit(&canary("8", "a"));
    world.succeed(&child, "Canary");
    for number in [1.0, 2.0] {
        let late = world.report(&child, "7.rollout", numbered(ROLLOUT_STAGE, Completed, number));
        assert!(is_late(&late), "{late:?}");
        assert_eq!(world.runs(&child, "a"), "new of 8");
        assert_eq!(world.poll(&child), "");
    }
}

#[test]
fn a_late_result_is_judged_by_the_offer_it_is_about() {
    let (mut world, child) = world_with(&two_functions("7", "a", "b"));
    for (offer, stage) in [("7", "One"), ("7.2", "Two")] {
        assert_eq!(world.take(&child).0, offer);
        world.report(&child, offer, summary(stage, Completed)).unwrap();
    }
    assert_eq!(world.take(&child).0, "7.rollout");
    world.abort("7");
    let late = world.report(&child, "7.rollout", summary(ROLLOUT_STAGE, Completed));
    assert!(is_late(&late), "{late:?}");
    assert_eq!(world.runs(&child, "a"), "new of 7");
    let early = world.report(&child, "7.rollout.2", summary(ROLLOUT_STAGE, Completed));
    assert!(matches!(early, Err(Refusal::NotStarted { .. })), "{early:?}");
    assert_eq!(world.take(&child), ("7.undo".to_owned(), Form::Undo { function: 0 }));
}

#[test]
fn a_late_result_of_an_earlier_attempt_says_nothing_of_the_present_one() {
    let (mut world, child) = world_with(&canary("7", "a"));
    let other = world.child("south");
    world.take(&child);
    world.pass(16 * MINUTE);
    assert_eq!(world.take(&child).0, "7.undo");
    world.report(&child, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    world.retry("7").unwrap();
    assert_eq!(world.take(&child).0, "7.r2");
    let late = world.report(&child, "7", summary("Canary", Completed));
    assert!(is_late(&late), "{late:?}");
    world.report(&child, "7.r2", summary("Canary", Completed)).unwrap();
    world.roll_out(&child);
    assert_eq!((world.poll(&child), world.poll(&other)), (String::new(), String::new()));
    assert_eq!(world.runs(&child, "a"), "new of 7");
}

#[test]
fn report_with_results_past_failure_is_rejected_whole() {
    let (mut world, child) = in_place_with(&two_stage("7", "a"));
    world.take(&child);
    let both = vec![summary("First", Failure), summary("Second", Failure)];
    let refused = world.reports(&child, "7", both);
    assert!(matches!(refused, Err(Refusal::NotStarted { .. })), "{refused:?}");
    assert_eq!(world.changes, []);
    assert_eq!(world.assignment("7", &child).status, ChildStatus::Doing);
}

#[test]
fn a_wait_in_a_later_stage_is_answered_well_and_shows_the_loss() {
    let stages = [["One", WAIT, "a", "Two", "rollback"], ["Two", WAIT, "a", "rollout", "rollback"]];
    let (mut world, child) = in_place_with(&strategy_text("7", "", &["a"], &stages));
    world.take(&child);
    world.report(&child, "7", summary("Two", SuccessWaiting)).unwrap();
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::Lost));
}

// --- offers

#[test]
fn what_was_never_handed_out_is_neither_fetched_nor_reported_nor_ended() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    for offer in ["7.2", "7.rollout", "7.r2", "7.r2.undo", "7.undo", "8"] {
        let fetched = world.fetch(&child, offer);
        assert!(matches!(fetched, Err(Refusal::NeverOffered { .. })), "{offer}: {fetched:?}");
        assert!(world.report(&child, offer, summary("Canary", Completed)).is_err(), "{offer}");
        assert!(world.may_end(&child, offer, "Canary").is_err(), "{offer}");
    }
    assert_eq!(world.assignment("7", &child).status, ChildStatus::Doing);
}

#[test]
fn a_stage_that_is_not_in_the_offer_is_unknown() {
    let (mut world, child) = world_with(&forked("7", "a"));
    world.take(&child);
    let unknown = world.report(&child, "7", summary("Careful", Completed));
    assert!(matches!(unknown, Err(Refusal::UnknownStage { .. })), "{unknown:?}");
    assert!(world.may_end(&child, "7", "Careful").is_err());
    assert_eq!(world.assignment("7", &child).status, ChildStatus::Doing);
}

#[test]
fn an_earlier_release_that_starts_later_does_not_come_between_two_offers() {
    let mut world = World::new();
    let (child, other) = (world.child("north"), world.child("south"));
    world.submit(&canary("7", "a"));
    world.submit(&canary("8", "a"));
    world.submit(&forked("9", "b"));
    world.succeed(&child, "Canary");
    assert_eq!(world.take(&child).0, "9");
    world.succeed(&other, "Canary");
    world.report(&child, "9", summary("Bold", Failure)).unwrap();
    assert_eq!(world.take(&child).0, "9.2");
    world.report(&child, "9.2", summary("Careful", Completed)).unwrap();
    world.roll_out(&child);
    assert_eq!(world.take(&child).0, "8");
}

// --- undo

#[test]
fn an_error_in_one_function_is_undone_though_another_one_ended_the_release() {
    let stages = [["One", WAIT, "a", "rollout", "Two"], ["Two", WAIT, "b", "rollout", "rollback"]];
    let (mut world, child) = world_with(&strategy_text("7", "", &["a", "b"], &stages));
    world.take(&child);
    world.report(&child, "7", summary("One", Error)).unwrap();
    assert_eq!(world.take(&child).0, "7.2");
    world.report(&child, "7.2", summary("Two", Failure)).unwrap();
    assert_eq!(world.take(&child), ("7.undo".to_owned(), Form::Undo { function: 0 }));
}

#[test]
fn rollback_lost_repeatedly_does_not_hold_release_longer() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    world.abort("7");
    for _ in 0..40 {
        world.poll(&child);
        let offer = world.poll(&child);
        if !offer.is_empty() {
            world.fetch(&child, &offer).unwrap();
        }
        world.pass(MINUTE);
    }
    assert_eq!(world.state_of("7"), "Aborted");
    let undo = world.assignment("7", &child).undo().unwrap();
    assert!(undo.number > 3 && undo.overdue && undo.is_pending(), "{undo:?}");
}

#[test]
fn an_undo_that_a_tick_offers_becomes_overdue_too() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    world.pass(16 * MINUTE);
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::TimedOut));
    assert_eq!(world.state_of("7"), "Running");
    world.pass(31 * MINUTE);
    assert_eq!(world.ended(), ["DoneWithFailures, 1 unconfirmed"]);
}

#[test]
fn an_aborted_retry_takes_nothing_back_where_a_later_release_changed_the_function() {
    let mut world = World::new();
    let (bad, good) = (world.child("north"), world.child("south"));
    world.submit(&canary("7", "a"));
    for (child, status) in [(&bad, Failure), (&good, Completed)] {
        world.take(child);
        world.report(child, "7", summary("Canary", status)).unwrap();
    }
    world.roll_out(&good);
    world.cordon(&bad, model::Cordon::Cordoned);
    world.submit(&canary("8", "a"));
    world.succeed(&good, "Canary");
    world.retry("7").unwrap();
    world.take(&bad);
    world.abort("7");
    assert_eq!(world.poll(&good), "");
    assert_eq!(world.runs(&good, "a"), "new of 8");
    world.report(&bad, "7.r2", summary("Canary", Failure)).unwrap_err();
    assert_eq!(world.state_of("7"), "over");
}

#[test]
fn forgotten_child_is_neither_retried_nor_rolled_back() {
    let mut world = World::new();
    let (gone, bad) = (world.child("north"), world.child("south"));
    world.submit(&canary("7", "a"));
    for child in [&gone, &bad] {
        world.take(child);
        world.report(child, "7", summary("Canary", Failure)).unwrap();
    }
    let part = world.release("7").assignments.len();
    let key = world.state.children.key(&gone).unwrap();
    world.forget(&gone).unwrap();
    world.retry("7").unwrap();
    assert_eq!(world.release("7").assignments[&key].status, ChildStatus::No);
    world.succeed(&bad, "Canary");
    assert_eq!((world.ended(), part), (vec!["Done, 0 unconfirmed".to_owned()], 2));
}

// --- successors and ghosts

/// The agent exits when the download of the undo fails, and is back before its old id was silent for long.
#[test]
fn unfetched_rollback_goes_to_machine_returning_with_new_id() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    world.abort("7");
    assert_eq!(world.poll(&child), "7.undo");
    let new = world.child("north");
    world.pass(6 * SECOND);
    assert_eq!(world.poll(&new), "");
    world.pass(6 * SECOND);
    assert_eq!(world.take(&new).0, "7.undo");
    world.report(&new, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
}

#[test]
fn later_release_is_not_rolled_back_for_another_child() {
    let (mut world, old) = world_with(&canary("7", "a"));
    world.take(&old);
    world.abort("7");
    world.pass(31 * MINUTE);
    assert_eq!(world.ended(), ["Aborted, 1 unconfirmed"]);
    // Not taken for the same machine at once, for it says that it is a manager.
    let new = world.poll_as("", "north", Some(manager())).0;
    world.poll_as(&new, "north", Some(manager()));
    world.poll_as(&new, "north", None);
    world.submit(&canary("8", "a"));
    assert_eq!(world.take(&new).0, "8");
    world.report(&new, "8", summary("Canary", Completed)).unwrap();
    world.roll_out(&new);
    world.forget(&old).unwrap();
    assert_eq!(world.poll(&new), "");
    assert_eq!(world.runs(&new, "a"), "new of 8");
}

/// The machine was restarted when nothing was to be taken back yet.
#[test]
fn an_undo_that_nobody_fetches_goes_to_whoever_calls_with_the_same_area() {
    let area = r#"{"type":"Polygon","coordinates":[[[13,52],[14,52],[14,53],[13,53],[13,52]]]}"#;
    let mut world = World::new();
    let (old, other) = (world.child(area), world.child("south"));
    world.submit(&canary("7", "a"));
    world.succeed(&old, "Canary");
    world.take(&other);
    let new = world.child(area);
    world.pass(6 * MINUTE);
    world.abort("7");
    world.pass(29 * MINUTE);
    let calls_until_offered = (0..40).take_while(|_| {
        world.pass(SOON);
        world.poll(&new).is_empty()
    });
    assert_eq!(calls_until_offered.count(), 19, "not before the undo is overdue");
    assert_eq!(world.take(&new).0, "7.undo");
}

#[test]
fn a_child_that_polls_keeps_its_undo_although_a_neighbour_has_its_area() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    world.abort("7");
    let neighbour = world.child("north");
    for _ in 0..120 {
        world.pass(SOON);
        assert_eq!(world.poll(&child), "7.undo");
        assert_eq!(world.poll(&neighbour), "");
    }
}

#[test]
fn a_child_that_owes_an_undo_is_not_forgotten_unless_another_took_its_place() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    world.abort("7");
    let refused = world.forget(&child);
    assert!(matches!(refused, Err(Refusal::Owes { .. })), "{refused:?}");
    let new = world.child("north");
    world.forget(&child).unwrap();
    assert!(world.state.children.key(&child).is_none());
    assert_eq!(world.take(&new).0, "7.undo");
    world.report(&new, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
}

#[test]
fn a_reinstated_child_repeats_what_it_reported_before() {
    let stages = [["First", WAIT, "a", "Second", "rollback"], ["Second", WAIT, "a", "rollout", "rollback"]];
    let (mut world, child) = world_with(&strategy_text("7", "", &["a"], &stages));
    world.take(&child);
    world.report(&child, "7", summary("First", Completed)).unwrap();
    assert_eq!(world.take(&child).0, "7.2");
    assert_eq!(world.comes_back("north", "").1, "7.undo");
    assert!(world.assignment("7", &child).rare().successor.is_some());
    world.report(&child, "7", summary("First", Completed)).unwrap();
    assert_eq!(world.may_end(&child, "7", "First"), Ok(true));
    assert_eq!(world.assignment("7", &child).status, ChildStatus::Doing);
    world.report(&child, "7.2", summary("Second", Completed)).unwrap();
    world.roll_out(&child);
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::Succeeded));
}

// --- deadlines and operators

#[test]
fn an_offer_that_waited_behind_a_pause_has_its_whole_time() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.submit(&canary("8", "b"));
    for _ in 0..14 {
        world.pass(MINUTE);
    }
    world.pause("7");
    world.pass(10 * MINUTE);
    assert_eq!(world.assignment("8", &child).status, ChildStatus::Todo);
    assert_eq!(world.poll(&child), "8");
    world.pass(6 * MINUTE);
    assert_eq!(world.assignment("8", &child).outcome, Some(Outcome::Unreachable));
}

#[test]
fn manager_stage_times_out_only_when_manager_stops_polling() {
    let mut world = World::new();
    let (child, _) = world.poll_as("", "north", Some(manager()));
    world.poll(&child);
    world.submit(&canary("7", "a"));
    world.take(&child);
    for _ in 0..300 {
        world.pass(10 * MINUTE);
        world.poll(&child);
    }
    assert_eq!(world.assignment("7", &child).status, ChildStatus::Doing);
    world.pass(16 * MINUTE);
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::TimedOut));
}

#[test]
fn ending_a_stage_that_nobody_is_in_changes_nothing() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.end_now("7", "Canary").unwrap();
    assert_eq!(world.changes, []);
    world.take(&child);
    world.end_now("7", "Canary").unwrap();
    let [Change::Stages(stages::Change::Ended { .. }), Change::Lifecycle(lifecycle::Change::ActedOn { .. })] =
        world.changes[..]
    else {
        panic!("{:?}", world.changes)
    };
}

#[test]
fn a_child_that_goes_back_before_a_retry_has_no_outcome_meanwhile() {
    let (mut world, child) = world_with(&canary("7", "a"));
    let other = world.child("south");
    world.take(&child);
    world.pass(16 * MINUTE);
    world.poll(&other);
    world.retry("7").unwrap();
    assert_eq!(world.take(&child).0, "7.undo");
    world.report(&child, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.assignment("7", &child).outcome, None);
    assert_eq!(world.take(&child).0, "7.r2");
}

#[test]
fn rollback_pending_since_abort_passes_to_successor() {
    let mut world = World::new();
    let (child, other) = (world.child("north"), world.child("south"));
    world.submit(&canary("7", "a"));
    world.succeed(&child, "Canary");
    assert_eq!(world.runs(&child, "a"), "new of 7");
    world.take(&other);
    world.abort("7");
    world.pass(MINUTE);
    let new = world.child("north");
    assert_eq!(world.poll(&new), "7.undo");
}

#[test]
fn approval_timeout_applies_even_where_failure_limit_is_passed() {
    let extra =
        "rollout: {order: parallel, on_failure: continue, approval: before_rollout, approval_timeout: 1m}\n";
    let text = strategy_text("7", extra, &["a"], &[["One", WAIT, "a", "rollout", "rollback"]]);
    let mut world = World::new();
    let (bad, good) = (world.child("north"), world.child("south"));
    world.submit(&text);
    world.take(&bad);
    world.report(&bad, "7", summary("One", Failure)).unwrap();
    world.get_ready(&good, "One");
    assert_eq!(world.state_of("7"), "AwaitingApproval");
    world.pass(2 * MINUTE);
    assert_eq!(world.state_of("7"), "RollingBack");
}
