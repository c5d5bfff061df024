use std::{
    rc::Rc,
    sync::atomic::{AtomicU32, Ordering},
};

use tokio::{sync::Notify, time::timeout};

use super::local::LocalVersion;
use crate::Limits;

/// How many calls a version carries out at once, and how many wait to.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: AtomicU32,
    waiting: AtomicU32,
    freed: Notify,
}

/// A call's place at a version, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    version: Rc<LocalVersion>,
}

impl Places {
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    fn try_take(&self, limit: u32) -> bool {
        // Never above the limit, not even for a moment: a place that is only tried for must not be given back, which wakes up
        // whoever waits, and that may be this one.
        let one_more = |taken: u32| (taken < limit).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).is_ok()
    }

    fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.freed.notify_one();
        }
    }
}

impl Place {
    /// A place at a version, at once or out of its queue; none if that is full or takes too long.
    pub(crate) async fn take(version: &Rc<LocalVersion>, limits: &Limits) -> Option<Self> {
        let places = version.shared().places();
        if places.try_take(limits.in_flight) {
            return Some(Self { version: Rc::clone(version) });
        }
        if places.waiting.fetch_add(1, Ordering::AcqRel) >= limits.queue {
            places.waiting.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let waiting = Waiting(places);
        let taken = timeout(limits.queue_time, async {
            loop {
                let freed = places.freed.notified();
                if places.try_take(limits.in_flight) {
                    return;
                }
                freed.await;
            }
        });
        let got = taken.await.is_ok();
        drop(waiting);
        got.then(|| Self { version: Rc::clone(version) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.version.shared().places().give_back();
    }
}

/// One that waits, until it is dropped.
struct Waiting<'p>(&'p Places);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
