//! Addresses that calls come from.

use std::net::{IpAddr, Ipv6Addr};

/// What limits by address count as one: an IPv6 network of 64 bits is one customer's, and anybody there can have as many
/// addresses as there are.
pub fn for_limits(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}
