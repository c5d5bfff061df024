//! `choirmaster fleet --tree`, in one process and in several.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use tokio::time::Instant;

use super::{code, err, out, program, repository, run};
use crate::deadline::DEADLINE;

/// The command, and what it said of itself when it had started.
struct Tree {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
    started: Value,
}

impl Tree {
    fn start(folder: &std::path::Path, more: &[&str]) -> Self {
        let mut process = program(folder)
            .args(["fleet", "--tree", "2x2x3", "--pace", "0.02", "--json", "--errors", "0", "--functions"])
            .arg(repository())
            .args(more)
            .env("TMPDIR", folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let started = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        Self { process, lines, started }
    }

    fn root(&self) -> String {
        self.started["root"].as_str().unwrap().to_owned()
    }

    /// Ctrl-C; answers the report.
    fn end(mut self) -> Value {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert!(self.process.wait().unwrap().success());
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a command until its output is as expected.
fn until(folder: &std::path::Path, args: &[&str], is_expected: impl Fn(&str) -> bool) {
    let began = Instant::now();
    loop {
        let output = run(folder, args);
        let text = out(&output);
        if is_expected(&text) {
            return;
        }
        assert!(began.elapsed() < DEADLINE, "{args:?} said {text}{}", err(&output));
        std::thread::yield_now();
    }
}

/// A release for the west, posted at the root, runs below the managers of the west and nowhere else.
fn reaches_the_west_alone(more: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::start(folder.path(), more);
    let url = tree.root();
    assert_eq!(tree.started["managers"].as_array().unwrap().len(), 7);
    until(folder.path(), &["children", "list", "--json", "--url", &url], |text| {
        text.matches("\"agents\": 6").count() == 2
    });
    let file = repository().join("releases/west.yml");
    let submitted =
        run(folder.path(), ["release", "submit", file.to_str().unwrap(), "--wait", "--url", &url]);
    assert_eq!(code(&submitted), 0, "{}{}", out(&submitted), err(&submitted));
    let report = tree.end();
    assert_eq!(report["simulated"], true);
    for below in report["fleets"].as_array().unwrap() {
        let is_west = below["manager"].as_str().unwrap().starts_with("1.");
        assert_eq!(below["totals"]["rolled_out"], if is_west { 3 } else { 0 }, "{below:#}");
        assert_eq!(below["totals"]["offers_run"].as_u64().unwrap() > 0, is_west, "{below:#}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it leaves nothing behind");
}

#[test]
fn a_release_posted_at_the_root_reaches_its_target_alone() {
    reaches_the_west_alone(&[]);
}

#[test]
fn a_tree_of_processes_does_the_same_and_ends_all_of_them() {
    reaches_the_west_alone(&["--processes"]);
}

#[test]
fn flags_of_a_tree_that_make_no_sense_are_the_callers_fault() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [
        ["--tree", "0x3"].as_slice(),
        &["--tree", "3x"],
        &["--tree", "2x2x3", "--agents", "5"],
        &["--tree", "2x2x3", "--url", "http://127.0.0.1:1"],
        &["--tree", "2x2x3", "--listen", "here"],
        &["--tree", "2x2x3", "--crash", "2"],
        &["--processes"],
    ] {
        let output = run(folder.path(), ["fleet", "--for", "1ms"].iter().chain(flags));
        assert_eq!(code(&output), 1, "{flags:?}: {}{}", out(&output), err(&output));
    }
}
