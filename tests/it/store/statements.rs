//! Each statement is one that its database takes.

use sqlx::{Connection, Executor, PgConnection, SqlSafeStr, SqliteConnection};
use store::tried_alone::{postgres, sqlite};

use super::place::{Kind, Place};

#[tokio::test]
async fn every_statement_can_be_prepared_on_sqlite() {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    sqlite::migrate(&mut conn).await.unwrap();
    for sql in sqlite::all_statements() {
        if let Err(error) = conn.prepare(sql.into_sql_str()).await {
            panic!("{sql}\n{error}");
        }
    }
}

#[tokio::test]
async fn every_statement_can_be_prepared_on_postgres() {
    // In a database of its own: views have a schema of theirs.
    Place::with(Kind::Postgres, async |place: &Place| {
        let mut conn = PgConnection::connect(&place.url).await.unwrap();
        postgres::migrate(&mut conn).await.unwrap();
        for sql in postgres::all_statements() {
            if let Err(error) = conn.prepare(sql.into_sql_str()).await {
                panic!("{sql}\n{error}");
            }
        }
        conn.close().await.unwrap();
    })
    .await;
}

#[test]
fn each_step_of_sqlite_sets_its_own_version_and_the_mark_is_the_id() {
    for (version, sql) in (sqlite::FIRST..).zip(sqlite::SET_VERSION) {
        assert_eq!(sql, format!("PRAGMA user_version = {version}"));
    }
    assert_eq!(sqlite::MARK, format!("PRAGMA application_id = {}", sqlite::APPLICATION_ID));
}
