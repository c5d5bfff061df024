use std::{fmt, net::IpAddr, str::FromStr};

use serde::{Deserialize, Serialize};

/// Where a variation listens: `127.0.0.1:9000`, `[::1]:9000` or `backend.example:9000`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Target {
    pub host: Host,
    pub port: u16,
}

/// An address, or a name that leads to one or more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// One of IPv4 is written as that, not as one of IPv6.
    Address(IpAddr),
    /// Of letters, digits, `-` and points, in small letters. Its last part is no number, so that nobody reads it as an address.
    Name(Box<str>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no target: write a host and a port from 1 to 65535, as in 127.0.0.1:9000, [::1]:9000 or backend.example:9000"
)]
pub struct TargetError(String);

/// As RFC 1035 has it.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

impl Host {
    /// Whether it is surely the machine of whoever asks.
    #[must_use]
    pub fn is_this_machine(&self) -> bool {
        match self {
            Self::Address(address) => is_this_machine(*address),
            Self::Name(name) => &**name == "localhost" || name.ends_with(".localhost"),
        }
    }
}

/// Whether an address is surely the machine of whoever asks.
#[must_use]
pub fn is_this_machine(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified()
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl FromStr for Host {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(address.into());
        }
        let is_label = |label: &str| {
            let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !label.is_empty()
                && label.len() <= MAX_LABEL
                && label.bytes().all(may_stand)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // Resolvers read 127.1, 0x7f000001 and 0177.0.0.0x1 as addresses, each in its own way.
        let last = text.rsplit('.').next().unwrap_or_default();
        let is_digits = last.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = is_digits || last.starts_with("0x") || last.starts_with("0X");
        if is_number || text.len() > MAX_NAME || !text.split('.').all(is_label) {
            return Err(());
        }
        Ok(Self::Name(text.to_ascii_lowercase().into()))
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let fault = || TargetError(text.chars().take(80).collect());
        let (host, port) = text.rsplit_once(':').ok_or_else(fault)?;
        let port = Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        let port = port.and_then(|port| port.parse().ok()).filter(|port| *port > 0).ok_or_else(fault)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => IpAddr::V6(address.parse().map_err(|_| fault())?).into(),
            None if host.contains(':') => return Err(fault()),
            None => host.parse().map_err(|()| fault())?,
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

impl TryFrom<String> for Target {
    type Error = TargetError;

    fn try_from(text: String) -> Result<Self, TargetError> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}
