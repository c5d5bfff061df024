//! Where a call comes from.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue};
use http_api::address::{Network, Proxies};
use model::address::for_limits;

fn proxies(networks: &[&str]) -> Proxies {
    Proxies(networks.iter().map(|network| network.parse().unwrap()).collect())
}

fn caller(proxies: &Proxies, peer: &str, forwarded: &[&'static str]) -> String {
    let mut headers = HeaderMap::new();
    for list in forwarded {
        headers.append("x-forwarded-for", HeaderValue::from_static(list));
    }
    let caller = proxies.find_caller(peer.parse().unwrap(), &headers);
    caller.map_or_else(|| "unknown".to_owned(), |caller| caller.to_string())
}

#[test]
fn a_caller_is_the_peer_unless_a_trusted_proxy_says_otherwise() {
    let nobody = proxies(&[]);
    let some = proxies(&["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]);
    let table: [(&Proxies, &str, &[&'static str], &str); 15] = [
        (&nobody, "192.0.2.7", &[], "192.0.2.7"),
        (&nobody, "192.0.2.7", &["198.51.100.1"], "192.0.2.7"),
        (&nobody, "::ffff:192.0.2.7", &[], "192.0.2.7"),
        // Anybody can write that.
        (&some, "192.0.2.8", &["198.51.100.1"], "192.0.2.8"),
        (&some, "192.0.2.7", &["198.51.100.1"], "198.51.100.1"),
        (&some, "::ffff:192.0.2.7", &["198.51.100.1"], "198.51.100.1"),
        (&some, "2001:db8::1", &["2001:db9::1"], "2001:db9::1"),
        // What stands before the last one of others is what that one wrote.
        (&some, "10.1.2.3", &["203.0.113.9, 198.51.100.1, 10.9.9.9"], "198.51.100.1"),
        (&some, "10.1.2.3", &["203.0.113.9", "198.51.100.1", "10.9.9.9,10.9.9.8"], "198.51.100.1"),
        (&some, "10.1.2.3", &["198.51.100.1:4711"], "198.51.100.1"),
        (&some, "10.1.2.3", &["[2001:db9::1]:4711"], "2001:db9::1"),
        // A call of the proxies themselves.
        (&some, "10.1.2.3", &["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
        (&some, "10.1.2.3", &[], "10.1.2.3"),
        (&some, "10.1.2.3", &["198.51.100.1, unknown"], "unknown"),
        (&some, "10.1.2.3", &[""], "unknown"),
    ];
    for (proxies, peer, forwarded, expected) in table {
        assert_eq!(caller(proxies, peer, forwarded), expected, "{peer} {forwarded:?}");
    }
}

#[test]
fn a_network_is_an_address_with_or_without_a_length() {
    let contains = |network: &str, address: &str| {
        network.parse::<Network>().unwrap().contains(address.parse::<IpAddr>().unwrap())
    };
    assert!(contains("0.0.0.0/0", "203.0.113.9") && !contains("0.0.0.0/0", "::1"));
    assert!(contains("203.0.113.8/31", "203.0.113.9") && !contains("203.0.113.8/31", "203.0.113.10"));
    assert!(contains("::1", "::1") && !contains("::1", "::2"));
    for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "example.org", "10.0.0.0/-1"] {
        assert!(wrong.parse::<Network>().is_err(), "{wrong}");
    }
}

#[test]
fn a_limit_takes_an_ipv6_network_for_one_caller() {
    let limited = |address: &str| for_limits(address.parse().unwrap()).to_string();
    assert_eq!(limited("2001:db8:1:2:3:4:5:6"), limited("2001:db8:1:2::9"));
    assert_ne!(limited("2001:db8:1:2::9"), limited("2001:db8:1:3::9"));
    assert_eq!(limited("::ffff:192.0.2.7"), "192.0.2.7");
}
