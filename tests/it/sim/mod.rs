//! The deterministic simulation: managers and their agents in virtual time, in one thread, from one seed.
//!
//! ```text
//! agents ──▶ calls in flight (lost, late, twice, out of order) ──▶ manager: domain ─ commit ─▶ disk
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
//! goes on from what it had saved. Callers call all the while.
//!
//! | invariant | asserted, for own agents as well, by | with a flaw |
//! |---|---|---|
//! | 1 what was answered survives | `Witness::check_promises`, `Witness::did` | `ForgetsCommits` |
//! | 2 a status never goes back | `Witness::check_course`, `check_release` | `StatusGoesBack` |
//! | 3 no barrier opens early | `check_barrier`, `check_wave`, told early in `did`, of witness and overseer | `BarrierOneEarly`, `OpensBelow`, `ApprovesItself` |
//! | 4 nothing outside its target, nothing twice | `took` of the overseer, `Witness::did` | `OutsideTarget` |
//! | 5 all comes to an end | `World::look`: releases, and own agents that are never at rest | `NoTick`, `SeesWhatWasRefused` |
//! | 6 what is taken back is told to all | `World::judge_owns` → `check_machine` | `NoUndo`, `ForgetsUndoOfParent` |
//! | 7 a call once more changes nothing | `Manager::once_more`, marks in `Witness::check_release` | `AppliesTwice`, `AppliesReportsTwice` |
//! | 8 a report is the sum over the children | `Overseer::reports`, `check_rest` | `SumsOneShort` |
//! | 9 nothing grows without bound | `Overseer::check_rest`; of own agents `Own::leftovers` | `KeepsWhatWasSent` |
//! | 10 the new version stays after a roll-out alone | `check_rollout`, `check_machine` | `NoUndo`, `PassesOverAll`, `RollsOutAtOnce` |
//! | 11 what was shown may be fetched | `did` of `Refused`, `World::check_refused` | `RefusesWithdrawn` |
//! | 12 no agent exits, no caller is without service | `witness::harm`, `World::callers_call` | `HandsOutWhole`, `StopsAtOnce` |
//! | 13 who works is not taken for gone | `World::check_replaced` | `ReplacesTheSilent` |
//! | 14 a wave opens when others have succeeded | `Witness::check_wave` | `OpensUnproven` |
//! | 15 no call is answered by a version that has no share in a table that was handed out | `own::shares` | `KeepsOldTable`, `DistortsTable`, `StopsAtOnce`, `StartsBlindly` |
//! | 16 what an own agent reports is what was, and is kept until it is answered | `own::watch` | `SavesLate`, `TakesSilenceForAnswer`, `CountsTwice` |
//! | 17 in the end each router gives all calls to whom the store says: the winner, or the stable variation | `World::judge_routers`, and 6 and 10 | `ForgetsWhoWon` |
//! | 18 no release is stored as taken back while a router that is not in debt gives its variations anything | `World::check_proven` | `NoUndo` |
//! | 19 all routers draw the same users in every attempt at a release, and nobody moves back while shares grow | `Led::note`, `Followed::look` | `SaltsByOffer`, `ShufflesBuckets` |
//! | 20 the shares of a service are those of the stage that is led, or that an operator chose for it | `led::check_ordered` | `SwapsShares`, `ForgetsShares` |
//! | 21 in a release of functions and services no variation has a share before the agents are done | `World::check_shared` | `RoutersAtOnce` |
//! | 22 of such a release no agent undoes anything before each router is back | `World::check_routers_back` | `AgentsGoBackFirst` |
//! | 23 whom an operator chose to win serves alone in the end, wherever the release went well | `World::judge_routers`, and 20 | `ForgetsChoice`, `ChoosesLate` |
//! | 24 no child causes more than 20 commits in a minute without coming further | `Witness::caused` | `OffersUndoAtOnce`, `StoresAllThatIsSaid` |
//! | 25 no version is said to be served that an operator of the agent took back | `Own::told_otherwise` | `IgnoresOperators` |
//! | 26 nobody goes on from a stage that has failed before that is told and somebody let the release go on, at the root of the tree | `Witness::went_on`, `has_accepted` | `GoesOnUndecided`, `AcceptsUndecided` |
//! | 27 no own agent takes a release whose base version is known not to be what serves there | `Manager::known_otherwise` | `BeginsAnywhere` |
//!
//! Routers lead services with one or two of them in a release, each with up to four variations ([`services`]). Of these 15 holds as
//! well: of each bucket of a table. A router may refuse the shares of a stage, and each table with a service whose port somebody else has.
//!
//! A failing seed prints how to run it again. `CHOIRMASTER_SIM_SEEDS` says how many seeds are run, `CHOIRMASTER_SIM_SEED`
//! runs one. Each invariant has a flaw ([`domain::Flaw`]) with which the simulation must fail.
//!
//! Not here: HTTP, stores and the engine's task, which other tests cover with real processes.

mod agent;
mod call;
mod dice;
mod domain;
mod links;
mod liveness;
mod manager;
mod mutations;
mod network;
mod operators;
mod overseer;
mod own;
mod plans;
mod rest;
mod services;
mod serving;
mod shown_by;
mod tree;
mod witness;
mod world;

use std::collections::BTreeMap;

use domain::Flaw;
use witness::Violation;
use world::{Crew, Report, World};

use crate::seed::seed;

/// Seeds in an ordinary run of the tests.
const SEEDS: u64 = 200;

/// Those with own agents, which have more to do.
const OWN_SEEDS: u64 = 24;

/// Those of fleets, each of which has agents of all kinds.
const FLEET_SEEDS: u64 = 24;

/// Those with routers.
const ROUTER_SEEDS: u64 = 25;

/// Those with agents and routers in one release.
const HYBRID_SEEDS: u64 = 25;

/// Seeds among which a flaw must show.
const SEEDS_FOR_A_FLAW: u64 = 600;

/// After so many seeds the one that showed a flaw is worth noting.
const SEARCHED_FOR_LONG: u64 = 8;

/// The seeds of a run: one, as many as are wanted, or so many.
fn seeds(most: u64) -> std::ops::Range<u64> {
    match number("CHOIRMASTER_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => seed()..seed() + number("CHOIRMASTER_SIM_SEEDS").unwrap_or(crate::cases::some(most)),
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// What became of each seed. Each core takes its share of them.
fn reports(seeds: &std::ops::Range<u64>, crew: Crew) -> BTreeMap<u64, Report> {
    let is_alone = seeds.end - seeds.start == 1;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = |core: usize| -> BTreeMap<u64, Report> {
        let of_core = seeds.clone().skip(core).step_by(cores);
        of_core.map(|seed| (seed, World::new(seed, None, crew).run(is_alone))).collect()
    };
    let mut reports = BTreeMap::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|core| scope.spawn(move || share(core))).collect();
        for worker in workers {
            reports.append(&mut worker.join().expect("no panic"));
        }
    });
    reports
}

/// No seed breaks an invariant; else it is told how the first one comes to that. `test`: what is to be run to see one again.
fn assert_holds(reports: &BTreeMap<u64, Report>, test: &str) {
    let mut text = String::new();
    for (seed, Report { violation, last, .. }) in reports {
        let Some(Violation { invariant, text: what }) = violation else { continue };
        if text.is_empty() {
            text.push_str(&last.join("\n"));
            text.push_str(&format!(
                "\n\nrun one again: CHOIRMASTER_SIM_SEED=… tests/run -- --test it sim::{test}\n\n"
            ));
        }
        text.push_str(&format!("CHOIRMASTER_SIM_SEED={seed} invariant {invariant}: {what}\n"));
    }
    assert!(text.is_empty(), "{text}");
}

#[test]
fn whatever_happens_the_invariants_hold() {
    assert_holds(&reports(&seeds(SEEDS), Crew::Deployed), "whatever_happens_the");
}

#[test]
fn whatever_happens_to_own_agents_the_invariants_hold() {
    assert_holds(&reports(&seeds(OWN_SEEDS), Crew::Mixed), "whatever_happens_to_own");
}

#[test]
fn whatever_happens_to_releases_of_services_the_invariants_hold() {
    assert_holds(&reports(&seeds(ROUTER_SEEDS), Crew::Routers), "whatever_happens_to_releases_of");
}

#[test]
fn whatever_happens_to_releases_of_functions_and_services_the_invariants_hold() {
    assert_holds(&reports(&seeds(HYBRID_SEEDS), Crew::Hybrid), "whatever_happens_to_releases_of_functions");
}

/// Deployed and own agents, and a manager below with own ones, all in the same releases, of which some go well and some are taken back.
#[test]
fn whatever_happens_to_a_mixed_fleet_the_invariants_hold() {
    let seeds = seeds(FLEET_SEEDS);
    let reports = reports(&seeds, Crew::Fleet);
    assert_holds(&reports, "whatever_happens_to_a_mixed");
    // Among a few there may be none of either.
    if seeds.end - seeds.start < FLEET_SEEDS {
        return;
    }
    let went_well = reports.values().filter(|report| report.liveness.all_rolled_out()).count();
    let went_back =
        reports.values().filter(|report| report.liveness.all_took_back(&report.taken_back)).count();
    assert!(went_well > 0, "no release was rolled out by agents of all kinds");
    assert!(went_back > 0, "no release was taken back from agents of all kinds");
}

/// Some seed shows the flaw, as a violation of one of these invariants.
fn assert_caught(flaw: Flaw, invariants: &[u8]) {
    assert_caught_with(Crew::Deployed, flaw, invariants);
}

fn assert_caught_with(crew: Crew, flaw: Flaw, invariants: &[u8]) {
    let mut others = Vec::new();
    let known = shown_by::seed(crew, flaw);
    for seed in known.into_iter().chain(0..SEEDS_FOR_A_FLAW) {
        match World::new(seed, Some(flaw), crew).run(false).violation {
            Some(found) if invariants.contains(&found.invariant) => {
                if known.is_some_and(|known| known != seed) || known.is_none() && seed >= SEARCHED_FOR_LONG {
                    eprintln!("(Crew::{crew:?}, Flaw::{flaw:?}, {seed}), // to be noted in shown_by.rs");
                }
                return;
            }
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
fn what_an_operator_took_back_and_the_manager_does_not_hear_is_noticed() {
    assert_caught_with(Crew::Own, Flaw::IgnoresOperators, &[25]);
}

#[test]
fn who_goes_on_from_a_stage_that_has_failed_and_was_not_decided_is_noticed() {
    assert_caught_with(Crew::Own, Flaw::GoesOnUndecided, &[26]);
}

#[test]
fn a_manager_that_goes_on_from_what_was_not_decided_above_is_noticed() {
    assert_caught_with(Crew::Fleet, Flaw::AcceptsUndecided, &[26]);
}

#[test]
fn a_release_that_begins_with_something_else_than_what_serves_is_noticed() {
    assert_caught_with(Crew::Own, Flaw::BeginsAnywhere, &[27]);
}

#[test]
fn an_undo_that_is_offered_again_as_soon_as_it_failed_is_noticed() {
    assert_caught(Flaw::OffersUndoAtOnce, &[24]);
}

#[test]
fn a_child_of_which_all_is_stored_that_it_says_is_noticed() {
    assert_caught(Flaw::StoresAllThatIsSaid, &[24]);
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
fn a_table_that_is_said_to_be_in_force_and_is_not_is_noticed() {
    assert_caught_with(Crew::Own, Flaw::KeepsOldTable, &[15]);
}

#[test]
fn another_table_than_is_said_to_be_in_force_is_noticed() {
    assert_caught_with(Crew::Own, Flaw::DistortsTable, &[15]);
}

#[test]
fn a_version_that_gets_calls_before_it_is_healthy_is_noticed() {
    assert_caught_with(Crew::Own, Flaw::StartsBlindly, &[15]);
}

#[test]
fn an_own_agent_that_goes_on_before_it_has_saved_is_noticed() {
    assert_caught_with(Crew::Own, Flaw::SavesLate, &[15, 16]);
}

#[test]
fn a_result_that_is_dropped_before_it_is_answered_is_noticed() {
    assert_caught_with(Crew::Own, Flaw::TakesSilenceForAnswer, &[16]);
}

#[test]
fn calls_that_are_told_twice_are_noticed() {
    assert_caught_with(Crew::Own, Flaw::CountsTwice, &[16]);
}

/// What is wrong shows where services are released.
mod routers {
    use super::{Crew, Flaw, assert_caught_with};

    fn assert_caught(flaw: Flaw, invariants: &[u8]) {
        assert_caught_with(Crew::Routers, flaw, invariants);
    }

    #[test]
    fn show_a_router_that_is_closed_by_what_it_refused() {
        assert_caught(Flaw::SeesWhatWasRefused, &[5]);
    }

    #[test]
    fn show_that_it_is_forgotten_who_won() {
        assert_caught(Flaw::ForgetsWhoWon, &[17]);
    }

    #[test]
    fn show_a_release_that_is_stored_as_taken_back_and_was_not() {
        assert_caught(Flaw::NoUndo, &[18]);
    }

    #[test]
    fn show_users_that_are_drawn_anew_by_each_attempt() {
        assert_caught(Flaw::SaltsByOffer, &[19]);
    }

    #[test]
    fn show_users_that_are_moved_for_nothing() {
        assert_caught(Flaw::ShufflesBuckets, &[19]);
    }

    #[test]
    fn show_shares_that_no_stage_orders() {
        assert_caught(Flaw::SwapsShares, &[20]);
    }

    #[test]
    fn show_shares_that_were_chosen_and_forgotten() {
        assert_caught(Flaw::ForgetsShares, &[20]);
    }

    #[test]
    fn show_calls_by_a_table_that_was_not_handed_out() {
        assert_caught(Flaw::DistortsTable, &[15]);
        assert_caught(Flaw::KeepsOldTable, &[15]);
    }

    #[test]
    fn show_a_choice_that_a_router_does_not_hear_of() {
        assert_caught(Flaw::ForgetsChoice, &[20, 23]);
    }

    #[test]
    fn show_a_choice_that_comes_too_late() {
        assert_caught(Flaw::ChoosesLate, &[23]);
    }

    #[test]
    fn show_a_barrier_that_opens_one_router_early() {
        assert_caught(Flaw::BarrierOneEarly, &[3]);
    }

    #[test]
    fn show_that_what_an_agent_decided_was_not_saved() {
        assert_caught(Flaw::SavesLate, &[15, 16]);
    }
}

#[test]
fn routers_that_do_not_wait_for_the_agents_are_noticed() {
    assert_caught_with(Crew::Hybrid, Flaw::RoutersAtOnce, &[21]);
}

#[test]
fn agents_that_go_back_before_the_routers_are_noticed() {
    assert_caught_with(Crew::Hybrid, Flaw::AgentsGoBackFirst, &[22]);
}

/// What is wrong with a manager shows where there are own agents alone.
mod own_agents_alone {
    use super::{Crew, Flaw, assert_caught_with};

    fn assert_caught(flaw: Flaw, invariants: &[u8]) {
        assert_caught_with(Crew::Own, flaw, invariants);
    }

    #[test]
    fn show_a_commit_that_is_forgotten() {
        assert_caught(Flaw::ForgetsCommits, &[1]);
    }

    #[test]
    fn show_a_status_that_goes_backwards() {
        assert_caught(Flaw::StatusGoesBack, &[2]);
    }

    #[test]
    fn show_a_barrier_that_opens_one_child_early() {
        assert_caught(Flaw::BarrierOneEarly, &[3]);
    }

    #[test]
    fn show_a_barrier_that_opens_below_without_the_signal_from_above() {
        assert_caught(Flaw::OpensBelow, &[3]);
    }

    #[test]
    fn show_a_gate_that_opens_without_its_approval() {
        assert_caught(Flaw::ApprovesItself, &[3]);
    }

    #[test]
    fn show_an_offer_outside_the_target() {
        assert_caught(Flaw::OutsideTarget, &[4]);
    }

    #[test]
    fn show_time_that_passes_unnoticed() {
        assert_caught(Flaw::NoTick, &[5]);
    }

    #[test]
    fn show_an_undo_that_is_dropped() {
        assert_caught(Flaw::NoUndo, &[6, 10]);
    }

    #[test]
    fn show_a_duplicate_that_counts_twice() {
        assert_caught(Flaw::AppliesTwice, &[7]);
    }

    #[test]
    fn show_a_child_that_is_missing_in_a_report() {
        assert_caught(Flaw::SumsOneShort, &[8]);
    }

    #[test]
    fn show_a_manager_that_keeps_what_it_sent() {
        assert_caught(Flaw::KeepsWhatWasSent, &[9]);
    }

    #[test]
    fn show_stages_that_all_are_passed_over() {
        assert_caught(Flaw::PassesOverAll, &[10]);
    }

    #[test]
    fn show_a_withdrawn_offer_that_is_refused() {
        assert_caught(Flaw::RefusesWithdrawn, &[11]);
    }
}

#[test]
fn an_agent_that_is_taken_for_gone_while_it_works_is_noticed() {
    assert_caught(Flaw::ReplacesTheSilent, &[13]);
}
