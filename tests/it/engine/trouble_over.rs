//! Trouble of the store, without one: who waits for its end, and what is logged of a long one.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use engine::{tried_alone::StoreTrouble, view::View};
use store::StoreError;
use tokio::time::Instant;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().map_err(|_| io::ErrorKind::Other)?.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn whoever_waits_is_told_once_the_store_takes_commits_again() {
    const FAR: Duration = Duration::from_hours(10_000);
    let (view, mut trouble) = (View::default(), StoreTrouble::default());
    trouble.note_met(&view, &StoreError::Full("the disk is full".to_owned()), Instant::now());
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
    let log = Log::default();
    let written = log.clone();
    let lines = tracing_subscriber::fmt().with_writer(move || written.clone()).finish();
    let (view, began) = (View::default(), Instant::now());
    let (mut trouble, error) = (StoreTrouble::default(), StoreError::Full("the disk is full".to_owned()));
    tracing::subscriber::with_default(lines, || {
        for attempt in 0..6_000 {
            trouble.note_met(&view, &error, began + Duration::from_millis(100) * attempt);
        }
    });
    let said = log.0.lock().map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default();
    assert_eq!(said.lines().filter(|line| line.contains("nothing can be stored")).count(), 10, "{said}");
}
