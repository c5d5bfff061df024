//! What the store doesn't give.

use crate::Engine;
use store::StoreError;

/// What a look says where the store doesn't give something it needs. A row that can't be read is counted, and said to be
/// there: what is judged without it could pass that should not.
pub(super) fn explain_unread(engine: &Engine, release: &str, what: &str, error: &StoreError) -> String {
    match error {
        StoreError::BadRow { table, key, column, .. } => {
            engine.unreadable().note(error);
            format!(
                "{what} is in the store, and can't be read: {table}, key {key}, {column}; see the manager's log"
            )
        }
        StoreError::Unavailable(_)
        | StoreError::Full(_)
        | StoreError::LeaseLost(_)
        | StoreError::Held { .. }
        | StoreError::Newer { .. }
        | StoreError::Older { .. }
        | StoreError::Refused(_) => {
            tracing::warn!(%error, release, what, "the store doesn't give what an analysis needs");
            format!("the store does not give {what}")
        }
    }
}
