//! The table of nftables as text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use agent::takeover::nft::{Found, Redirect, Redirects, Sent, read, render, sent, written};
use model::traffic::Socket;
use proxy::nftables::leads_to;

const TCP: Socket = Socket { port: 8080, is_udp: false };
const UDP: Socket = Socket { port: 53, is_udp: true };

fn both() -> Redirects {
    Redirects::from([
        (TCP, Redirect { to: 19_000, of: Vec::new() }),
        (UDP, Redirect { to: 19_001, of: vec![Ipv4Addr::new(127, 0, 0, 53).into()] }),
    ])
}

#[test]
fn the_whole_table_is_replaced_at_once() {
    insta::assert_snapshot!(render(&both()), @"
    table inet choirmaster
    delete table inet choirmaster
    table inet choirmaster {
      chain output {
        type nat hook output priority -110; policy accept;
        meta mark != 0x63686f69 ip daddr 127.0.0.53 udp dport 53 ct mark set 0x63684a39 dnat to :19001
        meta mark != 0x63686f69 fib daddr type local tcp flags & (fin | syn | rst | ack) == syn tcp dport 8080 dnat to :19000
        ct state new accept
      }
      chain prerouting {
        type nat hook prerouting priority -110; policy accept;
        meta mark != 0x63686f69 ip daddr 127.0.0.53 udp dport 53 ct mark set 0x63684a39 dnat to :19001
        meta mark != 0x63686f69 fib daddr type local tcp flags & (fin | syn | rst | ack) == syn tcp dport 8080 redirect to :19000
        ct state new accept
      }
    }
    ");
    // Without any, who was sent before goes on: the kernel keeps connections in mind as long as a rule has it do so.
    insta::assert_snapshot!(render(&Redirects::new()), @"
    table inet choirmaster
    delete table inet choirmaster
    table inet choirmaster {
      chain output {
        type nat hook output priority -110; policy accept;
        ct state new accept
      }
      chain prerouting {
        type nat hook prerouting priority -110; policy accept;
        ct state new accept
      }
    }
    ");
}

#[test]
fn there_is_a_rule_for_each_address_at_which_the_program_listens() {
    let of = |of: &[IpAddr]| {
        let text = render(&Redirects::from([(TCP, Redirect { to: 19_000, of: of.to_vec() })]));
        let called = |line: &str| {
            let (_, called) = line.split_once("!= 0x63686f69 ")?;
            let (called, does) =
                called.split_once(" tcp flags & (fin | syn | rst | ack) == syn tcp dport 8080 ")?;
            Some(format!("{called}: {does}"))
        };
        text.lines().filter_map(called).collect::<Vec<_>>()
    };
    let at_all = ["fib daddr type local: dnat to :19000", "fib daddr type local: redirect to :19000"];
    assert_eq!(of(&[]), at_all);
    let at_all_of_v4 = at_all.map(|rule| format!("meta nfproto ipv4 {rule}"));
    assert_eq!(of(&[Ipv4Addr::UNSPECIFIED.into()]), at_all_of_v4);
    let own = ["ip daddr 127.0.0.1: dnat to :19000", "ip6 daddr ::1: dnat to :19000"];
    assert_eq!(of(&[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]), [own, own].concat());
}

/// As versions 1.0.6 and 1.1.3 of nft list the same table.
const LISTED: [&str; 2] = [
    "table inet choirmaster {
	chain output {
		type nat hook output priority -110; policy accept;
		meta mark != 0x63686f69 ip daddr 127.0.0.53 udp dport 53 ct mark set 0x63684a39 dnat to :19001
		meta mark != 0x63686f69 fib daddr type local tcp flags syn / fin,syn,rst,ack tcp dport 8080 dnat to :19000
		ct state new accept
	}

	chain prerouting {
		type nat hook prerouting priority dstnat - 10; policy accept;
		meta mark != 0x63686f69 ip daddr 127.0.0.53 udp dport 53 ct mark set 0x63684a39 dnat to :19001
		meta mark != 0x63686f69 fib daddr type local tcp flags syn / fin,syn,rst,ack tcp dport 8080 redirect to :19000
		ct state new accept
	}
}
",
    "table inet choirmaster {
	chain output {
		type nat hook output priority dstnat - 10; policy accept;
		meta mark != 0x63686f69 ip daddr 127.0.0.53 udp dport 53 ct mark set 0x63684a39 dnat to :19001
		meta mark != 0x63686f69 fib daddr type local tcp flags & (fin | syn | rst | ack) == syn tcp dport 8080 dnat to :19000
		ct state new accept
	}

	chain prerouting {
		type nat hook prerouting priority dstnat - 10; policy accept;
		meta mark != 0x63686f69 ip daddr 127.0.0.53 udp dport 53 ct mark set 0x63684a39 dnat to :19001
		meta mark != 0x63686f69 fib daddr type local tcp flags & (fin | syn | rst | ack) == syn tcp dport 8080 redirect to :19000
		ct state new accept
	}
}
",
];

#[test]
fn where_callers_are_sent_is_read_whatever_words_nft_has_for_it() {
    for listed in LISTED {
        assert_eq!(read(listed), sent(&both()));
        assert_eq!(leads_to(listed).into_iter().collect::<Vec<_>>(), [19_000, 19_001]);
    }
    assert_eq!(read(&render(&Redirects::new())), Sent::new());
    assert_eq!(
        read("table inet choirmaster {\n\tchain output {\n\t\ttcp dport 22 accept\n\t}\n}\n"),
        Sent::new()
    );
    assert_eq!(written(&sent(&both())), "udp 53 at 19001, tcp 8080 at 19000");
    assert_eq!(written(&Sent::new()), "nothing");
}

#[test]
fn what_is_listed_otherwise_than_it_was_is_another() {
    let found = Found { is_there: true, is_as_put: true, sent: sent(&both()) };
    assert!(found.is(&both()));
    let others = [
        Found { is_there: false, ..found.clone() },
        Found { is_as_put: false, ..found.clone() },
        Found { sent: Sent::from([(TCP, 19_000)]), ..found },
    ];
    for other in others {
        assert!(!other.is(&both()), "{other:?}");
    }
}
