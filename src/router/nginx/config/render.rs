//! The include, from what is wanted.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::SocketAddr,
};

use super::{
    FLIGHT_FIELD, FLIGHT_STEPS, Layout, asked_name, digest_of, flight, id_of, loaded, lookups,
    parts::{Part, noted},
    path,
    sites::{Listens, SharedPort, is_alone, sites},
    stream,
    text::{FIRST_LINE, FLIGHTS_ROOM, MOST_FLIGHTS, TRIES, Text, lanes, push_lanes},
    words,
};
use crate::log_line;
use model::traffic::Socket;
use traffic::{
    HashFunction,
    desired::{DesiredConfig, Listen, Name, Protocol, Rule, Service, StickyTo},
};

/// The include, but for the count of how often it was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Of all that stands in it.
    pub digest: String,
    pub places: Vec<Place>,
    /// What is to be included by servers of its operator's.
    pub parts: Vec<Part>,
    /// The file for services of TCP and UDP; none: there is no such service.
    pub stream: Option<String>,
    /// The ports at which servers of ours listen.
    pub listens: BTreeMap<Socket, Listens>,
    body: String,
}

/// Where the buckets of a service of HTTP are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub service: Name,
    pub id: String,
    /// Of all that the include has of the service.
    pub structure: String,
}

/// What nginx can't be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error(
        "service {0} takes TCP or UDP, and no address is set at which nginx is asked about such services: nginx.ask_stream"
    )]
    NoAnswers(Name),
    #[error("service {0} takes HTTPS, and no certificate is set: nginx.certificate and nginx.key")]
    Certificate(Name),
    #[error("port {0} takes HTTPS for whatever host, and each host has a certificate of its own: name hosts")]
    AnyHost(u16),
    #[error("service {0} draws users by another function than murmur2")]
    Function(Name),
    #[error("the services {0} and {1} would have the same id; give one of them another name")]
    Ids(Name, Name),
    #[error("service {service} is to have port {port}, at which the router answers questions of ours")]
    Port { service: Name, port: u16 },
}

/// Connections to a variation that a worker keeps while they are idle.
const IDLE_CONNECTIONS: u32 = 64;
/// Shorter than backends keep theirs (node: 5 s): else nginx would send a POST on one that is just being closed, and couldn't
/// repeat it.
const IDLE_SECONDS: u32 = 4;

/// The memory that all workers share, old ones too, in which each call that goes on stands under its variation.
const FLIGHTS: &str = "choirmaster_flights";
impl Rendered {
    /// The file, for the so-manyth time that it is loaded.
    #[must_use]
    pub fn text(&self, load: u64) -> String {
        let head = format!("{FIRST_LINE}# digest {} load {load}\n", self.digest);
        head + &self.body.replacen(&loaded("", 0), &loaded(&self.digest, load), 1)
    }
}

/// # Errors
///
/// What nginx can't do: see [`RenderError`].
pub fn render(wanted: &DesiredConfig, layout: &Layout) -> Result<Rendered, RenderError> {
    let mut body = String::new();
    let mut places = Vec::new();
    let mut ids = BTreeMap::new();
    let (of_http, without_http): (Vec<&Service>, Vec<&Service>) =
        wanted.services().iter().partition(|service| service.protocol().is_http());
    body.push_str("map $http_upgrade $cm_connection { default upgrade; \"\" \"\"; }\n");
    body.push_str("map $http_host $cm_host { default $http_host; \"\" $host; }\n");
    let _ = writeln!(body, "limit_conn_zone $cm_flight zone={FLIGHTS}:{FLIGHTS_ROOM};");
    let lanes = lanes(wanted.services().len());
    if layout.log.is_some() {
        push_lanes(&mut body, lanes, "$msec$connection.$connection_requests", None);
    }
    let routes = wanted.routes();
    let alone: BTreeSet<u16> =
        routes.iter().filter_map(|(socket, routes)| is_alone(routes).then_some(socket.port)).collect();
    // Where nobody is asked, nobody listens.
    let ask_stream = layout.ask_stream.filter(|_| !without_http.is_empty());
    let asked_at = [Some(layout.ask), ask_stream].map(|at| at.map(|at| at.port()));
    for service in wanted.services() {
        check(service, layout, asked_at)?;
        if let Some(first) = ids.insert(id_of(service.name.as_str()), &service.name) {
            return Err(RenderError::Ids(first.clone(), service.name.clone()));
        }
    }
    for service in of_http.iter().copied() {
        let id = id_of(service.name.as_str());
        let text = |structure: &str| Text::of(service, (layout, lanes), &id, (structure, &alone)).0;
        let structure = digest_of(&text(""));
        body.push_str(&text(&structure));
        places.push(Place { service: service.name.clone(), id, structure });
    }
    // Sessions are among what it counts as connections, and not among its calls: whose lines are lost can't be told then.
    let tells_total = without_http.is_empty();
    push_own_server(&mut body, (layout, lanes), (&of_http, tells_total), &places);
    let plain = Listens { is_named: false, is_secured: false };
    let of_tcp = |port| Socket { port, is_udp: false };
    let mut listens: BTreeMap<Socket, Listens> =
        alone.into_iter().map(|port| (of_tcp(port), plain)).collect();
    let at = without_http.iter().flat_map(|service| &service.listens);
    listens.extend(at.map(|listen| (listen.socket(), plain)));
    let by_name: BTreeMap<&Name, &Place> = places.iter().map(|place| (&place.service, place)).collect();
    let mut parts = Vec::new();
    for port in sites(wanted) {
        push_sites(&mut body, &port, (layout, lanes), &by_name, &mut parts)?;
        let mut whole = port.sites.iter().filter(|site| site.is_whole()).peekable();
        if whole.peek().is_some() {
            let is_named = whole.all(|site| !site.hosts.is_empty());
            listens.insert(of_tcp(port.port), Listens { is_named, is_secured: port.is_secured });
        }
    }
    let stream = stream::render(&without_http, layout, lanes);
    body.push_str(&stream::commented(stream.as_deref()));
    body.push_str(&noted(&parts));
    Ok(Rendered { digest: digest_of(&body), places, parts, stream, listens, body })
}

/// The servers of a port that services share, and what servers of its operator's are to include.
fn push_sites(
    body: &mut String,
    SharedPort { port, is_secured, sites }: &SharedPort<'_>,
    (layout, lanes): (&Layout, usize),
    places: &BTreeMap<&Name, &Place>,
    parts: &mut Vec<Part>,
) -> Result<(), RenderError> {
    let mut text = Text(String::new());
    for site in sites {
        let mut locations = Text(String::new());
        for (path, service) in &site.paths {
            let Some(Place { id, structure, .. }) = places.get(&service.name) else { continue };
            let heads = path.map_or_else(
                || vec!["/".to_owned()],
                |path| vec![format!("= {path}"), format!("^~ {path}/")],
            );
            for head in heads {
                locations.line(&format!("    location {head} {{"));
                locations.line("        open_file_cache off;");
                if let Some(log) = &layout.log {
                    locations.access_logs(log, &format!("cm_{id}"), lanes);
                }
                locations.location(service, layout, id, structure);
            }
        }
        if !site.is_whole() {
            let hosts = site.hosts.iter().map(|host| Some((*host).to_owned()));
            let whatever = site.hosts.is_empty().then_some(None);
            let part = |host| Part { host, port: *port, text: locations.0.clone() };
            parts.extend(hosts.chain(whatever).map(part));
            continue;
        }
        let certificate = layout.certificate.as_ref().filter(|_| *is_secured);
        if !certificate.is_some_and(super::Certificate::is_each) {
            text.site((*port, certificate.map(|one| one.of(""))), &site.hosts, (layout, lanes), &locations.0);
            continue;
        }
        if site.hosts.is_empty() {
            return Err(RenderError::AnyHost(*port));
        }
        for host in &site.hosts {
            text.site((*port, certificate.map(|one| one.of(host))), &[host], (layout, lanes), &locations.0);
        }
    }
    body.push_str(&text.0);
    Ok(())
}

/// `asked_at`: the ports at which servers of ours answer.
fn check(service: &Service, layout: &Layout, asked_at: [Option<u16>; 2]) -> Result<(), RenderError> {
    let name = || service.name.clone();
    if !service.protocol().is_http() && layout.ask_stream.is_none() {
        return Err(RenderError::NoAnswers(name()));
    }
    if service.protocol() == Protocol::Https && layout.certificate.is_none() {
        return Err(RenderError::Certificate(name()));
    }
    if service.hash != HashFunction::Murmur2 {
        return Err(RenderError::Function(name()));
    }
    let mut of_tcp = service.listens.iter().filter(|listen| !listen.protocol.is_udp());
    match of_tcp.find(|listen| asked_at.contains(&Some(listen.port))) {
        Some(listen) => Err(RenderError::Port { service: name(), port: listen.port }),
        None => Ok(()),
    }
}

/// What the include has of a service of HTTP.
impl Text {
    fn of(
        service: &Service,
        (layout, lanes): (&Layout, usize),
        id: &str,
        (structure, alone): (&str, &BTreeSet<u16>),
    ) -> Self {
        let mut text = Self(format!("\n# service {}\n", service.name));
        text.key(service, id);
        let digits = [format!("$cm_{id}_h"), format!("$cm_{id}_l")];
        text.split(&format!("{}${{cm_{id}_key}}", service.salt), digits.each_ref().map(String::as_str));
        text.names(&service.variations, id, "$proxy_host");
        if layout.log.is_some() {
            text.log_format(service, id);
        }
        if let Some(rule) = &service.rule {
            text.rule(rule, id);
        }
        for (at, variation) in service.variations.iter().enumerate() {
            text.upstream(variation, id, at);
            text.line(&format!(
                "    keepalive {IDLE_CONNECTIONS};\n    keepalive_timeout {IDLE_SECONDS}s;\n}}"
            ));
        }
        let (own, shared): (Vec<&Listen>, _) =
            service.listens.iter().partition(|listen| alone.contains(&listen.port));
        if !own.is_empty() {
            text.server(service, &own, (layout, lanes), (id, structure));
        }
        if !shared.is_empty() {
            // For whoever reads what it takes: nothing asks for it.
            let ports: Vec<String> = shared.iter().map(|listen| listen.port.to_string()).collect();
            text.line(&format!("map $host $cm_{id}_ports {{ default \"{}\"; }}", ports.join(" ")));
        }
        text
    }

    /// What calls are known by, and the cookie for those who bring none.
    fn key(&mut self, service: &Service, id: &str) {
        match &service.sticky {
            None => self.line(&format!("map $request_id $cm_{id}_key {{ default $request_id; }}")),
            Some(StickyTo::Address) => {
                self.line(&format!("map $remote_addr $cm_{id}_key {{ default $remote_addr; }}"));
            }
            Some(StickyTo::Header(name)) => {
                let variable = header_variable(name.as_str());
                self.line(&format!(
                    "map {variable} $cm_{id}_key {{ default {variable}; \"\" $request_id; }}"
                ));
            }
            Some(StickyTo::Cookie(name)) => {
                let name = name.as_str();
                let cookie = self.cookie(name, id);
                self.line(&format!("map {cookie} $cm_{id}_key {{ default {cookie}; \"\" $request_id; }}"));
                // Who asks for a variation isn't part of the split and is given none.
                let asks = service.rule.as_ref().map(|_| format!("$cm_{id}_rule")).unwrap_or_default();
                self.line(&format!(
                    "map \"{asks}{cookie}\" $cm_{id}_new {{ default \"\"; \"\" \"{name}=$request_id; Path=/; HttpOnly; \
                     SameSite=Lax\"; }}"
                ));
            }
        }
    }

    /// The variable that has the value of this cookie. That of nginx costs less than a pattern, and can't have a `-` in it.
    fn cookie(&mut self, name: &str, id: &str) -> String {
        if !name.contains('-') {
            return format!("$cookie_{name}");
        }
        let mut pattern = String::new();
        name.bytes().for_each(|byte| words::push_literal(&mut pattern, byte));
        self.line(&format!(
            "map $http_cookie $cm_{id}_cookie {{ default \"\"; \"~(?:^|;)[ \\x09]*{pattern}=([^;]*)\" $1; }}"
        ));
        format!("$cm_{id}_cookie")
    }

    /// What a line of a call is: see [`line`].
    fn log_format(&mut self, service: &Service, id: &str) {
        let bucket = service.sticky.as_ref().map(|_| format!("$cm_{id}_h$cm_{id}_l")).unwrap_or_default();
        let rule = service.rule.as_ref().map(|_| format!("$cm_{id}_rule")).unwrap_or_default();
        let (form, name) = (log_line::FORM, &service.name);
        self.line(&format!(
            "log_format cm_{id} '{form}|{}|{name}|$cm_{id}_name|{bucket}|{rule}|$cm_{id}_at|$status|$upstream_status|'\n    \
             '$upstream_connect_time|$upstream_header_time|$upstream_response_time|$upstream_response_length|'\n    \
             '$body_bytes_sent|$request_completion|$upstream_addr|$request_method|$upstream_http_content_length';",
            log_line::NGINX
        ));
    }

    fn rule(&mut self, rule: &Rule, id: &str) {
        let variable = header_variable(rule.name.as_str());
        self.line(&format!("map {variable} $cm_{id}_rule {{\n    default \"\";"));
        for (at, (value, _)) in rule.values.iter().enumerate() {
            self.line(&format!("    {} {};", words::exactly(value.as_str()), asked_name(at)));
        }
        self.line("}");
    }

    /// That of ports which it has alone.
    fn server(
        &mut self,
        service: &Service,
        listens: &[&Listen],
        (layout, lanes): (&Layout, usize),
        (id, structure): (&str, &str),
    ) {
        self.line("server {");
        for listen in listens {
            for address in &layout.listen_on {
                self.line(&format!("    listen {};", SocketAddr::new(*address, listen.port)));
            }
        }
        self.line("    open_file_cache off;");
        if let Some(log) = &layout.log {
            self.access_logs(log, &format!("cm_{id}"), lanes);
        }
        self.line("    location / {");
        self.location(service, layout, id, structure);
        self.line("}");
    }

    /// A server of hosts at a port that services share; none: of whatever host.
    fn site(
        &mut self,
        (port, certificate): (u16, Option<(String, String)>),
        hosts: &[&str],
        (layout, lanes): (&Layout, usize),
        locations: &str,
    ) {
        self.line("server {");
        let default = if hosts.is_empty() { " default_server" } else { "" };
        let ssl = if certificate.is_some() { " ssl" } else { "" };
        for address in &layout.listen_on {
            self.line(&format!("    listen {}{default}{ssl};", SocketAddr::new(*address, port)));
        }
        if let Some((certificate, key)) = certificate {
            self.line(&format!("    ssl_certificate \"{certificate}\";\n    ssl_certificate_key \"{key}\";"));
        }
        if let Some(log) = layout.log.as_ref().filter(|log| log.is_alone) {
            // What is no service's is counted as calls by it, too.
            self.access_logs(log, "cm_question", lanes);
        }
        if !hosts.is_empty() {
            self.line(&format!("    server_name {};", hosts.join(" ")));
            // The first server of a port gets whatever nobody names.
            let mut pattern = String::new();
            for (at, host) in hosts.iter().enumerate() {
                pattern.push_str(if at == 0 { "^(?:" } else { "|" });
                host.bytes().for_each(|byte| words::push_literal(&mut pattern, byte));
            }
            self.line(&format!("    if ($host !~ \"{pattern})\\z\") {{ return 404; }}"));
        }
        self.0.push_str(locations);
        self.line("}");
    }

    /// What stands in a location, and its end.
    fn location(&mut self, service: &Service, layout: &Layout, id: &str, structure: &str) {
        if layout.log.is_some() {
            self.line(&format!("        set $cm_{id}_at $msec;"));
        }
        // It holds nobody up: what is beyond it passes all the same.
        self.line(&format!("        limit_conn {FLIGHTS} {MOST_FLIGHTS};\n        limit_conn_dry_run on;"));
        let to = |which: u8| {
            let name = service.variations.get(usize::from(which)).map_or("", |one| one.name.as_str());
            (format!("set $cm_flight {};", flight(id, name)), format!("proxy_pass http://cm_{id}_{which};"))
        };
        let (flight, pass) = to(0);
        self.line(&format!("        {flight}"));
        for folder in lookups(service.variations.len()) {
            let file = file(layout, id, structure, folder);
            let (flight, pass) = to(folder);
            self.line(&format!("        if (-f \"{file}\") {{ {flight} {pass} }}"));
        }
        if service.rule.is_some() {
            let folder = format!("{}/{id}/{structure}/{}", layout.folder, path::ASKED);
            for which in 0..service.variations.len() as u8 {
                let (flight, pass) = to(which);
                self.line(&format!(
                    "        if (-f \"{folder}/{which}/$cm_{id}_rule\") {{ {flight} {pass} }}"
                ));
            }
        }
        self.line(&format!("        {pass}"));
        self.passing(service, id);
        self.line("    }");
    }

    fn passing(&mut self, service: &Service, id: &str) {
        self.line("        proxy_http_version 1.1;");
        for (name, value) in [
            ("Host", "$cm_host"),
            ("Connection", "$cm_connection"),
            ("Upgrade", "$http_upgrade"),
            ("X-Forwarded-For", "$proxy_add_x_forwarded_for"),
            ("X-Forwarded-Proto", "$scheme"),
        ] {
            self.line(&format!("        proxy_set_header {name} {value};"));
        }
        // Of calls that may have reached a target, only those whose method may be repeated go to another one.
        self.line("        proxy_next_upstream error timeout;");
        self.line(&format!("        proxy_next_upstream_tries {TRIES};"));
        self.line(&format!("        add_header X-Choirmaster-Version $cm_{id}_name always;"));
        if matches!(service.sticky, Some(StickyTo::Cookie(_))) {
            self.line(&format!("        add_header Set-Cookie $cm_{id}_new always;"));
        }
    }
}

/// The server that says what is loaded.
fn push_own_server(
    body: &mut String,
    (layout, lanes): (&Layout, usize),
    (services, tells_total): (&[&Service], bool),
    places: &[Place],
) {
    let mut text = Text(String::from("\n"));
    let log = layout.log.as_ref().filter(|log| log.is_alone);
    if log.is_some() {
        text.line(&format!("log_format cm_question '{}|{}';", log_line::FORM, log_line::QUESTION));
    }
    text.line(&format!("server {{\n    listen {};", layout.ask));
    match log {
        // It counts these questions as calls.
        Some(log) => text.access_logs(log, "cm_question", lanes),
        None => text.line("    access_log off;"),
    }
    text.line("    open_file_cache off;\n    default_type text/plain;");
    if tells_total && log.is_some() {
        text.line(&format!("    location = {} {{ stub_status; }}", path::TOTAL));
    }
    text.line("    location / { return 404; }");
    text.line(&format!("    location = {} {{ return 200 \"{}\\n\"; }}", path::LOADED, loaded("", 0)));
    let number = format!("{}/{}", layout.folder, path::NUMBER_FILE);
    text.line(&format!("    location = {} {{ alias \"{number}\"; }}", path::NUMBER));
    for (at, least) in FLIGHT_STEPS.iter().enumerate() {
        text.line(&format!("    location = {} {{", path::flights(at)));
        text.line("        set $cm_flight $arg_of;");
        text.line(&format!("        limit_conn {FLIGHTS} {least};\n        limit_conn_dry_run on;"));
        text.line("        limit_conn_log_level info;");
        text.line(&format!("        alias \"{number}\";"));
        text.line(&format!("        add_header {FLIGHT_FIELD} $limit_conn_status always;\n    }}"));
    }
    for (service, Place { service: name, id, structure }) in services.iter().zip(places) {
        text.line(&format!("    location = /choirmaster/of/{id} {{"));
        text.line(&format!("        set $cm_{id}_key $arg_key;\n        set $cm_of 0;"));
        for folder in lookups(service.variations.len()) {
            let file = file(layout, id, structure, folder);
            text.line(&format!("        if (-f \"{file}\") {{ set $cm_of {folder}; }}"));
        }
        text.line(&format!(
            "        return 200 \"{name} {structure} $cm_of $cm_{id}_h$cm_{id}_l\\n\";\n    }}"
        ));
    }
    text.line("}");
    body.push_str(&text.0);
}

/// The file that a call looks for.
fn file(layout: &Layout, id: &str, structure: &str, folder: u8) -> String {
    format!("{}/{id}/{structure}/{folder}/$cm_{id}_h$cm_{id}_l", layout.folder)
}

fn header_variable(name: &str) -> String {
    format!("$http_{}", name.to_ascii_lowercase().replace('-', "_"))
}
