//! Children that are not what they were: what they have begun goes on, what they have not is planned anew.

use domain::{
    children::{self, Profile},
    release::{
        change::Change,
        command::{Command, Form, Refusal},
        members,
    },
};
use model::{Capabilities, ChildStatus, Cordon, Exclusion, Outcome, StageStatus};

use super::world::{WAIT, World, canary, strategy_text, summary};

const HERE: &str = r#"{"type": "Polygon", "coordinates": [[[1,1],[2,1],[2,2],[1,2],[1,1]]]}"#;
const ELSEWHERE: &str = r#"{"type": "Polygon", "coordinates": [[[50,1],[51,1],[51,2],[50,2],[50,1]]]}"#;

/// One stage for a part of the children: `target` and `rollout` in flow style.
fn aimed(target: &str, rollout: &str) -> String {
    let blocks = format!("target: {{{target}}}\nrollout: {{{rollout}}}\n");
    strategy_text("7", &blocks, &["a"], &[["One", WAIT, "a", "rollout", "rollback"]])
}

const AREA: &str = "area: {type: Polygon, coordinates: [[[0,0],[3,0],[3,3],[0,3],[0,0]]]}";

fn label(world: &mut World, child: &str, value: Option<&str>) {
    let (child, key) = (child.to_owned(), "tier".to_owned());
    world
        .command(&Command::Children(children::Command::Label { child, key, value: value.map(str::to_owned) }))
        .unwrap();
}

fn edge(world: &mut World, area: &str) -> String {
    let child = world.child(area);
    label(world, &child, Some("edge"));
    child
}

fn outcome(world: &World, child: &str) -> (ChildStatus, Option<Outcome>) {
    let assignment = world.assignment("7", child);
    (assignment.status, assignment.outcome)
}

#[test]
fn child_losing_label_leaves_unstarted_release_without_failure() {
    let mut world = World::new();
    let (begun, waits) = (edge(&mut world, "one"), edge(&mut world, "two"));
    world.submit(&aimed("labels: {tier: edge}", "order: parallel"));
    world.get_ready(&begun, "One");
    assert_eq!(world.poll(&waits), "7");
    for child in [&begun, &waits] {
        label(&mut world, child, None);
    }
    assert_eq!(outcome(&world, &waits), (ChildStatus::No, Some(Outcome::Excluded(Exclusion::Label))));
    insta::assert_snapshot!(world.waits_child("7", &waits), @"takes no part: has not all labels of the target");
    // It was shown the offer: that is empty now.
    assert_eq!(world.fetch(&waits, "7").unwrap().form, Form::Withdrawn);
    // The other one goes on to the end.
    assert_eq!(world.may_end(&begun, "7", "One"), Ok(true));
    world.report(&begun, "7", summary("One", StageStatus::Completed)).unwrap();
    let (offer, _) = world.take(&begun);
    world.report(&begun, &offer, summary("", StageStatus::Completed)).unwrap();
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn nobody_waits_at_a_barrier_for_who_was_taken_out() {
    let mut world = World::new();
    let (first, second) = (edge(&mut world, "one"), edge(&mut world, "two"));
    world.submit(&aimed("labels: {tier: edge}", "order: global_incremental"));
    world.get_ready(&first, "One");
    assert_eq!(world.may_end(&first, "7", "One"), Ok(false));
    label(&mut world, &second, Some("cloud"));
    assert_eq!(world.may_end(&first, "7", "One"), Ok(true));
}

#[test]
fn child_leaving_target_area_may_return_only_as_late_joiner() {
    for (late_joiners, comes_back) in [("include", true), ("exclude", false)] {
        let mut world = World::new();
        let (stays, moves) = (world.child(HERE), world.child(HERE));
        world.submit(&aimed(AREA, &format!("late_joiners: {late_joiners}")));
        assert_eq!(world.poll(&stays), "7");
        assert_eq!(world.poll_as(&moves, ELSEWHERE, None).1, "");
        assert_eq!(outcome(&world, &moves), (ChildStatus::No, Some(Outcome::Excluded(Exclusion::Outside))));
        let (_, offer) = world.poll_as(&moves, HERE, None);
        assert_eq!(offer, if comes_back { "7.r2" } else { "" });
    }
}

#[test]
fn who_comes_to_fit_joins_where_late_joiners_are_wanted() {
    let mut world = World::new();
    let (fits, far, plain) = (edge(&mut world, HERE), edge(&mut world, ELSEWHERE), world.child(HERE));
    world.submit(&aimed(&format!("{AREA}, labels: {{tier: edge}}"), "late_joiners: include"));
    assert_eq!((world.poll(&fits).as_str(), world.poll(&far).as_str()), ("7", ""));
    assert_eq!(world.poll_as(&far, HERE, None).1, "7");
    world
        .command(&Command::Children(children::Command::Cordon {
            child: plain.clone(),
            cordon: Cordon::Cordoned,
        }))
        .unwrap();
    label(&mut world, &plain, Some("edge"));
    assert_eq!(world.poll(&plain), "", "it is cordoned");
    world.cordon(&plain, Cordon::Open);
    assert_eq!(world.poll(&plain), "7");
}

#[test]
fn who_loses_a_runtime_is_taken_out_but_a_cordon_takes_nothing_away() {
    let runtimes = |names: &[&str]| {
        let runtimes = Some(names.iter().map(|name| (*name).to_owned()).collect());
        let capabilities = Capabilities { runtimes, ..Capabilities::default() };
        Some(Profile { capabilities, ..Profile::default() })
    };
    let mut world = World::new();
    let (loses, cordoned) = (world.child("one"), world.child("two"));
    world.submit(&canary("7", "a"));
    world.cordon(&cordoned, Cordon::Cordoned);
    assert_eq!(world.poll_as(&loses, "one", runtimes(&["nodejs"])).1, "7");
    assert_eq!(world.poll_as(&loses, "one", runtimes(&["python"])).1, "");
    assert_eq!(outcome(&world, &loses), (ChildStatus::No, Some(Outcome::Excluded(Exclusion::Runtime))));
    assert_eq!(world.poll_as(&cordoned, "another", None).1, "7");
}

#[test]
fn another_attempt_is_only_for_who_still_fits() {
    let mut world = World::new();
    let (one, two) = (edge(&mut world, "one"), edge(&mut world, "two"));
    world.submit(&aimed("labels: {tier: edge}", "on_failure: continue"));
    for child in [&one, &two] {
        world.take(child);
        label(&mut world, child, None);
    }
    world.report(&one, "7", summary("One", StageStatus::Failure)).unwrap();
    let alone = Command::Members(members::Command::Retry { release: "7".to_owned(), child: one.clone() });
    let refused = world.command(&alone).unwrap_err();
    assert!(matches!(refused, Refusal::Unfit { why: Exclusion::Label, .. }), "{refused}");
    world.report(&two, "7", summary("One", StageStatus::Failure)).unwrap();
    label(&mut world, &two, Some("edge"));
    world.retry("7").unwrap();
    assert_eq!(outcome(&world, &one), (ChildStatus::No, Some(Outcome::Excluded(Exclusion::Label))));
    assert_eq!((world.poll(&one).as_str(), world.poll(&two).as_str()), ("", "7.r2"));
}

#[test]
fn a_release_that_waits_asks_who_takes_part_when_it_starts() {
    let mut world = World::new();
    let child = edge(&mut world, "one");
    world.submit(&canary("6", "a"));
    world.submit(&aimed("labels: {tier: edge}", "order: parallel"));
    label(&mut world, &child, None);
    assert!(
        !world
            .changes
            .iter()
            .any(|change| matches!(change, Change::Members(members::Change::Stepped { .. })))
    );
    world.abort("6");
    let (participants, ended) = (world.release("7").participants(), world.ended());
    assert_eq!((participants, ended.len()), (0, 2), "{ended:?}");
}
