//! How calls to a port come to the proxy, and where it listens for them. Pure.

use std::{collections::BTreeSet, net::IpAddr};

use model::traffic::{Listen, OpenPorts, Protocol, Socket};

/// What is so where calls are to come in.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'f> {
    /// Where the proxy listens by its own configuration.
    pub own: &'f [OpenPorts],
    /// Where it has its metrics read.
    pub metrics: &'f [u16],
    /// `takeover.sockets`, of agent and proxy, and what there is at the port; none: it isn't set in both.
    pub sockets: Option<&'f Sockets>,
    /// `takeover.nftables`.
    pub is_allowed: bool,
    /// The proxy marks its connections to targets.
    pub marks: bool,
    /// A target of the service is the port itself, on this machine.
    pub is_target: bool,
}

/// Sockets of other programs at a port of TCP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sockets {
    /// Addresses of those that were lent to the proxy.
    pub lent: Vec<IpAddr>,
    /// Addresses at which programs listen, and whether the proxy can listen there as well.
    pub others: Vec<(IpAddr, bool)>,
}

/// What a proxy lacks that doesn't mark its connections, and what to do.
pub const UNMARKED: &str = "the proxy doesn't mark its own, which would come back to it; set takeover.nftables in its configuration, too, \
                            and start it anew";

/// What a proxy lacks that takes nothing by a socket of other programs, and what to do.
pub const UNSHARED: &str = "the proxy takes nothing by sockets of other programs; set takeover.sockets in its configuration, too, and start \
                            it anew";

/// How calls come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The proxy listens there: by its own configuration, or at a socket that systemd has given it.
    Own,
    /// Another program listens there, and so does the proxy: at these addresses by sockets that were lent, at those by its own.
    Socket { lent: Vec<IpAddr>, joined: Vec<IpAddr> },
    /// Another program may listen there, and goes on: the kernel sends its callers to the proxy.
    Nftables,
}

/// The way for what a service takes at a port: the first that there is.
///
/// # Errors
///
/// There is none; what is to be done about it.
pub fn way(listen: &Listen, facts: Facts<'_>) -> Result<Way, String> {
    if facts.own.iter().any(|open| open.take(listen)) {
        return Ok(Way::Own);
    }
    let port = listen.port;
    if !facts.is_allowed && facts.sockets.is_none() {
        return Err(format!(
            "the proxy doesn't listen at port {port}: have it listen there (config/proxy.yml), or, where another program does, set \
             takeover.sockets or takeover.nftables of this agent"
        ));
    }
    let is_udp = listen.protocol.is_udp();
    let is_there = |open: &OpenPorts| {
        (open.first..=open.last).contains(&port) && (open.protocol == Some(Protocol::Udp)) == is_udp
    };
    if facts.own.iter().any(is_there) || (!is_udp && facts.metrics.contains(&port)) {
        return Err(format!(
            "the proxy itself listens at port {port}, for something else than {} of this service: take another port",
            listen.protocol.name()
        ));
    }
    let by_socket = facts.sockets.map(|sockets| by_socket(listen, facts.is_target, sockets));
    match by_socket {
        Some(Ok(way)) => Ok(way),
        Some(Err(why)) if !facts.is_allowed => {
            Err(not_taken(port, &format!("{why}; or set takeover.nftables of agent and proxy")))
        }
        Some(Err(_)) | None if facts.marks => Ok(Way::Nftables),
        Some(Err(_)) | None => Err(not_taken(port, UNMARKED)),
    }
}

/// By sockets at the port itself.
fn by_socket(listen: &Listen, is_target: bool, Sockets { lent, others }: &Sockets) -> Result<Way, String> {
    let port = listen.port;
    if listen.protocol.is_udp() {
        return Err("by a socket only connections are, and it is one of UDP".to_owned());
    }
    if listen.passes() && !listen.hosts.is_empty() {
        return Err("by a socket all that comes in is, and TLS passes there by the hosts that callers name"
            .to_owned());
    }
    if is_target {
        return Err(
            "by a socket the proxy's own calls would come back to it, since a target is that port itself: have that version listen at \
             another port as well, and name that as its target"
                .to_owned(),
        );
    }
    let others = others.iter().filter(|(address, _)| !lent.contains(address));
    if let Some((address, _)) = others.clone().find(|(_, can_be_joined)| !can_be_joined) {
        return Err(format!(
            "by a socket it would take one that whoever listens at {address} shares: have systemd lend it to the proxy (Sockets= in the \
             proxy's unit), or have that program, run by the proxy's user, open it with SO_REUSEPORT"
        ));
    }
    let joined: Vec<IpAddr> = others.map(|(address, _)| *address).collect();
    if lent.is_empty() && joined.is_empty() {
        return Err(format!("by a socket somebody would have to listen at port {port}, and nobody does"));
    }
    Ok(Way::Socket { lent: lent.clone(), joined })
}

/// Why calls to a port aren't taken over.
#[must_use]
pub fn not_taken(port: u16, why: &str) -> String {
    format!("calls to port {port} can't be taken over: {why}")
}

/// Where the proxy is to listen for a port that is taken over: the first of these that nobody has, and that isn't called or in use.
///
/// # Errors
///
/// There is none.
pub fn place(
    socket: Socket,
    (first, last): (u16, u16),
    in_use: &BTreeSet<u16>,
    is_free: impl Fn(Socket) -> bool,
) -> Result<u16, String> {
    let mut ports = (first..=last).filter(|port| !in_use.contains(port));
    ports.find(|port| is_free(Socket { port: *port, ..socket })).ok_or_else(|| {
        format!(
            "no port from {first} to {last} is free, at which calls to port {} could be taken: give takeover.ports more",
            socket.port
        )
    })
}
