//! From a canary and the release that it names to the text of a strategy that anybody could submit.
//!
//! The strategy has one stage, which lasts a year of calls, so that it never asks for its end by itself: it is passed over when the
//! canary is adopted, whatever it has counted. After that year somebody is asked, and after another one without an answer it is rolled
//! back. So every wait has a deadline, and nothing is adopted that nobody asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use ab_releases::Fault;
use language::{Service, Strategy};
use model::ReleaseId;
use protocol::canary_releases::{CanaryReleaseSpec, CanaryService, ReleaseService, ReleaseSpec};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    Canary,
    form::{no_service, release_id, targets_of, version_of},
    marks,
    words::{listed, quoted},
};

/// What a canary means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translated {
    /// The name of the canary.
    pub id: ReleaseId,
    /// A strategy.
    pub text: String,
    /// What the release is once the canary is adopted.
    pub adopted: ReleaseSpec,
}

/// How the one stage ends, and what follows.
const ENDS: &str = r#"    end_conditions: [{"name":"minDuration","threshold":"8760h"}]
    end_action: {"onSuccess":"rollout","onFailure":"rollback"}
rollout: {"approval":"before_rollout","approval_timeout":"8784h","no_calls":"never","on_failure":"pause"}
"#;

/// `longest_id`: of the release, in bytes. A tenant's have less room.
///
/// # Errors
///
/// The first field that can't be taken.
pub fn translate(canary: &Canary, of: &ReleaseSpec, longest_id: usize) -> Result<Translated, Fault> {
    let id = release_id(&canary.name, longest_id)?;
    let spec = &canary.spec;
    let new = version_of(of, spec.version)?;
    let stable = version_of(of, of.version)?;
    check_path(spec, of)?;
    let asked = spec.services.first();
    let asked =
        asked.ok_or_else(|| Fault::new("spec.services", "without a service there is nothing to share"))?;
    let service = service_of(spec, asked, of)?;
    check_ports(asked, service)?;
    if targets_of(new, &service.name) == targets_of(stable, &service.name) {
        let (version, name) = (new.version, &of.name);
        let serves = if version == stable.version {
            format!("version {version} of {name} serves already, at the same targets")
        } else {
            format!("version {version} of {name} has the targets of version {}, which serves", stable.version)
        };
        return Err(Fault::new("spec.version", format!("{serves}: register another one")));
    }
    let name = json!(canary.name);
    let mut annotations = BTreeMap::from([
        (marks::CANARY, digest(canary)),
        (marks::RELEASE, of.name.clone()),
        (marks::VERSION, new.version.to_string()),
    ]);
    annotations.extend(canary.file.clone().map(|file| (marks::FILE, file)));
    let annotations = json!(annotations);
    let mut text = format!("id: {name}\nname: {name}\nannotations: {annotations}\n");
    text += "on_conflict: refuse\nstage_deadline: 8784h\n";
    let _ = writeln!(text, "services:\n  - name: {}", json!(service.name));
    if !of.routers.is_empty() {
        let _ = writeln!(text, "    routers: {}", json!({"labels": of.routers}));
    }
    // In the order of its fields, whatever else is built.
    let ports = serde_json::to_string(&service.ports).unwrap_or_default();
    let _ = writeln!(text, "    ports: {ports}");
    for (key, value) in [("proxy_protocol", &service.proxy_protocol), ("drain", &service.drain)] {
        if let Some(value) = value {
            let _ = writeln!(text, "    {key}: {}", json!(value));
        }
    }
    text += "    variations:\n";
    for (variation, version) in [("stable", stable), ("canary", new)] {
        let targets = json!(version.targets.get(&service.name));
        let _ = writeln!(text, r#"      - {{"name":"{variation}","targets":{targets}}}"#);
    }
    // Who deprecates a first canary has its routers as they were before.
    text += "    at_rollback: retire\n";
    text += "stages:\n  - name: \"canary\"\n    type: Traffic\n";
    let weight = canary.weight.min(100);
    let _ = writeln!(text, r#"    shares: {{"stable":"{}","canary":"{weight}"}}"#, 100 - weight);
    text += ENDS;
    let config = spec.config.as_str().unwrap_or_default().to_owned();
    Ok(Translated { id, text, adopted: ReleaseSpec { version: new.version, config, ..of.clone() } })
}

/// That a canary names a release which isn't registered.
#[must_use]
pub fn unknown_release(canary: &Canary) -> Fault {
    let why = format!("there is no release {}: register it with kind: Release", quoted(&canary.spec.release));
    Fault::new("spec.release", why)
}

/// Ports that a release has and its canary doesn't name. Their calls are shared as those of the others.
#[must_use]
pub fn unnamed_ports(canary: &Canary, of: &ReleaseSpec) -> Vec<u16> {
    let Some(asked) = canary.spec.services.first() else { return Vec::new() };
    let Some(service) = of.services.iter().find(|service| service.name == asked.service) else {
        return Vec::new();
    };
    let is_named = |port: u16| asked.ports.iter().any(|named| named.port == i32::from(port));
    service.ports.iter().map(|port| port.port).filter(|port| !is_named(*port)).collect()
}

/// Whether the strategy of a canary still leads from what a release is to what it was to become.
#[must_use]
pub fn is_of(strategy: &Strategy, adopted: &ReleaseSpec, now: &ReleaseSpec) -> bool {
    let expected = ReleaseSpec { version: now.version, config: now.config.clone(), ..adopted.clone() };
    let Ok(stable) = version_of(now, now.version) else { return false };
    let is_base = |service: &Service| {
        let base = service.variations.first().into_iter().flat_map(|variation| &variation.targets);
        base.cloned().collect::<BTreeSet<_>>() == targets_of(stable, service.name())
    };
    expected == *now && strategy.services.iter().all(is_base)
}

/// What a canary was asked to be, without what may change of it: SHA-256, in hex, of its JSON, in which weights are null and `transition`
/// is empty.
#[must_use]
pub fn digest(canary: &Canary) -> String {
    let mut spec = canary.spec.clone();
    spec.transition.clear();
    for port in spec.services.iter_mut().flat_map(|service| &mut service.ports) {
        port.config.weight = None;
    }
    let form = serde_json::to_vec(&spec).unwrap_or_default();
    Sha256::digest(&form).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn check_path(spec: &CanaryReleaseSpec, of: &ReleaseSpec) -> Result<(), Fault> {
    if of.services.iter().any(|service| service.path == spec.path) {
        return Ok(());
    }
    let mut known: Vec<&str> = of.services.iter().map(|service| service.path.as_str()).collect();
    known.sort_unstable();
    known.dedup();
    let why = format!("release {} has nothing at {}; it has {}", of.name, quoted(&spec.path), listed(known));
    Err(Fault::new("spec.path", why))
}

/// The service that is asked for, at the path that is.
fn service_of<'r>(
    spec: &CanaryReleaseSpec,
    asked: &CanaryService,
    of: &'r ReleaseSpec,
) -> Result<&'r ReleaseService, Fault> {
    let fault = |why: String| Fault::new("spec.services[0].service", why);
    let found = of.services.iter().find(|service| service.name == asked.service);
    let found = found.ok_or_else(|| {
        let here = of.services.iter().filter(|service| service.path == spec.path);
        fault(no_service(&of.name, &asked.service, here.map(|service| service.name.as_str()).collect()))
    })?;
    if found.path == spec.path {
        return Ok(found);
    }
    Err(fault(format!(
        "service {} of {} is at {}, and path says {}",
        found.name, of.name, found.path, spec.path
    )))
}

/// Whether the service takes calls as the canary says.
fn check_ports(asked: &CanaryService, service: &ReleaseService) -> Result<(), Fault> {
    for (at, port) in asked.ports.iter().enumerate() {
        let field = |name: &str| format!("spec.services[0].ports[{at}].{name}");
        let found = service.ports.iter().find(|known| i32::from(known.port) == port.port);
        let found = found.ok_or_else(|| {
            let known = listed(service.ports.iter().map(|known| known.port));
            let why = format!("service {} has no port {}; it has {known}", service.name, port.port);
            Fault::new(field("port"), why)
        })?;
        if !port.protocol.is_empty() && port.protocol != found.protocol {
            let why = format!("port {} of {} is {}", found.port, service.name, found.protocol);
            return Err(Fault::new(field("protocol"), why));
        }
    }
    Ok(())
}
