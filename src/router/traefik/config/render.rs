use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use model::traffic::Socket;
use serde_json::{Map, Value, json};
use traffic::desired::{
    DesiredConfig, HeaderValue, Listen, Number, Protocol, Route, Rule, Service, StickyTo, Target, Variant,
};
use xxhash_rust::xxh64::xxh64;

use super::{NOWHERE, STATE, asked_name, service_name, variation_name};

/// The first line.
const HEAD: &str =
    "# Made by choirmaster; changes by hand are seen and undone. What is yours goes into another file.";

/// What begins the second one.
const DIGEST: &str = "# digest ";

/// More than any path has characters.
const NAMED: usize = 1_000;

/// The names of the entry points at each port.
pub type EntryPoints = BTreeMap<Socket, Vec<String>>;

/// What Traefik can't be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unable {
    #[error(
        "service {service} is to take calls at port {port}, and no entry point of {protocol} has it: it has {there}"
    )]
    NoEntryPoint { service: String, port: u16, protocol: &'static str, there: String },
    #[error(
        "the services {first} and {second} would both give the cookie {cookie} at a host, and Traefik writes into it which variation a user has: name another one"
    )]
    Cookie { first: String, second: String, cookie: String },
    #[error("service {service} is to keep users by {by}, and Traefik keeps them by a cookie alone")]
    Sticky { service: String, by: &'static str },
}

/// The whole file.
///
/// # Errors
///
/// The first service that can't be written so.
pub fn render(wanted: &DesiredConfig, entry_points: &EntryPoints) -> Result<String, Unable> {
    let mut file = File::default();
    let state = json!({"loadBalancer": {"servers": [{"url": format!("http://{}{NOWHERE}", wanted.number)}]}});
    file.http.services.insert(STATE.to_owned(), state);
    let is_alone = |routes: &[Route<'_>]| matches!(routes, [only] if only.listen.protocol != Protocol::Https && !only.listen.is_routed());
    let routes = wanted.routes();
    routes.values().try_for_each(|routes| check_cookies(routes))?;
    let routes = routes.into_iter();
    let alone = routes.filter_map(|(socket, routes)| is_alone(&routes).then_some(socket)).collect();
    for service in wanted.services() {
        file.add(service, &alone, entry_points)?;
    }
    let body = file.into_json();
    Ok(format!("{HEAD}\n{DIGEST}{:016x}\n{body}\n", xxh64(body.as_bytes(), 0)))
}

/// By which wanted state a file was written; none where somebody has changed it since, or it is none of ours.
#[must_use]
pub fn number_in(text: &str) -> Option<Number> {
    let rest = text.strip_prefix(HEAD)?.strip_prefix('\n')?.strip_prefix(DIGEST)?;
    let (digest, body) = rest.split_once('\n')?;
    let body = body.strip_suffix('\n')?;
    if digest != format!("{:016x}", xxh64(body.as_bytes(), 0)) {
        return None;
    }
    let file: Value = serde_json::from_str(body).ok()?;
    number_of(file["http"]["services"][STATE]["loadBalancer"]["servers"][0]["url"].as_str()?)
}

/// What Traefik reads of a file.
#[must_use]
pub fn body_of(text: &str) -> &str {
    text.trim_start_matches(|letter| letter != '{')
}

/// The number that an address names.
pub(super) fn number_of(url: &str) -> Option<Number> {
    url.strip_prefix("http://")?.strip_suffix(NOWHERE)?.parse().ok()
}

/// Routers and services of one protocol.
#[derive(Debug, Default)]
struct Section {
    routers: Map<String, Value>,
    services: Map<String, Value>,
}

#[derive(Debug, Default)]
struct File {
    http: Section,
    tcp: Section,
    udp: Section,
}

impl File {
    fn add(
        &mut self,
        service: &Service,
        alone: &BTreeSet<Socket>,
        entry_points: &EntryPoints,
    ) -> Result<(), Unable> {
        let protocol = service.protocol();
        let name = service.name.as_str();
        let cookie = match &service.sticky {
            None => None,
            Some(StickyTo::Cookie(cookie)) => Some(cookie.as_str()),
            Some(StickyTo::Header(_)) => {
                return Err(Unable::Sticky { service: name.to_owned(), by: "a header" });
            }
            Some(StickyTo::Address) => {
                return Err(Unable::Sticky { service: name.to_owned(), by: "their address" });
            }
        };
        let section = match protocol {
            Protocol::Http | Protocol::Https => &mut self.http,
            Protocol::Tcp => &mut self.tcp,
            Protocol::Udp => &mut self.udp,
        };
        let mut shares = Vec::new();
        for Variant { variation, hundredths, .. } in service.variants() {
            let of = variation_name(name, variation.name.as_str());
            section.services.insert(of.clone(), servers(protocol, &variation.targets));
            shares.push(json!({"name": of, "weight": hundredths}));
        }
        let mut weighted = json!({"services": shares});
        if let Some(cookie) = cookie {
            weighted["sticky"] = json!({"cookie": {"name": cookie}});
        }
        let own = service_name(name);
        section.services.insert(own.clone(), json!({"weighted": weighted}));
        for (_, which) in service.rule.iter().flat_map(|rule| &rule.values) {
            if let Some(asked) = service.variations.get(which.index()) {
                let of = asked_name(name, asked.name.as_str());
                section.services.insert(of, servers(protocol, &asked.targets));
            }
        }
        if service.listens.iter().any(|listen| !alone.contains(&listen.socket())) {
            self.add_routes(service, entry_points)?;
            return Ok(());
        }
        let at = entry_points_of(&service.listens, service, entry_points)?;
        let everything = match protocol {
            Protocol::Http | Protocol::Https => Some("PathPrefix(\"/\")"),
            Protocol::Tcp => Some("HostSNI(\"*\")"),
            Protocol::Udp => None,
        };
        let mut router = json!({"entryPoints": at, "service": own});
        if let Some(everything) = everything {
            router["rule"] = everything.into();
        }
        section.routers.insert(own.clone(), router);
        for (place, (value, which)) in service.rule.iter().flat_map(|rule| &rule.values).enumerate() {
            let (Some(rule), Some(asked)) = (&service.rule, service.variations.get(which.index())) else {
                continue;
            };
            let header = header_rule(rule, value);
            let router = json!({
                "entryPoints": at,
                "rule": format!("PathPrefix(\"/\") && {header}"),
                "service": asked_name(name, asked.name.as_str()),
            });
            section.routers.insert(format!("{own}:{place}"), router);
        }
        Ok(())
    }

    /// The routers of a service of which a port is shared or has TLS, each with a priority that says what comes first.
    fn add_routes(&mut self, service: &Service, entry_points: &EntryPoints) -> Result<(), Unable> {
        let own = service_name(service.name.as_str());
        for (place, listen) in service.listens.iter().enumerate() {
            let at = entry_points_of(std::slice::from_ref(listen), service, entry_points)?;
            let name = if place == 0 { own.clone() } else { format!("{own}:at{}", listen.port) };
            let rule = route_rule(listen);
            let mut add = |name: String, rule: &str, above: usize, to: String| {
                let priority = priority(listen) + above;
                let mut router =
                    json!({"entryPoints": at, "rule": rule, "priority": priority, "service": to});
                if listen.protocol == Protocol::Https {
                    router["tls"] = json!({});
                }
                self.http.routers.insert(name, router);
            };
            add(name.clone(), &rule, 0, own.clone());
            for (value_at, (value, which)) in service.rule.iter().flat_map(|rule| &rule.values).enumerate() {
                let (Some(asks), Some(asked)) = (&service.rule, service.variations.get(which.index())) else {
                    continue;
                };
                let both = format!("({rule}) && {}", header_rule(asks, value));
                let to = asked_name(service.name.as_str(), asked.name.as_str());
                add(format!("{name}:{value_at}"), &both, 1, to);
            }
        }
        Ok(())
    }

    /// A section without anything is refused.
    fn into_json(self) -> String {
        let mut file = Map::new();
        for (name, Section { routers, services }) in
            [("http", self.http), ("tcp", self.tcp), ("udp", self.udp)]
        {
            let parts = [("routers", routers), ("services", services)];
            let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
            let parts: Map<String, Value> =
                parts.map(|(name, part)| (name.to_owned(), part.into())).collect();
            if !parts.is_empty() {
                file.insert(name.to_owned(), parts.into());
            }
        }
        Value::from(file).to_string()
    }
}

fn servers(protocol: Protocol, targets: &[Target]) -> Value {
    let servers = targets.iter().map(|target| match protocol {
        Protocol::Http | Protocol::Https => json!({"url": format!("http://{target}")}),
        Protocol::Tcp | Protocol::Udp => json!({"address": target.to_string()}),
    });
    json!({"loadBalancer": {"servers": servers.collect::<Vec<_>>()}})
}

/// Whoever has a variation of one service by a cookie has none of another by the same.
fn check_cookies(routes: &[Route<'_>]) -> Result<(), Unable> {
    let mut given: BTreeMap<(&str, Option<&str>), &Service> = BTreeMap::new();
    // Those of whatever host come last.
    for route in routes {
        let Some(StickyTo::Cookie(cookie)) = &route.service.sticky else { continue };
        let cookie = cookie.as_str();
        let of_host = given.get(&(cookie, route.host)).copied();
        let mut of_others = given.range((cookie, None)..).take_while(|((of, _), _)| *of == cookie);
        let other = of_others.find(|(_, service)| service.name != route.service.name && route.host.is_none());
        let first = of_host.filter(|service| service.name != route.service.name);
        if let Some(first) = first.or(other.map(|(_, service)| *service)) {
            let names = [first, route.service].map(|service| service.name.to_string());
            let [first, second] = names;
            return Err(Unable::Cookie { first, second, cookie: cookie.to_owned() });
        }
        given.insert((cookie, route.host), route.service);
    }
    Ok(())
}

fn header_rule(rule: &Rule, value: &HeaderValue) -> String {
    format!("Header({}, {})", quoted(rule.name.as_str()), quoted(value.as_str()))
}

/// Of these calls. `PathPrefix` alone would have `/apix` for `/api`.
fn route_rule(listen: &Listen) -> String {
    let hosts: Vec<String> = listen.hosts.iter().map(|host| format!("Host({})", quoted(host))).collect();
    let path = match &listen.path {
        Some(path) => format!("Path({}) || PathPrefix({})", quoted(path), quoted(&format!("{path}/"))),
        None => "PathPrefix(\"/\")".to_owned(),
    };
    if hosts.is_empty() { path } else { format!("({}) && ({path})", hosts.join(" || ")) }
}

/// A named host before none, then the longer path; between two there is room for who asks by a header.
fn priority(listen: &Listen) -> usize {
    let host = if listen.hosts.is_empty() { 0 } else { NAMED };
    2 * (1 + host + listen.path.as_ref().map_or(0, String::len))
}

fn entry_points_of(
    listens: &[Listen],
    service: &Service,
    entry_points: &EntryPoints,
) -> Result<Vec<String>, Unable> {
    let mut found = Vec::new();
    for listen in listens {
        let Some(names) = entry_points.get(&listen.socket()) else {
            let there = entry_points.keys().filter(|socket| socket.is_udp == listen.protocol.is_udp());
            let there: Vec<String> = there.map(|socket| socket.port.to_string()).collect();
            return Err(Unable::NoEntryPoint {
                service: service.name.to_string(),
                port: listen.port,
                protocol: if listen.protocol.is_udp() { "UDP" } else { "TCP" },
                there: if there.is_empty() { "none".to_owned() } else { there.join(", ") },
            });
        };
        found.extend(names.iter().cloned());
    }
    Ok(found)
}

/// A text of a rule, in the quotes of Go.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(letter);
            }
            ' '..='~' => quoted.push(letter),
            // None of these is in a header's value; it would be no end of a text either.
            _ => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
        }
    }
    quoted.push('"');
    quoted
}
