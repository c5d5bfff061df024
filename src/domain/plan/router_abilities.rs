//! Whether each router of a release can lead what the release asks of it.

use super::{Fleet, Plan};
use language::{Protocol, RouterKind, Service, Strategy};
use model::ChildKey;

/// A service, and a router that takes part and can't lead it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmanagedRouter {
    pub service: String,
    pub protocol: Protocol,
    pub router: ChildKey,
    pub kind: String,
}

/// The first service that a router can't lead. A kind that isn't known here decides by itself, and so does a manager below.
///
/// `plan` is asked for only where some kind of router can't lead one of the services.
pub fn unmanaged<'p>(
    strategy: &Strategy,
    fleet: &impl Fleet,
    plan: impl FnOnce() -> &'p Plan,
) -> Option<UnmanagedRouter> {
    let hard: Vec<&Service> =
        strategy.services.iter().filter(|service| service.protocol() != Protocol::Http).collect();
    if hard.is_empty() {
        return None;
    }
    let plan = plan();
    plan.leaders().find_map(|router| {
        let candidate = fleet.candidate(router).filter(|candidate| !candidate.is_manager)?;
        let kinds = &candidate.capabilities?.routers;
        let cannot = |kind: &String, service: &Service| {
            RouterKind::named(kind)
                .is_some_and(|known| !known.abilities().protocols.contains(&service.protocol()))
        };
        let service = hard.iter().find(|service| kinds.iter().all(|kind| cannot(kind, service)))?;
        let kind = kinds.iter().next()?.clone();
        Some(UnmanagedRouter {
            service: service.name().to_owned(),
            protocol: service.protocol(),
            router,
            kind,
        })
    })
}
