//! What Kubernetes is told of the two kinds: that it takes it, and that it refuses nothing that is taken here.

use std::{collections::BTreeSet, fs, path::Path};

use canary_releases::{
    Document,
    crd::{GROUP, VERSION, definitions},
    kind_of, read, translate,
};
use regex_automata::meta::Regex;
use serde_json::{Value, json};

use crate::{
    canary, checkout_2,
    reading::{CHECKOUT_2, SHOP},
    refused::{larger_shop, release_rows, rows},
    release, running, shop,
    status::{both_2, two_services},
    structural_schemas::faults,
    with,
};

/// All that the nodes of a structural schema may say, but for combinations of schemas, of which none is made here.
const KEYWORDS: [&str; 22] = [
    "additionalProperties",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// What the API server knows of the words for `format` that occur here.
const FORMATS: [&str; 3] = ["int32", "int64", "date-time"];

fn fits(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).unwrap().is_match(text)
}

/// The definition of a kind.
fn of(kind: &str) -> Value {
    let found = definitions().into_iter().find(|found| found["spec"]["names"]["kind"] == kind);
    found.unwrap_or_else(|| panic!("{kind} is not defined"))
}

/// The schema of a kind.
fn schema_of(kind: &str) -> Value {
    of(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Why the API server refuses a document.
fn refusals(document: &Value) -> Vec<String> {
    faults(&schema_of(document["kind"].as_str().unwrap()), document, fits)
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The manifests of a page.
fn manifests_of(page: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.filter(|block| kind_of(block.as_bytes()).is_some()).map(str::to_owned).collect()
}

/// Each rule of structural schemas that this node breaks, and those below it.
fn check(node: &Value, place: &str) {
    let keywords = node.as_object().unwrap_or_else(|| panic!("{place} is no schema: {node}"));
    for keyword in keywords.keys() {
        assert!(KEYWORDS.contains(&keyword.as_str()), "{place} says {keyword}");
    }
    let kind = node["type"].as_str().unwrap_or_else(|| panic!("{place} has no type: {node}"));
    assert!(["object", "array", "string", "integer", "boolean"].contains(&kind), "{place} is of type {kind}");
    let has = |keyword: &str| keywords.contains_key(keyword);
    let keeps = &node["x-kubernetes-preserve-unknown-fields"];
    let says = [has("properties"), has("additionalProperties"), keeps == true];
    let count = says.iter().filter(|says| **says).count();
    assert_eq!(count, usize::from(kind == "object"), "{place}: what an object has is said once");
    assert_eq!(has("items"), kind == "array", "{place}: items are of lists");
    for name in node["required"].as_array().into_iter().flatten() {
        assert!(node["properties"].get(name.as_str().unwrap()).is_some(), "{place} has no field {name}");
    }
    let required: Vec<&Value> = node["required"].as_array().into_iter().flatten().collect();
    let each: BTreeSet<&str> = required.iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(each.len(), required.len(), "{place} requires a field twice");
    let values = node["enum"].as_array().into_iter().flatten().chain(node.get("default"));
    for value in values {
        assert_eq!(faults(node, value, fits), [""; 0], "{place}: {value}");
    }
    if let Some(pattern) = node["pattern"].as_str() {
        Regex::new(pattern).unwrap_or_else(|error| panic!("{place}: {error}"));
    }
    if let Some(format) = node["format"].as_str() {
        assert!(FORMATS.contains(&format), "{place} has the format {format}");
    }
    for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
        assert!(rule["rule"].is_string() && rule["message"].is_string(), "{place}: {rule}");
    }
    check_list(node, place);
    for (name, inner) in node["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        let is_told = inner["description"].as_str().is_some_and(|text| !text.is_empty());
        assert!(is_told || place.starts_with(".metadata"), "nothing is said of {place}");
        check(inner, &place);
    }
    for (keyword, mark) in [("additionalProperties", "{}"), ("items", "[]")] {
        if let Some(inner) = node.get(keyword) {
            check(inner, &format!("{place}{mark}"));
        }
    }
}

/// Entries of a map have the fields that tell them apart, and those of a set are told apart whole.
fn check_list(node: &Value, place: &str) {
    let items = &node["items"];
    let is_scalar =
        |schema: &Value| ["string", "integer", "boolean"].iter().any(|kind| schema["type"] == *kind);
    match node["x-kubernetes-list-type"].as_str() {
        None => assert!(node.get("x-kubernetes-list-map-keys").is_none(), "{place} has keys"),
        Some("set") => assert!(is_scalar(items), "{place} is no set"),
        Some("map") => {
            let keys = node["x-kubernetes-list-map-keys"].as_array().unwrap();
            assert!(!keys.is_empty(), "{place} has no keys");
            for key in keys {
                let field = &items["properties"][key.as_str().unwrap()];
                let required = items["required"].as_array();
                let is_there =
                    required.is_some_and(|names| names.contains(key)) || field.get("default").is_some();
                assert!(is_scalar(field) && is_there, "{place}: {key} may be missing");
            }
        }
        Some(other) => panic!("{place} is a list of type {other}"),
    }
}

#[test]
fn the_schemas_are_structural() {
    for definition in definitions() {
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        check(schema, "");
        // Of these three the API server itself knows what they are.
        assert_eq!(schema["properties"]["apiVersion"]["type"], "string");
        assert_eq!(schema["properties"]["kind"]["type"], "string");
        let metadata = schema["properties"]["metadata"].as_object().unwrap();
        assert_eq!(metadata.keys().collect::<Vec<_>>(), ["properties", "type"]);
        assert_eq!(metadata["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["name"]);
        assert_eq!(schema["required"], json!(["spec"]));
    }
}

#[test]
fn a_cluster_can_take_the_definitions() {
    let is_label = |text: &str| {
        let mut bytes = text.bytes();
        !text.starts_with('-') && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    // A group without a point is none, and those of Kubernetes itself ask for an approval.
    assert!(GROUP.contains('.') && GROUP.split('.').all(|label| !label.is_empty() && is_label(label)));
    assert!(!GROUP.ends_with("k8s.io") && !GROUP.ends_with("kubernetes.io"));
    let mut short = BTreeSet::new();
    for definition in definitions() {
        let spec = &definition["spec"];
        assert_eq!(definition["apiVersion"], "apiextensions.k8s.io/v1");
        assert_eq!(definition["kind"], "CustomResourceDefinition");
        assert_eq!((&spec["group"], &spec["scope"]), (&json!(GROUP), &json!("Namespaced")));
        let name = |key: &str| spec["names"][key].as_str().unwrap();
        assert_eq!(definition["metadata"]["name"], format!("{}.{GROUP}", name("plural")));
        assert_eq!(name("listKind"), format!("{}List", name("kind")));
        assert_eq!(name("singular"), name("kind").to_ascii_lowercase());
        assert!(is_label(name("plural")) && is_label(name("singular")));
        for one in spec["names"]["shortNames"].as_array().unwrap() {
            assert!(is_label(one.as_str().unwrap()) && short.insert(one.to_string()), "{one}");
        }
        let [version] = spec["versions"].as_array().unwrap().as_slice() else { panic!("one version") };
        assert_eq!((&version["name"], &version["served"]), (&json!(VERSION), &json!(true)));
        assert_eq!(version["storage"], true);
        let schema = &version["schema"]["openAPIV3Schema"];
        // A status that the schema has is one that only its own route changes.
        let has_status = schema["properties"].get("status").is_some();
        assert_eq!(version["subresources"].get("status").is_some(), has_status);
        for column in version["additionalPrinterColumns"].as_array().unwrap() {
            let path = column["jsonPath"].as_str().unwrap();
            if path == ".metadata.creationTimestamp" {
                assert_eq!(column["type"], "date");
                continue;
            }
            let place = path.replace("[0]", "/items").replace('.', "/properties/");
            let shown = schema.pointer(&place).unwrap_or_else(|| panic!("there is no {path}"));
            assert_eq!(shown["type"], column["type"], "{path}");
        }
    }
}

#[test]
fn what_is_shown_of_a_canary_is_its_release_version_weight_phase_and_age() {
    let columns = of("CanaryRelease")["spec"]["versions"][0]["additionalPrinterColumns"].clone();
    let names: Vec<&str> =
        columns.as_array().unwrap().iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Release", "Version", "Weight", "Phase", "Age"]);
}

#[test]
fn a_status_with_conditions_fits() {
    let condition = json!({
        "type": "Adopted",
        "status": "False",
        "reason": "NoAnswer",
        "message": "the canary didn't answer when it was to get everything",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "observedGeneration": 3,
    });
    let part = json!({"name": "checkout.8080", "ports": [8080], "weight": 10});
    let status = json!({
        "observedGeneration": 3, "phase": "Held", "weight": 10, "parts": [part], "conditions": [condition],
    });
    let shown = with(checkout_2(10), "/status", status);
    assert_eq!(refusals(&shown), [""; 0]);
    for (place, value) in [
        ("/status/conditions/0/status", json!("Yes")),
        ("/status/conditions/0/reason", json!("no answer")),
        ("/status/conditions/0/type", json!(null)),
        ("/status/conditions/1", condition),
        ("/status/weight", json!(101)),
        ("/status/parts/0/weight", json!(101)),
        ("/status/parts/0/name", json!("")),
        ("/status/parts/1", part),
        ("/status/state", json!("Held")),
    ] {
        assert_eq!(refusals(&with(shown.clone(), place, value)).len(), 1, "{place}");
    }
}

#[test]
fn every_manifest_fits_whatever_version_of_the_api_it_names() {
    let mut manifests: Vec<Value> = [SHOP, CHECKOUT_2].into_iter().map(yaml).collect();
    // An example of a status may have less than a status has.
    manifests[1].as_object_mut().unwrap().remove("status");
    manifests.extend((0..=100).map(checkout_2));
    manifests.extend([shop(), larger_shop(), running(), two_services(), both_2([10, 30, 0])]);
    for page in ["canary-releases.md", "registered-releases.md", "taking-over-a-port.md"] {
        let shown = manifests_of(page);
        assert!(shown.len() > 1, "{page} shows {} manifests", shown.len());
        for manifest in shown {
            let manifest = yaml(&manifest);
            assert_eq!(manifest["apiVersion"], format!("{GROUP}/{VERSION}"));
            manifests.push(manifest);
        }
    }
    for manifest in manifests {
        for group in [format!("{GROUP}/{VERSION}"), "choirmaster/v1".to_owned(), String::new()] {
            let manifest = with(manifest.clone(), "/apiVersion", json!(group));
            assert_eq!(refusals(&manifest), [""; 0], "{manifest:#}");
            let text = manifest.to_string();
            assert_eq!(kind_of(text.as_bytes()), manifest["kind"].as_str());
            read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {manifest:#}"));
        }
    }
}

/// How the reasons begin that no schema can have: rules between names, and between what a service and its ports say.
const NOT_IN_A_SCHEMA: [&str; 17] = [
    "`metadata.name`: ",
    "`spec.name`: ",
    "`spec.routers`: a label has ",
    "`spec.services[0].name`: port 80 of service ",
    "`spec.services[1].name`: service ",
    "`spec.services[0].ports`: the ports of a service are all of ",
    "`spec.services[0].ports`: TLS passes at all ports ",
    "`spec.services[0].ports[0].tls`: that is of HTTPS alone",
    "`spec.services[0].ports[0].tls`: nobody sees the paths ",
    "`spec.services[0].drain`: calls of HTTP end by themselves",
    "`spec.services[0].proxyProtocol`: no header goes in front of datagrams",
    "`spec.versions[0].targets.checkout`: version 1 of service checkout has no targets",
    "`spec.versions[0].run.checkout`: it has targets as well",
    "`spec.versions[0].run.chekout`: release shop has no service",
    "`spec.versions[0].run.checkout.path`: the name ",
    "`spec.resources.",
    "`spec.resources`: no version of it is started",
];

#[test]
fn what_a_schema_can_say_is_refused_by_it() {
    let of_canary = rows().into_iter().map(|row| (checkout_2(10), row));
    let all = of_canary.chain(release_rows().into_iter().map(|row| (shop(), row)));
    let mut passed = BTreeSet::new();
    for (document, (place, value, why)) in all {
        if refusals(&with(document, place, value)).is_empty() {
            let known = NOT_IN_A_SCHEMA.into_iter().find(|known| why.starts_with(known));
            passed.insert(known.unwrap_or_else(|| panic!("it passes, although {why}")));
        }
    }
    assert_eq!(passed, BTreeSet::from(NOT_IN_A_SCHEMA));
    for unknown in ["/spec/replicas", "/spec/services/0/weight", "/specs"] {
        for document in [checkout_2(10), shop()] {
            assert_eq!(refusals(&with(document, unknown, json!(1))).len(), 1, "{unknown}");
        }
    }
}

/// Whether a manifest is taken, by itself and with the release that it names.
fn is_taken(document: &Value) -> bool {
    match read(document.to_string().as_bytes()) {
        Ok(Document::Release(_)) => true,
        Ok(Document::Canary(canary)) => translate(&canary, &release(&shop()), 48).is_ok(),
        Err(_) => false,
    }
}

/// The places of all that a document has, as pointers.
fn places(document: &Value, place: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match document {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in inner {
        let place = format!("{place}/{name}");
        places(value, &place, found);
        found.push(place);
    }
}

#[test]
fn a_schema_refuses_nothing_that_is_taken() {
    let port = json!([{"port": 8080, "protocol": "HTTPS", "hosts": ["shop.example"], "path": "/api"}]);
    let routed = with(shop(), "/spec/services/0/ports", port);
    let named = with(with(shop(), "/spec/name", json!("shop")), "/spec/services/0/path", json!("/api"));
    let passing = json!([{"port": 8080, "protocol": "HTTPS", "tls": "pass"}]);
    let passing = json!({"name": "checkout", "ports": passing, "proxyProtocol": "v2", "drain": "1h"});
    let passing = with(shop(), "/spec/services/0", passing);
    let resources = with(with(checkout_2(10), "/spec/resources", json!({})), "/spec/transition", json!(""));
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(2),
        json!(8080),
        json!(65_535),
        json!(-1),
        json!(1.5),
        json!(""),
        json!(" "),
        json!("/"),
        json!("/a/b"),
        json!("shop"),
        json!("0x1F"),
        json!("Adopted"),
        json!("HTTP"),
        json!("TCP"),
        json!("certificate"),
        json!("pass"),
        json!("v1"),
        json!("00"),
        json!("\u{a0}1h30m\t"),
        json!("1.5h1500ms500ms"),
        json!("127.0.0.1:0000080"),
        json!("[::1]:80"),
        json!("a\n\tb ö \u{a0}"),
        json!("ö".repeat(48)),
        json!("x".repeat(48)),
        json!("x".repeat(63)),
        json!("x".repeat(32 * 1024)),
        json!([]),
        json!({}),
        json!({"env": "prod"}),
        json!(["127.0.0.1:9101", "127.0.0.1:9102"]),
    ];
    let mut taken = 0;
    let limited = with(running(), "/spec/resources", json!({"limits": {"cpu": 1, "memory": "128Mi"}}));
    for document in
        [checkout_2(10), resources, shop(), larger_shop(), routed, named, passing, running(), limited]
    {
        assert!(is_taken(&document), "{document:#}");
        let mut found = Vec::new();
        places(&document, "", &mut found);
        for place in found.iter().filter(|place| place.as_str() != "/kind") {
            for value in &values {
                let changed = with(document.clone(), place, value.clone());
                if is_taken(&changed) {
                    taken += 1;
                    assert_eq!(refusals(&changed), [""; 0], "{place}: {value}");
                }
            }
        }
    }
    assert!(taken > 100, "{taken}");
}

#[test]
fn what_may_be_left_out_may_be_for_a_schema_too() {
    let all = [(checkout_2(10), vec!["path", "config"]), (shop(), vec!["routers", "config"])];
    for (document, may) in all {
        let fields: Vec<String> = document["spec"].as_object().unwrap().keys().cloned().collect();
        for field in fields {
            let mut without = document.clone();
            without["spec"].as_object_mut().unwrap().remove(&field);
            assert_eq!(is_taken(&without), may.contains(&field.as_str()), "{field}");
            assert_eq!(refusals(&without).is_empty(), may.contains(&field.as_str()), "{field}");
        }
    }
    assert_eq!(
        canary(&checkout_2(10)).spec.path,
        schema_of("CanaryRelease")["properties"]["spec"]["properties"]["path"]["default"]
    );
}
