//! The manager in charge: waves, barriers, limits, soaks and approvals, one story each.

use std::time::Duration;

use domain::release::{
    command::{Command, Form, Refusal},
    members, rollout,
};
use language::render::{ROLLOUT_STAGE, UNDO_STAGE};
use model::{ChildStatus, Outcome, StageStatus};

use super::world::{AB, WAIT, World, strategy_text, summary};

use StageStatus::{Completed, Failure, SuccessWaiting};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

/// A strategy of one or two stages with this `rollout` block.
fn led(rollout: &str, stages: usize) -> String {
    let both = [["One", AB, "a", "Two", "rollback"], ["Two", WAIT, "a", "rollout", "rollback"]];
    let one = [["One", WAIT, "a", "rollout", "rollback"]];
    let stages: &[[&str; 5]] = if stages == 1 { &one } else { &both };
    strategy_text("7", &format!("rollout: {{{rollout}}}\n"), &["a"], stages)
}

fn world_of(children: usize, text: &str) -> (World, Vec<String>) {
    let mut world = World::new();
    let children = (0..children).map(|child| world.child(&format!("area {child}"))).collect();
    world.submit(text);
    (world, children)
}

/// The child ends the stage it is ready to end.
fn end(world: &mut World, child: &str, offer: &str, stage: &str) {
    assert_eq!(world.may_end(child, offer, stage), Ok(true), "{child} {offer}");
    world.report(child, offer, summary(stage, Completed)).unwrap();
}

/// The child takes its roll-out and reports that it is done.
fn roll_out(world: &mut World, child: &str) {
    let (offer, form) = world.take(child);
    assert_eq!((offer.as_str(), form), ("7.rollout", Form::Rollout { function: 0 }));
    end(world, child, "7.rollout", ROLLOUT_STAGE);
}

#[test]
fn in_parallel_each_goes_through_single_stages_at_its_own_pace() {
    let (mut world, children) = world_of(2, &led("order: parallel", 2));
    assert_eq!(world.take(&children[0]), ("7".to_owned(), Form::Stage { stage: 0 }));
    // It is of type A/B, and is handed out as one that waits.
    world.report(&children[0], "7", summary("One", SuccessWaiting)).unwrap();
    end(&mut world, &children[0], "7", "One");
    assert_eq!(world.take(&children[0]), ("7.2".to_owned(), Form::Stage { stage: 1 }));
    world.report(&children[0], "7.2", summary("Two", SuccessWaiting)).unwrap();
    end(&mut world, &children[0], "7.2", "Two");
    assert_eq!(world.runs(&children[0], "a"), "base of 7");
    roll_out(&mut world, &children[0]);
    assert_eq!(world.runs(&children[0], "a"), "new of 7");
    assert_eq!(world.assignment("7", &children[1]).status, ChildStatus::Todo);
}

#[test]
fn global_incremental_moves_all_together() {
    let (mut world, children) = world_of(2, &led("order: global_incremental", 2));
    let [one, two] = [&children[0], &children[1]];
    world.get_ready(one, "One");
    insta::assert_snapshot!(world.waits("7"), @"0 of 2 children have ended, 1 has yet to begin, 1 at work; stage Two begins when the one that is behind has come");
    insta::assert_snapshot!(world.waits_child("7", one), @"is ready to end stage One, which waits: 1 child has to come before stage Two begins, gives up in 15m unless it calls");
    assert_eq!(world.may_end(one, "7", "One"), Ok(false));
    world.get_ready(two, "One");
    end(&mut world, one, "7", "One");
    // The barrier is open for both.
    assert_eq!(world.get_ready(one, "Two"), "7.2");
    assert_eq!(world.may_end(one, "7.2", "Two"), Ok(false));
    end(&mut world, two, "7", "One");
    world.get_ready(two, "Two");
    for child in [one, two] {
        end(&mut world, child, "7.2", "Two");
        roll_out(&mut world, child);
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn failed_or_absent_child_neither_opens_nor_blocks_barrier() {
    let text = led("order: global_incremental, max_failed: 1", 2);
    let (mut world, children) = world_of(3, &text);
    world.get_ready(&children[0], "One");
    world.take(&children[1]);
    world.report(&children[1], "7", summary("One", Failure)).unwrap();
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(false));
    // The third never fetches its offer; the first calls on.
    for _ in 0..16 {
        world.pass(MINUTE);
        world.report(&children[0], "7", summary("One", SuccessWaiting)).unwrap();
    }
    assert_eq!(world.assignment("7", &children[2]).outcome, Some(Outcome::Unreachable));
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(true));
}

#[test]
fn a_stage_that_an_operator_cuts_leaves_its_child_before_the_barrier() {
    let (mut world, children) = world_of(2, &led("order: global_incremental", 2));
    world.take(&children[0]);
    world.end_now("7", "One").unwrap();
    end(&mut world, &children[0], "7", "One");
    assert_eq!(world.poll(&children[0]), "");
    insta::assert_snapshot!(world.waits_child("7", &children[0]), @"is held before stage Two: 1 child has to come before stage Two begins");
    // However long that takes, it is no fault of the child.
    world.pass(10 * MINUTE);
    world.get_ready(&children[1], "One");
    world.pass(10 * MINUTE);
    assert_eq!(world.assignment("7", &children[0]).outcome, None);
    assert_eq!(world.poll(&children[0]), "7.2");
}

#[test]
fn waves_open_one_after_the_other_and_each_is_larger() {
    let (mut world, children) = world_of(5, &led("order: waves, waves: [1, 50%, 100%]", 1));
    let offered = |world: &mut World| {
        let offers: Vec<bool> = children.iter().map(|child| !world.poll(child).is_empty()).collect();
        offers.iter().filter(|offered| **offered).count()
    };
    assert_eq!(offered(&mut world), 1);
    insta::assert_snapshot!(world.waits_child("7", &children[1]), @"has its turn in wave 2 of 3");
    // Nobody waits for who has had no turn.
    world.pass(5 * MINUTE);
    assert_eq!(offered(&mut world), 1);
    for (wave, more) in [(&children[..1], 2), (&children[1..3], 2), (&children[3..], 0)] {
        for child in wave {
            world.get_ready(child, "One");
            end(&mut world, child, "7", "One");
            roll_out(&mut world, child);
        }
        if more == 0 {
            assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
        }
        assert_eq!(offered(&mut world), more);
    }
}

#[test]
fn locations_have_their_turns_one_by_one() {
    let (mut world, children) =
        world_of(3, &led("order: location_sequential, start_at: [0, 0], soak: 1m", 2));
    for (place, child) in children.iter().enumerate() {
        for other in children.iter().filter(|other| *other != child) {
            assert_eq!(world.poll(other), "", "{other} while {child} has its turn");
        }
        world.get_ready(child, "One");
        end(&mut world, child, "7", "One");
        world.get_ready(child, "Two");
        end(&mut world, child, "7.2", "Two");
        roll_out(&mut world, child);
        if place == 0 {
            world.pass(20 * SECOND);
            insta::assert_snapshot!(world.waits("7"), @"1 of 3 children have ended, 2 have yet to begin; location 1 of 3; soaks for another 40s, then location 2 of 3");
        }
        for _ in 0..3 {
            world.pass(20 * SECOND);
            for child in &children {
                drop(world.poll(child));
            }
        }
    }
    assert_eq!(world.state_of("7"), "over");
}

#[test]
fn a_wave_of_which_nobody_is_left_is_passed_over() {
    let (mut world, children) = world_of(3, &led("order: waves, waves: [1, 2, 100%]", 1));
    world.forget(&children[1]).unwrap();
    world.get_ready(&children[0], "One");
    end(&mut world, &children[0], "7", "One");
    roll_out(&mut world, &children[0]);
    assert_eq!(world.poll(&children[2]), "7");
}

#[test]
fn a_wave_meets_its_barriers_anew() {
    let text = led("order: waves, waves: [1, 100%], approval: before_rollout", 1);
    let (mut world, children) = world_of(2, &text);
    for child in &children {
        world.get_ready(child, "One");
        assert_eq!(world.may_end(child, "7", "One"), Ok(false));
        assert_eq!(world.state_of("7"), "AwaitingApproval");
        world.approve("7").unwrap();
        end(&mut world, child, "7", "One");
        roll_out(&mut world, child);
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn a_limit_that_is_passed_rolls_everybody_back_and_says_why() {
    let (mut world, children) = world_of(4, &led("order: waves, waves: [3, 100%]", 1));
    let [done, failed, at_work, waiting] = [&children[0], &children[1], &children[2], &children[3]];
    world.get_ready(done, "One");
    end(&mut world, done, "7", "One");
    roll_out(&mut world, done);
    world.take(at_work);
    world.take(failed);
    world.report(failed, "7", summary("One", Failure)).unwrap();
    assert_eq!(world.state_of("7"), "RollingBack");
    insta::assert_snapshot!(world.waits("7"), @"rolls back (child-3 failed in stage One with fns/a_new (errors 0.0 %, median 8.0 ms): 1 failed, max_failed is 0): 2 children have not confirmed it");
    // Nobody new begins, and who is at work is told to end.
    assert_eq!(world.poll(waiting), "");
    assert_eq!(world.may_end(at_work, "7", "One"), Ok(true));
    let _ = world.report(at_work, "7", summary("One", Completed));
    for child in [done, at_work] {
        if world.poll(child) == "7.undo" {
            world.fetch(child, "7.undo").unwrap();
            world.report(child, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
        }
        assert_eq!(world.runs(child, "a"), "base of 7");
    }
    assert_eq!(world.release("7").state.name(), "RolledBack");
}

#[test]
fn a_roll_back_that_somebody_does_not_answer_ends_unconfirmed() {
    let (mut world, children) = world_of(2, &led("order: parallel", 1));
    world.get_ready(&children[0], "One");
    end(&mut world, &children[0], "7", "One");
    roll_out(&mut world, &children[0]);
    world.take(&children[1]);
    world.report(&children[1], "7", summary("One", Failure)).unwrap();
    world.pass(31 * MINUTE);
    assert_eq!(world.ended(), ["RolledBack, 1 unconfirmed"]);
    assert_eq!(world.state_of("7"), "RolledBackUnproven");
    // The undo outlives it.
    assert_eq!(world.take(&children[0]).0, "7.undo");
}

#[test]
fn limits_round_down_and_percentages_are_of_all() {
    // A third of four is one.
    let (mut world, children) = world_of(4, &led("order: parallel, max_failed: 33%", 1));
    let fail = |world: &mut World, child: &str| {
        world.take(child);
        world.report(child, "7", summary("One", Failure)).unwrap();
        world.release("7").state.name()
    };
    assert_eq!(fail(&mut world, &children[0]), "Running");
    assert_eq!(fail(&mut world, &children[1]), "RolledBack");
}

#[test]
fn a_limit_may_pause_instead_and_to_resume_is_to_accept() {
    let (mut world, children) = world_of(3, &led("order: parallel, on_failure: pause", 1));
    let fail = |world: &mut World, child: &str| {
        world.take(child);
        world.report(child, "7", summary("One", Failure)).unwrap();
        world.waits("7")
    };
    insta::assert_snapshot!(fail(&mut world, &children[0]), @"is paused (child-1 failed in stage One with fns/a_new (errors 0.0 %, median 8.0 ms): 1 failed, max_failed is 0): resume or abort it");
    assert_eq!(world.poll(&children[1]), "");
    world.resume("7");
    assert_eq!(world.state_of("7"), "Running");
    insta::assert_snapshot!(fail(&mut world, &children[1]), @"is paused (child-3 failed in stage One with fns/a_new (errors 0.0 %, median 8.0 ms): 2 failed, 1 of them accepted before, max_failed is 0): resume or abort it");
}

#[test]
fn a_failure_during_a_pause_by_hand_is_judged_when_it_goes_on() {
    let (mut world, children) = world_of(2, &led("order: parallel", 1));
    world.take(&children[0]);
    world.pause("7");
    world.report(&children[0], "7", summary("One", Failure)).unwrap();
    assert_eq!(world.state_of("7"), "Paused");
    world.resume("7");
    assert!(["RollingBack", "over"].contains(&world.state_of("7")), "{}", world.state_of("7"));
}

#[test]
fn those_who_time_out_and_those_who_never_come_have_limits_of_their_own() {
    let (mut world, children) = world_of(2, &led("order: parallel, max_unreachable: 0", 1));
    world.get_ready(&children[0], "One");
    world.pass(16 * MINUTE);
    assert_eq!(world.assignment("7", &children[0]).outcome, Some(Outcome::TimedOut));
    assert_eq!(world.state_of("7"), "RollingBack");

    let (mut world, children) = world_of(2, &led("order: parallel", 1));
    world.get_ready(&children[0], "One");
    end(&mut world, &children[0], "7", "One");
    roll_out(&mut world, &children[0]);
    world.pass(16 * MINUTE);
    assert_eq!(world.assignment("7", &children[1]).outcome, Some(Outcome::Unreachable));
    // Reported, but not started: no risk.
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
}

#[test]
fn with_on_failure_continue_nothing_stops_it() {
    let (mut world, children) = world_of(2, &led("order: parallel, on_failure: continue", 1));
    world.take(&children[0]);
    world.report(&children[0], "7", summary("One", Failure)).unwrap();
    assert_eq!(world.state_of("7"), "Running");
    world.get_ready(&children[1], "One");
    end(&mut world, &children[1], "7", "One");
    roll_out(&mut world, &children[1]);
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
}

#[test]
fn a_stage_soaks_before_the_next_and_a_retry_of_somebody_begins_the_soak_anew() {
    let text = led("order: global_incremental, soak: 10m, on_failure: continue", 2);
    let (mut world, children) = world_of(2, &text);
    world.take(&children[1]);
    world.report(&children[1], "7", summary("One", Failure)).unwrap();
    world.get_ready(&children[0], "One");
    world.pass(6 * MINUTE);
    world.report(&children[0], "7", summary("One", SuccessWaiting)).unwrap();
    insta::assert_snapshot!(world.waits("7"), @"1 of 2 children have ended, 1 at work; soaks for another 4m, then stage Two");
    world.retry("7").unwrap();
    world.pass(6 * MINUTE);
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(false));
    assert_eq!(world.get_ready(&children[1], "One"), "7.r2");
    world.pass(9 * MINUTE);
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(false));
    world.pass(MINUTE + SECOND);
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(true));
    assert_eq!(world.may_end(&children[1], "7.r2", "One"), Ok(true));
}

#[test]
fn nobody_moves_before_somebody_approves() {
    let (mut world, children) = world_of(2, &led("order: parallel, approval: {stages: [Two]}", 2));
    assert!(matches!(world.approve("7"), Err(Refusal::WrongState { .. })));
    for child in &children {
        world.get_ready(child, "One");
    }
    assert_eq!(world.state_of("7"), "AwaitingApproval");
    world.pass(MINUTE);
    insta::assert_snapshot!(world.waits("7"), @"waits for approval of stage Two: asked 1m ago, rolls back in 5h 59m");
    insta::assert_snapshot!(world.waits_child("7", &children[0]), @"is ready to end stage One, which waits: somebody must approve of stage Two, gives up in 14m unless it calls");
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(false));
    world.approve("7").unwrap();
    for child in &children {
        end(&mut world, child, "7", "One");
        world.get_ready(child, "Two");
        // Only the one stage was asked for.
        end(&mut world, child, "7.2", "Two");
        roll_out(&mut world, child);
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn an_approval_of_the_first_stage_holds_everybody_back() {
    let (mut world, children) = world_of(2, &led("order: parallel, approval: {stages: [One]}", 1));
    assert_eq!(world.state_of("7"), "AwaitingApproval");
    assert_eq!(world.poll(&children[0]), "");
    world.approve("7").unwrap();
    assert_eq!(world.poll(&children[0]), "7");
}

#[test]
fn every_wave_but_the_first_waits_for_its_approval_and_none_in_time_rolls_back() {
    let text = led("order: waves, waves: [1, 100%], approval: before_each_wave, approval_timeout: 1h", 1);
    let (mut world, children) = world_of(2, &text);
    world.get_ready(&children[0], "One");
    end(&mut world, &children[0], "7", "One");
    roll_out(&mut world, &children[0]);
    assert_eq!(world.state_of("7"), "AwaitingApproval");
    assert_eq!(world.poll(&children[1]), "");
    world.pass(61 * MINUTE);
    insta::assert_snapshot!(world.waits("7"), @"rolls back (nobody approved of wave 2 of 2 in time): 1 child has not confirmed it");
    assert_eq!(world.take(&children[0]).0, "7.undo");
    world.report(&children[0], "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.ended(), ["RolledBack, 0 unconfirmed"]);
}

#[test]
fn a_pause_stops_the_clock_of_a_soak_and_of_an_approval() {
    let text = led("order: waves, waves: [1, 100%], soak: 10m, approval: before_each_wave", 1);
    let (mut world, children) = world_of(2, &text);
    world.get_ready(&children[0], "One");
    end(&mut world, &children[0], "7", "One");
    roll_out(&mut world, &children[0]);
    world.pause("7");
    world.pass(60 * MINUTE);
    world.resume("7");
    assert_eq!(world.state_of("7"), "Running");
    world.pass(10 * MINUTE + SECOND);
    assert_eq!(world.state_of("7"), "AwaitingApproval");
    world.pause("7");
    world.pass(600 * MINUTE);
    world.resume("7");
    assert_eq!(world.state_of("7"), "AwaitingApproval");
    world.approve("7").unwrap();
    assert_eq!(world.poll(&children[1]), "7");
}

#[test]
fn a_release_with_a_start_waits_for_it() {
    let mut world = World::new();
    let child = world.child("north");
    // The world begins at 2023-11-14T22:13:20Z.
    world.submit(&led("start: \"2023-11-14T23:13:20Z\"", 1));
    assert_eq!((world.state_of("7"), world.poll(&child)), ("Planned", String::new()));
    insta::assert_snapshot!(world.waits("7"), @"starts in 1h");
    world.pass(59 * MINUTE);
    assert_eq!(world.state_of("7"), "Planned");
    world.pass(MINUTE);
    assert_eq!((world.state_of("7"), world.poll(&child)), ("Running", "7".to_owned()));
}

#[test]
fn a_failure_after_the_signal_leads_to_another_stage_only_when_its_barrier_is_open() {
    let stages = [["Bold", WAIT, "a", "rollout", "Careful"], ["Careful", WAIT, "a", "rollout", "rollback"]];
    let text = strategy_text("7", "rollout: {order: global_incremental}\n", &["a"], &stages);
    let (mut world, children) = world_of(2, &text);
    world.take(&children[0]);
    world.report(&children[0], "7", summary("Bold", Failure)).unwrap();
    // It failed without waiting for anybody, and waits now.
    assert_eq!(world.poll(&children[0]), "");
    world.get_ready(&children[1], "Bold");
    // What follows for the second is two levels on: it goes on testing while the first is careful.
    assert_eq!(world.may_end(&children[1], "7", "Bold"), Ok(false));
    assert_eq!(world.get_ready(&children[0], "Careful"), "7.2");
    for (child, offer, stage) in [(&children[0], "7.2", "Careful"), (&children[1], "7", "Bold")] {
        end(&mut world, child, offer, stage);
        roll_out(&mut world, child);
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn no_more_are_in_progress_than_there_are_places() {
    let (mut world, children) = world_of(3, &led("order: parallel, max_in_progress: 1", 1));
    let [one, two, three] = [&children[0], &children[1], &children[2]];
    assert_eq!(world.poll(two), "7");
    assert_eq!((world.poll(one), world.poll(three)), (String::new(), String::new()));
    insta::assert_snapshot!(world.waits_child("7", one), @"waits for a place among the 1 in progress, gives up in 15m unless it calls");
    // An offer once shown is shown again, and fetched.
    world.get_ready(two, "One");
    end(&mut world, two, "7", "One");
    roll_out(&mut world, two);
    assert_eq!(world.poll(three), "7");
    assert_eq!(world.poll(one), "");
    // Who calls is waited for, however long it takes until there is a place; who doesn't is not.
    world.fetch(three, "7").unwrap();
    for _ in 0..20 {
        world.pass(MINUTE);
        assert_eq!(world.poll(one), "");
        world.report(three, "7", summary("One", SuccessWaiting)).unwrap();
        if world.assignment("7", three).status.is_over() {
            break;
        }
    }
    assert_eq!(world.assignment("7", one).outcome, None);
    world.pass(40 * MINUTE);
    assert_eq!(world.assignment("7", one).outcome, Some(Outcome::Unreachable));
}

#[test]
fn child_at_barrier_frees_its_progress_slot() {
    let (mut world, children) = world_of(2, &led("order: global_incremental, max_in_progress: 1", 2));
    for stage in ["One", "Two"] {
        let offer = world.get_ready(&children[0], stage);
        assert_eq!(world.get_ready(&children[1], stage), offer);
        for child in &children {
            end(&mut world, child, &offer, stage);
        }
        // They set up the next one after the other.
        let next = if stage == "One" { "7.2" } else { "7.rollout" };
        assert_eq!((world.poll(&children[0]), world.poll(&children[1])), (next.to_owned(), String::new()));
    }
    roll_out(&mut world, &children[0]);
    roll_out(&mut world, &children[1]);
    assert_eq!(world.state_of("7"), "over");
}

#[test]
fn who_promotes_a_release_opens_all_that_is_left() {
    let text = led("order: waves, waves: [1, 2, 100%], soak: 10m, approval: before_rollout", 1);
    let (mut world, children) = world_of(4, &text);
    world.get_ready(&children[0], "One");
    assert_eq!(world.state_of("7"), "AwaitingApproval");
    world.command(&Command::Rollout(rollout::Command::Promote { release: "7".to_owned() })).unwrap();
    end(&mut world, &children[0], "7", "One");
    roll_out(&mut world, &children[0]);
    for child in &children[1..] {
        world.get_ready(child, "One");
        end(&mut world, child, "7", "One");
        roll_out(&mut world, child);
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn who_promotes_to_the_next_gate_opens_what_comes_next_and_nothing_behind_it() {
    let text = led("order: waves, waves: [1, 2, 100%], soak: 10m, approval: before_rollout", 1);
    let (mut world, children) = world_of(3, &text);
    let promote = Command::Rollout(rollout::Command::PromoteToGate { release: "7".to_owned() });
    let gate = |world: &World| {
        let release = world.release("7");
        release.next_gate().map(|gate| release.gate_name(gate))
    };
    // Nobody has come to it yet.
    assert_eq!(world.poll(&children[0]), "7");
    assert_eq!(gate(&world).as_deref(), Some("the roll-out"));
    world.command(&promote).unwrap();
    assert_eq!(gate(&world).as_deref(), Some("wave 2 of 3"));
    world.get_ready(&children[0], "One");
    assert_eq!(world.state_of("7"), "Running", "nobody is asked");
    end(&mut world, &children[0], "7", "One");
    roll_out(&mut world, &children[0]);
    // It soaks.
    assert_eq!(world.poll(&children[1]), "");
    world.command(&promote).unwrap();
    assert_eq!((world.poll(&children[1]), world.poll(&children[2])), ("7".to_owned(), String::new()));
    // What is behind it waits as before.
    world.get_ready(&children[1], "One");
    assert_eq!(world.state_of("7"), "AwaitingApproval");
    assert_eq!(gate(&world).as_deref(), Some("the roll-out"));
    world.command(&promote).unwrap();
    assert_eq!((world.state_of("7"), gate(&world).as_deref()), ("Running", Some("wave 3 of 3")));
    world.command(&promote).unwrap();
    // The wave that is new meets all barriers anew, and once they are open nothing is left to promote.
    assert_eq!(gate(&world).as_deref(), Some("the roll-out"));
    world.command(&promote).unwrap();
    assert_eq!(gate(&world), None);
    let decided = world.command(&promote);
    assert!(decided.is_ok() && gate(&world).is_none(), "said twice: {decided:?}");
    for child in &children[1..] {
        if *child == children[2] {
            world.get_ready(child, "One");
        }
        end(&mut world, child, "7", "One");
        roll_out(&mut world, child);
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert!(world.command(&promote).is_err());
}

#[test]
fn barrier_ignores_skipped_child_and_failed_child_may_retry() {
    let text = led("order: global_incremental, on_failure: continue", 1);
    let (mut world, children) = world_of(3, &text);
    world.get_ready(&children[0], "One");
    world.take(&children[1]);
    world.take(&children[2]);
    world.report(&children[2], "7", summary("One", Failure)).unwrap();
    let about = |child: &String| ("7".to_owned(), child.clone());
    let (release, child) = about(&children[2]);
    world.command(&Command::Members(members::Command::Retry { release, child })).unwrap();
    let (release, child) = about(&children[1]);
    world.command(&Command::Members(members::Command::Skip { release, child })).unwrap();
    insta::assert_snapshot!(world.waits_child("7", &children[1]), @"waits for its undo 7.undo to be fetched: offered 0s ago, gives up in 30m");
    // Its test runs on by itself, and is taken back.
    assert_eq!(world.may_end(&children[1], "7", "One"), Ok(true));
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(false));
    assert_eq!(world.get_ready(&children[2], "One"), "7.r2");
    assert_eq!(world.may_end(&children[0], "7", "One"), Ok(true));
    let gone =
        Command::Members(members::Command::Skip { release: "7".to_owned(), child: children[1].clone() });
    assert!(world.command(&gone).is_ok(), "said twice");
}

#[test]
fn late_joiner_takes_part_without_holding_open_barriers() {
    let text = led("order: global_incremental, late_joiners: include", 2);
    let (mut world, children) = world_of(1, &text);
    world.get_ready(&children[0], "One");
    end(&mut world, &children[0], "7", "One");
    let late = world.child("late");
    assert_eq!(world.poll(&late), "7");
    world.get_ready(&children[0], "Two");
    end(&mut world, &children[0], "7.2", "Two");
    roll_out(&mut world, &children[0]);
    // Everything is open for the late one.
    world.get_ready(&late, "One");
    end(&mut world, &late, "7", "One");
    world.get_ready(&late, "Two");
    end(&mut world, &late, "7.2", "Two");
    roll_out(&mut world, &late);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn who_comes_late_stays_out_unless_the_release_is_extended_and_comes_last_then() {
    let (mut world, children) = world_of(2, &led("order: location_sequential, start_at: [0, 0]", 1));
    let late = world.child("late");
    assert_eq!(world.poll(&late), "");
    world.command(&Command::Rollout(rollout::Command::Extend { release: "7".to_owned() })).unwrap();
    world.command(&Command::Rollout(rollout::Command::Extend { release: "7".to_owned() })).unwrap();
    insta::assert_snapshot!(world.waits_child("7", &late), @"has its turn in location 3 of 3");
    for child in [&children[0], &children[1], &late] {
        assert_eq!(world.get_ready(child, "One"), "7");
        end(&mut world, child, "7", "One");
        roll_out(&mut world, child);
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}
