//! Canaries of registered releases: manifests of the kinds `Release` and `CanaryRelease`, on real managers with routers that are played.

mod command_line;
mod life;

use std::fmt::Write as _;

/// The port at which version `number` of the service `checkout` listens.
fn port_of(number: u8) -> u16 {
    9_091 + 10 * u16::from(number)
}

/// The release `shop`, of the service `checkout`, with these versions, of which this one serves.
fn shop(current: u8, versions: &[u8]) -> String {
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

fn canary_of(release: &str, name: &str, version: u8, rest: &str) -> String {
    format!(
        "apiVersion: choirmaster/v1\nkind: CanaryRelease\nmetadata: {{name: {name}}}\nspec:\n  release: {release}\n  version: {version}\n  \
         config: |\n    colour: {version}\n  services:\n    - service: checkout\n      ports: [{{port: 8080, protocol: HTTP, config: \
         {{weight: 10}}}}]\n{rest}"
    )
}

const ADOPTED: &str = "  transition: Adopted\n";
const DEPRECATED: &str = "  transition: Deprecated\n";
