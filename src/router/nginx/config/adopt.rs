//! What nginx does for a service by its operator's configuration, from what `nginx -T` prints.

use std::{collections::BTreeSet, net::IpAddr};

use super::{
    STREAM_ENDING,
    words::{self, Directive},
};
use crate::adopt::{AdoptError, Adopted};
use model::traffic::Socket;
use traffic::desired::{Protocol, Target, is_host, is_path};

/// What a file begins with in what nginx prints.
const FILE: &str = "# configuration file ";

/// Directives of a server or its locations that a service has as well.
const PLAIN: [&str; 4] = ["listen", "server_name", "location", "proxy_pass"];

/// And those that it has with these words alone.
const ALIKE: [&[&str]; 10] = [
    &["proxy_http_version", "1.1"],
    &["proxy_set_header", "Host", "$host"],
    &["proxy_set_header", "Host", "$http_host"],
    &["proxy_set_header", "X-Forwarded-For", "$proxy_add_x_forwarded_for"],
    &["proxy_set_header", "X-Forwarded-Proto", "$scheme"],
    &["proxy_set_header", "Upgrade", "$http_upgrade"],
    &["proxy_set_header", "Connection", "upgrade"],
    &["proxy_set_header", "Connection", ""],
    &["proxy_set_header", "Connection", "$connection_upgrade"],
    &["keepalive", "64"],
];

/// What a location doesn't inherit that has its own.
const NOT_INHERITED: [&str; 3] = ["add_header", "proxy_set_header", "access_log"];

/// By these the light one of two gets what the other has no room for, whatever its weight.
const ALGORITHMS: [&[&str]; 3] = [&["least_conn"], &["least_time"], &["random", "two"]];

/// The service of this name, which is a `server_name`, one with a path as in `shop.example/api`, an `upstream`, or a port, in what `nginx -T` printed. `ours` is the file that is
/// led, in which nothing is looked for.
///
/// # Errors
///
/// No such service, one without targets or by an algorithm that has no weights, or what can't be read.
pub fn adopt(printed: &str, ours: &str, name: &str) -> Result<Adopted, AdoptError> {
    let files = files(printed).into_iter().filter(|(path, _)| !is_ours(path, ours));
    let mut all = Vec::new();
    for (path, text) in files {
        let read = words::read(text).ok_or_else(|| AdoptError::Unreadable(path.to_owned()))?;
        all.extend(read);
    }
    let (mut servers, mut upstreams) = (Vec::new(), Vec::new());
    collect(&all, "server", &mut servers);
    collect(&all, "upstream", &mut upstreams);
    let servers: Vec<&Directive> = servers.into_iter().filter(|server| !server.block.is_empty()).collect();
    let (host, of_path) = match name.split_once('/') {
        Some((host, path)) if !host.is_empty() => (host, Some(format!("/{path}"))),
        _ => (name, None),
    };
    let is_it = |server: &&&Directive| {
        names(server).any(|one| one == host)
            || listens(server).iter().any(|(_, port)| port.to_string() == host)
            || passing(server).iter().any(|place| place.host == host)
    };
    let Some(server) = servers.iter().find(is_it) else {
        let known = servers.iter().flat_map(|server| {
            names(server)
                .map(str::to_owned)
                .chain(listens(server).into_iter().map(|(_, port)| port.to_string()))
        });
        let known: BTreeSet<String> = known.filter(|name| name != "_" && !name.is_empty()).collect();
        return Err(AdoptError::Unknown { name: name.to_owned(), known: known.into_iter().collect() });
    };
    let mut places = passing(server);
    // Of an upstream, or a path, only what leads there.
    if places.iter().any(|place| place.host == host) {
        places.retain(|place| place.host == host);
    }
    if let Some(path) = &of_path {
        places.retain(|place| place.path().as_deref() == Some(path));
    }
    let mut found = Found::default();
    if places.len() > 1 {
        found.beside.push(format!("its paths go to {} places; the targets of all are listed", places.len()));
    }
    for place in &places {
        found
            .read(place, &upstreams, places.len() == 1)
            .map_err(|algorithm| AdoptError::Algorithm { name: name.to_owned(), algorithm })?;
    }
    let Found { targets, mut beside } = found;
    if targets.is_empty() {
        return Err(AdoptError::NoTargets { name: name.to_owned() });
    }
    let path = match &*places {
        [place] => place.path(),
        _ => None,
    };
    let (hosts, others): (Vec<&str>, Vec<&str>) = names(server).partition(|name| is_host(name));
    let others = others.into_iter().filter(|name| !["_", ""].contains(name));
    beside.extend(others.map(|name| format!("server_name {name}")));
    let is_rest = path.is_none();
    let holds_not = |line: &&Directive| is_rest || NOT_INHERITED.contains(&line.name());
    let of_server = server.block.iter().filter(|line| !is_alike(line)).filter(holds_not);
    beside.extend(of_server.map(|line| line.words.join(" ")));
    for location in
        locations(server).filter(|one| is_rest || places.iter().any(|place| place.location == Some(*one)))
    {
        let inside = location.block.iter().filter(|line| !is_alike(line));
        beside
            .extend(inside.map(|line| format!("{}, in {}", line.words.join(" "), location.words.join(" "))));
    }
    Ok(Adopted {
        name: name.to_owned(),
        listens: listens(server),
        protocol: if is_secured(server) { Protocol::Https } else { Protocol::Http },
        hosts: hosts.into_iter().map(str::to_owned).collect(),
        path,
        targets,
        beside,
    })
}

/// Somewhere that a server passes calls.
struct Passing<'c> {
    /// None: in the server itself.
    location: Option<&'c Directive>,
    to: &'c str,
    /// Of that, with its port.
    host: &'c str,
}

impl Passing<'_> {
    /// What the paths of its calls begin with; none: anything, or what no service can say.
    fn path(&self) -> Option<String> {
        let location = self.location?;
        let prefix = match location.words.get(1..)? {
            [prefix] => prefix,
            [how, prefix] if how == "^~" => prefix,
            _ => return None,
        };
        let path = prefix.trim_end_matches('/');
        is_path(path).then(|| path.to_owned())
    }
}

/// What is told of a service.
#[derive(Default)]
struct Found {
    targets: Vec<Target>,
    beside: Vec<String>,
}

impl Found {
    /// An error is an algorithm that has no weights.
    fn read(&mut self, place: &Passing<'_>, upstreams: &[&Directive], is_alone: bool) -> Result<(), String> {
        if let Some(location) = place.location.filter(|_| is_alone) {
            let words = location.words.get(1..).unwrap_or_default();
            let whole = place.path().is_some_and(|path| words.last().is_some_and(|last| *last == path));
            if whole {
                let path = words.last().map_or("", String::as_str);
                self.beside.push(format!(
                    "location {path} has {path}x, too, and the service only {path} and {path}/x"
                ));
            } else if place.path().is_none() && words != ["/"] {
                self.beside.push(format!("{}: the service has whatever path", location.words.join(" ")));
            }
        }
        let rest = place.to.split_once("://").map_or(place.to, |(_, rest)| rest);
        if place.path().is_some() && rest.contains('/') {
            self.beside.push(format!("proxy_pass {} changes the path, and the service doesn't", place.to));
        }
        let Some(upstream) = upstreams.iter().find(|one| one.word(1) == place.host) else {
            self.add(target_of(place.host));
            return Ok(());
        };
        for line in &upstream.block {
            if ALGORITHMS.iter().any(|words| {
                line.words.iter().map(String::as_str).take(words.len()).eq(words.iter().copied())
            }) {
                return Err(line.words.join(" "));
            }
            if line.name() != "server" {
                self.beside.extend((!is_alike(line)).then(|| line.words.join(" ")));
                continue;
            }
            self.add(target_of(line.word(1)));
            let settings = line.words.get(2..).unwrap_or_default();
            if !settings.is_empty() {
                self.beside.push(format!("server {} {}", line.word(1), settings.join(" ")));
            }
        }
        Ok(())
    }

    fn add(&mut self, target: Option<Target>) {
        self.targets.extend(target.filter(|target| !self.targets.contains(target)));
    }
}

/// Whether a service has the same.
fn is_alike(line: &Directive) -> bool {
    let is_same = |words: &&[&str]| line.words.iter().map(String::as_str).eq(words.iter().copied());
    PLAIN.contains(&line.name()) || ALIKE.iter().any(is_same)
}

fn locations(server: &Directive) -> impl Iterator<Item = &Directive> {
    server.block.iter().filter(|line| line.name() == "location")
}

/// Where it passes calls, each place and location once.
fn passing(server: &Directive) -> Vec<Passing<'_>> {
    let mut found: Vec<Passing<'_>> = Vec::new();
    for line in &server.block {
        let location = (line.name() == "location").then_some(line);
        let mut passes = Vec::new();
        collect_passes(std::slice::from_ref(line), &mut passes);
        found.extend(passes.into_iter().map(|to| Passing { location, to, host: host_of(to) }));
    }
    found
}

/// Where the operator's own servers listen, by what `nginx -T` printed: each address, none of which are all, with its port, of UDP or of TCP.
/// `ours` is the file that is led.
#[must_use]
pub fn listens_of_others(printed: &str, ours: &str, is_udp: bool) -> BTreeSet<(Option<IpAddr>, u16)> {
    let lines = listen_lines(printed, ours).into_iter().filter(|line| line.is_udp == is_udp);
    lines.map(|line| (line.address, line.port)).collect()
}

/// Whether a file is the one that is led, or the one beside it for services of TCP and UDP.
fn is_ours(path: &str, ours: &str) -> bool {
    let ending = path.strip_prefix(ours);
    ending.is_some_and(|ending| ending.is_empty() || ending.strip_prefix('.') == Some(STREAM_ENDING))
}

/// Where a server listens.
pub struct ListenLine {
    /// None: at all of IPv4.
    pub address: Option<IpAddr>,
    pub port: u16,
    pub is_udp: bool,
    pub is_default: bool,
    pub is_secured: bool,
}

impl ListenLine {
    pub(super) fn socket(&self) -> Socket {
        Socket { port: self.port, is_udp: self.is_udp }
    }
}

/// Those of the operator's own servers.
pub(super) fn listen_lines(printed: &str, ours: &str) -> Vec<ListenLine> {
    let files = files(printed).into_iter().filter(|(path, _)| !is_ours(path, ours));
    let mut found = Vec::new();
    for all in files.filter_map(|(_, text)| words::read(text)) {
        let mut servers = Vec::new();
        collect(&all, "server", &mut servers);
        for stream in all.iter().filter(|one| one.name() == "stream") {
            collect(&stream.block, "server", &mut servers);
        }
        found.extend(servers.into_iter().flat_map(lines_of));
    }
    found
}

/// The files that were printed, with their paths.
pub(super) fn files(printed: &str) -> Vec<(&str, &str)> {
    let mut files = Vec::new();
    let mut rest = printed;
    while let Some(at) = rest.find(FILE) {
        let (_, from) = rest.split_at(at + FILE.len());
        let (path, text) = from.split_once('\n').unwrap_or((from, ""));
        let end = text.find(&format!("\n{FILE}")).map_or(text.len(), |end| end + 1);
        files.push((path.trim_end().trim_end_matches(':'), &text[..end]));
        rest = &text[end..];
    }
    files
}

/// All directives of a name with a block, wherever they stand.
pub(super) fn collect<'a>(all: &'a [Directive], name: &str, found: &mut Vec<&'a Directive>) {
    for one in all {
        if one.name() == name && !one.block.is_empty() {
            found.push(one);
        }
        // A stream isn't HTTP.
        if one.name() != "stream" {
            collect(&one.block, name, found);
        }
    }
}

pub(super) fn names(server: &Directive) -> impl Iterator<Item = &str> {
    let lines = server.block.iter().filter(|line| line.name() == "server_name");
    lines.flat_map(|line| line.words.iter().skip(1).map(String::as_str))
}

/// Addresses and ports.
pub(super) fn listens(server: &Directive) -> BTreeSet<(Option<IpAddr>, u16)> {
    lines_of(server).into_iter().map(|line| (line.address, line.port)).collect()
}

fn lines_of(server: &Directive) -> Vec<ListenLine> {
    let lines = server.block.iter().filter(|line| line.name() == "listen");
    let found = lines.filter_map(|line| {
        let (address, port) = address_of(line.word(1))?;
        let has = |setting: &str| line.words.iter().skip(2).any(|word| word == setting);
        let is_default = has("default_server") || has("default");
        // HTTP/3 goes by UDP.
        let is_udp = has("udp") || has("quic");
        Some(ListenLine { address, port, is_udp, is_default, is_secured: has("ssl") })
    });
    let found: Vec<_> = found.collect();
    if !found.is_empty() {
        return found;
    }
    vec![ListenLine { address: None, port: 80, is_udp: false, is_default: false, is_secured: false }]
}

fn address_of(word: &str) -> Option<(Option<IpAddr>, u16)> {
    if let Ok(port) = word.parse() {
        return Some((None, port));
    }
    if let Ok(address) = word.parse() {
        return Some((Some(address), 80));
    }
    let (address, port) = word.rsplit_once(':')?;
    Some((address.trim_matches(['[', ']']).parse().ok(), port.parse().ok()?))
}

fn is_secured(server: &Directive) -> bool {
    let mut lines = server.block.iter().filter(|line| line.name() == "listen");
    lines.any(|line| line.words.iter().any(|word| word == "ssl"))
}

fn collect_passes<'a>(block: &'a [Directive], found: &mut Vec<&'a str>) {
    for line in block {
        if line.name() == "proxy_pass" && !found.contains(&line.word(1)) {
            found.push(line.word(1));
        }
        collect_passes(&line.block, found);
    }
}

/// The host, with its port, of an address of HTTP.
fn host_of(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

/// With the port that HTTP has where none is named.
fn target_of(text: &str) -> Option<Target> {
    if text.starts_with("unix:") || text.contains('$') {
        return None;
    }
    text.parse().ok().or_else(|| format!("{text}:80").parse().ok())
}
