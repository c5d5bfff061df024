//! Where a release began in another order than it was submitted in; see [`crate::release::queue`].

use serde::{Deserialize, Serialize};

use model::ReleaseKey;

/// Where releases of the same functions did not begin in the order of their submission.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Overtakes {
    /// Submitted before this one, and begins after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overtook: Vec<ReleaseKey>,
    /// Submitted after this one, and began before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overtaken_by: Vec<ReleaseKey>,
}

impl Overtakes {
    pub fn is_empty(&self) -> bool {
        self.overtook.is_empty() && self.overtaken_by.is_empty()
    }
}
