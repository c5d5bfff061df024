//! A Postgres cluster of the test's own, which can be cut off in the middle of anything.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::ports::free_port;
use tempfile::TempDir;

/// Where packages put `initdb` where it is not on the path; the newest version wins.
const PACKAGED: &str = "/usr/lib/postgresql";

pub struct Cluster {
    folder: TempDir,
    programs: PathBuf,
    /// Postgres refuses to run as root.
    user: Option<&'static str>,
    port: u16,
}

fn programs() -> PathBuf {
    let on_path = std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).find(|folder| folder.join("initdb").is_file()));
    let packaged = || {
        let versions = std::fs::read_dir(PACKAGED).ok()?;
        let mut found: Vec<PathBuf> = versions
            .flatten()
            .map(|version| version.path().join("bin"))
            .filter(|bin| bin.join("initdb").is_file())
            .collect();
        found.sort();
        found.pop()
    };
    on_path.or_else(packaged).unwrap_or_else(|| {
        panic!(
            "there is no initdb: run the tests with tests/run, which installs Postgres where it is missing"
        )
    })
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout.trim_ascii() == b"0"
}

impl Cluster {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let user = is_root().then_some("postgres");
        if let Some(user) = user {
            assert!(Command::new("chown").arg(user).arg(folder.path()).status().unwrap().success());
        }
        let port = free_port();
        let cluster = Self { folder, programs: programs(), user, port };
        cluster.run(
            "initdb",
            &["-D", &cluster.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"],
        );
        cluster.on();
        cluster
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let program = self.programs.join(program);
        let mut command = match self.user {
            Some(user) => {
                let mut command = Command::new("runuser");
                command.args(["-u", user, "--"]).arg(&program);
                command
            }
            None => Command::new(&program),
        };
        // The server would keep a pipe of ours open.
        command.args(arguments).current_dir(Path::new("/")).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().unwrap();
        assert!(status.success(), "{} {arguments:?} ended with {status}", program.display());
    }

    /// Starts the server, which recovers from whatever happened to it.
    pub fn on(&self) {
        let folder = self.folder.path().display();
        let options = format!("-p {} -c listen_addresses=127.0.0.1 -k {folder}", self.port);
        let log = self.folder.path().join("log").display().to_string();
        self.run("pg_ctl", &["-D", &self.data(), "-w", "-l", &log, "-o", &options, "start"]);
    }

    /// Ends it at once, without a checkpoint, as a power loss would: the next start has to recover.
    pub fn off(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-w", "-m", "immediate", "stop"]);
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() || Path::new(&self.data()).join("postmaster.pid").exists() {
            self.off();
        }
    }
}
