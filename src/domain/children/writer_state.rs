//! What is kept of the children for the one who decides, and for nobody else.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

use super::{
    Child, Children, Deployment,
    absence::Absences,
    deployments::Deployments,
    places::{self, Places},
    recheck::Recheck,
};
use model::{ChildKey, ReleaseKey, pairs::Pairs};

/// What is kept of the children for the one who decides, and for nobody else.
#[derive(Debug, Default)]
pub struct Books {
    /// Who is where, as far as that tells who has come back under a new id.
    pub(super) places: Places,
    pub(super) deployments: Deployments,
    /// Children that may have to be forgotten, by the serving time at which that is to be looked at. What has become
    /// needless is found out then.
    pub(super) expiring: Pairs,
    /// Children that brought their ids along and never took part in anything, by their address.
    pub(super) unproven: HashMap<IpAddr, usize>,
    /// Who is looked at again for who stands in whose place.
    pub(super) rechecks: BTreeSet<Recheck>,
}

impl Books {
    /// What `child` runs of `function`, as far as is known.
    pub fn deployment(&self, child: ChildKey, function: &str) -> Option<Deployment> {
        self.deployments.get(child, function)
    }

    /// Whether any child runs what this release left it with.
    pub fn are_deployed_of(&self, release: ReleaseKey) -> bool {
        self.deployments.are_of(release)
    }

    /// A child runs this of a function from now on.
    pub fn deploy(&mut self, child: ChildKey, function: &str, deployment: Deployment) {
        self.deployments.put(child, function, deployment);
    }

    /// Children that brought their ids along from an address, as limits see it, and never took part in anything.
    pub(crate) fn unproven_from(&self, address: IpAddr) -> usize {
        self.unproven.get(&address).copied().unwrap_or_default()
    }

    /// Those at the same place as this child, itself among them, in the order of their births; of many the first and the
    /// last. Nobody where it has no place.
    pub(crate) fn at_place_of(&self, child: &Child) -> impl Iterator<Item = ChildKey> {
        places::place(child).into_iter().flat_map(|place| self.places.at(place))
    }

    /// Whether somebody else is at its place, whose successor it may be.
    pub(super) fn is_newcomer(&self, key: ChildKey, child: &Child) -> bool {
        !child.unproven && places::place(child).is_some_and(|place| self.places.is_shared(place, key))
    }

    /// Those who may have to be forgotten, with the serving time at which that became due, the first first.
    pub(crate) fn expiring(&self, served_ms: u64) -> impl Iterator<Item = (u64, ChildKey)> {
        self.expiring.range(..=(served_ms, ChildKey(u32::MAX)))
    }

    /// The looks at who stands in whose place that are due, the first first.
    pub(crate) fn rechecks(&self, served_ms: u64) -> impl Iterator<Item = &Recheck> {
        self.rechecks.range(..=Recheck::end_of(served_ms))
    }

    /// The serving time at which a child is to be looked at: it may be a ghost, or another's successor.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let expiring = self.expiring.first().map(|(due, _)| due);
        expiring.into_iter().chain(self.rechecks.first().map(|recheck| recheck.due_ms)).min()
    }

    /// Notes who is to be looked at again: newcomers, and who owes a roll-back. Costs as much as there are children.
    pub(crate) fn recheck_all(
        &mut self,
        children: &Children,
        debtors: impl Iterator<Item = ChildKey>,
        absences: Absences,
        served_ms: u64,
    ) {
        let newcomers = children.iter().filter(|(key, child)| self.is_newcomer(*key, child));
        let newcomers = newcomers.filter_map(|(key, child)| {
            Recheck::pending(key, child.born.served_ms, served_ms, absences.of_child(child))
        });
        let debtors = debtors.filter_map(|key| {
            let child = children.get(key)?;
            Some(Recheck::first(key, served_ms, absences.of_child(child)))
        });
        self.rechecks = newcomers.chain(debtors).collect();
    }
}
