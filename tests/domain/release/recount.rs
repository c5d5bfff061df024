//! What became of agents below is told again when it changes after the end: the way back is proven, or some were tried
//! again.

use std::time::Duration;

use domain::{
    children::Profile,
    release::{
        change::Change,
        command::{Command, Form},
        ending::Cause,
        lifecycle,
        manager::{Agents, FEATURE_RETRY},
        parent::{self, ParentOffer, led},
        summary::Summary,
    },
};
use language::render_full;
use model::{Outcome, StageStatus};

use super::world::{World, canary, manager, submission, summary};

const AREA: &str =
    r#"{"type":"Polygon","coordinates":[[[13.3,52.4],[13.4,52.4],[13.4,52.5],[13.3,52.5],[13.3,52.4]]]}"#;

/// What is said to the parent anew: the agents, and for the how manyth time.
fn said_anew(world: &World, release: &str) -> Option<(Agents, u32)> {
    let is_said =
        world.changes.iter().any(|change| matches!(change, Change::Parent(parent::Change::Recounted { .. })));
    let said = world.release(release).parent.as_ref()?.said?;
    is_said.then_some((said.agents, said.recounts))
}

fn of_agents(status: StageStatus, agents: Agents, recount: Option<u32>) -> Summary {
    Summary { agents: Some(agents), recount, ..summary("Canary", status) }
}

fn counts(participants: u32, succeeded: u32, failed: u32) -> Agents {
    Agents { participants, succeeded, failed, ..Agents::default() }
}

/// Submits what the parent offers.
fn offered(world: &mut World, text: &str) {
    let checked = language::check(text).strategy.unwrap();
    let Command::Lifecycle(lifecycle::Command::Submit { mut submission, dry_run }) =
        submission(led(checked), text)
    else {
        unreachable!()
    };
    submission.parent = Some(ParentOffer::new(submission.id.to_string()));
    world.command(&Command::Lifecycle(lifecycle::Command::Submit { submission, dry_run })).unwrap();
}

fn rolls_out(world: &mut World, agent: &str) {
    let (offer, _) = world.take(agent);
    world.report(agent, &offer, summary("Canary", StageStatus::Completed)).unwrap();
    let (offer, _) = world.take(agent);
    world.report(agent, &offer, summary("choirmaster rollout", StageStatus::Completed)).unwrap();
}

/// A release from above with one failure that is within the limits.
fn partly_failed() -> (World, String) {
    let mut world = World::new();
    let [good, bad] = [world.child(AREA), world.child(AREA)];
    offered(&mut world, &(canary("21", "a").replace("WaitForSignal", "A/B") + "rollout: {max_failed: 1}\n"));
    rolls_out(&mut world, &good);
    let (offer, _) = world.take(&bad);
    world.report(&bad, &offer, summary("Canary", StageStatus::Failure)).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
    (world, bad)
}

#[test]
fn a_retry_below_is_counted_above_when_it_is_done() {
    let (mut world, bad) = partly_failed();
    world.retry("21").unwrap();
    assert_eq!(said_anew(&world, "21"), None, "not before it is over");
    rolls_out(&mut world, &bad);
    assert_eq!(world.release("21").state.name(), "Done");
    assert_eq!(said_anew(&world, "21"), Some((counts(2, 2, 0), 1)));
}

#[test]
fn parent_retry_affects_only_failures_and_reports_everything_again() {
    let (mut world, bad) = partly_failed();
    let again = |retries| {
        Command::Parent(parent::Command::Continue {
            release: "21".into(),
            offer: "21.r2".into(),
            waves: 1,
            retries,
            amounts: Vec::new(),
            liveness_checks: std::collections::BTreeMap::default(),
        })
    };
    world.command(&again(true)).unwrap();
    assert_eq!(world.state_of("21"), "Running");
    world.command(&again(true)).unwrap();
    assert!(world.changes.is_empty(), "said twice");
    rolls_out(&mut world, &bad);
    let reported = world
        .changes
        .iter()
        .filter(|change| matches!(change, Change::Parent(parent::Change::StageReported { .. })));
    assert_eq!(reported.count(), 1);
    assert_eq!(world.release("21").agents(), counts(2, 2, 0));
}

#[test]
fn a_later_proof_of_the_way_back_is_told_above() {
    let mut world = World::new();
    let children = [world.child(AREA), world.child(AREA)];
    offered(&mut world, &canary("21", "a"));
    for child in &children {
        world.take(child);
    }
    world.report(&children[0], "21", summary("Canary", StageStatus::Failure)).unwrap();
    world.pass(Duration::from_mins(31));
    assert_eq!(world.state_of("21"), "RolledBackUnproven");
    assert_eq!(said_anew(&world, "21"), None);
    let (undo, form) = world.take(&children[1]);
    assert_eq!(form, Form::Undo { function: 0 });
    world.report(&children[1], &undo, summary("choirmaster undo", StageStatus::Completed)).unwrap();
    assert_eq!(said_anew(&world, "21").map(|(agents, number)| (agents.unconfirmed, number)), Some((0, 1)));
}

/// A root, and a manager below it that has led four agents, one of which failed.
fn root() -> (World, String) {
    let mut world = World::new();
    let profile = |features: Vec<String>| {
        let mut profile: Profile = manager();
        profile.capabilities.features = features;
        Some(profile)
    };
    let id = world.manager(AREA, 4);
    world.poll_as(&id, AREA, profile(vec![FEATURE_RETRY.to_owned()]));
    world.submit(&(canary("21", "a") + "rollout: {max_failed: 1}\n"));
    world.take(&id);
    world.report(&id, "21", of_agents(StageStatus::Completed, counts(4, 3, 1), None)).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
    assert_eq!(world.release("21").ending.as_ref().unwrap().cause, Cause::Children);
    (world, id)
}

#[test]
fn renewed_manager_report_replaces_earlier_and_outdated_is_ignored() {
    let (mut world, id) = root();
    let anew = |agents, number| of_agents(StageStatus::Completed, agents, Some(number));
    world.report(&id, "21", anew(counts(4, 2, 2), 1)).unwrap();
    assert_eq!(world.release("21").agents(), counts(4, 2, 2));
    world.report(&id, "21", anew(counts(4, 4, 0), 2)).unwrap();
    assert_eq!(world.release("21").agents(), counts(4, 4, 0));
    assert_eq!(world.release("21").state.name(), "Done", "nobody ended badly in the end");
    assert_eq!(world.release("21").ending, None);
    world.report(&id, "21", anew(counts(4, 2, 2), 1)).unwrap();
    assert_eq!(world.release("21").agents(), counts(4, 4, 0), "it came late");
}

#[test]
fn a_retry_at_the_top_reaches_the_failures_below_a_manager_that_succeeded() {
    let (mut world, id) = root();
    world.retry("21").unwrap();
    assert_eq!(world.release("21").agents(), counts(4, 3, 1), "the others keep what they have");
    let offer = world.poll(&id);
    assert_eq!(offer, "21.r2");
    let fetched = world.fetch(&id, &offer).unwrap();
    let text = render_full::whole(&fetched.strategy);
    assert!(text.ends_with("from_above: {continues: \"21\", retries: true}\n"), "{text}");
    let again = language::check_from_parent(text.as_bytes()).strategy.unwrap();
    assert_eq!(again, *fetched.strategy);
    world.report(&id, "21.r2", of_agents(StageStatus::Completed, counts(4, 4, 0), None)).unwrap();
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
    assert_eq!(world.assignment("21", &id).outcome, Some(Outcome::Succeeded));
}

#[test]
fn a_manager_that_does_not_know_of_retries_only_says_again_how_it_ended() {
    let (mut world, id) = root();
    world.poll_as(&id, AREA, Some(manager()));
    world.retry("21").unwrap();
    let offer = world.poll(&id);
    let text = render_full::whole(&world.fetch(&id, &offer).unwrap().strategy);
    assert!(text.ends_with("from_above: {continues: \"21\"}\n"), "{text}");
}

#[test]
fn the_last_proof_from_below_turns_an_unproven_roll_back_into_a_proven_one() {
    let mut world = World::new();
    let id = world.manager(AREA, 4);
    world.submit(&(canary("21", "a") + "rollout: {max_failed: 0}\n"));
    world.take(&id);
    let left = |unconfirmed| Agents { unconfirmed, ..counts(4, 0, 1) };
    world.report(&id, "21", of_agents(StageStatus::Failure, left(2), None)).unwrap();
    assert_eq!(world.state_of("21"), "RolledBackUnproven");
    world.report(&id, "21", of_agents(StageStatus::Failure, left(1), Some(1))).unwrap();
    assert_eq!(world.release("21").unproven(), 1);
    world.report(&id, "21", of_agents(StageStatus::Failure, left(0), Some(2))).unwrap();
    assert_eq!(world.release("21").state.name(), "RolledBack");
}
