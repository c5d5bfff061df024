//! Machines that come back under new ids, and ids that nobody has any more.

use std::{net::IpAddr, time::Duration};

use domain::{
    children,
    release::{
        change::Change,
        command::{Command, Form, Refusal},
        members,
        settings::Proven,
        state::Counts,
    },
};
use language::render::UNDO_STAGE;
use model::{ChildStatus, Exclusion, Outcome, StageStatus};

use super::world::{WAIT, World, canary, strategy_text, summary};

use StageStatus::{Completed, Failure, SuccessWaiting};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const REPLACED: Option<Outcome> = Some(Outcome::Excluded(Exclusion::Replaced));

fn world_with(text: &str) -> (World, String) {
    let mut world = World::new();
    let child = world.child("north");
    world.submit(text);
    (world, child)
}

/// A canary of which nobody may be lost.
fn strict(id: &str) -> String {
    let extra = "rollout: {order: parallel, max_timed_out: 0, on_failure: rollback}\n";
    strategy_text(id, extra, &["a"], &[["Canary", WAIT, "a", "rollout", "rollback"]])
}

/// Downloads, and runs the stage so far that it asks for its end.
fn begin(world: &mut World, child: &str, offer: &str) {
    assert_eq!(world.take(child).0, offer);
    for _ in 0..3 {
        world.pass(5 * SECOND);
        world.may_end(child, offer, "Canary").unwrap();
    }
}

/// The machine comes back under a new id, which takes back what the old one left of release 7.
fn restarted(world: &mut World) -> String {
    let (new, offer) = world.comes_back("north", "");
    assert_eq!((offer.as_str(), world.take(&new).0.as_str()), ("7.undo", "7.undo"));
    world.report(&new, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    new
}

/// Time passes, and these children poll.
fn poll_for(world: &mut World, time: Duration, children: &[&str]) {
    for _ in 0..time.as_secs() / 5 {
        world.pass(5 * SECOND);
        for child in children {
            world.poll(child);
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "polls carry an address or none")]
fn address(last: u8) -> Option<IpAddr> {
    Some(IpAddr::from([198, 51, 100, last]))
}

// --- who is a successor

/// It comes back under its own id, so whoever calls from its place without its token is somebody else, silent as it may be.
#[test]
fn nobody_takes_the_place_of_a_child_that_proves_who_it_is() {
    let (mut world, old) = world_with(&strict("7"));
    world.state.settings.proven = Proven::new([old.clone()]);
    begin(&mut world, &old, "7");
    let (_, offer) = world.comes_back("north", "");
    assert_eq!(offer, "");
    assert_ne!(world.assignment("7", &old).outcome, REPLACED);
}

#[test]
fn a_machine_that_comes_back_takes_back_what_it_left_and_goes_on() {
    let (mut world, old) = world_with(&strict("7"));
    begin(&mut world, &old, "7");
    let (new, offer) = world.comes_back("north", "");
    assert_eq!(offer, "7.undo");
    assert_eq!(world.assignment("7", &old).outcome, REPLACED);
    assert_eq!(world.take(&new), ("7.undo".to_owned(), Form::Undo { function: 0 }));
    world.report(&new, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    let offer = world.get_ready(&new, "Canary");
    assert_eq!(offer, "7.r2");
    assert_eq!(world.state_of("7"), "Running", "one restart is no failure");
    world.report(&new, "7.r2", summary("Canary", Completed)).unwrap();
    world.roll_out(&new);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn a_machine_that_comes_back_twice_in_one_release_is_lost() {
    let (mut world, old) = world_with(&strict("7"));
    begin(&mut world, &old, "7");
    let new = restarted(&mut world);
    begin(&mut world, &new, "7.r2");
    let (third, offer) = world.comes_back("north", "");
    assert_eq!(world.assignment("7", &new).outcome, Some(Outcome::Lost));
    assert_eq!(world.state_of("7"), "RollingBack");
    world.fetch(&third, &offer).unwrap();
    world.report(&third, &offer, summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.ended(), ["RolledBack, 0 unconfirmed"]);
}

/// The sample configuration gives every agent the same area: here one came two seconds after another had begun to set up.
#[test]
fn a_newcomer_with_the_area_of_one_that_sets_up_is_another_machine() {
    for (newcomer, late_poll) in [(address(2), false), (address(1), false), (address(1), true)] {
        let mut world = World::new();
        world.address = address(1);
        let old = world.child("north");
        world.submit(&strict("7"));
        world.take(&old);
        if late_poll {
            // It was sent before the download, and shows nothing of it.
            world.poll(&old);
        }
        world.pass(2 * SECOND);
        world.address = newcomer;
        let new = world.child("north");
        // An image is fetched over a slow line.
        poll_for(&mut world, 12 * MINUTE, &[&new]);
        assert_eq!(world.assignment("7", &old).status, ChildStatus::Doing, "{newcomer:?} {late_poll}");
        assert_eq!(world.state_of("7"), "Running");
        assert_eq!(world.may_end(&old, "7", "Canary"), Ok(false));
    }
}

#[test]
fn a_place_that_several_share_proves_nothing() {
    let (mut world, old) = world_with(&strict("7"));
    let neighbour = world.child("north");
    begin(&mut world, &old, "7");
    let new = world.child("north");
    poll_for(&mut world, 10 * MINUTE, &[&neighbour, &new]);
    assert_eq!(world.assignment("7", &old).status, ChildStatus::Doing);
    // Nobody is taken for it when it misses its deadline either.
    poll_for(&mut world, 10 * MINUTE, &[&neighbour, &new]);
    assert_eq!(world.assignment("7", &old).outcome, Some(Outcome::TimedOut));
    assert_eq!((world.poll(&neighbour), world.poll(&new)), (String::new(), String::new()));
    assert_eq!(world.poll(&old), "7.undo");
}

#[test]
fn one_whose_address_nobody_knows_has_no_successor() {
    let mut world = World::new();
    world.address = None;
    let old = world.child("north");
    world.submit(&strict("7"));
    begin(&mut world, &old, "7");
    let new = world.child("north");
    poll_for(&mut world, 20 * MINUTE, &[&new]);
    assert_eq!(world.assignment("7", &old).outcome, Some(Outcome::TimedOut));
    assert_eq!(world.poll(&new), "");
}

#[test]
fn one_that_called_after_the_newcomer_was_born_has_another_machine() {
    let (mut world, old) = world_with(&strict("7"));
    let neighbour = world.poll_as("", "north", None).0;
    begin(&mut world, &old, "7");
    poll_for(&mut world, 14 * MINUTE, &[&neighbour]);
    assert_eq!(world.assignment("7", &old).status, ChildStatus::Doing);
}

#[test]
fn a_ghost_takes_nobodys_place() {
    let (mut world, old) = world_with(&canary("7", "a"));
    begin(&mut world, &old, "7");
    world.poll_as("", "north", None);
    for _ in 0..24 {
        world.pass(5 * SECOND);
    }
    assert_eq!(world.assignment("7", &old).status, ChildStatus::Doing);
    // The answer to its first poll was lost, too; then it got one.
    world.poll_as("", "north", None);
    let (new, offer) = world.comes_back("north", "");
    assert_eq!(offer, "7.undo");
    world.fetch(&new, &offer).unwrap();
    world.pass(2 * MINUTE);
    world.report(&new, &offer, summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.take(&new).0, "7.r2");
}

// --- the old one calls again after all

#[test]
fn a_child_that_calls_again_was_not_replaced_and_both_go_on() {
    let (mut world, old) = world_with(&strict("7"));
    begin(&mut world, &old, "7");
    let (new, offer) = world.comes_back("north", "");
    assert_eq!(offer, "7.undo");
    assert_eq!(world.may_end(&old, "7", "Canary"), Ok(false));
    let part = world.assignment("7", &old);
    assert_eq!((part.status, part.outcome, part.attempt), (ChildStatus::Doing, None, 2));
    assert_eq!(world.poll(&new), "", "it has nothing to do for the other any more");
    let record = world.state.children.by_id(&old).unwrap().1;
    assert_eq!(record.replaced, None);
    world.submit(&canary("8", "b"));
    assert_eq!(world.poll(&new), "8");
    assert_eq!(world.state_of("7"), "Running");
}

#[test]
fn one_that_went_on_for_another_goes_on_when_that_one_calls_again() {
    let (mut world, old) = world_with(&strict("7"));
    begin(&mut world, &old, "7");
    let new = restarted(&mut world);
    begin(&mut world, &new, "7.r2");
    assert_eq!(world.may_end(&old, "7", "Canary"), Ok(false));
    for (child, offer) in [(&old, "7"), (&new, "7.r2")] {
        assert_eq!(world.assignment("7", child).status, ChildStatus::Doing);
        world.report(child, offer, summary("Canary", SuccessWaiting)).unwrap();
    }
    assert_eq!(world.may_end(&old, "7", "Canary"), Ok(true));
}

#[test]
fn a_child_whose_undo_another_took_gets_it_again_when_it_calls() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    world.abort("7");
    assert_eq!(world.take(&child).0, "7.undo");
    assert_eq!(world.comes_back("north", "").1, "7.undo");
    assert_eq!(world.poll(&child), "7.undo.2");
}

#[test]
fn a_child_that_was_lost_before_another_took_its_place_does_not_go_on() {
    let (mut world, child) = world_with(&canary("7", "a"));
    world.take(&child);
    world.poll(&child);
    assert_eq!(world.poll(&child), "7.undo");
    assert_eq!(world.comes_back("north", "").1, "7.undo");
    assert_eq!(world.poll(&child), "7.undo.2");
    assert_eq!(world.assignment("7", &child).outcome, Some(Outcome::Lost));
}

// --- what a successor takes over

#[test]
fn machine_restarted_repeatedly_rolls_back_for_all_its_ids() {
    let (mut world, first) = world_with(&canary("7", "a"));
    world.take(&first);
    let second = world.child("north");
    world.submit(&canary("8", "b"));
    world.take(&second);
    world.abort("7");
    world.abort("8");
    let (third, offer) = world.comes_back("north", "");
    world.fetch(&third, &offer).unwrap();
    world.report(&third, &offer, summary(UNDO_STAGE, Completed)).unwrap();
    let other = world.polls_until_offered(&third, "");
    let mut undone = [offer.as_str(), other.as_str()];
    undone.sort_unstable();
    assert_eq!(undone, ["7.undo", "8.undo"]);
}

#[test]
fn one_that_took_back_what_another_left_and_then_loses_its_own_offer_is_lost() {
    let (mut world, old) =
        world_with(&strategy_text("7", "", &["a"], &[["Canary", WAIT, "a", "rollout", "rollback"]]));
    begin(&mut world, &old, "7");
    let new = restarted(&mut world);
    world.get_ready(&new, "Canary");
    poll_for(&mut world, MINUTE, &[&new]);
    assert_eq!(world.assignment("7", &new).outcome, Some(Outcome::Lost));
}

#[test]
fn pending_rollback_goes_to_successor_identified_much_later() {
    let (mut world, old) = world_with(&strict("7"));
    begin(&mut world, &old, "7");
    world.abort("7");
    let (neighbour, new) = (world.child("north"), world.child("north"));
    poll_for(&mut world, 31 * MINUTE, &[&neighbour, &new]);
    assert_eq!(world.state_of("7"), "Aborted");
    assert_eq!(world.poll(&new), "", "two call from there: neither is known to be the old one");
    poll_for(&mut world, 5 * MINUTE, &[&new]);
    assert_eq!(world.poll(&new), "7.undo");
    world.take(&new);
    world.report(&new, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.state_of("7"), "over", "nobody owes anything any more");
}

#[test]
fn a_member_takes_back_for_another_first_and_then_takes_part() {
    let (mut world, old) = world_with(&canary("7", "a"));
    begin(&mut world, &old, "7");
    let new = world.child("north");
    world.extend("7");
    assert_eq!(world.polls_until_offered(&new, "7"), "7.undo");
    world.take(&new);
    world.report(&new, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.take(&new).0, "7");
    assert_eq!(world.assignment("7", &old).outcome, REPLACED);
}

#[test]
fn a_newcomer_that_tests_the_same_itself_is_not_sent_back() {
    let (mut world, old) = world_with(&canary("7", "a"));
    begin(&mut world, &old, "7");
    let new = world.child("north");
    world.extend("7");
    world.take(&new);
    for _ in 0..200 {
        world.pass(5 * SECOND);
        world.may_end(&new, "7", "Canary").unwrap();
    }
    assert_eq!(world.assignment("7", &old).outcome, REPLACED);
    assert_eq!(world.assignment("7", &new).pending_undo(), None);
    assert_eq!(world.assignment("7", &new).status, ChildStatus::Doing);
}

#[test]
fn child_that_rolled_back_also_rolls_back_inherited_work() {
    let (mut world, old) = world_with(&canary("7", "a"));
    begin(&mut world, &old, "7");
    let new = world.child("north");
    world.extend("7");
    world.take(&new);
    world.report(&new, "7", summary("Canary", Failure)).unwrap();
    assert_eq!(world.polls_until_offered(&new, ""), "7.undo");
    world.take(&new);
    world.report(&new, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
}

#[test]
fn a_retry_whose_successor_succeeds_leaves_nobody_lost() {
    let (mut world, old) = world_with(&canary("7", "a"));
    begin(&mut world, &old, "7");
    let new = restarted(&mut world);
    begin(&mut world, &new, "7.r2");
    let (third, offer) = world.comes_back("north", "");
    world.fetch(&third, &offer).unwrap();
    world.report(&third, &offer, summary(UNDO_STAGE, Completed)).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
    world.retry("7").unwrap();
    let (offer, _) = world.take(&third);
    world.report(&third, &offer, summary("Canary", Completed)).unwrap();
    world.roll_out(&third);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(world.release("7").counts.lost, 0);
}

// --- ids that nobody has any more

/// The machine was restarted while nothing was to be done; the old id held the next release up for a quarter of an hour.
#[test]
fn an_idle_id_whose_place_another_has_taken_holds_no_release_up() {
    let mut world = World::new();
    let old = world.child("north");
    let new = world.child("north");
    poll_for(&mut world, 15 * SECOND, &[&new]);
    world.submit(&canary("7", "a"));
    assert_eq!(world.release("7").members.len(), 1);
    assert!(!world.release("7").assignments.contains_key(&world.state.children.key(&old).unwrap()));
    // Should it be there after all, it takes part in the next one.
    world.poll(&old);
    world.submit(&canary("8", "b"));
    assert_eq!(world.release("8").members.len(), 2);
}

#[test]
fn a_restart_just_before_a_release_takes_the_new_id_in_for_the_old_one() {
    let (mut world, old) = world_with(&strict("7"));
    world.pass(SECOND);
    let (new, offer) = world.comes_back("north", "");
    assert_eq!(offer, "7");
    assert_eq!(world.assignment("7", &old).outcome, REPLACED);
    assert_eq!(world.state_of("7"), "Running");
    let begun = world.now.served_ms;
    assert!(begun < 60_000, "after {begun} ms");
    assert!(world.assignment("7", &new).rare().joined.is_some());
}

#[test]
fn an_id_that_was_replaced_is_forgotten_once_no_open_release_knows_it() {
    let (mut world, old) = world_with(&canary("7", "a"));
    begin(&mut world, &old, "7");
    let (new, _) = world.comes_back("north", "");
    world.pause("7");
    poll_for(&mut world, 61 * MINUTE, &[&new]);
    assert!(world.state.children.key(&old).is_some());
    world.abort("7");
    world.take(&new);
    world.report(&new, "7.undo", summary(UNDO_STAGE, Completed)).unwrap();
    poll_for(&mut world, 61 * MINUTE, &[&new]);
    assert!(world.state.children.key(&old).is_none());
    assert!(world.state.children.key(&new).is_some());
}

#[test]
fn new_id_of_machine_rolls_back_its_old_rollout() {
    let mut world = World::new();
    let (old, other) = (world.child("north"), world.child("south"));
    world.submit(&canary("7", "a"));
    world.succeed(&old, "Canary");
    world.take(&other);
    let new = world.child("north");
    poll_for(&mut world, MINUTE, &[&new]);
    world.abort("7");
    assert_eq!(world.poll(&new), "7.undo");
}

#[test]
fn ids_that_callers_bring_along_are_forgotten_unless_they_take_part() {
    let mut world = World::new();
    for id in ["x1", "x2", "x3"] {
        world.poll_as(id, "north", None);
    }
    world.submit(&canary("7", "a"));
    world.take("x1");
    poll_for(&mut world, 2 * MINUTE, &["x2"]);
    let known = |world: &World, id: &str| world.state.children.key(id).is_some();
    assert_eq!([known(&world, "x1"), known(&world, "x2"), known(&world, "x3")], [true, true, false]);
    // Who is silent only because it is at work is none of them.
    poll_for(&mut world, 10 * MINUTE, &[]);
    world.pass(2 * MINUTE);
    assert_eq!([known(&world, "x1"), known(&world, "x2")], [true, false]);
}

#[test]
fn adopted_child_id_is_forgotten_after_operator_label_is_removed() {
    let mut world = World::new();
    world.poll_as("x1", "north", None);
    let label = |value: Option<&str>| {
        Command::Children(children::Command::Label {
            child: "x1".to_owned(),
            key: "tier".to_owned(),
            value: value.map(str::to_owned),
        })
    };
    world.command(&label(Some("edge"))).unwrap();
    world.pass(10 * MINUTE);
    assert!(world.state.children.key("x1").is_some());
    world.command(&label(None)).unwrap();
    world.pass(2 * MINUTE);
    assert!(world.state.children.key("x1").is_none());
}

#[test]
fn one_address_brings_only_so_many_ids_along_that_take_part_in_nothing() {
    let mut world = World::new();
    world.state.settings.max_adopted = 3;
    for id in ["x1", "x2", "x3"] {
        world.poll_as(id, "north", None);
    }
    let bring = |world: &mut World, id: &str| {
        let poll = children::Poll {
            child: Some(model::ChildId::parse(id).unwrap()),
            fresh: model::ChildId::parse("unused").unwrap(),
            area: Some("north".into()),
            address: world.address,
            agents: 0,
            profile: None,
            tenant: None,
        };
        world.command(&Command::Children(children::Command::Poll(poll))).map(|_| ())
    };
    assert!(matches!(bring(&mut world, "x4"), Err(Refusal::TooManyAdopted { limit: 3 })));
    assert_eq!(bring(&mut world, "x3"), Ok(()), "it is known");
    world.child("north");
    world.address = address(7);
    assert_eq!(bring(&mut world, "x4"), Ok(()), "it comes from elsewhere");
    world.address = Some(IpAddr::from([127, 0, 0, 1]));
    for id in 5..20 {
        assert_eq!(bring(&mut world, &format!("x{id}")), Ok(()), "on the machine itself nobody is limited");
    }
    world.address = Some(IpAddr::from([192, 0, 2, 1]));
    world.submit(&canary("7", "a"));
    world.take("x1");
    assert_eq!(bring(&mut world, "x30"), Ok(()), "one of them has taken part");
    assert!(bring(&mut world, "x31").is_err());
    poll_for(&mut world, 3 * MINUTE, &[]);
    assert_eq!(bring(&mut world, "x31"), Ok(()), "the others are forgotten");
}

#[test]
fn nothing_is_stored_of_looks_that_find_nobody() {
    let mut world = World::new();
    let (one, other) = (world.child("north"), world.child("north"));
    for _ in 0..100 {
        world.pass(3 * SECOND);
        let stored = world.changes.iter().find(|change| {
            !matches!(
                change,
                Change::Children(children::Change::Seen { .. })
                    | Change::Members(members::Change::DeadlinesSeen { .. })
            )
        });
        assert_eq!(stored, None);
        world.poll(&one);
        world.poll(&other);
    }
}

/// What is to be taken back for one is not forgotten when a second one at the same place is found to be gone.
#[test]
fn successor_rolls_back_for_one_child_and_begins_for_another() {
    let mut world = World::new();
    let (idle, busy) = (world.child("north"), world.child("north"));
    world.submit(&canary("r", "a"));
    world.take(&busy);
    // It has forgotten what it had in hand.
    for _ in 0..2 {
        world.pass(SECOND);
        world.poll(&busy);
    }
    let newcomer = world.child("north");
    world
        .command(&Command::Children(children::Command::Forget { child: busy, even_if_it_owes: true }))
        .unwrap();
    assert_eq!(world.poll(&newcomer), "r.undo");
    poll_for(&mut world, MINUTE, &[&newcomer]);
    let key = world.state.children.key(&idle).unwrap();
    assert_eq!(world.release("r").assignments[&key].outcome, REPLACED);
    let mut recounted = world.release("r").clone();
    recounted.counts = Counts::default();
    recounted.recount();
    assert_eq!(world.release("r").counts, recounted.counts);

    assert_eq!(world.take(&newcomer).0, "r.undo", "the undo comes first");
    world.report(&newcomer, "r.undo", summary(UNDO_STAGE, Completed)).unwrap();
    let (offer, _) = world.take(&newcomer);
    world.report(&newcomer, &offer, summary("Canary", Completed)).unwrap();
    let (offer, _) = world.take(&newcomer);
    world.report(&newcomer, &offer, summary("choirmaster rollout", Completed)).unwrap();
    assert!(world.state.releases.is_empty(), "{:?}", world.release("r").state);
}
