//! The children: who is known here, what they say of themselves, where they are and what they run.
//!
//! A machine of its own. [`Children::apply`] alone changes what changes say; what a release makes of a child (that it has
//! an open part there, or runs another version) the releases note by [`Children::take_part`], [`Children::leave`] and
//! [`Children::deploy`]. Everything here can be rebuilt from the store's rows.
//!
//! Invariants:
//! - numbers of children are never used again;
//! - who is planned for is in the index of areas, and nobody else: a child whose place another has taken is not;
//! - no command walks over all children.
//!
//! Deliberately not here: last-seen times (see [`crate::release::command::Seen`]); what to do about a poll, a successor or
//! a ghost, which depends on the releases that they have a part in (`release::decide`).

mod apply;
mod change;
mod child;
mod command;
mod deployments;
pub mod open;
pub mod places;
pub mod recheck;
pub mod registration;
mod table;

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    ops::Deref,
    time::Duration,
};

pub use change::{Arrival, Change, Forgetting};
pub use child::{Child, Profile, Replaced};
pub use command::{Command, Poll};
pub use deployments::{Deployment, Variant};
pub use table::Table;

use crate::plan::AreaIndex;
use deployments::Deployments;
use model::{ChildKey, ReleaseKey, pairs::Pairs};
use places::Places;
use recheck::Recheck;

/// An id that never calls again within this serving time of its birth is forgotten, and so is one that a caller brought
/// along, that never took part in anything and is silent for so long.
pub const GHOST_AFTER: Duration = Duration::from_mins(1);

/// An id whose place another has taken, and that has no part in an open release, is forgotten after this serving time.
pub const REPLACED_FOR: Duration = Duration::from_hours(1);

/// See the module's text. It reads as the table of all children, which it derefs to.
#[derive(Debug, Default)]
pub struct Children {
    table: Table,
    /// Where all of them are.
    areas: AreaIndex,
    /// Who is where, as far as that tells who has come back under a new id.
    places: Places,
    deployments: Deployments,
    /// Children that may have to be forgotten, by the serving time at which that is to be looked at. What has become
    /// needless is found out then.
    expiring: Pairs,
    /// Children that brought their ids along and never took part in anything, by their address.
    unproven: HashMap<IpAddr, usize>,
    /// Who is looked at again for who stands in whose place.
    rechecks: BTreeSet<Recheck>,
}

impl Deref for Children {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Children {
    pub fn areas(&self) -> &AreaIndex {
        &self.areas
    }

    /// Takes note that this number was given.
    pub fn reserve(&mut self, key: ChildKey) {
        self.table.reserve(key);
    }

    /// What `child` runs of `function`, as far as is known.
    pub fn deployment(&self, child: ChildKey, function: &str) -> Option<Deployment> {
        self.deployments.get(child, function)
    }

    /// Whether any child runs what this release left it with.
    pub fn run_what_is_of(&self, release: ReleaseKey) -> bool {
        self.deployments.are_of(release)
    }

    /// A child runs this of a function from now on.
    pub fn deploy(&mut self, child: ChildKey, function: &str, deployment: Deployment) {
        self.deployments.put(child, function, deployment);
    }

    /// A child has a part in a release that is in memory.
    pub(crate) fn take_part(&mut self, child: ChildKey, release: ReleaseKey) {
        if let Some(child) = self.table.get_mut(child)
            && let Err(at) = child.open.binary_search(&release)
        {
            child.open.insert(at, release);
        }
    }

    /// A release in which a child had a part has left memory.
    pub(crate) fn leave(&mut self, child: ChildKey, release: ReleaseKey) {
        if let Some(child) = self.table.get_mut(child) {
            child.open.remove(release);
        }
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
    fn is_newcomer(&self, key: ChildKey, child: &Child) -> bool {
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
        debtors: impl Iterator<Item = ChildKey>,
        absence: Duration,
        served_ms: u64,
    ) {
        let newcomers = self.table.iter().filter(|(key, child)| self.is_newcomer(*key, child));
        let newcomers = newcomers
            .filter_map(|(key, child)| Recheck::pending(key, child.born.served_ms, served_ms, absence));
        let debtors = debtors.map(|child| Recheck::first(child, served_ms, absence));
        self.rechecks = newcomers.chain(debtors).collect();
    }
}
