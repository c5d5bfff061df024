//! Who has a port at which a service is to be, and at which nothing of ours listens yet.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
};

use crate::adopt::is_taken;

/// Who has a port.
pub(crate) enum PortOwner {
    /// The router itself, by its operator's own configuration: it would share it with ours.
    Operator,
    SomebodyElse,
}

/// `operators`: where the operator's own parts of the router listen, of UDP or of TCP.
pub(crate) fn holder(
    operators: &BTreeSet<(Option<IpAddr>, u16)>,
    at: SocketAddr,
    is_udp: bool,
) -> Option<PortOwner> {
    let bound = if is_udp { UdpSocket::bind(at).map(drop) } else { TcpListener::bind(at).map(drop) };
    if is_taken(operators, at.ip(), at.port()) {
        Some(PortOwner::Operator)
    } else if bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) {
        Some(PortOwner::SomebodyElse)
    } else {
        None
    }
}
