//! Writing: one statement a batch where only frequent tables are touched, else a transaction around it.
//!
//! Rows go in as one array a column, taken apart by `unnest`. The statement steps the lease first, and every insert is
//! joined to the stepped row: no lease, no rows.

use sqlx::{
    Connection, PgConnection, Postgres, Row,
    postgres::{PgArguments, PgBindIterExt},
    query::Query,
};

use super::{
    error::store_error,
    lease::{self, now_ms},
    short::{self, Short},
};
use crate::{
    Pruning, StoreError, bounded,
    check::{self, Found},
    rows::{
        AssignmentRow, AuditRow, Batch, ChildRow, DeploymentRow, LeaseRow, ReleaseRow, StageResultRow,
        WallMs, Writes,
    },
    transfer::{Progress, Slices, not_empty},
};

/// Steps the lease: `$1` epoch, `$2` seq, `$3` serving time. Then what most commits write, and nothing else: assignments
/// with their results in `$4` to `$14`, the audit trail in `$15` to `$20`. Each table that a statement may write to costs
/// time, rows or none.
macro_rules! step_and_write {
    () => {
        concat!(
            "WITH step AS (
                UPDATE lease SET seq = seq + 1, served_ms = $3, renewed_ms = ",
            now_ms!(),
            " WHERE epoch = $1 AND seq = $2 RETURNING 1
            ), assignment AS (
                INSERT INTO assignments AS old
                    (release_key, child_key, status, outcome, attempt, stage, stage_status, updated_ms, detail,
                    result_key, latest)
                SELECT new.* FROM step, unnest($4::bigint[], $5::bigint[], $6::smallint[], $7::text[],
                    $8::smallint[], $9::smallint[], $10::smallint[], $11::bigint[], $12::text[], $13::bigint[],
                    $14::text[]) AS new
                ON CONFLICT (release_key, child_key) DO UPDATE SET status = excluded.status,
                    outcome = excluded.outcome, attempt = excluded.attempt, stage = excluded.stage,
                    stage_status = excluded.stage_status, updated_ms = excluded.updated_ms,
                    detail = excluded.detail,
                    past = CASE WHEN excluded.latest IS NULL OR old.latest IS NULL
                            OR old.result_key = excluded.result_key
                        THEN old.past ELSE concat(old.past, old.latest, E'\n') END,
                    result_key = COALESCE(excluded.result_key, old.result_key),
                    latest = COALESCE(excluded.latest, old.latest)
            ), audited AS (
                INSERT INTO audit (seq, idx, at_ms, release_key, actor, events)
                SELECT new.* FROM step, unnest($15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[],
                    $19::text[], $20::text[]) AS new
            )"
        )
    };
}

const STEP_AND_WRITE: &str = concat!(step_and_write!(), " SELECT 1 FROM step");

/// The same with the other frequent tables, array by array; last the commit that results are of.
const STEP_AND_WRITE_MORE: &str = concat!(
    step_and_write!(),
    ", stage_result AS (
        INSERT INTO stage_results (release_key, child_key, attempt, stage, status, at_ms, digest, summary, seq)
        SELECT new.*, $46::bigint FROM step, unnest($21::bigint[], $22::bigint[], $23::smallint[], $24::smallint[],
            $25::smallint[], $26::bigint[], $27::bigint[], $28::text[]) AS new
        ON CONFLICT (release_key, child_key, attempt, stage) DO UPDATE SET status = excluded.status,
            at_ms = excluded.at_ms, digest = excluded.digest, summary = excluded.summary, seq = excluded.seq
    ), deployment AS (
        INSERT INTO deployments (child_key, function, release_key, variant, path, at_ms)
        SELECT new.* FROM step, unnest($29::bigint[], $30::text[], $31::bigint[], $32::text[], $33::text[],
            $34::bigint[]) AS new
        ON CONFLICT (child_key, function) DO UPDATE SET release_key = excluded.release_key,
            variant = excluded.variant, path = excluded.path, at_ms = excluded.at_ms
    ), child AS (
        INSERT INTO children (child_key, id, kind, name, area, agents, born_ms, seen_ms, detail)
        SELECT new.* FROM step, unnest($35::bigint[], $36::text[], $37::text[], $38::text[], $39::text[],
            $40::bigint[], $41::bigint[], $42::bigint[], $43::text[]) AS new
        ON CONFLICT (child_key) DO UPDATE SET id = excluded.id, kind = excluded.kind, name = excluded.name,
            area = excluded.area, agents = excluded.agents, born_ms = excluded.born_ms,
            seen_ms = excluded.seen_ms, detail = excluded.detail
    ), seen AS (
        UPDATE children SET seen_ms = new.seen_ms
        FROM step, unnest($44::bigint[], $45::bigint[]) AS new (child_key, seen_ms)
        WHERE children.child_key = new.child_key
    )
    SELECT 1 FROM step"
);

const CHILDREN_GONE: &str = "DELETE FROM children WHERE child_key = ANY ($1::bigint[])";
const DEPLOYMENTS_GONE: &str = "DELETE FROM deployments WHERE child_key = ANY ($1::bigint[])";
const SEEN: &str = "UPDATE children SET seen_ms = new.seen_ms
    FROM unnest($1::bigint[], $2::bigint[]) AS new (child_key, seen_ms) WHERE children.child_key = new.child_key";
const RELEASE: &str = "INSERT INTO releases
    (release_key, id, state, open, digest, archive, strategy, functions, submitted_ms, updated_ms, ended_ms, detail)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    ON CONFLICT (release_key) DO UPDATE SET id = excluded.id, state = excluded.state, open = excluded.open,
        digest = excluded.digest, archive = excluded.archive, strategy = excluded.strategy,
        functions = excluded.functions, submitted_ms = excluded.submitted_ms, updated_ms = excluded.updated_ms,
        ended_ms = excluded.ended_ms, detail = excluded.detail";
const ARCHIVE: &str = "INSERT INTO archives (digest, bytes) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
const MEMBERS: &str = "INSERT INTO members (release_key, slice, keys, waves)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[])
    ON CONFLICT (release_key, slice) DO UPDATE SET keys = excluded.keys, waves = excluded.waves";
const ANALYSIS_RUNS: &str = "INSERT INTO analysis_runs (release_key, block, detail)
    SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::text[])
    ON CONFLICT (release_key, block) DO UPDATE SET detail = excluded.detail";
const PRECEDENTS: &str = "INSERT INTO precedents (function, release_key, id, ended_ms, times)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[])
    ON CONFLICT (function, release_key) DO UPDATE SET id = excluded.id, ended_ms = excluded.ended_ms,
        times = excluded.times";
const OUTBOX: &str = "INSERT INTO outbox (id, kind, at_ms, payload, served_ms)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[])";
const OUTBOX_DONE: &str = "DELETE FROM outbox WHERE id = ANY ($1::bigint[])";

const NOTE_AGE: &str = "INSERT INTO commit_ages (seq, served_ms) SELECT seq, $1 FROM lease
    WHERE epoch = $2 AND NOT EXISTS (SELECT 1 FROM commit_ages WHERE served_ms >= $3) ON CONFLICT (seq) DO NOTHING";
const PRUNE_AUDIT: &str =
    "DELETE FROM audit USING (SELECT seq, idx FROM audit ORDER BY seq, idx LIMIT $2) AS oldest
    WHERE audit.seq = oldest.seq AND audit.idx = oldest.idx
      AND audit.seq < (SELECT max(seq) FROM commit_ages WHERE served_ms <= $1)
      AND EXISTS (SELECT 1 FROM lease WHERE epoch = $3)";
const PRUNE_AGES: &str = "DELETE FROM commit_ages
    WHERE seq < (SELECT max(seq) FROM commit_ages WHERE served_ms <= $1)
      AND EXISTS (SELECT 1 FROM lease WHERE epoch = $2)";
const SET_PROGRESS: &str = "UPDATE lease SET seq = $2, served_ms = $3 WHERE epoch = $1";
/// The file of an import may come slowly.
const NO_IDLE_TIMEOUT: &str = "SET LOCAL idle_in_transaction_session_timeout = 0";
const IS_EMPTY: &str = "SELECT seq = 0 AND NOT EXISTS (SELECT 1 FROM children)
    AND NOT EXISTS (SELECT 1 FROM releases) AND NOT EXISTS (SELECT 1 FROM audit)
    AND NOT EXISTS (SELECT 1 FROM outbox) AND NOT EXISTS (SELECT 1 FROM precedents) FROM lease";

/// The commit that imported results are of: earlier than all that come after.
const IMPORTED: u64 = 0;

/// Everything above, for the test that prepares each statement.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    STEP_AND_WRITE,
    STEP_AND_WRITE_MORE,
    CHILDREN_GONE,
    DEPLOYMENTS_GONE,
    SEEN,
    RELEASE,
    ARCHIVE,
    MEMBERS,
    ANALYSIS_RUNS,
    PRECEDENTS,
    OUTBOX,
    OUTBOX_DONE,
    NOTE_AGE,
    PRUNE_AUDIT,
    PRUNE_AGES,
    SET_PROGRESS,
    IS_EMPTY,
];

/// A statement with its parameters.
type Bound<'q> = Query<'q, Postgres, PgArguments>;

/// Commits one batch, unless it is there already.
pub(super) async fn commit(conn: &mut PgConnection, batch: &Batch) -> Result<(), StoreError> {
    let stepped = if is_one_statement(&batch.writes) {
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
        Found::AlreadyThere => lease::renew(conn, batch.epoch, batch.served_ms).await,
        Found::Lost(why) => Err(StoreError::LeaseLost(why)),
    }
}

/// Whether the frequent tables are all there is. A statement can't change a row twice, so what changes children in
/// more than one way needs more than one.
fn is_one_statement(writes: &Writes) -> bool {
    writes.children_gone.is_empty()
        && (writes.children.is_empty() || writes.seen.is_empty())
        && writes.releases.is_empty()
        && writes.archives.is_empty()
        && writes.members.is_empty()
        && writes.analysis_runs.is_empty()
        && writes.precedents.is_empty()
        && writes.outbox.is_empty()
        && writes.outbox_done.is_empty()
}

/// Within a transaction: everything, in the order that [`Writes`] tells. False if the lease is not ours.
async fn write_all(conn: &mut PgConnection, batch: &Batch, results_of: u64) -> Result<bool, StoreError> {
    let writes = &batch.writes;
    if !writes.children_gone.is_empty() {
        for gone in [CHILDREN_GONE, DEPLOYMENTS_GONE] {
            let keys = writes.children_gone.iter().map(|key| i64::from(*key));
            run(conn, sqlx::query(gone).bind(keys.bind_iter())).await?;
        }
    }
    if !step_and_write(conn, batch, &[], results_of).await? {
        return Ok(false);
    }
    if !writes.seen.is_empty() {
        let query = bind_seen(sqlx::query(SEEN), &writes.seen);
        run(conn, query).await?;
    }
    for row in &writes.releases {
        run(conn, release(row)).await?;
    }
    for row in &writes.archives {
        run(conn, sqlx::query(ARCHIVE).bind(&row.digest[..]).bind(&row.bytes[..])).await?;
    }
    if !writes.members.is_empty() {
        run(conn, members(writes)).await?;
    }
    if !writes.analysis_runs.is_empty() {
        run(conn, analysis_runs(writes)).await?;
    }
    if !writes.precedents.is_empty() {
        run(conn, precedents(writes)).await?;
    }
    if !writes.outbox.is_empty() {
        run(conn, outbox(writes)).await?;
    }
    if !writes.outbox_done.is_empty() {
        let ids = writes.outbox_done.iter().map(|id| id.cast_signed());
        run(conn, sqlx::query(OUTBOX_DONE).bind(ids.bind_iter())).await?;
    }
    Ok(true)
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
    let query = sqlx::query(if more { STEP_AND_WRITE_MORE } else { STEP_AND_WRITE })
        .bind(batch.epoch.cast_signed())
        .bind(batch.seq.cast_signed())
        .bind(batch.served_ms.cast_signed());
    let query = bind_assignments(query, &writes.assignments, &folded.short);
    let query = bind_audit(query, &writes.audit);
    if !more {
        return Ok(run(conn, query).await? == 1);
    }
    let query = bind_stage_results(query, &folded.others);
    let query = bind_deployments(query, &writes.deployments);
    let query = bind_children(query, &writes.children);
    let query = bind_seen(query, seen).bind(results_of.cast_signed());
    Ok(run(conn, query).await? == 1)
}

fn bind_assignments<'q>(query: Bound<'q>, rows: &[AssignmentRow], results: &[Option<Short>]) -> Bound<'q> {
    let results = results.iter().map(Option::as_ref);
    let rows = rows.iter();
    query
        .bind(rows.clone().map(|row| i64::from(row.release_key)).bind_iter())
        .bind(rows.clone().map(|row| i64::from(row.child_key)).bind_iter())
        .bind(rows.clone().map(|row| row.status).bind_iter())
        .bind(rows.clone().map(|row| row.outcome.as_deref()).bind_iter())
        .bind(rows.clone().map(|row| row.attempt).bind_iter())
        .bind(rows.clone().map(|row| row.stage).bind_iter())
        .bind(rows.clone().map(|row| row.stage_status).bind_iter())
        .bind(rows.clone().map(|row| row.updated_ms).bind_iter())
        .bind(rows.map(|row| row.detail.as_str()).bind_iter())
        .bind(results.clone().map(|short| short.map(|short| short.key)).bind_iter())
        .bind(results.map(|short| short.map(|short| short.line.as_str())).bind_iter())
}

fn bind_stage_results<'q>(query: Bound<'q>, rows: &[&StageResultRow]) -> Bound<'q> {
    let rows = rows.iter();
    query
        .bind(rows.clone().map(|row| i64::from(row.release_key)).bind_iter())
        .bind(rows.clone().map(|row| i64::from(row.child_key)).bind_iter())
        .bind(rows.clone().map(|row| row.attempt).bind_iter())
        .bind(rows.clone().map(|row| row.stage).bind_iter())
        .bind(rows.clone().map(|row| row.status).bind_iter())
        .bind(rows.clone().map(|row| row.at_ms).bind_iter())
        .bind(rows.clone().map(|row| row.digest).bind_iter())
        .bind(rows.map(|row| row.summary.as_str()).bind_iter())
}

fn bind_deployments<'q>(query: Bound<'q>, rows: &[DeploymentRow]) -> Bound<'q> {
    let rows = rows.iter();
    query
        .bind(rows.clone().map(|row| i64::from(row.child_key)).bind_iter())
        .bind(rows.clone().map(|row| row.function.as_str()).bind_iter())
        .bind(rows.clone().map(|row| i64::from(row.release_key)).bind_iter())
        .bind(rows.clone().map(|row| row.variant.as_str()).bind_iter())
        .bind(rows.clone().map(|row| row.path.as_str()).bind_iter())
        .bind(rows.map(|row| row.at_ms).bind_iter())
}

fn bind_audit<'q>(query: Bound<'q>, rows: &[AuditRow]) -> Bound<'q> {
    let rows = rows.iter();
    query
        .bind(rows.clone().map(|row| row.seq.cast_signed()).bind_iter())
        .bind(rows.clone().map(|row| i64::from(row.idx)).bind_iter())
        .bind(rows.clone().map(|row| row.at_ms).bind_iter())
        .bind(rows.clone().map(|row| row.release_key.map(i64::from)).bind_iter())
        .bind(rows.clone().map(|row| row.actor.as_str()).bind_iter())
        .bind(rows.map(|row| row.events.as_str()).bind_iter())
}

fn bind_children<'q>(query: Bound<'q>, rows: &[ChildRow]) -> Bound<'q> {
    let rows = rows.iter();
    query
        .bind(rows.clone().map(|row| i64::from(row.child_key)).bind_iter())
        .bind(rows.clone().map(|row| row.id.as_str()).bind_iter())
        .bind(rows.clone().map(|row| row.kind.as_str()).bind_iter())
        .bind(rows.clone().map(|row| row.name.as_deref()).bind_iter())
        .bind(rows.clone().map(|row| row.area.as_deref()).bind_iter())
        .bind(rows.clone().map(|row| i64::from(row.agents)).bind_iter())
        .bind(rows.clone().map(|row| row.born_ms).bind_iter())
        .bind(rows.clone().map(|row| row.seen_ms).bind_iter())
        .bind(rows.map(|row| row.detail.as_str()).bind_iter())
}

fn bind_seen<'q>(query: Bound<'q>, seen: &[(u32, WallMs)]) -> Bound<'q> {
    query
        .bind(seen.iter().map(|(key, _)| i64::from(*key)).bind_iter())
        .bind(seen.iter().map(|(_, seen_ms)| *seen_ms).bind_iter())
}

fn release(row: &ReleaseRow) -> Bound<'_> {
    sqlx::query(RELEASE)
        .bind(i64::from(row.release_key))
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

fn members(writes: &Writes) -> Bound<'_> {
    let rows = writes.members.iter();
    sqlx::query(MEMBERS)
        .bind(rows.clone().map(|row| i64::from(row.release_key)).bind_iter())
        .bind(rows.clone().map(|row| i64::from(row.slice)).bind_iter())
        .bind(rows.clone().map(|row| &row.keys[..]).bind_iter())
        .bind(rows.map(|row| &row.waves[..]).bind_iter())
}

fn analysis_runs(writes: &Writes) -> Bound<'_> {
    let rows = writes.analysis_runs.iter();
    sqlx::query(ANALYSIS_RUNS)
        .bind(rows.clone().map(|row| i64::from(row.release_key)).bind_iter())
        .bind(rows.clone().map(|row| row.block).bind_iter())
        .bind(rows.map(|row| row.detail.as_str()).bind_iter())
}

fn precedents(writes: &Writes) -> Bound<'_> {
    let rows = writes.precedents.iter();
    sqlx::query(PRECEDENTS)
        .bind(rows.clone().map(|row| row.function.as_str()).bind_iter())
        .bind(rows.clone().map(|row| i64::from(row.release_key)).bind_iter())
        .bind(rows.clone().map(|row| row.id.as_str()).bind_iter())
        .bind(rows.clone().map(|row| row.ended_ms).bind_iter())
        .bind(rows.map(|row| row.times.as_str()).bind_iter())
}

fn outbox(writes: &Writes) -> Bound<'_> {
    let rows = writes.outbox.iter();
    sqlx::query(OUTBOX)
        .bind(rows.clone().map(|row| row.id.cast_signed()).bind_iter())
        .bind(rows.clone().map(|row| row.kind.as_str()).bind_iter())
        .bind(rows.clone().map(|row| row.at_ms).bind_iter())
        .bind(rows.clone().map(|row| row.payload.as_str()).bind_iter())
        .bind(rows.map(|row| row.served_ms.map(u64::cast_signed)).bind_iter())
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
    let empty = sqlx::query(IS_EMPTY).fetch_one(&mut *transaction).await.map_err(store_error)?;
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

#[cfg(test)]
mod tests {
    use std::env;

    use sqlx::{Executor, SqlSafeStr};

    use super::*;
    use crate::{
        dump, history,
        postgres::{schema, session},
        transfer,
    };

    #[tokio::test]
    async fn every_statement_can_be_prepared() {
        let url = env::var("CHOIRMASTER_TEST_POSTGRES")
            .expect("CHOIRMASTER_TEST_POSTGRES is not set: run the tests with tests/run");
        let mut conn = PgConnection::connect(&url).await.unwrap();
        // In a schema that lasts as long as the connection.
        sqlx::raw_sql("SET search_path = pg_temp").execute(&mut conn).await.unwrap();
        schema::migrate(&mut conn).await.unwrap();
        let here = [
            schema::VERSION,
            schema::CLEAR_VERSION,
            schema::SET_VERSION,
            lease::LOOK,
            lease::TAKE,
            lease::RENEW,
            lease::GIVE_BACK,
            session::RELEASES,
        ];
        let counts = transfer::COUNTS.map(|(_, sql)| sql);
        let removal = super::super::removal::statements();
        for sql in [STATEMENTS, history::STATEMENTS, dump::STATEMENTS, &here, &counts, &removal].concat() {
            if let Err(error) = conn.prepare(sql.into_sql_str()).await {
                panic!("{sql}\n{error}");
            }
        }
    }
}
