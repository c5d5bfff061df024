//! Calls that wait until something is published of their child: long polls.
//!
//! A waiter registers, *then* looks, then waits: whatever is published after its look wakes it, and what was
//! published before, it sees. Between the two stand a fence on either side: the one who publishes stores the turn
//! and then reads how many wait, a waiter counts itself and then reads the turn. Without fences both could read what
//! was before, and the wake-up would be lost.
//!
//! Invariants: a child without waiters costs whoever publishes it a fence and the look at one counter while nobody
//! waits, and one short lock while somebody does; a waiter that is dropped leaves nothing behind; the number of
//! waiters is bounded, in all and for each child. Deliberately not here: what a waiter waits for, and for how long.

use std::{
    array,
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering, fence},
    },
};

use tokio::sync::watch;

use model::ChildKey;

/// Calls of one child that may wait at once. A connection that died unnoticed is one of them until its wait is over.
pub const MAX_WAITERS_PER_CHILD: usize = 8;

/// Waiters of different children seldom meet in one of so many maps.
const SHARDS: usize = 64;

/// Those who wait for one child.
#[derive(Debug)]
struct Queue {
    /// What is sent is only that something was published.
    published: watch::Sender<()>,
    waiting: usize,
}

type Shard = HashMap<ChildKey, Queue>;

/// Calls that wait for something to be published of their child.
#[derive(Debug)]
pub struct Waiters {
    waiting: AtomicUsize,
    shards: [Mutex<Shard>; SHARDS],
}

impl Default for Waiters {
    fn default() -> Self {
        Self { waiting: AtomicUsize::new(0), shards: array::from_fn(|_| Mutex::default()) }
    }
}

impl Waiters {
    /// How many wait.
    pub fn count(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether a call of this child waits.
    pub fn is_waiting(&self, child: ChildKey) -> bool {
        self.count() > 0 && self.shard(child).contains_key(&child)
    }

    /// Wakes this waiter at each [`Waiters::wake`] from now on, until it is dropped. `None`: `limit` wait already, or
    /// too many of this child.
    pub fn register(&self, child: ChildKey, limit: usize) -> Option<Waiter<'_>> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= limit {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let Some(published) = self.queue(child) else {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        fence(Ordering::SeqCst);
        Some(Waiter { waiters: self, child, published })
    }

    fn queue(&self, child: ChildKey) -> Option<watch::Receiver<()>> {
        let mut shard = self.shard(child);
        let queue =
            shard.entry(child).or_insert_with(|| Queue { published: watch::Sender::new(()), waiting: 0 });
        if queue.waiting >= MAX_WAITERS_PER_CHILD {
            return None;
        }
        queue.waiting += 1;
        Some(queue.published.subscribe())
    }

    /// Something was published of this child.
    pub fn wake(&self, child: ChildKey) {
        fence(Ordering::SeqCst);
        if self.count() > 0
            && let Some(queue) = self.shard(child).get(&child)
        {
            queue.published.send_replace(());
        }
    }

    /// Something happened that concerns all.
    pub fn wake_all(&self) {
        fence(Ordering::SeqCst);
        for shard in &self.shards {
            for queue in lock(shard).values() {
                queue.published.send_replace(());
            }
        }
    }

    fn shard(&self, child: ChildKey) -> MutexGuard<'_, Shard> {
        lock(&self.shards[child.0 as usize % SHARDS])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One call that waits.
#[derive(Debug)]
pub struct Waiter<'w> {
    waiters: &'w Waiters,
    child: ChildKey,
    published: watch::Receiver<()>,
}

impl Waiter<'_> {
    /// Ends when something was published since the last time, or since the registration.
    pub async fn woken(&mut self) {
        // An error would mean that the queue is gone, which it is not while somebody is in it.
        let _ = self.published.changed().await;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut shard = self.waiters.shard(self.child);
        if let Some(queue) = shard.get_mut(&self.child) {
            queue.waiting -= 1;
            if queue.waiting == 0 {
                shard.remove(&self.child);
            }
        }
        self.waiters.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
