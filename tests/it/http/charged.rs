//! Large bodies share one memory.

use axum::body::to_bytes;

use axum::body::Body;
use http_api::tried_alone::{FREE_BYTES, MemoryReservation, MeteredBody};
use std::sync::Arc;
use tokio::sync::Semaphore;

fn body(bytes: usize, memory: &Arc<Semaphore>) -> (Body, Arc<MemoryReservation>) {
    let account = Arc::new(MemoryReservation::default());
    let body = MeteredBody::new(Body::from(vec![0; bytes]), Arc::clone(memory), Arc::clone(&account));
    (Body::new(body), account)
}

#[tokio::test]
async fn large_bodies_share_the_memory_and_small_ones_take_none_of_it() {
    let memory = Arc::new(Semaphore::new(1_000));
    let (large, first) = body(FREE_BYTES + 900 * 1024, &memory);
    assert!(to_bytes(large, usize::MAX).await.is_ok());
    assert_eq!(memory.available_permits(), 100);
    let (large, second) = body(FREE_BYTES + 101 * 1024, &memory);
    assert!(to_bytes(large, usize::MAX).await.is_err() && second.was_refused());
    let (small, third) = body(FREE_BYTES, &memory);
    assert!(to_bytes(small, usize::MAX).await.is_ok() && !third.was_refused());
    drop(first);
    assert_eq!(memory.available_permits(), 1_000);
}
