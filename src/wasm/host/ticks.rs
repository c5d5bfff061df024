//! The clock by which instances that compute are interrupted.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use wasmtime::Engine;

/// How long an instance computes until others have their turn.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// Ticks for as long as there are calls. It has a thread of its own: instances may have all others.
#[derive(Debug)]
pub(super) struct Ticks {
    calls: Arc<AtomicUsize>,
    thread: Thread,
}

impl Ticks {
    pub(super) fn start(engine: &Engine) -> io::Result<Self> {
        let calls = Arc::new(AtomicUsize::new(0));
        let (counted, engine) = (Arc::clone(&calls), engine.clone());
        // It ends with the process.
        let ticking = thread::Builder::new().name("ticks".to_owned()).spawn(move || {
            loop {
                if counted.load(Ordering::SeqCst) == 0 {
                    // Whoever counts a first call wakes it, also in the moment before it sleeps.
                    thread::park();
                } else {
                    thread::sleep(TICK);
                    engine.increment_epoch();
                }
            }
        })?;
        Ok(Self { calls, thread: ticking.thread().clone() })
    }

    /// Counts a call until what is given back is dropped.
    pub(super) fn call(&self) -> Ticking {
        if self.calls.fetch_add(1, Ordering::SeqCst) == 0 {
            self.thread.unpark();
        }
        Ticking(Arc::clone(&self.calls))
    }
}

#[derive(Debug)]
pub(super) struct Ticking(Arc<AtomicUsize>);

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
