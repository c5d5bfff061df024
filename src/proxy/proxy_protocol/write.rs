use std::net::{IpAddr, SocketAddr};

use super::{ProxyHeader, SIGNATURE};

/// The header that says that a connection is of `source`, who connected to `destination`.
pub(crate) fn header(version: ProxyHeader, source: SocketAddr, destination: SocketAddr) -> Box<[u8]> {
    let (from, to) = alike(source.ip().to_canonical(), destination.ip().to_canonical());
    let (from_port, to_port) = (source.port(), destination.port());
    match version {
        ProxyHeader::V1 => {
            let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
            format!("PROXY {family} {from} {to} {from_port} {to_port}\r\n").into_bytes().into()
        }
        ProxyHeader::V2 => {
            let mut addresses = Vec::with_capacity(36);
            for address in [from, to] {
                match address {
                    IpAddr::V4(address) => addresses.extend_from_slice(&address.octets()),
                    IpAddr::V6(address) => addresses.extend_from_slice(&address.octets()),
                }
            }
            addresses.extend_from_slice(&from_port.to_be_bytes());
            addresses.extend_from_slice(&to_port.to_be_bytes());
            let family = if from.is_ipv4() { 0x11 } else { 0x21 };
            let length = (addresses.len() as u16).to_be_bytes();
            [SIGNATURE.as_slice(), &[0x21, family], &length, &addresses].concat().into()
        }
    }
}

/// Both of the same family, which a header has only one of.
fn alike(one: IpAddr, other: IpAddr) -> (IpAddr, IpAddr) {
    let as_v6 = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(_) => address,
    };
    if one.is_ipv4() == other.is_ipv4() { (one, other) } else { (as_v6(one), as_v6(other)) }
}
