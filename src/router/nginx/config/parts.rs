//! Locations of services in servers that are the operator's: a file for each host and port, to be included there. The include of ours has
//! the same as comments, so that all of them follow from it.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr},
};

use super::{
    adopt::{self, ListenLine},
    sites::Listens,
    words,
};
use model::traffic::Socket;

/// What the first line of a file is, and all of one in which nothing is.
pub const PART_HEAD: &str =
    "# Made by choirmaster for a server of yours, which includes it; changes by hand are undone.\n";

const FILE: &str = "#file ";
pub(super) const LINE: &str = "#|";

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// None: whatever host.
    pub host: Option<String>,
    pub port: u16,
    /// Its locations.
    pub text: String,
}

impl Part {
    /// In the folder of all.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{}-{}.conf", self.host.as_deref().unwrap_or("any"), self.port)
    }

    /// The server that is to include it, in words.
    #[must_use]
    pub fn server(&self) -> String {
        match &self.host {
            Some(host) => format!("the server of {host} at port {}", self.port),
            None => format!("the default server at port {}", self.port),
        }
    }

    fn named(file: &str) -> Option<Self> {
        let (host, port) = file.strip_suffix(".conf")?.rsplit_once('-')?;
        let host = Some(host.to_owned()).filter(|host| host != "any");
        Some(Self { host, port: port.parse().ok()?, text: String::new() })
    }
}

/// As the include has them.
pub fn noted(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        // Writing into a string can't fail.
        let _ = writeln!(text, "{FILE}{}", part.file());
        for line in part.text.lines() {
            let _ = writeln!(text, "{LINE}{line}");
        }
    }
    text
}

/// What [`noted`] wrote into an include.
#[must_use]
pub fn parts_of(include: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for line in include.lines() {
        if let Some(file) = line.strip_prefix(FILE) {
            parts.extend(Part::named(file));
        } else if let (Some(line), Some(part)) = (line.strip_prefix(LINE), parts.last_mut()) {
            part.text.push_str(line);
            part.text.push('\n');
        }
    }
    parts
}

/// Why a part doesn't serve calls, by what `nginx -T` printed; none: the server includes it that is to.
#[must_use]
pub fn not_included(part: &Part, path: &str, printed: &str) -> Option<String> {
    let files = adopt::files(printed);
    let mut servers = Vec::new();
    let read: Vec<_> = files.iter().filter_map(|(_, text)| words::read(text)).collect();
    for all in &read {
        adopt::collect(all, "server", &mut servers);
    }
    let mut including = servers.into_iter().filter(|server| server.includes(path)).peekable();
    let is_printed = files.iter().any(|(file, _)| *file == path);
    let is_meant = match including.peek() {
        // By a file that a server includes.
        None => is_printed,
        Some(_) => including.any(|server| {
            let is_at = adopt::listens(server).iter().any(|(_, port)| *port == part.port);
            let has_host = |host: &str| adopt::names(server).any(|name| name.eq_ignore_ascii_case(host));
            is_at && part.host.as_deref().is_none_or(has_host)
        }),
    };
    (!is_meant).then(|| format!("{} doesn't include it: add `include {path};` to it", part.server()))
}

/// The hosts of which an include has the server, each with a port.
#[must_use]
pub fn names_of(include: &str) -> BTreeSet<(String, u16)> {
    let all = words::read(include).unwrap_or_default();
    let servers = all.iter().filter(|one| one.name() == "server");
    let each = servers.flat_map(|server| {
        let ports = adopt::listens(server);
        let names = adopt::names(server).map(str::to_owned);
        names.flat_map(move |name| ports.clone().into_iter().map(move |(_, port)| (name.clone(), port)))
    });
    each.collect()
}

/// Why servers of ours can't be at a port where the operator's own are; none: they can, or there are none.
#[must_use]
pub fn keeps_apart(
    printed: &str,
    ours: &str,
    (socket, how): (Socket, Listens),
    addresses: &[IpAddr],
) -> Option<String> {
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let port = socket.port;
    let of_others = adopt::listen_lines(printed, ours);
    let there: Vec<_> = of_others.iter().filter(|line| line.socket() == socket).collect();
    let at = |line: &ListenLine| line.address.unwrap_or(any);
    let meets = |line: &ListenLine, address: IpAddr| {
        at(line) == address || at(line).is_unspecified() || address.is_unspecified()
    };
    let met = addresses.iter().flat_map(|address| there.iter().map(move |line| (*address, *line)));
    // Of both families all addresses are two.
    let met = met.filter(|(address, line)| address.is_ipv4() == at(line).is_ipv4() && meets(line, *address));
    for (address, line) in met {
        let theirs = at(line);
        let has_default = there.iter().any(|other| at(other) == theirs && other.is_default);
        let why = if !how.is_named {
            format!("and a service would at {address}")
        } else if theirs != address {
            format!("at {theirs}, and services at {address}: set nginx.addresses to the same")
        } else if line.is_secured != how.is_secured {
            "and only one of it and the services there has TLS".to_owned()
        } else if !has_default {
            "and for what no server names there nginx takes the first one: say default_server in the one that is to have that".to_owned()
        } else {
            continue;
        };
        return Some(format!("a server of its operator's listens at port {port}, {why}"));
    }
    None
}
