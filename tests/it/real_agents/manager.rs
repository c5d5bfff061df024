//! A manager as a process, which comes back at the same address with the same store.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::world::client;

/// A release may take longer than anything else that is waited for: versions start, and the machine has other work.
const LONGEST: Duration = Duration::from_mins(3);
const LOOK: Duration = Duration::from_millis(20);

/// States in which a release stays.
const OVER: [&str; 8] = [
    "Done",
    "DoneWithFailures",
    "DoneUntested",
    "RolledBack",
    "RolledBackUnproven",
    "Aborted",
    "NoParticipants",
    "Withdrawn",
];

pub struct Manager {
    folder: PathBuf,
    functions: PathBuf,
    /// The URL of its store.
    store: String,
    set: Vec<String>,
    pub at: SocketAddr,
    process: Option<(Child, BufReader<ChildStdout>)>,
    http: reqwest::Client,
}

impl Manager {
    /// With its store in a folder, and functions from another one. `set`: `KEY=VALUE`.
    pub async fn start(folder: &Path, functions: &Path, set: &[String]) -> Self {
        Self::on(None, folder, functions, set).await
    }

    /// As [`Self::start`], on a store elsewhere.
    pub async fn on(store: Option<String>, folder: &Path, functions: &Path, set: &[String]) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let http = client().build().unwrap();
        let mut manager = Self {
            folder: folder.to_owned(),
            functions: functions.to_owned(),
            store: store.unwrap_or_else(|| format!("sqlite://{}", folder.join("choir.db").display())),
            set: set.to_vec(),
            at: "127.0.0.1:0".parse().unwrap(),
            process: None,
            http,
        };
        manager.come_back().await;
        manager
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().map(|(process, _)| process.id()).expect("it runs")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("manager.log")
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some((mut process, _)) = self.process.take() {
            let _ = process.kill();
            process.wait().unwrap();
        }
    }

    /// Starts it, again.
    pub async fn come_back(&mut self) {
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_choirmaster"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.args(["serve", "--log-level", "warn", "--listen", &self.at.to_string()]);
        command.args(["--store", &self.store]);
        command.arg("--functions").arg(&self.functions);
        command.args(self.set.iter().flat_map(|set| ["--set", set]));
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let (line, lines) = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            (line, lines)
        })
        .await
        .unwrap();
        self.process = Some((process, lines));
        let Some(at) = line.trim_end().strip_prefix("listening on http://") else {
            panic!("the manager does not listen: {line}{}", self.what_it_said())
        };
        self.at = at.parse().unwrap();
    }

    /// The end of its log.
    pub fn what_it_said(&self) -> String {
        tail(&self.log())
    }

    pub async fn submit(&self, strategy: &str) {
        let (status, text) = self.try_to_submit(strategy).await;
        assert!((200..300).contains(&status), "{status} {text}");
    }

    /// Status and text of the answer.
    pub async fn try_to_submit(&self, strategy: &str) -> (u16, String) {
        self.try_to_submit_to("/release", strategy).await
    }

    /// The same, in another way.
    pub async fn try_to_submit_to(&self, path: &str, strategy: &str) -> (u16, String) {
        let request = self.http.post(format!("{}{path}", self.url()));
        let answer = request.header("content-type", "application/yaml").body(strategy.to_owned());
        let answer = answer.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// What an operator wants: `abort`, `pause`, … of a release.
    pub async fn order(&self, path: &str, body: &Value) -> (u16, String) {
        let answer = self.http.post(format!("{}{path}", self.url())).json(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    pub async fn delete(&self, path: &str) -> (u16, String) {
        let answer = self.http.delete(format!("{}{path}", self.url())).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    pub async fn act(&self, release: &str, what: &str) {
        let (status, text) =
            self.order(&format!("/api/v1/releases/{release}/{what}"), &json!({"by": "tester"})).await;
        assert!((200..300).contains(&status), "{what}: {status} {text}");
    }

    /// Approves of what a release comes to next, once it asks for it.
    pub async fn approve(&self, release: &str) {
        self.until(&format!("/api/v1/releases/{release}"), |shown| shown["state"] == "AwaitingApproval")
            .await;
        self.act(release, "approve").await;
    }

    /// `None`: nobody answers, or there is no such thing.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let answer = self.http.get(format!("{}{path}", self.url())).send().await.ok()?;
        answer.status().is_success().then_some(())?;
        answer.json().await.ok()
    }

    pub async fn text(&self, path: &str) -> String {
        let answer = self.http.get(format!("{}{path}", self.url())).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {answer:?}");
        answer.text().await.unwrap()
    }

    pub async fn until(&self, path: &str, mut is_expected: impl FnMut(&Value) -> bool) -> Value {
        let until = Instant::now() + LONGEST;
        loop {
            let last = self.get(path).await.unwrap_or_default();
            if is_expected(&last) {
                return last;
            }
            let said = || self.what_it_said();
            assert!(Instant::now() < until, "{path} never was as expected: {last:#}\n{}", said());
            sleep(LOOK).await;
        }
    }

    /// Waits for children that can take part.
    pub async fn knows(&self, children: usize) {
        self.until("/api/v1/children", |listed| {
            listed["items"].as_array().is_some_and(|all| all.len() == children)
        })
        .await;
    }

    pub async fn state(&self, release: &str) -> Option<String> {
        let shown = self.get(&format!("/api/v1/releases/{release}")).await?;
        Some(shown["state"].as_str()?.to_owned())
    }

    /// Whether a release is over; false where nobody can be asked.
    pub async fn is_over(&self, release: &str) -> bool {
        self.state(release).await.is_some_and(|state| OVER.contains(&state.as_str()))
    }

    /// Waits until a release is over, and says how it ended.
    pub async fn ended(&self, release: &str) -> Value {
        let is_over = |shown: &Value| shown["state"].as_str().is_some_and(|state| OVER.contains(&state));
        self.until(&format!("/api/v1/releases/{release}"), is_over).await
    }

    /// What becomes of one child's part in a release.
    pub async fn parts(&self, release: &str) -> Vec<Value> {
        let shown = self.until(&format!("/api/v1/releases/{release}/children"), Value::is_object).await;
        shown["items"].as_array().unwrap().clone()
    }

    /// What the only child reported of a stage when it ended.
    pub async fn result(&self, release: &str, stage: &str) -> Value {
        let parts = self.parts(release).await;
        let [part] = parts.as_slice() else { panic!("{parts:#?}") };
        let results = part["results"].as_array().unwrap();
        let found = results.iter().rfind(|one| one["stage"] == stage && one["preliminary"] == false);
        found.unwrap_or_else(|| panic!("no result of {stage} in {part:#}"))["summary"].clone()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the manager said:\n{}", self.what_it_said());
        }
        self.kill();
    }
}

/// The end of a log.
pub fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
