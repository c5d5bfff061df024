//! A child that fails what it is offered is not offered it again at once, and not for ever more often.

use std::time::Duration;

use super::world::*;
use domain::{
    children::{self, ONCE_IN, Profile},
    release::{
        assignment::Undo,
        change::Change,
        command::Refusal,
        ending::{Cause, Ending},
        summary::Summary,
    },
};
use language::render::{ROLLOUT_STAGE, UNDO_STAGE};
use model::{Outcome, StageStatus};

use crate::releases::numbered;

const MINUTE: Duration = Duration::from_mins(1);

/// Most commits that one child may cause in a minute without progress.
const MOST_IN_A_MINUTE: usize = 20;

fn error(stage: &str, cause: Cause, why: &str) -> Summary {
    Summary { why: Some(Box::new(Ending::new(cause, why))), ..summary(stage, StageStatus::Error) }
}

/// A child that answers each undo with an error as soon as it is offered one, and what that costs in each minute.
fn commits_in_each_minute(world: &mut World, child: &str, minutes: usize) -> Vec<usize> {
    let minute = |world: &mut World| {
        let mut commits = 0;
        for _ in 0..120 {
            let offer = world.poll(child);
            commits += usize::from(!world.changes.is_empty());
            if !offer.is_empty() {
                world.fetch(child, &offer).unwrap();
                commits += usize::from(!world.changes.is_empty());
                world.report(child, &offer, error(UNDO_STAGE, Cause::Unstarted, "no index.js")).unwrap();
                commits += usize::from(!world.changes.is_empty());
            }
            world.pass(MINUTE / 120);
        }
        commits
    };
    (0..minutes).map(|_| minute(world)).collect()
}

/// A child in the first stage of release 7.
fn begun() -> (World, String) {
    let (mut world, child) = submitted();
    world.take(&child);
    (world, child)
}

fn submitted() -> (World, String) {
    let mut world = World::new();
    let child = world.child("north");
    world.submit(&canary("7", "sieve"));
    (world, child)
}

/// How many offers a child is shown within a minute that polls ten times a second, fetches each, and does this then.
fn offers_in_a_minute(world: &mut World, child: &str, then: impl Fn(&mut World, &str)) -> usize {
    let mut offers = 0;
    for _ in 0..600 {
        let offer = world.poll(child);
        if !offer.is_empty() {
            world.fetch(child, &offer).unwrap();
            then(world, &offer);
            offers += 1;
        }
        world.pass(MINUTE / 600);
    }
    offers
}

#[test]
fn rollback_that_errors_is_offered_again_with_growing_delays() {
    let (mut world, child) = begun();
    world.abort("7");
    let commits = commits_in_each_minute(&mut world, &child, 20);
    assert!(commits.iter().all(|commits| *commits <= MOST_IN_A_MINUTE), "{commits:?}");
    assert!(commits[10..].iter().sum::<usize>() <= 9, "{commits:?}");
    let why = world.waits("7");
    assert!(why.contains(&child) && why.contains("no index.js"), "{why}");
    let why = world.waits_child("7", &child);
    assert!(
        why.contains("times: no index.js") && why.contains("is offered its undo again as 7.undo."),
        "{why}"
    );

    world.pass(8 * MINUTE);
    let (offer, _) = world.take(&child);
    world.report(&child, &offer, summary(UNDO_STAGE, StageStatus::Completed)).unwrap();
    assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
}

#[test]
fn child_takes_other_releases_while_rollback_retry_is_delayed() {
    let (mut world, child) = begun();
    world.abort("7");
    let (offer, _) = world.take(&child);
    world.report(&child, &offer, error(UNDO_STAGE, Cause::Unstarted, "no index.js")).unwrap();
    assert_eq!(world.poll(&child), "");
    world.submit(&canary("8", "other"));
    world.succeed(&child, "Canary");
    assert_eq!(world.assignment("8", &child).outcome, Some(Outcome::Succeeded));
    world.pass(MINUTE);
    assert_eq!(world.poll(&child), "7.undo.2");
}

#[test]
fn an_undo_that_is_lost_again_is_offered_later_and_later() {
    let (mut world, child) = begun();
    world.abort("7");
    let offers = offers_in_a_minute(&mut world, &child, |_, _| ());
    assert!((3..=6).contains(&offers), "{offers}");
}

#[test]
fn stage_ending_untested_immediately_is_not_offered_again_at_once() {
    let (mut world, child) = submitted();
    let none = domain::release::summary::Times { median: -1.0, minimum: -1.0, maximum: -1.0 };
    let offers = offers_in_a_minute(&mut world, &child, |world, offer| {
        let no_calls =
            Summary { f2_times_summary: none, f2_err_rate: 0.0, ..summary("Canary", StageStatus::Failure) };
        world.report(&child, offer, no_calls).unwrap();
    });
    assert!((3..=5).contains(&offers), "{offers}");
}

#[test]
fn nothing_is_taken_back_from_a_child_that_has_begun_nothing() {
    let (mut world, child) = begun();
    world.report(&child, "7", error("Canary", Cause::Unstarted, "no index.js")).unwrap();
    assert_eq!(world.poll(&child), "");
    assert_eq!(world.runs(&child, "sieve"), "unheard of");
    let release = world.release("7");
    assert_eq!(release.assignments.values().next().unwrap().outcome, Some(Outcome::Failed));
    let why = release.ending.as_ref().unwrap();
    assert!(why.text.contains("no index.js"), "{why:?}");
}

#[test]
fn earlier_attempt_is_rolled_back_before_the_next_one() {
    let (mut world, child) = begun();
    world.report(&child, "7", summary("Canary", StageStatus::Error)).unwrap();
    assert_eq!(world.poll(&child), "7.undo");
    world.retry("7").unwrap();
    assert_eq!(world.poll(&child), "7.undo", "and not the next attempt");
}

#[test]
fn rests_grow_and_differ() {
    use domain::release::assignment::{FunctionSet, LONGEST_REST_MS};
    use model::{ChildKey, ReleaseKey};
    let undo = |failures| Undo {
        number: 1,
        functions: FunctionSet::of(0),
        fetched: true,
        since: 0,
        asked: 0,
        polls: 0,
        overdue: false,
        failures,
        rests_until: None,
        why: None,
    };
    let rests = |failures: u8| -> Vec<u64> {
        (0..100).map(|child| undo(failures).rest_ms(ReleaseKey(3), ChildKey(child))).collect()
    };
    for failures in 0..u8::MAX {
        let rests = rests(failures);
        let (least, most) = (rests.iter().min().unwrap(), rests.iter().max().unwrap());
        assert!(least < most && *most <= LONGEST_REST_MS * 5 / 4, "{failures}: {least} to {most}");
        assert!(*least >= 3_750, "{failures}: {least}");
    }
}

fn named(name: &str) -> Profile {
    Profile { name: Some(name.to_owned()), ..Profile::default() }
}

/// Does this twice a second, and says how many commits each minute took.
fn commits(world: &mut World, minutes: usize, mut each: impl FnMut(&mut World, usize)) -> Vec<usize> {
    let minute = |minute: usize| {
        let mut commits = 0;
        for half_second in 0..120 {
            each(world, 120 * minute + half_second);
            commits += usize::from(!world.changes.is_empty());
            world.pass(MINUTE / 120);
        }
        commits
    };
    (0..minutes).map(minute).collect()
}

#[test]
fn two_agents_with_one_id_cost_few_commits_and_are_named_once_in_a_while() {
    let mut world = World::new();
    let id = world.poll_as("", "north", Some(named("one"))).0;
    let names = ["one", "other"];
    let mut told = Vec::new();
    let commits = commits(&mut world, 11, |world, at| {
        world.poll_as(&id, ["north", "south"][at % 2], Some(named(names[at % 2])));
        for change in &world.changes {
            if let Change::Children(children::Change::SaysOtherwise { differs, .. }) = change {
                told.push((at / 120, differs.join(", ")));
            }
        }
    });
    assert!(commits.iter().all(|commits| *commits <= MOST_IN_A_MINUTE), "{commits:?}");
    let [(first, differs), (again, _)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*first, *again), (0, 10), "{told:?}");
    assert!(
        differs.starts_with("name: one or other") || differs.starts_with("name: other or one"),
        "{differs}"
    );
    assert!(differs.ends_with("area"), "{differs}");
}

#[test]
fn throttled_profile_changes_store_the_final_state() {
    let mut world = World::new();
    let id = world.poll_as("", "north", Some(named("one"))).0;
    for at in 0..100 {
        world.poll_as(&id, "north", Some(named(["one", "other"][at % 2])));
    }
    world.pass(ONCE_IN);
    world.poll_as(&id, "south", Some(named("third")));
    let (_, record) = world.state.children.by_id(&id).unwrap();
    assert_eq!(record.profile.as_deref(), Some(&named("third")));
    assert_eq!(record.area.as_deref(), Some("south"));
}

#[test]
fn a_manager_below_which_many_join_is_taken_for_no_two() {
    let mut world = World::new();
    let id = world.manager("north", 1);
    let commits = commits(&mut world, 2, |world, at| {
        world.poll_with(&id, "north", Some(manager()), at as u32 + 2);
        let is_told =
            |change: &Change| matches!(change, Change::Children(children::Change::SaysOtherwise { .. }));
        assert!(!world.changes.iter().any(is_told));
    });
    assert!(commits.iter().all(|commits| *commits <= MOST_IN_A_MINUTE), "{commits:?}");
    world.pass(ONCE_IN);
    world.poll_with(&id, "north", Some(manager()), 1_000);
    assert_eq!(world.state.children.by_id(&id).unwrap().1.agents, 1_000);
}

#[test]
fn results_that_come_too_late_and_are_ever_new_cost_few_commits() {
    let (mut world, child) = begun();
    world.abort("7");
    let commits = commits(&mut world, 3, |world, at| {
        let status = [StageStatus::Error, StageStatus::Failure][at % 2];
        let late = world.report(&child, "7", numbered("Canary", status, at as f64 + 1.0));
        assert!(matches!(late, Err(Refusal::Late { .. })), "{late:?}");
    });
    assert!(commits.iter().all(|commits| *commits <= MOST_IN_A_MINUTE), "{commits:?}");
}

/// However often it says so, and the other thing between.
#[test]
fn what_shows_too_late_that_the_new_version_runs_is_always_heard() {
    let (mut world, child) = begun();
    world.report(&child, "7", summary("Canary", StageStatus::Completed)).unwrap();
    let (offer, _) = world.take(&child);
    world.abort("7");
    let commits = commits(&mut world, 3, |world, at| {
        let status = [StageStatus::Failure, StageStatus::Completed][at % 2];
        let late = world.report(&child, &offer, numbered(ROLLOUT_STAGE, status, at as f64 + 1.0));
        assert!(matches!(late, Err(Refusal::Late { .. })), "{late:?}");
    });
    assert!(commits.iter().all(|commits| *commits <= MOST_IN_A_MINUTE), "{commits:?}");
    assert_eq!(world.runs(&child, "sieve"), "new of 7");
    assert!(world.poll(&child).starts_with("7.undo"));
}
