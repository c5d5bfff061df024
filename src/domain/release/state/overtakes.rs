//! Where a release began in another order than it was submitted in; see [`crate::release::queue`].

use model::ReleaseKey;

/// Where releases of the same functions did not begin in the order of their submission.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overtakes {
    /// Submitted before this one, and begins after it.
    pub overtook: Vec<ReleaseKey>,
    /// Submitted after this one, and began before it.
    pub overtaken_by: Vec<ReleaseKey>,
}

impl Overtakes {
    pub fn is_empty(&self) -> bool {
        self.overtook.is_empty() && self.overtaken_by.is_empty()
    }
}
