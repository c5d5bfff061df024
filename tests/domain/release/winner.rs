//! Another variation of a service wins than its stages lead to.

use domain::{
    children::Profile,
    release::{
        command::{Command, Refusal, Reply},
        ending::{Cause, Ending},
        members, rollout, stages,
        summary::Summary,
    },
};
use model::{Capabilities, ChildStatus, FEATURE_WINNER, Leads, StageStatus};

use super::world::{World, canary, checkout, summary, traffic_stage};

use StageStatus::{Completed, Failure, SuccessWaiting};

fn strategy(rollout: &str) -> String {
    let service = checkout(&["A", "B", "C"]);
    let little = traffic_stage("little", "A: 80, B: 15, C: 5", "half");
    let half = traffic_stage("half", "A: 40, B: 50, C: 10", "rollout");
    format!("id: s\nname: checkout\n{service}rollout: {{{rollout}}}\nstages:\n{little}{half}")
}

/// A router that understands these, and has polled twice.
pub fn router(world: &mut World, features: &[&str]) -> String {
    let capabilities = Capabilities {
        leads: Leads::Whole,
        routers: vec!["nginx".to_owned()],
        runtimes: Some(Vec::new()),
        features: features.iter().map(|feature| (*feature).to_owned()).collect(),
        ..Capabilities::default()
    };
    let profile = Profile { capabilities, ..Profile::default() };
    let (id, _) = world.poll_as("", "north", Some(profile.clone()));
    world.poll_as(&id, "north", Some(profile));
    id
}

/// Two routers that can be told who wins, in the first stage.
fn in_the_first_stage(rollout: &str) -> (World, [String; 2]) {
    let mut world = World::new();
    let routers = [(); 2].map(|()| router(&mut world, &[FEATURE_WINNER]));
    world.submit(&strategy(rollout));
    for router in &routers {
        world.take(router);
    }
    (world, routers)
}

fn choose(world: &mut World, variation: &str) -> Result<(), Refusal> {
    let (release, variation) = ("s".to_owned(), variation.to_owned());
    world.command(&Command::Rollout(rollout::Command::ChooseWinner { release, variation })).map(|_| ())
}

fn promote(world: &mut World, variation: &str) -> Result<(), Refusal> {
    let (release, variation) = ("s".to_owned(), variation.to_owned());
    world.command(&Command::Rollout(rollout::Command::PromoteVariation { release, variation })).map(|_| ())
}

/// Whether a stage may end, and who wins then.
fn asks(world: &mut World, child: &str, stage: &str) -> (bool, Option<String>) {
    let (child, offer, stage) = (child.to_owned(), "s".to_owned(), stage.to_owned());
    match world
        .command(&Command::Members(members::Command::EndStage { child, offer, stage, failures: None }))
        .unwrap()
    {
        Reply::EndStage { end, winner, .. } => (end, winner),
        other => panic!("{other:?}"),
    }
}

fn all_report(world: &mut World, routers: &[String], stage: &str, status: StageStatus) {
    for router in routers {
        world.report(router, "s", summary(stage, status)).unwrap();
    }
}

/// What the operator of one router takes back there is known, as of a function.
#[test]
fn what_an_operator_takes_back_at_a_router_is_known_and_counted_once() {
    let (mut world, routers) = in_the_first_stage("order: global_incremental");
    for stage in ["little", "half"] {
        all_report(&mut world, &routers, stage, SuccessWaiting);
        all_report(&mut world, &routers, stage, Completed);
    }
    let [one, other] = &routers;
    assert_eq!(world.runs(one, "service/checkout"), "new of s");
    let why = Ending::new(Cause::Operator, "taken back by an operator of the agent");
    for is_news in [true, false] {
        let said = Summary { why: Some(Box::new(why.clone())), ..summary("half", Failure) };
        world.report(one, "s", said).unwrap();
        assert_eq!(!world.changes.is_empty(), is_news);
    }
    assert_eq!(
        (&*world.runs(one, "service/checkout"), &*world.runs(other, "service/checkout")),
        ("base of s", "new of s")
    );
    let counts = &world.release("s").counts;
    assert_eq!((counts.succeeded, counts.undone), (1, 1));
}

#[test]
fn no_router_may_end_its_last_stage_without_having_heard_who_wins() {
    let (mut world, routers) = in_the_first_stage("order: global_incremental");
    assert_eq!(world.release("s").winner(), Some(1));
    assert_eq!(asks(&mut world, &routers[0], "little"), (false, None));
    promote(&mut world, "C").unwrap();
    assert_eq!(world.release("s").winner(), Some(2));
    for stage in ["little", "half"] {
        for router in &routers {
            assert_eq!(
                asks(&mut world, router, stage),
                (false, Some("C".to_owned())),
                "it has not what it needs"
            );
            world.report(router, "s", summary(stage, SuccessWaiting)).unwrap();
            assert_eq!(
                asks(&mut world, router, stage),
                (true, Some("C".to_owned())),
                "nothing holds it any more"
            );
            world.report(router, "s", summary(stage, Completed)).unwrap();
        }
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn it_opens_nothing_by_itself_and_is_said_twice_with_one_fact() {
    let (mut world, routers) = in_the_first_stage("order: global_incremental");
    choose(&mut world, "C").unwrap();
    choose(&mut world, "C").unwrap();
    assert_eq!(world.release("s").facts.len(), 1);
    world.report(&routers[0], "s", summary("little", SuccessWaiting)).unwrap();
    assert_eq!(
        asks(&mut world, &routers[0], "little"),
        (false, Some("C".to_owned())),
        "the other has not come there"
    );
    // As long as nobody ends the last stage it can be another one.
    choose(&mut world, "B").unwrap();
    assert_eq!(asks(&mut world, &routers[0], "little"), (false, Some("B".to_owned())));
}

#[test]
fn ending_the_last_stage_fixes_the_winner_for_all() {
    let (mut world, routers) = in_the_first_stage("order: parallel");
    world.report(&routers[0], "s", summary("little", SuccessWaiting)).unwrap();
    assert_eq!(asks(&mut world, &routers[0], "little"), (true, None));
    world.report(&routers[0], "s", summary("little", Completed)).unwrap();
    world.report(&routers[0], "s", summary("half", SuccessWaiting)).unwrap();
    let before = promote(&mut world, "B");
    assert_eq!(before, Ok(()), "it is what they lead to");
    assert_eq!(world.release("s").chosen_winner(), None);
    assert_eq!(asks(&mut world, &routers[0], "half"), (true, None));
    let refused = promote(&mut world, "C").unwrap_err().to_string();
    let id = &routers[0];
    assert_eq!(
        refused,
        format!("variation C of release s can't be promoted: {id} ends its last stage already")
    );
    world.report(&routers[0], "s", summary("half", Completed)).unwrap();
    assert_eq!(world.assignment("s", id).status, ChildStatus::Done);
    let refused = choose(&mut world, "C").unwrap_err().to_string();
    assert!(refused.ends_with(&format!("another one has taken over at {id}")), "{refused}");
    assert_eq!(world.release("s").chosen_winner(), None, "what is refused leaves nothing behind");
}

#[test]
fn promotion_names_unsupported_child_and_ignores_late_joiner() {
    let mut world = World::new();
    let old = router(&mut world, &[]);
    world.submit(&strategy("order: parallel"));
    world.take(&old);
    let refused = promote(&mut world, "C").unwrap_err().to_string();
    let why = format!("{old} can't be told which variation wins (it doesn't name the feature \"winner\")");
    assert_eq!(refused, format!("variation C of release s can't be promoted: {why}"));
    assert_eq!(world.release("s").facts, []);

    let (mut world, routers) = in_the_first_stage("order: parallel, late_joiners: include");
    choose(&mut world, "C").unwrap();
    let late = router(&mut world, &[]);
    world.take(&late);
    world.report(&late, "s", summary("little", SuccessWaiting)).unwrap();
    assert_eq!(asks(&mut world, &late, "little"), (false, None), "it would have B win");
    world.report(&routers[0], "s", summary("little", SuccessWaiting)).unwrap();
    assert_eq!(asks(&mut world, &routers[0], "little"), (true, Some("C".to_owned())));
    world.abort("s");
    let (child, offer, stage) = (late.clone(), "s".to_owned(), "little".to_owned());
    let answer = world
        .command(&Command::Members(members::Command::EndStage { child, offer, stage, failures: None }))
        .unwrap();
    assert!(matches!(answer, Reply::EndStage { rollback: true, .. }), "{answer:?}");
}

#[test]
fn one_router_that_fails_takes_all_back_to_the_stable_one() {
    let (mut world, routers) = in_the_first_stage("order: global_incremental, on_failure: rollback");
    choose(&mut world, "C").unwrap();
    let skip = |stage: &str| {
        let (release, stage) = ("s".to_owned(), stage.to_owned());
        Command::Stages(stages::Command::Skip { release, stage })
    };
    for stage in ["little", "half"] {
        world.command(&skip(stage)).unwrap();
    }
    promote(&mut world, "C").unwrap();
    for stage in ["little", "half"] {
        world.report(&routers[0], "s", summary(stage, SuccessWaiting)).unwrap();
        assert_eq!(asks(&mut world, &routers[0], stage), (true, Some("C".to_owned())));
        world.report(&routers[0], "s", summary(stage, Completed)).unwrap();
    }
    all_report(&mut world, &routers[1..], "little", Failure);
    assert_eq!(world.state_of("s"), "RollingBack");
    assert_eq!(world.poll(&routers[0]), "s.undo");
}

#[test]
fn what_is_no_variation_of_a_release_under_way_is_refused_with_the_reason() {
    let (mut world, _) = in_the_first_stage("order: parallel");
    assert!(matches!(choose(&mut world, "D"), Err(Refusal::UnknownVariation { .. })));
    assert!(matches!(choose(&mut world, "A"), Err(Refusal::WrongState { .. })));
    world.abort("s");
    assert!(matches!(choose(&mut world, "C"), Err(Refusal::WrongState { .. })));

    let mut world = World::new();
    world.child("one");
    world.submit(&canary("7", "a"));
    let (release, variation) = ("7".to_owned(), "B".to_owned());
    let command = Command::Rollout(rollout::Command::ChooseWinner { release, variation });
    assert!(matches!(world.command(&command), Err(Refusal::WrongState { .. })));
}
