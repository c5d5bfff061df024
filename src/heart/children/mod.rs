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
//! - no command walks over all children.
//!
//! Deliberately not here: last-seen times (see [`crate::release::command::Seen`]); what to do about a poll, a successor or
//! a ghost, which depends on the releases that they have a part in (`release::decide`).

mod absence;
mod apply;
mod books;
mod change;
mod child;
mod command;
mod deployments;
mod ids;
pub mod open;
pub mod places;
pub mod recheck;
pub mod registration;
mod table;

use std::{collections::BTreeMap, ops::Deref, sync::Arc, time::Duration};

pub use absence::{Absence, Absences};
pub use books::Books;
pub use change::{Arrival, Change, Forgetting};
pub use child::{Child, Profile, Replaced};
pub use command::{Command, Poll};
pub use deployments::{Deployment, Variant};
pub use table::Table;

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
    /// How many each tenant has.
    tenants: Arc<BTreeMap<Box<str>, u32>>,
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
        self.tenants.get(tenant).copied().unwrap_or_default()
    }

    /// Counts a child for its tenant from now on, or no longer.
    fn count_for_tenant(&mut self, tenant: Option<&str>, is_there: bool) {
        let Some(tenant) = tenant else { return };
        let tenants = Arc::make_mut(&mut self.tenants);
        let count = tenants.entry(tenant.into()).or_default();
        *count = if is_there { count.saturating_add(1) } else { count.saturating_sub(1) };
        if *count == 0 {
            tenants.remove(tenant);
        }
    }

    /// Takes note that this number was given.
    pub fn reserve(&mut self, key: ChildKey) {
        self.table.reserve(key);
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
