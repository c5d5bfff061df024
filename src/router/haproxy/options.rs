//! What an operator sets of an `HAProxy`.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    Haproxy, Limits, Reload, Settings,
    config::{Folder, Frame},
};
use crate::setup::{CommandLine, Fault, OpenError, OpenRouter, absolute, log_path, measure_at, somewhere};

/// An `HAProxy`; what an operator sets up for it stands in [`super`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub program: PathBuf,
    /// The operator's own files.
    pub config: Vec<PathBuf>,
    /// Of our file and its maps.
    pub folder: PathBuf,
    /// Where services take calls.
    pub addresses: Vec<IpAddr>,
    /// What callers of HTTPS are shown: a file, or a folder of files.
    pub certificate: Option<PathBuf>,
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

impl Default for Options {
    /// As Debian's package has it.
    fn default() -> Self {
        Self {
            program: "/usr/sbin/haproxy".into(),
            config: vec!["/etc/haproxy/haproxy.cfg".into()],
            folder: "/etc/haproxy/choirmaster".into(),
            addresses: vec![Ipv4Addr::UNSPECIFIED.into()],
            certificate: None,
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

impl Options {
    /// As whoever leads it takes it.
    ///
    /// # Errors
    ///
    /// The first setting that can't be used.
    pub fn read(&self) -> Result<Settings, Fault> {
        absolute("haproxy.pid", &self.pid)?;
        absolute("haproxy.socket", &self.socket)?;
        self.config.iter().try_for_each(|path| absolute("haproxy.config", path))?;
        self.master_socket.iter().try_for_each(|path| absolute("haproxy.master_socket", path))?;
        somewhere("haproxy.addresses", &self.addresses)?;
        let folder = Folder::new(&self.folder);
        let certificate = self.certificate.as_deref().map(Folder::new).transpose();
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
        Ok(Settings {
            program: self.program.clone(),
            config: self.config.clone(),
            frame: Frame {
                folder: folder.map_err(|error| ("haproxy.folder", error.to_string()))?,
                addresses: self.addresses.clone(),
                certificate: certificate.map_err(|error| ("haproxy.certificate", error.to_string()))?,
                log,
                hard_stop_after: (!self.hard_stop_after.is_zero()).then_some(self.hard_stop_after),
            },
            socket: self.socket.clone(),
            master_socket: self.master_socket.clone(),
            pid: self.pid.clone(),
            reload: match &*self.reload.0 {
                [] => Reload::Signal,
                words => Reload::Command(words.to_vec()),
            },
            limits: Limits::default(),
        })
    }

    pub(crate) fn open(&self) -> Result<OpenRouter, OpenError> {
        let measure = measure_at(("haproxy.lines", self.lines.as_deref()), ("haproxy.user", &self.user))?;
        let router = Haproxy::open(self.read()?)?;
        let router = match &measure {
            Some(measure) => router.measured(Arc::clone(measure)),
            None => router,
        };
        Ok(OpenRouter { router: Arc::new(router), measure })
    }
}
