//! What is set of an agent, in files, variables, flags and its unit.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use agent::settings::{
    FrontSettings, OnDrift, Ports, ProxySettings, RouterOptions, StartProxy, Stop, aws_alb,
};
use choirmaster::cli::{
    agent::settings::Settings,
    settings::{Configured as _, Flag},
};

use super::super::{code, documented::documents, err, out, repository, run};

#[test]
fn the_documented_file_lists_every_key_with_its_default_and_sets_nothing() {
    documents::<Settings>();
}

pub fn set(keys: &[(&str, &str)]) -> Result<Settings, String> {
    let flag =
        |&(key, value): &(&str, &str)| Flag { name: "--set", key: key.to_owned(), value: value.to_owned() };
    let file = repository().join("config/agent.yml");
    let flags: Vec<Flag> = keys.iter().map(flag).collect();
    Settings::load(Some(&file), [], &flags).map_err(|error| error.to_string())
}

fn proxy_of(front: FrontSettings) -> ProxySettings {
    match front {
        FrontSettings::Proxy(proxy) => proxy,
        FrontSettings::Router(router) => panic!("the proxy is what splits calls, and not {router:?}"),
    }
}

#[test]
fn a_router_of_somebody_elses_is_led_in_place_of_the_proxy() {
    let led = |keys: &[(&str, &str)]| match set(keys).unwrap().into_agent("/bin/choirmaster".into()).front {
        FrontSettings::Router(router) => router,
        FrontSettings::Proxy(proxy) => panic!("a router is led, and not {proxy:?}"),
    };
    let nginx = led(&[
        ("router.kind", "nginx"),
        ("router.on_drift", "pause"),
        ("router.ports", "80, 8000-8099"),
        ("router.drain", "3s"),
        ("nginx.reload", "systemctl reload nginx"),
        ("nginx.addresses", "127.0.0.1, ::1"),
        ("runtimes.enabled", ""),
    ]);
    assert_eq!((nginx.on_drift, nginx.drain), (OnDrift::Pause, Duration::from_secs(3)));
    assert_eq!(nginx.ports, Ports(vec![(80, 80), (8_000, 8_099)]));
    assert!(nginx.ports.have(8_099) && !nginx.ports.have(81) && Ports::default().have(81));
    let RouterOptions::Nginx(read) = nginx.options else { panic!("{nginx:?}") };
    assert_eq!(read.reload.0, ["systemctl", "reload", "nginx"]);
    assert_eq!(read.addresses, ["127.0.0.1", "::1"].map(|at| at.parse::<std::net::IpAddr>().unwrap()));
    let haproxy = led(&[("router.kind", "haproxy"), ("haproxy.master_socket", "")]);
    let RouterOptions::Haproxy(read) = haproxy.options else { panic!("{haproxy:?}") };
    assert_eq!((read.master_socket, read.pid), (None, PathBuf::from("/run/haproxy.pid")));
    for kind in ["custom", "router.custom", "webhook"] {
        let set =
            [("custom.url", "https://r.example/"), ("custom.secret_file", "/s"), ("custom.patience", "1s")];
        let custom = led(&[&set[..], &[("router.kind", kind), ("runtimes.enabled", "")]].concat());
        let RouterOptions::Custom(read) = custom.options else { panic!("{custom:?}") };
        assert_eq!((&*read.name, read.time_limit), ("router", Duration::from_secs(1)));
    }
    let traefik = led(&[("router.kind", "traefik"), ("traefik.load_within", "3s"), ("runtimes.enabled", "")]);
    let RouterOptions::Traefik(read) = traefik.options else { panic!("{traefik:?}") };
    assert_eq!((read.load_within, &*read.api), (Duration::from_secs(3), "http://127.0.0.1:8080"));
    // Others write the kind so.
    assert!(matches!(led(&[("router.kind", "router.haproxy")]).options, RouterOptions::Haproxy(_)));
}

#[test]
fn a_load_balancer_of_aws_is_led_by_a_program_that_was_built_so() {
    let alb = [("router.kind", "aws_alb"), ("aws_alb.load_balancer", "shop"), ("aws_alb.priorities", "7-9")];
    let with = |key, value| set(&[&alb[..], &[(key, value)]].concat());
    if aws_alb::IS_BUILT_IN {
        let router =
            match with("aws_alb.sticky_for", "1h").unwrap().into_agent("/bin/choirmaster".into()).front {
                FrontSettings::Router(router) => router.options,
                FrontSettings::Proxy(proxy) => panic!("a router is led, and not {proxy:?}"),
            };
        let RouterOptions::AwsAlb(read) = router else { panic!("{router:?}") };
        assert_eq!((read.priorities, read.sticky_for), ((7, 9), Duration::from_hours(1)));
        for (key, value, said) in [
            ("aws_alb.load_balancer", "", "aws_alb.load_balancer: name the load balancer"),
            (
                "aws_alb.sticky_for",
                "1500ms",
                "aws_alb.sticky_for: a load balancer keeps callers for 1 s to 7 days",
            ),
            ("aws_alb.priorities", "7-60000", "aws_alb.priorities: 7-60000 are no priorities"),
            ("aws_alb.endpoint", "http://10.0.0.1:5000", "aws_alb.endpoint: only an address of this machine"),
        ] {
            let faults = with(key, value).unwrap_err();
            assert!(faults.contains(said), "{faults}");
        }
    }
    let without = aws_alb::Options::default().read_by(false).unwrap_err();
    assert_eq!(without.0, "router.kind");
    assert!(without.1.contains("cargo build --release --features aws"), "{without:?}");
    let found = set(&alb).map(drop);
    assert_eq!(found.is_ok(), aws_alb::IS_BUILT_IN, "{found:?}");
}

#[test]
fn what_cannot_be_a_setting_of_a_router_is_said() {
    for (keys, said) in [
        (
            &[("router.kind", "apache")][..],
            "\"apache\" is neither embedded nor nginx nor haproxy nor traefik nor custom nor aws_alb",
        ),
        (
            &[("router.kind", "router.envoy")],
            "router.envoy: no agent leads such a router so far; embedded, nginx, haproxy, traefik, custom and aws_alb are led",
        ),
        (&[("router.kind", "router.custom")], "custom.url: name the address that is called"),
        (
            &[("router.kind", "traefik"), ("traefik.api", "http://10.0.0.1:8080")],
            "traefik.api: only an address of this machine",
        ),
        (
            &[("router.kind", "traefik"), ("traefik.own", "ours")],
            "traefik.own: ours does not begin with a slash",
        ),
        (&[("router.kind", "custom"), ("custom.url", "http://router.example/")], "without https"),
        (&[("router.on_drift", "fight")], "\"fight\" is neither repair nor pause nor accept"),
        (&[("router.ports", "8000-80")], "is neither a port nor a range of ports"),
        (&[("router.ports", "0")], "is neither a port nor a range of ports"),
        (&[("nginx.addresses", "localhost")], "\"localhost\" is no address"),
        (
            &[("router.kind", "nginx"), ("nginx.ask", "0.0.0.0:1")],
            "nginx.ask: 0.0.0.0:1 is not at a loopback address",
        ),
        (
            &[("router.kind", "nginx"), ("nginx.ask_stream", "0.0.0.0:1")],
            "nginx.ask_stream: 0.0.0.0:1 is not at a loopback address",
        ),
        (
            &[("router.kind", "nginx"), ("nginx.ask_stream", "127.0.0.1:8099")],
            "nginx.ask_stream: 127.0.0.1:8099 is nginx.ask already",
        ),
        (
            &[("router.kind", "nginx"), ("nginx.certificate", "/etc/ssl/shop.crt")],
            "nginx.certificate: it takes nginx.key too, and that takes it",
        ),
        (
            &[("router.kind", "nginx"), ("nginx.certificate", "/{host}.crt"), ("nginx.key", "/all.key")],
            "nginx.certificate: the path \"/{host}.crt\" is of no use",
        ),
        (&[("router.kind", "haproxy"), ("haproxy.certificate", "/etc/ssl/a b.pem")], "haproxy.certificate: "),
        (
            &[("router.kind", "nginx"), ("nginx.folder", "/dev/shm/a;b")],
            "nginx.folder: the folder \"/dev/shm/a;b\" is none",
        ),
        (
            &[("router.kind", "nginx"), ("nginx.include", "ours.conf")],
            "nginx.include: ours.conf does not begin with a slash",
        ),
        (&[("router.kind", "nginx"), ("nginx.addresses", "")], "nginx.addresses: name at least one"),
        (&[("router.kind", "haproxy"), ("haproxy.folder", "ours")], "haproxy.folder: "),
        (
            &[("router.kind", "haproxy"), ("haproxy.socket", "a.sock")],
            "haproxy.socket: a.sock does not begin with a slash",
        ),
    ] {
        let faults = set(keys).unwrap_err();
        assert!(faults.contains(said), "{keys:?}: {faults}");
    }
    // Of what isn't led nothing is looked at.
    set(&[("nginx.include", "ours.conf"), ("haproxy.folder", "ours")]).unwrap();
}

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.yml");
    std::fs::write(&file, "agent: {name: file, keep_base: 1m}\nlimits: {memory: 1GiB, log: 1MiB}\n").unwrap();
    let variables = [
        ("CHOIRMASTER_AGENT_NAME", "variable"),
        ("CHOIRMASTER_AGENT_KEEP_BASE", "2m"),
        ("CHOIRMASTER_AGENT_LIMITS_MEMORY", "2GiB"),
        ("CHOIRMASTER_AGENT_CONFIG", "elsewhere"),
        ("CHOIRMASTER_PROXY_NONSENSE", "of another command"),
    ];
    let flag = Flag { name: "--name", key: "agent.name".to_owned(), value: "flag".to_owned() };
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = Settings::load(Some(&file), variables, &[flag]).unwrap().agent;
    assert_eq!((settings.name.as_str(), settings.keep_base), ("flag", Duration::from_mins(2)));
    assert_eq!((settings.versions.limits.memory, settings.versions.limits.log), (2 << 30, 1 << 20));
}

#[test]
fn what_is_set_reaches_the_agent() {
    let settings = set(&[
        ("agent.labels", "site=berlin, tier = edge"),
        ("agent.stop", "drain"),
        ("agent.metrics", "127.0.0.1:9100"),
        ("manager.url", "https://choir.example.org/below/"),
        ("manager.ca", "ca.pem"),
        ("proxy.control", "/run/p.sock"),
        ("proxy.listen", "127.0.0.1:1, [::1]:2"),
        ("proxy.state", "/p"),
        ("runtimes.enabled", "process, tinyfaas"),
        ("runtimes.ports", "30000-30009"),
        ("health.path", "/ready"),
        ("warm_up.calls", "3"),
        ("warm_up.path", "/warm"),
    ]);
    let agent = settings.unwrap().into_agent("/bin/choirmaster".into());
    let labels =
        [("site", "berlin"), ("tier", "edge")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(agent.labels, BTreeMap::from(labels));
    assert_eq!((agent.stop, agent.metrics), (Stop::Drain, Some("127.0.0.1:9100".parse().unwrap())));
    assert_eq!(agent.manager.url, "https://choir.example.org/below");
    assert_eq!(agent.manager.ca, Some(PathBuf::from("ca.pem")));
    assert_eq!(
        (agent.runtimes.enabled, agent.runtimes.ports),
        (vec!["process".to_owned(), "tinyfaas".to_owned()], (30_000, 30_009))
    );
    assert_eq!(agent.versions.health.path.as_deref(), Some("/ready"));
    let warm_up = agent.versions.warm_up.unwrap();
    assert_eq!((warm_up.calls, warm_up.path.as_str(), warm_up.method.as_str()), (3, "/warm", "GET"));
    let arguments =
        "proxy --own-session --control /run/p.sock --state /p --listen 127.0.0.1:1 --listen [::1]:2";
    assert_eq!(
        proxy_of(agent.front).start,
        Some(StartProxy {
            program: "/bin/choirmaster".into(),
            arguments: arguments.split(' ').map(Into::into).collect(),
            state: "/p".into(),
        })
    );
    let none = set(&[("proxy.start", "false")]).unwrap().into_agent("/bin/choirmaster".into());
    assert_eq!(
        (proxy_of(none.front).start, none.versions.warm_up, none.versions.health.path),
        (None, None, None)
    );
}

#[test]
fn who_takes_calls_over_has_its_proxy_do_so_and_leads_no_other_router() {
    let proxy_with =
        |keys: &[(&str, &str)]| proxy_of(set(keys).unwrap().into_agent("/bin/choirmaster".into()).front);
    let none = proxy_with(&[("agent.state", "/s")]);
    let takeover = none.takeover.unwrap();
    assert_eq!((takeover.sockets, takeover.nftables, takeover.ports), (false, false, (19_000, 19_999)));
    assert_eq!((takeover.program, takeover.file), (PathBuf::from("nft"), PathBuf::from("/s/takeover.json")));
    assert!(!none.start.unwrap().arguments.iter().any(|argument| argument == "takeover.nftables=true"));
    let some = proxy_with(&[
        ("takeover.nftables", "true"),
        ("takeover.program", "/sbin/nft"),
        ("takeover.ports", "18000-18009"),
    ]);
    assert_eq!(some.takeover.unwrap().ports, (18_000, 18_009));
    let arguments = some.start.unwrap().arguments;
    let last: Vec<_> =
        arguments[arguments.len() - 4..].iter().map(|argument| argument.to_str().unwrap()).collect();
    assert_eq!(last, ["--set", "takeover.nftables=true", "--set", "takeover.program=/sbin/nft"]);
    let arguments = proxy_with(&[("takeover.sockets", "true")]).start.unwrap().arguments;
    let last: Vec<_> =
        arguments[arguments.len() - 2..].iter().map(|argument| argument.to_str().unwrap()).collect();
    assert_eq!(last, ["--set", "takeover.sockets=true"]);
    for way in ["takeover.sockets", "takeover.nftables"] {
        let why = set(&[("router.kind", "nginx"), (way, "true")]).unwrap_err();
        let expected = format!("{way}: calls come to the proxy, and another router is led");
        assert!(why.contains(&expected), "{why}");
    }
    for ports in ["0-9", "19999-19000", "19000"] {
        assert!(set(&[("takeover.ports", ports)]).unwrap_err().contains("takeover.ports"), "{ports}");
    }
}

#[test]
fn where_it_is_comes_from_a_point_or_a_file() {
    assert_eq!(
        set(&[("agent.at", "52.52, -13.405")]).unwrap().agent.area,
        r#"{"type":"Polygon","coordinates":[[[-13.410000,52.515000],[-13.400000,52.515000],[-13.400000,52.525000],[-13.410000,52.525000],[-13.410000,52.515000]]]}"#
    );
    for place in ["89.99,180", "-89.99,-180", "0,0"] {
        let area = set(&[("agent.at", place)]).unwrap().agent.area;
        assert_eq!(model::area::parse(&area).map(|_| ()), Ok(()), "{place}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("area.json");
    let text = r#"{"type":"Feature","properties":{},"geometry":{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}}"#;
    std::fs::write(&file, text).unwrap();
    let area = set(&[("agent.area_file", file.to_str().unwrap())]).unwrap().agent.area;
    assert_eq!(model::area::parse(&area).map(|_| ()), Ok(()), "{area}");
    assert_eq!(set(&[]).unwrap().agent.area, "");
}

#[test]
fn every_fault_of_the_settings_is_said_at_once_and_no_secret_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("area.json");
    std::fs::write(&file, r#"{"type":"Point","coordinates":[0,0]}"#).unwrap();
    let long = "x".repeat(129);
    let said = set(&[
        ("agent.name", &long),
        ("agent.at", "52,53,54"),
        ("agent.area_file", file.to_str().unwrap()),
        ("agent.labels", "site=berlin,edge"),
        ("agent.stop", "now"),
        ("agent.metrics", "9100"),
        ("manager.url", "http://ann:hidden@choir.example.org"),
        ("manager.certificate", "agent.pem"),
        ("proxy.start", "yes"),
        ("runtimes.ports", "30000-20000"),
        ("limits.memory", "1KiB"),
        ("limits.files", "many"),
        ("health.path", "ready"),
        ("warm_up.method", "get"),
        ("log.level", "loud=very"),
        ("agent.nmae", "edge"),
    ])
    .unwrap_err();
    for part in [
        "the configuration of the agent can't be used",
        "agent.name: it has more than 128 bytes",
        "agent.at: \"52,53,54\" is no latitude and longitude in degrees",
        "agent.area_file: ",
        "agent.labels: \"edge\" is no label, as in site=berlin",
        "agent.stop: \"now\" is neither leave nor drain",
        "agent.metrics: \"9100\" is no address with a port",
        "manager.url: it holds a name or a password: put the token into a file",
        "manager.certificate: is shown over https alone",
        "manager.certificate: goes with manager.key: set both or neither",
        "proxy.start: \"yes\" is neither true nor false",
        "runtimes.ports: \"30000-20000\" is no range of ports",
        "limits.memory: 1KiB is not from 1MiB to 1024GiB",
        "limits.files: \"many\" is no whole number",
        "health.path: \"ready\" does not begin with a slash",
        "warm_up.method: \"get\" is no method",
        "log.level: \"loud=very\" can't be read",
        "there is no key \"agent.nmae\"; config/agent.yml lists all of them",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    assert!(!said.contains("hidden"), "{said}");
    for url in ["choir.example.org", "ftp://choir.example.org", "http://", ""] {
        let said = set(&[("manager.url", url)]).unwrap_err();
        assert!(said.contains("manager.url: an address looks like http://127.0.0.1:9991"), "{url}: {said}");
    }
    let both = set(&[("agent.at", "1,2"), ("agent.area_file", "area.json")]).unwrap_err();
    assert!(both.contains("agent.at: and agent.area_file both say where it is"), "{both}");
    let node =
        set(&[("node.placements", "true"), ("node.memory", "512"), ("node.resources", "disk")]).unwrap_err();
    assert!(node.contains("node.memory: it is at least 1MiB"), "{node}");
    assert!(node.contains("node.resources: there is no \"disk\"; there are file-log, http-egress"), "{node}");
}

#[test]
fn a_configuration_that_can_not_be_used_is_the_callers_fault() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), ["agent", "--at", "north", "--keep-base", "1h"]);
    assert_eq!(code(&output), 1);
    let output = run(folder.path(), ["agent", "--at", "north", "--name", "edge", "--metrics", "here"]);
    let said = err(&output);
    assert_eq!((code(&output), out(&output)), (1, String::new()));
    assert!(
        said.contains("--at: agent.at: \"north\"") && said.contains("--metrics: agent.metrics: \"here\""),
        "{said}"
    );
    assert!(!folder.path().join("data").exists(), "nothing is made before all is read");
}

#[test]
fn the_unit_starts_the_agent_with_flags_and_a_configuration_that_it_takes() {
    let unit = std::fs::read_to_string(repository().join("config/choirmaster-agent.service")).unwrap();
    let value = |key: &str| {
        let mut values = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        values.next().unwrap_or_else(|| panic!("no {key}")).to_owned()
    };
    assert_eq!((value("KillMode").as_str(), value("Restart").as_str()), ("process", "always"));
    assert!(value("After").contains("choirmaster-proxy.service"));
    // The proxy's control is its user's alone, who is called like its unit.
    assert_eq!(value("User"), "choirmaster-proxy");
    let proxy = std::fs::read_to_string(repository().join("config/choirmaster-proxy.service")).unwrap();
    let start = value("ExecStart");
    let socket = "%t/choirmaster-proxy/control.sock";
    assert!(start.contains(socket) && proxy.contains(&format!("--control {socket}")));
    for folder in [value("StateDirectory"), value("RuntimeDirectory")] {
        assert!(start.contains(&format!("/{folder}")), "{folder}");
    }
    let folder = tempfile::tempdir().unwrap();
    let start = start
        .replace("/etc/choirmaster/agent.yml", &repository().join("config/agent.yml").display().to_string())
        .replace(['%'], &format!("{}/", folder.path().display()));
    let mut words = start.split_whitespace();
    assert_eq!(words.next(), Some("/usr/local/bin/choirmaster"));
    // All of it is read, and then this stops it.
    let output = run(folder.path(), words.chain(["--set", "log.level=loud=very"]));
    assert_eq!(code(&output), 1);
    let lines: Vec<String> = err(&output).lines().skip(1).map(|line| line.trim().to_owned()).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("log.level: \"loud=very\""), "{lines:?}");
}
