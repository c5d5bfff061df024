//! The process beside each running version, and what else is started under its name.
//!
//! ```text
//!  agent ──▶ start ──▶ watch ──▶ launch = function ──▶ …
//!            ends once   │         sets limits on itself, then becomes the function
//!            watch       ├─ log, log.1 (by log.pipe)
//!            answers     └─ shim.sock: one JSON text a line
//! ```
//!
//! Nobody but `watch` is the parent of the function, so nothing happens to it when the agent dies. What a function leaves without a
//! parent becomes a child of `watch`, so that all of it is found and ended with the function.
//!
//! Where `watch` itself is killed, the function goes on, and the next `watch` of the run goes on with it: it is the process that
//! `started.json` names, by number, start and boot of the machine, so that no other one is taken for it. Its end is learnt from the
//! kernel, without its exit status; its processes are found by a mark in their environment, and by whom these started. What it writes
//! meanwhile waits in the pipe, which it holds at both ends; where that is full, the function waits with its next line until somebody
//! reads. A run that is being ended has no `started.json` any more.

mod binary;
mod function;
mod launch;
mod log;
mod protocol;
mod serve;
mod start;
mod usage;
mod watch;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use self::launch::GROUPED;
pub(super) use self::protocol::{Ask, ShimResponse, Status};
use super::run::Run;

/// How it is called.
const USAGE: &str =
    "this is called by `choirmaster agent`: start|watch FOLDER, launch FOLDER PARENT [grouped], binary";
/// What `choirmaster agent shim` does, given what stands behind it on the command line.
#[must_use]
pub fn main(arguments: &[OsString]) -> ExitCode {
    let mut words = arguments.iter();
    let role = words.next().and_then(|role| role.to_str());
    let folder = words.next().map(|folder| Run::at(PathBuf::from(folder)));
    let done = match (role, folder) {
        (Some("start"), Some(run)) => start::start(&run),
        (Some("watch"), Some(run)) => start::watch(run),
        (Some("launch"), Some(run)) => {
            let parent = words.next().and_then(|parent| parent.to_str()?.parse().ok());
            let is_grouped = words.next().is_some_and(|word| word == GROUPED);
            launch::launch(&run, parent, is_grouped)
        }
        (Some("binary"), None) => binary::serve(),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Whoever started it may have gone.
            let _ =
                std::io::Write::write_all(&mut std::io::stderr(), format!("choirmaster: {why}\n").as_bytes());
            ExitCode::from(127)
        }
    }
}
