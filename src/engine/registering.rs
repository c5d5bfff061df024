//! Environments, target groups, versions and registered Releases: what releases of services name, and operators write down
//! beforehand.

use std::time::Duration;

use tokio::{sync::oneshot, time::timeout};

use super::{
    Engine, EngineError, audit,
    error::unwritable,
    mailbox::{By, Envelope},
};
use ab_releases::Kind;
use model::ReleaseId;
use store::rows::RegisteredRow;

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    Stored,
    /// This release is not over, and names it or will register it: nothing was changed.
    InUse(ReleaseId),
}

impl Engine {
    /// Writes what releases of services may name, or, where the row says so, removes it; when this returns, it is stored.
    ///
    /// # Errors
    ///
    /// As those of other calls.
    pub async fn register(
        &self,
        kind: Kind,
        row: RegisteredRow,
        by: By,
        time_limit: Duration,
    ) -> Result<Registration, EngineError> {
        let event = audit::registered(&row.kind, &row.name, row.removed_ms.is_some(), by.note.as_deref());
        let event = event.map_err(|error| unwritable(&error))?;
        let ((in_use, is_used), (stored, is_stored)) = (oneshot::channel(), oneshot::channel());
        let envelope = Envelope::Register { row, kind, event: (by.actor, event), in_use, stored };
        let call = async {
            self.mailbox.send(envelope).await.map_err(|_| EngineError::Stopped)?;
            match is_stored.await {
                Ok(()) => Ok(Registration::Stored),
                Err(_) => is_used.await.map(Registration::InUse).map_err(|_| EngineError::Stopped),
            }
        };
        self.if_serving(timeout(time_limit, call).await.unwrap_or_else(|_| Err(self.late())))
    }
}
