//! Canaries of registered releases, through the public surface of the crate.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "../shared/cases.rs"]
mod cases;
mod crd;
mod folder;
mod reading;
mod refused;
mod started;
mod status;
mod strategy;
#[path = "../shared/structural_schemas.rs"]
mod structural_schemas;

use canary_releases::{Canary, Document, read};
use protocol::canary_releases::ReleaseSpec;
use serde_json::{Value, json};

/// A release of which version 1 serves.
fn shop() -> Value {
    json!({
        "apiVersion": "choirmaster/v1",
        "kind": "Release",
        "metadata": {"name": "shop"},
        "spec": {
            "routers": {"env": "prod"},
            "services": [{"name": "checkout", "path": "/", "ports": [{"port": 8080, "protocol": "HTTP"}]}],
            "versions": [
                {"version": 1, "targets": {"checkout": ["127.0.0.1:9101"]}},
                {"version": 2, "targets": {"checkout": ["127.0.0.1:9111"]}},
            ],
            "version": 1,
            "config": "greeting: hi\n",
        },
    })
}

/// The same, of which version 2 is started by agents, and version 3 with the one that serves.
fn running() -> Value {
    let versions = json!([
        {"version": 1, "targets": {"checkout": ["127.0.0.1:9101"]}},
        {"version": 2, "run": {"checkout": {"path": "shop/v2"}}},
        {"version": 3, "run": {"checkout": {"archive": "0a".repeat(32), "path": "v3", "env": "image"}}},
    ]);
    with(shop(), "/spec/versions", versions)
}

/// A canary of its version 2.
fn checkout_2(weight: i32) -> Value {
    let port = json!({"port": 8080, "protocol": "HTTP", "config": {"weight": weight}});
    json!({
        "apiVersion": "release.example/v1alpha1",
        "kind": "CanaryRelease",
        "metadata": {"name": "checkout-2"},
        "spec": {
            "release": "shop",
            "version": 2,
            "path": "/",
            "config": "greeting: hello\n",
            "services": [{"service": "checkout", "ports": [port]}],
        },
    })
}

/// The document with something else at that place.
fn with(mut document: Value, place: &str, value: Value) -> Value {
    let (above, key) = place.rsplit_once('/').unwrap();
    match document.pointer_mut(above).unwrap() {
        Value::Object(fields) => drop(fields.insert(key.to_owned(), value)),
        Value::Array(items) => match key.parse::<usize>().unwrap() {
            at if at < items.len() => items[at] = value,
            _ => items.push(value),
        },
        other => panic!("{other} has no {key}"),
    }
    document
}

fn release(document: &Value) -> ReleaseSpec {
    match read(document.to_string().as_bytes()).unwrap() {
        Document::Release(spec) => spec,
        Document::Canary(canary) => panic!("{canary:?} is no release"),
    }
}

fn canary(document: &Value) -> Canary {
    match read(document.to_string().as_bytes()).unwrap() {
        Document::Canary(canary) => canary,
        Document::Release(spec) => panic!("{spec:?} is no canary"),
    }
}
