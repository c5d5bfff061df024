//! What an operator sets of an agent: defaults, under `config/agent.yml`, under `CHOIRMASTER_AGENT_*` variables, under flags.
//!
//! `config/agent.yml` lists every key with its default, which a test compares.

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use agent::{
    events,
    runtime::{Health, Limits, WarmUp},
    settings::{
        FrontSettings, Manager, NodeSettings, ProxySettings, Runtimes, StartProxy, Stop, TakeoverSettings,
        Versions,
    },
};
use model::{area, public_url::check_node};
use protocol::{
    child::{MAX_CHILD_NAME_BYTES, MAX_LABEL_BYTES, MAX_LABELS},
    placements::RESOURCES,
};

use super::{place::Place, router::RouterKeys, runtimes};
use crate::cli::{
    proxy::settings::{DEFAULT_CONTROL as PROXY_CONTROL, DEFAULT_NFT, Settings as ProxyDefaults},
    settings::{
        Configured, check_level,
        value::{Parsed, SettingTarget},
    },
};

pub const DEFAULT_CONTROL: &str = "data/agent.sock";

const DEFAULT_MANAGER: &str = "http://127.0.0.1:9991";

/// The most calls that warm a version up.
const MAX_WARM_UP: u64 = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// As the agent takes it, but for what follows.
    pub agent: agent::Settings,
    /// The proxy beside it, where it leads no router of somebody else's.
    pub proxy: ProxySettings,
    pub router: RouterKeys,
    /// Whether functions of workflows may be placed on this machine, and what it has.
    pub takes_placements: bool,
    pub node: NodeSettings,
    pub area_file: Option<PathBuf>,
    pub at: Option<Place>,
    pub start_proxy: bool,
    pub proxy_state: PathBuf,
    /// None: what the proxy's own configuration says.
    pub proxy_listen: Vec<SocketAddr>,
    /// Its file is in the agent's folder.
    pub takeover: TakeoverSettings,
    /// Empty: a connection suffices.
    pub health_path: String,
    /// 0 calls: none.
    pub warm_up: WarmUp,
    pub log_level: String,
    pub log_json: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let manager = Manager {
            url: DEFAULT_MANAGER.to_owned(),
            join_token_file: None,
            token_file: None,
            ca: None,
            certificate: None,
            key: None,
        };
        let versions = Versions {
            limits: Limits::default(),
            health: Health::default(),
            warm_up: None,
            drain: Duration::from_mins(5),
            grace: Duration::from_secs(10),
        };
        let proxy = ProxySettings { control: PROXY_CONTROL.into(), start: None, takeover: None };
        let takeover = TakeoverSettings {
            sockets: false,
            nftables: false,
            program: DEFAULT_NFT.into(),
            ports: (19_000, 19_999),
            file: PathBuf::new(),
        };
        Self {
            agent: agent::Settings {
                program: env!("CARGO_PKG_VERSION"),
                manager,
                name: String::new(),
                area: String::new(),
                labels: std::collections::BTreeMap::new(),
                state: "data/agent".into(),
                control: DEFAULT_CONTROL.into(),
                front: FrontSettings::Proxy(proxy.clone()),
                runtimes: Runtimes::default(),
                node: None,
                versions,
                keep_base: Duration::from_mins(10),
                metrics: None,
                stop: Stop::Leave,
            },
            proxy,
            router: RouterKeys::default(),
            takes_placements: false,
            node: NodeSettings::default(),
            area_file: None,
            at: None,
            start_proxy: true,
            proxy_state: ProxyDefaults::default().state,
            proxy_listen: Vec::new(),
            takeover,
            health_path: String::new(),
            warm_up: WarmUp { calls: 0, ..WarmUp::default() },
            log_level: "info".to_owned(),
            log_json: false,
        }
    }
}

impl Settings {
    /// The defaults of an agent within its manager: all that it keeps has its name, in a folder of the manager's data.
    pub fn within(name: &str, folder: &Path) -> Self {
        let mut settings = Self::default();
        name.clone_into(&mut settings.agent.name);
        settings.agent.state = folder.join(name);
        settings.agent.control = folder.join(format!("{name}.sock"));
        settings.proxy.control = folder.join(format!("{name}-proxy.sock"));
        settings.proxy_state = folder.join(format!("{name}-proxy"));
        settings
    }

    /// What the agent is given. `program` is what a proxy is started with.
    pub fn into_agent(self, program: PathBuf) -> agent::Settings {
        let mut agent = self.agent;
        let mut proxy = self.proxy;
        let takeover = TakeoverSettings { file: agent.state.join("takeover.json"), ..self.takeover };
        if self.start_proxy {
            let listen = self.proxy_listen.iter().flat_map(|at| ["--listen".into(), at.to_string().into()]);
            let mut arguments = vec!["proxy".into(), "--own-session".into()];
            arguments.extend(["--control".into(), proxy.control.clone().into_os_string()]);
            arguments.extend(["--state".into(), self.proxy_state.clone().into_os_string()]);
            arguments.extend(listen);
            if takeover.sockets {
                arguments.extend(["--set".into(), "takeover.sockets=true".into()]);
            }
            if takeover.nftables {
                let mut program = OsString::from("takeover.program=");
                program.push(&takeover.program);
                arguments.extend(["--set".into(), "takeover.nftables=true".into(), "--set".into(), program]);
            }
            proxy.start = Some(StartProxy { program, arguments, state: self.proxy_state });
        }
        proxy.takeover = Some(takeover);
        agent.front = match self.router.into_router() {
            Some(router) => FrontSettings::Router(Box::new(router)),
            None => FrontSettings::Proxy(proxy),
        };
        agent.node = self.takes_placements.then_some(self.node);
        agent.versions.health.path = (!self.health_path.is_empty()).then_some(self.health_path);
        agent.versions.warm_up = (self.warm_up.calls > 0).then_some(self.warm_up);
        agent
    }

    fn check_manager(&mut self, faults: &mut Vec<String>) {
        let manager = &mut self.agent.manager;
        match reqwest::Url::parse(&manager.url) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
                let is_secret = !url.username().is_empty() || url.password().is_some();
                if is_secret {
                    faults.push(
                        "manager.url: it holds a name or a password: put the token into a file".to_owned(),
                    );
                }
                if manager.certificate.is_some() && url.scheme() == "http" {
                    faults.push("manager.certificate: is shown over https alone".to_owned());
                }
                manager.url.truncate(manager.url.trim_end_matches('/').len());
            }
            // It may hold a secret, and is not repeated.
            Ok(_) | Err(_) => {
                faults.push("manager.url: an address looks like http://127.0.0.1:9991".to_owned());
            }
        }
        if manager.certificate.is_some() != manager.key.is_some() {
            faults.push("manager.certificate: goes with manager.key: set both or neither".to_owned());
        }
    }

    /// Reads where it is.
    fn check_area(&mut self, faults: &mut Vec<String>) {
        match (&self.area_file, self.at) {
            (Some(_), Some(_)) => {
                faults.push("agent.at: and agent.area_file both say where it is: keep one".to_owned());
            }
            (None, Some(place)) => self.agent.area = place.area(),
            (Some(file), None) => {
                let read = std::fs::read_to_string(file)
                    .map_err(|error| format!("can't be read: {error}"))
                    .and_then(|text| area::read_file(&text).map_err(|error| error.to_string()));
                match read {
                    Ok(area) => self.agent.area = area,
                    Err(why) => faults.push(format!("agent.area_file: {}: {why}", file.display())),
                }
            }
            (None, None) => {}
        }
    }

    fn check_names(&self, faults: &mut Vec<String>) {
        let agent = &self.agent;
        if agent.name.len() > MAX_CHILD_NAME_BYTES {
            faults.push(format!("agent.name: it has more than {MAX_CHILD_NAME_BYTES} bytes"));
        }
        if agent.labels.len() > MAX_LABELS {
            faults.push(format!("agent.labels: there are more than {MAX_LABELS}"));
        }
        let mut texts = agent.labels.iter().flat_map(|(key, value)| [key, value]);
        if let Some(long) = texts.find(|text| text.len() > MAX_LABEL_BYTES) {
            faults.push(format!("agent.labels: {long:?} has more than {MAX_LABEL_BYTES} bytes"));
        }
    }
}

impl Settings {
    fn check_resources(&self, faults: &mut Vec<String>) {
        if !self.router.runs_functions() {
            faults.push("node.placements: an agent that leads a router runs no functions".to_owned());
        }
        if (1..1 << 20).contains(&self.node.memory) {
            faults
                .push("node.memory: it is at least 1MiB, as in 512MiB, or 0: as the machine says".to_owned());
        }
        let events = &self.node.events;
        if events.listen.is_some_and(|at| at.ip().is_unspecified()) && events.url.is_empty() {
            faults.push(
                "node.events_url: it says how other nodes reach node.events_listen, which is no address of one \
                 machine"
                    .to_owned(),
            );
        }
        if let Some(why) = Some(&events.url).filter(|url| !url.is_empty()).map(|url| check_node(url))
            && let Err(why) = why
        {
            faults.push(format!("node.events_url {why}"));
        }
        let unknown = self.node.resources.iter().filter(|class| !RESOURCES.contains(&class.as_str()));
        let known = RESOURCES.join(", ");
        faults
            .extend(unknown.map(|class| format!("node.resources: there is no {class:?}; there are {known}")));
    }
}

impl Configured for Settings {
    const OF: &'static str = "agent";
    const FILE: &'static str = "config/agent.yml";
    const PREFIX: &'static str = "CHOIRMASTER_AGENT_";

    fn check(&mut self, faults: &mut Vec<String>) {
        check_level(&self.log_level, faults);
        self.check_manager(faults);
        self.check_area(faults);
        self.check_names(faults);
        self.router.check(faults);
        if self.takes_placements {
            self.check_resources(faults);
        }
        if self.router.runs_functions() {
            runtimes::check(&self.agent.runtimes, &self.agent.name, faults);
        } else {
            let set = [("sockets", self.takeover.sockets), ("nftables", self.takeover.nftables)].into_iter();
            faults.extend(set.filter(|(_, is_set)| *is_set).map(|(way, _)| {
                format!(
                    "takeover.{way}: calls come to the proxy, and another router is led: leave it out, or router.kind"
                )
            }));
        }
        for (key, path) in [("health.path", &self.health_path), ("warm_up.path", &self.warm_up.path)] {
            if !path.is_empty() && !path.starts_with('/') {
                faults.push(format!("{key}: {path:?} does not begin with a slash"));
            }
        }
        let is_method =
            |method: &str| !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
        if !is_method(&self.warm_up.method) {
            faults.push(format!("warm_up.method: {:?} is no method, as in GET", self.warm_up.method));
        }
    }

    fn keys(&mut self) -> Vec<(&'static str, SettingTarget<'_>)> {
        const SECOND: Duration = Duration::from_secs(1);
        const DAY: Duration = Duration::from_hours(24);
        const TIMES: (Duration, Duration) = (Duration::from_millis(10), DAY);
        const TEBIBYTE: u64 = 1 << 40;
        let agent = &mut self.agent;
        let Manager { url, join_token_file, token_file, ca, certificate, key } = &mut agent.manager;
        let Versions { limits, health, warm_up: _, drain, grace } = &mut agent.versions;
        let Limits { memory, processes, files, room, log, cpu } = limits;
        let Health { path: _, interval, timeout, healthy_after, give_up } = health;
        let warm_up = &mut self.warm_up;
        let mut keys = vec![
            ("agent.name", SettingTarget::Parsed(&mut agent.name)),
            ("agent.at", SettingTarget::Parsed(&mut self.at)),
            ("agent.area_file", SettingTarget::Parsed(&mut self.area_file)),
            ("agent.labels", SettingTarget::Parsed(&mut agent.labels)),
            ("agent.state", SettingTarget::Parsed(&mut agent.state)),
            ("agent.control", SettingTarget::Parsed(&mut agent.control)),
            ("agent.keep_base", SettingTarget::Time(&mut agent.keep_base, (Duration::ZERO, 365 * DAY))),
            ("agent.stop", SettingTarget::Parsed(&mut agent.stop)),
            ("agent.metrics", SettingTarget::Parsed(&mut agent.metrics)),
            ("manager.url", SettingTarget::Parsed(url)),
            ("manager.join_token_file", SettingTarget::Parsed(join_token_file)),
            ("manager.token_file", SettingTarget::Parsed(token_file)),
            ("manager.ca", SettingTarget::Parsed(ca)),
            ("manager.certificate", SettingTarget::Parsed(certificate)),
            ("manager.key", SettingTarget::Parsed(key)),
            ("proxy.control", SettingTarget::Parsed(&mut self.proxy.control)),
            ("proxy.start", SettingTarget::Parsed(&mut self.start_proxy)),
            ("proxy.listen", SettingTarget::Parsed(&mut self.proxy_listen)),
            ("proxy.state", SettingTarget::Parsed(&mut self.proxy_state)),
            ("takeover.sockets", SettingTarget::Parsed(&mut self.takeover.sockets)),
            ("takeover.nftables", SettingTarget::Parsed(&mut self.takeover.nftables)),
            ("takeover.program", SettingTarget::Parsed(&mut self.takeover.program)),
            ("takeover.ports", SettingTarget::Parsed(&mut self.takeover.ports)),
        ];
        keys.extend(self.router.keys());
        keys.extend(runtimes::keys(&mut agent.runtimes));
        let NodeSettings { cpus, cores, mhz, memory: node_memory, tee, tpm, resources, events } =
            &mut self.node;
        let events::Settings { listen, url: events_url, logs, egress_hosts } = events;
        keys.extend([
            ("node.placements", SettingTarget::Parsed(&mut self.takes_placements)),
            ("node.cpus", SettingTarget::Number(cpus, (0, 10_000))),
            ("node.cores", SettingTarget::Number(cores, (0, 10_000))),
            ("node.mhz", SettingTarget::Number(mhz, (0, 1_000_000))),
            ("node.memory", SettingTarget::Size(node_memory, (0, 1_024 * TEBIBYTE))),
            ("node.tee", SettingTarget::Parsed(tee)),
            ("node.tpm", SettingTarget::Parsed(tpm)),
            ("node.resources", SettingTarget::Parsed(resources)),
            ("node.events_listen", SettingTarget::Parsed(listen)),
            ("node.events_url", SettingTarget::Parsed(events_url)),
            ("node.logs", SettingTarget::Parsed(logs)),
            ("node.egress_hosts", SettingTarget::Parsed(egress_hosts)),
        ]);
        keys.extend([
            ("versions.drain", SettingTarget::Time(drain, (Duration::ZERO, 30 * DAY))),
            ("versions.grace", SettingTarget::Time(grace, (Duration::ZERO, DAY))),
            ("limits.memory", SettingTarget::Size(memory, (1 << 20, TEBIBYTE))),
            ("limits.processes", SettingTarget::Number(processes, (1, 1_000_000))),
            ("limits.files", SettingTarget::Number(files, (16, 1_000_000))),
            ("limits.room", SettingTarget::Size(room, (4_096, TEBIBYTE))),
            ("limits.log", SettingTarget::Size(log, (4_096, 1 << 30))),
            ("limits.cpu", SettingTarget::Parsed(cpu)),
            ("health.path", SettingTarget::Parsed(&mut self.health_path)),
            ("health.interval", SettingTarget::Time(interval, TIMES)),
            ("health.timeout", SettingTarget::Time(timeout, TIMES)),
            ("health.healthy_after", SettingTarget::Number(healthy_after, (1, 1_000))),
            ("health.give_up", SettingTarget::Time(give_up, (SECOND, DAY))),
            ("warm_up.calls", SettingTarget::Number(&mut warm_up.calls, (0, MAX_WARM_UP))),
            ("warm_up.method", SettingTarget::Parsed(&mut warm_up.method)),
            ("warm_up.path", SettingTarget::Parsed(&mut warm_up.path)),
            ("warm_up.body", SettingTarget::Parsed(&mut warm_up.body)),
            ("warm_up.timeout", SettingTarget::Time(&mut warm_up.timeout, TIMES)),
            ("log.level", SettingTarget::Parsed(&mut self.log_level)),
            ("log.format", SettingTarget::Json(&mut self.log_json)),
        ]);
        keys
    }
}

impl Parsed for Stop {
    fn take(&mut self, text: &str) -> Result<(), String> {
        *self = match text {
            "leave" => Self::Leave,
            "drain" => Self::Drain,
            _ => return Err(format!("{text:?} is neither leave nor drain")),
        };
        Ok(())
    }

    fn text(&self) -> String {
        match self {
            Self::Leave => "leave",
            Self::Drain => "drain",
        }
        .to_owned()
    }
}
