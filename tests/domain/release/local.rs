//! What agents and managers below are told of how calls are routed, and of what they may spend of alpha.

#![allow(clippy::float_cmp, reason = "what travels is the same to the last bit")]

use std::time::Duration;

use domain::{children::Profile, release::command::Form};
use language::{Retry, Sticky, check_from_parent, offer, part_of_the, render_full};
use model::{Capabilities, Exclusion, FEATURE_AGENTS, FEATURE_SERVICES, FEATURE_TRAFFIC, Leads, StageStatus};

use super::world::{World, canary, manager, summary};

const AREA: &str = "north";

fn routed() -> String {
    let versions = "    sticky: {header: X-User}\n    retry: failed\n    base_version:";
    let text = canary("7", "a").replacen("    base_version:", versions, 1);
    text + "rollout: {late_joiners: include}\n"
}

/// An agent that is led in place, and has polled twice.
fn own_agent(world: &mut World) -> String {
    let capabilities = Capabilities { leads: Leads::Whole, ..Capabilities::default() };
    let own = Profile { capabilities, ..Profile::default() };
    let (id, _) = world.poll_as("", AREA, Some(own.clone()));
    world.poll_as(&id, AREA, Some(own));
    id
}

fn manager_with(world: &mut World, features: &[&str], agents: u32) -> String {
    let mut profile = manager();
    profile.capabilities.features = features.iter().map(ToString::to_string).collect();
    let (id, _) = world.poll_with("", AREA, Some(profile.clone()), agents);
    world.poll_with(&id, AREA, Some(profile), agents);
    id
}

/// What an agent reads of what it is handed.
fn handed(world: &mut World, agent: &str) -> offer::Offer {
    let shown = world.poll(agent);
    // What it has in hand it isn't shown again, but may fetch.
    let id = if shown.is_empty() { "7".to_owned() } else { shown };
    let fetched = world.fetch(agent, &id).unwrap();
    assert!(matches!(fetched.form, Form::InPlace { .. }), "{:?}", fetched.form);
    offer::read(&fetched.text(&id)).unwrap()
}

#[test]
fn agent_managed_in_place_keeps_its_alpha_when_others_join() {
    let mut world = World::new();
    let agents: Vec<String> = (0..4).map(|_| own_agent(&mut world)).collect();
    manager_with(&mut world, &[FEATURE_TRAFFIC], 6);
    world.submit(&routed());
    let offer = handed(&mut world, &agents[0]);
    let of_all_attempts = 0.005 / 10.0;
    let of_first = of_all_attempts * part_of_the(1);
    assert_eq!(offer.alpha, Some(of_first), "a tenth of 0.05, for ten agents");
    assert_eq!(offer.functions[0].retry, Some(Retry::Failed));
    assert_eq!(offer.functions[0].sticky, Some(Sticky::Header("X-User".to_owned())));
    let late = own_agent(&mut world);
    world.pass(Duration::from_mins(1));
    assert_eq!(handed(&mut world, &agents[0]), offer);
    assert_eq!(handed(&mut world, &late).alpha, offer.alpha);
}

#[test]
fn each_further_attempt_has_less_of_alpha_so_that_all_together_have_no_more() {
    let mut world = World::new();
    let agent = own_agent(&mut world);
    world.submit(&canary("7", "a"));
    let mut spent = 0.0;
    for attempt in 1..=4_u16 {
        if attempt > 1 {
            world.retry("7").unwrap();
        }
        let name = world.poll(&agent);
        let fetched = world.fetch(&agent, &name).unwrap();
        assert_eq!(fetched.name.attempt, attempt);
        let read = offer::read(&fetched.text(&name)).unwrap();
        let alpha = read.alpha.unwrap();
        assert_eq!(alpha, 0.005 * part_of_the(attempt.into()));
        assert_eq!(read.salt, "7", "another attempt draws the same users");
        spent += alpha;
        world.report(&agent, &name, summary("Canary", StageStatus::Failure)).unwrap();
    }
    assert!(spent < 0.005, "{spent}");
    let all: f64 = (1..100_000).map(part_of_the).sum();
    assert!((0.999..1.0).contains(&all), "{all}");
}

#[test]
fn a_manager_below_is_told_what_it_understands_and_hands_each_agent_as_much() {
    for (features, is_told) in
        [(&[FEATURE_TRAFFIC][..], true), (&[FEATURE_TRAFFIC, FEATURE_SERVICES], true), (&[], false)]
    {
        let mut world = World::new();
        let below = manager_with(&mut world, features, 25);
        world.submit(&routed());
        let id = world.poll(&below);
        let text = render_full::whole(&world.fetch(&below, &id).unwrap().strategy);
        let read = check_from_parent(text.as_bytes()).strategy.unwrap();
        assert_eq!(read.functions[0].retry.is_some(), is_told, "{text}");
        assert_eq!(read.functions[0].sticky.is_some(), is_told, "{text}");
        assert_eq!(text.contains("local_alpha: 2e-4"), is_told, "{text}");
        let salt = read.from_parent.as_ref().and_then(|said| said.salt.as_deref());
        assert_eq!(salt.is_some(), features.contains(&FEATURE_SERVICES), "{text}");
        if is_told {
            assert_eq!(read.local_alpha(3), 0.005 / 25.0, "whoever many are below it by then");
        }
    }
}

#[test]
fn a_manager_that_does_not_read_which_agents_run_a_function_takes_no_part() {
    let of_agents = canary("7", "a").replacen(
        "    base_version:",
        "    agents: {labels: {tier: batch}}\n    base_version:",
        1,
    );
    for (features, takes_part) in
        [(&[FEATURE_TRAFFIC][..], false), (&[FEATURE_TRAFFIC, FEATURE_AGENTS], true)]
    {
        let mut world = World::new();
        let below = manager_with(&mut world, features, 25);
        world.submit(&of_agents);
        let excluded = world.release("7").excluded.clone();
        assert_eq!(excluded.is_empty(), takes_part, "{excluded:?}");
        if !takes_part {
            assert_eq!(excluded, [(Exclusion::Agent, 1)]);
            assert_eq!(world.poll(&below), "");
            continue;
        }
        let id = world.poll(&below);
        let text = render_full::whole(&world.fetch(&below, &id).unwrap().strategy);
        let read = check_from_parent(text.as_bytes()).strategy.unwrap();
        assert_eq!(read.functions[0].agents, [("tier".to_owned(), "batch".to_owned())].into(), "{text}");
    }
}
