//! Who may write.

use std::time::Duration;

use sqlx::Connection;
use store::{StoreError, options::OpenOptions, rows::Writes, url};

use super::{
    everything::Loaded,
    place::{Kind, Place, stories},
    rows::{audit, batch, child, pruning},
};

stories!(
    a_second_manager_is_told_who_holds_the_store,
    what_was_given_back_is_taken_at_once_and_goes_on_where_it_was,
    a_standby_takes_over_when_the_lease_is_given_back,
    who_lost_the_lease_can_write_nothing,
    a_commit_of_unknown_outcome_can_be_made_again,
    two_that_open_an_empty_store_at_once_do_not_collide,
);

async fn a_second_manager_is_told_who_holds_the_store(place: &Place) {
    let (mut writer, _) = place.open().await;
    let error = url::open(&place.url, &OpenOptions::new()).await.unwrap_err();
    let StoreError::Held { holder, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*holder, writer.lease().holder);
    assert!(holder.contains(&format!("pid={} ", std::process::id())), "{holder}");
    // The first one doesn't notice.
    let lease = writer.lease().clone();
    writer.commit(&batch(&lease, 0, Writes::default())).await.unwrap();
}

async fn what_was_given_back_is_taken_at_once_and_goes_on_where_it_was(place: &Place) {
    let (mut first, _) = place.open().await;
    let lease = first.lease().clone();
    for seq in 0..3 {
        first.commit(&batch(&lease, seq, Writes::default())).await.unwrap();
    }
    first.renew(12_345).await.unwrap();
    first.release().await.unwrap();
    assert!(matches!(
        first.commit(&batch(&lease, 3, Writes::default())).await,
        Err(StoreError::LeaseLost(_))
    ));
    let (second, _) = place.open().await;
    let found = second.lease();
    assert_eq!((found.epoch, found.seq, found.served_ms), (lease.epoch + 1, 3, 12_345));
}

async fn a_standby_takes_over_when_the_lease_is_given_back(place: &Place) {
    let (mut first, _) = place.open().await;
    let url = place.url.clone();
    let standby = tokio::spawn(async move { url::open(&url, &OpenOptions::standby()).await.unwrap() });
    let lease = first.lease().clone();
    first.commit(&batch(&lease, 0, Writes::default())).await.unwrap();
    assert!(!standby.is_finished());
    first.release().await.unwrap();
    let (mut second, _) = tokio::time::timeout(Duration::from_secs(30), standby).await.unwrap().unwrap();
    let lease = second.lease().clone();
    assert_eq!(lease.seq, 1);
    second.commit(&batch(&lease, 1, Writes::default())).await.unwrap();
}

async fn who_lost_the_lease_can_write_nothing(place: &Place) {
    let (mut writer, reader) = place.open().await;
    let lease = writer.lease().clone();
    let first = Writes { audit: vec![audit(1, 0, None)], ..Writes::default() };
    writer.commit(&batch(&lease, 0, first)).await.unwrap();
    writer.prune_audit(pruning(0)).await.unwrap();
    place.sql("UPDATE lease SET epoch = epoch + 1, holder = 'somebody else'").await;
    let late = Writes { children: vec![child(1)], audit: vec![audit(2, 0, None)], ..Writes::default() };
    let error = writer.commit(&batch(&lease, 1, late)).await.unwrap_err();
    assert!(matches!(&error, StoreError::LeaseLost(why) if why.contains("somebody else")), "{error:?}");
    assert!(matches!(writer.renew(1).await, Err(StoreError::LeaseLost(_))));
    assert_eq!(writer.prune_audit(pruning(1_000)).await.unwrap(), 0);
    assert_eq!(reader.audit_end().await.unwrap(), Some((1, 0)));
    writer.release().await.unwrap();
    // Its good-bye didn't end the other's.
    let source = url::open_source(&place.url).await.unwrap();
    assert_eq!(source.info().await.unwrap().lease.holder, "somebody else");
}

async fn a_commit_of_unknown_outcome_can_be_made_again(place: &Place) {
    let (mut writer, reader) = place.open().await;
    let lease = writer.lease().clone();
    let writes = Writes { audit: vec![audit(1, 0, None)], children: vec![child(1)], ..Writes::default() };
    let first = batch(&lease, 0, writes);
    for _ in 0..3 {
        writer.commit(&first).await.unwrap();
    }
    assert_eq!(reader.audit_end().await.unwrap(), Some((1, 0)));
    writer.commit(&batch(&lease, 1, Writes::default())).await.unwrap();
    // But not after the next one, nor before its time.
    for seq in [0, 7] {
        let error = writer.commit(&batch(&lease, seq, Writes::default())).await.unwrap_err();
        assert!(matches!(error, StoreError::LeaseLost(_)), "{error:?}");
    }
    let mut loaded = Loaded::default();
    writer.load(&mut loaded).await.unwrap();
    assert_eq!(loaded.children.len(), 1);
}

async fn two_that_open_an_empty_store_at_once_do_not_collide(place: &Place) {
    let open = || {
        let url = place.url.clone();
        tokio::spawn(async move { url::open(&url, &OpenOptions::new()).await })
    };
    let opening: Vec<_> = (0..4).map(|_| open()).collect();
    let mut opened = Vec::new();
    for one in opening {
        match one.await.unwrap() {
            Ok(writer) => opened.push(writer),
            Err(StoreError::Held { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(opened.len(), 1);
}

#[tokio::test]
async fn a_writer_survives_the_loss_of_its_connection() {
    Place::with(Kind::Postgres, async |place| {
        let (mut writer, reader) = place.open().await;
        let lease = writer.lease().clone();
        for seq in 0..4 {
            place
                .sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()",
                )
                .await;
            let writes = Writes { audit: vec![audit(seq + 1, 0, None)], ..Writes::default() };
            let next = batch(&lease, seq, writes);
            let error = writer.commit(&next).await.unwrap_err();
            assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
            writer.commit(&next).await.unwrap();
            assert_eq!(reader.audit_end().await.unwrap(), Some((seq + 1, 0)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_commit_that_meets_a_locked_lease_is_given_up_and_then_made_again() {
    Place::with(Kind::Postgres, async |place| {
        let (mut writer, reader) = place.open().await;
        let lease = writer.lease().clone();
        let mut other = sqlx::PgConnection::connect(&place.url).await.unwrap();
        let mut lock = other.begin().await.unwrap();
        sqlx::query("SELECT 1 FROM lease FOR UPDATE").execute(&mut *lock).await.unwrap();
        let next = batch(&lease, 0, Writes { audit: vec![audit(1, 0, None)], ..Writes::default() });
        let error = writer.commit(&next).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        lock.rollback().await.unwrap();
        writer.commit(&next).await.unwrap();
        assert_eq!(reader.audit_end().await.unwrap(), Some((1, 0)));
    })
    .await;
}

#[tokio::test]
async fn on_postgres_a_holder_gone_or_silent_is_replaced_and_a_living_one_is_not() {
    Place::with(Kind::Postgres, async |place| {
        let (writer, _) = place.open().await;
        let epoch = writer.lease().epoch;
        // Silent for longer than a lease lives.
        place.sql("UPDATE lease SET renewed_ms = renewed_ms - 10001").await;
        let (writer, _) = place.open().await;
        assert_eq!(writer.lease().epoch, epoch + 1);
        // Of this boot, but started before everything that runs: the process number is somebody else's now.
        place.sql("UPDATE lease SET holder = regexp_replace(holder, 'started=[0-9]+', 'started=1')").await;
        let (writer, _) = place.open().await;
        assert_eq!(writer.lease().epoch, epoch + 2);
        // Of another machine: nothing is known about it.
        place.sql("UPDATE lease SET holder = regexp_replace(holder, 'host=[^ ]+', 'host=far-away')").await;
        let error = url::open(&place.url, &OpenOptions::new()).await.unwrap_err();
        let StoreError::Held { holder, retry_after } = error else { panic!("{error:?}") };
        assert!(holder.contains("far-away"));
        assert!(retry_after <= Duration::from_secs(10), "{retry_after:?}");
    })
    .await;
}

#[tokio::test]
async fn on_sqlite_a_holder_that_is_gone_leaves_the_store_free() {
    Place::with(Kind::Sqlite, async |place| {
        let (writer, _) = place.open().await;
        let epoch = writer.lease().epoch;
        // Without a good-bye, as when the process is killed.
        drop(writer);
        let (writer, _) = place.open().await;
        assert_eq!(writer.lease().epoch, epoch + 1);
        // By another name it is the same store.
        let other_name = place.file().with_file_name("other.db");
        std::os::unix::fs::symlink(place.file(), &other_name).unwrap();
        let error = url::open(&format!("sqlite://{}", other_name.display()), &OpenOptions::new()).await;
        assert!(matches!(error, Err(StoreError::Held { .. })), "{error:?}");
    })
    .await;
}
