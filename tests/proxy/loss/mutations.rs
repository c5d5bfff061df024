//! The load can see losses: what is known to lose calls is seen to lose them.

use std::time::Duration;

use proxy::Limits;

use super::{
    callers::{Callers, PATIENCE, all_habits},
    ledger::Ledger,
    releases::{A_B, Fault, GRADUAL, Release, Stand, TWO_STAGES, Way},
    scale::SHORTEST_STAGE,
    version::Behaviour::{self, Crashing, Doubling, Good, Slow},
};

/// After so many releases a fault has to be seen.
const MOST_RELEASES: u32 = 40;

/// Ways that differ from how it should be in what is changed here.
fn way() -> Way {
    Way {
        retry: Some("failed"),
        upgrades: false,
        shortest_stage: SHORTEST_STAGE / 2,
        longest_stage: SHORTEST_STAGE,
        fault: None,
    }
}

/// Leads releases until a call is lost, and gives what a comparison finds.
async fn faults(way: Way, limits: Limits, base: Behaviour, release: Release) -> Vec<String> {
    let mut stand = Stand::new(way, limits, base, 1).await;
    let callers = Callers::start(stand.at, &all_habits(), PATIENCE);
    for _ in 0..MOST_RELEASES {
        stand.release(&release).await;
        if callers.lost() > 0 {
            break;
        }
    }
    let ledger = Ledger::new(callers.finish().await, stand.folder());
    ledger.faults(&stand.counted().await)
}

fn is_named(faults: &[String], what: &str) -> bool {
    faults.iter().any(|fault| fault.starts_with(what))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_that_are_stopped_before_they_are_drained_are_seen_to_lose_calls() {
    let way = Way { fault: Some(Fault::StopsBeforeDrained), ..way() };
    let release = Release { shares: A_B, canary: Slow, abort_at: None };
    let faults = faults(way, Limits::default(), Slow, release).await;
    assert!(is_named(&faults, "lost: "), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_that_are_closed_first_are_seen_to_lose_calls() {
    let limits = Limits { idle: Duration::from_millis(19), ..Limits::default() };
    let release = Release { shares: TWO_STAGES, canary: Good, abort_at: None };
    let faults = faults(way(), limits, Good, release).await;
    assert!(is_named(&faults, "lost: "), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_is_bound_anew_is_seen_to_lose_calls() {
    let way = Way { fault: Some(Fault::BindsAnew), ..way() };
    let release = Release { shares: GRADUAL, canary: Good, abort_at: None };
    let faults = faults(way, Limits::default(), Good, release).await;
    assert!(is_named(&faults, "lost: "), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_repeats_nothing_is_seen_to_lose_calls() {
    let way = Way { retry: Some("never"), ..way() };
    let release = Release { shares: TWO_STAGES, canary: Crashing, abort_at: None };
    let faults = faults(way, Limits::default(), Good, release).await;
    assert!(is_named(&faults, "lost: "), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_carried_out_twice_without_a_counted_repeat_are_seen() {
    let mut stand = Stand::new(way(), Limits::default(), Good, 1).await;
    let callers = Callers::start(stand.at, &all_habits(), PATIENCE);
    let canary = stand.canary(Doubling).await;
    stand.put(Some(&canary), 100, "doubling").await;
    super::wait::wait_until("the canary had calls", async || callers.begun() > 2_000).await;
    let ledger = Ledger::new(callers.finish().await, stand.folder());
    let faults = ledger.faults(&stand.counted().await);
    assert!(is_named(&faults, "doubled: "), "{faults:?}");
}
