//! What is set of a router of somebody else's that the agent leads.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

pub use router::lead::OnDrift;
use router::{haproxy, nginx};
use traffic::{
    haproxy::{Folder, Frame},
    nginx::Layout,
};

/// What splits the calls beside this agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrontSettings {
    Proxy(super::ProxySettings),
    /// The agent runs no functions then.
    Router(RouterSettings),
}

/// A router of somebody else's, which this agent leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterSettings {
    pub kind: LedKind,
    pub on_drift: OnDrift,
    /// How long callers may take with what they have of a variation that lost its share at the end of a release.
    pub drain: Duration,
    /// The ports that services may have.
    pub ports: Ports,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedKind {
    Nginx(NginxSettings),
    Haproxy(HaproxySettings),
}

/// Ports: from the first to the last of each span. Empty: all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ports(pub Vec<(u16, u16)>);

impl Ports {
    #[must_use]
    pub fn have(&self, port: u16) -> bool {
        self.0.is_empty() || self.0.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }
}

/// A program and what it is called with, without a shell. Empty: none is called, a signal is sent instead.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine(pub Vec<String>);

/// An nginx; what an operator sets up for it stands in [`router::nginx`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NginxSettings {
    pub program: PathBuf,
    /// The main configuration, which has the include.
    pub config: PathBuf,
    /// Our file of it.
    pub include: PathBuf,
    pub pid: PathBuf,
    pub reload: CommandLine,
    /// Of the files of buckets: on a memory file system.
    pub folder: String,
    /// Where our server in it answers.
    pub ask: SocketAddr,
    /// Where services take calls.
    pub addresses: Vec<IpAddr>,
    /// For one answer.
    pub patience: Duration,
}

impl Default for NginxSettings {
    /// As Debian's package has it.
    fn default() -> Self {
        Self {
            program: "nginx".into(),
            config: "/etc/nginx/nginx.conf".into(),
            include: "/etc/nginx/choirmaster.conf".into(),
            pid: "/run/nginx.pid".into(),
            reload: CommandLine::default(),
            folder: "/dev/shm/choirmaster".to_owned(),
            ask: ([127, 0, 0, 1], 8099).into(),
            addresses: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            patience: Duration::from_secs(2),
        }
    }
}

/// An `HAProxy`; what an operator sets up for it stands in [`router::haproxy`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HaproxySettings {
    pub program: PathBuf,
    /// The operator's own files.
    pub config: Vec<PathBuf>,
    /// Of our file and its maps.
    pub folder: PathBuf,
    /// Where services take calls.
    pub addresses: Vec<IpAddr>,
    /// Its runtime socket.
    pub socket: PathBuf,
    pub master_socket: Option<PathBuf>,
    pub pid: PathBuf,
    pub reload: CommandLine,
    /// How long a process that was replaced may go on with connections that it has; zero: as the operator's file says.
    pub hard_stop_after: Duration,
}

impl Default for HaproxySettings {
    /// As Debian's package has it.
    fn default() -> Self {
        Self {
            program: "/usr/sbin/haproxy".into(),
            config: vec!["/etc/haproxy/haproxy.cfg".into()],
            folder: "/etc/haproxy/choirmaster".into(),
            addresses: vec![Ipv4Addr::UNSPECIFIED.into()],
            socket: "/run/haproxy/admin.sock".into(),
            master_socket: Some("/run/haproxy-master.sock".into()),
            pid: "/run/haproxy.pid".into(),
            reload: CommandLine::default(),
            hard_stop_after: Duration::ZERO,
        }
    }
}

/// A setting that can't be used: its key, and why.
pub type Fault = (&'static str, String);

fn absolute(key: &'static str, path: &Path) -> Result<(), Fault> {
    if path.is_absolute() {
        Ok(())
    } else {
        Err((key, format!("{} does not begin with a slash", path.display())))
    }
}

fn somewhere(key: &'static str, addresses: &[IpAddr]) -> Result<(), Fault> {
    if addresses.is_empty() { Err((key, "name at least one, as in 0.0.0.0".to_owned())) } else { Ok(()) }
}

impl NginxSettings {
    /// As whoever leads it takes it.
    ///
    /// # Errors
    ///
    /// The first setting that can't be used.
    pub fn read(&self) -> Result<nginx::Settings, Fault> {
        absolute("nginx.config", &self.config)?;
        absolute("nginx.include", &self.include)?;
        absolute("nginx.pid", &self.pid)?;
        somewhere("nginx.addresses", &self.addresses)?;
        if !self.ask.ip().is_loopback() {
            let text = format!(
                "{} is not at a loopback address: whoever may call it learns which variation a key gets",
                self.ask
            );
            return Err(("nginx.ask", text));
        }
        let layout = Layout::new(&self.folder, self.ask, self.addresses.clone());
        Ok(nginx::Settings {
            program: self.program.clone(),
            config: self.config.clone(),
            include: self.include.clone(),
            pid: self.pid.clone(),
            reload: match &*self.reload.0 {
                [] => nginx::Reload::Signal,
                words => nginx::Reload::Command(words.to_vec()),
            },
            layout: layout.map_err(|error| ("nginx.folder", error.to_string()))?,
            patience: self.patience,
        })
    }
}

impl HaproxySettings {
    /// As whoever leads it takes it.
    ///
    /// # Errors
    ///
    /// The first setting that can't be used.
    pub fn read(&self) -> Result<haproxy::Settings, Fault> {
        absolute("haproxy.pid", &self.pid)?;
        absolute("haproxy.socket", &self.socket)?;
        self.config.iter().try_for_each(|path| absolute("haproxy.config", path))?;
        self.master_socket.iter().try_for_each(|path| absolute("haproxy.master_socket", path))?;
        somewhere("haproxy.addresses", &self.addresses)?;
        let folder = Folder::new(&self.folder);
        Ok(haproxy::Settings {
            program: self.program.clone(),
            config: self.config.clone(),
            frame: Frame {
                folder: folder.map_err(|error| ("haproxy.folder", error.to_string()))?,
                addresses: self.addresses.clone(),
                hard_stop_after: (!self.hard_stop_after.is_zero()).then_some(self.hard_stop_after),
                log: None,
            },
            socket: self.socket.clone(),
            master_socket: self.master_socket.clone(),
            pid: self.pid.clone(),
            reload: match &*self.reload.0 {
                [] => haproxy::Reload::Signal,
                words => haproxy::Reload::Command(words.to_vec()),
            },
            limits: haproxy::Limits::default(),
        })
    }
}
