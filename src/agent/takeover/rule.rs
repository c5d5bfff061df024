//! How calls to a port come to the proxy, and where it listens for them. Pure.

use std::collections::BTreeSet;

use model::traffic::{Listen, OpenPorts, Protocol, Socket};

/// What is so where calls are to come in.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'f> {
    /// Where the proxy listens by its own configuration.
    pub own: &'f [OpenPorts],
    /// Where it has its metrics read.
    pub metrics: &'f [u16],
    /// `takeover.nftables`.
    pub is_allowed: bool,
    /// The proxy marks its connections to targets.
    pub marks: bool,
}

/// What a proxy lacks that doesn't mark its connections, and what to do.
pub const UNMARKED: &str = "the proxy doesn't mark its own, which would come back to it; set takeover.nftables in its configuration, too, \
                            and start it anew";

/// How calls come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The proxy listens there: by its own configuration, or at a socket that systemd has given it.
    Own,
    /// Another program may listen there, and goes on: the kernel sends its callers to the proxy.
    Nftables,
}

/// The way for what a service takes at a port.
///
/// # Errors
///
/// There is none; what is to be done about it.
pub fn way(listen: &Listen, facts: Facts<'_>) -> Result<Way, String> {
    if facts.own.iter().any(|open| open.take(listen)) {
        return Ok(Way::Own);
    }
    let port = listen.port;
    if !facts.is_allowed {
        return Err(format!(
            "the proxy doesn't listen at port {port}: have it listen there (config/proxy.yml), or, where another program does, set \
             takeover.nftables of this agent"
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
    if facts.marks { Ok(Way::Nftables) } else { Err(not_taken(port, UNMARKED)) }
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
