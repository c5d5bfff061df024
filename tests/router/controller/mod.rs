//! A router is led: what is wanted comes to be in force and stays so.

mod drains;
mod drifts;
mod driver;
mod fake;
mod simulation;
pub mod states;
mod world;

use router::controller::{Event, Order, Phase, RELOAD_PAUSE_MS, RouterEvent, Settings};
use traffic::{
    desired::{Listen, Number, Protocol, ServiceSpec},
    health::Grain,
    observed::ObservedConfig,
};

use self::{
    states::{by_header, edit, number, obeyed, shares, shop, spec, target, wanted_of},
    world::{Fate, World, settings},
};

#[test]
fn what_is_wanted_is_told_once_and_is_in_force_when_it_was_read_back() {
    let mut world = World::new();
    assert_eq!(world.phase(), Phase::Idle);
    world.want(&shop(1, &[9_000, 1_000]));
    assert_eq!(world.phase(), Phase::Waiting);
    world.until_in_force();
    assert_eq!(shares(&world.does, "shop"), [9_000, 1_000]);
    world.pass_ms(60_000);
    assert_eq!(world.told, 1);
    insta::assert_snapshot!(world.told_facts(), @"1.1 is in force");
}

#[test]
fn nothing_is_told_before_the_router_was_read_unless_it_cannot_be() {
    let mut world = World::new();
    world.want(&shop(1, &[9_000, 1_000]));
    world.fates = vec![Fate::Hangs, Fate::Refuses];
    world.until("it is told", |world| world.told == 1);
    insta::assert_snapshot!(world.told_facts(), @"it can't be read: it refuses");
    world.until_in_force();
    insta::assert_snapshot!(world.told_facts(), @r"
    it can't be read: it refuses
    it can be read again
    1.1 is in force
    ");
}

#[test]
fn candidate_share_follows_its_health_at_the_router() {
    let mut world = World::new();
    let b = [target("10.144.1.1:9000"), target("10.144.1.2:9000")];
    world.unknown.extend(b.clone());
    world.want(&shop(1, &[9_000, 1_000]));
    world.until_in_force();
    assert_eq!(shares(&world.does, "shop"), [10_000, 0]);
    world.unknown.clear();
    world.tell_health();
    assert_eq!(world.phase(), Phase::Telling);
    world.until_in_force();
    assert_eq!(shares(&world.does, "shop"), [9_000, 1_000]);
    world.bad.extend(b);
    world.tell_health();
    world.until_in_force();
    assert_eq!(shares(&world.does, "shop"), [10_000, 0]);
    world.bad.clear();
    world.tell_health();
    world.until_in_force();
    assert_eq!(world.does, obeyed(&shop(1, &[9_000, 1_000])));
    insta::assert_snapshot!(world.told_facts(), @r"
    B of shop gets 0 % where 10 % is wanted: no target is proven healthy yet
    1.1 is in force, but: B of shop gets 0 % where 10 % is wanted: no target is proven healthy yet
    over: B of shop gets 0 % where 10 % is wanted: no target is proven healthy yet
    1.1 is in force
    B of shop gets 0 % where 10 % is wanted: no target is healthy
    1.1 is in force, but: B of shop gets 0 % where 10 % is wanted: no target is healthy
    over: B of shop gets 0 % where 10 % is wanted: no target is healthy
    1.1 is in force
    ");
}

/// Each reload of a router leaves processes behind that go on with the connections that they have.
#[test]
fn a_share_whose_change_takes_a_reload_comes_back_after_a_pause_and_others_at_once() {
    let settings = Settings { grain: Grain::Variation, reloads_for: &[Protocol::Tcp], ..settings() };
    let mut world = World::with(settings);
    let listens = vec![Listen::new(5432, Protocol::Tcp)];
    let database = ServiceSpec { listens, ..spec("db", 5432, &[9_000, 1_000]) };
    let wanted =
        |generation| wanted_of(generation, vec![database.clone(), spec("shop", 8080, &[9_000, 1_000])]);
    let does = |world: &World| ["db", "shop"].map(|name| shares(&world.does, name)[1]);
    let services = wanted(1);
    let targets: Vec<_> =
        services.services().iter().flat_map(|one| one.variations[1].targets.clone()).collect();
    world.want(&services);
    world.until_in_force();
    for _ in 0..3 {
        world.bad.extend(targets.clone());
        world.tell_health();
        let taken_ms = world.now_ms;
        world.until_in_force();
        assert_eq!(does(&world), [0, 0]);
        assert!(world.now_ms < taken_ms + 1_000, "what is away loses its share at once");
        world.bad.clear();
        world.tell_health();
        world.until_in_force();
        assert_eq!(does(&world), [0, 1_000]);
        assert_eq!(world.status().effective.unwrap().departures.len(), 1, "it is said");
        world.until("it is back", |world| does(world) == [1_000, 1_000]);
        let pause_ms = world.now_ms - taken_ms;
        assert!((RELOAD_PAUSE_MS..RELOAD_PAUSE_MS + 1_000).contains(&pause_ms), "{pause_ms}");
        world.until_in_force();
    }
    // Whoever wants something else waits for nothing.
    world.bad.extend(targets);
    world.tell_health();
    world.until_in_force();
    world.bad.clear();
    world.want(&wanted(2));
    let wanted_ms = world.now_ms;
    world.until("it is back", |world| does(world) == [1_000, 1_000]);
    assert!(world.now_ms < wanted_ms + 1_000);
}

/// Nothing is known of any target then, and half of all users would move to the stable variation and back.
#[test]
fn whoever_leads_may_be_started_anew_without_anybody_noticing() {
    let mut world = World::new();
    let wanted = shop(1, &[5_000, 5_000]);
    world.want(&wanted);
    world.until_in_force();
    let before = world.does.clone();
    let all: Vec<_> = wanted.services()[0].variations.iter().flat_map(|one| one.targets.clone()).collect();
    world.unknown.extend(all);
    world.restart(settings());
    world.facts.clear();
    world.want(&wanted);
    world.until_in_force();
    world.pass_ms(10_000);
    assert_eq!(world.does, before);
    insta::assert_snapshot!(world.told_facts(), @"1.1 is in force");
    world.unknown.clear();
    world.tell_health();
    world.pass_ms(10_000);
    assert!(world.obeyed.iter().all(|told| *told == wanted), "nothing else was ever told");
}

#[test]
fn what_fails_is_tried_again_after_a_pause_that_grows_and_said_once() {
    let mut world = World::new();
    world.want(&shop(1, &[10_000, 0]));
    world.until_in_force();
    world.want(&shop(2, &[9_000, 1_000]));
    world.applies = Some(Fate::Refuses);
    world.until("it was told twelve times", |world| world.told == 13);
    world.applies = None;
    // 0.5 s, doubled each time up to a minute, and each 25 % shorter or longer.
    assert!((220_000..390_000).contains(&world.now_ms), "{}", world.now_ms);
    world.until_in_force();
    insta::assert_snapshot!(world.told_facts(), @r"
    1.1 is in force
    it refuses
    1.2 is in force
    ");
}

#[test]
fn router_that_acknowledges_without_applying_is_retried_and_reported() {
    let mut world = World::new();
    world.want(&shop(1, &[10_000, 0]));
    world.until_in_force();
    world.want(&shop(2, &[9_000, 1_000]));
    world.fates = vec![Fate::Lies];
    world.until_in_force();
    assert_eq!(shares(&world.does, "shop"), [9_000, 1_000]);
    insta::assert_snapshot!(world.told_facts(), @r"
    1.1 is in force
    it took what it was told and does something else: runs by 1.1, and is to run by 1.2, and 1 more
    1.2 is in force
    ");
}

#[test]
fn a_newer_state_breaks_off_one_that_hangs() {
    for fate in [Fate::Hangs, Fate::IsSilent] {
        let mut world = World::new();
        world.want(&shop(1, &[10_000, 0]));
        world.until_in_force();
        world.want(&shop(2, &[5_000, 5_000]));
        world.fates = vec![fate];
        world.pass_ms(1_000);
        let asked_ms = world.now_ms;
        world.want(&shop(3, &[10_000, 0]));
        world.until_in_force();
        assert!(world.now_ms < asked_ms + 1_000, "it waits for nothing");
        assert_eq!(world.does, obeyed(&shop(3, &[10_000, 0])));
    }
}

#[test]
fn what_changes_while_something_is_told_is_told_next() {
    let mut world = World::new();
    let wanted = shop(1, &[9_000, 1_000]);
    world.want(&wanted);
    world.until("it was read", |world| world.phase() == Phase::Telling);
    world.start_act();
    assert_eq!((world.told, world.obeyed.len()), (1, 0), "it is on its way");
    world.bad.extend(wanted.services()[0].variations[1].targets.clone());
    world.tell_health();
    world.until_in_force();
    assert_eq!(shares(&world.does, "shop"), [10_000, 0]);
    assert_eq!(world.told, 2);
}

#[test]
fn a_router_that_was_away_for_long_is_told_as_soon_as_it_is_back() {
    for minutes in 3..12 {
        let mut world = World::new();
        world.want(&shop(1, &[9_000, 1_000]));
        world.always = Fate::Refuses;
        world.pass_ms(60_000 * minutes);
        assert_eq!(world.obeyed.len(), 0);
        world.always = Fate::Good;
        let back_ms = world.now_ms;
        world.until_in_force();
        // The longest pause between two looks, by chance a quarter longer.
        assert!(world.now_ms - back_ms < 6_500, "{}", world.now_ms - back_ms);
    }
}

#[test]
fn what_is_older_than_what_is_wanted_is_never_wanted() {
    let mut world = World::new();
    world.want(&shop(5, &[9_000, 1_000]));
    world.until_in_force();
    world.want(&shop(4, &[0, 10_000]));
    // Of one number there is one state.
    world.want(&shop(5, &[0, 10_000]));
    world.want(&shop(5, &[9_000, 1_000]));
    world.pass_ms(10_000);
    assert_eq!(shares(&world.does, "shop"), [9_000, 1_000]);
    assert_eq!(world.told, 1);
    insta::assert_snapshot!(world.told_facts(), @r"
    1.5 is in force
    1.4 isn't newer than 1.5, and is ignored
    1.5 isn't newer than 1.5, and is ignored
    ");
}

#[test]
fn a_router_that_somebody_else_leads_by_something_newer_is_left_to_them() {
    let mut world = World::new();
    world.want(&shop(5, &[9_000, 1_000]));
    world.until_in_force();
    let newer = Number { epoch: 2, generation: 1 };
    let told = world.told;
    world.does.number = Some(newer);
    edit(&mut world.does, "shop", &[10_000, 0]);
    world.until("somebody else leads it", |world| world.phase() == Phase::Superseded);
    world.pass_ms(600_000);
    assert_eq!(world.told, told);
    insta::assert_snapshot!(world.told_facts(), @r"
    1.5 is in force
    it was told 2.1 by somebody else, which is newer than 1.5; it isn't led from here
    ");
    // Also not once it has the older state again: that is theirs to repair.
    world.does = obeyed(&shop(5, &[5_000, 5_000]));
    world.pass_ms(60_000);
    assert_eq!(world.told, told);
    world.does = ObservedConfig::default();
    let mut taken_over = shop(1, &[8_000, 2_000]);
    taken_over.number = Number { epoch: 3, generation: 1 };
    world.want(&taken_over);
    world.until_in_force();
    assert_eq!(world.does, obeyed(&taken_over));
}

#[test]
fn a_router_that_refuses_what_is_older_is_believed() {
    let mut world = World::new();
    world.knows = Some(number(9));
    world.want(&shop(5, &[9_000, 1_000]));
    world.until("somebody else leads it", |world| world.phase() == Phase::Superseded);
    world.pass_ms(60_000);
    assert_eq!((world.told, world.obeyed.len()), (1, 0));
}

#[test]
fn targets_that_leave_are_told() {
    let mut world = World::new();
    world.want(&shop(1, &[9_000, 1_000]));
    world.until_in_force();
    let mut other = spec("shop", 8080, &[9_000, 1_000]);
    other.variations[0].targets.remove(0);
    world.want(&wanted_of(2, vec![other]));
    world.until_in_force();
    insta::assert_snapshot!(world.told_facts(), @r"
    1.1 is in force
    10.144.0.1:9000 is no target of A of shop any more
    1.2 is in force
    ");
}

#[test]
fn nobody_is_sent_by_a_header_to_a_variation_without_a_healthy_target() {
    let mut world = World::new();
    world.bad.extend([target("10.144.1.1:9000"), target("10.144.1.2:9000")]);
    world.want(&wanted_of(1, vec![by_header(spec("shop", 8080, &[10_000, 0]), 1)]));
    world.until_in_force();
    let told = &world.obeyed[0].services()[0];
    assert_eq!(told.rule.as_ref().unwrap().values[0].1, traffic::Variation::STABLE);
    // That isn't read back, and is told again when it changes, as everything is.
    world.bad.clear();
    world.tell_health();
    world.until_in_force();
    assert_eq!(world.obeyed[1].services()[0].rule.as_ref().unwrap().values[0].1, traffic::Variation(1));
}

#[test]
fn names_that_are_not_resolved_yet_are_waited_for() {
    let mut world = World::new();
    let mut named = spec("shop", 8080, &[9_000, 1_000]);
    named.variations[1].targets = vec![target("backend.example:9000")];
    world.want(&wanted_of(1, vec![named]));
    world.pass_ms(10_000);
    assert_eq!((world.phase(), world.told), (Phase::Waiting, 0));
    insta::assert_snapshot!(world.told_facts(), @"the target backend.example:9000 of variation B of service shop: it wasn't looked at yet");
    assert_eq!(world.status().trouble.unwrap(), world.told_facts());
}

/// Whoever leads is started anew while the resolver is away, and everybody is to go back.
#[test]
fn a_roll_back_waits_for_no_resolver() {
    let mut world = World::new();
    let named = |generation, shares: &[u16]| {
        let mut named = spec("shop", 8080, shares);
        named.variations[1].targets = vec![target("backend.example:9000")];
        named.variations[1].health = None;
        wanted_of(generation, vec![named])
    };
    let resolved = named(1, &[5_000, 5_000]);
    let resolved =
        resolved.with_targets(|_, one| (one.name.as_str() == "B").then(|| vec![target("10.1.1.1:9000")]));
    world.does = obeyed(&resolved.unwrap());
    world.knows = Some(number(1));
    world.want(&named(2, &[10_000, 0]));
    world.until_in_force();
    assert_eq!(shares(&world.does, "shop"), [10_000, 0]);
    assert_eq!(world.does.services["shop"].variations[1].targets[0].target, target("10.1.1.1:9000"));
    assert!(world.has_said(|fact| matches!(fact, RouterEvent::Stale { .. })));
}

#[test]
fn an_order_to_repair_tells_it_again() {
    let mut world = World::new();
    world.want(&shop(1, &[9_000, 1_000]));
    world.until_in_force();
    world.order(Order::Repair);
    assert_eq!(world.phase(), Phase::Telling);
    world.until_in_force();
    assert_eq!(world.told, 2);
    world.handle(Event::Health(traffic::health::Health::default()));
}
