//! What is known of routers and what they lead: words and forms that travel, are stored and are shown alike.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All shares of a service come to so much: a share is in units of 0.01 %.
pub const WHOLE: u16 = 10_000;

/// The whole of a service, as its router leads it: in the words of `services:` in a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LedService)]
pub struct LedForm {
    /// At most 64.
    pub ports: Vec<Listen>,
    /// By what calls stay with one variation; absent: each call goes to any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<RuleForm>,
    /// What the keys of calls are hashed with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub salt: String,
    /// `murmur2` or `xxh32`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// The first is the stable one.
    pub variations: Vec<LedVariation>,
}

/// Where a service takes calls, and which of those that come there.
///
/// A call is the service's that names its host, else the one's that names none; of these the one's with the longest path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ServicePort)]
pub struct Listen {
    pub port: u16,
    pub protocol: Protocol,
    /// Whose calls it takes, by what they name as their host without its port: at most 16, in small letters. None: whatever host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What the path of a call begins with, in whole segments: `/api` has `/api` and `/api/x`, and not `/apix`. Absent: whatever path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Who ends TLS, of HTTPS; `certificate` if absent.
    #[serde(default, skip_serializing_if = "TlsEnd::is_default")]
    pub tls: TlsEnd,
    /// Where the router really listens, if another program has the port and its calls are taken over. Said by the router's agent alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u16>,
    /// Another program still takes some of the calls there, past the router, so its shares aren't those of all calls. Said by the router's agent
    /// alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// Who ends the TLS of callers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum TlsEnd {
    /// The router, with a certificate that its operator has given it.
    #[default]
    Certificate,
    /// Targets: it passes the router unopened.
    Pass,
}

impl TlsEnd {
    pub const ALL: [Self; 2] = [Self::Certificate, Self::Pass];

    /// As it is written in strategies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Pass => "pass",
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives it by reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A port of a machine: those of UDP are others than those of TCP, by which HTTP goes too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Socket {
    pub port: u16,
    pub is_udp: bool,
}

impl Listen {
    /// For all that comes there.
    #[must_use]
    pub fn new(port: u16, protocol: Protocol) -> Self {
        Self {
            port,
            protocol,
            hosts: Vec::new(),
            path: None,
            tls: TlsEnd::default(),
            at: None,
            shared: false,
        }
    }

    /// What its callers call.
    #[must_use]
    pub fn socket(&self) -> Socket {
        Socket { port: self.port, is_udp: self.protocol.is_udp() }
    }

    /// Where the router listens: calls of its own to that would go round.
    #[must_use]
    pub fn opened(&self) -> Socket {
        Socket { port: self.at.unwrap_or(self.port), ..self.socket() }
    }

    /// Whether it takes a part of what comes there alone.
    #[must_use]
    pub fn is_routed(&self) -> bool {
        !self.hosts.is_empty() || self.path.is_some()
    }

    /// Whether TLS passes unopened there.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.tls == TlsEnd::Pass
    }

    /// As they are written in strategies: `[{port: 443, protocol: HTTPS, hosts: ["shop.example"], path: "/api"}]`.
    #[must_use]
    pub fn list(all: &[Self]) -> String {
        let one = |Self { port, protocol, hosts, path, tls, at: _, shared: _ }: &Self| {
            let hosts = if hosts.is_empty() { String::new() } else { format!(", hosts: {hosts:?}") };
            let path = path.as_ref().map(|path| format!(", path: {path:?}")).unwrap_or_default();
            let tls = if *tls == TlsEnd::Pass { ", tls: pass" } else { "" };
            format!("{{port: {port}, protocol: {}{hosts}{path}{tls}}}", protocol.name())
        };
        format!("[{}]", all.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    /// The hosts that it names; `None`: whatever host.
    pub fn each_host(&self) -> impl Iterator<Item = Option<&str>> {
        let whatever = self.hosts.is_empty().then_some(None);
        self.hosts.iter().map(|host| Some(host.as_str())).chain(whatever)
    }

    /// Whether two services can't have both: one port has one protocol, of which TLS that passes unopened is another, and each host and path
    /// at it one service. A host whose TLS passes unopened has one service at all ports: it is told apart by its name alone.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let shares_host = || self.each_host().any(|host| other.each_host().any(|of| of == host));
        let passes_host = || self.hosts.iter().any(|host| other.hosts.contains(host));
        let is_passed_twice = self.passes() && other.passes() && passes_host();
        let is_at_one_port = self.socket() == other.socket();
        is_passed_twice
            || is_at_one_port
                && (self.protocol != other.protocol
                    || self.tls != other.tls
                    || self.path == other.path && shares_host())
    }
}

/// As it is called in sentences: `port 443`, or `shop.example/api at port 443`.
impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { port, hosts, path, .. } = self;
        if self.is_routed() {
            write!(f, "{}{} at ", hosts.join(", "), path.as_deref().unwrap_or_default())?;
        }
        write!(f, "port {port}")
    }
}

/// What is spoken at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schema(as = TransportProtocol)]
pub enum Protocol {
    Http,
    Https,
    Tcp,
    Udp,
}

impl Protocol {
    pub const ALL: [Self; 4] = [Self::Http, Self::Https, Self::Tcp, Self::Udp];

    /// That of a service which takes calls there.
    #[must_use]
    pub fn of(listens: &[Listen]) -> Self {
        listens.iter().map(|listen| listen.protocol).max().unwrap_or(Self::Http)
    }

    /// As it is written in strategies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }

    #[must_use]
    pub fn is_udp(self) -> bool {
        self == Self::Udp
    }

    /// Whether its calls have headers, so that cookies, headers and rules mean something.
    #[must_use]
    pub fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

/// Ports at which services of a router may be: from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenPorts {
    pub first: u16,
    pub last: u16,
    /// Of HTTP also for HTTPS; absent: whatever is spoken there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// TLS passes unopened there, and nothing else is taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passes: bool,
    /// What another program takes there is taken over: it keeps the port, and may be a target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_over: bool,
    /// That is done by a socket, of TCP: either takes calls there until the other program ends that, so none of its targets may be there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_socket: bool,
}

impl OpenPorts {
    /// Whether what a service takes may be taken there, whatever the port.
    #[must_use]
    pub fn are_for(&self, listen: &Listen) -> bool {
        let plain = |protocol| match protocol {
            Protocol::Http | Protocol::Https => Protocol::Http,
            Protocol::Tcp => Protocol::Tcp,
            Protocol::Udp => Protocol::Udp,
        };
        // By whose name TLS passes is told at all ports together, those of other programs among them.
        let is_told_by_name = listen.passes() && !listen.hosts.is_empty();
        let may_be_by_socket = !listen.protocol.is_udp() && !is_told_by_name;
        (may_be_by_socket || !self.by_socket)
            && self
                .protocol
                .is_none_or(|own| plain(own) == plain(listen.protocol) && self.passes == listen.passes())
    }

    /// Whether a service may be there.
    #[must_use]
    pub fn take(&self, listen: &Listen) -> bool {
        (self.first..=self.last).contains(&listen.port) && self.are_for(listen)
    }
}

impl std::fmt::Display for OpenPorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first, last, protocol: _, passes: _, takes_over: _, by_socket: _ } = self;
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}

/// By what calls stay with one variation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StickyBy)]
pub enum Sticky {
    /// The name of a cookie.
    Cookie(String),
    /// The name of a header.
    Header(String),
    /// The address of the caller.
    Address,
}

/// `cookie:NAME`, `header:NAME` or `address`, as [`Sticky::named`] reads it.
impl std::fmt::Display for Sticky {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cookie(name) => write!(f, "cookie:{name}"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Address => f.write_str("address"),
        }
    }
}

impl Sticky {
    /// Of `cookie:NAME`, `header:NAME` or `address`.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        match text.split_once(':') {
            Some(("cookie", name)) if !name.is_empty() => Some(Self::Cookie(name.to_owned())),
            Some(("header", name)) if !name.is_empty() => Some(Self::Header(name.to_owned())),
            None if text == "address" => Some(Self::Address),
            Some(_) | None => None,
        }
    }
}

/// A header whose value asks for a variation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HeaderRule)]
pub struct RuleForm {
    pub name: String,
    /// By value, the name of the variation; at most 64.
    pub values: BTreeMap<String, String>,
}

/// A variation with its targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ServiceVariation)]
pub struct LedVariation {
    pub name: String,
    /// `HOST:PORT`, at most 64.
    pub targets: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthCheckForm>,
}

/// How it is looked whether targets are there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = TargetCheck)]
pub struct HealthCheckForm {
    /// Absent: a connection is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Milliseconds from the begin of one check to that of the next.
    pub interval_ms: u64,
    /// Milliseconds.
    pub timeout_ms: u64,
    /// So many good checks in a row.
    pub healthy_after: u32,
    /// So many bad checks in a row.
    pub unhealthy_after: u32,
}

/// How many targets a variation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetCount {
    /// Of those the healthy ones; `None`: nobody looks at them.
    #[serde(default)]
    pub healthy: Option<u32>,
    pub total: u32,
}

/// What is being done with a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RouterPhase {
    /// Nothing is wanted of it.
    Idle,
    /// It was not read yet, or names of targets have no address yet.
    Waiting,
    /// It is being told, or is to show that it does it.
    Telling,
    /// It was read back to do what is wanted.
    InForce,
    /// It differs, and is left alone until somebody says otherwise.
    Paused,
    /// It differs, and may.
    Accepted,
    /// Somebody else leads it.
    Superseded,
}

impl RouterPhase {
    pub const ALL: [Self; 7] = [
        Self::Idle,
        Self::Waiting,
        Self::Telling,
        Self::InForce,
        Self::Paused,
        Self::Accepted,
        Self::Superseded,
    ];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Waiting => "waiting",
            Self::Telling => "telling",
            Self::InForce => "in_force",
            Self::Paused => "paused",
            Self::Accepted => "accepted",
            Self::Superseded => "superseded",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// What was done about a drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DriftThen {
    Repaired,
    Paused,
    PausedAfterRepairs,
    Accepted,
    /// It is gone by itself.
    Over,
}

impl DriftThen {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Repaired => "repaired",
            Self::Paused => "paused",
            Self::PausedAfterRepairs => "paused_after_repairs",
            Self::Accepted => "accepted",
            Self::Over => "over",
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderWhat {
    /// Look whether the router takes its configuration, and what is ours there that belongs to nothing that is wanted.
    Check,
    /// Put what is wanted in force again, whatever the router was left alone for.
    Repair,
    /// Have it load its configuration anew, after a check.
    Reload,
    /// Drain a service, and remove what is ours of it.
    Retire,
    /// Read what the router does for a service today, and say which lines are to be added to its configuration so that it is led.
    Adopt,
}

impl OrderWhat {
    pub const ALL: [Self; 5] = [Self::Check, Self::Repair, Self::Reload, Self::Retire, Self::Adopt];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Repair => "repair",
            Self::Reload => "reload",
            Self::Retire => "retire",
            Self::Adopt => "adopt",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}
