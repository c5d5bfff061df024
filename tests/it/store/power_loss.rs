//! What a power loss leaves of an SQLite store: the files as they were when they were last made durable, and of what was
//! written after that any part, whole, cut, zeroed or garbled.
//!
//! A writer commits as fast as it can. Copies of its two files are taken at any moment, each together with the number
//! of commits that had been acknowledged, and the length of the log, when the copying began. From each copy several
//! losses are made by damaging the log beyond that length. Every one must open, hold each acknowledged commit, and
//! beyond them nothing but a prefix of what was being written.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use store::{options::OpenOptions, rows::Writes, tried_alone::sqlite::connect, url};

use super::{
    everything::Everything,
    place::{Kind, Place},
    rows::{assignment, audit, batch, child},
};
use crate::seed::seed;

/// Copies taken while the writer works.
const COPIES: usize = 25;

/// Losses made from each copy.
const LOSSES: usize = 4;

/// Rows that each commit rewrites: with one key for many commits, a torn one would show.
const ROWS: u32 = 40;

/// What commit `seq` writes: every row it touches says so.
fn writes(seq: u64) -> Writes {
    let mut children: Vec<_> = (0..3).map(child).collect();
    let mut assignments: Vec<_> = (0..ROWS).map(|key| assignment(1, key)).collect();
    for row in &mut children {
        row.seen_ms = seq.cast_signed();
    }
    for row in &mut assignments {
        row.updated_ms = seq.cast_signed();
        row.detail = format!("{seq} ").repeat(20);
    }
    Writes { children, assignments, audit: vec![audit(seq + 1, 0, Some(1))], ..Writes::default() }
}

/// One moment of the store.
struct Copy {
    file: Vec<u8>,
    log: Vec<u8>,
    /// Commits acknowledged when copying began.
    acknowledged: u64,
    /// How much of the log had been made durable by then.
    durable: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_loss_at_any_instant_keeps_every_acknowledged_commit_and_tears_none() {
    let seed = seed();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    Place::with(Kind::Sqlite, async |place| {
        let copies = copies_of_a_working_store(place, &mut rng).await;
        let mut beyond = 0;
        for copy in &copies {
            for _ in 0..LOSSES {
                let log = damage(&copy.log, copy.durable, &mut rng);
                let seq = check(&copy.file, &log, copy.acknowledged).await;
                beyond += u64::from(seq > copy.acknowledged);
            }
        }
        println!("{} losses, {beyond} with a commit that was not yet acknowledged", copies.len() * LOSSES);
    })
    .await;
}

/// What the log has after a commit counts as durable above, which it is only if each commit has waited for the disk.
#[tokio::test]
async fn a_commit_waits_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = connect(&folder.path().join("store.db"), None).await.unwrap();
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut writer).await.unwrap();
    assert_eq!(synchronous, 2, "FULL");
}

/// What is damaged up to the durable part must be noticed by this very check: else it proves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_check_finds_a_commit_that_was_not_durable() {
    let mut rng = StdRng::seed_from_u64(1);
    Place::with(Kind::Sqlite, async |place| {
        let copies = copies_of_a_working_store(place, &mut rng).await;
        let copy = copies.iter().find(|copy| copy.durable > 50_000).expect("no copy with a log");
        let cut = &copy.log[..copy.durable - 1];
        let torn = tokio::spawn({
            let (file, cut, acknowledged) = (copy.file.clone(), cut.to_vec(), copy.acknowledged);
            async move { check(&file, &cut, acknowledged).await }
        });
        assert!(torn.await.is_err());
    })
    .await;
}

async fn copies_of_a_working_store(place: &Place, rng: &mut StdRng) -> Vec<Copy> {
    let (mut writer, _reader) = place.open().await;
    let lease = writer.lease().clone();
    let (file, log) = (place.file(), place.file().with_file_name("store.db-wal"));
    let (mut copies, mut seq) = (Vec::new(), 0);
    while copies.len() < COPIES {
        for _ in 0..rng.random_range(1..30) {
            writer.commit(&batch(&lease, seq, writes(seq))).await.unwrap();
            seq += 1;
        }
        let durable = fs::metadata(&log).unwrap().len() as usize;
        let acknowledged = seq;
        // The log is copied while the next commits are written to it. No checkpoint falls into so short a time: the
        // copy would be of two moments, which no power loss leaves.
        let stop = Arc::new(AtomicBool::new(false));
        let copying = tokio::task::spawn_blocking({
            let (file, log, stop, pause) =
                (file.clone(), log.clone(), stop.clone(), rng.random_range(0..2_000));
            move || {
                (0..pause).for_each(|_| std::hint::spin_loop());
                let copied = (fs::read(&file).unwrap(), fs::read(&log).unwrap(), fs::read(&file).unwrap());
                stop.store(true, Ordering::Release);
                copied
            }
        });
        while !stop.load(Ordering::Acquire) {
            writer.commit(&batch(&lease, seq, writes(seq))).await.unwrap();
            seq += 1;
        }
        let (before, log, after) = copying.await.unwrap();
        if before == after && log.len() >= durable {
            copies.push(Copy { file: before, log, acknowledged, durable });
        }
    }
    copies
}

/// One of the things that may have become of what was not yet durable.
fn damage(log: &[u8], durable: usize, rng: &mut StdRng) -> Vec<u8> {
    let mut log = log.to_vec();
    let from = rng.random_range(durable..=log.len());
    match rng.random_range(0..4) {
        0 => {}
        1 => log.truncate(from),
        2 => log[from..].fill(0),
        _ => rng.fill_bytes(&mut log[from..]),
    }
    log
}

/// Opens what is left and answers how many commits are there.
async fn check(file: &[u8], log: &[u8], acknowledged: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    put(&path, file);
    put(&folder.path().join("store.db-wal"), log);
    let url = format!("sqlite://{}", path.display());
    let (mut writer, reader) = url::open(&url, &OpenOptions::new()).await.unwrap();
    let seq = writer.lease().seq;
    assert!(seq >= acknowledged, "{acknowledged} commits were acknowledged, {seq} are left");
    let mut wanted = Everything::default();
    (0..seq).for_each(|seq| wanted.apply(&writes(seq)));
    assert_eq!(Everything::read(&mut *writer, &*reader, &wanted).await, wanted);
    // And it goes on.
    let lease = writer.lease().clone();
    writer.commit(&batch(&lease, seq, writes(seq))).await.unwrap();
    seq
}

fn put(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}
