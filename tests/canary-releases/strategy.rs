//! The strategy that a canary becomes.

use canary_releases::{
    Canary, Translated, Weight, digest, is_of, marks, translate, uneven_ports, unnamed_ports, wanted,
    weights_of,
};
use language::{Checked, Severity, Strategy, check_submission};
use model::MAX_RELEASE_ID_LEN;
use protocol::canary_releases::ReleaseSpec;
use serde_json::{Value, json};

use crate::{
    canary, checkout_2, release, shop,
    status::{both_2, two_services},
    with,
};

pub fn translated(document: &Value, of: &Value) -> Translated {
    translate(&canary(document), &release(of), MAX_RELEASE_ID_LEN).unwrap()
}

/// The strategy that a text is; fails where it is none.
pub fn checked(text: &str) -> Strategy {
    let Checked { strategy, diagnostics, .. } = check_submission(text.as_bytes());
    let faults: Vec<_> = diagnostics.iter().filter(|found| found.severity == Severity::Error).collect();
    assert!(faults.is_empty(), "{faults:?}\n{text}");
    strategy.unwrap()
}

#[test]
fn the_strategy_is_this_text() {
    let text = |weight: i32| translated(&checkout_2(weight), &shop()).text;
    insta::assert_snapshot!(text(10), @r#"
    id: "checkout-2"
    name: "checkout-2"
    annotations: {"canary-release":"0a430c9313e3782c2e38fa11c095a5432141221a7b44c8d4745336c4528ab9f5","registered-release":"shop","version":"2"}
    on_conflict: refuse
    stage_deadline: 8784h
    services:
      - name: "checkout"
        routers: {"labels":{"env":"prod"}}
        ports: [{"port":8080,"protocol":"HTTP"}]
        variations:
          - {"name":"stable","targets":["127.0.0.1:9101"]}
          - {"name":"canary","targets":["127.0.0.1:9111"]}
        at_rollback: retire
    stages:
      - name: "canary"
        type: Traffic
        shares: {"stable":"90","canary":"10"}
        end_conditions: [{"name":"minDuration","threshold":"8760h"}]
        end_action: {"onSuccess":"rollout","onFailure":"rollback"}
    rollout: {"approval":"before_rollout","approval_timeout":"8784h","no_calls":"never","on_failure":"pause"}
    "#);
    insta::assert_snapshot!(text(0), @r#"
    id: "checkout-2"
    name: "checkout-2"
    annotations: {"canary-release":"0a430c9313e3782c2e38fa11c095a5432141221a7b44c8d4745336c4528ab9f5","registered-release":"shop","version":"2"}
    on_conflict: refuse
    stage_deadline: 8784h
    services:
      - name: "checkout"
        routers: {"labels":{"env":"prod"}}
        ports: [{"port":8080,"protocol":"HTTP"}]
        variations:
          - {"name":"stable","targets":["127.0.0.1:9101"]}
          - {"name":"canary","targets":["127.0.0.1:9111"]}
        at_rollback: retire
    stages:
      - name: "canary"
        type: Traffic
        shares: {"stable":"100","canary":"0"}
        end_conditions: [{"name":"minDuration","threshold":"8760h"}]
        end_action: {"onSuccess":"rollout","onFailure":"rollback"}
    rollout: {"approval":"before_rollout","approval_timeout":"8784h","no_calls":"never","on_failure":"pause"}
    "#);
    insta::assert_snapshot!(text(100), @r#"
    id: "checkout-2"
    name: "checkout-2"
    annotations: {"canary-release":"0a430c9313e3782c2e38fa11c095a5432141221a7b44c8d4745336c4528ab9f5","registered-release":"shop","version":"2"}
    on_conflict: refuse
    stage_deadline: 8784h
    services:
      - name: "checkout"
        routers: {"labels":{"env":"prod"}}
        ports: [{"port":8080,"protocol":"HTTP"}]
        variations:
          - {"name":"stable","targets":["127.0.0.1:9101"]}
          - {"name":"canary","targets":["127.0.0.1:9111"]}
        at_rollback: retire
    stages:
      - name: "canary"
        type: Traffic
        shares: {"stable":"0","canary":"100"}
        end_conditions: [{"name":"minDuration","threshold":"8760h"}]
        end_action: {"onSuccess":"rollout","onFailure":"rollback"}
    rollout: {"approval":"before_rollout","approval_timeout":"8784h","no_calls":"never","on_failure":"pause"}
    "#);
}

#[test]
fn the_file_of_a_canary_stands_in_its_strategy_and_changes_nothing_else() {
    let submitted = canary(&checkout_2(10));
    let of_file = Canary { file: Some("a \"ö\" #1.yml".to_owned()), ..submitted.clone() };
    let text = |canary: &Canary| translate(canary, &release(&shop()), MAX_RELEASE_ID_LEN).unwrap().text;
    let strategy = checked(&text(&of_file));
    assert_eq!(marks::file_of(&strategy), Some("a \"ö\" #1.yml"));
    assert_eq!(marks::digest_of(&strategy), Some(digest(&submitted).as_str()));
    assert_eq!(marks::file_of(&checked(&text(&submitted))), None);
    let added = r#""canary-file":"a \"ö\" #1.yml","#;
    assert_eq!(text(&of_file).replace(added, ""), text(&submitted));
}

#[test]
fn the_language_reads_it_without_a_fault() {
    for weight in 0..=100 {
        let Translated { id, text, .. } = translated(&checkout_2(weight), &shop());
        let strategy = checked(&text);
        assert_eq!((strategy.id.as_str(), id.as_str()), ("checkout-2", "checkout-2"));
        let new = u16::try_from(weight).unwrap() * 100;
        assert_eq!(strategy.stages.len(), 1);
        assert_eq!(strategy.stages[0].shares, [10_000 - new, new]);
        let canary = canary(&checkout_2(weight));
        assert_eq!(marks::digest_of(&strategy), Some(digest(&canary).as_str()));
        let marked = |key: &str| strategy.annotations.get(key).map(String::as_str);
        assert_eq!((marked(marks::RELEASE), marked(marks::VERSION)), (Some("shop"), Some("2")));
    }
    let without = with(shop(), "/spec/routers", json!({}));
    let Translated { text, .. } = translated(&checkout_2(10), &without);
    assert!(checked(&text).services[0].routers.is_empty() && !text.contains("routers"), "{text}");
}

#[test]
fn what_a_release_says_of_connections_and_flows_is_in_the_strategy() {
    let document = with(checkout_2(10), "/spec/services/0/ports/0/protocol", json!(""));
    for (port, proxy_protocol, drain, lines) in [
        (
            json!({"port": 8080, "protocol": "TCP"}),
            Some("v2"),
            Some("1h"),
            "\n    proxy_protocol: \"v2\"\n    drain: \"1h\"",
        ),
        (json!({"port": 8080, "protocol": "UDP"}), None, Some("0s"), "\n    drain: \"0s\""),
        (json!({"port": 8080, "protocol": "HTTP"}), Some("v1"), None, "\n    proxy_protocol: \"v1\""),
        (json!({"port": 8080, "protocol": "HTTPS"}), None, None, ""),
        (
            json!({"port": 8080, "protocol": "HTTPS", "hosts": ["shop.example"], "tls": "pass"}),
            Some("v1"),
            Some("90m"),
            "\n    proxy_protocol: \"v1\"\n    drain: \"90m\"",
        ),
    ] {
        let mut of = with(shop(), "/spec/services/0/ports/0", port.clone());
        for (key, said) in [("proxyProtocol", proxy_protocol), ("drain", drain)] {
            if let Some(said) = said {
                of = with(of, &format!("/spec/services/0/{key}"), json!(said));
            }
        }
        let Translated { text, .. } = translated(&document, &of);
        assert!(text.contains(&format!("{lines}\n    variations:\n")), "{port}: {text}");
        let service = &checked(&text).services[0];
        assert_eq!(service.ports[0].protocol.name(), port["protocol"]);
        assert_eq!(service.passes_tls(), port["tls"] == "pass");
        assert_eq!(
            (service.proxy_protocol.is_some(), service.drain.is_some()),
            (proxy_protocol.is_some(), drain.is_some())
        );
    }
}

#[test]
fn the_language_reads_whatever_a_release_may_have() {
    let ports: Vec<Value> = (1..=16)
        .map(|port| json!({"port": port, "protocol": "HTTPS", "hosts": ["shop.example"], "path": "/api"}))
        .collect();
    let targets =
        |at: u16| -> Vec<String> { (1..=64).map(|port| format!("[2001:db8::{at}]:{port}")).collect() };
    let labels: serde_json::Map<String, Value> =
        (0..32).map(|at| (format!("{at}: #'\"{{"), json!("null ö"))).collect();
    let mut of = with(shop(), "/spec/services/0/ports", json!(ports));
    of = with(of, "/spec/services/0/name", json!("1.10"));
    of = with(of, "/spec/routers", json!(labels));
    of = with(of, "/metadata/name", json!("0x1F"));
    of = with(of, "/spec/versions/0/targets", json!({"1.10": targets(1)}));
    of = with(of, "/spec/versions/1/targets", json!({"1.10": targets(2)}));
    let service = json!({"service": "1.10", "ports": [{"port": 16, "config": {"weight": 50}}]});
    for name in ["~", "-", "null", "true", "1e3", "a..b", &"~".repeat(48)] {
        let mut document = with(checkout_2(50), "/spec/services/0", service.clone());
        document = with(document, "/metadata/name", json!(name));
        document = with(document, "/spec/release", json!("0x1F"));
        let Translated { id, text, .. } = translated(&document, &of);
        let strategy = checked(&text);
        assert_eq!((strategy.id.as_str(), id.as_str()), (name, name));
        assert_eq!((strategy.services.len(), strategy.stages.len()), (16, 16));
        for service in &strategy.services {
            assert_eq!((service.variations[1].targets.len(), service.routers.len()), (64, 32));
        }
    }
}

#[test]
fn a_weight_is_the_same_however_many_targets_a_version_has() {
    let few = checked(&translated(&checkout_2(10), &shop()).text);
    let targets = json!(["127.0.0.1:9111", "127.0.0.1:9112", "127.0.0.1:9113"]);
    let scaled = with(shop(), "/spec/versions/1/targets/checkout", targets);
    let many = checked(&translated(&checkout_2(10), &scaled).text);
    assert_eq!(many.services[0].variations[1].targets.len(), 3);
    assert_eq!(many.stages[0].shares, few.stages[0].shares);
}

#[test]
fn what_is_adopted_is_the_release_with_another_version_and_configuration() {
    let before = release(&shop());
    let Translated { adopted, .. } = translated(&checkout_2(10), &shop());
    assert_eq!((adopted.version, adopted.config.as_str()), (2, "greeting: hello\n"));
    assert_eq!(ReleaseSpec { version: 1, config: before.config.clone(), ..adopted }, before);
}

#[test]
fn ports_that_are_not_named_are_told() {
    let ports = json!([{"port": 8080, "protocol": "HTTP"}, {"port": 8443, "protocol": "HTTPS"}]);
    let of = with(shop(), "/spec/services/0/ports", ports);
    let asked = canary(&checkout_2(10));
    assert_eq!(unnamed_ports(&asked, &release(&of)), [("checkout".to_owned(), vec![8443])]);
    assert!(unnamed_ports(&asked, &release(&shop())).is_empty());
    // Their calls are shared all the same.
    let strategy = checked(&translated(&checkout_2(10), &of).text);
    let shared = strategy.services.iter().map(|service| (service.name(), service.ports[0].port));
    assert_eq!(shared.collect::<Vec<_>>(), [("checkout.8080", 8080), ("checkout.8443", 8443)]);
    assert!(weights_of(&strategy).iter().all(|of| of.weight == 10));
}

#[test]
fn several_services_and_ports_are_shared_by_one_strategy() {
    let text = translated(&both_2([10, 30, 0]), &two_services()).text;
    insta::assert_snapshot!(text, @r#"
    id: "checkout-2"
    name: "checkout-2"
    annotations: {"canary-release":"3648d79629a8e152c0ee9cd3a6696a891b1b6e2995c0c138e147defe7b9395ac","registered-release":"shop","version":"2"}
    on_conflict: refuse
    stage_deadline: 8784h
    services:
      - name: "checkout.8080"
        routers: {"labels":{"env":"prod"}}
        ports: [{"port":8080,"protocol":"HTTP"}]
        variations:
          - {"name":"stable","targets":["127.0.0.1:9101"]}
          - {"name":"canary","targets":["127.0.0.1:9111"]}
        at_rollback: retire
      - name: "checkout.8443"
        routers: {"labels":{"env":"prod"}}
        ports: [{"port":8443,"protocol":"HTTPS"}]
        variations:
          - {"name":"stable","targets":["127.0.0.1:9101"]}
          - {"name":"canary","targets":["127.0.0.1:9111"]}
        at_rollback: retire
      - name: "pay"
        routers: {"labels":{"env":"prod"}}
        ports: [{"port":8090,"protocol":"TCP"}]
        drain: "1h"
        variations:
          - {"name":"stable","targets":["127.0.0.1:9201"]}
          - {"name":"canary","targets":["127.0.0.1:9211"]}
        at_rollback: retire
    stages:
      - name: "canary of checkout.8443"
        type: Traffic
        service: "checkout.8443"
        shares: {"stable":"70","canary":"30"}
        with_next: true
        end_action: {"onSuccess":"canary of pay","onFailure":"rollback"}
      - name: "canary of pay"
        type: Traffic
        service: "pay"
        shares: {"stable":"100","canary":"0"}
        with_next: true
        end_action: {"onSuccess":"canary","onFailure":"rollback"}
      - name: "canary"
        type: Traffic
        service: "checkout.8080"
        shares: {"stable":"90","canary":"10"}
        end_conditions: [{"name":"minDuration","threshold":"8760h"}]
        end_action: {"onSuccess":"rollout","onFailure":"rollback"}
    rollout: {"approval":"before_rollout","approval_timeout":"8784h","no_calls":"never","on_failure":"pause","order":"parallel"}
    "#);
}

#[test]
fn weights_that_differ_are_taken_and_told_and_each_part_has_its_own() {
    let asked = both_2([10, 30, 5]);
    let strategy = checked(&translated(&asked, &two_services()).text);
    let found = weights_of(&strategy);
    let of = |service: &'static str, stage: &'static str, weight| Weight { service, stage, weight };
    assert_eq!(
        found,
        [
            of("checkout.8080", "canary", 10),
            of("checkout.8443", "canary of checkout.8443", 30),
            of("pay", "canary of pay", 5)
        ]
    );
    // Together from the first of them on.
    assert!((0..3).all(|stage| strategy.together(stage) == (0..=2)));
    assert_eq!(wanted(&canary(&asked), &strategy), Ok(vec![10, 30, 5]));
    assert_eq!(wanted(&canary(&both_2([0, 100, 7])), &strategy), Ok(vec![0, 100, 7]));
    let warned = |document: &Value| uneven_ports(&canary(document));
    assert_eq!(warned(&asked), [("checkout".to_owned(), "10 % at 8080, 30 % at 8443".to_owned())]);
    // Services may differ: whoever calls both comes to ports of different things.
    assert!(warned(&both_2([10, 10, 5])).is_empty());
    // Weights are none of what the canary is.
    assert_eq!(digest(&canary(&asked)), digest(&canary(&both_2([1, 2, 3]))));
}

#[test]
fn a_strategy_of_several_leads_from_its_release_to_what_that_becomes() {
    let (asked, of) = (both_2([10, 30, 5]), two_services());
    let Translated { text, adopted, .. } = translated(&asked, &of);
    let (strategy, now) = (checked(&text), release(&of));
    assert!(is_of(&strategy, &adopted, &now));
    let moved = with(of, "/spec/versions/0/targets/pay", json!(["127.0.0.1:9999"]));
    let moved = release(&moved);
    let adopted = ReleaseSpec { version: 2, config: adopted.config.clone(), ..moved.clone() };
    assert!(!is_of(&strategy, &adopted, &moved), "one of its services begins elsewhere");
}

/// A strategy in which a service is one whatever its ports are, as somebody may write one.
#[test]
fn ports_that_were_begun_as_one_keep_one_weight() {
    let of = two_services();
    let text = translated(&checkout_2(10), &shop()).text;
    let one = text.replace(
        r#"{"port":8080,"protocol":"HTTP"}"#,
        r#"{"port":8080,"protocol":"HTTP"},{"port":8443,"protocol":"HTTPS"}"#,
    );
    let strategy = checked(&one);
    let only = |weights: [i32; 3]| {
        let document = both_2(weights);
        let first = document["spec"]["services"][0].clone();
        canary(&with(document, "/spec/services", json!([first])))
    };
    assert_eq!(wanted(&only([20, 20, 0]), &strategy), Ok(vec![20]));
    assert_eq!(
        wanted(&only([20, 30, 0]), &strategy).unwrap_err().to_string(),
        "`spec.services[0].ports`: calls to ports 8080, 8443 are shared by one weight, since checkout was begun as one"
    );
    let adopted = translated(&checkout_2(10), &of).adopted;
    assert!(is_of(&strategy, &adopted, &release(&of)));
}

#[test]
fn ports_at_which_tls_passes_are_one_part() {
    let port =
        |port: u16| json!({"port": port, "protocol": "HTTPS", "hosts": ["shop.example"], "tls": "pass"});
    let of = with(shop(), "/spec/services/0/ports", json!([port(8080), port(8443)]));
    let only = |weights: [i32; 3]| {
        let document = with(both_2(weights), "/spec/services/0/ports/0/protocol", json!("HTTPS"));
        let first = document["spec"]["services"][0].clone();
        with(document, "/spec/services", json!([first]))
    };
    let strategy = checked(&translated(&only([20, 20, 0]), &of).text);
    let found = strategy.services.iter().map(|service| (service.name(), service.ports.len()));
    assert_eq!(found.collect::<Vec<_>>(), [("checkout", 2)]);
    assert_eq!(wanted(&canary(&only([30, 30, 0])), &strategy), Ok(vec![30]));
    let refused = translate(&canary(&only([20, 30, 0])), &release(&of), MAX_RELEASE_ID_LEN).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`spec.services[0].ports`: TLS passes at the ports of checkout, and connections are told apart by their hosts alone: give all of them one \
         weight"
    );
}
