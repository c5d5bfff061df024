//! A canary as it is shown: as a manifest with a status.

use domain::release::state::{End, ReleaseState};
use language::{Service, Strategy};
use model::traffic::Listen;
use protocol::{
    canary_releases::{
        CanaryConfig, CanaryMetadata, CanaryPort, CanaryRelease, CanaryReleaseSpec, CanaryService,
        ReleaseSpec,
    },
    time::rfc3339,
};
use serde_json::{Map, Value};

use super::{Life, crd, form::ROOT, read::CANARY_RELEASE, status::status};

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
    let service = life.strategy.services.first();
    let at = adopted.zip(service).and_then(|(of, service)| {
        let found = of.services.iter().find(|known| known.name == service.name());
        found.map(|found| found.path.clone())
    });
    CanaryReleaseSpec {
        release: life.release().to_owned(),
        version: life.version().parse().unwrap_or_default(),
        path: at.unwrap_or_else(|| ROOT.to_owned()),
        config: Value::String(adopted.map(|of| of.config.clone()).unwrap_or_default()),
        services: service.map(|service| ports(service, weight_of(life.strategy))).into_iter().collect(),
        resources: service.map(resources).unwrap_or_default(),
        transition: transition(life).to_owned(),
    }
}

/// What the canary may use, as its manifest said it, though perhaps in other units.
fn resources(service: &Service) -> Map<String, Value> {
    let canary = service.variations.get(1).and_then(|canary| service.runs.get(canary.name.as_str()));
    let limits = canary.map(|run| run.limits.quantities()).unwrap_or_default();
    let limits: Map<String, Value> =
        limits.into_iter().map(|(name, text)| (name.to_owned(), Value::String(text))).collect();
    let all = (!limits.is_empty()).then(|| ("limits".to_owned(), Value::Object(limits)));
    all.into_iter().collect()
}

/// What the canary of a strategy is to get of the calls while it is tried, in percent.
#[must_use]
pub fn weight_of(strategy: &Strategy) -> u16 {
    let shares = strategy.stages.first().map(|stage| stage.shares.as_slice()).unwrap_or_default();
    shares.get(1).map_or(0, |share| share / 100)
}

/// A service with its ports, each of which has this weight.
fn ports(service: &Service, weight: u16) -> CanaryService {
    let port = |at: &Listen| CanaryPort {
        port: i32::from(at.port),
        protocol: at.protocol.name().to_owned(),
        config: CanaryConfig { weight: Some(i32::from(weight)) },
    };
    CanaryService { service: service.name().to_owned(), ports: service.ports.iter().map(port).collect() }
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
