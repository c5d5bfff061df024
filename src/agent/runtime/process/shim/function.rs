use std::{
    fs::File,
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};
use tokio::time::Instant;

use super::{
    super::{
        super::Exit,
        cgroup::Groups,
        run::{Run, Spec},
        tree,
    },
    launch::GROUPED,
    protocol::Status,
};
use crate::process_end::ProcessEnd;

/// What its processes are called in lists of processes; they are started by what they are, whatever lies at its place by then.
pub(super) const PROGRAM: &str = "choirmaster";
/// How long is waited for processes that were killed.
const KILLED: Duration = Duration::from_secs(5);

/// The process of a function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function {
    pub pid: u32,
    /// Ticks since the machine was started.
    pub started: u64,
    pub since: Instant,
}

impl Function {
    /// All children are waited for in one place (`reap`), with those that come without a parent.
    pub(super) fn start(run: &Run, spec: &Spec, log: &File, is_grouped: bool) -> io::Result<Self> {
        match std::fs::remove_file(run.function_socket()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let child = Command::new("/proc/self/exe")
            .arg0(PROGRAM)
            .args(&spec.shim)
            .arg("launch")
            .arg(run.folder())
            .arg(std::process::id().to_string())
            .args(is_grouped.then_some(GROUPED))
            .env_clear()
            .envs(&spec.environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .spawn()?;
        let pid = child.id();
        Ok(Self { pid, started: tree::start_time(pid).unwrap_or(0), since: Instant::now() })
    }

    /// Goes on with the function of a shim that is gone, and gives its end. Nobody who isn't its parent learns how that came.
    pub(super) fn adopt(before: &Status) -> io::Result<(Self, ProcessEnd)> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let (pid, started) = before.pid.zip(before.started).ok_or_else(gone)?;
        let end = ProcessEnd::open(pid)?;
        // Only what was opened before it was looked at is surely this one.
        if tree::start_time(pid) == Some(started) {
            Ok((Self { pid, started, since: Instant::now() }, end))
        } else {
            Err(gone())
        }
    }

    /// To it and to whatever it started in its process group.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // Before it has a group of its own, it alone is there.
            if kill_process_group(pid, signal).is_err() {
                tree::kill(self.pid, signal);
            }
        }
    }
}

/// Waits for children that have ended, whoever started them, and gives how this one did if it is among them.
pub(super) fn reap(function: Option<u32>) -> Option<Exit> {
    let mut exit = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if u32::try_from(pid.as_raw_nonzero().get()).ok() == function {
            exit = Some(exit_of(status));
        }
    }
    exit
}

fn exit_of(status: WaitStatus) -> Exit {
    Exit { code: status.exit_status(), signal: status.terminating_signal(), because: None }
}

/// Kills what is left of a function that has ended, of which these are the processes. Gives what can't be killed.
pub(super) async fn end_what_is_left(groups: Option<&Groups>, processes: impl Fn() -> Vec<u32>) -> Vec<u32> {
    let until = Instant::now() + KILLED;
    loop {
        if let Some(groups) = groups {
            groups.kill();
        }
        reap(None);
        let left = processes();
        if left.is_empty() || Instant::now() >= until {
            return left;
        }
        for pid in left {
            tree::kill(pid, Signal::KILL);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
