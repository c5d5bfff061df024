//! How the file is opened by the connection that writes, and how long any connection waits for another.

use std::{path::Path, time::Duration};

use sqlx::{
    Connection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use super::error::store_error;
use crate::StoreError;

/// How long a statement waits for another connection's lock; less than a commit may take.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(4);

/// Size of a page of the file, in bytes.
const PAGE_BYTES: u32 = 4096;

/// Memory for pages of the file on the connection that writes, in KiB as SQLite wants it (negative). The state is in
/// memory already, and the system keeps the file's pages too: more would hold everything three times.
const CACHE: &str = "-4096";

/// The log is folded into the file when it has this many pages: 32 MiB.
const CHECKPOINT_PAGES: &str = "8192";

/// The log is cut back to this many bytes after a checkpoint; a long reader may have let it grow.
const JOURNAL_SIZE_LIMIT: &str = "67108864";

/// A connection that writes.
pub async fn connect(path: &Path, max_bytes: Option<u64>) -> Result<SqliteConnection, StoreError> {
    let mut options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .page_size(PAGE_BYTES)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        .pragma("cache_size", CACHE)
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        .pragma("journal_size_limit", JOURNAL_SIZE_LIMIT);
    if let Some(max_bytes) = max_bytes {
        options = options.pragma("max_page_count", (max_bytes / u64::from(PAGE_BYTES)).max(1).to_string());
    }
    let options = sqlx::ConnectOptions::disable_statement_logging(options);
    SqliteConnection::connect_with(&options).await.map_err(store_error)
}
