//! The manager as a process of its own.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};

use super::look::folder;
use crate::store::place::Place;

/// Deadlines short enough that what is lost for good holds nobody up for long. Only serving time counts.
const SHORT_DEADLINES: [&str; 5] = [
    "deadlines.offer=1s",
    "deadlines.setup_grace=1500ms",
    "deadlines.stage=2s",
    "deadlines.undo=2500ms",
    "deadlines.absence=1s",
];

/// How a manager is started.
#[derive(Debug, Clone)]
pub struct Start {
    pub store: String,
    pub log: std::path::PathBuf,
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// `--set KEY=VALUE`.
    pub set: Vec<String>,
    pub flags: Vec<&'static str>,
    /// Largest file that the process may write, in bytes; more fails as on a full disk.
    pub file_limit: Option<u64>,
}

impl Start {
    /// On the store of a place, with short deadlines.
    pub fn on(place: &Place) -> Self {
        Self {
            store: place.url.clone(),
            log: folder(place).join("manager.log"),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            set: SHORT_DEADLINES.map(str::to_owned).into(),
            flags: Vec::new(),
            file_limit: None,
        }
    }

    /// A process that has just begun to start.
    pub fn spawn(&self) -> Starting {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let mut command = self.program();
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .args([
                "serve",
                "--listen",
                &self.listen.to_string(),
                "--store",
                &self.store,
                "--log-level",
                "warn",
            ])
            .args(["--functions", env!("CARGO_MANIFEST_DIR")])
            .args(self.set.iter().flat_map(|set| ["--set", set]))
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut process = command.spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        Starting { process, stdout }
    }

    fn program(&self) -> Command {
        let program = env!("CARGO_BIN_EXE_choirmaster");
        let Some(bytes) = self.file_limit else { return Command::new(program) };
        // The signal that comes with the limit is ignored, so that a write fails and the process lives.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec prlimit --fsize=$0:unlimited \"$@\""]);
        command.args([&bytes.to_string(), program]);
        command
    }

    /// A process that listens; panics if it ends instead.
    pub async fn listening(&self) -> Server {
        match self.spawn().listening().await {
            Ok(server) => server,
            Err(status) => panic!("the manager ended with {status}:\n{}", tail(&self.log)),
        }
    }
}

/// The end of a log.
pub fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// A process of which is not known yet whether it will listen.
pub struct Starting {
    process: Child,
    stdout: BufReader<ChildStdout>,
}

impl Starting {
    /// Waits for the line that tells the port, or for the end.
    pub async fn listening(mut self) -> Result<Server, ExitStatus> {
        tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            self.stdout.read_line(&mut line).unwrap();
            match line.trim_end().strip_prefix("listening on http://") {
                Some(address) => {
                    let address = address.parse().unwrap();
                    Ok(Server { process: self.process, address, _stdout: self.stdout })
                }
                None => Err(self.process.wait().unwrap()),
            }
        })
        .await
        .unwrap()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        kill(&mut self.process);
    }
}

/// A manager that listens. Killed when dropped, so that no test leaves one behind.
pub struct Server {
    process: Child,
    pub address: SocketAddr,
    /// Kept open: a manager that can't print is another story.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// SIGKILL, and waits until the process is gone.
    pub fn kill(mut self) {
        kill(&mut self.process);
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// SIGTERM, and waits for the end.
    pub async fn terminate(mut self) -> ExitStatus {
        let pid = self.process.id().to_string();
        assert!(Command::new("sh").args(["-c", "kill -TERM $0", &pid]).status().unwrap().success());
        tokio::task::spawn_blocking(move || self.process.wait().unwrap()).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill(&mut self.process);
    }
}

fn kill(process: &mut Child) {
    // It may have ended by itself.
    let _ = process.kill();
    process.wait().unwrap();
}
