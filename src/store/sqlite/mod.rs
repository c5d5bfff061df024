//! The embedded store: one SQLite file, written by one connection, read by a few.
//!
//! Invariants:
//! - write-ahead log and `synchronous = FULL`: a commit is on the disk when it returns;
//! - the operating system's lock on `<file>.lock` says who lives: it is free the moment its holder is gone, however
//!   it went, so a lease never has to run out here;
//! - after any error of unknown outcome the connection is given up, and the next call opens another.
//!
//! Not here: sharing a file between machines. A write-ahead log needs shared memory, so network file systems are
//! out of the question.

mod commit;
pub(crate) mod connect;
mod error;
mod lock;
pub(crate) mod prepared;
mod removal;
pub(crate) mod schema;
mod session;
mod statements;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use sqlx::{Connection, SqliteConnection};
use tokio::time::timeout;

use self::{connect::connect, error::store_error, lock::FileLock, session::SqliteSessions};
use super::{
    Loader, Pruning, Reader, StoreError, Writer, check, dump,
    history::History,
    options::OpenOptions,
    rows::{Batch, LeaseRow},
    session::Sessions,
    transfer::{Slices, Target},
};

/// A commit that takes longer is given up with an unknown outcome.
pub const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the file, makes it if it isn't there, and takes the lease.
pub async fn open(
    path: &Path,
    options: &OpenOptions,
) -> Result<(Box<dyn Writer>, Arc<dyn Reader>), StoreError> {
    let writer = SqliteWriter::open(path, options).await?;
    let history = History::new(writer.sessions.clone());
    Ok((Box::new(writer), Arc::new(history)))
}

/// Opens the file for an import.
pub(crate) async fn open_target(path: &Path, options: &OpenOptions) -> Result<Box<dyn Target>, StoreError> {
    Ok(Box::new(SqliteWriter::open(path, options).await?))
}

/// Opens an existing file only to read; needs no lease.
pub(crate) async fn open_source(path: &Path) -> Result<Arc<dyn Sessions>, StoreError> {
    let path = lock::canonical(path).await?;
    if !path.exists() {
        return Err(StoreError::Refused(format!("there is no store at {}", path.display())));
    }
    let found = schema::check(&path).await?;
    if found == 0 {
        return Err(StoreError::Refused(format!("{} is empty: it holds no store", path.display())));
    }
    check::is_current(found, schema::KNOWN)?;
    Ok(Arc::new(SqliteSessions::new(&path)))
}

/// The one connection that writes.
struct SqliteWriter {
    path: PathBuf,
    max_bytes: Option<u64>,
    /// `None` after an error of unknown outcome.
    conn: Option<SqliteConnection>,
    sessions: Arc<SqliteSessions>,
    lease: LeaseRow,
    /// `None` once the lease was given back.
    lock: Option<FileLock>,
}

impl fmt::Debug for SqliteWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteWriter")
            .field("path", &self.path)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

impl SqliteWriter {
    async fn open(path: &Path, options: &OpenOptions) -> Result<Self, StoreError> {
        let path = lock::canonical(path).await?;
        lock::make_folder(&path).await?;
        // A store of another version is refused before even the lock's file is made beside it.
        schema::check(&path).await?;
        let lock = FileLock::take(&path, &options.holder, options.wait).await?;
        // A standby may have waited for days: whoever it waited for may have been newer.
        schema::check(&path).await?;
        lock::make_private(&path)?;
        let mut conn = connect(&path, options.max_bytes).await?;
        schema::migrate(&mut conn).await?;
        lock::sync_folder(&path).await?;
        let lease = commit::take_lease(&mut conn, &options.holder.to_string()).await.map_err(store_error)?;
        let sessions = Arc::new(SqliteSessions::new(&path));
        let max_bytes = options.max_bytes;
        Ok(Self { path, max_bytes, conn: Some(conn), sessions, lease, lock: Some(lock) })
    }

    /// Runs `work` on the connection, which is kept only if it ended well: whatever went wrong, a new one knows
    /// nothing of a half-done transaction.
    async fn with_connection<T>(
        &mut self,
        limit: Option<Duration>,
        work: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.lock.is_none() {
            return Err(StoreError::LeaseLost("it was given back".to_owned()));
        }
        let working = async {
            let mut conn = match self.conn.take() {
                Some(conn) => conn,
                None => connect(&self.path, self.max_bytes).await?,
            };
            let done = work(&mut conn).await;
            if done.is_ok() {
                self.conn = Some(conn);
            } else {
                // The outcome of the rollback, and of the closing, changes nothing: the log keeps no half.
                let _ = conn.close().await;
            }
            done
        };
        match limit {
            Some(limit) => timeout(limit, working).await.unwrap_or_else(|_| {
                Err(StoreError::Unavailable(format!("the disk gave no answer within {} s", limit.as_secs())))
            }),
            None => working.await,
        }
    }
}

impl Writer for SqliteWriter {
    fn lease(&self) -> &LeaseRow {
        &self.lease
    }

    fn load<'a>(&'a mut self, loader: &'a mut dyn Loader) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut session = self.sessions.snapshot().await?;
            dump::load(&mut *session, loader).await
        })
    }

    fn commit<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            check::batch(batch)?;
            self.with_connection(Some(COMMIT_TIMEOUT), async |conn| commit::commit(conn, batch).await).await
        })
    }

    fn renew(&mut self, served_ms: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        let epoch = self.lease.epoch;
        Box::pin(self.with_connection(Some(COMMIT_TIMEOUT), async move |conn| {
            commit::renew(conn, epoch, served_ms).await
        }))
    }

    fn prune_audit(&mut self, pruning: Pruning) -> BoxFuture<'_, Result<u64, StoreError>> {
        let epoch = self.lease.epoch;
        Box::pin(self.with_connection(Some(COMMIT_TIMEOUT), async move |conn| {
            commit::prune_audit(conn, epoch, pruning).await
        }))
    }

    fn prune_history(&mut self, limit: u32) -> BoxFuture<'_, Result<u64, StoreError>> {
        let epoch = self.lease.epoch;
        Box::pin(
            self.with_connection(Some(COMMIT_TIMEOUT), async move |conn| {
                removal::step(conn, epoch, limit).await
            }),
        )
    }

    fn release(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        let epoch = self.lease.epoch;
        Box::pin(async move {
            self.with_connection(Some(COMMIT_TIMEOUT), async move |conn| {
                commit::give_back(conn, epoch).await
            })
            .await?;
            // Closing the last connection folds the log into the file.
            self.sessions.close().await;
            if let Some(conn) = self.conn.take() {
                conn.close().await.map_err(store_error)?;
            }
            self.lock = None;
            Ok(())
        })
    }
}

impl Target for SqliteWriter {
    fn fill<'a>(&'a mut self, slices: &'a mut Slices<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        let epoch = self.lease.epoch;
        Box::pin(self.with_connection(None, async move |conn| commit::fill(conn, epoch, slices).await))
    }

    fn finish(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Writer::release(self)
    }
}
