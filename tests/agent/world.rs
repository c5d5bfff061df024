//! A machine of its own for each test.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agent::runtime::{
    Order, Runtime, VersionId,
    process::{ProcessRuntime, Settings, cgroup::Cgroups},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    functions::{self, Behaviour},
    ports,
};

/// What a runtime brings along to be put through the conformance suite.
pub trait World {
    /// A version that ended by itself is started again.
    const STARTS_AGAIN: bool;
    /// The number of its process is the same to a version as to the machine.
    const SEES_PIDS: bool = true;

    /// Why this machine can't try it, where it can't.
    fn missing() -> Option<String> {
        None
    }

    fn new() -> Self;
    /// The runtime, opened anew. Whoever had it before is gone.
    fn open(&self) -> Arc<dyn Runtime>;
    /// A version that behaves so; each call gives another one.
    fn order(&self, behaviour: Behaviour) -> Order;
    /// Processes, sockets and folders that versions left on the machine.
    fn left_behind(&self) -> Vec<String>;
    /// Whether a process is there that a version named.
    fn is_there(&self, pid: &str) -> bool {
        self.left_behind().iter().any(|line| line.starts_with(&format!("{pid}:")))
    }
    /// Bytes that are kept of what a version wrote.
    fn log_bytes(&self, version: &VersionId) -> u64;
}

/// A machine that runs processes.
pub struct ProcessWorld {
    root: tempfile::TempDir,
}

impl ProcessWorld {
    /// What versions are made from.
    pub fn source(&self) -> PathBuf {
        let name = format!("source/{:016x}", fastrand::u64(..));
        let folder = self.root.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    pub fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    pub fn settings(&self) -> Settings {
        let shim = (PathBuf::from(env!("CARGO_BIN_EXE_choirmaster-shim")), Vec::new());
        Settings { folder: self.state(), shim, ports: ports::range(99), cgroups: Cgroups::Auto }
    }

    pub fn run_folder(&self, version: &VersionId) -> PathBuf {
        self.state().join("runs").join(&version.as_str()[..16])
    }

    /// The process that watches a version.
    pub fn shim(&self, version: &VersionId) -> u32 {
        let watches = format!("watch\0{}\0", self.run_folder(version).display());
        let is_it = |process: &u32| {
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            line.ends_with(watches.as_bytes())
        };
        let all = names(Path::new("/proc")).into_iter().filter_map(|name| name.parse().ok());
        all.into_iter().find(is_it).expect("it has a shim")
    }
}

impl World for ProcessWorld {
    const STARTS_AGAIN: bool = true;

    fn new() -> Self {
        Self { root: tempfile::Builder::new().prefix("choir").tempdir().unwrap() }
    }

    fn open(&self) -> Arc<dyn Runtime> {
        Arc::new(ProcessRuntime::open(self.settings()).unwrap())
    }

    fn order(&self, behaviour: Behaviour) -> Order {
        let folder = self.source();
        functions::write(behaviour, &folder);
        Order::new(any_version(), folder)
    }

    fn left_behind(&self) -> Vec<String> {
        let mut left = names(&self.state().join("runs"));
        let state = self.state();
        let state = state.to_str().unwrap();
        for process in names(Path::new("/proc")) {
            let holds = |file: &str| {
                let bytes = fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
                String::from_utf8_lossy(&bytes).contains(state)
            };
            if process.parse::<u32>().is_ok() && (holds("environ") || holds("cmdline")) {
                let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
                left.push(format!("{process}: {}", String::from_utf8_lossy(&line).replace('\0', " ")));
            }
        }
        left
    }

    fn log_bytes(&self, version: &VersionId) -> u64 {
        let size = |name: &str| self.run_folder(version).join(name).metadata().map_or(0, |about| about.len());
        size("log") + size("log.1")
    }
}

/// A test that fails leaves nothing on the machine either.
impl Drop for ProcessWorld {
    fn drop(&mut self) {
        let pids = self.left_behind().into_iter();
        for pid in pids.filter_map(|line| Pid::from_raw(line.split_once(':')?.0.parse().ok()?)) {
            // It may have ended with the one before.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

pub fn any_version() -> VersionId {
    format!("{:032x}", fastrand::u128(..)).parse().unwrap()
}

/// The names of what is in a folder.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Waits until something holds; ends the test when it doesn't for a long time.
pub async fn wait_until<T>(what: &str, mut holds: impl AsyncFnMut() -> Option<T>) -> T {
    let until = tokio::time::Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(found) = holds().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < until, "waited for a minute: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
