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
use language::{Resources, Run, Service, Strategy};
use model::ReleaseId;
use protocol::canary_releases::{
    CanaryReleaseSpec, CanaryService, ReleaseRun, ReleaseService, ReleaseSpec, ReleaseVersion,
};
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
    /// Folders that the strategy names, and that have to come with it.
    pub folders: Vec<RunFolder>,
}

/// A folder of a strategy in which lies what is started for a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    /// As the strategy names it: the service and the variation, as in `checkout-canary`.
    pub name: String,
    /// What is to lie in it.
    pub run: ReleaseRun,
    /// With what its templates are rendered.
    pub config: String,
    /// It is that of the canary, and not of what serves.
    pub is_canary: bool,
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
    let config = spec.config.as_str().unwrap_or_default().to_owned();
    let both = (stable.run.get(&service.name), new.run.get(&service.name));
    if let (Some(base), Some(run)) = both
        && base == run
        && config == of.config
    {
        let why = format!(
            "version {} of {} is what serves already, the same folder with the same configuration: change one of the two",
            new.version, of.name
        );
        return Err(Fault::new("spec.version", why));
    }
    if !canary.limits.is_empty() && !new.run.contains_key(&service.name) {
        let why = format!(
            "the targets of version {} run already, so nothing here limits them: leave it out",
            new.version
        );
        return Err(Fault::new("spec.resources", why));
    }
    if both == (None, None) && targets_of(new, &service.name) == targets_of(stable, &service.name) {
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
    annotations.extend(base_of(stable, &service.name, &of.config).map(|base| (marks::BASE, base)));
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
    let mut folders = Vec::new();
    let variations =
        [("stable", stable, &of.config, Resources::default()), ("canary", new, &config, canary.limits)];
    for (variation, version, config, limits) in variations {
        let Some(run) = version.run.get(&service.name) else {
            let targets = json!(version.targets.get(&service.name));
            let _ = writeln!(text, r#"      - {{"name":"{variation}","targets":{targets}}}"#);
            continue;
        };
        let name = format!("{}-{variation}", service.name);
        let env = run.env.as_deref().unwrap_or(Run::FORMS[0]);
        let limits: Vec<String> =
            limits.quantities().iter().map(|(key, text)| format!("{}:{}", json!(key), json!(text))).collect();
        let limits =
            if limits.is_empty() { String::new() } else { format!(r#","limits":{{{}}}"#, limits.join(",")) };
        let (path, env) = (json!(name), json!(env));
        let _ =
            writeln!(text, r#"      - {{"name":"{variation}","run":{{"path":{path},"env":{env}{limits}}}}}"#);
        let (run, config, is_canary) = (run.clone(), config.clone(), variation == "canary");
        folders.push(RunFolder { name, run, config, is_canary });
    }
    // Who deprecates a first canary has its routers as they were before.
    text += "    at_rollback: retire\n";
    text += "stages:\n  - name: \"canary\"\n    type: Traffic\n";
    let weight = canary.weight.min(100);
    let _ = writeln!(text, r#"    shares: {{"stable":"{}","canary":"{weight}"}}"#, 100 - weight);
    text += ENDS;
    let adopted = ReleaseSpec { version: new.version, config, ..of.clone() };
    Ok(Translated { id, text, adopted, folders })
}

/// What is started for a version of a service, and with which configuration: SHA-256, in hex. `None`: it has targets.
fn base_of(version: &ReleaseVersion, service: &str, config: &str) -> Option<String> {
    let run = version.run.get(service)?;
    let form = json!([version.version, run, config]).to_string();
    Some(hex(Sha256::digest(form.as_bytes())))
}

fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes.into_iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
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
        let base = base_of(stable, service.name(), &now.config);
        if base.is_some() || strategy.annotations.contains_key(marks::BASE) {
            return base.as_ref() == strategy.annotations.get(marks::BASE);
        }
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
    hex(Sha256::digest(&form))
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
