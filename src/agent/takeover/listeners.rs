//! Who listens at a port, as Linux lists sockets in `/proc/net`. Pure.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// The state of a socket of TCP that listens, and of one of UDP that takes datagrams of anybody.
const LISTENS: &str = "0A";
const UNCONNECTED: &str = "07";

/// The addresses at which programs listen at a port: `0.0.0.0` stands for all of IPv4. None: at all addresses, or nobody does.
/// `listed`: what `tcp` and `tcp6` have, or `udp` and `udp6`.
#[must_use]
pub fn listeners(listed: &str, port: u16, is_udp: bool) -> Vec<IpAddr> {
    let state = if is_udp { UNCONNECTED } else { LISTENS };
    let local = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, is_it) = (words.next()?, words.nth(1)? == state);
        let (address, at) = local.rsplit_once(':')?;
        (is_it && u16::from_str_radix(at, 16) == Ok(port)).then(|| address_of(address)).flatten()
    };
    let mut all: BTreeSet<IpAddr> = listed.lines().filter_map(local).collect();
    if all.contains(&IpAddr::V6(Ipv6Addr::UNSPECIFIED)) {
        // It takes callers of IPv4 as well, or another one is there that does.
        return Vec::new();
    }
    if all.contains(&IpAddr::V4(Ipv4Addr::UNSPECIFIED)) {
        all.retain(|address| address.is_ipv6() || address.is_unspecified());
    }
    all.into_iter().collect()
}

/// Each four bytes are written as one number of this machine.
fn address_of(hex: &str) -> Option<IpAddr> {
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
