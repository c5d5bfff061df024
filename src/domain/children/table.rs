//! All children, by number and by id.

use super::{Child, ids::Ids};
use model::{ChildKey, pages::Pages, steps};

/// Children on a page of [`Table`]: a page takes as much as they do, also where only one of them is left.
const CHILDREN_ON_A_PAGE: usize = 15;

/// All children, by number and by id. A copy shares everything with the original. Numbers are never used again.
#[derive(Debug, Clone, Default)]
pub struct Table {
    slots: Pages<Option<Child>, CHILDREN_ON_A_PAGE>,
    /// Numbers below this one were given, whether or not those who had them are still known.
    given: u32,
    /// The ids themselves are in the slots.
    by_id: Ids,
}

impl Table {
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn key(&self, id: &str) -> Option<ChildKey> {
        self.by_id.find(id, |key| self.get(key).is_some_and(|child| child.id.is(id)))
    }

    pub fn get(&self, key: ChildKey) -> Option<&Child> {
        self.slots.get(key.0 as usize)?.as_ref()
    }

    pub fn by_id(&self, id: &str) -> Option<(ChildKey, &Child)> {
        let key = self.key(id)?;
        Some((key, self.get(key)?))
    }

    pub(super) fn get_mut(&mut self, key: ChildKey) -> Option<&mut Child> {
        self.slots.get_mut(key.0 as usize)?.as_mut()
    }

    pub(super) fn insert(&mut self, key: ChildKey, child: Child) {
        self.reserve(key);
        self.remove(key);
        // The id is this one's now.
        self.let_go_of(child.id.as_str());
        let id = child.id.clone();
        self.slots.put(key.0 as usize, Some(child));
        let slots = &self.slots;
        let id_of = |key: ChildKey| {
            slots
                .get(key.0 as usize)
                .and_then(Option::as_ref)
                .map(|child| child.id.as_str())
                .unwrap_or_default()
        };
        self.by_id.insert(id.as_str(), key, id_of);
    }

    pub(super) fn remove(&mut self, key: ChildKey) -> Option<Child> {
        let id = self.get(key)?.id.clone();
        if self.key(id.as_str()) == Some(key) {
            self.let_go_of(id.as_str());
        }
        self.slots.take(key.0 as usize).flatten()
    }

    fn let_go_of(&mut self, id: &str) {
        if let Some(key) = self.key(id) {
            self.by_id.remove(id, key);
        }
    }

    /// In order of birth, only keys above `after`.
    pub fn after(&self, after: Option<ChildKey>) -> impl Iterator<Item = (ChildKey, &Child)> {
        let from = after.map_or(0, |key| key.0 as usize + 1);
        let known = self.slots.from(from).inspect(|_| steps::take(1));
        known.filter_map(|(at, child)| Some((ChildKey(at as u32), child.as_ref()?)))
    }

    pub fn iter(&self) -> impl Iterator<Item = (ChildKey, &Child)> {
        self.after(None)
    }

    /// The number that the next child gets; `None`: all were given. Numbers are never used again.
    pub fn next_key(&self) -> Option<ChildKey> {
        (self.given < u32::MAX).then_some(ChildKey(self.given))
    }

    /// Takes note that this number was given.
    pub fn reserve(&mut self, key: ChildKey) {
        self.given = self.given.max(key.0.saturating_add(1));
    }
}
