//! Releases from above: barriers that the parent opens, one result per stage, and what is taken back.

#![allow(clippy::float_cmp, reason = "a minimum is one of the numbers it is the minimum of")]

use domain::release::{
    advance,
    change::Change,
    command::{Command, Refusal, Reply},
    ending::Cause,
    lifecycle,
    parent::{self, ParentOffer, aggregate, led},
    pause::{Pause, PausedBy},
    rollout,
    settings::Settings,
    stages,
    state::{ReleaseState, State},
    summary::{Histogram, Reported, Summary, Times},
};
use model::StageStatus;
use proptest::prelude::*;

use super::world::{
    AB, Calls, WAIT, World, canary, histogram, strategy_text, submission, summary, two_stage,
};

const AREA: &str =
    r#"{"type":"Polygon","coordinates":[[[13.3,52.4],[13.4,52.4],[13.4,52.5],[13.3,52.5],[13.3,52.4]]]}"#;

/// Submits what the parent offers.
fn offered(world: &mut World, text: &str) {
    let Command::Lifecycle(lifecycle::Command::Submit { mut submission, dry_run }) =
        submission(led(language::check(text).strategy.unwrap()), text)
    else {
        unreachable!()
    };
    submission.parent = Some(ParentOffer::new(format!("{}-above", submission.id)));
    world.command(&Command::Lifecycle(lifecycle::Command::Submit { submission, dry_run })).unwrap();
}

/// The results that the last command sent up: `0 Completed`.
fn reported(world: &World) -> Vec<String> {
    let said = world.changes.iter().filter_map(|change| match change {
        Change::Parent(parent::Change::StageReported { stage, status, .. }) => {
            Some(format!("{stage} {status}"))
        }
        _ => None,
    });
    said.collect()
}

fn signal(world: &mut World, release: &str, stage: u8, undo: bool) {
    world
        .command(&Command::Parent(parent::Command::End { release: release.to_owned(), stage, undo }))
        .unwrap();
}

/// Two children; each polled twice.
fn pair(world: &mut World) -> [String; 2] {
    [world.child(AREA), world.child(AREA)]
}

/// The stage that waits for the parent, and whether every child is ready.
fn above(world: &World, release: &str) -> Option<(String, bool)> {
    world.release(release).waits_for_parent().map(|waiting| (waiting.name, waiting.is_ready))
}

#[test]
fn parent_opens_barrier_and_stage_ends_after_rollout() {
    let mut world = World::new();
    let children = pair(&mut world);
    offered(&mut world, &canary("c", "a"));
    let first = world.get_ready(&children[0], "Canary");
    assert_eq!(above(&world, "c"), Some(("Canary".to_owned(), false)));
    world.get_ready(&children[1], "Canary");
    assert_eq!(above(&world, "c"), Some(("Canary".to_owned(), true)));
    assert!(!world.may_end(&children[0], &first, "Canary").unwrap(), "nobody opens it but the parent");
    insta::assert_snapshot!(world.waits_child("c", &children[0]), @"is ready to end stage Canary, which waits: the parent has to end the stage, gives up in 15m unless it calls");
    signal(&mut world, "c", 0, false);
    assert_eq!(above(&world, "c"), Some(("Canary".to_owned(), false)));
    for child in &children {
        assert!(world.may_end(child, &first, "Canary").unwrap());
        world.report(child, &first, summary("Canary", StageStatus::Completed)).unwrap();
        assert!(reported(&world).is_empty());
    }
    for child in &children {
        let (offer, _) = world.take(child);
        world.report(child, &offer, summary("choirmaster rollout", StageStatus::Completed)).unwrap();
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(reported(&world), ["0 Completed"]);
    signal(&mut world, "c", 0, false);
    assert!(world.changes.is_empty(), "said twice");
}

#[test]
fn each_stage_is_reported_once_when_it_is_over_for_all() {
    let mut world = World::new();
    let children = pair(&mut world);
    offered(&mut world, &two_stage("t", "a"));
    let offers = [world.get_ready(&children[0], "First"), world.get_ready(&children[1], "First")];
    signal(&mut world, "t", 0, false);
    world.report(&children[0], &offers[0], summary("First", StageStatus::Completed)).unwrap();
    assert!(reported(&world).is_empty());
    world.report(&children[1], &offers[1], summary("First", StageStatus::Completed)).unwrap();
    assert_eq!(reported(&world), ["0 Completed"]);
    // The second stage is of type A/B: this manager leads it alone.
    let second = [world.get_ready(&children[0], "Second"), world.get_ready(&children[1], "Second")];
    assert_eq!(above(&world, "t"), Some(("Second".to_owned(), false)));
    for (child, offer) in children.iter().zip(&second) {
        assert!(world.may_end(child, offer, "Second").unwrap());
        world.report(child, offer, summary("Second", StageStatus::Completed)).unwrap();
    }
    for child in &children {
        let (offer, _) = world.take(child);
        world.report(child, &offer, summary("choirmaster rollout", StageStatus::Completed)).unwrap();
    }
    assert_eq!(reported(&world), ["1 Completed"]);
}

/// The signal was for the stage before: here one opened the roll-out.
#[test]
fn a_barrier_stays_closed_when_the_last_in_the_stage_before_it_is_given_up() {
    let stages = [["One", WAIT, "a", "Two", "rollback"], ["Two", WAIT, "a", "rollout", "rollback"]];
    let block = "rollout: {order: global_incremental, max_timed_out: 100%, on_failure: continue}\n";
    let mut world = World::new();
    let children = pair(&mut world);
    offered(&mut world, &strategy_text("g", block, &["a"], &stages));
    let offers = [world.get_ready(&children[0], "One"), world.get_ready(&children[1], "One")];
    signal(&mut world, "g", 0, false);
    world.report(&children[0], &offers[0], summary("One", StageStatus::Completed)).unwrap();
    let second = world.get_ready(&children[0], "Two");
    for _ in 0..20 {
        world.pass(std::time::Duration::from_mins(1));
        assert!(!world.may_end(&children[0], &second, "Two").unwrap(), "nobody opens it but the parent");
    }
    assert_eq!(world.release("g").counts.timed_out, 1);
    assert_eq!(above(&world, "g"), Some(("Two".to_owned(), true)));
    signal(&mut world, "g", 1, false);
    assert!(world.may_end(&children[0], &second, "Two").unwrap());
}

#[test]
fn a_failure_below_is_the_failure_of_the_stage_and_the_others_go_back() {
    let mut world = World::new();
    let children = pair(&mut world);
    offered(&mut world, &two_stage("f", "a"));
    let bad = world.get_ready(&children[0], "First");
    world.take(&children[1]);
    world.report(&children[0], &bad, summary("First", StageStatus::Failure)).unwrap();
    assert_eq!(world.state_of("f"), "RollingBack");
    assert!(reported(&world).is_empty(), "not before it is taken back");
    for child in &children {
        let offer = world.poll(child);
        if !offer.is_empty() {
            world.fetch(child, &offer).unwrap();
            world.report(child, &offer, summary("choirmaster undo", StageStatus::Completed)).unwrap();
        }
    }
    assert_eq!(world.ended(), ["RolledBack, 0 unconfirmed"]);
    assert_eq!(reported(&world), ["0 Failure"]);
}

#[test]
fn stage_ended_early_by_parent_ends_for_later_children_too() {
    let mut world = World::new();
    let children = pair(&mut world);
    offered(&mut world, &canary("e", "a"));
    let (offer, _) = world.take(&children[0]);
    signal(&mut world, "e", 0, false);
    assert!(world.may_end(&children[0], &offer, "Canary").unwrap());
    world.get_ready(&children[1], "Canary");
    assert!(world.may_end(&children[1], &offer, "Canary").unwrap());
}

#[test]
fn nobody_eligible_is_a_success_without_numbers() {
    let mut world = World::new();
    offered(&mut world, &two_stage("n", "a"));
    assert_eq!(reported(&world), ["0 Completed", "1 Completed"]);
    let nothing = aggregate(StageStatus::Completed, &[]);
    assert_eq!((nothing.f2_calls, nothing.f2_times_summary.median), (Some(0), -1.0));
}

#[test]
fn the_parent_takes_it_back_with_the_signal() {
    let mut world = World::new();
    let children = pair(&mut world);
    offered(&mut world, &canary("u", "a"));
    world.get_ready(&children[0], "Canary");
    signal(&mut world, "u", 0, true);
    assert_eq!(world.state_of("u"), "RollingBack");
    let (offer, _) = world.take(&children[0]);
    world.report(&children[0], &offer, summary("choirmaster undo", StageStatus::Completed)).unwrap();
    assert_eq!(reported(&world), ["0 Failure"]);
}

/// The parent's order `offer` to take a release back; whether it will hear when that is done.
fn undo(world: &mut World, release: &str, offer: &str) -> bool {
    let (release, offer) = (release.to_owned(), offer.to_owned());
    match world.command(&Command::Parent(parent::Command::Undo { release, offer })).unwrap() {
        Reply::TakenBack { is_under_way, .. } => is_under_way,
        other => panic!("{other:?}"),
    }
}

/// The orders to take something back that the last command answered.
fn undone(world: &World) -> Vec<&str> {
    let said = world.changes.iter().filter_map(|change| match change {
        Change::Parent(parent::Change::UndoReported { offer, .. }) => Some(offer.as_str()),
        _ => None,
    });
    said.collect()
}

/// Submits what the parent offers in the full language.
fn offered_by_parent(world: &mut World, text: &str) {
    let checked = language::check_from_parent(text.as_bytes());
    let Command::Lifecycle(lifecycle::Command::Submit { mut submission, dry_run }) =
        submission(led(checked.strategy.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics))), text)
    else {
        unreachable!()
    };
    submission.parent = Some(ParentOffer::new(format!("{}-above", submission.id)));
    world.command(&Command::Lifecycle(lifecycle::Command::Submit { submission, dry_run })).unwrap();
}

/// A child goes through the canary and the roll-out.
fn rolls_out(world: &mut World, child: &str) {
    let (offer, _) = world.take(child);
    world.report(child, &offer, summary("Canary", StageStatus::Completed)).unwrap();
    let (offer, _) = world.take(child);
    world.report(child, &offer, summary("choirmaster rollout", StageStatus::Completed)).unwrap();
}

#[test]
fn a_release_that_is_over_is_taken_back_when_the_parent_orders_it() {
    let mut world = World::new();
    let children = pair(&mut world);
    offered_by_parent(&mut world, &(canary("d", "a").replace("WaitForSignal", "A/B") + "rollout: {}\n"));
    for child in &children {
        rolls_out(&mut world, child);
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(reported(&world), ["0 Completed"]);
    // One of them has something later by now.
    world.submit(&canary("later", "a"));
    world.succeed(&children[0], "Canary");

    assert!(undo(&mut world, "d", "21.undo"));
    assert!(undo(&mut world, "d", "21.undo"), "said twice");
    let (offer, _) = world.take(&children[1]);
    assert_eq!(offer, "d.undo");
    world.report(&children[1], &offer, summary("choirmaster undo", StageStatus::Completed)).unwrap();
    assert!(world.ended().contains(&"RolledBack, 0 unconfirmed".to_owned()), "{:?}", world.ended());
    assert_eq!(undone(&world), ["21.undo"]);
    assert!(reported(&world).is_empty(), "its stages were reported before");
    assert!(!undo(&mut world, "d", "21.undo"), "nothing is left to be done");
    assert_eq!(world.runs(&children[0], "a"), "new of later");
}

/// The parent goes on with its waves as it counted them before.
fn go_on(offer: &str, waves: u32) -> Command {
    let (amounts, liveness_checks) = (Vec::new(), std::collections::BTreeMap::new());
    Command::Parent(parent::Command::Continue {
        release: "w".into(),
        offer: offer.into(),
        waves,
        retries: false,
        amounts,
        liveness_checks,
    })
}

#[test]
fn the_parent_opens_the_waves_and_each_is_reported_under_its_own_offer() {
    let mut world = World::new();
    let children = pair(&mut world);
    let block = "rollout: {order: waves, waves: [1, 100%]}\nfrom_above: {waves: 1}\n";
    offered_by_parent(&mut world, &(canary("w", "a").replace("WaitForSignal", "A/B") + block));
    rolls_out(&mut world, &children[0]);
    assert_eq!(reported(&world), ["0 Completed"]);
    assert_eq!(world.poll(&children[1]), "", "its wave opens when the parent says so");
    insta::assert_snapshot!(world.waits("w"), @"1 of 2 children have ended, 1 has yet to begin; wave 1 of 2; every child is ready: the parent has to open wave 2 of 2");
    let second = go_on("21.r2", 2);
    world.command(&second).unwrap();
    assert!(reported(&world).is_empty());
    world.command(&second).unwrap();
    assert!(world.changes.is_empty(), "said twice");
    assert_eq!(above(&world, "w"), Some(("Canary".to_owned(), false)));
    rolls_out(&mut world, &children[1]);
    assert_eq!(reported(&world), ["0 Completed"]);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    // One that had fewer agents than it was planned with is done before its parent is.
    let last = go_on("21.r3", 3);
    world.command(&last).unwrap();
    assert_eq!(reported(&world), ["0 Completed"]);
}

/// How an operator below is refused.
fn refused(world: &mut World, command: &Command) -> String {
    let refusal = world.command(command).unwrap_err();
    assert!(matches!(refusal, Refusal::HeldByParent { .. }), "{refusal}");
    refusal.to_string()
}

fn hold(world: &mut World, release: &str, hold: bool) {
    world.command(&Command::Parent(parent::Command::Hold { release: release.to_owned(), hold })).unwrap();
}

#[test]
fn parent_barrier_stays_closed_when_last_child_fails_earlier_stage() {
    let mut world = World::new();
    let children = pair(&mut world);
    let stages = [["First", AB, "a", "Second", "rollback"], ["Second", WAIT, "a", "rollout", "rollback"]];
    let led = "rollout: {order: parallel, max_failed: 100%, on_failure: continue}\n";
    offered(&mut world, &strategy_text("t", led, &["a"], &stages));
    let first = world.get_ready(&children[0], "First");
    world.report(&children[0], &first, summary("First", StageStatus::Completed)).unwrap();
    let second = world.get_ready(&children[0], "Second");
    let (last, _) = world.take(&children[1]);
    world.report(&children[1], &last, summary("First", StageStatus::Failure)).unwrap();
    assert!(!world.may_end(&children[0], &second, "Second").unwrap(), "nobody opens it but the parent");
    assert_eq!(above(&world, "t"), Some(("Second".to_owned(), true)));
    signal(&mut world, "t", 1, false);
    assert!(world.may_end(&children[0], &second, "Second").unwrap());
}

#[test]
fn a_barrier_that_the_parent_holds_is_opened_by_no_promotion_below() {
    let mut world = World::new();
    let children = pair(&mut world);
    offered(&mut world, &two_stage("p", "a"));
    let promote = Command::Rollout(rollout::Command::Promote { release: "p".into() });
    insta::assert_snapshot!(refused(&mut world, &promote), @"release p came from the manager above, which decides on stage Second: do it there");
    let offers = children.each_ref().map(|child| world.get_ready(child, "First"));
    insta::assert_snapshot!(refused(&mut world, &promote), @"release p came from the manager above, which decides on stage Second: do it there");
    for (child, offer) in children.iter().zip(&offers) {
        assert!(!world.may_end(child, offer, "First").unwrap(), "nobody passed the stage");
    }
    // What follows the barrier it leads alone: there it can be promoted.
    signal(&mut world, "p", 0, false);
    world.command(&promote).unwrap();
    assert_eq!(world.state_of("p"), "Running");
}

#[test]
fn locations_below_are_promoted_as_far_as_the_barrier_that_the_parent_holds() {
    let mut world = World::new();
    let children = pair(&mut world);
    let block = "rollout: {order: location_sequential, start_at: [13.0, 52.0]}\n";
    offered_by_parent(&mut world, &(two_stage("l", "a") + block));
    assert_eq!(world.poll(&children[1]), "", "its turn comes later");
    world.command(&Command::Rollout(rollout::Command::Promote { release: "l".into() })).unwrap();
    let offers = children.each_ref().map(|child| world.get_ready(child, "First"));
    for (child, offer) in children.iter().zip(&offers) {
        assert!(!world.may_end(child, offer, "First").unwrap(), "the barrier is the parent's");
    }
    refused(&mut world, &Command::Rollout(rollout::Command::Promote { release: "l".into() }));
}

#[test]
fn what_the_parent_plans_is_skipped_ended_and_extended_above_only() {
    let mut world = World::new();
    let children = pair(&mut world);
    let block = "rollout: {order: waves, waves: [1, 100%]}\nfrom_above: {waves: 1}\n";
    offered_by_parent(&mut world, &(two_stage("s", "a") + block));
    world.get_ready(&children[0], "First");
    let said = [
        Command::Stages(stages::Command::Skip { release: "s".into(), stage: "Second".into() }),
        Command::Stages(stages::Command::End { release: "s".into(), stage: "First".into() }),
        Command::Rollout(rollout::Command::Extend { release: "s".into() }),
        Command::Rollout(rollout::Command::Promote { release: "s".into() }),
    ]
    .map(|command| refused(&mut world, &command));
    insta::assert_snapshot!(said.join("\n"), @"
    release s came from the manager above, which decides on which stages are skipped: do it there
    release s came from the manager above, which decides on the end of stage \"First\": do it there
    release s came from the manager above, which decides on who has a turn in which wave: do it there
    release s came from the manager above, which decides on stage Second: do it there
    ");
    let skip = Command::Parent(parent::Command::Skip { release: "s".into(), stage: "Second".into() });
    world.command(&skip).unwrap();
    assert_eq!(world.release("s").skipped_names(), ["Second"]);
}

#[test]
fn what_the_parent_paused_is_resumed_by_nobody_here_and_by_whom_it_was_paused() {
    let mut world = World::new();
    let children = pair(&mut world);
    offered(&mut world, &(canary("h", "a").replace("WaitForSignal", "A/B")));
    let offer = world.get_ready(&children[0], "Canary");
    let resume = Command::Lifecycle(lifecycle::Command::Resume { release: "h".into() });

    hold(&mut world, "h", true);
    insta::assert_snapshot!(refused(&mut world, &resume), @"release h came from the manager above, which decides on the pause: do it there");
    // Paused by both: when it goes on here, it is still paused above.
    world.pause("h");
    world.command(&resume).unwrap();
    assert_eq!(world.state_of("h"), "Paused");
    insta::assert_snapshot!(world.waits("h"), @"is paused by the manager above: it is resumed or aborted there");
    assert!(!world.may_end(&children[0], &offer, "Canary").unwrap(), "nobody passes a stage meanwhile");
    // The other way about.
    world.pause("h");
    hold(&mut world, "h", false);
    assert_eq!(world.state_of("h"), "Paused");
    world.command(&resume).unwrap();
    assert_eq!(world.state_of("h"), "Running");
}

/// Two children, and a release of the parent that the limit has paused here; then the parent's own is paused too.
fn paused_at_limit_and_held() -> (World, [String; 2]) {
    let mut world = World::new();
    let children = pair(&mut world);
    let text =
        canary("h", "a").replace("WaitForSignal", "A/B") + "rollout: {order: parallel, on_failure: pause}\n";
    offered(&mut world, &text);
    fail(&mut world, &children[0]);
    assert!(world.waits("h").contains("1 failed, max_failed is 0"), "{}", world.waits("h"));
    hold(&mut world, "h", true);
    (world, children)
}

fn fail(world: &mut World, child: &str) {
    let (offer, _) = world.take(child);
    world.report(child, &offer, summary("Canary", StageStatus::Failure)).unwrap();
}

#[test]
fn local_acceptance_under_parent_hold_survives_another_local_pause() {
    let (mut world, _) = paused_at_limit_and_held();
    world.resume("h");
    world.pause("h");
    world.resume("h");
    assert_eq!(world.state_of("h"), "Paused", "the parent holds it");
    hold(&mut world, "h", false);
    assert_eq!(world.state_of("h"), "Running");

    // The parent goes on in between.
    let (mut world, _) = paused_at_limit_and_held();
    world.resume("h");
    world.pause("h");
    hold(&mut world, "h", false);
    assert_eq!(world.state_of("h"), "Paused");
    world.resume("h");
    assert_eq!(world.state_of("h"), "Running");
}

#[test]
fn nothing_is_accepted_by_the_parent_that_goes_on_nor_by_a_pause() {
    let (mut world, _) = paused_at_limit_and_held();
    hold(&mut world, "h", false);
    assert_eq!(world.state_of("h"), "Paused", "nobody here has accepted it");
    world.resume("h");
    assert_eq!(world.state_of("h"), "Running");

    let mut world = World::new();
    let children = pair(&mut world);
    let text =
        canary("h", "a").replace("WaitForSignal", "A/B") + "rollout: {order: parallel, on_failure: pause}\n";
    offered(&mut world, &text);
    let (offer, _) = world.take(&children[0]);
    hold(&mut world, "h", true);
    world.report(&children[0], &offer, summary("Canary", StageStatus::Failure)).unwrap();
    world.pause("h");
    world.resume("h");
    hold(&mut world, "h", false);
    assert!(world.waits("h").contains("1 failed, max_failed is 0"), "{}", world.waits("h"));
}

#[test]
fn release_resumed_under_parent_hold_overrides_missing_liveness_evidence() {
    let (world, _) = paused_at_limit_and_held();
    let mut release = world.release("h").clone();
    // Releases of a parent are proven there, so this is not seen in any story.
    release.state = ReleaseState::Paused(Pause::new(PausedBy::Unproven, "unproven: 0 agents have succeeded"));
    let key = release.key;
    let mut state = State::new(Settings::default());
    state.hold(release);
    let said = [
        Command::Lifecycle(lifecycle::Command::Resume { release: "h".into() }),
        Command::Parent(parent::Command::Hold { release: "h".into(), hold: false }),
    ];
    for command in said {
        let (changes, answer) = advance(&mut state, &Calls::default(), &command, world.now);
        assert!(answer.is_ok(), "{answer:?}");
        assert!(!changes.is_empty());
    }
    let release = state.release(key).unwrap();
    assert_eq!(release.state, ReleaseState::Running);
    assert!(release.gates.stand.waived, "to resume is to go on although too few have succeeded");
}

#[test]
fn what_somebody_here_paused_in_the_words_of_the_parent_is_theirs_to_resume() {
    let mut world = World::new();
    let children = pair(&mut world);
    offered(&mut world, &(canary("h", "a").replace("WaitForSignal", "A/B")));
    world.get_ready(&children[0], "Canary");
    let pause = Command::Lifecycle(lifecycle::Command::Pause {
        release: "h".into(),
        reason: "the manager above paused it".to_owned(),
    });
    let resume = Command::Lifecycle(lifecycle::Command::Resume { release: "h".into() });

    world.command(&pause).unwrap();
    insta::assert_snapshot!(world.waits("h"), @"is paused (the manager above paused it): resume or abort it");
    world.command(&resume).unwrap();
    assert_eq!(world.state_of("h"), "Running");
    // Beside a pause of the parent it stays when the parent goes on.
    hold(&mut world, "h", true);
    world.command(&pause).unwrap();
    hold(&mut world, "h", false);
    assert_eq!(world.state_of("h"), "Paused");
    world.command(&resume).unwrap();
    assert_eq!(world.state_of("h"), "Running");
}

#[test]
fn a_release_that_the_parent_paused_before_it_began_begins_when_it_goes_on() {
    let mut world = World::new();
    let children = pair(&mut world);
    world.submit(&canary("first", "a"));
    offered(&mut world, &canary("held", "a"));
    hold(&mut world, "held", true);
    world.abort("first");
    assert_eq!(world.state_of("held"), "Planned");
    insta::assert_snapshot!(world.waits("held"), @"starts when the manager above goes on with it: it is paused there");
    hold(&mut world, "held", false);
    assert_eq!(world.state_of("held"), "Running");
    assert_eq!(world.take(&children[0]).0, "held");
}

#[test]
fn a_part_that_the_parent_will_not_hear_of_is_taken_back() {
    let mut world = World::new();
    let children = pair(&mut world);
    offered(&mut world, &canary("d", "a"));
    world.submit(&canary("next", "a"));
    world.take(&children[0]);
    let why = "the manager above refuses to hear of it (409: no)".to_owned();
    world.command(&Command::Parent(parent::Command::Disowned { release: "d".into(), why })).unwrap();
    let (offer, _) = world.take(&children[0]);
    world.report(&children[0], &offer, summary("choirmaster undo", StageStatus::Completed)).unwrap();
    assert!(world.ended().contains(&"RolledBack, 0 unconfirmed".to_owned()), "{:?}", world.ended());
    assert_eq!(world.release("d").ending.as_ref().unwrap().cause, Cause::Disowned);
    assert_eq!(world.state_of("next"), "Running");
}

#[test]
fn stage_before_barrier_cannot_be_ended_manually_with_managers() {
    let mut world = World::new();
    let manager = world.manager(AREA, 4);
    world.submit(&(two_stage("g", "a") + "rollout: {order: global_incremental, soak: 10m}\n"));
    let offer = world.poll(&manager);
    world.fetch(&manager, &offer).unwrap();
    let end = Command::Stages(stages::Command::End { release: "g".into(), stage: "First".into() });
    assert!(matches!(world.command(&end), Err(Refusal::WrongState { .. })));
    assert!(!world.may_end(&manager, &offer, "First").unwrap());
}

#[test]
fn what_only_a_parent_may_say_no_developer_can() {
    let text = canary("x", "a") + "from_above: {waves: 1}\n";
    let found = language::check_submission(text.as_bytes());
    assert!(found.strategy.is_none());
    assert!(found.diagnostics.iter().any(|found| found.code == "unknown-key"), "{:#?}", found.diagnostics);
    assert!(language::check_from_parent(text.as_bytes()).strategy.is_some());
}

/// What a child may report of one version.
fn of_a_child() -> impl Strategy<Value = Summary> {
    let counts = proptest::collection::vec(0_u64..1_000, 4);
    (counts, 0.0..100.0_f64, 0.0..100.0_f64, 0.0..100.0_f64, 0_u64..50).prop_map(
        |(counts, a, b, c, errors)| {
            let mut sorted = [a, b, c];
            sorted.sort_by(f64::total_cmp);
            let good: u64 = counts.iter().sum();
            let calls = good + errors;
            let none = Times { median: -1.0, minimum: -1.0, maximum: -1.0 };
            let times = Times { minimum: sorted[0], median: sorted[1], maximum: sorted[2] };
            Summary {
                f2_times_summary: if good == 0 { none } else { times },
                f2_calls: Some(calls),
                f2_errors: Some(errors),
                f2_err_rate: if calls == 0 { 0.0 } else { errors as f64 / calls as f64 },
                f2_histogram: Some(Box::new(histogram(&[10.0, 50.0, 90.0], &counts))),
                ..summary("", StageStatus::Completed)
            }
        },
    )
}

proptest! {
    #[test]
    fn the_sum_over_the_children_is_what_is_reported(children in proptest::collection::vec(of_a_child(), 1..20)) {
        let sum = aggregate(StageStatus::Completed, &children);
        let total = |count: fn(&Summary) -> Option<u64>| children.iter().map(|child| count(child).unwrap()).sum::<u64>();
        let (calls, errors) = (total(|child| child.f2_calls), total(|child| child.f2_errors));
        prop_assert_eq!((sum.f2_calls, sum.f2_errors), (Some(calls), Some(errors)));
        let rate = if calls == 0 { 0.0 } else { errors as f64 / calls as f64 };
        prop_assert!((sum.f2_err_rate - rate).abs() < 1e-9);
        let with_calls: Vec<Times> =
            children.iter().map(|child| child.f2_times_summary).filter(|times| times.minimum >= 0.0).collect();
        let times = sum.f2_times_summary;
        if with_calls.is_empty() {
            prop_assert_eq!(times.minimum, -1.0);
        } else {
            prop_assert_eq!(times.minimum, with_calls.iter().map(|t| t.minimum).fold(f64::MAX, f64::min));
            prop_assert_eq!(times.maximum, with_calls.iter().map(|t| t.maximum).fold(0.0, f64::max));
            prop_assert!(times.minimum <= times.median && times.median <= times.maximum);
        }
        let counts_of = |summary: &Summary| match summary.f2_histogram.as_deref() {
            Some(Reported::Bounds(Histogram { counts, .. })) => counts.clone(),
            other => panic!("{other:?}"),
        };
        let counts = counts_of(&sum);
        for (at, count) in counts.iter().enumerate() {
            let of = |child: &Summary| counts_of(child)[at];
            prop_assert_eq!(*count, children.iter().map(of).sum::<u64>());
        }
    }
}
