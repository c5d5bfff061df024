//! The commands, mostly as the program that people run.

mod agent;
mod analyse;
mod children;
mod context;
mod demo;
mod diff;
mod documented;
mod guesses;
mod help;
mod init;
mod intent;
mod original;
mod outcome;
mod packaged;
mod printable;
mod progress;
mod proxy;
pub mod registry;
mod release;
mod routing;
mod samples;
mod scipy;
mod serve;
mod show;
mod status;
mod stream;
mod tenant;
mod terminal;
mod tree;
mod validate;
mod words;
mod workflow;

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_choirmaster");

/// The program in a folder of its own, without the variables and the contexts of whoever runs the test.
fn program(folder: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHOIRMASTER_")) {
        command.env_remove(name);
    }
    command.env("USER", "tester").env("NO_COLOR", "1").env_remove("COLUMNS");
    command.env("XDG_CONFIG_HOME", folder.join(".config"));
    command
}

fn run<A: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = A>) -> Output {
    program(folder).args(args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it was killed by a signal")
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A manager as a process; killed at the end of the test if it still runs.
struct Served {
    process: Child,
    url: String,
    lines: BufReader<std::process::ChildStdout>,
}

impl Served {
    /// On the store in `folder`, with the functions of this repository.
    fn start(folder: &Path, args: &[&str]) -> Self {
        let functions = repository();
        let mut process = program(folder)
            .args(["serve", "--log-level", "error", "--functions"])
            .arg(functions)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").unwrap_or_default().to_owned();
        Self { process, url, lines }
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// The exit code, and what else it has printed.
    fn end(mut self) -> (Option<i32>, String) {
        let status = self.process.wait().unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.lines, &mut rest).unwrap();
        (status.code(), rest)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
