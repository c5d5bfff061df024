//! What was answered with success, and how to see that it is still so.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

/// Something that an answer has promised.
#[derive(Debug, Clone)]
pub enum Fact {
    /// The child was registered, and has called again since.
    Registered {
        child: String,
    },
    /// The child was shown the offer. Deployed agents exit if it is refused then.
    Shown {
        child: String,
        offer: String,
    },
    Fetched {
        child: String,
        offer: String,
        text: Bytes,
    },
    /// The archive of the offer.
    Functions {
        offer: String,
        bytes: Bytes,
    },
    /// The body of a `/result` that was answered with 200; `ended`: it ended the stage.
    Reported {
        child: String,
        offer: String,
        body: Value,
        ended: bool,
    },
    /// `/end_stage` was answered with true.
    Ended {
        child: String,
        offer: String,
        stage: String,
    },
    Submitted {
        release: String,
        text: String,
    },
    Aborted {
        release: String,
    },
}

impl Fact {
    /// The child it is about.
    pub fn child(&self) -> Option<&str> {
        match self {
            Self::Registered { child }
            | Self::Shown { child, .. }
            | Self::Fetched { child, .. }
            | Self::Reported { child, .. }
            | Self::Ended { child, .. } => Some(child),
            Self::Functions { .. } | Self::Submitted { .. } | Self::Aborted { .. } => None,
        }
    }
}

/// What a machine runs of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runs {
    Base,
    /// Both versions, behind a proxy.
    Test,
    /// The new version that this offer brought.
    New(String),
}

/// Everything the children know together.
#[derive(Debug, Default)]
pub struct Ledger {
    pub facts: Vec<Fact>,
    /// What must never happen at all, as the children saw it.
    pub violations: Vec<String>,
    /// Ids whose agents are gone: a call in their name would be a lie, and change things.
    pub retired: Vec<String>,
    /// By number of the agent: its id, and what its machine runs by function.
    pub machines: BTreeMap<usize, (String, BTreeMap<String, Runs>)>,
}
