use std::{fmt, io, path::PathBuf, time::Duration};

use super::{Exit, VersionId};

/// Why something could not be done with a version.
#[derive(Debug, thiserror::Error)]
#[error("{}{fault}", .version.as_ref().map(|version| format!("version {}: ", version.short())).unwrap_or_default())]
pub struct RuntimeError {
    /// `None` where it concerns the runtime as a whole.
    pub version: Option<VersionId>,
    #[source]
    pub fault: Fault,
}

#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error(
        "{0} holds none of index.js or package.json (nodejs), fn.py (python), fn.sh (binary), run (program), fn.wasm (wasm) and image: name its \
         form, or add the file"
    )]
    NoForm(PathBuf),
    #[error("its folder can be run as {0} and as {1}: name the one that is meant")]
    TwoForms(&'static str, &'static str),
    #[error("{name:?} can't be run on this machine, but {has}{hint}")]
    NoRunner { name: String, has: String, hint: &'static str },
    #[error("the image {0} is not on this machine, and none is fetched: `podman pull {0}` gets it")]
    NoImage(String),
    #[error(
        "its file `image` says {0:?}: it has to name an image by its digest, as in registry.example.org/name@sha256:…, or by its id"
    )]
    ImageName(String),
    #[error("its content needs {needs} bytes, and its limit is {limit}: raise `room`, or ship less")]
    Room { needs: u64, limit: u64 },
    #[error("its content holds {0}, which is neither file, folder nor a link within it")]
    Content(PathBuf),
    #[error("{}", super::unknown(.0))]
    Unknown(String),
    #[error("another version has the same first digits, {0}")]
    Same(VersionId),
    #[error("none of the ports {0} to {1} is free: give the runtime others")]
    NoPort(u16, u16),
    #[error("it ended as soon as it was started ({exit}){log}")]
    DiedAtOnce { exit: Exit, log: Tail },
    #[error("it was not healthy within {} s ({why}) and was stopped{log}", after.as_secs_f64())]
    NeverHealthy { after: Duration, why: String, log: Tail },
    #[error("it was started before and isn't healthy after {} s ({why}); stop it, and start it again{log}", after.as_secs_f64())]
    NotHealthy { after: Duration, why: String, log: Tail },
    #[error("its shim could not be started: {0}")]
    NoShim(String),
    #[error("its shim answers {0:?}, which is nothing that this program knows: it may be of another version")]
    Answer(String),
    #[error("its shim (process {0:?}) does not answer")]
    Silent(Option<u32>),
    #[error(
        "processes {0:?} can't be ended: they wait for a device; end what holds it, and stop the version again"
    )]
    Stuck(Vec<u32>),
    #[error("{0} is used by another agent: give each a folder of its own")]
    Taken(PathBuf),
    #[error("the path {0} is too long for sockets within it: choose a shorter one")]
    LongPath(PathBuf),
    /// What runs versions for the agent said no, or nothing that is an answer.
    #[error("{by}: {why}")]
    Refused { by: String, why: String },
    #[error("setting `{name}`: {why}")]
    Setting { name: &'static str, why: String },
    #[error("{by} was asked, and doesn't do what it answered: {why}")]
    Lied { by: String, why: String },
    #[error("{doing}: {source}")]
    Io { doing: String, source: io::Error },
}

impl Fault {
    /// A client of HTTP, if TLS can be set up here.
    pub(super) fn tls<T>(client: Result<T, String>) -> Result<T, Self> {
        client.map_err(|why| Self::Setting { name: "tls", why })
    }
}

/// The last lines of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail(pub String);

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.trim_end() {
            "" => f.write_str("; it wrote no log"),
            lines => write!(f, "; the end of its log:\n{lines}"),
        }
    }
}

impl Fault {
    pub(crate) fn of(self, version: &VersionId) -> RuntimeError {
        RuntimeError { version: Some(version.clone()), fault: self }
    }

    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

impl From<Fault> for RuntimeError {
    fn from(fault: Fault) -> Self {
        Self { version: None, fault }
    }
}
