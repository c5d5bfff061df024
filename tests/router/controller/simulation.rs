//! Routers that refuse, hang, lie, lose their state, are edited by hand and come back with an old state, by the hundred.

use router::controller::{Order, Phase};
use traffic::{
    desired::DesiredConfig,
    observed::{ObservedConfig, differences},
};

use super::{
    states::{edit, obeyed, spec, wanted_of},
    world::{Fate, World, settings},
};

/// So many seeds; `PROPTEST_CASES` makes another number of it, as of all properties.
const RUNS: u64 = 25;
const TURNS: usize = 40;

const FATES: [Fate; 5] = [Fate::Good, Fate::Refuses, Fate::Lies, Fate::Hangs, Fate::IsSilent];

fn any_shares(random: &mut fastrand::Rng) -> Vec<u16> {
    let mut cuts = [random.u16(0..=100) * 100, random.u16(0..=100) * 100];
    cuts.sort_unstable();
    vec![cuts[0], cuts[1] - cuts[0], 10_000 - cuts[1]]
}

fn any_wanted(generation: u64, random: &mut fastrand::Rng) -> DesiredConfig {
    wanted_of(generation, vec![spec("shop", 8080, &any_shares(random)), spec("other", 81, &[5_000, 5_000])])
}

/// One thing happens.
fn happens(world: &mut World, random: &mut fastrand::Rng, newest: &mut DesiredConfig) {
    match random.u8(0..10) {
        0..=2 => {
            *newest = any_wanted(newest.number.generation + 1, random);
            let newest = newest.clone();
            world.want(&newest);
        }
        3 => {
            let all = newest.services().iter().flat_map(|one| &one.variations).flat_map(|one| &one.targets);
            world.bad = all.filter(|_| random.u8(0..3) == 0).cloned().collect();
            world.tell_health();
        }
        4 if world.does.services.contains_key("shop") => {
            edit(&mut world.does, "shop", &any_shares(random));
        }
        5 => world.does = ObservedConfig::default(),
        6 => {
            if let Some(old) = random.choice(&world.obeyed).cloned() {
                world.does = obeyed(&old);
            }
        }
        7 => world.fates = (0..random.usize(0..6)).map(|_| FATES[random.usize(0..FATES.len())]).collect(),
        8 => world.always = FATES[random.usize(0..FATES.len())],
        9 if random.u8(0..4) == 0 => {
            world.restart(settings());
            let newest = newest.clone();
            world.want(&newest);
        }
        _ => world.always = Fate::Good,
    }
}

#[test]
fn whatever_a_router_does_it_ends_at_what_is_wanted_and_nothing_forbidden_is_told() {
    let runs = std::env::var("PROPTEST_CASES").map_or(RUNS, |runs| runs.parse().unwrap());
    for seed in 0..runs {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = World::new();
        let mut newest = any_wanted(1, &mut random);
        world.want(&newest);
        for _ in 0..TURNS {
            if random.bool() {
                // It happens while something is on its way.
                world.start_act();
            }
            happens(&mut world, &mut random, &mut newest);
            world.pass_ms(random.u64(1..20_000));
        }
        // All is well again, and somebody has it repaired should it be left alone.
        (world.always, world.fates) = (Fate::Good, Vec::new());
        world.bad.clear();
        world.tell_health();
        world.order(Order::Repair);
        world.pass_ms(60_000);
        assert_eq!(world.phase(), Phase::InForce, "seed {seed}\n{}", world.told_facts());
        assert_eq!(differences(&newest, &world.does), [], "seed {seed}");
        let numbers: Vec<_> = world.obeyed.iter().map(|told| told.number).collect();
        assert!(numbers.is_sorted(), "seed {seed}: an older state was told after a newer one");
    }
}
