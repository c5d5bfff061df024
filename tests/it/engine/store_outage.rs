//! A store that takes nothing for a while: what is said of it in the log, and how often.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use domain::children;
use domain::release::command::{Command, Reply};
use engine::{By, tried_alone::StoreTrouble, view::View};
use store::{StoreError, rows::Batch};
use tokio::time::Instant;

use super::{
    faulty::{PATIENCE, first_poll, start, wait_until},
    log::Log,
};

/// Attempts to write that fail before all is well again.
const ATTEMPTS: usize = 12;

/// What is the matter with a store.
type Matter = Arc<Mutex<Option<Error>>>;

type Error = fn() -> StoreError;

#[tokio::test]
async fn persistent_store_failure_is_logged_once_as_is_recovery() {
    let folder = tempfile::tempdir().unwrap();
    let (matter, refused) = (Matter::default(), Arc::new(AtomicUsize::new(0)));
    let (is_the_matter, counted) = (Arc::clone(&matter), Arc::clone(&refused));
    let fault = move |_: Option<&Batch>| {
        let matter = *is_the_matter.lock().unwrap();
        counted.fetch_add(usize::from(matter.is_some()), Ordering::Relaxed);
        matter.map(|error| error())
    };
    let started = start(folder.path(), fault).await;
    let engine = started.engine;
    let (log, _guard) = Log::collect();

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

#[tokio::test]
async fn whoever_waits_is_told_once_the_store_takes_commits_again() {
    const FAR: Duration = Duration::from_hours(10_000);
    let (view, mut trouble) = (View::default(), StoreTrouble::default());
    trouble.note_met(&view, &full(), Instant::now());
    assert!(view.is_store_full());
    let mut waiting = Box::pin(view.until_recovered(FAR));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    trouble.note_over(&view);
    waiting.await;
    assert!(!view.is_store_full());
    view.until_recovered(Duration::ZERO).await;
}

/// Ten minutes of a full store, in which each write is tried ten times a second.
#[test]
fn a_trouble_that_lasts_is_logged_once_a_minute() {
    let (log, _guard) = Log::collect();
    let (view, began) = (View::default(), Instant::now());
    let (mut trouble, error) = (StoreTrouble::default(), full());
    for attempt in 0..6_000 {
        trouble.note_met(&view, &error, began + Duration::from_millis(100) * attempt);
    }
    let lines = log.take();
    assert_eq!(lines.iter().filter(|line| line.contains("nothing can be stored")).count(), 10, "{lines:?}");
}

/// Another test's thread may be the first to log something, and collects nothing.
#[test]
fn a_line_is_collected_although_another_thread_was_the_first_to_log_it() {
    let (log, _guard) = Log::collect();
    let note = || StoreTrouble::default().note_met(&View::default(), &full(), Instant::now());
    thread::spawn(note).join().unwrap();
    assert_eq!(log.take(), [""; 0]);
    note();
    assert_eq!(log.take().len(), 1);
}

fn full() -> StoreError {
    StoreError::Full("database or disk is full".to_owned())
}
