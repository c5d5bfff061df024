//! Reading: a small pool of connections of its own.

use std::{future::ready, time::Duration};

use futures_util::{TryStreamExt, future::BoxFuture};
use sqlx::{
    Decode, PgConnection, Pool, Postgres, Row, Transaction, Type,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgPoolOptions, PgRow},
};

use super::{error::store_error, schema};
use crate::{
    DiskSpace, StoreError, StoreKind,
    session::{Arg, Columns, EachRow, Session, Sessions},
    tables::columns,
};

/// Connections that read at the same time.
const READERS: u32 = 4;

/// How long a reader waits for one of them.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// What a connection that reads sets for itself.
const SET_UP: &str = "
    SET default_transaction_read_only = on;
    SET statement_timeout = '10s';
    SET jit = off";

/// A snapshot is read for as long as it takes.
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const NO_TIMEOUT: &str = "SET LOCAL statement_timeout = 0";

pub(super) const RELEASES: &str = concat!(
    "SELECT ",
    columns!(ReleaseRow),
    " FROM releases WHERE release_key < $1 AND state <> 'Removed'
      AND (CAST($3 AS text) IS NULL OR strpos($3, ',' || state || ',') > 0)
      AND (CAST($4 AS text) IS NULL OR jsonb_exists(functions::jsonb, $4))
      AND (CAST($5 AS text) IS NULL OR substr(id, 1, length($5)) = $5)
      ORDER BY release_key DESC LIMIT $2"
);

/// Where sessions on a database come from.
#[derive(Debug)]
pub(super) struct PgSessions {
    pool: Pool<Postgres>,
}

impl PgSessions {
    pub(super) fn new(options: PgConnectOptions) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(|conn, _| {
                Box::pin(async move { sqlx::raw_sql(SET_UP).execute(conn).await.map(drop) })
            })
            .connect_lazy_with(options);
        Self { pool }
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}

impl Sessions for PgSessions {
    fn session(&self) -> BoxFuture<'_, Result<Box<dyn Session>, StoreError>> {
        Box::pin(async {
            let conn = self.pool.acquire().await.map_err(store_error)?;
            Ok(Box::new(One(conn)) as Box<dyn Session>)
        })
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Box<dyn Session>, StoreError>> {
        Box::pin(async {
            let mut transaction = self.pool.begin_with(BEGIN_SNAPSHOT).await.map_err(store_error)?;
            sqlx::raw_sql(NO_TIMEOUT).execute(&mut *transaction).await.map_err(store_error)?;
            Ok(Box::new(PostgresSnapshot(transaction)) as Box<dyn Session>)
        })
    }

    fn releases_sql(&self) -> &'static str {
        RELEASES
    }

    fn version_sql(&self) -> &'static str {
        schema::VERSION
    }

    fn kind(&self) -> StoreKind {
        StoreKind::Postgres
    }

    fn disk(&self) -> BoxFuture<'_, Result<Option<DiskSpace>, StoreError>> {
        Box::pin(ready(Ok(None)))
    }
}

struct One(PoolConnection<Postgres>);

struct PostgresSnapshot(Transaction<'static, Postgres>);

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

impl Session for PostgresSnapshot {
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
    conn: &mut PgConnection,
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
        each(&PgColumns(&row))?;
    }
    Ok(())
}

struct PgColumns<'a>(&'a PgRow);

impl PgColumns<'_> {
    fn get<'r, T: Decode<'r, Postgres> + Type<Postgres>>(&'r self, index: usize) -> Result<T, String> {
        self.0.try_get(index).map_err(|error| error.to_string())
    }
}

impl Columns for PgColumns<'_> {
    fn int(&self, index: usize) -> Result<Option<i64>, String> {
        self.get(index)
    }

    fn small(&self, index: usize) -> Result<Option<i16>, String> {
        self.get(index)
    }

    fn boolean(&self, index: usize) -> Result<Option<bool>, String> {
        self.get(index)
    }

    fn text(&self, index: usize) -> Result<Option<String>, String> {
        self.get(index)
    }

    fn bytes(&self, index: usize) -> Result<Option<Vec<u8>>, String> {
        self.get(index)
    }
}
