//! Stages without calls: neither a failure nor a success.

use std::time::Duration;

use domain::release::{
    command::{Form, Refusal},
    ending::{Cause, Ending},
    summary::{Summary, Times},
};
use model::{ChildStatus, Outcome, StageStatus};

use super::world::{AB, WAIT, World, canary, strategy_text, summary, two_stage};

use StageStatus::{Completed, Failure, SuccessWaiting};

const MINUTE: Duration = Duration::from_mins(1);

/// The new version got no call: its times are -1, its error rate is 0.
pub fn without_calls(stage: &str, status: StageStatus) -> Summary {
    let none = Times { median: -1.0, minimum: -1.0, maximum: -1.0 };
    Summary { f2_times_summary: none, ..summary(stage, status) }
}

fn world_with(text: &str) -> (World, String) {
    let mut world = World::new();
    let child = world.child("north");
    world.submit(text);
    (world, child)
}

/// One stage, led as `block` says.
fn led(block: &str) -> String {
    let stages = [["Canary", WAIT, "a", "rollout", "rollback"]];
    strategy_text("7", &format!("rollout: {{{block}}}\n"), &["a"], &stages)
}

/// The child asks until it is told to end the stage: after how many minutes.
pub fn minutes_until_told(world: &mut World, child: &str, offer: &str, stage: &str) -> u32 {
    for minutes in 0..600 {
        if world.may_end(child, offer, stage).unwrap() {
            return minutes;
        }
        world.pass(MINUTE);
    }
    panic!("{child} is never told to end {stage}");
}

#[test]
fn untested_stage_without_calls_is_offered_again_with_new_id() {
    let (mut world, child) = world_with(&two_stage("7", "a"));
    assert_eq!(world.take(&child), ("7".to_owned(), Form::Stage { stage: 0 }));
    world.report(&child, "7", without_calls("First", Failure)).unwrap();
    assert_eq!(world.assignment("7", &child).outcome, None, "it has not failed");
    // The answer was lost on the way, and the result comes twice.
    world.report(&child, "7", without_calls("First", Failure)).unwrap();
    assert_eq!(world.changes, []);
    world.pass(Duration::from_secs(15));
    assert_eq!(world.take(&child), ("7.r2".to_owned(), Form::Stage { stage: 0 }));
    let late = world.report(&child, "7", summary("First", Completed));
    assert!(matches!(late, Err(Refusal::Late { .. })), "{late:?}");
    world.report(&child, "7.r2", summary("First", SuccessWaiting)).unwrap();
    world.report(&child, "7.r2", summary("First", Completed)).unwrap();
    assert_eq!(world.take(&child).0, "7.r2.2", "it goes on from there");
    world.report(&child, "7.r2.2", without_calls("Second", Failure)).unwrap();
    world.pass(Duration::from_secs(15));
    assert_eq!(world.take(&child), ("7.r3.2".to_owned(), Form::Stage { stage: 1 }));
    world.report(&child, "7.r3.2", summary("Second", Completed)).unwrap();
    world.roll_out(&child);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn calls_that_all_failed_are_a_failure() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    let failed = Summary { f2_err_rate: 1.0, ..without_calls("Canary", Failure) };
    world.report(&child, "7", failed).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
}

#[test]
fn what_was_to_take_over_and_is_silent_has_failed_whatever_calls_it_got() {
    let (mut world, child) = world_with(&led("on_failure: pause"));
    world.take(&child);
    let why = Some(Box::new(Ending::new(Cause::NoAnswer, "it answered no more")));
    world.report(&child, "7", Summary { why, ..without_calls("Canary", Failure) }).unwrap();
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::Failed));
    assert_eq!(world.state_of("7"), "Paused");
    let told = world.release("7").ending.as_deref().unwrap();
    assert_eq!(
        (told.cause, told.text.as_str()),
        (Cause::NoAnswer, "child-1 failed in stage Canary with fns/a_new (it answered no more)")
    );
}

#[test]
fn idle_stage_ends_after_an_hour_and_child_keeps_base() {
    let stages = [["Halves", AB, "a", "rollout", "rollback"]];
    let (mut world, child) = world_with(&strategy_text("7", "", &["a"], &stages));
    world.take(&child);
    world.pass(2 * MINUTE);
    world.may_end(&child, "7", "Halves").unwrap();
    insta::assert_snapshot!(world.waits_child("7", &child), @"runs stage Halves for 2m without the calls that it needs, ends untested in 58m, gives up in 15m unless it calls");
    // Its minimum duration of five seconds is over first.
    assert_eq!(minutes_until_told(&mut world, &child, "7", "Halves"), 59);
    world.report(&child, "7", without_calls("Halves", Failure)).unwrap();
    assert_eq!(world.ended(), ["Untested, 0 unconfirmed"], "of the new version nothing is known");
    let part = world.assignment("7", &child);
    assert_eq!((part.outcome, part.status), (Some(Outcome::Untested), ChildStatus::Done));
    assert_eq!((world.runs(&child, "a").as_str(), world.poll(&child).as_str()), ("base of 7", ""));
    let counts = world.release("7").counts;
    assert_eq!((counts.untested, counts.succeeded, counts.failures()), (1, 0, 0));
    insta::assert_snapshot!(world.waits_child("7", &child), @"ended: untested, stage Halves did not get the calls it needs");
}

#[test]
fn the_hour_counts_over_all_tries_and_not_during_a_pause() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    for _ in 0..40 {
        world.pass(MINUTE);
        world.may_end(&child, "7", "Canary").unwrap();
    }
    world.report(&child, "7", without_calls("Canary", Failure)).unwrap();
    assert_eq!(world.take(&child).0, "7.r2");
    world.pause("7");
    for _ in 0..40 {
        world.pass(MINUTE);
        assert_eq!(world.may_end(&child, "7.r2", "Canary"), Ok(false));
    }
    world.resume("7");
    assert_eq!(minutes_until_told(&mut world, &child, "7.r2", "Canary"), 21);
    world.report(&child, "7.r2", without_calls("Canary", Failure)).unwrap();
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::Untested));
}

#[test]
fn one_that_failed_when_its_time_was_over_is_not_offered_again() {
    let (mut world, child) = world_with(&led("no_calls: after 2m"));
    world.take(&child);
    world.now.served_ms += 200_000;
    world.report(&child, "7", without_calls("Canary", Failure)).unwrap();
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::Untested));
}

#[test]
fn stage_ended_below_minimum_calls_is_untested_not_passed() {
    // The strategy wants ten.
    for (calls, outcome) in
        [(None, Some(Outcome::Untested)), (Some(2), Some(Outcome::Untested)), (Some(5), None)]
    {
        let (mut world, child) = world_with(&canary("7", "a"));
        world.take(&child);
        minutes_until_told(&mut world, &child, "7", "Canary");
        let some = Summary { f1_calls: calls, f2_calls: calls, ..summary("Canary", Completed) };
        world.report(&child, "7", some).unwrap();
        assert_eq!(world.assignment("7", &child).outcome, outcome, "{calls:?}");
    }
    // What failed with the calls it got has failed.
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    minutes_until_told(&mut world, &child, "7", "Canary");
    world.report(&child, "7", summary("Canary", Failure)).unwrap();
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::Failed));
}

#[test]
fn no_calls_limit_ignores_waiting_and_manually_ended_stages() {
    let text = led("order: global_incremental, max_failed: 100%");
    let mut world = World::new();
    let (ready, behind) = (world.child("north"), world.child("south"));
    world.submit(&text);
    world.get_ready(&ready, "Canary");
    world.take(&behind);
    for _ in 0..50 {
        world.pass(MINUTE);
        world.may_end(&behind, "7", "Canary").unwrap();
        assert_eq!(world.may_end(&ready, "7", "Canary"), Ok(false));
    }
    world.end_now("7", "Canary").unwrap();
    world.report(&behind, "7", without_calls("Canary", Failure)).unwrap();
    assert_eq!(
        world.assignment("7", &behind).outcome,
        Some(Outcome::Untested),
        "it was to end: no other try"
    );
    world.report(&ready, "7", summary("Canary", Completed)).unwrap();
    world.roll_out(&ready);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn a_stage_may_have_as_much_time_as_any() {
    let (mut world, child) = world_with(&led("no_calls: never"));
    world.take(&child);
    for _ in 0..300 {
        world.pass(MINUTE);
        assert_eq!(world.may_end(&child, "7", "Canary"), Ok(false));
    }
    world.report(&child, "7", without_calls("Canary", Failure)).unwrap();
    assert_eq!(world.poll(&child), "7.r2");
}

#[test]
fn more_untested_agents_than_allowed_are_a_passed_limit() {
    let mut world = World::new();
    let (idle, other) = (world.child("north"), world.child("south"));
    world.submit(&led("no_calls: after 10m, max_untested: 0"));
    world.take(&idle);
    world.get_ready(&other, "Canary");
    minutes_until_told(&mut world, &idle, "7", "Canary");
    world.report(&idle, "7", without_calls("Canary", Failure)).unwrap();
    insta::assert_snapshot!(world.waits("7"), @"rolls back (child-1 was left untested in stage Canary with fns/a_new (the new version got no call): 1 untested, max_untested is 0): 1 child has not confirmed it");
}

#[test]
fn untested_child_joins_rollout_after_others_pass_if_configured() {
    let mut world = World::new();
    let [idle, gone, other] = ["north", "west", "south"].map(|area| world.child(area));
    world.submit(&led("no_calls: after 3m, untested: rollout"));
    for child in [&idle, &gone] {
        world.take(child);
        minutes_until_told(&mut world, child, "7", "Canary");
        world.report(child, "7", without_calls("Canary", Failure)).unwrap();
    }
    assert_eq!(world.poll(&idle), "", "the other one has not passed");
    world.forget(&gone).unwrap();
    world.succeed(&other, "Canary");
    assert_eq!(world.ended(), Vec::<String>::new());
    assert_eq!(world.poll(&other), "");
    assert_eq!(world.take(&idle), ("7.r2.rollout".to_owned(), Form::Rollout { function: 0 }));
    world.report(&idle, "7.r2.rollout", summary("choirmaster rollout", Completed)).unwrap();
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(
        world.assignment("7", &idle).outcome,
        Some(Outcome::Untested),
        "that it was tested nobody says"
    );
    assert_eq!(world.runs(&idle, "a"), "new of 7");
    insta::assert_snapshot!(world.waits_child("7", &idle), @"ended: rolled out untested, as the others had passed");
}

#[test]
fn whoever_is_untested_keeps_the_base_version_where_nobody_passed() {
    let mut world = World::new();
    let (idle, bad) = (world.child("north"), world.child("south"));
    world.submit(&led("no_calls: after 10m, untested: rollout, max_failed: 1"));
    world.take(&idle);
    world.take(&bad);
    world.report(&bad, "7", summary("Canary", Failure)).unwrap();
    minutes_until_told(&mut world, &idle, "7", "Canary");
    world.report(&idle, "7", without_calls("Canary", Failure)).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
    assert_eq!(world.poll(&idle), "");
}

#[test]
fn a_roll_out_of_the_untested_that_is_taken_back_is_undone() {
    let mut world = World::new();
    let (idle, other) = (world.child("north"), world.child("south"));
    world.submit(&led("no_calls: after 10m, untested: rollout"));
    world.take(&idle);
    minutes_until_told(&mut world, &idle, "7", "Canary");
    world.report(&idle, "7", without_calls("Canary", Failure)).unwrap();
    world.succeed(&other, "Canary");
    assert_eq!(world.take(&idle).0, "7.r2.rollout");
    world.abort("7");
    for child in [&idle, &other] {
        assert_eq!(world.take(child), ("7.undo".to_owned(), Form::Undo { function: 0 }));
        world.report(child, "7.undo", summary("choirmaster undo", Completed)).unwrap();
    }
    assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
}

#[test]
fn whoever_was_left_untested_can_be_retried_when_there_are_calls() {
    let mut world = World::new();
    let (idle, other) = (world.child("north"), world.child("south"));
    world.submit(&canary("7", "a"));
    world.succeed(&other, "Canary");
    world.take(&idle);
    minutes_until_told(&mut world, &idle, "7", "Canary");
    world.report(&idle, "7", without_calls("Canary", Failure)).unwrap();
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    world.retry("7").unwrap();
    assert_eq!(world.poll(&other), "");
    world.succeed(&idle, "Canary");
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(world.assignment("7", &idle).outcome, Some(Outcome::Succeeded));
    assert!(world.retry("7").is_err(), "nobody is left untested");
}

#[test]
fn a_release_that_ended_untested_for_everybody_is_done_once_a_retry_has_succeeded() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    minutes_until_told(&mut world, &child, "7", "Canary");
    world.report(&child, "7", without_calls("Canary", Failure)).unwrap();
    assert_eq!(world.ended(), ["Untested, 0 unconfirmed"]);
    world.retry("7").unwrap();
    world.succeed(&child, "Canary");
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(world.runs(&child, "a"), "new of 7");
}

#[test]
fn an_abort_of_a_stage_without_calls_needs_no_undo() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    world.abort("7");
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(true));
    world.report(&child, "7", without_calls("Canary", Failure)).unwrap_err();
    assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
    assert_eq!(world.poll(&child), "");
}

#[test]
fn a_barrier_waits_for_what_an_idle_agent_reports() {
    let stages = [["One", WAIT, "a", "Two", "rollback"], ["Two", WAIT, "a", "rollout", "rollback"]];
    let block = "rollout: {order: global_incremental, no_calls: after 2m}\n";
    let mut world = World::new();
    let (idle, ready) = (world.child("north"), world.child("south"));
    world.submit(&strategy_text("7", block, &["a"], &stages));
    world.take(&idle);
    world.get_ready(&ready, "One");
    minutes_until_told(&mut world, &idle, "7", "One");
    assert_eq!(world.may_end(&ready, "7", "One"), Ok(false), "the other one has not said what became of it");
    world.report(&idle, "7", without_calls("One", Failure)).unwrap();
    assert_eq!(world.may_end(&ready, "7", "One"), Ok(true));
}
