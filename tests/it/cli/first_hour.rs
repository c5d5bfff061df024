//! The first hour of somebody who has only the README: its commands as they stand there, one after the other.
//!
//! What is different here: the program is the one under test instead of one that is built, the ports are free ones, the agent's proxy
//! and functions end with it, and the folder is a copy. What a person does by looking is done by asking: the next command is typed when the children are
//! there, an approval is given when it is asked for.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use super::{PROGRAM, out, repository};
use crate::{deadline::DEADLINE, ports::free_port};

/// The sections whose commands are run, in their order, each list from an empty folder in which nothing runs.
const WALKS: [&[&str]; 3] =
    [&["A release, step by step", "Not everywhere at once"], &["A tree"], &["How-tos"]];

/// A line of a block of the README.
#[derive(Debug)]
struct Line {
    section: String,
    command: String,
    /// As its comment says, else 0.
    code: i32,
}

fn lines(readme: &str) -> Vec<Line> {
    let (mut section, mut in_block, mut found) = (String::new(), false, Vec::new());
    for line in readme.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut section);
        } else if line.starts_with("```") {
            in_block = line == "```sh";
        } else if in_block {
            let (command, comment) = line.split_once(" #").unwrap_or((line, ""));
            let code = comment.split_once("exit code ").map_or(0, |(_, code)| code.trim().parse().unwrap());
            found.push(Line { section: section.clone(), command: command.trim().to_owned(), code });
        }
    }
    found
}

/// What runs in a terminal of its own.
struct Terminal {
    command: String,
    process: Child,
    output: PathBuf,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Terminal {
    fn text(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap()
    }

    fn wait(&mut self) -> i32 {
        let began = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(began.elapsed() < DEADLINE, "{} does not end:\n{}", self.command, self.text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn until(&mut self, text: &str) {
        let began = Instant::now();
        while !self.text().contains(text) {
            assert!(self.process.try_wait().unwrap().is_none(), "{} ended:\n{}", self.command, self.text());
            assert!(began.elapsed() < DEADLINE, "{} never said {text}:\n{}", self.command, self.text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ctrl-C.
    fn interrupt(&mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let code = self.wait();
        assert_eq!(code, 0, "{} after Ctrl-C:\n{}", self.command, self.text());
    }
}

struct Hour {
    folder: tempfile::TempDir,
    ports: [u16; 3],
    terminals: Vec<Terminal>,
    watching: Vec<Terminal>,
}

impl Hour {
    fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["releases", "fns", "config"] {
            let from = repository().join(name);
            assert!(Command::new("cp").arg("-r").arg(from).arg(folder.path()).status().unwrap().success());
        }
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        std::os::unix::fs::symlink(PROGRAM, folder.path().join("bin/choirmaster")).unwrap();
        Self { folder, ports: [(); 3].map(|()| free_port()), terminals: Vec::new(), watching: Vec::new() }
    }

    /// A command as it is typed, with the ports of this run.
    fn typed(&self, command: &str) -> Command {
        let [first, second, third] = self.ports.map(|port| port.to_string());
        let command = command.replace("9991", &first).replace("9992", &second).replace("8000", &third);
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        // The shell gives its place to the command, so that a signal reaches that.
        let command = if command.starts_with("for ") { command } else { format!("exec {command}") };
        shell.args(["-c", &command]).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHOIRMASTER_")) {
            shell.env_remove(name);
        }
        shell
            .env("PATH", format!("{}:{path}", self.folder.path().join("bin").display()))
            .env("CHOIRMASTER_LISTEN", format!("127.0.0.1:{first}"))
            .env("CHOIRMASTER_URL", format!("http://127.0.0.1:{first}"))
            .env("CHOIRMASTER_AGENT_MANAGER_URL", format!("http://127.0.0.1:{first}"))
            .env("CHOIRMASTER_AGENT_PROXY_LISTEN", format!("127.0.0.1:{third}"))
            .env("CHOIRMASTER_AGENT_STOP", "drain");
        shell
    }

    fn terminal(&self, command: &str) -> Terminal {
        let number = self.terminals.len() + self.watching.len();
        let output = self.folder.path().join(format!("terminal-{number}-{}.log", self.ports[0]));
        let file = File::create(&output).unwrap();
        let process = self.typed(command).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Terminal { command: command.to_owned(), process, output }
    }

    fn json(&self, command: &str) -> Value {
        let output = self.typed(command).output().unwrap();
        serde_json::from_str(&out(&output)).unwrap_or_default()
    }

    /// Agents that the first manager knows, below it or further down.
    fn agents(&self) -> u64 {
        let children = self.json("choirmaster children list --json");
        let of = |child: &Value| if child["kind"] == "agent" { 1 } else { child["agents"].as_u64().unwrap() };
        children.as_array().map_or(0, |children| children.iter().map(of).sum())
    }

    fn state(&self, release: &str) -> String {
        let shown = self.json(&format!("choirmaster release show {release} --json"));
        shown["release"]["state"].as_str().unwrap_or_default().to_owned()
    }

    fn run(&mut self, line: &Line) {
        let words: Vec<&str> = line.command.split_whitespace().collect();
        match words[..] {
            ["cargo", ..] => {}
            ["choirmaster", "serve", ..] => self.open(&line.command, "listening on"),
            ["choirmaster", "fleet", "--tree", ..] => self.open(&line.command, "the tree stands"),
            ["choirmaster", "fleet", "--agents", agents, ..] => {
                self.open(&line.command, "SIMULATED");
                let began = Instant::now();
                while self.agents() < agents.parse().unwrap() {
                    assert!(began.elapsed() < DEADLINE, "{} agents are there, not {agents}", self.agents());
                    std::thread::sleep(Duration::from_millis(200));
                }
            }
            ["choirmaster", "release", "watch", ..] => {
                let watching = self.terminal(&line.command);
                self.watching.push(watching);
            }
            ["choirmaster", "release", "approve", release, ..] => self.approve(line, release),
            ["choirmaster", "agent", "--at", ..] => {
                self.open(&line.command, "");
                self.until_shown("choirmaster agent status", "proxy");
            }
            ["for", ..] => self.until_both(line),
            _ => self.ends(line),
        }
    }

    fn open(&mut self, command: &str, ready: &str) {
        let mut terminal = self.terminal(command);
        terminal.until(ready);
        self.terminals.push(terminal);
    }

    fn ends(&self, line: &Line) {
        let mut terminal = self.terminal(&line.command);
        let code = terminal.wait();
        assert_eq!(code, line.code, "{}:\n{}", line.command, terminal.text());
    }

    /// Asks until the answer holds this.
    fn until_shown(&self, command: &str, text: &str) {
        let began = Instant::now();
        loop {
            let output = self.typed(command).output().unwrap();
            if output.status.success() && out(&output).contains(text) {
                return;
            }
            assert!(began.elapsed() < DEADLINE, "{command} never says {text}: {output:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Makes calls until some of them came to either version, all of which were answered.
    fn until_both(&self, line: &Line) {
        let began = Instant::now();
        loop {
            let output = self.typed(&line.command).output().unwrap();
            let counted = out(&output);
            let calls =
                counted.lines().filter_map(|line| line.split_whitespace().next()?.parse::<u32>().ok());
            assert_eq!(calls.sum::<u32>(), 200, "{counted}");
            if counted.lines().count() == 2 {
                return;
            }
            assert!(began.elapsed() < DEADLINE, "no two versions: {counted}");
        }
    }

    /// As often as it is asked for.
    fn approve(&self, line: &Line, release: &str) {
        let (began, mut approvals) = (Instant::now(), 0);
        loop {
            match self.state(release).as_str() {
                "AwaitingApproval" => {
                    self.ends(line);
                    approvals += 1;
                }
                "Done" => break,
                state => assert!(matches!(state, "Running" | "Planned"), "{release} is {state}"),
            }
            assert!(began.elapsed() < DEADLINE, "{release} is {}", self.state(release));
            std::thread::sleep(Duration::from_millis(200));
        }
        assert_eq!(approvals, 2);
    }

    /// Ctrl-C everywhere, the last opened first.
    fn close(&mut self) {
        for mut watching in std::mem::take(&mut self.watching) {
            assert_eq!(watching.wait(), 0, "{}:\n{}", watching.command, watching.text());
        }
        while let Some(mut terminal) = self.terminals.pop() {
            terminal.interrupt();
        }
    }
}

fn of_the_readme() -> Vec<Line> {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    lines(&readme)
}

fn walk(sections: &[&str]) {
    let lines = of_the_readme();
    let mut hour = Hour::begin();
    for section in sections {
        let of_it: Vec<&Line> = lines.iter().filter(|line| line.section == *section).collect();
        assert!(!of_it.is_empty(), "the README has no commands under {section:?}");
        for line in of_it {
            hour.run(line);
        }
    }
    hour.close();
}

#[test]
fn the_commands_of_the_readmes_first_sections_work_as_they_stand_there() {
    walk(WALKS[0]);
}

#[test]
fn the_commands_of_the_readme_on_a_tree_work_as_they_stand_there() {
    walk(WALKS[1]);
}

#[test]
fn the_commands_of_the_readmes_how_tos_work_as_they_stand_there() {
    walk(WALKS[2]);
}

#[test]
fn each_command_of_the_readme_is_run_by_a_test() {
    // What stands before the first section are this repository's own demo and tests, which are run by themselves.
    for line in of_the_readme().iter().filter(|line| !line.section.is_empty()) {
        assert!(WALKS.concat().contains(&line.section.as_str()), "nothing here runs {line:?}");
    }
}
