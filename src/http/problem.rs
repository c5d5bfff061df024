//! From what went wrong to a status: the one place that maps domain errors to HTTP.

use axum::http::StatusCode;

use crate::{engine::EngineError, release::command::Refusal};

/// Seconds after which a caller who was turned away may try again.
pub const RETRY_AFTER_S: &str = "2";

/// The status of an error of the engine.
pub fn status(error: &EngineError) -> StatusCode {
    match error {
        EngineError::Refused(refusal) => refused(refusal),
        EngineError::Busy | EngineError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
        EngineError::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn refused(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::UnknownChild(_) | Refusal::UnknownRelease(_) | Refusal::NeverOffered { .. } => {
            StatusCode::NOT_FOUND
        }
        Refusal::NotAReport(_) => StatusCode::BAD_REQUEST,
        Refusal::UnknownStage { .. }
        | Refusal::NotStarted { .. }
        | Refusal::EndedOtherwise { .. }
        | Refusal::DoesNotWait { .. }
        | Refusal::Late { .. }
        | Refusal::IdTaken(_)
        | Refusal::IdAmbiguous { .. }
        | Refusal::Conflict(_)
        | Refusal::WrongState { .. }
        | Refusal::NothingToRetry(_) => StatusCode::CONFLICT,
        Refusal::Limit { .. } | Refusal::NotInMemory(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}
