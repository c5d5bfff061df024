//! What an operator sets of an agent. `config/agent.yml` tells what each key means, and its default; what checks texts and makes these
//! values of them is the program's.

mod router;

use std::{collections::BTreeMap, ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

pub use self::router::{
    CommandLine, FrontSettings, OnDrift, Ports, RouterKind, RouterOptions, RouterSettings, aws_alb, custom,
    haproxy, nginx, traefik,
};
use crate::{
    events,
    runtime::{Health, Limits, WarmUp, process::cgroup::Cgroups, tinyfaas, wasm},
};

/// Everything that is set of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The version of the program, as it is shown.
    pub program: &'static str,
    pub manager: Manager,
    /// Shown at the manager; empty: none.
    pub name: String,
    /// Where it is, as GeoJSON of a Polygon or a `MultiPolygon`; empty: not said.
    pub area: String,
    pub labels: BTreeMap<String, String>,
    /// The folder that holds all that has to last: id, key, token, offer, results, content, versions that run. For its owner alone.
    pub state: PathBuf,
    /// The socket on which people ask this agent.
    pub control: PathBuf,
    pub front: FrontSettings,
    pub runtimes: Runtimes,
    /// What this machine offers to workflows; none: nothing of theirs is placed here.
    pub node: Option<NodeSettings>,
    pub versions: Versions,
    /// For how long the old version runs on after a roll-out, so that going back takes no start.
    pub keep_base: Duration,
    /// Where `/metrics` and `/healthz` are served besides the control socket.
    pub metrics: Option<SocketAddr>,
    pub stop: Stop,
}

/// What a machine offers to workflows beside its runtimes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSettings {
    /// Processors, cores of each, their clock in MHz, and bytes of memory; 0: as the machine says.
    pub cpus: u64,
    pub cores: u64,
    pub mhz: u64,
    pub memory: u64,
    /// Functions run in a trusted execution environment.
    pub tee: bool,
    /// There is a trusted platform module.
    pub tpm: bool,
    /// Classes of the resources that are provided.
    pub resources: Vec<String>,
    /// Where events are taken, and what resources may do.
    pub events: events::Settings,
}

/// The manager, and who this agent is to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manager {
    /// With its scheme and without a slash at the end: `http://127.0.0.1:9991`.
    pub url: String,
    /// A file with what lets this agent in the first time.
    pub join_token_file: Option<PathBuf>,
    /// A file with the token that this agent shows.
    pub token_file: Option<PathBuf>,
    /// PEM of the authorities that the manager's certificate may be of, instead of those of the public.
    pub ca: Option<PathBuf>,
    /// PEM of this agent's own certificate and key; both or neither.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// The proxy beside this agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySettings {
    /// Its control socket.
    pub control: PathBuf,
    /// How it is started where nobody answers there; `None`: it is somebody else's business.
    pub start: Option<StartProxy>,
    /// How calls come to it that are made to ports of other programs; `None`: they don't, and never did.
    pub takeover: Option<TakeoverSettings>,
}

/// How calls to others' ports are taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeoverSettings {
    /// By sockets that the other programs have as well, or beside theirs. Otherwise what was taken over so is given back.
    pub sockets: bool,
    /// By rules of nftables. Otherwise what was taken over so is given back.
    pub nftables: bool,
    /// The program that puts them in force.
    pub program: PathBuf,
    /// The first and the last port at which the proxy listens for such calls.
    pub ports: (u16, u16),
    /// The file that says what is taken over.
    pub file: PathBuf,
}

/// A command that starts a proxy, which stays when this agent ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartProxy {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Its folder: what it writes to stderr goes to `proxy.log` there.
    pub state: PathBuf,
}

/// What runs versions here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtimes {
    /// Names of runtimes that are used, in order of preference; [`crate::runtime::NAMES`] are all. What is set of others is not used.
    pub enabled: Vec<String>,
    /// The first and the last port for functions that listen on one.
    pub ports: (u16, u16),
    /// What holds processes and containers to their limits.
    pub cgroups: Cgroups,
    pub tinyfaas: tinyfaas::Settings,
    pub webhook: WebhookSettings,
    pub oci: OciSettings,
    pub wasm: wasm::form::Bounds,
}

impl Default for Runtimes {
    fn default() -> Self {
        Self {
            enabled: vec!["process".to_owned()],
            ports: (20_000, 29_999),
            cgroups: Cgroups::Auto,
            tinyfaas: tinyfaas::Settings::here(),
            webhook: WebhookSettings {
                url: String::new(),
                secret_file: None,
                agent: String::new(),
                sends_content: true,
                runners: Vec::new(),
                time_limit: Duration::from_secs(30),
            },
            oci: OciSettings {
                program: String::new(),
                podman_runtime: String::new(),
                rootfs: None,
                image: String::new(),
                binds: Vec::new(),
                ports: (30_000, 32_767),
            },
            wasm: wasm::form::Bounds::default(),
        }
    }
}

/// The runtime `webhook`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Who is called; it has to be set.
    pub url: String,
    /// A file with what signs calls, in its first line; it has to be set.
    pub secret_file: Option<PathBuf>,
    /// What this agent is called there; empty: as at its manager.
    pub agent: String,
    /// Whether the content of a version goes along.
    pub sends_content: bool,
    /// The forms of functions that are run there; one has to be named.
    pub runners: Vec<String>,
    /// How long one call may take.
    pub time_limit: Duration,
}

/// The runtime `oci`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciSettings {
    /// `runc`, `podman` or the path of one of them, which its name tells; empty: `podman` where there is no root file system, else
    /// `runc`, and `podman` where there is none.
    pub program: String,
    /// What `podman` starts containers with, as its `--runtime`; empty: what it chooses.
    pub podman_runtime: String,
    /// The unpacked root file system of all containers.
    pub rootfs: Option<PathBuf>,
    /// In its place, an image that `podman` has; with neither of them it runs versions that are images.
    pub image: String,
    /// Folders of this machine that containers see in the same places, read-only.
    pub binds: Vec<PathBuf>,
    /// The first and the last port for versions in containers, none of which the runtime `process` has too.
    pub ports: (u16, u16),
}

/// What holds for versions of which nothing else is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    pub limits: Limits,
    pub health: Health,
    pub warm_up: Option<WarmUp>,
    /// How long a version that gets no more calls may take to finish those that it has.
    pub drain: Duration,
    /// How long a version that is to end may take until it is killed.
    pub grace: Duration,
}

/// What the end of the agent means for the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stop {
    /// Proxy and versions go on by the last table.
    #[default]
    Leave,
    /// The proxy takes nothing more and ends when what it has has ended; then the versions are stopped.
    Drain,
}
