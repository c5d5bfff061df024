//! The table of nftables as text.

use agent::takeover::nft::{Found, Redirects, read, render};
use model::traffic::Socket;

const TCP: Socket = Socket { port: 8080, is_udp: false };
const UDP: Socket = Socket { port: 53, is_udp: true };

fn both() -> Redirects {
    Redirects::from([(TCP, 19_000), (UDP, 19_001)])
}

/// As nft 1.0.6 lists the table.
const LISTED: &str = include_str!("listed.json");

#[test]
fn the_whole_table_is_replaced_at_once() {
    insta::assert_snapshot!(render(&both()), @"
    table inet choirmaster
    delete table inet choirmaster
    table inet choirmaster {
      chain output {
        type nat hook output priority -110; policy accept;
        meta mark != 0x63686f69 fib daddr type local udp dport 53 dnat to :19001
        meta mark != 0x63686f69 fib daddr type local tcp flags & (fin | syn | rst | ack) == syn tcp dport 8080 dnat to :19000
        ct state new accept
      }
      chain prerouting {
        type nat hook prerouting priority -110; policy accept;
        meta mark != 0x63686f69 fib daddr type local udp dport 53 redirect to :19001
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
fn what_was_put_in_force_is_read_back() {
    let found = read(LISTED).unwrap();
    assert_eq!(found, Found { is_there: true, redirects: both(), others: 0 });
    assert!(found.is(&both()));
    assert!(!found.is(&Redirects::from([(TCP, 19_000)])));
    assert!(Found::default().is_nothing() && !Found::default().is(&Redirects::new()));
    assert!(read("{}").is_err());
    assert!(read("nothing of ours").is_err());
}

#[test]
fn whatever_else_is_there_is_another() {
    let changes = [
        ("it is sent elsewhere", "{\"redirect\": {\"port\": 19000}}", "{\"redirect\": {\"port\": 1}}"),
        ("it is sent by another rule", "{\"dnat\": {\"port\": 19000}}", "{\"redirect\": {\"port\": 19000}}"),
        ("another port", "\"right\": 8080", "\"right\": 8081"),
        (
            "another protocol",
            "\"protocol\": \"tcp\", \"field\": \"dport\"",
            "\"protocol\": \"sctp\", \"field\": \"dport\"",
        ),
        ("connections that go on", "\"right\": \"syn\"", "\"right\": \"ack\""),
        ("nothing keeps them in mind", "\"key\": \"state\"", "\"key\": \"status\""),
        ("also what isn't for this machine", "\"right\": \"local\"", "\"right\": \"unicast\""),
        ("what is marked comes, too", "\"op\": \"!=\"", "\"op\": \"==\""),
        ("another mark", "1667788649", "1"),
        ("another hook", "\"hook\": \"output\"", "\"hook\": \"input\""),
        ("a later turn", "\"prio\": -110", "\"prio\": 0"),
        ("another chain", "\"chain\": \"prerouting\"", "\"chain\": \"elsewhere\""),
    ];
    for (what, from, to) in changes {
        let changed = LISTED.replacen(from, to, 1);
        assert_ne!(changed, LISTED, "{what}");
        assert!(!read(&changed).unwrap().is(&both()), "{what}");
    }
}
