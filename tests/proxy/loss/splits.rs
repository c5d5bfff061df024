//! Who gets which version, and how many do.

use std::net::IpAddr;

use proxy::Limits;
use statrs::distribution::{Binomial, DiscreteCDF};
use traffic::{HashFunction, Shares, Table, Variation, choose};

use super::{
    callers::{Callers, Habit, PATIENCE},
    ledger::Ledger,
    releases::{Stand, Way},
    scale::{SHORTEST_STAGE, Scale},
    version::Behaviour::{Failing, Good},
    wait::wait_until,
};

/// 0.1, 5 and 50 %, in hundredths of a percent.
const SHARES: [u16; 3] = [10, 500, 5_000];
/// Calls at each of these shares, of which each run of the tests makes a twentieth.
const CALLS: u64 = 1_000_000;
/// Where it is set, all of them are made at once: `tests/long splits`.
const ALL: &str = "CHOIRMASTER_TEST_ALL_SPLITS";
/// Within what a test waits for anything there are so many further ones.
const AT_ONCE: u32 = 10_000;
/// What is less likely than this is no chance.
const UNLIKELY: f64 = 1e-6;

const WAY: Way = Way {
    retry: Some("failed"),
    upgrades: false,
    shortest_stage: SHORTEST_STAGE,
    longest_stage: SHORTEST_STAGE,
    fault: None,
};

/// Callers who do nothing but call.
fn eager() -> Vec<Habit> {
    let habit = |posts| Habit { posts, keeps_connection: true, think: std::time::Duration::ZERO };
    [false, true, false, true].map(habit).to_vec()
}

/// How likely a count is that is as far off as this, on either side.
fn likelihood(count: u64, of: u64, share: u16) -> f64 {
    let binomial = Binomial::new(f64::from(share) / 10_000.0, of).unwrap();
    let at_most = binomial.cdf(count);
    let at_least = if count == 0 { 1.0 } else { binomial.sf(count - 1) };
    (2.0 * at_most.min(at_least)).min(1.0)
}

/// A call that has nothing to be known by.
struct Anonymous;

impl traffic::Call for Anonymous {
    fn header(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn cookie(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn address(&self) -> IpAddr {
        [127, 0, 0, 1].into()
    }
}

#[test]
fn choices_agree_with_the_shares() {
    const CHOICES: u64 = CALLS;
    let mut chance = fastrand::Rng::with_seed(7);
    for share in SHARES {
        let table = Table::new(&Shares::new([10_000 - share, share]).unwrap());
        let by = (&table, HashFunction::Murmur2, &b"salt"[..]);
        let chosen = (0..CHOICES)
            .filter(|_| choose(by, (None, None), &Anonymous, || chance.u64(..)).variation == Variation(1))
            .count() as u64;
        let likelihood = likelihood(chosen, CHOICES, share);
        assert!(likelihood > UNLIKELY, "{chosen} of {CHOICES} at {share}: {likelihood}");
        assert!(
            self::likelihood(chosen + CHOICES / 200, CHOICES, share) < UNLIKELY,
            "half a percent more is seen"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_split_as_the_table_says_and_counted_as_they_were_carried_out() {
    let calls = if std::env::var_os(ALL).is_some() { CALLS } else { Scale::part_of(CALLS) };
    for share in SHARES {
        let mut stand = Stand::new(WAY, Limits::default(), Good, 1).await;
        let canary = stand.canary(Good).await;
        stand.put(Some(&canary), share, "split").await;
        let callers = Callers::start(stand.at, &eager(), PATIENCE);
        while u64::from(callers.begun()) < calls {
            let enough = (callers.begun() + AT_ONCE).min(calls as u32);
            wait_until("there were calls", async || callers.begun() >= enough).await;
        }
        let ledger = Ledger::new(callers.finish().await, stand.folder());
        let counted = stand.counted().await;
        assert_eq!(ledger.faults(&counted), [""; 0]);
        let chosen = stand.counts.of(&canary.name).calls;
        assert_eq!(chosen, ledger.executions_of(&canary.name) as u64);
        let likelihood = likelihood(chosen, counted.calls, share);
        assert!(likelihood > UNLIKELY, "{chosen} of {} at {share}: {likelihood}", counted.calls);
        eprintln!("{chosen} of {} calls at {share} of 10,000: p = {likelihood:.3}", counted.calls);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_a_canary_are_felt_by_nobody_and_counted_to_the_call() {
    const CALLS: u64 = 100_000;
    let mut stand = Stand::new(WAY, Limits::default(), Good, 1).await;
    let canary = stand.canary(Failing).await;
    stand.put(Some(&canary), 1_000, "bad").await;
    let callers = Callers::start(stand.at, &eager(), PATIENCE);
    wait_until("there were calls", async || u64::from(callers.begun()) > Scale::part_of(CALLS)).await;
    let ledger = Ledger::new(callers.finish().await, stand.folder());
    let all = stand.counted().await;
    assert_eq!(ledger.faults(&all), [""; 0]);
    let (of_canary, carried_out) = (stand.counts.of(&canary.name), ledger.executions_of(&canary.name) as u64);
    assert!(of_canary.calls > 0);
    assert_eq!((of_canary.repeated, of_canary.failed), (carried_out, carried_out));
    assert_eq!(of_canary.repeated + of_canary.passed_over, of_canary.calls);
    assert_eq!(ledger.executions_of(&stand.base().name) as u64, all.calls);
}
