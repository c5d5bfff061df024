use std::{fs, path::Path, time::Duration};

use tokio::time::Instant;

use super::super::{
    super::{Exit, Limits},
    cgroup::Groups,
    run::Run,
    tree,
};

/// How often processes and memory are looked at.
pub(super) const PROCESSES_EVERY: Duration = Duration::from_millis(250);
/// How often the folder is at most.
const FOLDER_EVERY: Duration = Duration::from_secs(1);
/// A look at a folder is followed by so many times its duration without one.
const REST: u32 = 50;
/// Entries of a folder that are looked at. Who has more is beyond its room, whatever they hold.
const ENTRIES: usize = 1_000_000;
/// What returns whoever waited for a container that SIGKILL ended.
const KILLED_INSIDE: i32 = 128 + 9;
/// What an entry takes besides its bytes.
const ENTRY: u64 = 512;

/// What a version uses, against its limits.
#[derive(Debug)]
pub(super) struct Usage {
    limits: Limits,
    /// The control groups that hold it to its memory.
    groups: Option<Groups>,
    /// How many of its processes the kernel had killed for that when it was looked last.
    killed: u64,
    folder_next: Instant,
}

impl Usage {
    pub(super) fn new(limits: Limits, groups: Option<Groups>) -> Self {
        Self { limits, groups, killed: 0, folder_next: Instant::now() }
    }

    /// Another shim looked before.
    pub(super) fn go_on(&mut self) {
        self.killed = self.groups.as_ref().and_then(Groups::killed_for_memory).unwrap_or(0);
    }

    /// In words, that the kernel killed a process of it for its memory since this was asked last.
    pub(super) fn killed_for_memory(&mut self) -> Option<String> {
        let killed = self.groups.as_ref()?.killed_for_memory()?;
        let before = std::mem::replace(&mut self.killed, killed);
        (killed > before).then(|| self.too_much_memory())
    }

    /// It is started, again.
    pub(super) fn begin(&self) {
        self.groups.iter().for_each(Groups::forget_fullness);
    }

    /// In words, that it ended for its memory, if it did.
    pub(super) fn ended_for_memory(&mut self, exit: &Exit) -> Option<String> {
        let was_killed = exit.code == Some(KILLED_INSIDE);
        let was_full = self.groups.as_ref().is_some_and(Groups::was_full);
        self.killed_for_memory().or_else(|| (was_killed && was_full).then(|| self.too_much_memory()))
    }

    fn too_much_memory(&self) -> String {
        format!("it needed more memory than its limit, {} bytes", self.limits.memory)
    }

    /// The limit that is passed, in words. `all`: the version's processes.
    pub(super) fn look(&mut self, run: &Run, all: Vec<u32>) -> Option<String> {
        let Limits { memory, processes, room, .. } = self.limits;
        if all.len() as u64 > processes {
            return Some(format!("it had {} processes, and its limit is {processes}", all.len()));
        }
        if self.groups.as_ref().is_some_and(|groups| groups.killed_for_memory().is_some()) {
            if let Some(because) = self.killed_for_memory() {
                return Some(because);
            }
        } else {
            let used: u64 = all.into_iter().map(tree::memory).sum();
            if used > memory {
                return Some(format!("it used {used} bytes of memory, and its limit is {memory}"));
            }
        }
        let begun = Instant::now();
        if begun < self.folder_next {
            return None;
        }
        let held = held(&[run.content().as_path(), run.scratch().as_path()]);
        self.folder_next = Instant::now() + FOLDER_EVERY.max(begun.elapsed() * REST);
        (held > room).then(|| format!("its folder held {held} bytes, and its limit is {room}"))
    }
}

/// Bytes that these folders take. Holes of files take none.
fn held(folders: &[&Path]) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut open: Vec<_> = folders.iter().map(|folder| folder.to_path_buf()).collect();
    let (mut bytes, mut entries) = (0_u64, 0);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            entries += 1;
            if entries > ENTRIES {
                return u64::MAX;
            }
            let Ok(about) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(about.blocks() * 512 + ENTRY);
            if about.is_dir() {
                open.push(entry.path());
            }
        }
    }
    bytes
}
