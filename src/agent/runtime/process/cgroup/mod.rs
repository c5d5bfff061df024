//! Limits by control groups: the kernel holds a version to them, where the agent may make a group for each.
//!
//! | | version 2 | version 1 |
//! |---|---|---|
//! | where | below the group that was delegated to the agent (`Delegate=yes`; with `DelegateSubgroup=` its parent) | below the agent's own group of each controller |
//! | memory | `memory.max`, no swap; who passes it is killed with the whole version (`memory.oom.group`) | `memory.limit_in_bytes`; the shim ends the rest |
//! | processes | `pids.max`, which counts threads: a wall against those that fork without an end | likewise |
//! | processor | `cpu.max` | `cpu.cfs_quota_us` |
//! | the end | `cgroup.kill` | each process that is listed |
//!
//! The shim makes the groups and whoever clears a run takes them away; their names hold the mark of the run, which nobody else
//! has. Where there are none, or one can't be made, limits of resources (`setrlimit`) and the look of the shim hold alone.

mod found;

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::{super::Limits, tree};

pub(super) use self::found::Hierarchies;
pub use self::found::{CgroupKind, Cgroups};

/// What a process may have of threads, on the average of all of a version.
const THREADS: u64 = 32;
/// The period for which the part of a processor is given, in microseconds.
const PERIOD: u64 = 100_000;
/// How often is looked whether a group is empty, and the pause in between.
const LOOKS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(5);

/// Files of version 1: the limit of a group's memory, and the most that it has held, in bytes.
const LIMIT_V1: &str = "memory.limit_in_bytes";
const MOST_V1: &str = "memory.max_usage_in_bytes";

/// The groups of a run: one of version 2, or one of each controller of version 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Groups(Vec<Group>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    folder: PathBuf,
    /// What is written into its files when it is made.
    writes: Vec<Setting>,
    /// The file in which the kernel counts processes that it killed for their memory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    counter: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Setting {
    file: String,
    value: String,
    /// Kernels differ, and without it the group is as good.
    #[serde(default)]
    may_lack: bool,
}

impl Groups {
    /// The groups that a run is to have. `is_whole`: one of each kind that the machine has, those that limit nothing too, so that
    /// what makes groups below those it was started in leaves none elsewhere.
    pub(super) fn of(found: &Hierarchies, mark: &str, limits: &Limits, is_whole: bool) -> Self {
        let name = format!("choirmaster-{mark}");
        let group = |(folder, controllers): (&Path, &[&str])| {
            let mut group = Group { folder: folder.join(&name), writes: Vec::new(), counter: None };
            for controller in controllers {
                group.limit(found.kind(), controller, limits);
            }
            group
        };
        let mut all: Vec<_> = found.parents().map(group).collect();
        if is_whole {
            all.extend(found.others().into_iter().map(|(parent, writes)| {
                let writes = writes.into_iter().map(|(file, value)| Setting { file, value, may_lack: true });
                Group { folder: parent.join(&name), writes: writes.collect(), counter: None }
            }));
        }
        Self(all)
    }

    pub(super) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes them. What can't be made is taken away again.
    pub(super) fn make(&self) -> io::Result<()> {
        let made = self.0.iter().try_for_each(Group::make);
        if made.is_err() {
            let _ = self.remove();
        }
        made
    }

    pub(super) fn are_there(&self) -> bool {
        self.0.iter().all(|group| group.folder.exists())
    }

    /// Puts the process that calls it into them.
    pub(super) fn join(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|group| write(&group.folder.join("cgroup.procs"), "0"))
    }

    /// How many processes were killed because the version had too much memory; `None` where nobody counts.
    pub(super) fn killed_for_memory(&self) -> Option<u64> {
        let group = self.0.iter().find(|group| group.counter.is_some())?;
        let counter = group.counter.as_deref()?;
        let killed = |folder: &Path| {
            let text = fs::read_to_string(folder.join(counter)).ok()?;
            text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())
        };
        // In version 1 each group counts for itself, that of a container below this one too.
        let below = fs::read_dir(&group.folder).into_iter().flatten().flatten();
        let below = below.filter_map(|entry| killed(&entry.path()));
        Some(killed(&group.folder)? + below.sum::<u64>())
    }

    /// Whether the version has held all the memory that it may, caches of files included, since that was last forgotten. Only version 1
    /// says so; there it is asked of a container, which has a group of its own below this one: that counts for itself and goes with the
    /// container, so that nothing may be left that says who was killed.
    pub(super) fn was_full(&self) -> bool {
        let number = |folder: &Path, file: &str| -> Option<u64> {
            fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
        };
        self.0.iter().any(|group| {
            let most = number(&group.folder, MOST_V1);
            most.is_some() && most >= number(&group.folder, LIMIT_V1)
        })
    }

    /// Forgets the most that the version has held.
    pub(super) fn forget_fullness(&self) {
        for group in self.0.iter().filter(|group| group.folder.join(MOST_V1).exists()) {
            let _ = write(&group.folder.join(MOST_V1), "0");
        }
    }

    /// Kills all that is in them.
    pub(super) fn kill(&self) {
        for group in &self.0 {
            if write(&group.folder.join("cgroup.kill"), "1").is_err() {
                for pid in group.processes() {
                    tree::kill(pid, Signal::KILL);
                }
            }
        }
    }

    /// Kills all that is in them and takes them away. Gives what doesn't end. Blocks meanwhile.
    pub(super) fn remove(&self) -> Result<(), Vec<u32>> {
        for _ in 0..LOOKS {
            let left = self.0.iter().filter(|group| !group.remove()).count();
            if left == 0 {
                return Ok(());
            }
            self.kill();
            std::thread::sleep(PAUSE);
        }
        Err(self.0.iter().flat_map(Group::processes).collect())
    }
}

impl Group {
    fn limit(&mut self, kind: CgroupKind, controller: &str, limits: &Limits) {
        let mut set = |file: &str, value: String, may_lack| {
            self.writes.push(Setting { file: file.to_owned(), value, may_lack });
        };
        match (kind, controller) {
            (CgroupKind::V2, "memory") => {
                set("memory.max", limits.memory.to_string(), false);
                set("memory.swap.max", "0".to_owned(), true);
                set("memory.oom.group", "1".to_owned(), true);
                self.counter = Some("memory.events".to_owned());
            }
            (CgroupKind::V1, "memory") => {
                set(LIMIT_V1, limits.memory.to_string(), false);
                // Memory and swap together; not before the memory alone.
                set("memory.memsw.limit_in_bytes", limits.memory.to_string(), true);
                self.counter = Some("memory.oom_control".to_owned());
            }
            (_, "pids") => set("pids.max", limits.processes.saturating_mul(THREADS).to_string(), false),
            (CgroupKind::V2, "cpu") => {
                if let Some(quota) = quota(limits) {
                    set("cpu.max", format!("{quota} {PERIOD}"), false);
                }
            }
            (CgroupKind::V1, "cpu") => {
                if let Some(quota) = quota(limits) {
                    set("cpu.cfs_period_us", PERIOD.to_string(), false);
                    set("cpu.cfs_quota_us", quota.to_string(), false);
                }
            }
            (CgroupKind::V1 | CgroupKind::V2 | CgroupKind::None, _) => {}
        }
    }

    fn make(&self) -> io::Result<()> {
        fs::create_dir(&self.folder)?;
        for Setting { file, value, may_lack } in &self.writes {
            match write(&self.folder.join(file), value) {
                Err(error) if !may_lack => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Whether it is gone.
    fn remove(&self) -> bool {
        // Groups that the version made itself.
        let below = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let folders = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for entry in folders {
            let inner = Self { folder: entry.path(), writes: Vec::new(), counter: None };
            if !inner.remove() {
                for pid in inner.processes() {
                    tree::kill(pid, Signal::KILL);
                }
            }
        }
        match fs::remove_dir(&self.folder) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

/// Microseconds of a period.
fn quota(limits: &Limits) -> Option<u64> {
    limits.cpu.map(|hundredths| (u64::from(hundredths) * PERIOD / 100).max(1000))
}

/// Files of groups are there already, or the group has none of that name.
fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}
