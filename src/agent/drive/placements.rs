//! Runs what the manager places on this machine: functions of workflows, told over `POST /placements` beside the other long call.
//!
//! Each answer says the whole of what is to run. What is missing is fetched and served as any function is that an operator adds; what
//! isn't to run any more is served no longer. Which functions are here because of that is on disk before one is added: an agent that is
//! started anew ends what it isn't to run any more.
//!
//! The manager takes a node that says nothing for a while for lost, so nothing that takes time keeps the next call waiting: it is done in
//! tasks, and one that ends is told at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use language::functions::{Limits, unpack};
use protocol::{
    measurements::{NodeHealth, SAMPLES_EVERY, SamplesPace},
    placements::{
        InstancePhase, InstanceReport, MAX_WHY_BYTES, PlacedInstance, PlacedPart, PlacedState,
        PlacementsAnswer, PlacementsRequest, check_resource,
    },
};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::{JoinHandle, JoinSet, spawn_blocking},
    time::{Instant, interval_at, sleep, sleep_until},
};

use super::{effects::Tools, machine::Machine, persistence};
use crate::{
    control::{Order, Refused, form::NewFunction},
    events::Relay,
};

/// The keep-alive of a manager that hasn't said its own yet.
const KEEP_ALIVE: Duration = Duration::from_secs(2);

/// What ends within so long is told with one call.
const TOGETHER: Duration = Duration::from_millis(20);

/// The pause after a first call that failed; it grows up to half of the keep-alive.
const AGAIN: Duration = Duration::from_millis(100);

/// After so long a function is tried again that could not be started, and one to be removed that is in hand.
const ONCE_MORE: Duration = Duration::from_secs(15);
const REMOVE_AGAIN: Duration = Duration::from_secs(1);

/// Between two looks whether something waits that an instance has put out.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What a function is told of itself: a file in its folder.
const ABOUT: &str = "choirmaster.json";

/// Functions that are fetched and started at a time.
const AT_A_TIME: usize = 4;

/// What is kept on disk, and the folder in which archives are downloaded and unpacked, each in one named like its instance.
const KEPT: &str = "placed.json";
const UNPACKED: &str = "placed";

/// Runs until it is dropped.
#[derive(Debug)]
pub struct Placements(JoinHandle<()>);

impl Drop for Placements {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Functions and resources that are here because they were placed here, by name; and all that the manager told last, so that events
/// are handed over before it is reached again.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    functions: BTreeMap<String, KeptFunction>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    told: Vec<PlacedInstance>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptFunction {
    /// The instance that it is.
    instance: String,
    #[serde(default)]
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Stage {
    /// It may be half done, and is begun again by an agent that is started anew.
    #[default]
    Starting,
    /// Its code is here.
    Ready,
    Running,
    /// Why it could not be started.
    Failed(String),
}

/// What a task has done.
#[derive(Debug)]
struct Done {
    function: String,
    instance: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Prepared(Result<(), String>),
    Started(Result<(), String>),
    /// True: it is served no longer.
    Removed(bool),
}

impl Placements {
    /// Must be called in a runtime of tokio. What it can't do by itself it asks of whoever drives the agent. Without a
    /// `relay` nothing may be placed here: what was is ended, and no call is made.
    pub fn start(tools: Arc<Tools>, driver: mpsc::Sender<Order>, relay: Option<Arc<Relay>>) -> Self {
        let running = Running {
            driver,
            relay,
            kept: Kept::default(),
            state: None,
            id: String::new(),
            saved: None,
            keep_alive: KEEP_ALIVE,
            tasks: JoinSet::new(),
            busy: BTreeSet::new(),
            slots: Arc::new(Semaphore::new(AT_A_TIME)),
            tried: Instant::now(),
            machine: Machine::new(tools.folder.clone()),
            pace: SamplesPace::default(),
            health: None,
            tools,
        };
        Self(tokio::spawn(running.run()))
    }
}

struct Running {
    tools: Arc<Tools>,
    driver: mpsc::Sender<Order>,
    /// None: nothing may be placed here.
    relay: Option<Arc<Relay>>,
    kept: Kept,
    /// By what the manager calls what it told last.
    state: Option<String>,
    /// What the manager calls the agent.
    id: String,
    /// What is on disk; none where that isn't known.
    saved: Option<Kept>,
    keep_alive: Duration,
    tasks: JoinSet<Done>,
    /// Functions for which there is a task.
    busy: BTreeSet<String>,
    slots: Arc<Semaphore>,
    /// When what could not be started was tried last.
    tried: Instant,
    machine: Machine,
    pace: SamplesPace,
    /// What the manager doesn't know yet of the machine.
    health: Option<NodeHealth>,
}

impl Running {
    async fn run(mut self) {
        match persistence::read_value::<Kept>(&self.tools.folder.join(KEPT)) {
            Ok(kept) => (self.kept, self.saved) = (kept.clone().unwrap_or_default(), kept),
            Err(error) => tracing::error!("what was placed here can't be read, and is found anew: {error}"),
        }
        let _ = tokio::fs::remove_dir_all(self.tools.folder.join(UNPACKED)).await;
        for kept in self.kept.functions.values_mut().filter(|kept| kept.stage == Stage::Ready) {
            kept.stage = Stage::Starting;
        }
        if self.relay.is_none() {
            return self.end_all().await;
        }
        let mut failures = 0_u32;
        loop {
            match self.turn().await {
                Ok(()) => failures = 0,
                Err(error) => {
                    if failures == 0 {
                        tracing::info!("what is placed here isn't told to the manager; tried again: {error}");
                    }
                    let pause = AGAIN.saturating_mul(1 << failures.min(16)).min(self.keep_alive / 2);
                    failures = failures.saturating_add(1);
                    sleep(pause.mul_f64(f64::from(fastrand::u8(50..101)) / 100.0)).await;
                }
            }
        }
    }

    async fn end_all(mut self) {
        self.kept.told.clear();
        while !self.kept.functions.is_empty() {
            let served: Vec<String> = self.kept.functions.keys().cloned().collect();
            let missing = self.missing(&served.iter().map(String::as_str).collect());
            self.begin(missing).await;
            match self.tasks.join_next().await {
                Some(Ok(done)) => self.note(done),
                Some(Err(_)) | None => sleep(REMOVE_AGAIN).await,
            }
        }
        self.save().await;
    }

    /// One call: says what runs, and hears what is to run. It is broken off when something here is done or was
    /// measured, which the next one tells.
    async fn turn(&mut self) -> Result<(), String> {
        let status = self.ask(Order::Status).await?;
        let Some(id) = status.id.clone() else {
            sleep(AGAIN).await;
            return Ok(());
        };
        self.id.clone_from(&id);
        let served: BTreeSet<&str> = status.functions.iter().map(|function| &*function.name).collect();
        let is_resource = |one: &&PlacedInstance| matches!(one.what, PlacedPart::Resource { .. });
        let resources = self.kept.told.iter().filter(is_resource);
        let resources: BTreeSet<&str> = resources.map(|one| &*one.id).collect();
        for (name, kept) in &mut self.kept.functions {
            let is_function = !resources.contains(&*kept.instance);
            if kept.stage == Stage::Running && is_function && !served.contains(&**name) {
                // An operator of the agent has removed it.
                kept.stage = Stage::Starting;
            }
        }
        let missing = self.missing(&served);
        self.begin(missing).await;
        self.tell_relay();
        if let Some(health) = self.machine.look().await {
            self.health = Some(health);
        }
        let now = Instant::now();
        let due = |relay: &Arc<Relay>| self.pace.due(now.into_std(), || relay.samples().next());
        let samples = self.relay.as_ref().map(due).unwrap_or_default();
        let (state, instances, health) = (self.state.clone(), self.reports(), self.health);
        let request = PlacementsRequest { id, state, instances, health, samples };
        let tools = Arc::clone(&self.tools);
        let call = tools.manager.placements(&request, self.keep_alive / 2);
        tokio::pin!(call);
        let mut told_from: Option<Instant> = None;
        let mut look = interval_at(now + SAMPLES_EVERY, SAMPLES_EVERY);
        loop {
            let again = told_from.unwrap_or_else(|| self.tried + ONCE_MORE);
            tokio::select! {
                answer = &mut call => {
                    let PlacementsAnswer { state, keep_alive_ms, measure, instances } =
                        answer.map_err(|error| error.to_string())?;
                    if let Some(relay) = &self.relay {
                        relay.samples().measure(measure);
                        relay.samples().told(&request.samples);
                    }
                    self.health = None;
                    if let Some(instances) = instances {
                        self.kept.told = instances;
                    }
                    self.state = Some(state);
                    self.keep_alive = Duration::from_millis(keep_alive_ms.max(1));
                    return Ok(());
                }
                Some(Ok(done)) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    self.note(done);
                    told_from.get_or_insert_with(|| Instant::now() + TOGETHER);
                }
                // One that has samples is answered at once.
                _ = look.tick(), if request.samples.is_empty() => {
                    let is_sampled = |relay: &Arc<Relay>| !relay.samples().is_empty();
                    if self.machine.is_due() || self.relay.as_ref().is_some_and(is_sampled) {
                        return Ok(());
                    }
                }
                () = sleep_until(again), if told_from.is_some() || self.has_failed() => return Ok(()),
            }
        }
    }

    fn has_failed(&self) -> bool {
        self.kept.functions.values().any(|kept| matches!(kept.stage, Stage::Failed(_)))
    }

    fn note(&mut self, done: Done) {
        let Done { function, instance, what } = done;
        self.busy.remove(&function);
        if let What::Removed(is_removed) = what {
            if is_removed {
                self.kept.functions.remove(&function);
            }
            return;
        }
        let Some(kept) = self.kept.functions.get_mut(&function).filter(|kept| kept.instance == instance)
        else {
            return;
        };
        kept.stage = match what {
            What::Prepared(Ok(())) => Stage::Ready,
            What::Started(Ok(())) | What::Removed(_) => Stage::Running,
            What::Prepared(Err(why)) | What::Started(Err(why)) => {
                tracing::warn!(function, "a function that is placed here can't be started: {why}");
                Stage::Failed(why.chars().filter(|c| !c.is_control()).take(MAX_WHY_BYTES / 4).collect())
            }
        };
    }

    /// What is to be done so that what is here becomes what is to be here: function, instance, what.
    fn missing(&mut self, served: &BTreeSet<&str>) -> Vec<(String, String, Task)> {
        let is_again = self.tried.elapsed() >= ONCE_MORE;
        if is_again {
            self.tried = Instant::now();
        }
        let wanted = self.wanted();
        let mut tasks = Vec::new();
        for (name, kept) in &self.kept.functions {
            if self.busy.contains(name) {
                continue;
            }
            let task = match wanted.get(&**name).filter(|one| one.id == kept.instance) {
                None => Task::Remove { is_served: served.contains(&**name) },
                Some(one) => match &kept.stage {
                    Stage::Failed(_) if !is_again => continue,
                    Stage::Running => continue,
                    Stage::Ready if one.state == PlacedState::Prepare => continue,
                    Stage::Ready => Task::Start { one: (*one).clone(), is_fetched: true },
                    Stage::Starting | Stage::Failed(_) if one.state == PlacedState::Prepare => {
                        Task::Prepare((*one).clone())
                    }
                    Stage::Starting | Stage::Failed(_) => {
                        Task::Start { one: (*one).clone(), is_fetched: false }
                    }
                },
            };
            tasks.push((name.clone(), kept.instance.clone(), task));
        }
        for (name, one) in wanted {
            if !self.kept.functions.contains_key(name) {
                let one = one.clone();
                let (name, instance) = (name.to_owned(), one.id.clone());
                let task = if one.state == PlacedState::Prepare {
                    Task::Prepare(one)
                } else {
                    Task::Start { one, is_fetched: false }
                };
                tasks.push((name, instance, task));
            }
        }
        tasks
    }

    /// What is to be here, by name. Of two that are called alike, the one that is here.
    fn wanted(&self) -> BTreeMap<&str, &PlacedInstance> {
        let mut wanted: BTreeMap<&str, &PlacedInstance> = BTreeMap::new();
        for one in self.kept.told.iter().filter(|one| one.state != PlacedState::End) {
            let is_here = self.kept.functions.get(&one.name).is_some_and(|kept| kept.instance == one.id);
            if is_here || !wanted.contains_key(&*one.name) {
                wanted.insert(&one.name, one);
            }
        }
        wanted
    }

    /// What the manager is told.
    fn reports(&self) -> Vec<InstanceReport> {
        let wanted = self.wanted();
        let told = self.kept.told.iter().filter(|one| one.state != PlacedState::End);
        let namesakes = told.filter(|one| wanted.get(&*one.name).is_some_and(|other| other.id != one.id));
        let refused = namesakes.map(|one| InstanceReport {
            id: one.id.clone(),
            phase: InstancePhase::Failed,
            why: Some(format!("another function is called {} on this node", one.name)),
            url: None,
        });
        self.kept.functions.values().map(report).chain(refused).collect()
    }

    /// Has it done, once it is written down what is here.
    async fn begin(&mut self, missing: Vec<(String, String, Task)>) {
        for (function, instance, task) in &missing {
            let stage = match task {
                Task::Remove { .. } => continue,
                Task::Start { is_fetched: true, .. } => Stage::Ready,
                Task::Start { is_fetched: false, .. } | Task::Prepare(_) => Stage::Starting,
            };
            let is_tried_again = self
                .kept
                .functions
                .get(function)
                .is_some_and(|kept| kept.instance == *instance && matches!(kept.stage, Stage::Failed(_)));
            if !is_tried_again {
                self.kept
                    .functions
                    .insert(function.clone(), KeptFunction { instance: instance.clone(), stage });
            }
        }
        if !self.save().await {
            return;
        }
        for (function, instance, task) in missing {
            self.busy.insert(function.clone());
            let doing = Doing {
                tools: Arc::clone(&self.tools),
                driver: self.driver.clone(),
                relay: self.relay.clone(),
                id: self.id.clone(),
                slots: Arc::clone(&self.slots),
            };
            self.tasks.spawn(async move {
                let what = doing.run(&function, &instance, task).await;
                Done { function, instance, what }
            });
        }
    }

    /// Says what is here, and who gets what.
    fn tell_relay(&self) {
        let Some(relay) = &self.relay else { return };
        let running = self.kept.functions.values().filter(|kept| kept.stage == Stage::Running);
        let running = running.map(|kept| kept.instance.clone()).collect();
        let proxy = self.tools.listens_on().into_iter().next();
        relay.tell(&self.id, &self.kept.told, running, proxy.as_deref());
    }

    /// False: it can't be written.
    async fn save(&mut self) -> bool {
        if self.saved.as_ref() == Some(&self.kept) {
            return true;
        }
        let (path, kept) = (self.tools.folder.join(KEPT), self.kept.clone());
        let written = spawn_blocking(move || persistence::write(&path, &kept)).await;
        let is_written = matches!(written, Ok(Ok(())));
        match (is_written, &self.saved) {
            (true, _) => self.saved = Some(self.kept.clone()),
            (false, Some(_)) => {
                tracing::error!("what is placed here can't be kept, and nothing new is begun");
                self.saved = None;
            }
            (false, None) => {}
        }
        is_written
    }

    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Result<T, String> {
        ask(&self.driver, order).await
    }
}

async fn ask<T>(
    driver: &mpsc::Sender<Order>,
    order: impl FnOnce(oneshot::Sender<T>) -> Order,
) -> Result<T, String> {
    let (answer, answered) = oneshot::channel();
    let ends = |()| "the agent ends".to_owned();
    driver.send(order(answer)).await.map_err(|_| ends(()))?;
    answered.await.map_err(|_| ends(()))
}

/// What is done about a function.
#[derive(Debug)]
enum Task {
    /// Its code is fetched.
    Prepare(PlacedInstance),
    Start {
        one: PlacedInstance,
        is_fetched: bool,
    },
    Remove {
        is_served: bool,
    },
}

/// What a task needs.
struct Doing {
    tools: Arc<Tools>,
    driver: mpsc::Sender<Order>,
    relay: Option<Arc<Relay>>,
    /// What the manager calls the agent.
    id: String,
    slots: Arc<Semaphore>,
}

impl Doing {
    async fn run(self, function: &str, instance: &str, task: Task) -> What {
        // Nobody closes them.
        let slot = self.slots.acquire().await;
        match task {
            Task::Prepare(one) => What::Prepared(self.fetch(&one).await),
            Task::Start { one, is_fetched } => What::Started(self.start(&one, is_fetched).await),
            Task::Remove { is_served } => {
                let is_removed = !is_served || self.remove(function).await;
                if is_removed {
                    self.clear(instance).await;
                    drop(slot);
                    self.drain(instance).await;
                }
                What::Removed(is_removed)
            }
        }
    }

    /// Waits until what an instance has put out was handed over, or nobody gets it any more.
    async fn drain(&self, instance: &str) {
        let Some(relay) = &self.relay else { return };
        // The manager says where its targets are for as long as it isn't told that the instance is gone.
        while !relay.is_drained(instance) && relay.is_told(instance) {
            sleep(LOOK_AGAIN).await;
        }
    }

    async fn start(&self, one: &PlacedInstance, is_fetched: bool) -> Result<(), String> {
        let (folder, runtime) = match &one.what {
            PlacedPart::Function { folder, runtime, .. } => (folder, runtime),
            PlacedPart::Resource { class, configuration } => {
                return check_resource(class, configuration).map_err(|(key, why)| format!("{key}: {why}"));
            }
        };
        if !is_fetched {
            self.fetch(one).await?;
        }
        let folder = self.folder(&one.id)?.join(folder);
        self.tell(one, &folder).await?;
        let runner = Some(runtime.clone());
        let function = NewFunction { folder, runner, sticky: None, retry: None };
        let add = |answer| Order::Add { name: one.name.clone(), function, answer };
        let added = ask(&self.driver, add).await?;
        // The agent has a copy.
        self.clear(&one.id).await;
        added.map(drop).map_err(|refused| refused.to_string())
    }

    /// Tells a function what it is and where it puts something out.
    async fn tell(&self, one: &PlacedInstance, folder: &Path) -> Result<(), String> {
        let PlacedPart::Function { annotations, .. } = &one.what else { return Ok(()) };
        let Some(relay) = &self.relay else { return Ok(()) };
        let url = |output: &String| (output.clone(), relay.output_url(&one.id, output));
        let about = About {
            name: &one.name,
            node: &self.id,
            logical_id: &one.part,
            instance: &one.id,
            annotations,
            outputs: one.outputs.keys().map(url).collect(),
        };
        let text = serde_json::to_vec_pretty(&about).map_err(|error| error.to_string())?;
        tokio::fs::write(folder.join(ABOUT), text).await.map_err(|error| error.to_string())
    }

    async fn remove(&self, function: &str) -> bool {
        let remove = |answer| Order::Remove { name: function.to_owned(), waits: true, answer };
        match ask(&self.driver, remove).await {
            Ok(Ok(_) | Err(Refused::Unknown { .. })) => return true,
            // A release has it in hand.
            Ok(Err(refused)) => {
                tracing::debug!(function, "a function that was placed here goes on: {refused}");
            }
            Err(_) => {}
        }
        sleep(REMOVE_AGAIN).await;
        false
    }

    /// The folder of an instance. Its id is a manager's, so it may lead nowhere else.
    fn folder(&self, instance: &str) -> Result<PathBuf, String> {
        let is_plain = instance.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let below = self.tools.folder.join(UNPACKED);
        (is_plain && !instance.is_empty())
            .then(|| below.join(instance))
            .ok_or_else(|| format!("{instance:?} is no id of an instance"))
    }

    /// Has the code of a function in its folder.
    async fn fetch(&self, one: &PlacedInstance) -> Result<(), String> {
        let PlacedPart::Function { folder, .. } = &one.what else { return Ok(()) };
        let to = self.folder(&one.id)?;
        self.clear(&one.id).await;
        tokio::fs::create_dir_all(&to).await.map_err(|error| error.to_string())?;
        let archive = to.with_extension("zip");
        let fetched = self.tools.manager.functions(&self.id, &one.id, &archive).await;
        fetched.map_err(|error| error.to_string())?;
        let folder = folder.clone();
        let unpacked = spawn_blocking(move || unpack_to(&archive, &to, &folder));
        unpacked.await.map_err(|_| "unpacking broke off".to_owned())?
    }

    async fn clear(&self, instance: &str) {
        if let Ok(folder) = self.folder(instance) {
            let _ = tokio::fs::remove_dir_all(&folder).await;
            let _ = tokio::fs::remove_file(folder.with_extension("zip")).await;
        }
    }
}

/// What a function is told of itself.
#[derive(Serialize)]
struct About<'a> {
    name: &'a str,
    node: &'a str,
    logical_id: &'a str,
    instance: &'a str,
    annotations: &'a BTreeMap<String, String>,
    /// Where it posts what it puts out, by the name of the output.
    outputs: BTreeMap<String, String>,
}

fn report(kept: &KeptFunction) -> InstanceReport {
    let (phase, why) = match &kept.stage {
        Stage::Starting => (InstancePhase::Starting, None),
        Stage::Ready => (InstancePhase::Ready, None),
        Stage::Running => (InstancePhase::Running, None),
        Stage::Failed(why) => (InstancePhase::Failed, Some(why.clone())),
    };
    InstanceReport { id: kept.instance.clone(), phase, why, url: None }
}

/// Writes a folder of an archive to the disk.
fn unpack_to(archive: &Path, to: &Path, folder: &str) -> Result<(), String> {
    use std::fs;
    let failed = |error: std::io::Error| error.to_string();
    let zip = fs::read(archive).map_err(failed)?;
    let below = format!("{folder}/");
    let unpacked = unpack(&zip, |path| path.starts_with(&below), &Limits::default());
    let unpacked = unpacked.map_err(|error| error.to_string())?;
    for (path, content) in &unpacked.files {
        let path = to.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, content).map_err(failed)?;
    }
    fs::remove_file(archive).map_err(failed)
}
