//! Export, import, and the commands for them.

use clap::Parser;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, TestRunner},
};
use store::{StoreError, options::OpenOptions, rows::Writes, transfer, url};

use super::{
    everything::Everything,
    place::{Kind, Place},
    rows::{any_batches, batch, child},
};

async fn export(url: &str) -> Vec<u8> {
    let mut out = Vec::new();
    transfer::export(&url::open_source(url).await.unwrap(), &mut out, &mut |_| {}).await.unwrap();
    out
}

async fn import(url: &str, mut file: &[u8]) -> Result<u64, StoreError> {
    let mut target = url::open_target(url, &OpenOptions::new()).await?;
    let done = transfer::import(&mut *target, &mut file, &mut |_| {}).await;
    target.finish().await?;
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn export_and_import_between_store_kinds_preserves_everything() {
    let mut runner = TestRunner::new(Config::default());
    for (from, to) in [(Kind::Sqlite, Kind::Postgres), (Kind::Postgres, Kind::Sqlite)] {
        for _ in 0..4 {
            let batches = any_batches().new_tree(&mut runner).unwrap().current();
            Place::with(from, async |from| {
                let (mut writer, _) = from.open().await;
                let lease = writer.lease().clone();
                let mut model = Everything::default();
                for (seq, writes) in (0..).zip(&batches) {
                    writer.commit(&batch(&lease, seq, writes.clone())).await.unwrap();
                    model.apply(writes);
                }
                // While the manager works.
                let file = export(&from.url).await;
                Place::with(to, async |to| {
                    import(&to.url, &file).await.unwrap();
                    let (mut writer, reader) = to.open().await;
                    assert_eq!(writer.lease().seq, batches.len() as u64);
                    assert_eq!(writer.lease().served_ms, (batches.len() as u64 - 1) * 10);
                    assert_eq!(Everything::read(&mut *writer, &*reader, &model).await, model);
                    assert_eq!(without_lease(&export(&to.url).await), without_lease(&file));
                })
                .await;
            })
            .await;
        }
    }
}

/// Epoch and holder of the lease, and with them the digest, differ from store to store.
fn without_lease(file: &[u8]) -> Vec<String> {
    let lines = std::str::from_utf8(file).unwrap().lines();
    lines
        .filter(|line| !line.starts_with(r#"{"lease""#) && !line.starts_with(r#"{"end""#))
        .map(str::to_owned)
        .collect()
}

/// An export of a store with two children.
async fn small_export(kind: Kind) -> Vec<u8> {
    Place::with(kind, async |place| {
        let (mut writer, _) = place.open().await;
        let lease = writer.lease().clone();
        let children = vec![child(1), child(2)];
        writer.commit(&batch(&lease, 0, Writes { children, ..Writes::default() })).await.unwrap();
        export(&place.url).await
    })
    .await
}

#[tokio::test]
async fn a_file_that_was_cut_or_changed_is_refused_and_leaves_the_store_empty() {
    let file = small_export(Kind::Sqlite).await;
    let text = String::from_utf8(file.clone()).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..file.len()).step_by(97).map(|end| file[..end].to_vec()).collect();
    damaged.push(file[..file.len() - 1].to_vec());
    damaged.push(text.replace("child-2", "child-3").into_bytes());
    let without_a_row: Vec<_> = text.split_inclusive('\n').filter(|line| !line.contains("child-2")).collect();
    damaged.push(without_a_row.concat().into_bytes());
    for version in [5, 7] {
        let other = text.replace(r#""version":6"#, &format!(r#""version":{version}"#));
        assert_ne!(other, text);
        damaged.push(other.into_bytes());
    }
    for kind in [Kind::Sqlite, Kind::Postgres] {
        Place::with(kind, async |place| {
            for file in &damaged {
                let error = import(&place.url, file).await.unwrap_err();
                assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
            }
            let info = url::open_source(&place.url).await.unwrap().info().await.unwrap();
            assert!(info.rows.values().all(|rows| *rows == 0), "{info:?}");
            assert_eq!(info.lease.seq, 0);
            // The whole one still goes in, and only once.
            assert_eq!(import(&place.url, &file).await.unwrap(), 3);
            let error = import(&place.url, &file).await.unwrap_err();
            let said = error.to_string();
            assert_eq!(
                said,
                "the store refused: the store is not empty: import into a new one; nothing was changed"
            );
        })
        .await;
    }
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: choirmaster::cli::store::StoreArgs,
}

async fn command(words: &[&str]) -> (u8, String) {
    let args = Command::try_parse_from([&["store"], words].concat()).unwrap().args;
    let mut out = Vec::new();
    let code = choirmaster::cli::store::run(args, &mut out).await;
    (code, String::from_utf8(out).unwrap())
}

#[tokio::test]
async fn the_commands_move_a_store_and_tell_of_it() {
    Place::with(Kind::Sqlite, async |place| {
        let missing = command(&["info", "--store", &place.url]).await;
        assert_eq!(missing, (1, String::new()));
        let (mut writer, _) = place.open().await;
        let lease = writer.lease().clone();
        let children = vec![child(1), child(2)];
        writer.commit(&batch(&lease, 0, Writes { children, ..Writes::default() })).await.unwrap();
        writer.release().await.unwrap();
        let file = place.file().with_file_name("backup.jsonl");
        let copy = format!("sqlite://{}", place.file().with_file_name("copy.db").display());
        let file = file.to_str().unwrap();
        assert_eq!(command(&["export", "--store", &place.url, "--out", file]).await.0, 0);
        assert_eq!(command(&["import", "--store", &copy, file]).await.0, 0);
        assert_eq!(command(&["import", "--store", &copy, file]).await.0, 1);
        let (code, told) = command(&["info", "--store", &copy]).await;
        assert_eq!(code, 0);
        let (version, told) = told.split_once('\n').unwrap();
        assert!(version.starts_with("schema version    "), "{version}");
        insta::assert_snapshot!(told, @r#"
    lease held by     nobody
    epoch             2
    commits           1
    served            0 s
    analysis_runs     0
    archives          0
    assignments       0
    audit             0
    children          2
    deployments       0
    led_services      0
    members           0
    outbox            0
    pointers          0
    precedents        0
    registered        0
    releases          0
    router_orders     0
    routers           0
    service_releases  0
    settings          0
    stage_results     0
    tenants           0
    traffic_history   0
    users             0
    workflow_parts    0
    workflows         0
    "#);
        let (code, told) = command(&["info", "--store", &copy, "--json"]).await;
        assert_eq!(
            (code, serde_json::from_str::<serde_json::Value>(&told).unwrap()["rows"]["children"].as_u64()),
            (0, Some(2))
        );
    })
    .await;
}
