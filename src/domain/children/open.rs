//! The releases in which a child has a part: few at a time, and there is such a list for every child.

use std::{fmt, ops::Deref};

use model::ReleaseKey;

/// So many need no memory of their own.
const FEW: usize = 2;

/// A list of releases, in 16 bytes where they are [`FEW`].
#[derive(Clone)]
pub struct OpenReleases(List);

#[derive(Clone)]
enum List {
    Few {
        len: u8,
        keys: [ReleaseKey; FEW],
    },
    // A pointer alone is what keeps the other form small.
    #[allow(clippy::box_collection)]
    Many(Box<Vec<ReleaseKey>>),
}

impl Default for OpenReleases {
    fn default() -> Self {
        Self(List::Few { len: 0, keys: [ReleaseKey(0); FEW] })
    }
}

impl Deref for OpenReleases {
    type Target = [ReleaseKey];

    fn deref(&self) -> &[ReleaseKey] {
        match &self.0 {
            List::Few { len, keys } => &keys[..usize::from(*len)],
            List::Many(keys) => keys,
        }
    }
}

impl OpenReleases {
    pub fn as_slice(&self) -> &[ReleaseKey] {
        self
    }

    pub fn insert(&mut self, at: usize, key: ReleaseKey) {
        let mut all = self.to_vec();
        all.insert(at, key);
        *self = all.into();
    }

    pub fn remove(&mut self, key: ReleaseKey) {
        let all: Vec<ReleaseKey> = self.iter().copied().filter(|other| *other != key).collect();
        *self = all.into();
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl From<Vec<ReleaseKey>> for OpenReleases {
    fn from(all: Vec<ReleaseKey>) -> Self {
        if all.len() > FEW {
            return Self(List::Many(Box::new(all)));
        }
        let mut keys = [ReleaseKey(0); FEW];
        keys[..all.len()].copy_from_slice(&all);
        Self(List::Few { len: all.len() as u8, keys })
    }
}

impl PartialEq for OpenReleases {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for OpenReleases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
