//! What every store must do.

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, TestRunner},
};
use sqlx::{Connection, Row};
use store::{
    AuditFilter, DiskSpace, Pruning, Reader, ReleaseFilter, StoreError, StoreKind, Writer,
    options::OpenOptions,
    rows::{
        AnalysisRunRow, ArchiveRow, AssignmentRow, AuditRow, DeploymentRow, MembersRow, OutboxRow,
        PrecedentRow, REMOVED, ReleaseRow, StageResultRow, Writes,
    },
    url,
};

use super::{
    everything::{Everything, Loaded},
    place::{Kind, Place, stories},
    rows::{any_batches, assignment, audit, batch, child, pruning, release, summary},
};

stories!(
    what_is_committed_is_read_back_as_it_was,
    a_batch_with_one_bad_row_leaves_no_trace,
    an_id_can_pass_from_one_child_to_another_in_one_batch,
    text_with_nul_and_numbers_too_large_are_refused_before_anything_is_written,
    releases_are_found_by_state_and_function,
    audit_trail_is_pruned_by_serving_time_regardless_of_clock,
    rows_of_before_the_first_note_of_their_age_are_as_old_as_that,
    removed_release_and_its_references_are_pruned_in_bounded_steps,
    releases_that_are_over_are_told_the_oldest_first,
    a_bad_row_is_named_with_table_key_and_column,
    a_store_of_another_version_is_refused_by_name_and_not_touched,
    many_rows_fit_into_one_batch,
    each_frequent_table_is_written_by_a_commit_that_writes_nothing_else,
    a_store_says_which_it_is_and_how_much_space_its_disk_has,
);

/// Cases of the property; each starts with a fresh store.
const CASES: u32 = 12;

async fn what_is_committed_is_read_back_as_it_was(place: &Place) {
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..CASES {
        let batches = any_batches().new_tree(&mut runner).unwrap().current();
        Place::with(place.kind, async |place| {
            let mut model = Everything::default();
            let (mut writer, reader) = place.open().await;
            for (seq, writes) in (0..).zip(&batches) {
                let lease = writer.lease().clone();
                writer.commit(&batch(&lease, seq, writes.clone())).await.unwrap();
                model.apply(writes);
            }
            let found = Everything::read(&mut *writer, &*reader, &model).await;
            assert_eq!(found, model);
            // And after a restart.
            writer.release().await.unwrap();
            let (mut writer, reader) = place.open().await;
            assert_eq!(writer.lease().seq, batches.len() as u64);
            assert_eq!(Everything::read(&mut *writer, &*reader, &model).await, model);
        })
        .await;
    }
}

async fn a_batch_with_one_bad_row_leaves_no_trace(place: &Place) {
    let (mut writer, reader) = place.open().await;
    let lease = writer.lease().clone();
    let first = Writes { children: vec![child(1)], audit: vec![audit(1, 0, None)], ..Writes::default() };
    writer.commit(&batch(&lease, 0, first)).await.unwrap();
    // The id is another child's; once alone and once beside a rare table.
    let mut twin = child(2);
    twin.id = child(1).id;
    let outbox =
        OutboxRow { id: 1, kind: "webhook".to_owned(), at_ms: 1, payload: "{}".to_owned(), served_ms: None };
    for outbox in [vec![], vec![outbox]] {
        let bad = Writes {
            children: vec![child(3), twin.clone()],
            assignments: vec![assignment(1, 3)],
            audit: vec![audit(2, 0, None)],
            outbox,
            ..Writes::default()
        };
        let error = writer.commit(&batch(&lease, 1, bad)).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
        assert_eq!(reader.assignment(1, 3).await.unwrap(), None);
        assert_eq!(reader.audit_end().await.unwrap(), Some((1, 0)));
    }
    let mut loaded = Loaded::default();
    writer.load(&mut loaded).await.unwrap();
    assert_eq!(loaded.children.into_values().collect::<Vec<_>>(), [child(1)]);
    assert!(loaded.outbox.is_empty());
    // The same place in the sequence is still free.
    writer.commit(&batch(&lease, 1, Writes::default())).await.unwrap();
}

async fn an_id_can_pass_from_one_child_to_another_in_one_batch(place: &Place) {
    let (mut writer, _) = place.open().await;
    let lease = writer.lease().clone();
    let first = Writes { children: vec![child(1)], ..Writes::default() };
    writer.commit(&batch(&lease, 0, first)).await.unwrap();
    let mut heir = child(2);
    heir.id = child(1).id;
    let second = Writes {
        children_gone: vec![1],
        children: vec![heir.clone()],
        seen: vec![(2, 77), (99, 1)],
        ..Writes::default()
    };
    writer.commit(&batch(&lease, 1, second)).await.unwrap();
    heir.seen_ms = 77;
    let mut loaded = Loaded::default();
    writer.load(&mut loaded).await.unwrap();
    assert_eq!(loaded.children.into_values().collect::<Vec<_>>(), [heir]);
}

async fn text_with_nul_and_numbers_too_large_are_refused_before_anything_is_written(place: &Place) {
    let (mut writer, reader) = place.open().await;
    let lease = writer.lease().clone();
    let with_nul = AssignmentRow { detail: "a\0b".to_owned(), ..assignment(1, 1) };
    let nul = Writes { assignments: vec![assignment(1, 2), with_nul], ..Writes::default() };
    let large = Writes { audit: vec![audit(u64::MAX, 0, None)], ..Writes::default() };
    for writes in [nul, large] {
        let error = writer.commit(&batch(&lease, 0, writes)).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    }
    assert_eq!(reader.assignments(1, None, 10).await.unwrap(), []);
    writer.commit(&batch(&lease, 0, Writes::default())).await.unwrap();
}

async fn releases_are_found_by_state_and_function(place: &Place) {
    let (mut writer, reader) = place.open().await;
    let lease = writer.lease().clone();
    let releases = vec![
        release(1, "Done", r#"["sieve"]"#),
        release(2, "Running", r#"["sieve","resize"]"#),
        release(3, "Running", r#"["resize"]"#),
        release(4, "Done", "[]"),
    ];
    writer.commit(&batch(&lease, 0, Writes { releases, ..Writes::default() })).await.unwrap();
    let some = |text: &str| Some(text.to_owned());
    for (state, function, keys) in [
        (None, None, vec![4, 3, 2, 1]),
        (some("Running"), None, vec![3, 2]),
        (None, some("sieve"), vec![2, 1]),
        (some("Running"), some("sieve"), vec![2]),
        (some("running"), None, vec![]),
        (None, some("siev"), vec![]),
    ] {
        let states = Vec::from_iter(state);
        let filter = ReleaseFilter { before: None, states, function, prefix: None, limit: 10 };
        let found = reader.releases(&filter).await.unwrap();
        assert_eq!(found.iter().map(|row| row.release_key).collect::<Vec<_>>(), keys, "{filter:?}");
    }
    let either = ReleaseFilter {
        states: vec!["Done".to_owned(), "Running".to_owned(), "Runn".to_owned()],
        limit: 10,
        ..ReleaseFilter::default()
    };
    let found = reader.releases(&either).await.unwrap();
    assert!(found.iter().all(|row| row.state == "Done" || row.state == "Running"), "{found:?}");
    assert!(found.len() >= 3, "{found:?}");
    // A prefix is no pattern, and its case counts.
    for (prefix, keys) in [
        ("", vec![4, 3, 2, 1]),
        ("r", vec![4, 3, 2, 1]),
        ("r3", vec![3]),
        ("R", vec![]),
        ("_", vec![]),
        ("r%", vec![]),
    ] {
        let filter = ReleaseFilter { prefix: some(prefix), limit: 10, ..ReleaseFilter::default() };
        let found = reader.releases(&filter).await.unwrap();
        assert_eq!(found.iter().map(|row| row.release_key).collect::<Vec<_>>(), keys, "{filter:?}");
    }
    assert_eq!(reader.release("r9").await.unwrap(), None);
    reader.ping().await.unwrap();
}

const YEAR_MS: i64 = 365 * 24 * 60 * 60 * 1_000;

/// One commit with one audit row, which a wall clock says is of `at_ms`.
async fn commit_audit(writer: &mut dyn Writer, seq: u64, at_ms: i64) {
    let lease = writer.lease().clone();
    let row = AuditRow { at_ms, ..audit(seq, 0, None) };
    writer.commit(&batch(&lease, seq, Writes { audit: vec![row], ..Writes::default() })).await.unwrap();
}

async fn audit_left(reader: &dyn Reader) -> Vec<u64> {
    let left = reader.audit(&AuditFilter { limit: 100, ..AuditFilter::default() }).await.unwrap();
    left.iter().map(|row| row.seq).collect()
}

async fn audit_trail_is_pruned_by_serving_time_regardless_of_clock(place: &Place) {
    let (mut writer, reader) = place.open().await;
    let clocks = [0, YEAR_MS, -YEAR_MS, i64::MAX, i64::MIN];
    for (seq, at_ms) in (0..10).zip(clocks.into_iter().cycle()) {
        commit_audit(&mut *writer, seq, at_ms).await;
        let gone = writer.prune_audit(pruning(seq * 250)).await.unwrap();
        // Each is there for a second, which is four commits.
        assert_eq!(gone, u64::from(seq >= 4), "{seq}");
    }
    assert_eq!(audit_left(&*reader).await, [6, 7, 8, 9]);
    for served_ms in [2_250, 2_250, 0] {
        assert_eq!(writer.prune_audit(pruning(served_ms)).await.unwrap(), 0);
    }
    // A restart is no passing of time.
    writer.release().await.unwrap();
    let (mut writer, reader) = place.open().await;
    assert_eq!(writer.prune_audit(pruning(2_250)).await.unwrap(), 0);
    let slice = Pruning { limit: 2, ..pruning(9_000) };
    assert_eq!(writer.prune_audit(slice).await.unwrap(), 2);
    assert_eq!(writer.prune_audit(slice).await.unwrap(), 2);
    assert_eq!(audit_left(&*reader).await, [0; 0]);
}

async fn rows_of_before_the_first_note_of_their_age_are_as_old_as_that(place: &Place) {
    let (mut writer, reader) = place.open().await;
    for seq in 0..3 {
        commit_audit(&mut *writer, seq, 0).await;
    }
    let long = 10_000_000;
    for served_ms in [long, long + 999] {
        assert_eq!(writer.prune_audit(pruning(served_ms)).await.unwrap(), 0);
    }
    assert_eq!(audit_left(&*reader).await, [0, 1, 2]);
    assert_eq!(writer.prune_audit(pruning(long + 1_000)).await.unwrap(), 3);
}

/// A release with rows in every table that has some of releases.
fn whole_release(key: u32, archive: u8, children: u32) -> Writes {
    let digest = vec![archive; 32];
    let row = |child_key| {
        let summary = summary(&[1.0; 11], None, None);
        let (status, at_ms, digest) = (4, 1, 1);
        StageResultRow { release_key: key, child_key, attempt: 1, stage: 0, status, at_ms, digest, summary }
    };
    Writes {
        releases: vec![ReleaseRow { archive: digest.clone(), ..release(key, "Done", r#"["f"]"#) }],
        archives: vec![ArchiveRow { digest, bytes: vec![archive].into() }],
        members: vec![MembersRow { release_key: key, slice: 0, keys: vec![1], waves: vec![] }],
        assignments: (0..children).map(|child| assignment(key, child)).collect(),
        stage_results: (0..children).map(row).collect(),
        analysis_runs: vec![AnalysisRunRow { release_key: key, block: 0, detail: "{}".to_owned() }],
        precedents: vec![PrecedentRow {
            function: "f".to_owned(),
            release_key: key,
            id: format!("r{key}"),
            ended_ms: Some(key.into()),
            times: "[]".to_owned(),
        }],
        audit: vec![audit(u64::from(key), 0, Some(key))],
        ..Writes::default()
    }
}

async fn removed_release_and_its_references_are_pruned_in_bounded_steps(place: &Place) {
    let (mut writer, reader) = place.open().await;
    let lease = writer.lease().clone();
    // The first two share their functions.
    for (seq, (key, archive)) in (0..).zip([(1, 7), (2, 7), (3, 8), (4, 9)]) {
        writer.commit(&batch(&lease, seq, whole_release(key, archive, 10))).await.unwrap();
    }
    assert_eq!(writer.prune_history(5).await.unwrap(), 0, "nothing is removed yet");
    // What two share counts once, and what others have doesn't.
    let of = async |prefix: &str| reader.bytes_of(prefix).await.unwrap();
    let (one, all) = (of("r1").await, of("r").await);
    assert!(one > 0 && of("r2").await == one && of("nobody").await == 0 && of("R").await == 0);
    assert!(all > one && all < 4 * one, "{all} and {one}");
    let gone =
        |key: u32| ReleaseRow { id: format!("!{key}"), archive: vec![], ..release(key, REMOVED, "[]") };
    let removed = Writes { releases: vec![gone(1), gone(3), gone(4)], ..Writes::default() };
    writer.commit(&batch(&lease, 4, removed)).await.unwrap();
    let listed = reader.releases(&ReleaseFilter { limit: 100, ..ReleaseFilter::default() }).await.unwrap();
    assert_eq!(listed.iter().map(|row| row.release_key).collect::<Vec<_>>(), [2], "they are gone at once");
    let mut steps = 0;
    loop {
        let step = writer.prune_history(5).await.unwrap();
        assert!(step <= 5, "{step}");
        steps += 1;
        if step < 5 {
            break;
        }
    }
    assert!(steps > 5, "{steps}");
    for key in [1, 3, 4] {
        assert_eq!(reader.assignments(key, None, 100).await.unwrap(), []);
        assert_eq!(reader.stage_results(key, 0, u32::MAX).await.unwrap(), []);
        assert_eq!(reader.members(key).await.unwrap(), []);
        assert_eq!(reader.analysis_runs(key).await.unwrap(), []);
    }
    assert_eq!(reader.assignments(2, None, 100).await.unwrap().len(), 10);
    assert_eq!(reader.stage_results(2, 0, u32::MAX).await.unwrap().len(), 10);
    assert_eq!(reader.precedent("f", i64::MAX, u32::MAX).await.unwrap().unwrap().release_key, 2);
    assert!(reader.archive(&[7; 32]).await.unwrap().is_some(), "the second one refers to it");
    for archive in [8, 9] {
        assert_eq!(reader.archive(&[archive; 32]).await.unwrap(), None);
    }
    assert_eq!(audit_left(&*reader).await, [1, 2, 3, 4], "the audit trail has a time of its own");
    // What is left of the highest number keeps it from being given again.
    let mut loaded = Loaded::default();
    writer.load(&mut loaded).await.unwrap();
    let heads: Vec<u32> = loaded.heads.iter().map(|head| head.release_key).collect();
    assert_eq!(heads, [2, 4]);
    let next = Writes { releases: vec![release(5, "Running", "[]")], ..Writes::default() };
    writer.commit(&batch(&lease, 5, next)).await.unwrap();
    assert_eq!(writer.prune_history(5).await.unwrap(), 1);
    assert_eq!(writer.prune_history(5).await.unwrap(), 0);
    // Whoever has lost the lease removes nothing.
    let removed = Writes { releases: vec![gone(2)], ..Writes::default() };
    writer.commit(&batch(&lease, 6, removed)).await.unwrap();
    place.sql("UPDATE lease SET epoch = epoch + 1").await;
    assert_eq!(writer.prune_history(100).await.unwrap(), 0);
}

async fn releases_that_are_over_are_told_the_oldest_first(place: &Place) {
    let (mut writer, reader) = place.open().await;
    let lease = writer.lease().clone();
    let releases = [(1, "Done"), (2, "Running"), (3, "Aborted"), (4, REMOVED), (5, "Done")];
    let releases = releases.map(|(key, state)| release(key, state, "[]")).to_vec();
    let outbox =
        OutboxRow { id: 1, kind: "upward".to_owned(), at_ms: 1, payload: "{}".to_owned(), served_ms: None };
    let writes = Writes { releases, outbox: vec![outbox], ..Writes::default() };
    writer.commit(&batch(&lease, 0, writes)).await.unwrap();
    let keys = async |after, limit| {
        let over = reader.over(after, limit).await.unwrap();
        over.iter().map(|row| (row.release_key, row.id.clone())).collect::<Vec<_>>()
    };
    let named = |keys: &[u32]| keys.iter().map(|key| (*key, format!("r{key}"))).collect::<Vec<_>>();
    assert_eq!(keys(None, 2).await, named(&[1, 3]));
    assert_eq!(keys(Some(3), 2).await, named(&[5]));
    assert_eq!(reader.awaiting("upward", 10).await.unwrap(), [1]);
    assert_eq!(reader.awaiting("webhook", 10).await.unwrap(), [] as [u64; 0]);
}

async fn a_bad_row_is_named_with_table_key_and_column(place: &Place) {
    let (mut writer, _) = place.open().await;
    let lease = writer.lease().clone();
    let children = Writes { children: vec![child(41), child(42)], ..Writes::default() };
    writer.commit(&batch(&lease, 0, children)).await.unwrap();
    place.sql("UPDATE children SET agents = -1 WHERE child_key = 42").await;
    let error = writer.load(&mut Loaded::default()).await.unwrap_err().to_string();
    assert_eq!(error, "bad row in table children, key 42, column agents: -1 is out of range");
}

async fn a_store_of_another_version_is_refused_by_name_and_not_touched(place: &Place) {
    let (mut writer, _) = place.open().await;
    writer.release().await.unwrap();
    let info = url::open_source(&place.url).await.unwrap().info().await.unwrap();
    assert_eq!(info.schema_version, 100);
    // Versions 1 to 14 were given to schemas before the first release.
    for version in [1, 14, 99, 101, 4711] {
        let set = match place.kind {
            Kind::Sqlite => format!("PRAGMA user_version = {version}"),
            Kind::Postgres => format!("UPDATE store_version SET version = {version}"),
        };
        place.sql(sqlx::AssertSqlSafe(set)).await;
        let said = if version < 100 {
            format!(
                "the store has schema version {version}, from before the first release, and this program reads 100 and \
                 later: name a store that isn't there yet, it is made; nothing was changed"
            )
        } else {
            format!(
                "the store has schema version {version}, this program knows 100: use a newer choirmaster; nothing was \
                 changed"
            )
        };
        let before = fingerprint(place).await;
        for options in [OpenOptions::new(), OpenOptions::standby()] {
            assert_eq!(url::open(&place.url, &options).await.unwrap_err().to_string(), said);
            let target = url::open_target(&place.url, &options).await;
            assert_eq!(target.unwrap_err().to_string(), said);
        }
        assert_eq!(url::open_source(&place.url).await.unwrap_err().to_string(), said);
        assert_eq!(fingerprint(place).await, before);
    }
}

/// What changes when anything in the store does: the file's bytes, or the lease and the number of transactions that
/// wrote.
async fn fingerprint(place: &Place) -> Vec<u8> {
    match place.kind {
        Kind::Sqlite => std::fs::read(place.file()).unwrap(),
        Kind::Postgres => {
            let mut conn = sqlx::PgConnection::connect(&place.url).await.unwrap();
            let row = sqlx::query(
                "SELECT lease::text || (SELECT string_agg(relname || relfilenode, ' ' ORDER BY relname)
                FROM pg_class WHERE relnamespace = 'public'::regnamespace) FROM lease",
            )
            .fetch_one(&mut conn)
            .await
            .unwrap();
            row.get::<String, _>(0).into_bytes()
        }
    }
}

async fn many_rows_fit_into_one_batch(place: &Place) {
    const MANY: u32 = 20_000;
    let (mut writer, reader) = place.open().await;
    let lease = writer.lease().clone();
    let children = (0..MANY).map(child).collect();
    writer.commit(&batch(&lease, 0, Writes { children, ..Writes::default() })).await.unwrap();
    let assignments = (0..MANY).map(|key| assignment(1, key)).collect();
    writer.commit(&batch(&lease, 1, Writes { assignments, ..Writes::default() })).await.unwrap();
    let mut loaded = Loaded::default();
    writer.load(&mut loaded).await.unwrap();
    assert_eq!(loaded.children.len(), MANY as usize);
    assert_eq!(reader.assignments(1, Some(MANY - 3), 10).await.unwrap().len(), 2);
}

async fn each_frequent_table_is_written_by_a_commit_that_writes_nothing_else(place: &Place) {
    let (mut writer, reader) = place.open().await;
    let lease = writer.lease().clone();
    let result = StageResultRow {
        release_key: 1,
        child_key: 2,
        attempt: 1,
        stage: 0,
        status: 4,
        at_ms: 5,
        digest: 6,
        summary: "{}".to_owned(),
    };
    let deployment = DeploymentRow {
        child_key: 1,
        function: "f".to_owned(),
        release_key: 1,
        variant: "new".to_owned(),
        path: "p".to_owned(),
        at_ms: 7,
        content: Some(-8),
    };
    let alone = [
        Writes { children: vec![child(1)], ..Writes::default() },
        Writes { seen: vec![(1, 77)], ..Writes::default() },
        Writes { assignments: vec![assignment(1, 1)], ..Writes::default() },
        Writes { stage_results: vec![result], ..Writes::default() },
        Writes { deployments: vec![deployment], ..Writes::default() },
        Writes { audit: vec![audit(5, 0, Some(1))], ..Writes::default() },
    ];
    let mut model = Everything::default();
    for (seq, writes) in (0..).zip(&alone) {
        writer.commit(&batch(&lease, seq, writes.clone())).await.unwrap();
        model.apply(writes);
        assert_eq!(Everything::read(&mut *writer, &*reader, &model).await, model);
    }
}

#[tokio::test]
async fn a_file_of_another_program_is_refused_and_not_touched() {
    Place::with(Kind::Sqlite, async |place| {
        let mut conn = sqlx::SqliteConnection::connect(&format!("{}?mode=rwc", place.url)).await.unwrap();
        sqlx::raw_sql("CREATE TABLE accounts (id)").execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        let database = std::fs::read(place.file()).unwrap();
        for file in [database, b"no database, but as long as one could be".repeat(100)] {
            std::fs::write(place.file(), &file).unwrap();
            let error = url::open(&place.url, &OpenOptions::new()).await.unwrap_err();
            assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
            assert_eq!(std::fs::read(place.file()).unwrap(), file);
        }
    })
    .await;
}

#[tokio::test]
async fn full_disk_refuses_commit_and_accepts_it_after_pruning() {
    Place::with(Kind::Sqlite, async |place| {
        let options = OpenOptions { max_bytes: Some(400_000), ..OpenOptions::new() };
        let (mut writer, reader) = url::open(&place.url, &options).await.unwrap();
        let lease = writer.lease().clone();
        let large = |seq: u64| {
            let mut row = audit(seq + 1, 0, None);
            row.events = "x".repeat(20_000);
            batch(&lease, seq, Writes { audit: vec![row], ..Writes::default() })
        };
        let mut seq = 0;
        let error = loop {
            match writer.commit(&large(seq)).await {
                Ok(()) if seq == 3 => {
                    seq += 1;
                    writer.prune_audit(pruning(0)).await.unwrap();
                }
                Ok(()) => seq += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(&error, StoreError::Full(why) if why.contains("room")), "{error:?}");
        assert!(seq > 5, "only {seq} commits fitted");
        assert_eq!(reader.audit_end().await.unwrap(), Some((seq, 0)));
        assert!(matches!(writer.commit(&large(seq)).await, Err(StoreError::Full(_))));
        assert_eq!(writer.prune_audit(pruning(1_000)).await.unwrap(), 3);
        writer.commit(&large(seq)).await.unwrap();
        assert_eq!(reader.audit_end().await.unwrap(), Some((seq + 1, 0)));
    })
    .await;
}

#[tokio::test]
async fn postgres_stores_plain_result_with_child_and_reads_separate_rows() {
    Place::with(Kind::Postgres, async |place| {
        let (mut writer, reader) = place.open().await;
        let lease = writer.lease().clone();
        let numbers = |ms: f64| [ms, 0.5, 90.25, ms, 1e-7, 80.0, -1.0, -1.0, -1.0, 0.0, 0.004];
        let result = |stage: i16, ms: f64| StageResultRow {
            release_key: 1,
            child_key: 3,
            attempt: 1,
            stage,
            status: 2,
            at_ms: 1_767_225_600_000,
            digest: i64::MIN + i64::from(stage),
            summary: summary(&numbers(ms), (stage == 1).then_some(7), (stage == 1).then_some(0)),
        };
        // Written without its child's state: a row of its own.
        let first = Writes { assignments: vec![assignment(1, 3)], ..Writes::default() };
        writer.commit(&batch(&lease, 0, first)).await.unwrap();
        place
            .sql("INSERT INTO stage_results VALUES (1, 3, 1, 0, 2, 5, 6, 'old'), (1, 3, 0, 0, 4, 5, 6, 'older')")
            .await;
        let mut conn = sqlx::PgConnection::connect(&place.url).await.unwrap();
        let stages = [result(0, 1.5), result(0, 2.5), result(1, 3.5), result(2, 4.5), result(1, 5.5)];
        for (seq, result) in (1..).zip(stages) {
            let writes = Writes {
                assignments: vec![assignment(1, 3)],
                stage_results: vec![result],
                ..Writes::default()
            };
            writer.commit(&batch(&lease, seq, writes)).await.unwrap();
        }
        let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM stage_results").fetch_one(&mut conn).await.unwrap();
        assert_eq!(rows, 2, "only those of before");
        let found = reader.stage_results(1, 0, 9).await.unwrap();
        let older =
            StageResultRow { attempt: 0, status: 4, at_ms: 5, digest: 6, summary: "older".into(), ..result(0, 0.0) };
        assert_eq!(found, [older, result(0, 2.5), result(1, 5.5), result(2, 4.5)]);
        // One without its child's state is a row again, and newer.
        let alone = Writes { stage_results: vec![result(1, 6.5)], ..Writes::default() };
        writer.commit(&batch(&lease, 6, alone)).await.unwrap();
        assert_eq!(reader.stage_results(1, 0, 9).await.unwrap()[2], result(1, 6.5));
    })
    .await;
}

async fn a_store_says_which_it_is_and_how_much_space_its_disk_has(place: &Place) {
    let (_writer, reader) = place.open().await;
    let disk = reader.disk().await.unwrap();
    match place.kind {
        Kind::Sqlite => {
            assert_eq!(reader.kind(), StoreKind::Sqlite);
            let DiskSpace { free, total } = disk.unwrap();
            assert!(0 < free && free < total, "{free} of {total}");
        }
        Kind::Postgres => assert_eq!((reader.kind(), disk), (StoreKind::Postgres, None)),
    }
}

#[tokio::test]
async fn on_postgres_the_first_result_of_a_child_fits_on_the_page_of_its_row() {
    const CHILDREN: u32 = 200;
    Place::with(Kind::Postgres, async |place| {
        let (mut writer, _) = place.open().await;
        let lease = writer.lease().clone();
        // As long as what the engine keeps of a child.
        let detail = format!("{{\"kept\":\"{}\"}}", "x".repeat(120));
        let assignments: Vec<_> = (1..=CHILDREN)
            .map(|child_key| AssignmentRow { detail: detail.clone(), ..assignment(1, child_key) })
            .collect();
        let first = Writes { assignments: assignments.clone(), ..Writes::default() };
        writer.commit(&batch(&lease, 0, first)).await.unwrap();
        let mut conn = sqlx::PgConnection::connect(&place.url).await.unwrap();
        let pages = "SELECT child_key, (ctid::text::point)[0]::bigint FROM assignments ORDER BY child_key";
        let before: Vec<(i64, i64)> = sqlx::query_as(pages).fetch_all(&mut conn).await.unwrap();
        for (seq, row) in (1..).zip(assignments) {
            let numbers = [7.483_921, 4.583_211, 21.748_392, 6.6, 4.62, 20.46, 7.26, 5.08, 22.5, 0.0, 0.004];
            let result = StageResultRow {
                release_key: 1,
                child_key: row.child_key,
                attempt: 1,
                stage: 0,
                status: 2,
                at_ms: 1_767_225_600_000,
                digest: i64::MIN,
                summary: summary(&numbers, None, None),
            };
            let writes = Writes { assignments: vec![row], stage_results: vec![result], ..Writes::default() };
            writer.commit(&batch(&lease, seq, writes)).await.unwrap();
        }
        let after: Vec<(i64, i64)> = sqlx::query_as(pages).fetch_all(&mut conn).await.unwrap();
        assert_eq!(before, after, "(child, page)");
    })
    .await;
}
