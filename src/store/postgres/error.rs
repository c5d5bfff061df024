//! Which of Postgres' errors pass, and which don't.

use crate::StoreError;

/// Classes of SQLSTATE of what may be over at the next try: connection exceptions, transaction rollback
/// (serialization, deadlock), insufficient resources (disk full, too many connections), operator intervention
/// (shutdown, timeouts), system errors.
const PASSING_CLASSES: [&str; 5] = ["08", "40", "53", "57", "58"];

/// Single states of the same kind: lock not available; idle or other timeouts of a transaction; a server that only
/// reads, as one does that has become or still is a replica.
const PASSING_STATES: [&str; 4] = ["55P03", "25P03", "25P04", "25006"];

const DISK_FULL: &str = "53100";

/// The port's word for an error of the driver.
pub(super) fn store_error(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Database(error) => {
            let state = error.code().unwrap_or_default().into_owned();
            let text = error.message().to_owned();
            if state == DISK_FULL {
                StoreError::Full(format!("{text}: make room on the server's disk"))
            } else if PASSING_CLASSES.iter().any(|class| state.starts_with(class))
                || PASSING_STATES.contains(&state.as_str())
            {
                StoreError::Unavailable(format!("{text} ({state})"))
            } else {
                StoreError::Refused(format!("{text} ({state})"))
            }
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => StoreError::Unavailable(error.to_string()),
        other => StoreError::Refused(other.to_string()),
    }
}
