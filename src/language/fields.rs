//! Reading mappings by key, with every fault of their shape reported on the way.

use std::collections::HashMap;

use super::{
    diagnostic::{nearest, quoted},
    findings::Findings,
    node::{At, Node, NodeKind},
};

/// A text and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Located<T> {
    pub value: T,
    pub at: At,
}

/// What a key of a mapping holds.
#[derive(Clone, Copy)]
pub(super) struct FieldEntry<'n> {
    pub key: &'n str,
    pub node: &'n Node,
    /// The value's place, or the key's where there is no value to point at.
    pub at: At,
}

/// Keys that are looked for in the wrong place, and where they belong.
const ELSEWHERE: [(&str, &str); 2] =
    [("analysis", "a stage, or to rollout"), ("alpha", "the analysis, not to one of its metrics")];

/// A mapping whose keys are known, each at most once.
pub(super) struct Fields<'n> {
    at: At,
    /// What it is, for messages: `stage "Canary"`.
    what: String,
    entries: HashMap<&'n str, FieldEntry<'n>>,
    places: HashMap<&'n str, At>,
    /// How a known key is misspelt. What stands there is read as that key's where the key is missing: one slip is one fault.
    misspelt: HashMap<&'static str, &'n str>,
}

impl<'n> Fields<'n> {
    /// Takes a mapping apart; reports what is none, duplicate keys and unknown keys.
    pub fn open(
        node: &'n Node,
        what: String,
        known: &[&'static str],
        findings: &mut Findings<'_>,
    ) -> Option<Self> {
        let NodeKind::Mapping(pairs) = &node.kind else {
            let found = findings.error(node.at, "wrong-type", format!("{what} is not a mapping"));
            found.fix(format!("write its keys one per line, as in {}: …", known[0]));
            return None;
        };
        let (entries, places, misspelt) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut fields = Self { at: node.at, what, entries, places, misspelt };
        for (key, value) in pairs {
            fields.take(key, value, known, findings);
        }
        Some(fields)
    }

    fn take(&mut self, key: &'n Node, node: &'n Node, known: &[&'static str], findings: &mut Findings<'_>) {
        let what = &self.what;
        let NodeKind::Scalar(name) = &key.kind else {
            findings.error(key.at, "wrong-type", format!("a key of {what} is not a word"));
            return;
        };
        if let Some(first) = self.entries.get(name.as_str()) {
            let line = first.at.line;
            let message = format!("{what} has the key {name} twice, first in line {line}");
            findings.error(key.at, "duplicate-key", message).fix("keep one of the two");
            return;
        }
        if !known.contains(&name.as_str()) {
            // A text with ten thousand strange keys gets no ten thousand searches.
            let shown = !findings.is_full();
            let near = shown.then(|| nearest(name, known.iter().copied())).flatten();
            let message = format!("{what} has no key {}", quoted(name));
            // What a later manager adds to an offer it adds for those who know it.
            let found = if findings.is_offer() {
                findings.warning(key.at, "unknown-key", message)
            } else {
                findings.error(key.at, "unknown-key", message)
            };
            match near {
                Some(near) => {
                    found.fix(format!("did you mean {near}?"));
                    if !findings.is_offer() {
                        self.misspelt.entry(near).or_insert(name);
                    }
                }
                None => match ELSEWHERE.iter().find(|(key, _)| *key == name.as_str()) {
                    Some((_, home)) => found.fix(format!("it belongs to {home}")),
                    None => found.fix(format!("its keys are {}", known.join(", "))),
                },
            }
        }
        let at = if matches!(node.kind, NodeKind::Null) { key.at } else { node.at };
        self.places.insert(name, key.at);
        self.entries.insert(name, FieldEntry { key: name, node, at });
    }

    pub fn at(&self) -> At {
        self.at
    }

    pub fn what(&self) -> &str {
        &self.what
    }

    /// The entry, if the key is there and has a value.
    pub fn optional(&self, key: &str) -> Option<FieldEntry<'n>> {
        self.written(key).filter(|e| !matches!(e.node.kind, NodeKind::Null))
    }

    /// The entry of the key, or of one that is it misspelt.
    fn written(&self, key: &str) -> Option<FieldEntry<'n>> {
        self.entries.get(key).or_else(|| self.entries.get(*self.misspelt.get(key)?)).copied()
    }

    /// The entry, if the key is there; reported where it has no value. For keys whose absence means more than their
    /// presence, so that nobody who began to write one gets that by accident.
    pub fn filled(&self, key: &str, example: &str, findings: &mut Findings<'_>) -> Option<FieldEntry<'n>> {
        self.written(key).and_then(|_| self.required(key, example, findings))
    }

    /// Where a key stands, whatever its value.
    pub fn place(&self, key: &str) -> Option<At> {
        self.places.get(key).or_else(|| self.places.get(*self.misspelt.get(key)?)).copied()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry; reported where there is none or it is empty.
    pub fn required(&self, key: &str, example: &str, findings: &mut Findings<'_>) -> Option<FieldEntry<'n>> {
        let entry = self.optional(key);
        if entry.is_none() {
            let what = &self.what;
            match self.written(key) {
                Some(empty) => findings.error(empty.at, "missing-value", format!("{key} of {what} is empty")),
                None => findings.error(self.at, "missing-key", format!("{what} lacks {key}")),
            }
            .fix(format!("write {key}: {example}"));
        }
        entry
    }
}

impl<'n> FieldEntry<'n> {
    /// The text of a scalar.
    pub fn text(&self, findings: &mut Findings<'_>) -> Option<Located<&'n str>> {
        if let NodeKind::Scalar(text) = &self.node.kind {
            return Some(Located { value: text, at: self.at });
        }
        findings
            .error(self.at, "wrong-type", format!("{} is not a single value", self.key))
            .fix(format!("write it on one line, as in {}: value", self.key));
        None
    }

    /// The items of a sequence; of one that was accepted before, however many there are.
    pub fn items(&self, most: usize, findings: &mut Findings<'_>) -> &'n [Node] {
        let most_of_stored = if findings.is_stored() { usize::MAX } else { most };
        self.at_most(most, most_of_stored, findings)
    }

    /// The items of a sequence of which nothing can hold more than `most`.
    pub fn members(&self, most: usize, findings: &mut Findings<'_>) -> &'n [Node] {
        self.at_most(most, most, findings)
    }

    fn at_most(&self, most: usize, kept: usize, findings: &mut Findings<'_>) -> &'n [Node] {
        let NodeKind::Sequence(items) = &self.node.kind else {
            findings
                .error(self.at, "wrong-type", format!("{} is not a list", self.key))
                .fix("start each item with a dash");
            return &[];
        };
        if items.len() > most {
            let message = format!("{} has {} items, at most {most} are possible", self.key, items.len());
            let found = if items.len() > kept {
                findings.error(self.at, "too-many", message)
            } else {
                findings.broken_rule(self.at, "too-many", message)
            };
            found.fix("split the release");
        }
        &items[..items.len().min(kept)]
    }
}
