//! What many ask for at the same time is done once for all of them.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

/// Something that is done again and again. Whoever asks gets what came of a time that began after that, so it shows all that was so when
/// it was asked; all who wait share that time. Who gives up while it is done for all leaves it to the next who waits.
#[derive(Debug)]
pub(super) struct Once<T> {
    /// How often it was begun.
    begun: AtomicU64,
    last: Mutex<Last<T>>,
    /// From one beginning to the next, at least.
    pause: Duration,
}

#[derive(Debug)]
struct Last<T> {
    began: Option<Instant>,
    /// The how manyth time, and what came of it.
    done: Option<(u64, Arc<T>)>,
}

impl<T> Once<T> {
    pub fn new(pause: Duration) -> Self {
        Self { begun: AtomicU64::new(0), last: Mutex::new(Last { began: None, done: None }), pause }
    }

    /// What comes of `act`, or of that of somebody else who asked.
    pub async fn ask<F: Future<Output = T>>(&self, act: impl FnOnce() -> F) -> Arc<T> {
        let before = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some((number, done)) = &last.done
            && *number > before
        {
            return Arc::clone(done);
        }
        if let Some(began) = last.began {
            sleep_until(began + self.pause).await;
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        last.began = Some(Instant::now());
        let done = Arc::new(act().await);
        last.done = Some((number, Arc::clone(&done)));
        done
    }
}
