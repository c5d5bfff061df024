//! Processes, as `/proc` shows them.

use std::{collections::BTreeSet, fs, path::Path};

use rustix::process::{Pid, Signal, kill_process};

/// When a process was started, in ticks since the machine was; `None` if it isn't there. A number with its time names one
/// process, however many had the number before.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    // Fields after the name, which may hold anything but ends with the last bracket; the 22nd of all.
    field(pid, 22)
}

/// Who has started it, or has it since that one ended.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    field(pid, 4)?.try_into().ok()
}

fn field(pid: u32, number: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(number - 3)?.parse().ok()
}

/// Whether it has ended and its parent hasn't looked yet.
pub(super) fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('Z'))
}

/// What tells this start of the machine from others: ticks begin anew with each.
pub(super) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// All that a process started, with what these started, without itself.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut found = BTreeSet::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        open.extend(children(parent).into_iter().filter(|child| *child != pid && found.insert(*child)));
    }
    found.into_iter().collect()
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut all = Vec::new();
    for task in tasks.flatten() {
        match fs::read_to_string(task.path().join("children")) {
            Ok(line) => {
                all.extend(line.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
            }
            // A thread that ended meanwhile, or a kernel without these files.
            Err(_) if Path::new("/proc/thread-self/children").exists() => {}
            Err(_) => return processes().filter(|other| parent(*other) == Some(pid)).collect(),
        }
    }
    all
}

/// The processes whose environment holds this entry. It is passed on to whatever a process starts, unless that is refused on
/// purpose.
pub(super) fn marked(entry: &str) -> Vec<u32> {
    let holds = |pid: &u32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == entry.as_bytes()))
    };
    processes().filter(holds).collect()
}

/// The same, with all that they started.
pub(super) fn marked_with_descendants(entry: &str) -> BTreeSet<u32> {
    let marked = marked(entry);
    let started = marked.iter().flat_map(|pid| descendants(*pid));
    started.chain(marked.iter().copied()).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Bytes of memory that a process has in use. What several share counts with each.
pub(super) fn memory(pid: u32) -> u64 {
    let pages = || {
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    pages().unwrap_or(0) * rustix::param::page_size() as u64
}

pub(super) fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may be gone already, which is what is wanted.
        let _ = kill_process(pid, signal);
    }
}
