//! A canary as it is shown: as a manifest with a status.

use domain::release::state::{End, ReleaseState};
use language::{Resources, Service, Strategy};
use model::traffic::Listen;
use protocol::{
    canary_releases::{
        CanaryConfig, CanaryMetadata, CanaryPort, CanaryRelease, CanaryReleaseSpec, CanaryService,
        ReleaseSpec,
    },
    time::rfc3339,
};
use serde_json::Value;

use super::{
    Life, crd,
    form::{ROOT, resources},
    parts::service_of,
    read::CANARY_RELEASE,
    status::status,
    translate::{share_of, stages_of},
};

/// What beside its life is known of a canary.
#[derive(Debug, Clone, Copy)]
pub struct Details<'r> {
    /// What the release is once the canary is adopted; `None`: that is not known any more.
    pub adopted: Option<&'r ReleaseSpec>,
    pub uid: &'r str,
    /// Who submitted it, if anybody said so.
    pub by: Option<&'r str>,
}

/// A canary with its status.
#[must_use]
pub fn show(details: Details<'_>, life: &Life<'_>) -> CanaryRelease {
    CanaryRelease {
        api_version: format!("{}/{}", crd::GROUP, crd::VERSION),
        kind: CANARY_RELEASE.to_owned(),
        metadata: CanaryMetadata {
            name: life.recorded.release.clone(),
            uid: details.uid.to_owned(),
            creation_timestamp: rfc3339(life.submitted),
            created_by: details.by.map(str::to_owned),
        },
        spec: spec(details.adopted, life),
        status: status(life),
    }
}

/// As it was submitted, as far as its strategy and what it adopts tell.
fn spec(adopted: Option<&ReleaseSpec>, life: &Life<'_>) -> CanaryReleaseSpec {
    let of = |part: &str| adopted.and_then(|of| service_of(&of.services, part));
    let first = life.strategy.services.first();
    let path = first.and_then(|first| of(first.name())).map(|service| service.path.clone());
    let mut services: Vec<CanaryService> = Vec::new();
    for (part, stage) in life.strategy.services.iter().zip(stages_of(life.strategy)) {
        let name = of(part.name()).map_or(part.name(), |service| &service.name);
        let weight = stage.map_or(0, share_of) / 100;
        let ports = part.ports.iter().map(|at| port(at, weight));
        match services.iter_mut().find(|service| service.service == name) {
            Some(service) => service.ports.extend(ports),
            None => services.push(CanaryService { service: name.to_owned(), ports: ports.collect() }),
        }
    }
    CanaryReleaseSpec {
        release: life.release().to_owned(),
        version: life.version().parse().unwrap_or_default(),
        path: path.unwrap_or_else(|| ROOT.to_owned()),
        config: Value::String(adopted.map(|of| of.config.clone()).unwrap_or_default()),
        services,
        resources: resources(limits(life.strategy)),
        transition: transition(life).to_owned(),
    }
}

/// What the canary may use, by its manifest or by its release, though perhaps in other units: the same of each part that is started.
fn limits(strategy: &Strategy) -> Resources {
    let run = |service: &Service| Some(service.runs.get(service.variations.get(1)?.name.as_str())?.limits);
    strategy.services.iter().find_map(run).unwrap_or_default()
}

/// A port with what the canary gets of its calls, in percent.
fn port(at: &Listen, weight: u16) -> CanaryPort {
    CanaryPort {
        port: i32::from(at.port),
        protocol: at.protocol.name().to_owned(),
        config: CanaryConfig { weight: Some(i32::from(weight)) },
    }
}

/// What somebody wanted last to become of it.
const fn transition(life: &Life<'_>) -> &'static str {
    match life.course.state {
        ReleaseState::RollingBack { end: End::Aborted, .. }
        | ReleaseState::Over { end: End::Aborted, .. } => "Deprecated",
        ReleaseState::Over { end: End::Done, .. } => "Adopted",
        ReleaseState::Running | ReleaseState::Paused(_) | ReleaseState::AwaitingApproval { .. }
            if life.is_open =>
        {
            "Adopted"
        }
        ReleaseState::Planned
        | ReleaseState::Running
        | ReleaseState::Paused(_)
        | ReleaseState::AwaitingApproval { .. }
        | ReleaseState::RollingBack { .. }
        | ReleaseState::Over { .. } => "",
    }
}
