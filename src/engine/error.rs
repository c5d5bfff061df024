//! Why the engine gives no answer.

use domain::release::command::Refusal;
use store::StoreError;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing was answered in time; whether it was stored is not known. The same call may be made again.
    #[error("the manager is busy or its store does not answer; try again")]
    Busy,
    /// Like [`Self::Busy`]; it is known why.
    #[error(
        "the store has no space left, and nothing can be kept: make room on its disk; what was acknowledged is safe"
    )]
    Full,
    /// The store refused the batch for good; nothing of it was kept.
    #[error("the store refused the change; see the manager's log")]
    Failed,
    #[error("the manager is stopping")]
    Stopped,
}

impl EngineError {
    /// Whether the same call may be answered another time.
    pub const fn passes(&self) -> bool {
        matches!(self, Self::Busy | Self::Full)
    }
}

pub(super) fn unwritable(error: &StoreError) -> EngineError {
    tracing::error!(%error, "an event could not be written");
    EngineError::Failed
}
