//! Writing: one transaction a batch, one statement a table.
//!
//! The rows of a table go in as one JSON text that SQLite takes apart itself (by `jsonb_each`, which parses each row
//! once): a statement for every row would cost a hand-over to the connection's thread each. Tables with binary
//! columns are rare and go row by row.

use std::iter;

use serde::Serialize;
use sqlx::{Connection, Row, Sqlite, SqliteConnection, query::Query, sqlite::SqliteArguments};

use super::{
    error::store_error,
    statements::{self, GONE_WITH_CHILDREN, GONE_WITH_WORKFLOWS, IS_EMPTY, Statements},
};
use crate::{
    Pruning, StoreError, bounded,
    check::{self, LeaseCheck},
    rows::{Batch, ChildRow, LeaseRow, OutboxRow, PointerRow, WorkflowRow, Writes},
    tables::{Kind, See, Stored, Value, WriteTables},
    transfer::{Slices, not_empty},
};

/// Most rows of one table that go into one statement; bounds the text that is made of them.
const MAX_STATEMENT_ROWS: usize = 4096;

const BEGIN: &str = "BEGIN IMMEDIATE";

const TAKE: &str = "UPDATE lease SET epoch = epoch + 1, holder = ?1,
    renewed_ms = CAST(unixepoch('subsec') * 1000 AS INTEGER) RETURNING epoch, seq, holder, served_ms";
const STEP: &str = "UPDATE lease SET seq = seq + 1, served_ms = ?3,
    renewed_ms = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE epoch = ?1 AND seq = ?2";
const RENEW: &str = "UPDATE lease SET served_ms = MAX(served_ms, ?2),
    renewed_ms = CAST(unixepoch('subsec') * 1000 AS INTEGER) WHERE epoch = ?1";
const GIVE_BACK: &str = "UPDATE lease SET holder = '', renewed_ms = 0 WHERE epoch = ?1";
const LOOK: &str = "SELECT epoch, seq, holder FROM lease";
const SET_PROGRESS: &str = "UPDATE lease SET seq = ?2, served_ms = ?3 WHERE epoch = ?1";

const SEEN: &str = "UPDATE children SET seen_ms = seen.value->>1 FROM jsonb_each(?1) AS seen
    WHERE child_key = seen.value->>0";
const NOTE_AGE: &str = "INSERT INTO commit_ages (seq, served_ms) SELECT seq, ?1 FROM lease
    WHERE epoch = ?2 AND NOT EXISTS (SELECT 1 FROM commit_ages WHERE served_ms >= ?3) ON CONFLICT (seq) DO NOTHING";
const PRUNE_AUDIT: &str = "DELETE FROM audit
    WHERE (seq, idx) IN (SELECT seq, idx FROM audit ORDER BY seq, idx LIMIT ?2)
      AND seq < (SELECT max(seq) FROM commit_ages WHERE served_ms <= ?1)
      AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?3)";
const PRUNE_TRAFFIC: &str = "DELETE FROM traffic_history
    WHERE (seq, idx) IN (SELECT seq, idx FROM traffic_history ORDER BY seq, idx LIMIT ?2)
      AND seq < (SELECT max(seq) FROM commit_ages WHERE served_ms <= ?1)
      AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?3)";
const PRUNE_AGES: &str = "DELETE FROM commit_ages
    WHERE seq < (SELECT max(seq) FROM commit_ages WHERE served_ms <= ?1)
      AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?2)";
/// Everything above, for the test that prepares each statement.
pub(super) const STATEMENTS: &[&str] = &[
    TAKE,
    STEP,
    RENEW,
    GIVE_BACK,
    LOOK,
    SET_PROGRESS,
    SEEN,
    NOTE_AGE,
    PRUNE_AUDIT,
    PRUNE_TRAFFIC,
    PRUNE_AGES,
];

/// Takes the lease, whoever had it: the lock on the file has proved that nobody is left.
pub(super) async fn take_lease(conn: &mut SqliteConnection, holder: &str) -> Result<LeaseRow, sqlx::Error> {
    let row = sqlx::query(TAKE).bind(holder).fetch_one(conn).await?;
    Ok(LeaseRow {
        epoch: row.try_get::<i64, _>(0)?.cast_unsigned(),
        seq: row.try_get::<i64, _>(1)?.cast_unsigned(),
        holder: row.try_get(2)?,
        served_ms: row.try_get::<i64, _>(3)?.cast_unsigned(),
    })
}

/// Commits one batch, unless it is there already.
pub(super) async fn commit(conn: &mut SqliteConnection, batch: &Batch) -> Result<(), StoreError> {
    let mut transaction = conn.begin_with(BEGIN).await.map_err(store_error)?;
    let step = sqlx::query(STEP)
        .bind(batch.epoch.cast_signed())
        .bind(batch.seq.cast_signed())
        .bind(batch.served_ms.cast_signed());
    if step.execute(&mut *transaction).await.map_err(store_error)?.rows_affected() == 1 {
        write(&mut transaction, &batch.writes).await?;
    } else {
        let found = look(&mut transaction).await.map_err(store_error)?;
        match check::judge(found, batch) {
            // The first try may have been cut off before it was on the disk. Another write after it in the log is
            // what makes sure: both are there once this one is.
            LeaseCheck::AlreadyThere => renew_in(&mut transaction, batch.epoch, batch.served_ms).await?,
            LeaseCheck::Lost(why) => return Err(StoreError::LeaseLost(why)),
        }
    }
    transaction.commit().await.map_err(store_error)
}

async fn look(conn: &mut SqliteConnection) -> Result<Option<(u64, u64, String)>, sqlx::Error> {
    let Some(row) = sqlx::query(LOOK).fetch_optional(conn).await? else { return Ok(None) };
    Ok(Some((
        row.try_get::<i64, _>(0)?.cast_unsigned(),
        row.try_get::<i64, _>(1)?.cast_unsigned(),
        row.try_get(2)?,
    )))
}

/// Writes the rows; what goes, goes first, so that an id can be given to another child in one batch.
async fn write(conn: &mut SqliteConnection, writes: &Writes) -> Result<(), StoreError> {
    delete::<ChildRow, _>(conn, &writes.children_gone).await?;
    for sql in GONE_WITH_CHILDREN.iter().map(String::as_str) {
        many(conn, sql, &writes.children_gone).await?;
    }
    if !writes.workflows_gone.is_empty() {
        delete::<WorkflowRow, _>(conn, &writes.workflows_gone).await?;
        for sql in GONE_WITH_WORKFLOWS.iter().map(String::as_str) {
            many(conn, sql, &writes.workflows_gone).await?;
        }
    }
    writes.write(&mut Tables(&mut *conn)).await?;
    many(conn, SEEN, &writes.seen).await?;
    delete::<OutboxRow, _>(conn, &writes.outbox_done).await?;
    delete::<PointerRow, _>(conn, &writes.pointers_gone).await
}

/// Writes the rows of each table.
struct Tables<'c>(&'c mut SqliteConnection);

impl WriteTables for Tables<'_> {
    async fn table<T: Stored>(&mut self, rows: &[T]) -> Result<(), StoreError> {
        let sql = statements_of::<T>()?.write.as_str();
        if !T::TABLE.is_binary() {
            return many(self.0, sql, rows).await;
        }
        for row in rows {
            one(self.0, T::show(iter::once(row), Binding(sqlx::query(sql))).0).await?;
        }
        Ok(())
    }
}

/// A statement that takes the columns of one row.
struct Binding(Query<'static, Sqlite, SqliteArguments>);

impl See for Binding {
    fn see<'r, V: Value + 'r>(self, _: &'static str, mut values: impl Iterator<Item = &'r V>) -> Self {
        let (query, value) = (self.0, values.next());
        Self(match V::KIND {
            Kind::Int => query.bind(value.and_then(V::int)),
            Kind::Small => query.bind(value.and_then(V::small)),
            Kind::Boolean => query.bind(value.and_then(V::boolean)),
            Kind::Text => query.bind(value.and_then(V::text)),
            Kind::Bytes => query.bind(value.and_then(V::bytes)),
        })
    }
}

/// Removes rows by their keys.
async fn delete<T: Stored, K: Serialize>(conn: &mut SqliteConnection, keys: &[K]) -> Result<(), StoreError> {
    many(conn, &statements_of::<T>()?.delete, keys).await
}

fn statements_of<T: Stored>() -> Result<&'static Statements, StoreError> {
    statements::of(T::TABLE)
        .ok_or_else(|| StoreError::Refused(format!("{} is not among the tables", T::TABLE.name)))
}

async fn one(
    conn: &mut SqliteConnection,
    query: Query<'_, Sqlite, SqliteArguments>,
) -> Result<(), StoreError> {
    query.execute(conn).await.map_err(store_error)?;
    Ok(())
}

async fn many<T: Serialize>(
    conn: &mut SqliteConnection,
    sql: &'static str,
    rows: &[T],
) -> Result<(), StoreError> {
    for slice in rows.chunks(MAX_STATEMENT_ROWS) {
        let text = serde_json::to_string(slice).map_err(|error| StoreError::Refused(error.to_string()))?;
        one(conn, sqlx::query(sql).bind(text)).await?;
    }
    Ok(())
}

/// Says that the holder lives, and how long it has served.
pub(super) async fn renew(conn: &mut SqliteConnection, epoch: u64, served_ms: u64) -> Result<(), StoreError> {
    renew_in(conn, epoch, served_ms).await
}

async fn renew_in(conn: &mut SqliteConnection, epoch: u64, served_ms: u64) -> Result<(), StoreError> {
    let renew =
        sqlx::query(RENEW).bind(epoch.cast_signed()).bind(i64::try_from(served_ms).unwrap_or(i64::MAX));
    ours(renew.execute(conn).await.map_err(store_error)?.rows_affected())
}

fn ours(rows: u64) -> Result<(), StoreError> {
    if rows == 1 { Ok(()) } else { Err(StoreError::LeaseLost("another manager has taken it".to_owned())) }
}

/// Removes old audit rows from the front of the trail.
pub(super) async fn prune_audit(
    conn: &mut SqliteConnection,
    epoch: u64,
    pruning: Pruning,
) -> Result<u64, StoreError> {
    let epoch = epoch.cast_signed();
    let prune = sqlx::query(PRUNE_AUDIT).bind(pruning.before()).bind(pruning.limit).bind(epoch);
    let mut gone = prune.execute(&mut *conn).await.map_err(store_error)?.rows_affected();
    let prune = sqlx::query(PRUNE_TRAFFIC).bind(pruning.before()).bind(pruning.limit).bind(epoch);
    gone = gone.max(prune.execute(&mut *conn).await.map_err(store_error)?.rows_affected());
    one(conn, sqlx::query(PRUNE_AGES).bind(pruning.before()).bind(epoch)).await?;
    // Last: on a full disk what is too old must be able to go first.
    let note = sqlx::query(NOTE_AGE).bind(bounded(pruning.served_ms)).bind(epoch);
    one(conn, note.bind(pruning.noted_since())).await?;
    Ok(gone)
}

/// Clears the holder, if it is still this one.
pub(super) async fn give_back(conn: &mut SqliteConnection, epoch: u64) -> Result<(), StoreError> {
    one(conn, sqlx::query(GIVE_BACK).bind(epoch.cast_signed())).await
}

/// Fills an empty store in one transaction.
pub(super) async fn fill(
    conn: &mut SqliteConnection,
    epoch: u64,
    slices: &mut Slices<'_>,
) -> Result<(), StoreError> {
    let mut transaction = conn.begin_with(BEGIN).await.map_err(store_error)?;
    let empty = sqlx::query(IS_EMPTY.as_str()).fetch_one(&mut *transaction).await.map_err(store_error)?;
    if !empty.try_get::<bool, _>(0).map_err(store_error)? {
        return Err(not_empty());
    }
    while let Some(slice) = slices()? {
        check::writes(&slice.writes)?;
        write(&mut transaction, &slice.writes).await?;
        if let Some(progress) = slice.progress {
            let set = sqlx::query(SET_PROGRESS)
                .bind(epoch.cast_signed())
                .bind(progress.seq.cast_signed())
                .bind(progress.served_ms.cast_signed());
            ours(set.execute(&mut *transaction).await.map_err(store_error)?.rows_affected())?;
        }
    }
    transaction.commit().await.map_err(store_error)
}
