//! Services: what gets calls behind routers, in two or more variations that run already, or that an agent starts.

use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

use serde::{Deserialize, Serialize};
use traffic::{
    HashFunction, Shares, Table,
    desired::{
        self, Host, Listen, Name, Protocol, Rule, ServiceError, ServiceSpec, StickyTo, Target, Variation,
    },
};

use super::{retry::Retry, run::Run, scalar};

/// What the key of a service begins with. Names of functions have no `/`, so the two never meet.
const PREFIX: &str = "service/";

/// A service whose variations are targets, which somebody else runs, or what the agent of its router starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    key: String,
    /// Labels of the routers that lead its calls, all of which must be a router's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub routers: BTreeMap<String, String>,
    pub ports: Vec<Listen>,
    /// By what calls stay with one variation; `None`: each call goes to any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticky: Option<StickyTo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// 2 to [`traffic::MAX_VARIATIONS`]; the first is the stable one. One that is started has no targets here.
    pub variations: Vec<Variation>,
    /// Variations that the agent of a router starts, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub runs: BTreeMap<String, Run>,
    #[serde(default, skip_serializing_if = "Salt::is_default")]
    pub salt: Salt,
    /// By what users are drawn, at routers that know it; `None`: by what each kind of router usually does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<HashFunction>,
    #[serde(default, skip_serializing_if = "Base::is_default")]
    pub base: Base,
    #[serde(default, skip_serializing_if = "AtRollback::is_default")]
    pub at_rollback: AtRollback,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Of which version a header in front of each connection to targets says who the caller is; `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How long connections and flows may stay with a variation that gets none any more, in whole seconds, not for HTTP; `None`: as
    /// long as the router is set to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Duration>,
}

/// The longest time for which connections may stay: what proxies take.
const MAX_DRAIN: Duration = Duration::from_hours(30 * 24);

/// A time for which connections may stay with a variation that gets none any more, as strategies write it: whole seconds, at most 30 days.
#[must_use]
pub fn drain(text: &str) -> Option<Duration> {
    let time = scalar::duration(text).ok()?;
    (time <= MAX_DRAIN && time.subsec_nanos() == 0).then_some(time)
}

/// Versions of the PROXY protocol, as `HAProxy`'s `doc/proxy-protocol.txt` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyProtocol {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

impl ProxyProtocol {
    pub const ALL: [Self; 2] = [Self::V1, Self::V2];

    /// As it is written in strategies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

/// What decides which users come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Salt {
    /// Others in each release.
    #[default]
    Release,
    /// The same in each release of the service.
    Service,
}

/// What the stable variation has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// What serves now, where that is known.
    #[default]
    Serving,
    /// Whatever serves now, the stable variation takes its place.
    Replace,
}

/// What becomes of a service that nothing led at a router before a release, once that is rolled back there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtRollback {
    /// Its stable variation serves on.
    #[default]
    Keep,
    /// It is led no more, as before the release.
    Retire,
}

impl AtRollback {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives it by reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Base {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives it by reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Salt {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives it by reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Service {
    /// Without anything but its name, ports and variations.
    #[must_use]
    pub fn new(name: &Name, ports: Vec<Listen>, variations: Vec<Variation>) -> Self {
        Self {
            key: format!("{PREFIX}{name}"),
            routers: BTreeMap::new(),
            ports,
            sticky: None,
            rule: None,
            variations,
            runs: BTreeMap::new(),
            salt: Salt::default(),
            hash: None,
            base: Base::default(),
            at_rollback: AtRollback::default(),
            retry: None,
            proxy_protocol: None,
            drain: None,
        }
    }

    /// As a router is told of it, by this table; `salt` is what the keys of calls are hashed with, where it is the release's. Variations that
    /// are yet to be started are at an address that stands for theirs.
    ///
    /// # Errors
    ///
    /// What doesn't fit together; a service of a checked strategy fits.
    pub fn wanted(&self, table: Table, salt: &Name) -> Result<desired::Service, ServiceError> {
        let name: Name = self.name().parse().map_err(|_| ServiceError::Unnamed)?;
        let salt = match self.salt {
            Salt::Release => salt.clone(),
            Salt::Service => name.clone(),
        };
        desired::Service::new(ServiceSpec {
            name,
            listens: self.ports.clone(),
            sticky: self.sticky.clone(),
            rule: self.rule.clone(),
            salt,
            hash: self.hash.unwrap_or_default(),
            variations: self.variations.iter().map(|one| self.somewhere(one)).collect(),
            table,
        })
    }

    fn somewhere(&self, variation: &Variation) -> Variation {
        let mut variation = variation.clone();
        if self.runs.contains_key(variation.name.as_str()) {
            variation.targets = vec![Target { host: Host::Address(Ipv4Addr::LOCALHOST.into()), port: 1 }];
        }
        variation
    }

    /// Whether its parts fit together.
    ///
    /// # Errors
    ///
    /// What doesn't.
    pub fn check(&self) -> Result<(), ServiceError> {
        let name: Name = self.name().parse().map_err(|_| ServiceError::Unnamed)?;
        let shares = Shares::all_stable(self.variations.len()).map_err(|_| ServiceError::Unnamed)?;
        self.wanted(Table::new(&shares), &name)?;
        if self.drain.is_some() && self.protocol().is_http() && !self.passes_tls() {
            return Err(ServiceError::Drain { service: name });
        }
        let has_path = |one: &Variation| one.health.as_ref().is_some_and(|health| health.path.is_some());
        let why = match self.proxy_protocol {
            Some(_) if self.protocol().is_udp() => Some("no header goes in front of datagrams"),
            Some(_) if self.variations.iter().any(has_path) => {
                Some("health checks go to targets without a header: leave their path out")
            }
            Some(_) | None => None,
        };
        why.map_or(Ok(()), |why| Err(ServiceError::Announced { service: name, why }))
    }

    /// What it is called among functions and services: `service/NAME`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.key.strip_prefix(PREFIX).unwrap_or(&self.key)
    }

    #[must_use]
    pub fn protocol(&self) -> Protocol {
        Protocol::of(&self.ports)
    }

    /// Whether TLS passes unopened to its targets.
    #[must_use]
    pub fn passes_tls(&self) -> bool {
        self.ports.iter().any(Listen::passes)
    }
}
