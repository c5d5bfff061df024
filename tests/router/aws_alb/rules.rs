//! What a service is as rules, and what an ALB can't say.

use std::collections::BTreeSet;

use proptest::prelude::*;
use router::aws_alb::{
    rule::{Condition, Forward, Marks, Role, RuleText, Shape, check_cookies, digest, group_name, priorities},
    weights::{MAX_WEIGHT, hundredths, weights},
};
use traffic::{
    Table,
    desired::{Protocol, Service, ServiceSpec, StickyTo},
};

use crate::world::{backend::Backend, place::at, wants};

fn spec(names: &[&str], shares: &[u16]) -> ServiceSpec {
    let backends: Vec<Backend> = names.iter().map(|name| Backend::elsewhere(name, at(9))).collect();
    wants::service("checkout", 8_080, &backends, shares)
}

fn shape(spec: ServiceSpec) -> Result<Shape, String> {
    Shape::of(&Service::new(spec).unwrap(), 3_600).map_err(|unable| unable.to_string())
}

/// Shares of two to five variations, in steps.
fn shares(step: u16) -> impl Strategy<Value = Vec<u16>> {
    proptest::collection::vec(0..=10_000 / step, 1..5).prop_map(move |cuts| {
        let mut cuts: Vec<u16> = cuts.iter().map(|cut| cut * step).chain([0, 10_000]).collect();
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| pair[1] - pair[0]).collect()
    })
}

proptest! {
    #[test]
    fn tenths_of_a_percent_are_exact(shares in shares(10)) {
        let weights = weights(&shares).expect("they can be said");
        prop_assert!(weights.iter().all(|weight| *weight <= MAX_WEIGHT));
        prop_assert_eq!(hundredths(&weights), shares);
    }

    #[test]
    fn weights_that_are_taken_are_less_than_a_hundredth_off_and_read_back_as_what_was_wanted(shares in shares(1)) {
        let Some(weights) = weights(&shares) else { return Ok(()) };
        let sum: u32 = weights.iter().copied().map(u32::from).sum();
        for (weight, share) in weights.iter().zip(&shares) {
            prop_assert!(*weight <= MAX_WEIGHT && (*weight == 0) == (*share == 0));
            let off = (u32::from(*weight) * 10_000).abs_diff(u32::from(*share) * sum);
            prop_assert!(off < sum, "{weights:?} for {shares:?}");
        }
        let groups = (0..).map(|at: usize| format!("arn-{at}")).zip(weights).filter(|(_, weight)| *weight > 0);
        let forward = Forward { groups: groups.collect(), sticky: None };
        let variations = shares.iter().enumerate().map(|(at, share)| (at.to_string(), *share, format!("arn-{at}")));
        let marks = Marks {
            service: "checkout".to_owned(), calls: "c".to_owned(), role: Role::Shares, number: wants::number(7),
            digest: "d".to_owned(),
            variations: variations.collect(), rules: 1,
        };
        prop_assert_eq!(Marks::read(&marks.tags()), Some(marks.clone()));
        prop_assert_eq!(marks.shares(&forward), shares.clone());
        // By hand.
        let mut other = forward;
        *other.groups.values_mut().next().unwrap() += 1;
        if other.groups.len() > 1 {
            let seen = marks.shares(&other);
            prop_assert_eq!(seen.iter().copied().map(u32::from).sum::<u32>(), 10_000);
        }
        other.groups.insert("arn-strange".to_owned(), MAX_WEIGHT);
        prop_assert_ne!(marks.shares(&other), shares);
    }

    #[test]
    fn rules_stand_in_their_order_at_places_that_nobody_else_has(
        there in proptest::collection::vec(proptest::option::of(90_u16..125), 1..8),
        taken in proptest::collection::btree_set(95_u16..125, 0..15),
    ) {
        let known: Vec<u16> = there.iter().copied().flatten().collect();
        let own: BTreeSet<u16> = known.iter().copied().collect();
        prop_assume!(own.len() == known.len() && own.is_disjoint(&taken));
        let range = (100, 119);
        let free = (100..=119).filter(|at| !taken.contains(at) && !own.contains(at)).count();
        match priorities(&there, &taken, range) {
            Some(places) => {
                prop_assert_eq!(places.len(), there.len());
                prop_assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
                prop_assert!(places.iter().all(|at| (100..=119).contains(at) && !taken.contains(at)));
                // What is moved is moved to where nobody is.
                let moved = places.iter().zip(&there).filter(|(at, there)| there.is_some_and(|there| there != **at));
                prop_assert!(moved.into_iter().all(|(at, _)| !own.contains(at)));
            }
            None => prop_assert!(free < there.len()),
        }
    }
}

#[test]
fn rules_that_are_in_their_order_stay_where_they_are() {
    let none = BTreeSet::new();
    assert_eq!(priorities(&[None, None], &none, (100, 999)), Some(vec![998, 999]));
    assert_eq!(
        priorities(&[Some(200), None, Some(300)], &[299].into(), (100, 999)),
        Some(vec![200, 298, 300])
    );
    assert_eq!(priorities(&[Some(300), Some(200)], &none, (100, 999)), Some(vec![998, 999]));
    assert_eq!(priorities(&[None, Some(100)], &none, (100, 999)), Some(vec![998, 999]));
    assert_eq!(priorities(&[None, None], &none, (100, 100)), None);
}

#[test]
fn what_weights_can_say() {
    for (shares, said) in [
        (&[9_500, 500][..], Some(&[19, 1][..])),
        (&[9_990, 10], Some(&[999, 1])),
        (&[10_000, 0], Some(&[1, 0])),
        (&[0, 0, 10_000], Some(&[0, 0, 1])),
        (&[3_333, 3_333, 3_334], Some(&[1, 1, 1])),
        (&[9_995, 5], None),
        (&[9_999, 1], None),
    ] {
        assert_eq!(weights(shares).as_deref(), said, "{shares:?}");
    }
    assert_eq!(hundredths(&[0, 0]), [0, 0]);
    assert_eq!(hundredths(&[1, 1, 1]), [3_334, 3_333, 3_333]);
}

#[test]
fn a_variation_without_a_share_is_in_no_rule_and_nobody_is_kept_where_there_is_one() {
    let text = |shares: &[u16]| {
        let service = spec(&["A", "B"], shares);
        let rules =
            shape(service.clone()).unwrap().rules(&service.listens[0], &["a".to_owned(), "b".to_owned()]);
        let [(_, Role::Shares, text)] = &rules[..] else { panic!("{rules:?}") };
        text.forward.clone()
    };
    let both = Forward { groups: [("a".to_owned(), 9), ("b".to_owned(), 1)].into(), sticky: Some(3_600) };
    assert_eq!(text(&[9_000, 1_000]), both);
    assert_eq!(text(&[10_000, 0]), Forward { groups: [("a".to_owned(), 1)].into(), sticky: None });
    assert_eq!(text(&[0, 10_000]), Forward { groups: [("b".to_owned(), 1)].into(), sticky: None });
}

#[test]
fn rules_of_a_service_with_a_header() {
    let mut service = spec(&["A", "B", "C"], &[8_000, 1_500, 500]);
    let values = ["v1", "v2", "v3", "v4", "v5", "v6", "V1"].map(|value| (value, 1));
    service.rule = Some(wants::rule(&[&values[..], &[("blue", 2)]].concat()));
    let groups = ["a", "b", "c"].map(str::to_owned);
    let rules = shape(service.clone()).unwrap().rules(&service.listens[0], &groups);
    insta::assert_snapshot!(lines(&rules), @r#"
    header-0: {Header("X-Variation", ["v1", "v2", "v3"])} to {"b": 1} for None
    header-1: {Header("X-Variation", ["v4", "v5", "v6"])} to {"b": 1} for None
    header-2: {Header("X-Variation", ["blue"])} to {"c": 1} for None
    shares: {Path(["/*"])} to {"a": 16, "b": 3, "c": 1} for Some(3600)
    "#);
}

fn lines(rules: &[(String, Role, RuleText)]) -> String {
    let lines = rules.iter().map(|(_, role, RuleText { conditions, forward, .. })| {
        format!("{role}: {conditions:?} to {:?} for {:?}", forward.groups, forward.sticky)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn routed(hosts: &[&str], path: Option<&str>) -> ServiceSpec {
    let mut service = spec(&["A", "B"], &[9_000, 1_000]);
    service.sticky = None;
    service.listens[0].hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    service.listens[0].path = path.map(str::to_owned);
    service
}

#[test]
fn rules_of_a_service_with_hosts_and_a_path() {
    let groups = ["a", "b"].map(str::to_owned);
    let mut service = routed(&["d.example", "b.example", "a.example", "c.example"], Some("/api"));
    let rules =
        |service: &ServiceSpec| lines(&shape(service.clone()).unwrap().rules(&service.listens[0], &groups));
    insta::assert_snapshot!(rules(&service), @r#"
    shares: {Host(["a.example", "b.example", "c.example"]), Path(["/api", "/api/*"])} to {"a": 9, "b": 1} for None
    shares: {Host(["d.example"]), Path(["/api", "/api/*"])} to {"a": 9, "b": 1} for None
    "#);
    service.rule = Some(wants::rule(&[("B", 1)]));
    insta::assert_snapshot!(rules(&service), @r#"
    header-0: {Host(["a.example", "b.example"]), Path(["/api", "/api/*"]), Header("X-Variation", ["B"])} to {"b": 1} for None
    shares: {Host(["a.example", "b.example"]), Path(["/api", "/api/*"])} to {"a": 9, "b": 1} for None
    header-0: {Host(["c.example", "d.example"]), Path(["/api", "/api/*"]), Header("X-Variation", ["B"])} to {"b": 1} for None
    shares: {Host(["c.example", "d.example"]), Path(["/api", "/api/*"])} to {"a": 9, "b": 1} for None
    "#);
}

proptest! {
    #[test]
    fn no_rule_has_more_values_than_aws_takes_and_each_host_asks_by_each_value_once(
        hosts in 0..=16_usize, has_path in any::<bool>(), values in 0..20_usize,
    ) {
        let hosts: Vec<String> = (0..hosts).map(|at| format!("h{at}.example")).collect();
        let values: Vec<String> = (0..values).map(|at| format!("v{at}")).collect();
        let named: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let mut service = routed(&named, has_path.then_some("/api"));
        let asks: Vec<(&str, u8)> = values.iter().zip([0, 1].into_iter().cycle()).map(|(one, at)| (one.as_str(), at)).collect();
        service.rule = (!asks.is_empty()).then(|| wants::rule(&asks));
        let rules = shape(service.clone()).unwrap().rules(&service.listens[0], &["a".to_owned(), "b".to_owned()]);
        let mut asked = Vec::new();
        let mut shared = Vec::new();
        for (_, role, text) in rules {
            let (mut of_hosts, mut of_header, mut of_path) = (Vec::new(), Vec::new(), Vec::new());
            for condition in text.conditions {
                match condition {
                    Condition::Host(all) => of_hosts = all,
                    Condition::Header(_, all) => of_header = all,
                    Condition::Path(all) => of_path = all,
                    Condition::Other(what) => panic!("{what}"),
                }
            }
            let of_each = [of_hosts.len(), of_header.len(), of_path.len()];
            prop_assert!(of_each.iter().all(|of| *of <= 3) && (1..=5).contains(&of_each.iter().sum::<usize>()), "{of_each:?}");
            prop_assert_eq!(of_path.contains(&"/api/*".to_owned()), has_path);
            prop_assert_eq!(of_header.is_empty(), role == Role::Shares);
            let each_host = || of_hosts.iter().map(|host| Some(host.clone())).chain(of_hosts.is_empty().then_some(None));
            asked.extend(each_host().flat_map(|host| of_header.iter().map(move |value| (host.clone(), value.clone()))));
            shared.extend(each_host().filter(|_| role == Role::Shares));
        }
        let known: BTreeSet<_> = asked.iter().cloned().collect();
        prop_assert_eq!(known.len(), asked.len());
        prop_assert_eq!(asked.len(), hosts.len().max(1) * values.len());
        prop_assert_eq!(shared.len(), hosts.len().max(1));
    }
}

/// The cookie of a load balancer has one name for all services.
#[test]
fn two_services_of_one_host_do_not_both_keep_their_users() {
    let of = |name: &str, hosts: &[&str], path: Option<&str>, is_sticky: bool| {
        let mut service = routed(hosts, path);
        service.name = name.parse().unwrap();
        service.sticky = is_sticky.then(|| StickyTo::Cookie("user".parse().unwrap()));
        service
    };
    let said = |specs: &[ServiceSpec]| {
        let specs: Vec<&ServiceSpec> = specs.iter().collect();
        let wanted = wants::wanted(1, &specs);
        let checked = wanted.routes().values().try_for_each(|routes| check_cookies(routes));
        checked.map_err(|unable| unable.to_string())
    };
    let shop = of("shop", &["shop.example"], None, true);
    let api = |is_sticky| of("api", &["shop.example"], Some("/api"), is_sticky);
    let why = "services api and shop share a host at port 8080 and both keep their users, and a caller has one cookie \
               AWSALBTG: keep them by one of the services alone";
    assert_eq!(said(&[shop.clone(), api(true)]), Err(why.to_owned()));
    assert_eq!(said(&[shop.clone(), api(false)]), Ok(()));
    assert_eq!(said(&[shop.clone(), of("blog", &["blog.example"], None, true)]), Ok(()));
    assert!(said(&[shop, of("rest", &[], None, true)]).is_err());
}

#[test]
fn what_an_alb_can_not_do_is_said_by_name() {
    let with = |change: &dyn Fn(&mut ServiceSpec)| {
        let mut spec = spec(&["A", "B"], &[9_000, 1_000]);
        change(&mut spec);
        shape(spec).unwrap_err()
    };
    let rule = |values: &[(&str, u8)]| Some(wants::rule(values));
    let long = "x".repeat(129);
    let faults = [
        with(&|spec| spec.table = Table::new(&wants::shares(&[9_995, 5]))),
        with(&|spec| spec.sticky = Some(StickyTo::Address)),
        with(&|spec| spec.sticky = Some(StickyTo::Header("X-User".parse().unwrap()))),
        with(&|spec| {
            (spec.listens[0].protocol, spec.sticky) = (Protocol::Tcp, None);
        }),
        with(&|spec| spec.rule = rule(&[("a*", 1)])),
        with(&|spec| spec.rule = rule(&[("B", 1), ("b", 0)])),
        with(&|spec| spec.rule = rule(&[(&long, 1)])),
        with(&|spec| {
            spec.rule = rule(&[("B", 1)]);
            spec.rule.as_mut().unwrap().name = "Host".parse().unwrap();
        }),
        with(&|spec| {
            spec.rule = rule(&[("B", 1)]);
            spec.rule.as_mut().unwrap().name = "x".repeat(41).parse().unwrap();
        }),
        with(&|spec| spec.listens[0].hosts = vec!["shop".to_owned()]),
        with(&|spec| spec.listens[0].hosts = vec!["shop.example2".to_owned()]),
        with(&|spec| spec.listens[0].path = Some(format!("/{}", "x".repeat(126)))),
        shape(spec(&["A", "B", "C", "D", "E", "F"], &[5_000, 1_000, 1_000, 1_000, 1_000, 1_000]))
            .unwrap_err(),
    ];
    insta::assert_snapshot!(faults.join("\n").replace(&long, "(129)"), @r#"
    service checkout: shares of 99.95/0.05 % can't be said by weights from 0 to 999; tenths of a percent always can
    service checkout: it keeps no users by their address
    service checkout: it keeps no users by a header
    service checkout: it leads no TCP
    service checkout: "a*" of the header X-Variation has a character that stands for others there
    service checkout: "b" of the header X-Variation stands there for two variations, since case doesn't count
    service checkout: a value of the header X-Variation has more than 128 characters
    service checkout: the header Host can't be asked for so
    service checkout: the header xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx has more than 40 characters
    service checkout: the host shop can't be said: AWS compares at most 128 characters, with a dot and then letters alone at the end
    service checkout: the host shop.example2 can't be said: AWS compares at most 128 characters, with a dot and then letters alone at the end
    service checkout: a path of 127 characters can't be said: AWS compares at most 126
    service checkout: 6 variations have a share, and a rule takes 5 target groups
    "#);
}

#[test]
fn names_of_groups_are_names_of_aws_and_each_is_anothers() {
    let mut all = BTreeSet::new();
    let long = "a".repeat(63);
    for service in ["checkout", "checkout-A", "-._", "x.y_z", &long] {
        for variation in ["A", "a", "A-1", "1", &long] {
            for (mark, is_ipv6) in
                [("app/x/1 100-999", false), ("app/x/1 100-999", true), ("app/y/1 100-999", false)]
            {
                let name = group_name(mark, service, variation, is_ipv6);
                let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
                assert!(name.len() <= 32 && name.bytes().all(may_stand), "{name}");
                assert!(name.starts_with("cm-") && !name.ends_with('-'), "{name}");
                assert!(all.insert(name));
            }
        }
    }
    assert_eq!(group_name("app/x/1 100-999", "checkout", "A", false), "cm-checkout-A-5cc46ca650");
}

#[test]
fn a_rule_that_says_anything_else_has_another_digest() {
    let told = RuleText {
        forward: Forward { groups: [("a".to_owned(), 9)].into(), sticky: Some(60) },
        ..RuleText::default()
    };
    let mut others = [told.clone(), told.clone(), told.clone()];
    others[0].forward.sticky = Some(61);
    others[1].forward.groups.insert("b".to_owned(), 0);
    others[2].others.push("an action redirect".to_owned());
    let all: BTreeSet<String> =
        others.iter().map(|text| digest(100, text)).chain([digest(100, &told), digest(101, &told)]).collect();
    assert_eq!(all.len(), 5);
    assert_eq!(digest(100, &told), digest(100, &told.clone()));
}
