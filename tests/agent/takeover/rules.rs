//! Which way there is for a port, and at which port the proxy listens then.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use agent::takeover::rule::{Facts, Sockets, Way, place, way};
use model::traffic::{Listen, OpenPorts, Protocol, Socket, TlsEnd};

fn own(port: u16, protocol: Protocol, passes: bool) -> OpenPorts {
    OpenPorts {
        first: port,
        last: port,
        protocol: Some(protocol),
        passes,
        takes_over: false,
        by_socket: false,
    }
}

#[test]
fn a_port_is_taken_over_only_where_the_proxy_has_it_not_and_all_else_fits() {
    let own = [
        own(8000, Protocol::Http, false),
        own(443, Protocol::Https, true),
        own(5432, Protocol::Tcp, false),
        own(53, Protocol::Udp, false),
    ];
    let all =
        Facts { own: &own, metrics: &[9100], sockets: None, is_allowed: true, marks: true, is_target: true };
    let passed = Listen { tls: TlsEnd::Pass, ..Listen::new(443, Protocol::Https) };
    let http = |port| Listen::new(port, Protocol::Http);
    let taken = Ok(Way::Nftables);
    let cases = [
        ("the proxy listens", http(8000), all, Ok(Way::Own)),
        (
            "it does so whatever else is missing",
            http(8000),
            Facts { is_allowed: false, marks: false, ..all },
            Ok(Way::Own),
        ),
        ("HTTPS comes in where HTTP does", Listen::new(8000, Protocol::Https), all, Ok(Way::Own)),
        ("TLS passes there", passed.clone(), all, Ok(Way::Own)),
        (
            "with a certificate it would be taken from whoever has it there",
            Listen::new(443, Protocol::Https),
            all,
            Err("the proxy itself listens at port 443, for something else than HTTPS of this service: take another port"),
        ),
        (
            "and so would calls be from functions",
            Listen::new(8000, Protocol::Tcp),
            all,
            Err("the proxy itself listens at port 8000, for something else than TCP of this service: take another port"),
        ),
        (
            "metrics are read there",
            http(9100),
            all,
            Err("the proxy itself listens at port 9100, for something else than HTTP of this service: take another port"),
        ),
        ("which isn't over UDP", Listen::new(9100, Protocol::Udp), all, taken.clone()),
        ("a port of UDP is none of TCP", Listen::new(53, Protocol::Tcp), all, taken.clone()),
        ("nor the other way round", Listen::new(5432, Protocol::Udp), all, taken.clone()),
        ("another program's", http(8080), all, taken),
        (
            "not allowed",
            http(8080),
            Facts { is_allowed: false, ..all },
            Err(
                "the proxy doesn't listen at port 8080: have it listen there (config/proxy.yml), or, where another program does, set \
                 takeover.sockets or takeover.nftables of this agent",
            ),
        ),
        (
            "calls of the proxy would come back",
            http(8080),
            Facts { marks: false, ..all },
            Err(
                "calls to port 8080 can't be taken over: the proxy doesn't mark its own, which would come back to it; set \
                 takeover.nftables in its configuration, too, and start it anew",
            ),
        ),
    ]
    .map(|(what, listen, facts, expected)| (what, listen, facts, expected.map_err(str::to_owned)));
    for (what, listen, facts, expected) in cases {
        assert_eq!(way(&listen, facts), expected, "{what}");
    }
}

#[test]
fn a_port_is_taken_over_by_a_socket_where_that_is_shared_and_calls_do_not_come_back() {
    let (v4, v6) = (IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::LOCALHOST));
    let none =
        Facts { own: &[], metrics: &[], sockets: None, is_allowed: false, marks: false, is_target: false };
    let by =
        |lent: &[IpAddr], joined: &[IpAddr]| Ok(Way::Socket { lent: lent.to_vec(), joined: joined.to_vec() });
    let sockets =
        |lent: &[IpAddr], others: &[(IpAddr, bool)]| Sockets { lent: lent.to_vec(), others: others.to_vec() };
    let http = Listen::new(8080, Protocol::Http);
    let named = Listen {
        tls: TlsEnd::Pass,
        hosts: vec!["shop.example".to_owned()],
        ..Listen::new(443, Protocol::Https)
    };
    let lent = sockets(&[v4], &[(v4, false)]);
    let cases = [
        ("one that was lent", &http, lent.clone(), false, by(&[v4], &[])),
        ("beside others", &http, sockets(&[], &[(v4, true), (v6, true)]), false, by(&[], &[v4, v6])),
        ("one of each", &http, sockets(&[v4], &[(v4, true), (v6, true)]), false, by(&[v4], &[v6])),
        (
            "who shares nothing",
            &http,
            sockets(&[v4], &[(v4, false), (v6, false)]),
            false,
            Err("by a socket it would take one that whoever listens at ::1 shares"),
        ),
        ("nobody is there", &http, sockets(&[], &[]), false, Err("nobody does")),
        ("calls would come back", &http, lent.clone(), true, Err("a target is that port itself")),
        ("datagrams", &Listen::new(8080, Protocol::Udp), lent.clone(), false, Err("it is one of UDP")),
        ("TLS of some hosts", &named, lent, false, Err("TLS passes there by the hosts that callers name")),
    ];
    for (what, listen, sockets, is_target, expected) in cases {
        let facts = Facts { sockets: Some(&sockets), is_target, ..none };
        let found = way(listen, facts);
        let by_rules = way(listen, Facts { is_allowed: true, marks: true, ..facts });
        match expected {
            Ok(expected) => assert_eq!((found, by_rules), (Ok(expected.clone()), Ok(expected)), "{what}"),
            Err(why) => {
                let found = found.unwrap_err();
                assert!(found.contains(why), "{what}: {found}");
                assert!(found.ends_with("; or set takeover.nftables of agent and proxy"), "{what}: {found}");
                assert_eq!(by_rules, Ok(Way::Nftables), "{what}");
            }
        }
    }
}

#[test]
fn the_first_port_is_chosen_that_nobody_has() {
    let tried = RefCell::new(Vec::new());
    let in_use = BTreeSet::from([19_000, 19_002]);
    let socket = Socket { port: 53, is_udp: true };
    let is_free = |socket: Socket| {
        tried.borrow_mut().push(socket);
        socket.port == 19_003
    };
    assert_eq!(place(socket, (19_000, 19_999), &in_use, is_free), Ok(19_003));
    // Of the protocol that is taken over.
    assert_eq!(*tried.borrow(), [19_001, 19_003].map(|port| Socket { port, is_udp: true }));
    assert_eq!(
        place(socket, (19_000, 19_002), &in_use, is_free).unwrap_err(),
        "no port from 19000 to 19002 is free, at which calls to port 53 could be taken: give takeover.ports more"
    );
}
