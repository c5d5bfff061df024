//! The table that is in force.

mod check;
mod fault;
mod write;

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
    time::Duration,
};

use traffic::{HashFunction, HeaderRule, Retry, Sticky, Table, Variation};

pub use self::fault::{ServiceFault, TableFault};
use super::{
    routes::{Ambiguous, Route, Routes},
    version::Version,
};
use crate::{
    form::{FORMAT, TableForm, format_of},
    proxy_protocol::ProxyHeader,
};

/// The most services of a table.
pub const MAX_SERVICES: usize = 10_000;
/// The most targets of a version.
pub const MAX_TARGETS: usize = 256;
/// The most bytes of a name, a salt or a value.
pub const MAX_NAME: usize = 200;
/// The most ports of a service.
pub const MAX_PORTS: usize = 64;

/// The most seconds for which flows may stay with a variation that gets none any more.
pub const MAX_DRAIN: u32 = 30 * 24 * 60 * 60;

/// A table that was checked, with the versions it names.
#[derive(Debug)]
pub struct LiveTable {
    epoch: u64,
    generation: u64,
    services: Vec<Arc<LiveService>>,
    routes: Routes,
}

/// A service of a table.
#[derive(Debug)]
pub struct LiveService {
    name: Box<str>,
    prefix: Option<Box<str>>,
    strip: bool,
    table: Table,
    shares: Arc<[u16]>,
    function: HashFunction,
    salt: Box<[u8]>,
    sticky: Option<Sticky>,
    rule: Option<HeaderRule>,
    retry: Option<Retry>,
    shadow: Option<ShadowRule>,
    split: Box<str>,
    versions: Vec<Arc<Version>>,
    hosts: Vec<String>,
    ports: Vec<u16>,
    transport: Transport,
    drain: Option<Duration>,
}

/// What comes in for a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Calls.
    Http,
    /// Connections, whatever passes over them.
    Tcp,
    /// Connections of TLS, by the name that the caller gives.
    Tls,
    /// Datagrams, by flow.
    Udp,
}

/// Which variation gets copies of calls, and of how many, in units of 0.01 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShadowRule {
    pub variation: Variation,
    pub share: u16,
}

impl LiveTable {
    /// The table before anybody gave one.
    #[must_use]
    pub fn empty() -> Self {
        Self { epoch: 0, generation: 0, services: Vec::new(), routes: Routes::default() }
    }

    /// Checks a table that is to follow this one. Versions that are the same in both are carried over, with the calls in flight
    /// that they have.
    pub fn next(&self, form: &TableForm) -> Result<Self, TableFault> {
        if form.format > FORMAT {
            return Err(TableFault::Format(form.format));
        }
        if (form.epoch, form.generation) < (self.epoch, self.generation) {
            let in_force = self.number();
            return Err(TableFault::Old { epoch: form.epoch, generation: form.generation, in_force });
        }
        if form.services.len() > MAX_SERVICES {
            return Err(TableFault::Services(form.services.len()));
        }
        let mut names = HashSet::new();
        let mut services = Vec::with_capacity(form.services.len());
        for service in &form.services {
            if !is_service_name(&service.name) {
                return Err(TableFault::Name(service.name.clone()));
            }
            if !names.insert(service.name.as_str()) {
                return Err(TableFault::Twice(service.name.clone()));
            }
            let before = self.service(&service.name).map(|(_, before)| &**before);
            let checked = LiveService::checked(service, before)
                .map_err(|why| TableFault::Service { service: service.name.clone(), why })?;
            services.push(Arc::new(checked));
        }
        let routes = Routes::new(&services).map_err(|twice| match twice {
            Ambiguous::Host(host) => TableFault::HostTwice(host),
            Ambiguous::Name(name) => TableFault::NameTwice(name),
            Ambiguous::Port(port) => TableFault::PortTwice(port),
        })?;
        let next = Self { epoch: form.epoch, generation: form.generation, services, routes };
        let is_same = (self.epoch, self.generation) == (next.epoch, next.generation);
        if is_same && self.generation > 0 && !self.has_content_of(&next) {
            return Err(TableFault::Changed(self.number()));
        }
        Ok(next)
    }

    /// Epoch and generation.
    #[must_use]
    pub fn number(&self) -> String {
        format!("{}.{}", self.epoch, self.generation)
    }

    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    #[must_use]
    pub fn services(&self) -> &[Arc<LiveService>] {
        &self.services
    }

    /// `at`: the port that the call came in on, and its host.
    pub(crate) fn route<'t>(&self, at: (u16, Option<&[u8]>), target: &'t str) -> Option<Route<'t>> {
        self.routes.find(&self.services, at, target)
    }

    /// The same table with nothing but the services whose calls come in on this port, if there are any.
    pub(crate) fn at_port(&self, port: u16) -> Self {
        let is_there = |service: &&Arc<LiveService>| {
            service.transport() == Transport::Http && service.ports().contains(&port)
        };
        let services: Vec<_> = self.services.iter().filter(is_there).cloned().collect();
        let routes = Routes::new(&services).unwrap_or_default();
        Self { epoch: self.epoch, generation: self.generation, services, routes }
    }

    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.routes.index_of(name)
    }

    /// The service whose connections or datagrams come in on a port, of those of a transport other than HTTP.
    pub(crate) fn of_port(&self, transport: Transport, port: u16) -> Option<usize> {
        self.routes.of_port(transport, port)
    }

    /// Whether all that comes in on a port is for one service of a transport.
    pub(crate) fn has_port(&self, transport: Transport, port: u16) -> bool {
        self.routes.has_port(transport, port)
    }

    /// The service of TLS that callers of this name are for; `name` is in small letters.
    pub(crate) fn of_name(&self, name: &str) -> Option<usize> {
        self.routes.of_name(name)
    }

    /// Whether a version of this content has a share of a service's flows.
    pub(crate) fn gives_share(&self, service: &str, version: &Version) -> bool {
        let Some((_, service)) = self.service(service) else { return false };
        let named = service.versions.iter().zip(&*service.shares);
        named.into_iter().any(|(named, share)| *share > 0 && named.is_same_content(version))
    }

    /// How long flows of a service may stay with a variation that gets none any more, where that is said.
    pub(crate) fn drain_of(&self, service: &str) -> Option<Duration> {
        self.service(service)?.1.drain
    }

    /// Versions of this table that the next one doesn't name, with their services.
    pub(crate) fn not_named_by(&self, next: &Self) -> Vec<(Box<str>, Weak<Version>)> {
        let named: HashSet<*const Version> =
            next.services.iter().flat_map(|service| service.versions.iter().map(Arc::as_ptr)).collect();
        let mut gone = Vec::new();
        for service in &self.services {
            let not_named = service.versions.iter().filter(|version| !named.contains(&Arc::as_ptr(version)));
            gone.extend(not_named.map(|version| (service.name.clone(), Arc::downgrade(version))));
        }
        gone
    }

    fn service(&self, name: &str) -> Option<(usize, &Arc<LiveService>)> {
        self.routes.index_of(name).map(|index| (index, &self.services[index]))
    }

    fn has_content_of(&self, other: &Self) -> bool {
        self.form().services == other.form().services
    }

    /// The table as it travels and is kept.
    #[must_use]
    pub fn form(&self) -> TableForm {
        let services: Vec<_> = self.services.iter().map(|service| service.form()).collect();
        let format = format_of(&services);
        TableForm { format, epoch: self.epoch, generation: self.generation, services }
    }
}

impl LiveService {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path that leads here, where no host and no port does.
    pub(crate) fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    pub(crate) fn strips(&self) -> bool {
        self.strip
    }

    pub(crate) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// What comes in for it.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Ports all of whose calls lead here.
    #[must_use]
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Units of 0.01 %, a variation each.
    #[must_use]
    pub fn shares(&self) -> &Arc<[u16]> {
        &self.shares
    }

    /// What its shares are called in counts.
    #[must_use]
    pub fn split(&self) -> &str {
        &self.split
    }

    #[must_use]
    pub fn versions(&self) -> &[Arc<Version>] {
        &self.versions
    }

    /// When a call of this method is repeated.
    pub(crate) fn retry(&self, method: &str) -> Retry {
        self.retry.unwrap_or_else(|| Retry::default_for(method.as_bytes()))
    }

    pub(crate) fn sticky(&self) -> Option<&Sticky> {
        self.sticky.as_ref()
    }

    /// What each connection to its versions begins with.
    pub(crate) fn header(&self) -> Option<ProxyHeader> {
        self.versions[0].header()
    }

    pub(crate) fn shadow(&self) -> Option<ShadowRule> {
        self.shadow
    }

    pub(crate) fn choose(&self, call: &impl traffic::Call, draw: impl FnOnce() -> u64) -> traffic::Choice {
        let how = (self.rule.as_ref(), self.sticky.as_ref());
        traffic::choose((&self.table, self.function, &self.salt), how, call, draw)
    }
}

/// Whether a service can be called so.
#[must_use]
pub fn is_service_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}
