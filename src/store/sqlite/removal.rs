//! Removing what is left of releases that were removed from the history, a bounded step at a time.
//!
//! Every statement looks whether the lease is still ours, so a step needs no transaction: whatever it has come to is right,
//! and the next one goes on. A release's own row goes last.

use sqlx::{Row, Sqlite, SqliteConnection, query::Query, sqlite::SqliteArguments};

use super::{error::store_error, statements::GONE_WITH_RELEASE};
use crate::StoreError;

/// Archives that go with one release; it refers to one.
const MAX_ARCHIVES: i64 = 16;

const NEXT: &str = "SELECT release_key FROM releases WHERE state = 'Removed' AND release_key > ?1
    ORDER BY release_key LIMIT 1";

const ARCHIVES: &str = "DELETE FROM archives WHERE digest IN (SELECT digest FROM archives AS kept
        WHERE NOT EXISTS (SELECT 1 FROM releases WHERE archive = kept.digest)
        AND NOT EXISTS (SELECT 1 FROM workflows WHERE archive = kept.digest) LIMIT ?1)
    AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?2)";

const RELEASE: &str = "DELETE FROM releases WHERE release_key = ?1 AND state = 'Removed'
    AND release_key < (SELECT max(release_key) FROM releases) AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?2)";

/// Everything above, for the test that prepares each statement.
pub(super) const STATEMENTS: &[&str] = &[NEXT, ARCHIVES, RELEASE];

/// Removes at most `limit` rows; answers how many.
pub(super) async fn step(conn: &mut SqliteConnection, epoch: u64, limit: u32) -> Result<u64, StoreError> {
    let (epoch, limit) = (epoch.cast_signed(), i64::from(limit));
    let mut left = limit;
    let mut last = -1_i64;
    while left > 0
        && let Some(row) =
            sqlx::query(NEXT).bind(last).fetch_optional(&mut *conn).await.map_err(store_error)?
    {
        last = row.try_get(0).map_err(store_error)?;
        for sql in GONE_WITH_RELEASE.iter().map(String::as_str) {
            left -= run(conn, sqlx::query(sql).bind(last).bind(left).bind(epoch)).await?;
        }
        if left > 0 {
            let most = left.min(MAX_ARCHIVES);
            left -= run(conn, sqlx::query(ARCHIVES).bind(most).bind(epoch)).await?;
        }
        if left > 0 {
            left -= run(conn, sqlx::query(RELEASE).bind(last).bind(epoch)).await?;
        }
    }
    Ok((limit - left).cast_unsigned())
}

async fn run(
    conn: &mut SqliteConnection,
    query: Query<'_, Sqlite, SqliteArguments>,
) -> Result<i64, StoreError> {
    let done = query.execute(conn).await.map_err(store_error)?;
    Ok(done.rows_affected().cast_signed())
}
