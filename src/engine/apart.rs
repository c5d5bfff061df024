//! Work that takes a processor for long, apart from the tasks that answer calls.
//!
//! A thread of its own is not enough where processors are few: whoever wakes to commit would wait until the time slice of the
//! working thread is over, which is some milliseconds, and several times a commit. So long work lets others go first every few
//! microseconds.

use std::{io, thread};

use bytes::Bytes;
use serde::Serialize;
use tokio::task::spawn_blocking;

use super::mailbox::EngineError;

/// Items between two times when others may go first: to look at one takes about a microsecond.
pub const ITEMS: usize = 16;

/// Bytes of JSON between two such times: to write as many takes some ten microseconds.
pub const BYTES: usize = 8 * 1024;

/// Works on a thread apart. It goes on also where nobody waits for it any more.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, EngineError> {
    spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "work on a thread apart broke off");
        EngineError::Failed
    })
}

/// The same items, between which others may go first.
pub fn giving_way<I: Iterator>(items: I) -> impl Iterator<Item = I::Item> {
    items.enumerate().map(|(at, item)| {
        if at % ITEMS == ITEMS - 1 {
            thread::yield_now();
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
            thread::yield_now();
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
