//! The children, as far as a plan depends on them.

use std::collections::BTreeMap;

use super::AreaIndex;
use model::{Capabilities, ChildKey, Cordon};

/// A child, as far as a plan depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub id: &'a str,
    pub cordon: Cordon,
    /// `None`: it reports nothing, so it has every runtime.
    pub capabilities: Option<&'a Capabilities>,
    /// Labels that operators gave.
    pub labels: Option<&'a BTreeMap<String, String>>,
    /// GeoJSON.
    pub area: Option<&'a str>,
    /// Whether it has a part in another release.
    pub is_busy: bool,
    /// Whether it stands for the children that it has itself: what it doesn't say of them is not known.
    pub is_manager: bool,
}

/// The children, however they are kept.
pub trait Fleet {
    /// Each of them is in there.
    fn areas(&self) -> &AreaIndex;
    fn candidate(&self, child: ChildKey) -> Option<Candidate<'_>>;

    /// Whether a child has not proven that it is back from an earlier release of a function. Asked only of those that have
    /// a part in another release.
    fn owes(&self, _child: ChildKey, _function: &str) -> bool {
        false
    }

    /// What serves a function at a child, as [`language::Version::content`]; `None`: that is not known.
    fn serves(&self, _child: ChildKey, _function: &str) -> Option<u64> {
        None
    }

    /// Whether a release that is not over yet may change what serves a function at a child. Asked only of those that have a part
    /// in another release.
    fn is_changing(&self, _child: ChildKey, _function: &str) -> bool {
        false
    }
}
