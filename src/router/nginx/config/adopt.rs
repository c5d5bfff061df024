//! What nginx does for a service by its operator's configuration, from what `nginx -T` prints.

use std::{collections::BTreeSet, net::IpAddr};

use super::words::{self, Directive};
use crate::adopt::{AdoptError, Adopted};
use traffic::desired::{Protocol, Target};

/// What a file begins with in what nginx prints.
const FILE: &str = "# configuration file ";

/// Directives of a server or its locations that change nothing of where calls go.
const PLAIN: [&str; 8] = [
    "listen",
    "server_name",
    "location",
    "proxy_pass",
    "proxy_set_header",
    "proxy_http_version",
    "root",
    "index",
];

/// The service of this name, which is a `server_name`, an `upstream`, or a port, in what `nginx -T` printed. `ours` is the file that is
/// led, in which nothing is looked for.
///
/// # Errors
///
/// No such service, one without targets, or what can't be read.
pub fn adopt(printed: &str, ours: &str, name: &str) -> Result<Adopted, AdoptError> {
    let files = files(printed).into_iter().filter(|(path, _)| *path != ours);
    let mut all = Vec::new();
    for (path, text) in files {
        let read = words::read(text).ok_or_else(|| AdoptError::Unreadable(path.to_owned()))?;
        all.extend(read);
    }
    let (mut servers, mut upstreams) = (Vec::new(), Vec::new());
    collect(&all, "server", &mut servers);
    collect(&all, "upstream", &mut upstreams);
    let servers: Vec<&Directive> = servers.into_iter().filter(|server| !server.block.is_empty()).collect();
    let passes_of = |server: &Directive| passes(server).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let is_it = |server: &&&Directive| {
        names(server).any(|one| one == name)
            || listens(server).iter().any(|(_, port)| port.to_string() == name)
            || passes_of(server).iter().any(|pass| host_of(pass) == name)
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
    let passes = passes(server);
    let mut targets: Vec<Target> = Vec::new();
    let mut beside: Vec<String> = Vec::new();
    if passes.len() > 1 {
        beside.push(format!("its paths go to {} places; the targets of all are listed", passes.len()));
    }
    for pass in passes {
        let host = host_of(pass);
        let upstream = upstreams.iter().find(|one| one.word(1) == host);
        let Some(upstream) = upstream else {
            add(target_of(host), &mut targets);
            continue;
        };
        for line in &upstream.block {
            match line.name() {
                "server" => {
                    add(target_of(line.word(1)), &mut targets);
                    let settings = line.words.get(2..).unwrap_or_default();
                    if !settings.is_empty() {
                        beside.push(format!("server {} {}", line.word(1), settings.join(" ")));
                    }
                }
                _ => beside.push(line.words.join(" ")),
            }
        }
    }
    if targets.is_empty() {
        return Err(AdoptError::NoTargets { name: name.to_owned() });
    }
    beside.extend(others(server));
    Ok(Adopted {
        name: name.to_owned(),
        listens: listens(server),
        protocol: if is_secured(server) { Protocol::Https } else { Protocol::Http },
        targets,
        beside,
    })
}

/// Where the operator's own servers listen, by what `nginx -T` printed: each address, none of which are all, with its port. `ours` is the
/// file that is led.
#[must_use]
pub fn listens_of_others(printed: &str, ours: &str) -> BTreeSet<(Option<IpAddr>, u16)> {
    let files = files(printed).into_iter().filter(|(path, _)| *path != ours);
    let mut found = BTreeSet::new();
    for all in files.filter_map(|(_, text)| words::read(text)) {
        let mut servers = Vec::new();
        collect(&all, "server", &mut servers);
        for stream in all.iter().filter(|one| one.name() == "stream") {
            collect(&stream.block, "server", &mut servers);
        }
        found.extend(servers.into_iter().flat_map(listens));
    }
    found
}

fn add(target: Option<Target>, targets: &mut Vec<Target>) {
    targets.extend(target.filter(|target| !targets.contains(target)));
}

/// The files that were printed, with their paths.
fn files(printed: &str) -> Vec<(&str, &str)> {
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
fn collect<'a>(all: &'a [Directive], name: &str, found: &mut Vec<&'a Directive>) {
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

fn names(server: &Directive) -> impl Iterator<Item = &str> {
    let lines = server.block.iter().filter(|line| line.name() == "server_name");
    lines.flat_map(|line| line.words.iter().skip(1).map(String::as_str))
}

/// Addresses and ports.
fn listens(server: &Directive) -> BTreeSet<(Option<IpAddr>, u16)> {
    let lines = server.block.iter().filter(|line| line.name() == "listen");
    let found = lines.filter_map(|line| {
        let word = line.word(1);
        if let Ok(port) = word.parse() {
            return Some((None, port));
        }
        if let Ok(address) = word.parse() {
            return Some((Some(address), 80));
        }
        let (address, port) = word.rsplit_once(':')?;
        let address = address.trim_matches(['[', ']']).parse().ok();
        Some((address, port.parse().ok()?))
    });
    let found: BTreeSet<_> = found.collect();
    if found.is_empty() { [(None, 80)].into() } else { found }
}

fn is_secured(server: &Directive) -> bool {
    let mut lines = server.block.iter().filter(|line| line.name() == "listen");
    lines.any(|line| line.words.iter().any(|word| word == "ssl"))
}

/// Where it passes calls, each once.
fn passes(server: &Directive) -> Vec<&str> {
    let mut found = Vec::new();
    collect_passes(&server.block, &mut found);
    found.dedup();
    found
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

/// What a server has that one of ours would not have.
fn others(server: &Directive) -> Vec<String> {
    let mut found = Vec::new();
    for line in &server.block {
        if !PLAIN.contains(&line.name()) {
            found.push(line.words.join(" "));
        }
        if line.name() == "location" {
            let inside = line.block.iter().filter(|one| !PLAIN.contains(&one.name()));
            found.extend(inside.map(|one| format!("{}, in {}", one.words.join(" "), line.words.join(" "))));
        }
    }
    found
}
