//! Why a release was taken back, or why it didn't end well for everybody: kept with it, so that it can still be told when
//! it is over.
//!
//! What a manager below says of the end of its part is the same: `middle: agent-3 failed in stage Canary (…)`.

use model::name_variants;

/// What brought a release to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    Parent,
    /// The parent refuses to hear of it.
    Disowned,
    /// Children ended badly, within the limits.
    Children,
    /// Too few targets of what was tried were healthy.
    Health,
    /// A version could not be started, and nothing else of the offer was begun either.
    Unstarted,
    /// A stage has failed and keeps its shares: people decide what becomes of them.
    Kept,
    /// What was to take over was asked once more, and answered no more.
    NoAnswer,
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
    Health => "health",
    Unstarted => "unstarted",
    Kept => "kept",
    NoAnswer => "no_answer",
});

impl Cause {
    /// Whether somebody wanted it so, and no child is to blame.
    pub const fn is_wanted(self) -> bool {
        matches!(self, Self::Operator | Self::Superseded)
    }

    /// Whether it says more of a failure than the limit or the count by which a manager came to notice that.
    pub(super) const fn is_telling(self) -> bool {
        self.is_wanted() || matches!(self, Self::NoAnswer)
    }
}

/// Why a release was taken back, or why it didn't end well for everybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub cause: Cause,
    /// All of it in one line.
    pub text: String,
    /// The child that tipped the scales: an id, or `middle: agent-3` for one below a manager.
    pub child: Option<String>,
    pub stage: Option<String>,
    /// The version that was tried there: a function's folder, the name of a service's variation.
    pub version: Option<String>,
    /// What that child reported there, in words: the condition that was broken, what was measured and what is allowed.
    pub numbers: Option<String>,
    /// Who wanted it.
    pub by: Option<String>,
    /// Why, in their words.
    pub note: Option<String>,
}

impl Ending {
    pub fn new(cause: Cause, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { cause, text, child: None, stage: None, version: None, numbers: None, by: None, note: None }
    }
}
