//! The parts of all children in one release, by their keys.
//!
//! Whoever the release was planned for is known when it starts, and there are as many of them as there are children: their keys
//! are a sorted array, with one part after the other beside it, in pages. Those who join later, who are
//! few, are in pages by their keys, so that none of them moves the others. What is read is both in one order. Walking over them
//! is counted, see [`steps`]. A copy shares all with the original, which copies the pages that it changes while somebody holds
//! one.

use std::{
    collections::BTreeMap,
    fmt,
    iter::{Peekable, Zip},
    ops::{Bound, Index, RangeBounds},
    slice,
    sync::Arc,
};

use super::assignment::Assignment;
use model::{
    ChildKey,
    pages::{self, Pages},
    steps,
};

/// Members on a page: to copy one takes about as long as to decide what changes on it.
const MEMBERS_ON_A_PAGE: usize = 16;

/// They are seldom neighbours.
const JOINED_ON_A_PAGE: usize = 4;

/// The parts of all children in one release, by their keys. A copy shares all with the original.
#[derive(Clone, Default)]
pub struct Assignments {
    /// Ascending.
    keys: Arc<[ChildKey]>,
    /// In the order of `keys`.
    members: Pages<Option<Assignment>, MEMBERS_ON_A_PAGE>,
    /// None of the members; by key.
    joined: Pages<Option<(ChildKey, Assignment)>, JOINED_ON_A_PAGE>,
    joiners: usize,
}

impl Assignments {
    pub fn len(&self) -> usize {
        self.keys.len() + self.joiners
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn place(&self, child: ChildKey) -> Option<usize> {
        self.keys.binary_search(&child).ok()
    }

    pub fn get(&self, child: &ChildKey) -> Option<&Assignment> {
        match self.place(*child) {
            Some(at) => self.members.get(at)?.as_ref(),
            None => self.joined.get(child.0 as usize)?.as_ref().map(|(_, part)| part),
        }
    }

    pub fn get_mut(&mut self, child: &ChildKey) -> Option<&mut Assignment> {
        match self.place(*child) {
            Some(at) => self.members.get_mut(at)?.as_mut(),
            None => self.joined.get_mut(child.0 as usize)?.as_mut().map(|(_, part)| part),
        }
    }

    pub fn contains_key(&self, child: &ChildKey) -> bool {
        self.get(child).is_some()
    }

    /// Takes a child in, or replaces what was there of it.
    pub fn insert(&mut self, child: ChildKey, assignment: Assignment) {
        if let Some(at) = self.place(child) {
            return self.members.put(at, Some(assignment));
        }
        let at = child.0 as usize;
        self.joiners += usize::from(self.joined.get(at).is_none());
        self.joined.put(at, Some((child, assignment)));
    }

    /// In order of key.
    pub fn iter(&self) -> Iter<'_> {
        self.range(..)
    }

    /// In order of key, those within the bounds.
    pub fn range(&self, bounds: impl RangeBounds<ChildKey>) -> Iter<'_> {
        let keys = &self.keys;
        let first = match bounds.start_bound() {
            Bound::Unbounded => 0,
            Bound::Included(from) => keys.partition_point(|key| key < from),
            Bound::Excluded(from) => keys.partition_point(|key| key <= from),
        };
        let end = match bounds.end_bound() {
            Bound::Unbounded => keys.len(),
            Bound::Included(to) => keys.partition_point(|key| key <= to),
            Bound::Excluded(to) => keys.partition_point(|key| key < to),
        };
        let joined_from = match bounds.start_bound() {
            Bound::Unbounded => 0,
            Bound::Included(from) => from.0 as usize,
            Bound::Excluded(from) => from.0 as usize + 1,
        };
        let joined_to = match bounds.end_bound() {
            Bound::Unbounded => usize::MAX,
            Bound::Included(to) => to.0 as usize + 1,
            Bound::Excluded(to) => to.0 as usize,
        };
        let keys = keys.get(first..end).unwrap_or_default();
        let joined = Joined { rest: self.joined.from(joined_from), end: joined_to };
        Iter { members: keys.iter().zip(self.members.from(first)).peekable(), joined: joined.peekable() }
    }

    pub fn keys(&self) -> impl Iterator<Item = &ChildKey> + Clone {
        self.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &Assignment> + Clone {
        self.iter().map(|(_, assignment)| assignment)
    }

    /// In no order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ChildKey, &mut Assignment)> {
        let Self { keys, members, joined, .. } = self;
        let members = members.iter_mut().filter_map(|(at, part)| Some((*keys.get(at)?, part.as_mut()?)));
        let joined =
            joined.iter_mut().filter_map(|(_, joined)| joined.as_mut().map(|(key, part)| (*key, part)));
        members.chain(joined).inspect(|_| steps::take(1))
    }

    /// In no order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Assignment> {
        let members = self.members.iter_mut().filter_map(|(_, part)| part.as_mut());
        let joined = self.joined.iter_mut().filter_map(|(_, joined)| Some(&mut joined.as_mut()?.1));
        members.chain(joined).inspect(|_| steps::take(1))
    }
}

/// Those who joined, up to an end.
#[derive(Debug, Clone)]
struct Joined<'a> {
    rest: pages::Iter<'a, Option<(ChildKey, Assignment)>, JOINED_ON_A_PAGE>,
    end: usize,
}

impl<'a> Iterator for Joined<'a> {
    type Item = (&'a ChildKey, &'a Assignment);

    fn next(&mut self) -> Option<Self::Item> {
        let (_, joined) = self.rest.next().filter(|(at, _)| *at < self.end)?;
        joined.as_ref().map(|(key, part)| (key, part))
    }
}

type Members<'a> = Zip<slice::Iter<'a, ChildKey>, pages::Iter<'a, Option<Assignment>, MEMBERS_ON_A_PAGE>>;

/// In order of key.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    members: Peekable<Members<'a>>,
    joined: Peekable<Joined<'a>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a ChildKey, &'a Assignment);

    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        let is_joined = match (self.members.peek(), self.joined.peek()) {
            (Some((member, _)), Some((joined, _))) => joined < member,
            (members, _) => members.is_none(),
        };
        if is_joined {
            return self.joined.next();
        }
        let (key, (_, part)) = self.members.next()?;
        Some((key, part.as_ref()?))
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
        let mut all = all.into_iter();
        let (mut keys, mut members) = (Vec::with_capacity(all.size_hint().0), Pages::default());
        while let Some((key, part)) = all.next() {
            if keys.last().is_some_and(|last| *last >= key) {
                let mut sorted = BTreeMap::new();
                let before = keys.iter().enumerate();
                sorted.extend(before.filter_map(|(at, key)| Some((*key, members.take(at)??))));
                sorted.insert(key, part);
                sorted.extend(all);
                return sorted.into_iter().collect();
            }
            members.put(keys.len(), Some(part));
            keys.push(key);
        }
        Self { keys: keys.into(), members, ..Self::default() }
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
