//! Versions in containers, where `runc` or `podman` is installed: as the runtime `process` runs them, with the same shim, content, log,
//! checks and limits, and so found again the same way, but each in a container of its own.
//!
//! A version is a folder with a program `run`, as for the runtime `process`; what else it finds is the base ([`Base`]) that the
//! operator names: a root file system that lies on this machine unpacked, or with `podman` an image. Or, with `podman`, it is a folder
//! with a file `image`, which names an image by its digest: that runs as it is, and listens at `$HOST:$PORT`. Nothing is fetched.
//!
//! What a container is:
//!
//! - processes, mounts, hostname and System V IPC of its own; the network is the machine's, and the program listens at
//!   `$HOST:$PORT`, which is an address of this machine alone;
//! - the base is read-only; `/function` is the copy of the version's folder and `/tmp` is its own, which both count as its room;
//! - it is root (an image by itself: whom it names), without any capability, can't get further ones, and sees no devices but those
//!   that every container has;
//! - its program is process 1: it has to have a handler for SIGTERM, or it is killed after its grace, as in other containers;
//! - what starts it and stays beside it counts as its own, against its limits: some 10 MiB with `runc`, 45 MiB with `podman`.
//!
//! `runc` keeps its state in the run's folder (`runc/`), so that nothing of it is left when that is taken away. `podman` keeps a container
//! in its own storage, under a name that says the run: each start takes away what the one before left there, and so does the end.

mod bundle;
mod podman;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Fault, RuntimeError,
    process::{self, ProcessRuntime, Sandbox},
};

use self::{bundle::Bundle, podman::Podman};

/// The runtime whose versions run in containers.
const NAME: &str = "oci";
/// Where they run, as a sentence ends.
const PLACE: &str = " in a container";
/// Where a container finds its version.
const FUNCTION: &str = "/function";

/// What containers run in, and with what.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder, shim, ports and control groups, as for the runtime `process`. The folder is another one.
    pub process: process::Settings,
    pub program: Program,
    /// `None`: there are no versions but images, which only `podman` has.
    pub base: Option<Base>,
}

/// What starts containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    Runc(PathBuf),
    /// With what `podman` starts them itself, as its `--runtime`; `None`: what it chooses.
    Podman(PathBuf, Option<String>),
}

/// What a container sees besides the version, and can't change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub root: Root,
    /// Folders of this machine that are seen in the same places.
    pub binds: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// A root file system, unpacked: of `debootstrap`, or of an image that was exported. It has the folders `/proc`, `/dev`, `/tmp`
    /// and `/function`, or they can be made in it.
    Folder(PathBuf),
    /// An image that `podman` has on this machine.
    Image(String),
}

/// Runs versions in containers. Takes the folder, and makes it where there is none; blocks while `podman` is asked.
pub fn open(settings: Settings) -> Result<ProcessRuntime, RuntimeError> {
    let Settings { process, program, base } = settings;
    ProcessRuntime::open_in(process, Some(sandbox(program, base)?))
}

/// Blocks where it asks `podman`.
fn sandbox(program: Program, base: Option<Base>) -> Result<Arc<dyn Sandbox>, Fault> {
    let is_folder = |path: &Path| {
        let about = path.metadata().map_err(Fault::io(format!("looking at {}", path.display())))?;
        let no_folder = || io::Error::from(io::ErrorKind::NotADirectory);
        about.is_dir().then_some(()).ok_or_else(no_folder).map_err(Fault::io(path.display().to_string()))
    };
    let mut base = base;
    if let Some(Base { root, binds }) = &mut base {
        binds.iter().try_for_each(|bind| is_folder(bind))?;
        if let Root::Folder(rootfs) = root {
            is_folder(rootfs)?;
            *rootfs = rootfs.canonicalize().map_err(Fault::io(rootfs.display().to_string()))?;
        }
    }
    Ok(match program {
        Program::Runc(runc) => match base {
            Some(Base { root: Root::Folder(rootfs), binds }) => Arc::new(Bundle { runc, rootfs, binds }),
            Some(Base { root: Root::Image(_), .. }) | None => {
                let why = "runc needs a root file system in a folder".to_owned();
                return Err(Fault::Refused { by: runc.display().to_string(), why });
            }
        },
        Program::Podman(program, runtime) => Arc::new(Podman::open(program, runtime.as_deref(), base)?),
    })
}
