//! Each statement is one that its database takes.

use std::env;

use sqlx::{Connection, Executor, PgConnection, SqlSafeStr, SqliteConnection};
use store::tried_alone::{postgres, sqlite};

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
    let url = env::var("CHOIRMASTER_TEST_POSTGRES")
        .expect("CHOIRMASTER_TEST_POSTGRES is not set: run the tests with tests/run");
    let mut conn = PgConnection::connect(&url).await.unwrap();
    // In a schema that lasts as long as the connection.
    sqlx::raw_sql("SET search_path = pg_temp").execute(&mut conn).await.unwrap();
    postgres::migrate(&mut conn).await.unwrap();
    for sql in postgres::all_statements() {
        if let Err(error) = conn.prepare(sql.into_sql_str()).await {
            panic!("{sql}\n{error}");
        }
    }
}

#[test]
fn each_step_of_sqlite_sets_its_own_version_and_the_mark_is_the_id() {
    for (step, sql) in (1..).zip(sqlite::SET_VERSION) {
        assert_eq!(sql, format!("PRAGMA user_version = {step}"));
    }
    assert_eq!(sqlite::MARK, format!("PRAGMA application_id = {}", sqlite::APPLICATION_ID));
}
