//! Runs what the manager places on this machine: functions of workflows, told over `POST /placements` beside the other long call.
//!
//! Each answer says the whole of what is to run. What is missing is fetched and served as any function is that an operator adds; what
//! isn't to run any more is served no longer. Which functions are here because of that is on disk before one is added: an agent that is
//! started anew ends what it isn't to run any more.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use language::functions::{Limits, unpack};
use protocol::placements::{
    InstancePhase, InstanceReport, MAX_WHY_BYTES, PlacedInstance, PlacementsAnswer, PlacementsRequest,
};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep},
};

use super::{effects::Tools, persistence};
use crate::control::{Order, Refused, form::NewFunction};

/// How long a call may wait.
const WAIT: Duration = Duration::from_secs(10);

/// From one call to the next, where something is still to be done.
const BETWEEN: Duration = Duration::from_millis(100);

/// Pauses after a call that failed: the first, and the longest.
const AGAIN: Duration = Duration::from_millis(500);
const AGAIN_AT_LAST: Duration = Duration::from_secs(30);

/// After so long a function is tried again that could not be started.
const ONCE_MORE: Duration = Duration::from_secs(15);

/// What is kept on disk, and where archives are downloaded to.
const KEPT: &str = "placed.json";
const ARCHIVE: &str = "placed.zip";
const UNPACKED: &str = "placed";

/// Runs until it is dropped.
#[derive(Debug)]
pub struct Placements(JoinHandle<()>);

impl Drop for Placements {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Functions that are here because they were placed here, by name.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    functions: BTreeMap<String, KeptFunction>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptFunction {
    /// The instance that it is.
    instance: String,
    /// It was served. Else it may be half done, and is begun again by an agent that is started anew.
    #[serde(default)]
    added: bool,
    /// Why it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Placements {
    /// Must be called in a runtime of tokio. What it can't do by itself it asks of whoever drives the agent.
    pub fn start(tools: Arc<Tools>, driver: mpsc::Sender<Order>) -> Self {
        let running = Running {
            tools,
            driver,
            kept: Kept::default(),
            wanted: Vec::new(),
            state: None,
            tried: Instant::now(),
        };
        Self(tokio::spawn(running.run()))
    }
}

struct Running {
    tools: Arc<Tools>,
    driver: mpsc::Sender<Order>,
    kept: Kept,
    /// What is to run, as it was told last.
    wanted: Vec<PlacedInstance>,
    /// By what the manager calls that.
    state: Option<String>,
    /// When what could not be started was tried last.
    tried: Instant,
}

impl Running {
    async fn run(mut self) {
        match persistence::read_value::<Kept>(&self.tools.folder.join(KEPT)) {
            Ok(kept) => self.kept = kept.unwrap_or_default(),
            Err(error) => tracing::error!("what was placed here can't be read, and is found anew: {error}"),
        }
        let mut failures = 0_u32;
        loop {
            match self.turn().await {
                Ok(pause) => {
                    failures = 0;
                    sleep(pause).await;
                }
                Err(error) => {
                    if failures == 0 {
                        tracing::info!("what is placed here isn't told to the manager; tried again: {error}");
                    }
                    let pause = AGAIN.saturating_mul(1 << failures.min(6)).min(AGAIN_AT_LAST);
                    failures = failures.saturating_add(1);
                    sleep(pause.mul_f64(f64::from(fastrand::u8(75..126)) / 100.0)).await;
                }
            }
        }
    }

    /// Says what runs, hears what is to run, and does what is to be done about it.
    async fn turn(&mut self) -> Result<Duration, String> {
        let status = self.ask(Order::Status).await?;
        let Some(id) = status.id.clone() else { return Ok(AGAIN) };
        for (name, kept) in &mut self.kept.functions {
            // An operator of the agent has removed it.
            kept.added &= status.functions.iter().any(|function| function.name == *name);
        }
        let instances: Vec<InstanceReport> = self.kept.functions.values().map(report).collect();
        let is_settled = self.is_settled();
        let request = PlacementsRequest { id: id.clone(), state: self.state.clone(), instances };
        let wait = if is_settled { WAIT } else { BETWEEN };
        let answer =
            self.tools.manager.placements(&request, wait).await.map_err(|error| error.to_string())?;
        let PlacementsAnswer { state, instances } = answer;
        if let Some(instances) = instances {
            self.wanted = instances;
        }
        self.state = Some(state);
        self.end_others().await?;
        self.begin_missing(&id).await?;
        Ok(if is_settled { Duration::ZERO } else { BETWEEN })
    }

    /// Whether what is here is what is to be here.
    fn is_settled(&self) -> bool {
        let is_kept = |one: &PlacedInstance| {
            let kept = self.kept.functions.get(&one.function);
            kept.is_some_and(|kept| kept.instance == one.id && (kept.added || kept.failed.is_some()))
        };
        self.state.is_some()
            && self.wanted.len() == self.kept.functions.len()
            && self.wanted.iter().all(is_kept)
    }

    /// What isn't to run any more is served no longer.
    async fn end_others(&mut self) -> Result<(), String> {
        let is_wanted = |name: &str, kept: &KeptFunction| {
            self.wanted.iter().any(|one| one.function == name && one.id == kept.instance)
        };
        let others: Vec<String> = self
            .kept
            .functions
            .iter()
            .filter(|(name, kept)| !is_wanted(name, kept))
            .map(|(name, _)| name.clone())
            .collect();
        for name in others {
            let removed = self.ask(|answer| Order::Remove { name: name.clone(), answer }).await?;
            match removed {
                Ok(_) | Err(Refused::Unknown { .. }) => {
                    self.kept.functions.remove(&name);
                    self.keep().await?;
                }
                // A release has it in hand: it is tried again.
                Err(refused) => tracing::debug!(%name, "a function that was placed here goes on: {refused}"),
            }
        }
        Ok(())
    }

    async fn begin_missing(&mut self, id: &str) -> Result<(), String> {
        let is_again = self.tried.elapsed() >= ONCE_MORE;
        if is_again {
            self.tried = Instant::now();
        }
        let is_missing = |one: &&PlacedInstance| match self.kept.functions.get(&one.function) {
            // Another instance of it goes on here.
            Some(kept) if kept.instance != one.id => false,
            Some(kept) => !kept.added && (kept.failed.is_none() || is_again),
            None => true,
        };
        let missing: Vec<PlacedInstance> = self.wanted.iter().filter(is_missing).cloned().collect();
        for one in missing {
            let kept = KeptFunction { instance: one.id.clone(), added: false, failed: None };
            self.kept.functions.insert(one.function.clone(), kept);
            self.keep().await?;
            let begun = self.begin(id, &one).await;
            if let Err(why) = &begun {
                tracing::warn!(
                    function = one.function,
                    "a function that is placed here can't be started: {why}"
                );
            }
            if let Some(kept) = self.kept.functions.get_mut(&one.function) {
                let line =
                    |why: String| why.chars().filter(|c| !c.is_control()).take(MAX_WHY_BYTES / 4).collect();
                kept.added = begun.is_ok();
                kept.failed = begun.err().map(line);
            }
            self.keep().await?;
        }
        Ok(())
    }

    async fn begin(&self, id: &str, one: &PlacedInstance) -> Result<(), String> {
        let folder = self.fetch(id, one).await?;
        let function = NewFunction { folder: folder.clone(), runner: None, sticky: None, retry: None };
        let added = self.ask(|answer| Order::Add { name: one.function.clone(), function, answer }).await;
        // The agent has a copy.
        let _ = tokio::fs::remove_dir_all(self.tools.folder.join(UNPACKED)).await;
        added?.map(drop).map_err(|refused| refused.to_string())
    }

    /// Has the code of a function in a folder.
    async fn fetch(&self, id: &str, one: &PlacedInstance) -> Result<PathBuf, String> {
        let archive = self.tools.folder.join(ARCHIVE);
        self.tools.manager.functions(id, &one.id, &archive).await.map_err(|error| error.to_string())?;
        let (to, folder) = (self.tools.folder.join(UNPACKED), one.folder.clone());
        let unpacked = spawn_blocking(move || unpack_to(&archive, &to, &folder));
        unpacked.await.map_err(|_| "unpacking broke off".to_owned())?
    }

    async fn keep(&self) -> Result<(), String> {
        let (path, kept) = (self.tools.folder.join(KEPT), self.kept.clone());
        let written = spawn_blocking(move || persistence::write(&path, &kept));
        written.await.map_err(|_| "writing broke off".to_owned())?.map_err(|error| error.to_string())
    }

    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Result<T, String> {
        let (answer, answered) = oneshot::channel();
        let ends = |()| "the agent ends".to_owned();
        self.driver.send(order(answer)).await.map_err(|_| ends(()))?;
        answered.await.map_err(|_| ends(()))
    }
}

fn report(kept: &KeptFunction) -> InstanceReport {
    let phase = match &kept.failed {
        Some(_) => InstancePhase::Failed,
        None if kept.added => InstancePhase::Running,
        None => InstancePhase::Starting,
    };
    InstanceReport { id: kept.instance.clone(), phase, why: kept.failed.clone() }
}

/// Writes a folder of an archive to the disk.
fn unpack_to(archive: &std::path::Path, to: &std::path::Path, folder: &str) -> Result<PathBuf, String> {
    use std::fs;
    let failed = |error: std::io::Error| error.to_string();
    let zip = fs::read(archive).map_err(failed)?;
    let below = format!("{folder}/");
    let unpacked = unpack(&zip, |path| path.starts_with(&below), &Limits::default());
    let unpacked = unpacked.map_err(|error| error.to_string())?;
    match fs::remove_dir_all(to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    for (path, content) in &unpacked.files {
        let path = to.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, content).map_err(failed)?;
    }
    fs::remove_file(archive).map_err(failed)?;
    Ok(to.join(folder))
}
