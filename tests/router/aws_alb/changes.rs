//! Which calls change what is there, and what comes of them.

use std::net::SocketAddr;

use aws_sdk_elasticloadbalancingv2::types;
use router::{RouterError, aws_alb::Settings};
use traffic::{
    desired::ServiceSpec,
    observed::{Difference, differences},
};

use super::{
    moto::MOTO,
    plane::COOKIE,
    real::{RealAlb, open_by, path, tag},
};
use crate::{
    conformance::{
        Real as _, done,
        routes::{answered, of},
        state::with_shares,
    },
    world::{
        backend::Backend,
        caller::Caller,
        wants::{self, RULE, number, rule, service, wanted},
    },
};

/// Of what was told, what each call does.
fn names(changes: &[(String, String)]) -> Vec<&str> {
    changes.iter().map(|(action, _)| action.as_str()).collect()
}

/// The cookie that a caller is given, as they send it.
async fn given(caller: &mut Caller) -> (String, String) {
    let answer = caller.get("/", &[]).await;
    let cookie = answer.field("set-cookie").expect("a cookie").split(';').next().unwrap().to_owned();
    assert!(cookie.starts_with(&format!("{}=", COOKIE.to_lowercase())), "{cookie}");
    (String::from_utf8(answer.body).unwrap(), cookie)
}

/// A caller's cookie of B.
async fn holder_of_b(caller: &mut Caller) -> String {
    loop {
        if let (b, cookie) = given(caller).await
            && b == "B"
        {
            return cookie;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_back_takes_group_and_stickiness_out_in_one_call_and_reaches_who_holds_a_cookie() {
    let real = RealAlb::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let spec = service("checkout", port, &backends, &[9_000, 1_000]);
    done(&router, &wanted(1, &[&spec])).await;
    let mut caller = Caller::new(real.at(port));
    let cookie = holder_of_b(&mut caller).await;
    // At any weight above none they are kept.
    done(&router, &wanted(2, &[&with_shares(&spec, &[9_900, 100])])).await;
    assert_eq!(caller.variation(&[("Cookie", &cookie)]).await, "B");
    real.aws.came();
    done(&router, &wanted(3, &[&with_shares(&spec, &[10_000, 0])])).await;
    let changes = real.aws.changes();
    assert_eq!(names(&changes), ["ModifyRule", "AddTags"]);
    let (rule, marks) = real.shares_of("checkout").await;
    let told = &changes[0].1;
    let group = |at: usize| marks.variations[at].2.rsplit('/').next().unwrap();
    assert!(told.contains(group(0)) && !told.contains(group(1)), "{told}");
    assert!(told.contains("TargetGroupStickinessConfig.Enabled=false"), "{told}");
    let config = rule.actions()[0].forward_config().unwrap();
    assert_eq!(config.target_groups().len(), 1);
    for _ in 0..50 {
        assert_eq!(caller.variation(&[("Cookie", &cookie)]).await, "A");
    }
    // Where it only had no weight, whoever holds a cookie would stay.
    let group = |at: usize, weight| {
        types::TargetGroupTuple::builder().target_group_arn(&marks.variations[at].2).weight(weight).build()
    };
    let sticky = types::TargetGroupStickinessConfig::builder().enabled(true).duration_seconds(60).build();
    let config = types::ForwardActionConfig::builder().target_groups(group(0, 1)).target_groups(group(1, 0));
    real.rewrite("checkout", config.target_group_stickiness_config(sticky).build()).await;
    assert_eq!(caller.variation(&[("Cookie", &cookie)]).await, "B");
    let seen = router.read().await.unwrap();
    assert_eq!(seen.number, None, "and that is seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_variations_one_goes_and_the_others_keep_their_callers() {
    let real = RealAlb::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B", "C"]).await;
    let port = real.port();
    let spec = service("checkout", port, &backends, &[4_000, 3_000, 3_000]);
    done(&router, &wanted(1, &[&spec])).await;
    let mut caller = Caller::new(real.at(port));
    let cookie = holder_of_b(&mut caller).await;
    done(&router, &wanted(2, &[&with_shares(&spec, &[7_000, 3_000, 0])])).await;
    assert_eq!(caller.variation(&[("Cookie", &cookie)]).await, "B");
    let (rule, _) = real.shares_of("checkout").await;
    let config = rule.actions()[0].forward_config().unwrap();
    assert_eq!(config.target_groups().len(), 2);
    assert_eq!(config.target_group_stickiness_config().unwrap().duration_seconds(), Some(3_600));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_force_is_not_told_again() {
    let real = RealAlb::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = service("checkout", real.port(), &backends, &[9_000, 1_000]);
    spec.rule = Some(rule(&[("B", 1)]));
    let first = wanted(1, &[&spec]);
    done(&router, &first).await;
    let made = real.aws.changes();
    assert_eq!(
        names(&made),
        [
            "CreateTargetGroup",
            "RegisterTargets",
            "CreateTargetGroup",
            "RegisterTargets",
            "CreateRule",
            "CreateRule"
        ]
    );
    done(&router, &first).await;
    drop(router);
    let router = real.open();
    done(&router, &first).await;
    assert_eq!(real.aws.changes(), []);
    // Another number alone is only noted.
    done(&router, &wanted(2, &[&spec])).await;
    assert_eq!(names(&real.aws.changes()), ["AddTags", "AddTags"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_asks_for_a_variation_before_shares_count() {
    let real = RealAlb::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let mut spec = service("checkout", port, &backends, &[10_000, 0]);
    let values: Vec<String> = (0..7).map(|at| format!("user-{at}")).collect();
    let values: Vec<(&str, u8)> = values.iter().map(|value| (value.as_str(), 1)).collect();
    spec.rule = Some(rule(&values));
    done(&router, &wanted(1, &[&spec])).await;
    let mut caller = Caller::new(real.at(port));
    for (value, _) in &values {
        assert_eq!(caller.variation(&[(RULE, value)]).await, "B");
    }
    assert_eq!(caller.variation(&[(RULE, "user-7")]).await, "A");
    assert_eq!(caller.variation(&[]).await, "A");
    // Case doesn't count there.
    assert_eq!(caller.variation(&[(RULE, "USER-1")]).await, "B");
    spec.rule = Some(rule(&[("user-1", 0)]));
    done(&router, &wanted(2, &[&spec])).await;
    assert_eq!(caller.variation(&[(RULE, "user-1")]).await, "A");
    assert_eq!(real.rules().await.len(), 2);
    spec.rule = None;
    done(&router, &wanted(3, &[&spec])).await;
    assert_eq!(real.rules().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_wanted_no_more_goes_wholly_and_a_group_that_others_use_stays() {
    let real = RealAlb::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let [goes, used] = ["goes", "used"].map(|name| service(name, real.port(), &backends, &[5_000, 5_000]));
    done(&router, &wanted(1, &[&goes, &used])).await;
    let (_, marks) = real.shares_of("used").await;
    let group = &marks.variations[0].2;
    let action =
        types::Action::builder().r#type(types::ActionTypeEnum::Forward).target_group_arn(group).build();
    let listener = real.listener(real.port()).await;
    let ask = MOTO.client().create_rule().listener_arn(listener).priority(7).conditions(path("/*"));
    ask.actions(action).send().await.unwrap();
    real.changed();
    done(&router, &wanted(2, &[])).await;
    let left: Vec<_> =
        real.rules().await.into_iter().map(|(rule, _)| rule.priority().unwrap().to_owned()).collect();
    assert_eq!(left, ["7"]);
    let seen = router.read().await.unwrap();
    assert_eq!((seen.services.len(), seen.number), (0, None));
    assert_eq!(router.check(None).await.unwrap().left_over, [group.as_str()]);
    assert_eq!(Caller::new(real.at(goes.listens[0].port)).try_get("/", &[]).await.unwrap().status(), 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_changed_by_hand_is_seen_and_repaired() {
    let real = RealAlb::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let mut spec = service("checkout", real.port(), &backends, &[9_000, 1_000]);
    spec.rule = Some(rule(&[("B", 1)]));
    let wanted = wanted(1, &[&spec]);
    done(&router, &wanted).await;
    let (rule, marks) = real.shares_of("checkout").await;
    let arn = rule.rule_arn().unwrap();
    let header = async || {
        let all = real.rules().await.into_iter();
        let mut headers = all.filter(|(_, tags)| tags["choirmaster:rule"] == "header-0");
        headers.next().unwrap().0.rule_arn().unwrap().to_owned()
    };
    let client = MOTO.client();
    let group = |at: usize, weight| {
        types::TargetGroupTuple::builder().target_group_arn(&marks.variations[at].2).weight(weight).build()
    };
    let is_drift = async |what: &str| {
        real.changed();
        let seen = router.read().await.unwrap();
        assert!(!differences(&wanted, &seen).is_empty(), "{what}: {seen:?}");
        done(&router, &wanted).await;
    };
    // Alike in shares, and sticky no more.
    let config = types::ForwardActionConfig::builder().target_groups(group(0, 9)).target_groups(group(1, 1));
    real.rewrite("checkout", config.build()).await;
    is_drift("callers aren't kept").await;
    client.modify_rule().rule_arn(arn).conditions(path("/admin/*")).send().await.unwrap();
    is_drift("another condition").await;
    client.delete_rule().rule_arn(header().await).send().await.unwrap();
    is_drift("a rule is gone").await;
    let place = types::RulePriorityPair::builder().rule_arn(arn).priority(101).build();
    client.set_rule_priorities().rule_priorities(place).send().await.unwrap();
    is_drift("another priority").await;
    let target = types::TargetDescription::builder().id("127.0.0.9").port(9).build();
    client.register_targets().target_group_arn(&marks.variations[1].2).targets(target).send().await.unwrap();
    is_drift("another target").await;
    let told = tag("choirmaster:told", "nothing");
    client.add_tags().resource_arns(arn).tags(told).send().await.unwrap();
    is_drift("a tag").await;
    client.delete_rule().rule_arn(arn).send().await.unwrap();
    is_drift("no rule").await;
    // Of a variation without a share AWS lets the group go.
    let mut back = with_shares(&spec, &[10_000, 0]);
    back.rule = None;
    let back = wants::wanted(2, &[&back]);
    done(&router, &back).await;
    client.delete_target_group().target_group_arn(&marks.variations[1].2).send().await.unwrap();
    let seen = router.read().await.unwrap();
    assert!(
        matches!(&differences(&back, &seen)[..], [Difference::Targets { variation, .. }] if variation == "B")
    );
    done(&router, &back).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strange_group_in_a_rule_takes_its_share_of_those_that_are_wanted() {
    let real = RealAlb::start().await;
    let router = real.open();
    let backends = Backend::start_all(["A", "B"]).await;
    let [spec, other] =
        ["checkout", "other"].map(|name| service(name, real.port(), &backends, &[5_000, 5_000]));
    let wanted = wanted(1, &[&spec, &other]);
    done(&router, &wanted).await;
    let ((_, own), (_, strange)) = (real.shares_of("checkout").await, real.shares_of("other").await);
    let group =
        |arn: &str, weight| types::TargetGroupTuple::builder().target_group_arn(arn).weight(weight).build();
    let config = types::ForwardActionConfig::builder()
        .target_groups(group(&own.variations[0].2, 2))
        .target_groups(group(&own.variations[1].2, 2))
        .target_groups(group(&strange.variations[0].2, 1));
    real.rewrite("checkout", config.build()).await;
    let found = differences(&wanted, &router.read().await.unwrap());
    let is_it = |one: &Difference| matches!(one, Difference::Shares { seen, .. } if seen == &[4_000, 4_000]);
    assert!(found.iter().any(is_it), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_had_is_refused_before_anything_is_changed() {
    let real = RealAlb::start().await;
    let backends = Backend::start_all(["A", "B"]).await;
    let (port, of_tls) = (real.port(), real.port_of(traffic::desired::Protocol::Https));
    let spec = service("checkout", port, &backends, &[9_000, 1_000]);
    let good = service("also", real.port(), &backends, &[9_000, 1_000]);
    let two = Settings { priorities: (300, 301), ..real.settings(real.aws.at) };
    let router = open_by(two);
    let mut generation = 0;
    let mut refused = async |spec: &ServiceSpec| {
        generation += 1;
        match router.apply(&wanted(generation, &[&good, spec])).await.unwrap_err() {
            RouterError::Unable { what, .. } => what,
            error => panic!("{error}"),
        }
    };
    let with = |change: &dyn Fn(&mut ServiceSpec)| {
        let mut spec = spec.clone();
        change(&mut spec);
        spec
    };
    let rules = with(&|spec| spec.rule = Some(rule(&[("B", 1), ("A", 0)])));
    let said = [
        refused(&with_shares(&spec, &[9_995, 5])).await,
        refused(&with(&|spec| spec.listens[0].port = 9)).await.replace("port 9:", "port 9, not there:"),
        refused(&with(&|spec| spec.listens[0].port = of_tls)).await.replace(&of_tls.to_string(), "(TLS)"),
        refused(&rules).await.replace(&port.to_string(), "(PORT)"),
        refused(&with(&|spec| spec.variations[1].targets.push("[::1]:9".parse().unwrap()))).await,
        refused(&with(&|spec| spec.variations[1].targets = vec!["b.example:9".parse().unwrap()])).await,
    ];
    insta::assert_snapshot!(said.join("\n"), @r"
    service checkout: shares of 99.95/0.05 % can't be said by weights from 0 to 999; tenths of a percent always can
    service checkout: there is no listener at port 9, not there: create one
    service checkout: the listener at port (TLS) takes HTTPS, and not HTTP
    the listener at port (PORT) has no free priority from 300 to 301, as aws_alb.priorities has it
    variation B of service checkout: a target group has addresses of IPv4 or of IPv6, and not of both
    variation B of service checkout: a target group has addresses, and not the name b.example
    ");
    assert_eq!(real.aws.changes(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_lead_rules_of_one_load_balancer_and_do_not_touch_each_others() {
    let real = RealAlb::start().await;
    let backends = Backend::start_all(["A", "B"]).await;
    let open = |priorities, folder: &str| {
        let at = real.settings(real.aws.at);
        let folder = at.folder.with_file_name(folder);
        open_by(Settings { priorities, folder, ..at })
    };
    // The second's begins within the first's.
    let (first, second) = (open((100, 249), "first"), open((200, 240), "second"));
    let [of_first, of_second] =
        ["checkout", "search"].map(|name| service(name, real.port(), &backends, &[9_000, 1_000]));
    done(&first, &wanted(1, &[&of_first])).await;
    done(&second, &wanted(7, &[&of_second])).await;
    assert_eq!(first.read().await.unwrap().number, Some(number(1)));
    done(&first, &wanted(2, &[])).await;
    assert_eq!(first.check(None).await.unwrap().left_over, [""; 0]);
    let seen = second.read().await.unwrap();
    assert_eq!(differences(&wanted(7, &[&of_second]), &seen), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_led_it_elsewhere_by_a_newer_number_is_not_overruled() {
    let real = RealAlb::start().await;
    let backends = Backend::start_all(["A", "B"]).await;
    let spec = service("checkout", real.port(), &backends, &[9_000, 1_000]);
    done(&real.open(), &wanted(5, &[&spec])).await;
    let at = real.settings(real.aws.at);
    let elsewhere = open_by(Settings { folder: at.folder.with_file_name("elsewhere"), ..at });
    let error = elsewhere.apply(&wanted(4, &[&spec])).await.unwrap_err();
    let is_older =
        matches!(error, RouterError::Older { asked, newest } if (asked, newest) == (number(4), number(5)));
    assert!(is_older, "{error}");
}

/// What each of these calls gets.
async fn all_answered(at: SocketAddr, calls: &[(&str, &str)]) -> Vec<String> {
    let mut all = Vec::new();
    for (host, path) in calls {
        all.push(answered(at, host, path).await);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_and_paths_change_and_each_call_is_answered_as_before_or_as_after_at_every_step() {
    let real = RealAlb::start().await;
    let port = real.port();
    let (shop, _a) = of::<RealAlb>("shop", port, (&["shop.example"], None)).await;
    let (mut api, _b) = of::<RealAlb>("api", port, (&["shop.example"], Some("/api"))).await;
    let (mut rest, _c) = of::<RealAlb>("rest", port, (&[], None)).await;
    let (deep, _d) = of::<RealAlb>("deep", port, (&["shop.example"], Some("/api/deep/er"))).await;
    let (wide, _e) =
        of::<RealAlb>("wide", port, (&["other.example", "shop.example"], Some("/api/deep"))).await;
    rest.rule = Some(rule(&[("B", 1)]));
    done(&real.open(), &wanted(1, &[&shop, &api, &rest, &wide])).await;
    let hosts = ["shop.example", "www.shop.example", "other.example"];
    let paths = ["/", "/api", "/api/x", "/api/deep/x", "/api/deep/er/x", "/new/x"];
    let calls: Vec<_> = hosts.iter().flat_map(|host| paths.iter().map(move |path| (*host, *path))).collect();
    let before = all_answered(real.at(port), &calls).await;
    // One has other calls, one goes, one comes between two that have no room between them.
    api.listens[0].hosts = vec!["shop.example".to_owned(), "www.shop.example".to_owned()];
    rest.listens[0].path = Some("/new".to_owned());
    let next = wanted(2, &[&shop, &api, &rest, &deep]);
    let (router, mut cut) = (real.open(), Vec::new());
    real.aws.came();
    loop {
        real.aws.changes_end_after(Some(1));
        let applied = router.apply(&next).await;
        cut.push(all_answered(real.at(port), &calls).await);
        if applied.is_ok() {
            break;
        }
    }
    real.aws.changes_end_after(None);
    let changes = real.aws.changes();
    assert!(changes.iter().any(|(action, _)| action == "SetRulePriorities"), "{changes:?}");
    let after = cut.pop().unwrap();
    let differ = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert!(differ >= 8, "{before:?} {after:?}");
    let partly = cut.iter().filter(|answers| **answers != before && **answers != after).count();
    assert!(partly > 3, "{cut:?}");
    for answers in cut {
        for (at, answer) in answers.iter().enumerate() {
            assert!([&before[at], &after[at]].contains(&answer), "{:?}: {answer}", calls[at]);
        }
    }
    done(&router, &next).await;
    let own: Vec<u16> =
        real.rules().await.iter().map(|(rule, _)| rule.priority().unwrap().parse().unwrap()).collect();
    assert_eq!(own.len(), 5, "{own:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_rule_of_the_operators_hosts_and_a_path_are_adopted_as_far_as_a_service_has_them() {
    let real = RealAlb::start().await;
    let port = real.port();
    let backend = Backend::start("A").await;
    real.serve_besides("shop", port, &backend.target.to_string());
    let (served, _) = real.rules().await.remove(0);
    let host = |hosts: &[&str]| {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let config = types::HostHeaderConditionConfig::builder().set_values(Some(hosts)).build();
        types::RuleCondition::builder().field("host-header").host_header_config(config).build()
    };
    let paths = |paths: &[&str]| {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        let config = types::PathPatternConditionConfig::builder().set_values(Some(paths)).build();
        types::RuleCondition::builder().field("path-pattern").path_pattern_config(config).build()
    };
    let router = real.open();
    let mut said = Vec::new();
    for (of_host, of_path) in [
        (host(&["Shop.example", "b.example"]), paths(&["/api/*", "/api"])),
        (host(&["*.shop.example"]), paths(&["/api*"])),
        (host(&["shop.example"]), paths(&["/*"])),
    ] {
        let ask = MOTO.client().modify_rule().rule_arn(served.rule_arn().unwrap());
        ask.conditions(of_host).conditions(of_path).send().await.unwrap();
        let lines = router.adopt("shop").await.unwrap().replace(&port.to_string(), "(PORT)");
        let of_calls = |line: &&str| line.contains("ports:") || line.contains("only");
        said.extend(lines.lines().filter(of_calls).map(|line| line.trim_start().to_owned()));
    }
    insta::assert_snapshot!(said.join("\n"), @r#"
    ports: [{port: (PORT), protocol: HTTP, hosts: ["b.example", "shop.example"], path: "/api"}]
    ports: [{port: (PORT), protocol: HTTP}]
    # Not taken over: only the hosts *.shop.example
    # Not taken over: only the paths /api*
    ports: [{port: (PORT), protocol: HTTP, hosts: ["shop.example"]}]
    "#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_read_to_their_last_page() {
    let real = RealAlb::start().await;
    let backends = Backend::start_all(["A", "B"]).await;
    let port = real.port();
    let (client, listener) = (MOTO.client(), real.listener(port).await);
    let answer = types::FixedResponseActionConfig::builder().status_code("404").build();
    let action = types::Action::builder().r#type(types::ActionTypeEnum::FixedResponse);
    let action = action.fixed_response_config(answer).build();
    // More than a page, and than tags are asked for at once.
    for priority in 1..=60 {
        let ask =
            client.create_rule().listener_arn(&listener).priority(100 + priority).actions(action.clone());
        ask.conditions(path(&format!("/{priority}"))).send().await.unwrap();
    }
    let asked = client.describe_rules().listener_arn(&listener).send().await.unwrap();
    assert!(asked.next_marker().is_some(), "it tells them in pages");
    let spec = service("checkout", port, &backends, &[9_000, 1_000]);
    let narrow = open_by(Settings { priorities: (101, 161), ..real.settings(real.aws.at) });
    done(&narrow, &wanted(1, &[&spec])).await;
    let (rule, _) = real.shares_of("checkout").await;
    assert_eq!(rule.priority(), Some("161"));
    real.aws.came();
    done(&narrow, &wanted(1, &[&spec])).await;
    assert_eq!(real.aws.changes(), []);
}
