//! Removing what is left of releases that were removed from the history, a bounded step at a time.
//!
//! Every statement looks whether the lease is still ours, so a step needs no transaction: whatever it has come to is right,
//! and the next one goes on. A release's own row goes last.

use sqlx::{Row, Sqlite, SqliteConnection, query::Query, sqlite::SqliteArguments};

use super::error::store_error;
use crate::StoreError;

/// Archives that go with one release; it refers to one.
const MAX_ARCHIVES: i64 = 16;

const NEXT: &str = "SELECT release_key FROM releases WHERE state = 'Removed' AND release_key > ?1
    ORDER BY release_key LIMIT 1";

/// Rows of one release: key, limit, epoch.
const ROWS: [&str; 5] = [
    "DELETE FROM assignments WHERE (release_key, child_key) IN (SELECT release_key, child_key FROM assignments WHERE release_key = ?1 LIMIT ?2)
        AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?3)",
    "DELETE FROM stage_results WHERE (release_key, child_key, attempt, stage) IN (SELECT release_key, child_key, attempt, stage FROM stage_results WHERE release_key = ?1 LIMIT ?2)
        AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?3)",
    "DELETE FROM members WHERE (release_key, slice) IN (SELECT release_key, slice FROM members WHERE release_key = ?1 LIMIT ?2)
        AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?3)",
    "DELETE FROM analysis_runs WHERE (release_key, block) IN (SELECT release_key, block FROM analysis_runs WHERE release_key = ?1 LIMIT ?2)
        AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?3)",
    "DELETE FROM precedents WHERE (function, release_key) IN (SELECT function, release_key FROM precedents WHERE release_key = ?1 LIMIT ?2)
        AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?3)",
];

const ARCHIVES: &str = "DELETE FROM archives WHERE digest IN (SELECT digest FROM archives AS kept
        WHERE NOT EXISTS (SELECT 1 FROM releases WHERE archive = kept.digest) LIMIT ?1)
    AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?2)";

const RELEASE: &str = "DELETE FROM releases WHERE release_key = ?1 AND state = 'Removed'
    AND release_key < (SELECT max(release_key) FROM releases) AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?2)";

/// Everything above, for the test that prepares each statement.
#[cfg(test)]
pub(super) fn statements() -> Vec<&'static str> {
    [&ROWS[..], &[NEXT, ARCHIVES, RELEASE]].concat()
}

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
        for sql in ROWS {
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
