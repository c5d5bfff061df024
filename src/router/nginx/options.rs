//! What an operator sets of an nginx.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use super::{
    Nginx, Reload, Settings,
    config::{Certificate, Layout, Log},
};
use crate::setup::{CommandLine, Fault, OpenError, OpenRouter, absolute, log_path, measure_at, somewhere};

/// An nginx; what an operator sets up for it stands in [`super`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
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
    /// The same of its stream module, while there are services of TCP or UDP.
    pub ask_stream: SocketAddr,
    /// Where services take calls.
    pub addresses: Vec<IpAddr>,
    /// The certificate and its key, in PEM, that callers of HTTPS are shown; `{host}` in both stands for the host that they name.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// For one answer.
    pub time_limit: Duration,
    /// The socket to which it logs a line of each call; none: calls aren't counted.
    pub lines: Option<PathBuf>,
    /// The user that its workers run as, by name or number.
    pub user: String,
    /// It serves nothing beside services of ours, so that its own count of calls tells which lines were lost.
    pub alone: bool,
}

impl Default for Options {
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
            ask_stream: ([127, 0, 0, 1], 8098).into(),
            addresses: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            certificate: None,
            key: None,
            time_limit: Duration::from_secs(2),
            lines: Some("/run/choirmaster-nginx.sock".into()),
            user: "www-data".to_owned(),
            alone: false,
        }
    }
}

impl Options {
    /// As whoever leads it takes it.
    ///
    /// # Errors
    ///
    /// The first setting that can't be used.
    pub fn read(&self) -> Result<Settings, Fault> {
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
        if !self.ask_stream.ip().is_loopback() {
            let text = format!(
                "{} is not at a loopback address: whoever may call it learns which variation has sessions",
                self.ask_stream
            );
            return Err(("nginx.ask_stream", text));
        }
        if self.ask_stream == self.ask {
            return Err((
                "nginx.ask_stream",
                format!("{} is nginx.ask already: name another port", self.ask),
            ));
        }
        let layout = Layout::new(&self.folder, self.ask, self.addresses.clone());
        let mut layout = layout.map_err(|error| ("nginx.folder", error.to_string()))?;
        let socket = self.lines.as_deref().map(|path| log_path("nginx.lines", path)).transpose()?;
        layout.certificate = match (&self.certificate, &self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                let read = Certificate::new(&certificate.to_string_lossy(), &key.to_string_lossy());
                Some(read.map_err(|error| ("nginx.certificate", error.to_string()))?)
            }
            (Some(_), None) | (None, Some(_)) => {
                return Err(("nginx.certificate", "it takes nginx.key too, and that takes it".to_owned()));
            }
        };
        layout.ask_stream = Some(self.ask_stream);
        layout.log = socket.map(|socket| Log { socket, is_alone: self.alone });
        Ok(Settings {
            program: self.program.clone(),
            config: self.config.clone(),
            include: self.include.clone(),
            pid: self.pid.clone(),
            reload: match &*self.reload.0 {
                [] => Reload::Signal,
                words => Reload::Command(words.to_vec()),
            },
            layout,
            time_limit: self.time_limit,
        })
    }

    pub(crate) fn open(&self) -> Result<OpenRouter, OpenError> {
        let measure = measure_at(("nginx.lines", self.lines.as_deref()), ("nginx.user", &self.user))?;
        let router = Nginx::new(self.read()?);
        let router = match &measure {
            Some(measure) => router.measured(Arc::clone(measure)),
            None => router,
        };
        Ok(OpenRouter { router: Arc::new(router), measure })
    }
}
