use serde::{Deserialize, Serialize};

/// Calls that no version got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UnservedCalls {
    /// Heads that have no one meaning, or are beyond a limit.
    pub refused: u64,
    /// Calls for which there is no service.
    pub no_service: u64,
}

impl UnservedCalls {
    pub fn add(&mut self, more: Self) {
        self.refused += more.refused;
        self.no_service += more.no_service;
    }

    /// What came since then.
    #[must_use]
    pub fn since(self, then: Self) -> Self {
        Self {
            refused: self.refused.saturating_sub(then.refused),
            no_service: self.no_service.saturating_sub(then.no_service),
        }
    }
}
