//! Sockets that listen, as Linux lists them in `/proc/net`.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
};

/// The state of a socket of TCP that listens, and of one of UDP that takes datagrams of anybody.
const LISTENS: &str = "0A";
const UNCONNECTED: &str = "07";

/// The state of a connection that has begun, and that nobody can accept yet.
const BEGINS: &str = "03";

/// The word of a line, from 0, that has the number of the socket.
const INODE: usize = 9;

/// A socket at which connections come in, or datagrams of anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListeningSocket {
    pub address: SocketAddr,
    /// By which the kernel tells sockets apart; 0 where it isn't listed.
    pub inode: u64,
}

/// Those of a text: what `tcp` and `tcp6` have, or `udp` and `udp6`. Pure.
pub fn read(listed: &str, is_udp: bool) -> impl Iterator<Item = ListeningSocket> {
    let state = if is_udp { UNCONNECTED } else { LISTENS };
    listed.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split_whitespace().take(INODE + 1).collect();
        let address = words.get(1).filter(|_| words.get(3) == Some(&state))?;
        let inode = words.get(INODE).and_then(|inode| inode.parse().ok()).unwrap_or(0);
        Some(ListeningSocket { address: address_of(address)?, inode })
    })
}

/// The connections of a text, what `tcp` and `tcp6` have, that have begun and that nobody can accept yet: where they come to, and whence. Whoever
/// made one may take it for made already: the kernel waits for its first bytes (`TCP_DEFER_ACCEPT`), or for room in the queue. Pure.
pub fn beginning(listed: &str) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
    listed.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        let [_, local, remote, BEGINS] = words[..] else { return None };
        Some((address_of(local)?, address_of(remote)?))
    })
}

/// The same text of this machine, as far as there is any. It is read whole, connections included: not where anybody is served.
///
/// # Errors
///
/// There is none: it can't be read.
pub fn text(is_udp: bool) -> io::Result<String> {
    let [v4, v6] = if is_udp { ["udp", "udp6"] } else { ["tcp", "tcp6"] };
    let read = |name| fs::read_to_string(Path::new("/proc/net").join(name));
    let mut text = read(v4)?;
    // A machine without IPv6 has none.
    text.push_str(&read(v6).unwrap_or_default());
    Ok(text)
}

/// Whether somebody else than the sockets of these numbers takes all connections that are made to an address; none: a part of them, perhaps.
/// Pure.
#[must_use]
pub fn is_taken_beside(listed: &str, at: SocketAddr, own: &[u64]) -> Option<bool> {
    let there = read(listed, false).filter(|one| one.address.port() == at.port());
    let others: Vec<IpAddr> =
        there.filter(|one| !own.contains(&one.inode)).map(|one| one.address.ip()).collect();
    if others.iter().any(|other| has_all(*other, at.ip())) {
        return Some(true);
    }
    if others.iter().any(|other| meet(*other, at.ip())) { None } else { Some(false) }
}

/// Whether whoever means one is surely taken by the other. One of all of IPv6 may leave IPv4 to others.
fn has_all(other: IpAddr, one: IpAddr) -> bool {
    other == one || (other.is_unspecified() && other.is_ipv4() == one.is_ipv4())
}

/// Whether a caller may mean either: they are the same, or one is all of them.
fn meet(one: IpAddr, other: IpAddr) -> bool {
    let has = |all: IpAddr, one: IpAddr| match all {
        // It takes callers of IPv4 as well, unless the system says otherwise.
        IpAddr::V6(all) => all.is_unspecified(),
        IpAddr::V4(all) => all == Ipv4Addr::UNSPECIFIED && one.is_ipv4(),
    };
    one == other || has(one, other) || has(other, one)
}

fn address_of(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.rsplit_once(':')?;
    Some(SocketAddr::new(ip_of(ip)?, u16::from_str_radix(port, 16).ok()?))
}

/// Each four bytes are written as one number of this machine.
fn ip_of(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let bytes: [u8; 16] = [word(0)?, word(1)?, word(2)?, word(3)?].concat().try_into().ok()?;
            Some(IpAddr::from(bytes).to_canonical())
        }
        _ => None,
    }
}
