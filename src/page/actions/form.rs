//! What a form says, and what is kept of it where nothing was done.

use serde::Deserialize;

use crate::fault::Fault;
use protocol::api::ReleaseAction;

/// What a form says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct FormData {
    pub proof: String,
    /// Of the release as the page showed it.
    pub tag: String,
    pub note: String,
    /// The stage to skip.
    pub stage: Option<String>,
    /// How far it is promoted.
    pub to: Option<String>,
    /// The release's id, where that is asked for.
    pub typed: String,
}

/// What was tried and not done.
#[derive(Debug, Clone)]
pub struct Again {
    pub action: String,
    pub form: FormData,
    pub fault: Fault,
}

impl Again {
    pub fn is_of(&self, action: &ReleaseAction) -> bool {
        self.action == action.action && self.form.stage == action.stage && self.form.to == action.to
    }
}
