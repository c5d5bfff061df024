//! What nginx is told, read as nginx reads it; whether nginx itself takes it is tried in `tests/router`.

use std::{collections::BTreeSet, net::Ipv4Addr};

use proptest::prelude::*;
use router::nginx::config::{
    Changes, Layout, LayoutError, Log, RenderError, as_answered, bucket_name, changes, header, id_of,
    listens_of_others, lookups, parse, parse_stream, render, stream_digest, stream_not_included, stream_of,
    table_of, with_load,
};
use traffic::{
    BUCKETS, Bucket, HashFunction, Run, Shares, Table, Variation as Which,
    desired::{
        DesiredConfig, HeaderName, Listen, Name, Number, Protocol, Rule, Service, ServiceSpec, StickyTo,
        Variation,
    },
};

fn layout() -> Layout {
    let ask = (Ipv4Addr::LOCALHOST, 8099).into();
    Layout::new("/dev/shm/choirmaster", ask, vec![Ipv4Addr::LOCALHOST.into()]).unwrap()
}

fn word<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// A service of two variations at port 8080.
fn service(name: &str) -> ServiceSpec {
    let variation = |name, target| Variation { name: word(name), targets: vec![word(target)], health: None };
    ServiceSpec {
        name: word(name),
        listens: vec![Listen::new(8080, Protocol::Http)],
        sticky: Some(StickyTo::Cookie(word("cm_user"))),
        rule: None,
        salt: word("release-7"),
        hash: HashFunction::Murmur2,
        variations: vec![variation("A", "127.0.0.1:9101"), variation("B", "[::1]:9111")],
        table: Table::new(&Shares::new([9_500, 500]).unwrap()),
    }
}

fn wanted(specs: Vec<ServiceSpec>) -> DesiredConfig {
    let services = specs.into_iter().map(|spec| Service::new(spec).unwrap()).collect();
    DesiredConfig::new(Number { epoch: 1, generation: 2 }, services).unwrap()
}

#[test]
fn a_change_of_shares_leaves_the_include_as_it_is() {
    let one = render(&wanted(vec![service("checkout")]), &layout()).unwrap();
    let mut other = service("checkout");
    other.table = Table::new(&Shares::new([0, 10_000]).unwrap());
    assert_eq!(one, render(&wanted(vec![other]), &layout()).unwrap());
}

#[test]
fn what_one_service_has_leaves_the_folders_of_others_as_they_are() {
    let alone = render(&wanted(vec![service("checkout")]), &layout()).unwrap();
    let mut before = service("a");
    before.listens[0].port = 8081;
    let beside = render(&wanted(vec![before, service("checkout")]), &layout()).unwrap();
    assert_eq!(alone.places[0], beside.places[1]);
    assert_ne!(alone.digest, beside.digest);
    let mut changed = service("checkout");
    changed.variations[1].targets[0] = word("127.0.0.1:9112");
    let changed = render(&wanted(vec![changed]), &layout()).unwrap();
    assert_ne!(alone.places[0].structure, changed.places[0].structure);
}

#[test]
fn a_change_by_hand_is_told_from_the_include_itself() {
    let text = render(&wanted(vec![service("checkout")]), &layout()).unwrap().text(17);
    let head = header(&text).unwrap();
    assert_eq!((head.load, head.is_whole), (17, true));
    let edited = text.replace("127.0.0.1:9101", "127.0.0.1:9102");
    assert!(!header(&edited).unwrap().is_whole);
    assert_eq!(parse(&edited).unwrap()[0].variations[0].1, [word("127.0.0.1:9102")]);
    let again = with_load(&text, &head, 18);
    assert_eq!(again, render(&wanted(vec![service("checkout")]), &layout()).unwrap().text(18));
    assert_eq!(header("server { listen 80; }\n"), None);
    assert_eq!(header(""), None);
    for cut in 0..text.len() {
        if text.is_char_boundary(cut) && cut < text.len() - 1 {
            assert!(!header(&text[..cut]).is_some_and(|head| head.is_whole), "cut at {cut}");
            let _ = parse(&text[..cut]);
        }
    }
}

#[test]
fn what_nginx_cant_do_is_refused_by_name() {
    let refused = |change: fn(&mut ServiceSpec)| {
        let mut spec = service("checkout");
        change(&mut spec);
        render(&wanted(vec![spec]), &layout()).unwrap_err()
    };
    let name: Name = word("checkout");
    assert_eq!(
        refused(|spec| spec.listens[0].protocol = Protocol::Https),
        RenderError::Certificate(name.clone())
    );
    assert_eq!(
        refused(|spec| (spec.listens[0].protocol, spec.sticky) = (Protocol::Tcp, None)),
        RenderError::NoAnswers(name.clone())
    );
    assert_eq!(refused(|spec| spec.hash = HashFunction::Xxh32), RenderError::Function(name.clone()));
    let port = refused(|spec| spec.listens[0].port = 8099);
    assert_eq!(port, RenderError::Port { service: name.clone(), port: 8099 });
    // Of datagrams that port is another one, and where nobody is asked of sessions, theirs is free.
    let of = |protocol, port| render(&wanted(vec![over("checkout", protocol, port)]), &with_stream());
    assert!(of(Protocol::Udp, 8099).is_ok() && of(Protocol::Http, 8098).is_ok());
    assert_eq!(of(Protocol::Tcp, 8098).unwrap_err(), RenderError::Port { service: name, port: 8098 });
}

/// The same where services of TCP and UDP can be.
fn with_stream() -> Layout {
    let mut layout = layout();
    layout.ask_stream = Some((Ipv4Addr::LOCALHOST, 8098).into());
    layout
}

fn over(name: &str, protocol: Protocol, port: u16) -> ServiceSpec {
    ServiceSpec { listens: vec![Listen::new(port, protocol)], sticky: None, ..service(name) }
}

#[test]
fn the_file_of_services_of_tcp_and_udp_is_this_text() {
    let mut database = over("db", Protocol::Tcp, 5432);
    database.listens.push(Listen::new(5433, Protocol::Tcp));
    database.sticky = Some(StickyTo::Address);
    let names = over("dns", Protocol::Udp, 53);
    let mut layout = with_stream();
    layout.log = Some(Log { socket: word("/run/lines.sock"), is_alone: true });
    let file = render(&wanted(vec![database, names]), &layout).unwrap().stream.unwrap();
    // What is long, or a hash, says nothing to a reader.
    let parts = (0..99).map(|part| format!("1% {part:02}; ")).collect::<Vec<_>>().concat();
    let is_of_many = |line: &&str| {
        !(2..16).any(|lane| line.contains(&format!("lane{lane} ")) || line.ends_with(&format!("lane{lane};")))
    };
    let text = file.lines().filter(is_of_many).collect::<Vec<_>>().join("\n");
    let lanes = (1..16).map(|lane| format!("6.25% {lane}; ")).collect::<Vec<_>>().concat();
    let mut text = text.replace(&parts, "… ").replace(&lanes, "… ");
    for (hash, name) in [
        (stream_digest(&file).unwrap().to_owned(), "DIGEST"),
        (id_of("db"), "DB"),
        (id_of("dns"), "DNS"),
        (id_of("A"), "HASH-OF-A"),
        (id_of("B"), "HASH-OF-B"),
    ] {
        text = text.replace(&hash, name);
    }
    insta::assert_snapshot!(text, @r#"
    # Made by choirmaster; changes by hand are seen and undone. What is yours goes into another file.
    # digest DIGEST
    limit_conn_zone $cm_session zone=choirmaster_sessions:16m;
    map "$protocol:$server_port" $cm_session {
        default $proxy_protocol_addr;
        "TCP:5432" $cm_DB_session;
        "TCP:5433" $cm_DB_session;
        "UDP:53" $cm_DNS_session;
    }
    map "$protocol:$server_port" $cm_key {
        default "";
        "TCP:5432" "release-7$remote_addr";
        "TCP:5433" "release-7$remote_addr";
        "UDP:53" "release-7$remote_addr:$remote_port";
    }
    split_clients "${cm_key}" $cm_high { … * 99; }
    split_clients "${cm_key}#" $cm_low { … * 99; }
    map "$protocol:$server_port" $cm_bucket {
        default "";
        "TCP:5432" "0.0.$cm_high.$cm_low";
        "TCP:5433" "0.0.$cm_high.$cm_low";
        "UDP:53" "0.1.$cm_high.$cm_low";
    }
    geo $cm_bucket $cm_variation {
        ranges;
        default 0;
        0.0.0.0-0.0.4.99 1;
        0.1.0.0-0.1.4.99 1;
    }
    server {
        listen 127.0.0.1:8098 proxy_protocol;
        access_log off;
        limit_conn choirmaster_sessions 1;
        limit_conn_dry_run on;
        limit_conn_log_level info;
        return "choirmaster DIGEST $limit_conn_status\n";
    }
    map "$status:$bytes_received:$bytes_sent" $cm_call { default 1; "200:0:0" ""; }
    split_clients "$msec$connection" $cm_lane { … * 0; }
    map $cm_call$cm_lane $cm_lane0 { default ""; 10 1; }
    map $cm_call$cm_lane $cm_lane1 { default ""; 11 1; }

    # service db
    map $server_port $cm_DB_service { default "db"; }
    map $cm_variation $cm_DB_to { default "cm_DB_$cm_variation"; }
    map $cm_DB_to $cm_DB_name { default ""; cm_DB_0 "A"; cm_DB_1 "B"; }
    map $cm_DB_to $cm_DB_session { default ""; cm_DB_0 "DB:HASH-OF-A"; cm_DB_1 "DB:HASH-OF-B"; }
    upstream cm_DB_0 {
        server 127.0.0.1:9101 max_fails=2 fail_timeout=2s;
    }
    upstream cm_DB_1 {
        server [::1]:9111 max_fails=2 fail_timeout=2s;
    }
    log_format cm_DB 'cm1|s|db|$cm_DB_name|$cm_high$cm_low|$msec|$status|$session_time|'
        '$bytes_received|$bytes_sent|$upstream_addr|$pid';
    server {
        listen 127.0.0.1:5432;
        listen 127.0.0.1:5433;
        access_log syslog:server=unix:/run/lines.sock,nohostname,tag=cm cm_DB if=$cm_lane0;
        access_log syslog:server=unix:/run/lines.sock.1,nohostname,tag=cm cm_DB if=$cm_lane1;
        limit_conn choirmaster_sessions 65535;
        limit_conn_dry_run on;
        proxy_connect_timeout 1s;
        proxy_next_upstream_tries 3;
        proxy_protocol off;
        proxy_timeout 1h;
        proxy_half_close on;
        proxy_pass $cm_DB_to;
    }

    # service dns
    map $server_port $cm_DNS_service { default "dns"; }
    map $cm_variation $cm_DNS_to { default "cm_DNS_$cm_variation"; }
    map $cm_DNS_to $cm_DNS_name { default ""; cm_DNS_0 "A"; cm_DNS_1 "B"; }
    map $cm_DNS_to $cm_DNS_session { default ""; cm_DNS_0 "DNS:HASH-OF-A"; cm_DNS_1 "DNS:HASH-OF-B"; }
    upstream cm_DNS_0 {
        server 127.0.0.1:9101 max_fails=2 fail_timeout=2s;
        hash "$remote_addr:$remote_port" consistent;
    }
    upstream cm_DNS_1 {
        server [::1]:9111 max_fails=2 fail_timeout=2s;
        hash "$remote_addr:$remote_port" consistent;
    }
    server {
        listen 127.0.0.1:53 udp reuseport;
        limit_conn choirmaster_sessions 65535;
        limit_conn_dry_run on;
        proxy_connect_timeout 1s;
        proxy_next_upstream_tries 3;
        proxy_protocol off;
        proxy_timeout 30s;
        proxy_pass $cm_DNS_to;
    }
    "#);
}

#[test]
fn what_services_of_tcp_have_leaves_those_of_http_where_they_are() {
    let mut database = over("db", Protocol::Tcp, 5432);
    let alone = render(&wanted(vec![service("checkout")]), &with_stream()).unwrap();
    let before = render(&wanted(vec![service("checkout"), database.clone()]), &with_stream()).unwrap();
    database.table = Table::new(&Shares::new([0, 10_000]).unwrap());
    let after = render(&wanted(vec![service("checkout"), database]), &with_stream()).unwrap();
    assert_eq!((&alone.places, &before.places), (&before.places, &after.places));
    assert_eq!(alone.stream, None);
    // Its shares are in the file, and the file in the include.
    assert_ne!((&before.stream, &before.digest), (&after.stream, &after.digest));
    for rendered in [alone, before, after] {
        let text = rendered.text(17);
        assert_eq!(stream_of(&text), rendered.stream);
        assert!(header(&text).unwrap().is_whole && parse(&text).unwrap().len() == 1);
    }
}

#[test]
fn the_line_that_is_missing_for_services_of_tcp_and_udp_is_said() {
    let printed = |main: &str| format!("# configuration file /etc/nginx/nginx.conf:\n{main}\n");
    let path = "/etc/nginx/choirmaster.conf.stream";
    let said = |main: &str| stream_not_included(path, &printed(main)).unwrap();
    insta::assert_snapshot!(said("http { server { listen 80; } }"), @"services of TCP and UDP stand in /etc/nginx/choirmaster.conf.stream, and nginx doesn't include it: add `stream { include /etc/nginx/choirmaster.conf.stream; }` next to http { … }, and where it doesn't know that word, its stream module (libnginx-mod-stream in Debian and Ubuntu)");
    insta::assert_snapshot!(said("stream { server { listen 53 udp; return a; } }"), @"services of TCP and UDP stand in /etc/nginx/choirmaster.conf.stream, and nginx doesn't include it: add `include /etc/nginx/choirmaster.conf.stream;` to stream { … }");
    let included =
        printed("stream { include /etc/nginx/*.stream; }") + &format!("# configuration file {path}:\n\n");
    assert_eq!(stream_not_included(path, &included), None);
    // What listens there is ours; of the operator's own, datagrams come to other ports than connections.
    let ours = "/etc/nginx/choirmaster.conf";
    let all = included
        + "server { listen 127.0.0.1:5432; }\n"
        + &printed("stream { server { listen 53 udp; return a; } server { listen 5353; return a; } }");
    assert_eq!(listens_of_others(&all, ours, true), BTreeSet::from([(None, 53)]));
    assert_eq!(listens_of_others(&all, ours, false), BTreeSet::from([(None, 5353)]));
}

#[test]
fn a_change_by_hand_of_the_file_is_told_from_the_include() {
    let rendered = render(&wanted(vec![over("db", Protocol::Tcp, 5432)]), &with_stream()).unwrap();
    let file = rendered.stream.clone().unwrap();
    let there = |text: &str| parse_stream(text).unwrap().remove(0);
    assert_eq!(there(&file).table.hundredths(), [9_500, 500]);
    let edited =
        file.replace("0.0.0.0-0.0.4.99", "0.0.0.0-0.0.89.99").replace("127.0.0.1:9101", "127.0.0.1:9102");
    assert_eq!(there(&edited).table.hundredths(), [1_000, 9_000]);
    assert_eq!(there(&edited).variations[0].1, [word("127.0.0.1:9102")]);
    assert_eq!(stream_digest(&edited), stream_digest(&file), "its head stays as it was");
    assert_ne!(stream_of(&rendered.text(1)), Some(edited));
    assert_eq!((stream_digest(""), stream_of("")), (None, None));
    for spoiled in ["0.0.0.0-0.0.100.0", "0.0.0.0", "0.0.5.0-0.0.4.0x", "0.0.9.0-0.0.4.0", "0.0.0.0-0.1.4.99"]
    {
        parse_stream(&file.replace("0.0.0.0-0.0.4.99", spoiled)).unwrap_err();
    }
    for (good, spoiled) in [("0.0.0.0-0.0.4.99 1", "0.0.0.0-0.0.4.99 2"), ("\"0.0.$cm_high", "\"0.$cm_high")]
    {
        parse_stream(&file.replace(good, spoiled)).unwrap_err();
    }
    for cut in (0..file.len()).filter(|cut| file.is_char_boundary(*cut)) {
        let _ = (parse_stream(&file[..cut]), stream_digest(&file[..cut]));
    }
}

#[test]
fn folders_and_addresses_that_could_mean_something_else_are_refused() {
    let on = vec![Ipv4Addr::LOCALHOST.into()];
    let ask = (Ipv4Addr::LOCALHOST, 8099).into();
    for folder in ["", "relative", "/a b", "/a;b", "/a$b", "/a\"b", "/a\nb", "/{a}", "/a'b", "/a\\b", "/ä"] {
        assert_eq!(Layout::new(folder, ask, on.clone()), Err(LayoutError::Folder(folder.to_owned())));
    }
    let open = ([192, 0, 2, 1], 8099).into();
    assert_eq!(Layout::new("/a", open, on), Err(LayoutError::Exposed(open)));
    assert_eq!(Layout::new("/a", ask, vec![]), Err(LayoutError::Nowhere));
}

#[test]
fn a_host_called_unix_is_no_socket() {
    let mut spec = service("checkout");
    spec.variations[0].targets = vec![word("unix:9000")];
    let rendered = render(&wanted(vec![spec]), &layout()).unwrap().text(1);
    assert!(!rendered.contains("server unix:"), "{rendered}");
    assert_eq!(parse(&rendered).unwrap()[0].variations[0].1, [word("unix:9000")]);
}

#[test]
fn a_variation_that_goes_to_nothing_goes_at_once() {
    let shares = |hundredths: [u16; 3]| Table::new(&Shares::new(hundredths).unwrap());
    let files = |table: &Table| {
        let mut all = vec![BTreeSet::new(), BTreeSet::new()];
        for run in table.runs().into_iter().filter(|run| !run.variation.is_stable()) {
            all[run.variation.index() - 1].extend(run.from..run.to);
        }
        all
    };
    let there = files(&shares([8_000, 1_000, 1_000]));
    let undone = changes(&there, &shares([10_000, 0, 0]));
    assert_eq!(undone, Changes { make: vec![], empty: vec![1, 2], remove: vec![] });
    assert_eq!(changes(&there, &shares([8_000, 1_000, 1_000])), Changes::default());
    assert_eq!(bucket_name(7), "0007");
    assert_eq!(table_of(3, &there).unwrap(), shares([8_000, 1_000, 1_000]));
}

#[test]
fn what_nginx_itself_answers_counts_more_than_files() {
    let table = Table::new(&Shares::new([9_999, 1]).unwrap());
    let bucket = Bucket::of_random(u32::MAX);
    let answered = as_answered(&table, &[(bucket, Which(1))]).unwrap();
    assert_eq!(answered.hundredths(), [9_998, 2]);
    assert!(as_answered(&table, &[(bucket, Which(2))]).is_err());
}

/// What a call finds that makes its looks one after the other, while files are changed in between.
fn found(variations: usize, looks: &[Vec<BTreeSet<u16>>], bucket: u16) -> Which {
    let mut found = Which::STABLE;
    for (folder, there) in lookups(variations).into_iter().zip(looks) {
        if there[usize::from(folder) - 1].contains(&bucket) {
            found = Which(folder);
        }
    }
    found
}

proptest! {
    #[test]
    fn whenever_a_call_looks_it_gets_the_variation_before_or_the_one_after(
        from in shares_of(4), to in shares_of(4), picks in prop::collection::vec(any::<prop::sample::Index>(), 8),
        bucket in 0..BUCKETS,
    ) {
        let before = Table::new(&from);
        let after = before.with_shares(&to).unwrap();
        let mut there = vec![BTreeSet::new(); 3];
        for run in before.runs().into_iter().filter(|run| !run.variation.is_stable()) {
            there[run.variation.index() - 1].extend(run.from..run.to);
        }
        // Only what becomes of this bucket matters to its calls: the states that it goes through, in their order.
        let changes = changes(&there, &after);
        let mut states = vec![there.clone()];
        for (folder, made) in &changes.make {
            there[usize::from(*folder) - 1].insert(*made);
            if *made == bucket { states.push(there.clone()); }
        }
        if after.hundredths()[0] == BUCKETS {
            there.iter_mut().for_each(BTreeSet::clear);
            states.push(there.clone());
        }
        for folder in &changes.empty {
            there[usize::from(*folder) - 1].clear();
            states.push(there.clone());
        }
        for (folder, gone) in &changes.remove {
            there[usize::from(*folder) - 1].remove(gone);
            if *gone == bucket { states.push(there.clone()); }
        }
        prop_assert_eq!(&table_of(4, &there).unwrap(), &after);
        let of = |table: &Table| table.runs().into_iter().find(|run| bucket < run.to).unwrap().variation;
        // A call's looks fall into any of the states, each no earlier than the one before.
        let mut at: Vec<usize> = lookups(4).iter().zip(&picks).map(|(_, pick)| pick.index(states.len())).collect();
        at.sort_unstable();
        let looks: Vec<_> = at.into_iter().map(|at| states[at].clone()).collect();
        let got = found(4, &looks, bucket);
        prop_assert!(got == of(&before) || got == of(&after), "{got:?}");
    }

    #[test]
    fn the_include_says_what_was_wanted(specs in prop::collection::vec(any_service(), 0..5), load in any::<u64>()) {
        let mut specs = specs;
        for (at, spec) in (0..).zip(&mut specs) {
            spec.name = word(&format!("{}.{at}", spec.name.as_str().get(..40).unwrap_or(spec.name.as_str())));
            spec.listens[0].port = 20_000 + at;
        }
        let wanted = wanted(specs);
        let text = render(&wanted, &layout()).unwrap().text(load);
        prop_assert!(header(&text).unwrap().is_whole);
        let parsed = parse(&text).unwrap();
        prop_assert_eq!(parsed.len(), wanted.services().len());
        for (service, there) in wanted.services().iter().zip(parsed) {
            prop_assert_eq!(&there.name, &service.name);
            prop_assert_eq!(there.id, id_of(service.name.as_str()));
            prop_assert_eq!(there.ports, service.listens.iter().map(|listen| listen.port).collect::<Vec<_>>());
            prop_assert_eq!(there.sticky, service.sticky.clone().map(in_small_letters));
            let values = |rule: &Rule| rule.values.iter().map(|(value, _)| value.clone()).collect();
            let rule = service.rule.as_ref().map(|rule| (small(&rule.name), values(rule)));
            prop_assert_eq!(there.rule, rule);
            prop_assert_eq!(&there.salt, &service.salt);
            let variations = service.variations.iter().map(|one| (one.name.clone(), one.targets.clone()));
            prop_assert_eq!(there.variations, variations.collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_file_beside_it_says_what_was_wanted(
        specs in prop::collection::vec((any_service(), any::<bool>(), any::<bool>(), prop::collection::vec(0..8_u8, 0..40)), 1..5),
    ) {
        let mut all = Vec::new();
        for (at, (mut spec, is_udp, is_sticky, owners)) in (0..).zip(specs) {
            spec.name = word(&format!("{}.{at}", spec.name.as_str().get(..40).unwrap_or(spec.name.as_str())));
            let protocol = if is_udp { Protocol::Udp } else { Protocol::Tcp };
            spec.listens = vec![Listen::new(20_000 + at, protocol), Listen::new(30_000 + at, protocol)];
            (spec.sticky, spec.rule) = (Some(StickyTo::Address).filter(|_| is_sticky), None);
            spec.table = table_of_owners(spec.variations.len(), &owners);
            all.push(spec);
        }
        let wanted = wanted(all);
        let rendered = render(&wanted, &with_stream()).unwrap();
        let file = stream_of(&rendered.text(1)).unwrap();
        prop_assert_eq!(Some(&file), rendered.stream.as_ref());
        let parsed = parse_stream(&file).unwrap();
        prop_assert_eq!(parsed.len(), wanted.services().len());
        for (service, there) in wanted.services().iter().zip(parsed) {
            prop_assert_eq!(&there.name, &service.name);
            prop_assert_eq!(there.sockets, service.listens.iter().map(Listen::socket).collect::<BTreeSet<_>>());
            prop_assert_eq!(&there.table, &service.table);
            let variations = service.variations.iter().map(|one| (one.name.clone(), one.targets.clone()));
            prop_assert_eq!(there.variations, variations.collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_text_is_too_odd_to_be_read(text in "[ -~\n]{0,200}") {
        let _ = (header(&text), parse(&text), stream_of(&text), stream_digest(&text), parse_stream(&text));
    }
}

/// A table in which buckets go from one of these to the next.
fn table_of_owners(variations: usize, owners: &[u8]) -> Table {
    let mut of = owners.iter().map(|owner| Which(owner % variations as u8)).cycle();
    let each = BUCKETS / (owners.len().max(1) as u16);
    let starts = (0..BUCKETS).step_by(usize::from(each));
    let runs: Vec<Run> = starts
        .map(|from| Run {
            from,
            to: (from + each).min(BUCKETS),
            variation: of.next().unwrap_or(Which::STABLE),
        })
        .collect();
    Table::from_runs(variations, &runs).unwrap()
}

fn small(name: &HeaderName) -> HeaderName {
    word(&name.as_str().to_ascii_lowercase())
}

fn in_small_letters(sticky: StickyTo) -> StickyTo {
    match sticky {
        StickyTo::Header(name) => StickyTo::Header(small(&name)),
        StickyTo::Cookie(_) | StickyTo::Address => sticky,
    }
}

fn shares_of(variations: usize) -> impl Strategy<Value = Shares> {
    prop::collection::vec(0..=BUCKETS, variations - 1).prop_map(|mut cuts| {
        cuts.sort_unstable();
        cuts.push(BUCKETS);
        let mut from = 0;
        let shares: Vec<u16> = cuts.into_iter().map(|to| to - std::mem::replace(&mut from, to)).collect();
        Shares::new(shares).unwrap()
    })
}

prop_compose! {
    /// Words as odd as they may be.
    fn any_service()(
        name in "[A-Za-z0-9][A-Za-z0-9._-]{0,59}", salt in "[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
        sticky in prop_oneof![
            Just(None), Just(Some(StickyTo::Address)),
            "[A-Za-z0-9][A-Za-z0-9_-]{0,63}".prop_map(|name| Some(StickyTo::Cookie(word(&name)))),
            "[A-Za-z0-9][A-Za-z0-9-]{0,63}".prop_map(|name| Some(StickyTo::Header(word(&name)))),
        ],
        rule in prop::option::of(("[A-Za-z0-9][A-Za-z0-9-]{0,63}", prop::collection::btree_set("[!-~]([ -~]{0,254}[!-~])?|[\"'\\\\${};#~*]{1,20}", 0..6))),
        variations in prop::collection::btree_map("[A-Za-z0-9][A-Za-z0-9._-]{0,62}", prop::collection::btree_set(
            "10\\.[1-9]\\.[1-9]\\.[1-9]:[1-9][0-9]{1,3}|\\[fe80::[1-9a-f]\\]:[1-9][0-9]{1,3}|unix:[1-9]|[a-z0-9]{1,20}-x\\.[a-z]{2,9}:[1-9][0-9]{1,3}",
            1..4), 1..=8),
    ) -> ServiceSpec {
        let variation = |(name, targets): (&String, &BTreeSet<String>)| Variation {
            name: word(name),
            targets: targets.iter().map(|target| word(target)).collect(),
            health: None,
        };
        let variations: Vec<Variation> = variations.iter().map(variation).collect();
        let values = |texts: BTreeSet<String>| {
            texts.iter().zip((0..variations.len() as u8).cycle()).map(|(text, which)| (word(text), Which(which))).collect()
        };
        ServiceSpec {
            rule: rule.map(|(name, texts)| Rule { name: word(&name), values: values(texts) }),
            table: Table::new(&Shares::all_stable(variations.len()).unwrap()),
            name: word(&name), salt: word(&salt), sticky, variations, ..service("a")
        }
    }
}
