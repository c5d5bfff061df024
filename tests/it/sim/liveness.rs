//! Which agents have come how far in which release: whether agents of all kinds were in one together.

use std::collections::{BTreeMap, BTreeSet};

use super::agent::What;

/// What an agent of a fleet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Deployed,
    Own,
    /// An own agent of the manager below.
    OwnBelow,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Deployed, Self::Own, Self::OwnBelow];
}

/// How far each kind of agents has come in the releases that were posted at the root.
#[derive(Debug, Clone, Default)]
pub struct Turnout {
    took: BTreeMap<String, BTreeSet<Kind>>,
    rolled_out: BTreeMap<String, BTreeSet<Kind>>,
}

impl Turnout {
    pub(super) fn note(&mut self, root: &str, kind: Kind, what: What) {
        let of = match what {
            What::Took => &mut self.took,
            What::RolledOut => &mut self.rolled_out,
            What::Began
            | What::Ready
            | What::ToldToEnd
            | What::ToldEarly
            | What::Ended(_)
            | What::Accepted
            | What::PassedOver
            | What::RolledBack
            | What::Refused
            | What::WithoutService(_)
            | What::Exited => return,
        };
        of.entry(root.to_owned()).or_default().insert(kind);
    }

    /// Whether some release was rolled out by agents of all kinds.
    pub fn all_rolled_out(&self) -> bool {
        self.rolled_out.values().any(|kinds| kinds.len() == Kind::ALL.len())
    }

    /// Whether some release that was taken back was in the hands of agents of all kinds.
    pub fn all_took_back(&self, taken_back: &BTreeSet<String>) -> bool {
        self.took.iter().any(|(root, kinds)| kinds.len() == Kind::ALL.len() && taken_back.contains(root))
    }
}
