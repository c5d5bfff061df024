use std::{path::PathBuf, time::Duration};

use crate::haproxy::config::Frame;

/// As errors name it.
pub(super) const NAME: &str = "HAProxy";

/// How one is reached and led.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its program, for checks.
    pub program: PathBuf,
    /// The operator's own files, in the order in which it is given them. Ours comes after them.
    pub config: Vec<PathBuf>,
    /// What is ours, and where it stands.
    pub frame: Frame,
    /// Its runtime socket (`stats socket PATH level admin`).
    pub socket: PathBuf,
    /// The socket of its master (`-S PATH`), which also tells of processes that were replaced and have calls still.
    pub master_socket: Option<PathBuf>,
    /// The file into which its master writes its process id (`-W -p PATH`).
    pub pid: PathBuf,
    pub reload: Reload,
    pub limits: Limits,
}

/// How it is had load its configuration anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reload {
    /// SIGUSR2 to its master.
    Signal,
    /// A command, without a shell, that ends with 0 once it was told, as in `systemctl reload haproxy`.
    Command(Vec<String>),
}

/// How long it is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For one answer of a socket.
    pub answer: Duration,
    /// For its check of a configuration, and for the command that reloads it.
    pub program: Duration,
    /// For the new process to answer after a reload.
    pub reload: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(5),
            program: Duration::from_secs(30),
            reload: Duration::from_secs(30),
        }
    }
}
