//! A store that takes nothing for a while: what is said of it in the log, and how often.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use engine::By;
use heart::children;
use heart::release::command::{Command, Reply};
use store::{StoreError, rows::Batch};

use super::faulty::{PATIENCE, first_poll, start, wait_until};

/// Attempts to write that fail before all is well again.
const ATTEMPTS: usize = 12;

/// What is the matter with a store.
type Matter = Arc<Mutex<Option<Error>>>;

type Error = fn() -> StoreError;

/// What is logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The lines since the last look.
    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8(bytes).unwrap().lines().map(|line| line.trim().to_owned()).collect()
    }
}

#[tokio::test]
async fn a_trouble_that_lasts_is_said_once_and_not_at_each_attempt_and_so_is_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (matter, refused) = (Matter::default(), Arc::new(AtomicUsize::new(0)));
    let (is_the_matter, counted) = (Arc::clone(&matter), Arc::clone(&refused));
    let fault = move |_: Option<&Batch>| {
        let matter = *is_the_matter.lock().unwrap();
        counted.fetch_add(usize::from(matter.is_some()), Ordering::Relaxed);
        matter.map(|error| error())
    };
    let started = start(folder.path(), fault).await;
    let (log, engine) = (Log::default(), started.engine);
    let written = log.clone();
    let lines = tracing_subscriber::fmt()
        .with_writer(move || written.clone())
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .finish();
    let _guard = tracing::subscriber::set_default(lines);

    let full = || StoreError::Full("database or disk is full".to_owned());
    let gone = || StoreError::Unavailable("no connection".to_owned());
    let what_is_said: [(Error, &str); 3] = [
        (
            full,
            "ERROR nothing can be stored until there is room; what was acknowledged is safe error=the store has no \
             space left: database or disk is full",
        ),
        (
            gone,
            "WARN a commit failed; it is tried again as it was until it succeeds error=the store is not available: \
             no connection",
        ),
        // Another time it is news again.
        (
            full,
            "ERROR nothing can be stored until there is room; what was acknowledged is safe error=the store has no \
             space left: database or disk is full",
        ),
    ];
    for (round, (error, said)) in what_is_said.into_iter().enumerate() {
        *matter.lock().unwrap() = Some(error);
        refused.store(0, Ordering::Relaxed);
        let call = tokio::spawn({
            let (engine, poll) = (engine.clone(), first_poll(&format!("child-{round}")));
            async move { engine.call(Command::Children(children::Command::Poll(poll)), By::CHILD, PATIENCE).await }
        });
        wait_until(|| refused.load(Ordering::Relaxed) >= ATTEMPTS).await;
        assert_eq!(log.take(), [said], "{round}");
        assert_eq!(engine.view().is_store_full(), error().to_string() == full().to_string());
        assert!(!call.is_finished());
        *matter.lock().unwrap() = None;
        assert!(matches!(call.await.unwrap(), Ok(Reply::Polled { .. })));
        assert_eq!(log.take(), ["INFO the store takes commits again"], "{round}");
        assert!(!engine.view().is_store_full());
    }
    engine.stop().await;
    started.task.await.unwrap().unwrap();
}
