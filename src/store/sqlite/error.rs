//! Which of SQLite's errors pass, and which don't.

use crate::StoreError;

/// Primary result codes of what may be over at the next try: BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, FULL,
/// CANTOPEN, PROTOCOL.
const PASSING: [i32; 9] = [5, 6, 7, 8, 9, 10, 13, 14, 15];

/// FULL.
const FULL: i32 = 13;

/// The port's word for an error of the driver.
pub(super) fn store_error(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or(0) & 0xff;
            let text = error.message().to_owned();
            if code == FULL {
                StoreError::Full(format!(
                    "{text}: make room on the disk, or raise store.max_size if it is set"
                ))
            } else if PASSING.contains(&code) {
                StoreError::Unavailable(text)
            } else {
                StoreError::Refused(text)
            }
        }
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => StoreError::Unavailable(error.to_string()),
        other => StoreError::Refused(other.to_string()),
    }
}
