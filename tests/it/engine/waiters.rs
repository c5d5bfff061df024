//! Waiters by themselves: no wake-up is lost, and nothing is left behind.

use std::{
    hint,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use engine::waiters::{MAX_WAITERS_PER_CHILD, Waiters};
use model::ChildKey;
use tokio::time::timeout;

use crate::deadline::DEADLINE;

/// Rounds of publishing and waiting: whoever loses a wake-up in one of a million does so here now and then.
const ROUNDS: u64 = 30_000;

/// So often whoever publishes looks whether the next round has begun before it sleeps until then: nearly always that is
/// enough, so both begin at once. It never gives its time away in a loop (`yield_now`): some schedulers count each of these
/// against it, and beside busy neighbours it then isn't run for many seconds.
const SPINS: u32 = 2_000;

/// Who publishes writes, then wakes; who waits registers, then looks. In each round both begin at once.
#[test]
fn what_is_published_while_somebody_registers_is_not_missed() {
    let (waiters, turn) = (Waiters::default(), AtomicU64::new(0));
    let (next, begun) = mpsc::channel::<()>();
    let child = ChildKey(7);
    let waited = std::thread::scope(|threads| {
        threads.spawn(|| {
            let begun = begun;
            for round in 1..=ROUNDS {
                turn.store(round, Ordering::Release);
                waiters.wake(child);
                let is_here = (0..SPINS).any(|_| {
                    hint::spin_loop();
                    begun.try_recv().is_ok()
                });
                // Ends as well when the other thread has given up.
                if !is_here && begun.recv().is_err() {
                    return;
                }
            }
        });
        let waiting = threads.spawn(|| {
            let next = next;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                for round in 1..=ROUNDS {
                    let mut waiter = waiters.register(child, 10).unwrap();
                    while turn.load(Ordering::Acquire) < round {
                        timeout(DEADLINE, waiter.woken()).await.expect("it is woken");
                    }
                    drop(waiter);
                    next.send(()).unwrap();
                }
            });
            ROUNDS
        });
        waiting.join().unwrap()
    });
    assert_eq!((waited, waiters.count()), (ROUNDS, 0));
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
        timeout(DEADLINE, waiter.woken()).await.unwrap();
    }
    let pending = |woken: Result<(), _>| woken.is_err();
    assert!(pending(timeout(Duration::from_millis(1), third.woken()).await));
    assert!(pending(timeout(Duration::from_millis(1), both[0].woken()).await));
    waiters.wake_all();
    for waiter in both.iter_mut().chain([&mut third]) {
        timeout(DEADLINE, waiter.woken()).await.unwrap();
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
