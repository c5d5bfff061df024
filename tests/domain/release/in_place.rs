//! Agents that take the whole strategy in one offer and walk through it by themselves.

use std::time::Duration;

use domain::{
    children::Profile,
    release::{
        command::{Command, Form, Reply},
        ending::{Cause, Ending},
        members, stages,
        state::ReleaseState,
        summary::{Summary, Times},
    },
};
use model::{Capabilities, ChildStatus, FEATURE_INTERIM, Leads, Outcome, StageStatus};

use super::world::{AB, WAIT, World, canary, forked, strategy_text, summary, two_functions, two_stage};

use StageStatus::{Completed, Error, Failure, InProgress, ShouldEnd, SuccessWaiting};

const WHOLE: Form = Form::InPlace { is_reported: false, group: language::Group::Agents };

fn own() -> Profile {
    let capabilities = Capabilities { leads: Leads::Whole, ..Capabilities::default() };
    Profile { capabilities, ..Profile::default() }
}

/// An agent that takes whole strategies, and has polled twice.
pub(super) fn own_agent(world: &mut World, area: &str) -> String {
    let (id, _) = world.poll_as("", area, Some(own()));
    world.poll_as(&id, area, Some(own()));
    id
}

fn world_with(text: &str) -> (World, String) {
    let mut world = World::new();
    let agent = own_agent(&mut world, "north");
    world.submit(text);
    (world, agent)
}

/// Whether a stage may end, whether everything is taken back, and which stages are skipped.
fn asks(world: &mut World, child: &str, offer: &str, stage: &str) -> (bool, bool, Vec<String>) {
    let (child, offer, stage) = (child.to_owned(), offer.to_owned(), stage.to_owned());
    match world
        .command(&Command::Members(members::Command::EndStage { child, offer, stage, failures: None }))
        .unwrap()
    {
        Reply::EndStage { end, rollback, skip, .. } => (end, rollback, skip),
        other => panic!("{other:?}"),
    }
}

/// It has all it needs in a stage, is told to end it, and ends it well.
fn passes(world: &mut World, agent: &str, offer: &str, stage: &str) {
    world.report(agent, offer, summary(stage, SuccessWaiting)).unwrap();
    assert_eq!(asks(world, agent, offer, stage), (true, false, vec![]), "{stage}");
    world.report(agent, offer, summary(stage, Completed)).unwrap();
}

fn led(block: &str) -> String {
    let stages = [["First", WAIT, "a", "Second", "rollback"], ["Second", AB, "a", "rollout", "rollback"]];
    strategy_text("7", &format!("rollout: {{{block}}}\n"), &["a"], &stages)
}

#[test]
fn it_takes_one_offer_and_goes_through_all_stages_with_it() {
    let (mut world, agent) = world_with(&two_stage("7", "a"));
    assert_eq!(world.take(&agent), ("7".to_owned(), WHOLE));
    assert_eq!(asks(&mut world, &agent, "7", "First"), (false, false, vec![]));
    passes(&mut world, &agent, "7", "First");
    let part = world.assignment("7", &agent);
    assert_eq!(
        (part.status, part.slot.stage_index(), part.stage_status),
        (ChildStatus::Doing, Some(1), InProgress)
    );
    assert_eq!(world.poll(&agent), "", "nothing new follows");
    // Whatever the type of a stage is, it is held there until it may go on.
    assert_eq!(asks(&mut world, &agent, "7", "Second"), (false, false, vec![]));
    passes(&mut world, &agent, "7", "Second");
    let part = world.assignment("7", &agent);
    assert_eq!((part.status, part.outcome), (ChildStatus::Done, Some(Outcome::Succeeded)));
    assert_eq!(world.runs(&agent, "a"), "new of 7");
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn it_goes_the_way_that_the_strategy_says_after_a_failure() {
    let (mut world, agent) = world_with(&forked("7", "a"));
    world.take(&agent);
    world.report(&agent, "7", summary("Bold", Failure)).unwrap();
    assert_eq!(world.runs(&agent, "a"), "unheard of", "it goes on testing");
    passes(&mut world, &agent, "7", "Careful");
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::Succeeded));
}

/// The text of its offer, where so many others of its kind take part.
fn text_among(others: usize) -> String {
    let mut world = World::new();
    let reports = || {
        let capabilities = Capabilities {
            leads: Leads::Whole,
            features: vec![FEATURE_INTERIM.to_owned()],
            ..Capabilities::default()
        };
        Some(Profile { capabilities, ..Profile::default() })
    };
    let agents: Vec<String> = (0..=others)
        .map(|_| {
            let (id, _) = world.poll_as("", "north", reports());
            world.poll_as(&id, "north", reports());
            id
        })
        .collect();
    world.submit(&two_stage("7", "a"));
    let offer = world.poll(&agents[0]);
    world.fetch(&agents[0], &offer).unwrap().text(&offer)
}

#[test]
fn few_agents_report_stages_on_the_way_so_that_people_see_how_it_goes() {
    let read = |others| language::offer::read(&text_among(others)).unwrap();
    assert!(read(0).stages.iter().all(|stage| stage.interim == Some(language::Interim::FOR_PEOPLE)));
    assert!(read(99).stages.iter().all(|stage| stage.interim.is_some()));
    assert!(read(100).stages.iter().all(|stage| stage.interim.is_none()), "of so many it would cost much");
}

#[test]
fn a_failure_that_leads_nowhere_leaves_the_base_version_of_all_functions() {
    let (mut world, agent) = world_with(&two_functions("7", "a", "b"));
    world.take(&agent);
    passes(&mut world, &agent, "7", "One");
    world.report(&agent, "7", summary("Two", Failure)).unwrap();
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::Failed));
    assert_eq!([world.runs(&agent, "a"), world.runs(&agent, "b")], ["base of 7", "base of 7"]);
    assert!(world.assignment("7", &agent).pending_undo().is_none(), "it has proven it");
}

#[test]
fn a_result_that_comes_twice_changes_nothing() {
    let (mut world, agent) = world_with(&two_stage("7", "a"));
    world.take(&agent);
    passes(&mut world, &agent, "7", "First");
    world.report(&agent, "7", summary("First", Completed)).unwrap();
    assert_eq!(world.changes, []);
    assert_eq!(asks(&mut world, &agent, "7", "First"), (true, false, vec![]));
    assert_eq!(world.assignment("7", &agent).slot.stage_index(), Some(1));
}

#[test]
fn polls_are_no_sign_of_loss_as_long_as_it_says_what_it_takes() {
    let (mut world, agent) = world_with(&two_stage("7", "a"));
    world.take(&agent);
    for _ in 0..20 {
        world.pass(Duration::from_secs(30));
        assert_eq!(world.poll(&agent), "");
    }
    assert_eq!(world.assignment("7", &agent).status, ChildStatus::Doing);
    // Another program polls under its id.
    assert_eq!(world.poll_as(&agent, "north", Some(Profile::default())).1, "");
    assert_eq!(world.poll_as(&agent, "north", Some(Profile::default())).1, "7.undo");
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::Lost));
    assert_eq!(world.fetch(&agent, "7.undo").unwrap().form, Form::Undo { function: 0 });
}

#[test]
fn it_is_gone_after_ninety_seconds_of_silence_and_not_before() {
    let (mut world, agent) = world_with(&two_stage("7", "a"));
    world.take(&agent);
    world.pass(Duration::from_secs(89));
    assert_eq!(world.assignment("7", &agent).status, ChildStatus::Doing);
    assert!(!asks(&mut world, &agent, "7", "First").0);
    world.pass(Duration::from_secs(89));
    assert_eq!(world.assignment("7", &agent).status, ChildStatus::Doing, "it called in between");
    world.pass(Duration::from_secs(2));
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::TimedOut));
    assert_eq!(world.poll(&agent), "7.undo");
}

#[test]
fn a_stage_has_a_deadline_however_often_it_calls() {
    let text = format!("stage_deadline: 10m\n{}", two_stage("7", "a"));
    let (mut world, agent) = world_with(&text);
    world.take(&agent);
    for _ in 0..9 {
        world.pass(Duration::from_mins(1));
        assert!(!asks(&mut world, &agent, "7", "First").0);
    }
    world.pass(Duration::from_mins(1));
    assert_eq!(asks(&mut world, &agent, "7", "First"), (true, true, vec![]), "it is taken back");
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::TimedOut));
}

#[test]
fn a_barrier_holds_it_beside_deployed_agents() {
    let mut world = World::new();
    let (agent, deployed) = (own_agent(&mut world, "north"), world.child("south"));
    world.submit(&led("order: global_incremental"));
    world.take(&agent);
    world.report(&agent, "7", summary("First", SuccessWaiting)).unwrap();
    assert_eq!(asks(&mut world, &agent, "7", "First"), (false, false, vec![]));
    world.get_ready(&deployed, "First");
    assert_eq!(asks(&mut world, &agent, "7", "First"), (true, false, vec![]));
    world.report(&agent, "7", summary("First", Completed)).unwrap();
    world.report(&agent, "7", summary("Second", SuccessWaiting)).unwrap();
    assert_eq!(asks(&mut world, &agent, "7", "Second"), (false, false, vec![]));
    world.report(&deployed, "7", summary("First", Completed)).unwrap();
    let offer = world.get_ready(&deployed, "Second");
    assert_eq!(asks(&mut world, &agent, "7", "Second"), (true, false, vec![]));
    world.report(&agent, "7", summary("Second", Completed)).unwrap();
    world.report(&deployed, &offer, summary("Second", Completed)).unwrap();
    world.roll_out(&deployed);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn a_wave_that_is_not_open_offers_it_nothing_and_it_counts_as_one_agent() {
    let mut world = World::new();
    let first = own_agent(&mut world, "north");
    let second = own_agent(&mut world, "south");
    world.submit(&led("order: waves, waves: [1, 100%]"));
    assert_eq!(world.release("7").agents_planned(), 2);
    assert_eq!([world.poll(&first), world.poll(&second)], ["7", ""]);
    world.take(&first);
    for stage in ["First", "Second"] {
        passes(&mut world, &first, "7", stage);
    }
    assert_eq!(world.poll(&second), "7", "the first wave has met its limits");
    world.take(&second);
    world.report(&second, "7", summary("First", Failure)).unwrap();
    // No failure was allowed: everybody goes back.
    assert_eq!(world.state_of("7"), "RollingBack");
    assert_eq!(world.take(&first), ("7.undo".to_owned(), Form::Undo { function: 0 }));
    world.report(&first, "7.undo", summary("choirmaster undo", Completed)).unwrap();
    assert_eq!(world.ended(), ["RolledBack, 0 unconfirmed"]);
}

#[test]
fn places_are_given_to_it_as_to_others() {
    let mut world = World::new();
    let first = own_agent(&mut world, "north");
    let second = own_agent(&mut world, "south");
    world.submit(&led("order: parallel, max_in_progress: 1"));
    assert_eq!([world.poll(&first), world.poll(&second)], ["7", ""]);
    world.take(&first);
    for stage in ["First", "Second"] {
        assert_eq!(world.poll(&second), "", "before {stage}");
        passes(&mut world, &first, "7", stage);
    }
    assert_eq!(world.take(&second), ("7".to_owned(), WHOLE));
}

#[test]
fn a_pause_holds_it_where_it_is() {
    let (mut world, agent) = world_with(&two_stage("7", "a"));
    world.take(&agent);
    world.pause("7");
    world.report(&agent, "7", summary("First", SuccessWaiting)).unwrap();
    assert_eq!(asks(&mut world, &agent, "7", "First"), (false, false, vec![]));
    world.resume("7");
    assert_eq!(asks(&mut world, &agent, "7", "First"), (true, false, vec![]));
}

#[test]
fn an_abort_takes_back_what_it_has_in_hand_and_its_late_result_proves_it() {
    let (mut world, agent) = world_with(&two_stage("7", "a"));
    world.take(&agent);
    passes(&mut world, &agent, "7", "First");
    world.abort("7");
    assert_eq!(asks(&mut world, &agent, "7", "Second"), (true, true, vec![]));
    assert_eq!(world.poll(&agent), "7.undo", "if it has lost what it had");
    let late = world.report(&agent, "7", summary("Second", Failure));
    assert!(late.is_err(), "{late:?}");
    assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
    assert_eq!(world.runs(&agent, "a"), "base of 7");
}

#[test]
fn a_skipped_stage_is_told_and_waits_for_its_signal_as_others_do() {
    let (mut world, agent) = world_with(&led("order: global_incremental"));
    world.take(&agent);
    let (release, stage) = ("7".to_owned(), "First".to_owned());
    world.command(&Command::Stages(stages::Command::Skip { release, stage })).unwrap();
    assert_eq!(asks(&mut world, &agent, "7", "First"), (false, false, vec!["First".to_owned()]));
    world.report(&agent, "7", summary("First", SuccessWaiting)).unwrap();
    assert!(asks(&mut world, &agent, "7", "First").0);
    world.report(&agent, "7", summary("First", Completed)).unwrap();
    passes_told(&mut world, &agent, "Second", &["First"]);
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::Succeeded));
}

fn passes_told(world: &mut World, agent: &str, stage: &str, skipped: &[&str]) {
    world.report(agent, "7", summary(stage, SuccessWaiting)).unwrap();
    let skipped = skipped.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(asks(world, agent, "7", stage), (true, false, skipped));
    world.report(agent, "7", summary(stage, Completed)).unwrap();
}

#[test]
fn a_stage_before_a_barrier_is_not_ended_by_hand_for_it_would_go_past() {
    let mut world = World::new();
    let (agent, _deployed) = (own_agent(&mut world, "north"), world.child("south"));
    world.submit(&led("order: global_incremental"));
    world.take(&agent);
    let refused = world.end_now("7", "First").unwrap_err().to_string();
    assert!(refused.contains("would go past it"), "{refused}");
    assert_eq!(world.assignment("7", &agent).stage_status, InProgress);
}

#[test]
fn a_stage_without_a_barrier_is_ended_by_hand() {
    let (mut world, agent) = world_with(&two_stage("7", "a"));
    world.take(&agent);
    world.end_now("7", "First").unwrap();
    assert_eq!(world.assignment("7", &agent).stage_status, ShouldEnd);
}

#[test]
fn management_mode_follows_profile_until_release_begins() {
    let plain = || Some(Profile::default());
    let (mut world, agent) = world_with(&two_stage("7", "a"));
    assert!(world.assignment("7", &agent).is_in_place());
    world.poll_as(&agent, "north", plain());
    assert!(world.assignment("7", &agent).stepwise().is_some());
    assert_eq!(world.fetch(&agent, "7").unwrap().form, Form::Stage { stage: 0 });
    // Now it has a stage in hand, and goes on with that.
    world.poll_as(&agent, "north", Some(own()));
    assert!(world.assignment("7", &agent).stepwise().is_some());
    world.report(&agent, "7", summary("First", Failure)).unwrap();
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::Failed));
    // Another attempt is planned as it is by then.
    world.retry("7").unwrap();
    assert_eq!(world.take(&agent), ("7.r2".to_owned(), WHOLE));
}

#[test]
fn agent_lacking_runtime_is_managed_stepwise_for_the_rest() {
    let mut world = World::new();
    let profile = |runtimes: &[&str]| {
        let runtimes = Some(runtimes.iter().map(|name| (*name).to_owned()).collect());
        Profile { capabilities: Capabilities { runtimes, ..own().capabilities }, ..Profile::default() }
    };
    let text = two_functions("7", "a", "b").replacen("env: nodejs", "env: python3", 1);
    let (id, _) = world.poll_as("", "north", Some(profile(&["nodejs"])));
    world.poll_as(&id, "north", Some(profile(&["nodejs"])));
    world.submit(&format!("target: {{partial: allow}}\n{text}"));
    assert!(world.assignment("7", &id).stepwise().is_some());
    // It takes part in what it can run.
    let (offer, text) = world.take(&id);
    assert!(offer.starts_with('7') && text != WHOLE, "{offer}: {text:?}");
}

/// The new version got no call.
fn without_calls(stage: &str, status: StageStatus) -> Summary {
    let none = Times { median: -1.0, minimum: -1.0, maximum: -1.0 };
    Summary { f2_times_summary: none, ..summary(stage, status) }
}

#[test]
fn untested_agent_rolls_back_then_joins_rollout_if_configured() {
    let mut world = World::new();
    let (idle, busy) = (own_agent(&mut world, "north"), own_agent(&mut world, "south"));
    world.submit(&led("order: parallel, no_calls: after 10m, untested: rollout"));
    world.take(&idle);
    world.take(&busy);
    for stage in ["First", "Second"] {
        passes(&mut world, &busy, "7", stage);
    }
    for minute in 0..30 {
        let (end, rollback, _) = asks(&mut world, &idle, "7", "First");
        assert_eq!(end, rollback, "it would go on with what comes next");
        if end {
            assert!(minute >= 10, "{minute}");
            break;
        }
        world.pass(Duration::from_mins(1));
    }
    world.report(&idle, "7", without_calls("First", Failure)).unwrap();
    assert_eq!(world.assignment("7", &idle).outcome, Some(Outcome::Untested));
    let (offer, form) = world.take(&idle);
    assert_eq!(form, Form::Rollout { function: 0 });
    // It has a call open while it sets that up, too.
    for _ in 0..3 {
        assert_eq!(world.poll(&idle), "");
    }
    world.report(&idle, &offer, summary("choirmaster rollout", Completed)).unwrap();
    assert_eq!(world.runs(&idle, "a"), "new of 7");
    assert_eq!(world.assignment("7", &idle).outcome, Some(Outcome::Untested));
}

#[test]
fn an_own_agent_follows_a_deployed_one_and_the_other_way_round() {
    for own_first in [true, false] {
        let mut world = World::new();
        let area = "north";
        let old = if own_first { own_agent(&mut world, area) } else { world.child(area) };
        world.submit(&canary("7", "a"));
        world.take(&old);
        world.pass(Duration::from_secs(30));
        let new = if own_first { world.child(area) } else { own_agent(&mut world, area) };
        for _ in 0..720 {
            world.pass(Duration::from_secs(5));
            if world.poll(&new) == "7.undo" {
                break;
            }
        }
        let (offer, form) = world.take(&new);
        assert_eq!((offer.as_str(), form), ("7.undo", Form::Undo { function: 0 }), "own first: {own_first}");
        world.report(&new, "7.undo", summary("choirmaster undo", Completed)).unwrap();
        let (offer, form) = world.take(&new);
        if own_first {
            assert_eq!(form, Form::Stage { stage: 0 });
            world.report(&new, &offer, summary("Canary", SuccessWaiting)).unwrap();
            world.report(&new, &offer, summary("Canary", Completed)).unwrap();
            world.roll_out(&new);
        } else {
            assert_eq!(form, WHOLE);
            passes(&mut world, &new, &offer, "Canary");
        }
        assert_eq!(world.ended(), ["Done, 0 unconfirmed"], "own first: {own_first}");
    }
}

#[test]
fn an_error_of_its_own_is_undone() {
    let (mut world, agent) = world_with(&canary("7", "a"));
    world.take(&agent);
    world.report(&agent, "7", summary("Canary", StageStatus::Error)).unwrap();
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::Failed));
    assert_eq!(world.take(&agent), ("7.undo".to_owned(), Form::Undo { function: 0 }));
    assert!(matches!(
        world.release("7").state,
        ReleaseState::Running | ReleaseState::RollingBack { .. } | ReleaseState::Over { .. }
    ));
}

/// What an agent says when its operator has taken back, or replaced, what an offer left there.
fn operator_says(stage: &str, status: StageStatus) -> Summary {
    let why = Ending::new(Cause::Operator, "taken back by an operator of the agent: slow");
    Summary { why: Some(Box::new(why)), ..summary(stage, status) }
}

#[test]
fn what_an_operator_takes_back_at_an_agent_is_known_and_counted_once() {
    let (mut world, agent) = world_with(&two_stage("7", "a"));
    world.take(&agent);
    passes(&mut world, &agent, "7", "First");
    passes(&mut world, &agent, "7", "Second");
    assert_eq!(world.runs(&agent, "a"), "new of 7");
    world.report(&agent, "7", operator_says("Second", Failure)).unwrap();
    assert_eq!(world.runs(&agent, "a"), "base of 7");
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::Undone));
    let counts = &world.release("7").counts;
    assert_eq!((counts.succeeded, counts.undone), (0, 1));
    world.report(&agent, "7", operator_says("Second", Failure)).unwrap();
    assert_eq!(world.changes, [], "it said so before");
    // Something else serves from now on, of which nothing is known here.
    world.report(&agent, "7", operator_says("Second", Error)).unwrap();
    assert_eq!(world.runs(&agent, "a"), "unknown of 7");
}

#[test]
fn what_a_release_left_serves_again_once_an_operator_takes_back_what_was_added() {
    let (mut world, agent) = world_with(&two_stage("7", "a"));
    world.take(&agent);
    passes(&mut world, &agent, "7", "First");
    passes(&mut world, &agent, "7", "Second");
    world.report(&agent, "7", operator_says("Second", Error)).unwrap();
    assert_eq!(world.runs(&agent, "a"), "unknown of 7");
    world.report(&agent, "7", operator_says("Second", Completed)).unwrap();
    assert_eq!(world.runs(&agent, "a"), "new of 7");
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::Succeeded));
    world.report(&agent, "7", operator_says("Second", Completed)).unwrap();
    assert_eq!(world.changes, [], "it said so before");
    // The base version again, whatever served in between.
    for status in [Failure, Error, Failure] {
        world.report(&agent, "7", operator_says("Second", status)).unwrap();
    }
    assert_eq!(world.runs(&agent, "a"), "base of 7");
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::Undone));
}

#[test]
fn what_an_operator_takes_back_is_no_news_once_a_later_release_has_changed_it() {
    let (mut world, agent) = world_with(&two_stage("7", "a"));
    for release in ["7", "8"] {
        if release == "8" {
            world.submit(&two_stage("8", "a"));
        }
        world.take(&agent);
        passes(&mut world, &agent, release, "First");
        passes(&mut world, &agent, release, "Second");
    }
    assert!(world.report(&agent, "7", operator_says("Second", Failure)).is_err());
    assert_eq!(world.runs(&agent, "a"), "new of 8");
}

#[test]
fn an_operator_takes_back_one_function_of_two() {
    let (mut world, agent) = world_with(&two_functions("7", "a", "b"));
    world.take(&agent);
    passes(&mut world, &agent, "7", "One");
    passes(&mut world, &agent, "7", "Two");
    world.report(&agent, "7", operator_says("One", Failure)).unwrap();
    assert_eq!((&*world.runs(&agent, "a"), &*world.runs(&agent, "b")), ("base of 7", "new of 7"));
    assert_eq!(world.assignment("7", &agent).outcome, Some(Outcome::Succeeded));
}

/// A stage that has failed and keeps its shares, or was gone on from.
pub(super) fn kept(stage: &str, status: StageStatus) -> Summary {
    let why = Ending::new(Cause::Kept, "errorRate is 0.3");
    Summary { why: Some(Box::new(why)), ..summary(stage, status) }
}

const KEEPS: &str = "on_failure: pause";

#[test]
fn failed_stage_keeps_shares_only_if_one_failure_pauses_release() {
    let whether = [
        (KEEPS, true),
        ("on_failure: pause, max_failed: 1", false),
        ("on_failure: rollback", false),
        ("on_failure: continue", false),
    ];
    for (block, is_to) in whether {
        let (mut world, agent) = world_with(&led(block));
        let offer = world.poll(&agent);
        let text = world.fetch(&agent, &offer).unwrap().text(&offer);
        assert_eq!(text.contains("keeps_failed: true"), is_to, "{block}\n{text}");
        assert_eq!(language::offer::read(&text).unwrap().keeps_failed, is_to);
    }
}

#[test]
fn a_stage_that_failed_and_keeps_its_shares_stands_still_until_somebody_decides() {
    let (mut world, agent) = world_with(&led(KEEPS));
    world.take(&agent);
    world.report(&agent, "7", kept("First", SuccessWaiting)).unwrap();
    assert_eq!(world.state_of("7"), "Paused");
    let why = world.waits_child("7", &agent);
    assert!(why.contains("has failed stage First") && why.contains("keeps its shares"), "{why}");
    assert_eq!(asks(&mut world, &agent, "7", "First"), (false, false, vec![]));
    world.resume("7");
    // What comes again was decided.
    world.report(&agent, "7", kept("First", SuccessWaiting)).unwrap();
    assert_eq!(world.state_of("7"), "Running");
    assert_eq!(asks(&mut world, &agent, "7", "First"), (true, false, vec![]));
    world.report(&agent, "7", kept("First", Failure)).unwrap();
    let part = world.assignment("7", &agent);
    assert_eq!((part.slot.stage_index(), part.stage_status), (Some(1), InProgress));
    // The next one is judged anew.
    world.report(&agent, "7", kept("Second", SuccessWaiting)).unwrap();
    assert_eq!(world.state_of("7"), "Paused");
    world.resume("7");
    assert_eq!(asks(&mut world, &agent, "7", "Second"), (true, false, vec![]));
    world.report(&agent, "7", kept("Second", Failure)).unwrap();
    assert_eq!(world.runs(&agent, "a"), "new of 7");
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn a_signal_from_before_a_stage_failed_lets_nobody_go_on() {
    let (mut world, agent) = world_with(&led(KEEPS));
    world.take(&agent);
    world.report(&agent, "7", summary("First", SuccessWaiting)).unwrap();
    assert_eq!(asks(&mut world, &agent, "7", "First"), (true, false, vec![]));
    // It had failed before it heard that.
    world.report(&agent, "7", kept("First", SuccessWaiting)).unwrap();
    assert_eq!(world.state_of("7"), "Paused");
    assert_eq!(asks(&mut world, &agent, "7", "First"), (false, false, vec![]));
    world.resume("7");
    assert_eq!(asks(&mut world, &agent, "7", "First"), (true, false, vec![]));
}

#[test]
fn a_stage_that_failed_and_keeps_its_shares_is_rolled_back_by_an_abort() {
    let (mut world, agent) = world_with(&led(KEEPS));
    world.take(&agent);
    world.report(&agent, "7", kept("First", SuccessWaiting)).unwrap();
    world.abort("7");
    assert_eq!(asks(&mut world, &agent, "7", "First"), (true, true, vec![]));
    let _ = world.report(&agent, "7", summary("First", Failure));
    assert_eq!(world.ended(), ["Aborted, 0 unconfirmed"]);
}

/// Its targets were away, so the new version got no calls, and its operator takes it back after somebody let it go on.
#[test]
fn decision_on_failed_stage_does_not_apply_to_retry() {
    let (mut world, agent) = world_with(&led(KEEPS));
    world.take(&agent);
    world.report(&agent, "7", kept("First", SuccessWaiting)).unwrap();
    world.resume("7");
    world.report(&agent, "7", without_calls("First", Failure)).unwrap();
    world.retry("7").unwrap();
    let (again, _) = world.take(&agent);
    world.report(&agent, &again, kept("First", SuccessWaiting)).unwrap();
    assert_eq!(world.state_of("7"), "Paused");
    assert_eq!(asks(&mut world, &agent, &again, "First"), (false, false, vec![]));
    world.resume("7");
    assert_eq!(asks(&mut world, &agent, &again, "First"), (true, false, vec![]));
}

#[test]
fn failed_stage_keeping_shares_pauses_an_already_paused_release() {
    let (mut world, agent) = world_with(&led(KEEPS));
    let other = own_agent(&mut world, "south");
    world.extend("7");
    for agent in [&agent, &other] {
        world.take(agent);
    }
    world.pause("7");
    world.report(&agent, "7", kept("First", SuccessWaiting)).unwrap();
    assert!(world.waits("7").contains("errorRate is 0.3"), "{}", world.waits("7"));
    world.resume("7");
    // Whoever let the first go on has heard nothing of the second.
    world.report(&other, "7", kept("First", SuccessWaiting)).unwrap();
    assert_eq!(world.state_of("7"), "Paused");
    let answers = [&agent, &other].map(|agent| asks(&mut world, agent, "7", "First").0);
    assert_eq!(answers, [true, false]);
    world.abort("7");
    for agent in [&agent, &other] {
        assert_eq!(asks(&mut world, agent, "7", "First"), (true, true, vec![]));
    }
}
