//! Children by id, in many small tables of which a copy shares all.
//!
//! One table of a million children would have to be copied as a whole when somebody comes while a reader looks at it.

use std::{
    array,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use hashbrown::HashTable;

use model::ChildKey;

/// Tables of a shelf, and shelves: of a million children each table holds some hundred.
const FAN: usize = 64;

type KeyTable = HashTable<ChildKey>;

#[derive(Debug, Clone)]
struct Shelf([Option<Arc<KeyTable>>; FAN]);

impl Default for Shelf {
    fn default() -> Self {
        Self(array::from_fn(|_| None))
    }
}

/// Children by id, in many small tables of which a copy shares all. The ids themselves are where the children are: whoever asks says what is whose.
#[derive(Debug, Clone, Default)]
pub(super) struct Ids {
    shelves: Vec<Option<Arc<Shelf>>>,
    len: usize,
    hasher: RandomState,
}

/// Where a table stands. The tables look at the first and the last bits of a hash; these are others.
const fn place(hash: u64) -> (usize, usize) {
    ((hash >> 40) as usize % FAN, (hash >> 32) as usize % FAN)
}

impl Ids {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The child of this id, among those that `is_it` looks at.
    pub fn find(&self, id: &str, is_it: impl Fn(ChildKey) -> bool) -> Option<ChildKey> {
        let hash = self.hasher.hash_one(id);
        let (shelf, table) = place(hash);
        self.shelves.get(shelf)?.as_ref()?.0[table].as_ref()?.find(hash, |key| is_it(*key)).copied()
    }

    /// Takes in a child of an id that nobody has.
    pub fn insert<'i>(&mut self, id: &str, key: ChildKey, id_of: impl Fn(ChildKey) -> &'i str) {
        let hash = self.hasher.hash_one(id);
        let (shelf, table) = place(hash);
        if self.shelves.is_empty() {
            self.shelves.resize_with(FAN, || None);
        }
        let shelf = Arc::make_mut(self.shelves[shelf].get_or_insert_default());
        let table = Arc::make_mut(shelf.0[table].get_or_insert_default());
        table.insert_unique(hash, key, |key| self.hasher.hash_one(id_of(*key)));
        self.len += 1;
    }

    pub fn remove(&mut self, id: &str, key: ChildKey) {
        let hash = self.hasher.hash_one(id);
        let (shelf, at) = place(hash);
        let Some(shelf) = self.shelves.get_mut(shelf).and_then(Option::as_mut).map(Arc::make_mut) else {
            return;
        };
        let Some(table) = shelf.0[at].as_mut().map(Arc::make_mut) else { return };
        if let Ok(entry) = table.find_entry(hash, |other| *other == key) {
            entry.remove();
            self.len -= 1;
        }
        if table.is_empty() {
            shelf.0[at] = None;
        }
    }
}
