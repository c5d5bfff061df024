//! Canaries of registered releases: manifests of the kinds `Release` and `CanaryRelease`, on real managers with routers that are played.

mod before_and_after;
mod command_line;
mod folder;
mod kills;
mod life;
mod plan;
pub mod several;
mod started;
mod status;
mod table;
mod weight;

use std::fmt::Write as _;

use serde_json::{Value, json};

/// The port at which version `number` of the service `checkout` listens.
fn port_of(number: u8) -> u16 {
    9_091 + 10 * u16::from(number)
}

/// The release `shop`, of the service `checkout`, with these versions, of which this one serves.
pub fn shop(current: u8, versions: &[u8]) -> String {
    release("shop", current, versions)
}

/// A release of the service `checkout`.
fn release(name: &str, current: u8, versions: &[u8]) -> String {
    let mut text = format!(
        "apiVersion: choirmaster/v1\nkind: Release\nmetadata: {{name: {name}}}\nspec:\n  services:\n    - name: checkout\n      \
         ports: [{{port: 8080, protocol: HTTP}}]\n  version: {current}\n  versions:\n"
    );
    for version in versions {
        let port = port_of(*version);
        let _ = writeln!(text, "    - {{version: {version}, targets: {{checkout: [\"127.0.0.1:{port}\"]}}}}");
    }
    text
}

/// A canary of `shop` that is called `checkout-VERSION` and gets a tenth of the calls. `rest`: more of its `spec`, in whole lines that
/// are indented by two.
fn canary(version: u8, rest: &str) -> String {
    canary_of("shop", &format!("checkout-{version}"), version, rest)
}

pub fn canary_of(release: &str, name: &str, version: u8, rest: &str) -> String {
    format!(
        "apiVersion: choirmaster/v1\nkind: CanaryRelease\nmetadata: {{name: {name}}}\nspec:\n  release: {release}\n  version: {version}\n  \
         config: |\n    colour: {version}\n  services:\n    - service: checkout\n      ports: [{{port: 8080, protocol: HTTP, config: \
         {{weight: 10}}}}]\n{rest}"
    )
}

pub const ADOPTED: &str = "  transition: Adopted\n";
const DEPRECATED: &str = "  transition: Deprecated\n";

/// What a router tells of `checkout` while it gives the canary so much of it, in units of 0.01 %, by this release.
fn told_by_router(router: &str, release: &str, share: u16) -> Value {
    let variation = |name: &str, share: u16| {
        let targets = json!({"healthy": null, "total": 1});
        json!({"name": name, "wanted": share, "seen": share, "targets": targets, "calls": 90, "errors": 1})
    };
    let target = |name: &str, version: u8| json!({"name": name, "targets": [format!("127.0.0.1:{}", port_of(version))]});
    json!({
        "id": router,
        "router": {"kind": "embedded", "phase": "in_force", "reached": true},
        "services": [{
            "name": "checkout", "epoch": 0, "generation": 1 + u64::from(share), "offer": release, "seen_ago_ms": 5,
            "measured_ms": 60_000,
            "variations": [variation("stable", 10_000 - share), variation("canary", share)],
            "led": {
                "ports": [{"port": 8080, "protocol": "HTTP"}],
                "variations": [target("stable", 1), target("canary", 2)],
            },
        }],
    })
}

/// The same canary, which gets so much of the calls instead of a tenth.
pub fn with_weight(canary: &str, weight: u8) -> String {
    canary.replace("weight: 10", &format!("weight: {weight}"))
}
