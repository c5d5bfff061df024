//! Takes what was counted from the threads.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use call_metrics::{
    CallMetrics, Cursor, HandedOver, HandoverSnapshot, Moment, Tail, Timeline, UnservedCalls,
};
use tokio::{
    sync::oneshot,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::worker::{Crew, Order};

/// How often counts are taken from the threads.
const EVERY: Duration = Duration::from_secs(1);

/// Takes what the threads counted into the counts.
#[derive(Debug)]
pub(crate) struct Collector {
    crew: Arc<Crew>,
    timeline: Arc<Timeline>,
    call_metrics: Mutex<CallMetrics>,
    unserved: Mutex<UnservedCalls>,
    /// Held by whoever collects: what one has fetched is taken in before another can close an interval.
    turn: tokio::sync::Mutex<()>,
}

impl Collector {
    pub(crate) fn new(crew: Arc<Crew>, timeline: Arc<Timeline>, call_metrics: CallMetrics) -> Arc<Self> {
        let (call_metrics, unserved, turn) =
            (Mutex::new(call_metrics), Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Self { crew, timeline, call_metrics, unserved, turn })
    }

    /// Takes in all that was counted until now. If this is dropped before its end, what was fetched is taken in the next time.
    pub(crate) async fn collect(&self) {
        let _turn = self.turn.lock().await;
        // Every thread looks at the clock later than this, and so is done with all intervals before.
        let open = self.timeline.interval_at(Instant::now());
        let ask = |orders: &tokio::sync::mpsc::UnboundedSender<Order>| {
            let (done, acknowledged) = oneshot::channel();
            let _ = orders.send(Order::Gather(done));
            acknowledged
        };
        let asked: Vec<_> = self.crew.orders.iter().map(ask).collect();
        for acknowledged in asked {
            let _ = acknowledged.await;
        }
        let (parts, unserved) = self.crew.shard.take();
        let moment = Moment::now();
        let mut call_metrics = self.call_metrics();
        for part in &parts {
            call_metrics.absorb(part.interval, &part.key, &part.tally, moment);
        }
        call_metrics.close(open);
        drop(call_metrics);
        self.add_unserved(unserved);
    }

    pub(crate) fn call_metrics(&self) -> MutexGuard<'_, CallMetrics> {
        self.call_metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn unserved(&self) -> UnservedCalls {
        *self.unserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that was counted until now goes to another process, once; what comes later is the tail. `life` is then that of
    /// what comes later.
    pub(crate) async fn leave(&self, life: u64) -> Option<HandoverSnapshot> {
        self.collect().await;
        let mut snapshot = self.call_metrics().leave(life)?;
        snapshot.unserved =
            std::mem::take(&mut *self.unserved.lock().unwrap_or_else(PoisonError::into_inner));
        Some(snapshot)
    }

    /// Takes over what another process left, so that whoever reads there reads on here.
    pub(crate) fn take_over(&self, pid: u32, snapshot: HandoverSnapshot) {
        self.add_unserved(snapshot.unserved);
        self.call_metrics().take_over(pid, snapshot, Moment::now());
    }

    /// What was left didn't come to the other process.
    pub(crate) fn take_back(&self, snapshot: HandoverSnapshot) {
        self.add_unserved(snapshot.unserved);
        self.call_metrics().take_back(snapshot);
    }

    /// What was counted after this cursor since the counts were handed over.
    pub(crate) async fn tail(&self, cursor: Option<Cursor>) -> Tail {
        self.collect().await;
        Tail { reading: self.call_metrics().tail(cursor), unserved: self.unserved(), is_last: false }
    }

    /// Counts what another process counted behind this cursor.
    pub(crate) fn take_in(&self, of: (u32, Option<Cursor>), tail: &Tail) -> Result<(), HandedOver> {
        let unserved = self.call_metrics().take_in(of, tail, Moment::now())?;
        self.add_unserved(unserved);
        Ok(())
    }

    fn add_unserved(&self, more: UnservedCalls) {
        self.unserved.lock().unwrap_or_else(PoisonError::into_inner).add(more);
    }

    /// Collects again and again, until the proxy is gone.
    pub(crate) async fn run(this: Weak<Self>, mut stopped: oneshot::Receiver<()>) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = &mut stopped => return,
            }
            let Some(this) = this.upgrade() else { return };
            tokio::select! {
                () = this.collect() => {}
                _ = &mut stopped => return,
            }
        }
    }
}
