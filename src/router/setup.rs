//! What options of every kind of router share: values, faults, and what comes of opening one.

use std::{net::IpAddr, path::Path, sync::Arc};

use crate::{
    Router, RouterError,
    log_line::{LogPath, LogPathError},
    measure::{self, Measure, MeasureError},
};

/// Of the users of this machine.
const USERS: &str = "/etc/passwd";

/// A program and what it is called with, without a shell. Empty: none is called, a signal is sent instead.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine(pub Vec<String>);

/// A setting that can't be used: its key, and why.
pub type Fault = (&'static str, String);

/// Why a router can't be led.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{key}: {why}")]
    Setting { key: String, why: String },
    #[error(transparent)]
    Router(#[from] RouterError),
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

/// A router that can be told what to do.
#[derive(Debug)]
pub struct OpenRouter {
    pub router: Arc<dyn Router>,
    /// What counts its calls; none: nothing does.
    pub measure: Option<Arc<Measure>>,
}

impl From<Fault> for OpenError {
    fn from((key, why): Fault) -> Self {
        Self::Setting { key: key.to_owned(), why }
    }
}

pub(crate) fn absolute(key: &'static str, path: &Path) -> Result<(), Fault> {
    if path.is_absolute() {
        Ok(())
    } else {
        Err((key, format!("{} does not begin with a slash", path.display())))
    }
}

pub(crate) fn somewhere(key: &'static str, addresses: &[IpAddr]) -> Result<(), Fault> {
    if addresses.is_empty() { Err((key, "name at least one, as in 0.0.0.0".to_owned())) } else { Ok(()) }
}

pub(crate) fn log_path(key: &'static str, path: &Path) -> Result<LogPath, Fault> {
    path.to_string_lossy().parse().map_err(|error: LogPathError| (key, error.to_string()))
}

/// Receives the lines of calls at a socket, from a user by name or number. None where there is no socket.
pub(crate) fn measure_at(
    (lines_key, lines): (&'static str, Option<&Path>),
    (user_key, user): (&'static str, &str),
) -> Result<Option<Arc<Measure>>, OpenError> {
    let Some(lines) = lines else { return Ok(None) };
    let sender = user_of(user).map_err(|why| (user_key, why))?;
    let at = measure::Settings::at(log_path(lines_key, lines)?);
    Ok(Some(Measure::open(measure::Settings { sender: Some(sender), ..at })?))
}

/// The number of a user, by the system's file of those.
fn user_of(user: &str) -> Result<u32, String> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string(USERS).map_err(|error| format!("{USERS}: {error}"))?;
    let mut numbers = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    numbers
        .next()
        .ok_or_else(|| format!("there is no user {user:?} here: name the one that its workers run as"))
}
