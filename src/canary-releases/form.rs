//! What a document may say by itself, before anybody looks up what it names.

use std::collections::BTreeSet;

use ab_releases::{Fault, check_environment, check_version};
use language::{
    CPU_RULE, CallTarget, MAX_FUNCTIONS, MAX_NAME_BYTES, MAX_STAGES, MAX_TARGET_LABELS, MEMORY_RULE,
    Protocol, ProxyProtocol, Resources, Run, functions, nearest,
};
use model::{MAX_RELEASE_ID_LEN, ReleaseId, hex, text::is_unprintable};
use protocol::{
    ab_releases::{EnvironmentDefaults, EnvironmentPort, EnvironmentSpec, VersionSpec},
    canary_releases::{
        CanaryPort, CanaryReleaseSpec, CanaryService, Manifest, ReleaseRun, ReleaseService, ReleaseSpec,
        ReleaseVersion,
    },
};
use serde_json::{Map, Value};
use traffic::desired::{Name, TlsEnd, is_path};

use super::{
    parts,
    words::{listed, one_line, quoted},
};

/// Longest configuration of a version, in bytes: 32 KiB.
pub const MAX_CONFIG_BYTES: usize = 32 * 1024;

/// The most services of a release.
pub(super) const MAX_SERVICES: usize = 64;

/// The most versions of a release.
pub(super) const MAX_VERSIONS: usize = 100;

/// The most ports of a service: as many as strategies have.
pub(super) const MAX_PORTS: usize = 16;

/// The most ports of a canary's services together: each has a service and a stage of its own in its strategy.
pub(super) const MAX_TOGETHER: usize = if MAX_FUNCTIONS < MAX_STAGES { MAX_FUNCTIONS } else { MAX_STAGES };

/// The part of a release that isn't named.
pub(super) const ROOT: &str = "/";

/// What calls of the API name the watched folder, where others name a canary.
const FOLDER: &str = "folder";

/// A canary that may be what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    pub name: String,
    /// With a path, a configuration that is a text, and services with one port or more, each of which has a weight.
    pub spec: CanaryReleaseSpec,
    /// What each part of it may use that is started.
    pub limits: Resources,
    pub transition: Transition,
    /// The file of the watched folder in which it stands; `None`: somebody submits it.
    pub file: Option<String>,
}

/// What becomes of a canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transition {
    /// Calls are shared.
    #[default]
    None,
    /// The release becomes what the canary is.
    Adopted,
    /// All is as it was.
    Deprecated,
}

impl Transition {
    fn named(name: &str) -> Option<Self> {
        match name {
            "" => Some(Self::None),
            "Adopted" => Some(Self::Adopted),
            "Deprecated" => Some(Self::Deprecated),
            _ => None,
        }
    }
}

/// # Errors
///
/// The first field that can't be taken.
pub(super) fn canary(manifest: Manifest<CanaryReleaseSpec>) -> Result<Canary, Fault> {
    let Manifest { metadata, mut spec, .. } = manifest;
    release_id(&metadata.name, MAX_RELEASE_ID_LEN)?;
    if metadata.name == FOLDER {
        let why = "calls about canaries name the watched folder so: take another name";
        return Err(Fault::new("metadata.name", why));
    }
    spec.release.parse::<Name>().map_err(|error| Fault::new("spec.release", error.to_string()))?;
    if spec.path.is_empty() {
        ROOT.clone_into(&mut spec.path);
    }
    check_node("spec.path", &spec.path)?;
    if spec.config.is_null() {
        spec.config = Value::String(String::new());
    }
    let config = spec.config.as_str();
    let config =
        config.ok_or_else(|| Fault::new("spec.config", "it is text: put it in quotes, or behind |"))?;
    check_config(config)?;
    check_services(&spec.services)?;
    let limits = limits(&spec.resources)?;
    let transition = Transition::named(&spec.transition)
        .ok_or_else(|| Fault::new("spec.transition", "it is Adopted or Deprecated, or left out"))?;
    Ok(Canary { name: metadata.name, spec, limits, transition, file: None })
}

/// What `resources` says, of a canary or of a release: of what Kubernetes has there, what runtimes can hold.
///
/// # Errors
///
/// The first field that can't be taken.
pub(super) fn limits(resources: &Map<String, Value>) -> Result<Resources, Fault> {
    let mut limits = Resources::default();
    for (key, value) in resources {
        let field = format!("spec.resources.{}", plain(key));
        match key.as_str() {
            "limits" => {}
            "requests" => {
                let why = "nothing is set aside for anybody here: write what it may use at most as limits";
                return Err(Fault::new(field, why));
            }
            _ => {
                return Err(Fault::new(
                    field,
                    "nothing here holds it: only limits of cpu and memory are held",
                ));
            }
        }
        let all = value.as_object();
        let all =
            all.ok_or_else(|| Fault::new(&*field, "it is a mapping, as in {cpu: 500m, memory: 128Mi}"))?;
        for (name, quantity) in all {
            let field = format!("{field}.{}", plain(name));
            let text = match quantity {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => String::new(),
            };
            let wrong = |rule: &str| Fault::new(&*field, format!("{} can't be held: {rule}", quoted(&text)));
            match name.as_str() {
                "cpu" => limits.cpu = Some(Resources::read_cpu(&text).ok_or_else(|| wrong(CPU_RULE))?),
                "memory" => {
                    limits.memory = Some(Resources::read_memory(&text).ok_or_else(|| wrong(MEMORY_RULE))?);
                }
                _ => return Err(Fault::new(field, "no runtime holds it: only cpu and memory are held")),
            }
        }
    }
    Ok(limits)
}

/// What [`limits`] reads as these; nothing where there is none.
pub(super) fn resources(limits: Resources) -> Map<String, Value> {
    let limits = limits.quantities().into_iter();
    let limits: Map<String, Value> =
        limits.map(|(name, text)| (name.to_owned(), Value::String(text))).collect();
    let all = (!limits.is_empty()).then(|| ("limits".to_owned(), Value::Object(limits)));
    all.into_iter().collect()
}

/// A key that somebody wrote, as part of a field's name.
fn plain(key: &str) -> String {
    key.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// The id of the release that a canary is: its name, as it stands there, so that whoever has the one has the other.
///
/// # Errors
///
/// It is no id of so many bytes.
pub(super) fn release_id(name: &str, longest: usize) -> Result<ReleaseId, Fault> {
    let id = ReleaseId::parse(name).ok().filter(|_| name.len() <= longest);
    id.ok_or_else(|| {
        Fault::new("metadata.name", format!("it has 1 to {longest} letters, digits and . _ ~ -"))
    })
}

fn check_services(services: &[CanaryService]) -> Result<(), Fault> {
    if services.is_empty() {
        let why = "without a service there is nothing to share: name one";
        return Err(Fault::new("spec.services", why));
    }
    if services.len() > MAX_SERVICES {
        let why = format!("a canary has at most {MAX_SERVICES} services");
        return Err(Fault::new("spec.services", why));
    }
    for (at, service) in services.iter().enumerate() {
        let name = &service.service;
        if services[..at].iter().any(|before| before.service == *name) {
            let why = format!("service {} is named twice", quoted(name));
            return Err(Fault::new(format!("spec.services[{at}].service"), why));
        }
        check_weights(&format!("spec.services[{at}].ports"), &service.ports)?;
    }
    Ok(())
}

/// Each port is there once, and has a weight. `field`: of the ports.
fn check_weights(field: &str, ports: &[CanaryPort]) -> Result<(), Fault> {
    check_ports(field, ports.len())?;
    for (at, port) in ports.iter().enumerate() {
        let field = |name: &str| format!("{field}[{at}].{name}");
        if ports[..at].iter().any(|before| before.port == port.port) {
            return Err(Fault::new(field("port"), format!("port {} is named twice", port.port)));
        }
        let given = port.config.weight;
        let given =
            given.ok_or_else(|| Fault::new(field("config.weight"), "there is none: write 0 to 100"))?;
        if !(0..=100).contains(&given) {
            let why = format!("{given} is no weight: it is from 0 to 100");
            return Err(Fault::new(field("config.weight"), why));
        }
    }
    Ok(())
}

fn check_ports(field: &str, count: usize) -> Result<(), Fault> {
    match count {
        0 => Err(Fault::new(field, "a service has ports whose calls are shared: name one")),
        1..=MAX_PORTS => Ok(()),
        _ => Err(Fault::new(field, format!("a service has at most {MAX_PORTS} ports"))),
    }
}

/// The path of a part of a release.
fn check_node(field: &str, path: &str) -> Result<(), Fault> {
    if path == ROOT || is_path(path) {
        return Ok(());
    }
    let why = format!("{} is no path of whole segments, as in /api; / is the release itself", quoted(path));
    Err(Fault::new(field, why))
}

fn check_config(text: &str) -> Result<(), Fault> {
    if text.len() > MAX_CONFIG_BYTES {
        let why = format!("it has at most {MAX_CONFIG_BYTES} bytes, this one has {}", text.len());
        return Err(Fault::new("spec.config", why));
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        return Err(Fault::new("spec.config", "it has no control characters but line breaks and tabs"));
    }
    Ok(())
}

/// # Errors
///
/// The first field that can't be taken.
pub(super) fn release(manifest: Manifest<ReleaseSpec>) -> Result<ReleaseSpec, Fault> {
    let Manifest { metadata, mut spec, .. } = manifest;
    if !spec.name.is_empty() && spec.name != metadata.name {
        return Err(Fault::new("spec.name", "metadata.name says it: leave it out"));
    }
    spec.name = metadata.name;
    check_release(&spec)?;
    Ok(spec)
}

/// Whether a release can be registered so. Fields are called as in its manifest.
///
/// # Errors
///
/// The first field that can't be taken.
pub fn check_release(spec: &ReleaseSpec) -> Result<(), Fault> {
    spec.name.parse::<Name>().map_err(|error| Fault::new("metadata.name", error.to_string()))?;
    check_labels(spec)?;
    if spec.services.is_empty() || spec.services.len() > MAX_SERVICES {
        return Err(Fault::new("spec.services", format!("a release has 1 to {MAX_SERVICES} services")));
    }
    for (at, service) in spec.services.iter().enumerate() {
        if spec.services[..at].iter().any(|before| before.name == service.name) {
            let why = format!("there are two services {}", quoted(&service.name));
            return Err(Fault::new(format!("spec.services[{at}].name"), why));
        }
        check_service(spec, at, service)?;
    }
    parts::check(&spec.services)?;
    if spec.versions.is_empty() || spec.versions.len() > MAX_VERSIONS {
        return Err(Fault::new("spec.versions", format!("a release has 1 to {MAX_VERSIONS} versions")));
    }
    for (at, version) in spec.versions.iter().enumerate() {
        let field = format!("spec.versions[{at}]");
        if version.version < 1 {
            let why = format!("{} is no version: they count from 1", version.version);
            return Err(Fault::new(format!("{field}.version"), why));
        }
        if spec.versions[..at].iter().any(|before| before.version == version.version) {
            let why = format!("there are two versions {}", version.version);
            return Err(Fault::new(format!("{field}.version"), why));
        }
        check_places(spec, &field, version)?;
    }
    version_of(spec, spec.version)?;
    if !limits(&spec.resources)?.is_empty() && spec.versions.iter().all(|version| version.run.is_empty()) {
        let why = "no version of it is started, so nothing here limits them: leave it out";
        return Err(Fault::new("spec.resources", why));
    }
    check_config(&spec.config)
}

/// A version of a release, by its number.
///
/// # Errors
///
/// There is none.
pub(super) fn version_of(of: &ReleaseSpec, number: i32) -> Result<&ReleaseVersion, Fault> {
    let found = of.versions.iter().find(|version| version.version == number);
    found.ok_or_else(|| {
        let known = listed(of.versions.iter().map(|version| version.version));
        Fault::new("spec.version", format!("release {} has no version {number}; it has {known}", of.name))
    })
}

/// What strategies refuse, and what is registered elsewhere is not held to.
fn check_labels(spec: &ReleaseSpec) -> Result<(), Fault> {
    if spec.routers.len() > MAX_TARGET_LABELS {
        return Err(Fault::new("spec.routers", format!("at most {MAX_TARGET_LABELS} labels")));
    }
    let is_bad = |text: &String| {
        text.trim().is_empty() || text.len() > MAX_NAME_BYTES || text.chars().any(is_unprintable)
    };
    if spec.routers.iter().any(|(key, value)| is_bad(key) || is_bad(value)) {
        let why = format!(
            "a label has a key and a value, each of at most {MAX_NAME_BYTES} bytes without control characters"
        );
        return Err(Fault::new("spec.routers", why));
    }
    Ok(())
}

fn check_service(spec: &ReleaseSpec, at: usize, service: &ReleaseService) -> Result<(), Fault> {
    let field = format!("spec.services[{at}]");
    service.name.parse::<Name>().map_err(|error| Fault::new(format!("{field}.name"), error.to_string()))?;
    check_node(&format!("{field}.path"), &service.path)?;
    check_ports(&format!("{field}.ports"), service.ports.len())?;
    let environment = EnvironmentSpec {
        name: spec.name.clone(),
        service: service.name.clone(),
        routers: spec.routers.clone(),
        ports: service.ports.clone(),
        defaults: EnvironmentDefaults::default(),
    };
    check_environment(&environment).map_err(|Fault { field: inner, why }| match inner.as_str() {
        "routers" => Fault::new("spec.routers", why),
        _ => Fault::new(format!("{field}.{inner}"), why),
    })?;
    let passes = |port: &EnvironmentPort| port.tls.as_deref() == Some(TlsEnd::Pass.name());
    let passing = service.ports.iter().filter(|port| passes(port)).count();
    if passing > 0 && passing < service.ports.len() {
        let why = "TLS passes at all ports of a service or at none: make services of them";
        return Err(Fault::new(format!("{field}.ports"), why));
    }
    let protocols = service.ports.iter().filter_map(|port| protocol(&port.protocol));
    let kinds: BTreeSet<&str> =
        protocols.map(|one| if one.is_http() { Protocol::Http.name() } else { one.name() }).collect();
    if kinds.len() > 1 {
        let why = "the ports of a service are all of HTTP and HTTPS, all of TCP, or all of UDP: make services of them";
        return Err(Fault::new(format!("{field}.ports"), why));
    }
    let is_of = |protocol: Protocol| kinds.contains(protocol.name());
    check_flows(&field, service, (is_of(Protocol::Http) && passing == 0, is_of(Protocol::Udp)))
}

/// What is said of connections and flows.
fn check_flows(field: &str, service: &ReleaseService, (is_http, is_udp): (bool, bool)) -> Result<(), Fault> {
    let ReleaseService { proxy_protocol, drain, .. } = service;
    let is_known = |version: &str| ProxyProtocol::ALL.into_iter().any(|known| known.name() == version);
    let header = match proxy_protocol.as_deref() {
        Some(version) if !is_known(version) => Some("it is v1 or v2"),
        Some(_) if is_udp => Some("no header goes in front of datagrams: leave it out"),
        Some(_) | None => None,
    };
    if let Some(why) = header {
        return Err(Fault::new(format!("{field}.proxyProtocol"), why));
    }
    let stays = match drain.as_deref().map(language::drain) {
        Some(None) => Some("it is from 0s to 30d, in whole seconds, as in 1h"),
        Some(Some(_)) if is_http => Some("calls of HTTP end by themselves: leave it out"),
        Some(Some(_)) | None => None,
    };
    stays.map_or(Ok(()), |why| Err(Fault::new(format!("{field}.drain"), why)))
}

/// A protocol by its name.
fn protocol(name: &str) -> Option<Protocol> {
    Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)
}

/// Each service has targets, or something that is started for it, and nothing else has.
fn check_places(spec: &ReleaseSpec, version_field: &str, version: &ReleaseVersion) -> Result<(), Fault> {
    let field = |service: &str| format!("{version_field}.targets.{service}");
    let is_known = |name: &String| spec.services.iter().any(|service| service.name == *name);
    let unknown = |name: &String| no_service(&spec.name, name, service_names(spec));
    if let Some(name) = version.targets.keys().find(|name| !is_known(name)) {
        return Err(Fault::new(field(&plain(name)), unknown(name)));
    }
    if let Some(name) = version.run.keys().find(|name| !is_known(name)) {
        return Err(Fault::new(format!("{version_field}.run.{}", plain(name)), unknown(name)));
    }
    for service in &spec.services {
        let name = &service.name;
        if let Some(run) = version.run.get(name) {
            let field = format!("{version_field}.run.{name}");
            if version.targets.contains_key(name) {
                return Err(Fault::new(field, "it has targets as well: leave one of the two out"));
            }
            check_run(&field, service, run)?;
            continue;
        }
        let targets = version.targets.get(name).filter(|targets| !targets.is_empty());
        let targets = targets.ok_or_else(|| {
            let why =
                format!("version {} of service {name} has no targets: name at least one", version.version);
            Fault::new(field(name), why)
        })?;
        let made_up = VersionSpec {
            name: format!("v{}", version.version),
            targets: targets.clone(),
            digest: None,
            path: None,
            env: None,
        };
        check_version(&made_up).map_err(|Fault { field: inner, why }| {
            let place = inner.strip_prefix("targets").unwrap_or_default();
            Fault::new(field(name) + place, why)
        })?;
    }
    Ok(())
}

fn service_names(of: &ReleaseSpec) -> Vec<&str> {
    of.services.iter().map(|service| service.name.as_str()).collect()
}

/// What is to be started for a service.
fn check_run(field: &str, service: &ReleaseService, run: &ReleaseRun) -> Result<(), Fault> {
    let ReleaseRun { archive, path, env } = run;
    if service.ports.iter().any(|port| port.protocol == Protocol::Udp.name()) {
        let why = "of UDP nobody can tell when what is started answers: give it targets";
        return Err(Fault::new(field, why));
    }
    if archive.as_ref().is_some_and(|text| text.len() != 64 || !hex::is_encoded(text)) {
        let why = "it is SHA-256 in 64 hexadecimal digits, in small letters";
        return Err(Fault::new(format!("{field}.archive"), why));
    }
    if let Err(error) = functions::safe(path) {
        return Err(Fault::new(format!("{field}.path"), one_line(&error.to_string())));
    }
    match env.as_deref() {
        Some(env) if !Run::FORMS.contains(&env) => {
            let why = format!("it is {}, which take calls at $HOST:$PORT", Run::FORMS.join(" or "));
            Err(Fault::new(format!("{field}.env"), why))
        }
        Some(_) | None => Ok(()),
    }
}

/// That a release has no such service.
pub(super) fn no_service(release: &str, name: &str, known: Vec<&str>) -> String {
    let start = format!("release {release} has no service {}", quoted(name));
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("{start}; did you mean {near}?"),
        None => format!("{start}; it has {}", listed(known)),
    }
}

/// Where a version of a service listens, in an order that doesn't depend on how it is written.
pub(super) fn targets_of(version: &ReleaseVersion, service: &str) -> BTreeSet<CallTarget> {
    let all = version.targets.get(service).into_iter().flatten();
    all.filter_map(|text| text.parse().ok()).collect()
}
