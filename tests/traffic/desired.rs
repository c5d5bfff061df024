use proptest::prelude::*;
use traffic::{
    HashFunction, Variation as Which,
    desired::{
        CookieName, DesiredConfig, HeaderName, HeaderValue, Health, Host, Listen, Name, Number, Protocol,
        Service, ServiceSpec, StickyTo, Target, TlsEnd, WantedError,
    },
};

use crate::states::{NUMBER, any_wanted, seconds, spec, table, target, variation, wants_by_header};

/// What would end a line, a word, a quoted text, a statement or a block in a configuration of nginx or `HAProxy`.
const UNSAFE: &[char] = &[
    '\r', '\n', '\0', '\t', '\u{b}', '\u{7f}', '\u{85}', '\u{2028}', '"', '\'', '`', '\\', '$', ';', '{',
    '}', '#', '%', ' ', '(', ')', '<', '>', '|', '&', '*', '?', '~', '!', 'é', '\u{feff}',
];

fn service_error(change: impl FnOnce(&mut ServiceSpec)) -> String {
    let mut spec = spec("checkout", 8080, &[9000, 1000]);
    change(&mut spec);
    Service::new(spec).unwrap_err().to_string()
}

#[test]
fn names_have_nothing_that_means_something_to_a_router_and_are_no_path() {
    for bad in UNSAFE {
        for text in [format!("{bad}"), format!("a{bad}b"), format!("a{bad}"), format!("{bad}a")] {
            assert!(text.parse::<Name>().is_err(), "{text:?}");
            assert!(text.parse::<CookieName>().is_err(), "{text:?}");
            assert!(text.parse::<HeaderName>().is_err(), "{text:?}");
            assert!(text.parse::<Host>().is_err(), "{text:?}");
            assert!(format!("{text}:80").parse::<Target>().is_err(), "{text:?}");
        }
    }
    for bad in ["", ".", "..", ".hidden", "-t", "_a", "a/b", "../a", "a:b", &"x".repeat(64)] {
        assert!(bad.parse::<Name>().is_err(), "{bad:?}");
    }
    for good in ["a", "9", "checkout-42", "a.b_c-d", "A", &"x".repeat(63)] {
        assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
    }
    let error = "a\nb;".parse::<Name>().unwrap_err();
    insta::assert_snapshot!(error, @r#""a\nb;" is no name: write 1 to 63 letters, digits and . _ -, of which the first is a letter or digit"#);
}

#[test]
fn values_of_headers_stay_in_their_line_and_arrive_as_they_are() {
    for bad in ["", "\r", "a\nb", "a\0b", "a\tb", "é", " a", "a ", " ", &"x".repeat(257)] {
        assert!(bad.parse::<HeaderValue>().is_err(), "{bad:?}");
    }
    for good in ["B", "a b", "\"'\\${};#%", &"x".repeat(256)] {
        assert_eq!(good.parse::<HeaderValue>().unwrap().as_str(), good);
    }
    let error = "a\r\nX-Other: b".parse::<HeaderValue>().unwrap_err();
    insta::assert_snapshot!(error, @r#""a\r\nX-Other: b" is no value of a header: write 1 to 256 printable characters of ASCII, with no space at either end"#);
}

#[test]
fn texts_of_errors_are_bounded() {
    let error = "x".repeat(100_000).parse::<Name>().unwrap_err().to_string();
    assert!(error.len() < 300, "{error}");
    let error = "x".repeat(100_000).parse::<Target>().unwrap_err().to_string();
    assert!(error.len() < 300, "{error}");
}

#[test]
fn targets_are_written_in_one_way() {
    let written = [
        ("127.0.0.1:9000", "127.0.0.1:9000"),
        ("[::1]:9000", "[::1]:9000"),
        ("[0:0:0:0:0:0:0:1]:9000", "[::1]:9000"),
        ("[::ffff:127.0.0.1]:9000", "127.0.0.1:9000"),
        ("[::ffff:a00:1]:1", "10.0.0.1:1"),
        ("Backend.Example:65535", "backend.example:65535"),
        ("localhost:80", "localhost:80"),
        ("1.example:80", "1.example:80"),
    ];
    for (text, as_written) in written {
        assert_eq!(target(text).to_string(), as_written);
        assert_eq!(target(as_written), target(text));
    }
}

#[test]
fn what_is_no_target_is_refused() {
    let bad = [
        "",
        ":",
        "backend",
        "backend:",
        "backend:0",
        "backend:65536",
        "backend:+80",
        "backend:-1",
        "backend: 80",
        "backend:80 ",
        "backend:8 0",
        "backend:http",
        ":80",
        "[::1]",
        "[::1]:",
        "[::1]:0",
        "::1:80",
        "[::1:80",
        "::1]:80",
        "[127.0.0.1]:80",
        "[backend]:80",
        "[fe80::1%eth0]:80",
        "backend.:80",
        ".backend:80",
        "a..b:80",
        "-a:80",
        "a-:80",
        "a.-b:80",
        "a_b:80",
        "127.1:80",
        "2130706433:80",
        "127.0.0.256:80",
        "0127.0.0.1:80",
        "0x7f000001:80",
        "0X7f.0.0.0x1:80",
        "a.0x1:80",
        "a.1:80",
        "http://a:80",
        "a/b:80",
        "a@b:80",
        "unix:/a:80",
        "a:80:90",
    ];
    for text in bad {
        assert!(text.parse::<Target>().is_err(), "{text:?}");
    }
    assert!(format!("{}:80", "x".repeat(64)).parse::<Target>().is_err());
    assert!(format!("{}a:80", "x.".repeat(127)).parse::<Target>().is_err());
    let error = "backend".parse::<Target>().unwrap_err();
    insta::assert_snapshot!(error, @r#""backend" is no target: write a host and a port from 1 to 65535, as in 127.0.0.1:9000, [::1]:9000 or backend.example:9000"#);
}

#[test]
fn a_target_that_was_made_of_parts_is_checked_too() {
    let made = |host: Host, port| {
        service_error(move |spec| spec.variations[1].targets = vec![Target { host, port }])
    };
    insta::assert_snapshot!(made(Host::Name("a; }".into()), 80), @"variation B of service checkout: a; }:80 is no target");
    insta::assert_snapshot!(made(Host::Name("a".into()), 0), @"variation B of service checkout: a:0 is no target");
    made(Host::Address("::ffff:127.0.0.1".parse().unwrap()), 80);
    made(Host::Name("10.0.0.1".into()), 80);
}

proptest! {
    #[test]
    fn a_target_that_was_taken_is_read_again_from_what_it_is_written_as(text in "(\\[?[0-9a-fA-F:.x]{1,20}\\]?|[a-zA-Z0-9.-]{1,20}):[0-9]{1,5}") {
        if let Ok(target) = text.parse::<Target>() {
            prop_assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
        }
    }

    #[test]
    fn whatever_is_taken_can_be_quoted(text in any::<String>()) {
        if let Ok(value) = text.parse::<HeaderValue>() {
            prop_assert!(value.as_str().bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
        if let Ok(name) = text.parse::<Name>() {
            prop_assert!(!name.as_str().contains(UNSAFE) && !name.as_str().starts_with(['.', '-', '/']));
        }
    }

    #[test]
    fn services_stand_in_the_order_of_their_names_and_are_found_by_them(wanted in any_wanted()) {
        let names: Vec<&str> = wanted.services().iter().map(|service| service.name.as_str()).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        prop_assert_eq!(&names, &sorted);
        for service in wanted.services() {
            prop_assert_eq!(wanted.service(service.name.as_str()), Some(service));
        }
        prop_assert_eq!(wanted.service("nobody"), None);
        prop_assert_eq!(wanted.with_targets(|_, _| None).unwrap(), wanted);
    }
}

#[test]
fn what_does_not_fit_together_is_refused_with_what_it_is() {
    insta::assert_snapshot!(service_error(|spec| { spec.variations.pop(); }), @"service checkout has 1 variations, and its table 2");
    insta::assert_snapshot!(service_error(|spec| spec.variations[1].name = "A".parse().unwrap()), @"service checkout has two variations A");
    insta::assert_snapshot!(service_error(|spec| spec.variations[1].targets.clear()), @"variation B of service checkout names 0 targets: 1 to 64, each once");
    insta::assert_snapshot!(
        service_error(|spec| spec.variations[1] = variation("B", &["127.0.0.1:1", "[::ffff:127.0.0.1]:1"])),
        @"variation B of service checkout names 2 targets: 1 to 64, each once"
    );
    let many = |spec: &mut ServiceSpec| {
        spec.variations[1].targets = (1..=65).map(|port| target(&format!("10.0.0.1:{port}"))).collect();
    };
    insta::assert_snapshot!(service_error(many), @"variation B of service checkout names 65 targets: 1 to 64, each once");
    insta::assert_snapshot!(service_error(|spec| *spec = wants_by_header(spec.clone(), &[("C", 2)])), @"the header rule of service checkout asks for variation 2, and there are 2");
    insta::assert_snapshot!(
        service_error(|spec| *spec = wants_by_header(spec.clone(), &[("B", 1), ("B", 0)])),
        @r#"the header rule of service checkout has the value "B" twice"#
    );
    let names: Vec<String> = (0..65).map(|at| format!("v{at}")).collect();
    let values: Vec<(&str, u8)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    insta::assert_snapshot!(service_error(|spec| *spec = wants_by_header(spec.clone(), &values)), @"the header rule of service checkout has 65 values: at most 64");
}

#[test]
fn ports_are_numbers_of_one_kind_each_named_once() {
    let listens = |all: &[(u16, Protocol)]| {
        let all = all.iter().map(|&(port, protocol)| Listen::new(port, protocol)).collect();
        service_error(move |spec| spec.listens = all)
    };
    insta::assert_snapshot!(listens(&[]), @"service checkout takes calls nowhere: it needs a port");
    insta::assert_snapshot!(listens(&[(0, Protocol::Http)]), @"service checkout has port 0, which must be one from 1 to 65535, named once");
    insta::assert_snapshot!(listens(&[(80, Protocol::Http), (80, Protocol::Https)]), @"service checkout has port 80, which must be one from 1 to 65535, named once");
    insta::assert_snapshot!(listens(&[(80, Protocol::Http), (81, Protocol::Tcp)]), @"the ports of service checkout mix HTTP with TCP or UDP, or TCP with UDP");
    insta::assert_snapshot!(listens(&[(80, Protocol::Udp), (81, Protocol::Tcp)]), @"the ports of service checkout mix HTTP with TCP or UDP, or TCP with UDP");
    let many: Vec<_> = (1..=65).map(|port| (port, Protocol::Tcp)).collect();
    insta::assert_snapshot!(listens(&many), @"service checkout has 65 ports: at most 64");
}

#[test]
fn connections_without_headers_have_nothing_that_needs_them() {
    let over_tcp = |change: fn(&mut ServiceSpec)| {
        service_error(move |spec| {
            spec.listens[0].protocol = Protocol::Tcp;
            change(spec);
        })
    };
    let cookie = |spec: &mut ServiceSpec| {
        spec.sticky = Some(StickyTo::Cookie("c".parse().unwrap()));
    };
    insta::assert_snapshot!(over_tcp(cookie), @"service checkout takes connections without headers: a cookie means nothing there");
    let header = |spec: &mut ServiceSpec| {
        spec.sticky = Some(StickyTo::Header("h".parse().unwrap()));
    };
    insta::assert_snapshot!(over_tcp(header), @"service checkout takes connections without headers: a header means nothing there");
    let rule = |spec: &mut ServiceSpec| {
        *spec = wants_by_header(spec.clone(), &[("B", 1)]);
    };
    insta::assert_snapshot!(over_tcp(rule), @"service checkout takes connections without headers: a header rule means nothing there");
    let mut by_address = spec("a", 80, &[10_000]);
    (by_address.listens[0].protocol, by_address.sticky) = (Protocol::Udp, Some(StickyTo::Address));
    assert_eq!(Service::new(by_address).unwrap().protocol(), Protocol::Udp);
}

#[test]
fn checks_of_health_have_bounds_and_paths_that_stay_in_their_line() {
    let health = |health: Health| service_error(move |spec| spec.variations[1].health = Some(health));
    let zero = std::time::Duration::ZERO;
    let good = Health::default;
    insta::assert_snapshot!(health(Health { interval: zero, ..good() }), @"the health checks of service checkout: an interval is from 0.1 s to 1 h, a timeout from 10 ms to 60 s, and 1 to 100 in a row count");
    health(Health { interval: seconds(3_601), ..good() });
    health(Health { timeout: zero, ..good() });
    health(Health { timeout: seconds(61), ..good() });
    health(Health { healthy_after: 0, ..good() });
    health(Health { unhealthy_after: 0, ..good() });
    health(Health { unhealthy_after: 101, ..good() });
    let with_path = |path: &str| health(Health { path: Some(path.into()), ..good() });
    insta::assert_snapshot!(with_path("ready"), @r#"the path "ready" of the health checks of service checkout is none: it begins with / and has at most 200 printable characters without spaces, quotes, backslashes, braces, ; $ and #"#);
    for bad in ['\r', '\n', '\0', ' ', '"', '\'', '\\', '$', ';', '{', '}', '#', 'é'] {
        with_path(&format!("/a{bad}b"));
    }
    with_path(&format!("/{}", "x".repeat(200)));
    let mut all_that_may_stand = spec("a", 80, &[10_000]);
    all_that_may_stand.variations[0].health = Some(Health { path: Some("/a/b?c=d&e=%20".into()), ..good() });
    Service::new(all_that_may_stand).unwrap();
}

#[test]
fn a_service_has_one_to_eight_variations() {
    for variations in [1, 8] {
        let mut shares = vec![0; variations];
        shares[0] = 10_000;
        assert_eq!(Service::new(spec("a", 80, &shares)).unwrap().variants().count(), variations);
    }
    // Nine have no shares that a table could be made of.
    let mut nine = spec("a", 80, &[10_000, 0, 0, 0, 0, 0, 0, 0]);
    nine.variations.push(variation("I", &["10.0.9.1:9000"]));
    insta::assert_snapshot!(Service::new(nine).unwrap_err(), @"service a has 9 variations, and its table 8");
}

fn of(services: impl IntoIterator<Item = ServiceSpec>) -> Result<DesiredConfig, WantedError> {
    DesiredConfig::new(NUMBER, services.into_iter().map(|spec| Service::new(spec).unwrap()).collect())
}

#[test]
fn a_port_belongs_to_one_service_but_tcp_and_udp_are_two() {
    let twice = of([spec("b", 80, &[10_000]), spec("a", 80, &[10_000])]).unwrap_err();
    insta::assert_snapshot!(twice, @"the services a and b would both have port 80");
    let same_name = of([spec("a", 80, &[10_000]), spec("a", 81, &[10_000])]).unwrap_err();
    insta::assert_snapshot!(same_name, @"there are two services a");
    let on = |name: &str, protocol| {
        let mut spec = spec(name, 53, &[10_000]);
        spec.listens[0].protocol = protocol;
        spec
    };
    of([on("a", Protocol::Tcp), on("b", Protocol::Udp)]).unwrap();
    of([on("a", Protocol::Tcp), on("b", Protocol::Http)]).unwrap_err();
}

fn at(name: &str, port: u16, protocol: Protocol, (hosts, path): (&[&str], Option<&str>)) -> ServiceSpec {
    let mut spec = spec(name, port, &[10_000]);
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    spec.listens = vec![Listen { hosts, path: path.map(str::to_owned), ..Listen::new(port, protocol) }];
    spec
}

#[test]
fn services_share_a_port_by_hosts_and_paths_that_differ() {
    let https = |name: &str, route| at(name, 443, Protocol::Https, route);
    let (shop, both) = (&["shop.example"][..], &["shop.example", "www.shop.example"][..]);
    let wanted = of([
        https("rest", (&[], None)),
        https("api", (both, Some("/api"))),
        https("any-api", (&[], Some("/api/v2"))),
        https("site", (shop, None)),
        https("deep", (shop, Some("/api/v2"))),
    ])
    .unwrap();
    let routes = wanted.routes().into_values().next().unwrap();
    let routes: Vec<_> = routes.iter().map(|it| (it.host, it.path, it.service.name.as_str())).collect();
    let shop = Some("shop.example");
    let expected = [
        (shop, Some("/api/v2"), "deep"),
        (shop, Some("/api"), "api"),
        (Some("www.shop.example"), Some("/api"), "api"),
        (shop, None, "site"),
        (None, Some("/api/v2"), "any-api"),
        (None, None, "rest"),
    ];
    assert_eq!(routes, expected, "a named host first, then the longest path");
    let twice = of([https("a", (both, Some("/api"))), https("b", (&["www.shop.example"], Some("/api")))]);
    insta::assert_snapshot!(twice.unwrap_err(), @"the services a and b would both have www.shop.example/api at port 443");
    let twice = of([https("a", (&[], Some("/api"))), https("b", (&[], Some("/api")))]);
    insta::assert_snapshot!(twice.unwrap_err(), @"the services a and b would both have /api at port 443");
    let mixed = of([https("a", (both, None)), at("b", 443, Protocol::Http, (&["other.example"], None))]);
    insta::assert_snapshot!(mixed.unwrap_err(), @"port 443 would be for HTTPS of service a and for HTTP of service b");
}

#[test]
fn tls_that_passes_unopened_is_told_apart_by_host_alone() {
    let passing = |protocol, route| {
        let mut spec = at("checkout", 443, protocol, route);
        (spec.sticky, spec.rule) = (None, None);
        spec.listens[0].tls = TlsEnd::Pass;
        spec
    };
    let fault = |spec: ServiceSpec| Service::new(spec).unwrap_err().to_string();
    let https = |route| passing(Protocol::Https, route);
    assert!(Service::new(https((&["shop.example"], None))).unwrap().passes_tls());
    insta::assert_snapshot!(fault(passing(Protocol::Tcp, (&[], None))), @"service checkout has tls: pass at port 443, and that is for HTTPS alone");
    insta::assert_snapshot!(fault(https((&[], Some("/api")))), @"service checkout has tls: pass at port 443, and nobody sees the paths of its calls there");
    let mut mixed = https((&[], None));
    mixed.listens.push(Listen::new(8443, Protocol::Https));
    insta::assert_snapshot!(fault(mixed), @"service checkout has tls: pass at port 443, and another of its ports has not: make two services of it");
    let mut by_cookie = https((&[], None));
    by_cookie.sticky = Some(StickyTo::Cookie("cm".parse().unwrap()));
    insta::assert_snapshot!(fault(by_cookie), @"service checkout takes connections without headers: a cookie means nothing there");
    // Who passes TLS on at a port opens none there, whatever the host.
    let (mut one, mut other) = (Listen::new(443, Protocol::Https), Listen::new(443, Protocol::Https));
    (one.hosts, other.hosts) = (vec!["a.example".to_owned()], vec!["b.example".to_owned()]);
    assert!(!one.meets(&other));
    other.tls = TlsEnd::Pass;
    assert!(one.meets(&other));
    // Where both pass it on, the host is told apart by its name alone, at whatever port.
    one.tls = TlsEnd::Pass;
    assert!(!one.meets(&other));
    other.port = 444;
    assert!(!one.meets(&other));
    other.hosts.push("a.example".to_owned());
    assert!(one.meets(&other) && other.meets(&one));
    other.hosts.clear();
    assert!(!one.meets(&other));
}

#[test]
fn a_port_that_is_shared_is_no_target_of_the_router_either() {
    let mut round = at("b", 81, Protocol::Http, (&["b.example"], None));
    round.variations[0].targets = vec![target("127.0.0.1:443")];
    let error = of([at("a", 443, Protocol::Https, (&["a.example"], Some("/x"))), round]).unwrap_err();
    assert!(matches!(error, WantedError::Loop { .. }), "{error}");
}

#[test]
fn hosts_and_paths_mean_the_same_to_each_router() {
    let route = |hosts: &[&str], path: Option<&str>| {
        let listens = at("checkout", 80, Protocol::Http, (hosts, path)).listens;
        service_error(move |spec| spec.listens = listens)
    };
    insta::assert_snapshot!(route(&["*.shop.example"], None), @r#"service checkout names "*.shop.example" as a host, which must be a name in small letters, as in shop.example, named once"#);
    for bad in UNSAFE {
        route(&[&format!("a{bad}b")], None);
        // `~` is a letter as another in paths.
        if *bad != '~' {
            route(&[], Some(&format!("/a{bad}b")));
        }
    }
    for bad in ["", "Shop.example", "shop.example.", "shop.example:80", "127.0.0.1", "[::1]"] {
        route(&[bad], None);
    }
    route(&["a.example", "a.example"], None);
    insta::assert_snapshot!(route(&[], Some("/api/")), @r#"service checkout takes calls to "/api/", which must be a path of whole segments, as in /api: letters, digits and - . _ ~ between slashes, at most 128 characters"#);
    for bad in ["", "/", "api", "//", "/a//b", "/a/../b", "/.", "/a/.", &format!("/{}", "x".repeat(128))] {
        route(&[], Some(bad));
    }
    let names: Vec<String> = (0..17).map(|at| format!("h{at}.example")).collect();
    insta::assert_snapshot!(route(&names.iter().map(String::as_str).collect::<Vec<_>>(), None), @"service checkout names 17 hosts at a port: at most 16");
    let over_tcp = at("checkout", 80, Protocol::Tcp, (&["a.example"], None)).listens;
    insta::assert_snapshot!(service_error(move |spec| spec.listens = over_tcp), @"service checkout takes connections without hosts and paths: it can have no part of port 80");
    Service::new(at("a", 80, Protocol::Http, (&["a-1.example"], Some("/a.b/~c_d-9")))).unwrap();
}

#[test]
fn a_target_that_is_a_port_of_the_router_is_refused_however_it_is_written() {
    let leads_to = |text: &str| {
        let mut spec = spec("a", 8080, &[9_000, 1_000]);
        spec.variations[1] = variation("B", &[text]);
        of([spec, crate::states::spec("b", 9090, &[10_000])])
    };
    let texts = [
        "127.0.0.1:8080",
        "127.8.8.8:8080",
        "0.0.0.0:8080",
        "[::]:8080",
        "[::1]:8080",
        "[::ffff:127.0.0.1]:8080",
        "[::ffff:0.0.0.0]:8080",
        "localhost:8080",
        "LOCALHOST:8080",
        "a.localhost:8080",
        "127.0.0.1:9090",
    ];
    for text in texts {
        assert!(matches!(leads_to(text), Err(WantedError::Loop { .. })), "{text}");
    }
    insta::assert_snapshot!(leads_to("localhost:9090").unwrap_err(), @"the target localhost:9090 of service a is where this router itself listens for b: calls would go round");
    leads_to("127.0.0.1:8081").unwrap();
    leads_to("10.0.0.1:8080").unwrap();
    // What listens for TCP is no end of UDP.
    let mut over_udp = spec("c", 53, &[10_000]);
    over_udp.listens[0].protocol = Protocol::Udp;
    over_udp.variations[0] = variation("A", &["127.0.0.1:8080"]);
    of([over_udp, spec("a", 8080, &[10_000])]).unwrap();
}

#[test]
fn who_has_a_port_of_which_calls_are_taken_over_may_be_a_target_and_where_the_router_listens_may_not() {
    let leads_to = |text: &str| {
        let mut spec = spec("a", 8080, &[9_000, 1_000]);
        spec.listens[0].at = Some(19_000);
        spec.variations[0] = variation("A", &[text]);
        of([spec, crate::states::spec("b", 9090, &[10_000])])
    };
    let wanted = leads_to("127.0.0.1:8080").unwrap();
    assert_eq!(wanted.routes().keys().map(|socket| socket.port).collect::<Vec<_>>(), [8080, 9090]);
    for text in ["127.0.0.1:19000", "127.0.0.1:9090"] {
        assert!(matches!(leads_to(text), Err(WantedError::Loop { .. })), "{text}");
    }
    // What is called is called by one service, wherever the router listens.
    let mut twice = spec("a", 9090, &[10_000]);
    twice.listens[0].at = Some(19_000);
    assert!(matches!(of([twice, spec("b", 9090, &[10_000])]), Err(WantedError::Port { .. })));
}

#[test]
fn other_targets_are_checked_as_the_first_ones_were() {
    let wanted = of([spec("a", 8080, &[9_000, 1_000])]).unwrap();
    let to = |text: &str| {
        let targets = vec![target(text)];
        wanted.with_targets(|_, variation| (variation.name.as_str() == "B").then(|| targets.clone()))
    };
    let led = to("10.9.9.9:1").unwrap();
    assert_eq!(led.number, wanted.number);
    assert_eq!(led.service("a").unwrap().variations[1].targets, [target("10.9.9.9:1")]);
    assert_eq!(led.service("a").unwrap().variations[0], wanted.service("a").unwrap().variations[0]);
    assert!(matches!(to("127.0.0.1:8080"), Err(WantedError::Loop { .. })));
    assert!(matches!(wanted.with_targets(|_, _| Some(Vec::new())), Err(WantedError::Service(_))));
}

#[test]
fn numbers_are_in_the_order_of_leases_and_then_of_generations() {
    let number = |epoch, generation| Number { epoch, generation };
    assert!(number(1, 9) < number(2, 1));
    assert!(number(2, 1) < number(2, 2));
    assert_eq!(number(2, 10).to_string(), "2.10");
}

#[test]
fn what_a_service_has_is_told_with_its_shares() {
    let mut spec = spec("a", 80, &[7_000, 2_500, 500]);
    spec.hash = HashFunction::Xxh32;
    spec.table = table(&[7_000, 2_500, 500]);
    let service = Service::new(spec).unwrap();
    let told: Vec<_> =
        service.variants().map(|one| (one.which, one.variation.name.to_string(), one.hundredths)).collect();
    let [a, b, c] = ["A", "B", "C"].map(str::to_owned);
    assert_eq!(told, [(Which(0), a, 7_000), (Which(1), b, 2_500), (Which(2), c, 500)]);
}
