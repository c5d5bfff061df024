use std::{
    ops::{Deref, RangeInclusive},
    sync::Arc,
    time::Duration,
};

use model::traffic::{HealthCheckForm, LedForm, LedVariation, RuleForm, Sticky};
pub use model::traffic::{Listen, Protocol, TlsEnd};
use serde::{Deserialize, Serialize};

use super::{CookieName, HeaderName, HeaderValue, Host, Name, Target, WordError};
use crate::{HashFunction, Table, Variation as Which};

/// The most targets of a variation.
pub const MAX_TARGETS: usize = 64;

/// The most ports of a service.
pub const MAX_LISTENS: usize = 64;

/// The most values of a header rule.
pub const MAX_VALUES: usize = 64;

/// The most hosts that a service names at a port.
pub const MAX_HOSTS: usize = 16;

/// The most bytes of the path of a health check.
const MAX_PATH: usize = 200;

/// The most bytes of the path that calls begin with: as many as the load balancers of AWS compare.
const MAX_PREFIX: usize = 128;

/// How often it may be looked whether a target is there.
pub const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);

/// How long it may take with its answer.
pub const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_mins(1);

/// How many in a row may count.
pub const IN_A_ROW: RangeInclusive<u32> = 1..=100;

/// What gets calls, and how they are shared among its variations. Nothing of it was checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSpec {
    pub name: Name,
    /// At least one; all of HTTP, all of TCP, or all of UDP.
    pub listens: Vec<Listen>,
    pub sticky: Option<StickyTo>,
    pub rule: Option<Rule>,
    /// What keys are hashed with, before them.
    pub salt: Name,
    pub hash: HashFunction,
    /// The first is the stable one.
    pub variations: Vec<Variation>,
    /// Which buckets each of them has.
    pub table: Table,
}

/// One that was checked, and doesn't change any more. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service(Arc<ServiceSpec>);

/// By what calls stay with one variation, in words that routers' own languages take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StickyTo {
    Cookie(CookieName),
    Header(HeaderName),
    Address,
}

impl From<&StickyTo> for Sticky {
    fn from(sticky: &StickyTo) -> Self {
        match sticky {
            StickyTo::Cookie(name) => Self::Cookie(name.to_string()),
            StickyTo::Header(name) => Self::Header(name.to_string()),
            StickyTo::Address => Self::Address,
        }
    }
}

impl TryFrom<Sticky> for StickyTo {
    type Error = WordError;

    fn try_from(sticky: Sticky) -> Result<Self, WordError> {
        Ok(match sticky {
            Sticky::Cookie(name) => Self::Cookie(name.parse()?),
            Sticky::Header(name) => Self::Header(name.parse()?),
            Sticky::Address => Self::Address,
        })
    }
}

/// A header whose value asks for a variation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub name: HeaderName,
    /// Values, compared byte for byte, each once.
    pub values: Vec<(HeaderValue, Which)>,
}

impl Rule {
    /// With these variations by their names.
    #[must_use]
    pub fn form(&self, variations: &[Variation]) -> RuleForm {
        let name_of = |which: Which| Some(variations.get(which.index())?.name.to_string());
        let values = self.values.iter();
        let values = values.filter_map(|(value, which)| Some((value.to_string(), name_of(*which)?)));
        RuleForm { name: self.name.to_string(), values: values.collect() }
    }
}

/// One of a service's variations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variation {
    pub name: Name,
    /// 1 to [`MAX_TARGETS`], each once.
    pub targets: Vec<Target>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
}

/// A variation with its place and its share.
#[derive(Debug, Clone, Copy)]
pub struct Variant<'s> {
    pub which: Which,
    pub variation: &'s Variation,
    /// Units of 0.01 %.
    pub hundredths: u16,
}

/// How it is looked whether targets are there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Health {
    /// GET of this path answers with a status from 200 to 399; without a path a connection is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Box<str>>,
    /// From the begin of one check to that of the next: 0.1 s to 1 h.
    pub interval: Duration,
    /// 10 ms to 60 s.
    pub timeout: Duration,
    /// So many in a row: 1 to 100.
    pub healthy_after: u32,
    pub unhealthy_after: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            path: None,
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
            healthy_after: 2,
            unhealthy_after: 3,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    #[error("the service has no name or no variations")]
    Unnamed,
    #[error("service {service} has {variations} variations, and its table {of_table}")]
    Table { service: Name, variations: usize, of_table: usize },
    #[error("service {service} has two variations {variation}")]
    Twice { service: Name, variation: Name },
    #[error(
        "variation {variation} of service {service} names {targets} targets: 1 to {MAX_TARGETS}, each once"
    )]
    Targets { service: Name, variation: Name, targets: usize },
    #[error("variation {variation} of service {service}: {target} is no target")]
    Target { service: Name, variation: Name, target: Target },
    #[error(
        "the header rule of service {service} asks for variation {variation}, and there are {variations}"
    )]
    Rule { service: Name, variation: u8, variations: usize },
    #[error("the header rule of service {service} has the value \"{value}\" twice")]
    Value { service: Name, value: HeaderValue },
    #[error("the header rule of service {service} has {values} values: at most {MAX_VALUES}")]
    Values { service: Name, values: usize },
    #[error("service {service} takes calls nowhere: it needs a port")]
    Nowhere { service: Name },
    #[error("service {service} has {ports} ports: at most {MAX_LISTENS}")]
    Ports { service: Name, ports: usize },
    #[error("service {service} has port {port}, which must be one from 1 to 65535, named once")]
    Port { service: Name, port: u16 },
    #[error("the ports of service {service} mix HTTP with TCP or UDP, or TCP with UDP")]
    Mixed { service: Name },
    #[error("service {service} takes connections without headers: {what} means nothing there")]
    NoHeaders { service: Name, what: &'static str },
    #[error(
        "service {service} names {host:?} as a host, which must be a name in small letters, as in shop.example, named once"
    )]
    Host { service: Name, host: Box<str> },
    #[error("service {service} names {hosts} hosts at a port: at most {MAX_HOSTS}")]
    Hosts { service: Name, hosts: usize },
    #[error(
        "service {service} takes calls to {path:?}, which must be a path of whole segments, as in /api: letters, digits and - . _ ~ between slashes, at most 128 characters"
    )]
    Prefix { service: Name, path: Box<str> },
    #[error(
        "service {service} takes connections without hosts and paths: it can have no part of port {port}"
    )]
    Unrouted { service: Name, port: u16 },
    #[error("service {service} has tls: pass at port {port}, and {why}")]
    Pass { service: Name, port: u16, why: &'static str },
    #[error("service {service} takes calls of HTTP, which end by themselves: drain means nothing there")]
    Drain { service: Name },
    #[error("service {service} has proxy_protocol, and {why}")]
    Announced { service: Name, why: &'static str },
    #[error(
        "the path {path:?} of the health checks of service {service} is none: it begins with / and has at most 200 printable characters without spaces, quotes, backslashes, braces, ; $ and #"
    )]
    Path { service: Name, path: Box<str> },
    #[error(
        "the health checks of service {service}: an interval is from 0.1 s to 1 h, a timeout from 10 ms to 60 s, and 1 to 100 in a row count"
    )]
    Health { service: Name },
}

impl Deref for Service {
    type Target = ServiceSpec;

    fn deref(&self) -> &ServiceSpec {
        &self.0
    }
}

impl Service {
    /// # Errors
    ///
    /// What doesn't fit together, or can't be told to a router; see [`ServiceError`].
    pub fn new(spec: ServiceSpec) -> Result<Self, ServiceError> {
        let service = || spec.name.clone();
        let variations = spec.variations.len();
        if variations != spec.table.variations() {
            let of_table = spec.table.variations();
            return Err(ServiceError::Table { service: service(), variations, of_table });
        }
        for (at, variation) in spec.variations.iter().enumerate() {
            if spec.variations[..at].iter().any(|before| before.name == variation.name) {
                return Err(ServiceError::Twice { service: service(), variation: variation.name.clone() });
            }
            check_targets(variation, &spec.name)?;
            if let Some(health) = &variation.health {
                check_health(health, &spec.name)?;
            }
        }
        check_listens(&spec)?;
        if let Some(rule) = &spec.rule {
            check_rule(rule, &spec)?;
        }
        Ok(Self(spec.into()))
    }

    /// One that differs from this in what a rule of this crate has changed, and fits together as this does.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut ServiceSpec)) -> Self {
        let mut spec = ServiceSpec::clone(&self.0);
        change(&mut spec);
        Self(spec.into())
    }

    /// Each variation with its share, the stable one first.
    pub fn variants(&self) -> impl Iterator<Item = Variant<'_>> {
        let all = self.variations.iter().zip(self.table.hundredths()).zip(0..);
        all.map(|((variation, hundredths), at)| Variant { which: Which(at), variation, hundredths })
    }

    /// The header rule, with variations by their names.
    #[must_use]
    pub fn rule_form(&self) -> Option<RuleForm> {
        self.rule.as_ref().map(|rule| rule.form(&self.variations))
    }

    #[must_use]
    pub fn protocol(&self) -> Protocol {
        Protocol::of(&self.listens)
    }

    /// Whether TLS passes unopened to its targets.
    #[must_use]
    pub fn passes_tls(&self) -> bool {
        self.listens.iter().any(Listen::passes)
    }
}

/// As it is told to others: everything but its shares.
impl From<&Service> for LedForm {
    fn from(service: &Service) -> Self {
        Self {
            ports: service.listens.clone(),
            sticky: service.sticky.as_ref().map(Into::into),
            header: service.rule_form(),
            salt: service.salt.to_string(),
            hash: service.hash.name().to_owned(),
            variations: service.variations.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Variation> for LedVariation {
    fn from(variation: &Variation) -> Self {
        Self {
            name: variation.name.to_string(),
            targets: variation.targets.iter().map(Target::to_string).collect(),
            health: variation.health.as_ref().map(|health| HealthCheckForm {
                path: health.path.as_deref().map(str::to_owned),
                interval_ms: health.interval.as_millis() as u64,
                timeout_ms: health.timeout.as_millis() as u64,
                healthy_after: health.healthy_after,
                unhealthy_after: health.unhealthy_after,
            }),
        }
    }
}

fn check_targets(variation: &Variation, service: &Name) -> Result<(), ServiceError> {
    let targets = &variation.targets;
    let is_twice = targets.iter().enumerate().any(|(at, target)| targets[..at].contains(target));
    if targets.is_empty() || targets.len() > MAX_TARGETS || is_twice {
        let (service, variation) = (service.clone(), variation.name.clone());
        return Err(ServiceError::Targets { service, variation, targets: targets.len() });
    }
    // Who made one of parts has had nothing checked.
    match targets.iter().find(|target| target.to_string().parse::<Target>().as_ref() != Ok(*target)) {
        Some(target) => {
            let (service, variation, target) = (service.clone(), variation.name.clone(), target.clone());
            Err(ServiceError::Target { service, variation, target })
        }
        None => Ok(()),
    }
}

fn check_health(health: &Health, service: &Name) -> Result<(), ServiceError> {
    let counts = [health.healthy_after, health.unhealthy_after];
    let may_be = INTERVALS.contains(&health.interval)
        && TIMEOUTS.contains(&health.timeout)
        && counts.iter().all(|count| IN_A_ROW.contains(count));
    if !may_be {
        return Err(ServiceError::Health { service: service.clone() });
    }
    health.path.as_deref().map_or(Ok(()), |path| check_path(path, service))
}

/// Whether it is a path that a health check may ask for: it stands in configurations of routers as it is.
#[must_use]
pub fn is_check_path(path: &str) -> bool {
    let may_stand = |byte: u8| byte.is_ascii_graphic() && !b"\"'\\{};$#".contains(&byte);
    path.len() <= MAX_PATH && path.starts_with('/') && path.bytes().all(may_stand)
}

fn check_path(path: &str, service: &Name) -> Result<(), ServiceError> {
    if is_check_path(path) {
        return Ok(());
    }
    Err(ServiceError::Path { service: service.clone(), path: path.chars().take(MAX_PATH).collect() })
}

fn check_listens(spec: &ServiceSpec) -> Result<(), ServiceError> {
    let service = || spec.name.clone();
    let Some(first) = spec.listens.first().map(|listen| listen.protocol) else {
        return Err(ServiceError::Nowhere { service: service() });
    };
    if spec.listens.len() > MAX_LISTENS {
        return Err(ServiceError::Ports { service: service(), ports: spec.listens.len() });
    }
    for (at, listen) in spec.listens.iter().enumerate() {
        let port = listen.port;
        if port == 0 || spec.listens[..at].iter().any(|before| before.port == port) {
            return Err(ServiceError::Port { service: service(), port });
        }
        check_route(listen, &spec.name)?;
    }
    let is_alike = |listen: &Listen| listen.protocol == first || listen.protocol.is_http() && first.is_http();
    if !spec.listens.iter().all(is_alike) {
        return Err(ServiceError::Mixed { service: service() });
    }
    let passing = spec.listens.iter().find(|listen| listen.passes());
    if let Some(listen) = passing.filter(|_| !spec.listens.iter().all(Listen::passes)) {
        let why = "another of its ports has not: make two services of it";
        return Err(ServiceError::Pass { service: service(), port: listen.port, why });
    }
    let needs = match (&spec.sticky, &spec.rule) {
        _ if first.is_http() && passing.is_none() => None,
        (Some(StickyTo::Cookie(_)), _) => Some("a cookie"),
        (Some(StickyTo::Header(_)), _) => Some("a header"),
        (_, Some(_)) => Some("a header rule"),
        (Some(StickyTo::Address) | None, None) => None,
    };
    match needs {
        Some(what) => Err(ServiceError::NoHeaders { service: service(), what }),
        None => Ok(()),
    }
}

fn check_route(listen: &Listen, service: &Name) -> Result<(), ServiceError> {
    let Listen { port, protocol, hosts, path, tls, at: _, shared: _ } = listen;
    let service = || service.clone();
    let why = match tls {
        TlsEnd::Pass if *protocol != Protocol::Https => Some("that is for HTTPS alone"),
        TlsEnd::Pass if path.is_some() => Some("nobody sees the paths of its calls there"),
        TlsEnd::Pass | TlsEnd::Certificate => None,
    };
    if let Some(why) = why {
        return Err(ServiceError::Pass { service: service(), port: *port, why });
    }
    if listen.is_routed() && !protocol.is_http() {
        return Err(ServiceError::Unrouted { service: service(), port: *port });
    }
    if hosts.len() > MAX_HOSTS {
        return Err(ServiceError::Hosts { service: service(), hosts: hosts.len() });
    }
    let start = |text: &str| text.chars().take(MAX_PATH).collect();
    for (at, host) in hosts.iter().enumerate() {
        if !is_host(host) || hosts[..at].contains(host) {
            return Err(ServiceError::Host { service: service(), host: start(host) });
        }
    }
    match path.as_deref().filter(|path| !is_path(path)) {
        Some(path) => Err(ServiceError::Prefix { service: service(), path: start(path) }),
        None => Ok(()),
    }
}

/// Whether calls can name it as their host, in small letters. `*.` isn't possible: routers don't agree on what it fits.
#[must_use]
pub fn is_host(text: &str) -> bool {
    matches!(text.parse(), Ok(Host::Name(name)) if *name == *text)
}

/// Whether paths can begin with it: whole segments that mean the same to each router, escaped or not, and nothing but themselves.
#[must_use]
pub fn is_path(text: &str) -> bool {
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let is_segment = |segment: &str| !["", ".", ".."].contains(&segment) && segment.bytes().all(may_stand);
    let segments = text.strip_prefix('/').filter(|_| text.len() <= MAX_PREFIX);
    segments.is_some_and(|segments| segments.split('/').all(is_segment))
}

fn check_rule(rule: &Rule, spec: &ServiceSpec) -> Result<(), ServiceError> {
    let variations = spec.variations.len();
    if rule.values.len() > MAX_VALUES {
        return Err(ServiceError::Values { service: spec.name.clone(), values: rule.values.len() });
    }
    for (at, (value, which)) in rule.values.iter().enumerate() {
        let service = spec.name.clone();
        if which.index() >= variations {
            return Err(ServiceError::Rule { service, variation: which.0, variations });
        }
        if rule.values[..at].iter().any(|(before, _)| before == value) {
            return Err(ServiceError::Value { service, value: value.clone() });
        }
    }
    Ok(())
}
