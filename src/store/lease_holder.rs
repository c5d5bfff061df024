//! Who holds a lease: enough about a process to recognise that it is gone.
//!
//! A holder is provably dead only if it ran on this host, in this boot and in this process namespace, and no
//! process of its number and start time is left. Everything else is decided by time.

use std::{fmt, fs};

/// Stands for a part that this system doesn't tell. A holder with an unknown part is never provably dead.
pub const UNKNOWN: &str = "-";

/// A process that may hold a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseHolder {
    pub host: String,
    pub pid: u32,
    /// When the process started, in the kernel's ticks since boot: process numbers are used again.
    pub started: String,
    /// The namespace that `pid` belongs to: containers on one kernel share host name and boot id.
    pub namespace: String,
    pub boot: String,
}

impl LeaseHolder {
    /// The process that asks.
    pub fn this_process() -> Self {
        let pid = std::process::id();
        Self {
            host: word(fs::read_to_string("/proc/sys/kernel/hostname").ok()),
            pid,
            started: word(started(pid).ok().flatten()),
            namespace: word(
                fs::read_link("/proc/self/ns/pid").ok().map(|link| link.to_string_lossy().into_owned()),
            ),
            boot: word(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()),
        }
    }

    /// Whether the holder of this text is certainly gone, as far as this process, `self`, can tell.
    pub fn proves_dead(&self, text: &str) -> bool {
        let Some(other) = Self::parse(text) else { return false };
        let known = [&other.host, &other.started, &other.namespace, &other.boot];
        if known.iter().any(|part| *part == UNKNOWN)
            || other.host != self.host
            || other.namespace != self.namespace
            || other.boot != self.boot
        {
            return false;
        }
        // Where others' processes are hidden, the first one is as well, and absence proves nothing.
        let sees_others = matches!(started(1), Ok(Some(_)));
        match started(other.pid) {
            Ok(Some(since)) => since != other.started,
            Ok(None) => sees_others,
            Err(_) => false,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ').map(|part| part.split_once('='));
        let mut value = |name| match parts.next() {
            Some(Some((found, value))) if found == name => Some(value.to_owned()),
            _ => None,
        };
        Some(Self {
            host: value("host")?,
            pid: value("pid")?.parse().ok()?,
            started: value("started")?,
            namespace: value("namespace")?,
            boot: value("boot")?,
        })
    }
}

/// What is stored, and shown to people: `host=… pid=… started=… namespace=… boot=…`.
impl fmt::Display for LeaseHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, pid, started, namespace, boot } = self;
        write!(f, "host={host} pid={pid} started={started} namespace={namespace} boot={boot}")
    }
}

/// A part of a holder: without spaces, and never empty.
fn word(text: Option<String>) -> String {
    let text: String = text.unwrap_or_default().split_whitespace().collect();
    if text.is_empty() { UNKNOWN.to_owned() } else { text }
}

/// The start time of a process; `None` if there is no such process.
fn started(pid: u32) -> std::io::Result<Option<String>> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The second field is the command in brackets and may hold anything; start time is the 22nd.
        Ok(stat) => {
            Ok(stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19)).map(str::to_owned))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
