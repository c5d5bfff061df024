//! What is asked of how far a release is open.

use std::collections::BTreeMap;

use crate::release::liveness_check::ManagerReports;

/// What is asked of how far a release is open.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Opens the gate that waits for somebody to say yes.
    Approve { release: String },
    /// Opens everything that is held back, at once.
    Promote { release: String },
    /// Opens the gate that comes next; behind it all waits as before.
    PromoteToGate { release: String },
    /// Has a variation of the release's service, by its name, serve alone in the end, whatever the stages say. Opens nothing.
    ChooseWinner { release: String, variation: String },
    /// Both at once, or nothing.
    PromoteVariation { release: String, variation: String },
    /// Has the one variation beside the stable one get so much of the calls in stages, by their names, in units of 0.01 %: in all of them, or
    /// in none. Nothing begins or ends by it.
    ChooseShares { release: String, shares: BTreeMap<String, u16> },
    /// Takes in every child that could take part and was not there when the release started.
    Extend { release: String },
    /// Managers below said who can take part.
    Turnout(Box<ManagerReports>),
}
