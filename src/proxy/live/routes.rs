use std::{collections::HashMap, sync::Arc};

use super::table::{LiveService, Transport};

/// Which service a call is for.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    names: HashMap<Box<str>, usize>,
    hosts: HashMap<Box<str>, usize>,
    ports: HashMap<u16, usize>,
    /// Names that callers of TLS give, where that passes unopened.
    tls_names: HashMap<Box<str>, usize>,
    /// Ports of what isn't HTTP.
    flows: HashMap<(Transport, u16), usize>,
}

/// What leads to two services.
pub(super) enum Ambiguous {
    Host(String),
    Name(String),
    Port(u16),
}

/// A service, and what its version sees of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route<'t> {
    pub index: usize,
    pub target: &'t str,
    pub prefix: Option<&'t str>,
}

impl Routes {
    /// Refused are a host and a port that lead to two services.
    pub(super) fn new(services: &[Arc<LiveService>]) -> Result<Self, Ambiguous> {
        let mut routes = Self::default();
        for (index, service) in services.iter().enumerate() {
            routes.names.insert(service.name().into(), index);
            routes.add(index, service)?;
        }
        Ok(routes)
    }

    fn add(&mut self, index: usize, service: &LiveService) -> Result<(), Ambiguous> {
        let transport = service.transport();
        let is_http = transport == Transport::Http;
        let of_hosts = if is_http { &mut self.hosts } else { &mut self.tls_names };
        for host in service.hosts() {
            if of_hosts.insert(host.as_str().into(), index).is_some() {
                let host = host.clone();
                return Err(if is_http { Ambiguous::Host(host) } else { Ambiguous::Name(host) });
            }
        }
        for &port in service.ports() {
            // One of UDP and one of TCP have nothing in common but their number.
            let is_taken = if transport == Transport::Udp {
                self.flows.contains_key(&(Transport::Udp, port))
            } else {
                let of_tcp = [Transport::Tcp, Transport::Tls];
                self.ports.contains_key(&port)
                    || of_tcp.iter().any(|of| self.flows.contains_key(&(*of, port)))
            };
            if is_taken {
                return Err(Ambiguous::Port(port));
            }
            if is_http {
                self.ports.insert(port, index);
            } else {
                self.flows.insert((transport, port), index);
            }
        }
        Ok(())
    }

    pub(super) fn of_port(&self, transport: Transport, port: u16) -> Option<usize> {
        self.flows.get(&(transport, port)).copied()
    }

    /// Whether all that comes in on a port is for one service of a transport.
    pub(super) fn has_port(&self, transport: Transport, port: u16) -> bool {
        match transport {
            Transport::Http => self.ports.contains_key(&port),
            Transport::Tcp | Transport::Tls | Transport::Udp => self.of_port(transport, port).is_some(),
        }
    }

    pub(super) fn of_name(&self, name: &str) -> Option<usize> {
        self.tls_names.get(name).copied()
    }

    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The port that the call came in on decides where it is a service's, then the host, else the first part of the path.
    pub(super) fn find<'t>(
        &self,
        services: &[Arc<LiveService>],
        (port, host): (u16, Option<&[u8]>),
        target: &'t str,
    ) -> Option<Route<'t>> {
        if !self.ports.is_empty()
            && let Some(&index) = self.ports.get(&port)
        {
            return Some(Route { index, target, prefix: None });
        }
        if !self.hosts.is_empty()
            && let Some(index) = host.and_then(|host| self.of_host(host))
        {
            return Some(Route { index, target, prefix: None });
        }
        let below = target.strip_prefix('/')?;
        let end = below.find(['/', '?']).unwrap_or(below.len());
        let index = self.index_of(&below[..end])?;
        services[index].prefix()?;
        if !services[index].strips() {
            return Some(Route { index, target, prefix: None });
        }
        let (prefix, rest) = target.split_at(end + 1);
        let target = if rest.is_empty() { "/" } else { rest };
        Some(Route { index, target, prefix: Some(prefix) })
    }

    fn of_host(&self, host: &[u8]) -> Option<usize> {
        let host = std::str::from_utf8(host).ok()?;
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        self.hosts.get(name).or_else(|| self.hosts.get(name.to_ascii_lowercase().as_str())).copied()
    }
}
