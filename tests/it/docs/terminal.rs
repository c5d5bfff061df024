//! A terminal of its own: a command that runs in it, and what it has said so far.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread::sleep,
    time::Duration,
};

use tokio::time::Instant;

use super::page::Place;
use crate::deadline::DEADLINE;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct Terminal {
    pub place: Place,
    /// As it stands on the page.
    pub command: String,
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
    /// `output`: a file for what it says.
    pub fn open(place: &Place, command: &str, shell: &mut Command, output: &Path) -> Self {
        let file = File::create(output).unwrap();
        let process = shell.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Self { place: place.clone(), command: command.to_owned(), process, output: output.to_owned() }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap()).into_owned()
    }

    /// Its exit code, if it has ended.
    pub fn ended(&mut self) -> Option<i32> {
        self.process.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }

    /// Waits for its end. Answers the exit code.
    pub fn wait(&mut self) -> i32 {
        let began = Instant::now();
        loop {
            if let Some(code) = self.ended() {
                return code;
            }
            assert!(began.elapsed() < DEADLINE, "{} does not end:\n{}", self.name(), self.text());
            sleep(LOOK);
        }
    }

    /// Waits until it has said this.
    pub fn until_said(&mut self, text: &str) {
        self.until(&format!("said {text:?}"), |terminal| terminal.text().contains(text));
    }

    /// Waits until something is so, while it runs.
    pub fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            // What was said last may be all that was waited for.
            if let Some(code) = self.ended().filter(|_| !is_so(self)) {
                panic!("{} ended with {code} and never {what}:\n{}", self.name(), self.text());
            }
            assert!(began.elapsed() < DEADLINE, "{} never {what}:\n{}", self.name(), self.text());
            sleep(LOOK);
        }
    }

    /// Ctrl-C.
    pub fn interrupt(&mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let code = self.wait();
        assert_eq!(code, 0, "{} after Ctrl-C:\n{}", self.name(), self.text());
    }

    /// Where it stands and what it is, for messages.
    pub fn name(&self) -> String {
        format!("{}: `{}`", self.place, self.command)
    }
}
