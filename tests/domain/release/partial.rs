//! `partial: allow`: a child runs the functions that it can, and passes over the others.

use domain::{
    children::Profile,
    release::{
        command::{Command, Form},
        rollout, stages,
    },
};
use language::render::ROLLOUT_STAGE;
use model::{Capabilities, ChildStatus, Exclusion, Outcome, StageStatus};

use super::world::{WAIT, World, manager, strategy_text, summary};

/// Functions a (nodejs), b (python) and c (rust), two stages of each of a and b in turn, one of c.
fn three(extra: &str) -> String {
    let stages = [
        ["A1", WAIT, "a", "B1", "rollback"],
        ["B1", WAIT, "b", "A2", "rollback"],
        ["A2", WAIT, "a", "C1", "rollback"],
        ["C1", WAIT, "c", "rollout", "rollback"],
    ];
    let text = strategy_text("7", extra, &["a", "b", "c"], &stages);
    ["b", "c"].iter().zip(["python", "rust"]).fold(text, |text, (function, env)| {
        ["base", "new"].iter().fold(text, |text, version| {
            let path = format!("fns/{function}_{version}, env: ");
            text.replace(&format!("{path}nodejs"), &format!("{path}{env}"))
        })
    })
}

const ALLOW: &str = "target: {partial: allow}\n";

fn profile(runtimes: &[&str]) -> Profile {
    let runtimes = Some(runtimes.iter().map(|r| (*r).to_owned()).collect());
    Profile { capabilities: Capabilities { runtimes, ..Capabilities::default() }, ..Profile::default() }
}

fn child(world: &mut World, runtimes: &[&str]) -> String {
    let (id, _) = world.poll_as("", "x", Some(profile(runtimes)));
    world.poll_as(&id, "x", Some(profile(runtimes)));
    id
}

/// Takes the child through everything that it is offered, and answers the offers.
fn walk(world: &mut World, child: &str) -> Vec<String> {
    let mut offers = Vec::new();
    loop {
        let offer = world.poll(child);
        if offer.is_empty() {
            return offers;
        }
        let form = world.fetch(child, &offer).unwrap().form;
        let stages = ["A1", "B1", "A2", "C1"];
        let stage = match form {
            Form::Rollout { .. } => ROLLOUT_STAGE,
            Form::Stage { stage, .. } => stages[usize::from(stage)],
            other => panic!("{other:?}"),
        };
        world.report(child, &offer, summary(stage, StageStatus::SuccessWaiting)).unwrap();
        assert_eq!(world.may_end(child, &offer, stage), Ok(true), "{offer}");
        world.report(child, &offer, summary(stage, StageStatus::Completed)).unwrap();
        offers.push(offer);
    }
}

#[test]
fn each_child_runs_the_stages_and_roll_outs_of_the_functions_that_it_can() {
    for (runtimes, offers, runs) in [
        (
            &["nodejs", "python", "rust"][..],
            &["7", "7.2", "7.3", "7.4", "7.rollout", "7.rollout.2", "7.rollout.3"][..],
            "abc",
        ),
        (&["nodejs"], &["7", "7.3", "7.rollout"], "a"),
        (&["python"], &["7.2", "7.rollout.2"], "b"),
        (&["rust"], &["7.4", "7.rollout.3"], "c"),
        (&["nodejs", "rust"], &["7", "7.3", "7.4", "7.rollout", "7.rollout.3"], "ac"),
    ] {
        let mut world = World::new();
        let child = child(&mut world, runtimes);
        world.submit(&three(ALLOW));
        assert_eq!(walk(&mut world, &child), offers, "{runtimes:?}");
        assert_eq!(world.release("7").state.name(), "Done", "{runtimes:?}");
        for function in ["a", "b", "c"] {
            let expected = if runs.contains(function) { "new of 7" } else { "unheard of" };
            assert_eq!(world.runs(&child, function), expected, "{runtimes:?}: {function}");
        }
    }
}

#[test]
fn without_it_a_child_that_lacks_one_runtime_takes_no_part() {
    let mut world = World::new();
    let (all, some) = (child(&mut world, &["nodejs", "python", "rust"]), child(&mut world, &["nodejs"]));
    world.submit(&three(""));
    assert_eq!((world.poll(&all), world.poll(&some)), ("7".to_owned(), String::new()));
    assert_eq!(world.release("7").excluded, [(Exclusion::Runtime, 1)]);
}

#[test]
fn a_child_that_can_run_none_is_left_out() {
    let mut world = World::new();
    let (some, none) = (child(&mut world, &["python"]), child(&mut world, &["cobol"]));
    world.submit(&three(ALLOW));
    assert_eq!((world.poll(&some), world.poll(&none)), ("7.2".to_owned(), String::new()));
    assert_eq!(world.release("7").excluded, [(Exclusion::Runtime, 1)]);
}

/// Nothing leads to a roll-out, and what it can run is never tested: there is nothing to do for it.
#[test]
fn child_without_testable_stage_is_excluded_when_nothing_rolls_out() {
    let stages = [["A1", WAIT, "a", "rollback", "rollback"]];
    let text = strategy_text("7", ALLOW, &["a", "b"], &stages);
    let text = ["base", "new"].iter().fold(text, |text, version| {
        text.replace(&format!("fns/b_{version}, env: nodejs"), &format!("fns/b_{version}, env: python"))
    });
    let mut world = World::new();
    let child = child(&mut world, &["python"]);
    world.submit(&text);
    assert_eq!(world.poll(&child), "");
    assert_eq!(world.release("7").excluded, [(Exclusion::Runtime, 1)]);
}

#[test]
fn a_failure_of_what_it_runs_takes_back_what_it_runs_and_nothing_else() {
    let mut world = World::new();
    let child = child(&mut world, &["nodejs", "rust"]);
    world.submit(&three(ALLOW));
    for stage in ["A1", "A2"] {
        let (offer, _) = world.take(&child);
        world.report(&child, &offer, summary(stage, StageStatus::Completed)).unwrap();
    }
    let (offer, _) = world.take(&child);
    world.report(&child, &offer, summary("C1", StageStatus::Completed)).unwrap();
    let (offer, form) = world.take(&child);
    assert_eq!((offer.as_str(), form), ("7.rollout", Form::Rollout { function: 0 }));
    world.report(&child, &offer, summary(ROLLOUT_STAGE, StageStatus::Completed)).unwrap();
    world.abort("7");
    let (offer, form) = world.take(&child);
    assert_eq!((offer.as_str(), form), ("7.undo", Form::Undo { function: 0 }));
    world.report(&child, &offer, summary("", StageStatus::Completed)).unwrap();
    assert_eq!(world.poll(&child), "");
    assert_eq!(world.runs(&child, "a"), "base of 7");
    assert_eq!(world.release("7").state.name(), "Aborted");
}

#[test]
fn another_attempt_runs_the_same_functions() {
    let mut world = World::new();
    let child = child(&mut world, &["python"]);
    world.submit(&three(ALLOW));
    let (offer, _) = world.take(&child);
    world.report(&child, &offer, summary("B1", StageStatus::Failure)).unwrap();
    assert_eq!(world.ended(), ["DoneWithFailures, 0 unconfirmed"]);
    world.retry("7").unwrap();
    assert_eq!(walk(&mut world, &child), ["7.r2.2", "7.r2.rollout.2"]);
    assert_eq!(world.release("7").state.name(), "Done");
}

#[test]
fn what_a_child_can_run_is_looked_at_again_until_it_begins() {
    let mut world = World::new();
    let (grows, shrinks) = (child(&mut world, &["python"]), child(&mut world, &["nodejs", "python"]));
    let begun = child(&mut world, &["python"]);
    world.submit(&three(ALLOW));
    let (offer, _) = world.take(&begun);
    world.poll_as(&begun, "x", Some(profile(&["nodejs", "python"])));
    world.poll_as(&grows, "x", Some(profile(&["nodejs", "python"])));
    world.poll_as(&shrinks, "x", Some(profile(&["python"])));
    assert_eq!((world.poll(&grows), world.poll(&shrinks)), ("7".to_owned(), "7.2".to_owned()));
    world.poll_as(&grows, "x", Some(profile(&["cobol"])));
    let left_out = Some(Outcome::Excluded(Exclusion::Runtime));
    assert_eq!(world.assignment("7", &grows).outcome, left_out);
    // What it has begun it goes on with as it began.
    assert_eq!(world.assignment("7", &begun).status, ChildStatus::Doing);
    world.report(&begun, &offer, summary("B1", StageStatus::Completed)).unwrap();
    assert_eq!(world.poll(&begun), "7.rollout.2");
}

#[test]
fn who_joins_later_runs_what_it_can() {
    let mut world = World::new();
    let first = child(&mut world, &["nodejs"]);
    world.submit(&three(&format!("{ALLOW}rollout: {{late_joiners: include}}\n")));
    assert_eq!(world.poll(&first), "7");
    let late = child(&mut world, &["rust"]);
    assert_eq!(world.poll(&late), "7.4");
    let all = child(&mut world, &["nodejs", "python", "rust"]);
    assert_eq!(world.poll(&all), "7");
    world.command(&Command::Rollout(rollout::Command::Extend { release: "7".to_owned() })).unwrap();
    assert_eq!(world.poll(&late), "7.4");
}

#[test]
fn barriers_wait_for_nobody_who_passes_over_their_stage() {
    let mut world = World::new();
    let (nodejs, python) = (child(&mut world, &["nodejs"]), child(&mut world, &["python"]));
    world.submit(&three(&format!("{ALLOW}rollout: {{order: global_incremental}}\n")));
    // B1 stands above A1: who begins with it waits until A1 has passed everywhere.
    assert_eq!((world.poll(&nodejs), world.poll(&python)), ("7".to_owned(), String::new()));
    world.get_ready(&nodejs, "A1");
    assert_eq!(world.may_end(&nodejs, "7", "A1"), Ok(true));
    world.report(&nodejs, "7", summary("A1", StageStatus::Completed)).unwrap();
    // A2 stands above B1.
    assert_eq!((world.poll(&nodejs), world.poll(&python)), (String::new(), "7.2".to_owned()));
    world.get_ready(&python, "B1");
    assert_eq!(world.may_end(&python, "7.2", "B1"), Ok(true));
    world.report(&python, "7.2", summary("B1", StageStatus::Completed)).unwrap();
    assert_eq!((world.poll(&nodejs), world.poll(&python)), ("7.3".to_owned(), String::new()));
    world.get_ready(&nodejs, "A2");
    assert_eq!(world.may_end(&nodejs, "7.3", "A2"), Ok(true));
    world.report(&nodejs, "7.3", summary("A2", StageStatus::Completed)).unwrap();
    for child in [&nodejs, &python] {
        walk(&mut world, child);
    }
    assert_eq!(world.release("7").state.name(), "Done");
}

#[test]
fn a_skipped_stage_is_passed_over_together_with_those_it_does_not_run() {
    let mut world = World::new();
    let child = child(&mut world, &["nodejs", "rust"]);
    world.submit(&three(ALLOW));
    let (offer, _) = world.take(&child);
    let (release, stage) = ("7".to_owned(), "A2".to_owned());
    world.command(&Command::Stages(stages::Command::Skip { release, stage })).unwrap();
    world.report(&child, &offer, summary("A1", StageStatus::Completed)).unwrap();
    assert_eq!(world.poll(&child), "7.4");
}

#[test]
fn a_manager_below_gets_all_of_it_and_sees_to_its_own_children() {
    let mut world = World::new();
    let mut below = manager();
    below.capabilities.runtimes = Some(vec!["python".to_owned()]);
    let (id, _) = world.poll_as("", "x", Some(below.clone()));
    world.poll_as(&id, "x", Some(below));
    world.submit(&three(ALLOW));
    let offer = world.poll(&id);
    let fetched = world.fetch(&id, &offer).unwrap();
    assert_eq!((offer.as_str(), fetched.form), ("7", Form::Full));
    assert_eq!((fetched.strategy.functions.len(), fetched.strategy.stages.len()), (3, 4));
    let text = fetched.text("7");
    assert!(text.contains("partial: allow"), "{text}");
}
