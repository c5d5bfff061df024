//! Who paused a release. That decides who may let it go on, and what is accepted by that; the reason is for people, and
//! nothing is decided by its words.

/// A release stands still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// In words.
    pub reason: String,
    pub by: PausedBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PausedBy {
    /// Somebody at this manager.
    Operator,
    /// The parent, and nobody here. `at_limit`: too many children have ended badly here as well, and that is accepted
    /// when it goes on there.
    Parent { at_limit: bool },
    /// Too many children ended badly; to go on is to accept that.
    Limit,
    /// Too few have succeeded for more to begin; to go on is to do so all the same.
    Unproven,
    /// An analysis that failed, or did not come to a verdict; to go on is to accept that.
    Analysis,
    /// An agent that leads calls met something that a person has to look at; to go on is to accept that.
    Agent,
}

impl PausedBy {
    /// Whether to go on is to accept those that have ended badly so far.
    pub const fn is_limit(self) -> bool {
        match self {
            Self::Limit | Self::Unproven => true,
            Self::Parent { at_limit } => at_limit,
            Self::Operator | Self::Analysis | Self::Agent => false,
        }
    }
}

/// The reason of a pause by the parent.
const BY_PARENT: &str = "the manager above paused it";

/// How the reason begins where an analysis holds the release.
pub(super) const OF_ANALYSIS: &str = "analysis of ";

/// How the reason begins where too few have succeeded.
pub(super) const UNPROVEN: &str = "unproven: ";

impl Pause {
    pub fn new(by: PausedBy, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), by }
    }

    pub fn by_parent(at_limit: bool) -> Self {
        Self::new(PausedBy::Parent { at_limit }, BY_PARENT)
    }
}
