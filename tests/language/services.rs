//! Services: what is read, what is refused, and what is handed on.

use std::time::Duration;

use language::{
    Action, Approval, ApprovalOf, AtRollback, HashFunction, ProxyProtocol, RolloutTemplate, RolloutTemplates,
    Salt, Site, Stage, StageKind, Strategy, Subject, analysis::Pair, check, check_at, check_from_parent,
    check_stored, offer, render, render_full, schema::StrategyForm,
};
use traffic::{
    Variation,
    desired::{Protocol, StickyTo},
};

use super::{load, rendered, repository};

const SERVICE: &str = r#"id: checkout-42
name: checkout
services:
  - name: checkout
    routers: {labels: {env: prod}}
    ports: [{port: 8080, protocol: HTTP}]
    sticky: {cookie: cm_checkout}
    header: {name: X-Variation, values: {B: B}}
    variations:
      - {name: A, targets: ["127.0.0.1:9101", "127.0.0.1:9102"]}
      - {name: B, targets: ["127.0.0.1:9111"], health: {path: /ready, interval: 2s, timeout: 1s}}
strategy: canary-10-25-50-100
rollout: {on_failure: rollback, soak: 10m}
"#;

fn with(from: &str, to: &str) -> String {
    let text = SERVICE.replacen(from, to, 1);
    assert_ne!(text, SERVICE, "{from}");
    text
}

/// Two stages written out, of three variations.
const OF_THREE: &str = r#"id: checkout-42
name: checkout
services:
  - name: checkout
    ports: [{port: 8080}]
    variations:
      - {name: A, targets: ["127.0.0.1:9101"]}
      - {name: B, targets: ["127.0.0.1:9111"]}
      - {name: C, targets: ["c.example:80"]}
stages:
  - name: a little
    type: Traffic
    shares: {A: 89.75, C: 10.25}
    metrics_conditions: [{name: errorRate, threshold: "<0.02"}]
    end_action: {onSuccess: all}
  - name: all
    type: WaitForSignal
    service: checkout
    shares: {B: 60, C: 40}
    healthy_targets: 50
    metrics_conditions: [{name: errorRate, threshold: "<0.02"}]
    end_action: {onSuccess: rollout}
"#;

fn shares(strategy: &Strategy) -> Vec<(&str, &[u16], u8)> {
    strategy.stages.iter().map(|stage| (stage.name.as_str(), &*stage.shares, stage.new_traffic)).collect()
}

#[test]
fn the_function_by_which_users_are_drawn_is_read_and_handed_on() {
    let strategy = load(&with("    sticky", "    hash: xxh32\n    sticky"));
    assert_eq!(strategy.services[0].hash, Some(HashFunction::Xxh32));
    let below = check_from_parent(render_full::whole(&strategy).as_bytes()).strategy.unwrap();
    assert_eq!(below.services, strategy.services);
    assert_eq!(load(SERVICE).services[0].hash, None);
    let refused = rendered(&with("    sticky", "    hash: crc32\n    sticky"));
    assert!(refused.contains("murmur2") && refused.contains("xxh32"), "{refused}");
}

#[test]
fn what_is_said_of_connections_and_flows_is_read_and_handed_on() {
    let said = "[{port: 443, protocol: HTTPS, hosts: [shop.example], tls: pass}]\n    proxy_protocol: v2\n    drain: 90m";
    let text = OF_THREE.replacen("[{port: 8080}]", said, 1);
    let strategy = load(&text);
    let service = &strategy.services[0];
    assert!(service.passes_tls());
    let expected = (Some(ProxyProtocol::V2), Some(Duration::from_mins(90)));
    assert_eq!((service.proxy_protocol, service.drain), expected);
    serde_saphyr::from_str::<StrategyForm>(&text).unwrap();
    let stored = serde_json::to_string(&strategy).unwrap();
    assert_eq!(serde_json::from_str::<Strategy>(&stored).unwrap(), strategy);
    let below = check_from_parent(render_full::whole(&strategy).as_bytes()).strategy.unwrap();
    assert_eq!(below.services, strategy.services);
    let in_place = offer::read(&render_full::in_place(&strategy, "11", true)).unwrap();
    assert_eq!(in_place.services, strategy.services);
    // What says nothing of it is stored as it was.
    let stored = serde_json::to_string(&load(OF_THREE)).unwrap();
    for key in ["tls", "proxy_protocol", "drain"] {
        assert!(!stored.contains(&format!("\"{key}\"")), "{stored}");
    }
    for (protocol, drain) in [("TCP", "0s"), ("UDP", "30d"), ("HTTPS, tls: pass", "1s")] {
        let said = format!("[{{port: 8080, protocol: {protocol}}}]\n    drain: {drain}");
        assert!(load(&OF_THREE.replacen("[{port: 8080}]", &said, 1)).services[0].drain.is_some());
    }
    let said = "[{port: 8080, protocol: UDP}]\n    proxy_protocol: v1";
    let refused = rendered(&OF_THREE.replacen("[{port: 8080}]", said, 1));
    assert!(refused.contains("no header goes in front of datagrams"), "{refused}");
}

#[test]
fn what_becomes_of_a_service_at_its_rollback_is_read_and_handed_on_with_that() {
    let strategy = load(&with("    sticky", "    at_rollback: retire\n    sticky"));
    assert_eq!(strategy.services[0].at_rollback, AtRollback::Retire);
    let undo = render::undo(&strategy, 0, "11.undo");
    assert_eq!(offer::read(&undo).unwrap().services, strategy.services, "{undo}");
    let kept = load(&with("    sticky", "    at_rollback: keep\n    sticky"));
    assert_eq!(kept, load(SERVICE), "that is what it is without the key");
    let stored = serde_json::to_string(&kept).unwrap();
    assert!(!stored.contains("at_rollback"), "{stored}");
}

#[test]
fn a_service_is_read_with_all_that_is_said_of_it() {
    let strategy = load(SERVICE);
    assert!(strategy.functions.is_empty());
    let [service] = &strategy.services[..] else { panic!("{strategy:?}") };
    assert_eq!((service.name(), service.key()), ("checkout", "service/checkout"));
    assert_eq!(service.routers, [("env".to_owned(), "prod".to_owned())].into());
    assert_eq!((service.ports[0].port, service.ports[0].protocol), (8080, Protocol::Http));
    assert!(matches!(&service.sticky, Some(StickyTo::Cookie(name)) if name.as_str() == "cm_checkout"));
    let rule = service.rule.as_ref().unwrap();
    assert_eq!(
        (rule.name.as_str(), rule.values[0].0.as_str(), rule.values[0].1),
        ("X-Variation", "B", Variation(1))
    );
    assert_eq!(service.variations[0].targets.len(), 2);
    assert_eq!(service.variations[1].health.as_ref().unwrap().path.as_deref(), Some("/ready"));
    assert_eq!((service.salt, service.retry), (Salt::Release, None));
    assert!(strategy.is_sticky(Some(0)));
    assert_eq!(strategy.subject_keys().collect::<Vec<_>>(), ["service/checkout"]);
    assert!(matches!(strategy.subject(0), Some(Subject::Service(_))));
    // Routers of one service move as one.
    let order = |text: &str| load(text).rollout.unwrap().order;
    assert_eq!(order(SERVICE), language::Order::GlobalIncremental);
    assert_eq!(
        order(&with("rollout: {on_failure: rollback, soak: 10m}\n", "")),
        language::Order::GlobalIncremental
    );
}

#[test]
fn stages_share_calls_out_among_any_number_of_variations_in_hundredths_of_a_percent() {
    let strategy = load(OF_THREE);
    assert_eq!(
        shares(&strategy),
        [("a little", &[8975, 0, 1025][..], 10), ("all", &[0, 6000, 4000][..], 100)]
    );
    assert_eq!(strategy.stages[0].kind, StageKind::AB);
    assert_eq!(strategy.stages[1].kind, StageKind::WaitForSignal);
    assert_eq!(
        strategy.stages.iter().map(|stage| stage.healthy_targets).collect::<Vec<_>>(),
        [None, Some(5000)]
    );
    // Of what is neither nothing nor all the whole percent says neither.
    for (stable, other, percent) in [("99.99", "0.01", 1), ("0.01", "99.99", 99), ("50.5", "49.5", 50)] {
        let text = OF_THREE.replacen("A: 89.75, C: 10.25", &format!("A: {stable}, C: {other}"), 1);
        assert_eq!(load(&text).stages[0].new_traffic, percent, "{stable}");
    }
}

#[test]
fn a_template_is_stages_with_its_approvals_and_what_it_means_on_failure() {
    let strategy = load(SERVICE);
    assert_eq!(
        shares(&strategy),
        [
            ("10 %", &[9000, 1000][..], 10),
            ("25 %", &[7500, 2500][..], 25),
            ("50 %", &[5000, 5000][..], 50),
            ("100 %", &[0, 10000][..], 100),
        ]
    );
    let seconds: Vec<u64> = strategy.stages.iter().map(|stage| stage.min_duration.as_secs()).collect();
    assert_eq!(seconds, [300, 600, 900, 0]);
    assert!(strategy.stages.iter().all(|stage| stage.healthy_targets == Some(9500)));
    let calls: Vec<u64> = strategy.stages.iter().map(|stage| stage.min_calls).collect();
    assert_eq!(calls, [1000, 400, 200, 100], "of which B gets 100");
    assert_eq!(strategy.stages[3].on_success, Action::Rollout);
    let rollout = strategy.rollout.unwrap();
    // Somebody is asked after the stage of 50 %, which is before that of 100 %.
    let language::ApprovalOf::Stages(asked) = rollout.approval.unwrap().of else { panic!() };
    assert_eq!((asked, rollout.soak.as_secs()), (vec![3], 600));
    // What the strategy says itself wins.
    let own = load(&with(
        "rollout: {on_failure: rollback",
        "rollout: {on_failure: pause, approval: before_rollout",
    ));
    let rollout = own.rollout.unwrap();
    assert_eq!(rollout.on_failure, language::OnLimit::Pause);
    assert_eq!(rollout.approval.unwrap().of, language::ApprovalOf::Rollout);
}

#[test]
fn each_built_in_template_is_what_its_golden_file_says() {
    for template in RolloutTemplates::default().all() {
        let strategy = load(&SERVICE.replace("canary-10-25-50-100", &template.name));
        insta::with_settings!({description => template.description.clone()}, {
            insta::assert_snapshot!(format!("template_{}", template.name), render_full::whole(&strategy));
        });
    }
}

/// `10 % for 5m and 1000 calls`: a stage as the page has it.
fn stage_on_page(stage: &Stage) -> String {
    let minutes = stage.min_duration.as_secs() / 60;
    let lasts = (minutes > 0).then(|| format!("{minutes}m"));
    let calls = (stage.new_traffic > 0).then(|| format!("{} calls", stage.min_calls));
    let waits: Vec<String> = lasts.into_iter().chain(calls).collect();
    format!("{} for {}", stage.name, waits.join(" and "))
}

/// The stages before which somebody is asked.
fn asked_before(approval: &Approval) -> Vec<usize> {
    let ApprovalOf::Stages(asked) = &approval.of else { panic!("the page has no words for {approval:?}") };
    asked.clone()
}

#[test]
fn the_page_says_which_stages_each_built_in_strategy_has_and_how_long_it_lasts() {
    let page = std::fs::read_to_string(repository().join("docs/services.md")).unwrap();
    let table = page.lines().skip_while(|line| !line.starts_with("| name | stages:")).skip(2);
    let told: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    let row = |template: &RolloutTemplate| {
        let strategy = load(&SERVICE.replace("canary-10-25-50-100", &template.name));
        let approval = strategy.rollout.as_ref().and_then(|rollout| rollout.approval.as_ref());
        let asked = approval.map(asked_before).unwrap_or_default();
        let stages = strategy.stages.iter().enumerate().map(|(at, stage)| {
            let approval = if asked.contains(&at) { "approval, " } else { "" };
            format!("{approval}{}", stage_on_page(stage))
        });
        let stages: Vec<String> = stages.collect();
        let least: Duration = strategy.stages.iter().map(|stage| stage.min_duration).sum();
        format!("| `{}` | {} | {}m |", template.name, stages.join(", "), least.as_secs() / 60)
    };
    assert_eq!(told, RolloutTemplates::default().all().map(row).collect::<Vec<_>>());
}

#[test]
fn nothing_is_said_against_health_checks_since_every_agent_makes_them() {
    assert!(SERVICE.contains("health:"));
    let said = rendered(SERVICE);
    assert!(!said.contains("health"), "{said}");
}

#[test]
fn a_built_in_strategy_lasts_at_least_as_long_as_its_stages_together() {
    let minutes = [
        ("canary-10-25-50-100", 30),
        ("canary-1-5-10-50-100", 40),
        ("blue-green-instant", 1),
        ("blue-green-gradual", 25),
    ];
    for (name, minutes) in minutes {
        let strategy = load(&SERVICE.replace("canary-10-25-50-100", name).replace(", soak: 10m", ""));
        assert_eq!(strategy.least_duration(), Duration::from_mins(minutes), "{name}");
    }
    // All routers go from stage to stage together, and each stage but the last soaks.
    assert_eq!(load(SERVICE).least_duration(), Duration::from_hours(1));
    // Each wave goes through all stages, and soaks before the next one.
    let in_waves =
        with("{on_failure: rollback, soak: 10m}", "{order: waves, waves: [1, 50%, 100%], soak: 10m}");
    assert_eq!(load(&in_waves).least_duration(), Duration::from_mins(3 * 30 + 2 * 10));
}

#[test]
fn a_template_of_the_manager_is_written_into_the_text_that_is_kept() {
    let mut strategies = RolloutTemplates::default();
    let text = "strategies:\n  quick: {stages: [{traffic: 0.5, duration: 1s}, {traffic: 100, duration: 0s, approval: true}], auto_advance: \
                true, on_failure: pause}\n";
    assert_eq!(strategies.read(text), []);
    let site = Site { strategies, ..Site::default() };
    for written in ["quick", "\"quick\"", "'quick'"] {
        let checked = check_at(with("canary-10-25-50-100", written).as_bytes(), &site);
        let strategy = checked.strategy.unwrap_or_else(|| panic!("{:?}", checked.diagnostics));
        assert_eq!(strategy.stages[0].shares, [9950, 50]);
        assert_eq!(
            strategy.rollout.as_ref().unwrap().approval.as_ref().unwrap().of,
            language::ApprovalOf::Rollout
        );
        // Nobody needs the manager's folder to read it again.
        let frozen = checked.frozen.unwrap();
        assert_eq!(check(&frozen).strategy.as_ref(), Some(&strategy));
        assert_eq!(check_stored(&frozen).strategy.as_ref(), Some(&strategy));
    }
    // Built-in ones may become others with a later build.
    let checked = check_at(SERVICE.as_bytes(), &Site::default());
    assert!(checked.frozen.unwrap().contains("healthy_targets"));
    assert!(rendered(&with("canary-10-25-50-100", "quick")).contains("there is no strategy \"quick\""));
}

#[test]
fn templates_of_a_file_are_checked_with_places() {
    for (text, says) in [
        (
            "strategies: {canary-10-25-50-100: {stages: [{traffic: 1, duration: 1s}]}}",
            "there are two strategies",
        ),
        ("strategies: {a: {stages: []}}", "stages is empty"),
        ("strategies: {a: {stages: [{traffic: 101, duration: 1s}]}}", "\"101\" is not a percentage"),
        ("strategies: {a: {stages: [{traffic: 1}]}}", "lacks duration"),
        ("strategies: {a: {stages: [{traffic: 1, duration: 1s, share: 2}]}}", "has no key \"share\""),
        ("strategies: [a]", "strategies is not a mapping"),
        ("strategy: a", "has no key \"strategy\""),
    ] {
        let mut strategies = RolloutTemplates::default();
        let found = strategies.read(text);
        assert!(found.iter().any(|found| found.message.contains(says)), "{text}: {found:?}");
        assert_eq!(strategies.all().count(), 4, "{text}");
    }
}

#[test]
fn what_managers_below_and_routers_read_is_the_same_service() {
    for text in [
        SERVICE.to_owned(),
        OF_THREE.to_owned(),
        with("sticky: {cookie: cm_checkout}", "sticky: address\n    salt: service\n    retry: never"),
        with("    sticky", "    at_rollback: retire\n    sticky"),
    ] {
        let strategy = load(&text);
        serde_saphyr::from_str::<StrategyForm>(&text).unwrap();
        let stored = serde_json::to_string(&strategy).unwrap();
        assert_eq!(serde_json::from_str::<Strategy>(&stored).unwrap(), strategy);
        let below = check_from_parent(render_full::whole(&strategy).as_bytes());
        assert_eq!(below.strategy.as_ref(), Some(&strategy), "{:?}", below.diagnostics);
        let in_place = offer::read(&render_full::in_place(&strategy, "11", true)).unwrap();
        assert_eq!(in_place.services, strategy.services);
        let shared: Vec<_> = in_place.stages.iter().map(|of| of.stage.shares.clone()).collect();
        assert_eq!(shared, strategy.stages.iter().map(|stage| stage.shares.clone()).collect::<Vec<_>>());
        // Deployed agents lead no calls, and are handed none.
        assert!(render::stage(&strategy, 0, "11").contains("functions: []"));
    }
}

#[test]
fn a_strategy_of_functions_has_the_digest_that_it_had() {
    let stored = String::from_utf8(load(super::REFERENCE).digest_form().unwrap()).unwrap();
    for word in ["services", "shares", "healthy_targets", "subject", "agents"] {
        assert!(!stored.contains(word), "{word}: {stored}");
    }
    assert!(stored.contains("\"function\":0"));
}

#[test]
fn hosts_and_a_path_are_read_and_travel_to_managers_below() {
    let text = with(
        "{port: 8080, protocol: HTTP}",
        "{port: 443, protocol: HTTPS, hosts: [Shop.example, b.example], path: /api}",
    );
    let strategy = load(&text);
    let listen = &strategy.services[0].ports[0];
    assert_eq!(
        (&*listen.hosts, listen.path.as_deref()),
        (&["shop.example".to_owned(), "b.example".to_owned()][..], Some("/api"))
    );
    let below = render_full::in_place(&strategy, "11", true);
    assert_eq!(offer::read(&below).unwrap().services, strategy.services, "{below}");
    // The whole host.
    let whole = load(&with("protocol: HTTP", "hosts: [shop.example], path: /"));
    assert_eq!(whole.services[0].ports[0].path, None);
}

#[test]
fn each_slip_is_named() {
    for (from, to, says) in [
        ("name: checkout\n    routers", "name: check out\n    routers", "\"check out\" is no name"),
        ("{labels: {env: prod}}", "{}", "routers lacks labels"),
        ("[{port: 8080, protocol: HTTP}]", "[]", "ports is empty"),
        ("port: 8080", "port: 0", "\"0\" is no port"),
        ("port: 8080", "port: 80800", "\"80800\" is no port"),
        ("protocol: HTTP", "protocol: http", "there is no protocol \"http\""),
        ("[{port: 8080, protocol: HTTP}]", "[{port: 8080}, {port: 8080}]", "names port 8080 twice"),
        ("protocol: HTTP", "hosts: []", "hosts is empty"),
        ("protocol: HTTP", "hosts: shop.example", "hosts is not a list"),
        (
            "protocol: HTTP",
            "hosts: [\"*.shop.example\"]",
            "name each host: routers don't agree on what * fits",
        ),
        ("protocol: HTTP", "hosts: [\"shop.example:80\"]", "\"shop.example:80\" is no host"),
        ("protocol: HTTP", "hosts: [a.example, A.example]", "names the host a.example twice"),
        ("protocol: HTTP", "path: api", "\"api\" is no path of whole segments"),
        ("protocol: HTTP", "path: /api/", "without one at its end"),
        ("protocol: HTTP", "path: /a*", "\"/a*\" is no path of whole segments"),
        (
            "[{port: 8080, protocol: HTTP}]",
            "[{port: 1}, {port: 2, protocol: TCP}]",
            "mix HTTP with TCP or UDP",
        ),
        (
            "protocol: HTTP",
            "protocol: TCP",
            "takes connections without headers: a cookie means nothing there",
        ),
        ("cm_checkout", "'a b'", "no cookie or header is called"),
        ("cm_checkout", "'a.b'", "\"a.b\" is no name of a cookie"),
        ("values: {B: B}", "values: {B: D}", "there is no variation \"D\""),
        ("values: {B: B}", "values: {}", "values names 0 values"),
        ("127.0.0.1:9102", "127.0.0.1", "\"127.0.0.1\" is no target"),
        ("127.0.0.1:9102", "127.0.0.1:9101", "names the target 127.0.0.1:9101 twice"),
        ("127.0.0.1:9102", "a;b:1", "\"a;b:1\" is no target"),
        ("name: B", "name: A", "has two variations \"A\""),
        ("path: /ready", "path: ready", "\"ready\" is no path of a check"),
        ("interval: 2s", "interval: 1ms", "\"1ms\" is no time between two checks"),
        ("strategy: canary-10-25-50-100", "strategy: canary-10", "there is no strategy \"canary-10\""),
        (
            "strategy: canary-10-25-50-100",
            "strategy: {stages: [{traffic: 5, duration: never}]}",
            "\"never\" is not a duration",
        ),
        ("strategy: canary-10-25-50-100\n", "", "lacks stages"),
        ("soak: 10m", "untested: rollout", "untested: rollout is for functions"),
        ("    sticky", "    at_rollback: remove\n    sticky", "there is no at_rollback \"remove\""),
        ("protocol: HTTP", "tls: pass", "has tls: pass at port 8080, and that is for HTTPS alone"),
        ("protocol: HTTP", "protocol: HTTPS, tls: open", "there is no tls \"open\""),
        (
            "protocol: HTTP",
            "protocol: HTTPS, tls: pass, path: /api",
            "and nobody sees the paths of its calls there",
        ),
        ("protocol: HTTP", "protocol: HTTPS, tls: pass", "without headers: a cookie means nothing there"),
        ("    sticky", "    drain: 1h\n    sticky", "which end by themselves: drain means nothing there"),
        ("    sticky", "    drain: 31d\n    sticky", "\"31d\" is no time for connections to stay"),
        ("    sticky", "    drain: 1500ms\n    sticky", "\"1500ms\" is no time for connections to stay"),
        ("    sticky", "    drain: soon\n    sticky", "\"soon\" is not a duration"),
        ("    sticky", "    proxy_protocol: v3\n    sticky", "there is no proxy_protocol \"v3\""),
        ("    sticky", "    proxy_protocol: v1\n    sticky", "health checks go to targets without a header"),
    ] {
        let text = with(from, to);
        assert!(rendered(&text).contains(says), "{to}: {}", rendered(&text));
        assert!(check(&text).strategy.is_none(), "{to}");
    }
    for (from, to, says) in [
        ("A: 89.75, C: 10.25", "A: 89.75, C: 10.24", "add up to 99.99 %, not to 100 %"),
        ("A: 89.75, C: 10.25", "A: 89.755, C: 10.245", "\"89.755\" is not a percentage"),
        ("A: 89.75, C: 10.25", "A: 89.75, D: 10.25", "there is no variation \"D\""),
        ("service: checkout", "service: checkin", "there is no service \"checkin\""),
        ("service: checkout", "func_name: checkout", "is a stage of a service and has no func_name"),
        ("type: Traffic", "type: A/B", "is a stage of a service and not of type A/B"),
        ("healthy_targets: 50", "healthy_targets: 101", "\"101\" is not a percentage"),
        // In hundredths it is 64 above what 16 bits hold.
        ("healthy_targets: 50", "healthy_targets: 656", "\"656\" is not a percentage"),
        ("id: checkout-42", "id: checkout-42\nstrategy: canary-10-25-50-100", "and so does stages"),
    ] {
        let changed = OF_THREE.replacen(from, to, 1);
        assert_ne!(changed, OF_THREE, "{from}");
        assert!(rendered(&changed).contains(says), "{to}: {}", rendered(&changed));
        assert!(check(&changed).strategy.is_none(), "{to}");
    }
}

/// Two stages of three variations, the second of which is judged by these metrics; in its first stage B has nothing.
fn judged_by(metrics: &str) -> String {
    let block = format!(
        "    shares: {{A: 80, B: 10, C: 10}}\n    analysis: {{duration: 10m, interval: 1m, metrics: [{metrics}]}}\n"
    );
    let judged = OF_THREE.replacen("    shares: {B: 60, C: 40}\n    healthy_targets: 50\n", &block, 1);
    assert_ne!(judged, OF_THREE);
    judged
}

const ERRORS: &str = "{name: errors, provider: children, metric: errorRate, strategy: CANARY_BASELINE";

/// Each metric of the last stage, with the variations that it names.
fn pairs(text: &str) -> Vec<(String, Option<Pair>)> {
    let strategy = load(text);
    let analysis = strategy.stages.last().unwrap().analysis.clone().unwrap();
    analysis.metrics.into_iter().map(|metric| (metric.name, metric.pair)).collect()
}

fn pair(baseline: Option<&str>, canary: Option<&str>) -> Pair {
    Pair { baseline: baseline.map(str::to_owned), canary: canary.map(str::to_owned) }
}

#[test]
fn each_new_variation_of_what_children_report_is_judged_and_has_its_part_of_alpha() {
    let text = judged_by(&format!("{ERRORS}}}"));
    let condition = "metrics_conditions: errorRate < 0.02";
    let found = pairs(&text);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!((names[0], names[2]), ("errors", "errors, C"), "{names:?}");
    assert!(names[1].starts_with(&condition[..19]) && names[3].ends_with(", C"), "{names:?}");
    let of: Vec<&Option<Pair>> = found.iter().map(|(_, pair)| pair).collect();
    let of_c = Some(pair(None, Some("C")));
    assert_eq!(of, [&None, &None, &of_c, &of_c]);
    let shares: Vec<f64> = load(&text).alpha_shares().iter().map(|share| share.alpha).collect();
    assert_eq!(shares, [0.025, 0.025], "both comparisons together have what one has else");
    // A variation without calls is not judged: C stands in the place of B then.
    let alone = text.replacen("{A: 80, B: 10, C: 10}", "{A: 80, C: 20}", 1);
    assert_eq!(pairs(&alone), [("errors".to_owned(), of_c.clone()), (names[1].to_owned(), of_c)]);
    let stored = check_stored(&text).strategy.unwrap();
    assert_eq!(stored, load(&text), "it is the same when it is read again");
}

#[test]
fn a_metric_of_what_children_report_may_name_its_variations() {
    let of = |metric: &str| pairs(&judged_by(metric)).remove(0).1;
    let primary = ERRORS.replace("CANARY_BASELINE", "CANARY_PRIMARY");
    assert_eq!(of(&format!("{ERRORS}, baselineArgs: {{variation: C}}}}")), Some(pair(Some("C"), None)));
    assert_eq!(of(&format!("{ERRORS}, canaryArgs: {{variation: C}}}}")), Some(pair(None, Some("C"))));
    assert_eq!(
        of(&format!("{primary}, canaryArgs: {{variation: C}}, primaryArgs: {{variation: A}}}}")),
        Some(pair(Some("A"), Some("C")))
    );
    assert_eq!(
        of(&format!("{ERRORS}, baselineArgs: {{variation: A}}, canaryArgs: {{variation: B}}}}")),
        None,
        "these are what is told of two versions"
    );
    let no_calls = |metric: &str| judged_by(metric).replacen("{A: 80, B: 10, C: 10}", "{A: 80, C: 20}", 1);
    for (text, says) in [
        (
            judged_by(&format!("{ERRORS}, canaryArgs: {{variation: D}}}}")),
            "names \"D\", and what is judged has no such",
        ),
        (
            judged_by(&format!("{ERRORS}, canaryArgs: {{variation: A}}}}")),
            "judges what it compares with, or the stable",
        ),
        (
            judged_by(&format!("{ERRORS}, baselineArgs: {{variation: B}}}}")),
            "judges what it compares with, or the stable",
        ),
        (
            judged_by(&format!("{ERRORS}, canaryArgs: {{job: B}}}}")),
            "canaryArgs has job, and children are asked",
        ),
        (
            judged_by(&format!("{ERRORS}, primaryArgs: {{variation: A}}}}")),
            "primaryArgs has a meaning only with strategy",
        ),
        (judged_by(&format!("{primary}}}")), "of CANARY_PRIMARY they know nothing"),
        (
            no_calls(&format!("{ERRORS}, canaryArgs: {{variation: B}}}}")),
            "is about \"B\", which gets no calls in the stage",
        ),
    ] {
        assert!(rendered(&text).contains(says), "{says}: {}", rendered(&text));
        assert!(check(&text).strategy.is_none(), "{says}");
    }
}

/// Two services that are shared together, and then the first of them alone.
const TOGETHER: &str = r#"id: shop-42
name: shop
services:
  - name: checkout
    ports: [{port: 8080}]
    variations: [{name: A, targets: ["127.0.0.1:9101"]}, {name: B, targets: ["127.0.0.1:9111"]}]
  - name: pay
    ports: [{port: 8090}]
    variations: [{name: A, targets: ["127.0.0.1:9201"]}, {name: B, targets: ["127.0.0.1:9211"]}]
stages:
  - name: pay a little
    type: Traffic
    service: pay
    shares: {A: 70, B: 30}
    with_next: true
    end_action: {onSuccess: a little}
  - name: a little
    type: Traffic
    service: checkout
    shares: {A: 90, B: 10}
    metrics_conditions: [{name: errorRate, threshold: "<0.02"}]
    end_action: {onSuccess: more}
  - name: more
    type: Traffic
    service: checkout
    shares: {A: 50, B: 50}
    metrics_conditions: [{name: errorRate, threshold: "<0.02"}]
    end_action: {onSuccess: rollout}
"#;

#[test]
fn stages_that_begin_together_are_read_and_handed_on() {
    let strategy = load(TOGETHER);
    assert_eq!(strategy.stages.iter().map(|stage| stage.with_next).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!([0, 1, 2].map(|stage| strategy.together(stage)), [0..=1, 0..=1, 2..=2]);
    serde_saphyr::from_str::<StrategyForm>(TOGETHER).unwrap();
    // Nothing judges the first, and nobody is told that it should.
    assert!(!rendered(TOGETHER).contains("no condition"), "{}", rendered(TOGETHER));
    let stored = serde_json::to_string(&strategy).unwrap();
    assert_eq!(serde_json::from_str::<Strategy>(&stored).unwrap(), strategy);
    let below = check_from_parent(render_full::whole(&strategy).as_bytes());
    assert_eq!(below.strategy.as_ref(), Some(&strategy), "{:?}", below.diagnostics);
    let in_place = offer::read(&render_full::in_place(&strategy, "11", true)).unwrap();
    let read: Vec<bool> = in_place.stages.iter().map(|of| of.stage.with_next).collect();
    assert_eq!(read, [true, false, false]);
    // Left out, it leaves what is stored as it was.
    let alone = TOGETHER.replacen("    with_next: true\n", "", 1);
    let said = TOGETHER.replacen("with_next: true", "with_next: false", 1);
    assert_eq!(load(&alone).digest_form().unwrap(), load(&said).digest_form().unwrap());
    assert!(!serde_json::to_string(&load(&alone)).unwrap().contains("with_next"));
}

#[test]
fn what_cant_begin_together_is_refused_with_a_reason() {
    let judged = "it waits for nothing, and nothing judges it";
    for (from, to, says) in [
        ("onSuccess: a little", "onSuccess: more", "doesn't lead to that"),
        ("onSuccess: a little", "onSuccess: rollout", "doesn't lead to that"),
        (
            "shares: {A: 50, B: 50}\n",
            "shares: {A: 50, B: 50}\n    with_next: true\n",
            "begins with the one behind it, and doesn't lead to that",
        ),
        ("service: pay\n", "service: checkout\n", "together with another one of the same service"),
        ("with_next: true\n", "with_next: true\n    healthy_targets: 50\n", judged),
        (
            "with_next: true\n",
            "with_next: true\n    end_conditions: [{name: minDuration, threshold: 1s}]\n",
            judged,
        ),
        (
            "with_next: true\n",
            "with_next: true\n    metrics_conditions: [{name: errorRate, threshold: \"<0.02\"}]\n",
            judged,
        ),
        ("with_next: true", "with_next: soon", "with_next is true or false"),
    ] {
        let changed = TOGETHER.replacen(from, to, 1);
        assert_ne!(changed, TOGETHER, "{from}");
        assert!(rendered(&changed).contains(says), "{to}: {}", rendered(&changed));
        assert!(check(&changed).strategy.is_none(), "{to}");
    }
    let of_function = super::REFERENCE.replacen("    end_action:", "    with_next: true\n    end_action:", 1);
    assert_ne!(of_function, super::REFERENCE);
    assert!(rendered(&of_function).contains("is a stage of a service"), "{}", rendered(&of_function));
}
