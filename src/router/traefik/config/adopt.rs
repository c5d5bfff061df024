//! What Traefik serves by its operator's own configuration, whichever provider it is from.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use traffic::desired::{Protocol, is_host, is_path};

use super::{
    EntryPoints, MARK, RawData, RawService,
    observed::{LoadBalancer, Server},
};
use crate::adopt::{AdoptError, Adopted};

/// By these the light one of two servers gets what the other has no room for, whatever its weight.
const UNWEIGHTED: [&str; 2] = ["p2c", "leasttime"];

/// So many services that share calls out stand one below the other: Traefik itself has no bound.
const DEEPEST: u8 = 8;

/// One router of this name, and what it leads to.
///
/// # Errors
///
/// There is none, it leads to no target, or by an algorithm that has no weights.
pub fn adopt(raw: &RawData, entry_points: &EntryPoints, name: &str) -> Result<Adopted, AdoptError> {
    let parts = [
        (Protocol::Http, &raw.routers, &raw.services),
        (Protocol::Tcp, &raw.tcp_routers, &raw.tcp_services),
        (Protocol::Udp, &raw.udp_routers, &raw.udp_services),
    ];
    let is_it = |full: &str| full == name || full.rsplit_once('@').is_some_and(|(short, _)| short == name);
    let found = parts.iter().find_map(|(protocol, routers, services)| {
        let (full, router) = routers.iter().find(|(full, _)| is_it(full) && !is_hidden(full))?;
        Some((*protocol, full, router, *services))
    });
    let Some((protocol, full, router, services)) = found else {
        let known = parts.iter().flat_map(|(_, routers, _)| routers.keys()).filter(|name| !is_hidden(name));
        return Err(AdoptError::Unknown { name: name.to_owned(), known: known.cloned().collect() });
    };
    let is_secured = protocol == Protocol::Http && router.more.contains_key("tls");
    let protocol = if is_secured { Protocol::Https } else { protocol };
    let mut beside = Vec::new();
    let Part { hosts, path } = part_of(&router.rule, protocol).unwrap_or_else(|| {
        beside.push(format!("the rule {}: a service has hosts, and one path with all below it", router.rule));
        Part::default()
    });
    if let Some(path) = &path {
        beside
            .push(format!("PathPrefix(`{path}`) has {path}x, too, and the service only {path} and {path}/x"));
    }
    beside.extend(unusual(&router.more));
    let provider = full.rsplit_once('@').map_or("", |(_, provider)| provider);
    let servers = servers_of(&router.service, (provider, 0), services, &mut beside)
        .map_err(|algorithm| AdoptError::Algorithm { name: name.to_owned(), algorithm })?;
    let mut targets = Vec::new();
    for server in servers {
        beside.extend(server.more.iter().map(|(key, value)| format!("{key} of a server: {value}")));
        match server.target() {
            Some(target) if !targets.contains(&target) => targets.push(target),
            Some(_) => {}
            None => beside.push(format!("the server {}{}", server.url, server.address)),
        }
    }
    if targets.is_empty() {
        return Err(AdoptError::NoTargets { name: name.to_owned() });
    }
    let ports =
        entry_points.iter().filter(|(_, names)| names.iter().any(|one| router.entry_points.contains(one)));
    let listens: BTreeSet<_> = ports.map(|(socket, _)| (None, socket.port)).collect();
    Ok(Adopted { name: name.to_owned(), listens, protocol, hosts, path, targets, beside })
}

/// Ours, and Traefik's own.
fn is_hidden(name: &str) -> bool {
    name.starts_with(MARK) || name.ends_with("@internal")
}

/// A part of a port.
#[derive(Debug, Default)]
struct Part {
    hosts: Vec<String>,
    path: Option<String>,
}

/// Which part a rule takes: all, or `Host(..) || Host(..)`, or `PathPrefix(..)`, or both. None: another.
fn part_of(rule: &str, protocol: Protocol) -> Option<Part> {
    match protocol {
        Protocol::Http | Protocol::Https => {}
        Protocol::Tcp => return (rule == "HostSNI(`*`)").then(Part::default),
        Protocol::Udp => return rule.is_empty().then(Part::default),
    }
    let (mut hosts, mut path) = (Vec::new(), None);
    for term in rule.split("&&").map(str::trim) {
        let whole = term.strip_prefix('(').and_then(|term| term.strip_suffix(')')).unwrap_or(term);
        if let Some(prefix) = matched(whole, "PathPrefix").filter(|_| path.is_none()) {
            let prefix = prefix.trim_end_matches('/');
            if !prefix.is_empty() && !is_path(prefix) {
                return None;
            }
            path = Some(prefix);
        } else if hosts.is_empty() {
            let named = whole.split("||").map(|one| matched(one.trim(), "Host").filter(|host| is_host(host)));
            hosts = named.map(|host| host.map(str::to_owned)).collect::<Option<_>>()?;
        } else {
            return None;
        }
    }
    Some(Part { hosts, path: path.filter(|path| !path.is_empty()).map(str::to_owned) })
}

/// What a matcher of this name is given, in either of the quotes that rules have.
fn matched<'r>(term: &'r str, name: &str) -> Option<&'r str> {
    let given = term.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?;
    let within = |quote: char| given.strip_prefix(quote)?.strip_suffix(quote);
    within('`').or_else(|| within('"')).filter(|given| !given.contains(['`', '"']))
}

/// The servers of a service, and of those among which it shares its calls; or by what these are shared out, where that has no weights.
fn servers_of<'r>(
    name: &str,
    (provider, depth): (&str, u8),
    services: &'r BTreeMap<String, RawService>,
    beside: &mut Vec<String>,
) -> Result<Vec<&'r Server>, String> {
    let full = if name.contains('@') { name.to_owned() } else { format!("{name}@{provider}") };
    let Some(service) = services.get(&full).filter(|_| depth < DEEPEST) else { return Ok(Vec::new()) };
    let mut list = |more: &Map<String, Value>| {
        beside.extend(unusual(more).map(|line| format!("{line} (of {name})")));
    };
    list(&service.more);
    if let Some(LoadBalancer { servers, more }) = &service.load_balancer {
        list(more);
        let strategy = more.get("strategy").and_then(Value::as_str).unwrap_or("wrr");
        if UNWEIGHTED.contains(&strategy) {
            return Err(format!("the strategy {strategy}"));
        }
        return Ok(servers.iter().collect());
    }
    let Some(weighted) = &service.weighted else { return Ok(Vec::new()) };
    list(&weighted.more);
    let mut servers = Vec::new();
    for child in &weighted.services {
        beside.push(format!("the weight {} of {}", child.weight, child.name));
        servers.extend(servers_of(&child.name, (provider, depth + 1), services, beside)?);
    }
    Ok(servers)
}

/// What an operator has written of it, a line each.
fn unusual(more: &Map<String, Value>) -> impl Iterator<Item = String> {
    more.iter().filter(|(key, value)| !is_usual(key, value)).map(|(key, value)| format!("{key}: {value}"))
}

/// Traefik fills this in by itself, or tells how something stands.
fn is_usual(key: &str, value: &Value) -> bool {
    match key {
        "observability" | "priority" | "using" | "usedBy" | "serverStatus" => true,
        "passHostHeader" => *value == json!(true),
        "strategy" => *value == json!("wrr"),
        "ruleSyntax" => *value == json!("default"),
        "responseForwarding" => *value == json!({"flushInterval": "100ms"}),
        _ => false,
    }
}
