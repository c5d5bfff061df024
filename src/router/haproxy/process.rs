//! Its processes: the master, the one that serves, and those that were replaced and have calls still.

use std::{ffi::OsStr, fs, io::ErrorKind, path::Path};

use crate::haproxy::config::{Structure, show_load_of, under_way};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::{
    Haproxy, NAME, Reload, program,
    running::Running,
    runtime_socket::{ask_master, no_sense, step},
};
use crate::{RouterError, disk};

/// Between two looks at whether another process serves.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// So often it is told. A master that is about to finish one reload may miss that it is told of another.
const TELLINGS: u32 = 4;
/// After so long without another process it is told once more.
const QUIET: std::time::Duration = std::time::Duration::from_secs(4);

/// Has another process take the place of `old`, and waits until one serves that loaded the file of this structure.
///
/// # Errors
///
/// [`RouterError::Refused`] where its master says that none came up, [`RouterError::Silent`] where none is there in time, or why the
/// one that serves could not be asked at last.
pub(super) async fn reload(
    haproxy: &Haproxy,
    mut old: u32,
    structure: Option<&Structure>,
) -> Result<Running, RouterError> {
    let within = haproxy.settings.limits.reload;
    let until = Instant::now() + within;
    let failed = ready(haproxy).await;
    let mut tellings = 0;
    let mut told: Option<Instant> = None;
    let mut is_another = false;
    let mut unasked = None;
    while Instant::now() < until {
        if tellings < TELLINGS && told.is_none_or(|told| told.elapsed() > QUIET) {
            signal(haproxy, old).await?;
            (tellings, told) = (tellings + 1, Some(Instant::now()));
        }
        // Until the old one has handed its sockets over, either may answer or none.
        unasked = match Running::find(haproxy).await {
            Ok(running) if running.pid == old => None,
            Ok(running) if running.structure.as_ref() == structure => return Ok(running),
            Ok(running) => {
                // It was started for somebody who had it told before, and had another file there.
                (old, told, is_another) = (running.pid, None, true);
                ready(haproxy).await;
                None
            }
            Err(error) => Some(error),
        };
        let failed_now = failed_reloads(haproxy).await;
        if failed.is_some() && failed_now > failed {
            let said = "its new process ended as soon as it was started: its log says why".to_owned();
            return Err(RouterError::Refused { router: NAME, said });
        }
        sleep(PAUSE).await;
    }
    if let Some(error) = unasked {
        return Err(error);
    }
    let section = haproxy.files.folder.section();
    let section = section.display();
    let doing = if is_another {
        format!("process {old} came up, and not with {section}: is it its last -f?")
    } else {
        format!("process {old} goes on, and none came up with {section}: its log says why")
    };
    Err(RouterError::Silent { router: NAME, within, doing })
}

async fn signal(haproxy: &Haproxy, worker: u32) -> Result<(), RouterError> {
    match &haproxy.settings.reload {
        Reload::Signal => {
            let pid_file = &haproxy.settings.pid;
            let master = master(pid_file, worker)?;
            step(&haproxy.disk)?;
            let signalled = kill_process(master, Signal::USR2);
            signalled.map_err(|error| disk::at(pid_file)(error.into()))
        }
        Reload::Command(words) => {
            let mut words = words.iter().map(AsRef::as_ref);
            let none =
                || RouterError::Unable { router: NAME, what: "be loaded anew by no command".to_owned() };
            let program: &OsStr = words.next().ok_or_else(none)?;
            let arguments: Vec<&OsStr> = words.collect();
            match program::run(haproxy, program.as_ref(), &arguments).await? {
                Some(said) => Err(RouterError::Refused { router: NAME, said }),
                None => Ok(()),
            }
        }
    }
}

/// The master by its file, which has to be the parent of the process that serves: another's process is sent nothing.
fn master(pid_file: &Path, worker: u32) -> Result<Pid, RouterError> {
    let fault =
        |text: String| RouterError::File { path: pid_file.to_owned(), source: std::io::Error::other(text) };
    let text = fs::read_to_string(pid_file).map_err(disk::at(pid_file))?;
    let pid = text.trim().parse().ok().filter(|pid| *pid > 1).and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| fault("it holds no process id of a master: HAProxy needs -W".to_owned()))?;
    match parent(worker) {
        Some(parent) if parent != pid.as_raw_nonzero().get().unsigned_abs() => Err(fault(format!(
            "it names process {pid:?}, and the master of the process that serves is {parent}"
        ))),
        // Where the system doesn't tell of parents, the file is believed.
        Some(_) | None => Ok(pid),
    }
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Waits until the master has finished what it was told before: only then it answers, and only then it hears of more. Gives how
/// many reloads have failed.
async fn ready(haproxy: &Haproxy) -> Option<u64> {
    failed_of(&answering(haproxy).await?)
}

/// What the master says of its processes once it answers; none where it isn't asked or doesn't answer in time.
async fn answering(haproxy: &Haproxy) -> Option<String> {
    haproxy.settings.master_socket.as_ref()?;
    let until = Instant::now() + haproxy.settings.limits.answer;
    while Instant::now() < until {
        match processes(haproxy).await {
            Ok(said) => {
                let said = said.filter(|said| failed_of(said).is_some());
                if said.is_some() {
                    return said;
                }
            }
            // There is none, and won't be in a moment.
            Err(RouterError::Away { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) =>
            {
                return None;
            }
            Err(_) => {}
        }
        sleep(PAUSE).await;
    }
    None
}

/// Whether this process serves still, and no other is about to take its place that read the files before.
pub(super) async fn is_current(haproxy: &Haproxy, running: &mut Running) -> Result<bool, RouterError> {
    if let Some(said) = answering(haproxy).await {
        let mut lines = said.lines().skip_while(|line| !line.starts_with("# workers")).skip(1);
        let pid = lines.next().and_then(|line| line.split_ascii_whitespace().next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| pid != running.pid) {
            return Ok(false);
        }
    }
    running.serves().await
}

/// How many reloads have failed, as the master says.
async fn failed_reloads(haproxy: &Haproxy) -> Option<u64> {
    failed_of(&processes(haproxy).await.ok()??)
}

fn failed_of(said: &str) -> Option<u64> {
    let (_, count) = said.lines().find(|line| line.contains(" master "))?.split_once("[failed: ")?;
    count.split(']').next()?.parse().ok()
}

/// What the master says of its processes; none where it isn't asked.
async fn processes(haproxy: &Haproxy) -> Result<Option<String>, RouterError> {
    let Some(socket) = &haproxy.settings.master_socket else { return Ok(None) };
    let within = haproxy.settings.limits.answer;
    ask_master(socket, within, "show proc\n").await.map(Some)
}

/// How many calls and connections a variation has, in the process that serves and in those that it replaced. None where there
/// are such and the master isn't asked.
pub(super) async fn connections(
    haproxy: &Haproxy,
    service: &str,
    variation: &str,
) -> Result<Option<u64>, RouterError> {
    let command = show_load_of(service, variation);
    let mut running = Running::find(haproxy).await?;
    let answer = running.session.ask(&command).await?;
    let mut all = under_way(&answer, service, variation).map_err(no_sense)?;
    if haproxy.settings.master_socket.is_none() {
        return Ok(Some(all).filter(|_| !has_siblings(running.pid)));
    }
    let Some(said) = answering(haproxy).await else { return Ok(None) };
    let old = said.lines().skip_while(|line| !line.starts_with("# old workers")).skip(1);
    let old = old.take_while(|line| !line.starts_with('#'));
    let pids = old.filter_map(|line| line.split_ascii_whitespace().next()?.parse::<u32>().ok());
    for pid in pids {
        let Some(socket) = &haproxy.settings.master_socket else { continue };
        let command = format!("@!{pid} {command}");
        let answer = ask_master(socket, haproxy.settings.limits.answer, &command).await?;
        // Nothing where it ended by now.
        all += if answer.starts_with('#') {
            under_way(&answer, service, variation).map_err(no_sense)?
        } else {
            0
        };
    }
    Ok(Some(all))
}

/// Whether the master has other processes than the one that serves, or can't be asked that.
fn has_siblings(worker: u32) -> bool {
    let Some(master) = parent(worker) else { return true };
    let threads = fs::read_dir(format!("/proc/{master}/task"));
    let children = threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let mut children = children.peekable();
    if children.peek().is_none() {
        return true;
    }
    children.any(|children| children.split_ascii_whitespace().any(|pid| pid != worker.to_string()))
}
