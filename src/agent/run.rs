//! An agent from its start to its end.

use std::pin::Pin;

use crate::{control::ControlError, proxy_process::ProxyError, settings::Settings};

/// Why an agent could not start, or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// What is set can't be used, as this sentence tells.
    #[error("{0}")]
    Settings(String),
    /// The folder of the state, or what is in it, can't be used.
    #[error("{0}")]
    State(String),
}

/// Runs an agent until it is told to end (SIGTERM, SIGINT).
///
/// No `async fn`: whoever awaits one compiles all of it again.
pub fn run(settings: Settings) -> Pin<Box<dyn Future<Output = Result<(), RunError>> + Send>> {
    Box::pin(async move {
        drop(settings);
        Err(RunError::Settings("this build has nothing yet that drives an agent".to_owned()))
    })
}
