//! A tree of managers on this machine with simulated agents below it, for `fleet --tree`, the demo and tests.
//!
//! Each manager is a whole one: its own listener, its own embedded store, and the one above as its parent, over HTTP.
//! They live in this process or each in one of its own. Managers are started from the root down, since each has to
//! know the address above, and ended from the leaves up; their stores lie in one temporary folder.
//!
//! Deliberately not here: what is printed, and what the agents do ([`simulated_children`]).

mod process;

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use self::process::{Launch, Process};
use super::{
    client::{Client, Connection},
    failure::Failure,
};
use crate::{app, app::Options};
use engine::parent;
use language::functions;
use protocol::api::Child;
use simulated_children::{
    FleetConfig, FleetError, FleetReport, Progress,
    tree::{MAX_MANAGERS, ManagerPlace, TreeSpec},
};

/// Shortest time between two polls of a manager at the one above it.
pub const MIN_POLL: Duration = Duration::from_millis(10);

/// Managers started or ended at once.
const AT_ONCE: usize = 8;

/// What a tree is started with.
#[derive(Debug, Clone)]
pub struct TreeConfig {
    pub spec: TreeSpec,
    /// The agents below each of the lowest managers. Address, number, seed and place are set for each; the end of the
    /// run is not theirs.
    pub agents: FleetConfig,
    /// Of the root; all others take a free port of the machine's own address.
    pub listen: SocketAddr,
    /// The folder that contains `fns/`, for releases submitted without functions.
    pub functions_root: PathBuf,
    /// Between two polls of a manager at the one above it.
    pub poll: Duration,
    /// Each manager in a process of its own.
    pub processes: bool,
}

/// A manager that runs.
#[derive(Debug)]
enum Manager {
    Here(Box<app::Manager>),
    Apart(Process),
}

/// A tree that runs.
#[derive(Debug)]
pub struct Tree {
    places: Vec<ManagerPlace>,
    /// By place; shorter while the tree is being built.
    managers: Vec<Manager>,
    urls: Vec<String>,
    agents: Vec<Agents>,
    /// Holds the stores; removed with the tree.
    folder: TempDir,
}

/// The agents below one manager.
#[derive(Debug)]
struct Agents {
    manager: String,
    progress: watch::Receiver<Progress>,
    stop: CancellationToken,
    running: JoinHandle<Result<FleetReport, FleetError>>,
}

/// What the managers know of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeState {
    /// Managers that have registered with the one above.
    pub managers: usize,
    /// Agents that the root knows of.
    pub agents: u64,
}

/// A manager of the tree, as it is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Member<'a> {
    #[serde(flatten)]
    pub place: &'a ManagerPlace,
    /// Name of the parent.
    pub parent: Option<&'a str>,
    pub url: &'a str,
}

/// What the agents below one manager did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FleetBelow {
    /// Name of the manager.
    pub manager: String,
    #[serde(flatten)]
    pub report: FleetReport,
}

impl Tree {
    /// Starts all managers, then the agents. `change` may make those of a place different.
    pub async fn start(
        config: &TreeConfig,
        change: impl Fn(&ManagerPlace, &mut FleetConfig),
    ) -> Result<Self, Failure> {
        config.agents.validate().map_err(|error| Failure::user(error.to_string()))?;
        let folder = tempfile::Builder::new()
            .prefix("choirmaster-tree-")
            .tempdir()
            .map_err(|error| Failure::ours(format!("no temporary folder: {error}")))?;
        let places = config.spec.places(config.agents.spread);
        let mut tree = Self { places, managers: Vec::new(), urls: Vec::new(), agents: Vec::new(), folder };
        if let Err(failure) = tree.start_managers(config).await {
            tree.stop().await?;
            return Err(failure);
        }
        let seeds = (0_u64..).map(|number| config.agents.seed.wrapping_add(number << 32));
        for ((place, url), seed) in tree.places.iter().zip(&tree.urls).zip(seeds) {
            if place.agents == 0 {
                continue;
            }
            let mut agents = FleetConfig {
                url: url.clone(),
                agents: place.agents,
                seed,
                spread: place.bounds,
                run_for: None,
                until_idle: None,
                ..config.agents.clone()
            };
            change(place, &mut agents);
            tree.agents.push(Agents::start(place.name.clone(), agents));
        }
        Ok(tree)
    }

    /// Level after level, some at once.
    async fn start_managers(&mut self, config: &TreeConfig) -> Result<(), Failure> {
        while let Some(first) = self.places.get(self.managers.len()) {
            let range = self.managers.len()..;
            let level: Vec<&ManagerPlace> =
                self.places[range].iter().take_while(|place| place.level == first.level).collect();
            let starting = level.into_iter().map(|place| self.start_manager(config, place));
            let started: Vec<_> = stream::iter(starting).buffered(AT_ONCE).collect().await;
            let mut failure = Ok(());
            for started in started {
                match started {
                    Ok(manager) => {
                        self.urls.push(manager.url());
                        self.managers.push(manager);
                    }
                    Err(error) => failure = Err(error),
                }
            }
            failure?;
        }
        Ok(())
    }

    async fn start_manager(&self, config: &TreeConfig, place: &ManagerPlace) -> Result<Manager, Failure> {
        let unwritable = |error| Failure::ours(format!("manager {} has no folder: {error}", place.name));
        let folder = self.folder.path().join(&place.name);
        fs::create_dir(&folder).map_err(unwritable)?;
        let listen =
            if place.parent.is_none() { config.listen } else { SocketAddr::from(([127, 0, 0, 1], 0)) };
        let parent = place.parent.and_then(|parent| self.urls.get(parent)).map(String::as_str);
        let poll = config.poll.max(MIN_POLL);
        if config.processes {
            // The process stands in another folder.
            let functions_root = &std::path::absolute(&config.functions_root).map_err(unwritable)?;
            let (folder, name, listen) = (folder.as_path(), place.name.as_str(), listen.to_string());
            let launch = Launch { name, folder, functions_root, listen, parent, poll };
            return Ok(Manager::Apart(Process::start(launch).await?));
        }
        let store = format!("sqlite://{}", folder.join("choirmaster.db").display());
        let parent = parent.map(|url| parent::Settings {
            url: url.to_owned(),
            token: None,
            name: Some(place.name.clone()),
            poll,
            service_area: None,
            public_url: None,
            archive_limits: functions::Limits::default(),
            downloads: folder.join("parent"),
        });
        let options = Options { listen, parent, ..Options::local(store, config.functions_root.clone()) };
        Ok(Manager::Here(Box::new(app::start(options).await?)))
    }

    /// The address of the root.
    pub fn root(&self) -> &str {
        self.urls.first().map_or("", String::as_str)
    }

    /// Every manager, the root first.
    pub fn members(&self) -> Vec<Member<'_>> {
        let name = |at: usize| self.places.get(at).map(|above| above.name.as_str());
        let managers = self.places.iter().zip(&self.urls);
        managers.map(|(place, url)| Member { place, parent: place.parent.and_then(name), url }).collect()
    }

    /// The manager of that name.
    pub fn member(&self, name: &str) -> Option<Member<'_>> {
        self.members().into_iter().find(|member| member.place.name == name)
    }

    /// How many agents there are.
    pub fn size(&self) -> usize {
        self.places.iter().map(|place| place.agents).sum()
    }

    /// What all agents do at the moment.
    pub fn progress(&self) -> Progress {
        let each: Vec<Progress> = self.agents.iter().map(|agents| agents.progress.borrow().clone()).collect();
        Progress { agents: self.size(), ..Progress::sum(&each) }
    }

    /// What the agents below one manager of the lowest level do at the moment.
    pub fn progress_below(&self, manager: &str) -> Option<Progress> {
        let agents = self.agents.iter().find(|agents| agents.manager == manager)?;
        Some(agents.progress.borrow().clone())
    }

    /// Asks every manager with managers below it who has registered.
    pub async fn standing(&self) -> Result<TreeState, Failure> {
        let mut standing = TreeState::default();
        for (place, url) in self.places.iter().zip(&self.urls).filter(|(place, _)| place.agents == 0) {
            let client = Client::new(&Connection::to(url.as_str()))?;
            let path = ["api", "v1", "children"];
            let (children, _): (Vec<Child>, bool) =
                client.list(&path, &[("kind", "rm")], MAX_MANAGERS).await?;
            standing.managers += children.len();
            if place.parent.is_none() {
                standing.agents = children.iter().map(|child| u64::from(child.agents)).sum();
            }
        }
        Ok(standing)
    }

    /// Whether every manager and every agent is known up to the root.
    pub fn is_whole(&self, standing: TreeState) -> bool {
        standing.managers + 1 >= self.places.len() && standing.agents >= self.size() as u64
    }

    /// Managers that have ended although nobody told them to; each is told once.
    pub fn lost(&mut self) -> Vec<String> {
        let ended = |(place, manager): (&ManagerPlace, &mut Manager)| match manager {
            Manager::Apart(process) => process.ended().map(|status| format!("{}: {status}", place.name)),
            Manager::Here(_) => None,
        };
        self.places.iter().zip(&mut self.managers).filter_map(ended).collect()
    }

    /// Ends the agents, then the managers from the leaves up. Nothing is left behind.
    pub async fn stop(self) -> Result<Vec<FleetBelow>, Failure> {
        for agents in &self.agents {
            agents.stop.cancel();
        }
        let mut below = Vec::new();
        for agents in self.agents {
            below.push(agents.end().await);
        }
        let (mut managers, mut stopped) = (self.managers, Ok(()));
        let deepest = self.places.last().map_or(0, |place| place.level);
        for level in (0..=deepest).rev() {
            let above = self.places.iter().filter(|place| place.level < level).count();
            let stopping = managers.split_off(above.min(managers.len())).into_iter().map(Manager::stop);
            let ended: Vec<_> = stream::iter(stopping).buffered(AT_ONCE).collect().await;
            stopped = ended.into_iter().fold(stopped, Result::and);
        }
        // What is left of it in a temporary folder harms nobody.
        let _ = self.folder.close();
        stopped?;
        below.into_iter().collect()
    }
}

impl Manager {
    fn url(&self) -> String {
        match self {
            Self::Here(manager) => format!("http://{}", manager.address),
            Self::Apart(process) => process.url.clone(),
        }
    }

    async fn stop(self) -> Result<(), Failure> {
        match self {
            Self::Here(manager) => Ok(manager.stop().await?),
            Self::Apart(process) => {
                process.stop().await;
                Ok(())
            }
        }
    }
}

impl Agents {
    fn start(manager: String, config: FleetConfig) -> Self {
        let (told, progress) = watch::channel(Progress { agents: config.agents, ..Progress::default() });
        let stop = CancellationToken::new();
        let running = tokio::spawn(simulated_children::run(config, stop.clone(), move |progress| {
            told.send_replace(progress.clone());
        }));
        Self { manager, progress, stop, running }
    }

    async fn end(self) -> Result<FleetBelow, Failure> {
        let report =
            self.running.await.map_err(|error| Failure::ours(format!("the agents died: {error}")))?;
        let report = report.map_err(|error| Failure::user(error.to_string()))?;
        Ok(FleetBelow { manager: self.manager, report })
    }
}
