//! An agent as a process, and the proxy that it starts beside it.

use std::{
    fs::{self, File},
    net::SocketAddr,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
};

use agent::control::{client::Client, form::Status};
use proxy::{
    control::{
        client::Client as ProxyClient,
        form::{Applied, Status as ProxyStatus},
    },
    form::TableForm,
};
use rustix::process::Signal;

use super::{
    callers::{Callers, Habit, PATIENCE},
    counted::Counting,
    ledger::Ledger,
    manager::tail,
    processes,
    site::{FUNCTION, Site},
    wait::wait_until,
};
use crate::ports::{self, free_address};

/// Ports of functions: each agent of these tests has so many of its own.
const PORTS: u16 = 59;

pub struct Node {
    pub folder: PathBuf,
    pub name: String,
    /// Where its proxy takes calls.
    pub at: SocketAddr,
    arguments: Vec<String>,
    /// Variables of its own, which a proxy that it starts has, too.
    pub environment: Vec<(&'static str, &'static str)>,
    agent: Option<Child>,
}

impl Node {
    pub async fn start(folder: &Path, name: &str, manager: &str, set: &[&str]) -> Self {
        let mut node = Self::of(folder, name, manager, set);
        node.come_back();
        node.until_it_answers().await;
        node
    }

    /// One that doesn't run yet.
    pub fn of(folder: &Path, name: &str, manager: &str, set: &[&str]) -> Self {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).unwrap();
        let at = free_address();
        let (first, last) = ports::range(PORTS);
        let below = |file: &str| folder.join(file).display().to_string();
        let mut arguments = vec!["agent".to_owned()];
        let mut flag = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        flag("--manager", manager.to_owned());
        flag("--name", name.to_owned());
        flag("--at", "52.52,13.405".to_owned());
        flag("--state", below("state"));
        flag("--control", below("agent.sock"));
        flag("--proxy", below("proxy.sock"));
        flag("--listen", at.to_string());
        flag("--log-level", "info".to_owned());
        flag("--set", format!("proxy.state={}", below("proxy")));
        flag("--set", format!("runtimes.ports={first}-{last}"));
        // What a busy machine starts is late, and not ill.
        flag("--set", "health.give_up=3m".to_owned());
        for one in set {
            flag("--set", (*one).to_owned());
        }
        Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            at,
            arguments,
            environment: Vec::new(),
            agent: None,
        }
    }

    /// One that leads services, whose proxy takes calls here as well. It runs, and may not answer yet.
    pub fn router(site: &Path, name: &str, manager: &str, at: SocketAddr) -> Self {
        let mut node = Self::of(&site.join(name), name, manager, &["agent.labels=env=prod"]);
        let flag = node.arguments.iter().position(|argument| argument == "--listen").unwrap();
        node.arguments[flag + 1] = format!("{},{at}", node.at);
        node.come_back();
        node
    }

    /// The program, without the variables of whoever runs the test.
    pub fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_choirmaster"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // A proxy that the agent starts writes a line for each call.
        let log = self.access_log();
        command.env("CHOIRMASTER_PROXY_LOG_ACCESS", "all").env("CHOIRMASTER_PROXY_LOG_ACCESS_TO", log);
        command.env("CHOIRMASTER_PROXY_THREADS", "2").envs(self.environment.iter().copied());
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    pub fn access_log(&self) -> PathBuf {
        self.folder.join("access.log")
    }

    pub fn log(&self) -> PathBuf {
        self.folder.join("agent.log")
    }

    /// How the agent is started.
    pub fn command(&self) -> Command {
        let mut command = self.program();
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        command.args(&self.arguments).stdout(Stdio::null()).stderr(log);
        command
    }

    /// Starts the agent, again.
    pub fn come_back(&mut self) {
        self.agent = Some(self.command().spawn().unwrap());
    }

    /// SIGKILL to the agent alone.
    pub fn kill(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            agent.wait().unwrap();
        }
    }

    /// SIGSTOP to the agent alone.
    pub fn freeze(&self) {
        assert!(processes::send(self.agent.as_ref().unwrap().id(), Signal::STOP));
    }

    /// It goes on.
    pub fn thaw(&self) {
        assert!(processes::send(self.agent.as_ref().unwrap().id(), Signal::CONT));
    }

    /// SIGTERM, and waits for the end.
    pub async fn terminate(&mut self) -> ExitStatus {
        let mut agent = self.agent.take().unwrap();
        assert!(processes::send(agent.id(), Signal::TERM));
        let ended = tokio::task::spawn_blocking(move || agent.wait().unwrap());
        tokio::time::timeout(PATIENCE * 12, ended).await.expect("it ends").unwrap()
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

    pub async fn proxy_status(&self) -> Option<ProxyStatus> {
        self.proxy().get("/status").await.ok()
    }

    pub async fn until_it_answers(&self) {
        self.until("it answers", Status::is_led).await;
    }

    /// Waits until the agent says of itself what is expected.
    pub async fn until(&self, what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
        let mut last = None;
        let what = format!("{what}, of the agent {}", self.name);
        wait_until(&what, async || {
            last = self.status().await;
            last.as_ref().is_some_and(&is_so)
        })
        .await;
        last.unwrap()
    }

    /// Waits until the proxy says what is expected.
    pub async fn until_proxy(&self, what: &str, is_so: impl Fn(&ProxyStatus) -> bool) -> ProxyStatus {
        let mut last = None;
        wait_until(what, async || {
            last = self.proxy_status().await;
            last.as_ref().is_some_and(&is_so)
        })
        .await;
        last.unwrap()
    }

    /// Runs a command of the program beside this agent.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.program();
        command.env("CHOIRMASTER_AGENT_CONTROL", self.folder.join("agent.sock"));
        command.env_remove("CHOIRMASTER_PROXY_LOG_ACCESS").env_remove("CHOIRMASTER_PROXY_LOG_ACCESS_TO");
        command.env_remove("CHOIRMASTER_PROXY_THREADS");
        command.env("CHOIRMASTER_PROXY_CONTROL", self.folder.join("proxy.sock"));
        command.args(arguments).output().unwrap()
    }

    /// Has a version served, each of whose calls may be repeated.
    pub fn add(&self, content: &Path) {
        self.add_with(content, &["--retry", "failed"]);
    }

    pub fn add_with(&self, content: &Path, flags: &[&str]) {
        self.add_function(FUNCTION, content, flags);
    }

    pub fn add_function(&self, function: &str, content: &Path, flags: &[&str]) {
        let content = content.to_str().unwrap();
        let added = self.run(&[&["agent", "functions", "add", function, content], flags].concat());
        assert!(
            added.status.success(),
            "{}\n{}",
            String::from_utf8_lossy(&added.stderr),
            self.what_it_said()
        );
    }

    /// Nothing is in hand and nothing owed.
    pub async fn is_at_rest(&self) -> Status {
        let is_at_rest = |status: &Status| {
            let candidates = status.functions.iter().filter(|function| function.candidate.is_some());
            status.work.is_none() && status.owed.results == 0 && candidates.count() == 0
        };
        self.until("it is at rest", is_at_rest).await
    }

    /// The share of the new version in the table in force; 0 where there is none.
    pub async fn share(&self) -> Option<u16> {
        let status = self.proxy_status().await?;
        let of_this = status.services.iter().find(|service| service.name == FUNCTION)?;
        Some(of_this.variations.iter().find(|one| one.name == "new").map_or(0, |one| one.share))
    }

    /// What names the content that gets whatever the new version doesn't, by the table in force. A change of the table that is under
    /// way is waited for: putting the same one in force once more comes after it.
    pub async fn stable(&self) -> Option<String> {
        let table: TableForm = self.proxy().get("/table").await.ok()?;
        let _: Applied = self.proxy().put("/table", serde_json::to_vec(&table).unwrap().into()).await.ok()?;
        let of_this = table.services.into_iter().find(|service| service.name == FUNCTION)?;
        of_this.variations.into_iter().next().map(|stable| stable.version)
    }

    /// Looks at something while the agent stands still, so that it doesn't change meanwhile.
    pub async fn still<T>(&self, look: impl AsyncFnOnce(&Self) -> T) -> T {
        let pid = self.agent.as_ref().map(Child::id);
        let tell = |signal| pid.is_none_or(|pid| processes::send(pid, signal));
        assert!(tell(Signal::STOP));
        let seen = look(self).await;
        assert!(tell(Signal::CONT));
        seen
    }

    pub fn what_it_said(&self) -> String {
        format!("{}\nof its proxy:\n{}", tail(&self.log()), tail(&self.folder.join("proxy/proxy.log")))
    }

    /// Callers at its door, who have begun.
    pub async fn call(&self, habits: &[Habit]) -> Load {
        let counting = Counting::start(self);
        let callers = Callers::start(self.at, habits, PATIENCE);
        let load = Load { callers, counting };
        load.more_calls(200).await;
        load
    }

    /// The process beside the only version.
    pub fn shim(&self) -> Option<u32> {
        let found = processes::with(self.folder.to_str().unwrap());
        found.into_iter().find(|one| one.arguments.contains(" shim watch ")).map(|one| one.pid)
    }

    /// The holder of the proxy's sockets, and the process that takes calls.
    pub fn proxy_processes(&self) -> Vec<processes::Found> {
        let mut found = processes::with(self.folder.join("proxy.sock").to_str().unwrap());
        found.retain(|one| one.arguments.contains(" proxy "));
        found
    }

    pub fn holder(&self) -> Option<u32> {
        self.proxy_processes().into_iter().find(|one| !one.arguments.contains("--serving")).map(|one| one.pid)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what {} said:\n{}", self.name, self.what_it_said());
        }
        self.kill();
        processes::end_all(&self.folder);
    }
}

/// Callers at work, whose calls are counted by the proxy beside them.
pub struct Load {
    pub callers: Callers,
    counting: Counting,
}

impl Load {
    /// Waits until so many further calls were begun.
    pub async fn more_calls(&self, number: u32) {
        let enough = self.callers.begun() + number;
        wait_until("there were calls", async || self.callers.begun() >= enough).await;
    }

    /// What became of all calls, and what the proxy wrote down of them.
    pub async fn finish(self, site: &Site) -> (Ledger, super::counted::Lines) {
        let calls = self.callers.finish().await;
        let whole = calls.len();
        let ledger = Ledger::new(calls, &site.logs());
        (ledger, self.counting.finish(whole).await)
    }
}
