//! Where the time comes from: the only place that reads the system's clocks.
//!
//! Two clocks. **Wall time** is for people and for starts that people have set: it may jump, and nothing is erased or
//! given up by it. **Serving time** is what deadlines and ages are measured in: it goes on only while this manager may
//! answer, that is while its lease on the store is fresh, and is continued by the next life. A manager that was down,
//! frozen, asleep with its machine or without its store has not served, and nobody is late because of that.
//!
//! How long the lease is fresh is counted from before its renewal was *sent*, on a clock that also counts the time
//! that the machine has slept: what a process that stood still in the middle of a commit learns when it wakes may be
//! older than another manager's lease.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

use model::Now;
use store::LEASE_TTL;

/// Answers stop so long before another manager may take the lease: for clocks that don't run equally fast, and for
/// the way of an answer.
const LEASE_MARGIN: Duration = Duration::from_secs(1);

/// Answers may be given for so long from when a renewal was sent, in milliseconds.
pub const SERVES_MS: u64 = LEASE_TTL.saturating_sub(LEASE_MARGIN).as_millis() as u64;

/// What a clock reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClockSource {
    /// The clocks of the machine.
    #[default]
    Machine,
    /// The runtime's clock, for wall time, too, from this instant on: who pauses it and turns it by hand lets hours pass in no time.
    Runtime { wall_ms: i64, from: Instant },
}

impl ClockSource {
    /// The runtime's clock, beginning at this wall time, in milliseconds since 1970.
    pub fn runtime(wall_ms: i64) -> Self {
        Self::Runtime { wall_ms, from: Instant::now() }
    }

    /// Milliseconds of a clock that never jumps.
    fn ms(self) -> u64 {
        match self {
            Self::Machine => machine_ms(),
            Self::Runtime { from, .. } => from.elapsed().as_millis() as u64,
        }
    }

    fn wall_ms(self) -> i64 {
        match self {
            Self::Machine => wall_ms(),
            Self::Runtime { wall_ms, .. } => wall_ms.saturating_add(self.ms() as i64),
        }
    }
}

/// The clocks, and until when the lease is fresh. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Clock {
    source: ClockSource,
    /// What the source said when this life began to count, in milliseconds.
    began_ms: u64,
    /// The wall time then, in milliseconds since 1970.
    began_wall_ms: i64,
    served_before_ms: u64,
    serving: Arc<Serving>,
}

/// Both are written by the engine's task alone. Readers take `until_ms` before `lost_ms` and both before the clock:
/// whoever sees an old end of the lease sees at most that much time, and whoever sees a new one sees what was lost
/// before it.
#[derive(Debug, Default)]
struct Serving {
    /// Serving time at which the lease is no longer fresh, unless it is renewed.
    until_ms: AtomicU64,
    /// Time of this life in which it was not.
    lost_ms: AtomicU64,
}

/// What [`Clock::served_ms`] and [`Clock::is_serving`] say of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServingTime {
    pub served_ms: u64,
    pub is_serving: bool,
}

/// When something that renews the lease was sent to the store.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct LeaseRenewal {
    at_ms: u64,
}

impl Clock {
    /// Starts to count at `served_before_ms`, without a lease.
    pub fn start(source: ClockSource, served_before_ms: u64) -> Self {
        let serving = Serving { until_ms: AtomicU64::new(served_before_ms), lost_ms: AtomicU64::new(0) };
        Self {
            source,
            began_ms: source.ms(),
            began_wall_ms: source.wall_ms(),
            served_before_ms,
            serving: Arc::new(serving),
        }
    }

    /// Wall time at which this life began, in milliseconds since 1970.
    pub fn began_wall_ms(&self) -> i64 {
        self.began_wall_ms
    }

    /// Milliseconds served on this store, over all lives. Never less than before.
    #[inline]
    pub fn served_ms(&self) -> u64 {
        let (now, until) = self.raw();
        now.min(until)
    }

    pub fn now(&self) -> Now {
        Now { wall_ms: self.source.wall_ms(), served_ms: self.served_ms() }
    }

    /// Whether answers may be given: the lease is fresh at this moment. To be asked right before an answer, not before
    /// the work for it.
    #[inline]
    pub fn is_serving(&self) -> bool {
        let (now, until) = self.raw();
        now < until
    }

    /// Both at once: the clock is read once.
    #[inline]
    pub fn look(&self) -> ServingTime {
        let (now, until) = self.raw();
        ServingTime { served_ms: now.min(until), is_serving: now < until }
    }

    /// For how long the lease is fresh yet.
    pub fn lease_left(&self) -> Duration {
        let (now, until) = self.raw();
        Duration::from_millis(until.saturating_sub(now))
    }

    /// What serving time would be if the lease were fresh, and where it ends.
    fn raw(&self) -> (u64, u64) {
        let until = self.serving.until_ms.load(Ordering::Acquire);
        let lost = self.serving.lost_ms.load(Ordering::Acquire);
        let lived = self.source.ms().saturating_sub(self.began_ms);
        ((self.served_before_ms + lived).saturating_sub(lost), until)
    }

    /// To be called before a commit or a renewal is sent.
    pub fn sending(&self) -> LeaseRenewal {
        LeaseRenewal { at_ms: self.raw().0 }
    }

    /// The store has renewed the lease, as it was asked to at `sent`. If that is too long ago, nothing is known.
    pub fn renewed(&self, sent: LeaseRenewal) {
        let (now, until) = self.raw();
        let renewed = sent.at_ms + SERVES_MS;
        if now >= renewed {
            return;
        }
        let lost = now.saturating_sub(until);
        self.serving.lost_ms.fetch_add(lost, Ordering::Release);
        self.serving.until_ms.fetch_max(renewed - lost, Ordering::Release);
    }

    /// No answer is given any more.
    pub fn close(&self) {
        self.serving.until_ms.fetch_min(self.raw().0, Ordering::Release);
    }
}

/// Milliseconds of a clock that never jumps and counts on while the machine sleeps.
#[cfg(target_os = "linux")]
fn machine_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.cast_unsigned() * 1_000 + now.tv_nsec.cast_unsigned() / 1_000_000
}

/// Milliseconds of a clock that never jumps. Whether it counts on while the machine sleeps depends on the system.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "the one place where clocks are read")]
fn machine_ms() -> u64 {
    use std::{sync::LazyLock, time::Instant};
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    FIRST.elapsed().as_millis() as u64
}

/// Milliseconds since 1970, UTC; 0 if the system's clock stands before.
#[expect(clippy::disallowed_methods, reason = "the one place where clocks are read")]
pub fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
