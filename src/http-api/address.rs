//! Where a call comes from, as far as that can be told.
//!
//! It is the address of the peer. Where the peer is a proxy that is trusted (`http.trusted_proxies`), it is what the
//! proxies say in `X-Forwarded-For`: the last entry there that is none of theirs, because each appends whom it was
//! called by, and what stands before may have been written by anybody. What can't be read there is no address at all:
//! a caller of unknown address proves nothing and is limited by no address.
//!
//! Deliberately not here: what follows from two calls having the same address. Behind a translation of addresses many
//! have.

use std::{fmt, net::IpAddr, str::FromStr};

use axum::http::{HeaderMap, request::Parts};

/// Most entries of `X-Forwarded-For` that are looked at, from the end: proxies behind one another.
const MAX_FORWARDS: usize = 32;

/// The other end of a connection, which the listener leaves with each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// Whether a handler of this path asks where a call comes from. An extension takes several allocations, which is much beside
/// what else most calls take, so the listener leaves the [`Peer`] with these alone.
pub fn is_asked_for(path: &str) -> bool {
    matches!(path, "/poll" | "/join")
}

/// Addresses with the same beginning: `10.0.0.0/8`, `2001:db8::/32`, or one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let differ = first.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let differ = first.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no address or network, as in 10.0.0.0/8 or 192.168.1.5");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| wrong())?;
        let all = if first.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => all,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= all).ok_or_else(wrong)?,
        };
        Ok(Self { first, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = if self.first.is_ipv4() { 32 } else { 128 };
        if self.bits == all { self.first.fmt(f) } else { write!(f, "{}/{}", self.first, self.bits) }
    }
}

/// The proxies whose word is taken for where a call comes from; by default none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proxies(pub Vec<Network>);

impl Proxies {
    fn trust(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// The address of whoever made a request.
    pub fn caller(&self, parts: &Parts) -> Option<IpAddr> {
        let Peer(peer) = *parts.extensions.get::<Peer>()?;
        self.find_caller(peer, &parts.headers)
    }

    /// The address of whoever sent these headers over a connection from `peer`.
    pub fn find_caller(&self, peer: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
        let mut caller = peer.to_canonical();
        if !self.trust(caller) {
            return Some(caller);
        }
        // Several headers of the name are one list, in their order.
        let lists: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
        let entries = lists.iter().rev().flat_map(|list| list.as_bytes().rsplit(|byte| *byte == b','));
        for entry in entries.take(MAX_FORWARDS) {
            caller = read(entry)?;
            if !self.trust(caller) {
                break;
            }
        }
        Some(caller)
    }
}

/// An entry: an address, with or without a port.
fn read(entry: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(entry).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|text| Some(text.split_once(']')?.0)).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok();
    let with_port = || text.parse::<std::net::SocketAddrV4>().ok().map(|socket| IpAddr::V4(*socket.ip()));
    address.or_else(with_port).map(|address| address.to_canonical())
}
