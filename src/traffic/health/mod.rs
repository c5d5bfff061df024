//! Which targets are there, and what a router is to do while some are not.
//!
//! Each target of a variation with health checks is looked at by itself ([`Checks`]); services that share a target and how it is
//! looked at share the check. From what was found so far ([`Health`]) and what is wanted follows what is to be in force now
//! ([`effective`]). It is computed anew from the whole of both, so that who was taken out comes back exactly as before.
//!
//! The rule, which says of each target whether it *counts as there*:
//!
//! | the target | of the stable variation | of another one |
//! |---|---|---|
//! | isn't checked | yes | yes |
//! | healthy: `healthy_after` good checks in a row, and since then never `unhealthy_after` bad ones | yes | yes |
//! | unhealthy: `unhealthy_after` bad ones in a row, and since then never `healthy_after` good ones | no | no |
//! | unknown: neither yet | yes | only if it has calls already |
//!
//! A variation other than the stable one of which no target counts as there is *emptied*: whoever would get it, by a bucket or by
//! the header rule, gets the stable one. Of all others the targets that don't count as there are taken out, where the router can do
//! that ([`Grain`]). The stable variation is never emptied: with all its targets unhealthy it serves on all, which is an alarm.
//!
//! Invariants, which `tests/traffic/health.rs` asserts:
//!
//! 1. No bucket and no value of a header rule leads to a variation, other than the stable one, without a target that counts as there.
//! 2. The stable variation has all its buckets and those of emptied variations; it always has a target.
//! 3. Exactly the buckets of emptied variations differ from what is wanted, and none once they are healthy again.
//! 4. The effective state differs from the wanted one just where a [`Departure`] says so, with both values.
//!
//! Why unknown targets count as they do:
//!
//! - If they counted as there for a candidate, the first share of a release would go to a version of which nobody has seen an answer:
//!   with three bad checks 2 s apart, six seconds of errors for that share of users.
//! - If they never did, whoever checks would empty each candidate whenever it is started: with 50 % wanted, half of all users
//!   would be thrown to the stable version and back two checks later. So a target that the router was seen to send calls to keeps
//!   them until it is proven bad, and gets no first ones before it is proven good.
//! - If they didn't count as there for the stable variation, all calls would go to whichever of its targets is proven first.
//!
//! Why a candidate is emptied even where no target of the stable variation is there either: what both depend on may be away, and the
//! checks of one find that before those of the other. If a second outage brought calls back to the candidate, users would move up
//! to four times in one outage, by which check came first; so they move at most twice, and never to a version that failed its checks
//! and isn't trusted yet. A wanted state whose candidate has taken over names that as the stable variation.

mod checks;
mod departure;
mod effective;

use std::{collections::BTreeMap, sync::Arc};

pub use self::{
    checks::{Checks, JITTER},
    departure::{Departure, DepartureChange, turns},
    effective::{Effective, Grain, effective},
};
use crate::{
    Variation as Which,
    desired::{self, Service, Target},
};

/// A target and how it is looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probe {
    pub target: Target,
    pub how: desired::Health,
}

/// What the checks of a target have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Verdict {
    /// Not enough of one kind in a row yet.
    #[default]
    Unknown,
    Healthy,
    Unhealthy,
}

/// What is known of targets. Cheap to clone, and never changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health(Arc<BTreeMap<Target, Ways>>);

/// What each way to look at a target has come to.
type Ways = Vec<(Arc<Probe>, Verdict)>;

impl FromIterator<(Arc<Probe>, Verdict)> for Health {
    fn from_iter<I: IntoIterator<Item = (Arc<Probe>, Verdict)>>(all: I) -> Self {
        let mut by_target: BTreeMap<Target, Ways> = BTreeMap::new();
        for (probe, verdict) in all {
            by_target.entry(probe.target.clone()).or_default().push((probe, verdict));
        }
        Self(Arc::new(by_target))
    }
}

impl Health {
    /// What is known of a target by this way to look at it.
    #[must_use]
    pub fn verdict(&self, target: &Target, how: &desired::Health) -> Verdict {
        let ways = self.0.get(target).into_iter().flatten();
        ways.filter(|(probe, _)| probe.how == *how).map(|(_, verdict)| *verdict).next().unwrap_or_default()
    }

    /// What is known of each target of a service; none of those that aren't checked.
    pub fn of<'s>(
        &'s self,
        service: &'s Service,
    ) -> impl Iterator<Item = (Which, &'s Target, Option<Verdict>)> {
        service.variants().flat_map(move |variant| {
            let how = variant.variation.health.as_ref();
            let verdict = move |target| how.map(|how| self.verdict(target, how));
            variant.variation.targets.iter().map(move |target| (variant.which, target, verdict(target)))
        })
    }
}
