//! What stands in the database, as far as it was written, and what has to be written when the state is another.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::Range,
};

use super::entries::{Entry, Schema, of_node, of_part};
use domain::{
    children::Child,
    release::state::Snapshot,
    workflows::{self, PartKey, WorkflowKey},
};
use engine::{blocking::giving_way, changed::Noted, view::Children};
use model::{ChildKey, Now};

/// What is to stand at a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    Set(String, String),
    /// In a sorted set, at a time in milliseconds since 1970.
    Add(String, String, i64),
    Delete(String),
}

impl Write {
    pub fn key(&self) -> &str {
        match self {
            Self::Set(key, _) | Self::Add(key, ..) | Self::Delete(key) => key,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Node(ChildKey),
    Part(PartKey),
}

#[derive(Debug)]
pub struct Contents {
    schema: Schema,
    /// The keys of each, with a number that differs where the value does.
    of_items: BTreeMap<Item, Vec<(Box<str>, u64)>>,
    /// The numbers of the parts of each workflow.
    workflows: BTreeMap<WorkflowKey, Range<u32>>,
}

impl Contents {
    pub const fn new(schema: Schema) -> Self {
        Self { schema, of_items: BTreeMap::new(), workflows: BTreeMap::new() }
    }

    pub const fn schema(&self) -> Schema {
        self.schema
    }

    /// All that is to stand there.
    pub fn whole(&mut self, state: &Snapshot, seen: &Children, now: Now) -> Vec<Write> {
        let mut writes = Vec::new();
        for (key, _) in giving_way(state.children.iter()) {
            let entries = of_node(state, seen, now, key, self.schema);
            self.compare(state, Item::Node(key), entries, &mut writes);
        }
        for workflow in state.workflows.iter() {
            for item in giving_way(self.parts(state, workflow.key)) {
                let Item::Part(key) = item else { continue };
                self.compare(state, item, of_part(state, key), &mut writes);
            }
        }
        writes
    }

    /// What has to be written so that the database is as the state is, where that may differ. `is_due`: also which nodes are silent, which
    /// no commit tells.
    pub fn changes(
        &mut self,
        state: &Snapshot,
        seen: &Children,
        now: Now,
        noted: &Noted,
        is_due: bool,
    ) -> Vec<Write> {
        let mut items: BTreeSet<Item> = noted.parts.iter().copied().map(Item::Part).collect();
        items.extend(noted.children.iter().copied().map(Item::Node));
        for key in &noted.workflows {
            items.extend(self.parts(state, *key));
        }
        if is_due {
            let keep_alive = state.settings.placement.keep_alive.as_millis() as u64;
            let differs = |(item, keys): (&Item, &Vec<(Box<str>, u64)>)| {
                let Item::Node(key) = *item else { return None };
                let is_silent = workflows::silent_ms(seen, key, now) >= keep_alive;
                (is_silent != keys.is_empty() || !is_node(state, key)).then_some(*item)
            };
            let nodes = self.of_items.range(..Item::Part(PartKey(0)));
            items.extend(nodes.filter_map(differs));
        }
        let mut writes = Vec::new();
        for item in items {
            let entries = match item {
                Item::Node(key) => of_node(state, seen, now, key, self.schema),
                Item::Part(key) => of_part(state, key),
            };
            self.compare(state, item, entries, &mut writes);
        }
        writes
    }

    /// Parts of a workflow that is there, or was.
    fn parts(&mut self, state: &Snapshot, key: WorkflowKey) -> impl Iterator<Item = Item> + use<> {
        let parts = match state.workflows.by_key(key) {
            Some(workflow) => {
                let first = workflow.first.0;
                let parts = first..first + u32::try_from(workflow.len()).unwrap_or(0);
                self.workflows.insert(key, parts.clone());
                parts
            }
            None => self.workflows.remove(&key).unwrap_or_default(),
        };
        parts.map(|part| Item::Part(PartKey(part)))
    }

    fn compare(&mut self, state: &Snapshot, item: Item, entries: Vec<Entry>, writes: &mut Vec<Write>) {
        // A node that is silent is looked at again.
        let is_kept = matches!(item, Item::Node(key) if is_node(state, key));
        let before = self.of_items.remove(&item).unwrap_or_default();
        let now: Vec<(Box<str>, u64)> =
            entries.iter().map(|entry| (entry.key.as_str().into(), number(entry))).collect();
        let is_gone = |(key, _): &&(Box<str>, u64)| !now.iter().any(|(other, _)| other == key);
        writes.extend(before.iter().filter(is_gone).map(|(key, _)| Write::Delete(key.to_string())));
        let set = entries.into_iter().zip(&now).filter(|(_, known)| !before.contains(known));
        writes.extend(set.map(|(Entry { key, value, at_ms }, _)| match at_ms {
            Some(at_ms) => Write::Add(key, value, at_ms),
            None => Write::Set(key, value),
        }));
        if !now.is_empty() || is_kept {
            self.of_items.insert(item, now);
        }
    }
}

fn is_node(state: &Snapshot, key: ChildKey) -> bool {
    state.children.get(key).is_some_and(Child::is_node)
}

fn number(entry: &Entry) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&entry.value, entry.at_ms).hash(&mut hasher);
    hasher.finish()
}
