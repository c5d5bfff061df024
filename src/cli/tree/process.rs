//! A manager in a process of its own: this program again, as `serve`.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::cli::failure::Failure;
use model::duration;

/// A manager that was told to end has this long to commit what is left.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// How often an ending process is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a served manager prints before its address.
const LISTENING: &str = "listening on ";

/// What one is started with.
#[derive(Debug)]
pub struct Launch<'a> {
    pub name: &'a str,
    /// Its own, for its store.
    pub folder: &'a Path,
    pub functions_root: &'a Path,
    pub listen: String,
    pub parent: Option<&'a str>,
    pub poll: Duration,
}

/// A manager's process. It is killed if it is dropped without [`Process::stop`].
#[derive(Debug)]
pub struct Process {
    pub url: String,
    child: Child,
    /// Kept open: whoever prints into a closed pipe fails.
    _stdout: BufReader<ChildStdout>,
    is_over: bool,
}

impl Process {
    /// Starts a manager and waits until it answers.
    pub async fn start(launch: Launch<'_>) -> Result<Self, Failure> {
        let name = launch.name.to_owned();
        let ours = |error: std::io::Error| Failure::ours(format!("manager {name} can't be started: {error}"));
        let mut command = launch.command().map_err(ours)?;
        let mut child = command.spawn().map_err(ours)?;
        let Some(stdout) = child.stdout.take() else {
            return Err(Failure::ours(format!("manager {name} has no output")));
        };
        let reading = tokio::task::spawn_blocking(move || {
            let (mut stdout, mut line) = (BufReader::new(stdout), String::new());
            stdout.read_line(&mut line).map(|_| (stdout, line))
        });
        // From here on it is ended however this goes on.
        let mut guarded = Guard(Some(child));
        let read = reading.await.map_err(|error| Failure::ours(error.to_string()))?;
        let (stdout, line) = read.map_err(ours)?;
        match (line.trim_end().strip_prefix(LISTENING), guarded.0.take()) {
            (Some(url), Some(child)) => {
                Ok(Self { url: url.to_owned(), child, _stdout: stdout, is_over: false })
            }
            (_, child) => {
                guarded.0 = child;
                Err(Failure::ours(format!("manager {name} ended before it listened")))
            }
        }
    }

    /// How it ended, if nobody told it to; told once.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = if self.is_over { None } else { self.child.try_wait().ok().flatten() };
        self.is_over |= status.is_some();
        status
    }

    /// Lets it commit what is left, and waits for its end.
    pub async fn stop(mut self) {
        // One that is gone already can't be told.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + STOP_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A process that is not yet anybody's.
struct Guard(Option<Child>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            end(child);
        }
    }
}

fn end(child: &mut Child) {
    // Does nothing to one that has been waited for.
    let _ = child.kill();
    let _ = child.wait();
}

impl Launch<'_> {
    fn command(&self) -> std::io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        // In a folder without a configuration, and without the variables of whoever started this.
        command.current_dir(self.folder);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CHOIRMASTER_") {
                command.env_remove(name);
            }
        }
        command.args(["serve", "--log-level", "warn", "--data", ".", "--listen", &self.listen]);
        command.arg("--functions").arg(self.functions_root);
        if let Some(parent) = self.parent {
            let poll = duration::show_millis(self.poll.as_millis() as u64);
            command.args(["--parent", parent, "--set", &format!("parent.name={}", self.name)]);
            command.args(["--set", &format!("parent.poll={poll}")]);
        }
        // A group of its own: Ctrl-C in a terminal is for this program, which then ends them from the leaves up.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(command)
    }
}
