//! Ends an agent, and all that runs because of it: the proxy beside it and the versions of its functions.
//!
//! Invariants:
//!
//! 1. Who is told to end is proven to be of this agent's folder: the agent by the lock of the folder, the supervisor of the proxy by the lock
//!    beside the proxy's control socket, processes that take calls by the sockets beside that, shims by their own. A number that was found is
//!    used only while what proves it is still so. Where an agent of another folder has this agent's control socket by now, the proxy is taken
//!    for that one's.
//! 2. The agent ends first, since it starts again whatever else ends; and nobody gets the lock of its folder until all of it has ended.
//! 3. Ports of others that are taken by rules are given back before the proxy ends, and what can't be given back keeps the proxy alive. Of those
//!    that are taken by a socket it is said where nobody may answer any more.
//! 4. What has ended already is passed over: it may be done again, and by whoever comes after a kill.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use proxy::{control::client::Client, local_http::socket, processes};
use rustix::process::Signal;
use tokio::time::{Instant, timeout};

use crate::{
    drive::{
        persistence::{ControlSockets, KeepError, Memory},
        runtimes,
    },
    process_end::ProcessEnd,
    runtime::process::tree,
    settings::{FrontSettings, Settings, Stop},
    state_machine::Trouble,
    takeover::left_over::LeftOver,
};

/// How long an agent may take to end, and how long where it ends proxy and functions itself.
const AGENT_ENDS: Duration = Duration::from_secs(15);
const AGENT_DRAINS: Duration = Duration::from_mins(2);

/// How long a proxy may take to end what it has.
const PROXY_ENDS: Duration = Duration::from_secs(90);

/// How long what was killed may take to be gone.
const GONE: Duration = Duration::from_secs(5);

/// Why not everything has ended.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error("no agent has run in {}: name the folder of its state with --state, or its configuration with --config", .0.display())]
    NoAgent(PathBuf),
    #[error(
        "{} is locked by a process that can't be seen: say it as the user of the agent, or as root", .0.display()
    )]
    Unseen(PathBuf),
    #[error(transparent)]
    Keep(#[from] KeepError),
    #[error("calls to ports of others can't be given back, so the proxy goes on: {0}")]
    Takeover(String),
    #[error("{who}: {source}")]
    Processes { who: &'static str, source: io::Error },
    /// The rest has ended.
    #[error("not everything has ended:\n  {}", .0.join("\n  "))]
    Left(Vec<String>),
}

/// Is told, a line each, what has ended.
pub type Said<'a> = &'a mut dyn FnMut(&str);

/// What becomes of it once all that could be ended has.
pub type Stopping<'a> = Pin<Box<dyn Future<Output = Result<(), StopError>> + 'a>>;

/// Ends the agent of a folder alone. What it runs goes on, unless it is set to end that with itself.
pub fn agent<'a>(settings: &'a Settings, said: Said<'a>) -> Stopping<'a> {
    Box::pin(async move {
        sockets(settings)?;
        end_agent(settings, said).await?;
        take_folder(settings).map(drop)
    })
}

/// Ends all that runs because of the agent of a folder.
pub fn all<'a>(settings: &'a Settings, said: Said<'a>) -> Stopping<'a> {
    Box::pin(end_all(settings, said))
}

fn sockets(settings: &Settings) -> Result<ControlSockets, StopError> {
    let folder = &settings.state;
    ControlSockets::read(folder)?.ok_or_else(|| StopError::NoAgent(folder.clone()))
}

async fn end_all(settings: &Settings, said: Said<'_>) -> Result<(), StopError> {
    let sockets = sockets(settings)?;
    // Who can't give it back learns so before anything has ended.
    left_over(settings).await?;
    end_agent(settings, said).await?;
    let memory = take_folder(settings)?;
    let has_successor = !clear_socket(&sockets.agent);
    // The agent may have taken something over, or given it back, until it ended.
    let left_over = left_over(settings).await?;
    if let Some(left_over) = &left_over {
        // While the proxy can be asked.
        let proxy = sockets.proxy.as_ref().map(Client::new);
        let ports = left_over.ports(proxy.as_ref()).await;
        left_over.send_nobody().await.map_err(of_takeover)?;
        for (port, has_others) in ports {
            said(&whose(port, has_others));
        }
    }
    match &sockets.proxy {
        Some(control) if has_successor => said(&whose_proxy(control, &sockets.agent)),
        Some(control) => end_proxy(control, said).await?,
        None => {}
    }
    let mut failed = Vec::new();
    if let Some(left_over) = left_over
        && let Err(trouble) = left_over.give_back().await
    {
        failed.push(trouble.text);
    }
    failed.extend(end_versions(settings, &memory, said).await);
    if failed.is_empty() { Ok(()) } else { Err(StopError::Left(failed)) }
}

/// The folder of an agent that has ended. Whoever has it still could not be seen.
fn take_folder(settings: &Settings) -> Result<Memory, StopError> {
    Memory::open(&settings.state).map_err(|error| match error {
        KeepError::Taken(folder) => StopError::Unseen(folder),
        error => error.into(),
    })
}

/// What is taken over of others' ports.
async fn left_over(settings: &Settings) -> Result<Option<LeftOver>, StopError> {
    let FrontSettings::Proxy(proxy) = &settings.front else { return Ok(None) };
    let Some(takeover) = &proxy.takeover else { return Ok(None) };
    LeftOver::find(takeover).await.map_err(of_takeover)
}

fn of_takeover(trouble: Trouble) -> StopError {
    StopError::Takeover(trouble.text)
}

/// Who takes calls to a port of others from now on.
fn whose(port: u16, has_others: bool) -> String {
    if has_others {
        return format!("calls to port {port} go to the program that has it");
    }
    format!(
        "calls to port {port} may be answered by nobody: the proxy took them by a socket, and no other program is known to take all of them; \
         start the one that has the port"
    )
}

/// The agent of another folder has the control socket of this one by now.
fn whose_proxy(proxy: &Path, agent: &Path) -> String {
    format!(
        "the proxy of {} goes on: an agent with another folder answers at {}, and may lead it",
        proxy.display(),
        agent.display()
    )
}

async fn end_agent(settings: &Settings, said: Said<'_>) -> Result<(), StopError> {
    let lock = settings.state.join("lock");
    let within = match settings.stop {
        Stop::Leave => AGENT_ENDS,
        Stop::Drain => AGENT_DRAINS,
    };
    end("the agent", async |_| processes::holders(&lock), within, said).await
}

async fn end_proxy(control: &Path, said: Said<'_>) -> Result<(), StopError> {
    end("the proxy", async |is_late| of_proxy(control, is_late).await, PROXY_ENDS, said).await?;
    clear_socket(control);
    Ok(())
}

/// The supervisor, which ends the others itself and would start them again; without it, or once it is late, all of them.
async fn of_proxy(control: &Path, is_late: bool) -> io::Result<Vec<u32>> {
    let supervisors = processes::holders(&socket::lock_file(control))?;
    if !supervisors.is_empty() && !is_late {
        return Ok(supervisors);
    }
    if supervisors.is_empty() && matches!(socket::lock(control), Ok(None)) {
        let why = "its supervisor can't be seen: say it as the user of the proxy, or as root";
        return Err(io::Error::other(why));
    }
    let started = supervisors.iter().flat_map(|pid| tree::descendants(*pid));
    let mut all: BTreeSet<u32> = supervisors.iter().copied().chain(started).collect();
    all.extend(processes::serving(control.to_owned()).await?);
    Ok(all.into_iter().collect())
}

/// Ends the versions, and gives why some didn't.
async fn end_versions(settings: &Settings, memory: &Memory, said: Said<'_>) -> Vec<String> {
    let known = memory.state().map(|state| state.versions).unwrap_or_default();
    let function = |name: &str| {
        let noted = known.iter().find(|(version, _)| version.as_str().starts_with(name));
        noted.map(|(_, note)| format!(" of {}", note.function)).unwrap_or_default()
    };
    let (ended, mut failed) = runtimes::end_all(settings).await;
    for version in ended {
        let name = format!("version {}{}", version.name, function(&version.name));
        match version.failed {
            None => said(&format!("{name} has ended")),
            Some(why) => failed.push(format!("{name}: {why}")),
        }
    }
    failed
}

/// A process that is held, so that no other one is taken for it.
#[derive(Debug)]
struct Process {
    pid: u32,
    end: ProcessEnd,
}

/// Ends the processes that are found, until none is any more: each is asked once, and what is there when the time is over is killed. `find`
/// is told whether it is.
async fn end(
    who: &'static str,
    find: impl AsyncFn(bool) -> io::Result<Vec<u32>>,
    within: Duration,
    said: Said<'_>,
) -> Result<(), StopError> {
    let until = Instant::now() + within;
    let failed = |source| StopError::Processes { who, source };
    // Each, and how it ended.
    let mut told = BTreeMap::new();
    loop {
        let is_late = Instant::now() >= until;
        if Instant::now() >= until + 2 * GONE {
            return Err(failed(io::Error::other("it is started again and again: end what starts it first")));
        }
        let found = held(&find, is_late).await.map_err(failed)?;
        if found.is_empty() {
            break;
        }
        for Process { pid, end } in &found {
            let unit = unit(*pid).filter(|_| !told.contains_key(pid));
            if let Some(unit) = unit {
                said(&format!("process {pid} is of {unit}, which may start it again: systemctl stop {unit}"));
            }
            if is_late {
                end.signal(Signal::KILL).map_err(failed)?;
                told.insert(*pid, "was killed");
            } else if told.insert(*pid, "has ended").is_none() {
                end.signal(Signal::TERM).map_err(failed)?;
                // One that stands still has to go on to end.
                end.signal(Signal::CONT).map_err(failed)?;
            }
        }
        let gone = async {
            for process in &found {
                process.end.wait().await;
            }
        };
        let rest = if is_late { GONE } else { until.saturating_duration_since(Instant::now()) };
        if timeout(rest, gone).await.is_err() && is_late {
            let left: Vec<u32> = found.iter().map(|process| process.pid).collect();
            let why = format!("processes {left:?} can't be killed: they wait for a device");
            return Err(failed(io::Error::other(why)));
        }
    }
    for (pid, how) in told {
        said(&format!("{who} {how} (process {pid})"));
    }
    Ok(())
}

/// Those that are found, and are found still once each is held.
async fn held(find: &impl AsyncFn(bool) -> io::Result<Vec<u32>>, is_late: bool) -> io::Result<Vec<Process>> {
    let mut held = Vec::new();
    for pid in find(is_late).await? {
        match ProcessEnd::open(pid) {
            Ok(end) => held.push(Process { pid, end }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let still = if held.is_empty() { Vec::new() } else { find(is_late).await? };
    held.retain(|process| still.contains(&process.pid));
    Ok(held)
}

/// Takes the control socket of a process away that was killed. False: somebody has it.
fn clear_socket(path: &Path) -> bool {
    let lock = socket::lock(path);
    if matches!(lock, Ok(Some(_))) {
        let _ = fs::remove_file(path);
    }
    !matches!(lock, Ok(None))
}

/// The unit by which systemd has started a process, as far as that can be told: its parent is systemd, and its control group a service's.
fn unit(pid: u32) -> Option<String> {
    let parent = tree::parent(pid)?;
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).ok()?;
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let unit = groups.lines().find_map(|line| line.rsplit('/').find(|part| part.ends_with(".service")))?;
    // What a user's own systemd has adopted is of the user's service.
    (name.trim() == "systemd" && !unit.starts_with("user@")).then(|| unit.to_owned())
}
