//! Waiters by themselves: no wake-up is lost, and nothing is left behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use choirmaster::{
    engine::waiters::{MAX_WAITERS_PER_CHILD, Waiters},
    model::ChildKey,
};
use tokio::time::timeout;

/// Far longer than a wake-up takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Rounds of publishing and waiting: whoever loses a wake-up in one of a million does so here now and then.
const ROUNDS: u64 = 30_000;

/// Who publishes writes, then wakes; who waits registers, then looks. In each round both begin at once.
#[test]
fn what_is_published_while_somebody_registers_is_not_missed() {
    let (waiters, turn, seen) = (Arc::new(Waiters::default()), AtomicU64::new(0), AtomicU64::new(0));
    let child = ChildKey(7);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 1..=ROUNDS {
                turn.store(round, Ordering::Release);
                waiters.wake(child);
                while seen.load(Ordering::Acquire) < round {
                    // Ends as well when the other thread has given up.
                    if Arc::strong_count(&waiters) == 1 {
                        return;
                    }
                    std::thread::yield_now();
                }
            }
        });
        let held = Arc::clone(&waiters);
        let (turn, seen) = (&turn, &seen);
        threads.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                for round in 1..=ROUNDS {
                    let mut waiter = held.register(child, 10).unwrap();
                    while turn.load(Ordering::Acquire) < round {
                        timeout(PATIENCE, waiter.woken()).await.expect("it is woken");
                    }
                    drop(waiter);
                    seen.store(round, Ordering::Release);
                }
            });
        });
    });
    assert_eq!((seen.load(Ordering::Relaxed), waiters.count()), (ROUNDS, 0));
}

#[tokio::test]
async fn each_child_wakes_its_own_waiters_and_all_of_them() {
    let waiters = Waiters::default();
    // They share a map.
    let (one, other) = (ChildKey(1), ChildKey(1 + 64));
    let mut both = [waiters.register(one, 10).unwrap(), waiters.register(one, 10).unwrap()];
    let mut third = waiters.register(other, 10).unwrap();
    waiters.wake(one);
    for waiter in &mut both {
        timeout(PATIENCE, waiter.woken()).await.unwrap();
    }
    let pending = |woken: Result<(), _>| woken.is_err();
    assert!(pending(timeout(Duration::from_millis(1), third.woken()).await));
    assert!(pending(timeout(Duration::from_millis(1), both[0].woken()).await));
    waiters.wake_all();
    for waiter in both.iter_mut().chain([&mut third]) {
        timeout(PATIENCE, waiter.woken()).await.unwrap();
    }
}

#[test]
fn there_are_no_more_than_the_limits_say_and_whoever_goes_makes_room() {
    let waiters = Waiters::default();
    let mut of_one: Vec<_> =
        (0..MAX_WAITERS_PER_CHILD).map(|_| waiters.register(ChildKey(1), 100).unwrap()).collect();
    assert!(waiters.register(ChildKey(1), 100).is_none());
    assert!(waiters.register(ChildKey(2), MAX_WAITERS_PER_CHILD).is_none());
    assert_eq!(waiters.count(), MAX_WAITERS_PER_CHILD);
    of_one.pop();
    let again = waiters.register(ChildKey(2), MAX_WAITERS_PER_CHILD).unwrap();
    assert!(waiters.is_waiting(ChildKey(1)) && waiters.is_waiting(ChildKey(2)));
    drop((of_one, again));
    assert_eq!(waiters.count(), 0);
    assert!(!waiters.is_waiting(ChildKey(1)) && !waiters.is_waiting(ChildKey(2)));
    assert!(waiters.register(ChildKey(1), 0).is_none());
}
