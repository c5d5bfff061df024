use std::collections::{BTreeMap, BTreeSet};

use super::{
    Fault, LAST_RESORT, MARK, Maps, backend, frontend,
    list::{Load, Server, loads, servers},
    maps::{Reading, number, reading},
    section::server_name,
};
use traffic::{
    desired::{Host, Target},
    observed::{ObservedConfig, SeenService, SeenTarget, SeenVariation},
};

/// What one process answered.
#[derive(Debug, Clone, Copy)]
pub struct ProcessReport<'a> {
    /// All that its maps of ours hold. Empty where it has none.
    pub maps: &'a Maps,
    /// To [`super::SHOW_SERVERS`].
    pub servers: &'a str,
    /// To [`super::SHOW_LOAD`].
    pub load: &'a str,
}

/// What the process does.
///
/// # Errors
///
/// An answer that makes no sense.
pub fn seen(said: ProcessReport<'_>) -> Result<ObservedConfig, Fault> {
    let servers: Vec<Server<'_>> =
        servers(said.servers)?.into_iter().filter(|server| server.backend.starts_with(MARK)).collect();
    let loads: Vec<Load<'_>> =
        loads(said.load)?.into_iter().filter(|load| load.proxy.starts_with(MARK)).collect();
    let mut variations: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
    for server in &servers {
        if let Some((service, variation)) = parts(server.backend) {
            let of = variations.entry(service).or_default();
            if !of.iter().any(|(id, _)| *id == server.backend_id) {
                of.push((server.backend_id, variation));
            }
        }
    }

    let mut seen = ObservedConfig { number: number(said.maps), ..ObservedConfig::default() };
    let mut ours: BTreeSet<String> = BTreeSet::from([backend("", "state")]);
    for (service, mut variations) in variations {
        variations.sort_unstable();
        let variations: Vec<&str> = variations.into_iter().map(|(_, name)| name).collect();
        let is_taken = loads.iter().any(|load| load.name == "FRONTEND" && load.proxy == frontend(service));
        let Some(reading) = reading(said.maps, service, &variations).filter(|_| is_taken) else { continue };
        let Reading { table, strange } = reading;
        seen.left_over.extend(strange);
        let of = variations.iter().zip(table.hundredths()).map(|(name, hundredths)| {
            let backend = backend(service, name);
            let targets = targets(&backend, &servers, &loads);
            SeenVariation { name: (*name).to_owned(), hundredths, targets }
        });
        let of = SeenService { variations: of.collect(), table: Some(table) };
        ours.insert(frontend(service));
        ours.extend(variations.iter().map(|name| backend(service, name)));
        seen.services.insert(service.to_owned(), of);
    }
    let strange = loads.iter().map(|load| load.proxy).filter(|proxy| !ours.contains(*proxy));
    let strange: BTreeSet<&str> = strange.collect();
    seen.left_over.extend(strange.into_iter().map(str::to_owned));
    Ok(seen)
}

/// The service and the variation of a backend of ours.
fn parts(backend: &str) -> Option<(&str, &str)> {
    backend.strip_prefix(MARK)?.split_once(':').filter(|(service, _)| !service.is_empty())
}

fn targets(backend: &str, servers: &[Server<'_>], loads: &[Load<'_>]) -> Vec<SeenTarget> {
    let of = |server: &Server<'_>| {
        let is_of = |load: &&Load<'_>, name: &str| {
            load.proxy == backend && load.name.strip_suffix(LAST_RESORT).unwrap_or(load.name) == name
        };
        let under_way = loads.iter().filter(|load| is_of(load, server.name)).map(|load| load.under_way);
        SeenTarget {
            target: target(server),
            is_healthy: server.is_healthy,
            connections: Some(under_way.sum()),
        }
    };
    let first =
        servers.iter().filter(|server| server.backend == backend && !server.name.ends_with(LAST_RESORT));
    first.map(of).collect()
}

/// What its name says, unless it leads elsewhere by now: that can be changed in a process that runs.
fn target(server: &Server<'_>) -> Target {
    let named = server.name.rsplit_once(':').and_then(|(host, port)| {
        let target = Target { host: host.parse().ok()?, port: port.parse().ok()? };
        (server_name(&target) == server.name).then_some(target)
    });
    let address = server.address.map(Host::Address);
    match named {
        Some(named) if named.port == server.port => match (&named.host, address) {
            (Host::Address(_), Some(address)) if address != named.host => {
                Target { host: address, port: named.port }
            }
            (Host::Address(_) | Host::Name(_), _) => named,
        },
        Some(Target { host, .. }) => Target { host: address.unwrap_or(host), port: server.port },
        None => {
            let host = address.unwrap_or_else(|| Host::Name(server.name.into()));
            Target { host, port: server.port }
        }
    }
}

/// How many calls and connections a variation has in the process that answered this to [`super::show_load_of`].
///
/// # Errors
///
/// An answer that makes no sense.
pub fn under_way(answer: &str, service: &str, variation: &str) -> Result<u64, Fault> {
    let backend = backend(service, variation);
    if answer.trim() == "No such proxy." {
        return Ok(0);
    }
    let of_backend = loads(answer)?.into_iter().find(|load| load.proxy == backend && load.name == "BACKEND");
    Ok(of_backend.map_or(0, |load| load.under_way))
}

/// How many calls and connections have ended that the process that answered this to [`super::SHOW_ENDED`] gave to variations.
///
/// # Errors
///
/// An answer that makes no sense.
pub fn ended(answer: &str) -> Result<u64, Fault> {
    let of_ours =
        loads(answer)?.into_iter().filter(|load| load.name == "BACKEND" && load.proxy.starts_with(MARK));
    Ok(of_ours.map(|load| load.ended).sum())
}
