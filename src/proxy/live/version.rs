use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

use super::places::Places;

/// Where a version listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no target: write an address with a port (127.0.0.1:9000), or unix: and a path")]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => Err(TargetError(text.to_owned())),
            None => text.parse().map(Self::Tcp).map_err(|_| TargetError(text.to_owned())),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A version of a service that runs somewhere. It is shared by the table that names it, the threads and the calls in flight;
/// when nobody holds it any more it is drained.
#[derive(Debug)]
pub struct Version {
    name: Box<str>,
    digest: Box<str>,
    targets: Box<[Target]>,
    places: Places,
}

impl Version {
    pub(crate) fn new(name: &str, digest: &str, targets: Box<[Target]>) -> Self {
        Self { name: name.into(), digest: digest.into(), targets, places: Places::default() }
    }

    /// The name of the variation that it serves.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What names its content.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Calls that it carries out now.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.places.taken()
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }
}
