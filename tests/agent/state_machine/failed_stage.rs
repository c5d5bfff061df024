//! Stages that fail and keep their shares, until the manager says what becomes of them.

use agent::state_machine::{Act, Event};
use model::StageStatus;
use protocol::{EndStageAnswer, FollowUp};

use super::{OFFER, services, world::World};

/// A function or a service, whose offer keeps what fails.
fn kept(of_service: bool) -> (World, &'static str) {
    let mut world = World::new();
    let text = if of_service {
        services::offer("r1", 80, ["A", "B"]).replace("    type: Traffic\n", "    type: WaitForSignal\n")
    } else {
        OFFER.to_owned()
    };
    world.offers.push(("r1".to_owned(), text + "from_above: {keeps_failed: true}\n"));
    let name = if of_service { "shop" } else { "hello" };
    // The new version is well until it is tried.
    world.until("it is tried", |world| world.share(name) == 1_000);
    (world, name)
}

fn fails(world: &mut World) {
    world.errors.extend([("new", 80), ("B", 80)]);
    world.until("it has failed", |world| world.core.state().kept().is_some());
}

#[test]
fn a_stage_that_has_failed_keeps_its_shares_and_is_told_once_with_the_reason() {
    for of_service in [false, true] {
        let (mut world, name) = kept(of_service);
        fails(&mut world);
        world.steps(500);
        assert_eq!(world.share(name), 1_000);
        assert_eq!(world.ended(), []);
        let told: Vec<_> = world.told.iter().filter_map(|told| told.summary.why.clone()).collect();
        let [why] = &told[..] else { panic!("{told:?}") };
        assert_eq!(why.cause, "kept");
        assert!(why.text.contains("errorRate"), "{why:?}");
        assert_eq!(world.core.stops().judged, 0, "nothing was taken back");
    }
}

#[test]
fn the_signal_goes_on_to_the_next_stage_and_says_that_this_one_has_failed() {
    for of_service in [false, true] {
        let (mut world, name) = kept(of_service);
        fails(&mut world);
        world.steps(20);
        world.errors.clear();
        world.signal(None);
        world.until("the next stage", |world| world.share(name) == 5_000);
        world.until("it is rolled out", |world| world.ended().len() == 2);
        let said = [("little", StageStatus::Failure, "half"), ("half", StageStatus::Completed, "rollout")];
        for (told, (_, status, next)) in world.ended().iter().zip(said) {
            assert_eq!((told.1, &*told.2), (status, next));
        }
        let first = world.told.iter().find(|told| told.status == StageStatus::Failure).unwrap();
        assert_eq!(first.summary.why.as_ref().unwrap().cause, "kept");
        assert!(world.core.state().work.is_none());
    }
}

#[test]
fn a_last_stage_that_has_failed_is_rolled_out_by_the_signal() {
    let (mut world, name) = kept(true);
    world.signal(None);
    world.until("the last stage", |world| world.share(name) == 5_000);
    world.end = None;
    fails(&mut world);
    world.steps(20);
    world.signal(None);
    world.until("it serves alone", |world| services::serving(world) == Some((80, "B".to_owned())));
    assert_eq!(world.ended()[1], ("half".to_owned(), StageStatus::Failure, "rollout".to_owned()));
    assert_eq!(world.told.last().unwrap().summary.why.as_ref().unwrap().cause, "kept");
}

#[test]
fn it_is_taken_back_where_the_manager_or_an_operator_of_the_agent_wants_it() {
    for by_manager in [true, false] {
        for of_service in [false, true] {
            let (mut world, name) = kept(of_service);
            fails(&mut world);
            // Calls that are well again make no success of it.
            world.errors.clear();
            world.calls = 20_000;
            world.steps(50);
            if by_manager {
                world.signal(Some(FollowUp::Rollback));
            } else {
                world.undo(None).unwrap();
            }
            world.until("it is told", |world| !world.ended().is_empty());
            let (_, status, next) = &world.ended()[0];
            assert_eq!((*status, &**next, world.share(name)), (StageStatus::Failure, "rollback", 0));
            let why = world.told.last().unwrap().summary.why.clone();
            assert!(why.is_none_or(|why| why.cause != "kept"), "it was not gone on from");
        }
    }
}

#[test]
fn a_kill_at_any_step_keeps_the_shares_also_while_the_manager_is_away() {
    for steps in [0, 1, 2, 3, 5, 8, 13, 40] {
        let (mut world, name) = kept(true);
        world.manager_away = true;
        fails(&mut world);
        world.steps(steps);
        world.kill();
        world.steps(100);
        assert!(world.core.state().kept().is_some());
        assert_eq!((world.share(name), world.told.len()), (1_000, 0));
        world.manager_away = false;
        world.until("it is told", |world| !world.told.is_empty());
        assert_eq!(world.told[0].summary.why.as_ref().unwrap().cause, "kept");
        world.signal(None);
        world.until("the next stage", |world| world.share(name) == 5_000);
    }
}

/// The answer of a call that was under way when it failed.
#[test]
fn a_signal_from_before_the_failure_was_known_is_no_decision() {
    let (mut world, name) = kept(true);
    world.until("it waits", |world| world.told.iter().any(|told| told.status == StageStatus::SuccessWaiting));
    let begun_ms = world.now_ms;
    fails(&mut world);
    world.until("it is told", |world| world.owed().is_empty());
    world.steps(20);
    let ask = |world: &World| {
        let acts = world.core.acts(world.now());
        acts.into_iter().find(|act| matches!(act, Act::EndStage { .. })).unwrap()
    };
    let answer = EndStageAnswer { end_stage: true, ..EndStageAnswer::default() };
    let Act::EndStage { offer, stage, skipped, shares } = ask(&world) else { unreachable!() };
    let took_ms = world.now_ms - begun_ms;
    let late = Event::EndStage { offer, stage, skipped, shares, took_ms, answer: Ok(answer) };
    world.core.handle(late, world.now());
    world.steps(100);
    assert_eq!((world.share(name), world.core.state().kept().is_some()), (1_000, true));
    world.signal(None);
    world.until("the next stage", |world| world.share(name) == 5_000);
}

#[test]
fn unhealthy_targets_keep_shares_and_missing_calls_are_no_failure() {
    let mut world = World::new();
    let text = services::offer("r1", 80, ["A", "B"])
        .replace("    type: Traffic\n", "    type: WaitForSignal\n    healthy_targets: 75\n");
    world.offers.push(("r1".to_owned(), text + "from_above: {keeps_failed: true}\n"));
    let key = ("shop".to_owned(), "B".to_owned());
    let seen = |healthy, unhealthy| agent::state_machine::TargetsSeen { healthy, unhealthy, unknown: 0 };
    world.targets.insert(key.clone(), seen(4, 0));
    world.until("it is tried", |world| world.share("shop") == 1_000);
    world.targets.insert(key, seen(1, 3));
    world.until("it has failed", |world| world.core.state().kept().is_some());
    assert!(world.core.state().kept().unwrap().contains("1 are healthy"));
    world.steps(100);
    assert_eq!((world.share("shop"), world.ended().len()), (1_000, 0));
    // Told to end a stage without calls, it goes back as ever.
    let (mut world, name) = (World::new(), "shop");
    world.calls = 0;
    let text =
        services::offer("r1", 80, ["A", "B"]).replace("    type: Traffic\n", "    type: WaitForSignal\n");
    world.offers.push(("r1".to_owned(), text + "from_above: {keeps_failed: true}\n"));
    world.until("it is tried", |world| world.share(name) == 1_000);
    world.signal(Some(FollowUp::Rollback));
    world.until("it is told", |world| !world.ended().is_empty());
    assert_eq!(world.share(name), 0);
}
