//! What a router does by its operator's own configuration, read from that.

use router::adopt::{AdoptError, name_of};
use traffic::desired::{Name, Protocol};

const OURS: &str = "/etc/nginx/choirmaster.conf";

const PRINTED: &str = "# configuration file /etc/nginx/nginx.conf:
user www-data;
events { worker_connections 768; }
http {
    upstream shop {
        zone shop 64k;
        server 127.0.0.1:9101;
        server backend.example:9102 weight=3;
    }
    include /etc/nginx/sites/*;
    include /etc/nginx/choirmaster.conf;
}
stream { server { listen 5432; proxy_pass 127.0.0.1:5433; } }

# configuration file /etc/nginx/sites/shop:
server {
    listen 8080;
    listen [::]:8080;
    server_name shop.example www.shop.example;
    client_max_body_size 10m;
    location / { proxy_pass http://shop/; proxy_read_timeout 5s; }
    location /api { proxy_pass http://127.0.0.1:9200; }
}
upstream api { server 127.0.0.1:9301; keepalive 16; }
upstream quick { random two; server 127.0.0.1:9401; }
server {
    listen 443 ssl;
    server_name site.example *.site.example;
    ssl_certificate /etc/ssl/site.crt;
    add_header Strict-Transport-Security max-age=1;
    root /srv/site;
    location /api {
        proxy_pass http://api;
        proxy_set_header Host $host;
        proxy_set_header X-Real-IP $remote_addr;
    }
    location ^~ /v2/ { proxy_pass http://api/v2; }
    location /quick { proxy_pass http://quick; }
}
server { listen 127.0.0.1:8443 ssl; server_name pay; location / { proxy_pass http://10.0.0.1; } }
server { listen 81; return 404; }

# configuration file /etc/nginx/choirmaster.conf:
server { listen 8090; server_name ours; location / { proxy_pass http://cm_1f00_0; } }
";

#[test]
fn nginx_serves_what_its_operator_wrote() {
    let by_name = router::nginx::config::adopt(PRINTED, OURS, "shop.example").unwrap();
    assert_eq!(by_name.protocol, Protocol::Http);
    let ports: Vec<u16> = by_name.listens.iter().map(|(_, port)| *port).collect();
    assert_eq!(ports, [8080, 8080]);
    let targets: Vec<String> = by_name.targets.iter().map(ToString::to_string).collect();
    assert_eq!(targets, ["127.0.0.1:9101", "backend.example:9102", "127.0.0.1:9200"]);
    assert_eq!(
        by_name.beside,
        [
            "its paths go to 2 places; the targets of all are listed",
            "zone shop 64k",
            "server backend.example:9102 weight=3",
            "client_max_body_size 10m",
            "proxy_read_timeout 5s, in location /",
        ]
    );
    // Of an upstream only what leads there.
    assert_eq!(router::nginx::config::adopt(PRINTED, OURS, "shop").unwrap().targets, by_name.targets[..2]);
    for name in ["8080", "www.shop.example"] {
        assert_eq!(
            router::nginx::config::adopt(PRINTED, OURS, name).unwrap().targets,
            by_name.targets,
            "{name}"
        );
    }
    let secured = router::nginx::config::adopt(PRINTED, OURS, "pay").unwrap();
    assert_eq!(
        (secured.protocol, secured.targets[0].to_string()),
        (Protocol::Https, "10.0.0.1:80".to_owned())
    );
}

#[test]
fn a_path_of_a_server_is_adopted_with_its_hosts_and_all_that_is_not_taken_over_is_named() {
    let adopt = |name| router::nginx::config::adopt(PRINTED, OURS, name);
    let found = adopt("site.example/api").unwrap();
    insta::assert_snapshot!(found.lines(&["…".to_owned()], "…"), @r#"
    # Into the router's own configuration:
    …
    # Out of it, before a release of the lines below is submitted, which is refused while the ports are taken: …
    # Into a strategy, whose first variation is what serves today:
    services:
      - name: site.example-api
        ports: [{port: 443, protocol: HTTPS, hosts: ["site.example"], path: "/api"}]
        variations:
          - {name: stable, targets: ["127.0.0.1:9301"]}
          - {name: new, targets: ["HOST:PORT"]}   # what is to be released
    # Not taken over: location /api has /apix, too, and the service only /api and /api/x
    # Not taken over: keepalive 16
    # Not taken over: server_name *.site.example
    # Not taken over: add_header Strict-Transport-Security max-age=1
    # Not taken over: proxy_set_header X-Real-IP $remote_addr, in location /api
    "#);
    let below = adopt("site.example/v2").unwrap();
    assert_eq!(below.path.as_deref(), Some("/v2"));
    assert!(
        below
            .beside
            .contains(&"proxy_pass http://api/v2 changes the path, and the service doesn't".to_owned())
    );
    let refused = adopt("site.example/quick").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "site.example/quick shares its calls out by random two, which keeps to no shares: take that out first"
    );
    assert!(matches!(adopt("quick"), Err(AdoptError::Algorithm { .. })));
    assert!(matches!(adopt("site.example/none"), Err(AdoptError::NoTargets { .. })));
}

#[test]
fn what_nginx_doesnt_serve_is_refused_by_name() {
    let refused = |name| router::nginx::config::adopt(PRINTED, OURS, name).unwrap_err();
    let AdoptError::Unknown { known, .. } = refused("ours") else { panic!("it is led") };
    assert_eq!(
        known,
        [
            "*.site.example",
            "443",
            "8080",
            "81",
            "8443",
            "pay",
            "shop.example",
            "site.example",
            "www.shop.example"
        ]
    );
    assert_eq!(refused("81"), AdoptError::NoTargets { name: "81".to_owned() });
    let broken = "# configuration file /a:\nserver { listen 80; location / { \n";
    assert_eq!(
        router::nginx::config::adopt(broken, OURS, "80"),
        Err(AdoptError::Unreadable("/a".to_owned()))
    );
    for cut in (0..PRINTED.len()).filter(|at| PRINTED.is_char_boundary(*at)) {
        let _ = router::nginx::config::adopt(&PRINTED[..cut], OURS, "shop.example");
    }
}

const CONFIG: &str = "\
global
    stats socket /run/haproxy/admin.sock mode 660 level admin
defaults
    mode http
    timeout client 10s
frontend www   # of the shop
    bind *:8080,127.0.0.1:8081
    acl is_api path_beg /api
    use_backend api if is_api
    default_backend web
backend web
    balance roundrobin
    server one 127.0.0.1:9101 check inter 2s
    server two 127.0.0.1:9102
backend api
    server one 127.0.0.1:9201
listen database
    mode tcp
    bind :5432
    server primary 10.0.0.1:5432
";

#[test]
fn haproxy_serves_what_its_operator_wrote() {
    let www = router::haproxy::config::adopt(CONFIG, "www").unwrap();
    let targets: Vec<String> = www.targets.iter().map(ToString::to_string).collect();
    assert_eq!(targets, ["127.0.0.1:9201", "127.0.0.1:9101", "127.0.0.1:9102"]);
    assert_eq!(www.listens.iter().map(|(_, port)| *port).collect::<Vec<_>>(), [8080, 8081]);
    assert_eq!(www.protocol, Protocol::Http);
    assert_eq!(
        www.beside,
        [
            "use_backend api for some calls; the targets of all are listed",
            "acl is_api path_beg /api, in www",
            "server 127.0.0.1:9101 check inter 2s",
        ]
    );
    assert_eq!(router::haproxy::config::adopt(CONFIG, "web").unwrap().targets, www.targets);
    let database = router::haproxy::config::adopt(CONFIG, "database").unwrap();
    assert_eq!((database.protocol, database.targets[0].port), (Protocol::Tcp, 5432));
    let unknown = router::haproxy::config::adopt(CONFIG, "mail").unwrap_err();
    assert_eq!(unknown.to_string(), "its configuration has no service \"mail\"; it has www, database");
    // Set for the service, or for all.
    let of_all = CONFIG.replace("    mode http\n", "    mode http\n    balance leastconn\n");
    for (config, is_refused) in [
        (CONFIG.replace("balance roundrobin", "balance leastconn"), true),
        (of_all.replace("    balance roundrobin\n", ""), true),
        (of_all.replace("backend api\n", "backend api\n    balance source\n"), false),
    ] {
        let found = router::haproxy::config::adopt(&config, "www");
        assert_eq!(matches!(found, Err(AdoptError::Algorithm { .. })), is_refused, "{config}");
        if let Ok(found) = found {
            assert!(found.beside.contains(&"balance source, in api".to_owned()), "{found:?}");
        }
    }
    assert!(router::haproxy::config::has_socket(CONFIG, "/run/haproxy/admin.sock"));
    assert!(!router::haproxy::config::has_socket(CONFIG, "/run/haproxy/other.sock"));
}

#[test]
fn a_service_may_have_the_name_that_is_printed() {
    for name in ["shop", "_", "*.example", "a b\"c", "", "-.", "ä", &"x".repeat(99)] {
        assert!(name_of(name).parse::<Name>().is_ok(), "{name}: {}", name_of(name));
    }
}
