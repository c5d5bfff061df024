//! Who listens at a port.

use std::net::IpAddr;

use agent::takeover::listeners::{by_port, listeners};
use proxy::shared::listening::{beginning, is_taken_beside};

/// As Linux lists sockets on a machine whose numbers begin with the lowest byte.
const TCP: &str =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 3500007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1
   2: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3 1
   3: 0300090A:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4 1
   4: 00000000:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 5 1
   5: 0100090A:1F93 0200090A:9C40 01 00000000:00000000 00:00000000 00000000     0        0 6 1
";

const TCP6: &str = "  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 7 1
   1: 0000000000000000FFFF00000100090A:1F90 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 8 1
   2: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 9 1
   3: 00000000000000000000000000000000:1F92 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 9 1
";

const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  10: 3500007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 0
  11: 0100007F:0035 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 2 2 0 0
";

#[test]
#[cfg(target_endian = "little")]
fn addresses_are_those_at_which_somebody_listens() {
    let of = |listed: &str, port, is_udp| {
        listeners(listed, port, is_udp).iter().map(IpAddr::to_string).collect::<Vec<_>>()
    };
    let tcp = [TCP, TCP6].concat();
    assert_eq!(of(&tcp, 8080, false), ["10.9.0.1", "127.0.0.1", "127.0.0.53", "::1"]);
    assert_eq!(of(&tcp, 8081, false), ["0.0.0.0", "::1"], "one for all of IPv4 is one of any");
    assert_eq!(of(&tcp, 8082, false), [""; 0], "one for all of IPv6 takes callers of IPv4, too");
    assert_eq!(of(&tcp, 8083, false), [""; 0], "a connection is no listener");
    assert_eq!(of(UDP, 53, true), ["127.0.0.53"]);
    assert_eq!(of(UDP, 53, false), [""; 0]);
    assert_eq!(of("", 8080, false), [""; 0]);
}

#[test]
#[cfg(target_endian = "little")]
fn each_address_of_a_port_is_listed_as_it_is_and_others_than_ones_own_are_known() {
    let tcp = [TCP, TCP6].concat();
    let all = by_port(&tcp);
    let of = |port: u16| all[&port].iter().map(IpAddr::to_string).collect::<Vec<_>>();
    assert_eq!(of(8081), ["0.0.0.0", "10.9.0.3", "::1"]);
    assert_eq!(of(8082), ["0.0.0.0", "::"]);
    assert_eq!(all.get(&8083), None, "a connection is no listener");
    let cases: [(&str, &[u64], Option<bool>); 12] = [
        ("127.0.0.1:8080", &[1], Some(false)),
        ("127.0.0.1:8080", &[9], Some(true)),
        ("0.0.0.0:8081", &[3], None),
        ("0.0.0.0:8081", &[3, 4], Some(false)),
        ("10.9.0.3:8081", &[4], Some(true)),
        ("127.0.0.1:8081", &[3], Some(false)),
        ("[::1]:8081", &[9], Some(false)),
        ("127.0.0.1:8082", &[5], None),
        ("0.0.0.0:8082", &[5], None),
        ("[::]:8082", &[9], None),
        ("0.0.0.0:8082", &[5, 9], Some(false)),
        ("127.0.0.1:8083", &[0], Some(false)),
    ];
    for (at, own, expected) in cases {
        assert_eq!(is_taken_beside(&tcp, at.parse().unwrap(), own), expected, "{at} {own:?}");
    }
}

#[test]
#[cfg(target_endian = "little")]
fn connections_that_nobody_can_accept_yet_are_known() {
    // As the caller's end and the other one of a connection that waits for its first bytes are listed.
    let waits =
        "   2: 0100007F:B74C 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 12 2
   3: 0100007F:1F90 0100007F:B74C 03 00000000:00000000 01:00000032 00000000     0        0 0 0
   4: 0000000000000000FFFF00000100090A:1F90 0000000000000000FFFF00000200090A:9C40 03 0:0 0:0 0 0 0 0 0
";
    let all = [TCP, TCP6, waits].concat();
    let found: Vec<String> = beginning(&all).map(|(to, from)| format!("{from} to {to}")).collect();
    assert_eq!(found, ["127.0.0.1:46924 to 127.0.0.1:8080", "10.9.0.2:40000 to 10.9.0.1:8080"]);
}
