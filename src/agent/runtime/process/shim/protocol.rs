//! What a shim is asked and answers.

use serde::{Deserialize, Serialize};

use super::super::super::{Exit, Phase, VersionId};

/// What a shim is asked, one a line: `{"ask":"status"}`, `{"ask":"stop","grace_ms":10000}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(in super::super) enum Ask {
    Status,
    /// Answered once nothing is left of the function. The shim ends then.
    Stop {
        grace_ms: u64,
    },
}

/// What it answers, likewise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub(in super::super) enum ShimResponse {
    Status(Box<Status>),
    /// With the processes that even SIGKILL didn't end.
    Stopped {
        left: Vec<u32>,
    },
    Refused {
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Status {
    pub version: VersionId,
    pub phase: Phase,
    /// The shim's own process.
    pub shim: u32,
    /// The function's process, and when it was started (ticks since the machine was).
    pub pid: Option<u32>,
    pub started: Option<u64>,
    pub restarts: u64,
    pub last_exit: Option<Exit>,
}
