//! A release of a service begins with what serves now: else whoever goes back would go somewhere nobody has been.

use crate::{
    children::Variant,
    plan::Plan,
    release::{
        command::{OtherBase, Refusal},
        state::State,
    },
    traffic::ProvenService,
};
use language::{Base, Service, Strategy};
use model::{ChildKey, ReleaseKey, traffic::LedVariation};

/// Refuses a release whose stable variation isn't what serves now, at a router that takes part and of which that is known.
/// `plan`: who takes part, asked for only where that matters.
///
/// While another release of a subject is not over, what serves once this one begins isn't known yet: then the agents alone refuse it.
pub(super) fn check<'p>(
    state: &State,
    strategy: &Strategy,
    key: ReleaseKey,
    plan: impl FnOnce() -> &'p Plan,
) -> Result<(), Refusal> {
    // Where something is started listens is its runtime's choice, and which content serves the agents alone know.
    let is_started = |service: &Service| {
        let stable = service.variations.first();
        stable.is_some_and(|stable| service.runs.contains_key(stable.name.as_str()))
    };
    let is_asked = |service: &&Service| service.base == Base::Serving && !is_started(service);
    let mut known = strategy.services.iter().filter(is_asked).peekable();
    let is_known = known.peek().is_some() && !state.traffic.is_empty();
    if !is_known || state.conflicts(strategy, key).next().is_some() {
        return Ok(());
    }
    let plan = plan();
    for service in known {
        for (child, _, led) in state.traffic.of_service(service.name()) {
            let Some(standing) = led.standing.as_deref() else { continue };
            if plan.members.binary_search(&child).is_err() || is_outdated(state, child, service, standing) {
                continue;
            }
            let router = || state.children.get(child).map(|child| child.id.as_str().to_owned());
            if let Some((stable, serving)) = differ(service, standing) {
                let (service, router) = (service.name().to_owned(), router().unwrap_or_default());
                return Err(Refusal::OtherBase(Box::new(OtherBase { service, router, stable, serving })));
            }
        }
    }
    Ok(())
}

/// Whether a later release has been rolled out there than the one by which the router said last that it stands: it has told its
/// result, and its next report is on its way.
fn is_outdated(state: &State, child: ChildKey, service: &Service, standing: &ProvenService) -> bool {
    let told = standing.release.as_ref().and_then(|id| state.known.get(id)).map(|known| known.key);
    let ended = state.deployment(child, service.key()).filter(|ended| ended.variant == Variant::New);
    ended.is_some_and(|ended| told != Some(ended.release))
}

/// The stable variation and what serves, in words, where these are not the same targets.
fn differ(service: &Service, standing: &ProvenService) -> Option<(String, String)> {
    let all = service.variations.iter().map(|one| {
        let targets = one.targets.iter().map(ToString::to_string).collect();
        LedVariation { name: one.name.to_string(), targets, health: None }
    });
    let all: Vec<LedVariation> = all.collect();
    let led = &standing.led.variations;
    let is_same =
        |(one, other): (&LedVariation, &LedVariation)| one.name == other.name && sorted(one) == sorted(other);
    // The same release once more, under another id.
    if all.len() == led.len() && all.iter().zip(led).all(is_same) {
        return None;
    }
    let (stable, serving) = (all.first()?, led.get(standing.serving()?)?);
    (sorted(stable) != sorted(serving)).then(|| (words(stable), words(serving)))
}

fn sorted(variation: &LedVariation) -> Vec<&str> {
    let mut targets: Vec<&str> = variation.targets.iter().map(String::as_str).collect();
    targets.sort_unstable();
    targets
}

fn words(variation: &LedVariation) -> String {
    format!("{} at {}", variation.name, variation.targets.join(", "))
}
