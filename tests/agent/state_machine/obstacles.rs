//! What keeps a stage from going on although its calls are well: a split that is wrong, and targets that are away.

use agent::state_machine::TargetsSeen;
use model::StageStatus;

use super::{
    services::{offer, serving},
    world::World,
};

/// With stages that wait for the manager's signal, as all of a release that is led in place do.
fn offered(extra: &str) -> World {
    let mut world = World::new();
    let text = offer("r1", 80, ["A", "B"])
        .replace("    type: Traffic\n", &format!("    type: WaitForSignal\n{extra}"));
    world.offers.push(("r1".to_owned(), text));
    world
}

fn said(world: &World) -> Vec<String> {
    let whys = world.reports.iter().chain(world.told.iter().map(|told| &told.summary));
    whys.filter_map(|summary| Some(summary.why.as_ref()?.text.clone())).collect()
}

#[test]
fn split_off_by_a_tenth_is_reported_without_rollback() {
    let mut world = offered("");
    (world.calls, world.closes, world.really) = (20_000, true, Some(vec![8_900, 1_100]));
    world.until("it is met", |world| world.core.state().obstacle().is_some());
    let text = world.core.state().obstacle().unwrap().to_owned();
    assert!(text.starts_with("shop: the split is wrong: wanted 90 : 10 %, measured 89 : 11 % of "), "{text}");
    world.until("it is told", |world| !said(world).is_empty());
    assert_eq!(
        world.reports.first().and_then(|report| report.why.as_ref()).map(|why| &*why.cause),
        Some("obstacle")
    );
    world.steps(200);
    // Once: who lets the release go on has seen it.
    let reports: Vec<_> = world.reports.iter().filter(|report| report.why.is_some()).collect();
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].status, StageStatus::InProgress);
    assert_eq!(world.share("shop"), 1_000);
    // The signal is that of whoever resumed it.
    world.signal(None);
    world.until("the next stage", |world| world.share("shop") == 5_000);
    world.until("it is told", |world| !world.ended().is_empty());
    assert_eq!(world.ended()[0].1, StageStatus::Completed);
}

/// As behind a router that keeps users by a cookie of its own: who was drawn before the shares changed stays.
#[test]
fn calls_of_users_whom_nobody_tells_apart_are_no_sign_of_a_wrong_split() {
    let mut world = offered("");
    world.offers[0].1 =
        world.offers[0].1.replace("    variations:", "    sticky: {cookie: cm}\n    variations:");
    (world.calls, world.closes, world.really) = (20_000, true, Some(vec![8_900, 1_100]));
    world.until("it waits", |world| world.told.iter().any(|told| told.status == StageStatus::SuccessWaiting));
    world.steps(200);
    assert_eq!(world.core.state().obstacle(), None);
}

#[test]
fn while_the_manager_is_away_it_waits_also_over_a_restart_and_is_told_afterwards() {
    let mut world = offered("");
    (world.calls, world.closes, world.really) = (20_000, true, Some(vec![8_900, 1_100]));
    world.until("it is tried", |world| world.share("shop") == 1_000);
    world.manager_away = true;
    world.until("it is met", |world| world.core.state().obstacle().is_some());
    world.steps(50);
    world.kill();
    world.steps(50);
    assert!(world.core.state().obstacle().is_some());
    assert_eq!((world.share("shop"), said(&world).len()), (1_000, 0));
    world.manager_away = false;
    world.until("it is told", |world| !said(world).is_empty());
}

#[test]
fn a_split_that_is_right_is_never_told() {
    let mut world = offered("");
    (world.calls, world.closes) = (20_000, true);
    world.until("it waits", |world| world.told.iter().any(|told| told.status == StageStatus::SuccessWaiting));
    world.steps(200);
    assert_eq!(world.core.state().obstacle(), None);
    assert!(said(&world).is_empty());
}

fn targets(world: &mut World, [healthy, unhealthy, unknown]: [u32; 3]) {
    let key = ("shop".to_owned(), "B".to_owned());
    world.targets.insert(key, TargetsSeen { healthy, unhealthy, unknown });
}

#[test]
fn too_few_healthy_targets_fail_stage_even_without_manager() {
    let mut world = offered("    healthy_targets: 75\n");
    targets(&mut world, [4, 0, 0]);
    world.until("it is tried", |world| world.share("shop") == 1_000);
    world.steps(5);
    world.manager_away = true;
    // 3 of 4 are enough, and what isn't known yet may be.
    targets(&mut world, [3, 1, 0]);
    world.steps(10);
    targets(&mut world, [2, 1, 1]);
    world.steps(10);
    assert_eq!(world.share("shop"), 1_000);
    targets(&mut world, [2, 2, 0]);
    world.until("it is taken back", |world| world.share("shop") == 0);
    world.manager_away = false;
    world.until("it is told", |world| !world.ended().is_empty());
    assert_eq!(world.ended()[0], ("little".to_owned(), StageStatus::Failure, "rollback".to_owned()));
    let why = world.told.last().unwrap().summary.why.clone().unwrap();
    assert_eq!(
        (&*why.cause, &*why.text),
        ("health", "of 4 targets of B of shop 2 are healthy, demanded are 75 %")
    );
}

#[test]
fn nothing_known_of_targets_is_never_taken_for_healthy() {
    for known in [None, Some([0, 0, 4]), Some([0, 0, 0]), Some([2, 0, 2])] {
        let mut world = offered("    healthy_targets: 75\n");
        if let Some(known) = known {
            targets(&mut world, known);
        }
        world.until("it is tried", |world| world.share("shop") == 1_000);
        world.steps(200);
        assert!(world.told.is_empty(), "{known:?}: it doesn't end, well or badly");
        world.until("somebody has to look", |world| !said(world).is_empty());
        let text = said(&world).remove(0);
        assert!(text.starts_with("for 30s now: ") && text.ends_with("demanded are 75 %"), "{text}");
        targets(&mut world, [3, 0, 1]);
        world.until("it waits", |world| !world.told.is_empty());
        assert_eq!(world.told[0].status, StageStatus::SuccessWaiting);
    }
}

#[test]
fn a_variation_that_does_not_answer_when_it_is_to_serve_alone_does_not() {
    let mut world = World::new();
    world.offers.push(("r1".to_owned(), offer("r1", 80, ["A", "B"])));
    world.silent.insert("B".to_owned());
    world.until("it is taken back", |world| serving(world) == Some((80, "A".to_owned())));
    world.until("it is told", |world| world.ended().len() == 2);
    assert_eq!(world.ended()[1], ("half".to_owned(), StageStatus::Failure, "rollback".to_owned()));
    // It had all calls for as long as it was asked, with the stable one beside.
    assert!(
        world
            .tables
            .iter()
            .all(|table| table.services.iter().all(|service| service.variations[0].name != "B"))
    );

    // It answers late.
    let mut world = World::new();
    world.offers.push(("r1".to_owned(), offer("r1", 80, ["A", "B"])));
    world.silent.insert("B".to_owned());
    world.until("it gets all calls", |world| world.share("shop") == 10_000);
    world.steps(100);
    assert_eq!(world.ended().len(), 1);
    world.silent.clear();
    world.until("it serves alone", |world| serving(world) == Some((80, "B".to_owned())));
}
