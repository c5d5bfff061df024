//! A copy of nodes and workflows in Redis or Valkey, in the form of EDGELESS, for programs that read there what a manager believes.
//!
//! ```text
//! engine: commit ─▶ changed: what was touched ─▶ look at the state ─▶ what differs from what stands there ─▶ SET, DEL
//! ```
//!
//! Invariants:
//! - nothing is written there before the engine has committed it, and the engine never waits for the database;
//! - after an outage of either, all of it is looked at and written again, and what is no longer so is removed;
//! - no key is touched that is none of these: those of the table in [`entries`], `domain_info:…`, `choirmaster:…`, those of intents, and
//!   of what was measured `function:…`, `workflow:…` and `performance:…`;
//! - whoever was replaced by another connection writes nothing more, and takes no intents;
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
    intents::Prepared,
};
use engine::{Engine, blocking, changed::Noted};
use model::Secret;

pub use self::{database::check_url, entries::Schema};

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
    /// PEM of the authorities that are trusted with its certificate; none: those of the system.
    pub authorities: Option<Vec<u8>>,
    pub schema: Schema,
    /// How long what was measured stands there.
    pub history: Duration,
    /// It is measured how long functions take with events.
    pub performance: bool,
}

/// How long the engine may take with a look.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at which nodes are silent, which no commit tells; and between two notes that this copy is alive.
const EVERY: Duration = Duration::from_millis(500);

/// Of what was measured, most that is written together.
const MEASURED_TOGETHER: usize = 1_000;

/// After so long all is written again, since whoever else may write there may have removed something.
const WHOLE_EVERY: Duration = Duration::from_mins(5);

/// The first and the longest pause before something is tried again. After so long without trouble it is the first one again.
const AGAIN: Duration = Duration::from_millis(50);
const AGAIN_AT_LAST: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(10);

/// Keeps the copy until it is told to stop.
pub fn run(engine: Engine, settings: Settings, stop: CancellationToken) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        stop.run_until_cancelled(keep(&engine, &settings)).await;
    })
}

async fn keep(engine: &Engine, settings: &Settings) {
    let (changed, measurements) = (&engine.view().changed, &engine.view().measurements);
    changed.listen();
    measurements.listen(settings.performance);
    // A manager has its own id once its first start is through.
    while engine.view().kept.identity().is_empty() {
        sleep(AGAIN).await;
    }
    let (mut tries, mut answers) = (Tries::new("nodes and workflows are not mirrored"), VecDeque::new());
    let mut was_ours = false;
    loop {
        let began = Instant::now();
        let Err(trouble) = session(engine, settings, &mut was_ours, &mut answers).await;
        changed.set_copied(false);
        let pause = tries.failed(&trouble, began);
        sleep(pause).await;
    }
}

/// What goes wrong again and again is told once, and tried less and less often.
struct Tries {
    what: &'static str,
    pause: Duration,
    last: String,
}

impl Tries {
    const fn new(what: &'static str) -> Self {
        Self { what, pause: AGAIN, last: String::new() }
    }

    /// How long to wait now.
    fn failed(&mut self, trouble: &Trouble, began: Instant) -> Duration {
        if began.elapsed() >= LONG {
            (self.pause, self.last) = (AGAIN, String::new());
        }
        let why = trouble.to_string();
        if why == self.last {
            tracing::debug!(why, "{}; tried again", self.what);
        } else {
            tracing::warn!(why, "{}; tried again", self.what);
            self.last = why;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(AGAIN_AT_LAST);
        // Two that take it from each other do so rarely.
        if matches!(trouble, Trouble::Replaced) { LONG } else { pause }
    }
}

/// From one connection to its end. `was_ours`: the database was this manager's before, in this life.
async fn session(
    engine: &Engine,
    settings: &Settings,
    was_ours: &mut bool,
    answers: &mut VecDeque<Prepared>,
) -> Result<Infallible, Trouble> {
    // Whoever isn't in charge any more takes nothing from whoever is.
    engine.snapshot(PATIENCE).await?;
    let mut database = Database::open(settings, engine.view().kept.identity(), *was_ours).await?;
    *was_ours = true;
    let session = database.session().to_owned();
    // All that stands there may be of another time.
    engine.view().changed.listen();
    let mut there = write_whole(engine, &mut database, settings.schema).await?;
    engine.view().changed.set_copied(true);
    select! {
        ended = follow(engine, &mut database, &mut there) => ended,
        never = take(engine, settings, &session, answers) => match never {},
    }
}

/// Takes intents, from one connection to the next.
async fn take(
    engine: &Engine,
    settings: &Settings,
    session: &str,
    answers: &mut VecDeque<Prepared>,
) -> Infallible {
    let mut tries = Tries::new("intents are not taken");
    loop {
        let began = Instant::now();
        let Err(trouble) = intents::take(engine, settings, session, answers).await;
        let pause = tries.failed(&trouble, began);
        sleep(pause).await;
    }
}

async fn write_whole(engine: &Engine, database: &mut Database, schema: Schema) -> Result<Contents, Trouble> {
    let snapshot = engine.snapshot(PATIENCE).await?;
    let (seen, now) = (Arc::clone(&engine.view().children), engine.clock().now());
    let read = move || {
        let mut there = Contents::new(schema);
        let writes = there.whole(&snapshot, &seen, now);
        (there, writes)
    };
    let (there, writes) = blocking::run(read).await?;
    let keys = writes.len();
    database.write_whole(writes, now).await?;
    tracing::debug!(keys, "nodes and workflows are mirrored");
    Ok(there)
}

/// Writes what changes.
async fn follow(
    engine: &Engine,
    database: &mut Database,
    there: &mut Contents,
) -> Result<Infallible, Trouble> {
    let (changed, measurements) = (&engine.view().changed, &engine.view().measurements);
    let (mut looked, mut whole) = (Instant::now(), Instant::now());
    loop {
        let noted = select! {
            noted = changed.next() => noted,
            (first, news) = measurements.next(MEASURED_TOGETHER) => {
                let next = first + news.len() as u64;
                database.write_measured(measurements.run(), first, news, engine.clock().now()).await?;
                measurements.taken(next);
                continue;
            }
            () = sleep_until(looked + EVERY) => Noted { all: whole.elapsed() >= WHOLE_EVERY, ..Noted::default() },
        };
        if noted.all {
            *there = write_whole(engine, database, there.schema()).await?;
            (looked, whole) = (Instant::now(), Instant::now());
            continue;
        }
        let snapshot = engine.snapshot(PATIENCE).await?;
        let (seen, now) = (Arc::clone(&engine.view().children), engine.clock().now());
        let is_due = looked.elapsed() >= EVERY;
        let writes = there.changes(&snapshot, &seen, now, &noted, is_due);
        drop(snapshot);
        database.write(writes, now).await?;
        if is_due {
            looked = Instant::now();
            database.note_alive(now).await?;
        }
    }
}
