//! Work that takes a processor for long, apart from the tasks that answer calls.
//!
//! A thread of its own is not enough where processors are few. Whoever wakes to commit would wait until the time slice of the
//! working thread is over, which is some milliseconds, and several times a commit; and whoever wakes while a processor works, at
//! however low a rank, is put on another one, so all that answers calls crowds there. So long work
//!
//! - lets others go first every few ten microseconds, on threads that come after all others of the process where processors are short:
//!   children that call are answered before people who look;
//! - is done in turns of [`TURN`], few works at a time however many there are;
//! - rests after a turn while the process is busy with other things, so that these are spread over all processors again.

use std::{
    cell::RefCell,
    io,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
#[cfg(target_os = "linux")]
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{Mutex, MutexGuard},
    time::Instant,
};

use super::error::EngineError;

/// Items between two times when others may go first: to look at one takes some tenths of a microsecond, and so does to ask who else is there.
pub const ITEMS: usize = 64;

/// Bytes of JSON between two such times: to write as many takes some ten microseconds.
pub const BYTES: usize = 8 * 1024;

/// Works that are under way at once; others wait.
const THREADS: usize = 16;

/// For how long a work goes on until it is another one's turn.
const TURN: Duration = Duration::from_micros(200);

/// Processors for each work that has its turn at the same time.
const PROCESSORS_A_TURN: usize = 4;

/// How often it is looked at what other threads do: that takes as long as some ten items.
const LOOK_ROUND: Duration = Duration::from_millis(2);

/// The process is busy with other things if these take more than one in so many of the processors that a work leaves to them.
const BUSY: u32 = 4;

/// Of a processor that others want too, such a thread gets a tenth of what one of them does.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Has nothing but threads for such work: a thread can't be given its rank back, so they are kept from everything else.
static THREADS_APART: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.thread_name("apart").max_blocking_threads(THREADS).on_thread_start(give_way_to_others).build()
});

/// For the thread that calls it, and for good.
fn give_way_to_others() {
    // Elsewhere the rank is that of the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "a thread apart has the rank of all others");
    }
}

/// Works on a thread apart. It goes on also where nobody waits for it any more.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, EngineError> {
    let threads = THREADS_APART.as_ref().map_err(|error| {
        tracing::error!(%error, "there are no threads apart");
        EngineError::Failed
    })?;
    let in_turns = || {
        let _in_turns = InTurns::begin();
        work()
    };
    threads.spawn_blocking(in_turns).await.map_err(|error| {
        tracing::error!(%error, "work on a thread apart broke off");
        EngineError::Failed
    })
}

static PROCESSORS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// A lock for each turn that may be had at the same time. Whoever waits for one gets it in the order in which they came.
static QUEUES: LazyLock<Vec<Mutex<()>>> = LazyLock::new(|| {
    let at_once = (*PROCESSORS / PROCESSORS_A_TURN).max(1);
    (0..at_once).map(|_| Mutex::new(())).collect()
});

thread_local! {
    /// That of the work of this thread, if it is done in turns.
    static MINE: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// The work of this thread is done in turns while this lives.
struct InTurns;

impl InTurns {
    fn begin() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let queue = &QUEUES[NEXT.fetch_add(1, Ordering::Relaxed) % QUEUES.len()];
        MINE.set(Some(Turn::wait_in(queue)));
        Self
    }
}

impl Drop for InTurns {
    fn drop(&mut self) {
        MINE.take();
    }
}

struct Turn {
    queue: &'static Mutex<()>,
    held: MutexGuard<'static, ()>,
    began: Instant,
    others: Others,
}

impl Turn {
    fn wait_in(queue: &'static Mutex<()>) -> Self {
        let held = queue.blocking_lock();
        Self { queue, held, began: Instant::now(), others: Others::now() }
    }

    /// The next one, if this is over.
    fn goes_on(mut self) -> Self {
        if self.began.elapsed() < TURN {
            return self;
        }
        if self.others.are_busy() {
            thread::sleep(TURN);
        }
        drop(self.held);
        self.held = self.queue.blocking_lock();
        self.began = Instant::now();
        self
    }
}

/// What all other threads of the process do.
struct Others {
    since: Instant,
    /// Their processor time until then.
    took: Duration,
    are_busy: bool,
}

impl Others {
    fn now() -> Self {
        Self { since: Instant::now(), took: processor_time_of_others(), are_busy: false }
    }

    /// Whether they were busy the last time that it was looked at.
    fn are_busy(&mut self) -> bool {
        let passed = self.since.elapsed();
        if passed >= LOOK_ROUND {
            let now = Self::now();
            let took = now.took.saturating_sub(self.took);
            // With one processor, whatever others do is done on the one that works.
            let are_busy = took * BUSY > passed * (*PROCESSORS - 1) as u32;
            *self = Self { are_busy, ..now };
        }
        self.are_busy
    }
}

/// Of this process, in all its threads but this one.
#[cfg(target_os = "linux")]
fn processor_time_of_others() -> Duration {
    processor_time(ClockId::ProcessCPUTime).saturating_sub(processor_time(ClockId::ThreadCPUTime))
}

/// Not known elsewhere: nobody rests there.
#[cfg(not(target_os = "linux"))]
fn processor_time_of_others() -> Duration {
    Duration::ZERO
}

#[cfg(target_os = "linux")]
fn processor_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// What comes of a work, and how long this thread worked at it: not how long it rested or waited for its turn.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    #[cfg(target_os = "linux")]
    let clock = || processor_time(ClockId::ThreadCPUTime);
    // What passes counts where nothing else is known.
    #[cfg(not(target_os = "linux"))]
    let clock = {
        let began = Instant::now();
        move || began.elapsed()
    };
    let before = clock();
    let done = work();
    (done, clock().saturating_sub(before))
}

/// Lets others go first, and those who work as this thread does when its turn is over.
fn give_way() {
    thread::yield_now();
    MINE.with_borrow_mut(|mine| *mine = mine.take().map(Turn::goes_on));
}

/// The same items, between which others may go first.
pub fn giving_way<I: Iterator>(items: I) -> impl Iterator<Item = I::Item> {
    items.enumerate().map(|(at, item)| {
        if at % ITEMS == ITEMS - 1 {
            give_way();
        }
        item
    })
}

/// Makes something and writes it as JSON, both on a thread apart.
pub async fn write_json<T: Serialize>(
    make: impl FnOnce() -> T + Send + 'static,
) -> Result<Bytes, EngineError> {
    let written = run(move || {
        let mut text = JsonText::default();
        serde_json::to_writer(&mut text, &make()).map(|()| Bytes::from(text.written))
    });
    written.await?.map_err(|error| {
        tracing::error!(%error, "an answer could not be written as JSON");
        EngineError::Failed
    })
}

/// Text that grows, between parts of which others may go first.
#[derive(Default)]
struct JsonText {
    written: Vec<u8>,
    since_yield: usize,
}

impl io::Write for JsonText {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.written.extend_from_slice(part);
        self.since_yield += part.len();
        if self.since_yield >= BYTES {
            self.since_yield = 0;
            give_way();
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
