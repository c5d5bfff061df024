//! Which releases may leave the history, and what that leaves.

use domain::release::{
    advance,
    command::{Command, Refusal},
    lifecycle,
};
use model::StageStatus;

use super::world::{World, canary, summary};

const AREA: &str =
    r#"{"type":"Polygon","coordinates":[[[13.3,52.4],[13.4,52.4],[13.4,52.5],[13.3,52.5],[13.3,52.4]]]}"#;

/// Whether it is gone then.
fn remove(world: &mut World, id: &str) -> bool {
    world.command(&Command::Lifecycle(lifecycle::Command::Remove { release: id.to_owned() })).unwrap();
    !world.state.known.contains_key(id)
}

fn released(world: &mut World, child: &str, id: &str, function: &str) {
    world.submit(&canary(id, function));
    world.take(child);
    world.report(child, id, summary("Canary", StageStatus::Completed)).unwrap();
    world.roll_out(child);
    assert_eq!(world.release(id).state.name(), "Done");
}

#[test]
fn release_is_removable_only_once_finished_and_running_nowhere() {
    let mut world = World::new();
    let child = world.child(AREA);
    world.submit(&canary("7", "a"));
    assert!(!remove(&mut world, "7"), "it is not over");
    world.take(&child);
    world.report(&child, "7", summary("Canary", StageStatus::Failure)).unwrap();
    assert_eq!(world.release("7").state.name(), "DoneWithFailures");
    assert!(!remove(&mut world, "7"), "it is why the child runs the base version");
    released(&mut world, &child, "8", "a");
    released(&mut world, &child, "9", "b");
    assert!(remove(&mut world, "7"));
    assert!(!remove(&mut world, "8") && !remove(&mut world, "9"), "each is what a function runs");
    assert_eq!(
        world.command(&Command::Lifecycle(lifecycle::Command::Remove { release: "7".to_owned() })),
        Err(Refusal::UnknownRelease("7".to_owned()))
    );
    // The id is free, the number isn't.
    released(&mut world, &child, "7", "a");
    assert!(world.release("7").key > world.release("9").key);
    assert!(remove(&mut world, "8"));
    // With the child goes all that it ran.
    world.forget(&child).unwrap();
    assert!(remove(&mut world, "7") && remove(&mut world, "9"));
}

#[test]
fn a_release_that_left_the_history_while_it_was_read_does_not_come_back() {
    let mut world = World::new();
    let child = world.child(AREA);
    released(&mut world, &child, "7", "a");
    let read = Box::new(world.release("7").clone());
    released(&mut world, &child, "8", "a");
    assert!(remove(&mut world, "7"));
    let then = Box::new(Command::Lifecycle(lifecycle::Command::Retry { release: "7".to_owned() }));
    let late = Command::Recalled { release: read, then };
    let (changes, answer) = advance(&mut world.state, &world.calls, &late, world.now);
    assert_eq!(answer, Err(Refusal::UnknownRelease("7".to_owned()).into()));
    assert!(changes.is_empty() && world.state.releases.is_empty(), "{changes:?}");
}
