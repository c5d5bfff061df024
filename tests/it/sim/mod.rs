//! The deterministic simulation: managers and their agents in virtual time, in one thread, from one seed.
//!
//! ```text
//! agents ──▶ calls in flight (lost, late, twice, out of order) ──▶ manager: heart ─ commit ─▶ disk
//!    ▲                                                                │  ▲     │ killed, started again
//!    └───────────────────── answers in flight ◀───────────────────────┘  └─ link ─▶ calls in flight ─▶ its parent
//! ```
//!
//! Some seeds have one manager, the others a tree of up to three levels ([`tree`]). Heart and link are the product's; all
//! else is as small as can be. Agents behave as deployed ones do ([`agent`]), operators do what comes to their mind, a
//! [`witness`] for each manager looks at every commit and every answer, and the [`overseer`] at what agents do anywhere
//! in the tree, by the text that was posted at the root. In the end the network heals, everybody calls again, and what is left must come to rest.
//!
//! Where there are own agents ([`own`]), their real core runs beside a runtime and a proxy in virtual time, is killed at any instant and
//! goes on from what it had saved. Callers call, and 15 is asserted: no call is answered by a version that has no share in a table that
//! was handed out; and 16: what such an agent reports is what was.
//!
//! No agent ever exits with stages left, and no caller is without service but while an agent sets up or ends a test: that is
//! counted as invariant 12.
//!
//! A failing seed prints how to run it again. `CHOIRMASTER_SIM_SEEDS` says how many seeds are run, `CHOIRMASTER_SIM_SEED`
//! runs one. Each invariant has a flaw ([`heart::Flaw`]) with which the simulation must fail.
//!
//! Not here: HTTP, stores and the engine's task, which other tests cover with real processes.

mod agent;
mod call;
mod dice;
mod heart;
mod links;
mod manager;
mod operators;
mod overseer;
mod own;
mod plans;
mod rest;
mod tree;
mod witness;
mod world;

use std::collections::BTreeMap;

use heart::Flaw;
use witness::Violation;
use world::{Crew, Report, World};

/// Seeds in an ordinary run of the tests.
const SEEDS: u64 = 500;

/// Those with own agents, which have more to do.
const OWN_SEEDS: u64 = 24;

/// Seeds among which a flaw must show.
const SEEDS_FOR_A_FLAW: u64 = 600;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// The seeds that break an invariant, and how the first one comes to that. Each core takes its share of them.
fn broken(seeds: &std::ops::Range<u64>, crew: Crew) -> String {
    let is_alone = seeds.end - seeds.start == 1;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = |core: usize| -> BTreeMap<u64, Report> {
        let of_core = seeds.clone().skip(core).step_by(cores);
        let reports = of_core.map(|seed| (seed, World::new(seed, None, crew).run(is_alone)));
        reports.filter(|(_, report)| report.violation.is_some()).collect()
    };
    let mut broken = BTreeMap::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|core| scope.spawn(move || share(core))).collect();
        for worker in workers {
            broken.append(&mut worker.join().expect("no panic"));
        }
    });
    let mut text = String::new();
    for (seed, Report { violation, last }) in broken {
        let Some(Violation { invariant, text: what }) = violation else { continue };
        if text.is_empty() {
            text.push_str(&last.join("\n"));
            text.push_str(
                "\n\nrun one again: CHOIRMASTER_SIM_SEED=… tests/run -- --test it sim::whatever\n\n",
            );
        }
        text.push_str(&format!("CHOIRMASTER_SIM_SEED={seed} invariant {invariant}: {what}\n"));
    }
    text
}

#[test]
fn whatever_happens_the_invariants_hold() {
    let seeds = match number("CHOIRMASTER_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CHOIRMASTER_SIM_SEEDS").unwrap_or(SEEDS),
    };
    let broken = broken(&seeds, Crew::Deployed);
    assert!(broken.is_empty(), "{broken}");
}

#[test]
fn whatever_happens_to_own_agents_the_invariants_hold() {
    let seeds = match number("CHOIRMASTER_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CHOIRMASTER_SIM_SEEDS").unwrap_or(OWN_SEEDS),
    };
    let broken = broken(&seeds, Crew::Mixed);
    assert!(broken.is_empty(), "{broken}");
}

/// Some seed shows the flaw, as a violation of one of these invariants.
fn assert_caught(flaw: Flaw, invariants: &[u8]) {
    assert_caught_with(Crew::Deployed, flaw, invariants);
}

fn assert_caught_with(crew: Crew, flaw: Flaw, invariants: &[u8]) {
    let mut others = Vec::new();
    for seed in 0..SEEDS_FOR_A_FLAW {
        match World::new(seed, Some(flaw), crew).run(false).violation {
            Some(found) if invariants.contains(&found.invariant) => return,
            Some(found) => others.push(found),
            None => {}
        }
    }
    panic!("no seed shows {flaw:?}: {others:#?}");
}

#[test]
fn a_commit_that_is_forgotten_is_noticed() {
    assert_caught(Flaw::ForgetsCommits, &[1]);
}

#[test]
fn a_wave_that_opens_on_no_success_is_noticed() {
    assert_caught(Flaw::OpensUnproven, &[14]);
}

#[test]
fn a_status_that_goes_backwards_is_noticed() {
    assert_caught(Flaw::StatusGoesBack, &[2]);
}

#[test]
fn a_barrier_that_opens_one_child_early_is_noticed() {
    assert_caught(Flaw::BarrierOneEarly, &[3]);
}

#[test]
fn a_barrier_that_opens_below_without_the_signal_from_above_is_noticed() {
    assert_caught(Flaw::OpensBelow, &[3]);
}

#[test]
fn an_undo_from_above_that_is_forgotten_below_is_noticed() {
    assert_caught(Flaw::ForgetsUndoOfParent, &[6, 10]);
}

#[test]
fn a_report_of_a_manager_that_counts_twice_is_noticed() {
    assert_caught(Flaw::AppliesReportsTwice, &[7]);
}

#[test]
fn a_child_that_is_missing_in_a_report_is_noticed() {
    assert_caught(Flaw::SumsOneShort, &[8]);
}

#[test]
fn a_manager_that_keeps_what_it_sent_is_noticed() {
    assert_caught(Flaw::KeepsWhatWasSent, &[9]);
}

#[test]
fn a_gate_that_opens_without_its_approval_is_noticed() {
    assert_caught(Flaw::ApprovesItself, &[3]);
}

#[test]
fn an_offer_outside_the_target_is_noticed() {
    assert_caught(Flaw::OutsideTarget, &[4]);
}

#[test]
fn time_that_passes_unnoticed_is_noticed() {
    assert_caught(Flaw::NoTick, &[5]);
}

#[test]
fn an_undo_that_is_dropped_is_noticed() {
    assert_caught(Flaw::NoUndo, &[6, 10]);
}

#[test]
fn a_duplicate_that_counts_twice_is_noticed() {
    assert_caught(Flaw::AppliesTwice, &[7]);
}

#[test]
fn a_roll_out_before_its_time_is_noticed() {
    assert_caught(Flaw::RollsOutAtOnce, &[10]);
}

#[test]
fn a_strategy_that_is_handed_out_whole_is_noticed() {
    assert_caught(Flaw::HandsOutWhole, &[12]);
}

#[test]
fn a_withdrawn_offer_that_is_refused_is_noticed() {
    assert_caught(Flaw::RefusesWithdrawn, &[11]);
}

#[test]
fn a_version_that_is_stopped_while_somebody_holds_it_is_noticed() {
    assert_caught_with(Crew::Mixed, Flaw::StopsAtOnce, &[12, 15]);
}

#[test]
fn an_undo_that_own_agents_are_not_told_of_is_noticed() {
    assert_caught_with(Crew::Mixed, Flaw::NoUndo, &[6, 10]);
}

#[test]
fn a_barrier_that_opens_early_for_own_agents_is_noticed() {
    assert_caught_with(Crew::Mixed, Flaw::BarrierOneEarly, &[3]);
}

#[test]
fn an_agent_that_is_taken_for_gone_while_it_works_is_noticed() {
    assert_caught(Flaw::ReplacesTheSilent, &[13]);
}
