//! The releases in memory, by number. A copy shares all of them with the original: whoever changes one copies it, and
//! only while it is shared.

use std::{
    collections::{BTreeMap, btree_map},
    fmt,
    ops::RangeBounds,
    sync::Arc,
};

use super::state::Release;
use model::ReleaseKey;

/// The releases in memory, by number. A copy shares all of them with the original.
#[derive(Clone, Default, PartialEq)]
pub struct Releases {
    by_key: Arc<BTreeMap<ReleaseKey, Arc<Release>>>,
}

impl Releases {
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub fn get(&self, key: &ReleaseKey) -> Option<&Release> {
        self.by_key.get(key).map(AsRef::as_ref)
    }

    pub fn get_mut(&mut self, key: &ReleaseKey) -> Option<&mut Release> {
        Arc::make_mut(&mut self.by_key).get_mut(key).map(Arc::make_mut)
    }

    pub fn insert(&mut self, key: ReleaseKey, release: Release) {
        Arc::make_mut(&mut self.by_key).insert(key, Arc::new(release));
    }

    pub fn remove(&mut self, key: &ReleaseKey) -> Option<Release> {
        Arc::make_mut(&mut self.by_key).remove(key).map(Arc::unwrap_or_clone)
    }

    pub fn keys(&self) -> btree_map::Keys<'_, ReleaseKey, Arc<Release>> {
        self.by_key.keys()
    }

    pub fn values(&self) -> impl Iterator<Item = &Release> + Clone {
        self.by_key.values().map(AsRef::as_ref)
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Release> {
        Arc::make_mut(&mut self.by_key).values_mut().map(Arc::make_mut)
    }

    pub fn iter(&self) -> ReleaseIter<'_> {
        ReleaseIter(self.by_key.iter())
    }

    /// In order of number, those within the bounds.
    pub fn range(
        &self,
        bounds: impl RangeBounds<ReleaseKey>,
    ) -> impl Iterator<Item = (&ReleaseKey, &Release)> {
        self.by_key.range(bounds).map(|(key, release)| (key, release.as_ref()))
    }
}

/// In order of number.
#[derive(Debug)]
pub struct ReleaseIter<'a>(btree_map::Iter<'a, ReleaseKey, Arc<Release>>);

impl<'a> Iterator for ReleaseIter<'a> {
    type Item = (&'a ReleaseKey, &'a Release);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, release)| (key, release.as_ref()))
    }
}

impl<'a> IntoIterator for &'a Releases {
    type Item = (&'a ReleaseKey, &'a Release);
    type IntoIter = ReleaseIter<'a>;

    fn into_iter(self) -> ReleaseIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.by_key.fmt(f)
    }
}
