//! Versions in containers, where `runc` is installed: as the runtime `process` runs them, with the same shim, content, log, checks
//! and limits, and so found again the same way, but each in a container of its own.
//!
//! A version is a folder with a program `run`, as for the runtime `process`; what else it finds is the base ([`Base`]) that the
//! operator names: a root file system that lies on this machine unpacked. Nothing is fetched.
//!
//! What a container is:
//!
//! - processes, mounts, hostname and System V IPC of its own; the network is the machine's, and the program listens at
//!   `$HOST:$PORT`, which is an address of this machine alone;
//! - the base is read-only; `/function` is the copy of the version's folder and `/tmp` is its own, which both count as its room;
//! - it is root, without any capability, can't get further ones, and sees no devices but those that every container has;
//! - its program is process 1: it has to have a handler for SIGTERM, or it is killed after its grace, as in other containers.
//!
//! The container's state lies in the run's folder (`runc/`), so that nothing of it is left when that is taken away.

mod bundle;

use std::{
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Answer, Fault, Order, Running, Runtime, RuntimeError, VersionId,
    process::{self, ProcessRuntime},
};

pub(super) use self::bundle::Container;

/// What containers run in, and with what.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder, shim, ports and control groups, as for the runtime `process`. The folder is another one.
    pub process: process::Settings,
    /// The program `runc`.
    pub runc: PathBuf,
    pub base: Base,
}

/// What a container sees besides the version, and can't change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// A root file system, unpacked: of `debootstrap`, or of an image that was exported. It has the folders `/proc`, `/dev`, `/tmp`
    /// and `/function`, or they can be made in it.
    pub rootfs: PathBuf,
    /// Folders of this machine that are seen in the same places.
    pub binds: Vec<PathBuf>,
}

impl Settings {
    /// With the `runc` that is found on the path; `None` where there is none.
    #[must_use]
    pub fn find(process: process::Settings, base: Base) -> Option<Self> {
        let is_program = |file: &PathBuf| {
            file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
        };
        let path = std::env::var_os("PATH")?;
        let runc = std::env::split_paths(&path).map(|folder| folder.join("runc")).find(is_program)?;
        Some(Self { process, runc, base })
    }
}

/// Runs versions in containers.
#[derive(Debug)]
pub struct OciRuntime(ProcessRuntime);

impl OciRuntime {
    /// Takes the folder, and makes it where there is none.
    pub fn open(settings: Settings) -> Result<Self, RuntimeError> {
        let Settings { process, runc, base } = settings;
        let is_folder = |path: &Path| {
            let about = path.metadata().map_err(Fault::io(format!("looking at {}", path.display())))?;
            let no_folder = || io::Error::from(io::ErrorKind::NotADirectory);
            about.is_dir().then_some(()).ok_or_else(no_folder).map_err(Fault::io(path.display().to_string()))
        };
        is_folder(&base.rootfs)?;
        base.binds.iter().try_for_each(|bind| is_folder(bind))?;
        let rootfs = base.rootfs.canonicalize().map_err(Fault::io(base.rootfs.display().to_string()))?;
        let container = Container { runc, base: Base { rootfs, ..base } };
        Ok(Self(ProcessRuntime::open_in(process, Some(container))?))
    }

    /// What holds versions to their limits that are started now.
    #[must_use]
    pub fn limited_by(&self) -> process::cgroup::CgroupKind {
        self.0.limited_by()
    }
}

impl Runtime for OciRuntime {
    fn name(&self) -> &'static str {
        "oci"
    }

    fn runners(&self) -> Vec<&'static str> {
        vec!["program"]
    }

    fn start<'a>(&'a self, order: &'a Order) -> Answer<'a, Running> {
        self.0.start(order)
    }

    fn list(&self) -> Answer<'_, Vec<Running>> {
        self.0.list()
    }

    fn stop<'a>(&'a self, version: &'a VersionId, grace: Duration) -> Answer<'a, ()> {
        self.0.stop(version, grace)
    }

    fn log<'a>(&'a self, version: &'a VersionId, at_most: usize) -> Answer<'a, Option<Vec<u8>>> {
        self.0.log(version, at_most)
    }
}
