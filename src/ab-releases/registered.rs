//! What may be registered.

use std::str::FromStr;

use model::hex;
use protocol::ab_releases::{EnvironmentPort, EnvironmentSpec, HealthCheck, TargetGroupSpec, VersionSpec};
use traffic::desired::{
    MAX_HOSTS, MAX_LISTENS, MAX_TARGETS, Name, Protocol, Target, TlsEnd, is_check_path, is_host, is_path,
};

use super::translate::{Fault, sticky_of};

/// The most labels of a selector.
const MAX_LABELS: usize = 64;

/// Longest key or value of a label, in bytes.
const MAX_LABEL_BYTES: usize = 256;

/// Longest name of a folder or a runtime, in bytes.
const MAX_WORD_BYTES: usize = 256;

/// # Errors
///
/// The field that can't be taken.
pub fn check_environment(spec: &EnvironmentSpec) -> Result<(), Fault> {
    word("name", &spec.name)?;
    word("service", &spec.service)?;
    labels("routers", spec.routers.iter())?;
    if spec.ports.len() > MAX_LISTENS {
        return Err(Fault::new("ports", format!("an environment has at most {MAX_LISTENS} ports")));
    }
    if spec.ports.is_empty() && !spec.routers.is_empty() {
        return Err(Fault::new(
            "ports",
            "routers need to know where the service takes calls: at least one port",
        ));
    }
    if spec.ports.is_empty() && spec.defaults.health_check.is_some() {
        let why = "routers look at targets, and without ports there are none";
        return Err(Fault::new("defaults.healthCheck", why));
    }
    for (at, port) in spec.ports.iter().enumerate() {
        let field = format!("ports[{at}]");
        let is_twice = spec.ports[..at].iter().any(|before| before.port == port.port);
        if port.port == 0 || is_twice {
            return Err(Fault::new(format!("{field}.port"), "a port is from 1 to 65535, and named once"));
        }
        if protocol(&port.protocol).is_none() {
            return Err(Fault::new(format!("{field}.protocol"), "it is HTTP, HTTPS, TCP or UDP"));
        }
        check_route(&field, port)?;
    }
    if let Some(key) = &spec.defaults.sticky_key {
        sticky_of(key).map_err(|why| Fault::new("defaults.stickyKey", why))?;
    }
    spec.defaults.health_check.as_ref().map_or(Ok(()), check_health)
}

fn check_route(field: &str, port: &EnvironmentPort) -> Result<(), Fault> {
    let EnvironmentPort { protocol: named, hosts, path, tls, .. } = port;
    let tls = tls.as_deref().map(|word| TlsEnd::ALL.into_iter().find(|end| end.name() == word));
    let why = match tls {
        Some(None) => Some("it is certificate or pass"),
        Some(Some(_)) if protocol(named) != Some(Protocol::Https) => Some("that is of HTTPS alone"),
        Some(Some(TlsEnd::Pass)) if path.is_some() => {
            Some("nobody sees the paths of calls that pass unopened: leave path out")
        }
        Some(Some(_)) | None => None,
    };
    if let Some(why) = why {
        return Err(Fault::new(format!("{field}.tls"), why));
    }
    let is_routed = !hosts.is_empty() || path.is_some();
    if is_routed && !protocol(named).is_some_and(Protocol::is_http) {
        return Err(Fault::new(field, "hosts and a path are of HTTP and HTTPS alone"));
    }
    if hosts.len() > MAX_HOSTS {
        return Err(Fault::new(format!("{field}.hosts"), format!("at most {MAX_HOSTS} of them")));
    }
    for (at, host) in hosts.iter().enumerate() {
        if !is_host(host) || hosts[..at].contains(host) {
            let why = "it is a name in small letters, as in shop.example, and named once";
            return Err(Fault::new(format!("{field}.hosts[{at}]"), why));
        }
    }
    match path.as_deref().filter(|path| !is_path(path)) {
        Some(_) => Err(Fault::new(format!("{field}.path"), "it is a path of whole segments, as in /api")),
        None => Ok(()),
    }
}

fn check_health(check: &HealthCheck) -> Result<(), Fault> {
    if !is_check_path(&check.path) {
        return Err(Fault::new("defaults.healthCheck.path", "write a path that begins with /, as in /ready"));
    }
    if !(0.1..=3_600.0).contains(&check.interval) {
        return Err(Fault::new("defaults.healthCheck.interval", "it is from 0.1 to 3600 seconds"));
    }
    if !(0.1..=60.0).contains(&check.timeout) {
        return Err(Fault::new("defaults.healthCheck.timeout", "it is from 0.1 to 60 seconds"));
    }
    Ok(())
}

/// # Errors
///
/// The field that can't be taken.
pub fn check_group(spec: &TargetGroupSpec) -> Result<(), Fault> {
    word("name", &spec.name)?;
    labels("labels", spec.labels.iter())?;
    targets("addresses", &spec.addresses)?;
    match (spec.labels.is_empty(), spec.addresses.is_empty()) {
        (true, true) => Err(Fault::new("labels", "a target group has labels of agents, or addresses")),
        (false, false) => {
            Err(Fault::new("addresses", "a target group has either labels of agents or addresses"))
        }
        _ => Ok(()),
    }
}

/// # Errors
///
/// The field that can't be taken.
pub fn check_version(spec: &VersionSpec) -> Result<(), Fault> {
    word("name", &spec.name)?;
    targets("targets", &spec.targets)?;
    if spec.digest.as_deref().is_some_and(|digest| digest.len() != 64 || !hex::is_encoded(digest)) {
        return Err(Fault::new("digest", "it is SHA-256 in 64 hexadecimal digits, in small letters"));
    }
    for (field, text) in [("path", &spec.path), ("env", &spec.env)] {
        let is_bad = |text: &String| {
            text.is_empty() || text.len() > MAX_WORD_BYTES || text.chars().any(char::is_control)
        };
        if text.as_ref().is_some_and(is_bad) {
            return Err(Fault::new(
                field,
                format!("it has 1 to {MAX_WORD_BYTES} bytes without control characters"),
            ));
        }
    }
    match (spec.targets.is_empty(), &spec.digest) {
        (true, None) => Err(Fault::new("targets", "a version has targets, or the digest of an archive")),
        _ => Ok(()),
    }
}

fn word(field: &str, text: &str) -> Result<(), Fault> {
    Name::from_str(text).map(drop).map_err(|error| Fault::new(field, error.to_string()))
}

fn labels<'l>(
    field: &str,
    all: impl ExactSizeIterator<Item = (&'l String, &'l String)>,
) -> Result<(), Fault> {
    if all.len() > MAX_LABELS {
        return Err(Fault::new(field, format!("at most {MAX_LABELS} labels")));
    }
    for (key, value) in all {
        let is_bad = |text: &str| text.len() > MAX_LABEL_BYTES || text.chars().any(char::is_control);
        if key.is_empty() || is_bad(key) || is_bad(value) {
            let why =
                format!("a label has at most {MAX_LABEL_BYTES} bytes, a key, and no control characters");
            return Err(Fault::new(field, why));
        }
    }
    Ok(())
}

fn targets(field: &str, all: &[String]) -> Result<(), Fault> {
    if all.len() > MAX_TARGETS {
        return Err(Fault::new(field, format!("at most {MAX_TARGETS} of them")));
    }
    for (at, text) in all.iter().enumerate() {
        let target = Target::from_str(text)
            .map_err(|error| Fault::new(format!("{field}[{at}]"), error.to_string()))?;
        let is_twice = all[..at].iter().any(|before| before.parse::<Target>().as_ref() == Ok(&target));
        if is_twice {
            return Err(Fault::new(format!("{field}[{at}]"), format!("{target} is named twice")));
        }
    }
    Ok(())
}

/// A protocol by its name.
pub(super) fn protocol(text: &str) -> Option<Protocol> {
    Protocol::ALL.into_iter().find(|protocol| protocol.name() == text)
}
