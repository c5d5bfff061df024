//! Writing: one statement a batch where only frequent tables are touched, else a transaction around it.
//!
//! Rows go in as one array a column, taken apart by `unnest`. The statement steps the lease first, and every insert is
//! joined to the stepped row: no lease, no rows.

use sqlx::{
    Connection, Encode, PgConnection, Postgres, Row, Type,
    postgres::{PgArguments, PgBindIterExt, PgHasArrayType},
    query::Query,
};

use super::{
    error::store_error,
    lease, short,
    statements::{
        self, GONE_WITH_CHILDREN, GONE_WITH_WORKFLOWS, IS_EMPTY, STEP_AND_WRITE, STEP_AND_WRITE_MORE,
        Statements, is_frequent,
    },
};
use crate::{
    Pruning, StoreError, bounded,
    check::{self, LeaseCheck},
    rows::{
        ArchiveRow, Batch, ChildRow, LeaseRow, OutboxRow, PointerRow, ReleaseRow, WallMs, WorkflowRow, Writes,
    },
    tables::{FromRow, Kind, See, SeeTables, Stored, Table, Value, WriteTables},
    transfer::{Progress, Slices, not_empty},
};

const SEEN: &str = "UPDATE children SET seen_ms = new.seen_ms
    FROM unnest($1::bigint[], $2::bigint[]) AS new (child_key, seen_ms) WHERE children.child_key = new.child_key";
const NOTE_AGE: &str = "INSERT INTO commit_ages (seq, served_ms) SELECT seq, $1 FROM lease
    WHERE epoch = $2 AND NOT EXISTS (SELECT 1 FROM commit_ages WHERE served_ms >= $3) ON CONFLICT (seq) DO NOTHING";
const PRUNE_AUDIT: &str =
    "DELETE FROM audit USING (SELECT seq, idx FROM audit ORDER BY seq, idx LIMIT $2) AS oldest
    WHERE audit.seq = oldest.seq AND audit.idx = oldest.idx
      AND audit.seq < (SELECT max(seq) FROM commit_ages WHERE served_ms <= $1)
      AND EXISTS (SELECT 1 FROM lease WHERE epoch = $3)";
const PRUNE_TRAFFIC: &str =
    "DELETE FROM traffic_history USING (SELECT seq, idx FROM traffic_history ORDER BY seq, idx LIMIT $2) AS oldest
    WHERE traffic_history.seq = oldest.seq AND traffic_history.idx = oldest.idx
      AND traffic_history.seq < (SELECT max(seq) FROM commit_ages WHERE served_ms <= $1)
      AND EXISTS (SELECT 1 FROM lease WHERE epoch = $3)";
const PRUNE_AGES: &str = "DELETE FROM commit_ages
    WHERE seq < (SELECT max(seq) FROM commit_ages WHERE served_ms <= $1)
      AND EXISTS (SELECT 1 FROM lease WHERE epoch = $2)";
const SET_PROGRESS: &str = "UPDATE lease SET seq = $2, served_ms = $3 WHERE epoch = $1";
/// The file of an import may come slowly.
const NO_IDLE_TIMEOUT: &str = "SET LOCAL idle_in_transaction_session_timeout = 0";
/// Tables with large rows, which are written one by one. Of releases the order counts: the id of one that leaves the history may
/// be given anew in the same batch.
const ONE_BY_ONE: [&Table; 2] = [ReleaseRow::TABLE, ArchiveRow::TABLE];

/// The commit that imported results are of: earlier than all that come after.
const IMPORTED: u64 = 0;

/// Everything above, for the test that prepares each statement.
pub(super) const STATEMENTS: &[&str] =
    &[SEEN, NOTE_AGE, PRUNE_AUDIT, PRUNE_TRAFFIC, PRUNE_AGES, SET_PROGRESS];

/// A statement with its parameters.
type Bound<'q> = Query<'q, Postgres, PgArguments>;

/// Commits one batch, unless it is there already.
pub(super) async fn commit(conn: &mut PgConnection, batch: &Batch) -> Result<(), StoreError> {
    let stepped = if is_one_statement(&batch.writes)? {
        step_and_write(conn, batch, &batch.writes.seen, batch.seq).await?
    } else {
        let mut transaction = conn.begin().await.map_err(store_error)?;
        let stepped = write_all(&mut transaction, batch, batch.seq).await?;
        if stepped {
            transaction.commit().await.map_err(store_error)?;
        } else {
            transaction.rollback().await.map_err(store_error)?;
        }
        stepped
    };
    if stepped {
        return Ok(());
    }
    let found = lease::look(conn).await?;
    match check::judge(Some(found), batch) {
        // It was made some time ago, and so was the renewal of the lease that came with it.
        LeaseCheck::AlreadyThere => lease::renew(conn, batch.epoch, batch.served_ms).await,
        LeaseCheck::Lost(why) => Err(StoreError::LeaseLost(why)),
    }
}

/// Whether the frequent tables are all there is. A statement can't change a row twice, so what changes children in
/// more than one way needs more than one.
fn is_one_statement(writes: &Writes) -> Result<bool, StoreError> {
    let mut rare = Rare(false);
    writes.show(&mut rare)?;
    Ok(!rare.0
        && writes.children_gone.is_empty()
        && writes.workflows_gone.is_empty()
        && (writes.children.is_empty() || writes.seen.is_empty())
        && writes.outbox_done.is_empty()
        && writes.pointers_gone.is_empty())
}

/// Whether something is written to a table that the statement with the step of the lease doesn't write to.
struct Rare(bool);

impl SeeTables for Rare {
    fn table<T: Stored>(&mut self, rows: &[T]) -> Result<(), StoreError> {
        self.0 |= !rows.is_empty() && !is_frequent(T::TABLE);
        Ok(())
    }
}

/// Within a transaction: everything, what goes first. False if the lease is not ours.
async fn write_all(conn: &mut PgConnection, batch: &Batch, results_of: u64) -> Result<bool, StoreError> {
    let writes = &batch.writes;
    let gone = || writes.children_gone.iter().map(|key| i64::from(*key));
    if !writes.children_gone.is_empty() {
        delete::<ChildRow, _>(conn, gone()).await?;
        for sql in GONE_WITH_CHILDREN.iter().map(String::as_str) {
            run(conn, sqlx::query(sql).bind(gone().bind_iter())).await?;
        }
    }
    let gone = || writes.workflows_gone.iter().map(|key| i64::from(*key));
    if !writes.workflows_gone.is_empty() {
        delete::<WorkflowRow, _>(conn, gone()).await?;
        for sql in GONE_WITH_WORKFLOWS.iter().map(String::as_str) {
            run(conn, sqlx::query(sql).bind(gone().bind_iter())).await?;
        }
    }
    if !step_and_write(conn, batch, &[], results_of).await? {
        return Ok(false);
    }
    if !writes.seen.is_empty() {
        let query = bind_seen(sqlx::query(SEEN), &writes.seen);
        run(conn, query).await?;
    }
    writes.write(&mut RareTables(&mut *conn)).await?;
    if !writes.outbox_done.is_empty() {
        delete::<OutboxRow, _>(conn, writes.outbox_done.iter().map(|id| id.cast_signed())).await?;
    }
    if !writes.pointers_gone.is_empty() {
        delete::<PointerRow, _>(conn, writes.pointers_gone.iter().map(|key| key.cast_signed())).await?;
    }
    Ok(true)
}

/// Writes the rows of each table that has a statement of its own.
struct RareTables<'c>(&'c mut PgConnection);

impl WriteTables for RareTables<'_> {
    async fn table<T: Stored>(&mut self, rows: &[T]) -> Result<(), StoreError> {
        if rows.is_empty() || is_frequent(T::TABLE) {
            return Ok(());
        }
        let sql = statements_of::<T>()?.write.as_str();
        let at_once = if ONE_BY_ONE.iter().any(|table| table.name == T::TABLE.name) { 1 } else { rows.len() };
        for rows in rows.chunks(at_once) {
            run(self.0, bind_rows(sqlx::query(sql), rows.iter())).await?;
        }
        Ok(())
    }
}

/// Removes rows by their keys.
async fn delete<'k, T: Stored, K>(
    conn: &mut PgConnection,
    keys: impl Iterator<Item = K>,
) -> Result<u64, StoreError>
where
    K: Encode<'k, Postgres> + Type<Postgres> + PgHasArrayType + 'k,
{
    run(conn, sqlx::query(statements_of::<T>()?.delete.as_str()).bind(keys.bind_iter())).await
}

fn statements_of<T: Stored>() -> Result<&'static Statements, StoreError> {
    statements::of(T::TABLE)
        .ok_or_else(|| StoreError::Refused(format!("{} is not among the tables", T::TABLE.name)))
}

async fn run(conn: &mut PgConnection, query: Bound<'_>) -> Result<u64, StoreError> {
    Ok(query.execute(conn).await.map_err(store_error)?.rows_affected())
}

/// Steps the lease and writes the frequent tables. False, with nothing written, if the lease is not ours.
async fn step_and_write(
    conn: &mut PgConnection,
    batch: &Batch,
    seen: &[(u32, WallMs)],
    results_of: u64,
) -> Result<bool, StoreError> {
    let writes = &batch.writes;
    let folded = short::fold(&writes.assignments, &writes.stage_results, results_of);
    let more = !(folded.others.is_empty()
        && writes.deployments.is_empty()
        && writes.children.is_empty()
        && seen.is_empty());
    let query = sqlx::query(if more { STEP_AND_WRITE_MORE.as_str() } else { STEP_AND_WRITE.as_str() })
        .bind(batch.epoch.cast_signed())
        .bind(batch.seq.cast_signed())
        .bind(batch.served_ms.cast_signed());
    let query = bind_rows(query, writes.assignments.iter());
    let short = folded.short.iter().map(Option::as_ref);
    let query = query
        .bind(short.clone().map(|short| short.map(|short| short.key)).bind_iter())
        .bind(short.map(|short| short.map(|short| short.line.as_str())).bind_iter());
    let query = bind_rows(query, writes.audit.iter());
    if !more {
        return Ok(run(conn, query).await? == 1);
    }
    let query = bind_rows(query, folded.others.iter().copied());
    let query = bind_rows(query, writes.deployments.iter());
    let query = bind_rows(query, writes.children.iter());
    let query = bind_seen(query, seen).bind(results_of.cast_signed());
    Ok(run(conn, query).await? == 1)
}

/// Binds an array for each column.
fn bind_rows<'q, 'r, T: Stored + 'r>(
    query: Bound<'q>,
    rows: impl Iterator<Item = &'r T> + Clone,
) -> Bound<'q> {
    T::show(rows, Binding(query)).0
}

/// A statement that takes an array a column.
struct Binding<'q>(Bound<'q>);

impl See for Binding<'_> {
    fn see<'r, V: Value + 'r>(self, _: &'static str, values: impl Iterator<Item = &'r V>) -> Self {
        let query = self.0;
        Self(match V::KIND {
            Kind::Int => query.bind(values.map(V::int).bind_iter()),
            Kind::Small => query.bind(values.map(V::small).bind_iter()),
            Kind::Boolean => query.bind(values.map(V::boolean).bind_iter()),
            Kind::Text => query.bind(values.map(V::text).bind_iter()),
            Kind::Bytes => query.bind(values.map(V::bytes).bind_iter()),
        })
    }
}

fn bind_seen<'q>(query: Bound<'q>, seen: &[(u32, WallMs)]) -> Bound<'q> {
    query
        .bind(seen.iter().map(|(key, _)| i64::from(*key)).bind_iter())
        .bind(seen.iter().map(|(_, seen_ms)| *seen_ms).bind_iter())
}

/// Removes old audit rows from the front of the trail.
pub(super) async fn prune_audit(
    conn: &mut PgConnection,
    epoch: u64,
    pruning: Pruning,
) -> Result<u64, StoreError> {
    let epoch = epoch.cast_signed();
    let prune = sqlx::query(PRUNE_AUDIT).bind(pruning.before()).bind(i64::from(pruning.limit)).bind(epoch);
    let gone = run(conn, prune).await?;
    let prune = sqlx::query(PRUNE_TRAFFIC).bind(pruning.before()).bind(i64::from(pruning.limit)).bind(epoch);
    let gone = gone.max(run(conn, prune).await?);
    run(conn, sqlx::query(PRUNE_AGES).bind(pruning.before()).bind(epoch)).await?;
    let note = sqlx::query(NOTE_AGE).bind(bounded(pruning.served_ms)).bind(epoch);
    run(conn, note.bind(pruning.noted_since())).await?;
    Ok(gone)
}

/// Fills an empty store in one transaction, which holds the lease's row from its first slice on.
pub(super) async fn fill(
    conn: &mut PgConnection,
    lease: &LeaseRow,
    slices: &mut Slices<'_>,
) -> Result<(), StoreError> {
    let lost = || StoreError::LeaseLost("another manager has taken it".to_owned());
    let mut transaction = conn.begin().await.map_err(store_error)?;
    sqlx::raw_sql(NO_IDLE_TIMEOUT).execute(&mut *transaction).await.map_err(store_error)?;
    let empty = sqlx::query(IS_EMPTY.as_str()).fetch_one(&mut *transaction).await.map_err(store_error)?;
    if !empty.try_get::<bool, _>(0).map_err(store_error)? {
        return Err(not_empty());
    }
    let mut seq = lease.seq;
    while let Some(slice) = slices()? {
        check::writes(&slice.writes)?;
        let batch = Batch { epoch: lease.epoch, seq, served_ms: lease.served_ms, writes: slice.writes };
        if !write_all(&mut transaction, &batch, IMPORTED).await? {
            return Err(lost());
        }
        seq += 1;
        if let Some(Progress { seq, served_ms }) = slice.progress {
            let set = sqlx::query(SET_PROGRESS)
                .bind(lease.epoch.cast_signed())
                .bind(seq.cast_signed())
                .bind(served_ms.cast_signed());
            if run(&mut transaction, set).await? != 1 {
                return Err(lost());
            }
        }
    }
    transaction.commit().await.map_err(store_error)
}
