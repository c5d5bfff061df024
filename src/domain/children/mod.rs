//! The children: who is known here, what they say of themselves, where they are and what they run.
//!
//! A machine of its own, in two parts: [`Children`] is what readers see too, and [`Books`] are of the one who decides.
//! [`Books::apply`] alone changes what changes say; what a release makes of a child (that it has an open part there, or runs
//! another version) the releases note by [`Children::take_part`], [`Children::leave`] and [`Books::deploy`]. Everything here
//! can be rebuilt from the store's rows.
//!
//! Invariants:
//! - numbers of children are never used again;
//! - who is planned for is in the index of areas, and nobody else: a child whose place another has taken is not;
//! - no command walks over all children;
//! - a child is in the index of its tenant, and in no other's.
//!
//! Deliberately not here: last-seen times (see [`crate::release::command::LastSeen`]); what to do about a poll, a successor or
//! a ghost, which depends on the releases that they have a part in (`release::decide`).

mod absence;
mod apply;
mod change;
mod child;
mod command;
mod deployments;
mod ids;
pub mod open;
mod pace;
pub mod places;
pub mod recheck;
pub mod registration;
mod serves;
mod table;
mod tenants;
mod writer_state;

use std::{ops::Deref, time::Duration};

pub use absence::{Absence, Absences};
pub use change::{Arrival, Change, Forgetting};
pub use child::{Child, Profile, Replaced};
pub use command::{Command, Poll};
pub use deployments::{Deployment, Variant};
pub use pace::{ONCE_IN, Pace};
pub use serves::Serves;
pub use table::Table;
pub use writer_state::Books;

use crate::plan::AreaIndex;
use model::{ChildKey, ReleaseKey};

/// An id that never calls again within this serving time of its birth is forgotten, and so is one that a caller brought
/// along, that never took part in anything and is silent for so long.
pub const GHOST_AFTER: Duration = Duration::from_mins(1);

/// An id whose place another has taken, and that has no part in an open release, is forgotten after this serving time.
pub const REPLACED_FOR: Duration = Duration::from_hours(1);

/// All children, and where they are. It reads as the table of them, which it derefs to. A copy shares everything with the
/// original.
#[derive(Debug, Clone, Default)]
pub struct Children {
    table: Table,
    areas: AreaIndex,
    tenants: tenants::Tenants,
}

impl Deref for Children {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Children {
    /// Where all of them are.
    pub fn areas(&self) -> &AreaIndex {
        &self.areas
    }

    /// How many children a tenant has.
    pub fn of_tenant(&self, tenant: &str) -> u32 {
        self.tenants.count(tenant)
    }

    /// The children of a tenant in order of birth, only keys above `after`. Walks over no others.
    pub fn after_of(
        &self,
        tenant: &str,
        after: Option<ChildKey>,
    ) -> impl Iterator<Item = (ChildKey, &Child)> {
        self.tenants.after(tenant, after).filter_map(|key| Some((key, self.table.get(key)?)))
    }

    /// Takes note that this number was given.
    pub fn reserve(&mut self, key: ChildKey) {
        self.table.reserve(key);
    }

    /// This serves a function at a child from now on, as [`language::Version::content`]; `None`: that is not known.
    pub(crate) fn serve(&mut self, child: ChildKey, function: &str, content: Option<u64>) {
        let known = self.table.get(child).and_then(|child| child.serves.as_ref()?.get(function));
        if known != content
            && let Some(child) = self.table.get_mut(child)
        {
            child.serves.get_or_insert_default().set(function, content);
        }
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
}
