//! The schema's version, and the steps from one to the next.

use sqlx::{Connection, PgConnection, Row};

use super::error::store_error;
use crate::StoreError;

/// The steps: after the first `n` the version is `n`.
const MIGRATIONS: [&str; 14] = [
    include_str!("../../../migrations/postgres/0001_initial.sql"),
    include_str!("../../../migrations/postgres/0002_analysis.sql"),
    include_str!("../../../migrations/postgres/0060_serving_time.sql"),
    include_str!("../../../migrations/postgres/0061_results_beside_state.sql"),
    include_str!("../../../migrations/postgres/0080_history.sql"),
    include_str!("../../../migrations/postgres/0090_room_for_results.sql"),
    include_str!("../../../migrations/postgres/0091_settings_and_pointers.sql"),
    include_str!("../../../migrations/postgres/0100_traffic.sql"),
    include_str!("../../../migrations/postgres/0110_service_releases.sql"),
    include_str!("../../../migrations/postgres/0120_tenants_and_users.sql"),
    include_str!("../../../migrations/postgres/0121_latencies.sql"),
    include_str!("../../../migrations/postgres/0130_winner.sql"),
    include_str!("../../../migrations/postgres/0140_every_variation.sql"),
    include_str!("../../../migrations/postgres/0150_told.sql"),
];

/// The version this program writes.
pub(super) const KNOWN: i64 = MIGRATIONS.len().cast_signed() as i64;

const EXISTS: &str = "SELECT to_regclass('store_version') IS NOT NULL";
pub(super) const VERSION: &str = "SELECT version FROM store_version";

/// Two processes that make the same tables at once do it one after the other. The key is "choir" in ASCII.
const BEGIN_STEP: &str = "SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock(426970081650);
    CREATE TABLE IF NOT EXISTS store_version (version bigint NOT NULL)";
pub(super) const CLEAR_VERSION: &str = "DELETE FROM store_version";
pub(super) const SET_VERSION: &str = "INSERT INTO store_version VALUES ($1)";

/// Looks without changing anything: the version, 0 if there is nothing yet.
pub(super) async fn check(conn: &mut PgConnection) -> Result<i64, StoreError> {
    let found = look(conn).await.map_err(store_error)?;
    if found > KNOWN { Err(StoreError::Newer { found, known: KNOWN }) } else { Ok(found) }
}

async fn look(conn: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let exists: bool = sqlx::query(EXISTS).fetch_one(&mut *conn).await?.try_get(0)?;
    if !exists {
        return Ok(0);
    }
    sqlx::query(VERSION).fetch_optional(conn).await?.map_or(Ok(0), |row| row.try_get(0))
}

/// Brings the schema to the version this program knows, each step all or nothing.
pub async fn migrate(conn: &mut PgConnection) -> Result<(), StoreError> {
    for (step, sql) in (0_i64..).zip(MIGRATIONS) {
        if check(conn).await? <= step {
            migrate_one(conn, step, sql).await.map_err(store_error)?;
        }
    }
    Ok(())
}

async fn migrate_one(conn: &mut PgConnection, step: i64, sql: &'static str) -> Result<(), sqlx::Error> {
    let mut transaction = conn.begin().await?;
    sqlx::raw_sql(BEGIN_STEP).execute(&mut *transaction).await?;
    // Another process may have done it while this one waited.
    if look(&mut transaction).await? == step {
        sqlx::raw_sql(sql).execute(&mut *transaction).await?;
        sqlx::query(CLEAR_VERSION).execute(&mut *transaction).await?;
        sqlx::query(SET_VERSION).bind(step + 1).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
