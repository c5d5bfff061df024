//! What Traefik is told, as text, and what is made of what it says.

use router::traefik::config::{EntryPoint, EntryPoints, RawData, Unable, adopt, number_in, render};
use serde_json::{Value, json};
use traffic::desired::{Listen, Protocol, ServiceSpec, StickyTo};

use crate::world::{
    backend::Backend,
    place::at,
    wants::{number, rule, service, wanted},
};

fn entry_points() -> EntryPoints {
    let all = json!([
        {"name": "web", "address": ":80"},
        {"name": "web6", "address": "[::1]:80/tcp"},
        {"name": "dns", "address": ":53/udp"},
        {"name": "db", "address": "10.0.0.1:5432"},
        {"name": "odd"},
    ]);
    EntryPoint::by_port(serde_json::from_value(all).unwrap())
}

fn checkout(port: u16, protocol: Protocol) -> ServiceSpec {
    let backends = ["A", "B"].map(|name| Backend::elsewhere(name, at(9_101)));
    let mut spec = service("checkout", port, &backends, &[9_975, 25]);
    spec.listens = vec![Listen::new(port, protocol)];
    if !protocol.is_http() {
        spec.sticky = None;
    }
    spec
}

fn body(text: &str) -> Value {
    serde_json::from_str(text.splitn(3, '\n').nth(2).unwrap()).unwrap()
}

#[test]
fn a_service_of_http_is_weighted_with_a_cookie_and_a_router_for_each_value() {
    let mut spec = checkout(80, Protocol::Http);
    spec.rule = Some(rule(&[("a \"quoted\\ `word", 1)]));
    let text = render(&wanted(7, &[&spec]), &entry_points()).unwrap();
    assert!(text.starts_with("# Made by choirmaster; "));
    assert_eq!(number_in(&text), Some(number(7)));
    assert_eq!(number_in(&text.replace("9975", "9970")), None, "somebody has changed it");
    insta::assert_snapshot!(body(&text).to_string(), @r#"{"http":{"routers":{"choirmaster:checkout":{"entryPoints":["web","web6"],"rule":"PathPrefix(\"/\")","service":"choirmaster:checkout"},"choirmaster:checkout:0":{"entryPoints":["web","web6"],"rule":"PathPrefix(\"/\") && Header(\"X-Variation\", \"a \\\"quoted\\\\ `word\")","service":"choirmaster:checkout:B:asked"}},"services":{"choirmaster":{"loadBalancer":{"servers":[{"url":"http://3.7.choirmaster.invalid"}]}},"choirmaster:checkout":{"weighted":{"services":[{"name":"choirmaster:checkout:A","weight":9975},{"name":"choirmaster:checkout:B","weight":25}],"sticky":{"cookie":{"name":"cm_user"}}}},"choirmaster:checkout:A":{"loadBalancer":{"servers":[{"url":"http://127.0.0.1:9101"}]}},"choirmaster:checkout:B":{"loadBalancer":{"servers":[{"url":"http://127.0.0.1:9101"}]}},"choirmaster:checkout:B:asked":{"loadBalancer":{"servers":[{"url":"http://127.0.0.1:9101"}]}}}}}"#);
}

#[test]
fn a_part_of_a_port_has_a_rule_for_it_and_what_comes_first_a_higher_priority() {
    let of = |name: &str, hosts: &[&str], path: Option<&str>| {
        let mut spec = checkout(80, Protocol::Https);
        spec.sticky = None;
        spec.name = name.parse().unwrap();
        spec.listens[0].hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        spec.listens[0].path = path.map(str::to_owned);
        spec
    };
    let mut shop = of("shop", &["shop.example", "www.shop.example"], None);
    shop.rule = Some(rule(&[("B", 1)]));
    let all = [
        shop,
        of("api", &["shop.example"], Some("/api")),
        of("any", &[], Some("/api/v2")),
        of("rest", &[], None),
    ];
    let text = body(&render(&wanted(7, &all.iter().collect::<Vec<_>>()), &entry_points()).unwrap());
    let routers: Vec<String> = text["http"]["routers"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, it)| {
            format!(
                "{name} {} {} {} {}",
                it["priority"],
                it["rule"].as_str().unwrap(),
                it["tls"],
                it["service"]
            )
        })
        .collect();
    insta::assert_snapshot!(routers.join("\n"), @r#"
    choirmaster:any 16 Path("/api/v2") || PathPrefix("/api/v2/") {} "choirmaster:any"
    choirmaster:api 2010 (Host("shop.example")) && (Path("/api") || PathPrefix("/api/")) {} "choirmaster:api"
    choirmaster:rest 2 PathPrefix("/") {} "choirmaster:rest"
    choirmaster:shop 2002 (Host("shop.example") || Host("www.shop.example")) && (PathPrefix("/")) {} "choirmaster:shop"
    choirmaster:shop:0 2003 ((Host("shop.example") || Host("www.shop.example")) && (PathPrefix("/"))) && Header("X-Variation", "B") {} "choirmaster:shop:B:asked"
    "#);
}

#[test]
fn two_services_at_a_host_have_cookies_of_their_own() {
    let of = |name: &str, host: Option<&str>, path: &str| {
        let mut spec = checkout(80, Protocol::Http);
        spec.name = name.parse().unwrap();
        spec.listens[0].hosts = host.map(str::to_owned).into_iter().collect();
        spec.listens[0].path = Some(path.to_owned());
        spec
    };
    let render = |a: &ServiceSpec, b: &ServiceSpec| render(&wanted(7, &[a, b]), &entry_points());
    let a = of("a", Some("shop.example"), "/a");
    render(&a, &of("b", Some("other.example"), "/b")).unwrap();
    for b in [of("b", Some("shop.example"), "/b"), of("b", None, "/b")] {
        assert!(matches!(render(&a, &b), Err(Unable::Cookie { .. })));
        let mut b = b;
        b.sticky = Some(StickyTo::Cookie("another".parse().unwrap()));
        render(&a, &b).unwrap();
    }
}

#[test]
fn services_of_tcp_and_udp_take_all_of_their_entry_point() {
    let (mut tcp, mut udp) = (checkout(5_432, Protocol::Tcp), checkout(53, Protocol::Udp));
    (tcp.name, udp.name) = ("db".parse().unwrap(), "dns".parse().unwrap());
    let text = body(&render(&wanted(7, &[&tcp, &udp]), &entry_points()).unwrap());
    assert_eq!(text["tcp"]["routers"]["choirmaster:db"]["rule"], json!("HostSNI(\"*\")"));
    assert_eq!(text["tcp"]["routers"]["choirmaster:db"]["entryPoints"], json!(["db"]));
    assert_eq!(
        text["udp"]["routers"]["choirmaster:dns"],
        json!({"entryPoints": ["dns"], "service": "choirmaster:dns"})
    );
    let servers = &text["udp"]["services"]["choirmaster:dns:B"]["loadBalancer"]["servers"];
    assert_eq!(*servers, json!([{"address": "127.0.0.1:9101"}]));
}

#[test]
fn what_it_can_not_do_is_refused_by_name() {
    let refused = |spec: &ServiceSpec| render(&wanted(7, &[spec]), &entry_points()).unwrap_err();
    let no_port = refused(&checkout(81, Protocol::Http));
    assert_eq!(
        no_port.to_string(),
        "service checkout is to take calls at port 81, and no entry point of TCP has it: it has 80, 5432"
    );
    assert!(matches!(refused(&checkout(80, Protocol::Udp)), Unable::NoEntryPoint { protocol: "UDP", .. }));
    let mut by_header = checkout(80, Protocol::Http);
    by_header.sticky = Some(StickyTo::Header("X-User".parse().unwrap()));
    assert!(matches!(refused(&by_header), Unable::Sticky { by: "a header", .. }));
    by_header.sticky = Some(StickyTo::Address);
    assert!(matches!(refused(&by_header), Unable::Sticky { by: "their address", .. }));
}

/// As `/api/rawdata` lists it; `router` and `child` are of checkout.
fn raw(router: &Value, weights: [Value; 2]) -> RawData {
    let [a, b] = weights;
    let server = |url: &str| json!({"status": "enabled", "loadBalancer": {"servers": [{"url": url}]}});
    let child = |name: &str, weight: Value| match weight {
        Value::Null => json!({"name": name}),
        weight => json!({"name": name, "weight": weight}),
    };
    let all = json!({
        "routers": {"choirmaster:checkout@file": router},
        "services": {
            "choirmaster@file": server("http://3.7.choirmaster.invalid"),
            "choirmaster:checkout@file": {"status": "enabled", "weighted": {"services": [
                child("choirmaster:checkout:A", a), child("choirmaster:checkout:B", b),
            ]}},
            "choirmaster:checkout:A@file": server("http://127.0.0.1:9101"),
            "choirmaster:checkout:B@file": server("http://127.0.0.1:9111"),
        },
    });
    serde_json::from_value(all).unwrap()
}

#[test]
fn shares_are_what_weights_come_to_and_one_that_is_not_written_is_1() {
    let enabled = json!({"status": "enabled", "service": "choirmaster:checkout"});
    let shares = |weights| {
        let seen = raw(&enabled, weights).observed();
        assert_eq!(seen.number, Some(number(7)));
        let service = &seen.services["checkout"];
        service.variations.iter().map(|one| one.hundredths).collect::<Vec<_>>()
    };
    assert_eq!(shares([json!(9_975), json!(25)]), [9_975, 25]);
    assert_eq!(shares([json!(3), Value::Null]), [7_500, 2_500]);
    assert_eq!(shares([json!(0), json!(0)]), [0, 0]);
    assert_eq!(shares([json!(u64::MAX), json!(u64::MAX)]), [5_000, 5_000]);
}

#[test]
fn a_service_whose_router_is_not_gone_by_is_not_there() {
    let disabled = json!({"status": "disabled", "error": ["entryPoint \"web\" doesn't exist"]});
    let raw = raw(&disabled, [json!(1), json!(1)]);
    assert!(raw.observed().services.is_empty());
    let fault = raw.fault().unwrap();
    assert!(fault.contains("choirmaster:checkout@file is disabled: entryPoint"), "{fault}");
}

#[test]
fn the_part_of_a_port_that_an_operators_rule_takes_is_told_or_named() {
    let found = |rule: &str| {
        let all = json!({
            "routers": {"shop@docker": {"service": "shop", "rule": rule, "entryPoints": ["web"]}},
            "services": {"shop@docker": {"loadBalancer": {"servers": [{"url": "http://10.0.0.7:9101"}]}}},
        });
        let found = adopt(&serde_json::from_value(all).unwrap(), &entry_points(), "shop").unwrap();
        (found.hosts.join(","), found.path.unwrap_or_default(), found.beside.len())
    };
    let told = |hosts: &str, path: &str, beside| (hosts.to_owned(), path.to_owned(), beside);
    assert_eq!(found("PathPrefix(`/`)"), told("", "", 0));
    assert_eq!(found("Host(`a.example`)"), told("a.example", "", 0));
    assert_eq!(
        found("(Host(`a.example`) || Host(\"b.example\")) && PathPrefix(`/api/`)"),
        told("a.example,b.example", "/api", 1)
    );
    for other in [
        "Host(`A.example`)",
        "Host(`a.example`) || PathPrefix(`/api`)",
        "Host(`a.example`) && Method(`GET`)",
        "!Host(`a.example`)",
        "Host(`a.example`) && Host(`b.example`)",
        "PathPrefix(`/a`) && PathPrefix(`/a/b`)",
        "HostRegexp(`.*`)",
        "Path(`/api`)",
    ] {
        assert_eq!(found(other), told("", "", 1), "{other}");
    }
}

#[test]
fn every_part_of_an_operators_router_that_is_not_taken_over_is_listed() {
    let all = json!({
        "routers": {"shop@docker": {
            "status": "enabled", "service": "shop", "rule": "Host(`shop.example`)", "entryPoints": ["web"],
            "middlewares": ["auth@file"], "tls": {"certResolver": "le"}, "priority": 20, "using": ["web"],
            "observability": {"metrics": true},
        }},
        "services": {
            "shop@docker": {"status": "enabled", "weighted": {
                "services": [{"name": "one", "weight": 3}, {"name": "two@file", "weight": 1}],
                "sticky": {"cookie": {"name": "s"}},
            }},
            "one@docker": {"status": "enabled", "loadBalancer": {
                "servers": [{"url": "http://10.0.0.7:9101"}, {"url": "https://10.0.0.8:443"}],
                "strategy": "hrw", "passHostHeader": true, "healthCheck": {"path": "/"},
            }},
            "two@file": {"status": "enabled", "loadBalancer": {"servers": [{"url": "http://10.0.0.9:9101/", "weight": 2}]}},
        },
    });
    let raw: RawData = serde_json::from_value(all.clone()).unwrap();
    let found = adopt(&raw, &entry_points(), "shop").unwrap();
    let targets: Vec<String> = found.targets.iter().map(ToString::to_string).collect();
    assert_eq!(targets, ["10.0.0.7:9101", "10.0.0.9:9101"]);
    insta::assert_snapshot!(found.lines(&[], "the router shop"), @r#"
    # Into the router's own configuration:
    # Out of it, before a release of the lines below is submitted, which is refused while the ports are taken: the router shop
    # Into a strategy, whose first variation is what serves today:
    services:
      - name: shop
        ports: [{port: 80, protocol: HTTPS, hosts: ["shop.example"]}]
        variations:
          - {name: stable, targets: ["10.0.0.7:9101", "10.0.0.9:9101"]}
          - {name: new, targets: ["HOST:PORT"]}   # what is to be released
    # Not taken over: middlewares: ["auth@file"]
    # Not taken over: tls: {"certResolver":"le"}
    # Not taken over: sticky: {"cookie":{"name":"s"}} (of shop)
    # Not taken over: the weight 3 of one
    # Not taken over: healthCheck: {"path":"/"} (of one)
    # Not taken over: strategy: "hrw" (of one)
    # Not taken over: the weight 1 of two@file
    # Not taken over: the server https://10.0.0.8:443
    # Not taken over: weight of a server: 2
    "#);
    for strategy in ["p2c", "leasttime"] {
        let mut raw: RawData = serde_json::from_value(all.clone()).unwrap();
        let one = raw.services.get_mut("one@docker").unwrap().load_balancer.as_mut().unwrap();
        one.more.insert("strategy".to_owned(), strategy.into());
        let refused = adopt(&raw, &entry_points(), "shop").unwrap_err().to_string();
        assert_eq!(
            refused,
            format!(
                "shop shares its calls out by the strategy {strategy}, which keeps to no shares: take that out first"
            )
        );
    }
    assert!(adopt(&raw, &entry_points(), "nobody").unwrap_err().to_string().contains("it has shop@docker"));
}
