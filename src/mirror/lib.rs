//! A copy of nodes and workflows in Redis or Valkey, in the form of EDGELESS, for programs that read there what a manager believes.
//!
//! ```text
//! engine: commit ─▶ changed: what was touched ─▶ look at the state ─▶ what differs from what stands there ─▶ SET, DEL
//! ```
//!
//! Invariants:
//! - nothing is written there before the engine has committed it, and the engine never waits for the database;
//! - after an outage of either, all of it is looked at and written again, and what is no longer so is removed;
//! - no key is touched that is none of these: those of the table in [`entries`], `domain_info:…`, `choirmaster:…`, and those of intents;
//! - an intent is answered once, after what it changed is committed;
//! - a database that has keys of others, or is another manager's, is left alone unless the operator says otherwise.

mod contents;
mod database;
pub mod entries;
mod intents;

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    select,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::{
    contents::Contents,
    database::{Database, Trouble},
};
use engine::{Engine, blocking, changed::Noted};
use model::Secret;

pub use self::database::check_url;

/// Where the copy is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `redis://[USER@]HOST[:PORT][/NUMBER]`, or `rediss://` with TLS.
    pub url: String,
    pub password: Option<Secret>,
    /// What each key begins with; empty: nothing.
    pub prefix: String,
    /// The database is taken although it has keys of others or is another manager's.
    pub take_over: bool,
}

/// How long the engine may take with a look.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at which nodes are silent, which no commit tells; and between two notes that this copy is alive.
const EVERY: Duration = Duration::from_millis(500);

/// The first and the longest pause before the database is tried again.
const AGAIN: Duration = Duration::from_millis(50);
const AGAIN_AT_LAST: Duration = Duration::from_secs(1);

/// Keeps the copy until it is told to stop.
pub fn run(engine: Engine, settings: Settings, stop: CancellationToken) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let both = async { tokio::join!(keep(&engine, &settings), take(&engine, &settings)) };
        stop.run_until_cancelled(both).await;
    })
}

/// Takes intents, from one connection to the next.
async fn take(engine: &Engine, settings: &Settings) {
    let mut answers = VecDeque::new();
    loop {
        // Whoever may not write there answers nothing.
        if engine.view().changed.is_copied() == Some(true) {
            let Err(trouble) = intents::take(engine, settings, &mut answers).await;
            tracing::debug!(why = %trouble, "intents are not taken; tried again");
        }
        sleep(AGAIN).await;
    }
}

async fn keep(engine: &Engine, settings: &Settings) {
    let changed = &engine.view().changed;
    changed.listen();
    // A manager has its own id once its first start is through.
    while engine.view().kept.identity().is_empty() {
        sleep(AGAIN).await;
    }
    let (mut pause, mut last) = (AGAIN, String::new());
    loop {
        let began = Instant::now();
        let Err(trouble) = session(engine, settings).await;
        if changed.set_copied(false) {
            (pause, last) = (AGAIN, String::new());
        }
        let why = trouble.to_string();
        if why == last {
            tracing::debug!(why, "the mirror is still out of reach");
        } else {
            tracing::warn!(why, "nodes and workflows are not mirrored; tried again");
            last = why;
        }
        sleep(pause.saturating_sub(began.elapsed())).await;
        pause = (pause * 2).min(AGAIN_AT_LAST);
    }
}

/// From one connection to its end.
async fn session(engine: &Engine, settings: &Settings) -> Result<Infallible, Trouble> {
    let changed = &engine.view().changed;
    let mut database = Database::open(settings, engine.view().kept.identity()).await?;
    let mut there = Contents::default();
    // All that stands there may be of another time.
    changed.listen();
    let mut is_whole = false;
    let mut looked = Instant::now();
    loop {
        let noted = select! {
            noted = changed.next() => noted,
            () = sleep_until(looked + EVERY) => {
                looked = Instant::now();
                database.note_alive(engine.clock().now()).await?;
                Noted { children: there.nodes(), ..Noted::default() }
            }
        };
        let snapshot = engine.snapshot(PATIENCE).await?;
        let (seen, now) = (Arc::clone(&engine.view().children), engine.clock().now());
        let compare = move || {
            let writes = there.changes(&snapshot, &*seen, now, &noted);
            (there, writes)
        };
        let writes;
        (there, writes) = blocking::run(compare).await?;
        if is_whole {
            database.write(&writes, now).await?;
        } else {
            database.write_whole(&writes, now).await?;
            is_whole = true;
            changed.set_copied(true);
            tracing::info!(keys = writes.len(), "nodes and workflows are mirrored");
        }
    }
}
