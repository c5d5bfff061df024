use proxy::Limits;

use super::{
    callers::{Callers, Fate, PATIENCE, all_habits},
    ledger::Ledger,
    releases::{Stand, Way, every_release},
    scale::{SHORTEST_STAGE, Scale},
    version::Behaviour::{self, Closing, Crashing, Failing, Good, Slow},
};

/// Calls of the whole load.
const CALLS: u64 = 1_000_000;

/// Releases of every kind under load, until enough calls were made.
async fn load_with_releases(retry: Option<&'static str>, canaries: &[Behaviour]) -> (Ledger, Stand) {
    let Scale { part, longest_stage } = Scale::find();
    let mut chance = fastrand::Rng::with_seed(part);
    let way = Way { retry, upgrades: true, shortest_stage: SHORTEST_STAGE, longest_stage, fault: None };
    let mut stand = Stand::new(way, Limits::default(), Good, part).await;
    let callers = Callers::start(stand.at, &all_habits(), PATIENCE);
    let mut releases = 0;
    while releases == 0 || u64::from(callers.begun()) < Scale::part_of(CALLS) {
        for release in every_release(canaries, &mut chance) {
            stand.release(&release).await;
            releases += 1;
        }
    }
    let ledger = Ledger::new(callers.finish().await, stand.folder());
    let counted = stand.counted().await;
    let (sums, executions) = (ledger.sums(), ledger.executions());
    let Stand { kills, upgrades, .. } = stand;
    eprintln!(
        "part {part}: {releases} releases, {kills} kills, {upgrades} upgrades, {sums}; carried out {executions} times; {counted:?}"
    );
    (ledger, stand)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_by_whole_releases_and_killed_canaries_and_each_repeat_is_counted() {
    let (ledger, stand) = load_with_releases(Some("failed"), &[Good, Slow, Failing, Crashing, Closing]).await;
    let counted = stand.counts.all();
    assert_eq!(ledger.faults(&counted), [""; 0]);
    assert!(stand.kills > 0 && stand.upgrades > 0);
    assert!(counted.repeated > 0 && counted.passed_over > 0 && counted.sent_again > 0, "{counted:?}");
    assert_eq!((counted.errors, counted.broken_off), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_dies_executions_are_calls_and_counted_repeats() {
    let (ledger, stand) = load_with_releases(Some("failed"), &[Good, Slow, Failing]).await;
    let counted = stand.counts.all();
    assert_eq!(ledger.faults(&counted), [""; 0]);
    assert!(counted.repeated > 0, "{counted:?}");
    assert_eq!(ledger.executions() as u64, counted.calls + counted.repeated);
    assert_eq!(counted.sent_again, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_retry_setting_only_non_repeatable_calls_fail_none_doubled() {
    let (ledger, stand) = load_with_releases(None, &[Good, Slow, Failing, Crashing]).await;
    let (sums, counted) = (ledger.sums(), stand.counts.all());
    assert_eq!((sums.cut, sums.nothing), (0, 0), "{sums}");
    assert!(ledger.calls.iter().all(|call| call.posted || call.fate == Fate::Answered));
    assert!(stand.kills > 0 && sums.function_errors > 0, "{sums}");
    assert_eq!(sums.function_errors as u64, counted.errors);
    assert_eq!(sums.proxy_errors as u64, counted.failed - counted.repeated);
    assert_eq!(counted.calls, sums.calls as u64);
    assert_eq!(ledger.more_than_once(|call| call.posted), 0);
    assert_eq!(ledger.invented(), 0);
    let more = ledger.more_than_once(|_| true) as u64;
    assert!(more <= counted.repeated + counted.sent_again, "{more} {counted:?}");
}
