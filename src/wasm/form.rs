//! What an agent says to the host of a component.

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// What the file of a component is called in the folder of its version. It holds the binary form, or the text form.
pub const FILE: &str = "fn.wasm";

/// What one host serves, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosted {
    /// The component.
    pub component: PathBuf,
    /// The unix socket on which calls are taken.
    pub socket: PathBuf,
    /// All that calls find in their environment.
    pub environment: BTreeMap<String, String>,
    pub bounds: Bounds,
    /// Bytes of memory that all calls have at once.
    pub memory: u64,
}

/// What a call may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Bytes of memory: of linear memories, and of tables.
    pub memory: u64,
    /// How many there are at once. Further ones wait for a second, and are answered with 503 then.
    pub calls: usize,
    /// For how long it may compute, what it waits for not counted.
    pub compute: Duration,
    /// How long it may take, to the end of its answer's body.
    pub time: Duration,
    /// Whom it may call over HTTP and HTTPS. There is no other way out.
    pub outgoing: Vec<Destination>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            memory: 64 * 1024 * 1024,
            calls: 100,
            compute: Duration::from_secs(30),
            time: Duration::from_mins(5),
            outgoing: Vec::new(),
        }
    }
}

/// A host that may be called: at one port, or at the usual one of the scheme.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Destination {
    /// In lower case; an IPv6 address in brackets.
    host: String,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host, as in api.example.org, 10.0.0.1:8080 or [::1]:80")]
pub struct DestinationError(String);

impl Destination {
    /// Whether a call of this host and port is meant. `usual`: the port of the scheme.
    #[must_use]
    pub fn allows(&self, host: &str, port: u16, usual: u16) -> bool {
        self.host.eq_ignore_ascii_case(host) && self.port.unwrap_or(usual) == port
    }
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        let fault = || DestinationError(text.chars().take(80).collect());
        let after_address = text.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match text[after_address..].rfind(':') {
            Some(at) => {
                let (host, port) = text.split_at(after_address + at);
                let port = port[1..].parse().ok().filter(|port| *port > 0).ok_or_else(fault)?;
                (host, Some(port))
            }
            None => (text, None),
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_host = match inner {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => (1..=253).contains(&host.len()) && host.bytes().all(is_name),
        };
        if is_host { Ok(Self { host: host.to_ascii_lowercase(), port }) } else { Err(fault()) }
    }
}

impl TryFrom<String> for Destination {
    type Error = DestinationError;

    fn try_from(text: String) -> Result<Self, DestinationError> {
        text.parse()
    }
}

impl From<Destination> for String {
    fn from(destination: Destination) -> Self {
        destination.to_string()
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}
