//! Which host has which paths of whose, at ports that services share.

use std::collections::BTreeMap;

use traffic::desired::{DesiredConfig, Protocol, Route, Service};

/// How servers of ours listen at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listens {
    /// Only for hosts that services name: others are somebody else's.
    pub is_named: bool,
    pub is_secured: bool,
}

/// A port of them.
pub struct SharedPort<'c> {
    pub port: u16,
    pub is_secured: bool,
    pub sites: Vec<Site<'c>>,
}

/// Hosts at it whose paths are the same services'.
pub struct Site<'c> {
    /// None: whatever host has no site of its own.
    pub hosts: Vec<&'c str>,
    /// The longest first; none is the rest.
    pub paths: Vec<(Option<&'c str>, &'c Service)>,
}

impl Site<'_> {
    /// Whether all its calls are services'.
    pub fn is_whole(&self) -> bool {
        self.paths.iter().any(|(path, _)| path.is_none())
    }
}

/// Whether a port is one service's, which takes everything there, without TLS.
pub fn is_alone(routes: &[Route<'_>]) -> bool {
    matches!(routes, [only] if only.listen.protocol == Protocol::Http && !only.listen.is_routed())
}

/// Of all other ports of HTTP.
pub fn sites(wanted: &DesiredConfig) -> Vec<SharedPort<'_>> {
    let is_http = |routes: &[Route<'_>]| routes.iter().all(|route| route.listen.protocol.is_http());
    let all = wanted.routes().into_iter().filter(|(_, routes)| is_http(routes) && !is_alone(routes));
    all.map(|(socket, routes)| SharedPort {
        port: socket.port,
        is_secured: routes.iter().any(|route| route.listen.protocol == Protocol::Https),
        sites: of_port(&routes),
    })
    .collect()
}

fn of_port<'c>(routes: &[Route<'c>]) -> Vec<Site<'c>> {
    let mut hosts: BTreeMap<Option<&str>, Vec<&Route<'c>>> = BTreeMap::new();
    for route in routes {
        hosts.entry(route.host).or_default().push(route);
    }
    let of_all = hosts.get(&None).cloned().unwrap_or_default();
    let mut sites: Vec<Site<'c>> = Vec::new();
    for (host, own) in hosts {
        let covers = |route: &&Route<'c>| own.iter().any(|one| begins(route.path, one.path));
        let rest = of_all.iter().copied().filter(|route| host.is_some() && !covers(route));
        let mut paths: Vec<_> = own.iter().copied().chain(rest).map(|it| (it.path, it.service)).collect();
        paths.sort_by_key(|(path, _)| std::cmp::Reverse((path.map_or(0, str::len), *path)));
        let key = |paths: &[(Option<&'c str>, &'c Service)]| -> Vec<_> {
            paths.iter().map(|(path, service)| (*path, service.name.clone())).collect()
        };
        let same = sites.iter_mut().find(|site| !site.hosts.is_empty() && key(&site.paths) == key(&paths));
        match (host, same) {
            (Some(host), Some(site)) => site.hosts.push(host),
            (host, _) => sites.push(Site { hosts: host.into_iter().collect(), paths }),
        }
    }
    sites
}

/// Whether a path is below another one, or the same.
fn begins(path: Option<&str>, with: Option<&str>) -> bool {
    match (path, with) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(path), Some(with)) => {
            path.strip_prefix(with).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
    }
}
