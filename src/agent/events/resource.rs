//! Resources that this agent provides: `file-log`, `http-egress` and `metrics-collector`.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use protocol::placements::{METRICS_COLLECTOR, check_resource};
use reqwest::Method;
use serde::Deserialize;
use tokio::{sync::OwnedMutexGuard, task::spawn_blocking};

use super::{
    basics::lock,
    collector::Collectors,
    event::{Event, Outcome, PATIENCE},
    samples::Samples,
    store::{Store, Write},
};

#[derive(Debug)]
pub(super) struct Resources {
    logs: PathBuf,
    egress_hosts: Vec<String>,
    client: reqwest::Client,
    /// By the name of a file: who writes to it.
    files: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    collectors: Collectors,
}

/// What is written down together with an event that was taken.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// A file, and how long it is now.
    pub file: Option<(String, u64)>,
    /// How the file is as it was, if that can't be written down.
    pub undo: Option<Undo>,
    /// Nobody else writes to the file until that is on disk.
    pub _held: Option<OwnedMutexGuard<()>>,
}

/// A file, and how long it was before.
#[derive(Debug)]
pub(super) struct Undo {
    path: PathBuf,
    length: u64,
}

impl Undo {
    pub async fn carry_out(self) {
        let cut =
            spawn_blocking(move || OpenOptions::new().write(true).open(self.path)?.set_len(self.length))
                .await;
        if !matches!(cut, Ok(Ok(()))) {
            tracing::warn!("a line of a log that comes again may stand there twice");
        }
    }
}

/// What an event to `http-egress` asks for.
#[derive(Debug, Deserialize)]
#[serde(expecting = "a call: protocol, host, path, method, headers, body")]
struct Call {
    #[serde(default)]
    protocol: String,
    host: String,
    #[serde(default)]
    path: String,
    method: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<Body>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Body {
    Text(String),
    Bytes(Vec<u8>),
}

impl Resources {
    pub fn new(
        logs: PathBuf,
        egress_hosts: Vec<String>,
        client: reqwest::Client,
        samples: Arc<Samples>,
    ) -> Self {
        let collectors = Collectors::new(samples);
        Self { logs, egress_hosts, client, files: Mutex::default(), collectors }
    }

    /// Forgets what was begun at resources that are here no more.
    pub fn keep(&self, is_here: impl Fn(&str) -> bool) {
        self.collectors.keep(is_here);
    }

    pub async fn take(
        &self,
        instance: &str,
        class: &str,
        configuration: &BTreeMap<String, String>,
        event: &Event<'_>,
        store: &Store,
    ) -> Result<Kept, Outcome> {
        if let Err((key, why)) = check_resource(class, configuration) {
            return Err(Outcome::Refused(format!("{key}: {why}")));
        }
        match class {
            "file-log" => self.log(configuration, event, store).await,
            "http-egress" => self.call(event).await.map(|()| Kept::default()),
            METRICS_COLLECTOR => {
                self.collectors.take(instance, event).map(|()| Kept::default()).map_err(Outcome::Refused)
            }
            _ => Err(Outcome::Refused(format!("no node runs {class}"))),
        }
    }

    async fn log(
        &self,
        configuration: &BTreeMap<String, String>,
        event: &Event<'_>,
        store: &Store,
    ) -> Result<Kept, Outcome> {
        let name = configuration.get("filename").cloned().unwrap_or_default();
        let turn = Arc::clone(lock(&self.files).entry(name.clone()).or_default());
        let held = turn.lock_owned().await;
        let later = |why: String| Outcome::Later(format!("{name} can't be written: {why}"));
        let known = store.length(&name).map_err(|error| later(error.to_string()))?;
        let path = self.logs.join(&name);
        let found = fs::metadata(&path).map_or(0, |found| found.len());
        let base = match known {
            Some(known) if known <= found => known,
            // It is new, or somebody has rotated it. What stands there stays.
            _ => {
                let write = Write::Length { file: name.clone(), length: found };
                store.write(write).await.map_err(|error| later(error.to_string()))?;
                found
            }
        };
        let (line, at) = (line(configuration, event), path.clone());
        let written = spawn_blocking(move || append(&at, base, &line)).await;
        let length = written.map_err(|error| later(error.to_string()))?;
        let length = length.map_err(|error| later(error.to_string()))?;
        Ok(Kept { file: Some((name, length)), undo: Some(Undo { path, length: base }), _held: Some(held) })
    }

    async fn call(&self, event: &Event<'_>) -> Result<(), Outcome> {
        let refused = |why: String| Outcome::Refused(why);
        let call: Call = serde_json::from_slice(event.body).map_err(|error| refused(error.to_string()))?;
        let Call { protocol, host, path, method, headers, body } = call;
        if !self.may_call(&host) {
            return Err(refused(format!("{host} isn't one of node.egress_hosts")));
        }
        let scheme = if protocol.eq_ignore_ascii_case("https") { "https" } else { "http" };
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes());
        let method = method.map_err(|error| refused(error.to_string()))?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        let mut request =
            self.client.request(method, format!("{scheme}://{host}{slash}{path}")).timeout(PATIENCE);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request = match body {
            Some(Body::Text(text)) => request.body(text),
            Some(Body::Bytes(bytes)) => request.body(bytes),
            None => request,
        };
        let answer = request.send().await.map_err(|error| {
            let why = error.to_string();
            if error.is_builder() { Outcome::Refused(why) } else { Outcome::Later(why) }
        })?;
        let status = answer.status();
        match status.as_u16() {
            200..400 => Ok(()),
            408 | 429 | 500.. => Err(Outcome::Later(format!("{host} answers {status}"))),
            _ => Err(refused(format!("{host} answers {status}"))),
        }
    }

    fn may_call(&self, host: &str) -> bool {
        // Nothing that a URL would read as something else than a host and its port.
        let is_plain = host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:[]".contains(c));
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let is_it =
            |allowed: &String| allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(name);
        is_plain && !host.is_empty() && self.egress_hosts.iter().any(is_it)
    }
}

/// A line of a log.
fn line(configuration: &BTreeMap<String, String>, event: &Event<'_>) -> String {
    let mut line = String::new();
    if configuration.contains_key("add-timestamp") {
        line.extend([&*jiff::Timestamp::now().to_string(), " "]);
    }
    if configuration.contains_key("add-source-id") {
        line.extend(["from node_id ", event.node, " function_id ", event.from, " "]);
    }
    for c in String::from_utf8_lossy(event.body).chars() {
        if c.is_control() && c != '\t' { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line.push('\n');
    line
}

/// Appends to a file of a length; how long it is then. What stands behind that length was written when the agent was killed, and comes again.
fn append(path: &Path, length: u64, line: &str) -> io::Result<u64> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    if file.metadata()?.len() > length {
        file.set_len(length)?;
    }
    file.write_all(line.as_bytes())?;
    file.sync_data()?;
    Ok(length + line.len() as u64)
}
