//! The wanted table, and the wanted list of addresses, as they travel: over the control socket, and in the files in which they are kept.
//!
//! What a newer agent adds is passed over by an older proxy, unless it raises `format`: that is refused by name.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
pub use traffic::{HashFunction, Retry, RuleForm, Sticky};

/// The newest form of the table that this program knows.
pub const FORMAT: u32 = 3;

/// The form of a table that has [`ServiceForm::ports`], and only services of HTTP to which no PROXY header is sent.
const FORMAT_OF_PORTS: u32 = 2;

/// The form of a table without ports either, which all programs know.
const FORMAT_OF_CALLS: u32 = 1;

/// The oldest form in which a table of these services can be written: a program that knows no newer one knows all that they say.
#[must_use]
pub fn format_of(services: &[ServiceForm]) -> u32 {
    let of_flows = |service: &ServiceForm| {
        service.protocol != TransportForm::Http
            || service.proxy_protocol.is_some()
            || service.drain_seconds.is_some()
    };
    if services.iter().any(of_flows) {
        FORMAT
    } else if services.iter().any(|service| !service.ports.is_empty()) {
        FORMAT_OF_PORTS
    } else {
        FORMAT_OF_CALLS
    }
}

/// All services of a proxy, whole; never a difference to what was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableForm {
    #[serde(default = "format_1")]
    pub format: u32,
    /// Of the lease of whoever decides. A table of an older one is refused.
    #[serde(default)]
    pub epoch: u64,
    /// Grows with each table of an epoch. An older one is refused; the same again changes nothing.
    pub generation: u64,
    #[serde(default)]
    pub services: Vec<ServiceForm>,
}

/// All addresses on which a proxy listens beside those of its configuration, whole; never a difference to what was before. It has
/// numbers of its own, which mean what those of a table do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListenForm {
    #[serde(default)]
    pub epoch: u64,
    pub generation: u64,
    pub listen: Vec<AddressForm>,
    /// Those of TCP among them that another program has as well, by a socket that was lent to this proxy. A program that doesn't know of
    /// these, or of the next ones, finds the addresses taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lent: Vec<SocketAddr>,
    /// The same, by a socket of the proxy's own beside those of the others (`SO_REUSEPORT`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<SocketAddr>,
}

/// An address, and what comes in there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AddressForm {
    pub kind: AddressKind,
    pub address: SocketAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressKind {
    /// Calls, without TLS.
    Http,
    /// Calls, with TLS and the certificate of the configuration.
    Https,
    /// Connections, whatever passes over them.
    Tcp,
    /// Connections of TLS that pass unopened.
    Tls,
    /// Datagrams.
    Udp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceForm {
    pub name: String,
    /// Host names that lead here, whatever the path. Without any, and without `ports`, `/NAME` and everything below it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Ports all of whose calls lead here, whatever the host and the path. They must be among those on which the proxy listens:
    /// a table opens none; a [`ListenForm`] does. A program that doesn't know them would lead these calls elsewhere; so whoever names any says
    /// `format: 2`, which such a program refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// What comes in for it. Where that isn't HTTP, `ports` and `hosts` mean what [`TransportForm`] says, only `sticky: address`
    /// is possible, and the table says `format: 3`.
    #[serde(default, skip_serializing_if = "TransportForm::is_default")]
    pub protocol: TransportForm,
    /// A header in front of each connection to its targets says who the caller is (`format: 3`). It is the caller's alone then: no
    /// call of another one goes over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocolForm>,
    /// How many seconds connections and flows may stay with a variation to which the table gives no share any more; then they are
    /// cut. Not for HTTP. Without it, the proxy's own setting holds. (`format: 3`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_seconds: Option<u32>,
    /// The version gets the path without `/NAME`, as a program that knows nothing of its name expects it.
    #[serde(default = "yes")]
    pub strip: bool,
    /// The first is the stable one.
    pub variations: Vec<VariationForm>,
    /// Units of 0.01 %, a variation each. Without `runs`, the buckets that must move do, beginning with the table in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Vec<u16>>,
    /// Each bucket's variation: from, to before, variation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<Vec<(u16, u16, u8)>>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub salt: String,
    #[serde(default)]
    pub hash: HashFunction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<RuleForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Calls that the stable variation answered and that are made once more, for comparison alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowForm>,
    /// What these shares are called in counts, for instance the stage of a release.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub split: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariationForm {
    pub name: String,
    /// What names the version's content.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// `127.0.0.1:9000`, `127.0.0.1:8000/name` (below a path) or `unix:/run/version.sock`.
    pub targets: Vec<String>,
    /// What it speaks: HTTP/1.1, or HTTP/2 without TLS, which gRPC needs.
    #[serde(default, skip_serializing_if = "ProtocolForm::is_default")]
    pub protocol: ProtocolForm,
}

/// What comes in for a service, and how it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportForm {
    /// Calls of HTTP, by port, host or path.
    #[default]
    Http,
    /// All connections to one of `ports`, whatever passes over them. There is at least one port, and no host.
    Tcp,
    /// Connections of TLS that pass unopened: those whose callers name one of `hosts`; at one of `ports` also those who name
    /// nobody, or somebody unknown.
    Tls,
    /// Datagrams to one of `ports`; all that come from one address and port are a flow, and go to one target. There is at least one
    /// port, and no host.
    Udp,
}

impl TransportForm {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives it by reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Versions of the PROXY protocol, as `HAProxy`'s `doc/proxy-protocol.txt` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyProtocolForm {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolForm {
    #[default]
    Http1,
    H2c,
}

impl ProtocolForm {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives it by reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Copies of calls of GET, HEAD and OPTIONS without a body go to a variation as well, marked with `X-Choirmaster-Shadow: 1`. Its
/// answers are compared with those of the stable variation, and nobody gets them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShadowForm {
    /// The name of the variation that gets the copies. It isn't the stable one, speaks HTTP/1.1, and may have a share of 0.
    pub variation: String,
    /// How many of the calls that can be copied are, in units of 0.01 %.
    pub share: u16,
}

fn format_1() -> u32 {
    1
}

fn yes() -> bool {
    true
}
