//! What stores are made of.

use std::collections::BTreeSet;

use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};
use serde_json::Value;
use sqlx::{Connection as _, PgConnection, Row as _, SqliteConnection};
use store::{
    transfer,
    tried_alone::{postgres, sqlite},
    url,
};

use crate::store::{
    place::{Kind, Place},
    rows::{any_batches, batch},
};

#[tokio::test]
async fn a_store_of_sqlite_has_the_same_tables_and_columns() {
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    sqlite::migrate(&mut conn).await.unwrap();
    let columns = sqlx::query(
        "SELECT s.type || ' ' || s.name || ' (' || \
            (SELECT group_concat(name || ' ' || type, ', ') FROM pragma_table_xinfo(s.name)) || ')' AS line \
        FROM sqlite_master s WHERE s.type IN ('table', 'view') \
        UNION ALL \
        SELECT 'index ' || s.name || ' on ' || s.tbl_name || ' (' || \
            (SELECT group_concat(coalesce(name, '…'), ', ') FROM pragma_index_info(s.name)) || ')' \
        FROM sqlite_master s WHERE s.type NOT IN ('table', 'view') ORDER BY 1",
    );
    let lines = columns.fetch_all(&mut conn).await.unwrap();
    let lines: Vec<String> = lines.iter().map(|row| row.get("line")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn a_store_of_postgres_has_the_same_tables_and_columns() {
    Place::with(Kind::Postgres, async |place: &Place| {
        let mut conn = PgConnection::connect(&place.url).await.unwrap();
        postgres::migrate(&mut conn).await.unwrap();
        let columns = sqlx::query(
            "SELECT c.table_name || ' (' || string_agg(c.column_name || ' ' || c.data_type, ', ' ORDER BY c.ordinal_position) || ')' \
                AS line \
            FROM information_schema.columns c WHERE c.table_schema = current_schema() GROUP BY c.table_name \
            UNION ALL \
            SELECT substring(i.indexdef FROM 'INDEX .*') FROM pg_indexes i WHERE i.schemaname = current_schema() \
            ORDER BY 1",
        );
        let lines = columns.fetch_all(&mut conn).await.unwrap();
        let lines: Vec<String> = lines.iter().map(|row| row.get("line")).collect();
        insta::assert_snapshot!(lines.join("\n"));
        conn.close().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_rows_of_an_export_have_the_same_names() {
    let mut runner = TestRunner::deterministic();
    let mut names = BTreeSet::new();
    for _ in 0..8 {
        let batches = any_batches().new_tree(&mut runner).unwrap().current();
        Place::with(Kind::Sqlite, async |place: &Place| {
            let (mut writer, _) = place.open().await;
            let lease = writer.lease().clone();
            for (seq, writes) in (0..).zip(batches) {
                writer.commit(&batch(&lease, seq, writes)).await.unwrap();
            }
            let mut file = Vec::new();
            let source = url::open_source(&place.url).await.unwrap();
            transfer::export(&source, &mut file, &mut |_| {}).await.unwrap();
            let lines = serde_json::Deserializer::from_slice(&file).into_iter::<Value>().skip(1);
            names.extend(
                lines.flat_map(|line| line.unwrap().as_object().unwrap().keys().cloned().collect::<Vec<_>>()),
            );
        })
        .await;
    }
    insta::assert_snapshot!(names.into_iter().collect::<Vec<_>>().join("\n"));
}
