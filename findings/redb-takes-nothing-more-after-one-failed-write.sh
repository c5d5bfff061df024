#!/bin/sh
# redb, an embedded key-value store, on a disk that is full for a moment.
#
# One would guess:  the write that found no room fails, it leaves the file as it was, and once there is room the next one is taken, as SQLite
#                   does it.
# What happens:     after one write that failed, every later one fails with "Previous I/O error occurred. Please close and re-open the
#                   database.", however much room there is. Opened again, the file has all that was committed, and takes more.
# Why it matters:   a service that keeps its handle for as long as it runs (as the examples do) stays deaf until it is restarted, long after
#                   somebody has made room. Whoever holds the handle has to close it and open it again, and there may be only one at a time.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cargo init --quiet --name full --vcs none
cat >>Cargo.toml <<'TOML'
redb = "=4.6.0"
rustix = { version = "=1.1.6", features = ["process"] }
TOML
cat >src/main.rs <<'RUST'
use redb::{Database, Error, ReadableDatabase as _, ReadableTableMetadata as _, TableDefinition};
use rustix::process::{Resource, Rlimit, setrlimit};

const ROWS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("rows");

fn put(db: &Database, key: u64) -> Result<(), Error> {
    let write = db.begin_write()?;
    write.open_table(ROWS)?.insert(key, vec![7; 512 * 1024].as_slice())?;
    Ok(write.commit()?)
}

/// No file may be longer: a write beyond fails as on a full disk.
fn room(bytes: Option<u64>) {
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

fn main() {
    let db = Database::create("rows.redb").unwrap();
    put(&db, 0).unwrap();
    room(Some(std::fs::metadata("rows.redb").unwrap().len()));
    let mut kept = 1;
    let error = loop {
        match put(&db, kept) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    println!("without room:  {error}");
    room(None);
    let errors: Vec<String> = (0..3).map(|_| put(&db, kept).unwrap_err().to_string()).collect();
    println!("with room:     {}", errors.join("\n               "));
    assert!(errors.iter().all(|error| error.contains("close and re-open the database")));
    drop(db);
    let db = Database::create("rows.redb").unwrap();
    let rows = || db.begin_read().unwrap().open_table(ROWS).unwrap().len().unwrap();
    assert_eq!(rows(), kept);
    put(&db, kept).unwrap();
    println!("opened again:  {} rows, none lost, and it takes more", rows());
}
RUST
cargo build --quiet
echo "redb $(cargo pkgid redb | sed 's/.*[@#]//')"
# The signal that comes with the limit is ignored, so that the write fails.
sh -c 'trap "" XFSZ; exec target/debug/full'
