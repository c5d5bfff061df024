//! Who is at which place. A place is an area, byte for byte, together with the address that calls come from.
//!
//! Equal areas alone are common: one sample configuration, many agents. Equal addresses are common behind a translation of
//! addresses. Both together are what a machine keeps over a restart, which gives its agent a new id.
//!
//! Invariant: every command looks at a bounded number of entries, however many children share one place. Not in here:
//! children that report no area or whose address is not known, managers (they keep their ids), and ids whose place
//! another has taken.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    ops::RangeInclusive,
};

use super::Child;
use model::{ChildKey, pairs::Pairs, steps};

/// Where more children are at one place, so many of the oldest and of the youngest are looked at.
const LOOKED_AT: usize = 16;

/// Who is at which place: in which area, calling from which address. Places are known by a hash; whoever asks compares in full.
#[derive(Debug, Default)]
pub struct Places {
    children: Pairs,
}

/// The place of a child, if it has one.
pub(super) fn place(child: &Child) -> Option<u64> {
    let (area, address) = (child.area.as_deref()?, child.address?);
    if !child.kind().forgets_its_id() || child.replaced.is_some() {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    (area, address).hash(&mut hasher);
    Some(hasher.finish())
}

/// Whether both are known to be at the very same place.
pub(crate) fn are_same(one: &Child, other: &Child) -> bool {
    let known = one.area.is_some() && one.address.is_some();
    known && one.address == other.address && one.area == other.area
}

impl Places {
    pub(super) fn insert(&mut self, place: u64, child: ChildKey) {
        self.children.insert((place, child));
    }

    pub(super) fn remove(&mut self, place: u64, child: ChildKey) {
        self.children.remove((place, child));
    }

    /// Whether anybody but this child is there.
    pub(super) fn is_shared(&self, place: u64, child: ChildKey) -> bool {
        self.children.range(all(place)).take(2).any(|(_, other)| other != child)
    }

    /// Those at a place in the order of their births; of many the first and the last.
    pub(super) fn at(&self, place: u64) -> impl Iterator<Item = ChildKey> {
        let first = self.children.range(all(place)).take(LOOKED_AT);
        let last = self.children.range(all(place)).rev().take(LOOKED_AT);
        let end = first.clone().last().map(|(_, child)| child);
        let mut young: Vec<ChildKey> =
            last.map(|(_, child)| child).take_while(|child| Some(*child) > end).collect();
        young.reverse();
        first.map(|(_, child)| child).chain(young).inspect(|_| steps::take(1))
    }
}

fn all(place: u64) -> RangeInclusive<(u64, ChildKey)> {
    (place, ChildKey(0))..=(place, ChildKey(u32::MAX))
}
