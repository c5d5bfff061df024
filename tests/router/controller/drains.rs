//! Variations that have no share any more are waited for.

use router::controller::{Order, RouterEvent};

use super::{
    states::{by_header, edit, shop, spec, wanted_of},
    world::{Fate, World},
};

fn drain(within_ms: u64) -> Order {
    Order::Drain { service: "shop".to_owned(), variation: "B".to_owned(), within_ms }
}

fn drained(world: &World) -> Option<&RouterEvent> {
    world.facts.iter().map(|(_, fact)| fact).find(|fact| matches!(fact, RouterEvent::Drained { .. }))
}

fn with(left: Option<u64>) -> RouterEvent {
    RouterEvent::Drained { service: "shop".to_owned(), variation: "B".to_owned(), left }
}

fn rolled_back(connections: Option<u64>) -> World {
    let mut world = World::new();
    world.want(&shop(1, &[9_000, 1_000]));
    world.until_in_force();
    world.connections = connections;
    world.want(&shop(2, &[10_000, 0]));
    world
}

#[test]
fn a_variation_is_drained_once_it_has_no_connections() {
    let mut world = rolled_back(Some(3));
    world.order(drain(600_000));
    world.pass_ms(60_000);
    assert_eq!(drained(&world), None);
    assert_eq!(world.status().draining[0].left, Some(3));
    world.connections = Some(0);
    world.until("it is drained", |world| drained(world).is_some());
    assert_eq!(drained(&world), Some(&with(Some(0))));
    assert_eq!(world.status().draining, []);
    // Whoever asks again is told again.
    world.facts.clear();
    world.order(drain(600_000));
    world.until("it is drained", |world| drained(world).is_some());
}

#[test]
fn at_the_deadline_it_is_told_how_many_are_left() {
    let mut world = rolled_back(Some(3));
    world.until_in_force();
    world.order(drain(20_000));
    let asked_ms = world.now_ms;
    world.until("its time is up", |world| drained(world).is_some());
    assert!((20_000..21_000).contains(&(world.now_ms - asked_ms)), "{}", world.now_ms - asked_ms);
    assert_eq!(drained(&world), Some(&with(Some(3))));
}

#[test]
fn where_connections_are_not_told_the_deadline_decides() {
    for fate in [Fate::Good, Fate::Refuses] {
        let mut world = rolled_back(None);
        world.until_in_force();
        world.order(drain(20_000));
        // The look that sees that it has no share, and then no count.
        world.fates = vec![Fate::Good, fate, fate, fate];
        world.until("its time is up", |world| drained(world).is_some());
        assert_eq!(drained(&world), Some(&with(None)));
    }
}

#[test]
fn who_was_not_read_back_to_have_no_share_is_not_drained() {
    let mut world = rolled_back(Some(0));
    world.order(drain(5_000));
    world.always = Fate::Lies;
    world.pass_ms(60_000);
    assert_eq!(drained(&world), None, "it was told to have none, and has one");
    world.always = Fate::Good;
    world.until("it is drained", |world| drained(world).is_some());
}

#[test]
fn variation_with_header_calls_or_returning_share_is_not_drained() {
    let mut world = World::new();
    world.want(&wanted_of(1, vec![by_header(spec("shop", 8080, &[10_000, 0]), 1)]));
    world.order(drain(5_000));
    world.pass_ms(60_000);
    assert_eq!(drained(&world), None);
    let mut world = rolled_back(Some(1));
    world.until_in_force();
    world.order(drain(10_000));
    world.pass_ms(5_000);
    world.want(&shop(3, &[9_000, 1_000]));
    world.pass_ms(60_000);
    assert_eq!(drained(&world), None);
    // The deadline begins anew.
    world.want(&shop(4, &[10_000, 0]));
    world.until_in_force();
    world.pass_ms(8_000);
    assert_eq!(drained(&world), None);
    world.until("its time is up", |world| drained(world).is_some());
}

#[test]
fn who_has_no_share_only_because_its_targets_are_away_is_not_drained() {
    let mut world = World::new();
    let wanted = shop(1, &[9_000, 1_000]);
    world.bad.extend(wanted.services()[0].variations[1].targets.clone());
    world.want(&wanted);
    world.until_in_force();
    world.order(drain(5_000));
    world.pass_ms(60_000);
    assert_eq!(drained(&world), None);
}

#[test]
fn a_change_of_something_else_does_not_lengthen_a_drain() {
    let mut world = rolled_back(Some(1));
    world.until_in_force();
    world.order(drain(20_000));
    let asked_ms = world.now_ms;
    for generation in 3..100 {
        world.want(&wanted_of(
            generation,
            vec![spec("shop", 8080, &[10_000, 0]), spec("other", 81, &[10_000])],
        ));
        world.pass_ms(300);
    }
    world.until("its time is up", |world| drained(world).is_some());
    let said_ms = world.facts.iter().find(|(_, fact)| matches!(fact, RouterEvent::Drained { .. })).unwrap().0;
    assert!(said_ms - asked_ms < 23_000, "{}", said_ms - asked_ms);
}

#[test]
fn who_is_wanted_to_have_calls_again_is_not_drained_while_the_router_hangs() {
    let mut world = rolled_back(Some(1));
    world.until_in_force();
    world.order(drain(10_000));
    world.pass_ms(5_000);
    world.applies = Some(Fate::Hangs);
    world.want(&shop(3, &[9_000, 1_000]));
    world.pass_ms(60_000);
    assert_eq!(drained(&world), None);
}

#[test]
fn while_something_else_is_refused_a_drain_goes_on() {
    let mut world = rolled_back(Some(1));
    world.until_in_force();
    world.order(drain(20_000));
    let asked_ms = world.now_ms;
    world.pass_ms(15_000);
    world.applies = Some(Fate::Refuses);
    world.want(&wanted_of(3, vec![spec("shop", 8080, &[10_000, 0]), spec("other", 81, &[10_000])]));
    world.until("its time is up", |world| drained(world).is_some());
    assert!(world.now_ms - asked_ms < 23_000, "{}", world.now_ms - asked_ms);
}

#[test]
fn share_restored_by_hand_restarts_the_drain() {
    let mut world = rolled_back(Some(1));
    world.until_in_force();
    world.order(drain(20_000));
    world.pass_ms(15_000);
    edit(&mut world.does, "shop", &[9_000, 1_000]);
    world.pass_ms(10_000);
    assert_eq!(drained(&world), None);
    world.until("its time is up", |world| drained(world).is_some());
}

#[test]
fn a_service_that_is_there_no_more_is_drained_too() {
    let mut world = rolled_back(Some(0));
    world.want(&wanted_of(3, vec![spec("other", 81, &[10_000])]));
    world.order(drain(5_000));
    world.until("it is drained", |world| drained(world).is_some());
}
