use std::net::{IpAddr, SocketAddr};

/// A caller, as far as the connection tells, or whoever passes it on is believed to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub address: IpAddr,
    pub scheme: &'static str,
    /// The port that it came to here.
    pub port: u16,
    /// Its own port.
    pub own_port: u16,
    /// Where it connected to, which is another place where its connection was passed on.
    pub destination: SocketAddr,
}

impl Caller {
    /// Of a connection between these two.
    pub(crate) fn of(peer: SocketAddr, here: SocketAddr) -> Self {
        Self {
            address: peer.ip().to_canonical(),
            scheme: "http",
            port: here.port(),
            own_port: peer.port(),
            destination: here,
        }
    }

    /// Where it is.
    pub(crate) fn source(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.own_port)
    }
}

/// What becomes of the caller's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It can bring a further call.
    Call,
    /// It is closed at once.
    Close,
    /// It is closed when the caller has read the answer: what it still sends is read for a while.
    Linger,
}
