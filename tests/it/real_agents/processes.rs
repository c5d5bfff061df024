//! Processes of this machine, by what is written in their arguments and their environment.

use std::{fs, path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

/// How often it is looked whether anything is left, until that is given up.
const LOOKS: u32 = 500;
const LOOK: Duration = Duration::from_millis(10);

/// A process that runs.
#[derive(Debug, Clone)]
pub struct Found {
    pub pid: u32,
    /// Its arguments, with spaces between.
    pub arguments: String,
}

/// Those that have a text in their arguments or their environment, but for this one.
pub fn with(text: &str) -> Vec<Found> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found = pids.filter(|pid| *pid != std::process::id()).filter_map(|pid| {
        let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let (arguments, environment) = (read("cmdline"), read("environ"));
        let has = |bytes: &[u8]| memchr::memmem::find(bytes, text.as_bytes()).is_some();
        let arguments_text = String::from_utf8_lossy(&arguments).replace('\0', " ");
        // A process without arguments has ended, and its parent hasn't looked yet.
        let is_it = !arguments.is_empty() && (has(&arguments) || has(&environment));
        is_it.then(|| Found { pid, arguments: arguments_text.trim().to_owned() })
    });
    found.collect()
}

/// SIGKILL. False: it was gone.
pub fn kill(pid: u32) -> bool {
    send(pid, Signal::KILL)
}

/// Sends a signal. False: it was gone.
pub fn send(pid: u32, signal: Signal) -> bool {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    kill_process(pid, signal).is_ok()
}

/// Ends all that has to do with a folder.
pub fn end_all(folder: &Path) {
    let folder = folder.to_str().unwrap();
    for _ in 0..LOOKS {
        let left = with(folder);
        if left.is_empty() {
            return;
        }
        for one in left {
            kill(one.pid);
        }
        std::thread::sleep(LOOK);
    }
    eprintln!("could not be ended: {:?}", with(folder));
}
