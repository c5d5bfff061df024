//! Why a release was taken back, or why it didn't end well for everybody: kept with it, so that it can still be told when
//! it is over.
//!
//! What a manager below says of the end of its part is the same: `middle: agent-3 failed in stage Canary (…)`.

use model::name_variants;
use serde::{Deserialize, Serialize};

/// What brought a release to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Somebody aborted it.
    Operator,
    /// Another release took its place.
    Superseded,
    /// Too many children ended badly.
    Limit,
    /// Nobody approved in time.
    Approval,
    /// The verdict of an analysis.
    Analysis,
    /// The parent took it back.
    #[serde(rename = "above")]
    Parent,
    /// The parent refuses to hear of it.
    Disowned,
    /// Children ended badly, within the limits.
    Children,
}

name_variants!(Cause {
    Operator => "operator",
    Superseded => "superseded",
    Limit => "limit",
    Approval => "approval",
    Analysis => "analysis",
    Parent => "above",
    Disowned => "disowned",
    Children => "children",
});

impl Cause {
    /// Whether somebody wanted it so, and no child is to blame.
    pub const fn is_wanted(self) -> bool {
        matches!(self, Self::Operator | Self::Superseded)
    }
}

/// Why a release was taken back, or why it didn't end well for everybody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    pub cause: Cause,
    /// All of it in one line.
    pub text: String,
    /// The child that tipped the scales: an id, or `middle: agent-3` for one below a manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// What that child reported there, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<String>,
    /// Who wanted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Ending {
    pub fn new(cause: Cause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into(), child: None, stage: None, numbers: None, by: None, note: None }
    }
}
