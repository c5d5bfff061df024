//! A look into the store, behind the manager's back.

use std::path::PathBuf;

use sqlx::{
    ConnectOptions, Connection, Decode, PgConnection, Row, SqliteConnection, Type,
    sqlite::SqliteConnectOptions,
};

use crate::store::place::{Kind, Place};

/// Beside the store; removed with it.
pub fn folder(place: &Place) -> PathBuf {
    place.file().parent().unwrap().to_owned()
}

fn texts<'r, R: Row>(rows: &'r [R]) -> Vec<Vec<String>>
where
    usize: sqlx::ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
{
    rows.iter().map(|row| (0..row.len()).map(|at| row.get(at)).collect()).collect()
}

/// What the store holds; every column must be a text. `None`: it can't be read at the moment.
pub async fn rows(place: &Place, sql: &'static str) -> Option<Vec<Vec<String>>> {
    match place.kind {
        Kind::Sqlite => {
            let options = SqliteConnectOptions::new().filename(place.file()).read_only(true);
            let mut conn: SqliteConnection = options.disable_statement_logging().connect().await.ok()?;
            let rows = sqlx::query(sql).fetch_all(&mut conn).await;
            conn.close().await.ok()?;
            Some(texts(&rows.ok()?))
        }
        Kind::Postgres => {
            let mut conn = PgConnection::connect(&place.url).await.ok()?;
            let rows = sqlx::query(sql).fetch_all(&mut conn).await;
            conn.close().await.ok()?;
            Some(texts(&rows.ok()?))
        }
    }
}
