//! Which names are known, one by one.

use http_api::host::{Hosts, MAX_WARNED};

fn hosts(listen: &str) -> Hosts {
    let names = ["Choir.Example".to_owned(), "10.9.8.7".to_owned()];
    Hosts::new(&[listen.parse().unwrap()], &names, false)
}

#[test]
fn a_manager_knows_its_names_its_addresses_and_loopback() {
    let hosts = hosts("192.0.2.5:9991");
    for known in [
        "localhost",
        "LOCALHOST:80",
        "localhost.",
        "127.0.0.1:1",
        "127.3.2.1",
        "[::1]:9991",
        "[::1]",
        "192.0.2.5:9991",
        "choir.example",
        "CHOIR.example.:443",
        "10.9.8.7:80",
        "[::ffff:127.0.0.1]",
    ] {
        assert!(hosts.is_known(known.as_bytes(), None), "{known}");
    }
    for unknown in [
        "",
        ":80",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:9991",
        "192.0.2.6",
        "[::2]",
        "[::1",
        "localhost:80x",
        "localhost:80:90",
        "a b",
        "xlocalhost",
        "0.0.0.0",
    ] {
        assert!(!hosts.is_known(unknown.as_bytes(), None), "{unknown}");
    }
    assert!(hosts.is_known(b"192.0.2.6", Some("192.0.2.6".parse().unwrap())));
}

#[test]
fn who_listens_everywhere_has_every_address_of_the_machine_and_no_other() {
    let hosts = hosts("0.0.0.0:9991");
    assert!(hosts.is_known(b"0.0.0.0:9991", None));
    // Reserved for documentation: nobody's.
    assert!(!hosts.is_known(b"192.0.2.1", None));
    assert!(!hosts.is_known(b"224.0.0.1", None));
    assert!(!hosts.is_known(b"evil.example", None));
}

#[test]
fn warnings_are_bounded_however_many_names_are_tried() {
    let hosts = hosts("127.0.0.1:9991");
    for number in 0..10_000 {
        hosts.warn(&format!("{number}.example"), true);
    }
    assert_eq!(hosts.warned_count(), MAX_WARNED);
}
