//! What Kubernetes is told of the two kinds: a `CustomResourceDefinition` of each.
//!
//! Fields, their types and what is said of them come from the forms into which manifests are read, so nothing here follows those by hand.
//! What is added are limits that show in the manifest alone. Whatever a schema refuses, [`super::read()`] or [`super::translate()`] refuses
//! as well; these know more: rules of the language, and what is registered.
//!
//! The schemas are structural, so that an API server can prune, default and explain: no references, and each node has a type.
//!
//! Not here: whoever carries out in a cluster what such objects ask for, and keeps their status.

use std::collections::BTreeMap;

use language::{
    MAX_NAME_BYTES, MAX_TARGET_LABELS, Protocol, ProxyProtocol, Run, functions::MAX_ENTRY_PATH_BYTES,
};
use model::MAX_RELEASE_ID_LEN;
use protocol::canary_releases::{CanaryReleaseSpec, ReleaseSpec};
use serde_json::{Map, Value, json};
use traffic::desired::{MAX_HOSTS, MAX_TARGETS, TlsEnd};
use utoipa::ToSchema;

use super::{
    form::{MAX_CONFIG_BYTES, MAX_PORTS, MAX_SERVICES, MAX_VERSIONS},
    read::{CANARY_RELEASE, RELEASE},
};

/// The group of both kinds. A cluster refuses a group without a point, and takes it for a domain of whoever defines it. No domain ends
/// in `.internal`: that is kept for private use, so nobody else can come to own this one.
pub const GROUP: &str = "choirmaster.internal";

/// The version of both.
pub const VERSION: &str = "v1";

/// Of a release and of a service: [`traffic::desired::Name`].
const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";
const MAX_NAME: usize = 63;

/// Of a part of a release, which is whole segments, or `/`.
const PATH: &str = "^(/|(/[A-Za-z0-9._~-]+)+)$";

/// Of a time as the language writes it, which may stand between spaces. How long it may be is not said: units add up.
const TIME: &str = r"^\W*(0+|([0-9.]+(d|h|ms|m|s))+)\W*$";

/// A text without control characters but line breaks and tabs.
const TEXT: &str = r"^[^\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x9F]*$";

/// Of `CanaryRelease` and of `Release`.
#[must_use]
pub fn definitions() -> [Value; 2] {
    [canary_release(), release()]
}

fn canary_release() -> Value {
    let kept = |what: &str| {
        json!([{
            "rule": "self == oldSelf",
            "message": format!("a canary release keeps its {what}: create another one"),
        }])
    };
    let protocols: Vec<&str> = std::iter::once("").chain(protocols()).collect();
    let limits = [
        ("", json!({"required": ["services"]})),
        (
            "release",
            json!({"pattern": NAME, "maxLength": MAX_NAME, "x-kubernetes-validations": kept("release")}),
        ),
        ("version", json!({"minimum": 1, "x-kubernetes-validations": kept("version")})),
        ("path", json!({"pattern": PATH.replace("(/|", "(|/|"), "default": "/"})),
        ("config", json!({"pattern": TEXT, "maxLength": MAX_CONFIG_BYTES})),
        ("services", list("service", MAX_SERVICES)),
        ("services[]", json!({"required": ["service", "ports"]})),
        ("services[].service", json!({"pattern": NAME, "maxLength": MAX_NAME})),
        ("services[].ports", list("port", MAX_PORTS)),
        ("services[].ports[]", json!({"required": ["port", "config"]})),
        ("services[].ports[].port", json!({"minimum": 1, "maximum": u16::MAX})),
        ("services[].ports[].protocol", json!({"enum": protocols})),
        ("services[].ports[].config", json!({"required": ["weight"]})),
        ("services[].ports[].config.weight", json!({"minimum": 0, "maximum": 100})),
        ("resources", resources()),
        ("transition", json!({"enum": ["", "Adopted", "Deprecated"]})),
    ];
    let column = |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let mut version = served(CANARY_RELEASE, MAX_RELEASE_ID_LEN, &limited::<CanaryReleaseSpec>(&limits));
    version["additionalPrinterColumns"] = json!([
        column("Release", "string", ".spec.release"),
        column("Version", "integer", ".spec.version"),
        column("Weight", "integer", ".spec.services[0].ports[0].config.weight"),
        column("Phase", "string", ".status.phase"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ]);
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = status();
    version["subresources"] = json!({"status": {}});
    definition(CANARY_RELEASE, "canary", &version)
}

fn release() -> Value {
    let is_known = json!([{
        "rule": "self.versions.exists(one, one.version == self.version)",
        "message": "the version that serves is one of the versions",
    }]);
    let is_somewhere = json!([{
        "rule": "has(self.targets) || has(self.run)",
        "message": "a version has targets, or is to be run",
    }]);
    let protocols: Vec<&str> = protocols().collect();
    let set = |most: usize| json!({"x-kubernetes-list-type": "set", "maxItems": most});
    let limits = [
        ("", json!({"x-kubernetes-validations": is_known})),
        ("routers", json!({"maxProperties": MAX_TARGET_LABELS})),
        ("routers{}", json!({"minLength": 1, "maxLength": MAX_NAME_BYTES})),
        ("services", list("name", MAX_SERVICES)),
        ("services[].name", json!({"pattern": NAME, "maxLength": MAX_NAME})),
        ("services[].path", json!({"pattern": PATH, "default": "/"})),
        ("services[].ports", list("port", MAX_PORTS)),
        ("services[].ports[].port", json!({"minimum": 1, "maximum": u16::MAX})),
        ("services[].ports[].protocol", json!({"enum": protocols, "default": "HTTP"})),
        ("services[].ports[].hosts", set(MAX_HOSTS)),
        ("services[].ports[].hosts[]", json!({"pattern": "^[a-z0-9.-]+$"})),
        ("services[].ports[].path", json!({"pattern": PATH.replace("/|", "")})),
        ("services[].ports[].tls", json!({"enum": TlsEnd::ALL.map(TlsEnd::name)})),
        ("services[].proxyProtocol", json!({"enum": ProxyProtocol::ALL.map(ProxyProtocol::name)})),
        ("services[].drain", json!({"pattern": TIME})),
        ("versions", list("version", MAX_VERSIONS)),
        ("versions[].version", json!({"minimum": 1})),
        ("versions[]", json!({"x-kubernetes-validations": is_somewhere})),
        ("versions[].targets", json!({"maxProperties": MAX_SERVICES})),
        ("versions[].targets{}", set(MAX_TARGETS)),
        ("versions[].targets{}", json!({"minItems": 1})),
        ("versions[].targets{}[]", json!({"pattern": r"^\S+:[0-9]+$"})),
        ("versions[].run", json!({"maxProperties": MAX_SERVICES})),
        ("versions[].run{}.archive", json!({"pattern": "^[0-9a-f]{64}$"})),
        ("versions[].run{}.path", json!({"minLength": 1, "maxLength": MAX_ENTRY_PATH_BYTES})),
        ("versions[].run{}.env", json!({"enum": Run::FORMS, "default": Run::FORMS[0]})),
        ("version", json!({"minimum": 1})),
        ("config", json!({"pattern": TEXT, "maxLength": MAX_CONFIG_BYTES})),
        ("resources", resources()),
        ("name", json!({"maxLength": MAX_NAME})),
    ];
    let mut version = served(RELEASE, MAX_NAME, &limited::<ReleaseSpec>(&limits));
    version["additionalPrinterColumns"] = json!([
        {"name": "Version", "type": "integer", "jsonPath": ".spec.version"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    definition(RELEASE, "rel", &version)
}

/// Free, so that what somebody writes there is refused rather than dropped: quantities are texts or numbers.
fn resources() -> Value {
    json!({"maxProperties": 1, "x-kubernetes-preserve-unknown-fields": true})
}

fn protocols() -> impl Iterator<Item = &'static str> {
    Protocol::ALL.into_iter().map(Protocol::name)
}

/// At least one entry and at most so many, each of which has another key.
fn list(key: &str, most: usize) -> Value {
    json!({
        "minItems": 1,
        "maxItems": most,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
    })
}

fn definition(kind: &str, short: &str, version: &Value) -> Value {
    let singular = kind.to_ascii_lowercase();
    let plural = format!("{singular}s");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": singular,
                "shortNames": [short],
            },
            "versions": [version],
        },
    })
}

/// The one version of a kind. `longest`: of a name, in characters.
fn served(kind: &str, longest: usize, spec: &Value) -> Value {
    let schema = json!({
        "description": spec["description"],
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": format!("{GROUP}/{VERSION}"), "type": "string"},
            "kind": {"description": kind, "type": "string"},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": longest}}},
            "spec": spec,
        },
    });
    json!({"name": VERSION, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}})
}

/// What somebody reports of a canary; conditions as all of Kubernetes has them.
fn status() -> Value {
    let generation = json!({
        "description": "The generation of the object that this is about.",
        "type": "integer",
        "format": "int64",
        "minimum": 0,
    });
    let condition = json!({
        "description": "Something that holds of the canary, or doesn't.",
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": {"description": "What it is about.", "type": "string", "minLength": 1, "maxLength": 316},
            "status": {"description": "Whether it holds.", "type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {
                "description": "Why, in a word for programs.",
                "type": "string",
                "pattern": "^[A-Za-z][A-Za-z0-9_,:]*$",
                "maxLength": 1024,
            },
            "message": {"description": "Why, in a sentence for people.", "type": "string", "maxLength": 32_768},
            "lastTransitionTime": {
                "description": "Since when the status is this one.",
                "type": "string",
                "format": "date-time",
            },
            "observedGeneration": generation,
        },
    });
    let weight = |description: &str| {
        json!({
            "description": description,
            "type": "integer",
            "format": "int32",
            "minimum": 0,
            "maximum": 100,
        })
    };
    let part = json!({
        "description": "A service, or a port of it, with a weight of its own.",
        "type": "object",
        "required": ["name", "weight"],
        "properties": {
            "name": {"description": "What routers call it.", "type": "string", "minLength": 1, "maxLength": MAX_NAME},
            "ports": {
                "description": "Where it takes calls.",
                "type": "array",
                "items": {"type": "integer", "format": "int32", "minimum": 1, "maximum": u16::MAX},
            },
            "weight": weight("What the canary gets of its calls now, in percent."),
        },
    });
    json!({
        "description": "What has become of the canary.",
        "type": "object",
        "properties": {
            "observedGeneration": generation,
            "phase": {"description": "Where it stands, in a word.", "type": "string"},
            "weight": weight("What it gets of the calls now, in percent; of several parts, of the first."),
            "parts": {
                "description": "Each of several with a weight of its own, by its name.",
                "type": "array",
                "items": part,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "conditions": {
                "description": "Each of what holds, by its type.",
                "type": "array",
                "items": condition,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        },
    })
}

/// The schema of a form, with these keywords at these places.
fn limited<T: ToSchema>(limits: &[(&str, Value)]) -> Value {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    let parts = parts.into_iter().map(|(name, part)| (format!("#/components/schemas/{name}"), json!(part)));
    let mut schema = structural(&json!(T::schema()), &parts.collect());
    for (place, keywords) in limits {
        limit(&mut schema, place, keywords);
    }
    schema
}

/// A node without references, and without the keywords that structural schemas don't have. `parts`: what references lead to.
fn structural(node: &Value, parts: &BTreeMap<String, Value>) -> Value {
    let Value::Object(keywords) = node else { return node.clone() };
    let part = keywords.get("$ref").and_then(Value::as_str).and_then(|name| parts.get(name));
    // What a field says of itself goes before what its form says.
    let mut found = match part.map(|part| structural(part, parts)) {
        Some(Value::Object(of_part)) => of_part,
        _ => Map::new(),
    };
    for (key, value) in keywords {
        let value: Value = match (key.as_str(), value) {
            ("$ref" | "propertyNames", _) | ("additionalProperties", Value::Bool(_)) => continue,
            ("properties", Value::Object(all)) => {
                all.iter().map(|(name, one)| (name.clone(), structural(one, parts))).collect()
            }
            ("items" | "additionalProperties", one) => structural(one, parts),
            // Whoever may be null may be left out, which an API server takes null for.
            ("type", Value::Array(types)) => types.iter().find(|one| **one != "null").cloned().into(),
            ("description", Value::String(text)) => text.replace('\n', " ").into(),
            (_, other) => other.clone(),
        };
        found.insert(key.clone(), value);
    }
    Value::Object(found)
}

/// Adds keywords to the node at a place, which is written as faults write it: `services[].ports[].port`, and `routers{}` for the values of a
/// map. What is required is added to what is so already. A place that isn't there becomes a node without a type, which no test lets pass.
fn limit(schema: &mut Value, place: &str, keywords: &Value) {
    let mut node = schema;
    for part in place.split('.').filter(|part| !part.is_empty()) {
        let name = part.trim_end_matches(['[', ']', '{', '}']);
        node = &mut node["properties"][name];
        for mark in part[name.len()..].chars() {
            match mark {
                '[' => node = &mut node["items"],
                '{' => node = &mut node["additionalProperties"],
                _ => {}
            }
        }
    }
    for (key, value) in keywords.as_object().into_iter().flatten() {
        match (&mut node[key.as_str()], value) {
            (Value::Array(there), Value::Array(more)) => there.extend(more.iter().cloned()),
            (there, value) => *there = value.clone(),
        }
    }
}
