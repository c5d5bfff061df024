use std::{borrow::Cow, fmt, net::SocketAddr, path::PathBuf, str::FromStr};

use super::places::Places;
use crate::proxy_protocol::ProxyHeader;

/// Where a version listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// Below a path of an address that others have too: the path of a call is put behind it, but for `/`, which adds nothing.
    Below {
        address: SocketAddr,
        /// It begins with `/`, and doesn't end with it.
        path: Box<str>,
    },
}

/// The most bytes of a path below which a version is.
const MAX_PATH: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no target: write an address with a port (127.0.0.1:9000), a path of at most {MAX_PATH} characters behind it where the \
     version is below one (127.0.0.1:8000/name), or unix: and a path"
)]
pub struct TargetError(String);

impl Target {
    /// The path that comes before those of calls; empty where there is none.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Tcp(_) | Self::Unix(_) => "",
            Self::Below { path, .. } => path,
        }
    }

    /// Where a call of this path and query goes.
    #[must_use]
    pub fn with_path<'p>(&self, path_and_query: &'p str) -> Cow<'p, str> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Cow::Borrowed(path_and_query),
            Self::Below { path, .. } => Cow::Owned(below(path, path_and_query)),
        }
    }
}

/// Where a call of this path and query goes at a target with a path.
pub(crate) fn below(path: &str, target: &str) -> String {
    // What is asked of the server as a whole is asked of what stands below the path.
    let target = target.strip_prefix('*').unwrap_or(target);
    let names_nothing = |rest: &&str| rest.is_empty() || rest.starts_with('?');
    let rest = target.strip_prefix('/').filter(names_nothing).unwrap_or(target);
    format!("{path}{rest}")
}

/// Whether it is one that is put before others as it stands.
fn is_path(path: &str) -> bool {
    let is_step = |step: &str| !["", ".", ".."].contains(&step);
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%".contains(&byte);
    path.len() <= MAX_PATH
        && path.strip_prefix('/').is_some_and(|below| below.split('/').all(is_step))
        && path.bytes().all(|byte| byte == b'/' || may_stand(byte))
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => Err(TargetError(text.to_owned())),
            None => {
                let at = text.find('/').unwrap_or(text.len());
                let (address, path) = text.split_at(at);
                match (address.parse(), path) {
                    (Ok(address), "") => Ok(Self::Tcp(address)),
                    (Ok(address), path) if is_path(path) => Ok(Self::Below { address, path: path.into() }),
                    (Ok(_) | Err(_), _) => Err(TargetError(text.to_owned())),
                }
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Below { address, path } => write!(f, "{address}{path}"),
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
    protocol: Protocol,
    header: Option<ProxyHeader>,
    places: Places,
}

/// What a version speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    #[default]
    Http1,
    /// HTTP/2 without TLS, from the first byte on.
    H2c,
}

impl Version {
    /// `name`: of the variation, and of the content.
    pub(crate) fn new(
        (name, digest): (&str, &str),
        targets: Box<[Target]>,
        protocol: Protocol,
        header: Option<ProxyHeader>,
    ) -> Self {
        let (name, digest) = (name.into(), digest.into());
        Self { name, digest, targets, protocol, header, places: Places::default() }
    }

    /// Whether another one is of the same name and content, and is reached in the same way.
    pub(crate) fn is_same_content(&self, other: &Self) -> bool {
        let Self { name, digest, targets, protocol, header, places: _ } = self;
        (name, digest, targets, *protocol, *header)
            == (&other.name, &other.digest, &other.targets, other.protocol, other.header)
    }

    /// What each connection to it begins with.
    pub(crate) fn header(&self) -> Option<ProxyHeader> {
        self.header
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

    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
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
