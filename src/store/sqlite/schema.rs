//! The schema's version, and the steps from one to the next.

use std::path::Path;

use sqlx::{Connection, Row, SqliteConnection, sqlite::SqliteConnectOptions};

use super::{connect::BUSY_TIMEOUT, error::store_error};
use crate::{StoreError, check};

/// The steps to the versions from [`FIRST`] on.
const MIGRATIONS: [&str; 1] = [include_str!("../../../migrations/sqlite/0001_initial.sql")];

/// The version after the first step.
pub const FIRST: i64 = crate::check::FIRST_VERSION;

/// The version this program writes.
pub(super) const KNOWN: i64 = FIRST + MIGRATIONS.len().cast_signed() as i64 - 1;

/// Marks the file as ours: "chor" in ASCII.
pub const APPLICATION_ID: i64 = 0x6368_6f72;

pub const MARK: &str = "PRAGMA application_id = 1667788658";

pub(super) const VERSION: &str = "SELECT user_version FROM pragma_user_version";
pub(super) const LOOK: &str = "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
    FROM pragma_user_version, pragma_application_id";

/// `PRAGMA` takes no parameters, so there is one statement a version.
pub const SET_VERSION: [&str; MIGRATIONS.len()] = ["PRAGMA user_version = 100"];

/// Looks at the file without changing a byte of it: its version, 0 if there is nothing yet.
pub(super) async fn check(path: &Path) -> Result<i64, StoreError> {
    match tokio::fs::metadata(path).await {
        // Nothing there, or made by a process that got no further.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Ok(found) if found.len() == 0 => return Ok(0),
        _ => {}
    }
    let options = SqliteConnectOptions::new().filename(path).read_only(true).busy_timeout(BUSY_TIMEOUT);
    let options = sqlx::ConnectOptions::disable_statement_logging(options);
    let mut conn = SqliteConnection::connect_with(&options).await.map_err(store_error)?;
    let found = look(&mut conn).await;
    conn.close().await.map_err(store_error)?;
    found
}

async fn look(conn: &mut SqliteConnection) -> Result<i64, StoreError> {
    let row = sqlx::query(LOOK).fetch_one(conn).await.map_err(store_error)?;
    let number = |index: usize| row.try_get::<i64, _>(index).map_err(store_error);
    let (version, application, objects) = (number(0)?, number(1)?, number(2)?);
    if version == 0 && objects == 0 {
        return Ok(0);
    }
    if application != APPLICATION_ID {
        return Err(StoreError::Refused(
            "the file is a database of another program: name another one".to_owned(),
        ));
    }
    check::is_readable(version, KNOWN)?;
    Ok(version)
}

/// Brings the schema to the version this program knows, each step all or nothing.
pub async fn migrate(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    for (version, (sql, set_version)) in (FIRST..).zip(MIGRATIONS.into_iter().zip(SET_VERSION)) {
        if look(conn).await? >= version {
            continue;
        }
        let mut transaction = conn.begin_with("BEGIN IMMEDIATE").await.map_err(store_error)?;
        for part in [sql, set_version, MARK] {
            sqlx::raw_sql(part).execute(&mut *transaction).await.map_err(store_error)?;
        }
        transaction.commit().await.map_err(store_error)?;
    }
    Ok(())
}
