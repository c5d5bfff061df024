//! A YAML tree with the place of every node: what the steps after [`super::raw`] read.

use serde_saphyr::Location;

/// A place in the text, both from 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub line: u32,
    pub column: u32,
}

impl At {
    pub const START: Self = Self { line: 1, column: 1 };
}

impl From<Location> for At {
    fn from(location: Location) -> Self {
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).max(1);
        Self { line: number(location.line()), column: number(location.column()) }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub at: At,
    pub kind: NodeKind,
}

#[derive(Debug, Clone)]
pub(super) enum NodeKind {
    Null,
    Scalar(String),
    Sequence(Vec<Node>),
    /// In the order of the file, duplicates kept.
    Mapping(Vec<(Node, Node)>),
}

impl Node {
    /// One that stands in no text, as the other two.
    pub fn scalar(text: impl Into<String>) -> Self {
        Self { at: At::START, kind: NodeKind::Scalar(text.into()) }
    }

    pub fn mapping<'k>(pairs: impl IntoIterator<Item = (&'k str, Self)>) -> Self {
        let pairs = pairs.into_iter().map(|(key, value)| (Self::scalar(key), value));
        Self { at: At::START, kind: NodeKind::Mapping(pairs.collect()) }
    }

    pub fn sequence(items: impl IntoIterator<Item = Self>) -> Self {
        Self { at: At::START, kind: NodeKind::Sequence(items.into_iter().collect()) }
    }

    /// What a scalar says.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar(text) => Some(text),
            NodeKind::Null | NodeKind::Sequence(_) | NodeKind::Mapping(_) => None,
        }
    }

    /// What a key of a mapping holds: the first of that name.
    pub fn child(&mut self, key: &str) -> Option<&mut Self> {
        let NodeKind::Mapping(pairs) = &mut self.kind else { return None };
        pairs.iter_mut().find(|(name, _)| name.text() == Some(key)).map(|(_, value)| value)
    }

    /// Takes these keys out of a mapping.
    pub fn remove(&mut self, keys: &[&str]) {
        if let NodeKind::Mapping(pairs) = &mut self.kind {
            pairs.retain(|(name, _)| name.text().is_none_or(|name| !keys.contains(&name)));
        }
    }

    /// Those of a sequence; none of anything else.
    pub fn items(&mut self) -> &mut [Self] {
        match &mut self.kind {
            NodeKind::Sequence(items) => items,
            NodeKind::Null | NodeKind::Scalar(_) | NodeKind::Mapping(_) => &mut [],
        }
    }
}
