//! Whose turn it is among releases of the same function.

use std::time::Duration;

use domain::release::command::Refusal;
use language::render::{ROLLOUT_STAGE, UNDO_STAGE};
use model::StageStatus;

use super::world::{WAIT, World, canary, strategy_text, summary};

use StageStatus::{Completed, Failure};

const TEN_MINUTES: Duration = Duration::from_mins(10);

/// Starts twenty minutes after the world begins, at 2023-11-14T22:13:20Z.
fn later(id: &str) -> String {
    let rollout = "rollout: {start: \"2023-11-14T22:33:20Z\"}\n";
    strategy_text(id, rollout, &["a"], &[["One", WAIT, "a", "rollout", "rollback"]])
}

fn states<const N: usize>(world: &World, ids: [&str; N]) -> [&'static str; N] {
    ids.map(|id| world.state_of(id))
}

fn finish(world: &mut World, child: &str, release: &str) {
    let (offer, _) = world.take(child);
    assert_eq!(offer, release);
    world.report(child, &offer, summary("", Completed)).unwrap();
}

#[test]
fn scheduled_release_blocks_others_only_once_its_start_has_come() {
    let mut world = World::new();
    let child = world.child("north");
    world.submit(&later("6"));
    world.submit(&canary("7", "a"));
    assert_eq!(states(&world, ["6", "7"]), ["Planned", "Running"]);
    world.take(&child);
    world.pass(TEN_MINUTES);
    assert_eq!(world.may_end(&child, "7", "Canary"), Ok(false));
    world.pass(TEN_MINUTES);
    insta::assert_snapshot!(world.waits("6"), @"waits behind release 7, which changes the same functions");
    // Its time has come, so who is submitted now is behind it.
    world.submit(&canary("8", "a"));
    insta::assert_snapshot!(world.waits("8"), @"waits behind release 6, 7, which changes the same functions");
    world.report(&child, "7", summary("Canary", Completed)).unwrap();
    world.roll_out(&child);
    assert_eq!(states(&world, ["6", "7", "8"]), ["Running", "over", "Planned"]);
    finish(&mut world, &child, "6");
    finish(&mut world, &child, "6.rollout");
    assert_eq!(states(&world, ["6", "8"]), ["over", "Running"]);
}

#[test]
fn what_began_later_counts_as_later_whatever_the_order_of_submission() {
    let mut world = World::new();
    let child = world.child("north");
    world.submit(&later("6"));
    world.submit(&canary("7", "a"));
    finish(&mut world, &child, "7");
    finish(&mut world, &child, "7.rollout");
    assert_eq!(world.runs(&child, "a"), "new of 7");
    world.pass(2 * TEN_MINUTES);
    // The one submitted first comes last: it is what runs now, and its undo is its own.
    finish(&mut world, &child, "6");
    assert_eq!(world.runs(&child, "a"), "base of 6");
    assert_eq!(world.poll(&child), "6.rollout");
    world.fetch(&child, "6.rollout").unwrap();
    // What is said of the earlier one now takes nothing back.
    assert!(world.report(&child, "7", summary("Canary", Failure)).is_err());
    world.abort("6");
    world.report(&child, "6.rollout", summary(ROLLOUT_STAGE, Completed)).unwrap_err();
    assert_eq!(world.runs(&child, "a"), "new of 6");
    assert_eq!(world.take(&child).0, "6.undo");
    world.report(&child, "6.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!((world.runs(&child, "a").as_str(), world.poll(&child).as_str()), ("base of 6", ""));
}

#[test]
fn an_undo_of_a_release_that_overtook_is_dropped_where_the_later_one_has_begun() {
    let mut world = World::new();
    let [child, silent] = ["north", "south"].map(|area| world.child(area));
    world.submit(&later("6"));
    world.submit(&canary("7", "a"));
    for child in [&child, &silent] {
        world.take(child);
    }
    world.abort("7");
    // One is back at once, the other is not heard of.
    assert_eq!(world.take(&child).0, "7.undo");
    world.report(&child, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    world.pass(4 * TEN_MINUTES);
    assert_eq!(world.ended(), ["Aborted, 1 unconfirmed"]);
    assert_eq!(world.take(&child).0, "6");
    // A late result of the one that overtook, from a child at which the other has begun: nothing to be undone.
    world.report(&child, "7", summary("Canary", Completed)).unwrap_err();
    assert_eq!(world.assignment("7", &child).pending_undo(), None);
    // Where the other has not begun it is still owed, and comes first.
    assert_eq!(world.take(&silent).0, "7.undo");
}

#[test]
fn one_that_does_not_want_to_wait_is_told_of_all_that_is_unfinished() {
    let mut world = World::new();
    world.child("north");
    world.submit(&later("6"));
    let text = |id: &str, on_conflict: &str| {
        canary(id, "a").replace("functions:", &format!("on_conflict: {on_conflict}\nfunctions:"))
    };
    let refused = world.submit_text(&text("7", "refuse")).unwrap_err();
    assert!(matches!(refused, Refusal::Conflict(_)), "{refused}");
    world.submit(&text("8", "supersede"));
    assert_eq!(states(&world, ["6", "8"]), ["over", "Running"]);
}

#[test]
fn how_many_did_not_confirm_follows_those_who_do_so_later() {
    let mut world = World::new();
    let [north, south] = ["north", "south"].map(|area| world.child(area));
    world.submit(&canary("7", "a"));
    for child in [&north, &south] {
        world.take(child);
    }
    world.abort("7");
    world.pass(4 * TEN_MINUTES);
    assert_eq!(world.ended(), ["Aborted, 2 unconfirmed"]);
    let mut shown = Vec::new();
    for child in [&north, &south] {
        shown.push(format!("{:?}", world.release("7").state));
        assert_eq!(world.take(child).0, "7.undo");
        world.report(child, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    }
    shown.push(format!("{:?}", world.release("7").state));
    insta::assert_snapshot!(shown.join("\n"), @"
    Over { end: Aborted, unconfirmed: 2 }
    Over { end: Aborted, unconfirmed: 1 }
    Over { end: Aborted, unconfirmed: 0 }
    ");
}
