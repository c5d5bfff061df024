//! Agents as processes: this program again, as `agent`, each with a proxy beside it and all its files in one temporary folder.

use std::{
    fs::{self, DirBuilder, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::{ffi::OsStrExt as _, fs::DirBuilderExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use agent::control::{client::Client, form::Status};
use proxy::control::client::Client as ProxyClient;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::cli::failure::Failure;

/// Agents of the demo.
pub const AGENTS: usize = 2;

/// Bytes of the name of a temporary folder above which the sockets below it would have names that are too long.
const LONGEST_FOLDER: usize = 40;

/// An agent that was told to end has this long for its proxy and its versions.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How often what ends is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often it is looked for what an agent left, until that is given up.
const SWEEPS: u32 = 100;

/// Bytes of the end of a log that are shown.
const TAIL: usize = 2 * 1024;

/// Agents that run. All that they started ends with them, however this is dropped.
#[derive(Debug)]
pub struct Agents {
    agents: Vec<Agent>,
    // Removed last.
    folder: TempDir,
}

/// One of them.
#[derive(Debug)]
pub struct Agent {
    folder: PathBuf,
    /// Where its proxy takes the calls of a service.
    service_at: SocketAddr,
    process: Child,
}

impl Agents {
    pub fn start(manager: &str) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::ours(format!("the agents can't be started: {error}"));
        let mut all = Self { agents: Vec::new(), folder: temporary().map_err(failed)? };
        let port = free_port().map_err(failed)?;
        for number in 1..=AGENTS {
            let folder = all.folder.path().join(number.to_string());
            // The same port everywhere, so each has an address of its own on this machine.
            let service_at = SocketAddr::from(([127, 0, 0, number as u8], port));
            let agent = Agent::start(folder, &format!("own-{number}"), manager, service_at);
            let agent = agent.map_err(failed)?;
            all.agents.push(agent);
        }
        Ok(all)
    }

    pub fn all(&self) -> &[Agent] {
        &self.agents
    }

    /// The port at which each proxy takes the calls of a service.
    pub fn service_port(&self) -> u16 {
        self.agents.first().map_or(0, |agent| agent.service_at.port())
    }

    /// Has each drain its proxy, stop its versions and end. An error names what had to be killed.
    pub async fn stop(mut self) -> Result<(), Failure> {
        for agent in &self.agents {
            // One that is gone already can't be told.
            let _ = kill_process(Pid::from_child(&agent.process), Signal::TERM);
        }
        let deadline = Instant::now() + STOP_LIMIT;
        while self.agents.iter_mut().any(Agent::runs) && Instant::now() < deadline {
            sleep(LOOK_EVERY).await;
        }
        let late = self.agents.iter_mut().filter_map(|agent| agent.runs().then_some(agent.process.id()));
        let mut left: Vec<u32> = late.collect();
        left.extend(having(self.folder.path()));
        left.sort_unstable();
        left.dedup();
        let logs: Vec<String> = self.agents.iter().map(Agent::tail).collect();
        drop(self);
        if left.is_empty() {
            return Ok(());
        }
        Err(Failure::ours(format!("processes {left:?} of the agents had to be killed\n{}", logs.join("\n"))))
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            // Does nothing to one that has been waited for.
            let _ = agent.process.kill();
            let _ = agent.process.wait();
        }
        for _ in 0..SWEEPS {
            let left = having(self.folder.path());
            if left.is_empty() {
                return;
            }
            for pid in left.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
                // It may have ended meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Agent {
    fn start(folder: PathBuf, name: &str, manager: &str, service_at: SocketAddr) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(&folder)?;
        let log = File::create(folder.join("agent.log"))?;
        let mut command = Command::new(std::env::current_exe()?);
        // In a folder without a configuration, and without the variables of whoever started this.
        command.current_dir(&folder);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CHOIRMASTER_") {
                command.env_remove(name);
            }
        }
        let below = |file: &str| folder.join(file).into_os_string();
        command.args(["agent", "--manager", manager, "--name", name, "--at", "52.52,13.405"]);
        command.args(["--listen", "127.0.0.1:0", "--listen", &service_at.to_string()]);
        command.args(["--set", "agent.stop=drain"]);
        command.arg("--state").arg(below("state")).arg("--control").arg(below("agent.sock"));
        command.arg("--proxy").arg(below("proxy.sock"));
        let mut proxy_state = std::ffi::OsString::from("proxy.state=");
        proxy_state.push(below("proxy"));
        command.arg("--set").arg(proxy_state);
        // A group of its own: Ctrl-C in a terminal is for this program, which then ends the agents.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = command.spawn()?;
        Ok(Self { folder, service_at, process })
    }

    /// Where its proxy takes the calls of a service.
    pub fn service_at(&self) -> SocketAddr {
        self.service_at
    }

    pub fn client(&self) -> Client {
        Client::new(self.folder.join("agent.sock"))
    }

    pub fn proxy(&self) -> ProxyClient {
        ProxyClient::new(self.folder.join("proxy.sock"))
    }

    pub async fn status(&self) -> Option<Status> {
        self.client().get("/status").await.ok()
    }

    fn runs(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// The end of what it wrote to its log.
    pub fn tail(&self) -> String {
        let text = fs::read(self.folder.join("agent.log")).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(TAIL)..]).trim().to_owned()
    }
}

/// One that nobody uses now.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?.local_addr()?.port())
}

/// A folder with a short name: names of sockets may have some hundred bytes.
fn temporary() -> io::Result<TempDir> {
    let mut made = tempfile::Builder::new();
    made.prefix("choir-");
    let usual = std::env::temp_dir();
    if usual.as_os_str().len() > LONGEST_FOLDER { made.tempdir_in("/tmp") } else { made.tempdir_in(usual) }
}

/// Processes that have a folder in their arguments or their environment, but for this one. Its name is random, so nobody else's do.
fn having(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let wanted = folder.as_os_str().as_bytes();
    let has = |pid: u32, file: &str| {
        let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        text.windows(wanted.len()).any(|part| part == wanted)
    };
    pids.filter(|pid| *pid != std::process::id() && (has(*pid, "cmdline") || has(*pid, "environ"))).collect()
}
