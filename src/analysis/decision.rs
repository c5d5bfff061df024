//! What a look at a metric's data comes to: when it comes, what it decides, what keeps it from deciding.

use serde::{Deserialize, Serialize};

use super::{
    data::DataFault,
    dispersion::SplitDispersion,
    evidence::{Evidence, Verdict},
    hypothesis::Inflation,
    interval_merging::Group,
    silence::Silence,
    split::Split,
    zeros::OnlyZeros,
};

/// When a look comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// While it runs: counts if a new interval is complete, else it only shows.
    Look,
    /// It is over, at the end of its duration or before: spends what is left.
    Last,
}

/// What a look found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// It counted. Otherwise it only shows what is known.
    pub counted: bool,
    /// `None`: it goes on.
    pub verdict: Option<Verdict>,
    pub evidence: Evidence,
}

/// What keeps a look from deciding by its tests.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Obstacle {
    Fault(DataFault),
    NoData {
        baseline: bool,
        canary: bool,
    },
    Split(Split),
    /// All calls were shared out as ordered, and those of single children were not.
    Dispersion(SplitDispersion),
    FewEffectivePoints(f64),
    /// So few, and by Student's t with this probability the canary is worse nevertheless.
    FarWorse {
        points: f64,
        p: f64,
    },
    UnknownRunVariation,
    /// All values are one or two.
    FewDifferent,
    /// Nothing but 0 on both sides, and not often enough.
    OnlyZeros(OnlyZeros),
    /// It would pass by what was measured until then.
    Silent(Silence),
    /// So many calls, of so many, depend on each other and came without groups.
    Sticky {
        calls: u64,
        of: u64,
    },
    /// Calls that depend on each other came in so few groups.
    FewGroups(usize),
}

/// What a look decided, before it is explained.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub counted: bool,
    pub verdict: Option<Verdict>,
    pub(super) obstacle: Option<Obstacle>,
    pub(super) zeros: Option<OnlyZeros>,
    pub(super) inflations: Vec<Inflation>,
    /// Of each hypothesis, where they are at hand.
    pub(super) groups: Vec<Vec<Group>>,
    /// Strata that were complete.
    pub(super) visible: usize,
}

impl Obstacle {
    /// It decides by itself, in place of the tests.
    pub(super) fn decides(&self) -> bool {
        matches!(self, Self::FarWorse { .. })
    }
}
