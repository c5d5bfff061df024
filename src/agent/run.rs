//! An agent from its start to its end.

use std::pin::Pin;

use crate::settings::Settings;

/// Why an agent could not begin, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("this build has nothing yet that drives an agent")]
    NoDriver,
}

/// Runs an agent until `end` comes about.
///
/// No `async fn`: whoever awaits one compiles all of it again.
pub fn run(
    settings: Settings,
    end: impl Future<Output = ()> + Send + 'static,
) -> Pin<Box<dyn Future<Output = Result<(), RunError>> + Send>> {
    Box::pin(async move {
        drop((settings, end));
        Err(RunError::NoDriver)
    })
}
