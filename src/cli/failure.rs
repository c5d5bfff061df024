//! Why a command could not do what it was asked, and whose fault that is.

use std::{io, process::ExitCode};

use super::context::used;
#[cfg(feature = "manager")]
use crate::config::{ConfigError, Fault};
use model::text;
#[cfg(feature = "manager")]
use simulated_children::FleetError;
#[cfg(feature = "manager")]
use store::StoreError;

/// Exit code where the caller can mend it.
pub const USER: u8 = 1;

/// Exit code where the program, the manager or its surroundings failed.
pub const OURS: u8 = 2;

/// The end of a command that failed. The text says what happened and what to do.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub text: String,
}

impl Failure {
    pub fn user(text: impl Into<String>) -> Self {
        Self { code: USER, text: text.into() }
    }

    pub fn ours(text: impl Into<String>) -> Self {
        Self { code: OURS, text: text.into() }
    }

    /// Prints the text and gives the exit code.
    pub fn report(self) -> ExitCode {
        if !self.text.is_empty() {
            use io::Write as _;
            let context = used::name().map(|name| format!("\nContext: {name}")).unwrap_or_default();
            // Nowhere to complain if stderr is gone.
            let _ = writeln!(io::stderr(), "error: {}", text::lines(&format!("{}{context}", self.text)));
        }
        ExitCode::from(self.code)
    }
}

#[cfg(feature = "manager")]
impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::user(error.to_string())
    }
}

#[cfg(feature = "manager")]
impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        ConfigError { faults: vec![fault] }.into()
    }
}

#[cfg(feature = "manager")]
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let users = error.chain().any(|cause| {
            let store = cause.downcast_ref::<StoreError>().is_some_and(|error| {
                matches!(
                    error,
                    StoreError::Refused(_)
                        | StoreError::Held { .. }
                        | StoreError::Newer { .. }
                        | StoreError::Older { .. }
                )
            });
            store || cause.is::<FleetError>() || cause.is::<ConfigError>()
        });
        Self { code: if users { USER } else { OURS }, text: format!("{error:#}") }
    }
}

/// Writing to stdout failed. A reader that has seen enough (`… | head`) is no failure worth a text.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { code: 0, text: String::new() };
        }
        Self::ours(format!("the output can't be written: {error}"))
    }
}
