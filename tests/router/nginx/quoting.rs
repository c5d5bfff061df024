//! Whether nginx itself takes what was rendered, however odd the words are that users wrote.

use std::{net::Ipv4Addr, process::Command};

use proptest::prelude::*;
use router::nginx::config::{Layout, Log, parse, render};
use traffic::{
    HashFunction, Shares, Table, Variation as Which,
    desired::{DesiredConfig, Listen, Number, Protocol, Rule, Service, ServiceSpec, StickyTo, Variation},
};

fn word<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

prop_compose! {
    fn any_service()(
        name in "[A-Za-z0-9][A-Za-z0-9._-]{0,62}", salt in "[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
        sticky in prop_oneof![
            "[A-Za-z0-9][A-Za-z0-9_-]{0,63}".prop_map(|name| StickyTo::Cookie(word(&name))),
            "[A-Za-z0-9][A-Za-z0-9-]{0,63}".prop_map(|name| StickyTo::Header(word(&name))),
            Just(StickyTo::Address),
        ],
        header in "[A-Za-z0-9][A-Za-z0-9-]{0,63}",
        values in prop::collection::btree_set("[!-~]([ -~]{0,254}[!-~])?|[\"'\\\\${};#~*\\^.(\\[|]{1,20}|\\\\[xztnr\"]", 1..8),
        names in prop::collection::btree_set("[A-Za-z0-9][A-Za-z0-9._-]{0,62}", 2..8),
        port in 1_100..11_900_u16,
    ) -> ServiceSpec {
        let target = |at: usize| format!("127.0.0.{}:{}", at + 2, port + 1);
        let variation = |(at, name): (usize, &String)| Variation {
            name: word(name), targets: vec![word(&target(at)), word("[fe80::1]:9000")], health: None,
        };
        let values = values.iter().zip((0..names.len() as u8).cycle());
        ServiceSpec {
            name: word(&name),
            listens: vec![Listen::new(port, Protocol::Http)],
            sticky: Some(sticky),
            rule: Some(Rule {
                name: word(&header),
                values: values.map(|(value, which)| (word(value), Which(which))).collect(),
            }),
            salt: word(&salt),
            hash: HashFunction::Murmur2,
            variations: names.iter().enumerate().map(variation).collect(),
            table: Table::new(&Shares::all_stable(names.len()).unwrap()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn nginx_takes_the_most_odd_words_as_words(spec in any_service(), is_logged in any::<bool>()) {
        let service = Service::new(spec.clone()).unwrap();
        let wanted = DesiredConfig::new(Number::default(), vec![service]).unwrap();
        let ask = (Ipv4Addr::LOCALHOST, 1_099).into();
        let mut layout = Layout::new("/dev/shm/choirmaster", ask, vec![Ipv4Addr::LOCALHOST.into()]).unwrap();
        layout.log = is_logged.then(|| Log { socket: word("/run/choirmaster/lines"), is_alone: true });
        let text = render(&wanted, &layout).unwrap().text(1);
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {at}/{what};\n")).concat();
        std::fs::write(folder.path().join("ours.conf"), &text).unwrap();
        let main = format!(
            "pid {at}/pid;\nerror_log {at}/log;\nevents {{}}\nhttp {{ access_log off; {temp} include {at}/ours.conf; }}\n"
        );
        let config = folder.path().join("nginx.conf");
        std::fs::write(&config, main).unwrap();
        let tested = Command::new("nginx").arg("-t").arg("-c").arg(&config).output().expect("nginx is installed");
        let said = String::from_utf8_lossy(&tested.stderr);
        prop_assert!(tested.status.success(), "{said}\n{text}");
        prop_assert!(!said.contains("[warn]"), "{said}");
        let there = parse(&text).unwrap().remove(0);
        let values: Vec<_> = spec.rule.unwrap().values.into_iter().map(|(value, _)| value).collect();
        prop_assert_eq!(there.rule.unwrap().1, values);
    }
}
