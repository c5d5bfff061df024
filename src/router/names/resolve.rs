use std::collections::BTreeSet;

use traffic::{
    desired::{DesiredConfig, Host, MAX_TARGETS, Name, Service, Target, Variation, WantedError},
    observed::ObservedConfig,
};

use super::lookups::{Answers, Ports, Trouble, ports};

const NOT_YET: &str = "it wasn't looked at yet";

/// A wanted state in which every target is an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub wanted: DesiredConfig,
    /// Targets whose newest answer wasn't taken; the one before counts.
    pub stale: Vec<Unresolved>,
}

/// Why a wanted state can't be told to a router yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolvable {
    #[error(transparent)]
    Target(#[from] Box<Unresolved>),
    #[error("what names lead to doesn't fit together: {0}")]
    Whole(#[from] WantedError),
}

/// A target that has no address, or only an old one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the target {target} of variation {variation} of service {service}: {why}")]
pub struct Unresolved {
    pub service: Name,
    pub variation: Name,
    pub target: Target,
    pub why: String,
}

/// Puts addresses in the place of names. Where a name never had an answer, the targets count that the router was seen to have for
/// this variation at that port.
///
/// # Errors
///
/// The first target that has no address, or one that wasn't looked at yet.
pub fn resolve(
    wanted: &DesiredConfig,
    answers: &Answers,
    seen: Option<&ObservedConfig>,
) -> Result<Resolved, Unresolvable> {
    let ports = ports(wanted);
    let mut stale = Vec::new();
    let mut missing = None;
    let resolved = wanted.with_targets(|service, variation| {
        let stale = &mut stale;
        let mut of =
            Targets { service, variation, answers, seen, ports: &ports, stale, found: BTreeSet::new() };
        match of.add_all() {
            Ok(true) => Some(of.found.into_iter().take(MAX_TARGETS).collect()),
            Ok(false) => None,
            Err(unresolved) => {
                missing.get_or_insert(unresolved);
                None
            }
        }
    });
    match missing {
        Some(missing) => Err(missing.into()),
        None => Ok(Resolved { wanted: resolved?, stale }),
    }
}

struct Targets<'a> {
    service: &'a Service,
    variation: &'a Variation,
    answers: &'a Answers,
    seen: Option<&'a ObservedConfig>,
    ports: &'a Ports,
    stale: &'a mut Vec<Unresolved>,
    found: BTreeSet<Target>,
}

impl Targets<'_> {
    /// Adds the addresses of all targets. False: they are those that stand there.
    fn add_all(&mut self) -> Result<bool, Box<Unresolved>> {
        let mut has_names = false;
        let (variation, is_udp) = (self.variation, self.service.protocol().is_udp());
        for target in &variation.targets {
            let answer = self.answers.of(target, is_udp);
            let trouble = answer.and_then(|answer| answer.trouble.clone());
            let addresses = answer.and_then(|answer| answer.addresses.as_ref());
            match (&target.host, addresses) {
                (Host::Name(_), Some(addresses)) => {
                    has_names = true;
                    let hosts = addresses.iter().map(|address| Host::from(*address));
                    self.found.extend(hosts.map(|host| Target { host, port: target.port }));
                    let why = trouble.map(|trouble| self.unresolved(target, &trouble.to_string()));
                    self.stale.extend(why);
                }
                (Host::Name(_), None) => {
                    has_names = true;
                    let why = trouble.map_or_else(|| NOT_YET.to_owned(), |one| one.to_string());
                    let unresolved = self.unresolved(target, &why);
                    if !self.add_seen(target.port) {
                        return Err(Box::new(unresolved));
                    }
                    self.stale.push(unresolved);
                }
                (Host::Address(_), _) => {
                    if answer.is_none() && self.ports.contains(&(target.port, is_udp)) {
                        return Err(Box::new(self.unresolved(target, NOT_YET)));
                    }
                    if let Some(trouble @ Trouble::Loop(_)) = trouble {
                        return Err(Box::new(self.unresolved(target, &trouble.to_string())));
                    }
                    self.found.insert(target.clone());
                }
            }
        }
        Ok(has_names)
    }

    /// Adds what the router has at this port already. False: that is nothing.
    fn add_seen(&mut self, port: u16) -> bool {
        let service = self.seen.and_then(|seen| seen.services.get(self.service.name.as_str()));
        let variations = service.into_iter().flat_map(|service| &service.variations);
        let mut there = variations.filter(|there| there.name == self.variation.name.as_str());
        let targets = there.next().into_iter().flat_map(|there| &there.targets).map(|there| &there.target);
        let is_one = |target: &&Target| target.port == port && matches!(target.host, Host::Address(_));
        let targets: Vec<&Target> = targets.filter(is_one).collect();
        self.found.extend(targets.iter().copied().cloned());
        !targets.is_empty()
    }

    fn unresolved(&self, target: &Target, why: &str) -> Unresolved {
        Unresolved {
            service: self.service.name.clone(),
            variation: self.variation.name.clone(),
            target: target.clone(),
            why: why.to_owned(),
        }
    }
}
