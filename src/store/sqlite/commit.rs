//! Writing: one transaction a batch, one statement a table.
//!
//! The rows of a table go in as one JSON text that SQLite takes apart itself (by `jsonb_each`, which parses each row
//! once): a statement for every row would cost a hand-over to the connection's thread each. Tables with binary
//! columns are rare and go row by row.

use serde::Serialize;
use sqlx::{Connection, Row, Sqlite, SqliteConnection, query::Query, sqlite::SqliteArguments};

use super::error::store_error;
use crate::{
    Pruning, StoreError, bounded,
    check::{self, Found},
    rows::{ArchiveRow, Batch, LeaseRow, MembersRow, ReleaseRow, Writes},
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

const CHILDREN_GONE: &str = "DELETE FROM children WHERE child_key IN (SELECT value FROM jsonb_each(?1))";
const DEPLOYMENTS_GONE: &str =
    "DELETE FROM deployments WHERE child_key IN (SELECT value FROM jsonb_each(?1))";
const CHILDREN: &str = "INSERT INTO children
    (child_key, id, kind, name, area, agents, born_ms, seen_ms, detail)
    SELECT value->>'child_key', value->>'id', value->>'kind', value->>'name', value->>'area', value->>'agents',
        value->>'born_ms', value->>'seen_ms', value->>'detail'
    FROM jsonb_each(?1) WHERE true
    ON CONFLICT (child_key) DO UPDATE SET id = excluded.id, kind = excluded.kind, name = excluded.name,
        area = excluded.area, agents = excluded.agents, born_ms = excluded.born_ms, seen_ms = excluded.seen_ms,
        detail = excluded.detail";
const SEEN: &str = "UPDATE children SET seen_ms = seen.value->>1 FROM jsonb_each(?1) AS seen
    WHERE child_key = seen.value->>0";
const RELEASE: &str = "INSERT INTO releases
    (release_key, id, state, open, digest, archive, strategy, functions, submitted_ms, updated_ms, ended_ms, detail)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (release_key) DO UPDATE SET id = excluded.id, state = excluded.state, open = excluded.open,
        digest = excluded.digest, archive = excluded.archive, strategy = excluded.strategy,
        functions = excluded.functions, submitted_ms = excluded.submitted_ms, updated_ms = excluded.updated_ms,
        ended_ms = excluded.ended_ms, detail = excluded.detail";
const ARCHIVE: &str = "INSERT INTO archives (digest, bytes) VALUES (?1, ?2) ON CONFLICT (digest) DO NOTHING";
const MEMBERS: &str = "INSERT INTO members (release_key, slice, keys, waves) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (release_key, slice) DO UPDATE SET keys = excluded.keys, waves = excluded.waves";
const ASSIGNMENTS: &str = "INSERT INTO assignments
    (release_key, child_key, status, outcome, attempt, stage, stage_status, updated_ms, detail)
    SELECT value->>'release_key', value->>'child_key', value->>'status', value->>'outcome', value->>'attempt',
        value->>'stage', value->>'stage_status', value->>'updated_ms', value->>'detail'
    FROM jsonb_each(?1) WHERE true
    ON CONFLICT (release_key, child_key) DO UPDATE SET status = excluded.status, outcome = excluded.outcome,
        attempt = excluded.attempt, stage = excluded.stage, stage_status = excluded.stage_status,
        updated_ms = excluded.updated_ms, detail = excluded.detail";
const STAGE_RESULTS: &str = "INSERT INTO stage_results
    (release_key, child_key, attempt, stage, status, at_ms, digest, summary)
    SELECT value->>'release_key', value->>'child_key', value->>'attempt', value->>'stage', value->>'status',
        value->>'at_ms', value->>'digest', value->>'summary'
    FROM jsonb_each(?1) WHERE true
    ON CONFLICT (release_key, child_key, attempt, stage) DO UPDATE SET status = excluded.status,
        at_ms = excluded.at_ms, digest = excluded.digest, summary = excluded.summary";
const ANALYSIS_RUNS: &str = "INSERT INTO analysis_runs (release_key, block, detail)
    SELECT value->>'release_key', value->>'block', value->>'detail' FROM jsonb_each(?1) WHERE true
    ON CONFLICT (release_key, block) DO UPDATE SET detail = excluded.detail";
const PRECEDENTS: &str = "INSERT INTO precedents (function, release_key, id, ended_ms, times)
    SELECT value->>'function', value->>'release_key', value->>'id', value->>'ended_ms', value->>'times'
    FROM jsonb_each(?1) WHERE true
    ON CONFLICT (function, release_key) DO UPDATE SET id = excluded.id, ended_ms = excluded.ended_ms,
        times = excluded.times";
const DEPLOYMENTS: &str = "INSERT INTO deployments (child_key, function, release_key, variant, path, at_ms)
    SELECT value->>'child_key', value->>'function', value->>'release_key', value->>'variant', value->>'path',
        value->>'at_ms'
    FROM jsonb_each(?1) WHERE true
    ON CONFLICT (child_key, function) DO UPDATE SET release_key = excluded.release_key,
        variant = excluded.variant, path = excluded.path, at_ms = excluded.at_ms";
const AUDIT: &str = "INSERT INTO audit (seq, idx, at_ms, release_key, actor, events)
    SELECT value->>'seq', value->>'idx', value->>'at_ms', value->>'release_key', value->>'actor', value->>'events'
    FROM jsonb_each(?1)";
const OUTBOX: &str = "INSERT INTO outbox (id, kind, at_ms, payload, served_ms)
    SELECT value->>'id', value->>'kind', value->>'at_ms', value->>'payload', value->>'served_ms' FROM jsonb_each(?1)";
const OUTBOX_DONE: &str = "DELETE FROM outbox WHERE id IN (SELECT value FROM jsonb_each(?1))";
const NOTE_AGE: &str = "INSERT INTO commit_ages (seq, served_ms) SELECT seq, ?1 FROM lease
    WHERE epoch = ?2 AND NOT EXISTS (SELECT 1 FROM commit_ages WHERE served_ms >= ?3) ON CONFLICT (seq) DO NOTHING";
const PRUNE_AUDIT: &str = "DELETE FROM audit
    WHERE (seq, idx) IN (SELECT seq, idx FROM audit ORDER BY seq, idx LIMIT ?2)
      AND seq < (SELECT max(seq) FROM commit_ages WHERE served_ms <= ?1)
      AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?3)";
const PRUNE_AGES: &str = "DELETE FROM commit_ages
    WHERE seq < (SELECT max(seq) FROM commit_ages WHERE served_ms <= ?1)
      AND EXISTS (SELECT 1 FROM lease WHERE epoch = ?2)";
const IS_EMPTY: &str =
    "SELECT seq = 0 AND NOT EXISTS (SELECT 1 FROM children) AND NOT EXISTS (SELECT 1 FROM releases)
    AND NOT EXISTS (SELECT 1 FROM audit) AND NOT EXISTS (SELECT 1 FROM outbox)
    AND NOT EXISTS (SELECT 1 FROM precedents) FROM lease";

/// Everything above, for the test that prepares each statement.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    TAKE,
    STEP,
    RENEW,
    GIVE_BACK,
    LOOK,
    SET_PROGRESS,
    CHILDREN_GONE,
    DEPLOYMENTS_GONE,
    CHILDREN,
    SEEN,
    RELEASE,
    ARCHIVE,
    MEMBERS,
    ASSIGNMENTS,
    STAGE_RESULTS,
    ANALYSIS_RUNS,
    PRECEDENTS,
    DEPLOYMENTS,
    AUDIT,
    OUTBOX,
    OUTBOX_DONE,
    NOTE_AGE,
    PRUNE_AUDIT,
    PRUNE_AGES,
    IS_EMPTY,
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
            Found::AlreadyThere => renew_in(&mut transaction, batch.epoch, batch.served_ms).await?,
            Found::Lost(why) => return Err(StoreError::LeaseLost(why)),
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
    many(conn, CHILDREN_GONE, &writes.children_gone).await?;
    many(conn, DEPLOYMENTS_GONE, &writes.children_gone).await?;
    many(conn, CHILDREN, &writes.children).await?;
    many(conn, SEEN, &writes.seen).await?;
    for row in &writes.releases {
        one(conn, release(row)).await?;
    }
    for ArchiveRow { digest, bytes } in &writes.archives {
        one(conn, sqlx::query(ARCHIVE).bind(&digest[..]).bind(&bytes[..])).await?;
    }
    for MembersRow { release_key, slice, keys, waves } in &writes.members {
        let query = sqlx::query(MEMBERS).bind(release_key).bind(slice).bind(&keys[..]).bind(&waves[..]);
        one(conn, query).await?;
    }
    many(conn, ASSIGNMENTS, &writes.assignments).await?;
    many(conn, STAGE_RESULTS, &writes.stage_results).await?;
    many(conn, ANALYSIS_RUNS, &writes.analysis_runs).await?;
    many(conn, PRECEDENTS, &writes.precedents).await?;
    many(conn, DEPLOYMENTS, &writes.deployments).await?;
    many(conn, AUDIT, &writes.audit).await?;
    many(conn, OUTBOX, &writes.outbox).await?;
    many(conn, OUTBOX_DONE, &writes.outbox_done).await
}

fn release(row: &ReleaseRow) -> Query<'_, Sqlite, SqliteArguments> {
    sqlx::query(RELEASE)
        .bind(row.release_key)
        .bind(&row.id)
        .bind(&row.state)
        .bind(row.open)
        .bind(&row.digest[..])
        .bind(&row.archive[..])
        .bind(&row.strategy)
        .bind(&row.functions)
        .bind(row.submitted_ms)
        .bind(row.updated_ms)
        .bind(row.ended_ms)
        .bind(&row.detail)
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
    let gone = prune.execute(&mut *conn).await.map_err(store_error)?.rows_affected();
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
    let empty = sqlx::query(IS_EMPTY).fetch_one(&mut *transaction).await.map_err(store_error)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dump, history, sqlite::schema};

    #[tokio::test]
    async fn every_statement_can_be_prepared() {
        use sqlx::{Executor, SqlSafeStr};
        let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        schema::migrate(&mut conn).await.unwrap();
        let here = [schema::VERSION, schema::LOOK, super::super::session::RELEASES];
        let removal = super::super::removal::statements();
        for sql in [STATEMENTS, history::STATEMENTS, dump::STATEMENTS, &here, &removal].concat() {
            if let Err(error) = conn.prepare(sql.into_sql_str()).await {
                panic!("{sql}\n{error}");
            }
        }
    }
}
