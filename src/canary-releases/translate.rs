//! From a canary and the release that it names to the text of a strategy that anybody could submit.
//!
//! The strategy has one stage that lasts, for a year of calls, so that it never asks for its end by itself: it is passed over when the
//! canary is adopted, whatever it has counted. Where several parts are shared, the stages of the others begin with it (`parts.rs` says why so).
//! After that year somebody is asked, and after another one without an answer it is rolled back. So every wait has a deadline, and nothing is
//! adopted that nobody asked for.
//!
//! Each part has targets, or is started, of each of the two versions by itself. What is started comes in one folder for each service.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use ab_releases::Fault;
use language::{CallTarget, Resources, Run, Service, Stage, Strategy};
use model::{ReleaseId, hex};
use protocol::canary_releases::{
    CanaryReleaseSpec, CanaryService, ReleaseRun, ReleaseService, ReleaseSpec, ReleaseVersion,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    Canary,
    form::{MAX_TOGETHER, limits, no_service, release_id, resources, targets_of, version_of},
    marks,
    parts::{self, Part, asked_of, one, parts, weight_at},
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

/// The stage that lasts.
pub const STAGE: &str = "canary";

/// How it ends.
const ENDS: &str = r#"    end_conditions: [{"name":"minDuration","threshold":"8760h"}]
    end_action: {"onSuccess":"rollout","onFailure":"rollback"}
"#;

/// How the release is led.
const LED: &str =
    r#""approval":"before_rollout","approval_timeout":"8784h","no_calls":"never","on_failure":"pause""#;

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
    let config = spec.config.as_str().unwrap_or_default();
    let of_release = limits(&of.resources)?;
    let own = Some(canary.limits).filter(|_| !spec.resources.is_empty());
    let stable = Side { name: "stable", version: stable, config: &of.config, limits: of_release };
    let new = Side { name: "canary", version: new, config, limits: own.unwrap_or(of_release) };
    let sides = [stable, new];
    let shared = shared(spec, of, &sides)?;
    let mut services: Vec<&ReleaseService> = shared.iter().map(|part| part.service).collect();
    services.dedup_by(|one, other| one.name == other.name);
    if !canary.limits.is_empty() && !services.iter().any(|service| sides[1].run(service).is_some()) {
        let why = format!(
            "the targets of version {} run already, so nothing here limits them: leave it out",
            spec.version
        );
        return Err(Fault::new("spec.resources", why));
    }
    let name = json!(canary.name);
    let mut annotations = BTreeMap::from([
        (marks::CANARY, digest(canary)),
        (marks::RELEASE, of.name.clone()),
        (marks::VERSION, spec.version.to_string()),
    ]);
    let named = services.iter().map(|service| service.name.as_str());
    annotations.extend(base_of(sides[0].version, named, of).map(|base| (marks::BASE, base)));
    annotations.extend(canary.file.clone().map(|file| (marks::FILE, file)));
    let annotations = json!(annotations);
    let mut text = format!("id: {name}\nname: {name}\nannotations: {annotations}\n");
    text += "on_conflict: refuse\nstage_deadline: 8784h\n";
    text += "services:\n";
    for part in &shared {
        push_service(&mut text, part, &of.routers, &sides);
    }
    push_stages(&mut text, &shared);
    text += ENDS;
    // A router that can't be reached keeps no other one in the stages that are passed at once.
    let order = if shared.len() > 1 { r#","order":"parallel""# } else { "" };
    let _ = writeln!(text, "rollout: {{{LED}{order}}}");
    let folders =
        services.iter().flat_map(|service| sides.iter().filter_map(move |side| side.folder(service)));
    let folders = folders.collect();
    let resources = own.map_or_else(|| of.resources.clone(), resources);
    let adopted = ReleaseSpec { version: spec.version, config: config.to_owned(), resources, ..of.clone() };
    Ok(Translated { id, text, adopted, folders })
}

/// One of the two versions between which calls are shared.
struct Side<'r> {
    /// What it is called in the strategy.
    name: &'static str,
    version: &'r ReleaseVersion,
    /// With what templates are rendered.
    config: &'r str,
    /// What it may use, where it is started.
    limits: Resources,
}

impl Side<'_> {
    /// What is started for a service; `None`: it has targets.
    fn run(&self, service: &ReleaseService) -> Option<&ReleaseRun> {
        self.version.run.get(&service.name)
    }

    fn targets(&self, service: &ReleaseService) -> BTreeSet<CallTarget> {
        targets_of(self.version, &service.name)
    }

    /// The name of the folder in which that lies. All parts of a service are started from one.
    fn folder_name(&self, service: &ReleaseService) -> String {
        format!("{}-{}", service.name, self.name)
    }

    /// What a strategy says of something that is started, without the braces around it.
    fn run_of(&self, service: &ReleaseService, run: &ReleaseRun) -> String {
        let (path, env) = (self.folder_name(service), run.env.as_deref().unwrap_or(Run::FORMS[0]));
        let mut text = format!(r#""path":{},"env":{}"#, json!(path), json!(env));
        let limits = self.limits.quantities();
        if !limits.is_empty() {
            let limits = limits.iter().map(|(key, quantity)| format!("{}:{}", json!(key), json!(quantity)));
            let _ = write!(text, r#","limits":{{{}}}"#, limits.collect::<Vec<_>>().join(","));
        }
        text
    }

    fn folder(&self, service: &ReleaseService) -> Option<RunFolder> {
        let run = self.run(service)?.clone();
        let (name, config) = (self.folder_name(service), self.config.to_owned());
        Some(RunFolder { name, run, config, is_canary: self.name == "canary" })
    }
}

/// Whether a canary would be what serves a service already: the same folder with the same configuration, or the same targets.
fn is_same(service: &ReleaseService, [stable, new]: &[Side<'_>; 2]) -> bool {
    match (stable.run(service), new.run(service)) {
        (Some(base), Some(run)) => base == run && stable.config == new.config,
        (None, None) => stable.targets(service) == new.targets(service),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Why there is nothing to try: all of these services would be what they are.
fn nothing_new(of: &ReleaseSpec, services: &[&ReleaseService], [stable, new]: &[Side<'_>; 2]) -> String {
    let (version, serving, name) = (new.version.version, stable.version.version, &of.name);
    if services.iter().any(|service| new.run(service).is_some()) {
        return format!(
            "version {version} of {name} is what serves already, the same folder with the same configuration: change one of the two"
        );
    }
    if version == serving {
        return format!(
            "version {version} of {name} serves already, at the same targets: register another one"
        );
    }
    format!(
        "version {version} of {name} has the targets of version {serving}, which serves: register another one"
    )
}

/// A part of the release, and what the canary gets of its calls, in percent.
struct Shared<'r> {
    service: &'r ReleaseService,
    part: Part<'r>,
    weight: u16,
}

/// Each part whose calls are shared, in the order of the manifest. `sides`: the version that serves, and the canary's.
fn shared<'r>(
    spec: &CanaryReleaseSpec,
    of: &'r ReleaseSpec,
    sides: &[Side<'_>; 2],
) -> Result<Vec<Shared<'r>>, Fault> {
    if spec.services.is_empty() {
        return Err(Fault::new("spec.services", "without a service there is nothing to share"));
    }
    let mut services = Vec::new();
    for (at, asked) in spec.services.iter().enumerate() {
        let service = service_of(spec, at, asked, of)?;
        check_ports(at, asked, service)?;
        services.push(service);
    }
    if services.iter().all(|service| is_same(service, sides)) {
        return Err(Fault::new("spec.version", nothing_new(of, &services, sides)));
    }
    let mut shared = Vec::new();
    for (at, (asked, service)) in spec.services.iter().zip(services).enumerate() {
        if is_same(service, sides) {
            let [stable, new] = sides;
            let what = match new.run(service) {
                Some(_) => "is started from the same folder with the same configuration as",
                None => "has the targets of",
            };
            let why = format!(
                "version {} of {} {what} version {}, which serves: leave it out",
                new.version.version, service.name, stable.version.version
            );
            return Err(Fault::new(format!("spec.services[{at}].service"), why));
        }
        for part in parts(service) {
            let weight = one(part.ports.iter().map(|port| weight_at(asked, port.port)));
            let weight = weight.ok_or_else(|| {
                let why = match part.ports {
                    [port] => format!(
                        "port {} of {} isn't named, and those that are have different weights: name it",
                        port.port, service.name
                    ),
                    _ => format!(
                        "TLS passes at the ports of {}, and connections are told apart by their hosts alone: give all of them one weight",
                        service.name
                    ),
                };
                Fault::new(format!("spec.services[{at}].ports"), why)
            })?;
            shared.push(Shared { service, part, weight: weight.min(100) });
        }
    }
    if shared.len() > MAX_TOGETHER {
        let why = format!(
            "they have {} ports together, and at most {MAX_TOGETHER} are shared at once",
            shared.len()
        );
        return Err(Fault::new("spec.services", why));
    }
    Ok(shared)
}

fn push_service(
    text: &mut String,
    Shared { service, part, .. }: &Shared<'_>,
    routers: &BTreeMap<String, String>,
    sides: &[Side<'_>; 2],
) {
    let _ = writeln!(text, "  - name: {}", json!(part.name));
    if !routers.is_empty() {
        let _ = writeln!(text, "    routers: {}", json!({"labels": routers}));
    }
    // In the order of its fields, whatever else is built.
    let ports = serde_json::to_string(part.ports).unwrap_or_default();
    let _ = writeln!(text, "    ports: {ports}");
    for (key, value) in [("proxy_protocol", &service.proxy_protocol), ("drain", &service.drain)] {
        if let Some(value) = value {
            let _ = writeln!(text, "    {key}: {}", json!(value));
        }
    }
    *text += "    variations:\n";
    for side in sides {
        let place = match side.run(service) {
            None => format!(r#""targets":{}"#, json!(side.version.targets.get(&service.name))),
            Some(run) => format!(r#""run":{{{}}}"#, side.run_of(service, run)),
        };
        let _ = writeln!(text, r#"      - {{"name":"{}",{place}}}"#, side.name);
    }
    // Who deprecates a first canary has its routers as they were before.
    *text += "    at_rollback: retire\n";
}

/// The stage of the first part last, which has yet to be ended; the others begin together with it.
fn push_stages(text: &mut String, shared: &[Shared<'_>]) {
    *text += "stages:\n";
    let Some((first, others)) = shared.split_first() else { return };
    let names: Vec<String> = others.iter().map(|one| format!("{STAGE} of {}", one.part.name)).collect();
    let next = names.iter().skip(1).map(String::as_str).chain([STAGE]);
    for ((other, name), next) in others.iter().zip(&names).zip(next) {
        let (name, next) = (json!(name), json!(next));
        let _ =
            writeln!(text, "  - name: {name}\n    type: Traffic\n    service: {}", json!(other.part.name));
        push_shares(text, other.weight);
        let _ = writeln!(
            text,
            "    with_next: true\n    end_action: {{\"onSuccess\":{next},\"onFailure\":\"rollback\"}}"
        );
    }
    let _ = writeln!(text, "  - name: \"{STAGE}\"\n    type: Traffic");
    if !others.is_empty() {
        let _ = writeln!(text, "    service: {}", json!(first.part.name));
    }
    push_shares(text, first.weight);
}

fn push_shares(text: &mut String, weight: u16) {
    let _ = writeln!(text, r#"    shares: {{"stable":"{}","canary":"{weight}"}}"#, 100 - weight);
}

/// What a part gets of its calls by the strategy of a canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight<'s> {
    /// The part: a service of the strategy.
    pub service: &'s str,
    /// Its stage.
    pub stage: &'s str,
    /// In percent.
    pub weight: u16,
}

/// What each part is to get while it is tried, in the order of the strategy's services.
#[must_use]
pub fn weights_of(strategy: &Strategy) -> Vec<Weight<'_>> {
    let each = strategy.services.iter().zip(stages_of(strategy));
    each.filter_map(|(service, stage)| {
        let stage = stage?;
        let weight = share_of(stage) / 100;
        Some(Weight { service: service.name(), stage: &stage.name, weight })
    })
    .collect()
}

/// The stage in which each service of a strategy is tried.
pub(super) fn stages_of(strategy: &Strategy) -> impl Iterator<Item = Option<&Stage>> {
    let subjects = strategy.functions.len()..strategy.subjects_count();
    subjects.map(move |subject| strategy.stages.iter().rev().find(|stage| stage.subject == subject))
}

/// What the canary gets in a stage, in units of 0.01 %.
pub(super) fn share_of(stage: &Stage) -> u16 {
    stage.shares.get(1).copied().unwrap_or_default()
}

/// What each part is to get by a manifest whose strategy is there, in percent, in the order of [`weights_of`].
///
/// # Errors
///
/// The field of the first that can't get what it is to get.
pub fn wanted(canary: &Canary, strategy: &Strategy) -> Result<Vec<u16>, Fault> {
    let wanted = |service: &Service| {
        let (name, asked) = (service.name(), &canary.spec.services);
        let ports: Vec<u16> = service.ports.iter().map(|port| port.port).collect();
        let Some((at, asked)) = asked_of(asked, name, &ports) else {
            return Err(Fault::new("spec.services", format!("service {name} isn't named, and is shared")));
        };
        let weight = one(ports.iter().map(|port| weight_at(asked, *port)));
        weight.ok_or_else(|| {
            let why = format!(
                "calls to ports {} are shared by one weight, since {name} was begun as one",
                listed(ports)
            );
            Fault::new(format!("spec.services[{at}].ports"), why)
        })
    };
    strategy.services.iter().map(wanted).collect()
}

/// What is started for the version of a release that serves these services, with which configuration, and what its versions may use:
/// SHA-256, in hex; of several, of those of each. `None`: nothing is started, they have targets, and nothing is said of what they may use.
fn base_of<'s>(
    version: &ReleaseVersion,
    services: impl Iterator<Item = &'s str>,
    of: &ReleaseSpec,
) -> Option<String> {
    let digest = |form: serde_json::Value| hex::encode(&Sha256::digest(form.to_string().as_bytes()));
    let runs = services.filter_map(|service| version.run.get(service));
    let mut each: Vec<String> = runs.map(|run| digest(json!([version.version, run, of.config]))).collect();
    // As they are meant: in which units they were written makes no difference.
    let limits = limits(&of.resources).unwrap_or_default().quantities();
    each.extend((!limits.is_empty()).then(|| digest(json!(limits))));
    if each.len() > 1 { Some(digest(json!(each))) } else { each.pop() }
}

/// That a canary names a release which isn't registered.
#[must_use]
pub fn unknown_release(canary: &Canary) -> Fault {
    let why = format!("there is no release {}: register it with kind: Release", quoted(&canary.spec.release));
    Fault::new("spec.release", why)
}

/// Ports that a release has and its canary doesn't name, by their services. Their calls are shared as those of the others.
#[must_use]
pub fn unnamed_ports(canary: &Canary, of: &ReleaseSpec) -> Vec<(String, Vec<u16>)> {
    let unnamed = |asked: &CanaryService| {
        let service = of.services.iter().find(|service| service.name == asked.service)?;
        let is_named = |port: u16| asked.ports.iter().any(|named| named.port == i32::from(port));
        let ports = service.ports.iter().map(|port| port.port).filter(|port| !is_named(*port));
        Some((asked.service.clone(), ports.collect::<Vec<_>>())).filter(|(_, ports)| !ports.is_empty())
    };
    canary.spec.services.iter().filter_map(unnamed).collect()
}

/// Services whose ports don't have one weight, each with these in words.
#[must_use]
pub fn uneven_ports(canary: &Canary) -> Vec<(String, String)> {
    let is_uneven = |asked: &&CanaryService| one(asked.ports.iter().map(|port| port.config.weight)).is_none();
    let uneven = canary.spec.services.iter().filter(is_uneven);
    let in_words = |asked: &CanaryService| {
        let each = asked.ports.iter().filter_map(|port| Some((port.port, port.config.weight?)));
        listed(each.map(|(port, weight)| format!("{weight} % at {port}")))
    };
    uneven.map(|asked| (asked.service.clone(), in_words(asked))).collect()
}

/// Whether the strategy of a canary still leads from what a release is to what it was to become. `adopted`: what that is.
#[must_use]
pub fn is_of(strategy: &Strategy, adopted: &ReleaseSpec, now: &ReleaseSpec) -> bool {
    let (version, config, resources) = (now.version, now.config.clone(), now.resources.clone());
    let expected = ReleaseSpec { version, config, resources, ..adopted.clone() };
    let Ok(stable) = version_of(now, now.version) else { return false };
    let found =
        strategy.services.iter().map(|part| Some((part, parts::service_of(&now.services, part.name())?)));
    let Some(found) = found.collect::<Option<Vec<_>>>() else { return false };
    let mut services: Vec<&str> = found.iter().map(|(_, of)| of.name.as_str()).collect();
    services.dedup();
    // Where something that was started listens no release says, so its content is compared.
    let base = base_of(stable, services.into_iter(), now);
    let has_targets = |(part, of): &(&Service, &ReleaseService)| {
        let targets = part.variations.first().into_iter().flat_map(|variation| &variation.targets);
        targets.cloned().collect::<BTreeSet<_>>() == targets_of(stable, &of.name)
    };
    expected == *now
        && base.as_ref() == strategy.annotations.get(marks::BASE)
        && found.iter().all(has_targets)
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
    hex::encode(&Sha256::digest(&form))
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
    at: usize,
    asked: &CanaryService,
    of: &'r ReleaseSpec,
) -> Result<&'r ReleaseService, Fault> {
    let fault = |why: String| Fault::new(format!("spec.services[{at}].service"), why);
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
fn check_ports(of: usize, asked: &CanaryService, service: &ReleaseService) -> Result<(), Fault> {
    for (at, port) in asked.ports.iter().enumerate() {
        let field = |name: &str| format!("spec.services[{of}].ports[{at}].{name}");
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
