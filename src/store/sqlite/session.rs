//! Reading: a few read-only connections.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::{TryStreamExt, future::BoxFuture};
use sqlx::{
    Pool, Row, Sqlite, SqliteConnection, Transaction,
    pool::PoolConnection,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteRow},
};
use tokio::task::spawn_blocking;

use super::{connect::BUSY_TIMEOUT, error::store_error, schema};
use crate::{
    DiskSpace, StoreError, StoreKind,
    session::{Arg, Columns, EachRow, Session, Sessions},
    tables::columns,
};

/// Connections that read at the same time.
const READERS: u32 = 4;

/// How long a reader waits for one of them.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// Rows the connection's thread may be ahead of who reads them.
const ROW_BUFFER: usize = 256;

pub(super) const RELEASES: &str = concat!(
    "SELECT ",
    columns!(ReleaseRow),
    " FROM releases WHERE release_key < $1 AND state <> 'Removed'
      AND ($3 IS NULL OR instr($3, ',' || state || ',') > 0)
      AND ($4 IS NULL OR $4 IN (SELECT value FROM json_each(functions)))
      AND ($5 IS NULL OR substr(id, 1, length($5)) = $5)
      ORDER BY release_key DESC LIMIT $2"
);

/// Where sessions on a file come from.
#[derive(Debug)]
pub(super) struct SqliteSessions {
    path: PathBuf,
    pool: Pool<Sqlite>,
}

impl SqliteSessions {
    pub(super) fn new(path: &Path) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .busy_timeout(BUSY_TIMEOUT)
            .row_buffer_size(ROW_BUFFER);
        let options = sqlx::ConnectOptions::disable_statement_logging(options);
        let pool = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_lazy_with(options);
        Self { path: path.to_owned(), pool }
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

impl Sessions for SqliteSessions {
    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, StoreError>> {
        Box::pin(async {
            let conn = self.pool.acquire().await.map_err(store_error)?;
            Ok(Box::new(One(conn)) as Box<dyn Session>)
        })
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Box<dyn Session>, StoreError>> {
        Box::pin(async {
            let transaction = self.pool.begin().await.map_err(store_error)?;
            Ok(Box::new(SqliteSnapshot(transaction)) as Box<dyn Session>)
        })
    }

    fn releases_sql(&self) -> &'static str {
        RELEASES
    }

    fn version_sql(&self) -> &'static str {
        schema::VERSION
    }

    fn kind(&self) -> StoreKind {
        StoreKind::Sqlite
    }

    fn disk(&self) -> BoxFuture<'_, Result<Option<DiskSpace>, StoreError>> {
        let path = self.path.clone();
        Box::pin(async move {
            let asked = spawn_blocking(move || rustix::fs::statvfs(path.as_path()));
            let found = asked.await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
            let disk = found.map_err(|error| StoreError::Unavailable(format!("its disk: {error}")))?;
            let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
            Ok(Some(DiskSpace { free: bytes(disk.f_bavail), total: bytes(disk.f_blocks) }))
        })
    }
}

struct One(PoolConnection<Sqlite>);

struct SqliteSnapshot(Transaction<'static, Sqlite>);

impl Session for One {
    fn rows<'a>(
        &'a mut self,
        sql: &'static str,
        args: &'a [Arg<'a>],
        each: &'a mut EachRow<'a>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(rows(&mut self.0, sql, args, each))
    }
}

impl Session for SqliteSnapshot {
    fn rows<'a>(
        &'a mut self,
        sql: &'static str,
        args: &'a [Arg<'a>],
        each: &'a mut EachRow<'a>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(rows(&mut self.0, sql, args, each))
    }
}

async fn rows(
    conn: &mut SqliteConnection,
    sql: &'static str,
    args: &[Arg<'_>],
    each: &mut EachRow<'_>,
) -> Result<(), StoreError> {
    let mut query = sqlx::query(sql);
    for arg in args {
        query = match *arg {
            Arg::Int(int) => query.bind(int),
            Arg::Text(text) => query.bind(text),
            Arg::OptText(text) => query.bind(text),
            Arg::Bytes(bytes) => query.bind(bytes),
        };
    }
    let mut found = query.fetch(conn);
    while let Some(row) = found.try_next().await.map_err(store_error)? {
        each(&SqliteColumns(&row))?;
    }
    Ok(())
}

struct SqliteColumns<'a>(&'a SqliteRow);

impl Columns for SqliteColumns<'_> {
    fn int(&self, index: usize) -> Result<Option<i64>, String> {
        self.0.try_get(index).map_err(|error| error.to_string())
    }

    fn small(&self, index: usize) -> Result<Option<i16>, String> {
        self.0.try_get(index).map_err(|error| error.to_string())
    }

    fn boolean(&self, index: usize) -> Result<Option<bool>, String> {
        self.0.try_get(index).map_err(|error| error.to_string())
    }

    fn text(&self, index: usize) -> Result<Option<String>, String> {
        self.0.try_get(index).map_err(|error| error.to_string())
    }

    fn bytes(&self, index: usize) -> Result<Option<Vec<u8>>, String> {
        self.0.try_get(index).map_err(|error| error.to_string())
    }
}
