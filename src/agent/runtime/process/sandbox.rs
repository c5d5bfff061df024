//! What versions run in that are no mere processes of the machine: a container or a host for each.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    path::{Path, PathBuf},
};

use super::super::{Order, error::Fault};

/// What starts versions each in a sandbox of its own, which a shim watches like any process.
pub(in super::super) trait Sandbox: Debug + Send + Sync {
    /// What the runtime is called whose versions run so.
    fn runtime(&self) -> &'static str;

    /// The forms that run in it.
    fn forms(&self) -> Vec<&'static str>;

    /// Where these run, as a sentence ends.
    fn place(&self) -> &'static str;

    /// Whether control groups of all kinds have to be the run's, because what is killed leaves them.
    fn leaves_groups(&self) -> bool {
        false
    }

    /// Whether the image that a version names is on this machine. Blocks meanwhile.
    fn check_image(&self, _content: &Path) -> Result<(), Fault> {
        Ok(())
    }

    fn start_options(&self, version: &SandboxedVersion) -> Result<StartOptions, Fault>;
}

/// A version that is to be in a sandbox. Folders are those of this machine.
#[derive(Debug)]
pub(in super::super) struct SandboxedVersion<'a> {
    pub order: &'a Order,
    /// The folder of its run, and what is in it: its content, what is its `/tmp`, and the socket where it listens if it is of a form that
    /// needs no port.
    pub folder: &'a Path,
    pub content: PathBuf,
    pub scratch: PathBuf,
    pub socket: PathBuf,
    /// Where the content is as long as the run has no name.
    pub made: PathBuf,
    pub mark: &'a str,
    /// Whether it names an image.
    pub is_image: bool,
    /// What a process would find, of the order and of this machine.
    pub environment: &'a BTreeMap<String, String>,
}

/// How a sandbox is started.
#[derive(Debug)]
pub(in super::super) struct StartOptions {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// What takes away what is left of it, however it ended; empty where nothing is.
    pub removal: Vec<String>,
    /// What both find in their environment besides what all have.
    pub environment: BTreeMap<String, String>,
    /// A file of the run's folder that they read.
    pub file: (&'static str, Vec<u8>),
}
