use std::fmt;

use serde::{Deserialize, Serialize};

/// What a version is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Its process is there.
    Runs,
    /// It ended by itself, and is started again after a pause.
    Pauses,
    /// It was asked to end.
    Stops,
    /// Whoever watches it doesn't answer.
    Silent,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// What it returned; `None` where a signal ended it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signal: Option<i32>,
    /// Why it was ended, where a limit did it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub because: Option<String>,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit status {code}")?,
            (None, Some(signal)) => write!(f, "signal {signal}")?,
            (None, None) => f.write_str("no process")?,
        }
        match &self.because {
            Some(because) => write!(f, ": {because}"),
            None => Ok(()),
        }
    }
}
