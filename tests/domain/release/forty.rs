//! Forty routers of one service, each in an area of its own: who has its turn when, and what a few bad ones bring about.

use std::sync::Arc;

use domain::{
    children::Profile,
    release::{
        command::{Command, Refusal, Reply},
        members,
    },
    traffic::{self, Report, RouterReport, Service, Variation},
};
use model::{
    Capabilities, Leads, StageStatus,
    traffic::{LedForm, LedVariation, RouterPhase, TargetCount},
};

use super::world::{World, checkout, summary, traffic_stage};

use StageStatus::{Completed, Failure, SuccessWaiting};

const ROUTERS: usize = 40;

fn router() -> Capabilities {
    Capabilities { leads: Leads::Whole, routers: vec!["nginx".to_owned()], ..Capabilities::default() }
}

/// Routers by their distance from the west, the nearest first. They came in another order.
fn fleet(world: &mut World) -> Vec<String> {
    let profile = Profile { capabilities: router(), ..Profile::default() };
    let mut routers = vec![String::new(); ROUTERS];
    for number in 0..ROUTERS {
        // 7 and 40 have no divisor in common, so each place comes once.
        let place = number * 7 % ROUTERS;
        let (west, east) = (place as f64 * 2.0 - 40.0, place as f64 * 2.0 - 39.0);
        let area = format!(
            "{{\"type\":\"Polygon\",\"coordinates\":[[[{west},0],[{east},0],[{east},1],[{west},1],[{west},0]]]}}"
        );
        let (id, _) = world.poll_as("", &area, Some(profile.clone()));
        world.poll_as(&id, &area, Some(profile.clone()));
        routers[place] = id;
    }
    routers
}

fn strategy(rollout: &str) -> String {
    let service = checkout(&["A", "B"]);
    let little = traffic_stage("little", "A: 90, B: 10", "half");
    let half = traffic_stage("half", "A: 50, B: 50", "rollout");
    format!("id: r\nname: checkout\n{service}rollout: {{{rollout}}}\nstages:\n{little}{half}")
}

/// Those of them that are offered the release now.
fn offered(world: &mut World, routers: &[String]) -> Vec<usize> {
    (0..routers.len()).filter(|place| world.poll(&routers[*place]) == "r").collect()
}

/// Whether it may end the stage, and whether it is to take all back.
fn asks(world: &mut World, router: &str, stage: &str) -> (bool, bool) {
    let (child, offer, stage) = (router.to_owned(), "r".to_owned(), stage.to_owned());
    match world
        .command(&Command::Members(members::Command::EndStage { child, offer, stage, failures: None }))
        .unwrap()
    {
        Reply::EndStage { end, rollback, .. } => (end, rollback),
        other => panic!("{other:?}"),
    }
}

/// It goes through a stage and ends it well.
fn passes(world: &mut World, router: &str, stage: &str) {
    world.report(router, "r", summary(stage, SuccessWaiting)).unwrap();
    assert_eq!(asks(world, router, stage), (true, false), "{router} in {stage}");
    world.report(router, "r", summary(stage, Completed)).unwrap();
}

fn passes_all(world: &mut World, router: &str) {
    world.take(router);
    passes(world, router, "little");
    passes(world, router, "half");
}

#[test]
fn the_nearest_has_its_turn_first_and_nobody_begins_before_it_is_done() {
    let mut world = World::new();
    let routers = fleet(&mut world);
    world.submit(&strategy("order: location_sequential, start_at: [-60, 0.5]"));
    for (place, router) in routers.iter().enumerate() {
        assert_eq!(offered(&mut world, &routers), [place]);
        world.take(router);
        passes(&mut world, router, "little");
        assert_eq!(offered(&mut world, &routers), [0_usize; 0], "it is between its stages");
        passes(&mut world, router, "half");
    }
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);
}

#[test]
fn waves_open_one_after_the_other_with_as_many_as_they_say() {
    let mut world = World::new();
    let routers = fleet(&mut world);
    world.submit(&strategy("order: waves, waves: [2, 25%, 100%]"));
    let (mut done, mut ended) = (0, Vec::new());
    for size in [2, 8, 30] {
        let turn = offered(&mut world, &routers);
        assert_eq!(turn.len(), size, "after {done}");
        for (nth, place) in turn.iter().enumerate() {
            passes_all(&mut world, &routers[*place]);
            ended = world.ended();
            let others = offered(&mut world, &routers);
            let is_last = nth + 1 == size;
            assert!(is_last || others.iter().all(|other| turn.contains(other)), "{others:?} beside {turn:?}");
        }
        done += size;
    }
    assert_eq!((done, ended), (ROUTERS, vec!["Done, 0 unconfirmed".to_owned()]));
}

#[test]
fn only_failures_above_limit_roll_everything_back() {
    let mut world = World::new();
    let routers = fleet(&mut world);
    world.submit(&strategy("order: global_incremental, max_failed: 2"));
    for router in &routers {
        world.take(router);
    }
    let (bad, good) = routers.split_at(3);
    for (nth, router) in bad.iter().enumerate() {
        assert_eq!(asks(&mut world, &good[0], "little"), (false, false), "{nth} have failed");
        world.report(router, "r", summary("little", Failure)).unwrap();
    }
    for router in good {
        assert_eq!(asks(&mut world, router, "little"), (true, true), "{router}");
        assert_eq!(world.ended(), [""; 0], "not before each has taken it back");
        // It is over for it, and what it says proves that it has.
        let late = world.report(router, "r", summary("little", Failure));
        assert!(late.is_err(), "{late:?}");
    }
    assert_eq!(world.ended(), ["RolledBack, 0 unconfirmed"]);
    assert!(routers.iter().all(|router| !world.runs(router, "service/checkout").starts_with("new")));
}

/// A router says that it stands so: everything to one of the two variations, as this offer has left it.
fn stands(world: &mut World, router: &str, serving: usize, offer: &str) {
    let each = ["A", "B"].into_iter().enumerate();
    let variations = each.clone().map(|(at, name)| Variation {
        name: name.to_owned(),
        wanted: if at == serving { 10_000 } else { 0 },
        seen: Some(if at == serving { 10_000 } else { 0 }),
        targets: TargetCount { healthy: Some(1), total: 1 },
        draining: None,
        calls: None,
        errors: None,
        histogram: None,
    });
    let led = each.map(|(at, name)| LedVariation {
        name: name.to_owned(),
        targets: vec![format!("127.0.0.1:{}", at + 1)],
        health: None,
    });
    let service = Service {
        led: Arc::new(LedForm { variations: led.collect(), ..LedForm::default() }),
        offer: Some(offer.to_owned()),
        is_standing: true,
        ..Service::told("checkout".to_owned(), variations.collect())
    };
    let told = RouterReport {
        kind: "nginx".to_owned(),
        version: None,
        phase: RouterPhase::Idle,
        trouble: None,
        is_reached: true,
        repairs: 0,
        ports: None,
        takeover_trouble: None,
        untold: 0,
    };
    let report = Report { told, services: vec![service], drifts: Vec::new(), answers: Vec::new() };
    let command = traffic::Command::Report { child: router.to_owned(), report: Box::new(report) };
    world.command(&Command::Traffic(command)).unwrap();
}

#[test]
fn what_a_router_said_before_its_release_was_over_refuses_no_release_that_follows() {
    let mut world = World::new();
    let profile = Profile { capabilities: router(), ..Profile::default() };
    let (router, _) = world.poll_as("", "north", Some(profile.clone()));
    world.poll_as(&router, "north", Some(profile));
    let alone = "order: global_incremental";
    stands(&mut world, &router, 0, "earlier");
    world.submit(&strategy(alone));
    passes_all(&mut world, &router);
    assert_eq!(world.ended(), ["Done, 0 unconfirmed"]);

    // B serves, and the router hasn't said so yet. The next release begins with it.
    let from_b = |id: &str| {
        let text = strategy(alone).replace("id: r\n", &format!("id: {id}\n"));
        let swapped =
            text.replace("name: A,", "name: B2,").replace("name: B,", "name: A,").replace("B2", "B");
        let swapped = swapped.replace("127.0.0.1:1", "127.0.0.1:x").replace("127.0.0.1:2", "127.0.0.1:1");
        swapped.replace("127.0.0.1:x", "127.0.0.1:2").replace("{A: ", "{B: ").replace(", B: ", ", A: ")
    };
    world.submit_text(&from_b("next")).unwrap();
    world.abort("next");
    stands(&mut world, &router, 1, "r");
    let refused = world.submit_text(
        &strategy(alone).replace("id: r\n", "id: again\n").replace("127.0.0.1:2", "127.0.0.1:3"),
    );
    assert!(matches!(refused, Err(Refusal::OtherBase(_))), "{refused:?}");
    world.submit_text(&from_b("last")).unwrap();
}
