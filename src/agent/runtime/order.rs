use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::VersionId;

/// A version that is to be started.
#[derive(Debug, Clone)]
pub struct Order {
    pub version: VersionId,
    /// Its content. It is copied, and not needed any more once `start` has returned.
    pub folder: PathBuf,
    /// The form of the function (`nodejs`, `python`, `binary`, `program`); without it, what the folder holds says it.
    pub runner: Option<String>,
    /// What its environment holds besides what each version is given.
    pub environment: BTreeMap<String, String>,
    pub limits: Limits,
    pub health: Health,
    pub warm_up: Option<WarmUp>,
}

impl Order {
    /// A version with the limits and checks that hold where nothing is said.
    #[must_use]
    pub fn new(version: VersionId, folder: PathBuf) -> Self {
        Self {
            version,
            folder,
            runner: None,
            environment: BTreeMap::new(),
            limits: Limits::default(),
            health: Health::default(),
            warm_up: None,
        }
    }
}

/// What a version may use. Who uses more memory, room or processes is ended, and started again after a pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of memory that all its processes have in use together.
    pub memory: u64,
    /// Processes at once, with those that its processes start.
    pub processes: u64,
    /// Files and connections that one of its processes has open.
    pub files: u64,
    /// Bytes that its folder may hold, with what was in it at the start.
    pub room: u64,
    /// Bytes of its log that are kept. The oldest go first.
    pub log: u64,
    /// Hundredths of a processor that it has at most: 150 is one and a half. Without it, as much as there is. It holds where the
    /// machine has control groups that the agent may use, or a container has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

/// What one process may have mapped besides the memory that all have in use together: stacks of threads and heaps that are set
/// aside and never used.
const MAPPED_BESIDES: u64 = 512 * 1024 * 1024;

impl Limits {
    /// Bytes of data that one process may have mapped.
    pub(crate) fn data(&self) -> u64 {
        self.memory.saturating_mul(2).saturating_add(MAPPED_BESIDES)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 512 * 1024 * 1024,
            processes: 256,
            files: 4096,
            room: 512 * 1024 * 1024,
            log: 2 * 1024 * 1024,
            cpu: None,
        }
    }
}

/// When a version that was started is taken to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// What is called by GET and has to be answered with 2xx or 3xx. Without it, a connection suffices.
    pub path: Option<String>,
    /// How long is waited between two checks.
    pub interval: Duration,
    /// How long a check may take.
    pub timeout: Duration,
    /// How many checks in a row have to pass.
    pub healthy_after: u32,
    /// After how long a start is given up.
    pub give_up: Duration,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            path: None,
            interval: Duration::from_millis(50),
            timeout: Duration::from_secs(1),
            healthy_after: 2,
            give_up: Duration::from_secs(30),
        }
    }
}

/// Calls that a version gets before it gets any share. They go to its target, so that nobody counts them, and it doesn't matter
/// what they are answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarmUp {
    pub calls: u32,
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    pub body: String,
    /// How long one of them may take.
    pub timeout: Duration,
}

impl Default for WarmUp {
    fn default() -> Self {
        Self {
            calls: 10,
            method: "GET".to_owned(),
            path: "/".to_owned(),
            body: String::new(),
            timeout: Duration::from_secs(10),
        }
    }
}
