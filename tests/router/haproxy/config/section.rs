use std::collections::BTreeMap;

use proptest::prelude::*;
use router::haproxy::config::{
    Unable, file_of, listens_of, maps, section, state, strange_sections, structure_of,
};
use traffic::{
    HashFunction, Shares,
    desired::{Health, Listen, Protocol},
};

use super::{any_specs, frame, shop, wanted};

/// First words of lines, each with how many words may follow.
const KEYWORDS: [(&str, std::ops::RangeInclusive<usize>); 20] = [
    ("#", 1..=40),
    ("defaults", 1..=1),
    ("mode", 1..=1),
    ("option", 1..=2),
    ("timeout", 2..=2),
    ("retries", 1..=1),
    ("balance", 1..=1),
    ("frontend", 3..=3),
    ("bind", 1..=2),
    ("http-request", 2..=14),
    ("tcp-request", 3..=12),
    ("http-after-response", 8..=14),
    ("use_backend", 9..=14),
    ("default_backend", 1..=1),
    ("backend", 3..=3),
    ("http-response", 3..=3),
    ("http-check", 2..=10),
    ("server", 2..=11),
    ("global", 0..=0),
    ("hard-stop-after", 1..=1),
];

proptest! {
    #[test]
    fn nothing_that_somebody_chose_ends_a_word_or_a_line(specs in any_specs()) {
        let wanted = wanted(1, &specs);
        let section = section(&wanted, &frame()).unwrap();
        prop_assert!(section.text.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)));
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for line in section.text.lines() {
            let mut words = line.split_ascii_whitespace();
            let first = words.next().unwrap();
            let follow = words.count();
            let known = KEYWORDS.iter().find(|(keyword, _)| *keyword == first);
            prop_assert!(known.is_some_and(|(_, may)| may.contains(&follow)), "{line}");
            *counts.entry(first).or_default() += 1;
            if first != "#" {
                let quotes = line.matches('"').count();
                prop_assert!(!line.contains(['\\', '\'', '#', '$', ';']) || first == "http-after-response" || first == "http-check", "{line}");
                prop_assert!(quotes == 0 || quotes == 2, "{line}");
            }
        }
        let variations: usize = specs.iter().map(|spec| spec.variations.len()).sum();
        let count = |word: &str| counts.get(word).copied().unwrap_or_default();
        prop_assert_eq!(count("frontend"), specs.len());
        prop_assert_eq!(count("backend"), variations + 1);
        prop_assert_eq!(count("use_backend"), variations - specs.len());
        prop_assert_eq!(count("bind"), specs.len());
        for (name, map) in maps(&wanted) {
            for line in file_of(&map).lines() {
                let words: Vec<&str> = line.split(' ').collect();
                let is_plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte));
                prop_assert!(words.len() == 2 && words.iter().all(is_plain), "{line:?} in {name}");
            }
        }
    }

    #[test]
    fn a_section_tells_its_structure_and_where_it_listens(specs in any_specs()) {
        let section = section(&wanted(1, &specs), &frame()).unwrap();
        prop_assert_eq!(structure_of(&section.text, &frame().folder), Some(section.structure.clone()));
        let mut ports: Vec<String> = specs.iter().map(|spec| format!("0.0.0.0:{}", spec.listens[0].port)).collect();
        ports.sort();
        prop_assert_eq!(listens_of(&section.text).into_iter().collect::<Vec<_>>(), ports);
        let state = file_of(&state(&wanted(1, &specs)));
        prop_assert_eq!(strange_sections(&section.text, &state), [""; 0]);
    }
}

#[test]
fn the_first_line_has_the_number_and_shares_are_no_part_of_the_structure() {
    let before = section(&wanted(1, &[shop()]), &frame()).unwrap();
    assert_eq!(before.text.lines().next(), Some("# choirmaster 3.1"));
    let mut spec = shop();
    spec.table = spec.table.with_shares(&Shares::new([0, 10_000]).unwrap()).unwrap();
    let after = section(&wanted(2, &[spec]), &frame()).unwrap();
    assert_eq!(after.structure, before.structure);
    assert_eq!(after.text.split_once('\n').unwrap().1, before.text.split_once('\n').unwrap().1);
    assert_eq!(after.text.lines().next(), Some("# choirmaster 3.2"));
}

#[test]
fn all_else_is_part_of_the_structure() {
    let of = |change: &dyn Fn(&mut traffic::desired::ServiceSpec)| {
        let mut spec = shop();
        change(&mut spec);
        section(&wanted(1, &[spec]), &frame()).unwrap().structure
    };
    let before = of(&|_| {});
    let changed = [
        of(&|spec| spec.salt = "release-8".parse().unwrap()),
        of(&|spec| spec.sticky = None),
        of(&|spec| spec.listens[0].port = 8081),
        of(&|spec| spec.variations[1].name = "C".parse().unwrap()),
        of(&|spec| spec.variations[1].targets[0].port = 1),
        of(&|spec| spec.variations[1].health = Some(Health::default())),
        of(&|spec| spec.name = "Shop".parse().unwrap()),
    ];
    for (at, one) in changed.iter().enumerate() {
        assert!(*one != before && !changed[..at].contains(one), "{at}");
    }
}

#[test]
fn a_service_is_written_down_as_the_documentation_shows_it() {
    let mut spec = shop();
    spec.variations[1].health = Some(Health { path: Some("/ready".into()), ..Health::default() });
    let wanted = wanted(42, &[spec]);
    let section = section(&wanted, &frame()).unwrap();
    let folder = format!("/etc/haproxy/choirmaster/{}", section.structure);
    let service = section.text.split_once("frontend ").unwrap().1;
    let expected = format!(
        r#"choirmaster:shop from choirmaster::http
    bind 0.0.0.0:8080
    http-request set-header X-Forwarded-For "%[req.fhdr(X-Forwarded-For)], %[src]" if {{ req.fhdr_cnt(X-Forwarded-For) eq 1 }}
    http-request add-header X-Forwarded-For %[src] unless {{ req.fhdr_cnt(X-Forwarded-For) eq 1 }}
    http-request set-header X-Forwarded-Proto http
    http-request set-var(txn.cm_key) req.cook(cm)
    http-request set-var(txn.cm_new) uuid,xxh64(0),hex,lower if !{{ var(txn.cm_key) -m found }}
    http-request set-var(txn.cm_key) var(txn.cm_new) if {{ var(txn.cm_new) -m found }}
    http-request set-var(txn.cm_to) var(txn.cm_key),xxh32(2767308855),mod(10000),map_str({folder}/shop.table) if {{ str(service/shop),map_str({folder}/state.map,off) -m str on }}
    http-after-response add-header Set-Cookie "cm=%[var(txn.cm_new)]; Path=/; HttpOnly; SameSite=Lax" if {{ var(txn.cm_new) -m found }}
    use_backend choirmaster:shop:B if {{ var(txn.cm_to) -m str -- B }} {{ nbsrv(choirmaster:shop:B) gt 0 }}
    default_backend choirmaster:shop:A
backend choirmaster:shop:A from choirmaster::http
    http-response set-header X-Choirmaster-Version A
    server 127.0.0.1:9101 127.0.0.1:9101
    server ::1:9102 [::1]:9102
backend choirmaster:shop:B from choirmaster::http
    http-response set-header X-Choirmaster-Version B
    timeout check 1000ms
    option httpchk
    http-check send meth GET uri /ready ver HTTP/1.1 hdr Host localhost
    http-check expect status 200-399
    server b.example:9111 b.example:9111 init-addr libc,none check inter 2000ms rise 2 fall 3
"#
    );
    assert_eq!(service, expected);
    let files: BTreeMap<String, String> =
        maps(&wanted).into_iter().map(|(name, map)| (name, file_of(&map))).collect();
    assert_eq!(files["state.map"], "number 3.42\nservice/shop on\n");
    assert_eq!(files["shop.table"].lines().count(), 1_000);
    assert_eq!(files["shop.table"].lines().next(), Some("0 B"));
}

#[test]
fn what_haproxy_cannot_do_is_refused_by_name() {
    let mut spec = shop();
    spec.hash = HashFunction::Murmur2;
    let refused = |spec| section(&wanted(1, &[spec]), &frame()).unwrap_err();
    assert_eq!(refused(spec.clone()), Unable::Hash("shop".to_owned(), HashFunction::Murmur2));
    spec.sticky = None;
    assert!(section(&wanted(1, &[spec.clone()]), &frame()).is_ok(), "nothing is hashed");
    spec.listens = vec![Listen::new(1, Protocol::Udp)];
    assert_eq!(refused(spec.clone()), Unable::Protocol("shop".to_owned(), Protocol::Udp));
    spec.listens = vec![Listen::new(1, Protocol::Https)];
    assert_eq!(refused(spec.clone()), Unable::Certificate("shop".to_owned()));
    spec.listens[0].path = Some("/api".to_owned());
    spec.listens[0].protocol = Protocol::Http;
    assert_eq!(refused(spec), Unable::Routes("shop".to_owned()));
}

#[test]
fn sections_that_are_marked_as_ours_and_belong_to_no_service_are_found() {
    let config = "frontend theirs\n\tbackend choirmaster:ghost:A from x\n listen choirmaster:shop\n\
                  # backend choirmaster:no:A\nbackend choirmaster::state\nfrontend choirmaster:old\n";
    let found = strange_sections(config, "number 3.1\nservice/shop on\n");
    assert_eq!(found, ["choirmaster:ghost:A", "choirmaster:old"]);
}

#[test]
fn a_folder_has_to_stand_in_commands_as_it_is() {
    use router::haproxy::config::Folder;
    let folder = |path: &str| Folder::new(std::path::Path::new(path));
    for path in ["relative/path", "", "/with space", "/a;b", "/a\nb", "/a\"b", "/a,b", "/a)b", "/ä"] {
        assert!(folder(path).is_err(), "{path:?}");
    }
    assert!(folder("/etc/haproxy/choirmaster/").is_ok());
}
