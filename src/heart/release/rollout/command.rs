//! What is asked of how far a release is open.

use crate::release::turnout::Told;

/// What is asked of how far a release is open.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Opens the gate that waits for somebody to say yes.
    Approve { release: String },
    /// Opens everything that is held back, at once.
    Promote { release: String },
    /// Takes in every child that could take part and was not there when the release started.
    Extend { release: String },
    /// Managers below said who can take part.
    Turnout(Box<Told>),
}
