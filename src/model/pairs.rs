//! An ordered set of pairs of a 64-bit word and a child: when something of it is due, or where it is.
//!
//! There is one for each child, so it matters that a pair is kept in twelve bytes: as a tuple it would take sixteen.

use std::{
    collections::BTreeSet,
    ops::{Bound, RangeBounds},
};

use super::ChildKey;

/// The halves of the word, higher first, and the child: in the order of the pairs.
type Packed = [u32; 3];

/// An ordered set of pairs, each of a word and a child, in twelve bytes a pair.
#[derive(Debug, Default)]
pub struct Pairs {
    packed: BTreeSet<Packed>,
}

impl Pairs {
    pub fn insert(&mut self, pair: (u64, ChildKey)) {
        self.packed.insert(pack(pair));
    }

    pub fn remove(&mut self, pair: (u64, ChildKey)) {
        self.packed.remove(&pack(pair));
    }

    pub fn first(&self) -> Option<(u64, ChildKey)> {
        self.packed.first().copied().map(unpack)
    }

    /// In order, those within the bounds.
    pub fn range(
        &self,
        bounds: impl RangeBounds<(u64, ChildKey)>,
    ) -> impl DoubleEndedIterator<Item = (u64, ChildKey)> + Clone {
        let packed = |bound: Bound<&(u64, ChildKey)>| bound.map(|pair| pack(*pair));
        self.packed.range((packed(bounds.start_bound()), packed(bounds.end_bound()))).copied().map(unpack)
    }
}

impl Extend<(u64, ChildKey)> for Pairs {
    fn extend<T: IntoIterator<Item = (u64, ChildKey)>>(&mut self, pairs: T) {
        self.packed.extend(pairs.into_iter().map(pack));
    }
}

const fn pack((word, child): (u64, ChildKey)) -> Packed {
    [(word >> 32) as u32, word as u32, child.0]
}

fn unpack([high, low, child]: Packed) -> (u64, ChildKey) {
    (u64::from(high) << 32 | u64::from(low), ChildKey(child))
}
