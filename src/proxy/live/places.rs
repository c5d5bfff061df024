use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use tokio::{sync::Notify, time::timeout};

use crate::Limits;

/// How many calls a version carries out at once, and how many wait to.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: AtomicU32,
    waiting: AtomicU32,
    freed: Notify,
}

impl Places {
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(SeqCst)
    }

    /// Takes a place, at once or out of the queue; not if that is full or takes too long.
    pub(crate) async fn take(&self, limits: &Limits) -> bool {
        self.take_of(limits.in_flight, limits).await
    }

    /// The same, of so many.
    pub(crate) async fn take_of(&self, most: u32, limits: &Limits) -> bool {
        if self.try_take(most) {
            return true;
        }
        // Counted before it is looked again: whoever gives a place back looks for those that wait afterwards.
        let queue = self.waiting.fetch_add(1, SeqCst);
        let _waiting = Waiting(self);
        if queue >= limits.queue {
            return false;
        }
        let taken = timeout(limits.queue_time, async {
            loop {
                let freed = self.freed.notified();
                if self.try_take(most) {
                    return;
                }
                freed.await;
            }
        });
        taken.await.is_ok()
    }

    pub(crate) fn try_take(&self, limit: u32) -> bool {
        // Never above the limit, not even for a moment: a place that is only tried for must not be given back, which wakes up
        // whoever waits, and that may be this one.
        let one_more = |taken: u32| (taken < limit).then_some(taken + 1);
        self.taken.fetch_update(SeqCst, SeqCst, one_more).is_ok()
    }

    pub(crate) fn give_back(&self) {
        self.taken.fetch_sub(1, SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            self.freed.notify_one();
        }
    }
}

/// One that waits, until it is dropped.
struct Waiting<'p>(&'p Places);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}
