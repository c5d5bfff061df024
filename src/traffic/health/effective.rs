use std::collections::BTreeSet;

use super::{Departure, Health, Verdict};
use crate::{
    Variation as Which,
    desired::{DesiredConfig, Name, Service, Target, Variant},
    observed::ObservedConfig,
};

/// What is to be in force now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Of the number of what is wanted.
    pub wanted: DesiredConfig,
    /// In what it differs from that, in the order of services and variations.
    pub departures: Vec<Departure>,
}

impl Effective {
    /// The same, but that these services are as they were before, of the same wanted state.
    #[must_use]
    pub fn keeping(self, before: &Self, kept: &BTreeSet<Name>) -> Self {
        let old = |service: &Service| before.wanted.service(service.name.as_str()).cloned();
        let wanted = self.wanted.map(|service| {
            let old = if kept.contains(&service.name) { old(service) } else { None };
            old.unwrap_or_else(|| service.clone())
        });
        let is_kept = |departure: &Departure| kept.contains(departure.service());
        let mut departures = self.departures;
        departures.retain(|departure| !is_kept(departure));
        departures.extend(before.departures.iter().filter(|departure| is_kept(departure)).cloned());
        departures.sort_by(|a, b| a.service().cmp(b.service()));
        Self { wanted, departures }
    }
}

/// What a router can take out and give back without any cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grain {
    /// Single targets.
    Target,
    /// A variation as a whole, by its buckets; single targets are spared by the router's own means.
    Variation,
}

/// What is left of a wanted state with what is known of its targets. `seen` is what the router was seen to do last: targets that get
/// calls there keep them until they are proven bad. The rule stands at the head of this module.
#[must_use]
pub fn effective(
    wanted: &DesiredConfig,
    health: &Health,
    seen: Option<&ObservedConfig>,
    grain: Grain,
) -> Effective {
    let mut departures = Vec::new();
    let left = wanted.map(|service| {
        let before = departures.len();
        let parts: Vec<Part> = service.variants().map(|one| Part::of(service, &one, health, seen)).collect();
        let is_emptied = |which: Which| parts.get(which.index()).is_some_and(|part| part.is_emptied);
        for (variant, part) in service.variants().zip(&parts) {
            departures.extend(part.departure(service, &variant, grain));
        }
        if departures.len() == before {
            return service.clone();
        }
        service.changed(|spec| {
            spec.table = spec.table.emptied(is_emptied);
            let asked = spec.rule.iter_mut().flat_map(|rule| &mut rule.values);
            asked.filter(|(_, which)| is_emptied(*which)).for_each(|(_, which)| *which = Which::STABLE);
            for (variation, part) in spec.variations.iter_mut().zip(&parts) {
                if grain == Grain::Target && !part.is_without() {
                    variation.targets.retain(|target| part.there.contains(target));
                }
            }
        })
    });
    Effective { wanted: left, departures }
}

/// What is known of one variation.
struct Part<'s> {
    there: BTreeSet<&'s Target>,
    is_emptied: bool,
    /// No target is proven bad.
    is_unproven: bool,
}

impl<'s> Part<'s> {
    fn of(service: &Service, variant: &Variant<'s>, health: &Health, seen: Option<&ObservedConfig>) -> Self {
        let targets = &variant.variation.targets;
        let verdict =
            |target: &Target| variant.variation.health.as_ref().map(|how| health.verdict(target, how));
        let counts_as_there = |target: &&Target| match verdict(target) {
            None | Some(Verdict::Healthy) => true,
            Some(Verdict::Unhealthy) => false,
            Some(Verdict::Unknown) => {
                variant.which.is_stable()
                    || seen.is_some_and(|seen| has_calls(seen, service, variant, target))
            }
        };
        let there: BTreeSet<&Target> = targets.iter().filter(counts_as_there).collect();
        Self {
            is_emptied: there.is_empty() && !variant.which.is_stable(),
            is_unproven: targets.iter().all(|target| verdict(target) != Some(Verdict::Unhealthy)),
            there,
        }
    }

    fn is_without(&self) -> bool {
        self.there.is_empty()
    }

    /// In what the effective state differs here from what is wanted.
    fn departure(&self, service: &Service, variant: &Variant<'_>, grain: Grain) -> Option<Departure> {
        let (name, variation) = (service.name.clone(), variant.variation.name.clone());
        let targets = &variant.variation.targets;
        if self.is_emptied {
            let asked = service.rule.iter().flat_map(|rule| &rule.values);
            let is_asked = asked.into_iter().any(|(_, which)| *which == variant.which);
            let wanted = variant.hundredths;
            return (wanted > 0 || is_asked).then_some(Departure::Emptied {
                service: name,
                variation,
                wanted,
                is_unproven: self.is_unproven,
            });
        }
        if self.is_without() {
            return Some(Departure::StableDown { service: name, variation, targets: targets.clone() });
        }
        (grain == Grain::Target && self.there.len() < targets.len()).then(|| Departure::TakenOut {
            service: name,
            variation,
            wanted: targets.clone(),
            serving: targets.iter().filter(|target| self.there.contains(target)).cloned().collect(),
        })
    }
}

/// Whether the router was seen to send calls to this target of this variation.
fn has_calls(seen: &ObservedConfig, service: &Service, variant: &Variant<'_>, target: &Target) -> bool {
    let there = seen.services.get(service.name.as_str()).into_iter().flat_map(|service| &service.variations);
    there
        .filter(|there| there.name == variant.variation.name.as_str() && there.hundredths > 0)
        .any(|there| there.targets.iter().any(|there| there.target == *target))
}
