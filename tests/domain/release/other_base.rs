//! A release leaves out whoever serves something else than it begins with: its rollback would bring a version there that was
//! not there before.

use std::time::Duration;

use domain::release::{
    command::{Refusal, Reply},
    ending::{Cause, Ending},
    state::{End, ReleaseState},
    summary::Summary,
};
use model::{Exclusion, Outcome, StageStatus};

use super::{
    in_place::own_agent,
    world::{World, submission, summary, two_stage},
};

use StageStatus::{Completed, Error, Failure, SuccessWaiting};

/// A release of the function a, from what one folder holds to what another one holds.
fn submits(world: &mut World, id: &str, block: &str, versions: [u64; 2]) -> Result<(u32, usize), Refusal> {
    let text = format!("{block}{}", two_stage(id, "a"));
    let strategy = language::check(&text).strategy.unwrap().with_contents(&[versions]);
    match world.command(&submission(strategy, &text))? {
        Reply::Submitted { outlook, .. } => Ok((outlook.participants, outlook.excluded.len())),
        other => panic!("{other:?}"),
    }
}

fn passes(world: &mut World, agent: &str, release: &str) {
    for stage in ["First", "Second"] {
        world.report(agent, release, summary(stage, SuccessWaiting)).unwrap();
        world.report(agent, release, summary(stage, Completed)).unwrap();
    }
}

/// The agent's operator has the version before, or another one, serve what this release left there.
fn operator_says(world: &mut World, agent: &str, release: &str, status: StageStatus) {
    let why = Ending::new(Cause::Operator, "slow");
    let said = Summary { why: Some(Box::new(why)), ..summary("Second", status) };
    world.report(agent, release, said).unwrap();
}

/// An agent to which release 7 brought version 2 instead of version 1.
fn released() -> (World, String) {
    let mut world = World::new();
    let agent = own_agent(&mut world, "north");
    submits(&mut world, "7", "", [1, 2]).unwrap();
    world.take(&agent);
    passes(&mut world, &agent, "7");
    (world, agent)
}

const NOBODY: ReleaseState = ReleaseState::Over { end: End::NoParticipants, unconfirmed: 0 };

#[test]
fn what_an_operator_took_back_is_the_base_of_no_release() {
    let (mut world, agent) = released();
    operator_says(&mut world, &agent, "7", Failure);
    assert_eq!(submits(&mut world, "8", "", [2, 3]).unwrap(), (0, 1));
    assert_eq!(world.release("8").state, NOBODY);
    assert_eq!(world.release("8").excluded, [(Exclusion::OtherBase, 1)]);
    assert_eq!(world.poll(&agent), "");
    assert_eq!(submits(&mut world, "9", "", [1, 3]).unwrap(), (1, 0));
    assert_eq!(world.take(&agent).0, "9");
}

#[test]
fn a_release_that_begins_with_what_serves_is_for_all() {
    let (mut world, agent) = released();
    assert_eq!(submits(&mut world, "8", "", [2, 3]).unwrap(), (1, 0));
    assert_eq!(world.take(&agent).0, "8");
}

#[test]
fn what_is_not_known_leaves_nobody_out() {
    let (mut world, agent) = released();
    operator_says(&mut world, &agent, "7", Error);
    assert_eq!(submits(&mut world, "8", "", [4, 5]).unwrap(), (1, 0));
    let mut world = World::new();
    let deployed = world.child("north");
    submits(&mut world, "7", "", [1, 2]).unwrap();
    let (offer, _) = world.take(&deployed);
    world.report(&deployed, &offer, summary("First", Completed)).unwrap();
    world.succeed(&deployed, "Second");
    assert_eq!(world.runs(&deployed, "a"), "new of 7");
    assert_eq!(submits(&mut world, "8", "", [1, 3]).unwrap(), (1, 0));
}

#[test]
fn a_release_that_waits_is_planned_by_what_the_one_before_leaves() {
    for is_well in [true, false] {
        let mut world = World::new();
        let agent = own_agent(&mut world, "north");
        submits(&mut world, "7", "", [1, 2]).unwrap();
        world.take(&agent);
        // Version 1 serves, but for how long?
        assert_eq!(submits(&mut world, "8", "", [2, 3]).unwrap(), (1, 0));
        if is_well {
            passes(&mut world, &agent, "7");
            assert_eq!(world.take(&agent).0, "8");
        } else {
            world.report(&agent, "7", summary("First", Failure)).unwrap();
            assert_eq!(world.release("8").excluded, [(Exclusion::OtherBase, 1)]);
        }
    }
}

#[test]
fn who_takes_something_back_before_its_turn_is_taken_out() {
    let mut world = World::new();
    let agents = ["north", "south"].map(|area| own_agent(&mut world, area));
    submits(&mut world, "7", "", [1, 2]).unwrap();
    for agent in &agents {
        world.take(agent);
        passes(&mut world, agent, "7");
    }
    submits(&mut world, "8", "rollout: {order: waves, waves: [1, 100%]}\n", [2, 3]).unwrap();
    let first = world.take(&agents[0]).0;
    assert_eq!((&*first, &*world.poll(&agents[1])), ("8", ""));
    operator_says(&mut world, &agents[1], "7", Failure);
    let outcome = world.assignment("8", &agents[1]).outcome;
    assert_eq!(outcome, Some(Outcome::Excluded(Exclusion::OtherBase)));
    passes(&mut world, &agents[0], "8");
    assert_eq!(world.poll(&agents[1]), "");
    assert!(matches!(world.release("8").state, ReleaseState::Over { end: End::Done, .. }));
}

#[test]
fn what_an_operator_has_served_after_an_undo_is_known_as_well() {
    let (mut world, agent) = released();
    submits(&mut world, "8", "", [2, 3]).unwrap();
    world.take(&agent);
    world.pass(Duration::from_secs(91));
    assert_eq!(world.take(&agent).0, "8.undo");
    world.report(&agent, "8.undo", summary("choirmaster undo", Completed)).unwrap();
    assert_eq!(world.runs(&agent, "a"), "base of 8");
    let why = Ending::new(Cause::Operator, "by hand");
    for _ in 0..2 {
        let said = Summary { why: Some(Box::new(why.clone())), ..summary("choirmaster undo", Error) };
        world.report(&agent, "8.undo", said).unwrap();
        assert_eq!(world.runs(&agent, "a"), "unknown of 8");
    }
    assert_eq!(world.changes, [], "it said so before");
    for _ in 0..2 {
        let said = Summary { why: Some(Box::new(why.clone())), ..summary("choirmaster undo", Failure) };
        world.report(&agent, "8.undo", said).unwrap();
        assert_eq!(world.runs(&agent, "a"), "base of 8");
    }
    assert_eq!(world.changes, [], "it said so before");
}

#[test]
fn repeated_release_with_new_id_reaches_only_rolled_back_children() {
    let mut world = World::new();
    let agents = ["north", "south"].map(|area| own_agent(&mut world, area));
    submits(&mut world, "7", "rollout: {on_failure: continue}\n", [1, 2]).unwrap();
    for agent in &agents {
        world.take(agent);
    }
    passes(&mut world, &agents[0], "7");
    world.report(&agents[1], "7", summary("First", Failure)).unwrap();
    assert_eq!(submits(&mut world, "8", "", [1, 2]).unwrap(), (1, 1));
    assert_eq!((&*world.poll(&agents[0]), &*world.take(&agents[1]).0), ("", "8"));
}

#[test]
fn what_serves_is_what_it_was_before_a_release_that_was_rolled_back() {
    let (mut world, agent) = released();
    submits(&mut world, "8", "", [2, 3]).unwrap();
    world.take(&agent);
    world.abort("8");
    let late = world.report(&agent, "8", summary("First", Failure));
    assert!(matches!(late, Err(Refusal::Late { .. })), "{late:?}");
    assert_eq!(world.runs(&agent, "a"), "base of 8");
    assert_eq!(submits(&mut world, "9", "", [3, 4]).unwrap(), (0, 1));
    assert_eq!(submits(&mut world, "10", "", [2, 4]).unwrap(), (1, 0));
    assert_eq!(world.take(&agent).0, "10");
}

#[test]
fn of_an_agent_that_was_forgotten_and_came_back_nothing_is_known() {
    let (mut world, agent) = released();
    world.forget(&agent).unwrap();
    let again = own_agent(&mut world, "north");
    assert_eq!(submits(&mut world, "8", "", [1, 3]).unwrap(), (1, 0));
    assert_eq!(world.take(&again).0, "8");
}
