//! Nobody acts on a release that they have not seen.

use domain::release::{
    command::{Command, Refusal},
    lifecycle, members,
    revision::{Tag, is_decided_on},
    rollout,
    state::{ReleaseState, Revision},
};
use language::render::{ROLLOUT_STAGE, UNDO_STAGE};
use model::{ReleaseKey, StageStatus};
use proptest::prelude::*;

use super::world::{WAIT, World, strategy_text, summary};

use StageStatus::{Completed, SuccessWaiting};

/// Two waves, and somebody says yes before the second.
fn waiting() -> (World, Vec<String>) {
    let rollout = "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave}\n";
    let mut world = World::new();
    let children = (0..3).map(|child| world.child(&format!("area {child}"))).collect::<Vec<_>>();
    world.submit(&strategy_text("7", rollout, &["a"], &[["One", WAIT, "a", "rollout", "rollback"]]));
    finish(&mut world, &children);
    (world, children)
}

/// Whoever is offered something does it to its end.
fn finish(world: &mut World, children: &[String]) {
    for child in children {
        while !world.poll(child).is_empty() {
            let (offer, _) = world.take(child);
            let stage = match () {
                () if offer.ends_with("rollout") => ROLLOUT_STAGE,
                () if offer.ends_with("undo") => UNDO_STAGE,
                () => "One",
            };
            world.report(child, &offer, summary(stage, SuccessWaiting)).unwrap();
            if world.may_end(child, &offer, stage) != Ok(true) {
                break;
            }
            world.report(child, &offer, summary(stage, Completed)).unwrap();
        }
    }
}

fn approve() -> Command {
    Command::Rollout(rollout::Command::Approve { release: "7".to_owned() })
}

fn abort() -> Command {
    Command::Lifecycle(lifecycle::Command::Abort { release: "7".to_owned(), note: None, by: None })
}

fn pause() -> Command {
    Command::Lifecycle(lifecycle::Command::Pause { release: "7".to_owned(), reason: "wait".to_owned() })
}

fn resume() -> Command {
    Command::Lifecycle(lifecycle::Command::Resume { release: "7".to_owned() })
}

fn guarded(tags: &[Tag], then: Command) -> Command {
    Command::Guarded { release: "7".to_owned(), tags: tags.to_vec(), then: Box::new(then) }
}

fn is_changed<T: std::fmt::Debug>(answer: &Result<T, Refusal>) -> bool {
    matches!(answer, Err(Refusal::Changed { .. }))
}

#[test]
fn an_approval_counts_for_the_gate_that_was_seen_and_once() {
    let (mut world, _) = waiting();
    assert!(matches!(world.release("7").state, ReleaseState::AwaitingApproval { .. }));
    let seen = world.release("7").tag();
    world.command(&guarded(&[seen], approve())).unwrap();
    let after = world.release("7").clone();
    assert_ne!(after.tag(), seen);
    // Sent twice, or by somebody else who saw the same.
    for action in [approve(), abort(), pause()] {
        let answer = world.command(&guarded(&[seen], action));
        assert!(is_changed(&answer), "{answer:?}");
        assert!(world.changes.is_empty());
        assert_eq!(*world.release("7"), after);
    }
    world.command(&guarded(&[after.tag()], pause())).unwrap();
}

#[test]
fn a_release_that_looks_as_before_is_not_the_one_that_was_seen() {
    let (mut world, children) = waiting();
    let seen = world.release("7").tag();
    let state = world.release("7").state.clone();
    // The gate is left for a child that tries again, and reached again.
    let release = "7".to_owned();
    world
        .command(&Command::Members(members::Command::Skip {
            release: release.clone(),
            child: children[1].clone(),
        }))
        .unwrap();
    let skipped = world.release("7").tag();
    assert_ne!(skipped, seen, "an operator did something to one of its children");
    world.command(&pause()).unwrap();
    world.command(&resume()).unwrap();
    finish(&mut world, &children);
    assert_eq!(std::mem::discriminant(&world.release("7").state), std::mem::discriminant(&state));
    for old in [seen, skipped] {
        assert!(is_changed(&world.command(&guarded(&[old], approve()))));
    }
}

/// Came to its first gate, was approved, came to the next: with the tags it had.
#[test]
fn whoever_stops_a_release_means_it_however_far_it_went_on_by_itself() {
    for stop in [pause(), abort()] {
        let mut world = World::new();
        let children = (0..2).map(|child| world.child(&format!("area {child}"))).collect::<Vec<_>>();
        let rollout = "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave}\n";
        world.submit(&strategy_text("7", rollout, &["a"], &[["One", WAIT, "a", "rollout", "rollback"]]));
        let seen = world.release("7").tag();
        finish(&mut world, &children);
        assert!(matches!(world.release("7").state, ReleaseState::AwaitingApproval { .. }));
        assert_ne!(world.release("7").tag(), seen, "it came to its next wave");
        assert!(is_changed(&world.command(&guarded(&[seen], approve()))), "that says more than it knew");
        // Another release's, or one that it has not come to, says nothing.
        let other = Tag { release: ReleaseKey(seen.release.0 + 1), ..seen };
        let next = Revision { number: world.release("7").tag().revision.number + 1, ..seen.revision };
        for wrong in [other, Tag { revision: next, ..seen }] {
            assert!(is_changed(&world.command(&guarded(&[wrong], stop.clone()))));
        }
        world.command(&guarded(&[seen], stop)).unwrap();
        let state = &world.release("7").state;
        assert!(matches!(state, ReleaseState::Paused(_) | ReleaseState::RollingBack { .. }), "{state:?}");
    }
}

#[test]
fn whoever_stops_a_release_hears_first_of_what_somebody_did_to_it() {
    let to_gate = Command::Rollout(rollout::Command::PromoteToGate { release: "7".to_owned() });
    let everything = Command::Rollout(rollout::Command::Promote { release: "7".to_owned() });
    for act in [approve(), to_gate, everything, pause()] {
        for stop in [pause(), abort()] {
            let (mut world, _) = waiting();
            let seen = world.release("7").tag();
            world.command(&act).unwrap();
            assert!(is_changed(&world.command(&guarded(&[seen], stop.clone()))), "{act:?}, {stop:?}");
            let now = world.release("7").tag();
            let answer = world.command(&guarded(&[now], stop));
            assert!(!is_changed(&answer), "{act:?}: {answer:?}");
        }
    }
}

#[test]
fn whoever_stops_a_release_hears_first_that_it_is_tried_again() {
    for stop in [pause(), abort()] {
        let mut world = World::new();
        let (one, _two) = (world.child("area 1"), world.child("area 2"));
        let rollout = "rollout: {order: parallel, max_failed: 100%}
";
        world.submit(&strategy_text("7", rollout, &["a"], &[["One", WAIT, "a", "rollout", "rollback"]]));
        let (offer, _) = world.take(&one);
        world.report(&one, &offer, summary("One", StageStatus::Failure)).unwrap();
        let seen = world.release("7").tag();
        world.retry("7").unwrap();
        assert!(is_changed(&world.command(&guarded(&[seen], stop.clone()))), "{stop:?}");
        let now = world.release("7").tag();
        world.command(&guarded(&[now], stop)).unwrap();
    }
}

#[test]
fn tag_of_finished_release_is_checked_even_without_effect() {
    let (mut world, children) = waiting();
    let seen = world.release("7").tag();
    world.command(&abort()).unwrap();
    finish(&mut world, &children);
    assert!(is_changed(&world.command(&guarded(&[seen], abort()))));
    let now = world.release("7").tag();
    world.command(&guarded(&[seen, now], abort())).unwrap();
    assert_eq!(world.release("7").tag(), now, "nothing was left to do");
    assert!(is_changed(&world.command(&guarded(&[], abort()))), "none of its tags was seen");
    let unknown = Command::Guarded { release: "8".to_owned(), tags: vec![now], then: Box::new(abort()) };
    assert!(matches!(world.command(&unknown), Err(Refusal::UnknownRelease(_))));
}

#[test]
fn the_tag_moves_with_what_is_decided_on_and_with_nothing_else() {
    let mut world = World::new();
    let children = (0..3).map(|child| world.child(&format!("area {child}"))).collect::<Vec<_>>();
    let rollout = "rollout: {order: waves, waves: [1, 100%], approval: before_each_wave}\n";
    world.submit(&strategy_text("7", rollout, &["a"], &[["One", WAIT, "a", "rollout", "rollback"]]));
    let (mut moved, mut stayed) = (0, 0);
    for _ in 0..40 {
        for child in &children {
            let before = world.release("7").tag();
            let offer = world.poll(child);
            let moves = world.changes.iter().any(is_decided_on);
            assert_eq!(world.release("7").tag() != before, moves, "{:?}", world.changes);
            if moves {
                moved += 1;
            } else {
                stayed += 1;
            }
            let before = world.release("7").tag();
            if !offer.is_empty() {
                finish(&mut world, std::slice::from_ref(child));
            }
            moved += usize::from(world.release("7").tag() != before);
        }
        if matches!(world.release("7").state, ReleaseState::AwaitingApproval { .. }) {
            world.command(&approve()).unwrap();
        }
    }
    assert!(moved > 1 && stayed > 50, "{moved} {stayed}");
}

proptest! {
    #[test]
    fn a_tag_is_read_as_it_is_written(release in any::<u32>(), number in any::<u32>(), commit in any::<u64>()) {
        let tag = Tag { release: ReleaseKey(release), revision: Revision { number, commit } };
        prop_assert_eq!(tag.to_string().parse(), Ok(tag));
    }

    #[test]
    fn what_is_read_as_a_tag_is_written_so(text in "[0-9+-]{0,12}|\\PC{0,12}") {
        if let Ok(tag) = text.parse::<Tag>() {
            prop_assert_eq!(tag.to_string(), text);
        }
    }
}
