//! What is read, and how it is told from strategies.

use std::{fs, path::Path};

use canary_releases::{
    Document, MAX_DOCUMENT_BYTES, Transition, digest, kind_of, read, translate, unnamed_ports,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{canary, checkout_2, release, shop, with};

/// A release, as people write it.
pub(crate) const SHOP: &str = "\
# What serves.
apiVersion: choirmaster/v1
kind: Release
metadata: {name: shop}
spec:
  routers: {env: prod}
  services: [{name: checkout, path: /, ports: [{port: 8080, protocol: HTTP}]}]
  versions:
    - {version: 1, targets: {checkout: [\"127.0.0.1:9101\"]}}
    - {version: 2, targets: {checkout: [\"127.0.0.1:9111\"]}}
  version: 1
  config: |
    greeting: hi
";

/// A canary of it.
pub(crate) const CHECKOUT_2: &str = "\
apiVersion: release.example/v1alpha1
kind: CanaryRelease
metadata:
  name: checkout-2
  namespace: default
  labels: {team: shop}
spec:
  release: shop
  version: 2
  path: /
  config: |
    greeting: hello
  services:
    - service: checkout
      ports:
        - port: 8080
          protocol: HTTP
          config:
            weight: 10
  resources: {}
  transition: \"\"
status:
  conditions: [{type: Ready}]
";

fn fault(text: &str) -> String {
    read(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn json_is_read_as_yaml_is() {
    assert_eq!(read(CHECKOUT_2.as_bytes()).unwrap(), Document::Canary(canary(&checkout_2(10))));
    assert_eq!(read(SHOP.as_bytes()).unwrap(), Document::Release(release(&shop())));
    let same: Value = json!({"namespace": "default", "name": "checkout-2", "uid": 7});
    let same = with(with(checkout_2(10), "/metadata", same), "/status", json!({"phase": "Canary"}));
    for text in [same.to_string(), serde_json::to_string_pretty(&same).unwrap().replace("  ", "\t")] {
        assert_eq!(read(text.as_bytes()).unwrap(), Document::Canary(canary(&checkout_2(10))), "{text}");
    }
    // What JSON may have and YAML may not, the other way round, and what some editors put in front.
    let escaped = checkout_2(10).to_string().replace("greeting: hello\\n", "\\ud83d\\ude00 \\/");
    let flow = "{kind: CanaryRelease, metadata: {name: checkout-2}, # so\n spec: {release: shop, version: 2, config: '😀 /',\
                services: [{service: checkout, ports: [{port: 8080, protocol: HTTP, config: {weight: 10}}]}]}}";
    let smiling = with(checkout_2(10), "/spec/config", json!("😀 /"));
    for text in [escaped.as_str(), flow, &format!("\u{feff}{flow}")] {
        assert_eq!(read(text.as_bytes()).unwrap(), Document::Canary(canary(&smiling)), "{text}");
    }
}

#[test]
fn a_transition_is_read() {
    let named = |name: &str| canary(&with(checkout_2(10), "/spec/transition", json!(name))).transition;
    assert_eq!(named(""), Transition::None);
    assert_eq!(named("Adopted"), Transition::Adopted);
    assert_eq!(named("Deprecated"), Transition::Deprecated);
    assert_eq!(canary(&checkout_2(10)).transition, Transition::None);
}

#[test]
fn the_digest_knows_no_weight_and_no_transition() {
    let of = |document: &Value| digest(&canary(document));
    let first = of(&checkout_2(10));
    // As it is stored with releases that are under way.
    assert_eq!(first, "0a430c9313e3782c2e38fa11c095a5432141221a7b44c8d4745336c4528ab9f5");
    assert_eq!(of(&checkout_2(30)), first);
    assert_eq!(of(&with(checkout_2(0), "/spec/transition", json!("Adopted"))), first);
    assert_eq!(of(&with(checkout_2(10), "/metadata/labels", json!({"team": "shop"}))), first);
    assert_eq!(of(&with(checkout_2(10), "/spec/path", json!(""))), first);
    let ports = json!([{"port": 8080, "config": {"weight": 10}}]);
    let others = [
        ("/spec/release", json!("shops")),
        ("/spec/version", json!(3)),
        ("/spec/path", json!("/api")),
        ("/spec/config", json!("greeting: hallo\n")),
        ("/spec/services/0/service", json!("pay")),
        ("/spec/services/0/ports", ports),
    ];
    for (place, value) in others {
        assert_ne!(of(&with(checkout_2(10), place, value)), first, "{place}");
    }
}

#[test]
fn a_strategy_is_none_of_these_kinds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../releases");
    let mut strategies = 0;
    for entry in fs::read_dir(folder).unwrap() {
        assert_eq!(kind_of(&fs::read(entry.unwrap().path()).unwrap()), None);
        strategies += 1;
    }
    assert!(strategies > 5, "{strategies}");
    let translated = translate(&canary(&checkout_2(10)), &release(&shop()), 48).unwrap();
    assert_eq!(kind_of(translated.text.as_bytes()), None);
    let none = [
        "",
        "Release",
        "kind",
        "kind: Deployment # no Release",
        "id: a\nname: \"kind: Release\"\n",
        "id: a\nannotations:\n  kind: Release\n",
        "id: a\nannotations: {\n  kind: Release}\n",
        "id: a\nannotations: {kind: Release\n",
        "# kind: Release\nid: a\n",
        "kinds: Release\n",
        "kind: [Release]\n",
        "- kind: Release\n",
        "kind of: Release\nx: [\n",
    ];
    for text in none {
        assert_eq!(kind_of(text.as_bytes()), None, "{text}");
    }
    assert_eq!(kind_of(b"kind: Release\n\xff"), None);
    assert_eq!(fault("id: a\n"), "`kind`: it is CanaryRelease or Release");
}

#[test]
fn a_kind_is_told_however_it_is_written() {
    for (text, kind) in [
        (CHECKOUT_2, "CanaryRelease"),
        (SHOP, "Release"),
        ("kind: \"CanaryRelease\"", "CanaryRelease"),
        ("'kind': 'Release'", "Release"),
        ("--- \nkind: Release\n", "Release"),
        ("{\"kind\": \"Release\"}", "Release"),
        // Faults of these kinds are told as such.
        ("kind: CanaryRelease # ours\nspec: [\n", "CanaryRelease"),
        ("kind: Release\nkind: Release\n", "Release"),
        ("kind: Release\n---\nkind: Release\n", "Release"),
        ("{\n\t\"kind\" : \"CanaryRelease\",\n \"spec\": \n", "CanaryRelease"),
    ] {
        assert_eq!(kind_of(text.as_bytes()), Some(kind), "{text}");
    }
}

#[test]
fn what_no_field_is_for_is_refused() {
    for (place, what) in [
        ("/specs", "specs"),
        ("/spec/replicas", "replicas"),
        ("/spec/services/0/weight", "weight"),
        ("/spec/services/0/ports/0/weight", "weight"),
        ("/spec/services/0/ports/0/config/weigth", "weigth"),
    ] {
        let document = with(checkout_2(10), place, json!(1));
        let why = fault(&document.to_string());
        assert!(why.starts_with(&format!("`CanaryRelease`: unknown field `{what}`")), "{why}");
    }
    for place in ["/spec/replicas", "/spec/services/0/weight", "/spec/versions/0/weight"] {
        let why = fault(&with(shop(), place, json!(1)).to_string());
        assert!(why.starts_with("`Release`: unknown field `"), "{why}");
    }
    let yaml = CHECKOUT_2.replace("weight:", "weigth:");
    let why = fault(&yaml);
    assert!(why.starts_with("`CanaryRelease`: unknown field `weigth`") && why.contains("at line "), "{why}");
}

#[test]
fn what_has_another_form_is_refused() {
    for (place, value) in [
        ("/spec", json!([])),
        ("/spec/version", json!("two")),
        ("/spec/version", json!(1_i64 << 31)),
        ("/spec/release", json!(null)),
        ("/spec/services", json!({})),
        ("/spec/services/0/ports/0/config/weight", json!(10.5)),
        ("/spec/resources", json!("500m")),
        ("/spec/transition", json!(null)),
        ("/metadata", json!("checkout-2")),
    ] {
        let why = fault(&with(checkout_2(10), place, value).to_string());
        assert!(why.starts_with("`CanaryRelease`: "), "{place}: {why}");
    }
    for (from, to) in [
        ("spec:\n", "spec: [\n"),
        ("version: 2", "version: 2\n  version: 2"),
        ("weight: 10", "weight: *ten"),
        ("weight: 10", "weight: ten\u{1b}"),
        ("status:\n", "---\nstatus:\n"),
    ] {
        let why = fault(&CHECKOUT_2.replacen(from, to, 1));
        assert!(why.starts_with("`CanaryRelease`: "), "{to}: {why}");
        assert!(why.len() < 1_300 && !why.chars().any(char::is_control), "{to}: {why}");
    }
}

#[test]
fn a_text_without_a_limit_is_refused() {
    let long = format!("{CHECKOUT_2}# {}\n", "x".repeat(MAX_DOCUMENT_BYTES));
    let why = fault(&long);
    assert!(why.starts_with("`CanaryRelease`: it has at most 65536 bytes, this one has "), "{why}");
    let deep = format!("kind: Release\nspec: {}\n", "[".repeat(1_000));
    assert!(fault(&deep).starts_with("`Release`: "));
    let deep = format!("{{\"kind\": \"Release\", \"spec\": {}", "{\"a\":".repeat(1_000));
    assert_eq!(kind_of(deep.as_bytes()), Some("Release"));
    assert!(fault(&deep).starts_with("`Release`: "));
}

/// Whatever is taken can be translated, or why it can't be is told.
fn sound(bytes: &[u8]) {
    let Ok(document) = read(bytes) else { return };
    assert!(kind_of(bytes).is_some());
    let of = match &document {
        Document::Release(spec) => spec.clone(),
        Document::Canary(_) => release(&shop()),
    };
    let asked = match document {
        Document::Release(_) => canary(&checkout_2(10)),
        Document::Canary(canary) => canary,
    };
    let mut ports = asked.spec.services.iter().flat_map(|service| &service.ports);
    assert!(ports.all(|port| port.config.weight.is_some_and(|weight| (0..=100).contains(&weight))));
    assert_eq!(digest(&asked).len(), 64);
    assert!(unnamed_ports(&asked, &of).iter().all(|(_, ports)| (1..=16).contains(&ports.len())));
    if let Ok(translated) = translate(&asked, &of, 48) {
        let checked = language::check_submission(translated.text.as_bytes());
        assert!(checked.strategy.is_some(), "{:?}\n{}", checked.diagnostics, translated.text);
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(300))]

    #[test]
    fn arbitrary_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        sound(&bytes);
        sound(&[b"kind: CanaryRelease\n", &bytes[..]].concat());
    }

    #[test]
    fn damaged_documents_are_taken_or_refused(
        which in 0..4_usize,
        at in any::<prop::sample::Index>(),
        cut in 0..12_usize,
        put in "[ -~\\n\\t\u{1b}é]{0,12}",
    ) {
        let text = match which {
            0 => CHECKOUT_2.to_owned(),
            1 => SHOP.to_owned(),
            2 => checkout_2(10).to_string(),
            _ => shop().to_string(),
        };
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        let end = bytes.len().min(at + cut);
        drop(bytes.splice(at..end, put.bytes()));
        sound(&bytes);
    }

    #[test]
    fn whatever_fields_hold_is_taken_or_refused(
        number in any::<i32>(),
        weight in -1..102_i32,
        word in "\\PC{0,70}",
        place in prop::sample::select(vec![
            "/metadata/name", "/spec/release", "/spec/path", "/spec/config", "/spec/transition",
            "/spec/services/0/service", "/spec/services/0/ports/0/protocol",
        ]),
    ) {
        let document = with(checkout_2(weight), place, json!(word));
        sound(document.to_string().as_bytes());
        for place in ["/spec/version", "/spec/services/0/ports/0/port"] {
            sound(with(checkout_2(weight), place, json!(number)).to_string().as_bytes());
        }
        for place in ["/metadata/name", "/spec/routers/env", "/spec/services/0/path", "/spec/config"] {
            sound(with(shop(), place, json!(word)).to_string().as_bytes());
        }
    }
}
