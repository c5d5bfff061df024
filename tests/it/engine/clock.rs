//! Serving time: what counts, and until when answers may be given. The clock is the runtime's, turned by hand.

use std::time::Duration;

use engine::clock::{Clock, ClockSource, SERVES_MS};
use tokio::time::advance;

/// A clock whose life began so long ago.
async fn clock(served_before_ms: u64, lived_ms: u64) -> Clock {
    let clock = Clock::start(ClockSource::runtime(0), served_before_ms);
    stand_still(lived_ms).await;
    clock
}

/// Nothing happens for so long.
async fn stand_still(ms: u64) {
    advance(Duration::from_millis(ms)).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_lease_nothing_is_served() {
    let clock = clock(5_000, 60_000).await;
    assert_eq!(clock.served_ms(), 5_000);
    assert!(!clock.is_serving());
    assert_eq!(clock.lease_left(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn serving_time_begins_with_the_first_lease_and_stands_still_without_one() {
    let clock = clock(5_000, 60_000).await;
    clock.renewed(clock.sending());
    assert!(clock.is_serving());
    assert_eq!(clock.served_ms(), 5_000);
    stand_still(3_600_000).await;
    assert!(!clock.is_serving());
    assert_eq!(clock.served_ms(), 5_000 + SERVES_MS);
    clock.renewed(clock.sending());
    assert!(clock.is_serving());
    assert_eq!(clock.served_ms(), 5_000 + SERVES_MS);
    stand_still(4_000).await;
    assert_eq!(clock.served_ms(), 9_000 + SERVES_MS);
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_a_standstill_renews_nothing_after_it() {
    let clock = clock(0, 0).await;
    clock.renewed(clock.sending());
    let sent = clock.sending();
    stand_still(SERVES_MS + 1_000).await;
    clock.renewed(sent);
    assert!(!clock.is_serving());
    assert_eq!(clock.served_ms(), SERVES_MS);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_slow_counts_from_its_question() {
    let clock = clock(0, 0).await;
    clock.renewed(clock.sending());
    let sent = clock.sending();
    stand_still(SERVES_MS - 2_000).await;
    clock.renewed(sent);
    assert!(clock.is_serving());
    assert_eq!(clock.lease_left(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn closed_is_for_ever_the_same_moment() {
    let clock = clock(0, 0).await;
    clock.renewed(clock.sending());
    clock.close();
    let then = clock.served_ms();
    assert!(!clock.is_serving());
    stand_still(10_000).await;
    assert_eq!(clock.served_ms(), then);
}
