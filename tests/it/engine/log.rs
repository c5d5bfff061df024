//! What the program logs, for tests that look at the lines.

use std::{
    io,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use tracing::subscriber::{self, DefaultGuard, NoSubscriber};

/// The lines that are logged on the thread that began to collect them.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Collects lines until the guard is dropped.
    pub fn collect() -> (Log, DefaultGuard) {
        /// `tracing` asks once, on the thread that comes there first, who wants the lines of a place in the code. As
        /// long as there is one subscriber it asks that thread's own: a thread without one would turn the place off
        /// for all. Beside a second subscriber every line is asked about anew.
        static SECOND: LazyLock<()> = LazyLock::new(|| {
            subscriber::set_global_default(NoSubscriber::new())
                .expect("no test sets one for the whole process");
        });
        LazyLock::force(&SECOND);
        let log = Log::default();
        let written = log.clone();
        let lines = tracing_subscriber::fmt()
            .with_writer(move || written.clone())
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .finish();
        (log, subscriber::set_default(lines))
    }

    /// The lines since the last look.
    pub fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8(bytes).unwrap().lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
