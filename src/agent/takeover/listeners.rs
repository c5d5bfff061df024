//! Who listens at a port, as Linux lists sockets in `/proc/net`. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use proxy::shared::listening;

/// The addresses at which programs listen at a port: `0.0.0.0` stands for all of IPv4. None: at all addresses, or nobody does.
/// `listed`: what `tcp` and `tcp6` have, or `udp` and `udp6`.
#[must_use]
pub fn listeners(listed: &str, port: u16, is_udp: bool) -> Vec<IpAddr> {
    let there = listening::read(listed, is_udp).filter(|one| one.address.port() == port);
    let mut all: BTreeSet<IpAddr> = there.map(|one| one.address.ip()).collect();
    if all.contains(&IpAddr::V6(Ipv6Addr::UNSPECIFIED)) {
        // It takes callers of IPv4 as well, or another one is there that does.
        return Vec::new();
    }
    if all.contains(&IpAddr::V4(Ipv4Addr::UNSPECIFIED)) {
        all.retain(|address| address.is_ipv6() || address.is_unspecified());
    }
    all.into_iter().collect()
}

/// The addresses at which programs listen at each port of TCP.
#[must_use]
pub fn by_port(listed: &str) -> BTreeMap<u16, BTreeSet<IpAddr>> {
    let mut all = BTreeMap::<u16, BTreeSet<IpAddr>>::new();
    for one in listening::read(listed, false) {
        all.entry(one.address.port()).or_default().insert(one.address.ip());
    }
    all
}
