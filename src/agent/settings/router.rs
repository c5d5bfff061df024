//! What is set of a router of somebody else's that the agent leads.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

pub use router::controller::OnDrift;
use router::{haproxy, measure, nginx};
use traffic::{
    haproxy::{Folder, Frame},
    log_line::{LogPath, LogPathError},
    nginx::{Layout, Log},
};

/// Of the users of this machine.
const USERS: &str = "/etc/passwd";

/// What splits the calls beside this agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one for a whole agent")]
pub enum FrontSettings {
    Proxy(super::ProxySettings),
    /// The agent runs no functions then.
    Router(Box<RouterSettings>),
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
    pub time_limit: Duration,
    /// The socket to which it logs a line of each call; none: calls aren't counted.
    pub lines: Option<PathBuf>,
    /// The user that its workers run as, by name or number.
    pub user: String,
    /// It serves nothing beside services of ours, so that its own count of calls tells which lines were lost.
    pub alone: bool,
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
            time_limit: Duration::from_secs(2),
            lines: Some("/run/choirmaster-nginx.sock".into()),
            user: "www-data".to_owned(),
            alone: false,
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
    /// The socket to which it logs a line of each call; none: calls aren't counted.
    pub lines: Option<PathBuf>,
    /// The user that its workers run as, by name or number.
    pub user: String,
    /// The folder that its workers take for the root of all; none: they see all.
    pub chroot: Option<PathBuf>,
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
            lines: Some("/var/lib/haproxy/choirmaster.sock".into()),
            user: "haproxy".to_owned(),
            chroot: Some("/var/lib/haproxy".into()),
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

fn log_path(key: &'static str, path: &Path) -> Result<LogPath, Fault> {
    path.to_string_lossy().parse().map_err(|error: LogPathError| (key, error.to_string()))
}

impl LedKind {
    /// Where lines of calls are received, and from whom; none: calls aren't counted.
    ///
    /// # Errors
    ///
    /// A setting that can't be used, or a user that isn't there.
    pub fn measure(&self) -> Result<Option<measure::Settings>, Fault> {
        let (lines, user, keys) = match self {
            Self::Nginx(nginx) => (&nginx.lines, &nginx.user, ("nginx.lines", "nginx.user")),
            Self::Haproxy(haproxy) => (&haproxy.lines, &haproxy.user, ("haproxy.lines", "haproxy.user")),
        };
        let Some(lines) = lines else { return Ok(None) };
        let sender = user_of(user).map_err(|why| (keys.1, why))?;
        let at = measure::Settings::at(log_path(keys.0, lines)?);
        Ok(Some(measure::Settings { sender: Some(sender), ..at }))
    }
}

/// The number of a user, by the system's file of those.
fn user_of(user: &str) -> Result<u32, String> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string(USERS).map_err(|error| format!("{USERS}: {error}"))?;
    let mut numbers = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    numbers
        .next()
        .ok_or_else(|| format!("there is no user {user:?} here: name the one that its workers run as"))
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
        let mut layout = layout.map_err(|error| ("nginx.folder", error.to_string()))?;
        let socket = self.lines.as_deref().map(|path| log_path("nginx.lines", path)).transpose()?;
        layout.log = socket.map(|socket| Log { socket, is_alone: self.alone });
        Ok(nginx::Settings {
            program: self.program.clone(),
            config: self.config.clone(),
            include: self.include.clone(),
            pid: self.pid.clone(),
            reload: match &*self.reload.0 {
                [] => nginx::Reload::Signal,
                words => nginx::Reload::Command(words.to_vec()),
            },
            layout,
            time_limit: self.time_limit,
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
        let outside = self.lines.as_deref().map(|path| log_path("haproxy.lines", path)).transpose()?;
        let log = match (&self.lines, &self.chroot) {
            (Some(lines), Some(chroot)) => {
                let inside = lines.strip_prefix(chroot).map_err(|_| {
                    (
                        "haproxy.lines",
                        format!(
                            "{} is not in {}, and HAProxy sees nothing else",
                            lines.display(),
                            chroot.display()
                        ),
                    )
                })?;
                Some(log_path("haproxy.lines", &Path::new("/").join(inside))?)
            }
            (Some(_), None) => outside,
            (None, _) => None,
        };
        Ok(haproxy::Settings {
            program: self.program.clone(),
            config: self.config.clone(),
            frame: Frame {
                folder: folder.map_err(|error| ("haproxy.folder", error.to_string()))?,
                addresses: self.addresses.clone(),
                log,
                hard_stop_after: (!self.hard_stop_after.is_zero()).then_some(self.hard_stop_after),
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
