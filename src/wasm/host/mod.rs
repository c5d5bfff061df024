//! The host of one component.
//!
//! ```text
//!  calls ──▶ serve ──▶ call: one instance of the component ──▶ memory (the call's, and what all have)
//!            socket          │                              ├─▶ ticks (yields, and the time it computes)
//!                            │                              └─▶ outgoing (whom it may call)
//!                            ▼
//!                         answer: its body ends well only if the instance did
//! ```
//!
//! Least authority: an instance sees no file, no socket, no environment but what [`Hosted`] names, no argument and no standard input. It
//! has clocks and random numbers; what it writes to standard output and error is the host's, and so the version's log.

mod answer;
mod call;
mod component;
mod failure;
mod fault;
mod memory;
mod outgoing;
mod serve;
mod ticks;

use std::{fs, path::Path, sync::Arc};

use tokio::runtime::Builder;

pub use self::fault::Fault;
use self::{call::Calls, serve::serve};
use super::form::Hosted;

/// Threads that run instances, at most. Each processor has one.
const THREADS: usize = 16;
/// Threads for what blocks: names of outgoing calls are looked up there.
const BLOCKING: usize = 16;
/// The most bytes of the file that says what is served.
const MAX_FILE: u64 = 1024 * 1024;

/// Serves until SIGTERM, and until the calls that were there then have ended.
pub fn run(file: &Path) -> Result<(), Fault> {
    let hosted = read(file)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(BLOCKING)
        .enable_all()
        .build();
    runtime.map_err(Fault::io("starting threads"))?.block_on(async {
        let socket = hosted.socket.clone();
        let calls = Arc::new(Calls::prepare(hosted).await?);
        serve(&socket, calls).await
    })
}

fn read(file: &Path) -> Result<Hosted, Fault> {
    let doing = || Fault::io(format!("reading {}", file.display()));
    let about = fs::metadata(file).map_err(doing())?;
    if about.len() > MAX_FILE {
        return Err(doing()(std::io::ErrorKind::FileTooLarge.into()));
    }
    let text = fs::read(file).map_err(doing())?;
    serde_json::from_slice(&text).map_err(|error| doing()(error.into()))
}
