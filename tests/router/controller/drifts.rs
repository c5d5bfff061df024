//! A router does something else than it was told and did.

use router::controller::{DriftAction, OnDrift, Order, Phase, RouterEvent};
use traffic::observed::ObservedConfig;

use super::{
    states::{edit, obeyed, shares, shop},
    world::World,
};

fn in_force() -> World {
    let mut world = World::new();
    world.want(&shop(1, &[9_000, 1_000]));
    world.until_in_force();
    world
}

fn drifts(world: &World) -> Vec<DriftAction> {
    let drift = |(_, fact): &(u64, RouterEvent)| match fact {
        RouterEvent::Drift { then, .. } => Some(*then),
        _ => None,
    };
    world.facts.iter().filter_map(drift).collect()
}

#[test]
fn a_drift_is_seen_within_two_seconds_and_repaired() {
    let mut world = in_force();
    edit(&mut world.does, "shop", &[5_000, 5_000]);
    world.does.left_over.push("old".to_owned());
    let edited_ms = world.now_ms;
    world.until("it is seen", |world| !drifts(world).is_empty());
    assert!(world.now_ms <= edited_ms + 2_100);
    world.until_in_force();
    assert_eq!(world.does, obeyed(&shop(1, &[9_000, 1_000])));
    insta::assert_snapshot!(world.told_facts(), @r"
    1.1 is in force
    drift: shop is shared 50/50 %, and is to be 90/10 %; old is there and belongs to nothing that is wanted; it is told again
    1.1 is in force
    ");
}

#[test]
fn a_router_that_lost_its_state_or_has_an_old_one_is_told_again() {
    for after in [ObservedConfig::default(), obeyed(&shop(0, &[0, 10_000]))] {
        let mut world = in_force();
        world.does = after;
        world.until("it is seen", |world| !drifts(world).is_empty());
        world.until_in_force();
        assert_eq!(world.does, obeyed(&shop(1, &[9_000, 1_000])));
    }
}

/// It was restarted, and nobody has decided that: a canary that was taken back long ago would have calls again.
#[test]
fn who_accepts_drifts_does_not_accept_that_a_state_is_lost() {
    for after in [ObservedConfig::default(), obeyed(&shop(0, &[0, 10_000]))] {
        let mut world = in_force();
        world.on_drift(OnDrift::Accept);
        edit(&mut world.does, "shop", &[6_000, 4_000]);
        world.until("it is accepted", |world| world.phase() == Phase::Accepted);
        world.does = after;
        world.until("it is seen", |world| drifts(world).len() == 2);
        assert_eq!(drifts(&world), [DriftAction::Accepted, DriftAction::Repaired]);
        world.until_in_force();
        assert_eq!(world.does, obeyed(&shop(1, &[9_000, 1_000])));
    }
}

#[test]
fn after_three_repairs_in_an_hour_it_is_left_alone_until_somebody_says_otherwise() {
    let mut world = in_force();
    for repairs in 1..=3 {
        edit(&mut world.does, "shop", &[5_000, 5_000]);
        world.until("it is seen", |world| drifts(world).len() == repairs);
        world.until_in_force();
    }
    edit(&mut world.does, "shop", &[5_000, 5_000]);
    world.until("it is left alone", |world| world.phase() == Phase::Paused);
    assert_eq!(
        drifts(&world),
        [
            DriftAction::Repaired,
            DriftAction::Repaired,
            DriftAction::Repaired,
            DriftAction::PausedAfterRepairs
        ]
    );
    let told = world.told;
    world.pass_ms(2 * 3_600_000);
    assert_eq!((world.told, shares(&world.does, "shop")), (told, vec![5_000, 5_000]));
    assert!(world.status().trouble.unwrap().contains("left alone"));
    world.order(Order::Repair);
    world.until_in_force();
    assert_eq!(shares(&world.does, "shop"), [9_000, 1_000]);
}

#[test]
fn repairs_of_an_hour_ago_do_not_count() {
    let mut world = in_force();
    for repairs in 1..=8 {
        edit(&mut world.does, "shop", &[5_000, 5_000]);
        world.until("it is seen", |world| drifts(world).len() == repairs);
        world.until_in_force();
        world.pass_ms(1_300_000);
    }
    assert_eq!(drifts(&world), [DriftAction::Repaired; 8]);
}

#[test]
fn a_drift_may_pause_or_be_accepted_and_each_other_one_is_told_as_well() {
    for (on_drift, phase) in [(OnDrift::Pause, Phase::Paused), (OnDrift::Accept, Phase::Accepted)] {
        let mut world = in_force();
        world.on_drift(on_drift);
        edit(&mut world.does, "shop", &[5_000, 5_000]);
        world.until("it is left alone", |world| world.phase() == phase);
        // What comes to be of its targets is not put in force meanwhile.
        let b = shop(1, &[9_000, 1_000]).services()[0].variations[1].targets.clone();
        world.bad.extend(b);
        world.tell_health();
        world.pass_ms(60_000);
        edit(&mut world.does, "shop", &[6_000, 4_000]);
        world.pass_ms(60_000);
        assert_eq!((world.told, shares(&world.does, "shop")), (1, vec![6_000, 4_000]));
        assert_eq!(drifts(&world).len(), 2);
        // It does by itself what it was told: then what is known of targets counts again.
        world.does = obeyed(&shop(1, &[9_000, 1_000]));
        world.until("it is over", |world| {
            world.has_said(|fact| matches!(fact, RouterEvent::DriftOver { .. }))
        });
        world.until_in_force();
        assert_eq!(shares(&world.does, "shop"), [10_000, 0]);
    }
}

#[test]
fn a_roll_back_reaches_a_router_that_is_left_alone() {
    for on_drift in [OnDrift::Pause, OnDrift::Accept] {
        let mut world = in_force();
        world.on_drift(on_drift);
        edit(&mut world.does, "shop", &[0, 10_000]);
        world.until("it is left alone", |world| world.phase() != Phase::InForce);
        world.want(&shop(2, &[10_000, 0]));
        world.until_in_force();
        assert_eq!(shares(&world.does, "shop"), [10_000, 0]);
    }
}
