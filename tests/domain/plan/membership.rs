//! Releases that start go to whom the planner names, and the state's index follows the children.

use domain::{
    plan::AreaIndex,
    release::{command::Reply, state::State},
};
use model::Exclusion;

use super::rectangle;
use crate::release::world::{World, canary, manager};

const WEST: &str =
    "target: {area: {type: Polygon, coordinates: [[[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]]]}}\n";

/// What the index says is what the children say.
fn follows(state: &State) {
    let mut fresh = AreaIndex::default();
    for (key, child) in state.children.iter() {
        fresh.insert(key, child.area.as_deref(), child.counted_agents());
    }
    let told = |index: &AreaIndex| format!("{:?}", index.iter().collect::<Vec<_>>());
    assert_eq!(told(state.children.areas()), told(&fresh));
}

#[test]
fn only_children_in_the_target_are_offered_the_release() {
    let mut world = World::new();
    let inside = world.child(&rectangle(1.0, 1.0, 2.0, 2.0));
    let outside = world.child(&rectangle(20.0, 1.0, 21.0, 2.0));
    let moved = world.child(&rectangle(30.0, 1.0, 31.0, 2.0));
    world.poll_as(&moved, &rectangle(3.0, 3.0, 4.0, 4.0), None);
    let gone = world.child(&rectangle(5.0, 5.0, 6.0, 6.0));
    world.forget(&gone).unwrap();
    follows(&world.state);
    let reply = world.submit_text(&(WEST.to_owned() + &canary("west", "a"))).unwrap();
    let Reply::Submitted { outlook, .. } = reply else { panic!("{reply:?}") };
    assert_eq!((outlook.participants, outlook.excluded), (2, vec![(Exclusion::Outside, 1)]));
    assert_eq!([&inside, &outside, &moved].map(|child| world.poll(child)), ["west", "", "west"]);
}

#[test]
fn the_index_counts_agents_as_children_report_them() {
    let mut world = World::new();
    let child = world.child(&rectangle(1.0, 1.0, 2.0, 2.0));
    let agents = |world: &World| {
        world.state.children.areas().iter().map(|(_, entry)| entry.agents).collect::<Vec<_>>()
    };
    assert_eq!(agents(&world), [1]);
    world.poll_as(&child, &rectangle(1.0, 1.0, 2.0, 2.0), Some(manager()));
    assert_eq!(agents(&world), [0]);
    follows(&world.state);
}

#[test]
fn a_release_that_waited_goes_to_whom_lies_in_its_target_when_it_starts() {
    let mut world = World::new();
    let child = world.child(&rectangle(20.0, 1.0, 21.0, 2.0));
    world.submit(&canary("first", "a"));
    world.submit(&(WEST.to_owned() + &canary("second", "a")));
    world.poll_as(&child, &rectangle(1.0, 1.0, 2.0, 2.0), None);
    world.abort("first");
    assert_eq!(world.poll(&child), "second");
}
