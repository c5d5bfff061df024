//! Where in a strategy's text stands what is looked at again once more is known.

use super::diagnostic::TextPlace;

/// Where in the text stands what is looked at again where more is known: the children, the time, the functions' files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextPlaces {
    /// The area of the target, if there is one.
    pub area: Option<TextPlace>,
    /// The instant at which the release is to start, if it is given.
    pub start: Option<TextPlace>,
    /// Of each function the base version and the new one.
    pub versions: Vec<[VersionPlace; 2]>,
    pub functions: Vec<TextPlace>,
    pub services: Vec<TextPlace>,
    pub stages: Vec<TextPlace>,
}

/// Where a version of a function is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionPlace {
    pub path: TextPlace,
    pub env: TextPlace,
}
