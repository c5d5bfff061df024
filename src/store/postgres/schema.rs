//! The schema's version, and the steps from one to the next.

use sqlx::{Connection, PgConnection, Row};

use super::error::store_error;
use crate::{StoreError, check, check::FIRST_VERSION};

/// The steps to the versions from [`FIRST_VERSION`] on.
const MIGRATIONS: [&str; 1] = [include_str!("../../../migrations/postgres/0001_initial.sql")];

/// The version this program writes.
pub(super) const KNOWN: i64 = FIRST_VERSION + MIGRATIONS.len().cast_signed() as i64 - 1;

/// Where nobody has made a table yet.
const NOTHING: i64 = 0;

const EXISTS: &str = "SELECT to_regclass('store_version') IS NOT NULL";
pub(super) const VERSION: &str = "SELECT version FROM store_version";

/// Two processes that make the same tables at once do it one after the other. The key is "choir" in ASCII.
const BEGIN_STEP: &str = "SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock(426970081650);
    CREATE TABLE IF NOT EXISTS store_version (version bigint NOT NULL)";
pub(super) const CLEAR_VERSION: &str = "DELETE FROM store_version";
pub(super) const SET_VERSION: &str = "INSERT INTO store_version VALUES ($1)";

/// Looks without changing anything: the version, [`NOTHING`] if there is nothing yet.
pub(super) async fn check(conn: &mut PgConnection) -> Result<i64, StoreError> {
    let found = look(conn).await.map_err(store_error)?;
    if found != NOTHING {
        check::is_readable(found, KNOWN)?;
    }
    Ok(found)
}

async fn look(conn: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let exists: bool = sqlx::query(EXISTS).fetch_one(&mut *conn).await?.try_get(0)?;
    if !exists {
        return Ok(NOTHING);
    }
    sqlx::query(VERSION).fetch_optional(conn).await?.map_or(Ok(NOTHING), |row| row.try_get(0))
}

/// Brings the schema to the version this program knows, each step all or nothing.
pub async fn migrate(conn: &mut PgConnection) -> Result<(), StoreError> {
    for (version, sql) in (FIRST_VERSION..).zip(MIGRATIONS) {
        if check(conn).await? < version {
            migrate_one(conn, version, sql).await.map_err(store_error)?;
        }
    }
    Ok(())
}

async fn migrate_one(conn: &mut PgConnection, version: i64, sql: &'static str) -> Result<(), sqlx::Error> {
    let mut transaction = conn.begin().await?;
    sqlx::raw_sql(BEGIN_STEP).execute(&mut *transaction).await?;
    // Another process may have done it while this one waited.
    if look(&mut transaction).await? < version {
        sqlx::raw_sql(sql).execute(&mut *transaction).await?;
        sqlx::query(CLEAR_VERSION).execute(&mut *transaction).await?;
        sqlx::query(SET_VERSION).bind(version).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}
