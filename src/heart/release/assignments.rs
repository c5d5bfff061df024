//! All children of one release, by key: a map that is as dense as memory allows.
//!
//! Who is a member at the start lies in one block of exactly the size it takes, in order. Those who join later, who are
//! few, are in a map beside it, so that none of them moves the others. What is read is both in one order. Walking over them
//! is counted, see [`steps`].

use std::{
    collections::{BTreeMap, btree_map},
    fmt,
    iter::Peekable,
    ops::{Bound, Index, RangeBounds},
    slice,
};

use super::assignment::Assignment;
use model::{ChildKey, steps};

/// See the module's text.
#[derive(Clone, Default)]
pub struct Assignments {
    /// Ascending.
    members: Vec<(ChildKey, Assignment)>,
    /// None of the members.
    joined: BTreeMap<ChildKey, Assignment>,
}

impl Assignments {
    pub fn len(&self) -> usize {
        self.members.len() + self.joined.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.joined.is_empty()
    }

    fn place(&self, child: ChildKey) -> Result<usize, usize> {
        self.members.binary_search_by_key(&child, |(key, _)| *key)
    }

    pub fn get(&self, child: &ChildKey) -> Option<&Assignment> {
        match self.place(*child) {
            Ok(at) => Some(&self.members[at].1),
            Err(_) => self.joined.get(child),
        }
    }

    pub fn get_mut(&mut self, child: &ChildKey) -> Option<&mut Assignment> {
        match self.place(*child) {
            Ok(at) => Some(&mut self.members[at].1),
            Err(_) => self.joined.get_mut(child),
        }
    }

    pub fn contains_key(&self, child: &ChildKey) -> bool {
        self.get(child).is_some()
    }

    /// Takes a child in, or replaces what was there of it.
    pub fn insert(&mut self, child: ChildKey, assignment: Assignment) {
        match self.place(child) {
            Ok(at) => self.members[at].1 = assignment,
            Err(_) => drop(self.joined.insert(child, assignment)),
        }
    }

    /// In order of key.
    pub fn iter(&self) -> Iter<'_> {
        self.range(..)
    }

    /// In order of key, those within the bounds.
    pub fn range(&self, bounds: impl RangeBounds<ChildKey>) -> Iter<'_> {
        let first = match bounds.start_bound() {
            Bound::Unbounded => 0,
            Bound::Included(from) => self.members.partition_point(|(key, _)| key < from),
            Bound::Excluded(from) => self.members.partition_point(|(key, _)| key <= from),
        };
        let end = match bounds.end_bound() {
            Bound::Unbounded => self.members.len(),
            Bound::Included(to) => self.members.partition_point(|(key, _)| key <= to),
            Bound::Excluded(to) => self.members.partition_point(|(key, _)| key < to),
        };
        let members = self.members.get(first..end).unwrap_or_default();
        Iter { members: members.iter().peekable(), joined: self.joined.range(bounds).peekable() }
    }

    pub fn keys(&self) -> impl Iterator<Item = &ChildKey> + Clone {
        self.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &Assignment> + Clone {
        self.iter().map(|(_, assignment)| assignment)
    }

    /// In no order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&ChildKey, &mut Assignment)> {
        let members = self.members.iter_mut().map(|(key, assignment)| (&*key, assignment));
        members.chain(self.joined.iter_mut()).inspect(|_| steps::take(1))
    }

    /// In no order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Assignment> {
        self.iter_mut().map(|(_, assignment)| assignment)
    }
}

/// In order of key.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    members: Peekable<slice::Iter<'a, (ChildKey, Assignment)>>,
    joined: Peekable<btree_map::Range<'a, ChildKey, Assignment>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a ChildKey, &'a Assignment);

    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        let is_joined = match (self.members.peek(), self.joined.peek()) {
            (Some((member, _)), Some((joined, _))) => *joined < member,
            (members, _) => members.is_none(),
        };
        if is_joined {
            return self.joined.next();
        }
        self.members.next().map(|(key, assignment)| (key, assignment))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.members.len(), None)
    }
}

impl<'a> IntoIterator for &'a Assignments {
    type Item = (&'a ChildKey, &'a Assignment);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// They are the members; of two with one key the later counts.
impl FromIterator<(ChildKey, Assignment)> for Assignments {
    fn from_iter<T: IntoIterator<Item = (ChildKey, Assignment)>>(all: T) -> Self {
        let mut members: Vec<(ChildKey, Assignment)> = all.into_iter().collect();
        if !members.is_sorted_by(|one, other| one.0 < other.0) {
            members = members.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
        }
        Self { members, joined: BTreeMap::new() }
    }
}

impl Index<&ChildKey> for Assignments {
    type Output = Assignment;

    fn index(&self, child: &ChildKey) -> &Assignment {
        self.get(child).expect("the child has a part in the release")
    }
}

/// Who is a member and who joined shows elsewhere: after a restart all are members here.
impl PartialEq for Assignments {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Assignments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(wave: u32) -> Assignment {
        Assignment { wave, ..Assignment::new(0) }
    }

    fn all(keys: &[u32]) -> Assignments {
        keys.iter().map(|key| (ChildKey(*key), assignment(*key))).collect()
    }

    #[test]
    fn it_is_a_map_whoever_joins_when() {
        let mut found = all(&[2, 4, 6, 8]);
        let mut model: BTreeMap<ChildKey, Assignment> =
            [2, 4, 6, 8].map(|key| (ChildKey(key), assignment(key))).into();
        for (key, wave) in [(5, 1), (9, 2), (1, 3), (4, 4), (5, 5)] {
            found.insert(ChildKey(key), assignment(wave));
            model.insert(ChildKey(key), assignment(wave));
            assert!(found.iter().eq(model.iter()));
            assert!(found.keys().eq(model.keys()) && found.values().eq(model.values()));
            assert_eq!(found.len(), model.len());
        }
        for key in 0..11 {
            let key = ChildKey(key);
            assert_eq!(found.get(&key), model.get(&key));
            assert_eq!(found.get_mut(&key), model.get_mut(&key));
            for end in [3, 6, 9, 12] {
                let ranges = [
                    (Bound::Included(key), Bound::Unbounded),
                    (Bound::Excluded(key), Bound::Included(ChildKey(end).max(ChildKey(key.0 + 1)))),
                    (Bound::Unbounded, Bound::Excluded(ChildKey(end))),
                ];
                for range in ranges {
                    assert!(found.range(range).eq(model.range(range)), "{range:?}");
                }
            }
        }
        assert_eq!(found, model.into_iter().collect::<Assignments>());
    }

    #[test]
    fn whatever_comes_in_no_order_is_put_in_order() {
        assert_eq!(all(&[3, 1, 2, 1]), all(&[1, 2, 3]));
        assert_ne!(all(&[1]), all(&[1, 2]));
        assert!(all(&[]).is_empty());
    }
}
