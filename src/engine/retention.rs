//! How the history ends: releases that were over for longer than they are to be kept are removed, with all their rows and
//! with archives that nobody refers to any more.
//!
//! Ages are serving time, so a wall clock that jumps removes nothing. What is kept however old it is: a release that left
//! any child with what it runs (it may have to be taken back, and people ask where a version came from), one whose
//! measurements the next release of a function is compared with, and all while results for the parent wait, as
//! their numbers are read from these rows. A result that can't be read is not waited for.
//!
//! Here it is found out which ones may go, a page at a time, beside everything else; the engine decides, in one small
//! commit each, and its task removes the rows a slice at a time.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{audit::Actor, effect::OWED, error::EngineError, handle::Engine, json_columns, mailbox::By};
use domain::release::{command::Command, lifecycle};
use model::Now;
use store::{MAX_PAGE, StoreError, rows::OverRow};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// Releases that one look goes through.
const PAGE: u32 = 100;

/// Patience with the engine.
const PATIENCE: Duration = Duration::from_secs(10);

/// No release has this number.
const NONE: u32 = u32::MAX;

/// Looks until `stop`, or until the engine is gone.
pub fn run(engine: Engine, retention: Duration, stop: CancellationToken) -> BoxFuture<'static, ()> {
    Box::pin(remove_the_old(engine, retention, stop))
}

async fn remove_the_old(engine: Engine, retention: Duration, stop: CancellationToken) {
    let mut after = None;
    loop {
        match look(&engine, retention, after).await {
            Ok(reached) => after = reached,
            Err(RemovalTrouble::Engine(EngineError::Stopped)) => return,
            Err(trouble) => tracing::warn!(%trouble, "old releases could not be removed; it is tried again"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum RemovalTrouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Goes through the releases after the one with the number `after`; answers how far it has come, `None` at the end.
async fn look(
    engine: &Engine,
    retention: Duration,
    after: Option<u32>,
) -> Result<Option<u32>, RemovalTrouble> {
    let reader = engine.reader();
    if is_owed(engine).await? {
        return Ok(after);
    }
    let served_ms = engine.clock().served_ms();
    let rows = reader.over(after, PAGE).await?;
    let last = rows.last().map(|row| row.release_key).filter(|_| rows.len() == PAGE as usize);
    for row in rows {
        let is_old = match is_too_old(&row, served_ms, retention) {
            Ok(true) => !is_precedent(engine, &row).await?,
            Ok(false) => false,
            // What can't be read may still be referred to: it stays.
            Err(error) => {
                engine.unreadable().note(&error);
                false
            }
        };
        if is_old {
            let by = By { actor: Actor::Timer, note: None };
            engine
                .call(Command::Lifecycle(lifecycle::Command::Remove { release: row.id }), by, PATIENCE)
                .await?;
        }
    }
    Ok(last)
}

/// Whether a result for the parent waits. One that can't be read is not sent, however long it is waited for: it is kept, and
/// holds nothing back.
async fn is_owed(engine: &Engine) -> Result<bool, StoreError> {
    let unreadable = engine.unreadable().effects();
    let limit = u32::try_from(unreadable.len() + 1).unwrap_or(MAX_PAGE).min(MAX_PAGE);
    let waiting = engine.reader().awaiting(OWED, limit).await?;
    // More of them than a page has room for are not looked through.
    Ok(waiting.len() == MAX_PAGE as usize || waiting.iter().any(|id| !unreadable.contains(id)))
}

fn is_too_old(row: &OverRow, served_ms: u64, retention: Duration) -> Result<bool, StoreError> {
    let ended = json_columns::release_detail(row.release_key, &row.detail)?.ended;
    let age_ms = |ended: Now| u128::from(served_ms.saturating_sub(ended.served_ms));
    Ok(ended.is_some_and(|ended| age_ms(ended) > retention.as_millis()))
}

/// Whether the next release of one of its functions is compared with it. Where that can't be read, it may be.
async fn is_precedent(engine: &Engine, row: &OverRow) -> Result<bool, StoreError> {
    let functions = match json_columns::function_names(row.release_key, &row.functions) {
        Ok(functions) => functions,
        Err(error) => {
            engine.unreadable().note(&error);
            return Ok(true);
        }
    };
    for function in functions {
        let function = model::tenant::history_key(&row.id, &function);
        let latest = engine.reader().precedent(&function, i64::MAX, NONE).await?;
        if latest.is_some_and(|latest| latest.release_key == row.release_key) {
            return Ok(true);
        }
    }
    Ok(false)
}
