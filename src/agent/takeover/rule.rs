//! How calls to a port come to the proxy, and where it listens for them. Pure.

use std::collections::BTreeSet;

use model::traffic::{Listen, OpenPorts, Socket};

/// What is so where calls are to come in.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'f> {
    /// Where the proxy listens by its own configuration.
    pub own: &'f [OpenPorts],
    /// `takeover.nftables`.
    pub is_allowed: bool,
    /// The proxy marks its connections to targets.
    pub marks: bool,
    /// Whether rules can be read and changed; else why not.
    pub ground: Result<(), &'f str>,
}

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
    if !facts.marks {
        return Err(format!(
            "calls to port {port} can't be taken over: the proxy doesn't mark its own, which would come back to it; set \
             takeover.nftables in its configuration, too, and start it anew"
        ));
    }
    match facts.ground {
        Ok(()) => Ok(Way::Nftables),
        Err(why) => Err(format!("calls to port {port} can't be taken over: {why}")),
    }
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
