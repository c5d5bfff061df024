//! What Traefik serves by its operator's own configuration, whichever provider it is from.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use traffic::desired::Protocol;

use super::{
    EntryPoints, MARK, RawData, RawRouter, RawService,
    observed::{LoadBalancer, Server},
};
use crate::adopt::{AdoptError, Adopted};

/// So many services that share calls out stand one below the other: Traefik itself has no bound.
const DEEPEST: u8 = 8;

/// One router of this name, and what it leads to.
///
/// # Errors
///
/// There is none, or it leads to no target.
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
    let mut beside = of_router(router, protocol);
    let provider = full.rsplit_once('@').map_or("", |(_, provider)| provider);
    let servers = servers_of(&router.service, (provider, 0), services, &mut beside);
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
    Ok(Adopted { name: name.to_owned(), listens, protocol, hosts: Vec::new(), path: None, targets, beside })
}

/// Ours, and Traefik's own.
fn is_hidden(name: &str) -> bool {
    name.starts_with(MARK) || name.ends_with("@internal")
}

fn of_router(router: &RawRouter, protocol: Protocol) -> Vec<String> {
    let everything = match protocol {
        Protocol::Http | Protocol::Https => "PathPrefix(`/`)",
        Protocol::Tcp => "HostSNI(`*`)",
        Protocol::Udp => "",
    };
    let mut beside = Vec::new();
    if router.rule != everything {
        beside.push(format!("the rule {}: a service takes all calls of its port", router.rule));
    }
    beside.extend(unusual(&router.more));
    beside
}

/// The servers of a service, and of those among which it shares its calls.
fn servers_of<'r>(
    name: &str,
    (provider, depth): (&str, u8),
    services: &'r BTreeMap<String, RawService>,
    beside: &mut Vec<String>,
) -> Vec<&'r Server> {
    let full = if name.contains('@') { name.to_owned() } else { format!("{name}@{provider}") };
    let Some(service) = services.get(&full).filter(|_| depth < DEEPEST) else { return Vec::new() };
    let mut list = |more: &Map<String, Value>| {
        beside.extend(unusual(more).map(|line| format!("{line} (of {name})")));
    };
    list(&service.more);
    if let Some(LoadBalancer { servers, more }) = &service.load_balancer {
        list(more);
        let strategy = more.get("strategy").and_then(Value::as_str).unwrap_or("wrr");
        if strategy != "wrr" {
            beside.push(format!("by the strategy {strategy} of {name} weights mean nothing"));
        }
        return servers.iter().collect();
    }
    let Some(weighted) = &service.weighted else { return Vec::new() };
    list(&weighted.more);
    let mut servers = Vec::new();
    for child in &weighted.services {
        beside.push(format!("the weight {} of {}", child.weight, child.name));
        servers.extend(servers_of(&child.name, (provider, depth + 1), services, beside));
    }
    servers
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
