//! The store on Postgres: one connection that writes, a small pool that reads.
//!
//! Invariants:
//! - a batch of the frequent tables is one statement and so one round trip and one transaction; it steps the lease
//!   and writes the rows that the step's row is joined to, so without the lease there is nothing to write;
//! - a holder that hasn't renewed for the time to live of a lease may be replaced, sooner only one that is provably dead; a jump of
//!   the database's clock is not the passing of time;
//! - after any error the connection is given up, and the next call opens another. A statement that the old one still
//!   carries out holds the lease's row, so the next try waits for its outcome and then sees it.
//!
//! Not here: replication. Point the URL at a server that replicates synchronously.

mod commit;
mod connect;
mod error;
mod lease;
pub(crate) mod prepared;
mod removal;
pub(crate) mod schema;
mod session;
pub(crate) mod short;
mod statements;

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sqlx::{ConnectOptions, Connection, PgConnection, Row, postgres::PgConnectOptions};
use tokio::time::timeout;

pub use self::connect::CONNECT_TIMEOUT;
use self::{connect::connect, error::store_error, session::PgSessions};
use super::{
    LEASE_RENEWAL, Loader, Pruning, Reader, StoreError, Writer, check, dump,
    history::History,
    options::OpenOptions,
    rows::{Batch, LeaseRow},
    session::Sessions,
    transfer::{Slices, Target},
};

/// A commit that takes longer is given up with an unknown outcome.
pub const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

const SERVER: &str = "SELECT current_setting('server_encoding'), current_setting('fsync')";

/// Opens the database, makes the tables if they aren't there, and takes the lease.
pub async fn open(
    url: &str,
    options: &OpenOptions,
) -> Result<(Box<dyn Writer>, Arc<dyn Reader>), StoreError> {
    let writer = PgWriter::open(url, options).await?;
    let history = History::new(writer.sessions.clone());
    Ok((Box::new(writer), Arc::new(history)))
}

/// Opens the database for an import.
pub(crate) async fn open_target(url: &str, options: &OpenOptions) -> Result<Box<dyn Target>, StoreError> {
    Ok(Box::new(PgWriter::open(url, options).await?))
}

/// Opens a database only to read; needs no lease.
pub(crate) async fn open_source(url: &str) -> Result<Arc<dyn Sessions>, StoreError> {
    let options = parse(url)?;
    let mut conn = connect(&options).await?;
    let found = schema::check(&mut conn).await?;
    if found == 0 {
        return Err(StoreError::Refused("the database holds no store".to_owned()));
    }
    check::is_current(found, schema::KNOWN)?;
    Ok(Arc::new(PgSessions::new(options)))
}

fn parse(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(store_error)?;
    Ok(options.application_name("choirmaster").disable_statement_logging())
}

/// The one connection that writes.
struct PgWriter {
    options: PgConnectOptions,
    /// `None` after an error.
    conn: Option<PgConnection>,
    sessions: Arc<PgSessions>,
    lease: LeaseRow,
    released: bool,
}

impl fmt::Debug for PgWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The options hold a password.
        f.debug_struct("PgWriter").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl PgWriter {
    async fn open(url: &str, options: &OpenOptions) -> Result<Self, StoreError> {
        let connect_options = parse(url)?;
        let mut conn = connect(&connect_options).await?;
        let new = schema::check(&mut conn).await? == 0;
        check_server(&mut conn).await?;
        if new {
            schema::migrate(&mut conn).await?;
        }
        let (mut conn, lease) = lease::take(conn, &connect_options, options).await?;
        // Only who holds the lease changes an older schema. A standby may have waited for days: whoever it waited
        // for may have been newer.
        schema::check(&mut conn).await?;
        schema::migrate(&mut conn).await?;
        let sessions = Arc::new(PgSessions::new(connect_options.clone()));
        Ok(Self { options: connect_options, conn: Some(conn), sessions, lease, released: false })
    }

    /// Runs `work` on the connection, which is kept only if it ended well.
    async fn with_connection<T>(
        &mut self,
        limit: Option<Duration>,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.released {
            return Err(StoreError::LeaseLost("it was given back".to_owned()));
        }
        let working = async {
            let mut conn = match self.conn.take() {
                Some(conn) => conn,
                None => connect(&self.options).await?,
            };
            let done = work(&mut conn).await;
            if done.is_ok() {
                self.conn = Some(conn);
            }
            done
        };
        match limit {
            Some(limit) => timeout(limit, working).await.unwrap_or_else(|_| {
                Err(StoreError::Unavailable(format!("no answer within {} s", limit.as_secs())))
            }),
            None => working.await,
        }
    }

    /// Renews the lease until it is lost.
    async fn keep_lease(&mut self) -> StoreError {
        loop {
            tokio::time::sleep(LEASE_RENEWAL).await;
            match Writer::renew(self, 0).await {
                Ok(()) => {}
                Err(error) if error.passes() => tracing::warn!(%error, "the lease can't be renewed"),
                Err(lost) => return lost,
            }
        }
    }
}

async fn check_server(conn: &mut PgConnection) -> Result<(), StoreError> {
    let row = sqlx::query(SERVER).fetch_one(conn).await.map_err(store_error)?;
    let setting = |index: usize| row.try_get::<String, _>(index).map_err(store_error);
    if setting(0)? != "UTF8" {
        return Err(StoreError::Refused(format!(
            "the database has encoding {}: create one with ENCODING 'UTF8'",
            setting(0)?
        )));
    }
    if setting(1)? != "on" {
        tracing::warn!("the Postgres server runs with fsync off: a power loss may destroy the store");
    }
    Ok(())
}

impl Writer for PgWriter {
    fn lease(&self) -> &LeaseRow {
        &self.lease
    }

    fn load<'a>(&'a mut self, loader: &'a mut dyn Loader) -> BoxFuture<'a, Result<(), StoreError>> {
        let sessions = self.sessions.clone();
        Box::pin(async move {
            let loading = async {
                let mut session = sessions.snapshot().await?;
                dump::load(&mut *session, loader).await
            };
            tokio::select! {
                done = loading => done,
                lost = self.keep_lease() => Err(lost),
            }
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
            lease::renew(conn, epoch, served_ms).await
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
            self.with_connection(Some(COMMIT_TIMEOUT), async move |conn| lease::give_back(conn, epoch).await)
                .await?;
            self.released = true;
            self.sessions.close().await;
            if let Some(conn) = self.conn.take() {
                // It is given back already; a goodbye that fails changes nothing.
                let _ = conn.close().await;
            }
            Ok(())
        })
    }
}

impl Target for PgWriter {
    fn fill<'a>(&'a mut self, slices: &'a mut Slices<'_>) -> BoxFuture<'a, Result<(), StoreError>> {
        let lease = self.lease.clone();
        Box::pin(self.with_connection(None, async move |conn| commit::fill(conn, &lease, slices).await))
    }

    fn finish(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Writer::release(self)
    }
}
